"""The rows of a file before they are joined, as readers return them; and the options of readers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, bounds_of
from boxscore.data.validation import RowError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Sizes = Mapping[Any, tuple[int, int]]
"""Width and height by image."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Named:
    """A column of names: row i has `names[code[i]]`. Some names may have no row."""

    code: Ids
    names: Sequence[str]

    @classmethod
    def of(cls, values: Sequence[str], *, also: Sequence[str] = ()) -> "Named":
        """The column of these values. `also`: names without a row.

        >>> Named.of(["b", "a", "b"]).names
        ['b', 'a']
        """
        code_of = {name: code for code, name in enumerate(dict.fromkeys((*values, *also)))}
        return cls(code=np.fromiter(map(code_of.__getitem__, values), np.int64, len(values)), names=list(code_of))

    def __len__(self) -> int:
        return int(self.code.size)


Key = Ids | Named
"""A column that identifies images or classes: by the ids in the file, or by names."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowKeys:
    """The image and the class of each row of a file, as the file has them: enough to join rows with truths."""

    image: Key
    """Ids, or file names."""
    label: Key
    """Ids, or class names."""
    location: Callable[[int], str]
    """Where a row is, for errors: "val.json: annotation 7 (id 42)", "000001.xml: object 2"."""
    source: str
    """The path of the file or folder, for errors that are not about a single row."""
    is_position: bool = False
    """Whether labels are indices into a list of classes that is not in the file, as in YOLO's results."""
    has_ultralytics_ids: bool = False
    """Whether labels are numbered as in Ultralytics' predictions.json: indices plus 1, or COCO's ids."""
    image_names: Mapping[int, str] | None = None
    """The name of every image by id, with or without rows; None if images have only names, or the file lists none."""
    class_names: Mapping[int, str] | None = None
    """The name of every class by label, if the file lists them."""

    def __len__(self) -> int:
        return len(self.image)


class OrientedRows(NamedTuple):
    """Oriented boxes of rows, as a file has them."""

    box: Floats
    """Shape (R, 8), or (R, 5) with an angle."""
    box_format: BoxFormat = "xyxyxyxy"

    def fields(self) -> dict[str, Any]:
        """The fields of `Records`: these boxes, and the upright boxes around them."""
        return {"box": bounds_of(self.box, self.box_format), "box_format": "xyxy", "oriented": self}

    def scaled(self, scale: Floats) -> "OrientedRows":
        """Convert fractions to pixels. `scale`: width and height of each row's image. Shape (R, 2)."""
        if self.box_format != "xyxyxyxy":
            raise InputError("oriented boxes that are fractions of their image must be corners; got angles")
        return self._replace(box=self.box * np.tile(scale, 4))


class PoseRows(NamedTuple):
    """Keypoints of rows, as a file has them."""

    point: Floats
    """Shape (R, K, 2)."""
    third: Floats | None
    """The visibility of each point of a truth, the score of each point of a detection. Shape (R, K)."""
    num_labelled: Floats | None = None
    """Number of labelled points, if the file has it. Shape (R,)."""
    has_boxes: bool = True
    """Whether all boxes of rows are in the file."""

    def take(self, rows: Any) -> "PoseRows":
        """The given rows."""
        return self._replace(**{name: column[rows] for name, column in self._columns().items()})

    def scaled(self, scale: Floats) -> "PoseRows":
        """Convert fractions to pixels. `scale`: width and height of each row's image. Shape (R, 2)."""
        return self._replace(point=self.point * scale[:, None])

    def of_truths(self, box: Floats, box_format: BoxFormat, area: Floats | None) -> Keypoints:
        """The keypoints of truths that have these boxes and areas."""
        boxes: dict[str, Any] = {"box": box, "box_format": box_format} if self.has_boxes else {}
        keypoints = Keypoints.of_truths(self.point, self.third, area=area, **boxes)
        return replace(keypoints, num_labelled=self.num_labelled)

    def of_detections(self) -> Keypoints:
        """The keypoints of detections."""
        return Keypoints.of_detections(self.point, self.third)

    def _columns(self) -> dict[str, Any]:
        names = ("point", "third", "num_labelled")
        return {name: column for name in names if (column := getattr(self, name)) is not None}


