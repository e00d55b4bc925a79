"""Oriented boxes beyond memory: Parquet files spilled to disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore.scaling import out_of_core
from tests.support.memory_limits import plenty
from tests.support.oriented_scenes import RADIANS
from tests.support.oriented_tables import scene, write

pyarrow: Any = pytest.importorskip("pyarrow")
OBB = Protocol.named("coco", iou_type="obb")


@pytest.mark.parametrize("form", ["list", "columns", "corners"])
def test_files_larger_than_memory(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In many shards, with the result of all boxes in memory."""
    paths = write(tmp_path, form)
    monkeypatch.setattr(out_of_core, "MATCH_BYTES", 50_000_000)
    box_format: Any = None if form == "corners" else RADIANS
    memory = plenty()
    steps: list[str] = []
    result = out_of_core.evaluate_files(*paths, OBB, memory=memory, box_format=box_format, step=steps.append)
    assert sum(step.startswith("matching shard") for step in steps) > 2
    expected = boxscore.evaluate(*scene(), OBB)
    if form == "corners":  # whose areas are those of the corners
        assert result["map"] == pytest.approx(expected["map"])
    else:
        assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)


def test_upright_boxes_are_refused(tmp_path: Path) -> None:
    """As there is nothing to turn."""
    from pyarrow import parquet

    for name in ("found", "there"):
        table = {"image_id": [1], "category_id": [1], "score": [0.5], "x": [1.0], "y": [1.0], "w": [1.0], "h": [1.0]}
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
    memory = plenty()
    with pytest.raises(InputError, match="must have oriented boxes for `iou_type` obb"):
        out_of_core.evaluate_files(tmp_path / "found.parquet", tmp_path / "there.parquet", OBB, memory=memory)
