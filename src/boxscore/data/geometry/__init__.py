"""Geometries: columns of shapes, and the similarity of two shapes. One file per geometry.

Only similarity depends on shapes. Later steps (matching, tally, curves, analyses) see pairs of a detection and a truth
with a number between 0 and 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, contiguous, convert, gather, namespace, to_numpy
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.protocol.protocol import Area, Protocol

Similarity: TypeAlias = Callable[..., float]
"""`Geometry.similarity`: (shape, truth shape, *, is_crowd, protocol) to a number, for the sequential engine."""

PairwiseSimilarity: TypeAlias = Callable[[tuple[Array, ...], tuple[Array, ...], Array, Protocol], Array]
"""`Geometry.pairwise`: the similarities of all pairs of a mini-batch, for the parallel engine."""

RowGatherer: TypeAlias = Callable[[Any], tuple[Array, ...]]
"""`Geometry.gatherer`: rows of a mini-batch, (N, D) in host memory, to columns, (N, D, ...)."""


RowShape: TypeAlias = tuple[int | None, ...]
"""The shape of one row; None: any size, the same for all rows."""


class Sketch(NamedTuple):
    """The lines and points of one shape for a picture, in the units of the shape. Rows are x, y. Shape (P, 2) each."""

    outlines: Sequence[NDArray[np.float64]] = ()
    """Closed lines."""
    lines: Sequence[NDArray[np.float64]] = ()
    """Open lines."""
    points: NDArray[np.float64] = np.zeros((0, 2))
    """Single points."""
    is_area: bool = False
    """Whether the outlines enclose exactly the shape, so that it may be filled."""


class TableColumns(Interface):
    """The columns of a table of any format, such as CSV, NumPy's .npz or Arrow."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Columns by name: arrays, or lists of cells, which may be text."""

    def floats(self, name: str) -> NDArray[np.float64]:
        """Read a column with one number per row."""


@dataclass(frozen=True, slots=True, eq=False)
class ShapeRows(ABC):
    """The shapes of a file's rows: validated only when they become a geometry, so that checks see invalid ones."""

    has_boxes: bool = field(default=True, kw_only=True)
    """Whether the file has boxes for all of these rows, too."""

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """Select rows by index or by flag."""

    @abstractmethod
    def scaled(self, scale: NDArray[np.float64]) -> Self:
        """Convert fractions to pixels. `scale`: width and height of each row's image. Shape (R, 2)."""

    @abstractmethod
    def outer_boxes(self, *, is_truth: bool) -> NDArray[np.float64]:
        """The upright boxes around the shapes, for files without boxes: left, top, right, bottom. Shape (R, 4)."""

    @abstractmethod
    def to_geometry(
        self,
        *,
        is_truth: bool,
        box: NDArray[np.float64],
        box_format: BoxFormat,
        area: NDArray[np.float64] | None,
    ) -> "Geometry":
        """Build the shapes of detections or truths that have these boxes and areas; raise `RowError` for invalid ones.

        Args:
            is_truth: Whether the rows are truths.
            box: The upright boxes of the rows; without `has_boxes`, the boxes around the shapes. Shape (R, 4).
            box_format: The format of `box`.
            area: The areas of the rows, if the file has them. Shape (R,).
        """

    def detection_areas(
        self,
        area: NDArray[np.float64] | None,
        box: NDArray[np.float64],  # noqa: ARG002
        box_format: BoxFormat,  # noqa: ARG002
    ) -> NDArray[np.float64] | None:
        """The areas of detections that have these boxes; `area`: as in the file, or None. None: of the shapes."""
        return area


@dataclass(frozen=True, slots=True, eq=False)
class NumberRows(ShapeRows):
    """The shapes of a geometry whose columns have one number per row each."""

    kind: "type[Geometry]"
    columns: Mapping[str, NDArray[np.float64]]

    def take(self, rows: Any) -> "NumberRows":
        """Select rows by index or by flag."""
        return replace(self, columns={name: column[rows] for name, column in self.columns.items()})

    def scaled(self, scale: NDArray[np.float64]) -> "NumberRows":  # noqa: ARG002
        """Raise `InputError`: only the geometry knows which of its numbers are distances."""
        raise InputError(f"{self.kind.plural} must be in pixels; got fractions of the image's size")

    def outer_boxes(self, *, is_truth: bool) -> NDArray[np.float64]:  # noqa: ARG002
        """The upright boxes around the shapes. Shape (R, 4)."""
        return to_numpy(self.kind.from_columns(self.columns).outer_boxes()).astype(np.float64)

    def to_geometry(self, **_: Any) -> "Geometry":
        """Build the shapes, which don't depend on boxes and areas."""
        return self.kind.from_columns(self.columns)


