"""Parquet files within a limit of memory: the bits of one evaluation, and nothing left on disk."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import boxscore
from boxscore import InputError, Protocol
from boxscore._support.memory_size import resident_memory
from boxscore.cli import main
from boxscore.scaling.out_of_core import evaluate_files
from tests.support.comparisons import assert_same
from tests.support.memory_limits import plenty
from tests.support.scenes import Scene, random_scene


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder for temporary files, which must be empty when the test is over."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir()), "nothing is left behind"


def write(scene: Scene, folder: Path, *, is_named: bool = False, seed: int = 0) -> tuple[str, str]:
    """Truths and detections of a scene as Parquet files with small row groups, rows in random order."""
    random = np.random.default_rng(seed)
    kept = np.isin(scene.detection["image_ids"], scene.truth["image_ids"]) & np.isin(
        scene.detection["labels"], scene.truth["labels"]
    )
    paths = []
    for side, columns in (("gt", scene.truth), ("dt", {name: c[kept] for name, c in scene.detection.items()})):
        order = random.permutation(columns["image_ids"].size)
        image, label, box = (columns[name][order] for name in ("image_ids", "labels", "boxes"))
        more: dict[str, Any] = {name: columns[name][order] for name in ("ignore", "area") if name in columns}
        if "scores" in columns:
            more["score"] = columns["scores"][order]
        keys: dict[str, Any] = {"image_id": image, "category_id": label, "bbox": box.tolist()}
        if is_named:
            keys = {"file_name": [f"{number * 7 % 40}.jpg" for number in image]}
            keys["class"] = [f"kind {9 - number}" for number in label]
            keys |= {name: box[:, i] for i, name in enumerate("xywh")}
        table = pa.table(keys | more)
        paths.append(str(folder / f"{side}.parquet"))
        pa.parquet.write_table(table, paths[-1], row_group_size=50)
    return paths[0], paths[1]


@pytest.mark.parametrize("is_named", [False, True], ids=["ids", "names"])
@pytest.mark.parametrize(
    ("protocol", "is_tight"),
    [("coco", False), ("coco", True), ("voc2012", True), (Protocol.named("coco", average="micro"), False)],
    ids=["coco", "coco, shards and bins", "voc2012, shards and bins", "micro"],
)
def test_files_give_what_reading_them_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: Any, is_named: bool, is_tight: bool
) -> None:
    """Whether all fits at once, or a row is taken to need so much memory that a few fit at a time."""
    if is_tight:
        monkeypatch.setattr("boxscore.scaling.out_of_core.MATCH_BYTES", 2**26)
        # Of two classes, the larger has 287 of 422 detections; some 350 fit at once.
        monkeypatch.setattr("boxscore.scaling.out_of_core.FINISH_BYTES", 5_500_000)
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path, is_named=is_named)
    truths = boxscore.read_truths(truths_path, box_format="xywh")
    detections = boxscore.read_detections(detections_path, truths, box_format="xywh")
    result = evaluate_files(detections_path, truths_path, protocol, memory=plenty(), box_format="xywh")
    expected = boxscore.evaluate(detections, truths, protocol)
    assert_same(result, expected)
    assert str(result.per_class) == str(expected.per_class)
    assert result.has_tally != is_tight


def test_folders_and_patterns_are_all_of_their_files(tmp_path: Path) -> None:
    """Each image may be in any of them."""
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path)
    expected = evaluate_files(detections_path, truths_path, memory=plenty(), box_format="xywh")
    table = pa.parquet.read_table(detections_path)
    (tmp_path / "parts").mkdir()
    for number in range(3):
        part = table.slice(number * 100, 100 if number < 2 else None)
        pa.parquet.write_table(part, tmp_path / "parts" / f"{number}.parquet")
    for parts in ("parts", "parts/*.parquet"):
        result = evaluate_files(str(tmp_path / parts), truths_path, memory=plenty(), box_format="xywh")
        assert_same(result, expected)
    with pytest.raises(InputError, match="no Parquet files there"):
        evaluate_files(str(tmp_path / "parts" / "*.csv"), truths_path, memory=plenty())
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        evaluate_files(str(tmp_path / "nowhere"), truths_path, memory=plenty())


def test_threads_and_the_kind_of_path_change_nothing(tmp_path: Path) -> None:
    """Columns are read by one thread, or by those of pyarrow; a path may be text or a `Path`."""
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path, is_named=True)
    expected = evaluate_files(detections_path, truths_path, memory=plenty(), threads=1)
    assert_same(evaluate_files(Path(detections_path), Path(truths_path), memory=plenty(), threads=3), expected)


def test_a_file_that_is_given_twice_is_found_by_its_images(tmp_path: Path) -> None:
    """Under another name; both are told."""
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path)
    shutil.copy(detections_path, tmp_path / "dt again.parquet")
    with pytest.raises(InputError, match=r"image \d+ comes twice, .*: from \S*dt again\.parquet and \S*dt\.parquet"):
        evaluate_files(str(tmp_path / "dt*.parquet"), truths_path, memory=plenty(), box_format="xywh")


def test_detections_elsewhere_are_an_error_or_left_out(tmp_path: Path) -> None:
    """As where files are read at once."""
    scene = random_scene(2, num_images=40)
    truths_path, detections_path = write(scene, tmp_path)
    table = pa.parquet.read_table(detections_path)
    image = table["image_id"].to_numpy().copy()
    image[7] = 999
    pa.parquet.write_table(table.set_column(0, "image_id", pa.array(image)), detections_path)
    options: dict[str, Any] = {"memory": plenty(), "box_format": "xywh"}
    with pytest.raises(InputError, match=r"dt\.parquet: row 7: image 999 is not among those of the truths"):
        evaluate_files(detections_path, truths_path, **options)
    with pytest.warns(UserWarning, match=f"1 detection of {table.num_rows} left out"):
        result = evaluate_files(detections_path, truths_path, **options, unmatched="warn")
    assert result.per_class.num_detections.sum() == table.num_rows - 1
    assert result.subset == (f"1 of {table.num_rows} detections left out",)
    assert not result.summary.comparable


def test_a_row_that_is_wrong_is_told_by_its_place(tmp_path: Path) -> None:
    """The file, the row in it, and the column; what was spilled is gone."""
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path)
    table = pa.parquet.read_table(detections_path)
    score = table["score"].to_numpy().copy()
    score[123] = np.nan
    pa.parquet.write_table(table.set_column(3, "score", pa.array(score)), detections_path, row_group_size=50)
    with pytest.raises(InputError, match=r"dt\.parquet: row 123: `score` must be finite; got nan"):
        evaluate_files(detections_path, truths_path, memory=plenty(), box_format="xywh")
    Path(detections_path).write_bytes(Path(detections_path).read_bytes()[:-100])
    with pytest.raises(InputError, match=r"dt\.parquet: not a whole Parquet file"):
        evaluate_files(detections_path, truths_path, memory=plenty(), box_format="xywh")


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    """In the middle, when boxes are on disk."""
    truths_path, detections_path = write(random_scene(2, num_images=40), tmp_path)

    def interrupt(doing: str) -> None:
        if doing.startswith("matching"):
            assert list(temporary.glob("*.boxscore-*/detections-*"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_files(detections_path, truths_path, memory=plenty(), box_format="xywh", step=interrupt)


@pytest.mark.parametrize(("num_images", "num_classes"), [(40, 3), (40, 900), (200_000, 3)])
def test_too_little_memory_is_told_with_what_it_takes(num_images: int, num_classes: int, tmp_path: Path) -> None:
    """Once: what is told is enough, for many classes and many images, too."""
    num = max(num_images, num_classes)
    side = {name: np.ones(num) for name in "xywh"} | {"category_id": np.arange(num) % num_classes}
    side["file_name"] = np.array([f"{'folder/' * 50}{i % num_images}.jpg" for i in range(num)])
    paths = [str(tmp_path / name) for name in ("gt.parquet", "dt.parquet")]
    pa.parquet.write_table(pa.table(side), paths[0])
    pa.parquet.write_table(pa.table(side | {"score": np.ones(num)}), paths[1])
    command = [sys.executable, "-m", "boxscore", "eval", *paths, "--box-format", "xywh", "--quiet", "--memory"]
    refused = subprocess.run([*command, "10MB"], capture_output=True, text=True)
    rule = r"`memory` must be larger for these files: (\d+ MB) is enough"
    told = re.fullmatch(rf"boxscore: {rule}; got 10 MB\n", refused.stderr)
    assert told is not None, refused.stderr
    done = subprocess.run([*command, told[1]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_too_little_memory_for_the_classes_is_told_before_boxes_are_read(tmp_path: Path) -> None:
    """The curves of 20,000 classes take 7.8 GB, and it is the truths that have them."""
    num = 20_000
    side = {name: np.ones(num) for name in "xywh"}
    pa.parquet.write_table(
        pa.table({"image_id": np.zeros(num, int), "category_id": np.arange(num)} | side), tmp_path / "gt"
    )
    pa.parquet.write_table(
        pa.table({"image_id": [0], "category_id": [0], "score": [0.5]} | {name: [1.0] for name in "xywh"}),
        tmp_path / "dt",
    )
    steps: list[str] = []
    told = r"`memory` must be larger for these files: (\d+) MB is enough; got"
    in_use = resident_memory() / 1e9
    with pytest.raises(InputError, match=told) as error:
        evaluate_files(str(tmp_path / "dt"), str(tmp_path / "gt"), memory=plenty(), step=steps.append)
    assert float(re.findall(told, str(error.value))[0]) / 1000 - in_use > 7
    assert steps == [f"reading the images of {tmp_path}/{name}" for name in ("gt", "dt")]


def test_a_full_disk_is_told_with_its_folder(tmp_path: Path, temporary: Path) -> None:
    """No file may have more than 10,000 bytes there; what was written is gone."""
    paths = write(random_scene(2, num_images=40), tmp_path)
    code = (
        "import resource, signal, sys; from boxscore.cli import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000));"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "eval", *paths, "--box-format", "xywh", "--memory", plenty()]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TMPDIR": str(temporary)})
    assert done.returncode == 1, done.stderr
    told = f"boxscore: {temporary}: can't be used: File too large; TMPDIR=FOLDER takes another folder\n"
    assert done.stderr == told


def test_a_disk_that_is_too_small_is_told_before_boxes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is taken to need so much that no disk has it."""
    monkeypatch.setattr("boxscore.scaling.out_of_core.SPILL_BYTES", 10**15)
    paths = write(random_scene(2, num_images=40), tmp_path)
    steps: list[str] = []
    with pytest.raises(
        InputError, match=r"must have \S+ GB free for the boxes of these files; got .* GB; TMPDIR=FOLDER"
    ):
        evaluate_files(*paths[::-1], memory=plenty(), box_format="xywh", step=steps.append)
    assert len(steps) == 2


