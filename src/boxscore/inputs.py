"""`evaluate`: read columns, a file, one dict per image or a padded batch, each side in its own form, and evaluate."""

import os
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.batch_keys import DETECTION_KEYS, PADDED_DETECTION_KEYS, PADDED_TRUTH_KEYS, TRUTH_KEYS, Keys
from boxscore.data.batches import PaddedBatch, in_argument
from boxscore.data.dataset import ClassNames, Detections, ImageIdsLike, Truths
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.data.geometry.kinds import GEOMETRIES, kind_of
from boxscore.data.image_ids import ImageIds, image_ids_of, read_image_ids
from boxscore.data.image_objects import is_image_object
from boxscore.data.snapshots import has_device_arrays, host_images, host_padded
from boxscore.pipeline import evaluate_columns
from boxscore.protocol.protocol import EngineName, IouType, ProtocolLike, as_protocol
from boxscore.protocol.table import for_iou_type
from boxscore.result.result import Result

AnyPath = str | os.PathLike[str]

Batch = Sequence[Any] | Mapping[str, Any]
"""One dict per image, or a dict of padded arrays."""

Made = TypeVar("Made")

_TITLES = {"columns": "columns", "file": "a file"}


def evaluate(
    detections: Detections | Batch | AnyPath,
    truths: Truths | Batch | AnyPath,
    protocol: ProtocolLike = "coco",
    engine: EngineName = "auto",
    *,
    iou_type: IouType | None = None,
    box_format: BoxFormat | None = None,
    class_names: ClassNames | AnyPath | None = None,
    image_ids: ImageIdsLike | None = None,
    threads: int | None = None,
) -> Result:
    """Evaluate `detections` against `truths` under a protocol.

    Each of the two may be columns, a file, one dict per image or a padded batch, as the metric's `update` takes them.
    Dicts and padded batches of both sides are paired by position. Beside columns or a file they are joined by image, so
    each image needs an id: in `image_ids`, or under the key `image_id`. Inputs may be empty: without truths every
    number is NaN, without detections 0.

    Args:
        detections: The detections of all images: `Detections`, the path of a file or folder that `read_detections`
            reads, a list of dicts, or a dict of padded arrays.
        truths: The truths of all images: `Truths`, the path of a file or folder that `read_truths` reads, a list of
            dicts, or a dict of padded arrays.
        protocol: "coco", "voc2007", "voc2012", "paper", "lvis", … or a `Protocol`. A name compares the shapes that both
            sides have, boxes if they have several; a `Protocol` compares those of its `iou_type`.
        engine: "native" is C++; arrays on an accelerator are copied to host memory. "parallel" works on any array
            library, on its device; "sequential" is the textbook loop, slow. "auto" takes "native".
        iou_type: The similarity, instead of the protocol's; it decides which shapes of dicts and files are read.
        box_format: The format of boxes in dicts and padded batches, "xyxy" by default; else in files that don't say it.
            Columns have their own.
        class_names: The names of classes: a list, or a dict by label; for files without names also the path of a list.
            `Truths` have their own.
        image_ids: One id per image of the dicts or padded batches: an integer or a name.
        threads: Number of threads of "native". Default: BOXSCORE_THREADS, else all cores that this process may use, at
            most OMP_NUM_THREADS. Any number gives the same bits.

    Returns:
        The numbers by name, with curves and verdicts.

    Raises:
        InputError: An input is invalid, or an option doesn't apply to it.

    >>> truths = [{"boxes": [[0, 0, 10, 10], [20, 20, 30, 30]], "labels": [1, 1]}]  # one dict per image
    >>> result = evaluate([{"boxes": [[0, 0, 10, 9]], "scores": [0.9], "labels": [1]}], truths)
    >>> round(result["map_50"], 4), result["mar_100"]  # one of two found, with IoU 0.9
    (0.505, 0.45)
    >>> from boxscore.cli.sample import FOLDER
    >>> round(evaluate(FOLDER / "detections.json", FOLDER / "truths.json")["map"], 4)
    0.5375
    """
    if iou_type is not None:
        kind_of(iou_type)  # raises an error for an unknown similarity
    given = protocol if iou_type is None else for_iou_type(protocol, iou_type)
    sides = _Side.of("detections", detections, Detections), _Side.of("truths", truths, Truths)
    shapes = _shapes_to_read(given, box_format, *sides)
    options = _Options(shapes, box_format, class_names, image_ids, threads)
    if engine != "parallel":
        sides = sides[0].in_host_memory(DETECTION_KEYS, options), sides[1].in_host_memory(TRUTH_KEYS, options)
    return evaluate_columns(*_read(*sides, options), given, engine, threads=threads)


class _Options(NamedTuple):
    """Options of reading; None if not given."""

    iou_type: Any
    box_format: BoxFormat | None = None
    class_names: Any = None
    image_ids: Any = None
    threads: int | None = None

    @property
    def batch_format(self) -> BoxFormat:
        """The format of boxes in dicts and padded batches."""
        return self.box_format or "xyxy"


