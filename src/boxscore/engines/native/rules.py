"""A protocol as the compiled engine reads it."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import boxscore._compiled as _compiled
from boxscore.protocol.measures import Measure
from boxscore.protocol.protocol import Protocol


@lru_cache(maxsize=32)
def rules_of(protocol: Protocol) -> _compiled.Rules:
    """The rules that affect numbers, for the compiled engine."""
    rules = _compiled.Rules()
    rules.cutoffs = list(protocol.cutoffs)
    rules.is_strict = protocol.comparison == ">"
    rules.matching = getattr(_compiled.Matching, protocol.matching)
    rules.is_last_first = protocol.ties == "last"
    rules.is_group_counted = protocol.group_of_weight != 0
    rules.keeps_similarity = protocol.keeps_similarity
    rules.area_low = [area.low for area in protocol.areas]
    rules.area_high = [area.high for area in protocol.areas]
    rules.limits = [min(limit or _compiled.NO_LIMIT, _compiled.NO_LIMIT) for limit in protocol.match_limits]
    rules.is_limit_per_image = protocol.limits_per == "image"
    rules.recall_points = list(protocol.recall_points)
    rules.ap = getattr(_compiled.ApRule, protocol.ap)
    rules.epsilon = protocol.precision_epsilon
    return rules


def compiled_measures(
    measures: Iterable[Measure], class_groups: Mapping[int, str] | None = None
) -> list[_compiled.Measure]:
    """Measures as the compiled engine reads them; `class_groups`: the group of each class, by label."""
    return [
        _compiled.Measure(
            measure.is_recall,
            list(measure.thresholds),
            measure.area,
            measure.limit,
            None
            if measure.group is None
            else [label for label, group in (class_groups or {}).items() if group == measure.group],
        )
        for measure in measures
    ]
