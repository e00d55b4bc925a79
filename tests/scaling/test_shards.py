"""The map in pieces: shards to tallies, tallies to files and tables and back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import boxscore
from boxscore import InputError, Tally
from boxscore.engines.map_reduce import reduce_tallies
from boxscore.protocol.protocol import Protocol
from boxscore.result.arrow import class_groups_of
from boxscore.result.storage import COLUMNS
from boxscore.scaling import match_shard
from boxscore.scaling.ray.job import Job, tallies_of
from boxscore.scaling.shards import shard_of
from tests.support.arrow_tables import tables
from tests.support.comparisons import assert_same as assert_same_result
from tests.support.entrances import CASES, expected, numbers_of, scene_of, tables_of
from tests.support.scenes import random_scene
from tests.support.tally_store import MemoryStore

MANY_AREAS = {"all": (0, 1e10), **{f"a{i}": (i * 500, i * 500 + 500) for i in range(9)}}


def assert_same(tally: Tally, expected: Tally) -> None:
    """Every column, in value and dtype, and all else."""
    for name in COLUMNS:
        column, wanted = getattr(tally, name), getattr(expected, name)
        assert column.dtype == wanted.dtype, name
        assert np.array_equal(column, wanted), name
    assert tally.protocol == expected.protocol
    assert tally.class_names == expected.class_names
    assert tally.iou_dtype == expected.iou_dtype


def through_parquet(table: pa.Table, path: Path) -> pa.Table:
    """Written and read, in small row groups."""
    pa.parquet.write_table(table, path, row_group_size=7)
    return pa.parquet.read_table(path)


def through_ipc(table: pa.Table, path: Path) -> pa.Table:
    """Written and read, in small batches."""
    pa.feather.write_feather(table, path, chunksize=5)
    return pa.feather.read_table(path)


WAYS: dict[str, Callable[[pa.Table, Path], pa.Table]] = {
    "as it is": lambda table, _: table,
    "Parquet": through_parquet,
    "IPC": through_ipc,
    "slices": lambda table, _: pa.concat_tables([table.slice(0, 11), table.slice(11)]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("protocol", ["coco", "voc2012", Protocol.named("coco", areas=MANY_AREAS)])
def test_a_tally_survives_as_a_table(protocol: Any, way: str, tmp_path: Path) -> None:
    """Bit for bit, through files of Arrow and Parquet."""
    for seed in range(4):
        scene = random_scene(seed)
        tally = boxscore.match(scene.detections, scene.truths, protocol)
        assert_same(Tally.from_arrow(WAYS[way](tally.to_arrow(), tmp_path / "tally")), tally)
    empty = Tally.empty(tally.protocol)
    assert_same(Tally.from_arrow(WAYS[way](empty.to_arrow(), tmp_path / "tally")), empty)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda table: table.slice(1), "invalid"),
        (lambda table: table.take(np.arange(table.num_rows)[::-1]), "checksum"),
        (lambda table: table.drop_columns(["score"]), "missing columns"),
        (lambda table: table.replace_schema_metadata({}), "not a boxscore tally"),
        (lambda _: pa.table({"image": [1]}), "not a boxscore tally"),
        (lambda _: 7, "must be a pyarrow.Table; got int"),
        (
            lambda table: table.replace_schema_metadata(
                {key: value.replace(b'"version": 1', b'"version": 2') for key, value in table.schema.metadata.items()}
            ),
            "must be a tally of version 1; got version 2",
        ),
    ],
)
def test_a_table_that_is_no_tally_is_refused(change: Callable[[Any], Any], complaint: str) -> None:
    """By the name of where it came from."""
    scene = random_scene(0)
    table = boxscore.match(scene.detections, scene.truths).to_arrow()
    with pytest.raises(InputError, match=f"^part-7: .*{complaint}"):
        Tally.from_arrow(change(table), "part-7")


def test_a_tally_survives_in_a_file(tmp_path: Path) -> None:
    """Bit for bit; nothing else is left in the folder, and what was there is replaced."""
    path = tmp_path / "part-0.tally"
    for seed in range(2):
        scene = random_scene(seed)
        tally = boxscore.match(scene.detections, scene.truths)
        tally.save(path)
        assert_same(Tally.load(path), tally)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda content: content[:-100], "truncated"),
        (lambda content: content[:30], "truncated"),
        (lambda _: b"", "not a boxscore tally"),
        (lambda _: b"PAR1" * 100, "not a boxscore tally"),
        (lambda content: content.replace(b"boxscore tally 1", b"boxscore tally 9"), "another version"),
        (lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:], "checksum"),
    ],
)
def test_a_file_that_is_no_tally_is_refused(change: Callable[[bytes], bytes], complaint: str, tmp_path: Path) -> None:
    """Truncated, foreign, of another version, or changed by one bit."""
    scene = random_scene(0)
    path = tmp_path / "part-0.tally"
    boxscore.match(scene.detections, scene.truths).save(path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=rf"part-0\.tally: .*{complaint}"):
        Tally.load(path)


def test_a_file_that_can_not_be_is_told(tmp_path: Path) -> None:
    """To be read, or to be written, by its name."""
    with pytest.raises(InputError, match=r"nowhere: can't be read: No such file"):
        Tally.load(tmp_path / "nowhere")
    empty = Tally.empty(Protocol.named("coco"))
    with pytest.raises(InputError, match=r"tally: can't be written: No such file"):
        empty.save(tmp_path / "nowhere" / "tally")
    for folder in (tmp_path, "", "/"):
        with pytest.raises(InputError, match=r"^(\.|/\S*): can't be written: Is a directory$"):
            empty.save(folder)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("protocol", ["coco", "voc2007", "voc2012"])
def test_shards_make_the_result_of_the_whole(protocol: Any) -> None:
    """Images hashed to shards, each a pair of tables; tallies merged in another order."""
    scene = random_scene(1, num_images=30)
    found, there = tables(scene.detections, scene.truths)
    names = [f"class {label}" for label in range(scene.num_classes)]
    tallies = []
    for shard in range(4):
        mine, yours = (table.filter(shard_of(table["image"].to_numpy(), 4) == shard) for table in (found, there))
        tallies.append(match_shard(mine, yours, protocol, name=f"{shard}", box_format="xywh", class_names=names))
    result = boxscore.finish(tallies[2].merge(tallies[0], tallies[3], tallies[1]))
    expected = boxscore.evaluate(scene.detections, scene.truths, protocol)
    assert_same_result(result, expected)
    assert result.per_class.name == expected.per_class.name


def test_a_shard_that_comes_twice_is_found_by_its_images() -> None:
    """When tallies are merged."""
    scene = random_scene(1)
    tally = match_shard(*tables(scene.detections, scene.truths), name="part-0", box_format="xywh")
    with pytest.raises(InputError, match="image 1 is in more than one tally"):
        tally.merge(tally)


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        ("score", [0.5, float("nan")], "detections: `score` row 1 must be finite; got nan"),
        ("score", [0.5, None], "detections: `score` row 1 must not be null"),
        ("box", [[0, 0, 1, 1], [0, 0, 1]], "detections: `box` row 1 must have 4 numbers; got 3"),
        ("image", ["a", "b"], "detections: `image` must hold numbers; got string"),
        ("image", [0.5, 1.0], "detections: `image` must hold integers; got float64"),
        ("box", [{"x": 1}, {"x": 2}], "detections: `box` must hold numbers; got struct<x: int64>"),
        ("box", [["0"] * 4] * 2, "detections: `box` must hold numbers; got list<.*string>"),
        ("image", [1, 3], "image 3 is not one of the shard's"),
        ("label", [1, 9], r"`labels` must be one of those in `class_names` \(1\); got 9"),
    ],
)
def test_a_poisoned_shard_fails_with_its_name(column: str, values: list[Any], complaint: str) -> None:
    """And with the column, the row and what came."""
    good = {"image": [1, 2], "label": [1, 1], "score": [0.9, 0.8], "box": [[0, 0, 9, 9]] * 2}
    truths = pa.table({"image": [1], "label": [1], "box": [[0, 0, 9, 9]]})
    with pytest.raises(InputError, match=f"^part-3: {complaint}"):
        match_shard(pa.table(good | {column: values}), truths, name="part-3", images=[1, 2], class_names={1: "cat"})


def test_a_shard_without_a_column_is_refused() -> None:
    """With those that it has."""
    table = pa.table({"image": [1], "label": [1], "box": [[0, 0, 9, 9]]})
    with pytest.raises(InputError, match=r"part-3: detections: must have the columns image, .*; got image, label, box"):
        match_shard(table, table, name="part-3")
    twice = table.append_column("image", pa.array([2]))
    with pytest.raises(InputError, match="part-3: truths: must have each column once; got `image` more than once"):
        match_shard(boxscore.Detections(image_ids=[], labels=[], scores=[], boxes=[]), twice, name="part-3")
    with pytest.raises(InputError, match=r"must be boxscore columns or a pyarrow\.Table; got list"):
        match_shard([1], table, name="part-3")


def test_the_images_of_a_shard_are_integers_in_anything() -> None:
    """A list, a range, a set, an array; what is not whole is refused, not rounded."""
    scene = random_scene(1)
    found, there = tables(scene.detections, scene.truths)
    every = found["image"].to_pylist() + there["image"].to_pylist()
    for images in (every, set(every), range(max(every) + 1), np.array(every, np.uint8), iter(every)):
        match_shard(found, there, name="part-3", images=images, box_format="xywh")
    wrong: list[Any] = [[0.5], ["a"], np.array([1.0])]
    for images in wrong:
        with pytest.raises(InputError, match=r"^part-3: `images` must "):
            match_shard(found, there, name="part-3", images=images, box_format="xywh")


def test_boxes_may_be_tensors() -> None:
    """As Ray and others have an array of shape (R, 4) in a column."""
    scene = random_scene(1)
    found, there = tables(scene.detections, scene.truths)
    tensors = [
        table.set_column(
            table.column_names.index("box"),
            "box",
            pa.FixedShapeTensorArray.from_numpy_ndarray(np.array(table["box"].to_pylist())),
        )
        for table in (found, there)
    ]
    pair = (match_shard(*each, name="part-3", box_format="xywh") for each in ((found, there), tensors))
    assert_same(*pair)


def test_images_are_spread_over_shards() -> None:
    """Ids in a row, or far apart, below zero as well."""
    for ids in (np.arange(10_000), np.arange(10_000) * 1024, -np.arange(10_000)):
        counts = np.bincount(shard_of(ids, 8), minlength=8)
        assert counts.min() > 1_000


@pytest.mark.parametrize("case", ["lvis", "lvis_fixed", "openimages", "crowdhuman", "crowdpose", "olrp", "coco segm"])
@pytest.mark.parametrize("bin_size", [10**6, 60], ids=["one bin", "bins"])
def test_the_tasks_of_ray_give_the_numbers_of_evaluate(case: str, bin_size: int) -> None:
    """Blocks in another order, each with parts of images: check, match by shard, reduce by class; without a cluster."""
    protocol = CASES[case]
    scene = scene_of(protocol)
    job = Job.of(protocol, scene.box_format, None, "1GB")
    sides = tables_of(scene)
    groups = class_groups_of(sides[1]) if protocol.class_groups else None
    job = replace(job, num_shards=3, has_lists=True, class_groups=groups)
    checked = []
    for side, is_truth in zip(sides, (False, True), strict=True):
        rows = side.append_column("row", pa.array(np.arange(side.num_rows)))
        half = side.num_rows // 2
        checked += [job.check(block, is_truth) for block in (rows.slice(half), rows.slice(0, half))]
    every = pa.concat_tables(checked)
    tallies = [job.empty_tally()]
    for shard in set(every["shard"].to_pylist()):
        tallies += tallies_of(job.match_rows(every.filter(pa.array(every["shard"].to_numpy() == shard))))
    assert len(tallies) > 2
    result = reduce_tallies(MemoryStore(tallies, bin_size, is_local=False), threads=1)
    assert dict(numbers_of(result)) == dict(expected(protocol))
