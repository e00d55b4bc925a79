"""A result near 0 comes with its likely cause, and a detector that is just bad is not accused of anything."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, MeanAveragePrecision, Protocol, Truths
from boxscore.checks.mistakes import Mistake, Remedies, Watch, find_mistakes
from boxscore.cli import main
from boxscore.data.dataset import take
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from tests.support.memory_limits import plenty
from tests.support.near_truths import SIZE, centers, corners, data, write_coco
from tests.support.shared import shared_data


def boxes(columns: Detections | Truths, box: Any) -> Boxes:
    """Other boxes in the format that columns have."""
    return Boxes(boxes=box, box_format=columns.box_format)


def changed(detections: Detections, **changes: Any) -> Detections:
    """The detections with other columns; `boxes` in their format."""
    if "boxes" in changes:
        changes["geometry"] = boxes(detections, changes.pop("boxes"))
    return replace(detections, **changes)


def look(detections: Detections, truths: Truths) -> Mistake | None:
    """The one mistake that is found behind the result."""
    found = find_mistakes(boxscore.evaluate(detections, truths), detections, truths, Remedies())
    assert len(found) <= 1
    return found[0] if found else None


MISTAKES: dict[str, tuple[str, str, Callable[[Detections], dict[str, Any]]]] = {
    "corners": ("box-format", "look like xyxy, but are read as xywh", lambda found: {"boxes": corners(found.boxes)}),
    "centers": ("box-format", "look like cxcywh, but are read as xywh", lambda found: {"boxes": centers(found.boxes)}),
    "fractions": ("unit", "look like fractions of", lambda found: {"boxes": found.boxes / [*SIZE, *SIZE]}),
    "thousandths": ("unit", "look like thousandths", lambda found: {"boxes": found.boxes / [*SIZE, *SIZE] * 1000}),
    "y before x": ("axes", "x and y of `preds` look swapped", lambda found: {"boxes": found.boxes[:, [1, 0, 3, 2]]}),
    "low": ("shifted-labels", "look one too low", lambda found: {"labels": found.labels - 1}),
    "high": ("shifted-labels", "look one too high", lambda found: {"labels": found.labels + 1}),
    "other classes": ("other-labels", "another list of classes", lambda found: {"labels": found.labels * 37 % 11}),
    "next image": (
        "image-ids",
        "the images of `preds` look one too high",
        lambda found: {"image_ids": found.image_ids + 1},
    ),
    "nothing": (
        "empty",
        "no detections for 60 truths",
        lambda _: {key: [] for key in ("image_ids", "labels", "scores", "boxes")},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_likely_mistakes_are_found(name: str) -> None:
    """With the numbers that show it; without the mistake nothing is said."""
    kind, message, change = MISTAKES[name]
    found, truths = data()
    assert look(found, truths) is None
    told = look(changed(found, **change(found)), truths)
    assert told is not None
    assert told.kind == kind
    assert message in str(told)


@pytest.mark.parametrize("num_classes", [1, 2, 10, 80])
@pytest.mark.parametrize("shift", [-1, 1])
def test_labels_off_by_one_are_found_for_any_number_of_classes(num_classes: int, shift: int) -> None:
    """Also where all labels but one occur on both sides."""
    found, truths = data(num_classes, num_images=40)
    told = look(replace(found, labels=found.labels + shift), truths)
    assert told is not None
    assert told.kind == "shifted-labels"


def test_two_mistakes_at_once_are_both_told() -> None:
    """The boxes first."""
    found, truths = data()
    told = look(replace(found, geometry=boxes(found, centers(found.boxes)), labels=found.labels - 1), truths)
    assert told is not None
    assert told.kind == "box-format"
    assert "Besides, the labels of `preds` look one too low" in str(told)


def test_truths_of_another_format_are_found() -> None:
    """The mistake may be on their side."""
    found, truths = data()
    told = look(found, replace(truths, geometry=boxes(truths, centers(truths.boxes))))
    assert told is not None
    assert "the boxes of `targets` look like cxcywh, but are read as xywh" in str(told)


BAD: dict[str, Callable[[Detections, Any, Any], dict[str, Any]]] = {
    "random labels": lambda found, rng, _: {"labels": rng.permutation(found.labels)},
    "one class": lambda found, *_: {"labels": np.full(len(found), np.asarray(found.labels)[0])},
    "random boxes": lambda found, rng, size: {
        "boxes": np.concatenate([rng.random((len(found), 2)), rng.random((len(found), 2)) / 2], axis=1)
        * np.concatenate([size, size], axis=1)
    },
    "tiny boxes": lambda found, rng, size: {
        "boxes": np.concatenate([rng.random((len(found), 2)) * size, np.full((len(found), 2), 4.0)], axis=1)
    },
    "whole images": lambda _, __, size: {"boxes": np.concatenate([np.zeros_like(size), size], axis=1)},
    "anchors": lambda _, __, size: {"boxes": np.concatenate([size / 2 - 20, np.full_like(size, 40.0)], axis=1)},
    "random scores": lambda found, rng, _: {"scores": rng.random(len(found))},
    "jitter": lambda found, rng, _: {
        "boxes": found.boxes
        * np.concatenate([np.ones((len(found), 2)), np.exp(rng.normal(0, 1, (len(found), 2)))], axis=1)
    },
}


@pytest.fixture(scope="module")
def real() -> tuple[Detections, Truths]:
    """YOLOX-Nano on COCO val2017."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    return boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths), truths


