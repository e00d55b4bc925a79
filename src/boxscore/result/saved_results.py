"""A result as a file: the block of its tally, with more entries in the header.

The numbers in the header are only for listings: `boxscore.load_result` computes them from the tally.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import boxscore
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.data.validation import is_number
from boxscore.result import blocks, storage
from boxscore.result.result import Result, Stored
from boxscore.result.summary import number_or_none
from boxscore.result.tally import Tally

KIND = "saved result"
_MAX_HEADER = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The description in the header of a saved result."""

    name: str | None
    """The name of the model or run; None: not given."""
    step: int | None
    """The epoch or step; None: not given."""
    time: datetime
    """The time of saving."""
    version: str
    """The version of boxscore that computed the numbers."""
    numbers: dict[str, float]
    """The numbers by name; NaN: undefined."""
    title: str
    """The title of the protocol."""
    comparable: str
    """Whether the numbers may be compared with published ones, in words."""
    num_given: int | None
    stored: Stored | None


def save_result(result: Result, path: str | PathLike[str], *, name: str | None = None, step: int | None = None) -> None:
    """Write the result, and create missing folders. After an error, the path is unchanged."""
    if name is not None and not isinstance(name, str):
        raise InputError(f"`name` must be text; got {type(name).__name__}")
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63):
        raise InputError(f"`step` must be a non-negative integer; got {step!r}")
    target = Path(path)
    header = storage.header_of(result.tally, result=_described(result, name, step))
    content = blocks.pieces(KIND, header, storage.columns_of(result.tally))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: can't be written: {error.strerror}") from None
    write_file(target, content)


def _described(result: Result, name: str | None, step: int | None) -> dict[str, Any]:
    names = result.image_names
    return {
        "version": boxscore.__version__,
        "name": name,
        "step": step,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "numbers": {number: number_or_none(value) for number, value in result.items()},
        "title": result.protocol.title,
        "comparable": str(result.comparable),
        "num_given": result.num_given,
        "subset": list(result.subset),
        "image_names": None if names is None else [[int(image), file] for image, file in names.items()],
    }


def read_saved(path: str | PathLike[str], *, max_header: int = _MAX_HEADER) -> tuple[Tally, Header | None]:
    """Read the tally and the header of a file of `Result.save`; a file of `Tally.save` has no header.

    Args:
        path: The file. Any other file, and a truncated or damaged one, is an `InputError`.
        max_header: A header of more bytes is an `InputError`; JSON takes ten times as much memory.
    """
    content, source = blocks.read_block(path, KIND), str(path)
    if content.startswith(blocks.magic(storage.KIND)):
        return storage.from_bytes(content, source), None
    block = blocks.split(KIND, content, source, max_header)
    blocks.check_end(KIND, block, source)
    try:
        header = _decoded(block.header["result"])
    except blocks.UNREADABLE as error:
        raise InputError(f"the saved result is invalid: {error}", place=source) from None
    return storage.checked_tally(block.header, block.columns, source), header


def _decoded(header: Any) -> Header:
    """Decode the header from JSON. Raise one of `blocks.UNREADABLE` if it is invalid."""
    names, numbers, subset = header["image_names"], header["numbers"], header["subset"]
    for key in ("version", "title", "comparable", *(["name"] if header["name"] is not None else [])):
        if not isinstance(header[key], str):
            raise ValueError(f"`{key}` must be text")
    for key in ("step", "num_given"):
        value = header[key]
        if value is not None and (type(value) is not int or not 0 <= value < 2**63):
            raise ValueError(f"`{key}` must be a non-negative integer")
    if not all(value is None or is_number(value) for value in numbers.values()):
        raise ValueError("`numbers` must be finite")
    if not isinstance(subset, list) or not all(isinstance(each, str) for each in subset):
        raise ValueError("`subset` must be a list of texts")
    for image, file in names or ():
        if type(image) is not int or not -(2**63) <= image < 2**63 or not isinstance(file, str):
            raise ValueError("`image_names` must be pairs of an id and a name")
    return Header(
        name=header["name"],
        step=header["step"],
        time=datetime.fromisoformat(header["time"]).astimezone(UTC),
        version=header["version"],
        numbers={name: math.nan if value is None else float(value) for name, value in numbers.items()},
        title=header["title"],
        comparable=header["comparable"],
        num_given=header["num_given"],
        stored=Stored(image_names=None if names is None else dict(names), subset=tuple(subset)),
    )
