"""The boxes that a metric has seen, as bytes: for COCO's files and for IoUs.

One update is a block of rows: one for each image, in order, then those of its detections and of its truths, which say
the place of their image in the update. Blocks stand one after the other, those of other processes, too.

    kind    image  more columns
    IMAGE   0      id                          a block begins where an image has place 0
    IMAGE   1      id
    FOUND   0      label, score, box
    FOUND   1      label, score, box
    TRUE    1      label, box, area, ignore
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

_IMAGE, _FOUND, _TRUE = 0, 1, 2
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
    """The block of one update, in which images are numbered from 0; `ids`: those by which copies are recognized."""
    images = np.zeros(len(ids), _ROW)
    images["kind"], images["image"], images["id"] = _IMAGE, np.arange(len(ids)), ids
    found, there = _block(detections, _FOUND), _block(truths, _TRUE)
    found["score"] = to_numpy(detections.score)
    there["area"] = there["box"][:, 2] * there["box"][:, 3] if truths.area is None else to_numpy(truths.area)
    if truths.ignore is not None:
        there["ignore"] = to_numpy(truths.ignore)
    return np.concatenate([images, found, there]).tobytes()


def _block(columns: Detections | Truths, kind: int) -> Rows:
    rows = np.zeros(len(columns), _ROW)
    rows["kind"], rows["image"], rows["label"] = kind, host_ids(columns.image), host_ids(columns.label)
    rows["box"] = np.stack(to_xywh(to_numpy(columns.box).astype(np.float64), columns.box_format), axis=-1)
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenBoxes:
    """All boxes of some updates. The images have numbers from 0, in the order in which they came."""

    ids: NDArray[np.int64]
    """The images' ids, or their numbers where they have none. Shape (N,)."""
    found: Rows
    there: Rows

    @classmethod
    def unpack(cls, content: Any, *, unique_images: bool) -> "SeenBoxes":
        """What blocks hold; with `unique_images` only the first image of each id."""
        rows = np.frombuffer(content, _ROW).copy()
        is_image = rows["kind"] == _IMAGE
        number = np.cumsum(is_image) - 1
        # In each row, the number of the first image of its block.
        first = np.maximum.accumulate(np.where(is_image & (rows["image"] == 0), number, 0)) if rows.size else number
        rows["image"] += first
        ids = rows["id"][is_image] if unique_images else np.arange(np.count_nonzero(is_image))
        if unique_images:
            kept = np.sort(np.unique(ids, return_index=True)[1])
            place = np.full(ids.size, -1)
            place[kept] = np.arange(kept.size)
            rows["image"] = place[rows["image"]]
            rows, ids = rows[rows["image"] >= 0], ids[kept]
        return cls(ids=ids, found=rows[rows["kind"] == _FOUND], there=rows[rows["kind"] == _TRUE])

    @property
    def labels(self) -> list[int]:
        """Every label there is, ascending."""
        both = np.concatenate([self.found["label"], self.there["label"]])
        return [int(label) for label in np.unique(both)]

    def ious(self, limit: int, *, is_pooled: bool = False) -> dict[tuple[int, int], Any]:
        """The IoUs by number of the image and label: detections by falling score, at most `limit`, and truths.

        As pycocotools has them: a list without items where one of both is missing. `is_pooled`: all boxes have label 0.
        """
        found = self.found[np.argsort(-self.found["score"], kind="stable")]
        groups: list[dict[tuple[int, int], Rows]] = []
        for rows in (found, self.there):
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
            for row, score in zip(self._annotations(self.found), self.found["score"].tolist(), strict=True)
        ]
        crowds = self.there["ignore"].astype(int).tolist()
        target = {
            "info": {"description": "written by boxscore"},
            "images": [{"id": image} for image in self.ids.tolist()],
            "annotations": [
                {**row, "area": area, "iscrowd": crowd}
                for row, area, crowd in zip(
                    self._annotations(self.there), self.there["area"].tolist(), crowds, strict=True
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


def _ious(found: Rows, there: Rows) -> NDArray[np.float64]:
    """IoUs under COCO's rules. Shape (D, G)."""
    boxes = (rows["box"][None] for rows in (found, there))
    (corner, area), (truth_corner, truth_area) = (measure(box, box_format="xywh", pixels="continuous") for box in boxes)
    crowd = there["ignore"][None]
    ious = iou_of_measured(corner, area, truth_corner, truth_area, extent=0.0, is_crowd_NG=crowd)
    return np.asarray(ious[0])


def read_coco(preds: str, target: str) -> tuple[list[dict[str, NDArray[Any]]], list[dict[str, NDArray[Any]]]]:
    """COCO's files as one dict per image: those with truths in the order of their first, then the others."""
    dataset, results = _json(target), _json(preds)
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("annotations"), list):
        raise InputError(f"{target}: must be COCO's ground truth, an object with `annotations`")
    if not isinstance(results, list):
        raise InputError(f"{preds}: must be COCO's results, a list; got {type(results).__name__}")
    there = _by_image(target, "annotation", dataset["annotations"], ("bbox", "category_id"))
    found = _by_image(preds, "result", results, ("bbox", "category_id", "score"))
    listed = [image.get("id") for image in dataset.get("images", []) if isinstance(image, Mapping)]
    if unknown := [image for image in found if image not in there and image not in listed]:
        raise InputError(f"{preds}: image {unknown[0]!r} is not in {target}")
    images = [*there, *(image for image in listed if image not in there)]

    def column(rows: list[Any], key: str, dtype: Any, default: Any = None) -> NDArray[Any]:
        return np.array([row[key] if default is None else row.get(key, default) for row in rows], dtype)

    try:
        return [
            {
                "boxes": column(rows, "bbox", np.float32).reshape(-1, 4),
                "scores": column(rows, "score", np.float32),
                "labels": column(rows, "category_id", np.int32),
            }
            for rows in (found.get(image, []) for image in images)
        ], [
            {
                "boxes": column(rows, "bbox", np.float32).reshape(-1, 4),
                "labels": column(rows, "category_id", np.int32),
                "iscrowd": column(rows, "iscrowd", np.int32, 0),
                "area": column(rows, "area", np.float32, 0),
            }
            for rows in (there.get(image, []) for image in images)
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
