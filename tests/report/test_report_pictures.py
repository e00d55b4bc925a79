"""The pictures of a report in a real browser: hidden, enlarged, by mouse and by keys; and safe."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import boxscore
from boxscore import Detections, Result, Truths
from boxscore.cli import main, sample
from tests.support.pages import DETECTIONS, HOSTILE, TRUTHS, Open, write_fewer
from tests.support.photos import photo, write_photos


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images of the sample, made up."""
    return write_photos(tmp_path_factory.mktemp("pictures") / "images", sample.load()[1])


@pytest.fixture(scope="module")
def pictured(result: Result, folder: Path) -> str:
    """The report on the sample with pictures."""
    return result.to_html(image_folder=folder, num_pictures=6, resamples=0)


def names_of(page: Page) -> list[str]:
    """The images of the gallery, in their order."""
    return page.locator("#images .thumb .name").all_text_contents()


def test_the_worst_images_have_pictures(show: Open, pictured: str, result: Result) -> None:
    """In the order of `worst_images`, with its counts; the image itself is loaded."""
    page, worst = show(pictured), result.worst_images(num=6)
    assert names_of(page) == list(worst.name)
    for row, thumb in enumerate(page.locator("#images .thumb").all()):
        counts = f"{worst.num_false[row]} false, {worst.num_unfound[row]} missed, {worst.num_true[row]} true"
        expect(thumb).to_contain_text(counts)
        assert thumb.locator(".shape.false").count() == worst.num_false[row]
        assert thumb.locator(".shape.missed").count() == worst.num_unfound[row]
        assert thumb.locator(".shape.true").count() == worst.num_true[row]
    href = str(page.locator("#images .thumb image").first.get_attribute("href"))
    loaded = """(href) => new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve([image.naturalWidth, image.naturalHeight]);
        image.onerror = reject;
        image.src = href;
    })"""
    assert page.evaluate(loaded, href) == [640, 480]


def test_kinds_can_be_hidden(show: Open, pictured: str) -> None:
    """Everywhere at once; found truths and ignored ones are hidden at first."""
    page = show(pictured)
    boxes = page.locator("#images .gallery > .controls")
    shapes = page.locator("#images .thumb").first
    expect(shapes.locator(".shape.true").first).to_be_visible()
    expect(shapes.locator(".shape.matched").first).to_be_hidden()
    boxes.get_by_role("checkbox", name="true positives").uncheck()
    boxes.get_by_role("checkbox", name="found truths").check()
    expect(shapes.locator(".shape.true").first).to_be_hidden()
    expect(shapes.locator(".shape.matched").first).to_be_visible()
    shapes.click()
    viewer = page.locator("#images dialog")
    expect(viewer.locator(".shape.true").first).to_be_hidden()
    expect(viewer.get_by_role("checkbox", name="true positives")).not_to_be_checked()
    viewer.get_by_role("checkbox", name="true positives").check()
    expect(viewer.locator(".shape.true").first).to_be_visible()
    expect(viewer.locator("text.true").first).to_be_visible()
    viewer.get_by_role("checkbox", name="class names").uncheck()
    expect(viewer.locator("text.true").first).to_be_hidden()


def test_kinds_differ_without_colour(show: Open, pictured: str) -> None:
    """By their dashes, and by the marks before the names of classes."""
    page = show(pictured)
    page.locator("#images .thumb").first.click()
    viewer = page.locator("#images dialog")
    dashes = {
        kind: viewer.locator(f".shape.{kind} .line").first.evaluate("(line) => getComputedStyle(line).strokeDasharray")
        for kind in ("true", "false", "missed")
    }
    assert len(set(dashes.values())) == 3
    words = {kind: str(viewer.locator(f"text.{kind}").first.text_content()) for kind in dashes}
    assert [words[kind].split()[0] for kind in ("true", "false", "missed")] == ["✓", "✗", "missed"]
    tip = str(viewer.locator(".shape.false title").first.text_content())
    assert re.fullmatch(r"false positive: ✗ \w+ \d\.\d\d", tip)


def test_a_picture_opens_and_leads_to_the_others_by_keys(show: Open, pictured: str, result: Result) -> None:
    """Enter opens it, arrows move on and around, Escape closes it and returns to the last one."""
    page, names = show(pictured), result.worst_images(num=6).name
    page.locator("#images .thumb").nth(1).focus()
    page.keyboard.press("Enter")
    viewer = page.get_by_role("dialog", name="Pictures of the worst images")
    expect(viewer.get_by_role("heading")).to_have_text(names[1])
    expect(viewer.get_by_role("status")).to_contain_text("2 of 6. ")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(viewer.get_by_role("heading")).to_have_text(names[5])
    page.keyboard.press("ArrowRight")
    expect(viewer.get_by_role("heading")).to_have_text(names[0])
    viewer.get_by_role("button", name="Next").click()
    expect(viewer.get_by_role("heading")).to_have_text(names[1])
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()
    expect(page.locator("#images .thumb").nth(1)).to_be_focused()


