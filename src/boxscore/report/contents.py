"""Contents: what a report shows, in plain values, and few enough of them for one file."""

import base64
import json
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.bootstrap import Intervals
from boxscore.analysis.calibration import Calibration
from boxscore.analysis.comparison import Change, Comparison, Difference
from boxscore.analysis.confusion import Confusion
from boxscore.analysis.errors import MEANINGS, SUMS, Errors
from boxscore.analysis.worst_images import WorstImages
from boxscore.model.curves import Ints
from boxscore.model.measures import Measure, measures
from boxscore.model.protocol import ApRule, Area, Protocol
from boxscore.model.result import Result
from boxscore.report.charts import chart_versions

NUM_BINS = 40
"""Bins of a score histogram."""

NUM_LISTED = 50
"""How many of the worst images and of the most frequent confusions are listed."""

MOST_BYTES = 1_000_000
"""What all of it may take in the file, as much again as the charts' script; curves get what the rest leaves."""

MOST_SAMPLES = 10_000_000
"""Of curves with more samples than this, in all classes, thresholds and areas, there are no intervals by default."""

CURVE_BYTES = 500_000
"""What the curves of all models may take at most. Many classes get fewer thresholds, then fewer points."""

MOST_CLASSES = 6_000
"""How many classes the tables of all models may have together. Of more, a model has those with the most truths."""

FEWEST_CLASSES = 50
"""What each model has of them at least, however many models there are."""