@pytest.mark.parametrize("num_images", [8, 40, 1000])
@pytest.mark.parametrize("name", BAD)
def test_bad_detectors_are_not_accused(real: tuple[Detections, Truths], name: str, num_images: int) -> None:
    """An untrained model on real images has no reading that would make it good."""
    rng = np.random.default_rng(num_images)
    images = rng.choice(np.unique(np.asarray(real[1].image_ids)), num_images, replace=False)
    found = take(real[0], np.isin(np.asarray(real[0].image_ids), images))
    truths = take(real[1], np.isin(np.asarray(real[1].image_ids), images))
    sizes = truths.image_sizes or {}
    size = np.array([sizes[image] for image in np.asarray(found.image_ids).tolist()], np.float64)
    assert look(changed(found, **BAD[name](found, rng, size)), truths) is None


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in ("nothing", "other classes")])
def test_mistakes_with_a_real_detector_are_found(real: tuple[Detections, Truths], name: str) -> None:
    """Where large boxes overlap truths even if they are misread, too."""
    kind, _, change = MISTAKES[name]
    found, truths = real
    if name in ("fractions", "thousandths"):
        size = np.array(
            [(truths.image_sizes or {})[image] for image in np.asarray(found.image_ids).tolist()], np.float64
        )
        factor = 1000 if name == "thousandths" else 1
        found = replace(found, geometry=boxes(found, found.boxes / np.concatenate([size, size], axis=1) * factor))
    elif name == "next image":
        images = np.unique(np.asarray(truths.image_ids))
        place = np.searchsorted(images, np.asarray(found.image_ids))
        found = replace(found, image_ids=images[np.minimum(place + 1, images.size - 1)])
    else:
        found = changed(found, **change(found))
    told = look(found, replace(truths, class_names=None))
    assert told is not None
    assert told.kind == kind


def turned(found: Detections, truths: Truths, sign: int) -> tuple[Detections, Truths]:
    """Both as oriented boxes, 4 times as wide as high; the angles of detections have this sign."""
    box = centers(truths.boxes)
    box[:, 2] = 4 * box[:, 3]
    oriented = np.concatenate([box, np.linspace(0.3, 1.2, len(box))[:, None]], axis=1)
    own = oriented * [1, 1, 1, 1, sign]
    geometry = [OrientedBoxes(boxes=each, box_format="cxcywha:radians") for each in (own, oriented)]
    return replace(found, geometry=geometry[0]), replace(truths, geometry=geometry[1])


