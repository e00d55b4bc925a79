"""The tables of `boxscore eval`: for the terminal, for JSON, and exported."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from boxscore._support import text
from boxscore.cli.input_files import Model
from boxscore.cli.terminal import styled
from boxscore.protocol.measures import meanings
from boxscore.result.summary import Summary, has_ap_50

if TYPE_CHECKING:
    from boxscore.analysis.bootstrap import Intervals
    from boxscore.result.result import Result


class Part(NamedTuple):
    """The result of one file of detections, or of one group of its images."""

    model: Model
    group: str | None
    summary: Summary
    num_images: int = 0
    """Number of images of the group, or of all images; 0 if they were not counted."""
    result: "Result | None" = None
    """The result behind the summary; None if it comes from the fast path."""
    intervals: "Intervals | None" = None
    analyses: Mapping[str, Any] = {}
    """Requested analyses, by their key in JSON."""

    @property
    def iou_type(self) -> str:
        """The similarity that was evaluated."""
        return self.summary.protocol.iou_type


def text_of(parts: Sequence[Part], *, is_per_class: bool) -> str:
    """Text of the tables, similarity by similarity, then of the requested analyses."""
    tables = [_tables(of_type, is_per_class=is_per_class) for of_type in _by_iou_type(parts).values()]
    for name, part in zip(names_of(parts), parts, strict=True):
        heading = f"{styled(text.line(name), 'bold', sys.stdout)}: " if len(parts) > 1 else ""
        tables += [f"{heading}{analysis}" for analysis in part.analyses.values()]
    return "\n\n".join(tables)


def exported_table(kind: str, parts: Sequence[Part]) -> str:
    """Text of the numbers as a table in a file."""
    from boxscore.report.exports import to_csv, to_latex, to_markdown

    if kind == "csv":
        return to_csv(*_columns(parts, is_always_named=True))
    return f"{(to_latex if kind == 'latex' else to_markdown)(*_columns(parts))}\n"


def json_document(parts: Sequence[Part], min_score: float | None) -> Any:
    """The document for JSON: `Result.to_dict()`, with the groups under `slices`.

    For several files it is a list of these; for several similarities a dict of these by similarity.
    """
    of_types = _by_iou_type(parts)
    if len(of_types) > 1:
        return {iou_type: json_document(of_type, min_score) for iou_type, of_type in of_types.items()}
    selection = {} if min_score is None else {"min_score": min_score}
    documents: list[dict[str, Any]] = []
    for part in parts:
        if part.group is None:
            named = {"name": part.model.name} if part.model.is_named else {}
            documents.append({"detections": part.model.path, **named, **_document(part), **selection})
        else:
            values = {"num_images": part.num_images, **_document(part)}
            documents[-1].setdefault("slices", {})[part.group] = values
    if len(documents) > 1:
        return documents
    return {key: value for key, value in documents[0].items() if key != "detections"}


def names_of(parts: Sequence[Part]) -> list[str]:
    """The name of each part: the file; with several parts, the file, group and similarity that tell them apart."""
    of_types = _by_iou_type(parts)
    names = [[each[0].model.name] if len(each) == 1 else _heads(each) for each in of_types.values()]
    if len(of_types) == 1:
        return names[0]
    return [
        iou_type if len(of_type) == 1 else f"{name} {iou_type}"
        for iou_type, of_type in zip(of_types, names, strict=True)
        for name in of_type
    ]


def _by_iou_type(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each similarity."""
    return {
        each: [part for part in parts if part.iou_type == each] for each in dict.fromkeys(p.iou_type for p in parts)
    }


def _tables(parts: Sequence[Part], *, is_per_class: bool) -> str:
    if len(parts) == 1:
        summary = parts[0].summary
        title, _, rest = str(summary).partition("\n")
        tables = [f"{styled(title, 'bold', sys.stdout)}\n{rest}"]
        return "\n\n".join([*tables, summary.class_table] if is_per_class else tables)
    first = parts[0].summary
    names = _heads(parts)
    rows = [
        [
            name,
            *(_cell(part.summary, name) for part in parts),
            *meaning,
        ]
        for name, meaning in meanings(first.protocol)
    ]
    if any(part.group is not None for part in parts):
        rows.append(["images", *(f"{part.num_images:,}" for part in parts), *[""] * 4])
        nums = (sum(row.num_truths for row in part.summary.per_class) for part in parts)
        rows.append(["truths", *(f"{num:,}" for num in nums), *[""] * 4])
    align = "<" + ">" * len(parts)
    numbers = text.table(
        rows,
        align=f"{align}<<<<",
        header=[first.protocol.title, *names, "", first.protocol.similarity, "area", "limit"],
    )
    tables = [numbers] if first.confidence is None else [first.confidence.title, numbers]
    tables.append(_comparable(parts, names))
    if is_per_class:
        classes = [
            [row.name, *(_class_cell(part.summary, k) for part in parts)] for k, row in enumerate(first.per_class)
        ]
        tables.append(text.table(classes, align=align, header=["AP by class", *names]))
        if has_ap_50(first.protocol.thresholds):
            halves = [
                [row.name, *(text.fraction(part.summary.per_class[k].ap_50) for part in parts)]
                for k, row in enumerate(first.per_class)
            ]
            tables.append(text.table(halves, align=align, header=["AP50 by class", *names]))
    return "\n\n".join(tables)


def _cell(summary: Summary, name: str) -> str:
    value, confidence = text.fraction(summary.numbers[name]), summary.confidence
    return value if confidence is None else f"{value} {confidence.numbers[name]}"


def _class_cell(summary: Summary, k: int) -> str:
    value, confidence = text.fraction(summary.per_class[k].ap), summary.confidence
    return value if confidence is None else f"{value} {confidence.ap[k]}"


def _comparable(parts: Sequence[Part], names: Sequence[str]) -> str:
    """Say whether the numbers of each file are comparable with published ones; once if it is the same for all.

    If groups are not comparable, a last line says so.
    """
    pairs = zip(names, parts, strict=True)
    sentences = {name: part.summary.comparable.sentence for name, part in pairs if part.group is None}
    lines = [f"{text.line(name)}: {sentence}" for name, sentence in sentences.items()]
    if len(set(sentences.values())) == 1:
        lines = [next(iter(sentences.values()))]
    if any(part.group is not None and not part.summary.comparable for part in parts):
        lines.append("slices are not comparable with published numbers: they have a part of the images")
    return "\n".join(lines)


def _heads(parts: Sequence[Part]) -> list[str]:
    """The name of each column: the file, the group, or both."""
    if sum(part.group is None for part in parts) > 1:
        return [part.model.name if part.group is None else f"{part.model.name}: {part.group}" for part in parts]
    everything = "all images" if any(part.group == "all" for part in parts) else "all"
    return [everything if part.group is None else part.group for part in parts]


def _document(part: Part) -> dict[str, Any]:
    return part.summary.to_dict() | {name: analysis.to_dict() for name, analysis in part.analyses.items()}


def _columns(
    parts: Sequence[Part], *, is_always_named: bool = False
) -> tuple[list[Summary], list[str] | None, list[str] | None]:
    """The summaries, and the columns for models and groups: None for one unnamed model, and without groups."""
    groups = [part.group or "" for part in parts]
    is_named = is_always_named or any(part.model.is_named for part in parts) or groups.count("") > 1
    has_several = len(_by_iou_type(parts)) > 1
    heads = [f"{part.model.name} {part.iou_type}" if has_several else part.model.name for part in parts]
    names = heads if is_named else None
    return [part.summary for part in parts], names, groups if any(groups) else None