MOST_LETTERS = 200
"""A longer name of a class or an image is cut."""

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
    most = max(MOST_CLASSES // len(results), FEWEST_CLASSES)
    contents = {
        "headline": f"mAP {text.fraction(first['map'])} ({protocol.title}).",
        "subtitle": f"{protocol.title}, made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by boxscore {boxscore.__version__}",
        "thresholds": list(protocol.thresholds),
        "main": protocol.threshold_index(None),
        "areas": [{"name": area.name, "text": area_text(area)} for area in protocol.areas],
        "measures": [_measure(measure, protocol) for measure in measures(protocol)],
        "limit": protocol.limits[-1],
        "notes": _notes(results.values(), intervals, most),
        "models": [
            {"name": name, **_model(result, intervals.get(name), first, most)} for name, result in results.items()
        ],
        "made": [*made_from.items(), *_settings(protocol), ("IoU computed in", first.iou_dtype), *_versions()],
        "comparison": None if comparison is None else _comparison(comparison, first, most),
    }
    room = min(CURVE_BYTES, MOST_BYTES - len(json.dumps(contents, separators=(",", ":"))))
    return contents | {"curves": [_curves(result, room // len(results), most) for result in results.values()]}


def _notes(results: Iterable[Result], intervals: Mapping[str, Intervals], most: int) -> list[str]:
    """What is left out, and where it is."""
    num_classes = max(len(result.per_class) for result in results)
    notes = []
    if num_classes > most:
        notes.append(
            f"Tables and charts are of the {most:,} classes with the most truths, of {num_classes:,}. The numbers of "
            "this summary are of all classes; `--csv` and `--json` have every class."
        )
    if not intervals and not all(map(default_resamples, results)):
        notes.append(
            f"There are no intervals: with {num_classes:,} classes 1,000 resamples take minutes. `--bootstrap 1000`, "
            "or in Python `resamples=1000`, computes them."
        )
    return notes


def default_resamples(result: Result) -> int:
    """How many resamples a report has where nobody said how many: 1,000, or none where those would take minutes."""
    protocol = result.protocol
    num_points = len(protocol.thresholds) * len(protocol.recall_points) * len(protocol.areas)
    return 1000 if len(result.per_class) * num_points <= MOST_SAMPLES else 0


def shown_classes(result: Result, most: int) -> Ints:
    """The places of the classes that are shown: all, or those with the most truths; ascending."""
    order = np.argsort(-result.per_class.num_truths, kind="stable")
    return np.sort(order[:most])


def cut(name: str) -> str:
    """A name that is not longer than a file can afford.

    >>> cut("dog"), len(cut("x" * 1000))
    ('dog', 200)
    """
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def _measure(measure: Measure, protocol: Protocol) -> dict[str, Any]:
    is_size = measure.limit == len(protocol.limits) - 1 and len(measure.thresholds) == len(protocol.thresholds)
    return {"name": measure.name, "meaning": measure.meaning(protocol), "is_size": is_size}


def _model(result: Result, sure: Intervals | None, first: Result, most: int) -> dict[str, Any]:
    """A model but for its curves. Names of classes that the first has, too, are not repeated."""
    per_class, main = result.per_class, result.protocol.threshold_index(None)
    best = result.operating_points(iou=result.protocol.thresholds[main])
    shown = shown_classes(result, most)
    return {
        "counts": {
            "images": len(result.images),
            "truths": int(per_class.num_truths.sum()),
            "detections": len(result.tally),
            "classes": len(per_class),
        },
        "numbers": column(result.values()),
        "intervals": None if sure is None else _intervals(sure, shown),
        "per_threshold": column(result.per_threshold.values()),
        "classes": {
            **({} if _has_its_names(result, first, most) else _names(result, most)),
            "ap": column(per_class.ap[shown]),
            "ar": column(per_class.ar[shown]),
            "truths": per_class.num_truths[shown].tolist(),
            "detections": per_class.num_detections[shown].tolist(),
            "true": per_class.num_true[shown, main].tolist(),
            "false": per_class.num_false[shown, main].tolist(),
            **{name: column(getattr(best, name)[1:][shown]) for name in ("f1", "precision", "recall", "score")},
            "ap_at": _packed(per_class.ap_at[shown], SHOWN_STEPS),
        },
        "scores": _scores(result, shown),
        "calibration": _or_why(lambda: _calibration(result.calibration())),
        "errors": _or_why(lambda: _errors(result.errors())),
        "confusion": _or_why(lambda: _confusion(result.confusion())),
        "worst": _worst(result.worst_images(num=NUM_LISTED)),
    }


def _names(result: Result, most: int) -> dict[str, Any]:
    label, name = result.per_class.label.tolist(), result.per_class.name
    shown = shown_classes(result, most).tolist()
    return {"label": [label[k] for k in shown], "name": [cut(name[k]) for k in shown]}


def _has_its_names(result: Result, first: Result, most: int) -> bool:
    """Whether a result has the classes of the first, under the same names, and is not the first itself."""
    return result is not first and _names(result, most) == _names(first, most)


def _intervals(sure: Intervals, shown: Ints) -> dict[str, Any]:
    return {
        "title": sure.confidence.title,
        "name": f"{100 * sure.level:g} % interval",
        "numbers": [(rounded(sure.low[name]), rounded(sure.high[name])) for name in sure.numbers],
        "low": column(sure.per_class.ap_low[shown]),
        "high": column(sure.per_class.ap_high[shown]),
    }


def _or_why(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is made, or why it can't be: boxes that were forgotten, scores that are no chances."""
    try:
        return make()
    except InputError as error:
        return {"missing": str(error)}


def _curves(result: Result, num_bytes: int, most: int) -> dict[str, Any]:
    """Curves of the first area range within the largest limit, thinned until they fit: two bytes a sample, in base64.

    Every threshold if there is room, else two of them, else the main one alone; and every recall point, or every
    second, and so on.
    """
    protocol = result.protocol
    precision_TRK = result.curves.precision[:, :, :, 0, -1]
    shown = shown_classes(result, most)
    num_thresholds, num_points, num_classes = *precision_TRK.shape[:2], shown.size
    main = protocol.threshold_index(None)
    some = {"all": list(range(num_thresholds)), "two": sorted({main, (main + num_thresholds) // 2}), "one": [main]}
    plans = [("all", 1), ("two", 1), ("two", 2), *(("one", step) for step in (1, 2, 4, 5, 10, 20))]
    for which, step in plans:
        places, points = some[which], np.arange(0, num_points, step)
        if len(places) * points.size * num_classes * 8 / 3 <= num_bytes:
            break
    chosen_TRK = precision_TRK[np.ix_(places, points)]
    is_defined_K = chosen_TRK[0, 0] >= 0
    mean_TR = (
        chosen_TRK[:, :, is_defined_K].mean(axis=2) if is_defined_K.any() else np.full((len(places), points.size), -1)
    )
    return {
        "thresholds": places,
        "recall": [rounded(protocol.recall_points[r]) for r in points],
        "precision": _packed(chosen_TRK[:, :, shown].transpose(0, 2, 1), CURVE_STEPS),
        "mean": _packed(mean_TR, CURVE_STEPS),
    }


def _packed(values: NDArray[Any], num_steps: int) -> str:
    """Numbers from 0 to 1 in two bytes each, as text; others are undefined."""
    samples = np.where(values >= 0, np.rint(values * num_steps), UNDEFINED)
    return base64.b64encode(samples.astype("<u2").tobytes()).decode()


def _scores(result: Result, shown: Ints) -> dict[str, Any]:
    """How many true and false positives have which scores: at every threshold; of each class, at the main one."""
    spreads = [result.scores(bins=NUM_BINS, iou=threshold) for threshold in result.protocol.thresholds]
    main = spreads[result.protocol.threshold_index(None)]
    is_few = len(result.per_class) <= MOST_HISTOGRAMS
    return {
        "edge": column(main.edge),
        "true": [spread.num_true.tolist() for spread in spreads],
        "false": [spread.num_false.tolist() for spread in spreads],
        "true_of_class": main.num_true_of_class[shown].tolist() if is_few else None,
        "false_of_class": main.num_false_of_class[shown].tolist() if is_few else None,
        "best": [{"score": rounded(spread.best), "f1": rounded(spread.best_f1)} for spread in spreads],
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

    `names` are those of the classes that occur here, each different; `shown` and the cells have places among them. A
    cell: the places of both classes, how many boxes, and their share of the row.
    """
    background = len(confusion.name)
    drawn = [*confusion.most_confused(MOST_CONFUSED), background]
    pairs = confusion.largest_cells(NUM_LISTED)
    used = sorted({*drawn, *(place for truth, found, _ in pairs for place in (truth, found))})
    place_of, total = {k: place for place, k in enumerate(used)}, np.maximum(confusion.num_of_row, 1)

    def cell(truth: int, found: int, num: int) -> list[Any]:
        return [place_of[truth], place_of[found], int(num), rounded(num / total[truth])]

    part = confusion.part(drawn)
    times = Counter(confusion.name)
    names = [
        "background" if k == background else _different(cut(confusion.name[k]), confusion.label[k], times) for k in used
    ]
    return {
        "iou": confusion.iou,
        "score": rounded(confusion.score),
        "num_classes": background,
        "names": names,
        "shown": [place_of[k] for k in drawn],
        "cells": [cell(drawn[i], drawn[j], part[i, j]) for i, j in np.argwhere(part)],
        "pairs": [cell(*pair) for pair in pairs],
    }


def _different(name: str, label: int, times: Mapping[str, int]) -> str:
    """The name of a class, with its label where others have that name, too."""
    return name if times[name] == 1 else f"{name} ({label})"


def _worst(worst: WorstImages) -> dict[str, Any]:
    """Those among them that have an error at all."""
    rows = zip(worst.name, worst.num_true, worst.num_false, worst.num_unfound, strict=True)
    return {
        "iou": worst.iou,
        "score": rounded(worst.score),
        "rows": [
            [cut(name), int(true), int(false), int(unfound)] for name, true, false, unfound in rows if false + unfound
        ],
    }


def _comparison(comparison: Comparison, first: Result, most: int) -> dict[str, Any]:
    return {
        "title": comparison.title,
        "differences": [_difference(difference, first, most) for difference in comparison.differences],
    }


def _difference(difference: Difference, first: Result, most: int) -> dict[str, Any]:
    """What two models differ in. Names of classes that the first model has are not repeated.

    Of very many classes those that changed most, with their names.
    """
    keys = ("num_truths", "first_true", "first_false", "second_true", "second_false", "gain")
    images = [[cut(row["name"]), *(row[key] for key in keys)] for row in difference.images.rows()[:NUM_LISTED]]
    size = np.nan_to_num([abs(change.difference) for change in difference.ap], nan=-1)
    shown = np.sort(np.argsort(-size, kind="stable")[:most]).tolist()
    is_same = difference.class_name == first.per_class.name and len(shown) == len(first.per_class) <= most
    return {
        "first": difference.first,
        "second": difference.second,
        "numbers": [[name, *_change(change)] for name, change in difference.numbers.items()],
        "class_names": None if is_same else [cut(difference.class_name[k]) for k in shown],
        "num_classes": len(difference.ap),
        "classes": [_change(difference.ap[k]) for k in shown],
        "images": images,
    }


def _change(change: Change) -> list[Any]:
    """The first, the second, the difference, its interval, the p-value, and 1 if that is an upper bound."""
    numbers = column((change.first, change.second, change.difference, change.low, change.high, change.p_value))
    return [*numbers, int(change.is_least)]


def _settings(protocol: Protocol) -> Iterable[tuple[str, str]]:
    """All that decides a number, in words."""
    yield "protocol", protocol.title
    yield "IoU thresholds", ", ".join(f"{threshold:.4g}" for threshold in protocol.thresholds)
    yield "a match needs", f"IoU {protocol.comparison} threshold"
    yield "matching", protocol.matching.replace("_", " ")
    yield "ignored truths", protocol.ignored
    yield "pixels", protocol.pixels
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
    """A number with few digits, yet enough that the page shows the digits that tables do; None for NaN."""
    if math.isnan(value):
        return None
    short = round(float(value), digits)
    is_same = all(f"{short:.{shown}f}" == f"{value:.{shown}f}" for shown in (3, 4))
    return short if is_same else round(float(value), digits + 3)


def column(values: Iterable[float]) -> list[float | None]:
    """Numbers with few digits."""
    return [rounded(value) for value in values]
