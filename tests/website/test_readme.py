"""The README is short, and true."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from boxscore.dropin import patch
from tests.support.documents import ROOT
from tests.support.page_runs import run_page
from tests.support.page_setups import training_loop, write_sample

README = (ROOT / "README.md").read_text()


@pytest.fixture
def unpatched() -> Iterator[None]:
    """The example that patches pycocotools is undone."""
    yield
    while patch._patches:
        patch._patches[-1].undo()


def test_the_readme_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unpatched: None
) -> None:
    """Its commands and its examples, with the sample and a model; they write the report."""
    write_sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page("README.md", tmp_path, training_loop(tmp_path), capsys)
    assert (tmp_path / "report.html").exists()


def test_the_readme_has_at_most_100_lines() -> None:
    """What is longer is on the site."""
    assert len(README.splitlines()) <= 100


def test_the_pictures_of_the_readme_exist() -> None:
    """The chart for light and for dark pages, and the report."""
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', README)
    paths = [first or second for first, second in pictures]
    charts = ["docs/benchmarks/overview-dark.svg", "docs/benchmarks/overview-light.svg"]
    assert paths == [*charts, "docs/report.png"]
    assert all((ROOT / path).exists() for path in paths)


def test_the_readme_names_the_two_commands_of_a_fresh_clone() -> None:
    """Which the Makefile has."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^make (\w+)   #", README, flags=re.MULTILINE) == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in ("demo", "test"))
