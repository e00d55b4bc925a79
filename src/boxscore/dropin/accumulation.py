"""From entries and tallies to the arrays `precision`, `recall` and `scores`, then to numbers and printed lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore._support.threads import num_threads
from boxscore.arrays import compact
from boxscore.dropin.params import Params
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.result.tally import FALSE, IGNORED, TRUE, CountedTruths, RankedRows, Tally

Floats = NDArray[np.float64]
Entry = dict[str, Any]

_FAR = 2.0**31
"""A recall that no curve reaches; larger recall points are clipped to it."""


LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} {}] = {:0.3f}"


class Arrays(NamedTuple):
    """The accumulated arrays, [T, R, K, A, M], [T, K, A, M] and [T, R, K, A, M]; -1 if undefined."""

    precision: Floats
    recall: Floats
    scores: Floats


class LazyEntries(dict[str, Any]):
    """A dict whose values may be `Lazy`: these are computed when they are first read.

    >>> entries = LazyEntries(one=1, two=Lazy(lambda: 2))
    >>> entries["two"], dict(entries)
    (2, {'one': 1, 'two': 2})
    """

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, Lazy):
            value = self[key] = value.value
        return value

    def __repr__(self) -> str:
        return repr(dict(self))

    def __iter__(self) -> Iterator[str]:  # without it, dict() would copy the `Lazy` values
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self[key] if self.__contains__(key) else default

    def values(self) -> Any:
        """The values, all computed."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """The pairs, all computed."""
        return [(key, self[key]) for key in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.items(),)


def build(tally: Tally, recall_points: Any) -> Arrays:
    """Build the arrays of a tally at any recall points.

    As in COCO: all entries after the first recall point that is not reached are 0, even if the points are unsorted.
    """
    points = np.asarray(recall_points, np.float64)
    clipped = np.clip(np.nan_to_num(points, nan=np.inf), 0, _FAR)
    known = np.array(sorted(set(clipped.tolist())))  # the first call of `np.unique` is slow: it imports modules
    curves = compiled_engine.curves(tally, num_threads(None), recall_points=known if known.size else np.zeros(1))
    if points.size and np.array_equal(points, known):
        return Arrays(curves.precision, curves.recall, curves.scores)
    index = np.searchsorted(known, clipped)
    point_R = points[:, None, None, None]
    is_reached = np.logical_and.accumulate((curves.recall[:, None] >= point_R) | (point_R <= 0), axis=1)
    is_defined = curves.recall[:, None] >= 0
    precision, scores = (
        np.where(is_reached | ~is_defined, array[:, index], 0.0) for array in (curves.precision, curves.scores)
    )
    return Arrays(precision, curves.recall, scores)


def accumulate(entries: Any, wanted: Params, evaluated: Params) -> Arrays:
    """Build the arrays for the `wanted` parameters from the entries of the `evaluated` ones.

    As in COCO: values that were not evaluated stay -1, at the end of their axis; entries of a class or an area range
    are looked up by its index in `wanted`.
    """
    num_classes = len(wanted.catIds) if wanted.useCats else 1
    shape = (len(wanted.iouThrs), len(wanted.recThrs), num_classes, len(wanted.areaRng), len(wanted.maxDets))
    arrays = Arrays(-np.ones(shape), -np.ones((shape[0], *shape[2:])), -np.ones(shape))
    classes = _indices(wanted.catIds, evaluated.catIds if evaluated.useCats else [-1])
    areas = _indices(map(tuple, wanted.areaRng), map(tuple, evaluated.areaRng))
    images = _indices(wanted.imgIds, evaluated.imgIds)
    known = set(evaluated.maxDets)
    limits = [limit for limit in wanted.maxDets if limit in known]
    num_images, num_areas = len(evaluated.imgIds), len(evaluated.areaRng)
    for a, area in enumerate(areas):
        groups = []
        for label in classes:
            first = (label * num_areas + area) * num_images
            groups.append([entries[first + image] for image in images])
        kept = [[entry for entry in group if entry is not None] for group in groups]
        if not _build_area(kept, wanted, limits, arrays, a):
            for k, group in enumerate(kept):
                for m, limit in enumerate(limits):
                    _build_curve(group, limit, wanted, arrays, (k, a, m))
    return arrays


def _indices(wanted: Any, evaluated: Any) -> list[int]:
    known = set(evaluated)
    return [index for index, value in enumerate(wanted) if value in known]


def _build_area(
    groups: Sequence[Sequence[Entry]], wanted: Params, limits: Sequence[int], arrays: Arrays, a: int
) -> bool:
    """Build all curves of one area range at once; return False for entries that need `_build_curve`."""
    everything = [entry for group in groups for entry in group]
    T = len(wanted.iouThrs)
    if not everything or not limits or any(np.shape(entry["dtMatches"])[0] != T for entry in everything):
        return False
    try:
        protocol = _protocol(T, limits, wanted)
    except InputError:
        return False
    # as in COCO: NumPy can't negate bools, the type of scores if a class has no others
    if any(len(entry["dtScores"]) and isinstance(entry["dtScores"][0], bool | np.bool_) for entry in everything):
        return False
    num_found = [len(entry["dtScores"]) for entry in everything]
    num_truths = [len(entry["gtIgnore"]) for entry in everything]
    try:
        score = np.concatenate([entry["dtScores"] for entry in everything]).astype(np.float64)
    except OverflowError:
        raise InputError("`dtScores` must be numbers that a float64 can hold; got an integer beyond 1e308") from None
    if not np.isfinite(score).all() or score.ndim != 1:
        return False
    is_found, is_ignored = (
        np.concatenate([entry[key] for entry in everything], axis=1).T.astype(bool) for key in ("dtMatches", "dtIgnore")
    )
    if not is_found.shape == is_ignored.shape == (len(score), T):
        return False
    image = np.array([index for group in groups for index in range(len(group))])
    label = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    rank = np.arange(len(score)) - np.repeat(np.cumsum(num_found) - num_found, num_found)
    is_kept = rank < limits[-1]
    verdict = np.where(is_ignored, IGNORED, np.where(is_found, TRUE, FALSE)).astype(np.uint8)
    tally = Tally.from_verdicts(
        protocol=protocol,
        rows=RankedRows(
            image=np.repeat(image, num_found)[is_kept],
            label=np.repeat(label, num_found)[is_kept],
            score=score[is_kept],
            rank=rank[is_kept],
        ),
        verdict=verdict[is_kept][:, None, :],
        truths=CountedTruths(
            image=np.repeat(image, num_truths),
            label=np.repeat(label, num_truths),
            counts=(np.concatenate([entry["gtIgnore"] for entry in everything]) == 0)[:, None],
        ),
        classes=np.arange(len(groups)),
    )
    built = build(tally, wanted.recThrs)
    K, M = len(groups), len(limits)
    arrays.precision[:, :, :K, a, :M] = built.precision[:, :, :, 0]
    arrays.recall[:, :K, a, :M] = built.recall[:, :, 0]
    arrays.scores[:, :, :K, a, :M] = built.scores[:, :, :, 0]
    return True


def _build_curve(
    group: Sequence[Entry], limit: int, wanted: Params, arrays: Arrays, index: tuple[int, int, int]
) -> None:
    """Build the curves of one class, area range and limit. NumPy sorts the scores, of any type, as in COCO."""
    is_counted = np.concatenate([entry["gtIgnore"] for entry in group]) == 0 if group else np.zeros(0, bool)
    if not is_counted.any():
        return
    score = np.concatenate([entry["dtScores"][0:limit] for entry in group])
    order = np.argsort(-score, kind="mergesort")
    is_found, is_ignored = (
        np.concatenate([entry[key][:, 0:limit] for entry in group], axis=1)[:, order].astype(bool)
        for key in ("dtMatches", "dtIgnore")
    )
    verdict_TD = np.where(is_ignored, IGNORED, np.where(is_found, TRUE, FALSE)).astype(np.uint8)
    rank = np.arange(len(score))
    zeros, truth_zeros = np.zeros_like(rank), np.zeros(is_counted.size, np.int64)
    score_order = (len(rank) - rank).astype(np.float64)  # stands in for scores of any type
    tally = Tally.from_verdicts(
        protocol=_protocol(len(verdict_TD), [None], wanted),
        rows=RankedRows(image=zeros, label=zeros, score=score_order, rank=rank),
        verdict=verdict_TD.T[:, None, :],
        truths=CountedTruths(image=truth_zeros, label=truth_zeros, counts=is_counted[:, None]),
        classes=np.zeros(1, np.int64),
    )
    built = build(tally, wanted.recThrs)
    score_of = np.concatenate([[0.0], score[order][::-1].astype(np.float64)])  # 0: not reached
    for t in range(len(verdict_TD)):
        arrays.recall[(t, *index)] = built.recall[t, 0, 0, 0]
        arrays.precision[(t, slice(None), *index)] = built.precision[t, :, 0, 0, 0]
        arrays.scores[(t, slice(None), *index)] = score_of[built.scores[t, :, 0, 0, 0].astype(np.int64)]


def _protocol(num_thresholds: int, limits: Sequence[int | None], wanted: Params) -> Protocol:
    return Protocol.named(
        "coco",
        thresholds=np.linspace(0, 1, num_thresholds),
        areas=[("one", 0, 1)],
        limits=limits,
        precision_epsilon=getattr(wanted, "precision_epsilon", Params.precision_epsilon),
    )


class Line(NamedTuple):
    """One number of the summary: AP or AR, at one threshold or all, in one area range, within one limit."""

    is_recall: bool
    limit: int
    threshold: float | None = None
    area: str = "all"


def box_lines(limits: Sequence[int]) -> list[Line]:
    """The twelve numbers of boxes and masks.

    The first number is for the limit 100. If the limits lack it, pycocotools prints -1; this uses the largest limit.
    """
    one, ten, most = limits[0], limits[1], limits[2]
    return [
        Line(False, 100 if 100 in limits else max(limits)),
        Line(False, most, 0.5),
        Line(False, most, 0.75),
        *(Line(False, most, area=area) for area in ("small", "medium", "large")),
        *(Line(True, limit) for limit in (one, ten, most)),
        *(Line(True, most, area=area) for area in ("small", "medium", "large")),
    ]


def oks_lines() -> list[Line]:
    """The ten numbers of OKS."""
    return [
        line
        for is_recall in (False, True)
        for line in (
            Line(is_recall, 20),
            Line(is_recall, 20, 0.5),
            Line(is_recall, 20, 0.75),
            Line(is_recall, 20, area="medium"),
            Line(is_recall, 20, area="large"),
        )
    ]


def value_of(line: Line, arrays: Mapping[str, Any], params: Params, classes: Any = None) -> float:
    """Mean of the defined samples of a line, or -1; `classes` are indices of classes, by default all."""
    samples = arrays["recall" if line.is_recall else "precision"]
    areas = [index for index, name in enumerate(params.areaRngLbl) if name == line.area]
    limits = [index for index, limit in enumerate(params.maxDets) if limit == line.limit]
    thresholds = None if line.threshold is None else np.where(line.threshold == params.iouThrs)[0]
    mean = mean_of(samples, areas=areas, limits=limits, thresholds=thresholds, classes=classes)
    return -1.0 if np.isnan(mean) else mean


def mean_of(samples: Any, *, areas: Any, limits: Any, thresholds: Any = None, classes: Any = None) -> float:
    """Mean of the defined samples in some cells of `precision` or `recall`, bit-equal to NumPy's; NaN if none is.

    Args:
        samples: Precisions [T, R, K, A, M] or recalls [T, K, A, M].
        areas: Indices of area ranges.
        limits: Indices of limits, one for each area range, or one for all.
        thresholds: Indices of thresholds; None: all.
        classes: Indices of classes, in the order of the sum; None: all.
    """
    if classes is not None:
        samples = samples[..., classes, :, :]
    thresholds = range(len(samples)) if thresholds is None else thresholds
    if not len(areas) == len(limits) == 1:
        samples = samples[list(thresholds)][..., areas, limits]
        samples, thresholds, areas, limits = samples.reshape(1, -1, 1, 1), (0,), (0,), (0,)
    cells = list(map(int, thresholds)), int(areas[0]), int(limits[0])
    mean: float = _compiled.mean_samples(compact(samples, np.float64), *cells)
    return mean


def text_of(line: Line, value: float, params: Params, classes: str = "") -> str:
    """The line as pycocotools prints it; `classes` is faster_coco_eval's text for the averaged classes."""
    first, last = params.iouThrs[0], params.iouThrs[-1]
    thresholds = f"{first:0.2f}:{last:0.2f}" if line.threshold is None else f"{line.threshold:0.2f}"
    title, kind = ("Average Recall", "(AR)") if line.is_recall else ("Average Precision", "(AP)")
    return LINE.format(title, kind, thresholds, line.area, line.limit, classes, value)
