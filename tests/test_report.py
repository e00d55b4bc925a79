"""The HTML report in a real browser: it loads without errors and requests, and works by mouse, by keys and by ear."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import boxscore
from boxscore import Detections, Protocol, Truths, sample
from boxscore.cli import main
from boxscore.report.html import make_report
from boxscore.text import fraction

TRUTHS, DETECTIONS = str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")
TRUTHS_JSON = json.loads(Path(TRUTHS).read_text())
LARGEST = 2_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium, from the system; where CI is set it has to be there."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        why = f"none of {', '.join(names)} is installed (Debian: apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield chromium
        chromium.close()


Open = Callable[..., Page]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Shows HTML as a file, from which nothing may be asked and in which nothing may go wrong."""
    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def show(html: str, *, width: int = 1280, **settings: Any) -> Page:
        file = tmp_path / f"report {len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if request.url == file.as_uri() else troubles.append(request.url))
        page.goto(file.as_uri())
        figures = page.locator("figure")
        for i in range(figures.count()):
            expect(figures.nth(i).locator("svg")).to_be_attached()
        return page

    yield show
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="module")
def result() -> boxscore.Result:
    """The sample under COCO."""
    return boxscore.evaluate(*sample.load())


@pytest.fixture(scope="module")
def html(result: boxscore.Result) -> str:
    """Its report."""
    return result.to_html(title="The sample")


def classes_shown(page: Page) -> list[str]:
    """The rows of the table of classes, in their order."""
    return page.get_by_role("table", name="Classes").locator("tbody th").all_text_contents()


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


def test_every_number_has_its_interval(show: Open, html: str, result: boxscore.Result) -> None:
    """That of `Result.intervals`, for classes, too; without resamples there is none."""
    page, sure = show(html), result.intervals()
    between = f"{sure.low['map']:.3f} – {sure.high['map']:.3f}"
    expect(page.locator(".headline .between")).to_have_text(f"{between} 95 % interval")
    row = page.locator("#summary tbody tr").filter(has_text="mar_large")
    expect(row).to_contain_text(f"{sure.low['mar_large']:.3f} – {sure.high['mar_large']:.3f}")
    low, high = sure.per_class.ap_low[3], sure.per_class.ap_high[3]
    expect(page.locator("#classes tbody tr").filter(has_text="dog")).to_contain_text(f"{low:.3f} – {high:.3f}")
    assert "interval" not in show(result.to_html(resamples=0)).locator("main").inner_text()


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
    expect(page.locator("#scores [role=status]")).to_contain_text(f"score {best.score[4]:.3f}")
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
        expect(page.locator(f"#{part}")).to_contain_text("needs boxes, and this result has only verdicts")
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
    page.get_by_role("button", name="Take out dog").press("Enter")
    expect(page.get_by_role("button", name="Take out mean of classes")).to_be_focused()
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
    assert {"Skip to the content", "Classes", "AP", "Show dog in the charts", "worst 5"} <= reached


INK = "() => getComputedStyle(document.querySelector('#curves svg path[aria-label]')).stroke"
PAPER = "() => getComputedStyle(document.body).backgroundColor"


def test_it_is_dark_where_the_system_is_or_the_reader_wants(show: Open, html: str) -> None:
    """Its charts, too."""
    light, dark = show(html, color_scheme="light"), show(html, color_scheme="dark")
    colors = [(page.evaluate(PAPER), page.evaluate(INK)) for page in (light, dark)]
    assert colors[0][0] == "rgb(255, 255, 255)"
    assert colors[0][0] != colors[1][0]
    assert colors[0][1] != colors[1][1]
    light.get_by_role("button", name="Dark colours").click()
    assert (light.evaluate(PAPER), light.evaluate(INK)) == colors[1]
    dark.get_by_role("button", name="Light colours").press("Enter")
    assert (dark.evaluate(PAPER), dark.evaluate(INK)) == colors[0]


def test_it_fits_a_phone(show: Open, html: str) -> None:
    """Tables scroll in their own boxes, the page does not."""
    page = show(html, width=375, has_touch=True, is_mobile=True)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    assert (
        page.evaluate("() => Math.max(...[...document.querySelectorAll('figure svg')].map((svg) => svg.clientWidth))")
        <= 375
    )


@pytest.mark.parametrize("width", [1000, 1280])
def test_nothing_is_cut_off_where_tables_stand_beside_charts(show: Open, html: str, width: int) -> None:
    """What kinds of errors mean is read whole."""
    page = show(html, width=width)
    box = page.get_by_role("table", name="Errors by type").locator("xpath=..")
    assert box.evaluate("(box) => box.scrollWidth <= box.clientWidth")


