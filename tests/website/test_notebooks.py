"""The notebooks run, and their texts are those that they give."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

from tests.support.documents import ROOT
from tests.support.notebooks import FOLDER, PATHS, executed, texts

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path: Path, tmp_path: Path) -> None:
    """Cell by cell; `make notebooks` stores what it prints."""
    assert texts(executed(path, tmp_path)) == texts(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_opens_in_colab_and_installs_boxscore_only_there(path: Path) -> None:
    """By a link in its first cell, and by its first code."""
    notebook = nbformat.read(path, as_version=4)
    link = "https://colab.research.google.com/github/boxscore/boxscore/blob/main/docs/notebooks/"
    assert f"]({link}{path.name})" in notebook.cells[0].source
    installing = [cell.source for cell in notebook.cells if "%pip" in cell.source]
    assert installing == [notebook.cells[1].source]
    assert 'if "google.colab" in sys.modules:\n    %pip install' in installing[0]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_has_no_traces_of_the_machine(path: Path) -> None:
    """Below 400 KB, without folders of whoever ran it."""
    text = path.read_text()
    assert len(text) < 400_000
    assert not re.search(r"/(home|root|tmp|work|Users)/", re.sub('"image/png": "[^"]*"', "", text))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_to_pages_of_the_site(path: Path) -> None:
    """By their full addresses: in Colab there are no pages beside it."""
    pages = re.findall(r"\]\(https://boxscore\.github\.io/boxscore/([^)#]*)", path.read_text())
    assert pages
    for page in pages:
        sources = [ROOT / "docs" / Path(page).with_suffix(suffix) for suffix in (".md", ".ipynb")]
        assert page.endswith(".html")
        assert any(source.exists() for source in sources), page


def test_the_network_of_the_training_loop_learns() -> None:
    """The stored table has an mAP below 0.3 after the first epoch, and above 0.7 after the last."""
    notebook = nbformat.read(FOLDER / "training_loop.ipynb", as_version=4)
    tables = [
        output.data["text/markdown"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    scores = [float(score) for score in re.findall(r"^\| \d+ \| ([\d.]+)", tables[0], flags=re.MULTILINE)]
    assert len(scores) == 8
    assert scores[0] < 0.3 < 0.7 < scores[-1]
