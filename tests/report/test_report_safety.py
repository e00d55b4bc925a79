"""What a report is made of can do no harm, and does not make the file large: any names, very many classes."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, expect

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore._support.text import fraction
from boxscore.report.contents import default_resamples
from boxscore.report.html import make_report
from tests.support.pages import HOSTILE, Open, classes_shown

LARGEST = 2_000_000


def test_no_name_becomes_markup(show: Open, tmp_path: Path) -> None:
    """Neither of a class, nor of a file, nor the title; all are shown as they are."""
    num = len(HOSTILE)
    box = [[0, 0, 10, 10]] * num
    truths = Truths(
        image_ids=range(num), labels=range(num), boxes=box, class_names=HOSTILE, image_names=dict(enumerate(HOSTILE))
    )
    found = Detections(image_ids=range(num), labels=[*range(1, num), 0], scores=[0.9] * num, boxes=box)
    result = boxscore.evaluate(found, truths)
    page = show(make_report(dict.fromkeys(HOSTILE[:3], result), title=HOSTILE[0], made_from={HOSTILE[0]: HOSTILE[2]}))
    assert page.title() == HOSTILE[0]
    assert page.locator("img, svg[onload]").count() == 0
    assert page.locator("script").count() == 3
    expected = [name.replace("\ud800", "\ufffd") for name in HOSTILE]
    assert sorted(name.replace("\ud800", "\ufffd") for name in classes_shown(page)) == sorted(expected)
    for name in HOSTILE[1:3]:
        page.locator("#curves .models").get_by_role("checkbox").nth(HOSTILE.index(name)).uncheck()
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
    truths = Truths(image_ids=image, labels=label, boxes=box, class_names=names)
    moved = box + random.normal(0, 4, box.shape) * [1, 1, 0, 0]
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2])
    found = Detections(image_ids=image, labels=label, scores=random.random(num), boxes=moved)
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
    truths = Truths(image_ids=image, labels=label, boxes=box, class_names=names)
    results = {}
    for shift in (2.0, 4.0, 6.0):
        moved = box + random.normal(0, shift, (num, 1))
        found = Detections(image_ids=image, labels=label, scores=random.random(num), boxes=moved)
        results[f"shifted by {shift:g}"] = boxscore.evaluate(found, truths)
    comparison = boxscore.compare(results, resamples=20)
    html = comparison.to_html()
    assert len(html.encode()) < LARGEST
    page = show(html)
    page.get_by_role("combobox", name="shifted by 2 compared with").select_option("shifted by 6")
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
    expect(points).to_have_count(3 * 2 * len(Protocol.named("coco").thresholds))  # of three: of the class, and of all


def test_20000_classes_take_neither_minutes_nor_gigabytes(show: Open, tmp_path: Path) -> None:
    """What is left out is said. A matrix of all pairs would take 3 GB, and intervals minutes."""
    random = np.random.default_rng(0)
    num, num_classes = 30_000, 20_000
    label, image = np.arange(num) % num_classes, random.integers(0, 1000, num)
    corner = random.uniform(0, 400, (num, 2))
    box = np.concatenate([corner, corner + random.uniform(20, 150, (num, 2))], axis=1)
    names = [f"{k}: {'a name that goes on and on; ' * 40 if k == 3 else 'a class'}" for k in range(num_classes)]
    truths = Truths(image_ids=image, labels=label, boxes=box, class_names=names)
    seen = np.where(random.random(num) < 0.1, random.integers(0, num_classes, num), label)
    found = Detections(
        image_ids=image, labels=seen, scores=random.random(num), boxes=box + random.normal(0, 3, (num, 1))
    )
    result = boxscore.evaluate(found, truths, Protocol.named("coco", areas={"all": (0, None)}, limits=(100,)))
    tracemalloc.start()
    html = make_report({"one": result, "two": result})
    confusion = result.confusion()
    assert str(confusion).startswith("at IoU 0.50, scores from")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000_000
    assert len(html.encode()) < LARGEST
    page = show(html)
    notes = page.locator("#summary .note").all_text_contents()
    assert notes[0].startswith("Tables and charts have the 3,000 of 20,000 classes with the most truths.")
    assert notes[1].startswith("There are no confidence intervals: with 20,000 classes, 1,000 resamples take minutes.")
    expect(page.locator("#summary .counts").first).to_contain_text("classes20,000")
    assert len(classes_shown(page)) == 1500
    page.locator("#classes").get_by_role("button", name="Show all 3,000").click()
    assert len(classes_shown(page)) == 3000
    page.locator("#classes").get_by_role("searchbox").fill("on and on")
    assert [len(name) for name in classes_shown(page)] == [200]
    page.get_by_role("checkbox", name="Show 3: a name that goes on").check()
    expect(page.locator("#curves figure").first).to_have_attribute("aria-label", re.compile("one: 3: a name"))
    expect(page.get_by_role("figure", name="Confusion matrix of 25 classes and background")).to_be_visible()


def test_a_few_thousand_classes_have_their_intervals_only_on_request(show: Open) -> None:
    """And as many as are asked for."""
    num = 10_000
    box = np.array([[0, 0, 9, 9]]) + 20 * (np.arange(num)[:, None] % 50)
    image = np.arange(num) // 50
    truths = Truths(image_ids=image, labels=np.arange(num) % 5000, boxes=box)
    found = Detections(image_ids=image, labels=np.arange(num) % 5000, scores=np.ones(num), boxes=box)
    result = boxscore.evaluate(found, truths, Protocol.named("coco", areas={"all": (0, None)}, limits=(100,)))
    assert default_resamples(result) == 1000
    assert default_resamples(boxscore.evaluate(found, truths)) == 0
    page = show(boxscore.evaluate(found, truths).to_html(resamples=3))
    expect(page.locator("#summary .caption")).to_contain_text("3 resamples of 200 images")
    assert page.locator("#summary .note").count() == 0
