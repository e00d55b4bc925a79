"""All boxes and masks of a metric's updates, stored as bytes: for COCO's files and for IoUs.

One update is a block of rows: one per image, in order, then one per detection and one per truth. `image` is the index
in the update. The masks of detections and truths follow, if they have masks. Blocks are concatenated, also across
processes; `boxscore.result.blocks` defines their layout.

    kind       image  more columns
    IMAGE      0      id
    IMAGE      1      id
    DETECTION  0      label, score, box
    DETECTION  1      label, score, box
    TRUTH      1      label, box, area, ignore
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths, host_ids
from boxscore.data.geometry.boxes import Boxes, iou_of_measured, measure, to_xywh
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import RowError
from boxscore.result import blocks

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
_KIND = "state of shapes"
Rows = NDArray[np.void]


def pack(detections: Detections, truths: Truths, ids: Sequence[int]) -> bytes:
    """Pack one update into a block; `ids` are the distinct ids of its images, in order."""
    images = np.zeros(len(ids), _ROW)
    images["kind"], images["image"], images["id"] = _IMAGE, np.arange(len(ids)), ids
    rows, truth_rows = _block(detections, _DETECTION, images["id"]), _block(truths, _TRUTH, images["id"])
    rows["score"] = to_numpy(detections.scores)
    box = truth_rows["box"]
    own = truths.masks.runs.area if _has_masks(truths) else box[:, 2] * box[:, 3]
    truth_rows["area"] = own if truths.area is None else to_numpy(truths.area)
    if truths.ignore is not None:
        truth_rows["ignore"] = to_numpy(truths.ignore)
    every = np.concatenate([images, rows, truth_rows])
    columns = {"rows": every.view(np.uint8)}
    if _has_masks(truths):
        columns["masks"] = np.frombuffer(Masks.concatenate([detections.masks, truths.masks]).to_bytes(), np.uint8)
    return b"".join(blocks.pieces(_KIND, blocks.header_of(columns), columns))


def _has_masks(columns: Detections | Truths) -> bool:
    return any(isinstance(each, Masks) for each in columns.geometries)


def _block(columns: Detections | Truths, kind: int, ids: NDArray[np.int64]) -> Rows:
    rows = np.zeros(len(columns), _ROW)
    order = np.argsort(ids)
    rows["image"] = order[np.searchsorted(ids, host_ids(columns.image_ids), sorter=order)]
    rows["kind"], rows["label"] = kind, host_ids(columns.labels)
    if any(isinstance(each, Boxes) for each in columns.geometries):
        rows["box"] = np.stack(to_xywh(to_numpy(columns.boxes).astype(np.float64), columns.box_format), axis=-1)
    return rows


def _blocks(content: Any) -> Iterator[tuple[Rows, Masks]]:
    """Yield the rows and the masks of each update."""
    rest = memoryview(content)
    while len(rest):
        _, columns, rest = blocks.split(_KIND, rest, "the state of the metric")
        masks = columns.get("masks")
        try:
            rows = columns["rows"].view(_ROW)
        except blocks.UNREADABLE as error:
            raise InputError(f"the state of the metric: the {_KIND} is invalid: {error}") from None
        yield rows, Masks.from_rle([]) if masks is None else Masks.split_bytes(masks.data)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredShapes:
    """All shapes of some updates. Images are numbered from 0, in the order of updates."""

    ids: NDArray[np.int64]
    """The images' ids with `unique_images`, else their numbers. Shape (N,)."""
    detections: Rows
    truths: Rows
    masks: Masks
    """The masks of the detections; empty if only boxes are stored."""
    truth_masks: Masks

    @classmethod
    def unpack(cls, content: Any, *, unique_images: bool) -> "StoredShapes":
        """Read the shapes from blocks; with `unique_images` only the first image of each id."""
        parts: list[Rows] = [np.zeros(0, _ROW)]
        masks: list[Masks] = [Masks.from_rle([])]
        num_images, num_masks = 0, 0
        of_mask: list[NDArray[np.int64]] = []
        for rows, runs in _blocks(content):
            is_image = rows["kind"] == _IMAGE
            rows["image"] += num_images
            num_images += int(is_image.sum())
            # The mask index of each row; -1 for images and if only boxes are stored.
            own = np.full(len(rows), -1)
            if len(runs):
                own[~is_image] = num_masks + np.arange(len(runs))
            num_masks += len(runs)
            of_mask.append(own)
            parts.append(rows)
            masks.append(runs)
        every, mask_row = np.concatenate(parts), np.concatenate([np.zeros(0, np.int64), *of_mask])
        is_image = every["kind"] == _IMAGE
        ids = every["id"][is_image] if unique_images else np.arange(num_images)
        if unique_images:
            kept = np.sort(np.unique(ids, return_index=True)[1])
            index = np.full(ids.size, -1)
            index[kept] = np.arange(kept.size)
            every["image"] = index[every["image"]]
            is_kept = every["image"] >= 0
            every, mask_row, ids = every[is_kept], mask_row[is_kept], ids[kept]
        all_masks = Masks.concatenate(masks)

        def side(kind: int) -> tuple[Rows, Masks]:
            is_side = every["kind"] == kind
            rows = mask_row[is_side]
            return every[is_side], all_masks.take(rows[rows >= 0])

        (detections, detection_masks), (truths, truth_masks) = side(_DETECTION), side(_TRUTH)
        return cls(ids=ids, detections=detections, truths=truths, masks=detection_masks, truth_masks=truth_masks)

    @property
    def labels(self) -> list[int]:
        """All labels, ascending."""
        both = np.concatenate([self.detections["label"], self.truths["label"]])
        return [int(label) for label in np.unique(both)]

    def ious(self, limit: int, iou_type: str, *, is_pooled: bool = False) -> dict[tuple[int, int], Any]:
        """IoUs by image number and label: rows are detections by falling score, at most `limit`; columns are truths.

        As in pycocotools, an empty list if either side is empty. With `is_pooled` all labels are 0.
        """
        ranked = np.argsort(-self.detections["score"], kind="stable")
        groups = [
            _groups(self.detections, ranked, is_pooled=is_pooled),
            _groups(self.truths, np.arange(len(self.truths)), is_pooled=is_pooled),
        ]
        labels = [0] if is_pooled else self.labels
        ious: dict[tuple[int, int], Any] = {}
        for key in ((image, label) for image in range(self.ids.size) for label in labels):
            ious[key] = []
            if key in groups[0] and key in groups[1]:
                ious[key] = self._ious(groups[0][key][:limit], groups[1][key], iou_type)
        return ious

    def _ious(self, rows: NDArray[np.int64], truth_rows: NDArray[np.int64], iou_type: str) -> NDArray[np.float64]:
        """IoUs under COCO's rules. Shape (D, G)."""
        truths = self.truths[truth_rows]
        if iou_type == "bbox":
            boxes = (side["box"][None] for side in (self.detections[rows], truths))
            ours, theirs = (measure(box, box_format="xywh", pixels="continuous") for box in boxes)
            return np.asarray(iou_of_measured(ours, theirs, extent=0.0, is_crowd_NG=truths["ignore"][None])[0])
        group = _compiled.ImageGroups(np.array([0, len(rows)]), np.array([0, len(truths)]))
        runs = self.masks.take(rows).runs, self.truth_masks.take(truth_rows).runs
        values: NDArray[np.float64] = _compiled.similarities(group, *runs, truths["ignore"].astype(np.uint8), 1)
        return values.reshape(len(rows), len(truths))

    def write_coco(self, name: str, iou_types: Sequence[str]) -> None:
        """Write two files in COCO's format, `<name>_preds.json` and `<name>_target.json`; images have their `ids`."""
        preds = [
            {**row, "iscrowd": 0, "score": score}
            for row, score in zip(
                self._annotations(self.detections, self.masks, iou_types),
                self.detections["score"].tolist(),
                strict=True,
            )
        ]
        crowds = self.truths["ignore"].astype(int).tolist()
        target = {
            "info": {"description": "written by boxscore"},
            "images": [{"id": image, **size} for image, size in zip(self.ids.tolist(), self._sizes(), strict=True)],
            "annotations": [
                {**row, "area": area, "iscrowd": crowd}
                for row, area, crowd in zip(
                    self._annotations(self.truths, self.truth_masks, iou_types),
                    self.truths["area"].tolist(),
                    crowds,
                    strict=True,
                )
            ],
            "categories": [{"id": label, "name": str(label)} for label in self.labels],
        }
        for part, content in (("preds", preds), ("target", target)):
            write_file(Path(f"{name}_{part}.json"), [json.dumps(content, indent=4).encode()])

    def _sizes(self) -> list[dict[str, int]]:
        """Height and width of each image with masks; an empty dict for images without."""
        sizes: list[dict[str, int]] = [{} for _ in range(self.ids.size)]
        for rows, masks in ((self.detections, self.masks), (self.truths, self.truth_masks)):
            for image, (height, width) in zip(rows["image"].tolist(), masks.runs.sizes.tolist(), strict=False):
                sizes[image] = {"height": height, "width": width}
        return sizes

    def _annotations(self, rows: Rows, masks: Masks, iou_types: Sequence[str]) -> list[dict[str, Any]]:
        columns = (self.ids[rows["image"]].tolist(), rows["label"].tolist(), rows["box"].tolist())
        shapes: list[dict[str, Any]] = [
            {"bbox": box, "area": box[2] * box[3]} if "bbox" in iou_types else {} for box in columns[2]
        ]
        for shape, mask, area in zip(shapes, masks.rle(), masks.runs.area.tolist(), strict=False):
            shape |= {"segmentation": mask, "area": area}
        return [
            {"id": i, "image_id": image, "category_id": label, **shape}
            for i, (image, label, shape) in enumerate(zip(*columns[:2], shapes, strict=True), start=1)
        ]