def test_a_perfect_detector_has_no_worst_images(show: Open) -> None:
    """And neither has one that misses in one image the others."""
    box = [[0, 0, 50, 50]] * 3
    truths = Truths(image=range(3), label=[0] * 3, box=box)
    found = Detections(image=range(3), label=[0] * 3, score=[0.9] * 3, box=box)
    page = show(boxscore.evaluate(found, truths).to_html(resamples=0))
    expect(page.locator("#images .note")).to_have_text("No image has an error.")
    fewer = Detections(image=range(2), label=[0] * 2, score=[0.9] * 2, box=box[:2])
    page = show(boxscore.evaluate(fewer, truths).to_html(resamples=0))
    rows = page.get_by_role("table", name="Worst images").locator("tbody tr")
    assert rows.locator("th, td").all_text_contents() == ["2", "1", "0", "1", "0"]


def test_it_prints_on_white_paper(show: Open, html: str) -> None:
    """Whole, without the controls, even from a dark screen."""
    page = show(html, color_scheme="dark")
    page.get_by_role("button", name="Light colours").click()
    page.get_by_role("button", name="Dark colours").click()
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(PAPER) == "rgb(255, 255, 255)"
    expect(page.get_by_role("searchbox")).to_have_count(0)
    assert page.evaluate(
        "() => [...document.querySelectorAll('.scroll')].every((box) => box.scrollHeight <= box.clientHeight + 1)"
    )


HOSTILE = [
    "</script><img src=x onerror=\"alert('script')\">",
    "<!--<script>",
    "'\"><svg onload=alert(1)>",
    "${alert(2)} {{alert(3)}} datum['x'] a.b[c]",
    "\u202eright to left \u05d0\u05d1\u05d2",
    "line\u2028and\u2029paragraph\n\ttab\0",
    "日本語 🚲 é",
    "half a pair \ud800",
    "__proto__",
    "constructor",
]


def test_no_name_becomes_markup(show: Open, tmp_path: Path) -> None:
    """Neither of a class, nor of a file, nor the title; all are shown as they are."""
    num = len(HOSTILE)
    box = [[0, 0, 10, 10]] * num
    truths = Truths(
        image=range(num), label=range(num), box=box, class_names=HOSTILE, image_names=dict(enumerate(HOSTILE))
    )
    found = Detections(image=range(num), label=[*range(1, num), 0], score=[0.9] * num, box=box)
    result = boxscore.evaluate(found, truths)
    page = show(make_report(dict.fromkeys(HOSTILE[:3], result), title=HOSTILE[0], made_from={HOSTILE[0]: HOSTILE[2]}))
    assert page.title() == HOSTILE[0]
    assert page.locator("img, svg[onload]").count() == 0
    assert page.locator("script").count() == 3
    expected = [name.replace("\ud800", "\ufffd") for name in HOSTILE]
    assert sorted(name.replace("\ud800", "\ufffd") for name in classes_shown(page)) == sorted(expected)
    for box_of_class in page.locator("input[data-class]").all():
        box_of_class.check()
    chart = page.locator("#curves figure").first
    expect(chart.locator("svg .mark-line path[aria-label]")).to_have_count(num + 1)
    chart.locator("svg .mark-rule line").nth(50).hover(force=True)
    expect(page.locator("#tip")).to_contain_text(HOSTILE[0])
    assert page.locator("img, svg[onload]").count() == 0


def test_the_policy_runs_no_other_script(browser: Browser, html: str, tmp_path: Path) -> None:
    """Neither one that gets into the page, nor text as code."""
    file = tmp_path / "report.html"
    file.write_text(html)
    page = browser.new_page()
    page.goto(file.as_uri())
    tag = (
        "const tag = document.createElement('script'); tag.textContent = 'window.ran = true'; document.body.append(tag)"
    )
    assert page.evaluate(f"() => {{ {tag}; return window.ran }}") is None
    page.evaluate("() => new Promise((resolve) => setTimeout(() => { setTimeout('window.ran = true'); resolve() }))")
    page.wait_for_timeout(100)
    assert page.evaluate("() => window.ran") is None
    page.close()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "unsafe-eval" not in policy[1]
    assert "default-src 'none'" in policy[1]
    assert re.search(r"script-src 'sha256-\S+' 'sha256-\S+';", policy[1])
    assert "://" not in re.sub(r"(?s)<script>.*?</script>", "", html)


