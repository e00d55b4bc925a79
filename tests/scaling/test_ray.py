"""A real Ray of several worker processes gives the bits of one process, whatever happens to the workers."""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import boxscore
import boxscore._support.memory_size
import boxscore.ray
from boxscore import InputError, Protocol, Result
from boxscore.cli import main
from tests.geometries.interval_scenes import make_scene, protocol_of
from tests.support import oriented_tables, pose_tables
from tests.support.arrow_tables import tables
from tests.support.comparisons import assert_same
from tests.support.entrances import CASES, expected, numbers_of, scene_of, tables_of
from tests.support.mask_scenes import columns_of, random_masks
from tests.support.page_runs import run_page
from tests.support.page_setups import prepare_page
from tests.support.scenes import Scene, random_scene

ray: Any = pytest.importorskip("ray")
OKS_BY_CROWDING = Protocol.named("crowdpose", sigmas=pose_tables.OKS.sigmas)
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The temporary folder of a Ray on this machine that works on two tasks at a time. It is gone afterwards."""
    import ray.data

    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short, for the names of sockets
    settings: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # no token in the home folder
        patch.setenv("RAY_worker_niceness", "0")  # else everything else on this machine would go first
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))  # of the workers
        try:
            ray.init(num_cpus=2, object_store_memory=200_000_000, _temp_dir=folder, **settings)
        except Exception:  # Ray gives itself half a minute to start, which is little on a busy machine
            ray.shutdown()
            ray.init(num_cpus=2, object_store_memory=200_000_000, _temp_dir=folder, **settings)
        yield Path(os.environ["TMPDIR"])
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def blocks(table: pa.Table, num: int) -> list[pa.Table]:
    """The table in pieces; images are split."""
    ends = np.linspace(0, table.num_rows, num + 1).astype(int)
    return [table.slice(start, end - start) for start, end in pairwise(ends)]


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    """Rows in random order."""
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def on_one_machine(found: pa.Table, there: pa.Table, protocol: Any) -> Result:
    """The same tables in one process."""
    tally = boxscore.scaling.match_shard(found, there, protocol, name="all", box_format="xywh")
    return boxscore.finish(tally)


def evaluate(found: Any, there: Any, protocol: Any = "coco", **options: Any) -> Result:
    """On Ray, without its notes."""
    return boxscore.ray.evaluate(found, there, protocol, box_format="xywh", quiet=True, **options)


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Ties everywhere, in score and in IoU."""
    return random_scene(1, num_images=40)


