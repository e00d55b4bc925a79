"""Pictures: what is drawn is what was matched, and files are found, read and refused as documented."""

import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import boxscore
from boxscore import Detections, InputError, Result, Truths
from boxscore.cli import sample
from boxscore.data import Masks
from boxscore.report.gallery import Gallery, describe_gallery
from boxscore.report.image_files import ImageFolder, UnreadableImageError, read_photo
from boxscore.report.pictures import Drawer, Picture
from tests.support import oracles
from tests.support.photos import photo, write_photos

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images of the sample, made up."""
    return write_photos(tmp_path_factory.mktemp("pictures") / "images", sample.load()[1])


def black(width: int = 64, height: int = 48) -> np.ndarray:
    """An image without content."""
    return np.zeros((height, width, 3), np.uint8)


def shapes_by_kind(picture: Picture) -> dict[str, list[tuple[str, str]]]:
    """The lines and the text of each shape, by kind."""
    found: dict[str, list[tuple[str, str]]] = {}
    for shape in picture.shapes:
        found.setdefault(shape.kind, []).append((shape.paths.lines, shape.label))
    return found


def test_a_picture_has_what_was_matched_by_hand() -> None:
    """One found, one on background, one missed, one crowd, and a detection that the crowd took."""
    truths = Truths(
        image_ids=[0, 0, 0],
        labels=[1, 1, 1],
        boxes=[[2, 2, 20, 20], [30, 30, 50, 40], [0, 40, 20, 48]],
        ignore=[False, False, True],
        class_names={1: "dog"},
    )
    box = [[2, 2, 20, 19], [50, 2, 60, 9], [2, 41, 12, 47]]
    detections = Detections(image_ids=[0, 0, 0], labels=[1, 1, 1], scores=[0.9, 0.4, 0.3], boxes=box)
    picture = boxscore.report.draw(black(), detections, truths)
    assert shapes_by_kind(picture) == {
        "true": [("M2 2L20 2L20 19L2 19Z", "✓ dog 0.90")],
        "false": [("M50 2L60 2L60 9L50 9Z", "✗ dog 0.40")],
        "missed": [("M30 30L50 30L50 40L30 40Z", "missed dog")],
        "matched": [("M2 2L20 2L20 20L2 20Z", "dog")],
        "ignored": [("M2 41L12 41L12 47L2 47Z", "dog 0.30"), ("M0 40L20 40L20 48L0 48Z", "dog")],
    }
    assert repr(picture) == "Picture(0: 1 true positive, 1 false positive, 1 truth not found)"


def test_detections_below_the_score_are_left_out() -> None:
    """Their truths are not found, then."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[2, 2, 20, 20]])
    detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.4], boxes=[[40, 2, 60, 20], [2, 2, 20, 20]])
    assert boxscore.report.draw(black(), detections, truths).num("true") == 1
    picture = boxscore.report.draw(black(), detections, truths, score=0.5)
    assert [picture.num(kind) for kind in ("true", "false", "missed")] == [0, 1, 1]


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "class-agnostic"])
def test_pictures_have_the_counts_of_the_worst_images(protocol: Any, folder: Path) -> None:
    """The same ranking, the same score threshold, the same verdicts."""
    rules = boxscore.Protocol.named("coco", class_agnostic=True) if protocol == "class-agnostic" else protocol
    result = boxscore.evaluate(*sample.load(), rules)
    worst = result.worst_images(num=None)
    drawer = Drawer(result)
    assert drawer.score == worst.score
    for row, image in enumerate(worst.image.tolist()):
        kinds = [shape.kind for shape in drawer.shapes(image, (640, 480), (640, 480))]
        counts = [kinds.count(kind) for kind in ("true", "false", "missed")]
        assert counts == [worst.num_true[row], worst.num_false[row], worst.num_unfound[row]]


def test_a_result_draws_its_images_by_id_and_by_name(result: Result, folder: Path) -> None:
    """With the file in the folder, at the size of the truths."""
    picture = result.draw("street_003.jpg", folder)
    assert picture.svg == result.draw(3, folder).svg == result.draw(3, pixels=folder / "street_003.jpg").svg
    assert (picture.width, picture.height, picture.name) == (640, 480, "street_003.jpg")


