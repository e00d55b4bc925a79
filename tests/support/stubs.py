"""The types of the compiled module, as mypy reads them: `make stubs` writes them to src/boxscore/_compiled.pyi."""

import re
from pathlib import Path

from nanobind.stubgen import StubGen

from boxscore import _compiled

PATH = Path(__file__).parents[2] / "src" / "boxscore" / "_compiled.pyi"

_GENERIC = {
    r"Annotated\[NDArray, dict\([^)]*\)\]": "NDArray[Any]",
    r"\bobject\b": "Any",  # what C++ hands on as it came, and arrays of which it does not tell the dtype
    r"(-> |: )dict\b(?!\[)": r"\1dict[str, Any]",
    r"(-> |: )tuple\b(?!\[)": r"\1tuple[Any, ...]",
    r"(-> |: )list\b(?!\[)": r"\1list[Any]",
    r"^from typing import .*$": "from typing import Any",
}


def make_stub() -> str:
    """The stub by nanobind's generator, with arguments for the generic types that it leaves open."""
    generator = StubGen(_compiled)
    generator.put(_compiled)
    text: str = generator.get()
    for pattern, replacement in _GENERIC.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return f"# Made by `make stubs`, not by hand.\n{text}"


if __name__ == "__main__":
    PATH.write_text(make_stub())
