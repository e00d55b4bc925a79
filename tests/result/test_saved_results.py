"""A saved result comes back with the same bits; a file that is not whole is refused by its name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision, Result
from boxscore.cli import main, sample
from boxscore.result.blocks import magic
from boxscore.result.saved_results import KIND, read_saved
from tests.support.saved_files import sealed
from tests.support.scenes import random_scene

MAGIC = magic(KIND)


@pytest.mark.parametrize("protocol", ["coco", "voc2012", "olrp", "ultralytics"])
def test_a_result_comes_back_with_the_same_bits(tmp_path: Path, protocol: Any) -> None:
    """Numbers, classes, curves, confidence intervals, and what was left out."""
    scene = random_scene(3)
    result = boxscore.evaluate(scene.detections, scene.truths, protocol)
    result.save(tmp_path / "new" / "folders" / "a.boxscore")
    loaded = boxscore.load_result(tmp_path / "new" / "folders" / "a.boxscore")
    assert loaded.to_dict() == result.to_dict()
    assert np.array_equal(loaded.curves.precision, result.curves.precision)
    assert np.array_equal(loaded.images, result.images)
    ours, theirs = (each.intervals(resamples=20) for each in (loaded, result))
    assert np.array_equal([*ours.low.values()], [*theirs.low.values()], equal_nan=True)
    assert loaded.inputs is None


def test_names_of_images_and_what_is_a_part_come_back(tmp_path: Path) -> None:
    """So the worst images have their names, images without boxes are drawn, too, and no part seems whole."""
    truths = boxscore.read_truths(sample.FOLDER / "truths.json")
    detections = boxscore.read_detections(sample.FOLDER / "detections.json", truths)
    result = boxscore.evaluate(
        *boxscore.formats.select(detections, truths, images=[*(truths.image_names or {}).values()][:9])
    )
    result.save(tmp_path / "part")
    loaded = boxscore.load_result(tmp_path / "part")
    assert loaded.image_names == result.image_names
    assert loaded.worst_images().name == result.worst_images().name
    assert str(loaded.comparable) == str(result.comparable)
    assert not loaded.comparable


def test_a_metric_saves_its_result_in_one_line(tmp_path: Path) -> None:
    """With name and step; and with the same bits when it is saved again."""
    scene = random_scene(5)
    metric = MeanAveragePrecision(warn=False)
    metric.update(scene.detections, scene.truths)
    path = tmp_path / "runs" / "a" / "epoch_003.boxscore"
    metric.compute().save(path, name="a", step=3)
    loaded, header = boxscore.load_result(path), read_saved(path)[1]
    assert header is not None
    assert (header.name, header.step, header.version) == ("a", 3, boxscore.__version__)
    assert header.numbers == dict(metric.compute())
    assert loaded.to_dict() == metric.compute().to_dict()
    loaded.save(path)
    assert boxscore.load_result(path).to_dict() == metric.compute().to_dict()


def test_a_stored_tally_is_loaded_as_its_result(tmp_path: Path, result: Result) -> None:
    """`Tally.save` has the verdicts, not the names of images."""
    result.tally.save(tmp_path / "a.tally")
    assert dict(boxscore.load_result(tmp_path / "a.tally")) == dict(result)


@pytest.fixture(scope="module")
def content(result: Result, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a saved result."""
    path = tmp_path_factory.mktemp("saved") / "a.boxscore"
    result.save(path)
    return path.read_bytes()


def test_every_beginning_of_a_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """However much of it was copied; and so is a file with more bytes, or with another byte."""
    path = tmp_path / "half.boxscore"
    for size in (0, 5, len(MAGIC), len(MAGIC) + 9, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=r"half\.boxscore: (not a|the saved result is truncated: got .* bytes)"):
            boxscore.load_result(path)
    path.write_bytes(content + b"x")
    with pytest.raises(InputError, match=r"half\.boxscore: 1 bytes after the end of the saved result"):
        boxscore.load_result(path)
    for at in (len(MAGIC) + 40, len(content) - 40):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(InputError, match=r"checksum of the .* does not match: its bytes have changed"):
            boxscore.load_result(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"numbers": [1]},
        {"time": "noon"},
        {"image_names": [[1]]},
        {"subset": 3},
        {"numbers": {"map": "x"}},
        {"numbers": {"map": 10**400}},
        {"numbers": {"map": True}},
        {"step": "3"},
        {"step": 10**400},
        {"step": True},
        {"name": 3},
        {"num_given": "many"},
        {"num_given": -1},
        {"num_given": 10**400},
        {"subset": "images"},
        {"subset": [3]},
        {"image_names": [["1", "a.jpg"]]},
        {"image_names": [[1, 2]]},
        {"image_names": [[10**400, "a.jpg"]]},
        {"time": 10**400},
        {"time": "0001-01-01T00:00:00+14:00"},
        {"title": ["coco"]},
        {"comparable": 10**400},
    ],
)
def test_a_header_that_cannot_be_is_refused(tmp_path: Path, content: bytes, changes: dict[str, Any]) -> None:
    """Even with the right checksum."""
    (tmp_path / "a.boxscore").write_bytes(sealed(content, **changes))
    with pytest.raises(InputError, match=r"a\.boxscore: the saved result is invalid: "):
        boxscore.load_result(tmp_path / "a.boxscore")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": -1}, "`step` must be a non-negative integer; got -1"),
        ({"step": True}, "`step` must be a non-negative integer; got True"),
        ({"step": 1.5}, "`step` must be a non-negative integer; got 1.5"),
        ({"name": 7}, "`name` must be text; got int"),
    ],
)
def test_bad_options_write_nothing(tmp_path: Path, result: Result, options: dict[str, Any], words: str) -> None:
    """Not even the folder."""
    with pytest.raises(InputError) as caught:
        result.save(tmp_path / "runs" / "a.boxscore", **options)
    assert str(caught.value) == words
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_path_is_named(tmp_path: Path, result: Result) -> None:
    """A folder cannot be made below a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"a\.boxscore: can't be written: "):
        result.save(tmp_path / "file" / "a.boxscore")
    with pytest.raises(InputError, match=r"nothing: can't be read: No such file or directory"):
        boxscore.load_result(tmp_path / "nothing")


def test_eval_saves_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str], result: Result) -> None:
    """With the name of the model; and never over an input."""
    files = [str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")]
    path = tmp_path / "runs" / "a" / "epoch_3.boxscore"
    assert main(["eval", files[0], f"a={files[1]}", "--save", str(path)]) == 0
    assert capsys.readouterr().err == f"wrote {path}\n"
    assert boxscore.load_result(path).to_dict() == result.to_dict()
    header = read_saved(path)[1]
    assert header is not None
    assert header.name == "a"
    assert main(["eval", *files, "--save", files[1]]) == 1
    assert "is an input, and --save would overwrite it" in capsys.readouterr().err
    assert main(["eval", *files, "--save", str(tmp_path)]) == 1
    assert f"{tmp_path}: can't be written: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["other.json"], "argument --save: needs one file of detections and one similarity"),
        (["--iou-type", "bbox,segm"], "argument --save: needs one file of detections and one similarity"),
        (["--memory", "1GB"], "argument --save: does not work with --memory and --engine ray, which keep no verdicts"),
    ],
)
def test_eval_saves_one_result_with_its_verdicts(
    capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    """Anything else is a usage error before anything is read."""
    with pytest.raises(SystemExit) as caught:
        main(["eval", "truths.json", "detections.json", *options, "--save", "a.boxscore"])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
