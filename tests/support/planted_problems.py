"""A clean dataset, and problems planted into it: what `boxscore check` must find."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boxscore.checks.checklist import Finding
from boxscore.checks.inspector import Reading, inspect_files
from boxscore.formats.records import Options
from boxscore.protocol.protocol import ProtocolLike, as_protocol
from tests.support.small_files import write

Rows = list[dict[str, Any]]

NAMES = ["person", "bicycle", "car", "dog"]


def clean(seed: int) -> tuple[dict[str, Any], Rows]:
    """A dataset with nothing to say about: every class and image is used, all boxes are inside, none is there twice."""
    rng = np.random.default_rng(seed)
    images = [{"id": i + 10, "file_name": f"{i:03}.jpg", "width": 640, "height": 480} for i in range(12)]
    annotations: Rows = []
    results: Rows = []
    for image in images:
        for k in range(8):
            corner, size = rng.uniform([20, 20], [440, 280]), rng.uniform(10, 150, 2)
            box = [*corner.tolist(), *size.tolist()]
            label = k % 4 + 1
            place = {"image_id": image["id"], "category_id": label}
            own = {"id": len(annotations) + 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
            annotations.append(place | own)
            near = (np.array(box) + rng.uniform(-2, 2, 4)).tolist()
            results.append(place | {"bbox": near, "score": float(rng.random())})
    categories = [{"id": k + 1, "name": name} for k, name in enumerate(NAMES)]
    return {"images": images, "annotations": annotations, "categories": categories}, results


def inspect(
    folder: Path,
    dataset: Any,
    results: Any = None,
    protocol: ProtocolLike = "coco",
    *,
    iou_types: Sequence[str] = ("bbox",),
    **changes: Any,
) -> list[Finding]:
    """The findings in these, written as files."""
    truths = write(folder / "gt.json", json.dumps(dataset))
    files = [] if results is None else [write(folder / "dt.json", json.dumps(results))]
    rules, reading = as_protocol(protocol).replace(**changes), Reading(options=Options(iou_types=tuple(iou_types)))
    return inspect_files(truths, files, rules, reading)


def of(findings: list[Finding], kind: str) -> Finding:
    """The one finding of a kind."""
    (found,) = [finding for finding in findings if finding.kind == kind]
    return found


def change(rows: Rows, index: int, **values: Any) -> Rows:
    """The rows with other values in one of them."""
    rows[index] = rows[index] | values
    return rows


Planting = Callable[[dict[str, Any], Rows], object]

TRUTH: dict[str, tuple[Planting, str, int, str]] = {
    "negative-size": (
        lambda gt, _: [change(gt["annotations"], i, bbox=[50, 60, -3, 4], area=12) for i in (7, 9)],
        "error",
        2,
        "gt.json: annotation 7 (id 8): [50, 60, -3, 4] (xywh)",
    ),
    "zero-size": (
        lambda gt, _: change(gt["annotations"], 5, bbox=[50, 60, 0, 4], area=0),
        "warning",
        1,
        "gt.json: annotation 5 (id 6): [50, 60, 0, 4] (xywh)",
    ),
    "outside-image": (
        lambda gt, _: change(gt["annotations"], 3, bbox=[700, 60, 10, 10], area=100),
        "warning",
        1,
        "gt.json: annotation 3 (id 4): [700, 60, 10, 10] (xywh) in an image of 640 x 480",
    ),
    "over-the-border": (
        lambda gt, _: [
            change(gt["annotations"], i, bbox=box, area=100)
            for i, box in ((2, [635, 60, 10, 10]), (4, [-3, 5, 10, 10]), (6, [630, 60, 10.5, 10]))
        ],
        "warning",
        2,
        "gt.json: annotation 2 (id 3): [635, 60, 10, 10] (xywh) in an image of 640 x 480",
    ),
    "duplicate-boxes": (
        lambda gt, _: [change(gt["annotations"], 4 * i, bbox=[50, 60, 7, 8], area=56) for i in (20, 21)],
        "warning",
        1,
        "gt.json: annotation 84 (id 85): [50, 60, 7, 8] (xywh), as in {}gt.json: annotation 80 (id 81)",
    ),
    "duplicate-ids": (
        lambda gt, _: [change(gt["annotations"], i, id=5) for i in (8, 30)],
        "warning",
        2,
        "gt.json: annotation 8 (id 5): as in {}gt.json: annotation 4 (id 5)",
    ),
    "unknown-image": (
        lambda gt, _: [change(gt["annotations"], i, image_id=999) for i in (1, 2, 90)],
        "warning",
        3,
        "gt.json: annotation 1 (id 2): image 999",
    ),
    "unknown-class": (
        lambda gt, _: [change(gt["annotations"], i, category_id=77) for i in (1, 2)],
        "error",
        2,
        "gt.json: annotation 1 (id 2): class 77",
    ),
    "zero-area": (
        lambda gt, _: change(gt["annotations"], 11, bbox=[50, 60, 7, 8], area=0),
        "warning",
        1,
        "gt.json: annotation 11 (id 12): area 0, box 7 x 8",
    ),
    "large-area": (
        lambda gt, _: [change(gt["annotations"], i, bbox=[50 + i, 60, 7, 8], area=a) for i, a in ((11, 73), (12, 72))],
        "warning",
        1,
        "gt.json: annotation 11 (id 12): area 73, box 7 x 8",
    ),
    "negative-area": (
        lambda gt, _: change(gt["annotations"], 11, bbox=[50, 60, 7, 8], area=-1),
        "error",
        1,
        "gt.json: annotation 11 (id 12): area -1, box 7 x 8",
    ),
    "similar-names": (
        lambda gt, _: change(gt["categories"], 3, name=" Person"),
        "warning",
        2,
        "gt.json: 'person', ' Person'",
    ),
    "duplicate-file-names": (
        lambda gt, _: change(gt["images"], 3, file_name="000.jpg"),
        "warning",
        2,
        "gt.json: '000.jpg'",
    ),
    "unused-class": (
        lambda gt, _: gt["categories"].extend({"id": i, "name": f"unused {i}"} for i in range(90, 95)),
        "note",
        5,
        "gt.json: 'unused 90', 'unused 91', 'unused 92', …",
    ),
    "no-size": (
        lambda gt, _: [change(gt["images"], i, width=0) for i in (3, 4)],
        "note",
        2,
        "gt.json: '003.jpg', '004.jpg'",
    ),
    "empty": (lambda gt, _: gt["annotations"].clear(), "warning", 0, "gt.json"),
}

DETECTION: dict[str, tuple[Planting, str, int, str]] = {
    "negative-size": (
        lambda _, dt: [change(dt, i, bbox=[50, 60, 3, -4]) for i in (7, 9)],
        "error",
        2,
        "dt.json: result 7: [50, 60, 3, -4] (xywh)",
    ),
    "zero-size": (
        lambda _, dt: change(dt, 7, bbox=[50, 60, 3, 0]),
        "warning",
        1,
        "dt.json: result 7: [50, 60, 3, 0] (xywh)",
    ),
    "outside-image": (
        lambda _, dt: change(dt, 7, bbox=[-50, 60, 3, 3]),
        "warning",
        1,
        "dt.json: result 7: [-50, 60, 3, 3] (xywh) in an image of 640 x 480",
    ),
    "over-the-border": (
        lambda _, dt: change(dt, 7, bbox=[-50, 60, 60, 3]),
        "note",
        1,
        "dt.json: result 7: [-50, 60, 60, 3] (xywh) in an image of 640 x 480",
    ),
    "duplicate-boxes": (
        lambda _, dt: dt.extend([dt[3] | {"score": 0.2}, dt[5], dt[5]]),
        "warning",
        3,
        "dt.json: result 96: ",
    ),
    "score-range": (
        lambda _, dt: [change(dt, i, score=score) for i, score in ((4, -0.5), (5, 1.5), (6, 1.0), (7, 0.0))],
        "warning",
        2,
        "dt.json: result 4: score -0.5",
    ),
    "score-percent": (
        lambda _, dt: [change(dt, i, score=i + 2) for i in range(96)],
        "warning",
        96,
        "dt.json: result 0: score 2",
    ),
    "score-same": (
        lambda _, dt: [change(dt, i, score=0.5) for i in range(96)],
        "warning",
        96,
        "dt.json: result 0: sco",
    ),
    "unknown-image": (
        lambda _, dt: [change(dt, i, image_id=999) for i in (4, 5, 6)],
        "error",
        3,
        "dt.json: result 4: image 999; known: 000.jpg, 001.jpg, 002.jpg, 003.jpg, 004.jpg, …",
    ),
    "unknown-class": (
        lambda _, dt: [change(dt, i, category_id=999) for i in (4, 5, 6)],
        "error",
        3,
        "dt.json: result 4: class 999; known: 1 (person), 2 (bicycle), 3 (car), 4 (dog)",
    ),
    "silent-images": (lambda _, dt: dt.__delitem__(slice(8, 24)), "note", 2, "dt.json: none on '001.jpg'"),
    "empty": (lambda _, dt: dt.clear(), "warning", 0, "dt.json"),
}

PLANTED = [("gt.json", kind, *planted) for kind, planted in TRUTH.items()]

PLANTED += [("dt.json", kind, *planted) for kind, planted in DETECTION.items()]
