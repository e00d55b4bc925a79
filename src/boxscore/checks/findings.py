"""A finding: severity, count, an example, and the effect on the result."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""error: the evaluation refuses it. warning: it changes the result, or is a likely mistake. note: for information."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One kind of problem in one file."""

    severity: Severity
    kind: str
    """A short name that stays the same, for programs."""
    file: str
    count: int
    """The number of rows, images or classes with it."""
    title: str
    """What was found, with the count."""
    example: str
    """The first of them, with its location in the file."""
    effect: str
    """The effect on the result."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)