@pytest.mark.parametrize(
    "protocol",
    ["coco", "voc2012", Protocol.named("voc2007", average="micro")],
    ids=["coco, bins", "voc2012, bins", "voc2007, micro"],
)
def test_blocks_in_any_order_give_the_bits_of_one_process(
    cluster: Path, scene: Scene, protocol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images are spread over blocks, and a row is taken to need so much memory that a bin has one class."""
    if isinstance(protocol, str):  # all classes as one take a second reduction, which is enough
        monkeypatch.setattr("boxscore.scaling.ray.job.MATCH_BYTES", 1_500_000)
        monkeypatch.setattr("boxscore.scaling.ray.tally_store.DRAW_BYTES", 4_500_000)
    found, there = (shuffled(table, seed) for seed, table in enumerate(tables(scene.detections, scene.truths)))
    datasets = ray.data.from_arrow(blocks(found, 4)), ray.data.from_arrow(blocks(there, 3))
    result = evaluate(*datasets, protocol, memory="1GB")
    expected = on_one_machine(found, there, protocol)
    assert_same(result, expected)
    assert str(result.per_class) == str(expected.per_class)
    assert not list(cluster.iterdir()), "nothing is left behind"
    assert not datasets[0].context.execution_options.preserve_order, "the user's settings are as they were"
    with pytest.raises(InputError, match=r"this result has no tally: .* no verdicts were retained"):
        _ = result.tally


def write_parts(folder: Path, table: pa.Table, num: int) -> str:
    """The table as Parquet files in a folder."""
    folder.mkdir()
    for number, part in enumerate(blocks(table, num)):
        pa.parquet.write_table(part, folder / f"part-{number}.parquet", row_group_size=50)
    return str(folder)


def read(folder: str) -> Any:
    """The files, each row with its path."""
    return ray.data.read_parquet(folder, include_paths=True)


def test_images_and_classes_may_have_names(cluster: Path, scene: Scene, tmp_path: Path) -> None:
    """In Parquet files; ties are broken by the order of names, as where they are read on one machine."""
    found, there = tables(scene.detections, scene.truths)
    found = found.filter(np.isin(found["image"], there["image"]) & np.isin(found["label"], there["label"]))
    folders, files = [], []
    for side, table in (("dt", found), ("gt", there)):
        images = pa.array([f"{image * 7 % 40}.jpg" for image in table["image"].to_pylist()])
        labels = pa.array([f"kind {9 - label}" for label in table["label"].to_pylist()])
        named = table.set_column(0, "image", images).set_column(1, "label", labels)
        folders.append(write_parts(tmp_path / side, named, 3))
        files.append(tmp_path / f"{side}.parquet")
        pa.parquet.write_table(named, files[-1])
    truths = boxscore.read_truths(files[1], box_format="xywh")
    detections = boxscore.read_detections(files[0], truths, box_format="xywh")
    assert_same(evaluate(*map(read, folders)), boxscore.evaluate(detections, truths))


def test_rows_may_be_what_a_model_gives_on_ray(cluster: Path, scene: Scene) -> None:
    """Arrays of NumPy, which Ray keeps as tensors, and names as categories of pandas."""
    found, there = tables(scene.detections, scene.truths)
    datasets = []
    for table in (found, there):
        columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
        datasets.append(ray.data.from_numpy(columns["box"]).map_batches(lambda _, columns=columns: columns))
        datasets[-1] = datasets[-1].materialize()
    assert "tensor" in str(datasets[0].schema()).lower()
    assert_same(evaluate(*datasets), on_one_machine(found, there, "coco"))

    named = [
        table.set_column(0, "image", pa.array([f"{image:03}" for image in table["image"].to_pylist()])).to_pandas()
        for table in (found, there)
    ]
    as_categories = [ray.data.from_pandas(frame.astype({"image": "category"})) for frame in named]
    assert_same(evaluate(*as_categories), on_one_machine(found, there, "coco"))


def test_columns_that_do_not_go_together_are_told_at_once(cluster: Path, scene: Scene) -> None:
    """Before any row is sent anywhere, by the side that lacks one, or by both."""
    found, there = tables(scene.detections, scene.truths)
    named = there.set_column(0, "image", pa.array(map(str, there["image"].to_pylist())))
    cases = [
        (
            found.drop_columns(["score"]),
            there,
            "`detections` must have the columns image, label, score, box; got image",
        ),
        (found, there.drop_columns(["box"]), "`truths` must have the columns image, label, box; got image, label"),
        (found, named, "`image` must be text on both sides, .*; got int64 in `detections` and string in `truths`"),
    ]
    for detections, truths, message in cases:
        with pytest.raises(InputError, match=message):
            evaluate(ray.data.from_arrow(detections), ray.data.from_arrow(truths))
    place = found.column_names.index("score")
    bad = found.set_column(place, "score", pa.array([np.nan] * found.num_rows))
    with pytest.raises(InputError, match=r"^detections: image \d+: `score` must be finite; got nan$"):
        evaluate(ray.data.from_arrow(bad), ray.data.from_arrow(there))


def test_files_that_can_not_be_read_are_told_by_their_names(
    cluster: Path, scene: Scene, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one line, and nothing else is said: cut off, without bytes, of another kind, or with columns of another."""
    found, there = tables(scene.detections, scene.truths)
    folders = [write_parts(tmp_path / side, table, 2) for side, table in (("gt", there), ("dt", found))]

    def told(detections: str | Path) -> str:
        with pytest.raises(InputError) as caught:
            boxscore.ray.evaluate_files(detections, folders[0], box_format="xywh", quiet=True)
        return str(caught.value).replace(f"{tmp_path}/", "")

    for name in ("part-0.parquet", "part-1.parquet"):
        file = tmp_path / "dt" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:-50])
        assert told(tmp_path / "dt").startswith(f"dt/{name}: can't be read: Parquet magic bytes not found")
        file.write_bytes(b"")
        assert told(folders[1]) == f"dt/{name}: must not be empty; got 0 bytes"
        file.write_bytes(whole)
    (tmp_path / "dt" / "part-9.csv").write_text("image,label\n")
    assert told(folders[1]) == "dt: must have files of one kind; got dt/part-0.parquet and dt/part-9.csv"
    (tmp_path / "dt" / "part-9.csv").unlink()
    other = found.set_column(0, "image", pa.array(map(str, found["image"].to_pylist())))
    pa.parquet.write_table(other, tmp_path / "dt" / "part-9.parquet")
    assert told(folders[1]).startswith("dt/part-0.parquet and the files beside it don't go together: Unable to merge")
    assert told(folders[0]).startswith("gt/part-0.parquet: must have a column with the score (score, confidence, conf)")
    for content in ('{"image": 1, "label"', ""):
        (tmp_path / "found.jsonl").write_text(content)
        assert told(tmp_path / "found.jsonl").startswith("found.jsonl: ")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("is_dataset", [False, True], ids=["files", "datasets"])
