"""The documents of the repository."""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of one language in a document."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def generated_parts(document: str) -> dict[str, str]:
    """The parts of a document between `<!-- NAME -->` and `<!-- end of NAME -->`, by name."""
    text = (ROOT / document).read_text()
    return dict(re.findall(r"<!-- ([a-z0-9 -]+) -->\n(.*?)<!-- end of \1 -->\n", text, flags=re.DOTALL))


def write_parts(document: str, parts: Mapping[str, str]) -> None:
    """Replace parts of a document."""
    content = (ROOT / document).read_text()
    for name, part in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        content = f"{content.split(start)[0]}{start}{part}{end}{content.split(end)[1]}"
    (ROOT / document).write_text(content)
