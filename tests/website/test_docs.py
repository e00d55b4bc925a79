"""The documents tell the truth: their examples run, and their output is the output."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from boxscore.checks.checklist import Check
from boxscore.checks.file_checks import PAIR_CHECKS, ROW_CHECKS, TRUTH_CHECKS
from boxscore.checks.mistakes import CHECKS
from boxscore.checks.shape_checks import SHAPE_CHECKS
from boxscore.dropin import patch
from tests.support import command_tables, rule_table
from tests.support.documents import ROOT, blocks, generated_parts
from tests.support.page_runs import read_blocks, run_page
from tests.support.page_setups import prepare_page


def test_the_readme_opens_with_an_example_that_gives_what_it_says() -> None:
    """Each line with a number behind a # evaluates to it."""
    example = blocks("README.md", "python")[0]
    names: dict[str, Any] = {}
    exec(example.split("\n\nresult[")[0], names)
    claims = re.findall(r"^(result\[.*?\]) +# ([\d.]+)$", example, flags=re.MULTILINE)
    assert len(claims) == 2
    for expression, value in claims:
        assert eval(expression, names) == float(value)


WITH_EXAMPLES = {"python", "console"}
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
PAGES = [page for page in PAGES if WITH_EXAMPLES & {block.language for block in read_blocks(page)}]
RUN_ELSEWHERE = {
    **{
        f"docs/frameworks/{name}.md": "test_frameworks.py, block by block"
        for name in ("accelerate", "huggingface", "jax", "keras", "lightning", "pytorch-compiled")
    },
    "docs/guides/logging.md": "test_loggers.py, which has clients without a server",
    "docs/frameworks/rf-detr.md": "test_coco_backends.py, with what its package needs",
    "docs/frameworks/sahi.md": "test_coco_backends.py, with what its package needs",
    "docs/frameworks/ultralytics.md": "test_ultralytics.py, which does without torchvision",
    "docs/guides/scaling.md": "test_ray.py, which has a cluster",
}


@pytest.fixture
def patches_undone() -> Iterator[None]:
    """Patches that an example made end with its page."""
    yield
    for patches in (patch._patches, patch._faster_patches):
        while patches:
            patches[-1].undo()


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN_ELSEWHERE])
def test_a_page_runs_as_it_stands(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], patches_undone: None
) -> None:
    """Its examples run, its commands print what it shows, its numbers are the numbers."""
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, prepare_page(page, tmp_path), capsys)


def test_every_kind_of_finding_is_in_the_docs() -> None:
    """And no other."""
    checks: tuple[Check[Any], ...] = (*ROW_CHECKS, *TRUTH_CHECKS, *PAIR_CHECKS, *SHAPE_CHECKS, *CHECKS)
    kinds = {check.kind for check in checks} | {"changed-in-reading", "pycocotools-differs"}
    kinds |= {"unreadable", "refused", "invalid-mask", "invalid-keypoints"}
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    table = text.split("| kind | severity | found in |\n|---|---|---|\n")[1].split("\n\n")[0]
    documented = {kind for row in table.splitlines() for kind in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert documented == kinds


def test_every_link_between_documents_leads_somewhere() -> None:
    """Relative ones, from where they stand."""
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_table_of_rules_is_true() -> None:
    """Every rule of every protocol, every field, and every known tool, are in the reference."""
    assert generated_parts(rule_table.PAGE) == rule_table.expected()


def test_the_options_of_every_command_are_in_the_docs() -> None:
    """As the parser has them; `python -m tests.support.command_tables` writes them."""
    assert generated_parts(command_tables.PAGE) == command_tables.expected()


def test_every_extra_that_the_docs_install_exists() -> None:
    """`pip install 'boxscore[…]'`, on every page."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]]
    named = set(re.findall(r"boxscore\[(\w+)\]", "".join(texts)))
    assert {"report", "ray"} <= named <= extras.keys()