def test_the_command_takes_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And prints the table that it prints without one."""
    paths = write(random_scene(2, num_images=40), tmp_path)
    assert main(["eval", *paths, "--box-format", "xywh", "--per-class"]) == 0
    expected = capsys.readouterr().out
    assert main(["eval", *paths, "--box-format", "xywh", "--per-class", "--memory", plenty()]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--memory", "much"], "must be an amount like 500MB or 2GiB; got 'much'"),
        (["--memory", "1GB", "--classes", "a"], "--classes: not with --memory"),
        (["--memory", "1GB", "--errors"], "--errors: not with --memory"),
        (["--memory", "1GB", "--html", "report.html"], "--html: not with --memory"),
        (["--memory", "1GB", "--engine", "parallel"], "parallel has no limit of memory"),
        (["--address", "here:1"], "--address: needs --engine ray"),
    ],
)
def test_a_call_that_can_not_be_is_told(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(["eval", "a.parquet", "b.parquet", *arguments])
    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


def test_files_larger_than_the_limit_are_evaluated_inside_it(tmp_path: Path) -> None:
    """The whole process, interpreter and libraries included, by the kernel's own count of its largest size."""
    random = np.random.default_rng(0)
    num, num_truths, num_images = 5_000_000, 100_000, 50_000
    truth_box = random.uniform(0, 100, (num_truths, 4)) + 1
    near = random.integers(0, num_truths, num)
    truths = {"image_id": np.arange(num_truths) % num_images, "category_id": np.arange(num_truths) % 100}
    found = {"image_id": near % num_images, "category_id": near % 100, "score": random.random(num)}
    boxes = {name: truth_box[:, i] for i, name in enumerate("xywh")}
    near_boxes = {name: truth_box[near, i] * random.uniform(0.9, 1.1, num) for i, name in enumerate("xywh")}
    paths = [str(tmp_path / name) for name in ("gt.parquet", "dt.parquet")]
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    pa.parquet.write_table(pa.table(truths | boxes), paths[0], **options)
    pa.parquet.write_table(pa.table(found | near_boxes), paths[1], **options)
    limit = 260_000_000
    assert Path(paths[1]).stat().st_size > limit
    code = (
        "import sys; from boxscore.cli import main; main(sys.argv[1:]);"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) * 1024)"
    )
    command = ["eval", *paths, "--protocol", "voc2012", "--memory", str(limit), "--json", "-", "--threads", "2"]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    document, _, peak = done.stdout.strip().rpartition("\n")
    assert int(peak) <= limit
    detections = boxscore.Detections(
        image_ids=found["image_id"],
        labels=found["category_id"],
        scores=found["score"],
        boxes=np.stack(list(near_boxes.values()), axis=1),
        box_format="xywh",
    )
    there = boxscore.Truths(
        image_ids=truths["image_id"], labels=truths["category_id"], boxes=truth_box, box_format="xywh"
    )
    assert json.loads(document) == boxscore.evaluate(detections, there, "voc2012").to_dict()
