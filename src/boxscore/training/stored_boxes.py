"""All boxes of a metric's updates, stored as bytes: for COCO's files and for IoUs.

One update is a block of rows: one per image, in order, then one per detection and one per truth, which have the index
of their image in the update. Blocks are concatenated, those of other processes, too.

    kind       image  more columns
    IMAGE      0      id                          a block begins where an image has index 0
    IMAGE      1      id
    DETECTION  0      label, score, box
    DETECTION  1      label, score, box
    TRUTH      1      label, box, area, ignore
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.arrays import to_numpy
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.geometry.boxes import iou_of_measured, measure, to_xywh
from boxscore.model.dataset import Detections, Truths, host_ids

_IMAGE, _DETECTION, _TRUTH = 0, 1, 2
_ROW = np.dtype(
    [
        ("kind", "u1"),
        ("image", "<i8"),
        ("id", "<i8"),
        ("label", "<i8"),
        ("score", "<f8"),
        ("box", "<f8", (4,)),
        ("area", "<f8"),
        ("ignore", "?"),
    ]
)
Rows = NDArray[np.void]


def pack(detections: Detections, truths: Truths, ids: Sequence[int]) -> bytes:
    """The block of one update; `ids`: those of its images, in order, all different."""
    images = np.zeros(len(ids), _ROW)
    images["kind"], images["image"], images["id"] = _IMAGE, np.arange(len(ids)), ids
    rows, truth_rows = _block(detections, _DETECTION, images["id"]), _block(truths, _TRUTH, images["id"])
    rows["score"] = to_numpy(detections.score)
    box = truth_rows["box"]
    truth_rows["area"] = box[:, 2] * box[:, 3] if truths.area is None else to_numpy(truths.area)
    if truths.ignore is not None:
        truth_rows["ignore"] = to_numpy(truths.ignore)
    return np.concatenate([images, rows, truth_rows]).tobytes()


def _block(columns: Detections | Truths, kind: int, ids: NDArray[np.int64]) -> Rows:
    rows = np.zeros(len(columns), _ROW)
    order = np.argsort(ids)
    rows["image"] = order[np.searchsorted(ids, host_ids(columns.image), sorter=order)]
    rows["kind"], rows["label"] = kind, host_ids(columns.label)
    rows["box"] = np.stack(to_xywh(to_numpy(columns.box).astype(np.float64), columns.box_format), axis=-1)
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredBoxes:
    """All boxes of some updates. The images have numbers from 0, in the order in which they came."""

    ids: NDArray[np.int64]
    """The images' ids, or their numbers where they have none. Shape (N,)."""
    detections: Rows
    truths: Rows

    @classmethod
    def unpack(cls, content: Any, *, unique_images: bool) -> "StoredBoxes":
        """The boxes in blocks; with `unique_images` only the first image of each id."""
        rows = np.frombuffer(content, _ROW).copy()
        is_image = rows["kind"] == _IMAGE
        number = np.cumsum(is_image) - 1
        # In each row, the number of the first image of its block.
        first = np.maximum.accumulate(np.where(is_image & (rows["image"] == 0), number, 0)) if rows.size else number
        rows["image"] += first
        ids = rows["id"][is_image] if unique_images else np.arange(np.count_nonzero(is_image))
        if unique_images:
            kept = np.sort(np.unique(ids, return_index=True)[1])
            index = np.full(ids.size, -1)
            index[kept] = np.arange(kept.size)
            rows["image"] = index[rows["image"]]
            rows, ids = rows[rows["image"] >= 0], ids[kept]
        return cls(ids=ids, detections=rows[rows["kind"] == _DETECTION], truths=rows[rows["kind"] == _TRUTH])

    @property
    def labels(self) -> list[int]:
        """Every label, ascending."""
        both = np.concatenate([self.detections["label"], self.truths["label"]])
        return [int(label) for label in np.unique(both)]

    def ious(self, limit: int, *, is_pooled: bool = False) -> dict[tuple[int, int], Any]:
        """The IoUs by number of the image and label: detections by falling score, at most `limit`, and truths.

        As pycocotools has them: a list without items where one of both is missing. `is_pooled`: all boxes have label 0.
        """
        ranked = self.detections[np.argsort(-self.detections["score"], kind="stable")]
        groups: list[dict[tuple[int, int], Rows]] = []
        for rows in (ranked, self.truths):
            label = np.zeros(len(rows), np.int64) if is_pooled else rows["label"]
            order = np.lexsort((label, rows["image"]))
            keys = np.stack([rows["image"], label], axis=1)[order]
            starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
            parts = np.split(rows[order], starts) if len(rows) else []
            groups.append({(int(keys[i, 0]), int(keys[i, 1])): p for i, p in zip([0, *starts], parts, strict=False)})
        labels = [0] if is_pooled else self.labels
        ious: dict[tuple[int, int], Any] = {}
        for key in ((image, label) for image in range(self.ids.size) for label in labels):
            ious[key] = []
            if key in groups[0] and key in groups[1]:
                ious[key] = _ious(groups[0][key][:limit], groups[1][key])
        return ious

    def write_coco(self, name: str) -> None:
        """Two files in COCO's format, `<name>_preds.json` and `<name>_target.json`; images have their ids."""
        preds = [
            {**row, "iscrowd": 0, "score": score}
            for row, score in zip(self._annotations(self.detections), self.detections["score"].tolist(), strict=True)
        ]
        crowds = self.truths["ignore"].astype(int).tolist()
        target = {
            "info": {"description": "written by boxscore"},
            "images": [{"id": image} for image in self.ids.tolist()],
            "annotations": [
                {**row, "area": area, "iscrowd": crowd}
                for row, area, crowd in zip(
                    self._annotations(self.truths), self.truths["area"].tolist(), crowds, strict=True
                )
            ],
            "categories": [{"id": label, "name": str(label)} for label in self.labels],
        }
        for part, content in (("preds", preds), ("target", target)):
            write_file(Path(f"{name}_{part}.json"), [json.dumps(content, indent=4).encode()])

    def _annotations(self, rows: Rows) -> list[dict[str, Any]]:
        columns = (self.ids[rows["image"]].tolist(), rows["label"].tolist(), rows["box"].tolist())
        return [
            {"id": i, "image_id": image, "category_id": label, "bbox": box, "area": box[2] * box[3]}
            for i, (image, label, box) in enumerate(zip(*columns, strict=True), start=1)
        ]


