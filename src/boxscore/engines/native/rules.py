"""A protocol as the compiled engine reads it."""

from functools import lru_cache
from typing import Any

import boxscore._compiled as _compiled
from boxscore.model.protocol import Protocol


@lru_cache(maxsize=32)
def rules_of(protocol: Protocol) -> Any:
    """The rules that decide a number, for the compiled engine."""
    rules = _compiled.Rules()
    rules.cutoffs = list(protocol.cutoffs)
    rules.is_strict = protocol.comparison == ">"
    rules.matching = getattr(_compiled.Matching, protocol.matching)
    rules.area_low = [area.low for area in protocol.areas]
    rules.area_high = [area.high for area in protocol.areas]
    rules.limits = [min(limit or _compiled.NO_LIMIT, _compiled.NO_LIMIT) for limit in protocol.limits]
    rules.is_limit_per_image = protocol.limits_per == "image"
    rules.recall_points = list(protocol.recall_points)
    rules.ap = getattr(_compiled.ApRule, protocol.ap)
    rules.epsilon = protocol.precision_epsilon
    return rules
