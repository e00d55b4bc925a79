"""Contents: what a report shows, in plain values, and few enough of them for one file."""

import base64
import math
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore
from boxscore import text
from boxscore.measures import Measure, measures
from boxscore.protocol import Area, Protocol
from boxscore.report.charts import chart_versions
from boxscore.result import Result
from boxscore.tally import FALSE, TRUE, Tally

NUM_BINS = 40
"""Bins of a score histogram."""

CURVE_BYTES = 600_000
"""What the curves of all models may take in the file. Many classes get fewer thresholds, then fewer points."""

MOST_HISTOGRAMS = 400
"""With more classes than this there is a score histogram of all classes only."""

UNDEFINED = 65535
"""The sample of a curve that is not defined; the others are precision in steps of 1 / 65534."""


def describe(results: Mapping[str, Result], *, title: str, made_from: Mapping[str, str]) -> dict[str, Any]:
    """All that the page shows of some models, by name. They were measured under one protocol; there is at least one."""
    first = next(iter(results.values()))
    protocol = first.protocol
    return {
        "title": title,
        "headline": f"mAP {text.fraction(first['map'])} ({protocol.title}).",
        "subtitle": f"{protocol.title}, made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by boxscore {boxscore.__version__}",
        "thresholds": list(protocol.thresholds),
        "areas": [{"name": area.name, "text": area_text(area)} for area in protocol.areas],
        "measures": [_measure(measure, protocol) for measure in measures(protocol)],
        "models": [_model(name, result, len(results)) for name, result in results.items()],
        "made": [*made_from.items(), *_settings(protocol), ("IoU computed in", first.iou_dtype), *_versions()],
    }


def _measure(measure: Measure, protocol: Protocol) -> dict[str, Any]:
    is_size = measure.limit == len(protocol.limits) - 1 and len(measure.thresholds) == len(protocol.thresholds)
    return {"name": measure.name, "meaning": measure.meaning(protocol), "is_size": is_size}