@pytest.mark.parametrize("width", [360, 1280])
def test_pictures_fit_the_screen(width: int, show: Open, pictured: str) -> None:
    """The page does not scroll sideways, and neither does a large picture, on phones, too."""
    page = show(pictured, width=width, color_scheme="dark")
    page.locator("#images .thumb").first.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    box = page.locator("#images dialog .picture").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 900


def test_names_in_pictures_are_text(show: Open, tmp_path: Path) -> None:
    """Of images and of classes."""
    num = len(HOSTILE)
    box = [[2, 2, 20, 20]] * num
    photo((64, 48)).save(tmp_path / "0.png")
    truths = Truths(image_ids=[0] * num, labels=range(num), boxes=box, class_names=HOSTILE)
    found = Detections(
        image_ids=[0] * num, labels=[*range(1, num), 0], scores=[0.9] * num, boxes=[[40, 2, 60, 20]] * num
    )
    page = show(boxscore.evaluate(found, truths).to_html(image_folder=tmp_path, resamples=0))
    page.locator("#images .thumb").click()
    shown = page.locator("#images dialog text").all_text_contents()
    assert any(HOSTILE[0] in text for text in shown)
    assert page.locator("img, svg[onload]").count() == 0
    assert page.locator("script").count() == 3


def test_only_a_report_with_pictures_may_load_images(html: str, pictured: str) -> None:
    """Those inside of the file; a report without them is as it was."""
    assert "img-src" not in html
    assert "hiddenKinds" not in html
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', pictured)
    assert policy is not None
    assert policy[1].endswith("; img-src data:")
    assert "default-src 'none'" in policy[1]


def test_every_model_has_its_own_pictures(show: Open, folder: Path, tmp_path: Path) -> None:
    """By the command, for two models; the selection changes with the model."""
    out = tmp_path / "report.html"
    words = ["--html", str(out), "--images", str(folder), "--num-pictures", "4", "--bootstrap", "0", "--quiet"]
    assert main(["eval", TRUTHS, f"all={DETECTIONS}", f"fewer={write_fewer(tmp_path)}", *words]) == 0
    page = show(out.read_text())
    first = names_of(page)
    page.get_by_role("combobox", name="Model").select_option("fewer")
    assert len(first) == len(names_of(page)) == 4
    truths = boxscore.read_truths(TRUTHS)
    fewer = boxscore.evaluate(boxscore.read_detections(tmp_path / "fewer.json", truths), truths)
    assert names_of(page) == list(fewer.worst_images(num=4).name)


def test_a_comparison_has_pictures_too(show: Open, folder: Path, tmp_path: Path) -> None:
    """Of the selected model."""
    out = tmp_path / "comparison.html"
    words = ["--html", str(out), "--images", str(folder), "--bootstrap", "20", "--quiet"]
    assert main(["compare", TRUTHS, DETECTIONS, write_fewer(tmp_path), *words]) == 0
    assert len(names_of(show(out.read_text()))) == 24


def test_a_stream_has_no_pictures_and_says_so(show: Open, folder: Path) -> None:
    """It discards what it has matched."""
    detections, truths = sample.load()
    metric = boxscore.MeanAveragePrecision("coco", class_names=truths.class_names)
    metric.update(detections, truths)
    page = show(metric.compute().to_html(image_folder=folder, resamples=0))
    expect(page.locator("#images")).to_contain_text("Pictures need the detections and truths")
    assert page.locator("#images .thumb").count() == 0


def test_missing_files_are_said_on_the_page_and_by_the_command(
    show: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is written all the same."""
    empty, out = tmp_path / "empty", tmp_path / "report.html"
    empty.mkdir()
    words = ["--html", str(out), "--images", str(empty), "--num-pictures", "3", "--bootstrap", "0"]
    assert main(["eval", TRUTHS, DETECTIONS, *words]) == 0
    note = f"3 of the worst images have no picture: {empty} has no file, or several, named street_"
    assert note in capsys.readouterr().err
    expect(show(out.read_text()).locator("#images .note")).to_contain_text(note)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--images", "."], "argument --images: needs --html; to evaluate only some images, use --only-images"),
        (["--html", "x.html", "--num-pictures", "3"], "argument --num-pictures: needs --images"),
        (["--html", "x.html", "--picture-bytes", "1MB"], "argument --picture-bytes: needs --images"),
    ],
)
def test_options_that_need_others_say_so(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A usage error."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["eval", TRUTHS, DETECTIONS, *words])
    assert message in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_an_error_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    words = ["--html", str(tmp_path / "x.html"), "--images", str(tmp_path / "no")]
    for command in (["eval", TRUTHS, DETECTIONS], ["compare", TRUTHS, DETECTIONS, DETECTIONS]):
        with pytest.raises(SystemExit, match="2"):
            main([*command, *words])
        assert "argument --images: must be a folder of images; got" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
