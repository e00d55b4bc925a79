"""Tally: the verdicts of matching, from which curves are computed. Mergeable: `empty` is the identity of `merge`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.arrays import compact, order_by
from boxscore.protocol.protocol import POOLED, Protocol, difference_of

JACCARD_SCORES = tuple(1e-1 * i for i in range(10))
"""The score thresholds among which the Jaccard index takes the best."""

IGNORED, FALSE, TRUE = 0, 1, 2
"""The verdicts, as the paper numbers them: ignored, false positive, true positive."""

ROWS = ("image", "label", "score", "tier", "state")
"""The columns with one row per detection."""

HITS = ("is_true", "is_counted")
"""The columns with one row per hit."""

TRUTHS = ("truth_image", "truth_label", "truth_state")
"""The columns with one row per truth."""

EXTRAS = ("similarity", "listed_image", "jaccard", "invalid_image")
"""Optional columns; None if a tally lacks them. `similarity` has one row per hit, `listed_image` and `jaccard` one row
per image: only some numbers beside AP and recall need them. `invalid_image` has one row per dropped detection."""


TRACED_ROWS = ("row", "taken", "taken_similarity")
"""The columns of a traced tally with one row per detection; None if a tally is not traced."""

TRACE = (*TRACED_ROWS, "truth_row")
"""The columns of a traced tally, which refer to input rows. They are not stored, and not sent to other processes."""

UNKNOWN_IMAGE = -1
"""The image of dropped detections if only their number is known."""


class RankedRows(NamedTuple):
    """The columns of detections that a tally keeps."""

    image: NDArray[Any]
    """Image ids. Shape (D,)."""
    label: NDArray[Any]
    """Labels. Shape (D,)."""
    score: NDArray[Any]
    """Scores. Shape (D,)."""
    rank: NDArray[Any]
    """Ranks within image and class. Shape (D,)."""


class Hits(NamedTuple):
    """The verdicts of detections, one per cell only for hits."""

    row: NDArray[np.int64]
    """The detections that are true positives in any cell, or whose verdict depends on the threshold. Shape (H,)."""
    verdict: NDArray[np.uint8]
    """Verdicts of hits. Shape (H, A, T)."""
    is_false: NDArray[np.bool_]
    """Whether a detection that is not a hit is a false positive in each area range. Shape (D, A)."""
    similarity: NDArray[np.float64] | None = None
    """Similarities of hits that are true positives in the first cell. Shape (H,)."""


class CountedTruths(NamedTuple):
    """The columns of truths that a tally keeps."""

    image: NDArray[Any]
    """Image ids. Shape (G,)."""
    label: NDArray[Any]
    """Labels. Shape (G,)."""
    counts: NDArray[np.bool_]
    """Whether a truth counts in an area range. Shape (G, A)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Tally:
    """The verdicts of matching, one row per detection, in host memory; shapes are not retained.

    Rows are ordered by image, label and descending score. Detections beyond the protocol's largest limit are dropped.
    Most detections overlap no truth: at every threshold they are false positives or, because of their size, ignored.
    `state` has one bit per area range for them. The other detections are hits: `is_true` and `is_counted` have one bit
    per area range and threshold. A detection takes about 20 bytes, a truth 9. `verdict` unpacks all bits.

    `match` makes tallies. The constructor does not validate its arguments; the fields describe them in detail.

    Args:
        protocol: The protocol of the verdicts.
        image: Image ids. Shape (D,).
        label: Labels. Shape (D,).
        score: Scores. Shape (D,).
        tier: The index of the first limit that includes each detection. Shape (D,).
        state: Bits of detections that are not hits. Shape (D,).
        is_true: Bits of hits: true positive. Shape (H, W).
        is_counted: Bits of hits: true or false positive. Shape (H, W).
        classes: All labels, ascending. Shape (K,).
        truth_image: Image ids of truths. Shape (G,).
        truth_label: Labels of truths. Shape (G,).
        truth_state: Bits of truths: the area ranges in which they count. Shape (G,).
        class_names: Class names by label.
        class_groups: The group of each class by label.
        iou_dtype: The precision in which IoUs were computed.
        similarity: Similarities of true positives in the first cell, for `olrp`. Shape (H,).
        listed_image: The ids of all images, for extra numbers. Shape (N,).
        jaccard: Counts of the Jaccard index, for `ji`. Shape (N, S, 3).
        invalid_image: The images of dropped invalid detections. Shape (I,).
        row: The input row of each detection, if traced. Shape (D,).
        taken: The input row of the truth that each detection takes, if traced. Shape (D,).
        taken_similarity: The similarity with the taken truth, if traced. Shape (D,).
        truth_row: The input row of each truth, if traced. Shape (G,).

    >>> Tally.empty(Protocol.named("voc2007"))
    Tally(0 detections, 0 truths, 0 classes, voc2007)
    """

    protocol: Protocol
    """The protocol of the verdicts."""
    image: NDArray[Any]
    """Image ids, int32 or int64; they break ties of score. Shape (D,)."""
    label: NDArray[Any]
    """Labels, int32 or int64. Shape (D,)."""
    score: NDArray[Any]
    """Scores, float32 or float64. Shape (D,)."""
    tier: NDArray[np.uint8]
    """The index of the first limit that includes the detection, by its rank; see `Protocol.limits_per`. Shape (D,)."""
    state: NDArray[Any]
    """Bit 0: whether it is a hit. If not, bit 1 + a: a false positive in area range a, else ignored there. uint8, or
    uint64 for more than 7 area ranges. Shape (D,)."""
    is_true: NDArray[np.uint64]
    """Bit a * T + t: true positive in area range a at threshold t. One row of 64-bit words per hit. Shape (H, W)."""
    is_counted: NDArray[np.uint64]
    """Bit a * T + t: true or false positive; other cells are ignored. Shape (H, W)."""
    classes: NDArray[np.int64]
    """All labels, ascending, with or without detections and truths. Shape (K,)."""
    truth_image: NDArray[Any]
    """Image ids of truths; rows are ordered by image and label. Shape (G,)."""
    truth_label: NDArray[Any]
    """Labels of truths. Shape (G,)."""
    truth_state: NDArray[Any]
    """Bit a: the truth counts in area range a. The dtype of `state`. Shape (G,)."""
    class_names: Mapping[int, str] | None = None
    """Class names by label."""
    class_groups: Mapping[int, str] | None = None
    """The group of each class by label, for the protocol's `class_groups`."""
    iou_dtype: str = "float64"
    """The precision in which IoUs were computed: the lowest of all merged tallies."""
    similarity: NDArray[np.float64] | None = None
    """The similarity of a true positive in the first cell with its truth, else 0; only for `olrp`. Shape (H,)."""
    listed_image: NDArray[np.int64] | None = None
    """The ids of all images, with or without detections and truths; only for extra numbers. Shape (N,)."""
    jaccard: NDArray[np.int32] | None = None
    """Matched pairs, truths and detections that count, by listed image and score threshold of the Jaccard index; only
    for `ji`. Shape (N, S, 3)."""
    invalid_image: NDArray[np.int64] | None = None
    """The images of invalid detections that were dropped (`invalid="drop"`), which are in no other column;
    `UNKNOWN_IMAGE` if unknown. None: nothing was dropped. Shape (I,)."""
    row: NDArray[np.int64] | None = None
    """The input row of each detection, as passed to `match`; only in a traced tally. Shape (D,)."""
    taken: NDArray[np.int64] | None = None
    """The input row of the truth that each detection takes in the first area range at the first threshold, ignored
    truths included; -1: none. Only in a traced tally. Shape (D,)."""
    taken_similarity: NDArray[np.float64] | None = None
    """The similarity with the taken truth; NaN: none. Only in a traced tally. Shape (D,)."""
    truth_row: NDArray[np.int64] | None = None
    """The input row of each truth; only in a traced tally. Shape (G,)."""

    @classmethod
    def empty(cls, protocol: Protocol) -> "Tally":
        """A tally without detections and truths: the identity of `merge`.

        Args:
            protocol: The protocol of the tally.
        """
        nothing = np.zeros(0, np.int64)
        verdict = np.zeros((0, len(protocol.areas), len(protocol.thresholds)), np.uint8)
        extras: dict[str, Any] = {"listed_image": nothing} if protocol.extra_numbers else {}
        if "ji" in protocol.extra_numbers:
            extras["jaccard"] = np.zeros((0, len(JACCARD_SCORES), 3), np.int32)
        return cls.from_verdicts(
            protocol=protocol,
            rows=RankedRows(image=nothing, label=nothing, score=np.zeros(0), rank=nothing),
            verdict=verdict,
            truths=CountedTruths(image=nothing, label=nothing, counts=np.zeros((0, len(protocol.areas)), bool)),
            similarity=np.zeros(0),
            classes=nothing,
            **extras,
        )

    @classmethod
    def from_verdicts(
        cls,
        *,
        protocol: Protocol,
        rows: "RankedRows",
        verdict: NDArray[np.uint8],
        truths: "CountedTruths",
        similarity: NDArray[np.float64] | None = None,
        trace: Mapping[str, NDArray[Any]] | None = None,
        **more: Any,
    ) -> "Tally":
        """Build a tally from the verdicts of detections and from truths, both in any order.

        Args:
            protocol: The protocol of the verdicts.
            rows: The detections. Length D.
            verdict: Verdicts: 0 ignored, 1 false positive, 2 true positive. Shape (D, A, T).
            truths: The truths. Length G.
            similarity: Similarities of true positives in the first cell. Shape (D,).
            trace: The columns of a traced tally, by name.
            **more: The other fields, which have rows neither for detections nor for truths.
        """
        order, truth_order = order_by(rows.image, rows.label, rows.rank), order_by(truths.image, truths.label)
        verdict = verdict[order]
        hit = np.flatnonzero((verdict == TRUE).any(axis=(1, 2)) | (verdict != verdict[:, :, :1]).any(axis=(1, 2)))
        return cls.from_hits(
            protocol=protocol,
            rows=RankedRows(*(column[order] for column in rows)),
            hits=Hits(
                row=hit,
                verdict=verdict[hit],
                is_false=verdict[:, :, 0] == FALSE,
                similarity=None if similarity is None else similarity[order][hit],
            ),
            truths=CountedTruths(*(column[truth_order] for column in truths)),
            **{name: column[truth_order if name == "truth_row" else order] for name, column in (trace or {}).items()},
            **more,
        )

    @classmethod
    def from_hits(
        cls, *, protocol: Protocol, rows: "RankedRows", hits: "Hits", truths: "CountedTruths", **more: Any
    ) -> "Tally":
        """Build a tally from sorted rows, with verdicts only for hits.

        Args:
            protocol: The protocol of the verdicts.
            rows: The detections, ordered by image, label and rank.
            hits: The verdicts.
            truths: The truths, ordered by image and label.
            **more: The other fields.
        """
        limits = [math.inf if limit is None else limit for limit in protocol.match_limits]
        state = _as_bits(hits.is_false, state_dtype(protocol)) << state_dtype(protocol).type(1)
        state[hits.row] = 1
        return cls(
            protocol=protocol,
            image=narrowest(rows.image),
            label=narrowest(rows.label),
            score=rows.score,
            tier=np.searchsorted(limits, rows.rank, side="right").astype(np.uint8),
            state=state,
            is_true=_pack(hits.verdict == TRUE),
            is_counted=_pack(hits.verdict != IGNORED),
            truth_image=narrowest(truths.image),
            truth_label=narrowest(truths.label),
            truth_state=_as_bits(truths.counts, state_dtype(protocol)),
            similarity=hits.similarity if protocol.keeps_similarity else None,
            **more,
        )

    @property
    def verdict(self) -> NDArray[np.uint8]:
        """All verdicts: 0 ignored, 1 false positive, 2 true positive. Shape (D, A, T)."""
        shape = len(self.protocol.areas), len(self.protocol.thresholds)
        area_A = np.arange(1, shape[0] + 1, dtype=self.state.dtype)
        uniform_DA = (self.state[:, None] >> area_A) & self.state.dtype.type(1)
        verdict = np.repeat(uniform_DA.astype(np.uint8)[:, :, None], shape[1], axis=2)
        verdict[self.is_hit] = self.hit_verdict
        return verdict

    @property
    def hit_verdict(self) -> NDArray[np.uint8]:
        """The verdicts of hits. Shape (H, A, T)."""
        shape = len(self.protocol.areas), len(self.protocol.thresholds)
        return _unpack(self.is_true, shape) + _unpack(self.is_counted, shape)

    def is_false_in(self, area: int) -> NDArray[np.bool_]:
        """Whether each detection is a false positive in an area range, and not a hit. Shape (D,).

        Args:
            area: The index of the area range.
        """
        return np.asarray(self.state & self.state.dtype.type(2 << area), bool)

    def verdict_at(self, threshold: int, area: int = 0) -> NDArray[np.uint8]:
        """The verdicts in one cell. Shape (D,).

        Args:
            threshold: The index of the threshold.
            area: The index of the area range.
        """
        cell = area * len(self.protocol.thresholds) + threshold
        word, bit = cell // 64, np.uint64(cell % 64)
        uniform = (self.state >> self.state.dtype.type(area + 1)) & self.state.dtype.type(1)
        verdict: NDArray[np.uint8] = uniform.astype(np.uint8)
        bits = (self.is_true[:, word] >> bit & np.uint64(1)) + (self.is_counted[:, word] >> bit & np.uint64(1))
        verdict[self.is_hit] = bits.astype(np.uint8)
        return verdict

    @property
    def num_truths(self) -> NDArray[np.int64]:
        """Truths that count, by class and area range. Shape (K, A)."""
        counts: NDArray[np.int64] = _compiled.count_truths(
            compact(self.truth_label), compact(self.truth_state), compact(self.classes), len(self.protocol.areas)
        )
        return counts

    @property
    def totals(self) -> "Totals":
        """The counts by class."""
        return Totals(
            protocol=self.protocol,
            classes=self.classes,
            num_truths=self.num_truths,
            num_detections=_compiled.count(compact(self.label), compact(self.classes)),
            class_names=self.class_names,
            class_groups=self.class_groups,
            iou_dtype=self.iou_dtype,
            num_invalid=self.num_invalid,
        )

    @property
    def num_invalid(self) -> int:
        """Number of invalid detections that were dropped."""
        return 0 if self.invalid_image is None else int(self.invalid_image.size)

    @property
    def is_hit(self) -> NDArray[np.bool_]:
        """Whether each detection is a hit, with a row in `is_true` and `is_counted`. Shape (D,)."""
        return np.asarray(self.state & self.state.dtype.type(1), bool)

    @property
    def images(self) -> NDArray[np.int64]:
        """The images that have detections or truths, ascending. Shape (N,)."""
        seen = [_compiled.distinct(compact(column)) for column in (self.image, self.truth_image)]
        images: NDArray[np.int64] = _compiled.distinct(np.concatenate(seen))
        return images

    @property
    def all_images(self) -> NDArray[np.int64]:
        """The images that have detections or truths, or are listed, ascending. Shape (N,)."""
        return self.images if self.listed_image is None else np.union1d(self.images, self.listed_image)

    def without(self, images: NDArray[Any]) -> "Tally":
        """Remove some images, with their detections and truths.

        Args:
            images: The ids of the images to remove.
        """
        return self._where(lambda column: np.isin(column, images, invert=True))

    def within(self, images: NDArray[Any]) -> "Tally":
        """Select some images, with their detections and truths.

        Args:
            images: The ids of the images to keep.
        """
        return self._where(lambda column: np.isin(column, images))

    def _where(self, is_kept: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> "Tally":
        """Select images. `is_kept`: a function from image ids to flags."""
        is_truth_kept = is_kept(self.truth_image)
        truths = {column: getattr(self, column)[is_truth_kept] for column in TRUTHS}
        images: dict[str, Any] = {}
        if self.listed_image is not None:
            is_listed = is_kept(self.listed_image)
            images["listed_image"] = self.listed_image[is_listed]
            images["jaccard"] = None if self.jaccard is None else self.jaccard[is_listed]
        if self.invalid_image is not None:
            images["invalid_image"] = self.invalid_image[is_kept(self.invalid_image)]
        if self.truth_row is not None:
            truths["truth_row"] = self.truth_row[is_truth_kept]
        return replace(self._take(np.flatnonzero(is_kept(self.image))), **truths, **images)

    def listing(self, images: Iterable[int]) -> "Tally":
        """Add images without detections and truths to `listed_image`; no effect if that is None.

        Args:
            images: Image ids; ids that are already listed are skipped.
        """
        if self.listed_image is None:
            return self
        new = np.setdiff1d(np.array([*images], np.int64), self.listed_image)
        jaccard = self.jaccard
        if jaccard is not None:
            jaccard = np.concatenate([jaccard, np.zeros((new.size, *jaccard.shape[1:]), np.int32)])
        return replace(self, listed_image=np.concatenate([self.listed_image, new]), jaccard=jaccard)

    def limited(self) -> "Tally":
        """Select the best detections of each class within the limit over the dataset, if the protocol has one."""
        is_within = is_within_dataset(self.protocol, self.label, self.score, self.image)
        return self if is_within is None else self._take(np.flatnonzero(is_within))

    def merge(self, *others: "Tally") -> "Tally":
        """Merge tallies into one. Associative; neither grouping nor order changes a result.

        A tally that is merged with empty ones stays traced; a merge of several filled ones is not traced, as they have
        different inputs.

        Args:
            *others: Tallies of the same protocol, without common images: ids identify images, and break ties.

        Raises:
            InputError: Protocols differ, or an image is in more than one tally.
        """
        tallies = (self, *others)
        check_can_be_one(tallies)
        return joined(tallies)

    def pooled(self) -> "Tally":
        """Relabel all rows as one class, with the same verdicts, for micro averages."""
        rows = self.in_order(np.lexsort((self.label, self.image)))
        label, truth_label = (np.full_like(column, POOLED) for column in (rows.label, rows.truth_label))
        no_names: dict[str, Any] = {"class_names": None, "class_groups": None}
        return replace(rows, label=label, truth_label=truth_label, classes=np.array([POOLED]), **no_names)

    def sorted(self) -> "Tally":
        """Sort the rows as curves need them: by class, descending score, image, rank."""
        return self.in_order(order_by(self.label, -self.score, self.image))

    def in_order(self, order: NDArray[np.int64]) -> "Tally":
        """Reorder the detections.

        Args:
            order: The index of each row's detection. Shape (D,).
        """
        return self._take(order)

    def _take(self, rows: NDArray[np.int64]) -> "Tally":
        """Select detections, in the order of `rows`; truths and images stay."""
        index = np.cumsum(self.is_hit) - 1
        hits = index[rows][self.is_hit[rows]]
        columns = {column: getattr(self, column)[rows] for column in ROWS}
        columns |= {column: getattr(self, column)[hits] for column in HITS}
        if self.row is not None:
            columns |= {column: getattr(self, column)[rows] for column in TRACED_ROWS}
        return replace(self, **columns, similarity=None if self.similarity is None else self.similarity[hits])

    def traced_to(self, row: NDArray[np.int64] | None, truth_row: NDArray[np.int64] | None) -> "Tally":
        """Map the traced input rows to rows of other tables.

        Args:
            row: The new row of each input row of detections; None: unchanged.
            truth_row: The new row of each input row of truths; None: unchanged.
        """
        columns: dict[str, Any] = {}
        if row is not None and self.row is not None:
            columns["row"] = row[self.row]
        if truth_row is not None and self.taken is not None:
            columns["truth_row"] = truth_row[self.truth_row]
            columns["taken"] = np.append(truth_row, -1)[self.taken]
        return replace(self, **columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tally to a file, with a version and a checksum. After an error, the path is unchanged.

        The columns of a traced tally are not stored, as they refer to inputs that are not stored either.

        Args:
            path: The file.
        """
        from boxscore.result import storage

        storage.save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> "Tally":
        """Read a tally from a file of `save`.

        Args:
            path: The file.

        Raises:
            InputError: The file, which the error names, is of another kind, truncated or damaged.
        """
        from boxscore.result import storage

        return storage.load(path)

    def to_arrow(self) -> Any:
        """Convert to a `pyarrow.Table` with one row per detection and one row per truth; see `boxscore.result.arrow`.

        The columns of a traced tally are dropped, as in `save`.
        """
        from boxscore.result import arrow

        return arrow.to_arrow(self)

    @staticmethod
    def from_arrow(table: Any, source: str = "this table") -> "Tally":
        """Read a tally from a table of `to_arrow`, which may have been stored or sent in between.

        Args:
            table: The `pyarrow.Table`, with its metadata.
            source: The name of the table, with which errors begin.

        Raises:
            InputError: The table was not made by `to_arrow`, or its rows have changed.
        """
        from boxscore.result import arrow

        return arrow.from_arrow(table, source)

    @property
    def nbytes(self) -> int:
        """The memory of the columns, in bytes."""
        columns = (getattr(self, column) for column in (*ROWS, *HITS, *TRUTHS, *EXTRAS, *TRACE))
        return sum(column.nbytes for column in columns if column is not None)

    def __len__(self) -> int:
        return int(self.score.size)

    def __repr__(self) -> str:
        counts = [
            text.count(len(self), "detection"),
            text.count(self.num_truths[:, 0].sum(), "truth"),
            text.count(self.classes.size, "class", "classes"),
        ]
        return f"Tally({', '.join(counts)}, {self.protocol.title})"


def check_can_be_one(tallies: Sequence[Tally]) -> None:
    """Raise `InputError` unless all tallies have the same protocol, and no two have an image in common."""
    for other in tallies:
        if not isinstance(other, Tally):
            raise InputError(f"a tally can be merged with tallies only; got {type(other).__name__}")
        if other.protocol != tallies[0].protocol:
            difference = difference_of(tallies[0].protocol, other.protocol)
            raise InputError(f"tallies were made under different protocols ({difference})")
    images = np.concatenate([tally.images for tally in tallies])
    seen, counts = np.unique(images, return_counts=True)
    if seen.size < images.size:
        image = seen[counts > 1][0]
        raise InputError(
            f"image {image} is in more than one tally; each image must have its own id, and be in one tally"
        )


def joined(tallies: Sequence[Tally]) -> Tally:
    """Concatenate one or more tallies, which have one protocol and no images in common."""
    filled = [tally for tally in tallies if len(tally) or tally.truth_image.size]
    return Tally(
        protocol=tallies[0].protocol,
        **{column: _concatenate(tallies, column) for column in (*ROWS, *HITS, *TRUTHS)},
        **_joined_extras(tallies),
        **({column: getattr(filled[0], column) for column in TRACE} if len(filled) == 1 else {}),
        classes=_compiled.distinct(np.concatenate([tally.classes for tally in tallies])),
        class_names=united_names(tallies),
        class_groups=united_groups(tallies),
        iou_dtype=min(tally.iou_dtype for tally in tallies),  # "float32" < "float64"
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Totals:
    """The counts of verdicts by class; with the curves, all that a result needs."""

    protocol: Protocol
    classes: NDArray[np.int64]
    """All labels, ascending. Shape (K,)."""
    num_truths: NDArray[np.int64]
    """Truths that count, by class and area range. Shape (K, A)."""
    num_detections: NDArray[np.int64]
    """Detections within the largest limit, ignored ones included. Shape (K,)."""
    class_names: Mapping[int, str] | None = None
    class_groups: Mapping[int, str] | None = None
    iou_dtype: str = "float64"
    num_invalid: int = 0
    """Invalid detections that were dropped."""

    def merge(self, *others: "Totals") -> "Totals":
        """Add up the totals."""
        every = (self, *others)
        classes = _compiled.distinct(np.concatenate([totals.classes for totals in every]))
        num_truths = np.zeros((classes.size, len(self.protocol.areas)), np.int64)
        num_detections = np.zeros(classes.size, np.int64)
        for totals in every:
            index = np.searchsorted(classes, totals.classes)
            num_truths[index] += totals.num_truths
            num_detections[index] += totals.num_detections
        return replace(
            self,
            classes=classes,
            num_truths=num_truths,
            num_detections=num_detections,
            class_names=united_names(every),
            class_groups=united_groups(every),
            iou_dtype=min(totals.iou_dtype for totals in every),
            num_invalid=sum(totals.num_invalid for totals in every),
        )

    def pooled(self) -> "Totals":
        """Add up all classes as one."""
        return replace(
            self,
            classes=np.array([POOLED]),
            num_truths=self.num_truths.sum(axis=0, keepdims=True),
            num_detections=self.num_detections.sum(keepdims=True),
            class_names=None,
            class_groups=None,
        )


def united_names(parts: Sequence[Tally | Totals]) -> dict[int, str] | None:
    """The class names of all parts. Raise `InputError` if a label has two names."""
    return _united([part.class_names for part in parts], "")


def united_groups(parts: Sequence[Tally | Totals]) -> dict[int, str] | None:
    """The class groups of all parts. Raise `InputError` if a label has two groups."""
    return _united([part.class_groups for part in parts], "of the group ")


def _united(parts: Sequence[Mapping[int, str] | None], what: str) -> dict[int, str] | None:
    names: dict[int, str] = {}
    for part in parts:
        if part is None or part == names:
            continue
        for label, name in part.items():
            if names.setdefault(label, name) != name:
                raise InputError(f"label {label} is {what}{names[label]!r} in one tally and {name!r} in another")
    return names or None


def is_within_dataset(
    protocol: Protocol, label: NDArray[Any], score: NDArray[Any], image: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """Whether each detection is among the best of its class over all images; None: the protocol has no such limit.

    Of equal scores, lower image ids come first, then earlier rows. Shape (D,) each.
    """
    limit = protocol.limits[-1]
    if protocol.limits_per != "dataset" or limit is None:
        return None
    order = np.lexsort((np.arange(label.size), image, -score, label))
    rank = np.arange(label.size) - np.searchsorted(label[order], label[order])
    is_within = np.zeros(label.size, bool)
    is_within[order[rank < limit]] = True
    return is_within


def narrowest(ids: NDArray[Any]) -> NDArray[Any]:
    """The ids as int32 if all fit, else as int64."""
    limits = np.iinfo(np.int32)
    is_narrow = ids.size == 0 or (limits.min <= ids.min() and ids.max() <= limits.max)
    return ids.astype(np.int32 if is_narrow else np.int64)


def state_dtype(protocol: Protocol) -> np.dtype[Any]:
    """The dtype of a state: one bit per area range, and one more."""
    return np.dtype(np.uint8 if len(protocol.areas) < 8 else np.uint64)


def num_words(protocol: Protocol) -> int:
    """Number of 64-bit words per hit: one bit per area range and threshold."""
    return -(-len(protocol.areas) * len(protocol.thresholds) // 64)


def _as_bits(flags: NDArray[np.bool_], kind: np.dtype[Any]) -> NDArray[Any]:
    """Pack flags into the bits of one number, the first flag lowest. Shapes (N, A) to (N,)."""
    bits = np.zeros(flags.shape[0], kind)
    for area in range(flags.shape[1]):
        bits |= flags[:, area].astype(kind) << kind.type(area)
    return bits


def _pack(cells: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack cells into 64-bit words. Shapes (H, A, T) to (H, W)."""
    num_hits, num_cells = cells.shape[0], cells.shape[1] * cells.shape[2]
    padded = np.zeros((num_hits, -(-num_cells // 64) * 64), bool)
    padded[:, :num_cells] = cells.reshape(num_hits, num_cells)
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def _unpack(words: NDArray[np.uint64], shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Unpack words into cells. Shapes (H, W) to (H, A, T)."""
    octets = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=shape[0] * shape[1], bitorder="little").reshape(-1, *shape)


def _joined_extras(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Concatenate the optional columns. Several tallies may list an image, but only one has its rows."""
    similarity, listed, jaccard, invalid = (
        [getattr(tally, column) for tally in tallies if getattr(tally, column) is not None] for column in EXTRAS
    )
    extras: dict[str, Any] = {"similarity": np.concatenate(similarity) if similarity else None}
    extras["invalid_image"] = np.concatenate(invalid) if invalid else None
    if listed:
        images, index = np.unique(np.concatenate(listed), return_inverse=True)
        extras["listed_image"] = images
        if jaccard:
            counts = np.concatenate(jaccard)
            extras["jaccard"] = np.zeros((images.size, *counts.shape[1:]), np.int32)
            np.add.at(extras["jaccard"], index, counts)
    return extras


def _concatenate(tallies: Sequence[Tally], column: str) -> Any:
    """Concatenate a column; empty columns don't affect the dtype."""
    columns = [getattr(tally, column) for tally in tallies]
    return np.concatenate([each for each in columns if each.size] or columns[:1])