def _ious(detections: Rows, truths: Rows) -> NDArray[np.float64]:
    """IoUs under COCO's rules. Shape (D, G)."""
    boxes = (rows["box"][None] for rows in (detections, truths))
    (corner, area), (truth_corner, truth_area) = (measure(box, box_format="xywh", pixels="continuous") for box in boxes)
    crowd = truths["ignore"][None]
    ious = iou_of_measured(corner, area, truth_corner, truth_area, extent=0.0, is_crowd_NG=crowd)
    return np.asarray(ious[0])


def read_coco(preds: str, target: str) -> tuple[list[dict[str, NDArray[Any]]], list[dict[str, NDArray[Any]]]]:
    """COCO's files as one dict per image: those with truths in the order of their first, then the others."""
    dataset, results = _json(target), _json(preds)
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("annotations"), list):
        raise InputError(f"{target}: must be COCO's ground truth, an object with `annotations`")
    if not isinstance(results, list):
        raise InputError(f"{preds}: must be COCO's results, a list; got {type(results).__name__}")
    truths = _by_image(target, "annotation", dataset["annotations"], ("bbox", "category_id"))
    detections = _by_image(preds, "result", results, ("bbox", "category_id", "score"))
    listed = [image.get("id") for image in dataset.get("images", []) if isinstance(image, Mapping)]
    if unknown := [image for image in detections if image not in truths and image not in listed]:
        raise InputError(f"{preds}: image {unknown[0]!r} is not in {target}")
    images = [*truths, *(image for image in listed if image not in truths)]

    def column(rows: list[Any], key: str, dtype: Any, default: Any = None) -> NDArray[Any]:
        return np.array([row[key] if default is None else row.get(key, default) for row in rows], dtype)

    try:
        return [
            {
                "boxes": column(rows, "bbox", np.float32).reshape(-1, 4),
                "scores": column(rows, "score", np.float32),
                "labels": column(rows, "category_id", np.int32),
            }
            for rows in (detections.get(image, []) for image in images)
        ], [
            {
                "boxes": column(rows, "bbox", np.float32).reshape(-1, 4),
                "labels": column(rows, "category_id", np.int32),
                "iscrowd": column(rows, "iscrowd", np.int32, 0),
                "area": column(rows, "area", np.float32, 0),
            }
            for rows in (truths.get(image, []) for image in images)
        ]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{target}, {preds}: must have numbers for boxes, classes and scores; {error}") from None


def _json(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def _by_image(path: str, one: str, rows: list[Any], keys: Sequence[str]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for i, row in enumerate(rows):
        missing = [key for key in ("image_id", *keys) if not isinstance(row, Mapping) or key not in row]
        if missing:
            raise InputError(f"{path}: {one} {i} must have the key {missing[0]!r}")
        if not isinstance(row["image_id"], int | str):
            raise InputError(f"{path}: {one} {i} must have an integer or text as `image_id`; got {row['image_id']!r}")
        groups.setdefault(row["image_id"], []).append(row)
    return groups
