"""The native engine: C++ for arrays in host memory.

`order.h` sorts, `match.cpp` matches image by image, `curves.cpp` draws class by class, `bindings.cpp` talks to Python.
`json.h` scans JSON, `coco_json.cpp` makes columns of COCO's files, `bindings_files.cpp` hands them over.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore.arrays import Array, compact, to_numpy
from boxscore.columns import Detections, Truths, host_scores
from boxscore.curves import Curves
from boxscore.protocol import Protocol
from boxscore.tally import Tally, narrowest


def match(detections: Detections, truths: Truths, protocol: Protocol, threads: int) -> Tally:
    """The verdict of every detection."""
    found_image, found_label = _ids(detections.image), _ids(detections.label)
    truth_image, truth_label = _ids(truths.image), _ids(truths.label)
    named = np.array(list(truths.names_by_label or ()), np.int64)
    images = _union(found_image, truth_image)
    classes = _union(found_label, truth_label, named)
    image, label, score, tier, state, is_true, is_counted, num_truths = _compiled.match(
        image=found_image,
        label=found_label,
        score=compact(host_scores(detections.score)),
        box=compact(host_scores(detections.box)),
        box_format=getattr(_compiled.BoxFormat, detections.box_format),
        truth_image=truth_image,
        truth_label=truth_label,
        truth_box=compact(to_numpy(truths.box), np.float64),
        truth_box_format=getattr(_compiled.BoxFormat, truths.box_format),
        area=None if truths.area is None else compact(to_numpy(truths.area), np.float64),
        ignore=None if truths.ignore is None else compact(to_numpy(truths.ignore), np.uint8),
        images=images,
        classes=classes,
        rules=_rules(protocol),
        num_threads=threads,
    )
    return Tally(
        protocol=protocol,
        image=narrowest(images)[image],
        label=narrowest(classes)[label],
        score=score,
        tier=tier,
        state=state,
        is_true=is_true,
        is_counted=is_counted,
        classes=classes,
        num_truths=num_truths,
        class_names=truths.names_by_label,
    )


def curves(tally: Tally, threads: int) -> Curves:
    """The curves of every class, area range, limit and threshold."""
    columns = ("image", "label", "score", "tier", "state", "is_true", "is_counted", "classes", "num_truths")
    precision, scores, recall, average_precision, num_true, num_false = _compiled.draw_curves(
        **{name: compact(getattr(tally, name)) for name in columns},
        rules=_rules(tally.protocol),
        num_threads=threads,
    )
    return Curves(
        classes=tally.classes,
        precision=precision,
        scores=scores,
        recall=recall,
        average_precision=average_precision,
        num_true=num_true,
        num_false=num_false,
    )


@lru_cache(maxsize=32)
def _rules(protocol: Protocol) -> Any:
    rules = _compiled.Rules()
    rules.cutoffs = list(protocol.cutoffs)
    rules.is_strict = protocol.comparison == ">"
    rules.is_inclusive = protocol.geometry == "inclusive"
    rules.is_crowd = protocol.ignored == "crowd"
    rules.matching = getattr(_compiled.Matching, protocol.matching)
    rules.area_low = [area.low for area in protocol.areas]
    rules.area_high = [area.high for area in protocol.areas]
    rules.limits = [_compiled.NO_LIMIT if limit is None else limit for limit in protocol.limits]
    rules.recall_points = list(protocol.recall_points)
    rules.ap = getattr(_compiled.ApRule, protocol.ap)
    rules.epsilon = protocol.precision_epsilon
    return rules


def _ids(column: Array) -> NDArray[Any]:
    return compact(to_numpy(column))


def _union(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Every id there is, ascending."""
    return np.unique(np.concatenate([_compiled.distinct(column) for column in columns]))
