"""The tables of docs/reference/protocols.md: every rule of every protocol, and the known tools.

`python -m tests.support.rule_table` writes them there.
"""

import math
from dataclasses import fields
from typing import Any

from boxscore._support import text
from boxscore.analysis.known_tools import TOOLS
from boxscore.protocol.keypoint_rules import KeypointRules
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS, REFERENCES
from tests.support.documents import ROOT

USES_RECALL_POINTS = ("recall_points", "interpolated", "linear_points", "linear_points_to_end")
"""The rules of AP that are made from recall points."""

PATH = ROOT / "docs" / "reference" / "protocols.md"
RULES = "<!-- every rule of every protocol -->\n", "<!-- end of the table -->\n"
TOOLS_BETWEEN = "<!-- known tools -->\n", "<!-- end of the tools -->\n"


def rule_table() -> str:
    """One row per field, one column per protocol, and what decides it."""
    shown = [PROTOCOLS[name] for name in REFERENCES]
    head = ["", *(f"`{protocol.name}`" for protocol in shown)]
    rows = [[f"`{field.name}`", *(_cell(protocol, field.name) for protocol in shown)] for field in _fields()]
    rows.append(["reference", *(REFERENCES[protocol.name] for protocol in shown)])
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _fields() -> list[Any]:
    return [field for field in fields(Protocol) if field.name != "name"]


def _cell(protocol: Protocol, name: str) -> str:
    value: Any = getattr(protocol, name)
    if name == "thresholds":
        return text.thresholds(value)
    if name == "recall_points" and protocol.ap not in USES_RECALL_POINTS:
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


def documented(between: tuple[str, str]) -> str:
    """A table as the docs have it, by the comments around it."""
    start, end = between
    return PATH.read_text().split(start)[1].split(end)[0]


def write() -> None:
    """The docs have the tables."""
    for (start, end), table in ((RULES, rule_table()), (TOOLS_BETWEEN, tool_table())):
        content = PATH.read_text()
        PATH.write_text(f"{content.split(start)[0]}{start}{table}{end}{content.split(end)[1]}")


if __name__ == "__main__":
    write()
