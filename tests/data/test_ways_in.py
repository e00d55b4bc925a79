"""One scene through every way in: the prepared input and the tally are identical, column by column."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore.arrays import to_numpy
from boxscore.data.dataset import host_areas, host_ids, host_scores
from boxscore.data.preparation import prepare
from boxscore.protocol.table import protocol_of
from tests.support.comparisons import assert_same, assert_same_tally

SIDE, NUM_CLASSES, NUM_POINTS = 64, 3, 17
IMAGE_IDS = [9, 4, 30, 7, 12]
"""Neither sorted nor consecutive; the second has neither detections nor truths, the third no truths."""
IMAGE_NAMES = {image: f"{image:04}.jpg" for image in IMAGE_IDS}
CLASSES = {1: "cat", 2: "dog", 3: "heron"}
SHAPES = ("bbox", "segm", "keypoints", "obb")
Dict = dict[str, Any]
Sides = tuple[Detections, Truths]


def _shapes(iou_type: str, corner: Any, side: Any) -> Dict:
    if iou_type == "segm":
        place = np.arange(SIDE)
        columns, rows = ((place >= corner[:, i, None]) & (place < (corner + side)[:, i, None]) for i in (0, 1))
        return {"masks": rows[:, :, None] & columns[:, None, :]}
    if iou_type == "keypoints":
        return {"keypoints": corner[:, None] + side[:, None] * (np.arange(2 * NUM_POINTS).reshape(-1, 2) % 7) / 8}
    if iou_type == "obb":  # a rhombus, whose corners are whole numbers, as files have them
        steps = np.array([[1, 0], [2, 1], [1, 2], [0, 1]])
        return {"boxes": (corner[:, None] + side[:, None] * steps).reshape(-1, 8)}
    return {"boxes": np.concatenate([corner, corner + side], axis=1).reshape(-1, 4)}


@cache
def images_of(iou_type: str) -> tuple[list[Dict], list[Dict]]:
    """Both sides as one dict per image: crowds, areas that are not the shapes' own, equal scores, empty images."""
    random = np.random.default_rng(3)
    preds, targets = [], []
    for image in range(len(IMAGE_IDS)):
        num_truths = 0 if image in (1, 2) else int(random.integers(2, 6))
        num = 0 if image == 1 else int(random.integers(5, 9))
        corner, side = random.integers(0, 30, (num_truths, 2)) * 1.0, random.integers(4, 30, (num_truths, 2)) * 1.0
        target = _shapes(iou_type, corner, side)
        target |= {"labels": random.integers(1, NUM_CLASSES + 1, num_truths), "area": side.prod(axis=1) // 2 + 1.0}
        if iou_type == "keypoints":
            target["area"] *= 50.0
        target["iscrowd"] = (random.random(num_truths) < 0.3).astype(int)
        if iou_type == "keypoints":
            target["visibility"] = random.integers(0, 3, (num_truths, NUM_POINTS))
            target["visibility"][:, 0] = 2
            target["boxes"] = np.concatenate([corner, corner + side], axis=1).reshape(-1, 4)
        near = random.integers(0, max(num_truths, 1), num)
        start = corner[near] if num_truths else random.integers(0, 30, (num, 2)) * 1.0
        sides = side[near] if num_truths else random.integers(4, 30, (num, 2)) * 1.0
        pred = _shapes(iou_type, start + random.integers(0, 3, (num, 2)), sides)
        label = target["labels"][near] if num_truths else random.integers(1, NUM_CLASSES + 1, num)
        pred |= {"labels": label, "scores": random.integers(1, 8, num) / 8}
        if iou_type == "keypoints":
            pred["keypoints_scores"] = np.ones((num, NUM_POINTS))
        preds.append(pred)
        targets.append(target)
    return preds, targets


def box_format_of(iou_type: str) -> Any:
    """How the scene writes its boxes."""
    return "xyxyxyxy" if iou_type == "obb" else "xyxy"


def of_lists(iou_type: str, folder: Path, convert: Callable[[Any], Any] = np.asarray) -> Sides:
    """One dict per image."""
    preds, targets = ([{k: convert(v) for k, v in image.items()} for image in side] for side in images_of(iou_type))
    settings: Any = {"image_ids": IMAGE_IDS, "iou_type": iou_type, "box_format": box_format_of(iou_type)}
    return Detections.from_images(preds, **settings), Truths.from_images(targets, **settings, class_names=CLASSES)


def of_tensors(iou_type: str, folder: Path) -> Sides:
    """One dict of PyTorch's tensors per image."""
    import torch

    return of_lists(iou_type, folder, lambda value: torch.from_numpy(np.array(value)))


def of_python_lists(iou_type: str, folder: Path) -> Sides:
    """One dict of lists per image; masks stay arrays."""
    return of_lists(iou_type, folder, lambda value: value if value.ndim == 3 or not len(value) else value.tolist())


def of_columns(iou_type: str, folder: Path) -> Sides:
    """Flat arrays, given to the constructors."""
    sides: list[Dict] = []
    for images in images_of(iou_type):
        keys = [key for key in images[0] if key != "iscrowd"]
        columns = {key: np.concatenate([image[key] for image in images]) for key in keys}
        columns["image_ids"] = np.repeat(IMAGE_IDS, [len(image["labels"]) for image in images])
        if "boxes" in columns:
            columns["box_format"] = box_format_of(iou_type)
        sides.append(columns)
    is_crowd = np.concatenate([image["iscrowd"] for image in images_of(iou_type)[1]])
    return Detections(**sides[0]), Truths(**sides[1], ignore=is_crowd.astype(bool), class_names=CLASSES)


def padded_batches(iou_type: str) -> list[Dict]:
    """Both sides as dicts of padded arrays."""
    batches: list[Dict] = []
    for images in images_of(iou_type):
        length = max(len(image["labels"]) for image in images) + 1
        batch: Dict = {}
        for key in images[0]:
            first = images[0][key]
            batch[key] = np.full((len(images), length, *first.shape[1:]), -1 if key == "labels" else 0, first.dtype)
            for row, image in enumerate(images):
                batch[key][row, : len(image[key])] = image[key]
        batches.append(batch)
    return batches


def of_padded(iou_type: str, folder: Path) -> Sides:
    """Padded arrays."""
    settings: Any = {"image_ids": IMAGE_IDS, "box_format": box_format_of(iou_type)}
    found, there = padded_batches(iou_type)
    there["ignore"] = there.pop("iscrowd").astype(bool)
    return Detections.from_padded(**found, **settings), Truths.from_padded(**there, **settings, class_names=CLASSES)


def of_files(suffix: str) -> Callable[[str, Path], Sides]:
    """Files that boxscore writes and reads back."""

    def read(iou_type: str, folder: Path) -> Sides:
        detections, truths = of_lists(iou_type, folder)
        sizes = dict.fromkeys(IMAGE_IDS, (SIDE, SIDE))
        truths = replace(truths, image_names=IMAGE_NAMES, image_sizes=sizes)
        paths = folder / f"truths{suffix}", folder / f"detections{suffix}"
        boxscore.write_truths(paths[0], truths)
        boxscore.write_detections(paths[1], detections, truths)
        found: Any = {"iou_type": iou_type}
        again = boxscore.read_truths(paths[0], **found)
        return boxscore.read_detections(paths[1], again, **found), again

    return read


WAYS: Mapping[str, Callable[[str, Path], Sides]] = {
    "lists": of_lists,
    "tensors": of_tensors,
    "python lists": of_python_lists,
    "columns": of_columns,
    "padded": of_padded,
    "coco": of_files(".json"),
    "csv": of_files(".csv"),
    "parquet": of_files(".parquet"),
    "arrow": of_files(".arrow"),
    "npz": of_files(".npz"),
}


def prepared_columns(sides: Sides, protocol: Protocol) -> dict[str, Any]:
    """What `prepare` hands to matching, in host memory, ordered by image; rows of an image keep their order."""
    columns: dict[str, Any] = {}
    for side in prepare(*sides, protocol):
        order = np.argsort(host_ids(side.image_ids), kind="stable")
        name = type(side).__name__
        columns[f"{name}.image"] = host_ids(side.image_ids)[order]
        columns[f"{name}.label"] = host_ids(side.labels)[order]
        columns[f"{name}.area"] = host_areas(side, protocol)[order]
        columns[f"{name}.shapes"] = [side.geometry.shapes(protocol)[row] for row in order]
        if isinstance(side, Detections):
            columns[f"{name}.score"] = host_scores(side.scores)[order]
        else:
            kinds = side.kinds(protocol)
            columns[f"{name}.kind"] = np.zeros(len(side), int) if kinds is None else to_numpy(kinds)[order]
    return columns


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


@pytest.mark.parametrize("iou_type", SHAPES)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "lists"])
def test_a_way_in_gives_the_same_rows_and_verdicts(way: str, iou_type: Any, tmp_path: Path) -> None:
    """As one dict per image: ids, labels, scores, areas, kinds and shapes; then the tally, under COCO's rules."""
    protocol = protocol_of("coco", iou_type)
    expected, found = (WAYS[each](iou_type, tmp_path) for each in ("lists", way))
    columns, others = prepared_columns(expected, protocol), prepared_columns(found, protocol)
    assert columns.keys() == others.keys()
    for name, column in columns.items():
        if name.endswith("shapes"):
            assert len(column) == len(others[name])
            for one, other in zip(_leaves(column), _leaves(others[name]), strict=True):
                assert np.array_equal(one, other), f"{way}: {name}"
        else:
            assert np.array_equal(column, others[name]), f"{way}: {name}"
    tallies = [boxscore.match(*sides, protocol) for sides in (expected, found)]
    assert tallies[0].is_hit.sum() > 3
    assert_same_tally(*tallies)
    one, other = (list(boxscore.finish(tally).values()) for tally in tallies)
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("iou_type", SHAPES)
@pytest.mark.parametrize("form", ["lists", "padded", "columns"])
def test_a_metric_gives_the_same_verdicts(form: str, iou_type: Any, tmp_path: Path) -> None:
    """From batches of every form."""
    protocol = protocol_of("coco", iou_type)
    metric = boxscore.MeanAveragePrecision(
        protocol, box_format=box_format_of(iou_type), class_names=CLASSES, warn=False
    )
    batches: Any = {"lists": images_of, "padded": padded_batches}.get(form)
    if batches is None:
        metric.update(*of_columns(iou_type, tmp_path))
    else:
        metric.update(*batches(iou_type), image_ids=IMAGE_IDS)
    assert_same_tally(metric.tally, boxscore.match(*of_lists(iou_type, tmp_path), protocol))


