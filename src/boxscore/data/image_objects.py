"""Convert objects of other libraries, one per image, to the dicts of a batch.

supervision's `Detections` and `KeyPoints`, and Ultralytics' `Results`, are recognised by their attributes, without
importing these libraries.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.arrays import int_dtype, namespace
from boxscore.data.batch_keys import Keys
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import ImageError

Reader = Callable[[Any, Keys, str], dict[str, Any]]
"""Makes the dict of an object, from the object, the keys and the box format."""

_NOTHING = np.zeros(0)
"""Any column of an image without objects."""


def as_dicts(images: Any, keys: Keys, iou_type: str | Sequence[str], box_format: str) -> Any:
    """Replace each recognised object by a dict. Other values stay; later code reports errors about them.

    `keys`: `DETECTION_KEYS` or `TRUTH_KEYS`; `iou_type` decides which shapes are read.

    >>> from types import SimpleNamespace
    >>> from boxscore.data.batch_keys import TRUTH_KEYS
    >>> found = SimpleNamespace(xyxy=np.ones((1, 4)), mask=None, confidence=None, class_id=np.array([3]), data={})
    >>> as_dicts([found], TRUTH_KEYS, "bbox", "xyxy")
    [{'boxes': array([[1., 1., 1., 1.]]), 'labels': array([3])}]
    """
    if not isinstance(images, list | tuple) or {*map(type, images)} <= {dict}:
        return images
    made: list[Any] = []
    for index, image in enumerate(images):
        read = _reader_of(image)
        try:
            made.append(image if read is None else read(image, keys.of_shapes(iou_type, box_format), box_format))
        except InputError as error:
            raise ImageError(index, f" {error}") from None
    return made


def is_image_object(value: Any) -> bool:
    """Whether a value is a recognised object, which describes one image."""
    return _reader_of(value) is not None


def _reader_of(image: Any) -> Reader | None:
    return next((read for names, read in _READERS if all(hasattr(image, name) for name in names)), None)


def _of_supervision(image: Any, keys: Keys, box_format: str) -> dict[str, Any]:
    """The dict of supervision's `Detections`; `area`, `iscrowd` and other columns of truths are in `data`."""
    columns = {"masks": image.mask, "scores": image.confidence, "labels": image.class_id}
    if "boxes" in keys.required:
        oriented = "xyxyxyxy"  # also supervision's key of oriented boxes
        if box_format not in ("xyxy", oriented):
            rule = f"are boxes of `box_format` 'xyxy' or, in `data`, {oriented!r}"
            raise InputError(f"is supervision's Detections, which {rule}; got {box_format!r}")
        corners = image.data.get(oriented)
        turned = None if corners is None else np.reshape(corners, (-1, 8))
        columns |= {"boxes": image.xyxy if box_format == "xyxy" else turned}
    if columns["masks"] is not None and not isinstance(columns["masks"], np.ndarray):  # supervision's CompactMask
        columns["masks"] = Masks.concatenate([Masks.from_rle([]), *(Masks.from_pixels(m[None]) for m in image.mask)])
    words = {"boxes": f"data[{box_format!r}]", "masks": "mask", "scores": "confidence", "labels": "class_id"}
    made = _required(columns, keys, words, len(image.xyxy), "supervision's Detections")
    return made | {key: np.asarray(image.data[key]) for key in keys.optional if key in image.data}


def _of_supervision_keypoints(image: Any, keys: Keys, _: str) -> dict[str, Any]:
    """The dict of supervision's `KeyPoints`; `area` and other columns of truths are in `data`."""
    columns = {"keypoints": image.xy, "scores": image.detection_confidence, "labels": image.class_id}
    words = {"scores": "detection_confidence", "labels": "class_id"}
    made = _required(columns, keys, words, len(image.xy), "supervision's KeyPoints")
    visible = None if image.visible is None else np.asarray(image.visible).astype(np.int64)
    more = {"keypoints_scores": image.keypoint_confidence, "visibility": visible}
    more |= {key: np.asarray(image.data[key]) for key in keys.optional if key in image.data}
    return made | {key: column for key, column in more.items() if key in keys.optional and column is not None}


_ULTRALYTICS_BOXES = {
    "xyxy": ("boxes", "xyxy"),
    "cxcywh": ("boxes", "xywh"),
    "cxcywha:radians": ("obb", "xywhr"),
    "xyxyxyxy": ("obb", "xyxyxyxy"),
}
"""The attributes of `Results` with the boxes, by format."""


def _of_ultralytics(image: Any, keys: Keys, box_format: str) -> dict[str, Any]:
    """The dict of Ultralytics' `Results`."""
    rows = image.boxes if image.obb is None else image.obb
    num = 0 if rows is None else len(rows)
    columns: dict[str, Any] = {}
    if rows is not None:
        columns = {"scores": rows.conf, "labels": namespace(rows.cls).astype(rows.cls, int_dtype(rows.cls))}
    if "boxes" in keys.required:
        if box_format not in _ULTRALYTICS_BOXES:
            formats = ", ".join(_ULTRALYTICS_BOXES)
            raise InputError(f"is Ultralytics' Results, whose `box_format` is one of {formats}; got {box_format!r}")
        name, attribute = _ULTRALYTICS_BOXES[box_format]
        boxes = getattr(image, name)
        columns |= {"boxes": None if boxes is None else getattr(boxes, attribute).reshape(num, keys.box_size)}
    if image.masks is not None:
        columns["masks"] = _masks_of_ultralytics(image) if "masks" in keys.required and num else None
    if image.keypoints is not None:
        columns["keypoints"] = image.keypoints.data
    words = {"boxes": _ULTRALYTICS_BOXES.get(box_format, ("", ""))[0], "scores": "boxes", "labels": "boxes"}
    return _required(columns, keys, words, num, "Ultralytics' Results")


def _masks_of_ultralytics(image: Any) -> Any:
    """The masks of `Results` as booleans. Raise `InputError` unless they have the size of the image."""
    masks = image.masks.data
    if tuple(masks.shape[1:]) != tuple(image.orig_shape):
        sizes = f"{tuple(image.orig_shape)}; got {tuple(masks.shape[1:])}"
        raise InputError(f"must have masks of its image's size, {sizes}: predict with `retina_masks=True`")
    return masks != 0


def _required(columns: Mapping[str, Any], keys: Keys, words: Mapping[str, str], num: int, owner: str) -> dict[str, Any]:
    """The columns of the required keys. `words`: the object's names for them; `owner`: its type, for errors."""
    made: dict[str, Any] = {}
    for key in keys.required:
        column = columns.get(key)
        if num == 0:
            column = np.zeros((0, 0, 0), bool) if key == "masks" else _NOTHING
        if column is None:
            raise InputError(f"must have `{words.get(key, key)}`, which becomes `{key}`; got {owner} without it")
        made[key] = column
    return made


_READERS: tuple[tuple[tuple[str, ...], Reader], ...] = (
    (("xyxy", "mask", "confidence", "class_id", "data"), _of_supervision),
    (("xy", "keypoint_confidence", "detection_confidence", "data"), _of_supervision_keypoints),
    (("orig_shape", "obb", "boxes", "masks", "keypoints"), _of_ultralytics),
)
"""The attributes that identify each type of object, and its reader. The first is one that boxscore's own columns lack:
their `masks` raise an error where there are none."""
