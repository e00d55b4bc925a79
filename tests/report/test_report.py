"""The HTML report in a real browser: it loads without errors and requests, and works by mouse, by keys and by ear."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import boxscore
from boxscore import Detections, Truths
from boxscore._support.text import fraction
from boxscore.cli import main, sample
from boxscore.report.compact import rounded
from tests.support.pages import DETECTIONS, TRUTHS, Open, classes_shown


def test_it_has_the_numbers_of_the_result(show: Open, html: str, result: boxscore.Result) -> None:
    """All of them, with four digits, and the first in large."""
    page = show(html)
    assert page.title() == "The sample"
    expect(page.get_by_role("heading", level=1)).to_have_text("The sample")
    expect(page.locator(".headline .value")).to_have_text(f"{result['map']:.3f}")
    table = page.get_by_role("table", name="All numbers")
    for name, value in result.items():
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        expect(row.locator("td").first).to_have_text(fraction(value))
    expect(page.locator("#classes tbody tr").filter(has_text="bicycle")).to_contain_text("0.5156")


def test_classes_have_what_people_look_for(show: Open, html: str, result: boxscore.Result) -> None:
    """AP at all thresholds and at 0.5, precision and recall, and the score at which F1 is best."""
    page = show(html)
    table = page.get_by_role("table", name="Classes")
    heads = [head.removesuffix(" ") for head in table.locator("thead th").all_text_contents()]
    best = result.operating_points(iou=0.5)
    columns = {
        "AP": [fraction(value) for value in result.per_class.ap],
        "AP50": [fraction(value) for value in result.per_class.ap_at[:, 0]],
        "best F1": [f"{value:.3f}" for value in best.f1[1:]],
        "at score": [f"{value:.3f}" for value in best.score[1:]],
        "P": [f"{value:.3f}" for value in best.precision[1:]],
        "R": [f"{value:.3f}" for value in best.recall[1:]],
    }
    for k, name in enumerate(result.per_class.name):
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        cells = row.locator("th, td").all_text_contents()
        assert {head: cells[heads.index(head)] for head in columns} == {head: of[k] for head, of in columns.items()}
    table.get_by_role("columnheader", name="AP50", exact=True).get_by_role("button").click()
    assert classes_shown(page) == [result.per_class.name[k] for k in np.argsort(-result.per_class.ap_at[:, 0])]
    assert "within the limit of 100 per image and class" in page.locator("#classes .caption").inner_text()


def test_every_number_has_its_interval(show: Open, html: str, result: boxscore.Result) -> None:
    """That of `Result.intervals`, for classes, too; without resamples there is none."""
    page, sure = show(html), result.intervals()
    between = f"{sure.low['map']:.3f} – {sure.high['map']:.3f}"
    expect(page.locator(".headline .interval")).to_have_text(f"{between} 95 % confidence interval")
    row = page.locator("#summary tbody tr").filter(has_text="mar_large")
    expect(row).to_contain_text(f"{sure.low['mar_large']:.3f} – {sure.high['mar_large']:.3f}")
    low, high = sure.per_class.ap_low[3], sure.per_class.ap_high[3]
    expect(page.locator("#classes tbody tr").filter(has_text="dog")).to_contain_text(f"{low:.3f} – {high:.3f}")
    assert "confidence interval" not in show(result.to_html(resamples=0)).locator("main").inner_text()


def test_it_says_why(show: Open, html: str, result: boxscore.Result) -> None:
    """Errors, confusion, calibration, the best threshold and the worst images, as the result has them."""
    page = show(html)
    errors, confusion, worst = result.errors(), result.confusion(), result.worst_images(num=50)
    rows = page.get_by_role("table", name="Errors by type").locator("tbody tr")
    for i, (name, count, gain) in enumerate(errors.rows()):
        expect(rows.nth(i)).to_contain_text(f"{name.replace('_', ' ')}{count:,}{gain:+.4f}".replace("-", "−"))
    matrix = page.get_by_role("figure", name="Confusion matrix of 4 classes and background")
    shown = [int(text) for text in matrix.locator("svg .mark-text text").all_text_contents() if text.isdigit()]
    assert sorted(shown) == sorted(confusion.count[confusion.count > 0].tolist())
    best = result.operating_points()
    expect(page.locator("#scores [role=status]")).to_contain_text(f"Best F1: {best.f1[0]:.3f}")
    page.locator("#scores").get_by_label("Class").select_option("dog")
    expect(page.locator("#scores [role=status]")).to_contain_text(f"score threshold {best.score[4]:.3f}")
    expect(page.locator("#calibration")).to_contain_text(f"Expected calibration error: {result.calibration().ece:.4f}")
    images = page.get_by_role("table", name="Worst images").locator("tbody th").all_text_contents()
    assert sorted(images) == sorted(name for name, num in zip(worst.name, worst.num_errors, strict=True) if num)


def test_what_needs_boxes_is_left_out_with_the_reason(show: Open) -> None:
    """A metric has forgotten them; the rest is there."""
    detections, truths = sample.load()
    metric = boxscore.MeanAveragePrecision("coco", class_names=truths.class_names)
    metric.update(detections, truths)
    page = show(metric.compute().to_html())
    for part in ("errors", "confusion"):
        why = f"`{part}` needs the detections and truths, and this result has only verdicts"
        expect(page.locator(f"#{part}")).to_contain_text(why)
        expect(page.locator(f"#{part} figure")).to_have_count(0)
    expect(page.locator("#calibration figure svg")).to_be_visible()
    assert page.get_by_role("table", name="Worst images").locator("tbody tr").count() > 0


def test_classes_are_sorted_by_their_titles(show: Open, html: str, result: boxscore.Result) -> None:
    """By mouse and by keys; the column says which way."""
    page = show(html)
    per_class = result.per_class
    by_ap = [per_class.name[k] for k in np.argsort(-per_class.ap)]
    assert classes_shown(page) == by_ap
    ap = page.get_by_role("columnheader", name="AP", exact=True)
    expect(ap).to_have_attribute("aria-sort", "descending")
    ap.get_by_role("button").click()
    expect(ap).to_have_attribute("aria-sort", "ascending")
    assert classes_shown(page) == by_ap[::-1]
    title = page.get_by_role("columnheader", name="class", exact=True).get_by_role("button")
    title.focus()
    page.keyboard.press("Enter")
    assert classes_shown(page) == sorted(per_class.name)
    page.keyboard.press("Space")
    assert classes_shown(page) == sorted(per_class.name, reverse=True)
    assert ap.get_attribute("aria-sort") is None


def test_classes_are_found_by_a_part_of_their_name(show: Open, html: str) -> None:
    """In any case; how many are left is said aloud."""
    page = show(html)
    field = page.get_by_role("searchbox", name="Search classes")
    field.fill("CYCL")
    assert classes_shown(page) == ["bicycle"]
    expect(page.locator("#classes [role=status]")).to_have_text("1 of 4 classes")
    field.fill("no such class")
    assert classes_shown(page) == []
    field.fill("")
    assert len(classes_shown(page)) == 4


def lines(page: Page) -> list[str]:
    """The lines of the first chart, as a screen reader has them."""
    marks = page.locator("#curves figure").first.locator("svg .mark-line path[aria-label]")
    return [str(mark.get_attribute("aria-label")) for mark in marks.all()]


def test_chosen_classes_are_drawn(show: Open, html: str) -> None:
    """From the table, by name, and the best or worst."""
    page = show(html)
    assert lines(page) == ["mean of classes"]
    page.get_by_role("checkbox", name="Show dog in the charts").check()
    chart = page.locator("#curves figure").first
    expect(chart).to_have_attribute("aria-label", "Precision by recall: mean of classes; dog")
    expect(chart.locator("svg path[aria-label=dog]")).to_be_attached()
    assert lines(page) == ["mean of classes", "dog"]
    page.get_by_role("combobox", name="Add a class").fill("car")
    page.keyboard.press("Enter")
    expect(chart.locator("svg path[aria-label=car]")).to_be_attached()
    expect(page.get_by_role("checkbox", name="Show car in the charts")).to_be_checked()
    page.get_by_role("button", name="Remove dog").press("Enter")
    expect(page.get_by_role("button", name="Remove mean of classes")).to_be_focused()
    expect(chart).to_have_attribute("aria-label", "Precision by recall: mean of classes; car")
    expect(page.get_by_role("checkbox", name="Show dog in the charts")).not_to_be_checked()
    page.get_by_role("button", name="worst 5").click()
    expect(chart).to_have_attribute("aria-label", "Precision by recall: dog; bicycle; person; car")


def test_chosen_thresholds_are_drawn(show: Open, html: str) -> None:
    """A line each; without any it is the first."""
    page = show(html)
    chart = page.locator("#curves figure").first
    page.get_by_role("checkbox", name="0.75").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox", name="0.75")).to_be_focused()
    expect(chart).to_have_attribute(
        "aria-label", "Precision by recall: mean of classes, IoU 0.50; mean of classes, IoU 0.75"
    )
    page.get_by_role("checkbox", name="0.50").uncheck()
    expect(chart).to_have_attribute("aria-label", "Precision by recall: mean of classes")
    page.get_by_role("checkbox", name="0.75").uncheck()
    expect(page.get_by_role("checkbox", name="0.50")).to_be_checked()


def test_a_curve_is_read_by_pointing_at_it(show: Open, html: str, result: boxscore.Result) -> None:
    """The recall, and the precision of every line there."""
    page = show(html)
    page.get_by_role("button", name="best 5").click()
    chart = page.locator("#curves figure").first
    expect(chart.locator("svg path[aria-label=dog]")).to_be_attached()
    chart.scroll_into_view_if_needed()
    chart.locator("svg .mark-rule line").nth(50).hover(force=True)
    tip = page.locator("#tip")
    expect(tip).to_be_visible()
    read = dict(re.findall(r"(\w+)\s+([\d.]+)", tip.inner_text()))
    point = round(float(read.pop("recall")) * 100)
    precision = result.curves.precision[0, point, :, 0, -1]
    assert read == {name: f"{precision[k]:.3f}" for k, name in enumerate(result.per_class.name)}


def test_everything_that_can_be_used_has_a_name(show: Open, html: str) -> None:
    """For those who hear the page, and it can be used without a mouse."""
    page = show(html)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, a[href], figure, table, [role=region]")]
            .filter((each) => !each.hidden && !(each.getAttribute("aria-label") || each.textContent.trim()
                || [...(each.labels || [])].map((label) => label.textContent.trim()).join("")))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("section[aria-labelledby], section[aria-label]").count() == page.locator("section").count()
    snapshot = page.locator("body").aria_snapshot()
    for line in ("navigation", 'searchbox "Search classes"', 'heading "Precision and recall"', 'table "Classes"'):
        assert line in snapshot
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
            )
        )
    assert {"Skip to content", "Classes", "AP", "Show dog in the charts", "worst 5"} <= reached


def test_a_perfect_detector_has_no_worst_images(show: Open) -> None:
    """And neither has one that misses in one image the others."""
    box = [[0, 0, 50, 50]] * 3
    truths = Truths(image_ids=range(3), labels=[0] * 3, boxes=box)
    found = Detections(image_ids=range(3), labels=[0] * 3, scores=[0.9] * 3, boxes=box)
    page = show(boxscore.evaluate(found, truths).to_html(resamples=0))
    expect(page.locator("#images .note")).to_have_text("No image has an error.")
    fewer = Detections(image_ids=range(2), labels=[0] * 2, scores=[0.9] * 2, boxes=box[:2])
    page = show(boxscore.evaluate(fewer, truths).to_html(resamples=0))
    rows = page.get_by_role("table", name="Worst images").locator("tbody tr")
    assert rows.locator("th, td").all_text_contents() == ["2", "1", "0", "1", "0"]


@pytest.mark.parametrize("protocol", ["voc2007", "voc2012", "paper"])
def test_protocols_with_one_threshold_and_one_area(show: Open, protocol: Any) -> None:
    """There is no chart of AP by threshold or by size then."""
    page = show(boxscore.evaluate(*sample.load(), protocol).to_html())
    assert page.get_by_role("figure", name="AP by IoU").count() == 0
    assert page.get_by_role("figure", name="AP and AR by object size").count() == 0
    expect(page.get_by_role("figure", name="Precision by recall: mean of classes")).to_be_visible()


def test_nothing_is_a_report_too(show: Open) -> None:
    """Of dashes."""
    nothing = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    )
    page = show(nothing.to_html())
    expect(page.locator(".headline .value")).to_have_text("–")


def test_a_class_without_truths_has_no_line(show: Open) -> None:
    """And no AP; it is last, whichever way the others are sorted."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]], class_names=["cat", "dog"])
    found = Detections(image_ids=[0, 0], labels=[0, 1], scores=[0.9, 0.8], boxes=[[0, 0, 9, 9]] * 2)
    page = show(boxscore.evaluate(found, truths).to_html())
    page.get_by_role("checkbox", name="Show dog in the charts").check()
    expect(page.locator("#curves figure").first).to_have_attribute("aria-label", re.compile("; dog$"))
    for _ in range(2):
        assert classes_shown(page) == ["cat", "dog"]
        page.get_by_role("columnheader", name="AP", exact=True).get_by_role("button").click()
    expect(page.locator("#classes tbody tr").last).to_contain_text("–")


