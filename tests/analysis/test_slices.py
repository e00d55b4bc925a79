"""Slices: the numbers of each group are those of its images alone; groups are read from all kinds of files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Result, Truths
from boxscore.analysis import slices
from boxscore.cli import sample
from boxscore.formats import read_groups
from tests.support.scenes import random_scene


def rows(columns: dict[str, Any], images: Any) -> dict[str, Any]:
    """The columns of some images."""
    return {name: column[np.isin(columns["image_ids"], images)] for name, column in columns.items()}


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("name", ["coco", "voc2012"])
def test_a_slice_has_the_bits_of_its_images_alone(name: str, average: str) -> None:
    """Every number, per class too, and the intervals."""
    protocol = Protocol.named(name, average=average)
    scene = random_scene(2, num_images=30)
    whole = boxscore.evaluate(scene.detections, scene.truths, protocol)
    groups = {image: f"group {image % 3}" for image in range(30)}
    parts = slices(whole, groups)
    assert list(parts) == ["group 0", "group 1", "group 2"]
    for start, part in enumerate(parts.values()):
        images = np.arange(start, 30, 3)
        names = [f"class {label}" for label in range(scene.num_classes)]
        found = Detections(**rows(scene.detection, images), box_format="xywh")
        there = Truths(**rows(scene.truth, images), box_format="xywh", class_names=names)
        alone = boxscore.evaluate(found, there, protocol)
        assert np.array_equal(list(part.values()), list(alone.values()), equal_nan=True)
        assert np.array_equal(part.per_class.ap, alone.per_class.ap, equal_nan=True)
        low, expected = (result.intervals(resamples=20).low for result in (part, alone))
        assert np.array_equal(list(low.values()), list(expected.values()), equal_nan=True)


def small() -> Result:
    """Four listed images, one of them without boxes."""
    truths = Truths(
        image_ids=[1, 2, 3],
        labels=[0, 0, 0],
        boxes=[[0, 0, 9, 9]] * 3,
        image_names={1: "a/one.jpg", 2: "a/two.jpg", 3: "b/3.jpg", 10: "b/ten.jpg"},
    )
    found = Detections(image_ids=[1, 3], labels=[0, 0], scores=[0.9, 0.8], boxes=[[0, 0, 9, 9]] * 2)
    return boxscore.evaluate(found, truths, "voc2012")


def test_images_without_a_group_are_one_of_their_own() -> None:
    """The last. Those that are not in the data are no matter; those without boxes count."""
    parts = slices(small(), {3: "night", 10: "day", 77: "dusk"})
    assert list(parts) == ["night", "day", "(none)"]
    assert dict(parts.num_images) == {"night": 1, "day": 1, "(none)": 2}
    assert parts["night"]["map"] == 1
    assert np.isnan(parts["day"]["map"])
    assert parts["(none)"]["mar"] == 0.5
    assert parts["day"].intervals(resamples=2).num_images == 1
    assert repr(parts) == "Slices(night, day, (none))"
    json.dumps(parts.to_dict(), allow_nan=False)
    assert str(parts).splitlines()[0].split() == ["night", "day", "(none)"]
    with pytest.raises(KeyError, match="'dusk' is not a group; groups are night, day"):
        parts["dusk"]


def test_slices_are_not_comparable_with_published_numbers(tmp_path: Path) -> None:
    """Those of results without inputs, too, which keep what was left out before; one group of all images is."""
    found, truths = sample.load()
    whole = boxscore.evaluate(found, truths)
    whole.save(tmp_path / "whole.boxscore")
    metric = boxscore.MeanAveragePrecision()
    metric.update(found, truths)
    groups = {image: "night" if image % 4 == 0 else "day" for image in whole.images.tolist()}
    for result in (whole, boxscore.load_result(tmp_path / "whole.boxscore"), metric.compute()):
        parts = slices(result, groups)
        assert parts["night"].comparable.differences == ("10 images of 40, a slice",)
        assert parts["day"].to_dict()["comparable"]["differences"] == ["30 images of 40, a slice"]
        assert slices(result, dict.fromkeys(groups, "all"))["all"].comparable
    boxscore.evaluate(*boxscore.formats.select(found, truths, images=range(1, 9))).save(tmp_path / "part.boxscore")
    part = slices(boxscore.load_result(tmp_path / "part.boxscore"), groups)["night"]
    assert part.comparable.differences == ("8 images of 40", "2 images of 8, a slice")
    assert part.image_names == {image: (truths.image_names or {})[image] for image in (4, 8)}


def test_groups_that_can_not_be_are_refused() -> None:
    """With what came."""
    result = small()
    with pytest.raises(InputError, match=r"^`groups` must map image ids to names of groups; got list"):
        slices(result, ["day"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^`groups` must have image ids as keys; got 'one'"):
        slices(result, {"one": "day"})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"^`groups` must have names of groups as values; got 3 for image 1"):
        slices(result, {1: 3})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"^`result` must be a boxscore.Result; got dict"):
        slices({}, {})  # type: ignore[arg-type]


def truths() -> Truths:
    """Those of the small result."""
    inputs = small().inputs
    assert inputs is not None
    return inputs.truths


GROUPS = {1: "day", 2: "night", 10: "day"}


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("g.csv", "image,group\none.jpg,day\na/two.jpg,night\nten,day\n", None),
        ("g.csv", "image_id,weather\n1,day\n2,night\n10,day\n3,\n", None),
        ("g.tsv", "file_name\tweather\tcamera\none.jpg\tday\tx\ntwo.jpg\tnight\ty\nten.jpg\tday\tx\n", "weather"),
        ("g.json", '{"one.jpg": "day", "two": "night", "b/ten.jpg": "day", "other.jpg": "day"}', None),
        ("g.json", '{"1": "day", "2": "night", "10": "day", "3": null}', None),
        (
            "g.json",
            '[{"image_id": 1, "sky": "day"}, {"image_id": 2, "sky": "night"}, {"image_id": 10, "sky": "day"},'
            ' {"image_id": 1}]',
            "sky",
        ),
        (
            "truths.json",
            '{"images": [{"id": 1, "file_name": "one.jpg", "sky": "day"},'
            ' {"id": 2, "file_name": "two.jpg", "sky": "night"},'
            ' {"id": 7, "file_name": "ten.jpg", "sky": "day"}, {"id": 3}]}',
            "sky",
        ),
    ],
)
def test_groups_come_from_files(tmp_path: Path, name: str, content: str, column: str | None) -> None:
    """By id, name or stem; an image without a group has none."""
    path = tmp_path / name
    path.write_text(content)
    assert read_groups(path, truths(), column=column) == GROUPS


def test_groups_come_from_parquet_and_flags_have_names(tmp_path: Path) -> None:
    """A column of the annotations themselves: rows of an image agree."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"image_id": [1, 1, 2], "x1": [0.0] * 3, "night": [False, False, True], "hour": [11, 11, 23]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    assert read_groups(tmp_path / "t.parquet", truths(), column="night") == {1: "false", 2: "true"}
    assert read_groups(tmp_path / "t.parquet", truths(), column="Hour") == {1: "11", 2: "23"}


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("g.csv", "image,group\n1,day\n1,night\n", None, "line 3: an image must have one group; got 'day' and 'night'"),
        ("g.csv", "image,a,b\n1,x,y\n", None, "must have a column with the group (group); got image, a, b"),
        ("g.csv", "image,a\n1,x\n", "b", "must have a column with the group (b); got image, a"),
        ("g.csv", "group\nx\n", None, "must have a column with the image"),
        (
            "g.csv",
            "image,group\nx.jpg,day\n",
            None,
            "none of its images is an image of the truths: a/one.jpg, a/two.jpg",
        ),
        (
            "g.json",
            "[1, 2]",
            None,
            "must be a JSON object from images to groups, or `column` must name the key of the groups",
        ),
        ("g.json", "{", None, "not JSON"),
        ("g.json", '{"images": [{"id": 1, "sky": "x"}]}', "sea", "no image has `sea`; they have id, sky"),
        ("g.json", '{"images": [{"sky": "x"}]}', "sky", "image 0: `id` must be an id or a name; got None"),
        (
            "g.json",
            '{"images": [{"id": 1, "sky": ["x"]}]}',
            "sky",
            "image 0: a group must be a text, a number or a flag",
        ),
        (
            "g.json",
            '{"annotations": []}',
            "sky",
            "must have `images`, or be a list of results, to have `sky`; got neither",
        ),
        ("g.xml", "<a/>", None, "groups are read from JSON, .csv, .tsv and Parquet"),
    ],
)
def test_files_without_groups_are_refused(
    tmp_path: Path, name: str, content: str, column: str | None, message: str
) -> None:
    """With the file, and the place where there is one."""
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as refusal:
        read_groups(path, truths(), column=column)
    assert str(refusal.value).startswith(str(path))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("[" * 100_000, None, "g.json: not JSON: "),
        ('{"a": 1', None, "g.json: not JSON: "),
        ("5", "night", "g.json: must have `images`, or be a list of results, to have `night`; got neither"),
        ('"text"', "night", "g.json: must have `images`, or be a list of results, to have `night`; got neither"),
        ("5", None, "g.json: must be a JSON object from images to groups, or `column` must name the key of the groups"),
        (
            '[{"image_id": 99999999999999999999, "night": 1}]',
            "night",
            "result 0: `image_id` must fit in 63 bits; got 99",
        ),
        ('{"images": [{"id": 1.5, "night": 1}]}', "night", "image 0: `id` must be an id or a name; got 1.5"),
        ('{"one.jpg": "a", "two.jpg": "a", "one.jpg": "b"}', None, "'one.jpg': an image must have one group; got 'a'"),
    ],
)
def test_json_that_holds_no_groups(tmp_path: Path, content: str, column: str | None, message: str) -> None:
    """One line; a key that comes twice must say the same."""
    (tmp_path / "g.json").write_text(content)
    with pytest.raises(InputError) as error:
        read_groups(tmp_path / "g.json", truths(), column=column)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