def test_damaged_bytes_are_told_by_the_name_of_their_file(
    cluster: Path, scene: Scene, tmp_path: Path, is_dataset: bool
) -> None:
    """In the middle of the second of three files, whose head and end are whole."""
    found, there = tables(scene.detections, scene.truths)
    folders = [write_parts(tmp_path / side, table, 3) for side, table in (("dt", found), ("gt", there))]
    file = tmp_path / "dt" / "part-1.parquet"
    whole = bytearray(file.read_bytes())
    middle = whole.index(b"PAR1") + 200
    whole[middle : middle + 2000] = bytes(2000)
    file.write_bytes(whole)

    def run() -> Result:
        if is_dataset:
            return evaluate(*map(read, folders))
        return boxscore.ray.evaluate_files(folders[0], folders[1], box_format="xywh", quiet=True)

    with pytest.raises(InputError) as caught:
        run()
    assert str(caught.value).startswith(f"{file}: can't be read: ")
    assert "\n" not in str(caught.value)


def test_a_poisoned_file_is_told_by_its_name(cluster: Path, scene: Scene, tmp_path: Path) -> None:
    """One line: the file, the image, the column and what is wrong."""
    found, there = tables(scene.detections, scene.truths)
    folders = [write_parts(tmp_path / side, table, 3) for side, table in (("dt", found), ("gt", there))]
    bad = pa.parquet.read_table(tmp_path / "dt" / "part-1.parquet", columns=found.column_names)
    score = bad["score"].to_numpy().copy()
    score[5] = np.nan
    place = bad.column_names.index("score")
    pa.parquet.write_table(bad.set_column(place, "score", pa.array(score)), tmp_path / "dt" / "part-1.parquet")
    complaint = rf"^\S*dt/part-1\.parquet: image {bad['image'][5]}: `score` must be finite; got nan$"
    with pytest.raises(InputError, match=complaint):
        evaluate(*map(read, folders))


def test_a_file_that_is_there_twice_is_found_by_its_images(cluster: Path, scene: Scene, tmp_path: Path) -> None:
    """Under another name, in the middle of others."""
    found, there = tables(scene.detections, scene.truths)
    folders = [write_parts(tmp_path / side, table, 3) for side, table in (("dt", found), ("gt", there))]
    shutil.copy(tmp_path / "dt" / "part-1.parquet", tmp_path / "dt" / "part-7.parquet")
    with pytest.raises(
        InputError, match=r"image \d+ comes twice, .* from \S*part-[17]\.parquet and \S*part-[17]\.parq"
    ):
        evaluate(*map(read, folders))


def children(parent: int) -> list[int]:
    """The processes that one has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
    return found


def kill_a_worker(title: str, killed: list[int]) -> None:
    """Kill the first worker of our own Ray that is seen at a task of that title."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not killed:
        for worker in (worker for own in children(os.getpid()) for worker in children(own)):
            try:
                is_at_it = title in Path(f"/proc/{worker}/cmdline").read_text()
            except OSError:
                continue
            if is_at_it:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
                break
        time.sleep(0.005)


@pytest.mark.parametrize("title", ["check", "match_rows"])
def test_a_worker_that_is_killed_changes_nothing(cluster: Path, title: str) -> None:
    """While it checks rows, or while it matches them: another one does its work again."""
    random = np.random.default_rng(0)
    found, there = (
        pa.table(
            {
                "image": random.integers(0, 300, num),
                "label": random.integers(0, 3, num),
                "score": random.integers(0, 100, num) / 100,
                "box": random.integers(1, 60, (num, 4)).astype(float).tolist(),
            }
        )
        for num in (120_000, 9_000)
    )
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(title, killed))
    killer.start()
    result = evaluate(ray.data.from_arrow(blocks(found, 4)), ray.data.from_arrow(blocks(there, 2)), memory="40MB")
    killer.join()
    assert killed
    assert_same(result, on_one_machine(found, there, "coco"))