def test_every_entrance_asks_about_angles() -> None:
    """A result, a metric that has seen batches, and the command that checks files."""
    found, truths = data()
    protocol = Protocol.named("coco", iou_type="obb")
    right, wrong = (turned(found, truths, sign) for sign in (1, -1))
    assert find_mistakes(boxscore.evaluate(*right, protocol), *right, Remedies()) == []
    (told,) = find_mistakes(boxscore.evaluate(*wrong, protocol), *wrong, Remedies())
    assert told.kind == "turned-backwards"
    assert 12 <= told.evidence.num <= told.evidence.facts["rows"] == 60
    assert f"{told.evidence.num} of the 60 best of `preds` overlap a truth only if angles turn the other way" in str(
        told
    )
    metric = MeanAveragePrecision(protocol, box_format="cxcywha:radians")
    metric.update(*wrong)
    with pytest.warns(UserWarning, match="overlap a truth only if angles turn the other way"):
        metric.compute()


@pytest.mark.parametrize("side", [0, 1])
def test_fractions_beside_pixels_are_told_apart(side: int) -> None:
    """By their numbers, where no size of an image is known."""
    columns: list[Any] = [*data()]
    columns[1] = replace(columns[1], image_sizes=None)
    columns[side] = replace(columns[side], geometry=boxes(columns[side], columns[side].boxes / [*SIZE, *SIZE]))
    told = look(*columns)
    assert told is not None
    names = ["`preds`", "`targets`"][:: 1 - 2 * side]
    fractions = f"the boxes of {names[0]} look like fractions of the image's size"
    assert str(told).startswith(f"{fractions}, and the boxes of {names[1]} like pixels; multiply the fractions by")


def test_labels_that_no_truth_has_are_told() -> None:
    """Where no shift, order or mapping explains them."""
    found, truths = data()
    told = look(replace(found, labels=np.random.default_rng(1).integers(70, 80, len(found))), truths)
    assert told is not None
    assert told.kind == "foreign-labels"
    assert (
        str(told) == "no label of `preds` (70, 71, 72, …) is one of `targets` (1, 2, 3, …): give both the same labels"
    )


def test_a_mistake_has_its_numbers_as_values() -> None:
    """Programs need not read them in the message."""
    found, truths = data()
    told = look(replace(found, labels=np.asarray(found.labels) + 1), truths)
    assert told is not None
    assert told.evidence.facts["reading"] == "one too high"
    assert [told.evidence.facts[name] for name in ("overlaps", "then", "now")] == [60, 60, 0]


def test_files_are_examined_as_columns_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A box beyond the image among 130 fractions: neither the fast path nor a check of files takes them for pixels."""
    columns = [
        replace(each, image_ids=np.asarray(each.image_ids) % 13 + 1, geometry=boxes(each, each.boxes / [*SIZE, *SIZE]))
        for each in data(num_images=26)
    ]
    columns[0].boxes[7] = [-3, 0.1, 5, 0.2]
    paths = files(tmp_path, *columns)  # type: ignore[arg-type]
    assert main(["eval", *paths]) == 0
    assert "look like fractions of the image's size, but are read as pixels" in capsys.readouterr().err
    assert main(["check", *paths, "--json", "-"]) == 0
    kinds = [each["kind"] for each in json.loads(capsys.readouterr().out)]
    assert kinds.count("fractions-as-pixels") == 2


def batches(found: Detections, truths: Truths) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Two images at a time, as lists of dicts."""

    def dicts(columns: Any, images: Any, names: dict[str, str]) -> list[dict[str, Any]]:
        rows = [np.flatnonzero(np.asarray(columns.image_ids) == image) for image in images]
        return [{key: np.asarray(getattr(columns, name))[row] for key, name in names.items()} for row in rows]

    images = np.unique(np.asarray(truths.image_ids))
    own = {"boxes": "boxes", "labels": "labels"}
    return [
        (dicts(found, images[i : i + 2], own | {"scores": "scores"}), dicts(truths, images[i : i + 2], own))
        for i in range(0, images.size, 2)
    ]


