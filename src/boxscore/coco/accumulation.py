"""`evalImgs` to curves: the arrays `precision`, `recall` and `scores`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.coco.params import Params
from boxscore.engines.native import engine
from boxscore.model.protocol import Protocol
from boxscore.model.tally import FALSE, IGNORED, TRUE, Tally

Floats = NDArray[np.float64]
Entry = dict[str, Any]


class Arrays(NamedTuple):
    """What accumulating gives: [T, R, K, A, M], [T, K, A, M], [T, R, K, A, M]; -1 where nothing is defined."""

    precision: Floats
    recall: Floats
    scores: Floats


def draw(tally: Tally, recall_points: Any) -> Arrays | None:
    """The arrays of a tally at some recall points; None for points that the engine does not take."""
    try:
        protocol = tally.protocol.replace(recall_points=recall_points)
    except InputError:
        return None
    curves = engine.curves(replace(tally, protocol=protocol), num_threads(None))
    return Arrays(curves.precision, curves.recall, curves.scores)


def accumulate(entries: Any, wanted: Params, evaluated: Params) -> Arrays:
    """The arrays of what is wanted, from the entries of what was evaluated.

    As in COCO: what was not evaluated stays -1, at the end of its axis; classes and area ranges are looked up by their
    places among those wanted.
    """
    num_classes = len(wanted.catIds) if wanted.useCats else 1
    shape = (len(wanted.iouThrs), len(wanted.recThrs), num_classes, len(wanted.areaRng), len(wanted.maxDets))
    arrays = Arrays(-np.ones(shape), -np.ones((shape[0], *shape[2:])), -np.ones(shape))
    classes = _places(wanted.catIds, evaluated.catIds if evaluated.useCats else [-1])
    areas = _places(map(tuple, wanted.areaRng), map(tuple, evaluated.areaRng))
    images = _places(wanted.imgIds, evaluated.imgIds)
    known = set(evaluated.maxDets)
    limits = [limit for limit in wanted.maxDets if limit in known]
    num_images, num_areas = len(evaluated.imgIds), len(evaluated.areaRng)
    for a, area in enumerate(areas):
        groups = []
        for label in classes:
            first = (label * num_areas + area) * num_images
            groups.append([entries[first + image] for image in images])
        kept = [[entry for entry in group if entry is not None] for group in groups]
        if not _draw_area(kept, wanted, limits, arrays, a):
            for k, group in enumerate(kept):
                for m, limit in enumerate(limits):
                    _draw_plainly(group, limit, wanted.recThrs, arrays, (k, a, m))
    return arrays


def _places(wanted: Any, evaluated: Any) -> list[int]:
    known = set(evaluated)
    return [place for place, value in enumerate(wanted) if value in known]


def _draw_area(
    groups: Sequence[Sequence[Entry]], wanted: Params, limits: Sequence[int], arrays: Arrays, a: int
) -> bool:
    """Draw one area range by the engine; False for what it does not take as pycocotools does."""
    everything = [entry for group in groups for entry in group]
    T = len(wanted.iouThrs)
    if not everything or not limits or any(np.shape(entry["dtMatches"])[0] != T for entry in everything):
        return False
    try:
        protocol = Protocol.named(
            "coco", thresholds=np.linspace(0, 1, T), recall_points=wanted.recThrs, areas=[("one", 0, 1)], limits=limits
        )
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
    image = np.array([place for group in groups for place in range(len(group))])
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
    curves = engine.curves(tally, num_threads(None))
    K, M = len(groups), len(limits)
    arrays.precision[:, :, :K, a, :M] = curves.precision[:, :, :, 0]
    arrays.recall[:, :K, a, :M] = curves.recall[:, :, 0]
    arrays.scores[:, :, :K, a, :M] = curves.scores[:, :, :, 0]
    return True


def _draw_plainly(
    group: Sequence[Entry], limit: int, recall_points: Any, arrays: Arrays, place: tuple[int, int, int]
) -> None:
    """Draw one class, area range and limit step by step, whatever the numbers are."""
    if not group:
        return
    num_truths = np.count_nonzero(np.concatenate([entry["gtIgnore"] for entry in group]) == 0)
    if num_truths == 0:
        return
    score = np.concatenate([entry["dtScores"][0:limit] for entry in group])
    order = np.argsort(-score, kind="mergesort")
    score = score[order]
    is_found, is_ignored = (
        np.concatenate([entry[key][:, 0:limit] for entry in group], axis=1)[:, order].astype(bool)
        for key in ("dtMatches", "dtIgnore")
    )
    num_true = np.cumsum(is_found & ~is_ignored, axis=1).astype(np.float64)
    num_false = np.cumsum(~is_found & ~is_ignored, axis=1).astype(np.float64)
    for t, (trues, falses) in enumerate(zip(num_true, num_false, strict=True)):
        recall = trues / num_truths
        precision = trues / (falses + trues + np.spacing(1))
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        reached = np.searchsorted(recall, recall_points, side="left")
        # as in COCO: behind the first point that is not reached all are 0, in whatever order they come
        is_beyond = np.logical_or.accumulate(reached >= len(recall))
        num_reached = len(reached) - np.count_nonzero(is_beyond)
        sampled, at = np.zeros(len(reached)), np.zeros(len(reached))
        sampled[:num_reached] = envelope[reached[:num_reached]]
        at[:num_reached] = score[reached[:num_reached]]
        arrays.recall[(t, *place)] = recall[-1] if len(recall) else 0
        arrays.precision[(t, slice(None), *place)] = sampled
        arrays.scores[(t, slice(None), *place)] = at