class _Side(NamedTuple):
    """One of the two inputs."""

    argument: str
    """The name of the argument, for errors."""
    value: Any
    kind: str
    """ "columns", "file", "images" (one dict per image) or "padded" (a dict of arrays)."""

    @classmethod
    def of(cls, argument: str, value: Any, columns: type) -> "_Side":
        """Recognise the form of an input."""
        if isinstance(value, columns):
            return cls(argument, value, "columns")
        if isinstance(value, str | os.PathLike):
            return cls(argument, Path(value), "file")
        if isinstance(value, Mapping):
            return cls(argument, value, "padded")
        if is_image_object(value):
            return cls(argument, [value], "images")
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return cls(argument, value, "images")
        forms = f"boxscore.{columns.__name__}, a path, a list of dicts, or a dict of padded arrays"
        raise InputError(f"`{argument}` must be {forms}; got {type(value).__name__}")

    @property
    def is_batch(self) -> bool:
        """Whether images are given by position: one dict per image, or a padded batch."""
        return self.kind in ("images", "padded")

    def has_shapes(self, iou_type: str) -> bool:
        """Whether the input has, or may have, shapes for a similarity."""
        if self.kind == "columns":
            return iou_type in self.value.iou_types()
        if self.kind == "file":
            return True
        key = next(iter(DETECTION_KEYS.of_shapes(iou_type, "xyxyxyxy" if iou_type == "obb" else "xyxy").required))
        images = [self.value] if self.kind == "padded" else self.value
        return all(key in image for image in images if isinstance(image, Mapping))

    def in_host_memory(self, keys: Keys, options: _Options) -> "_Side":
        """Copy the arrays of a batch from an accelerator, if they are valid; reading reports what is not."""
        if not self.is_batch or not has_device_arrays(self.value):
            return self
        keys = keys.of_shapes(options.iou_type, options.batch_format)
        if "masks" in keys.required:
            return self
        value = host_padded(self.value) if self.kind == "padded" else host_images(self.value, keys)
        return self if value is None else self._replace(value=value)

    @property
    def num_images(self) -> int | None:
        """Number of images of a batch; None for other forms, and for an invalid batch."""
        images = next(iter(self.value.values()), None) if self.kind == "padded" else self.value
        return len(images) if self.is_batch and isinstance(images, Sized) else None

    @property
    def own_ids(self) -> ImageIds | None:
        """The ids under `image_id`; None if an image has none."""
        if self.kind == "padded":
            ids = self.value.get("image_id")
            return None if ids is None else in_argument(self.argument, read_image_ids, ids)
        if self.kind != "images" or not all(isinstance(each, Mapping) and "image_id" in each for each in self.value):
            return None
        return in_argument(self.argument, image_ids_of, self.value, "")


def _shapes_to_read(protocol: ProtocolLike, box_format: BoxFormat | None, *sides: _Side) -> str:
    """The similarity whose shapes are read: the protocol's; for a name, the first that both sides have shapes for."""
    iou_type = as_protocol(protocol).iou_type
    if not isinstance(protocol, str) or iou_type != "bbox":
        return iou_type
    boxes = ("obb", "bbox") if is_oriented(box_format or "xyxy") else ("bbox", "obb")
    others = (kind.iou_types[0] for kind in GEOMETRIES if not kind.is_box)
    order = (boxes[0], *others, boxes[1])
    return next((each for each in order if all(side.has_shapes(each) for side in sides)), boxes[0])


def _read(detections: _Side, truths: _Side, options: _Options) -> tuple[Detections, Truths]:
    """Read both inputs."""
    _check_options(detections, truths, options)
    ids = _ids_of(detections, truths, options)
    try:
        known = _read_truths(truths, ids, options, is_beside_batch=detections.is_batch)
    except InputError as error:
        raise InputError(f"{error}{_hint_if_swapped(detections, truths)}") from None
    return _read_detections(detections, truths, known, ids, options), known


def _check_options(detections: _Side, truths: _Side, options: _Options) -> None:
    """Raise `InputError` for an option that would change nothing."""
    is_read = {
        "box_format": (detections.kind, truths.kind) != ("columns", "columns"),
        "class_names": truths.kind != "columns" or detections.kind == "file",
        "image_ids": detections.is_batch or truths.is_batch,
    }
    for name, can_be_given in is_read.items():
        if getattr(options, name) is not None and not can_be_given:
            forms = "dicts and padded batches" if name == "image_ids" else "dicts, padded batches and files"
            given = f"`detections` as {detections.kind} and `truths` as {truths.kind}"
            raise InputError(f"`{name}` is read with {forms}: leave it out with {given}")


