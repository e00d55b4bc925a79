"""The rows of a file before they are joined, as readers return them; and the options of readers."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.data.geometry import Geometry, ShapeRows
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.kinds import kinds_of
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.oriented_boxes import OrientedRows
from boxscore.data.validation import RowError
from boxscore.formats.files import Source

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Rows = TypeVar("Rows", bound=ShapeRows)
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

    # As for arrays of ids, so that columns of either kind are used alike.

    def __getitem__(self, rows: Any) -> "Named":
        return replace(self, code=self.code[rows])

    def item(self, row: int) -> str:
        """The name of a row."""
        return self.names[int(self.code[row])]

    def tolist(self) -> list[str]:
        """The name of each row."""
        return [self.names[code] for code in self.code.tolist()]


Key = Ids | Named
"""A column that identifies images or classes: by the ids in the file, or by names."""


def codes_of(column: Key) -> Ids:
    """An integer for each row's image or class."""
    return column.code if isinstance(column, Named) else column


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
    shapes: Mapping[type[Geometry], ShapeRows] = field(default_factory=dict)
    """The shapes that were asked for and that the file has, by geometry; without upright boxes and masks."""
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

    @property
    def kinds(self) -> list[type[Geometry]]:
        """The geometries that the rows have, boxes excepted unless they are oriented."""
        has_masks = self.mask is not None or self.polygons is not None
        return [*self.shapes, *([Masks] if has_masks else [])]

    def rows_of(self, kind: type[Rows]) -> Rows | None:
        """The shapes of a class, or None."""
        return next((rows for rows in self.shapes.values() if isinstance(rows, kind)), None)

    @property
    def written_boxes(self) -> tuple[Floats, BoxFormat]:
        """The boxes as in the file, oriented or upright, and their format."""
        turned = self.rows_of(OrientedRows)
        return (self.box, self.box_format) if turned is None else (turned.box, turned.box_format)

    @property
    def has_boxes(self) -> bool:
        """Whether the file has boxes; else the boxes are those around other shapes."""
        return all(rows.has_boxes for rows in self.shapes.values())

    def refuse(self, error: InputError) -> InputError:
        """The error about a column, with the location in the file and the file's word for the column."""
        if isinstance(error, RowError):
            term = (self.terms or {}).get(error.column, error.heading)
            return InputError(f"{self.location(error.row)}: `{term}` {error.rule}")
        return InputError(f"{self.source}: {error}")


class RowBuilder:
    """Rows that a reader finds one by one, in groups: the rows of an image, or of a class.

    Args:
        source: The file or folder.
        place: The location of a row, from the index of its group and its number in the group.
    """

    def __init__(self, source: Source, place: Callable[[int, int], str]) -> None:
        self._source, self._place = source, place
        self._start: list[int] = []
        self._number: list[int] = []
        self._values: list[Sequence[float]] = []
        self._is_ignored: list[bool] = []
        self.groups: list[str] = []
        """The names of the groups."""
        self.names: list[str] = []
        """The name of each row: its class, or its image if groups are classes."""

    def begin(self, group: str) -> None:
        """Begin a group, to which the next rows belong."""
        self.groups.append(group)
        self._start.append(len(self.names))

    def add(self, name: str, values: Sequence[float], number: int, *, is_ignored: bool = False) -> None:
        """Add a row: its name, its numbers, such as a box, and its number in the group."""
        self.names.append(name)
        self._values.append(values)
        self._number.append(number)
        self._is_ignored.append(is_ignored)

    @property
    def group(self) -> Named:
        """The column of groups."""
        num_rows = np.diff([*self._start, len(self.names)])
        return Named(code=np.repeat(np.arange(len(self.groups)), num_rows), names=self.groups)

    @property
    def ignore(self) -> NDArray[np.bool_]:
        """The column of ignored rows."""
        return np.array(self._is_ignored, bool)

    def values(self, size: int) -> Floats:
        """The numbers of all rows. Shape (R, size)."""
        return np.array(self._values, np.float64).reshape(-1, size)

    def location(self, row: int) -> str:
        """Where a row is, for errors."""
        group = int(np.searchsorted(self._start, row, side="right")) - 1
        return self._place(group, self._number[row])

    def fields(self, *, is_by_class: bool = False) -> dict[str, Any]:
        """Fields of `Records`: image, class, location and source. `is_by_class`: whether groups are classes."""
        named = Named.of(self.names)
        image, label = (named, self.group) if is_by_class else (self.group, named)
        return {"image": image, "label": label, "location": self.location, "source": str(self._source)}


def warn_of_shapes_left_out(num: int, read: str, location: object) -> None:
    """Warn about the number of shapes that are not read. `read`: the kinds that are."""
    if num:
        what = f"{count(num, 'shape')} other than {read}"
        warning = RowsWarning(
            f"{location}: {what} left out", num=num, what=what, fate="they are left out", location=str(location)
        )
        warnings.warn(warning, stacklevel=5)


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
    def kinds(self) -> list[type[Geometry]]:
        """The geometries that are read."""
        return kinds_of(self.iou_types)

    def reads(self, kind: type[Geometry]) -> bool:
        """Whether shapes of a geometry are read."""
        return any(iou_type in kind.iou_types for iou_type in self.iou_types)