def test_the_svg_is_well_formed_and_has_every_shape(result: Result, folder: Path) -> None:
    """One group per shape and three in the legend; the text says which class, and not by colour alone."""
    picture = result.draw(3, folder)
    root = ElementTree.fromstring(picture.svg)
    groups = [str(group.get("class")) for group in root.iter(f"{SVG}g")]
    assert groups == [f"shape {shape.kind}" for shape in picture.shapes] + [
        f"shape {kind}" for kind in ("true", "false", "missed")
    ]
    texts = [text.text for text in root.iter(f"{SVG}text") if "words" in str(text.get("class"))]
    assert texts == [shape.label for shape in picture.shapes if shape.kind in ("true", "false", "missed")]
    assert picture._repr_svg_() == picture.svg


def test_names_are_text_in_an_svg_file(tmp_path: Path) -> None:
    """Markup, control characters and half characters, too."""
    name = "</text><script>alert(1)</script> & \0 \ud800 \u202e"
    truths = Truths(image_ids=[0], labels=[1], boxes=[[2, 2, 20, 20]], class_names={1: name}, image_names={0: name})
    detections = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    boxscore.report.draw(black(), detections, truths).save(tmp_path / "picture.svg")
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    assert [each for each in root.iter() if each.tag.endswith("script")] == []
    assert "</text><script>alert(1)</script> &" in "".join(root.itertext())


def test_oriented_boxes_masks_and_poses_have_their_own_lines() -> None:
    """Four corners; an outline that is filled; points, and lines between those that are labelled."""
    none: dict[str, Any] = {"image_ids": [], "labels": [], "scores": []}
    corners = [[10, 0, 20, 10, 10, 20, 0, 10]]
    truths = Truths(image_ids=[0], labels=[1], boxes=corners, box_format="xyxyxyxy")
    found = Detections(**none, boxes=np.zeros((0, 8)), box_format="xyxyxyxy")
    (shape,) = boxscore.report.draw(black(), found, truths).shapes
    assert shape.paths.lines == "M10 0L20 10L10 20L0 10Z"
    pixels = np.zeros((1, 48, 64), bool)
    pixels[0, 5:15, 10:30] = True
    pixels[0, 8:10, 14:20] = False
    found = Detections(**none, masks=Masks.from_pixels(np.zeros((0, 48, 64), bool)))
    (shape,) = boxscore.report.draw(black(), found, Truths(image_ids=[0], labels=[1], masks=pixels)).shapes
    assert shape.is_area
    assert shape.paths.lines == "M10 5L30 5L30 15L10 15ZM14 8L14 10L20 10L20 8Z"
    point = np.zeros((1, 17, 3))
    point[0, 5], point[0, 6], point[0, 7] = (10, 10, 2), (30, 10, 2), (12, 20, 2)
    found = Detections(**none, keypoints=np.zeros((0, 17, 3)))
    truths = Truths(image_ids=[0], labels=[1], keypoints=point, area=[400.0])
    (shape,) = boxscore.report.draw(black(), found, truths, protocol="coco_keypoints").shapes
    assert (shape.paths.lines, shape.paths.dots) == ("M10 10L30 10M10 10L12 20", "M10 10h0M30 10h0M12 20h0")


