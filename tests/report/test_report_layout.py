"""How the report looks in a real browser: on every screen, in the dark, on paper, with long names and many models."""

from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import expect

import boxscore
from boxscore import Detections, Truths
from boxscore.report.html import make_report
from tests.support.pages import Open, boxes_too_narrow

CLASSES = [
    "pedestrian crossing the road with a bicycle and a shopping bag",
    "construction_vehicle_with_extended_crane_arm_and_warning_lights",
    "日本語のとても長いクラス名は折り返しが必要です",
    "dog",
    "x" * 70,
]
FILES = [
    "runs/2024-11-03_yolox_nano_416_coco_pretrained_epoch300_ema_finetuned_on_site_data_v7.json",
    "runs/2025-02-17_rtdetr_r50vd_640_objects365_then_coco_epoch72_finetuned_on_site_data_v9.json",
    "runs/baseline.json",
]


@pytest.fixture(scope="module")
def long_names() -> dict[str, boxscore.Result]:
    """Three models with long names, on classes and images with long names."""
    random = np.random.default_rng(0)
    num, num_images = 400, 60
    image, label = random.integers(0, num_images, num), random.integers(0, len(CLASSES), num)
    corner = random.uniform(0, 400, (num, 2))
    box = np.concatenate([corner, corner + random.uniform(20, 150, (num, 2))], axis=1)
    files = {i: f"a/folder/of/images/from/the/site/camera_{i:04d}_2024-11-03T12-00-00.jpg" for i in range(num_images)}
    truths = Truths(image_ids=image, labels=label, boxes=box, class_names=CLASSES, image_names=files)
    results = {}
    for i, file in enumerate(FILES):
        seen = np.where(random.random(num) < 0.2, random.integers(0, len(CLASSES), num), label)
        moved = box + random.normal(0, 2 + i, (num, 1))
        found = Detections(image_ids=image, labels=seen, scores=random.random(num), boxes=moved)
        results[file] = boxscore.evaluate(found, truths)
    return results


@pytest.fixture(scope="module", params=[2, 3])
def compared(request: pytest.FixtureRequest, long_names: dict[str, boxscore.Result]) -> str:
    """The report on a comparison of two or three of them."""
    some = {name: long_names[name] for name in FILES[: request.param]}
    return boxscore.compare(some, resamples=100).to_html(title=f"{', '.join(some)} on instances_of_the_site.json")


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
    """What kinds of errors mean is read whole, and so are all numbers."""
    page = show(html, width=width)
    assert [name for name in boxes_too_narrow(page) if name != "Classes" or width >= 1280] == []


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


@pytest.mark.parametrize("width", [929, 1000, 1280, 1920])
def test_several_models_with_long_names_fit_every_desktop(show: Open, compared: str, width: int) -> None:
    """The summary, the differences and the navigation are seen whole; the title has two lines at most."""
    page = show(compared, width=width)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    too_narrow = boxes_too_narrow(page)
    assert [name for name in too_narrow if name != "Classes"] == []  # of 15 columns, on small screens
    assert width < 1280 or "Classes" not in too_narrow
    links = page.evaluate(
        """() => [...document.querySelectorAll("nav a")].map((link) => {
            const { left, right, bottom } = link.getBoundingClientRect();
            return left >= 0 && right <= innerWidth && bottom <= document.querySelector(".top").offsetHeight;
        })"""
    )
    assert len(links) == 11
    assert all(links)
    lines = "(h1) => h1.getBoundingClientRect().height / parseFloat(getComputedStyle(h1).lineHeight)"
    assert page.locator("h1").evaluate(lines) <= 2.1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_several_models_with_long_names_fit_a_phone(show: Open, compared: str, scheme: str) -> None:
    """With every difference and its p-value in sight, and names in no more than three lines."""
    page = show(compared, width=390, has_touch=True, is_mobile=True, color_scheme=scheme)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    for label in ("Differences between", "Differences by class"):
        table = page.get_by_role("table", name=label)
        for name in ("difference", "p"):
            head = table.get_by_role("columnheader", name=name, exact=True).bounding_box()
            assert head is not None
            assert 0 <= head["x"] < head["x"] + head["width"] <= 390
    assert [name for name in boxes_too_narrow(page) if name != "Classes"] == []
    heights = page.evaluate(
        """() => [...document.querySelectorAll("tbody th .clamp")].map((name) =>
            name.getBoundingClientRect().height / parseFloat(getComputedStyle(name).lineHeight))"""
    )
    assert max(heights) <= 3.1
    assert page.locator("h1").evaluate("(h1) => h1.getBoundingClientRect().height") < 60


