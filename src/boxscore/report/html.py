"""The report as one HTML file that opens offline and runs only its own scripts.

The template, styles and scripts are in the folder `page`; the chart library is embedded in the file, too.
"""

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any, overload

import boxscore
from boxscore._support.exceptions import InputError
from boxscore.analysis.bootstrap import Intervals
from boxscore.analysis.comparison import Comparison
from boxscore.analysis.explanation import Explanation
from boxscore.protocol.protocol import check_alike
from boxscore.report.charts import chart_script
from boxscore.report.contents import default_resamples, describe
from boxscore.report.exports import save
from boxscore.report.gallery import Gallery
from boxscore.result.result import Result

SCRIPTS = (
    "elements.js",
    "data.js",
    "tables.js",
    "charts.js",
    "sections.js",
    "theme.js",
    "overview.js",
    "comparison.js",
    "explanation.js",
    "curves.js",
    "sizes_and_scores.js",
    "mistakes.js",
    "page.js",
)
"""The scripts of the page, concatenated in this order into one function."""

STYLES = ("style.css", "tables.css", "screens.css")
"""The styles of the page, in this order: rules for some screens come last."""

PICTURE_SCRIPTS, PICTURE_STYLES = ("gallery.js",), ("gallery.css",)
"""Scripts and styles of pages with pictures."""


def sample_intervals(
    results: Mapping[str, Result], resamples: int | None = None, **options: Any
) -> dict[str, Intervals]:
    """Compute the confidence intervals of each result, by name; results with 0 resamples are omitted.

    `resamples`: default: 1,000, or 0 if they would take minutes. `options`: options of `Result.intervals`.
    """
    nums = {name: default_resamples(each) if resamples is None else resamples for name, each in results.items()}
    return {name: results[name].intervals(resamples=num, **options) for name, num in nums.items() if num}


@overload
def make_report(
    results: Mapping[str, Result],
    path: None = None,
    *,
    title: str = "boxscore",
    made_from: Mapping[str, str] | None = None,
    intervals: Mapping[str, Intervals] | None = None,
    comparison: Comparison | None = None,
    explanation: Explanation | None = None,
    gallery: Gallery | None = None,
) -> str: ...
@overload
def make_report(
    results: Mapping[str, Result],
    path: str | os.PathLike[str],
    *,
    title: str = "boxscore",
    made_from: Mapping[str, str] | None = None,
    intervals: Mapping[str, Intervals] | None = None,
    comparison: Comparison | None = None,
    explanation: Explanation | None = None,
    gallery: Gallery | None = None,
) -> None: ...
def make_report(
    results: Mapping[str, Result],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "boxscore",
    made_from: Mapping[str, str] | None = None,
    intervals: Mapping[str, Intervals] | None = None,
    comparison: Comparison | None = None,
    explanation: Explanation | None = None,
    gallery: Gallery | None = None,
) -> str | None:
    """Make the HTML report on one or more models.

    Args:
        results: Results by name. All must have one protocol, except for its `iou_type`.
        path: File to write; None: return the text instead.
        title: Title of the report.
        made_from: Descriptions of the inputs, such as file names.
        intervals: Confidence intervals by the same names; default: `sample_intervals`; an empty mapping: none.
        comparison: The differences between the models.
        explanation: The path from the number of the first model to its number under other rules.
        gallery: Pictures of the worst images.
    """
    if not results:
        raise InputError("`results` must have at least one result; got none")
    check_alike(result.protocol for result in results.values())
    script = chart_script()
    if intervals is None:
        intervals = sample_intervals(results)
    contents = describe(results, intervals, made_from or {}, comparison, explanation, gallery)
    return save(render({"title": title, **contents}, script), path)


def render(contents: Mapping[str, Any], chart_script: str, scripts: Sequence[str] = SCRIPTS) -> str:
    """Render a page with these contents. `scripts`: files of the folder `page` that draw it.

    Text is embedded as JSON in a block that is not executed, or escaped. The content security policy allows the two
    scripts by their hashes; no other script, no evaluated code and no connection.
    """
    has_pictures = "pictures" in contents
    own = "\n".join(map(page_file, (*(PICTURE_SCRIPTS if has_pictures else ()), *scripts)))
    blocks = {"charts": _closed(chart_script), "script": _closed(f'"use strict";\n(() => {{\n{own}}})();')}
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, blocks.values())),
        "style-src": "'unsafe-inline'",  # Vega places its text with style attributes
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"img-src": "data:"} if has_pictures else {}),
    }
    return Template(page_file("template.html")).substitute(
        blocks,
        policy="; ".join(f"{directive} {sources}" for directive, sources in policy.items()),
        version=boxscore.__version__,
        title=escaped(contents["title"]),
        headline=escaped(contents["headline"]),
        style="\n".join(map(page_file, (*STYLES, *(PICTURE_STYLES if has_pictures else ())))),
        data=json_block(contents),
    )


def json_block(contents: Mapping[str, Any]) -> str:
    """JSON in ASCII that can't open or close an HTML element."""
    encoded = json.dumps(contents, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        encoded = encoded.replace(letter, f"\\u{ord(letter):04x}")
    return encoded


def escaped(text: str) -> str:
    """Text as HTML; characters that can't be encoded, such as lone surrogates in file names, become question marks."""
    return html.escape(text.encode("utf-8", "replace").decode())


def _closed(script: str) -> str:
    """The script, escaped so that it can't close its element."""
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def page_file(name: str) -> str:
    """Read a file of the page: the template, a script or a style."""
    return (files("boxscore.report") / "page" / name).read_text(encoding="utf-8")
