"""What is written reads back: the same bits where the format can hold them, and what is lost is told."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import boxscore
from boxscore import Detections, Truths, formats
from boxscore._support.writing import write_file
from boxscore.cli import sample

FILES = ["c.json", "c.json.gz", "c.csv", "c.tsv", "c.npz", "c.parquet", "c.arrow"]
FOLDERS = ["voc", "yolo"]
NATIVE: dict[str, Any] = {"json": "xywh", "voc": "xyxy", "yolo": "cxcywh", "openimages": "xyxy"}
"""The box format that a format holds without rounding."""


def scene(seed: int, box_format: Any) -> tuple[Detections, Truths]:
    """Random columns with long decimals, an image and a class without boxes, and odd names."""
    rng = np.random.default_rng(seed)
    names = {3: "a b.jpg", 7: "sub/ä.png", 8: "c.v1.jpg", 9: "no boxes.jpg"}
    sizes = {3: (640, 480), 7: (333, 777), 8: (1, 1000), 9: (5, 5)}
    classes = {2: "cat", 4: "big & small dog", 5: "<never>, seen", 9: 'it\'s "x"'}

    def columns(count: int) -> dict[str, Any]:
        box = rng.random((count, 4)) * 100
        if box_format == "xyxy":
            box[:, 2:] += box[:, :2]
        return {
            "image_ids": rng.choice([3, 7, 8], count),
            "labels": rng.choice([2, 4, 9], count),
            "boxes": box,
            "box_format": box_format,
        }

    truths = Truths(
        **columns(20),
        ignore=rng.random(20) < 0.3,
        area=rng.random(20) * 1e4,
        class_names=classes,
        image_names=names,
        image_sizes=sizes,
    )
    return Detections(**columns(50), scores=rng.random(50)), truths


def same_bits(first: Any, second: Any) -> bool:
    """Two columns, bit by bit."""
    first, second = np.asarray(first), np.asarray(second)
    return bool(first.dtype == second.dtype and first.tobytes() == second.tobytes())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(3))
def test_files_hold_everything(tmp_path: Path, name: str, seed: int) -> None:
    """Ids, names, sizes, flags, areas, and every bit of boxes and scores."""
    if name.endswith(("parquet", "arrow")):
        pytest.importorskip("pyarrow")
    detections, truths = scene(seed, "xywh")
    lost = boxscore.write_truths(tmp_path / name, truths)
    again = boxscore.read_truths(tmp_path / name)
    for column in ("image_ids", "labels", "boxes", "area"):
        assert same_bits(getattr(again, column), getattr(truths, column)), column
    assert np.asarray(again.ignore).tolist() == np.asarray(truths.ignore).tolist()
    assert again.image_names == truths.image_names
    assert again.image_sizes == truths.image_sizes
    if name in ("c.csv", "c.tsv"):
        assert [str(loss) for loss in lost] == ["1 class without boxes is lost"]
    else:
        assert lost == ()
        assert again.names_by_label == truths.names_by_label
    assert boxscore.write_detections(tmp_path / f"d{name}", detections, truths) == ()
    found = boxscore.read_detections(tmp_path / f"d{name}", truths)
    for column in ("image_ids", "labels", "boxes", "scores"):
        assert same_bits(getattr(found, column), getattr(detections, column)), column
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, f"d{name}"]), "no temporary file is left"


@pytest.mark.parametrize("format", ["voc", "yolo", "openimages"])
@pytest.mark.parametrize("seed", range(3))
def test_formats_that_hold_less_say_so(tmp_path: Path, format: str, seed: int) -> None:  # noqa: A002
    """Boxes stay, in an order of their own; what is lost comes with numbers."""
    detections, truths = scene(seed, NATIVE[format])
    truths = Truths(**parts(truths) | {"class_names": {2: "cat", 4: "dog & co", 5: "never", 9: "x"}})
    if format == "voc":
        truths = Truths(**parts(truths) | {"image_names": {3: "a.jpg", 7: "sub/ä.png", 8: "c.v1.jpg", 9: "no.jpg"}})
    lost = {loss.what: loss.num for loss in boxscore.write_truths(tmp_path / "t", truths, format=format)}
    boxscore.write_detections(tmp_path / "d", detections, truths, format=format)
    sizes = {name: (truths.image_sizes or {})[number] for number, name in (truths.image_names or {}).items()}
    options: dict[str, Any] = {"sizes": sizes} if format == "openimages" else {}
    again = boxscore.read_truths(tmp_path / "t", format=format, **options)
    found = boxscore.read_detections(tmp_path / "d", again, format=format)
    assert lost["area"] == 20
    if format != "voc":
        assert lost["ignore flag"] == int(np.asarray(truths.ignore).sum())
    if format == "yolo":
        assert again.names_by_label == {0: "cat", 1: "dog & co", 2: "never", 3: "x"}
        assert lost["class id"] == 4
    if format == "voc":
        assert sorted(np.asarray(again.ignore).tolist()) == sorted(np.asarray(truths.ignore).tolist())
    assert len(again.image_names or {}) == (3 if format == "openimages" else 4)
    is_exact = "last digit" not in " ".join(lost)
    for first, second in ((truths, again), (detections, found)):
        old, new = np.sort(np.asarray(first.boxes), axis=0), np.sort(np.asarray(second.boxes), axis=0)
        assert np.array_equal(old, new) or not is_exact or format != "voc"
        np.testing.assert_allclose(new, old, rtol=1e-14, atol=1e-13)
    assert np.array_equal(np.sort(found.scores), np.sort(detections.scores))


def parts(truths: Truths) -> dict[str, Any]:
    """The fields of truths."""
    names = (
        "image_ids",
        "labels",
        "boxes",
        "ignore",
        "area",
        "box_format",
        "class_names",
        "image_names",
        "image_sizes",
    )
    return {name: getattr(truths, name) for name in names}


@pytest.mark.parametrize("format", ["coco", "csv", "npz", "voc", "yolo", "openimages"])
def test_evaluation_is_the_same_after_a_round_trip(tmp_path: Path, format: str) -> None:  # noqa: A002
    """On whole pixels, where no format rounds: the sample, from COCO to each and back."""
    found, truths = sample.load()
    image_sizes = dict.fromkeys(truths.image_names or {}, (1024, 512))
    whole = Truths(
        **parts(truths) | {"boxes": np.round(truths.boxes), "ignore": None, "area": None, "image_sizes": image_sizes}
    )
    found = Detections(
        image_ids=found.image_ids,
        labels=found.labels,
        scores=found.scores,
        boxes=np.round(found.boxes),
        box_format="xywh",
    )
    boxscore.write_truths(tmp_path / "t", whole, format=format)
    boxscore.write_detections(tmp_path / "d", found, whole, format=format)
    options: dict[str, Any] = (
        {"sizes": dict.fromkeys((truths.image_names or {}).values(), (1024, 512))} if "images" in format else {}
    )
    again = boxscore.read_truths(tmp_path / "t", format=format, **options)
    back = boxscore.read_detections(tmp_path / "d", again, format=format)
    expected, got = boxscore.evaluate(found, whole), boxscore.evaluate(back, again)
    assert got["map"] == expected["map"]
    assert got["map_75"] == expected["map_75"]


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_as_they_were(number: float) -> None:
    """The shortest text has the same bits, with or without a point."""
    from boxscore.formats.writers import number as written

    assert np.float64(float(written(number))).tobytes() == np.float64(number).tobytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), unique=True, min_size=1))
def test_any_class_name_survives(tmp_path: Path, names: list[str]) -> None:
    """Quotes, commas, line breaks, other scripts: in COCO, npz and Parquet."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0.0, 0.0, 1.0, 1.0]], class_names=names, image_names={0: "a"})
    expected = truths.names_by_label
    for file in ("c.json", "c.npz"):
        boxscore.write_truths(tmp_path / file, truths)
        assert boxscore.read_truths(tmp_path / file).names_by_label == expected


