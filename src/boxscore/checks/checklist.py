"""A check is a value: the kind of mistake it asks about, a function that finds the evidence, and the words for it.

`file_checks` and `shape_checks` have the checks of files; `mistakes` has those of detections and truths, which every
way in asks. Evidence has numbers. Words are a template that the evidence fills, and `Remedies`: an entrance says in its
own terms how a mistake is corrected.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, TypeVar

from boxscore._support.text import count

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""error: the evaluation refuses it. warning: it changes the result, or is a likely mistake. note: for information."""
REFUSED = "the evaluation refuses the file"

Subject = TypeVar("Subject")


class Counted(int):
    """A number that templates show with thousands separators, or with its noun: `{num:box/boxes}`.

    >>> "{0} and {0:box/boxes}".format(Counted(1234))
    '1,234 and 1,234 boxes'
    """

    def __format__(self, nouns: str) -> str:
        return count(int(self), *nouns.split("/")) if nouns else f"{int(self):,}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evidence:
    """The numbers behind a mistake."""

    num: int
    """The number of rows, images or classes with it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and names by the placeholders of the template."""
    example: str = ""
    """The first of them, with its location in the file."""
    severity: Severity | None = None
    """Where it is not the severity of the check."""

    def fill(self, template: str, **names: str) -> str:
        """The template with the evidence in it."""
        numbers = {key: Counted(value) if type(value) is int else value for key, value in self.facts.items()}
        return template.format(**{"num": Counted(self.num), **names, **numbers})


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
        """Values that JSON has."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Check(Generic[Subject]):
    """One question, its evidence and its words."""

    kind: str
    """A short name that stays the same, for programs."""
    find: Callable[[Subject], Iterable[Evidence]]
    """Yield the evidence, if there is any."""
    title: str
    """Template of what was found."""
    effect: str = ""
    """Template of the effect on the result."""
    severity: Severity = "warning"


def ask(checks: Sequence[Check[Subject]], subject: Subject, file: str) -> list[Finding]:
    """The findings of all checks about the rows of a file, in the order of the checks."""
    return [
        Finding(
            severity=found.severity or check.severity,
            kind=check.kind,
            file=file,
            count=found.num,
            title=found.fill(check.title),
            example=found.example,
            effect=found.fill(check.effect),
        )
        for check in checks
        for found in check.find(subject)
    ]
