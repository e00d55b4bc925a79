"""Contents: what a report shows, in plain values, and few enough of them for one file."""

import base64
import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore
from boxscore import text
from boxscore.analysis.bootstrap import Intervals
from boxscore.analysis.calibration import Calibration
from boxscore.analysis.comparison import Change, Comparison, Difference
from boxscore.analysis.confusion import Confusion
from boxscore.analysis.errors import MEANINGS, SUMS, Errors
from boxscore.analysis.operating_points import OperatingPoints
from boxscore.analysis.worst_images import WorstImages
from boxscore.errors import InputError
from boxscore.measures import Measure, measures
from boxscore.protocol import ApRule, Area, Protocol
from boxscore.report.charts import chart_versions
from boxscore.result import Result

NUM_BINS = 40
"""Bins of a score histogram."""

NUM_LISTED = 50
"""How many of the worst images and of the most frequent confusions are listed."""

MOST_BYTES = 1_000_000
"""What all of it may take in the file, as much again as the charts' script; curves get what the rest leaves."""

CURVE_BYTES = 500_000
"""What the curves of all models may take at most. Many classes get fewer thresholds, then fewer points."""

MOST_HISTOGRAMS = 400
"""With more classes than this there is a score histogram of all classes only."""

MOST_CONFUSED = 25
"""Of more classes than this the confusion matrix shows those that are confused most."""

UNDEFINED = 65535
"""A packed number that is not defined."""

CURVE_STEPS = 65534
"""Precision on a curve is packed in steps of this part of 1."""

SHOWN_STEPS = 10_000
"""Numbers that are shown are packed with the four digits that they are shown with."""

AP_RULES: Mapping[ApRule, str] = {
    "recall_points": "the mean over {} recall points",
    "interpolated": "interpolated at {} recall points",
    "envelope": "every step under the curve's envelope",
    "trapezoid": "trapezoids through the raw curve",
}