def test_far_corners_that_move_are_counted(tmp_path: Path) -> None:
    """COCO holds widths: 0.1 + (0.7 - 0.1) is 0.7 but 0.3 + (0.9 - 0.3) is not 0.9."""
    truths = Truths(image_ids=[0, 0], labels=[0, 0], boxes=[[0.1, 0.1, 0.7, 0.7], [0.3, 0.3, 0.9, 0.9]])
    moved = sum(low + (high - low) != high for low, high in ((0.1, 0.7), (0.3, 0.9)))
    lost = boxscore.write_truths(tmp_path / "c.json", truths)
    assert [loss.num for loss in lost] == ([moved] if moved else [])


def test_a_folder_with_files_is_refused_unless_asked(tmp_path: Path) -> None:
    """And then other files stay."""
    _, truths = scene(0, "cxcywh")
    folder = tmp_path / "out"
    folder.mkdir()
    boxscore.write_truths(folder, truths, format="yolo")
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(boxscore.InputError, match="already exists and is not empty; pass overwrite=True"):
        boxscore.write_truths(folder, truths, format="yolo")
    boxscore.write_truths(folder, truths, format="yolo", overwrite=True)
    assert (folder / "mine.txt").read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out"], "no temporary folder is left"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither half a file nor half a folder; an old file stays as it was."""
    _, truths = scene(0, "cxcywh")
    (tmp_path / "c.json").write_text("old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(boxscore.InputError, match="can't be written: No space left on device"):
        boxscore.write_truths(tmp_path / "c.json", truths)
    with pytest.raises(boxscore.InputError, match="can't be written: No space left on device"):
        boxscore.write_truths(tmp_path / "folder", truths, format="yolo")
    assert [file.name for file in tmp_path.iterdir()] == ["c.json"]
    assert (tmp_path / "c.json").read_text() == "old"


def test_many_may_write_to_one_name(tmp_path: Path) -> None:
    """At the same time: the file is always one of theirs, whole, and nothing else is left."""
    path, contents = tmp_path / "c.txt", [letter * 200_000 for letter in "abcd"]
    with ThreadPoolExecutor(len(contents)) as pool:
        for _ in pool.map(partial(write_file, path), contents * 25):
            assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What it points to is replaced."""
    result = boxscore.evaluate(*sample.load())
    (tmp_path / "elsewhere").mkdir()
    link, file = tmp_path / "latest.csv", tmp_path / "elsewhere" / "scores.csv"
    link.symlink_to(file)
    for _ in range(2):  # a file that is not there yet, and one that is
        result.to_csv(link)
        assert link.is_symlink()
        assert file.read_text() == result.to_csv()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """So does a device: a file in the place of /dev/stdout would be the end of it."""
    detections, truths = sample.load()
    result = boxscore.evaluate(detections, truths)
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    writers: tuple[Callable[[Path], Any], ...] = (
        result.to_csv,
        result.tally.save,
        lambda path: boxscore.write_truths(path, truths, format="csv"),
    )
    for write in writers:
        write(file)
        with ThreadPoolExecutor() as pool:
            reader = pool.submit(pipe.read_bytes)
            write(pipe)
            assert reader.result(timeout=60) == file.read_bytes()
        assert pipe.is_fifo()


def test_names_can_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    """Class names become file names in VOC's results, image names everywhere."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], class_names=["../../x"], image_names={0: "a"})
    found = Detections(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], scores=[0.5])
    with pytest.raises(boxscore.InputError, match="cannot be a part of a file name"):
        boxscore.write_detections(tmp_path / "d", found, truths, format="voc")
    named = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], class_names=["x"], image_names={0: "a/.."})
    with pytest.raises(boxscore.InputError, match="cannot be a part of a file name"):
        boxscore.write_truths(tmp_path / "t", named, format="voc")
    twins = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]], image_names={0: "a/x.jpg", 1: "b/x.jpg"})
    with pytest.raises(boxscore.InputError, match="images 0 and 1 have the same file stem 'x'"):
        boxscore.write_truths(tmp_path / "t", twins, format="voc")
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_written(tmp_path: Path) -> None:
    """An unknown suffix, a format that is only read, fractions without sizes."""
    truths = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 1, 1]])
    with pytest.raises(boxscore.InputError, match=r"^`format` to write truths must be one of labelme, .*'x.bin'"):
        boxscore.write_truths(tmp_path / "x.bin", truths)
    with pytest.raises(boxscore.InputError, match="got 'text'"):
        boxscore.write_truths(tmp_path / "x", truths, format="text")
    with pytest.raises(boxscore.InputError, match="image 0: boxes are written as fractions of its size"):
        boxscore.write_truths(tmp_path / "x", truths, format="yolo")