def _model(name: str, result: Result, num_models: int) -> dict[str, Any]:
    truths = None if result.boxes is None else result.boxes.truths
    images = result.tally.images if truths is None or truths.image_names is None else truths.image_names
    per_class = result.per_class
    return {
        "name": name,
        "counts": {
            "images": len(images),
            "truths": int(per_class.num_truths.sum()),
            "detections": len(result.tally),
        },
        "numbers": [(rounded(value, 6), None, None) for value in result.values()],
        "per_threshold": [rounded(value) for value in result.per_threshold.values()],
        "classes": {
            "label": per_class.label.tolist(),
            "name": list(per_class.name),
            "ap": column(per_class.ap),
            "ar": column(per_class.ar),
            "truths": per_class.num_truths.tolist(),
            "detections": per_class.num_detections.tolist(),
            "hits": per_class.num_true[:, 0].tolist(),
            "false": per_class.num_false[:, 0].tolist(),
            "ap_at": [column(row) for row in per_class.ap_at],
        },
        "curves": _curves(result, CURVE_BYTES // num_models),
        "scores": _scores(result.tally),
    }


def _curves(result: Result, num_bytes: int) -> dict[str, Any]:
    """Curves of the first area range within the largest limit, thinned until they fit.

    Two bytes a sample, in base64. Every threshold if there is room, else 0.5 and 0.75 (or the first and the middle
    one), else the first alone; and every recall point, or every second, …
    """
    precision_TRK = result.curves.precision[:, :, :, 0, -1]
    num_thresholds, num_points, num_classes = precision_TRK.shape
    every = list(range(num_thresholds))
    plans = [
        (every, 1),
        *((every[:: max(5, -(-num_thresholds // 2))], step) for step in (1, 2)),
        *(([0], step) for step in (1, 2, 4, 5, 10, 20)),
    ]
    room = (len(places) * len(range(0, num_points, step)) * (num_classes + 1) * 8 / 3 for places, step in plans)
    places, step = next((plan for plan, size in zip(plans, room, strict=True) if size <= num_bytes), plans[-1])
    points = list(range(0, num_points, step))
    chosen_TKR = precision_TRK[places][:, points].transpose(0, 2, 1)
    is_defined_K = chosen_TKR[0, :, 0] >= 0 if num_classes else np.zeros(0, bool)
    samples = np.where(chosen_TKR >= 0, np.rint(chosen_TKR * 65534), UNDEFINED)
    mean = (
        np.rint(chosen_TKR[:, is_defined_K].mean(axis=1) * 65534)
        if is_defined_K.any()
        else np.full((len(places), len(points)), UNDEFINED)
    )
    return {
        "thresholds": places,
        "recall": [rounded(result.protocol.recall_points[r]) for r in points],
        "num_classes": num_classes,
        "precision": _packed(samples),
        "mean": _packed(mean),
    }


def _packed(samples: NDArray[Any]) -> str:
    return base64.b64encode(samples.astype("<u2").tobytes()).decode()


def _scores(tally: Tally) -> dict[str, Any]:
    """How many true and false positives there are in each bin of scores: at every threshold, and of every class."""
    score = np.asarray(tally.score, float)
    low, high = (float(score.min()), float(score.max())) if score.size else (0.0, 1.0)
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    edges = np.linspace(low, high if high > low else low + 1, NUM_BINS + 1)
    bin_D = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, NUM_BINS - 1)
    class_D = np.searchsorted(tally.classes, tally.label)

    hits = tally.in_order(np.flatnonzero(tally.is_hit))
    verdict_HT = hits.verdict[:, 0]
    bin_H, class_H = bin_D[tally.is_hit], class_D[tally.is_hit]
    is_plain = (tally.state & tally.state.dtype.type(3)) == 2  # not a hit, and a false positive in the first area range
    plain_B = np.bincount(bin_D[is_plain], minlength=NUM_BINS)

    num_classes = tally.classes.size

    def by_class(bins: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(classes * NUM_BINS + bins, minlength=num_classes * NUM_BINS).reshape(num_classes, NUM_BINS)

    true_TB = [np.bincount(bin_H[verdict_H == TRUE], minlength=NUM_BINS) for verdict_H in verdict_HT.T]
    false_TB = [plain_B + np.bincount(bin_H[verdict_H == FALSE], minlength=NUM_BINS) for verdict_H in verdict_HT.T]
    is_true, is_false = (verdict_HT[:, 0] == verdict for verdict in (TRUE, FALSE))
    found: dict[str, Any] = {
        "edges": [rounded(edge, 6) for edge in edges],
        "true": [counts.tolist() for counts in true_TB],
        "false": [counts.tolist() for counts in false_TB],
        "is_log": bool(false_TB[0].max() > 20 * max(int(true_TB[0].max()), 1)),
    }
    if num_classes <= MOST_HISTOGRAMS:
        found["class_true"] = by_class(bin_H[is_true], class_H[is_true]).tolist()
        class_false = by_class(bin_D[is_plain], class_D[is_plain]) + by_class(bin_H[is_false], class_H[is_false])
        found["class_false"] = class_false.tolist()
    return found


def _settings(protocol: Protocol) -> Iterable[tuple[str, str]]:
    """All that decides a number, in words."""
    yield "protocol", protocol.title
    yield "IoU thresholds", ", ".join(f"{threshold:.4g}" for threshold in protocol.thresholds)
    yield "a match needs", f"IoU {protocol.comparison} threshold"
    yield "matching", protocol.matching.replace("_", " ")
    yield "ignored truths", protocol.ignored
    yield "geometry", protocol.geometry
    yield "AP", f"{protocol.ap.replace('_', ' ')} ({text.count(len(protocol.recall_points), 'recall point')} drawn)"
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
    is_open = area.high >= 1e10
    if is_open and area.low == 0:
        return "any area"
    return f"{area.low:,.6g} px² and more" if is_open else f"{area.low:,.6g} to {area.high:,.6g} px²"


def _versions() -> Iterable[tuple[str, str]]:
    yield "boxscore", boxscore.__version__
    yield "Python, NumPy", f"{platform.python_version()}, {np.__version__}"
    yield "charts", chart_versions()


def rounded(value: float, digits: int = 4) -> float | None:
    """A number with few digits, or None for NaN."""
    return None if math.isnan(value) else round(float(value), digits)


def column(values: Iterable[float]) -> list[float | None]:
    """Numbers with few digits."""
    return [rounded(value) for value in values]