def test_boxes_as_fractions_are_drawn_in_pixels() -> None:
    """As YOLO's files have them."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.5, 0.5, 0.5, 0.5]], box_format="cxcywh", _is_normalized=True)
    detections = Detections(image_ids=[], labels=[], scores=[], boxes=[], box_format="cxcywh")
    (shape,) = boxscore.report.draw(black(), detections, truths).shapes
    assert shape.paths.lines == "M16 12L48 12L48 36L16 36Z"


def test_a_large_image_is_drawn_smaller_with_its_shapes() -> None:
    """960 pixels at most; 4000 x 2000 become 960 x 480."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 1000, 4000, 2000]])
    detections = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    picture = boxscore.report.draw(black(4000, 2000), detections, truths)
    assert (picture.width, picture.height) == (960, 480)
    assert picture.shapes[0].paths.lines == "M0 240L960 240L960 480L0 480Z"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, f: r.draw(99, f), "`image` must be the id or the name of an image of this result; got 99"),
        (lambda r, f: r.draw("x.jpg", f), "`image` must be an id, or the name of one image; got 'x.jpg'"),
        (lambda r, _: boxscore.report.draw(black(), r, r), "`detections` must be boxscore.Detections; got Result"),
        (lambda r, _: r.draw(3), "one of `image_folder` and `pixels` must be given, and not both"),
        (lambda r, f: r.draw(3, f / "no"), "`image_folder` must be a folder of images; got "),
        (lambda r, _: r.draw(3, 7), "`image_folder` must be the path of a folder; got int"),
        (lambda r, f: r.draw(3, f).save("picture.png"), "`path` must end in .svg; got 'picture.png'"),
        (lambda r, f: r.draw(3, f).num("wrong"), "`kind` must be one of ignored, matched, true, missed, false; got"),
        (
            lambda r, _: r.draw(3, pixels=np.zeros((4, 4))),
            "`image` must be a path, an image of Pillow, or an array of bytes with shape (H, W), (H, W, 3) or"
            " (H, W, 4); got ndarray of shape (4, 4), float64",
        ),
        (lambda r, _: r.to_html(num_pictures=3), "`num_pictures` must be given with `image_folder`; got no folder"),
        (lambda r, f: r.to_html(image_folder=f, num_pictures=0), "`num_pictures` must be a positive integer; got 0"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(call: object, message: str, result: Result, folder: Path) -> None:
    """It names the argument, the rule and what came."""
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        call(result, folder)  # type: ignore[operator]


def test_rows_of_several_images_need_an_id() -> None:
    """Else it is not known which are drawn."""
    truths = Truths(image_ids=[0, 1], labels=[1, 1], boxes=[[2, 2, 20, 20]] * 2)
    detections = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    with pytest.raises(InputError, match=r"^`image_id` must be given, as the rows are of 2 images$"):
        boxscore.report.draw(black(), detections, truths)
    assert boxscore.report.draw(black(), detections, truths, image_id=1).num("missed") == 1


def test_files_are_found_by_path_name_stem_and_number(tmp_path: Path) -> None:
    """In subfolders, too; of several, the one whose folders agree; a file outside is never found."""
    for name in ("a/1.jpg", "b/1.jpg", "b/two.png", "000000000007.jpg", "notes.txt", "c/d/deep.JPG"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "outside.jpg").touch()
    images = ImageFolder.opened(tmp_path / "images")

    def found(image: int, name: str | None) -> str | None:
        path = images.find(image, name)
        return None if path is None else path.relative_to(tmp_path / "images").as_posix()

    assert found(0, "a/1.jpg") == "a/1.jpg"
    assert found(0, "train/b/1.jpg") == "b/1.jpg"
    assert found(0, "1.jpg") is None  # two of them
    assert found(0, "val\\two") == "b/two.png"
    assert found(0, "deep.JPG") == "c/d/deep.JPG"
    assert found(7, None) == "000000000007.jpg"
    assert found(8, None) is None
    assert found(0, "../outside.jpg") is None
    assert found(0, "C:/outside.jpg") is None
    assert found(0, "x" * 5000) is None
    assert found(0, str(tmp_path / "outside.jpg")) is None
    assert found(0, "notes.txt") == "notes.txt"  # a name in the truths; no image, as reading it says


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_links_out_of_the_folder_and_pipes_are_not_found(tmp_path: Path) -> None:
    """Neither by path nor by name; a link inside of the folder is. A pipe would be waited for."""
    inside, outside = tmp_path / "images", tmp_path / "outside"
    for each in (inside / "sub", outside):
        each.mkdir(parents=True)
        photo((8, 8)).save(each / "real.png")
    (inside / "out.png").symlink_to(outside / "real.png")
    (inside / "sub" / "out2.png").symlink_to(outside / "real.png")
    (inside / "folder").symlink_to(outside)
    (inside / "5.png").symlink_to(inside / "sub" / "real.png")
    (inside / "lost.png").symlink_to(inside / "nothing.png")
    os.mkfifo(inside / "pipe.png")
    images = ImageFolder.opened(inside)
    for name in ("out.png", "out2.png", "folder/real.jpeg", "lost.png", "pipe.png", "pipe"):
        path = images.find(0, name)
        assert path is None or path == inside / "sub" / "real.png", name
    assert images.find(5, None) == images.find(0, "5.png") == inside / "5.png"
    for path, why in ((inside / "pipe.png", "is not a regular file"), (inside, "Is a directory")):
        with pytest.raises(UnreadableImageError, match=f"^{why}$"):
            read_photo(path, None, 960)
    assert ImageFolder.opened(inside / "folder").find(0, "real.png") == inside / "folder" / "real.png"


def test_the_size_of_the_truths_decides_whether_a_photo_is_turned(tmp_path: Path) -> None:
    """COCO's boxes refer to stored pixels, those of other tools to the image as displayed."""
    stored = photo((40, 30))
    exif = Image.Exif()
    exif[0x0112] = 6  # displayed: turned by a quarter
    stored.save(tmp_path / "turned.png", exif=exif)
    as_stored = read_photo(tmp_path / "turned.png", (40, 30), 960)
    assert (as_stored.pixels.size, as_stored.notes) == ((40, 30), ())
    assert np.array_equal(np.asarray(as_stored.pixels), np.asarray(stored))
    as_displayed = read_photo(tmp_path / "turned.png", (30, 40), 960)
    assert as_displayed.notes == ()
    assert np.array_equal(np.asarray(as_displayed.pixels), np.asarray(stored.transpose(Image.Transpose.ROTATE_270)))
    assert read_photo(tmp_path / "turned.png", None, 960).pixels.size == (40, 30)


def test_another_size_than_the_truths_have_is_said(tmp_path: Path) -> None:
    """The file is drawn at the size of the truths, so that shapes are where they belong."""
    photo((40, 30)).save(tmp_path / "small.png")
    read = read_photo(tmp_path / "small.png", (80, 60), 960)
    assert read.pixels.size == read.size == (80, 60)
    assert read.notes == ("the file has 40 x 30 pixels, the truths say 80 x 60: the file is drawn at that size",)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "1", "I;16", "F"])
