"""Reports on several models in a real browser: side by side, in one chart, and what they differ in."""

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore.cli import main, sample
from boxscore.report.html import make_report
from tests.support.pages import DETECTIONS, TRUTHS, Open, classes_shown, write_fewer

TRUTHS_JSON = json.loads(Path(TRUTHS).read_text())


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
        expect(row).to_contain_text("≤ 0.002")  # the least that 1,000 resamples can show
    expect(page.get_by_role("figure", name="Differences of all numbers")).to_be_visible()
    by_class = page.get_by_role("table", name="Differences by class")
    interval = by_class.get_by_role("columnheader", name="confidence interval", exact=True)
    interval.get_by_role("button").click()
    widest = max(difference["per_class"], key=lambda row: row["ap"]["high"] - row["ap"]["low"])
    expect(by_class.locator("tbody th").first).to_have_text(widest["name"])
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
    expect(page.locator("#summary .caption")).to_contain_text("50 resamples of 40 images")
    assert page.get_by_role("combobox", name="Model").locator("option").all_text_contents() == ["all", "odd", "even"]
    page.get_by_role("combobox", name="Model").select_option("odd")
    expect(page.locator("#summary .caption")).to_contain_text("50 resamples of 20 images")


def test_different_protocols_are_refused() -> None:
    """One report, one set of rules."""
    result = boxscore.evaluate(*sample.load())
    other = boxscore.evaluate(*sample.load(), Protocol.named("coco", thresholds=(0.5,)))
    with pytest.raises(boxscore.InputError, match="must all have one protocol, but for `iou_type`; got different"):
        make_report({"a": result, "b": other})


GAINS = [0.4, -0.6, 0.0, 0.2, -0.1]
"""What the second model of `mixed` is better by, class by class."""


@pytest.fixture(scope="module")
def mixed() -> boxscore.analysis.Comparison:
    """Two models of which each is better at some classes. By hand: 20 truths of each class, in as many images; both
    find 14 of them, and the second some more or fewer.
    """
    num, num_classes = 20, len(GAINS)
    image, label = np.tile(np.arange(num), num_classes), np.repeat(np.arange(num_classes), num)
    box = np.array([[0, 0, 9, 9]]) + 20 * label[:, None]
    names = [f"class {gain:+g}" for gain in GAINS]
    truths = Truths(image_ids=image, labels=label, boxes=box, class_names=names)

    def result_of(num_found: list[int]) -> boxscore.Result:
        is_found = image < np.array(num_found)[label]
        score = np.ones(int(is_found.sum()))
        found = Detections(image_ids=image[is_found], labels=label[is_found], scores=score, boxes=box[is_found])
        return boxscore.evaluate(found, truths, Protocol.named("voc2012"))

    first = [12, 14, 14, 14, 14]
    second = [round(num_first + 20 * gain) for num_first, gain in zip(first, GAINS, strict=True)]
    return boxscore.compare({"the old one": result_of(first), "the new one": result_of(second)}, resamples=200)


def test_the_largest_changes_of_classes_come_first(show: Open, mixed: boxscore.analysis.Comparison) -> None:
    """Gains and losses alike; then, by the title, from gains to losses, and from losses to gains."""
    assert [round(change.difference, 6) for change in mixed.differences[0].ap] == GAINS
    page = show(mixed.to_html())
    table = page.get_by_role("table", name="Differences by class")
    head = table.get_by_role("columnheader", name="difference", exact=True)

    def shown() -> list[float]:
        return [float(name.removeprefix("class ")) for name in table.locator("tbody th").all_text_contents()]

    assert shown() == sorted(GAINS, key=abs, reverse=True)
    expect(head).to_have_attribute("aria-sort", "other")
    head.get_by_role("button").click()
    assert shown() == sorted(GAINS, reverse=True)
    head.get_by_role("button").press("Enter")
    assert shown() == sorted(GAINS)
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    assert shown() == sorted(GAINS, key=abs, reverse=True)