def test_models_are_told_apart_by_both_ends_of_their_names(show: Open, long_names: dict[str, boxscore.Result]) -> None:
    """Short names are all different; what they stand for is said when they are pointed at."""
    result = long_names[FILES[0]]
    names = [f"{'the same beginning ' * 4}{i}{' and the same end' * 4}" for i in range(3)]
    page = show(make_report(dict.fromkeys(names, result), intervals={}))
    heads = page.get_by_role("table", name="All numbers").locator("thead th bdi")
    assert len(set(heads.all_text_contents())) == 3
    assert [head.get_attribute("title") for head in heads.all()] == names


CONTRASTS = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const page = parse(getComputedStyle(document.body).backgroundColor);
    const cells = [...document.querySelectorAll("#confusion .mark-rect path")];
    return [...document.querySelectorAll("#confusion .mark-text text")].flatMap((text) => {
        const at = text.getBoundingClientRect(), [x, y] = [at.left + at.width / 2, at.top + at.height / 2];
        const cell = cells.find((each) => {
            const box = each.getBoundingClientRect();
            return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
        });
        if (!cell) return []; // a label of an axis
        const style = getComputedStyle(cell), alpha = Number(style.fillOpacity), fill = parse(style.fill);
        const below = light(page.map((value, i) => value + alpha * (fill[i] - value)));
        const ink = light(parse(getComputedStyle(text).fill));
        return [(Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05)];
    });
}"""


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_numbers_of_the_matrix_are_read_on_every_shade(
    show: Open, scheme: Literal["light", "dark"], media: Literal["screen", "print"]
) -> None:
    """A contrast of 4.5 to 1, as WCAG asks of text, for shares from 2 to 100 %."""
    num, num_classes = 500, 10
    label = np.arange(num) % num_classes
    seen = np.where(np.arange(num) // num_classes < 5 * label, label, (label + 1 + np.arange(num) // 100) % num_classes)
    box = np.array([[0, 0, 9, 9]]) + 20 * np.arange(num)[:, None]
    truths = Truths(image_ids=[0] * num, labels=label, boxes=box)
    protocol = boxscore.Protocol.named("coco", limits=(None,))
    found = Detections(image_ids=[0] * num, labels=seen, scores=np.ones(num), boxes=box)
    page = show(boxscore.evaluate(found, truths, protocol).to_html(resamples=0), color_scheme=scheme)
    page.emulate_media(media=media, color_scheme=scheme)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 30
    assert min(contrasts) >= 4.5


def test_on_paper_headings_stay_with_their_charts_and_hints_are_gone(show: Open, compared: str) -> None:
    """What only a screen can do is not printed; names are printed whole."""
    page = show(compared)
    for hint in ("Hover over", "to sort"):
        assert hint in page.locator("main").inner_text()
    page.emulate_media(media="print")
    words = page.locator("main").inner_text()
    assert "Hover over" not in words
    assert "to sort" not in words
    expect(page.get_by_role("combobox")).to_have_count(0)
    parted = page.evaluate(
        """() => {
            const style = (each) => getComputedStyle(each);
            const heads = [...document.querySelectorAll("h2, h3, .caption, .chips, .against")];
            const wholes = [...document.querySelectorAll(
                "figure, .caption, #curves .together, .row, #errors .pair, tr")];
            return [...heads.filter((each) => style(each).breakAfter !== "avoid"),
                ...wholes.filter((each) => style(each).breakInside !== "avoid")].map((each) => each.outerHTML);
        }"""
    )
    assert parted == []
    assert page.locator("h1").evaluate("(h1) => h1.scrollHeight <= h1.clientHeight + 1")
    assert page.pdf(format="A4").startswith(b"%PDF-")