def test_it_is_small_with_the_classes_of_lvis(show: Open) -> None:
    """1,203 of them, under 2 MB even with two models; they are found and drawn."""
    random = np.random.default_rng(0)
    num, num_classes = 20_000, 1203
    label = random.integers(0, num_classes, num)
    corner = random.uniform(0, 400, (num, 2))
    box = np.concatenate([corner, corner + random.uniform(5, 150, (num, 2))], axis=1)
    image = random.integers(0, 4000, num)
    names = [f"a rather long name of class {k}" for k in range(num_classes)]
    truths = Truths(image=image, label=label, box=box, class_names=names)
    moved = box + random.normal(0, 4, box.shape) * [1, 1, 0, 0]
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2])
    found = Detections(image=image, label=label, score=random.random(num), box=moved)
    result = boxscore.evaluate(found, truths)
    sure = result.intervals(resamples=20)
    html = make_report({"one": result, "two": result}, intervals={"one": sure, "two": sure})
    assert len(html.encode()) < LARGEST
    page = show(html)
    assert len(classes_shown(page)) == num_classes
    page.get_by_role("searchbox", name="Search classes").fill("class 1202")
    page.get_by_role("checkbox", name="Show a rather long name of class 1202 in the charts").check()
    expect(page.locator("#curves figure").first).to_have_attribute("aria-label", re.compile("class 1202$"))


def test_a_comparison_of_three_is_small_with_the_classes_of_lvis(show: Open) -> None:
    """With every difference; the curves get what room is left, and are still drawn."""
    random = np.random.default_rng(0)
    num, num_classes = 12_000, 1203
    label, image = np.arange(num) % num_classes, random.integers(0, 1000, num)
    corner = random.uniform(0, 400, (num, 2))
    box = np.concatenate([corner, corner + random.uniform(20, 150, (num, 2))], axis=1)
    names = [f"a rather long name of class {k}" for k in range(num_classes)]
    truths = Truths(image=image, label=label, box=box, class_names=names)
    results = {}
    for shift in (2.0, 4.0, 6.0):
        moved = box + random.normal(0, shift, (num, 1))
        found = Detections(image=image, label=label, score=random.random(num), box=moved)
        results[f"shifted by {shift:g}"] = boxscore.evaluate(found, truths)
    comparison = boxscore.compare(results, resamples=20)
    html = comparison.to_html()
    assert len(html.encode()) < LARGEST
    page = show(html)
    page.get_by_role("combobox", name="shifted by 2 against").select_option("shifted by 6")
    page.get_by_role("searchbox", name="Search classes").first.fill("class 1202")
    row = page.get_by_role("table", name="Differences by class").locator("tbody tr").first
    change = comparison.differences[1].ap[1202]
    shown = row.locator("th, td").all_text_contents()[:3]
    assert shown == [names[1202], fraction(change.first), fraction(change.second)]
    page.get_by_role("combobox", name="Model").select_option("shifted by 6")
    page.get_by_role("checkbox", name="Show a rather long name of class 7 in the charts").check()
    figures = page.locator("#curves figure")
    expect(figures.first).to_have_attribute("aria-label", re.compile("class 7$"))
    points = figures.nth(1).locator("[aria-roledescription='point'], .mark-symbol path")
    expect(points).to_have_count(2 * len(Protocol.named("coco").thresholds))  # of the class, and of all


