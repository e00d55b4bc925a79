"""Python objects that change what compiled code is reading never crash it. `make sanitize` runs these."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import boxscore._compiled as _compiled
from boxscore.data.geometry.masks import Masks
from tests.support.hostile_objects import (
    Dict,
    annotation,
    check_case,
    hostile_float,
    hostile_int,
    hostile_key,
    hostile_list,
    hostile_number,
    hostile_sequence,
    read_everything,
)

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def said() -> Iterator[None]:
    """What the drop-in prints is of no interest."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def test_keypoints_that_drop_themselves_when_they_are_measured() -> None:
    """`len(keypoints)` takes them out of their dict."""
    row = annotation()
    row["keypoints"] = hostile_sequence(lambda: row.pop("keypoints", None), [1.0, 2.0, 2.0])
    assert _compiled.read_dicts([row], ["keypoints"], False) is None
    read_everything([row, annotation(2)])


def test_a_number_that_clears_its_box_when_it_is_converted() -> None:
    """`float(box[1])`, where the box is read number by number."""
    row = annotation()
    row["bbox"][1] = hostile_float(row["bbox"].clear)
    assert _compiled.read_dicts([row], ["bbox"], False) is None
    read_everything([row, annotation(2)])


@pytest.mark.parametrize("make", [hostile_float, hostile_number])
def test_a_height_that_replaces_the_counts_when_it_is_converted(make: Any) -> None:
    """`float(size[0])`: the counts that were found before are used."""
    mask: Dict = {"size": [0, 40], "counts": "".join(["Yk00", "a0f9"])}
    mask["size"][0] = make(lambda: mask.update(counts=None), 30)
    assert Masks.from_rle([mask]).runs.area.tolist() == [310]


def test_a_size_that_shrinks_while_it_is_read() -> None:
    """Both numbers are those that it had."""
    mask: Dict = {"size": [0, 40], "counts": [300, 0, 10, 890]}
    mask["size"][0] = hostile_number(mask["size"].clear, 30)
    assert Masks.from_rle([mask]).runs.area.tolist() == [890]


def test_counts_that_shrink_while_they_are_read() -> None:
    """Too few of them are left."""
    counts: list[Any] = [300, 0, 10, 890]
    counts[0] = hostile_number(counts.clear, 300)
    with pytest.raises(ValueError, match="`counts`"):
        Masks.from_rle([{"size": [30, 40], "counts": counts}])


def test_polygons_that_shrink_while_they_are_read() -> None:
    """Their list, and the list of their numbers."""
    for is_outer in (False, True):
        polygons: list[Any] = [[1.0, 1, 9, 1, 9, 9], [2.0, 2, 8, 2, 8, 8]]
        polygons[0][0] = hostile_number((polygons if is_outer else polygons[0]).clear)
        with contextlib.suppress(ValueError):
            Masks.from_rle([polygons], (30, 40))


def test_masks_that_get_more_while_they_are_read() -> None:
    """Those that were there at first are read."""
    objects: list[Any] = [[[1.0, 1, 9, 1, 9, 9]], [[1.0, 1, 9, 1, 9, 9]]]
    objects[0][0][0] = hostile_number(lambda: objects.extend([[[1.0, 1, 9, 1, 9, 9]]] * 99))
    assert len(_compiled.Masks.from_objects(objects, np.array([[30, 40]] * 2), 1).area) == 2


@pytest.mark.parametrize("key", ["image_id", "bbox", "area", "keypoints", "segmentation", "id"])
def test_keys_that_change_what_is_read_when_they_are_compared(key: str) -> None:
    """Looking a key up calls `__eq__` of another key with its hash."""
    rows = [annotation(1), annotation(2), annotation(3)]
    is_armed = False
    value = rows[1].pop(key)
    rows[1] = {hostile_key(lambda: rows.__delitem__(slice(3 - 3 * is_armed, 3)), key): 0, **rows[1], key: value}
    is_armed = True
    read_everything(rows)
    assert not rows


def test_results_that_vanish_while_they_are_completed() -> None:
    """The list is shorter than the id that a result says it got before."""
    rows = [annotation(1), annotation(2), annotation(3)]
    rows[2]["bbox"][2] = hostile_number(lambda: rows.__delitem__(slice(0, 2)))
    rows[2]["id"] = 2
    _compiled.complete_boxes(rows)
    assert len(rows) == 1


def test_flags_without_a_truth_value_are_left_to_python() -> None:
    """And so is the error of `bool(ignore)`."""
    rows = [annotation(1)]
    rows[0]["ignore"] = hostile_int(lambda: None)
    out = np.empty((1, 1)), np.empty((1, 1)), np.empty((1, 1), bool), np.empty(1, np.int64)
    rules = np.array([0.5]), 0.0, 1e10, 1
    assert _compiled.match_annotations(rows, rows, np.ones((1, 1)), rules, out) is None


def test_lists_of_another_class_are_left_to_python() -> None:
    """These may be anything."""
    rows = [annotation(1)]
    rows[0]["keypoints"] = hostile_list(rows[0].clear, rows[0]["keypoints"])
    assert _compiled.read_dicts(rows, ["keypoints"], False) is None
    assert rows[0]


@pytest.mark.parametrize("seed", range(40))
def test_hostile_objects_anywhere(seed: int) -> None:
    """As `make fuzz` tries more of them."""
    check_case(seed)
