"""Measure boxscore and its peers, and write docs/benchmarks: results.json, and the page and the charts made of it.

python -m benchmarks [--rounds 3] [--only coco-val-like,files,voc2007,…] [--without-slow]
python -m benchmarks --only wheel --wheel dist/NAME.whl
python -m benchmarks --draw
"""

import argparse
import os
from pathlib import Path

from benchmarks import charts, page, results
from benchmarks.adapters import ADAPTERS


def measure(options: argparse.Namespace) -> None:
    """Measure the chosen sections, one after the other; each is saved when it is done."""
    from benchmarks.measuring import SECTIONS
    from benchmarks.processes import Settings

    chosen = options.only.split(",") if options.only else [name for name in SECTIONS if name != "wheel"]
    if unknown := set(chosen) - set(SECTIONS):
        raise SystemExit(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    settings = Settings(
        rounds=options.rounds,
        threads=len(os.sched_getaffinity(0)),
        is_with_slow=not options.without_slow,
        wheel=options.wheel,
    )
    for name, section in SECTIONS.items():
        if name in chosen and (rows := section.measure(settings)):
            now = {name: results.described(rows, section.packages, options.rounds)}
            results.save(results.replaced(results.load(), now, SECTIONS))


def draw() -> None:
    """Write the charts, the page, and the sentences on speed of the README and of the frameworks' pages."""
    sections = results.load()
    for path in results.FOLDER.glob("*.svg"):
        path.unlink()
    for name, content in charts.charts(sections):
        (results.FOLDER / name).write_text(content)
    (results.FOLDER / "index.md").write_text(page.page(sections))
    for name, adapter in ADAPTERS.items():
        path = results.ROOT / "docs" / "frameworks" / f"{adapter.page}.md"
        path.write_text(page.with_speed(path.read_text(), name, sections))
    readme = results.ROOT / "README.md"
    readme.write_text(page.with_claims(readme.read_text(), sections))


def main() -> None:
    """Measure unless told to draw only, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="SECTIONS", help="these, separated by commas; the others stay as they are")
    parser.add_argument("--without-slow", action="store_true", help="without the tools that take minutes")
    parser.add_argument("--wheel", type=Path, help="for the section `wheel`: a wheel to compare with the local build")
    parser.add_argument("--draw", action="store_true", help="do not measure; page and charts of the results there are")
    options = parser.parse_args()
    if not options.draw:
        measure(options)
    draw()


if __name__ == "__main__":
    main()