class Geometry(ABC):
    """Columns of shapes, one row per shape, of any array library. Subclasses are frozen dataclasses that validate
    their columns when constructed.

    A similarity is between 0 and 1, and 0 for disjoint shapes. With a crowd or a group (`is_crowd`), it is relative to
    the detection's size instead of the union's. For shapes that can't be compared, it may be -1.
    """

    name: ClassVar[str]
    """The name of one shape, in constructors and messages, such as "box"."""
    plural: ClassVar[str]
    """The name of several shapes, such as "oriented boxes"."""
    key: ClassVar[str]
    """The key in dicts and the argument of constructors, such as "boxes"."""
    row_shape: ClassVar[RowShape] = ()
    """The shape of one row under the key. Boxes have it from their format."""
    detection_keys: ClassVar[Mapping[str, RowShape]] = {}
    """Other keys of detections that describe the shapes, with the shape of one row."""
    truth_keys: ClassVar[Mapping[str, RowShape]] = {}
    """Other keys of truths that describe the shapes; "boxes" if truths may have boxes, too."""
    misspellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Wrong names of its keys that are more than one edit away, in lower case and without punctuation."""
    iou_types: ClassVar[tuple[str, ...]]
    """The supported similarities, as values of `Protocol.iou_type`; the first is the default."""
    columns: ClassVar[tuple[str, ...]] = ()
    """The names of its columns in tables, such as CSV files; empty: tables don't have it."""
    more_columns: ClassVar[tuple[str, ...]] = ()
    """The names of columns that a table may have besides."""
    terms: ClassVar[Mapping[str, str]] = {}
    """The column of a table that an error about another name, such as an argument, is about."""
    is_box: ClassVar[bool] = False
    """Whether tables have it as a box, whose columns depend on the box format."""
    compares_on_device: ClassVar[bool] = False
    """Whether `compared` prepares shapes on a device for the native engine, so that they are not copied as they are."""
    pairs_per_batch: ClassVar[int | None] = 2**19
    """Number of pairs that the parallel engine compares at once: enough to keep an accelerator busy. None: the pairs of
    one image and class, so that each shape is read once, and not for each of its pairs."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[Array, ...]:
        """The columns. The first one determines the library and device of all."""

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """Select rows.

        Args:
            rows: Indices, or one flag per row, in host memory.
        """

    def is_blank(self, protocol: Protocol) -> Array | None:  # noqa: ARG002
        """Whether each row has nothing to compare, in host memory; None: no row is blank. Shape (N,).

        A blank truth is ignored; a blank detection is dropped.
        """
        return None

    def suits(self, protocol: Protocol) -> bool:  # noqa: ARG002
        """Whether a protocol is meant for such shapes, among the protocols that can compare them."""
        return True

    def clipped(self, width: Array, height: Array) -> "Geometry":  # noqa: ARG002
        """Clip the shapes to their images; shapes that can't extend beyond an image stay unchanged.

        Args:
            width: The width of each shape's image, in host memory. Shape (N,).
            height: The height of each shape's image, in host memory. Shape (N,).
        """
        return self

    @abstractmethod
    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:
        """The area of each shape, which decides its area range. Shape (N,).

        Args:
            protocol: The rules, such as how boxes count pixels.
            like: An array of the library and device of the result, in its widest float; default: the columns.
        """

    @abstractmethod
    def outer_boxes(self) -> Array:
        """The smallest upright box around each shape: left, top, right, bottom. Shape (N, 4)."""

    def sketch(self, row: int) -> Sketch:
        """The lines of one shape for a picture; by default, the outer box.

        Args:
            row: The index of the shape.
        """
        left, top, right, bottom = to_numpy(self.take([row]).outer_boxes())[0].tolist()
        return Sketch(outlines=[np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float64)])

    @classmethod
    def from_written(cls, written: Mapping[str, Any], *, is_truth: bool, area: Any) -> "Geometry":  # noqa: ARG003
        """Build the shapes from the arguments of a constructor.

        Args:
            written: The arguments that are not None: the `key`, `detection_keys` or `truth_keys`, `box_format`.
            is_truth: Whether the rows are truths.
            area: The areas of the rows, or None. Shape (N,).
        """
        raise InputError(f"{cls.plural} must be given as `geometry`; got `{cls.key}`")

    def for_side(self, *, is_truth: bool) -> "Geometry":  # noqa: ARG002
        """The shapes as detections or truths have them."""
        return self

    @classmethod
    def read_columns(cls, table: TableColumns, *, is_truth: bool) -> ShapeRows:  # noqa: ARG003
        """Read the shapes of a table that has the `columns`; by default, one number per row each.

        Args:
            table: The table.
            is_truth: Whether the rows are truths.

        Raises:
            RowError: A cell can't be read.
        """
        return NumberRows(cls, {name: table.floats(name) for name in cls.columns})

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]]) -> "Geometry":  # noqa: ARG003
        """Build the shapes from columns as `written_columns` makes them."""
        raise InputError(f"{cls.plural} can't be read from tables")

    @classmethod
    def empty(cls, box_format: BoxFormat | None = None) -> "Geometry":  # noqa: ARG003
        """Build a column without shapes. `box_format`: of boxes; None: the default."""
        return cls.from_columns(dict.fromkeys(cls.columns, np.zeros(0)))

    def written_columns(self) -> dict[str, NDArray[Any]]:
        """The columns for a table, by name. Shape (N,) each, or (N, …) for lists of numbers; empty: it has none."""
        return {}

    def own_boxes(self) -> tuple[Array, BoxFormat] | None:
        """The boxes that were given with the shapes, and their format; None without."""
        return None

    def written_areas(self, area: NDArray[np.float64] | None, box_area: NDArray[np.float64] | None) -> Any:  # noqa: ARG002
        """The column `area` for a table of detections; None: readers derive the areas.

        Args:
            area: The given areas, or None. Shape (N,).
            box_area: The areas of the written boxes; None without boxes. Shape (N,).
        """
        return area

    @classmethod
    def row_bytes(cls, protocol: Protocol) -> int:  # noqa: ARG003
        """Additional memory for matching one shape, in bytes, beyond that for a box."""
        return 0

    def compared(
        self,
        image: NDArray[Any],  # noqa: ARG002
        truths: "Geometry",
        truth_image: NDArray[Any],  # noqa: ARG002
        protocol: Protocol,  # noqa: ARG002
    ) -> tuple["Geometry", "Geometry"]:
        """Both sides as the native engine reads them; by default unchanged.

        Shapes that are compared where they are return overlaps in their place.

        Args:
            image: The image of each of these shapes, the detections. Shape (D,).
            truths: The shapes of the truths.
            truth_image: The image of each truth. Shape (G,).
            protocol: The rules, which select the similarity.
        """
        return self, truths

    @abstractmethod
    def compiled(self, protocol: Protocol) -> Any:
        """The shapes for the native engine: a `_compiled.Geometry`, in host memory."""

    @abstractmethod
    def shapes(self, protocol: Protocol) -> list[Any]:
        """The shapes for the sequential engine: one Python value per row, as `similarity` takes it."""

    @staticmethod
    @abstractmethod
    def similarity(shape: Any, truth: Any, *, is_crowd: bool, protocol: Protocol) -> float:
        """Similarity of a detection and a truth.

        Args:
            shape: The detection, an element of `shapes`.
            truth: The truth, an element of `shapes`.
            is_crowd: Whether the truth is a crowd or a group.
            protocol: The rules, which select the similarity.
        """

    @abstractmethod
    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """Make a function that gathers the shapes of a mini-batch for the parallel engine, as `pairwise` takes them.

        A row may be gathered several times, unless `pairs_per_batch` is None.

        Args:
            protocol: The rules, which select the similarity.
            like: An array of the library and device of the gathered arrays.
        """

    @staticmethod
    @abstractmethod
    def pairwise(
        columns: tuple[Array, ...], truth_columns: tuple[Array, ...], is_crowd: Array, protocol: Protocol
    ) -> Array:
        """Similarity of every detection with every truth of its image, from the columns of a mini-batch.

        Args:
            columns: The gathered columns of the detections. Shape (N, D, ...) each.
            truth_columns: The gathered columns of the truths. Shape (N, G, ...) each.
            is_crowd: Whether each truth is a crowd or a group. Shape (N, G).
            protocol: The rules, which select the similarity.

        Returns:
            The similarities. Shape (N, D, G).
        """


def gatherer_of(columns: Sequence[Array], like: Array) -> RowGatherer:
    """Make a gatherer of columns with one row per shape."""
    moved = [contiguous(convert(column, like=like)) for column in columns]
    return lambda rows: tuple(gather(column, rows) for column in moved)


def is_in_areas(area: Array, areas: Sequence[Area]) -> Array:
    """Whether each area lies in each range, ends included. Shape (..., A)."""
    is_inside = [(area >= each.low) & (area <= each.high) for each in areas]
    return namespace(area).stack(is_inside, axis=-1)
