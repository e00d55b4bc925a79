"""Pages of the report: the sample's files, and what is seen in a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from boxscore.cli import sample

TRUTHS, DETECTIONS = str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")

Open = Callable[..., Page]
"""Shows HTML in a browser; `width` in pixels, other settings as Playwright has them."""

HOSTILE = [
    "</script><img src=x onerror=\"alert('script')\">",
    "<!--<script>",
    "'\"><svg onload=alert(1)>",
    "${alert(2)} {{alert(3)}} datum['x'] a.b[c]",
    "\u202eright to left \u05d0\u05d1\u05d2",
    "line\u2028and\u2029paragraph\n\ttab\0",
    "日本語 🚲 é",
    "half a pair \ud800",
    "__proto__",
    "constructor",
]
"""Names that would do harm if they became markup or code."""


def classes_shown(page: Page) -> list[str]:
    """The rows of the table of classes, in their order."""
    return page.get_by_role("table", name="Classes").locator("tbody th").all_text_contents()


def write_fewer(folder: Path, name: str = "fewer.json") -> str:
    """Every other detection of the sample."""
    path = folder / name
    path.write_text(json.dumps(json.loads(Path(DETECTIONS).read_text())[::2]))
    return str(path)


def boxes_too_narrow(page: Page) -> dict[str, Any]:
    """The boxes of tables that are wider than they are seen, by name."""
    found: dict[str, Any] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".scroll")]
            .filter((box) => box.scrollWidth > box.clientWidth)
            .map((box) => [box.getAttribute("aria-label"), [box.scrollWidth, box.clientWidth]]))"""
    )
    return found