def test_the_axis_of_differences_has_0_in_its_middle_and_both_names(
    show: Open, mixed: boxscore.analysis.Comparison
) -> None:
    """So that which side is better, and by how much, is seen at once."""
    page = show(mixed.to_html())
    chart = page.get_by_role("figure", name="Differences of all numbers")
    ticks = chart.locator("svg .role-axis-label text").all_text_contents()
    values = [float(tick.replace("−", "-")) for tick in ticks if tick[:1] in "+−"]
    assert 0 in values
    assert values == [-value for value in reversed(values)]
    assert page.locator("#comparison .sides span").all_text_contents() == [
        "← the old one is better",
        "the new one is better →",
    ]


def test_curves_of_several_models_are_in_one_chart(show: Open, tmp_path: Path) -> None:
    """A line each, told apart by colour; models are taken out and put back, and a class is drawn for all."""
    report = tmp_path / "report.html"
    files = [TRUTHS, DETECTIONS, write_fewer(tmp_path), "--html", str(report), "--bootstrap", "10", "--quiet"]
    assert main(["eval", *files]) == 0
    page = show(report.read_text())
    charts = page.locator("#curves figure")
    both = "detections.json: mean of classes; fewer.json: mean of classes"
    expect(charts.first).to_have_attribute("aria-label", f"Precision by recall: {both}")
    expect(charts.nth(1)).to_have_attribute("aria-label", f"AP by IoU threshold: {both}")
    strokes = charts.first.locator("svg .mark-line path[aria-label]").evaluate_all(
        "(lines) => lines.map((line) => getComputedStyle(line).stroke)"
    )
    assert len(set(strokes)) == 2
    truths = boxscore.read_truths(TRUTHS)
    results = [boxscore.evaluate(boxscore.read_detections(file, truths), truths) for file in files[1:3]]
    page.get_by_role("checkbox", name="Show dog in the charts").check()
    expect(charts.first.locator("svg path[aria-label='fewer.json: dog']")).to_be_attached()
    page.get_by_role("button", name="Remove detections.json: mean of classes").click()
    expect(charts.first.locator("svg .mark-line path[aria-label]")).to_have_count(2)
    charts.first.scroll_into_view_if_needed()
    charts.first.locator("svg .mark-rule line").nth(30).hover(force=True)
    read = dict(row.split("\t") for row in page.locator("#tip").inner_text().splitlines() if row)
    point = round(100 * float(read.pop("recall")))
    names = ["detections.json: dog", "fewer.json: dog"]
    assert read == {
        name: f"{result.curves.precision[0, point, result.per_class.name.index('dog'), 0, -1]:.3f}"
        for name, result in zip(names, results, strict=True)
    }
    page.get_by_role("checkbox", name="detections.json").uncheck()
    expect(charts.first).to_have_attribute("aria-label", "Precision by recall: dog")
    page.get_by_role("checkbox", name="detections.json").check()
    expect(charts.first).to_have_attribute("aria-label", f"Precision by recall: {'; '.join(names)}")


def test_models_with_different_classes_are_in_one_chart(show: Open) -> None:
    """A class is found by its label, wherever it stands; who does not have it has no line."""
    box = [[0, 0, 9, 9]] * 2
    here, there = (
        boxscore.evaluate(
            Detections(image_ids=[0, 1], labels=labels, scores=[0.9, 0.9], boxes=box),
            Truths(image_ids=[0, 1], labels=labels, boxes=box, class_names={1: "cat", 2: "dog", 3: "eel"}),
        )
        for labels in ([1, 2], [2, 3])
    )
    page = show(make_report({"here": here, "there": there}, intervals={}))
    page.get_by_role("checkbox", name="Show dog in the charts").check()
    page.get_by_role("checkbox", name="Show cat in the charts").check()
    page.get_by_role("button", name="Remove here: mean of classes").click()
    names = "here: dog; there: dog; here: cat; there: cat"
    expect(page.locator("#curves figure").first).to_have_attribute("aria-label", f"Precision by recall: {names}")
