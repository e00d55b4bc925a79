"""The contents of an HTML report, as values for JSON that are small enough for one file."""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

import boxscore
from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.bootstrap import Intervals
from boxscore.analysis.calibration import Calibration
from boxscore.analysis.comparison import Change, Comparison, Difference
from boxscore.analysis.confusion import Confusion
from boxscore.analysis.errors import MEANINGS, SUMS, Errors
from boxscore.analysis.explanation import Explanation
from boxscore.analysis.worst_images import WorstImages
from boxscore.protocol.comparable import of_all
from boxscore.protocol.measures import Measure, meanings, measures
from boxscore.protocol.protocol import Area, Protocol
from boxscore.protocol.words import settings_in_words, value_in_words
from boxscore.report.charts import chart_versions
from boxscore.report.compact import SHOWN_STEPS, column, cut, packed, rounded, shown_classes, thinned_curves
from boxscore.report.gallery import Gallery, describe_gallery
from boxscore.result.curves import Ints
from boxscore.result.result import Result

NUM_BINS = 40
"""The number of bins of a score histogram."""

NUM_LISTED = 50
"""Number of the worst images, and of the most frequent confusions, that are listed."""

MAX_BYTES = 1_000_000
"""Maximum number of bytes of all contents, about the size of the chart library; curves use the remainder."""

MAX_SAMPLES = 10_000_000
"""Curves with more samples than this, over classes, thresholds and areas, have no confidence intervals by default."""

CURVE_BYTES = 500_000
"""Maximum number of bytes of all curves. With many classes they have fewer thresholds, then fewer points."""

MAX_CLASSES = 6_000
"""Maximum number of classes in the tables of all models together; each model shows the classes with the most truths."""

MIN_CLASSES = 50
"""Minimum number of classes per model, however many models are compared."""

MAX_HISTOGRAMS = 400
"""With more classes than this, only the score histogram of all classes is included."""

MAX_EXTRA_ROWS = 200_000
"""With more detections than this, resampling numbers other than AP and recall takes minutes."""

MAX_CONFUSED = 25
"""With more classes than this, the confusion matrix only has the most confused."""


