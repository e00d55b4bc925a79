"""The page, the charts and the README's sentence on speed are those of the results."""

import doctest
import io
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks import charts, oriented, page, results
from benchmarks.adapters import ADAPTERS
from benchmarks.processes import take_turns

from tests.support.documents import ROOT
from tests.support.pages import Open

SECTIONS = results.load()


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """The charts of the results, by file name."""
    return dict(charts.charts(SECTIONS))


def test_the_page_is_the_one_that_the_results_give() -> None:
    """`make charts` writes it."""
    assert (results.FOLDER / "index.md").read_text() == page.page(SECTIONS)


def test_the_charts_are_those_that_the_results_give(drawn: dict[str, str]) -> None:
    """To the byte; and there are no others."""
    assert {path.name: path.read_text() for path in results.FOLDER.glob("*.svg")} == drawn


def test_the_readme_claims_the_speed_that_the_results_give() -> None:
    """`make charts` writes the sentence."""
    readme = (ROOT / "README.md").read_text()
    assert page.with_claims(readme, SECTIONS) == readme
    assert page.claims(SECTIONS) in readme


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_page_of_a_framework_says_the_speed_that_the_results_give(name: str) -> None:
    """`make charts` writes the sentence."""
    text = (ROOT / "docs" / "frameworks" / f"{ADAPTERS[name].page}.md").read_text()
    assert page.with_speed(text, name, SECTIONS) == text
    assert "adapters" not in SECTIONS or "An epoch's evaluation, [500 images" in text


def test_every_chart_is_on_the_page_for_light_and_dark(drawn: dict[str, str]) -> None:
    """With the suffixes that GitHub and the site know."""
    shown = re.findall(r"\]\((\S+\.svg)#gh-(light|dark)-mode-only\)", page.page(SECTIONS))
    assert sorted(name for name, _ in shown) == sorted(drawn)
    assert all(name.endswith(f"-{theme}.svg") for name, theme in shown)


def test_charts_do_not_depend_on_fonts() -> None:
    """Places are the same in another font, whatever fonts the machine has."""
    for _, draw in charts.CHARTS.values():
        drawing = draw(SECTIONS, charts.THEMES["light"])
        first, second = (charts.svg(drawing, font).replace(font, "") for font in ("serif", "monospace"))
        assert first == second


def test_texts_of_charts_fit_and_do_not_overlap(drawn: dict[str, str], show: Open) -> None:
    """In a browser."""
    light = {name: chart for name, chart in drawn.items() if name.endswith("-light.svg")}
    opened = show(f"<!DOCTYPE html><title>charts</title><body>{''.join(light.values())}</body>")
    for name, boxes in zip(light, opened.evaluate(TEXT_BOXES), strict=True):
        assert len(boxes) > 5
        assert [text for text, left, _, right, _ in boxes if left < -1 or right > charts.WIDTH] == [], name
        assert overlapping(boxes) == [], name


TEXT_BOXES = """() => [...document.querySelectorAll('svg')].map(svg => {
  const page = svg.getBoundingClientRect()
  return [...svg.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect()
    return [text.textContent, box.left - page.left, box.top, box.right - page.left, box.bottom]
  })
})"""
"""By chart: each text with its left, top, right and bottom."""


def overlapping(boxes: list[tuple[str, float, float, float, float]]) -> list[tuple[str, str]]:
    """Pairs of texts that share more than their margins."""
    return [
        (a[0], b[0])
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if min(a[3], b[3]) - max(a[1], b[1]) > 1 and min(a[4], b[4]) - max(a[2], b[2]) > 4
    ]


def section(date: str = "2026-01-01", **versions: str) -> results.Measured:
    """A section of two tools."""
    rows: list[dict[str, Any]] = [
        {"group": "files", "tool": "boxscore eval", "seconds": 0.5, "peak_mb": 50.0},
        {"group": "files", "tool": "peer", "seconds": 2.0, "peak_mb": 100.0},
    ]
    return results.Measured(date=date, machine="2 cores", rounds=3, versions=versions, rows=rows)


def test_a_section_that_is_measured_again_replaces_itself_alone() -> None:
    """With its own date and versions; the others keep theirs."""
    old, new = section("2026-01-01", peer="1"), section("2026-02-02", peer="2")
    assert results.replaced({"files": old, "masks": old}, {"masks": new}, ["masks", "files", "start"]) == {
        "masks": new,
        "files": old,
    }


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    """One line per row, numbers with four digits."""
    measured = section(peer="1")
    measured["rows"][0]["seconds"] = 0.123456
    results.save({"files": measured}, tmp_path / "results.json")
    measured["rows"][0]["seconds"] = 0.1235
    assert results.load(tmp_path / "results.json") == {"files": measured}
    assert len((tmp_path / "results.json").read_text().splitlines()) == 14


def test_the_page_says_with_what_each_section_was_measured() -> None:
    """A section of another day or with other versions has a line of its own, with its name."""
    lines = page.page({"growth": growth(boxscore="1"), "scale": growth(boxscore="1", numpy="2")}).splitlines()
    assert lines[-1] == "*2026-01-01, 3 rounds; 2 cores; boxscore 1, numpy 2.*"
    lines = page.page({"growth": growth(boxscore="1"), "scale": growth(boxscore="2")}).splitlines()
    assert lines[-3] == "*growth: 2026-01-01, 3 rounds; 2 cores; boxscore 1.*"
    assert lines[-1] == "*scale: 2026-01-01, 3 rounds; 2 cores; boxscore 2.*"


def growth(**versions: str) -> results.Measured:
    """A section of growing data."""
    keys = ("nanoseconds", "tally_bytes", "peak_bytes", "match", "finish", "all", "all_user", "all_system")
    made = section(**versions)
    made["rows"] = [{"detections": 1000, **dict.fromkeys(keys, 1.0)}]
    return made


def test_a_page_of_one_section_has_nothing_else() -> None:
    """Its table by hand: 2.0 s are 4 times 0.5 s."""
    made = page.page({"files": section(peer="1")})
    assert re.findall("^## (.*)", made, flags=re.MULTILINE) == ["From files to the table"]
    assert "| peer | 2.000 | 4.0x | 100 MB |" in made


@pytest.mark.parametrize("module", [charts, oriented, page, results], ids=lambda module: str(module.__name__))
def test_examples_in_docstrings_are_true(module: ModuleType) -> None:
    """Benchmarks are no part of the package, whose docstrings are tested anyway."""
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_tools_take_turns_and_slow_ones_run_once() -> None:
    """Three rounds of a fast one, one of a slow one."""
    order: list[str] = []

    def measure(name: str) -> int:
        order.append(name)
        return len(order)

    reports = take_turns(["fast", "slow"], measure, rounds=3, once=("slow",))
    assert order == ["fast", "slow", "fast", "fast"]
    assert reports == {"fast": [1, 3, 4], "slow": [2]}


@pytest.mark.parametrize("name", ["overview-light.svg", "overview-dark.svg"])
def test_charts_have_no_background(drawn: dict[str, str], name: str) -> None:
    """The corner of the picture is transparent."""
    import matplotlib.image
    import vl_convert

    picture = matplotlib.image.imread(io.BytesIO(vl_convert.svg_to_png(drawn[name])))
    assert picture[0, -1, 3] == 0
