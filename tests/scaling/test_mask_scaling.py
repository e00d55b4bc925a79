"""Masks on many machines: Arrow tables, shards, and files larger than memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore.data import Masks
from boxscore.data.dataset import take
from boxscore.result import arrow
from boxscore.scaling.out_of_core import evaluate_files
from tests.support.arrow_tables import tables
from tests.support.comparisons import assert_same
from tests.support.mask_scenes import columns_of, random_masks
from tests.support.memory_limits import plenty

pyarrow = pytest.importorskip("pyarrow")
SEGM = Protocol.named("coco", iou_type="segm")


def scene(seed: int = 21, num_images: int = 14) -> tuple[boxscore.Detections, boxscore.Truths]:
    """Some masks; classes have no names, as tables have none."""
    detections, truths = columns_of(*random_masks(seed, num_images=num_images))
    columns = {name: getattr(truths, name) for name in ("image_ids", "labels", "masks", "ignore", "area")}
    return detections, boxscore.Truths(**columns)


RLE = {"size": [2, 2], "counts": "4"}


def test_masks_travel_as_structs() -> None:
    """There and back, in chunks and slices, as text or bytes, with any kind of lists."""
    masks = scene()[0].masks
    column = arrow.column_of(masks)
    assert arrow.masks_of(column).rle() == masks.rle()
    chunked = pyarrow.chunked_array([column.slice(0, 5), column.slice(5, 0), column.slice(5)]).slice(2, 8)
    assert arrow.masks_of(chunked).rle() == masks.rle()[2:10]
    for counts in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary()):
        for size in (
            pyarrow.list_(pyarrow.int32()),
            pyarrow.large_list(pyarrow.uint16()),
            pyarrow.list_(pyarrow.int64(), 2),
        ):
            kind = pyarrow.struct({"other": pyarrow.int8(), "size": size, "counts": counts})
            rows = pyarrow.array(masks.rle(), kind)
            assert arrow.masks_of(rows.slice(3)).rle() == masks.rle()[3:], kind
    assert len(arrow.masks_of(pyarrow.chunked_array([], column.type))) == 0
    assert len(arrow.column_of(Masks.from_rle([]))) == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1, 2], "`mask` must be a struct of `size` and `counts`; got int64"),
        ([{"size": [2, 2]}], "`mask` must be a struct of `size` and `counts`; got struct"),
        ([{"a": 1, "b": 2}], "`mask` must be a struct of `size` and `counts`; got struct"),
        ([RLE, None], "`mask` row 1 must not be null"),
        ([RLE, RLE | {"counts": None}], "`mask` row 1 must not be null"),
        ([RLE, RLE | {"size": [1]}], "`mask` row 1 must have a `size` of 2 integers, height and width; got 1"),
        ([RLE, RLE | {"size": [1, None]}], "`mask` row 1 must have a `size` of 2 integers, height and width; got null"),
        ([RLE, RLE | {"size": [1, 1]}], "`mask` row 1 `counts` must have run lengths for the 1 x 1"),
        ([{"size": [0.5], "counts": ""}], "`size` of `mask` must be lists of integers, height and width; got "),
        ([{"size": [1, 2], "counts": 7}], "`counts` of `mask` must be text or bytes; got int64"),
    ],
)
def test_columns_that_are_no_masks_are_refused(rows: Any, message: str) -> None:
    """With the row and the rule."""
    column = pyarrow.array(rows)
    with pytest.raises(InputError, match=message):
        arrow.masks_of(pyarrow.chunked_array([column.slice(0, 1), column.slice(1)]))


def test_shards_merge_to_what_one_pass_gives() -> None:
    """From tables and from columns, saved and loaded."""
    detections, truths = scene()
    expected = boxscore.evaluate(detections, truths)
    tallies = []
    for part in range(3):
        some = take(detections, detections.image_ids % 3 == part), take(truths, truths.image_ids % 3 == part)
        by_table = boxscore.scaling.match_shard(*tables(*some), SEGM, name=f"part {part}")
        tallies.append(boxscore.scaling.match_shard(*some, SEGM, name=f"part {part}"))
        assert_same(boxscore.finish(by_table), boxscore.finish(tallies[-1]))
    assert_same(boxscore.finish(tallies[0].merge(tallies[1]).merge(tallies[2])), expected)
    with pytest.raises(
        InputError, match=r"part 0: detections: must have the columns image, label, score, mask; got image"
    ):
        boxscore.scaling.match_shard(pyarrow.table({"image": [0]}), tables(*some)[1], SEGM, name="part 0")


def test_files_larger_than_memory(tmp_path: Path) -> None:
    """Spilled to disk by image, and matched shard by shard."""
    from pyarrow import parquet

    detections, truths = scene(num_images=40)
    detections = take(detections, np.isin(detections.image_ids, truths.image_ids))
    found, there = tmp_path / "found.parquet", tmp_path / "there.parquet"
    names = {"image": "image_id", "label": "category_id", "mask": "segmentation"}
    for table, path in zip(tables(detections, truths), (found, there), strict=True):
        renamed = table.rename_columns([names.get(each, each) for each in table.column_names])
        parquet.write_table(renamed, path, row_group_size=17)
    expected = boxscore.evaluate(detections, truths)
    result = evaluate_files(found, there, SEGM, memory=plenty())
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    boxes = parquet.read_table(there).drop_columns(["segmentation"])
    boxes = boxes.append_column("box", pyarrow.array([[0.0, 0, 1, 1]] * boxes.num_rows))
    parquet.write_table(boxes, there)
    with pytest.raises(InputError, match=r"there\.parquet: must have .*segmentation"):
        evaluate_files(found, there, SEGM, memory=plenty(), box_format="xyxy")


def test_many_shards_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a memory per row so large that the plan is for many."""
    from pyarrow import parquet

    from boxscore.scaling import out_of_core

    detections, truths = scene(num_images=40)
    detections = take(detections, np.isin(detections.image_ids, truths.image_ids))
    found, there = tmp_path / "found.parquet", tmp_path / "there.parquet"
    for table, path in zip(tables(detections, truths), (found, there), strict=True):
        parquet.write_table(table, path)
    monkeypatch.setattr(out_of_core, "MATCH_BYTES", 50_000_000)
    steps: list[str] = []
    result = evaluate_files(found, there, SEGM, memory=plenty(), step=steps.append)
    assert sum(step.startswith("matching shard") for step in steps) > 2
    expected = boxscore.evaluate(detections, truths)
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)


def test_memory_is_that_of_the_runs() -> None:
    """A thousand masks of a megapixel each take some bytes per run, in every form that they travel in."""
    masks = Masks.from_rle([{"size": [1000, 1000], "counts": [row, 1000 - row, 999_000]} for row in range(1000)])
    assert masks.runs.counts.nbytes < 20_000
    assert arrow.column_of(masks).nbytes < 60_000