def test_nothing_at_all_reads_back(tmp_path: Path) -> None:
    """No boxes, no detections."""
    truths = Truths(
        image_ids=[], labels=[], boxes=[], class_names=["cat"], image_names={0: "a.jpg"}, image_sizes={0: (4, 4)}
    )
    found = Detections(image_ids=[], labels=[], boxes=[], scores=[])
    for name in ("coco", "csv", "npz", "voc", "yolo"):
        boxscore.write_truths(tmp_path / name, truths, format=name)
        boxscore.write_detections(tmp_path / f"d{name}", found, truths, format=name)
        again = boxscore.read_truths(tmp_path / name, format=name)
        assert len(again) == 0
        assert len(again.image_names or {}) == 1
        assert len(boxscore.read_detections(tmp_path / f"d{name}", truths, format=name)) == 0


def test_every_written_format_is_in_the_table() -> None:
    """The table says what can be written, and the functions are there."""
    for each in formats.FORMATS.values():
        for role in ("truths", "detections"):
            if getattr(each, role):
                assert callable(each.function("read", role))
                if each.is_written:
                    assert callable(each.function("write", role))


@pytest.mark.parametrize("name", ["voc", "t.csv", "t.npz", "t.parquet"])
def test_truncated_is_kept_where_a_format_has_a_place_for_it(tmp_path: Path, name: str) -> None:
    """It decides no number; elsewhere it is said to be lost."""
    flags = [True, False, True]
    truths = Truths(
        image_ids=[0, 0, 1],
        labels=[0, 1, 1],
        boxes=[[1, 2, 3, 4]] * 3,
        truncated=flags,
        class_names=["cat", "dog"],
        image_names={0: "a.jpg", 1: "b.jpg"},
        image_sizes={0: (9, 9), 1: (9, 9)},
    )
    chosen = "voc" if name == "voc" else None
    assert not any("truncated" in str(loss) for loss in boxscore.write_truths(tmp_path / name, truths, format=chosen))
    again = boxscore.read_truths(tmp_path / name)
    assert again.truncated is not None
    assert again.truncated.tolist() == flags
    for other, target in (("yolo", "labels"), ("coco", "t.json"), ("openimages", "o.csv")):
        losses = boxscore.write_truths(tmp_path / target, truths, format=other)
        assert any(str(loss).startswith("2 truncated flags") for loss in losses), other