def test_every_kind_of_pixels_becomes_a_picture(mode: str, tmp_path: Path) -> None:
    """Deeper greys are scaled to 8 bits: not all white, nor all black."""
    values = np.arange(48 * 64).reshape(48, 64) / 4
    if mode == "I;16":
        image = Image.fromarray(values.astype(np.uint16) * 50)
    elif mode == "F":
        image = Image.fromarray(values.astype(np.float32))
    else:
        image = photo((64, 48)).convert(mode)
    path = tmp_path / "image.tif"
    image.save(path)
    pixels = np.asarray(read_photo(path, None, 960).pixels)
    assert pixels.shape == (48, 64, 3)
    assert np.unique(pixels).size > 1


def png_file(side: int, *, bits: int, kind: int, pixels: bytes) -> bytes:
    """A square PNG; `kind`: 0 for greys, 2 for colours."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", side, side, bits, kind, 0, 0, 0)
    data = zlib.compress(pixels, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_files_that_are_no_images_are_refused(tmp_path: Path) -> None:
    """Huge, cut, other files, folders: each with its reason, and without a warning."""
    path = tmp_path / "image.png"

    def why(content: bytes) -> str:
        path.write_bytes(content)
        with pytest.raises(UnreadableImageError) as caught:
            read_photo(path, None, 960)
        return str(caught.value)

    photo((64, 48)).save(path)
    whole = path.read_bytes()
    assert re.fullmatch(r"has more than [\d,]+ pixels", why(png_file(100_000, bits=8, kind=2, pixels=b"0")))
    assert why(whole[: len(whole) // 2]).startswith("is damaged: ")
    assert why(b"no image") == why(b"") == "is not an image that Pillow can read"


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_no_program_is_started_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow would have Ghostscript run PostScript, whatever the file is named."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (programs / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    (tmp_path / "a.png").write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with pytest.raises(UnreadableImageError, match="is not an image that Pillow can read"):
        read_photo(tmp_path / "a.png", None, 960)
    assert not (tmp_path / "started").exists()


_PEAK = """
import resource, sys
from boxscore.report.image_files import UnreadableImageError, read_photo
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(read_photo(sys.argv[1], None, 960).pixels.size)
except UnreadableImageError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in Linux' units")
@pytest.mark.parametrize(
    ("side", "answer", "megabytes"), [(9_400, "(960, 960)", 500), (13_000, "has more than 89,478,485 pixels", 50)]
)
def test_a_small_file_of_deep_greys_takes_little_memory(side: int, answer: str, megabytes: int, tmp_path: Path) -> None:
    """A few hundred kilobytes of zeros, of 16 bits each: within Pillow's limit they are scaled in blocks."""
    (tmp_path / "deep.png").write_bytes(png_file(side, bits=16, kind=0, pixels=bytes(side * (2 * side + 1))))
    assert (tmp_path / "deep.png").stat().st_size < 400_000
    command = [sys.executable, "-c", _PEAK, str(tmp_path / "deep.png")]
    said, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == answer
    assert int(peak) < megabytes