def _ids_of(detections: _Side, truths: _Side, options: _Options) -> ImageIds | None:
    """The ids of the images of batches. None: no side is a batch, or both are, paired by position."""
    if not (detections.is_batch or truths.is_batch):
        return None
    num, num_truths = detections.num_images, truths.num_images
    if num is not None and num_truths is not None and num != num_truths:
        raise InputError(f"`detections` and `truths` must have one entry per image; got {num} and {num_truths}")
    if options.image_ids is not None:
        return read_image_ids(options.image_ids)
    own, own_truths = detections.own_ids, truths.own_ids
    if own is not None and own_truths is not None and own.numbers != own_truths.numbers:
        row = next(row for row, (a, b) in enumerate(zip(own.numbers, own_truths.numbers, strict=True)) if a != b)
        shown = f"{own.shown(own.numbers[row])} and {own_truths.shown(own_truths.numbers[row])} in entry {row}"
        raise InputError(f"`image_id` of `detections` and `truths` must agree, as entries are pairs; got {shown}")
    ids = own if own_truths is None else own_truths
    if ids is None and not (detections.is_batch and truths.is_batch):
        batch, other = (detections, truths) if detections.is_batch else (truths, detections)
        rule = "must name its images, by `image_ids` or the key 'image_id' of each"
        raise InputError(
            f"`{batch.argument}` {rule}: `{other.argument}` is {_TITLES[other.kind]}, which is joined by image"
        )
    return ids


def _read_truths(side: _Side, ids: ImageIds | None, options: _Options, *, is_beside_batch: bool) -> Truths:
    if side.kind == "columns":
        return cast(Truths, side.value)
    if side.kind == "file":
        from boxscore.formats import read_truths

        settings: dict[str, Any] = {"iou_type": options.iou_type, "threads": options.threads}
        settings |= {"box_format": None if is_beside_batch else options.box_format}
        return read_truths(side.value, names=options.class_names, **settings)
    settings = {"image_ids": ids, "class_names": options.class_names, "box_format": options.batch_format}
    if side.kind == "images":
        return in_argument("truths", Truths.from_images, side.value, iou_type=options.iou_type, **settings)
    image_names = None if ids is None else ids.image_names
    return _read_padded(side, Truths, PADDED_TRUTH_KEYS, options, settings | {"image_names": image_names})


def _read_detections(
    side: _Side, truth_side: _Side, truths: Truths, ids: ImageIds | None, options: _Options
) -> Detections:
    if side.kind == "columns":
        return cast(Detections, side.value)
    if side.kind == "file":
        from boxscore.formats import read_detections

        settings: dict[str, Any] = {"iou_type": options.iou_type, "threads": options.threads}
        if not truth_side.is_batch:  # else these options are about the batch
            settings |= {"names": options.class_names, "box_format": options.box_format}
        return read_detections(side.value, truths, **settings)
    numbers = ids if ids is None or truth_side.is_batch else _joined_ids(ids, truths)
    settings = {"image_ids": numbers, "box_format": options.batch_format}
    if side.kind == "images":
        return in_argument("detections", Detections.from_images, side.value, iou_type=options.iou_type, **settings)
    return _read_padded(side, Detections, PADDED_DETECTION_KEYS, options, settings)


def _read_padded(side: _Side, make: Callable[..., Made], keys: Keys, options: _Options, settings: Any) -> Made:
    keys = keys.of_shapes(options.iou_type, options.batch_format)
    batch = PaddedBatch.from_dict(side.argument, side.value, keys)
    if "boxes" not in batch.arrays:
        settings = {name: value for name, value in settings.items() if name != "box_format"}
    made: Made = in_argument(side.argument, batch.build, make, **settings)
    return made


def _joined_ids(ids: ImageIds, truths: Truths) -> list[int]:
    """The truths' ids of images that are given by id or by name, found as in files of detections."""
    from boxscore.formats.joining import join_images, unmatched_rows
    from boxscore.formats.records import Key, Named, RowKeys

    image: Key = np.array(ids.numbers, np.int64)
    if ids.names:
        image = Named.of([ids.names.get(number, str(number)) for number in ids.numbers])
    nothing = np.zeros(len(ids.numbers), bool)
    keys = RowKeys(image=image, label=nothing.astype(np.int64), location="detections[{}]".format, source="`detections`")
    found, is_lost = join_images(keys, truths)
    if is_lost.any():
        raise InputError(str(unmatched_rows(keys, truths, is_lost, nothing)[0]))
    return [int(image) for image in found]


def _hint_if_swapped(detections: _Side, truths: _Side) -> str:
    """Advice for an error of reading truths, if the two files can only be read the other way round; else ""."""
    from boxscore.formats import find_swapped

    found, known = detections.value, truths.value
    if (detections.kind, truths.kind) != ("file", "file") or find_swapped(known, [found]) is None:
        return ""
    call = f"evaluate({str(known)!r}, {str(found)!r})"
    return f"; detections come first, then truths, but {known} looks like detections: try {call}"