def test_scores_beyond_0_and_1(show: Open) -> None:
    """Logits have a histogram of their own range, and no calibration."""
    detections, truths = sample.load()
    logits = Detections(
        image_ids=detections.image_ids,
        labels=detections.labels,
        scores=np.asarray(detections.scores) * 20 - 10,
        boxes=detections.boxes,
        box_format=detections.box_format,
    )
    page = show(boxscore.evaluate(logits, truths).to_html())
    expect(page.get_by_role("figure", name="Histogram of scores")).to_be_visible()
    expect(page.locator("#calibration")).to_contain_text("calibration needs scores between 0 and 1; got")


def test_a_report_appears_whole_or_not_at_all(
    result: boxscore.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever can't be written is told, by the command, too."""
    file = tmp_path / "report.html"
    result.to_html(file, resamples=0)
    assert file.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    missing = tmp_path / "no folder" / "report.html"
    assert main(["eval", TRUTHS, DETECTIONS, "--html", str(missing)]) == 1
    assert capsys.readouterr() == ("", f"boxscore: {missing}: can't be written: No such file or directory\n")


def test_without_the_chart_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    """And nothing is written."""
    code = f"""
import sys
sys.modules["vl_convert"] = None  # as if it were not installed
from boxscore.cli import main
sys.exit(main(["eval", {TRUTHS!r}, {DETECTIONS!r}, "--html", {str(tmp_path / "report.html")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    why = "boxscore: the HTML report needs vl-convert-python, for its charts: pip install 'boxscore[report]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", why)
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_the_digits_that_tables_do() -> None:
    """A number that is rounded twice may end in another digit: 0.03235043 is 0.03235, and that is 0.0323."""
    for value in (0.0323504276120334, 0.25649999, 0.12345, 0.4):
        short = rounded(value)
        assert short is not None
        assert f"{short:.4f}" == f"{value:.4f}"
    assert rounded(0.123456789) == 0.123457
    assert rounded(float("nan")) is None


def test_it_says_below_the_number_whether_it_is_comparable(show: Open, html: str) -> None:
    """And what differs."""
    line = show(html).locator(".headline .comparable")
    expect(line).to_have_text("comparable with published numbers: COCO leaderboard rules")
    protocol = boxscore.Protocol.named("coco", thresholds=(0.5,))
    other = show(boxscore.evaluate(*sample.load(), protocol).to_html(resamples=0)).locator(".headline .comparable")
    expect(other).to_have_text("not comparable with COCO leaderboard rules: thresholds 0.50 in place of 0.50:0.95")


def test_classes_have_their_extra_numbers(show: Open) -> None:
    """A column each, with four digits."""
    result = boxscore.evaluate(*sample.load(), "olrp")
    page = show(result.to_html(resamples=0))
    table = page.get_by_role("table", name="Classes")
    heads = [head.removesuffix(" ") for head in table.locator("thead th").all_text_contents()]
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name="dog", exact=True))
    cells = row.locator("th, td").all_text_contents()
    extra = {name: fraction(values[3]) for name, values in result.per_class.extra.items()}
    assert {name: cells[heads.index(name)] for name in extra} == extra


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("recall_points", "beyond; AP is the mean precision at recall points. Better"),
        ("envelope", "beyond; AP is the whole area under the envelope. Better"),
        ("linear_points", "beyond; AP is the area under lines between recall points of the envelope. Better"),
        (
            "trapezoid_from_first",
            "beyond; AP is the area of trapezoids under the raw curve, from its first point on.",
        ),
    ],
)
def test_the_curve_is_what_its_caption_says(show: Open, rule: str, words: str) -> None:
    """By the rule of AP."""
    protocol = boxscore.Protocol.named("coco", ap=rule)
    page = show(boxscore.evaluate(*sample.load(), protocol).to_html(resamples=0))
    expect(page.locator("#curves .caption").first).to_contain_text(words)