class CoverageRows(NamedTuple):
    """The classes verified in each image, as a file has them: one row per image and class."""

    image: Key
    label: Key
    is_exhaustive: NDArray[np.bool_] | None = None
    """Whether every object of the class was annotated; None if this holds for all rows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Records(RowKeys):
    """The unprocessed rows of a file: no image or class is looked up, no number is validated."""

    box: Floats
    """Shape (R, 4); if a file has only other shapes, the boxes around them."""
    box_format: BoxFormat
    mask: Masks | None = None
    """The masks, if they were asked for and need no sizes of images."""
    polygons: Polygons | None = None
    """The outlines of masks, which are drawn once the sizes of their images are known. A row without polygons has its
    mask in `mask`; the `mask` of other rows has no meaning."""
    keypoints: PoseRows | None = None
    """The keypoints, if they were asked for."""
    oriented: OrientedRows | None = None
    """The oriented boxes, if the file has any and they were asked for."""
    crowd_index: Mapping[Any, float] | None = None
    """The crowd index of each image, by id or by name."""
    coverage: CoverageRows | None = None
    """The verified images and classes, all of which the file has; None if every class was verified in every image."""
    class_groups: Mapping[Any, str] | None = None
    """The group of each class, by label or by name, where the file has groups."""
    subset: tuple[str, ...] = ()
    """Descriptions of the data that is missing; see `Truths.subset`."""
    is_normalized: bool = False
    """Whether boxes and polygons are fractions of their image's width and height."""
    score: Floats | None = None
    ignore: NDArray[Any] | None = None
    kind: NDArray[np.uint8] | None = None
    """The kinds of `Truths.kind`, in place of `ignore`."""
    truncated: NDArray[Any] | None = None
    area: Floats | None = None
    id: Ids | None = None
    """The id of each row, if the format has ids. Results don't depend on them."""
    image_sizes: Sizes | None = None
    """Sizes by id or by name, whichever identifies the images."""
    terms: Mapping[str, str] | None = None
    """The file's names for our columns, if they differ."""

    def drawn_masks(self, size: Ids, *, keeps_polygons: bool = False) -> Masks | None:
        """The masks, or None; polygons are drawn into images of the given size.

        `size`: width and height of each row's image. Shape (R, 2).
        """
        if self.polygons is None:
            return self.mask
        polygons = self.polygons.scaled(size.astype(np.float64)) if self.is_normalized else self.polygons
        if self.mask is None:
            return Masks.from_polygons(polygons, size[:, ::-1], keep=keeps_polygons)
        rows = np.flatnonzero(polygons.has_parts)
        source = np.arange(len(self))
        source[rows] = len(self) + np.arange(len(rows))
        try:
            drawn = Masks.from_polygons(polygons.take(rows), size[rows, ::-1])
        except RowError as error:
            raise RowError(error.column, int(rows[error.row]), error.rule) from None
        masks = Masks.concatenate([self.mask, drawn]).take(source)
        return replace(masks, polygons=polygons) if keeps_polygons else masks

    def refuse(self, error: InputError) -> InputError:
        """The error about a column, with the location in the file and the file's word for the column."""
        if isinstance(error, RowError):
            term = (self.terms or {}).get(error.column, error.column)
            return InputError(f"{self.location(error.row)}: `{term}` {error.rule}")
        return InputError(f"{self.source}: {error}")


class RowsWarning(UserWarning):
    """A warning about rows that a reader changed or dropped."""

    def __init__(self, message: str, *, num: int, what: str, fate: str, location: str) -> None:
        super().__init__(message)
        self.num, self.what, self.fate, self.location = num, what, fate, location
        """Number of rows; their description, with the number; effect of reading on them; location of the first row."""


def locations(offsets: Sequence[int] | Ids, describe: Callable[[int, int], str]) -> Callable[[int], str]:
    """A function that gives the location of a row among several files.

    `offsets`: the number of rows before each file. `describe`: called with the index of the file and the index of the
    row in it.

    >>> locations([0, 2, 2], lambda file, row: f"file {file}, row {row}")(2)
    'file 2, row 0'
    """
    starts = np.asarray(offsets, np.int64)

    def location(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return describe(file, row - int(starts[file]))

    return location


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of readers: facts that a file may not contain, and what to read of it."""

    box_format: BoxFormat | None = None
    is_format_given: bool = False
    """Whether the user named the format, so that its reader need not doubt it."""
    sizes: Any = None
    """Sizes of images: id or name -> (width, height), or the path of a list or of the images."""
    names: Any = None
    """Names of classes: a sequence, or the path of a file."""
    known_classes: Sequence[str] = ()
    """The classes of the truths, for results whose class is a part of the file name."""
    threads: int | None = None
    """Number of threads of compiled readers; None: BOXSCORE_THREADS, else all cores that this process may use."""
    iou_types: tuple[str, ...] = ("bbox",)
    """The similarities that the data is read for: masks are read only if one of them needs them."""
    score_key: str = "score"
    """The key of the score, for results that have several; results without it have `score`."""
    keeps_polygons: bool = False
    """Whether masks keep the polygons that they are drawn from, for writing them again."""
    image_labels: Any = None
    """The path of Open Images' verified image labels, for truths."""
    hierarchy: Any = None
    """The path of Open Images' class hierarchy, by which rows are expanded."""

    @property
    def has_masks(self) -> bool:
        """Whether masks are read."""
        return any(iou_type in Masks.iou_types for iou_type in self.iou_types)

    @property
    def is_oriented(self) -> bool:
        """Whether oriented boxes are read."""
        return any(iou_type in OrientedBoxes.iou_types for iou_type in self.iou_types)

    @property
    def has_keypoints(self) -> bool:
        """Whether keypoints are read."""
        return any(iou_type in Keypoints.iou_types for iou_type in self.iou_types)
