"""Install the wheels of `dist/` into fresh environments without a compiler, and run the tests against them.

python -m release.test_wheels [--smoke] [--pythons 3.11,3.12,3.13] [-- ARGUMENTS OF PYTEST]

Each Python gets the wheel that pip chooses for it, and the packages of the extra `test-light`: tests that need a
framework are skipped. With `--smoke` it gets the wheel and its dependencies only, and evaluates the sample.
"""

import argparse
import os
import subprocess
import tempfile
import textwrap
import tomllib
from pathlib import Path

from release.pythons import find_python, make_environment

ROOT = Path(__file__).parents[1]
WITHOUT_COMPILER = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false"}
"""A compiler that fails: an attempt to build anything is an error."""
SMOKE = textwrap.dedent(
    """
    from pathlib import Path
    import boxscore
    from boxscore.cli import sample

    folder = Path(sample.__file__).parent
    truths = boxscore.read_truths(folder / "truths.json")
    detections = boxscore.read_detections(folder / "detections.json", truths)
    compiled = boxscore.evaluate(detections, truths, engine="native")
    loops = boxscore.evaluate(detections, truths, engine="sequential")
    assert compiled.numbers == loops.numbers, (compiled.numbers, loops.numbers)
    assert 0 < compiled["map"] < 1, compiled["map"]
    """
)


def test(python: str, arguments: list[str]) -> None:
    """Run the tests under one Python; fail with them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        executable = install(python, Path(folder), extras["test-light"])
        command = [str(executable), "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2", "-q", "-ra"]
        command += ["-p", "tests.light", *arguments, "tests"]
        subprocess.run(command, check=True, cwd=ROOT, env={**WITHOUT_COMPILER, "PYTHONPATH": str(ROOT)})


def smoke_test(python: str) -> None:
    """Evaluate the sample under one Python: by the command, and in Python by the compiled engine and by loops."""
    with tempfile.TemporaryDirectory() as folder:
        executable = install(python, Path(folder), ["numpy>=1.26"])
        subprocess.run([executable.with_name("boxscore"), "demo"], check=True, cwd=folder)
        subprocess.run([executable, "-c", SMOKE], check=True, cwd=folder)


def install(python: str, folder: Path, packages: list[str]) -> Path:
    """Install the wheel of `dist/` and these packages into a fresh environment; return its Python."""
    executable = make_environment(find_python(python), folder / "environment", [*packages, "array-api-compat>=1.11"])
    chosen = ["--no-index", "--find-links", str(ROOT / "dist"), "--only-binary", ":all:", "--no-deps", "boxscore"]
    subprocess.run([executable, "-m", "pip", "install", *chosen], check=True, env=WITHOUT_COMPILER)
    where = "import boxscore, boxscore._compiled as c; print(boxscore.__version__, c.__file__)"
    subprocess.run([executable, "-c", where], check=True, cwd=folder)
    return executable


def main() -> None:
    """Test each Python in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default="3.11,3.12,3.13", help="a list of versions (default: %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="evaluate the sample instead of running the tests")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENTS", help="passed to pytest")
    options = parser.parse_args()
    for python in options.pythons.split(","):
        if options.smoke:
            smoke_test(python)
        else:
            test(python, options.arguments)


if __name__ == "__main__":
    main()
