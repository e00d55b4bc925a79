"""A check is a value: the kind of a mistake, a function that finds evidence of it, and templates for its description.

`file_checks` and `shape_checks` have the checks of files; `mistakes` has the checks of detections and truths, which
every entrance runs. Evidence has numbers, which fill the templates. With `Remedies`, each entrance says in its own
terms how to correct a mistake.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, TypeVar

from boxscore._support.text import count

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""error: the evaluation refuses the file. warning: the result changes, or a mistake is likely. note: information."""
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
    """Number of rows, images or classes with the mistake."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and names by the placeholders of the template."""
    example: str = ""
    """The first row, image or class with the mistake, with its location in the file."""
    severity: Severity | None = None
    """None: the severity of the check."""

    def fill(self, template: str, **names: str) -> str:
        """Fill the template with the evidence and the given names."""
        numbers = {key: Counted(value) if type(value) is int else value for key, value in self.facts.items()}
        return template.format(**{"num": Counted(self.num), **names, **numbers})


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One kind of problem in one file."""

    severity: Severity
    kind: str
    """A short stable name, for programs."""
    file: str
    count: int
    """Number of rows, images or classes with the problem."""
    title: str
    """Description of the problem, with the count."""
    example: str
    """The first row, image or class with the problem, with its location in the file."""
    effect: str
    """The effect on the result."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dict for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Check(Generic[Subject]):
    """A kind of mistake, the search for its evidence, and its description."""

    kind: str
    """A short stable name, for programs."""
    find: Callable[[Subject], Iterable[Evidence]]
    """Yields evidence of the mistake, if any."""
    title: str
    """Template of the description."""
    effect: str = ""
    """Template of the effect on the result."""
    severity: Severity = "warning"


def ask(checks: Sequence[Check[Subject]], subject: Subject, file: str) -> list[Finding]:
    """Run all checks on the rows of a file; findings are in the order of the checks."""
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
