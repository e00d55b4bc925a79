"""The table of docs/protocols.md, every rule of every protocol; `python -m tests.support.rule_table` writes it there."""

import math
from dataclasses import fields
from typing import Any

from boxscore._support import text
from boxscore.model.keypoint_rules import KeypointRules
from boxscore.model.protocol import Protocol
from boxscore.model.protocol_table import PROTOCOLS, REFERENCES
from tests.support.documents import ROOT

START, END = "<!-- every rule of every protocol -->\n", "<!-- end of the table -->\n"


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


def documented() -> str:
    """The table as the docs have it."""
    return (ROOT / "docs" / "protocols.md").read_text().split(START)[1].split(END)[0]


def write() -> None:
    """The docs have the table."""
    path = ROOT / "docs" / "protocols.md"
    content = path.read_text()
    path.write_text(f"{content.split(START)[0]}{START}{rule_table()}{END}{content.split(END)[1]}")


if __name__ == "__main__":
    write()