FORMS = ("columns", "file", "images", "padded")


def scene_as(form: str, iou_type: str, folder: Path) -> tuple[Any, Any]:
    """Both sides of the scene in one form; truths of files and columns name their images."""
    if form in ("images", "padded"):
        return tuple((images_of if form == "images" else padded_batches)(iou_type))  # type: ignore[return-value]
    if form == "columns":
        detections, truths = of_columns(iou_type, folder)
        return detections, replace(truths, image_names=IMAGE_NAMES)
    detections, truths = of_lists(iou_type, folder)
    truths = replace(truths, image_names=IMAGE_NAMES, image_sizes=dict.fromkeys(IMAGE_IDS, (SIDE, SIDE)))
    paths = folder / "detections.json", folder / "truths.json"
    boxscore.write_truths(paths[1], truths)
    boxscore.write_detections(paths[0], detections, truths)
    return paths


@pytest.mark.parametrize("iou_type", SHAPES)
@pytest.mark.parametrize(("form", "truth_form"), [*product(FORMS, FORMS)])
def test_every_pair_of_forms_gives_the_same_verdicts(form: str, truth_form: str, iou_type: Any, tmp_path: Path) -> None:
    """As columns on both sides, by a protocol, and by its name."""
    forms = {form, truth_form}
    options: dict[str, Any] = {}
    if not forms.isdisjoint(("images", "padded")):
        options = {"image_ids": IMAGE_IDS, "box_format": box_format_of(iou_type)}
    if truth_form in ("images", "padded"):
        options["class_names"] = CLASSES
    found, truths = scene_as(form, iou_type, tmp_path)[0], scene_as(truth_form, iou_type, tmp_path)[1]
    expected = boxscore.match(*of_lists(iou_type, tmp_path), protocol_of("coco", iou_type))
    assert expected.is_hit.sum() > 3
    assert_same_tally(boxscore.evaluate(found, truths, protocol_of("coco", iou_type), **options).tally, expected)
    assert_same_tally(boxscore.evaluate(found, truths, iou_type=iou_type, **options).tally, expected)


@pytest.mark.parametrize("iou_type", SHAPES)
def test_without_a_similarity_dicts_are_read_for_the_shapes_of_columns(iou_type: Any, tmp_path: Path) -> None:
    """And oriented box formats for oriented boxes."""
    truths = of_lists(iou_type, tmp_path)[1]
    options: Any = {"image_ids": IMAGE_IDS, "box_format": box_format_of(iou_type)}
    result = boxscore.evaluate(images_of(iou_type)[0], truths, **options)
    assert result.protocol == protocol_of("coco", iou_type)
    assert_same(result, boxscore.evaluate(*of_lists(iou_type, tmp_path)))