def _groups(rows: Rows, order: NDArray[np.int64], *, is_pooled: bool) -> dict[tuple[int, int], NDArray[np.int64]]:
    """Group row indices by image and label; each group keeps the given order."""
    label = np.zeros(len(rows), np.int64) if is_pooled else rows["label"]
    image, label = rows["image"][order], label[order]
    grouped = np.lexsort((label, image))
    keys = np.stack([image, label], axis=1)[grouped]
    starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    parts = np.split(order[grouped], starts) if len(rows) else []
    return {(int(keys[i, 0]), int(keys[i, 1])): part for i, part in zip([0, *starts], parts, strict=False)}


def read_coco(
    preds: str, target: str, iou_types: Sequence[str]
) -> tuple[list[dict[str, NDArray[Any]]], list[dict[str, NDArray[Any]]]]:
    """Read COCO's files as one dict per image: images with truths by their first truth, then the others."""
    dataset, results = _json(target), _json(preds)
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("annotations"), list):
        raise InputError(f"{target}: must be COCO's ground truth, an object with `annotations`")
    if not isinstance(results, list):
        raise InputError(f"{preds}: must be COCO's results, a list; got {type(results).__name__}")
    shapes = [{"bbox": "bbox", "segm": "segmentation"}[each] for each in iou_types]
    truths = _by_image(target, "annotation", dataset["annotations"], (*shapes, "category_id"))
    detections = _by_image(preds, "result", results, (*shapes, "category_id", "score"))
    images = [image for image in dataset.get("images", []) if isinstance(image, Mapping)]
    listed = [image.get("id") for image in images]
    if unknown := [image for image in detections if image not in truths and image not in listed]:
        raise InputError(f"{preds}: image {unknown[0]!r} is not in {target}")
    sizes = {image.get("id"): (image.get("height", 0), image.get("width", 0)) for image in images}
    order = [*truths, *(image for image in listed if image not in truths)]

    def column(rows: list[Any], key: str, dtype: Any, default: Any = None) -> NDArray[Any]:
        return np.array([row[key] if default is None else row.get(key, default) for row in rows], dtype)

    def shapes_of(path: str, rows: list[Any], image: Any) -> dict[str, NDArray[Any]]:
        boxes = {"boxes": column(rows, "bbox", np.float32).reshape(-1, 4)} if "bbox" in iou_types else {}
        masks = {"masks": _pixels(path, rows, sizes.get(image, (0, 0)))} if "segm" in iou_types else {}
        return {**boxes, **masks}

    try:
        return [
            {
                **shapes_of(preds, rows, image),
                "scores": column(rows, "score", np.float32),
                "labels": column(rows, "category_id", np.int32),
            }
            for image, rows in ((image, detections.get(image, [])) for image in order)
        ], [
            {
                **shapes_of(target, rows, image),
                "labels": column(rows, "category_id", np.int32),
                "iscrowd": column(rows, "iscrowd", np.int32, 0),
                "area": column(rows, "area", np.float32, 0),
            }
            for image, rows in ((image, truths.get(image, [])) for image in order)
        ]
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{target}, {preds}: must have numbers for boxes, classes and scores; {error}") from None


def _pixels(path: str, rows: list[Any], size: tuple[int, int]) -> NDArray[np.uint8]:
    """The masks of an image as pixels. Shape (N, H, W)."""
    try:
        masks = Masks.from_rle([row["segmentation"] for row in rows], size)
    except RowError as error:
        where = f"image {rows[error.row]['image_id']!r}"
        raise InputError(f"{path}: a mask of {where}: `segmentation` {error.rule}") from None
    if len({*map(tuple, masks.runs.sizes.tolist())}) > 1:
        raise InputError(f"{path}: the masks of image {rows[0]['image_id']!r} must have one size")
    return np.array([masks.pixels(row) for row in range(len(masks))], np.uint8).reshape(
        len(masks), *_shape(masks, size)
    )


def _shape(masks: Masks, size: tuple[int, int]) -> tuple[int, int]:
    height, width = masks.runs.sizes[0].tolist() if len(masks) else size
    return height, width


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