@pytest.mark.parametrize("name", ["centers", "y before x", "high", "nothing"])
def test_the_metric_warns_once(name: str) -> None:
    """In `compute`, by what the first batches had; neither again nor if it is told not to."""
    _, message, change = MISTAKES[name]
    found, truths = data()
    found = changed(found, **change(found))
    metric, quiet = (MeanAveragePrecision(box_format="xywh", warn=warn) for warn in (True, False))
    for preds, targets in batches(found, truths):
        metric.update(preds, targets)
        quiet.update(preds, targets)
    with pytest.warns(UserWarning, match=f"{message}.*warn=False silences this") as told:
        metric.compute()
    assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        metric.compute()
        quiet.compute()


def test_the_metric_says_nothing_of_good_and_of_bad_boxes() -> None:
    """An untrained model in the first epoch is no mistake."""
    found, truths = data()
    rng = np.random.default_rng(1)
    for each in (found, replace(found, geometry=boxes(found, rng.permutation(np.asarray(found.boxes))))):
        metric = MeanAveragePrecision(box_format="xywh")
        with warnings.catch_warnings(action="error"):
            for preds, targets in batches(each, truths):
                metric.update(preds, targets)
            metric.compute()


def test_the_class_of_torchmetrics_warns_alike() -> None:
    """Once, and not if told."""
    torch = pytest.importorskip("torch")
    module = pytest.importorskip("boxscore.torchmetrics")
    found, truths = data()
    metric, quiet = (module.MeanAveragePrecision("xywh", warn=warn) for warn in (True, False))
    for preds, targets in batches(replace(found, labels=np.asarray(found.labels) + 1), truths):
        tensors = [
            [{key: torch.tensor(value) for key, value in each.items()} for each in side] for side in (preds, targets)
        ]
        metric.update(*tensors)
        quiet.update(*tensors)
    with pytest.warns(UserWarning, match=r"the labels of `preds` look one too high.*warn=False") as told:
        metric.compute()
    assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        quiet.compute()


def test_a_watch_keeps_a_bounded_copy() -> None:
    """Of ten batches at most, and of a large one some images."""
    watch = Watch()
    num = 2 * Watch.NUM_ROWS
    image = np.arange(num) // 10
    box = np.tile([0.0, 0.0, 9.0, 9.0], (num, 1))
    watch.add(
        Detections(image_ids=image, labels=image, scores=np.ones(num), boxes=box),
        Truths(image_ids=image, labels=image, boxes=box),
    )
    kept = watch._batches[0]
    assert len(kept.detections["boxes"]) == len(kept.truths["boxes"]) == Watch.NUM_ROWS // 10
    box[:] = 0
    assert kept.detections["boxes"].all(axis=0).tolist() == [False, False, True, True], "it is a copy"


def files(folder: Path, found: Detections, truths: Truths, *, first_id: int = 1) -> list[str]:
    """Both as COCO files, with 13 images of one size."""
    images = [{"id": image, "width": SIZE[0], "height": SIZE[1]} for image in range(1, 14)]
    return write_coco(folder, found, truths, images=images, first_id=first_id)


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("command", ["eval", "compare"])
def test_commands_say_it_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, command: str) -> None:
    """Once for each file, with the command that says more."""
    _, message, change = MISTAKES[name]
    found, truths = data()
    truth_file, file = files(tmp_path, changed(found, **change(found)), truths)
    more = [] if command == "eval" else [file, "--bootstrap", "10"]
    assert main([command, truth_file, file, *more]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if message.replace("`preds`", file) in line]
    assert len(told) == 1 + (command == "compare")
    assert told[0].endswith(f"; try `boxscore check {truth_file} {file}`")


def test_a_class_beside_background_may_be_off_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All detections are of a class that is listed and has no truths."""
    found, truths = data(1)
    paths = files(tmp_path, replace(found, labels=np.asarray(found.labels) - 1), truths)
    assert main(["eval", *paths]) == 0
    assert "look one too low: of 60 that overlap a truth, 60 would be of its class" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in MISTAKES if name != "nothing"])
def test_check_finds_what_eval_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One warning, whichever check has found it; and none without the mistake."""
    found, truths = data()
    assert main(["check", *files(tmp_path, found, truths)]) == 0
    assert "no warnings" in capsys.readouterr().out
    kind, _, change = MISTAKES[name]
    assert main(["check", *files(tmp_path, changed(found, **change(found)), truths), "--json", "-"]) == 0
    kinds = {finding["kind"] for finding in json.loads(capsys.readouterr().out) if finding["severity"] == "warning"}
    same = {"unit": "fractions-as-pixels"}
    assert kinds & {kind, same.get(kind)}
    assert len(kinds - {"outside-image", "over-the-border"}) == 1


