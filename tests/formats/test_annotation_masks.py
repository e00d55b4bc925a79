"""Masks of annotation tools, by hand: LabelMe's shapes and PNG images, CVAT's shapes and run lengths."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Truths
from tests.support.masked_files import labelme_mask, png, png_of
from tests.support.small_files import refused, write

BOTH: dict[str, Any] = {"iou_type": ("bbox", "segm")}


def labelme(folder: Path, *shapes: Any, **more: Any) -> Truths:
    """The masks of a file with these shapes, on an image of 20 x 10 pixels."""
    data = {"imagePath": "a.jpg", "imageWidth": 20, "imageHeight": 10, "shapes": shapes} | more
    write(folder / "a.json", json.dumps(data))
    return boxscore.read_truths(folder, **BOTH)


def test_labelme_shapes_are_masks(tmp_path: Path) -> None:
    """Rectangles by their corners, polygons, circles of 64 corners, and pixels."""
    pixels = np.array([[1, 0, 1], [0, 1, 0]], bool)
    truths = labelme(
        tmp_path,
        {"label": "cat", "points": [[9, 6], [1, 2]], "shape_type": "rectangle"},
        {"label": "dog", "points": [[0, 0], [4, 0], [4, 4], [0, 4]], "shape_type": "polygon", "difficult": True},
        {"label": "dog", "points": [[10, 5], [14, 5]], "shape_type": "circle"},
        labelme_mask(4, 5, pixels),
    )
    assert truths.masks.runs.area.tolist()[:2] == [32, 16]
    assert truths.masks.runs.area[2] == pytest.approx(math.pi * 16, rel=0.05)
    expected = np.zeros((10, 20), bool)
    expected[5:7, 4:7] = pixels
    assert np.array_equal(truths.masks.pixels(3), expected)
    assert np.asarray(truths.ignore).tolist() == [False, True, False, False]


def test_labelme_shapes_of_a_group_are_one_object(tmp_path: Path) -> None:
    """If they have the same label and `group_id`; boxes alone stay as they are."""
    corner = {"label": "cat", "points": [[0, 0], [2, 0], [2, 2], [0, 2]], "group_id": 1}
    other = {"label": "cat", "points": [[10, 5], [12, 5], [12, 9], [10, 9]], "group_id": 1}
    pixels = labelme_mask(5, 5, np.ones((1, 3)), group_id=1)
    truths = labelme(tmp_path, corner, other | {"label": "dog"}, pixels, other, corner | {"group_id": None})
    assert truths.masks.runs.area.tolist() == [4 + 3 + 8, 8, 4]
    assert truths.boxes.tolist() == [[0, 0, 12, 9], [10, 5, 12, 9], [0, 0, 2, 2]]
    assert len(boxscore.read_truths(tmp_path)) == 5
    refused(lambda: labelme(tmp_path, corner | {"group_id": [1]}), "shape 0: `group_id` must be an integer or null")


def test_the_box_of_a_labelme_mask_has_its_last_pixels(tmp_path: Path) -> None:
    """`points` are its first pixel and its last one, so a mask of one pixel has a box of one pixel."""
    truths = labelme(tmp_path, labelme_mask(6, 5, np.ones((5, 10))), labelme_mask(2, 3, np.ones((1, 1))))
    assert truths.boxes.tolist() == [[6, 5, 16, 10], [2, 3, 3, 4]]


@pytest.mark.parametrize(("depth", "color"), [(1, 0), (2, 0), (4, 0), (8, 0), (1, 3), (8, 3)])
def test_png_masks_of_few_bits(tmp_path: Path, depth: int, color: int) -> None:
    """Gray or with a palette; 0 is off."""
    pixels = np.random.default_rng(depth).integers(0, 2**depth, (5, 13)) * np.eye(5, 13, dtype=int)
    text = base64.b64encode(png(pixels, depth=depth, color=color)).decode()
    truths = labelme(tmp_path, labelme_mask(0, 0, pixels) | {"mask": text})
    assert np.array_equal(truths.masks.pixels(0)[:5, :13], pixels > 0)


def broken(shape: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The shape with other values."""
    return shape | values


def coded(content: bytes) -> str:
    """A file in base64."""
    return base64.b64encode(content).decode()


MASK = labelme_mask(4, 5, np.ones((2, 3)))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (broken(MASK, mask=None), "shape 0: `mask` must be a PNG image in base64; got None"),
        (broken(MASK, mask="%"), "shape 0: `mask` must be a PNG image in base64: "),
        (broken(MASK, mask="AAAA"), "shape 0: `mask`: must be a PNG image; got another file"),
        (
            broken(MASK, mask=coded(png_of(bytes(9), 1, 1, color=2))),
            "`mask`: must be a PNG of at most 8 bits per pixel",
        ),
        (
            broken(MASK, mask=coded(png_of(bytes(9), 1, 1, depth=16))),
            "`mask`: must be a PNG of at most 8 bits per pixel",
        ),
        (broken(MASK, mask=coded(png_of(b"", 60_000, 60_000))), "`mask`: would grow from 65 to 3,600,000,000 bytes"),
        (broken(MASK, mask=coded(png_of(b"\7" * 8, 3, 2))), "`mask`: not a whole PNG image: unrecognized data stream"),
        (broken(MASK, mask=MASK["mask"][:60]), "shape 0: `mask`: not a whole PNG image: "),
        (broken(MASK, points=[[4, 5], [7, 6]]), "`mask` must have the 4 x 2 pixels of the box in `points`; got 3 x 2"),
        (broken(MASK, points=[[19, 5], [21, 6]]), "the box of the mask must be inside of its image of 20 x 10 pixels"),
        ({"label": "a", "points": [[1, 2], [1e9, 3], [4, 4]]}, "shape 0: `points` must have polygons of finite numb"),
    ],
)
def test_bad_labelme_masks(tmp_path: Path, shape: dict[str, Any], message: str) -> None:
    """The file, the shape and the rule."""
    refused(lambda: labelme(tmp_path, shape), f"{tmp_path / 'a.json'}: ")
    refused(lambda: labelme(tmp_path, shape), message)


