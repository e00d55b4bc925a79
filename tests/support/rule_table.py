"""The tables of docs/reference/protocols.md: every rule of every protocol, their fields, and the known tools.

`python -m tests.support.rule_table` writes them there.
"""

import ast
import inspect
import math
from dataclasses import fields
from itertools import pairwise
from typing import Any

from boxscore._support import text
from boxscore.analysis.known_tools import TOOLS
from boxscore.protocol.protocol import KeypointRules, Protocol
from boxscore.protocol.table import NAMED
from boxscore.protocol.words import IDEAS
from boxscore.protocol.words import RULES as RULE_WORDS
from tests.support.documents import write_parts

PAGE = "docs/reference/protocols.md"


def rule_table() -> str:
    """One row per field, one column per protocol, and what decides it."""
    shown = [entry.protocol for name, entry in NAMED.items() if not name.startswith("coco_wholebody_")]
    head = ["", *(f"`{protocol.name}`" for protocol in shown)]
    rows = [[f"`{field.name}`", *(_cell(protocol, field.name) for protocol in shown)] for field in _fields()]
    rows.append(["reference", *(NAMED[protocol.name].reference for protocol in shown)])
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _fields() -> list[Any]:
    return [field for field in fields(Protocol) if field.name != "name"]


def field_table() -> str:
    """One table per idea, one row per field: its meaning, and its values in words."""
    meanings, tables = _docstrings(), []
    for idea, names in IDEAS.items():
        lines = [["field", "meaning", "values"], ["---"] * 3]
        lines += [[f"`{name}`", meanings[name], _values(name)] for name in names]
        tables.append(f"### {idea.capitalize()}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(tables)


def _docstrings() -> dict[str, str]:
    """The first sentence of what `Protocol` says of each of its fields."""
    (definition,) = ast.parse(inspect.getsource(Protocol)).body
    assert isinstance(definition, ast.ClassDef)
    sentences = {}
    for field, said in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(said, ast.Expr):
            assert isinstance(said.value, ast.Constant)
            sentence = " ".join(str(said.value.value).split()).split(". ")[0]
            sentences[field.target.id] = sentence.removesuffix(".")
    return sentences


def _values(field: str) -> str:
    return "; ".join(f"`{value}`: {each.words}" for value, each in RULE_WORDS[field].choices.items())


def _cell(protocol: Protocol, name: str) -> str:
    value: Any = getattr(protocol, name)
    if name == "thresholds":
        return text.thresholds(value)
    if name == "recall_points" and not protocol.uses_recall_points:
        return "-"
    if name in ("recall_points", "sigmas"):
        return str(len(value)) if value else "-"
    if name == "areas":
        return ", ".join(area.name for area in value)
    if name == "limits":
        return ", ".join("all" if limit is None else f"{limit:,}" for limit in value)
    if name == "keypoints":
        usual = KeypointRules()._asdict()
        changed = {key: each for key, each in value._asdict().items() if each != usual[key]}
        return ", ".join(f"{key} {each}" for key, each in changed.items()) or "-"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "2⁻⁵²" if math.isclose(value, 2.0**-52) else f"{value:g}"
    return "-" if value is None else str(value)


def tool_table() -> str:
    """One row per tool."""
    rows = [[f"`{tool.name}`", tool.title, tool.note, tool.source] for tool in TOOLS.values()]
    lines = [["`--from`, `--to`", "tool", "what to know", "rules from"], ["---"] * 4, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def expected() -> dict[str, str]:
    """The generated parts of the page, by the name in the comments around them."""
    return {"every rule of every protocol": rule_table(), "every field": field_table(), "known tools": tool_table()}


if __name__ == "__main__":
    write_parts(PAGE, expected())
