"""Keypoints beyond memory: Parquet files spilled to disk, Arrow tables, shards."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore.cli import main
from boxscore.data.dataset import take
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.result import arrow
from boxscore.scaling import out_of_core
from tests.support.arrow_tables import tables
from tests.support.comparisons import assert_same
from tests.support.memory_limits import plenty
from tests.support.pose_tables import OKS, expected, read, scene, table_rows, write

pyarrow: Any = pytest.importorskip("pyarrow")


def files(folder: Path, *, has_boxes: bool = False, kind: str = "parquet", changes: Any = None) -> tuple[Path, Path]:
    """Detections and truths of 30 images; `changes`: columns of the truths that are left out."""
    found, there = table_rows(*scene(has_boxes=has_boxes, num_images=30))
    there = [{name: row[name] for name in row if name not in (changes or ())} for row in there]
    return write(folder, found, "found", kind), write(folder, there, "there", kind)


def evaluate_files(paths: tuple[Path, Path], protocol: Protocol = OKS, **options: Any) -> boxscore.Result:
    """Within a limit that is large enough."""
    memory = plenty()
    return out_of_core.evaluate_files(*paths, protocol, memory=memory, **options)


@pytest.mark.parametrize("without", [(), ("area",), ("x",), ("x", "area"), ("num_keypoints",)])
@pytest.mark.parametrize("has_boxes", [False, True])
def test_files_larger_than_memory(
    has_boxes: bool, without: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In many shards, with the bits of one process, whichever columns there are."""
    paths = files(tmp_path, has_boxes=has_boxes, changes=without)
    monkeypatch.setattr(out_of_core, "MATCH_BYTES", 20_000_000)
    steps: list[str] = []
    result = evaluate_files(paths, step=steps.append)
    assert sum(step.startswith("matching shard") for step in steps) > 2
    whole = boxscore.evaluate(*read(paths), OKS)
    assert np.array_equal(list(result.values()), list(whole.values()), equal_nan=True)


def test_labels_and_scores_survive(tmp_path: Path) -> None:
    """A truth is blank if the file says so, and a detection that is sure of no point is left out."""
    found, there = table_rows(*scene(num_images=30))
    for row in there[::3]:
        row["num_keypoints"] = 0
    for row in found[::4]:
        row["keypoints"][2::3] = [0.0] * 5
    paths = write(tmp_path, found, "found", "parquet"), write(tmp_path, there, "there", "parquet")
    protocol = OKS.replace(keypoints=boxscore.protocol.KeypointRules(needs_scores=True))
    result, whole = evaluate_files(paths, protocol), boxscore.evaluate(*read(paths), protocol)
    assert np.array_equal(list(result.values()), list(whole.values()), equal_nan=True)
    plain = boxscore.evaluate(*expected(*scene(num_images=30)), OKS)
    assert list(result.values()) != list(plain.values())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With and without a limit of memory."""
    found, there = files(tmp_path)
    options = ["--iou-type", "keypoints", "--sigmas", ",".join(map(str, OKS.sigmas)), "--json", "-", "--quiet"]
    memory = ["--memory", plenty()]
    printed = []
    for more in ([], memory):
        assert main(["eval", str(there), str(found), *options, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_files_that_differ(tmp_path: Path) -> None:
    """In the number of keypoints, or in their columns."""
    _, there = table_rows(*scene())
    paths = files(tmp_path)
    folder = tmp_path / "many"
    folder.mkdir()
    write(folder, there[:3], "a", "parquet")
    write(folder, [{**row, "keypoints": row["keypoints"][:6]} for row in there[3:6]], "b", "parquet")
    with pytest.raises(InputError, match="all truths must have 5 keypoints, as the first; got 2, too"):
        evaluate_files((paths[0], folder))
    for name in ("area", "num_keypoints"):
        write(folder, [{key: row[key] for key in row if key != name} for row in there[3:6]], "b", "parquet")
        with pytest.raises(InputError, match=f"`{name}` must be a column of all files of truths, or of none"):
            evaluate_files((paths[0], folder))


def test_files_without_keypoints(tmp_path: Path) -> None:
    """Are refused, and so are points that are no numbers, with the row."""
    found, there = table_rows(*scene())
    paths = files(tmp_path)
    boxes = write(tmp_path, [{key: row[key] for key in row if key != "keypoints"} for row in there], "boxes", "parquet")
    with pytest.raises(
        InputError, match=r"boxes\.parquet: must have sets of keypoints for `iou_type` keypoints; the file has none"
    ):
        evaluate_files((paths[0], boxes))
    there[2]["keypoints"] = [float("nan")] * 15
    bad = write(tmp_path, there, "bad", "parquet")
    with pytest.raises(InputError, match=r"bad\.parquet: row 2: `keypoints` must have finite numbers"):
        evaluate_files((paths[0], bad))
    assert found


def test_protocols_of_crowded_images_need_to_know_them(tmp_path: Path) -> None:
    """And refuse tables without `crowd_index` by name."""
    protocol = Protocol.named("crowdpose", sigmas=OKS.sigmas)
    with pytest.raises(InputError, match=r"`crowd_index` must be given for the truths, .*: protocol crowdpose has"):
        evaluate_files(files(tmp_path), protocol)


def test_shards_merge_to_what_one_pass_gives() -> None:
    """From tables and from columns, for any kind of lists."""
    detections, truths = expected(*scene(num_images=30))
    tallies = []
    for part in range(3):
        some = take(detections, detections.image_ids % 3 == part), take(truths, truths.image_ids % 3 == part)
        tallies.append(boxscore.scaling.match_shard(*some, OKS, name=f"part {part}"))
        for is_fixed in (False, True):
            sides = tables(*some, is_fixed=is_fixed)
            by_table = boxscore.scaling.match_shard(*sides, OKS, name=f"part {part}", box_format="xywh")
            assert list(boxscore.finish(by_table).values()) == list(boxscore.finish(tallies[-1]).values())
    assert_same(
        boxscore.finish(tallies[0].merge(tallies[1]).merge(tallies[2])), boxscore.evaluate(detections, truths, OKS)
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], "`keypoints` row 0 must be a list of numbers x, y, v, x, y, v, …, three for each point; got "),
        ([[1.0, 2.0]], "`keypoints` row 0 must be a list of numbers x, y, v, .* three for each point; got 2 numbers"),
        ([[1.0, 2.0, 2.0], [1.0] * 6], "`keypoints` row 1 must have 3 numbers; got 6"),
        ([[1.0, 2.0, 2.0], None], "`keypoints` row 1 must not be null"),
        (["[1, 2, 2]", "1, 2, 2"], "`keypoints` row 1 must be a list of numbers x, y, .*; got '1, 2, 2'"),
        ([["a", "b", "c"]], "`keypoints` must hold numbers; got list<"),
    ],
)
def test_columns_that_are_no_keypoints(rows: Any, message: str) -> None:
    """With the row and the rule."""
    with pytest.raises(InputError, match=message):
        arrow.detections_of(
            pyarrow.table({**dict.fromkeys(("image", "label", "score"), [0] * len(rows)), "keypoints": rows}),
            box_format="xyxy",
            kind=Keypoints,
        )
