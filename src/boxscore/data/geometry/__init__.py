"""What a detection is made of: columns of shapes, and how similar two shapes are. One file per geometry.

Similarity is the only step that knows shapes. All after it (matching, tally, curves, analyses) sees pairs of a
detection and a truth, with a number between 0 and 1.
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
"""`Geometry.pairwise`: the same for all pairs of a mini-batch, for the parallel engine."""

RowGatherer: TypeAlias = Callable[[Any], tuple[Array, ...]]
"""`Geometry.gatherer`: rows of a mini-batch, (N, D) in host memory, to columns, (N, D, ...)."""


class Sketch(NamedTuple):
    """One shape as lines for a picture, in the units of the shape. Points are x and y, shape (P, 2) each."""

    outlines: Sequence[NDArray[np.float64]] = ()
    """Closed lines."""
    lines: Sequence[NDArray[np.float64]] = ()
    """Open lines."""
    points: NDArray[np.float64] = np.zeros((0, 2))
    """Single points."""
    is_area: bool = False
    """Whether the shape is exactly what the outlines enclose, and may be filled."""


class Geometry(ABC):
    """Shapes as columns, one row per shape, of any array library. Subclasses are frozen dataclasses that check
    themselves when they are made.

    A similarity is between 0 and 1, and 0 for shapes that have nothing in common. With a crowd or a group (`is_crowd`)
    it is relative to the detection's own size instead of the union's. Shapes that can't be compared may have -1.
    """

    name: ClassVar[str]
    """What one shape is called, in constructors and in messages: "box"."""
    plural: ClassVar[str]
    """What several are called: "boxes"."""
    iou_types: ClassVar[tuple[str, ...]]
    """The similarities that these shapes have, as `Protocol.iou_type` names them; the first is the usual one."""
    pairs_per_batch: ClassVar[int | None] = 2**19
    """How many pairs the parallel engine compares together: enough for an accelerator to be busy. None: those of one
    image and class, so that a shape is read once, and not for each of its pairs."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[Array, ...]:
        """The columns; the first one says where all of them are: in which library, on which device."""

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """Some of the rows. `rows`: indices, or one flag per row, in host memory."""

    def is_blank(self, protocol: Protocol) -> Array | None:  # noqa: ARG002
        """Which rows have nothing to compare, in host memory; None: none has. Shape (N,).

        A blank truth is ignored; a blank detection is left out, as if it were not there.
        """
        return None

    def clipped(self, width: Array, height: Array) -> "Geometry":  # noqa: ARG002
        """The same shapes within images of these sizes, in host memory; shapes that can't leave an image stay. Shape
        (N,) each.
        """
        return self

    @abstractmethod
    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:
        """The area of each shape, which decides its area range. Shape (N,).

        In the widest float of the library and device of `like`; without it, of the columns' own.
        """

    @abstractmethod
    def outer_boxes(self) -> Array:
        """The smallest upright box around each shape: left, top, right, bottom. Shape (N, 4)."""

    def sketch(self, row: int) -> Sketch:
        """The lines that a picture of one shape has; by default those of the box around it."""
        left, top, right, bottom = to_numpy(self.take([row]).outer_boxes())[0].tolist()
        return Sketch(outlines=[np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float64)])

    @abstractmethod
    def compiled(self, protocol: Protocol) -> Any:
        """The shapes for the native engine: a `_compiled.Geometry`, in host memory."""

    @abstractmethod
    def shapes(self, protocol: Protocol) -> list[Any]:
        """The shapes for the sequential engine: one plain value per row, as `similarity` takes it."""

    @staticmethod
    @abstractmethod
    def similarity(shape: Any, truth: Any, *, is_crowd: bool, protocol: Protocol) -> float:
        """How similar a detection and a truth are, each one of `shapes`."""

    @abstractmethod
    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:
        """A function that gives the shapes of a mini-batch for the parallel engine, as `pairwise` takes them.

        They are in the library and on the device of `like`. A row may come several times, unless `pairs_per_batch` is
        None.
        """

    @staticmethod
    @abstractmethod
    def pairwise(
        columns: tuple[Array, ...], truth_columns: tuple[Array, ...], is_crowd: Array, protocol: Protocol
    ) -> Array:
        """How similar every detection is to every truth of its image, from the columns of a mini-batch.

        Shapes (N, D, ...), (N, G, ...) and (N, G); gives (N, D, G).
        """


def gatherer_of(columns: Sequence[Array], like: Array) -> RowGatherer:
    """A gatherer of columns with one row per shape."""
    moved = [contiguous(convert(column, like=like)) for column in columns]
    return lambda rows: tuple(gather(column, rows) for column in moved)


def is_in_areas(area: Array, areas: Sequence[Area]) -> Array:
    """Whether each area lies in each range, ends included. Shape (..., A)."""
    low_A = constant([each.low for each in areas], like=area, dtype=area.dtype)
    high_A = constant([each.high for each in areas], like=area, dtype=area.dtype)
    return (area[..., None] >= low_A) & (area[..., None] <= high_A)
