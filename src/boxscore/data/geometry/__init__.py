"""Geometries: columns of shapes, and the similarity of two shapes. One file per geometry.

Only similarity depends on shapes. Later steps (matching, tally, curves, analyses) see pairs of a detection and a truth
with a number between 0 and 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from boxscore.arrays import Array, constant, contiguous, convert, gather, to_numpy
from boxscore.protocol.protocol import Area, Protocol

Similarity: TypeAlias = Callable[..., float]
"""`Geometry.similarity`: (shape, truth shape, *, is_crowd, protocol) to a number, for the sequential engine."""

PairwiseSimilarity: TypeAlias = Callable[[tuple[Array, ...], tuple[Array, ...], Array, Protocol], Array]
"""`Geometry.pairwise`: the similarities of all pairs of a mini-batch, for the parallel engine."""

RowGatherer: TypeAlias = Callable[[Any], tuple[Array, ...]]
"""`Geometry.gatherer`: rows of a mini-batch, (N, D) in host memory, to columns, (N, D, ...)."""


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


class Geometry(ABC):
    """Columns of shapes, one row per shape, of any array library. Subclasses are frozen dataclasses that validate
    their columns when constructed.

    A similarity is between 0 and 1, and 0 for disjoint shapes. With a crowd or a group (`is_crowd`), it is relative to
    the detection's size instead of the union's. For shapes that can't be compared, it may be -1.
    """

    name: ClassVar[str]
    """The name of one shape, in constructors and messages, such as "box"."""
    plural: ClassVar[str]
    """The name of several shapes, such as "boxes"."""
    iou_types: ClassVar[tuple[str, ...]]
    """The supported similarities, as values of `Protocol.iou_type`; the first is the default."""
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
    low_A = constant([each.low for each in areas], like=area, dtype=area.dtype)
    high_A = constant([each.high for each in areas], like=area, dtype=area.dtype)
    return (area[..., None] >= low_A) & (area[..., None] <= high_A)