def describe(
    results: Mapping[str, Result],
    intervals: Mapping[str, Intervals],
    made_from: Mapping[str, str],
    comparison: Comparison | None = None,
    explanation: Explanation | None = None,
    gallery: Gallery | None = None,
) -> dict[str, Any]:
    """The contents of the page: one or more models, by name, their differences, the explanation, and pictures."""
    first = next(iter(results.values()))
    protocol = first.protocol
    titles = ", ".join(dict.fromkeys(result.protocol.title for result in results.values()))
    most = max(MAX_CLASSES // len(results), MIN_CLASSES)
    contents = {
        "headline": f"mAP {text.fraction(first['map'])} ({protocol.title}).",
        "subtitle": f"{titles}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, boxscore {boxscore.__version__}",
        "thresholds": list(protocol.thresholds),
        "similarity": protocol.similarity,
        "main": protocol.threshold_index(None),
        "areas": [{"name": area.name, "text": range_text(area, protocol)} for area in protocol.areas],
        "measures": [*(_measure(each, protocol) for each in measures(protocol)), *_extra_measures(protocol)],
        "limit": None if protocol.limits[-1] is None else f"{protocol.limits[-1]:,} {protocol.limit_scope}",
        "curve": f"The highest precision at each recall or beyond; AP is the {value_in_words(protocol, 'ap')}.",
        "notes": _notes(results.values(), intervals, most),
        "models": [
            {"name": name, **_model(result, intervals.get(name), first, most)} for name, result in results.items()
        ],
        "made": [
            *made_from.items(),
            ("protocol", titles),
            *settings_in_words(protocol),
            (f"{protocol.similarity} data type", first.iou_dtype),
            (
                "comparable with published numbers",
                str(of_all({name: result.comparable for name, result in results.items()})),
            ),
            *_versions(),
        ],
        "comparison": None if comparison is None else _comparison(comparison, first, most),
        "explanation": None if explanation is None else explanation.to_dict(),
    }
    room = min(CURVE_BYTES, MAX_BYTES - len(json.dumps(contents, separators=(",", ":"))))
    curves = [thinned_curves(result, room // len(results), most) for result in results.values()]
    pictures = {} if gallery is None else {"pictures": describe_gallery(gallery, results)}
    return contents | {"curves": curves} | pictures


def _notes(results: Iterable[Result], intervals: Mapping[str, Intervals], most: int) -> list[str]:
    """Notes on omitted contents, and where to find them."""
    num_classes = max(len(result.per_class) for result in results)
    notes = []
    if num_classes > most:
        notes.append(
            f"Tables and charts have the {most:,} of {num_classes:,} classes with the most truths. The numbers of this "
            "summary are of all classes; `--csv` and `--json` have every class."
        )
    if not intervals and not all(map(default_resamples, results)):
        notes.append(
            f"There are no confidence intervals: with {num_classes:,} classes, 1,000 resamples take minutes. "
            "`--bootstrap 1000`, or in Python `resamples=1000`, computes them."
        )
    return notes


def default_resamples(result: Result) -> int:
    """The default number of resamples of a report: 1,000, or 0 if they would take minutes, or are not supported."""
    protocol = result.protocol
    num_points = len(protocol.thresholds) * len(protocol.recall_points) * len(protocol.areas)
    is_slow = len(result.per_class) * num_points > MAX_SAMPLES
    is_slow |= bool(protocol.extra_numbers) and len(result.tally) > MAX_EXTRA_ROWS
    return 0 if is_slow or protocol.limits_per == "dataset" else 1000


def _measure(measure: Measure, protocol: Protocol) -> dict[str, Any]:
    is_whole = measure.limit == len(protocol.limits) - 1 and len(measure.thresholds) == len(protocol.thresholds)
    is_size = is_whole and measure.group is None
    return {"name": measure.name, "meaning": measure.meaning(protocol), "is_size": is_size}


def _extra_measures(protocol: Protocol) -> list[dict[str, Any]]:
    """The numbers besides AP and recall, none of which is of an area range."""
    meaning = dict(meanings(protocol))
    return [{"name": name, "meaning": meaning[name], "is_size": False} for name in protocol.extra_names]


def _model(result: Result, intervals: Intervals | None, first: Result, most: int) -> dict[str, Any]:
    """A model without its curves. Class names are omitted if they equal the first model's."""
    per_class, main = result.per_class, result.protocol.threshold_index(None)
    best = result.operating_points(iou=result.protocol.thresholds[main])
    shown = shown_classes(result, most)
    return {
        "counts": {
            "images": len(result.images),
            "truths": int(per_class.num_truths.sum()),
            "detections": len(result.tally.limited()),
            "classes": len(per_class),
        },
        "comparable": result.comparable.sentence,
        "numbers": column(result.values()),
        "intervals": None if intervals is None else _intervals(intervals, shown),
        "per_threshold": column(result.per_threshold.values()),
        "classes": {
            **({} if _has_same_names(result, first, most) else _names(result, most)),
            "ap": column(per_class.ap[shown]),
            "ar": column(per_class.ar[shown]),
            "truths": per_class.num_truths[shown].tolist(),
            "detections": per_class.num_detections[shown].tolist(),
            "true": per_class.num_true[shown, main].tolist(),
            "false": per_class.num_false[shown, main].tolist(),
            **{name: column(getattr(best, name)[1:][shown]) for name in ("f1", "precision", "recall", "score")},
            "extra": {name: column(values[shown]) for name, values in per_class.extra.items()},
            "ap_at": packed(per_class.ap_at[shown], SHOWN_STEPS),
        },
        "scores": _scores(result, shown),
        "calibration": _or_reason(lambda: _calibration(result.calibration())),
        "errors": _or_reason(lambda: _errors(result.errors())),
        "confusion": _or_reason(lambda: _confusion(result.confusion())),
        "worst": _worst(result.worst_images(num=NUM_LISTED)),
    }


def _names(result: Result, most: int) -> dict[str, Any]:
    label, name = result.per_class.label.tolist(), result.per_class.name
    shown = shown_classes(result, most).tolist()
    return {"label": [label[k] for k in shown], "name": [cut(name[k]) for k in shown]}


def _has_same_names(result: Result, first: Result, most: int) -> bool:
    """Whether another result has the same classes and names as the first."""
    return result is not first and _names(result, most) == _names(first, most)


def _intervals(intervals: Intervals, shown: Ints) -> dict[str, Any]:
    return {
        "title": intervals.confidence.title,
        "name": f"{100 * intervals.level:g} % confidence interval",
        "short": f"{100 * intervals.level:g} % CI",
        "numbers": [(rounded(intervals.low[name]), rounded(intervals.high[name])) for name in intervals.numbers],
        "low": column(intervals.per_class.ap_low[shown]),
        "high": column(intervals.per_class.ap_high[shown]),
    }


def _or_reason(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The analysis, or the reason why it is missing: no inputs, or scores that are not probabilities."""
    try:
        return make()
    except InputError as error:
        return {"missing": str(error)}


def _scores(result: Result, shown: Ints) -> dict[str, Any]:
    """Histograms of scores: of all classes at every threshold; of each class at the main threshold."""
    spreads = [result.scores(bins=NUM_BINS, iou=threshold) for threshold in result.protocol.thresholds]
    main = spreads[result.protocol.threshold_index(None)]
    is_few = len(result.per_class) <= MAX_HISTOGRAMS
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
    """The matrix, or a part of it, with background last; and the most frequent confusions of all classes.

    `names`: distinct names of the classes that occur; `shown` and the cells have indices into them. A cell has the
    indices of both classes, the count, and its fraction of the row.
    """
    background = len(confusion.name)
    drawn = [*confusion.most_confused(MAX_CONFUSED), background]
    pairs = confusion.largest_cells(NUM_LISTED)
    used = sorted({*drawn, *(k for truth, detected, _ in pairs for k in (truth, detected))})
    index_of, total = {k: index for index, k in enumerate(used)}, np.maximum(confusion.num_of_row, 1)

    def cell(truth: int, detected: int, num: int) -> list[Any]:
        return [index_of[truth], index_of[detected], int(num), rounded(num / total[truth])]

    part = confusion.part(drawn)
    num_of_name = Counter(confusion.name)
    names = [
        "background" if k == background else _distinct(cut(confusion.name[k]), confusion.label[k], num_of_name)
        for k in used
    ]
    return {
        "iou": confusion.iou,
        "score": rounded(confusion.score),
        "num_classes": background,
        "names": names,
        "shown": [index_of[k] for k in drawn],
        "cells": [cell(drawn[i], drawn[j], part[i, j]) for i, j in np.argwhere(part)],
        "pairs": [cell(*pair) for pair in pairs],
    }


def _distinct(name: str, label: int, num_of_name: Mapping[str, int]) -> str:
    """The name of a class, with its label if several classes share the name."""
    return name if num_of_name[name] == 1 else f"{name} ({label})"


def _worst(worst: WorstImages) -> dict[str, Any]:
    """The images with at least one error."""
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
    """The differences between two models. Class names are omitted if they equal the first model's.

    If there are very many classes, only the classes that changed most are included, with their names.
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
    """Both values, the difference, its confidence interval, the p-value, and 1 if that is an upper bound."""
    numbers = column((change.first, change.second, change.difference, change.low, change.high, change.p_value))
    return [*numbers, int(change.is_least)]


def range_text(area: Area, protocol: Protocol) -> str:
    """A range of areas, or of another value of images, in words."""
    if protocol.ranges_by == "area":
        return area_text(area)
    return "any" if area.low == 0 and area.high == float("inf") else f"{area.low:.3g} to {area.high:.3g}"


def area_text(area: Area) -> str:
    """An area range in words.

    >>> area_text(Area("medium", 32.0**2, 96.0**2)), area_text(Area("all", 0, float("inf")))
    ('1,024 to 9,216 px²', 'any area')
    """
    is_open = area.high >= 1e10  # as in COCO, where 1e5**2 means no bound
    if is_open and area.low == 0:
        return "any area"
    return f"{area.low:,.6g} px² and more" if is_open else f"{area.low:,.6g} to {area.high:,.6g} px²"


def _versions() -> Iterable[tuple[str, str]]:
    yield "boxscore", boxscore.__version__
    yield "Python, NumPy", f"{platform.python_version()}, {np.__version__}"
    yield "charts", chart_versions()