def test_several_models_are_in_one_report(show: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Side by side in the table of numbers; the rest is that of the chosen one."""
    report = tmp_path / "report.html"
    files = [TRUTHS, DETECTIONS, write_fewer(tmp_path), "--html", str(report)]
    assert main(["eval", *files, "--iou", "0.5", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    page = show(report.read_text())
    assert page.title() == "detections.json, fewer.json on truths.json"
    heads = page.get_by_role("table", name="All numbers").locator("thead th").all_text_contents()
    assert heads[1:3] == ["detections.json", "fewer.json"]
    expect(page.locator(".headline .value")).to_have_text("0.793")
    page.get_by_role("combobox", name="Model").select_option("fewer.json")
    expect(page.locator(".headline .value")).to_have_text("0.464")


def write_fewer(folder: Path) -> str:
    """Every other detection of the sample."""
    path = folder / "fewer.json"
    path.write_text(json.dumps(json.loads(Path(DETECTIONS).read_text())[::2]))
    return str(path)


def test_a_comparison_is_a_report_on_what_models_differ_in(
    show: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every difference with its interval, by class and by image, and all else of each model."""
    report, numbers = tmp_path / "report.html", tmp_path / "numbers.json"
    files = [TRUTHS, DETECTIONS, write_fewer(tmp_path), "--html", str(report), "--json", str(numbers), "--quiet"]
    assert main(["compare", *files]) == 0
    assert capsys.readouterr() == ("", "")
    (difference,) = json.loads(numbers.read_text())["differences"]
    page = show(report.read_text())
    table = page.get_by_role("table", name="Differences between detections.json and fewer.json")
    for name in ("map", "mar_large"):
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        expect(row).to_contain_text(f"{difference[name]['difference']:+.4f}".replace("-", "−"))
        expect(row).to_contain_text(f"{difference[name]['p_value']:.3f}")
    expect(page.get_by_role("figure", name="Differences of all numbers")).to_be_visible()
    by_class = page.get_by_role("table", name="Differences by class")
    by_class.get_by_role("columnheader", name="p", exact=True).get_by_role("button").click()
    p_values = [float(text) for text in by_class.locator("tbody td:last-child").all_text_contents()]
    assert p_values == sorted(p_values, reverse=True)
    images = page.get_by_role("table", name="Images that changed most").locator("tbody tr")
    expect(images.first).to_contain_text(difference["images"][0]["name"])
    page.get_by_role("combobox", name="Model").select_option("fewer.json")
    assert len(classes_shown(page)) == 4


def test_slices_are_in_the_report_beside_the_whole(show: Open, tmp_path: Path) -> None:
    """Each group of images as a model has it."""
    groups = {image["file_name"]: "odd" if image["id"] % 2 else "even" for image in TRUTHS_JSON["images"]}
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    report = tmp_path / "report.html"
    options = ["--slice", str(tmp_path / "groups.json"), "--html", str(report), "--quiet", "--bootstrap", "50"]
    assert main(["eval", TRUTHS, DETECTIONS, *options]) == 0
    page = show(report.read_text())
    assert page.title() == "detections.json on truths.json"
    expect(page.locator("#summary .how")).to_contain_text("50 resamples of 40 images")
    assert page.get_by_role("combobox", name="Model").locator("option").all_text_contents() == ["all", "odd", "even"]
    page.get_by_role("combobox", name="Model").select_option("odd")
    expect(page.locator("#summary .how")).to_contain_text("50 resamples of 20 images")


def test_the_examples_of_its_page_run(
    result: boxscore.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show: Open
) -> None:
    """And make the files that they name."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "report.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(example, {"boxscore": boxscore, **dict.fromkeys(("result", "result_a", "result_b", "old", "new"), result)})
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "comparison.html"}
    assert show((tmp_path / "report.html").read_text()).title() == "Two models"


@pytest.mark.parametrize("protocol", ["voc2007", "voc2012", "paper"])
def test_protocols_with_one_threshold_and_one_area(show: Open, protocol: str) -> None:
    """There is no chart of AP by threshold or by size then."""
    page = show(boxscore.evaluate(*sample.load(), protocol).to_html())
    assert page.get_by_role("figure", name="AP by IoU").count() == 0
    assert page.get_by_role("figure", name="AP and AR by object size").count() == 0
    expect(page.get_by_role("figure", name="Precision by recall: mean of classes")).to_be_visible()


def test_nothing_is_a_report_too(show: Open) -> None:
    """Of dashes."""
    nothing = boxscore.evaluate(Detections(image=[], label=[], score=[], box=[]), Truths(image=[], label=[], box=[]))
    page = show(nothing.to_html())
    expect(page.locator(".headline .value")).to_have_text("–")


def test_a_class_without_truths_has_no_line(show: Open) -> None:
    """And no AP; it is last, whichever way the others are sorted."""
    truths = Truths(image=[0], label=[0], box=[[0, 0, 9, 9]], class_names=["cat", "dog"])
    found = Detections(image=[0, 0], label=[0, 1], score=[0.9, 0.8], box=[[0, 0, 9, 9]] * 2)
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
        image=detections.image,
        label=detections.label,
        score=np.asarray(detections.score) * 20 - 10,
        box=detections.box,
        box_format=detections.box_format,
    )
    page = show(boxscore.evaluate(logits, truths).to_html())
    expect(page.get_by_role("figure", name="Histogram of scores")).to_be_visible()
    expect(page.locator("#calibration")).to_contain_text("calibration is of scores between 0 and 1; got")


def test_different_protocols_are_refused(result: boxscore.Result) -> None:
    """One report, one set of rules."""
    other = boxscore.evaluate(*sample.load(), Protocol.named("coco", thresholds=(0.5,)))
    with pytest.raises(boxscore.InputError, match="`results` must all be of one protocol; got different ones"):
        make_report({"a": result, "b": other})


def test_a_report_appears_whole_or_not_at_all(
    result: boxscore.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever can't be written is told, by the command, too."""
    file = tmp_path / "report.html"
    assert result.to_html(file) == file.read_text()
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