def test_the_option_that_is_named_mends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """COCO results with corners are read as such, and then nothing is said."""
    found, truths = data()
    paths = files(tmp_path, replace(found, geometry=boxes(found, corners(found.boxes))), truths)
    assert main(["eval", *paths]) == 0
    assert "`--box-format xyxy` reads them so" in capsys.readouterr().err
    assert main(["eval", *paths, "--box-format", "xyxy", "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out)["map_50"] > 0.9


def test_a_bad_detector_gets_a_soft_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And none with --quiet."""
    found, truths = data()
    paths = files(tmp_path, replace(found, image_ids=np.roll(np.asarray(found.image_ids), 25)), truths)
    assert main(["eval", *paths]) == 0
    assert "the detections may just be bad, or belong to other images; try `boxscore check" in capsys.readouterr().err
    assert main(["eval", *paths, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_files_beyond_memory_are_looked_at_too(tmp_path: Path) -> None:
    """By a part of the boxes."""
    pytest.importorskip("pyarrow")
    from boxscore.scaling.out_of_core import evaluate_files

    found, truths = data()
    boxscore.write_truths(tmp_path / "gt.parquet", truths)
    boxscore.write_detections(
        tmp_path / "dt.parquet", replace(found, geometry=boxes(found, centers(found.boxes))), truths
    )
    with pytest.warns(UserWarning, match=r"dt.parquet look like cxcywh, but are read as xywh"):
        evaluate_files(str(tmp_path / "dt.parquet"), str(tmp_path / "gt.parquet"), memory=plenty())


def test_annotation_ids_from_1_on_need_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pycocotools gives the same number."""
    assert main(["eval", *files(tmp_path, *data(1, num_images=1), first_id=1)]) == 0
    assert capsys.readouterr().err == ""


def test_a_number_that_pycocotools_would_not_give_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It takes the annotation id 0 for no match."""
    found, truths = data(1, num_images=1)
    paths = files(tmp_path, found, truths, first_id=0)
    assert main(["eval", *paths]) == 0
    err = capsys.readouterr().err
    number = theirs(*paths)
    own = boxscore.evaluate(found, truths)["map"]
    assert number < own
    assert err == (
        f"boxscore: warning: {paths[0]}: an annotation has the id 0, which means no match in pycocotools:"
        f" it would give map {number:.4f} for {paths[1]}, not {own:.4f}\n"
    )
    assert main(["check", *paths]) == 0
    out = capsys.readouterr().out
    assert "warning: 1 annotation with the id 0\n" in out
    assert f"warning: pycocotools would give map {number:.4f}, boxscore gives {own:.4f}\n" in out


def theirs(truths: str, detections: str) -> float:
    """The mean AP by pycocotools itself."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    there = COCO(truths)
    evaluation = COCOeval(there, there.loadRes(detections), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


def test_annotation_ids_that_come_twice_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of such annotations pycocotools has the last in the place of each."""
    found, truths = data(1, num_images=2)
    paths = files(tmp_path, found, truths)
    dataset = json.loads(Path(paths[0]).read_text())
    dataset["annotations"][3]["id"] = dataset["annotations"][8]["id"] = 77
    Path(paths[0]).write_text(json.dumps(dataset))
    number, own = theirs(*paths), boxscore.evaluate(found, truths)["map"]
    capsys.readouterr()
    assert main(["eval", *paths]) == 0
    assert capsys.readouterr().err == (
        f"boxscore: warning: {paths[0]}: 1 annotation has the id of another, which pycocotools confuses:"
        f" it would give map {number:.4f} for {paths[1]}, not {own:.4f}\n"
    )