def test_pixels_need_the_size_of_their_image(tmp_path: Path) -> None:
    """Polygons do, too; these may get it from `sizes`."""
    refused(lambda: labelme(tmp_path, MASK, imageWidth=None), "shape 0: masks are drawn into images, and the file must")
    polygon = {"label": "a", "points": [[1, 2], [9, 3], [4, 4]]}
    refused(lambda: labelme(tmp_path, polygon, imageWidth=None), "and the size of the image is unknown; give `sizes`")
    assert len(boxscore.read_truths(tmp_path, sizes={"a.jpg": (20, 10)}, **BOTH)) == 1


CVAT = """<annotations><meta><labels><label><name>dog</name></label><label><name>cat</name></label></labels></meta>
<image id="4" name="a.jpg" width="20" height="10">{}</image></annotations>"""
CVAT_MASK = '<mask label="cat" source="manual" occluded="0" rle="1, 3, 2" left="4" top="5" width="3" height="2"/>'


def test_cvat_shapes_are_masks(tmp_path: Path) -> None:
    """Boxes, turned boxes, polygons, and run lengths row by row."""
    shapes = '<box label="cat" xtl="1" ytl="2" xbr="3" ybr="6"/>'
    shapes += '<box label="cat" xtl="8" ytl="3" xbr="12" ybr="5" rotation="90"/>'
    shapes += f'<polygon label="dog" points="0,0;4,0;4,4;0,4"/>{CVAT_MASK}'
    path = write(tmp_path / "a.xml", CVAT.format(shapes))
    truths = boxscore.read_truths(path, **BOTH)
    assert truths.labels.tolist() == [1, 1, 0, 1]
    assert truths.masks.runs.area.tolist() == [8, 8, 16, 3]
    assert truths.masks.runs.box[:3].tolist() == [[1, 2, 2, 4], [9, 2, 2, 4], [0, 0, 4, 4]]
    expected = np.zeros((10, 20), bool)
    expected[5, 5:7] = expected[6, 4] = True  # .## #..
    assert np.array_equal(truths.masks.pixels(3), expected)
    assert truths.boxes[3].tolist() == [4, 5, 7, 7]
    assert boxscore.read_truths(path).boxes[3].tolist() == [4, 5, 7, 7]


def test_cvat_boxes_around_masks_are_those_of_their_pixels(tmp_path: Path) -> None:
    """Not those of the box that the run lengths are in; without a pixel, its corner."""
    loose = CVAT_MASK.replace("1, 3, 2", "4, 1, 1")
    empty = CVAT_MASK.replace("1, 3, 2", "6")
    truths = boxscore.read_truths(write(tmp_path / "a.xml", CVAT.format(loose + empty)))
    assert truths.boxes.tolist() == [[5, 6, 6, 7], [4, 5, 4, 5]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1, 3, 2", "1, 3, 1", "mask 0: `rle` must have run lengths for the 3 x 2 pixels of its box; got 5 pixels"),
        ("1, 3, 2", "7, -1", "`rle` must have run lengths for the 3 x 2 pixels of its box; got a negative one"),
        ("1, 3, 2", "1, x", "`rle` must be integers separated by commas; got '1, x'"),
        ('left="4"', 'left="x"', "image 0 (a.jpg): mask 0: `left` must be an integer; got 'x'"),
        ('width="3"', 'width="0"', "`width` and `height` from 1 on, and at most 268,435,456 pixels; got 0 x 2"),
        ('left="4"', 'left="18"', "shape 0: the box of the mask must be inside of its image of 20 x 10 pixels; got "),
    ],
)
def test_bad_cvat_masks(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The image, the shape and the rule."""
    path = write(tmp_path / "a.xml", CVAT.format(CVAT_MASK.replace(old, new)))
    refused(lambda: boxscore.read_truths(path, **BOTH), message)


def test_cvat_tracks_have_masks(tmp_path: Path) -> None:
    """Boxes move, polygons and masks stay; one that changes must be in every frame."""
    meta = "<meta><task><size>3</size><original_size><width>20</width><height>10</height></original_size></task></meta>"
    box = '<box frame="{}" outside="0" xtl="{}" ytl="0" xbr="{}" ybr="4"/>'
    still = CVAT_MASK.replace('label="cat"', 'frame="{}"')
    tracks = [box.format(0, 0, 2) + box.format(2, 4, 6), still.format(0) + still.format(2)]
    text = "".join(f'<track id="{i}" label="cat">{track}</track>' for i, track in enumerate(tracks))
    path = write(tmp_path / "annotations.xml", f"<annotations>{meta}{text}</annotations>")
    truths = boxscore.read_truths(path, **BOTH)
    assert truths.image_ids.tolist() == [0, 0, 1, 1, 2, 2]
    assert truths.masks.runs.box[:, 0].tolist() == [0, 4, 2, 4, 4, 4]
    assert truths.masks.runs.area.tolist() == [8, 3] * 3
    path.write_text(path.read_text().replace('left="4"', 'left="5"', 1))
    refused(lambda: boxscore.read_truths(path, **BOTH), "mask 0: a mask must have a shape in every frame")
