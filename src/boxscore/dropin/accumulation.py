"""`evalImgs` to curves: the arrays `precision`, `recall` and `scores`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.dropin.params import Params
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.result.tally import FALSE, IGNORED, TRUE, Tally

Floats = NDArray[np.float64]
Entry = dict[str, Any]

_FAR = 2.0**31
"""A recall that no curve reaches, for the points beyond it."""


class Arrays(NamedTuple):
    """What accumulating gives: [T, R, K, A, M], [T, K, A, M], [T, R, K, A, M]; -1 where nothing is defined."""

    precision: Floats
    recall: Floats
    scores: Floats


def build(tally: Tally, recall_points: Any) -> Arrays:
    """The arrays of a tally at any recall points.

    As in COCO: behind the first point that is not reached all are 0, in whatever order they come.
    """
    points = np.asarray(recall_points, np.float64)
    clipped = np.clip(np.nan_to_num(points, nan=np.inf), 0, _FAR)
    known = np.array(sorted(set(clipped.tolist())))  # `np.unique` imports much at its first call
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
    """The arrays of what is wanted, from the entries of what was evaluated.

    As in COCO: what was not evaluated stays -1, at the end of its axis; classes and area ranges are looked up by their
    indices among those wanted.
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
    """Build all curves of one area range at once; False for what can't be sorted with others as pycocotools does."""
    everything = [entry for group in groups for entry in group]
    T = len(wanted.iouThrs)
    if not everything or not limits or any(np.shape(entry["dtMatches"])[0] != T for entry in everything):
        return False
    try:
        protocol = _protocol(T, limits, wanted)
    except InputError:
        return False
    # as in COCO: NumPy negates no bools, which scores are if nothing else is among those of a class
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
        image=np.repeat(image, num_found)[is_kept],
        label=np.repeat(label, num_found)[is_kept],
        score=score[is_kept],
        rank=rank[is_kept],
        verdict=verdict[is_kept][:, None, :],
        classes=np.arange(len(groups)),
        truth_image=np.repeat(image, num_truths),
        truth_label=np.repeat(label, num_truths),
        truth_counts=(np.concatenate([entry["gtIgnore"] for entry in everything]) == 0)[:, None],
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
    """Build the curves of one class, area range and limit, whatever the scores are: NumPy sorts them, as in COCO."""
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
    nothing = np.zeros_like(rank)
    tally = Tally.from_verdicts(
        protocol=_protocol(len(verdict_TD), [None], wanted),
        image=nothing,
        label=nothing,
        score=(len(rank) - rank).astype(np.float64),  # for the real ones, which need not be numbers that can be sorted
        rank=rank,
        verdict=verdict_TD.T[:, None, :],
        classes=np.zeros(1, np.int64),
        truth_image=np.zeros(is_counted.size, np.int64),
        truth_label=np.zeros(is_counted.size, np.int64),
        truth_counts=is_counted[:, None],
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
