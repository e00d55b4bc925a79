"""What a file holds before it is joined with anything: rows with their places, images, classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.checks import RowError
from boxscore._support.exceptions import InputError
from boxscore.geometry.boxes import BoxFormat

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Sizes = Mapping[Any, tuple[int, int]]
"""Width and height by image."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Named:
    """A column of names: row i has `names[code[i]]`. There may be names that no row has."""

    code: Ids
    names: Sequence[str]

    @classmethod
    def of(cls, values: Sequence[str], *, also: Sequence[str] = ()) -> "Named":
        """The column of these values, with names that no row has.

        >>> Named.of(["b", "a", "b"]).names
        ['b', 'a']
        """
        code_of = {name: code for code, name in enumerate(dict.fromkeys((*values, *also)))}
        return cls(code=np.fromiter(map(code_of.__getitem__, values), np.int64, len(values)), names=list(code_of))

    def __len__(self) -> int:
        return int(self.code.size)


Key = Ids | Named
"""What tells images or classes apart: the ids that the file gives them, or their names."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Records:
    """The rows of a file as they are: no image or class is looked up, no number is checked."""

    image: Key
    """Ids, or file names."""
    label: Key
    """Ids, or class names."""
    box: Floats
    """Shape (R, 4)."""
    box_format: BoxFormat
    place: Callable[[int], str]
    """Where a row is, for errors: "val.json: annotation 7 (id 42)", "000001.xml: object 2"."""
    source: str
    """The path of it all, for errors about no row."""
    is_normalized: bool = False
    """Whether boxes are fractions of their image's width and height."""
    is_position: bool = False
    """Whether labels are places in a list of classes that is somewhere else, as in YOLO's results."""
    score: Floats | None = None
    ignore: NDArray[Any] | None = None
    truncated: NDArray[Any] | None = None
    area: Floats | None = None
    id: Ids | None = None
    """Each row's own id, where the format has some; they decide nothing."""
    image_names: Mapping[int, str] | None = None
    """Every image by id, with or without rows; None where images have names only, or the file lists none."""
    image_sizes: Sizes | None = None
    """By id or by name, as the images have them."""
    class_names: Mapping[int, str] | None = None
    """Every class by label, where the file lists them."""
    terms: Mapping[str, str] | None = None
    """The file's words for our columns, where they differ."""

    def __len__(self) -> int:
        return len(self.box)

    def refuse(self, error: InputError) -> InputError:
        """The same error about a column, with the place in the file and the file's own word for the column."""
        if isinstance(error, RowError):
            term = (self.terms or {}).get(error.column, error.column)
            return InputError(f"{self.place(error.row)}: `{term}` {error.rule}")
        return InputError(f"{self.source}: {error}")


class RowsWarning(UserWarning):
    """A warning about rows that reading changed or left out."""

    def __init__(self, message: str, *, num: int, what: str, fate: str, place: str) -> None:
        super().__init__(message)
        self.num, self.what, self.fate, self.place = num, what, fate, place
        """How many; what they are, counted; what became of them; where the first is."""


def places(offsets: Sequence[int] | Ids, describe: Callable[[int, int], str]) -> Callable[[int], str]:
    """The place of a row among files: `offsets` are the rows that come before each, `describe` gets file and row in it.

    >>> places([0, 2, 2], lambda file, row: f"file {file}, row {row}")(2)
    'file 2, row 0'
    """
    starts = np.asarray(offsets, np.int64)

    def place(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return describe(file, row - int(starts[file]))

    return place


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a reader may need to be told."""

    box_format: BoxFormat | None = None
    sizes: Any = None
    """Sizes of images: name -> (width, height), or the path of a list or of the images."""
    names: Any = None
    """Names of classes: a sequence, or the path of a file."""
    known_classes: Sequence[str] = ()
    """The classes of the truths, for results that have theirs in file names."""
