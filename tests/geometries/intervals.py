"""Intervals on a line: a geometry that boxscore knows nothing of, in one file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np

from boxscore.arrays import Array, compact, convert, float_dtype, namespace, take_rows, to_numpy
from boxscore.data.geometry import Geometry, RowGatherer, RowShape, Sketch, gatherer_of
from boxscore.data.geometry.kinds import register
from boxscore.data.validation import as_array, check_rows
from boxscore.protocol.protocol import Protocol


@register
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Intervals(Geometry):
    """From start to end; as similar as boxes of height 1 with these sides."""

    name: ClassVar[str] = "interval"
    plural: ClassVar[str] = "intervals"
    key: ClassVar[str] = "intervals"
    row_shape: ClassVar[RowShape] = (2,)
    iou_types: ClassVar[tuple[str, ...]] = ("interval_iou",)
    columns: ClassVar[tuple[str, ...]] = ("start", "end")
    terms: ClassVar[Mapping[str, str]] = {"intervals": "start,end"}

    interval: Array
    """Start and end. Shape (N, 2)."""

    def __len__(self) -> int:
        return int(self.interval.shape[0])

    @property
    def arrays(self) -> tuple[Array, ...]:
        """One column."""
        return (self.interval,)

    def take(self, rows: Any) -> Self:
        """Some of the intervals."""
        return replace(self, interval=take_rows(self.interval, rows))

    def __post_init__(self) -> None:
        interval = as_array("intervals", self.interval)
        check_rows("intervals", interval[..., 0] <= interval[..., 1], "must not end before the start", interval)
        object.__setattr__(self, "interval", interval)

    @classmethod
    def from_written(cls, written: Mapping[str, Any], **_: Any) -> "Intervals":
        """From the argument `intervals`."""
        return cls(interval=written["intervals"])

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> "Intervals":
        """Two columns of a table."""
        return cls(interval=np.stack([columns[name] for name in cls.columns], axis=1))

    def written_columns(self) -> dict[str, Any]:
        """Two columns of a table."""
        return dict(zip(self.columns, to_numpy(self.interval).T, strict=True))

    def areas(self, protocol: Protocol, like: Array | None = None) -> Array:  # noqa: ARG002
        """Their lengths."""
        interval = self._floats(self.interval if like is None else like)
        return interval[..., 1] - interval[..., 0]

    def outer_boxes(self) -> Array:
        """Boxes of height 1."""
        start, end = np.moveaxis(to_numpy(self.interval), -1, 0)
        return np.stack([start, np.zeros_like(start), end, np.ones_like(end)], axis=-1)

    def sketch(self, row: int) -> Sketch:
        """One line."""
        start, end = to_numpy(self.interval)[row].tolist()
        return Sketch(lines=[np.array([[start, 0.5], [end, 0.5]])])

    def compiled(self, protocol: Protocol) -> Any:  # noqa: ARG002
        """The intervals for the policy of intervals.cpp."""
        return import_module("boxscore_test_intervals").Intervals(compact(to_numpy(self.interval), np.float64))

    def shapes(self, protocol: Protocol) -> list[Any]:  # noqa: ARG002
        """Pairs of start and end."""
        return list(self._floats(np.zeros(0)).tolist())

    @staticmethod
    def similarity(shape: Any, truth: Any, *, is_crowd: bool, protocol: Protocol) -> float:  # noqa: ARG004
        """Shared length over the length of both together."""
        shared = min(shape[1], truth[1]) - max(shape[0], truth[0])
        if shared <= 0:
            return 0.0
        length, truth_length = shape[1] - shape[0], truth[1] - truth[0]
        return float(shared / (length if is_crowd else length + truth_length - shared))

    def gatherer(self, protocol: Protocol, like: Array) -> RowGatherer:  # noqa: ARG002
        """Of start and end."""
        return gatherer_of([self._floats(like)], like)

    def _floats(self, like: Array) -> Array:
        interval = convert(self.interval, like=like)
        return namespace(interval).astype(interval, float_dtype(interval))

    @staticmethod
    def pairwise(
        columns: tuple[Array, ...],
        truth_columns: tuple[Array, ...],
        is_crowd: Array,
        protocol: Protocol,  # noqa: ARG004
    ) -> Array:
        """The similarity of all pairs."""
        (interval,), (truth,) = columns, truth_columns
        xp = namespace(interval)
        start, end = interval[:, :, None, 0], interval[:, :, None, 1]
        truth_start, truth_end = truth[:, None, :, 0], truth[:, None, :, 1]
        shared = xp.minimum(end, truth_end) - xp.maximum(start, truth_start)
        length = end - start + xp.zeros_like(shared)
        union = xp.where(is_crowd[:, None, :], length, length + (truth_end - truth_start) - shared)
        is_apart = shared <= 0
        return xp.where(is_apart, xp.zeros_like(shared), shared / xp.where(is_apart, xp.ones_like(union), union))
