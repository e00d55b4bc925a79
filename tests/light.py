"""A plugin of pytest, `-p tests.light`: tests are skipped which import packages of the extra `test` that are missing.

Without it such a test fails, so that the whole suite never runs with less than it has to.
"""

import re
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

_EXTRAS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
_IMPORT_NAMES = {"mlflow_skinny": "mlflow", "tensorflow_cpu": "tensorflow"}
_ORACLES = {"cv2", "lvis", "mmdet", "mmengine", "object_detection", "podm", "rfdetr", "sahi", "scipy", "supervision"}
_ORACLES |= {"ultralytics"}
"""See ORACLES in the Makefile."""
_OTHERS = {"boxscore_test_intervals", "datasets", "keras", "mkdocs", "nanobind", "nbformat"}
"""What comes with other packages, or with a build for tests."""


def _optional() -> set[str]:
    names = {re.split(r"[\[<>=~;]", requirement)[0].replace("-", "_") for requirement in _EXTRAS["test"]}
    return _ORACLES | _OTHERS | {_IMPORT_NAMES.get(name, name) for name in names}


OPTIONAL = _optional()


def missing_package(text: str) -> str | None:
    """The optional package that an error says is not installed."""
    found = re.search(r"No module named '([\w.]+)'|pip install 'boxscore\[(\w+)\]'", text)
    name = (found.group(1) or found.group(2)).partition(".")[0] if found else None
    return name if name in OPTIONAL else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that can't be imported is skipped."""
    report = yield
    name = missing_package(str(report.longrepr)) if report.failed else None
    if name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {name} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that can't import something is skipped, also if it is a fixture of it or a process that can't."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    name = missing_package(f"{error} {getattr(error, 'stderr', '')}")
    if name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.reportinfo()[1] or 0, f"Skipped: {name} is not installed")
    return report
