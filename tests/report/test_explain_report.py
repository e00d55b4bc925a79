"""The explanation in the HTML report, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import boxscore
from boxscore._support.text import fraction
from boxscore.cli import main, sample
from boxscore.report.html import make_report
from tests.support.pages import DETECTIONS, TRUTHS, Open, boxes_too_narrow


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report that the command writes."""
    path = tmp_path_factory.mktemp("explain") / "report.html"
    command = ["explain", TRUTHS, DETECTIONS, "--from", "coco", "--to", "ultralytics-8.3"]
    main([*command, "--html", str(path), "--title", "Two tools", "--quiet"])
    return path


def test_it_has_every_step_as_table_and_chart(show: Open, page_path: Path) -> None:
    """Names, numbers and reasons of the steps that have an effect, in their order; the others by name."""
    explanation = boxscore.explain(*sample.load(), "coco", "ultralytics-8.3")
    moving = [step for step in explanation.steps if step.has_effect]
    assert len(moving) >= 2
    page = show(page_path.read_text())
    expect(page.get_by_role("heading", level=1)).to_have_text("Two tools")
    section = page.locator("#explanation")
    expect(section.get_by_role("heading", level=2)).to_have_text("Explanation")
    rows = section.get_by_role("table", name="Steps").locator("tbody tr")
    names = [explanation.source, *(step.name for step in moving), explanation.target]
    assert rows.locator("th").all_text_contents() == names
    numbers = [explanation.first, *(step.after for step in moving), explanation.last]
    assert rows.locator("td:nth-child(2)").all_text_contents() == [fraction(number) for number in numbers]
    assert section.locator("dl.reasons dd").all_text_contents() == [step.reason for step in moving]
    marks = section.locator("figure svg text").all_text_contents()
    assert [mark.strip("\u2060") for mark in marks if mark.strip("\u2060") in names] == names
    still = [step.name for step in explanation.steps if not step.has_effect]
    expect(section).to_contain_text(f"No effect on this data: {', '.join(still)}.")
    changes = [str(change).replace("->", "→") for step in moving for change in step.fields]
    assert any(change.startswith("epsilon ") for change in changes)
    assert section.locator("dl.reasons dt .soft").all_text_contents() == changes
    expect(section).to_contain_text(explanation.counting)
    expect(section).to_contain_text(f"The order of steps is fixed: {', '.join(explanation.order)}.")
    (note,) = explanation.notes
    expect(section).to_contain_text(f"ultralytics-8.3: {note.text}")
    expect(page.locator("#protocol")).to_contain_text("COCO leaderboard rules")


@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_the_screen(show: Open, page_path: Path, width: int) -> None:
    """Neither the page nor the table of steps is wider than it is seen."""
    page = show(page_path.read_text(), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "Steps" not in boxes_too_narrow(page)


def test_rules_without_effect_say_so(show: Open) -> None:
    """There is nothing to draw, then."""
    detections, truths = sample.load()
    explanation = boxscore.explain(detections, truths, "coco", "pycocotools")
    result = boxscore.evaluate(detections, truths)
    page = show(make_report({"model": result}, intervals={}, explanation=explanation))
    expect(page.locator("#explanation")).to_contain_text("No rule has an effect on this data.")
    expect(page.locator("#explanation")).to_contain_text("pycocotools: The reference for COCO's rules")
    assert page.locator("#explanation figure").count() == 0
