"""A geometry of the tests beyond memory: intervals in Parquet files spilled to disk, and in Arrow tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Result
from boxscore.data.validation import column_named
from boxscore.scaling import out_of_core
from tests.geometries.interval_scenes import make_scene, protocol_of
from tests.support.memory_limits import plenty

pyarrow: Any = pytest.importorskip("pyarrow")


def assert_same(result: Result, expected: Result) -> None:
    """Every number and every curve, bit for bit."""
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    assert np.array_equal(result.curves.precision, expected.curves.precision)


def test_files_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In many shards, with the bits of all rows in memory, of intervals and of boxes."""
    scene = make_scene()
    monkeypatch.setattr(out_of_core, "MATCH_BYTES", 50_000_000)
    for detections, truths in zip(scene.detections, scene.truths, strict=True):
        paths = tmp_path / "detections.parquet", tmp_path / "truths.parquet"
        boxscore.formats.write_detections(paths[0], detections, truths)
        boxscore.formats.write_truths(paths[1], truths)
        steps: list[str] = []
        protocol, memory = protocol_of(detections), plenty()
        result = out_of_core.evaluate_files(*paths, protocol, memory=memory, step=steps.append)
        assert sum(step.startswith("matching shard") for step in steps) > 2
        assert_same(result, boxscore.evaluate(detections, truths, protocol))


def test_files_without_its_columns_are_refused(tmp_path: Path) -> None:
    """By the name of the geometry."""
    scene = make_scene()
    paths = tmp_path / "detections.parquet", tmp_path / "truths.parquet"
    boxscore.formats.write_detections(paths[0], scene.detections[1], scene.truths[1])
    boxscore.formats.write_truths(paths[1], scene.truths[1])
    protocol, memory = protocol_of(scene.detections[0]), plenty()
    with pytest.raises(InputError, match=r"truths\.parquet: must have intervals for `iou_type` interval_iou"):
        out_of_core.evaluate_files(*paths, protocol, memory=memory)


def test_shards_are_tables_with_its_columns() -> None:
    """Two Arrow tables give the tally of the data in memory."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    protocol = protocol_of(detections)
    found, there = (
        pyarrow.table(
            {name: np.asarray(getattr(columns, column_named(name))) for name in names}
            | columns.geometry.written_columns()
        )
        for columns, names in ((detections, ("image", "label", "score")), (truths, ("image", "label", "ignore")))
    )
    tally = boxscore.scaling.match_shard(found, there, protocol, name="all")
    assert_same(boxscore.finish(tally), boxscore.evaluate(detections, truths, protocol))
    with pytest.raises(InputError, match="all: truths: must have the columns image, label, start, end; got image, "):
        boxscore.scaling.match_shard(found, there.drop_columns(["end"]), protocol, name="all")
