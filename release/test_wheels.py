"""Install the wheels of `dist/` into fresh environments without a compiler, and run the tests against them.

python -m release.test_wheels [--pythons 3.11,3.12,3.13] [-- ARGUMENTS OF PYTEST]

Each Python gets the wheel that pip chooses for it, and the packages of the extra `test-light`: tests that need a
framework are skipped.
"""

import argparse
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

from release.pythons import find_python, make_environment

ROOT = Path(__file__).parents[1]


def test(python: str, arguments: list[str]) -> None:
    """The tests of one Python; fails with them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    # A compiler that fails: whatever would be built is an error.
    without_compiler = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        executable = make_environment(find_python(python), Path(folder) / "environment", extras["test-light"])
        chosen = ["--no-index", "--find-links", str(ROOT / "dist"), "--only-binary", ":all:", "--no-deps", "boxscore"]
        subprocess.run([executable, "-m", "pip", "install", "--quiet", "array-api-compat>=1.11"], check=True)
        subprocess.run([executable, "-m", "pip", "install", *chosen], check=True, env=without_compiler)
        where = "import boxscore, boxscore._compiled as c; print(boxscore.__version__, c.__file__)"
        subprocess.run([executable, "-c", where], check=True, cwd=folder)
        command = [str(executable), "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2", "-q", "-ra"]
        command += ["-p", "tests.light", *arguments, "tests"]
        subprocess.run(command, check=True, cwd=ROOT, env=without_compiler)


def main() -> None:
    """Test each Python in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default="3.11,3.12,3.13", help="a list of versions (default: %(default)s)")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENTS", help="passed to pytest")
    options = parser.parse_args()
    for python in options.pythons.split(","):
        test(python, options.arguments)


if __name__ == "__main__":
    main()
