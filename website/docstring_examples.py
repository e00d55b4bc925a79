"""An extension of griffe: docstrings of this repository as Markdown.

Examples (`>>>`) become code blocks, as Markdown takes them for quotations. Public classes in backticks become links.
"""

import re
from typing import Any

import griffe

import boxscore

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.MULTILINE)
"""An example from its first prompt to the next blank line."""

CLASS = re.compile(rf"`({'|'.join(name for name in boxscore.__all__ if name[0].isupper())})`")
"""The name of a public class."""


class DocstringExamples(griffe.Extension):
    """Prepares docstrings for the site."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that griffe finds in the sources."""
        if obj.docstring is not None:
            text = CLASS.sub(r"[`\1`][boxscore.\1]", obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
