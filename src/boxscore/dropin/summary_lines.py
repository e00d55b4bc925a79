"""The lines of `summarize`, and the numbers in them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import boxscore._compiled as _compiled
from boxscore.arrays import compact
from boxscore.dropin.params import Params

_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} {}] = {:0.3f}"


class Line(NamedTuple):
    """One number: AP or AR, at one threshold or at all, in one area range, within one limit."""

    is_recall: bool
    limit: int
    threshold: float | None = None
    area: str = "all"


def box_lines(limits: Sequence[int]) -> list[Line]:
    """The twelve numbers of boxes and masks.

    pycocotools looks for 100 in the first of them, and says -1 where it is not among the limits; here the largest is
    taken instead.
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


def keypoint_lines() -> list[Line]:
    """The ten numbers of keypoints."""
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
    """The mean of what is defined, or -1; `classes`: indices of some classes."""
    samples = arrays["recall" if line.is_recall else "precision"]
    areas = [index for index, name in enumerate(params.areaRngLbl) if name == line.area]
    limits = [index for index, limit in enumerate(params.maxDets) if limit == line.limit]
    thresholds = None if line.threshold is None else np.where(line.threshold == params.iouThrs)[0]
    mean = mean_of(samples, areas=areas, limits=limits, thresholds=thresholds, classes=classes)
    return -1.0 if np.isnan(mean) else mean


def mean_of(samples: Any, *, areas: Any, limits: Any, thresholds: Any = None, classes: Any = None) -> float:
    """The mean of what is defined in some cells of `precision` or `recall`, to NumPy's bits; NaN if nothing is.

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
    """The line as pycocotools prints it; `classes`: which ones, as faster_coco_eval says it."""
    first, last = params.iouThrs[0], params.iouThrs[-1]
    thresholds = f"{first:0.2f}:{last:0.2f}" if line.threshold is None else f"{line.threshold:0.2f}"
    title, kind = ("Average Recall", "(AR)") if line.is_recall else ("Average Precision", "(AP)")
    return _LINE.format(title, kind, thresholds, line.area, line.limit, classes, value)