def test_nothing_at_all_is_fine(cluster: Path) -> None:
    """No detections, no truths: as in one process."""
    found = pa.table({"image": pa.array([], pa.int64()), "label": pa.array([], pa.int64())})
    found = found.append_column("score", pa.array([], pa.float64()))
    found = found.append_column("box", pa.array([], pa.list_(pa.float64())))
    some = pa.table({"image": [1], "label": [1], "box": [[0.0, 0.0, 9.0, 9.0]]})
    for there in (some, some.slice(0, 0)):
        # That there are truths and no detections is told.
        told: AbstractContextManager[Any] = (
            pytest.warns(UserWarning, match="no detections for 1 truth") if there.num_rows else nullcontext()
        )
        with told:
            result = evaluate(ray.data.from_arrow(found), ray.data.from_arrow(there))
        assert_same(result, on_one_machine(found, there, "coco"))
        assert not result.has_tally


def test_the_command_runs_on_ray(
    cluster: Path, scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Folders of Parquet files on one side, a pattern of JSON lines on the other, and the table of one machine."""
    found, there = tables(scene.detections, scene.truths)
    found = found.filter(np.isin(found["image"], there["image"]))
    pa.parquet.write_table(found, tmp_path / "dt.parquet")
    pa.parquet.write_table(there, tmp_path / "gt.parquet")
    assert main(["eval", f"{tmp_path}/gt.parquet", f"{tmp_path}/dt.parquet", "--box-format", "xywh"]) == 0
    expected = capsys.readouterr().out
    truths = write_parts(tmp_path / "gt", there, 2)
    (tmp_path / "dt").mkdir()
    for number, part in enumerate(blocks(found, 2)):
        lines = "\n".join(map(json.dumps, part.to_pylist()))
        (tmp_path / "dt" / f"{number}.jsonl").write_text(lines)
    command = ["eval", truths, f"{tmp_path}/dt/*.jsonl", "--box-format", "xywh", "--engine", "ray"]
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == expected.strip()
    assert main([*command[:2], f"{tmp_path}/nowhere", *command[3:]]) == 1
    assert "nowhere: no files with a name that ends in .parquet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--only-images", "some.txt"])


def test_what_is_no_dataset_is_refused(cluster: Path) -> None:
    """By the name of the argument."""
    with pytest.raises(InputError, match=r"`detections` must be a ray\.data\.Dataset; got dict"):
        evaluate({}, {})
    nothing = [ray.data.from_arrow(pa.table({"image": [1]}))] * 2
    with pytest.raises(InputError, match=r"`memory` must be 10 MB or more; got 1 kB"):
        evaluate(*nothing, memory="1kB")
    with pytest.raises(InputError, match=r"`memory` must be an amount like 500MB or 2GiB; got 'much'"):
        boxscore._support.memory_size.parse_size("much")


@pytest.mark.usefixtures("cluster")
def test_masks_travel_as_run_lengths() -> None:
    """And give the bits of one machine; a protocol of boxes misses them."""
    segm = Protocol.named("coco", iou_type="segm")
    found, there = tables(*columns_of(*random_masks(21, num_images=14)))
    sides = tuple(ray.data.from_arrow(blocks(shuffled(table, 1), 3)) for table in (found, there))
    expected = boxscore.finish(boxscore.scaling.match_shard(shuffled(found, 1), shuffled(there, 1), segm, name="all"))
    assert 0 < expected["map"] < 1
    assert_same(evaluate(sides[0], sides[1], segm), expected)
    with pytest.raises(InputError, match="`detections` must have the columns image, label, score, box; got image"):
        evaluate(*sides)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("form", ["columns", "corners"])
def test_oriented_boxes_of_files(form: str, tmp_path: Path) -> None:
    """With angles or as corners, with the result of one machine."""
    obb = Protocol.named("coco", iou_type="obb")
    box_format: Any = None if form == "corners" else "cxcywha:radians"
    paths = oriented_tables.write(tmp_path, form)
    result = boxscore.ray.evaluate_files(*paths, obb, box_format=box_format, quiet=True)
    expected = boxscore.evaluate(*oriented_tables.scene(), obb)
    if form == "corners":  # whose areas are those of the corners
        assert result["map"] == pytest.approx(expected["map"])
    else:
        assert_same(result, expected)


@pytest.mark.usefixtures("cluster")
def test_keypoints_travel_as_lists() -> None:
    """And give the bits of one machine, with boxes, areas and visibilities."""
    detections, truths = pose_tables.expected(*pose_tables.scene(num_images=20))
    found, there = (shuffled(table, 1) for table in tables(detections, truths))
    expected = boxscore.finish(
        boxscore.scaling.match_shard(found, there, pose_tables.OKS, name="all", box_format="xywh")
    )
    assert 0 < expected["map"] < 1
    sides = [ray.data.from_arrow(blocks(table, 3)) for table in (found, there)]
    result = evaluate(sides[0], sides[1], pose_tables.OKS)
    assert_same(result, expected)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("kind", "has_boxes"), [("parquet", False), ("csv", True)])
def test_keypoints_of_files(kind: str, has_boxes: bool, tmp_path: Path) -> None:
    """With the bits of one process, whether detections have boxes or not."""
    found, there = pose_tables.table_rows(*pose_tables.scene(has_boxes=has_boxes, num_images=20))
    paths = pose_tables.write(tmp_path, found, "found", kind), pose_tables.write(tmp_path, there, "there", kind)
    result = boxscore.ray.evaluate_files(*paths, pose_tables.OKS, quiet=True)
    expected = boxscore.evaluate(*pose_tables.read(paths), pose_tables.OKS)
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    with pytest.raises(InputError, match=r"`crowd_index` must be given for the truths, .*: protocol crowdpose has"):
        boxscore.ray.evaluate_files(*paths, OKS_BY_CROWDING, quiet=True)


RULES = ("lvis", "lvis_fixed", "openimages", "crowdhuman", "crowdpose", "olrp")
"""Protocols that ask for facts of images and classes, for all images, or for a limit over the dataset."""


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("case", ["coco boundary", "coco probiou", *RULES])
def test_a_protocol_has_the_numbers_of_evaluate(case: str) -> None:
    """As through every entrance (tests/test_entrances.py); tests above have the others."""
    scene = scene_of(CASES[case])
    found, there = (ray.data.from_arrow(table) for table in tables_of(scene))
    result = boxscore.ray.evaluate(found, there, CASES[case], box_format=scene.box_format, quiet=True)
    assert dict(numbers_of(result)) == dict(expected(CASES[case]))


def test_a_likely_mistake_is_told() -> None:
    """The driver looks at some boxes of a result near 0."""
    from tests.support.near_truths import centers, data

    found, truths = data()
    rows = [
        {"image": np.asarray(each.image_ids), "label": np.asarray(each.labels), "box": list(box)}
        for each, box in ((found, centers(found.boxes)), (truths, np.asarray(truths.boxes)))
    ]
    sides = [pa.table(columns) for columns in (rows[0] | {"score": np.asarray(found.scores)}, rows[1])]
    detections, there = map(ray.data.from_arrow, sides)
    with pytest.warns(UserWarning, match="the boxes of `detections` look like cxcywh, but are read as xywh"):
        boxscore.ray.evaluate(detections, there, box_format="xywh", quiet=True)


@pytest.mark.usefixtures("cluster")
def test_the_examples_of_its_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands and Python, on Ray and in steps."""
    monkeypatch.chdir(tmp_path)
    page = "docs/guides/scaling.md"
    run_page(page, tmp_path, prepare_page(page, tmp_path), capsys)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_geometry_of_the_tests(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import its module; files give the bits of the data in memory, from many shards."""
    scene = make_scene()
    detections, truths = scene.detections[0], scene.truths[0]
    paths = tmp_path / f"detections{suffix}", tmp_path / f"truths{suffix}"
    boxscore.formats.write_detections(paths[0], detections, truths)
    boxscore.formats.write_truths(paths[1], truths)
    monkeypatch.setattr("boxscore.scaling.ray.job.MATCH_BYTES", 500_000)
    protocol = protocol_of(detections)
    result = boxscore.ray.evaluate_files(*paths, protocol, memory="10MB", quiet=True)
    expected = boxscore.evaluate(detections, truths, protocol)
    assert list(result.values()) == list(expected.values())
    assert np.array_equal(result.curves.precision, expected.curves.precision)