def describe(
    results: Mapping[str, Result],
    intervals: Mapping[str, Intervals],
    made_from: Mapping[str, str],
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """All that the page shows of some models, by name, and of what they differ in.

    They were measured under one protocol; there is at least one.
    """
    first = next(iter(results.values()))
    protocol = first.protocol
    contents = {
        "headline": f"mAP {text.fraction(first['map'])} ({protocol.title}).",
        "subtitle": f"{protocol.title}, made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by boxscore {boxscore.__version__}",
        "thresholds": list(protocol.thresholds),
        "main": protocol.threshold_place(None),
        "areas": [{"name": area.name, "text": area_text(area)} for area in protocol.areas],
        "measures": [_measure(measure, protocol) for measure in measures(protocol)],
        "models": [{"name": name, **_model(result, intervals.get(name), first)} for name, result in results.items()],
        "made": [*made_from.items(), *_settings(protocol), ("IoU computed in", first.iou_dtype), *_versions()],
        "comparison": None if comparison is None else _comparison(comparison, first),
    }
    room = min(CURVE_BYTES, MOST_BYTES - len(json.dumps(contents, separators=(",", ":"))))
    return contents | {"curves": [_curves(result, room // len(results)) for result in results.values()]}


def _measure(measure: Measure, protocol: Protocol) -> dict[str, Any]:
    is_size = measure.limit == len(protocol.limits) - 1 and len(measure.thresholds) == len(protocol.thresholds)
    return {"name": measure.name, "meaning": measure.meaning(protocol), "is_size": is_size}


def _model(result: Result, sure: Intervals | None, first: Result) -> dict[str, Any]:
    """A model but for its curves. Names of classes that the first has, too, are not repeated."""
    per_class, main = result.per_class, result.protocol.threshold_place(None)
    points = [result.operating_points(iou=threshold) for threshold in result.protocol.thresholds]
    return {
        "counts": {
            "images": len(result.images),
            "truths": int(per_class.num_truths.sum()),
            "detections": len(result.tally),
        },
        "numbers": column(result.values()),
        "intervals": None if sure is None else _intervals(sure),
        "per_threshold": column(result.per_threshold.values()),
        "classes": {
            **({} if _has_its_names(result, first) else _names(result)),
            "ap": column(per_class.ap),
            "ar": column(per_class.ar),
            "truths": per_class.num_truths.tolist(),
            "detections": per_class.num_detections.tolist(),
            "true": per_class.num_true[:, main].tolist(),
            "false": per_class.num_false[:, main].tolist(),
            "f1": column(points[main].f1[1:]),
            "score": column(points[main].score[1:]),
            "ap_at": _packed(per_class.ap_at, SHOWN_STEPS),
        },
        "scores": _scores(result, points),
        "calibration": _or_why(lambda: _calibration(result.calibration())),
        "errors": _or_why(lambda: _errors(result.errors())),
        "confusion": _or_why(lambda: _confusion(result.confusion())),
        "worst": _worst(result.worst_images(num=NUM_LISTED)),
    }


def _names(result: Result) -> dict[str, Any]:
    return {"label": result.per_class.label.tolist(), "name": list(result.per_class.name)}


def _has_its_names(result: Result, first: Result) -> bool:
    """Whether a result has the classes of the first, under the same names, and is not the first itself."""
    return result is not first and _names(result) == _names(first)


def _intervals(sure: Intervals) -> dict[str, Any]:
    return {
        "title": sure.confidence.title,
        "name": f"{100 * sure.level:g} % interval",
        "numbers": [(rounded(sure.low[name]), rounded(sure.high[name])) for name in sure.numbers],
        "low": column(sure.per_class.ap_low),
        "high": column(sure.per_class.ap_high),
    }


def _or_why(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is made, or why it can't be: boxes that were forgotten, scores that are no chances."""
    try:
        return make()
    except InputError as error:
        return {"missing": str(error)}


def _curves(result: Result, num_bytes: int) -> dict[str, Any]:
    """Curves of the first area range within the largest limit, thinned until they fit: two bytes a sample, in base64.

    Every threshold if there is room, else two of them, else the main one alone; and every recall point, or every
    second, and so on.
    """
    protocol = result.protocol
    precision_TRK = result.curves.precision[:, :, :, 0, -1]
    num_thresholds, num_points, num_classes = precision_TRK.shape
    main = protocol.threshold_place(None)
    some = {"all": list(range(num_thresholds)), "two": sorted({main, (main + num_thresholds) // 2}), "one": [main]}
    plans = [("all", 1), ("two", 1), ("two", 2), *(("one", step) for step in (1, 2, 4, 5, 10, 20))]
    for which, step in plans:
        places, points = some[which], np.arange(0, num_points, step)
        if len(places) * points.size * num_classes * 8 / 3 <= num_bytes:
            break
    chosen_TKR = precision_TRK[np.ix_(places, points)].transpose(0, 2, 1)
    is_defined_K = chosen_TKR[0, :, 0] >= 0
    mean_TR = (
        chosen_TKR[:, is_defined_K].mean(axis=1) if is_defined_K.any() else np.full((len(places), points.size), -1)
    )
    return {
        "thresholds": places,
        "recall": [rounded(protocol.recall_points[r]) for r in points],
        "precision": _packed(chosen_TKR, CURVE_STEPS),
        "mean": _packed(mean_TR, CURVE_STEPS),
    }


def _packed(values: NDArray[Any], num_steps: int) -> str:
    """Numbers from 0 to 1 in two bytes each, as text; others are undefined."""
    samples = np.where(values >= 0, np.rint(values * num_steps), UNDEFINED)
    return base64.b64encode(samples.astype("<u2").tobytes()).decode()


def _scores(result: Result, points: Sequence[OperatingPoints]) -> dict[str, Any]:
    """How many true and false positives have which scores: at every threshold; of each class, at the main one."""
    spreads = [result.scores(bins=NUM_BINS, iou=threshold) for threshold in result.protocol.thresholds]
    main = spreads[result.protocol.threshold_place(None)]
    is_few = len(result.per_class) <= MOST_HISTOGRAMS
    return {
        "edge": column(main.edge),
        "true": [spread.num_true.tolist() for spread in spreads],
        "false": [spread.num_false.tolist() for spread in spreads],
        "true_of_class": main.num_true_of_class.tolist() if is_few else None,
        "false_of_class": main.num_false_of_class.tolist() if is_few else None,
        "best": [{"score": rounded(each.score[0]), "f1": rounded(each.f1[0])} for each in points],
        "is_log": bool(main.num_false.max() > 5 * main.num_true.max()),
    }


def _calibration(calibration: Calibration) -> dict[str, Any]:
    bins = [
        {
            "from": rounded(calibration.edge[b]),
            "to": rounded(calibration.edge[b + 1]),
            "score": rounded(calibration.mean_score[b]),
            "precision": rounded(calibration.precision[b]),
            "num": int(calibration.count[b]),
        }
        for b in np.flatnonzero(calibration.count)
    ]
    return {"iou": calibration.iou, "error": rounded(calibration.ece), "bins": bins}


def _errors(errors: Errors) -> dict[str, Any]:
    rows = [
        {
            "type": name.replace("_", " "),
            "count": count,
            "gain": rounded(gain),
            "meaning": (MEANINGS | SUMS)[name],
            "is_type": name in MEANINGS,
        }
        for name, count, gain in errors.rows()
    ]
    return {"iou": errors.iou, "ap": rounded(errors.ap), "rows": rows}


def _confusion(confusion: Confusion) -> dict[str, Any]:
    """The matrix, of many classes a part of it, with background last; and the most frequent confusions of all classes.

    A cell: the places of both classes, how many boxes, and their share of the row.
    """
    count, num_classes = confusion.count, len(confusion.name)
    between = count[:-1, :-1] * ~np.eye(num_classes, dtype=bool)
    shown = [*confusion.most_confused(MOST_CONFUSED), num_classes]
    total = np.maximum(count.sum(axis=1), 1)

    def cell(truth: int, found: int) -> list[Any]:
        return [truth, found, int(count[truth, found]), rounded(count[truth, found] / total[truth])]

    most = np.argsort(-between, axis=None, kind="stable")[:NUM_LISTED]
    pairs = [divmod(int(place), num_classes) for place in most if between.flat[place]]
    return {
        "iou": confusion.iou,
        "score": rounded(confusion.score),
        "shown": shown,
        "cells": [cell(truth, found) for truth in shown for found in shown if count[truth, found]],
        "pairs": [cell(truth, found) for truth, found in pairs],
    }


def _worst(worst: WorstImages) -> dict[str, Any]:
    """Those among them that have an error at all."""
    rows = zip(worst.name, worst.num_true, worst.num_false, worst.num_unfound, strict=True)
    return {
        "iou": worst.iou,
        "score": rounded(worst.score),
        "rows": [[name, int(true), int(false), int(unfound)] for name, true, false, unfound in rows if false + unfound],
    }


def _comparison(comparison: Comparison, first: Result) -> dict[str, Any]:
    return {
        "title": comparison.title,
        "differences": [_difference(difference, first) for difference in comparison.differences],
    }


def _difference(difference: Difference, first: Result) -> dict[str, Any]:
    """What two models differ in. Names of classes that the first model has are not repeated."""
    images = [
        [row[key] for key in ("name", "num_truths", "first_true", "first_false", "second_true", "second_false", "gain")]
        for row in difference.images.rows()[:NUM_LISTED]
    ]
    return {
        "first": difference.first,
        "second": difference.second,
        "numbers": [[name, *_change(change)] for name, change in difference.numbers.items()],
        "class_names": None if difference.class_name == first.per_class.name else list(difference.class_name),
        "classes": [_change(change) for change in difference.ap],
        "images": images,
    }


def _change(change: Change) -> list[float | None]:
    """The first, the second, the difference, its interval, the p-value."""
    return column((change.first, change.second, change.difference, change.low, change.high, change.p_value))


def _settings(protocol: Protocol) -> Iterable[tuple[str, str]]:
    """All that decides a number, in words."""
    yield "protocol", protocol.title
    yield "IoU thresholds", ", ".join(f"{threshold:.4g}" for threshold in protocol.thresholds)
    yield "a match needs", f"IoU {protocol.comparison} threshold"
    yield "matching", protocol.matching.replace("_", " ")
    yield "ignored truths", protocol.ignored
    yield "geometry", protocol.geometry
    yield "AP", AP_RULES[protocol.ap].format(len(protocol.recall_points))
    yield "average over classes", protocol.average
    if protocol.class_agnostic:
        yield "labels", "disregarded: every box is of one class"
    yield "areas", "; ".join(f"{area.name}: {area_text(area)}" for area in protocol.areas)
    yield (
        "detections per image and class",
        ", ".join("all" if limit is None else str(limit) for limit in protocol.limits),
    )


def area_text(area: Area) -> str:
    """An area range in words.

    >>> area_text(Area("medium", 32.0**2, 96.0**2)), area_text(Area("all", 0, math.inf))
    ('1,024 to 9,216 px²', 'any area')
    """
    is_open = area.high >= 1e10  # as in COCO, where 1e5**2 is no bound
    if is_open and area.low == 0:
        return "any area"
    return f"{area.low:,.6g} px² and more" if is_open else f"{area.low:,.6g} to {area.high:,.6g} px²"


def _versions() -> Iterable[tuple[str, str]]:
    yield "boxscore", boxscore.__version__
    yield "Python, NumPy", f"{platform.python_version()}, {np.__version__}"
    yield "charts", chart_versions()


def rounded(value: float, digits: int = 6) -> float | None:
    """A number with few digits, yet more than are shown, or None for NaN."""
    return None if math.isnan(value) else round(float(value), digits)


def column(values: Iterable[float]) -> list[float | None]:
    """Numbers with few digits."""
    return [rounded(value) for value in values]