def test_a_file_that_is_no_image_is_refused_beside_ultralytics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which replaces Pillow's function, and imports a package for another format that is not installed."""
    monkeypatch.setattr(Image, "open", oracles.ultralytics("utils.patches").image_open)
    (tmp_path / "image.heic").write_bytes(b"no image")
    with pytest.raises(UnreadableImageError, match="is not an image that Pillow can read"):
        read_photo(tmp_path / "image.heic", None, 960)
    with pytest.raises(UnreadableImageError, match=r"^Is a directory$"):
        read_photo(tmp_path, None, 960)


def test_a_size_of_zero_is_unknown() -> None:
    """The file's own size is taken, then."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[2, 2, 20, 20]], image_sizes={0: (0, 0)})
    picture = boxscore.report.draw(black(), Detections(image_ids=[], labels=[], scores=[], boxes=[]), truths)
    assert (picture.width, picture.height) == (64, 48)


def test_without_pillow_the_error_names_the_extra(
    result: Result, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is computed."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    for call in (lambda: result.draw(3, folder), lambda: result.to_html(image_folder=folder)):
        with pytest.raises(InputError, match=r"^pictures need Pillow, to read images: pip install 'boxscore\[pict"):
            call()


def test_a_missing_file_leaves_a_warning_and_the_rest(result: Result, folder: Path, tmp_path: Path) -> None:
    """How many are missing, with an example; and which can't be read."""
    few = tmp_path / "few"
    few.mkdir()
    worst = result.worst_images(num=5).name
    for name in worst[:2]:
        (few / name).write_bytes((folder / name).read_bytes())
    (few / worst[2]).write_bytes(b"no image")
    gallery = Gallery.of(few, 5)
    assert gallery is not None
    with pytest.warns(UserWarning, match="of the worst images") as caught:
        described = describe_gallery(gallery, {"model": result})
    notes = [
        f"2 of the worst images have no picture: {few} has no file, or several, named {worst[3]}",
        f"1 of the worst images has no picture: the file {few / worst[2]} is not an image that Pillow can read",
    ]
    assert [str(each.message) for each in caught] == described["notes"] == notes
    assert [described["images"][image]["name"] for image, _ in described["models"][0]] == list(worst[:2])


@pytest.mark.parametrize(("num_bytes", "num"), [(10_000_000, 8), (100_000, 8), (400, 0)])
def test_pictures_have_no_more_bytes_than_allowed(num_bytes: int, num: int, result: Result, folder: Path) -> None:
    """They are scaled down, and left out in the end; the page says so."""
    gallery = Gallery.of(folder, 8, num_bytes)
    assert gallery is not None
    described = describe_gallery(gallery, {"model": result})
    assert len(described["images"]) == num
    assert sum(len(image["jpeg"]) for image in described["images"].values()) <= num_bytes
    widths = {image["width"] for image in described["images"].values()}
    if num_bytes == 100_000:
        assert max(widths) < 640
    if num == 0:
        assert described["notes"][0].startswith("8 of the worst images have no picture, such as street_")
        assert "all pictures together may have 400 bytes" in described["notes"][0]
    else:
        assert described["notes"] == []


def test_models_share_the_images_that_both_have(result: Result, folder: Path) -> None:
    """An image is in the file once; each model has its own shapes."""
    detections, truths = sample.load()
    other = boxscore.evaluate(*boxscore.formats.select(detections, truths, classes=["car"]))
    gallery = Gallery.of(folder, 40)
    assert gallery is not None
    described = describe_gallery(gallery, {"a": result, "b": other})
    images = [[image for image, _ in model] for model in described["models"]]
    assert set(described["images"]) == {*images[0], *images[1]}
    common = next(image for image in images[0] if image in images[1])
    shapes = [dict(model)[common] for model in described["models"]]
    assert shapes[0] != shapes[1]
