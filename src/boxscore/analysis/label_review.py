"""Label errors: truths that are likely wrong, because confident detections contradict them, ranked by suspicion.

    missing      a confident detection with no truth near it
    wrong class  a confident detection on a truth of another class
    misplaced    a confident detection near a truth of its class, but not on it
    spurious     a truth on which no detection is, of any class and score, and near which none of its class is

The suspicion of the first three is the mean over the models of `max(0, for - against)`: `for` is the score of the
model's confident detection that contradicts the truth, 0 if it has none; `against` is the score of its true positive on
that truth, 0 if it has none. So one model counts with its score, and several models only where they agree. The
suspicion of a spurious truth is the mean over the models of their recall, by confident detections, of similar truths:
truths of its class with half to twice its area.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.label_suspects import NONE, Evidence, Suspect, find_suspects
from boxscore.analysis.pairing import Pairing, pair_inputs
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths, host_ids
from boxscore.protocol.fields import check_choice, check_fraction
from boxscore.protocol.protocol import difference_of
from boxscore.result.curves import Floats, Ints
from boxscore.result.result import Result, inputs_of
from boxscore.result.summary import number_or_none

KINDS = {
    "missing": "a confident detection with no truth near it",
    "wrong_class": "a confident detection on a truth of another class",
    "misplaced": "a confident detection near a truth of its class, but not on it",
    "spurious": "a truth on which no detection is",
}
"""The kinds of label errors. Ties in suspicion are in this order."""

CONTRADICTED = ("missing", "wrong_class", "misplaced")
"""The kinds with detections as evidence. Without detections, it is more likely that the model missed the object."""

MOST_ROWS = 20
"""Maximum number of rows in the printed table."""

_ORDER = tuple(KINDS)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class LabelErrors:
    """Truths that are likely wrong, by descending suspicion, one row per case. `print` shows a table.

    Ties are ordered by kind, then image, then row.
    """

    kind: tuple[str, ...]
    """One of "missing", "wrong_class", "misplaced" or "spurious". Length N."""
    suspicion: Floats
    """From 0 to 1, if scores are. Shape (N,)."""
    num_models: Ints
    """Number of models that agree. Shape (N,)."""
    image: Ints
    """Image ids. Shape (N,)."""
    name: tuple[str, ...]
    """File names of the images, or ids as text. Length N."""
    truth: Ints
    """The row of the truth in the truths, from 0; -1: missing. Shape (N,)."""
    label: Ints
    """The label of the truth; -1: missing. Shape (N,)."""
    suggested_label: Ints
    """The label of the detections; -1: no detections. Shape (N,)."""
    truth_box: Floats
    """The box around the truth: left, top, right, bottom; NaN: missing. Shape (N, 4)."""
    suggested_box: Floats
    """The box around the detection with the highest score; NaN: no detections. Shape (N, 4)."""
    model: Ints
    """The index of the result with this detection; -1: no detections. Shape (N,)."""
    detection: Ints
    """The row of this detection in its detections; -1: no detections. Shape (N,)."""
    class_names: Mapping[int, str]
    """Class names by label."""
    results: tuple[Result, ...]
    """The reviewed results, one per model."""

    def __len__(self) -> int:
        return len(self.kind)

    def of_kind(self, kind: str) -> "LabelErrors":
        """The cases of one kind.

        Args:
            kind: "missing", "wrong_class", "misplaced" or "spurious".
        """
        check_choice("kind", kind, KINDS)
        return self.take([i for i, each in enumerate(self.kind) if each == kind])

    def first(self, num: int) -> "LabelErrors":
        """The `num` cases with the highest suspicion."""
        return self.take(range(min(num, len(self))))

    def take(self, rows: Sequence[int]) -> "LabelErrors":
        """The cases at these indices."""
        index = np.asarray(rows, np.int64)
        columns: dict[str, Any] = {name: getattr(self, name)[index] for name in _ARRAYS}
        columns |= {name: tuple(getattr(self, name)[i] for i in rows) for name in ("kind", "name")}
        return replace(self, **columns)

    def name_of(self, label: int) -> str | None:
        """The name of a class, or its label as text; None for no label."""
        return None if label == NONE else str(self.class_names.get(label, label))

    def rows(self) -> list[dict[str, Any]]:
        """One dict per case, ready for JSON; absent values are None."""
        return [
            {
                "kind": self.kind[i],
                "suspicion": float(self.suspicion[i]),
                "num_models": int(self.num_models[i]),
                "image": int(self.image[i]),
                "name": self.name[i],
                "truth": _or_none(self.truth[i]),
                "label": self.name_of(int(self.label[i])),
                "suggested_label": self.name_of(int(self.suggested_label[i])),
                "truth_box": _box(self.truth_box[i]),
                "suggested_box": _box(self.suggested_box[i]),
                "model": _or_none(self.model[i]),
                "detection": _or_none(self.detection[i]),
            }
            for i in range(len(self))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: `num_models`, and `cases`, one dict per case."""
        return {"num_models": len(self.results), "cases": self.rows()}

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """CSV with one case per line, boxes in four columns.

        Args:
            path: File to write; None: return the text instead.
        """
        from boxscore.report import exports

        sides = ("left", "top", "right", "bottom")
        boxes = [f"{whose}_{each}" for whose in ("truth", "suggested") for each in sides]
        names = ("kind", "suspicion", "num_models", "image", "name", "truth", "label", "suggested_label")
        lines: list[list[Any]] = [[*names, *boxes]]
        for row in self.rows():
            both = [value for name in ("truth_box", "suggested_box") for value in row[name] or [None] * 4]
            lines.append([*(row[name] for name in names), *both])
        return exports.save(exports.as_csv(lines), path)

    @overload
    def to_html(
        self,
        path: None = None,
        *,
        title: str = "Label errors",
        made_from: Mapping[str, str] | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> str: ...
    @overload
    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Label errors",
        made_from: Mapping[str, str] | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> None: ...
    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "Label errors",
        made_from: Mapping[str, str] | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> str | None:
        """HTML page with all cases, in one file that opens offline.

        Args:
            path: File to write; None: return the text instead.
            title: Title of the page.
            made_from: Descriptions of the inputs, by name.
            image_folder: Folder with the images, for pictures of the first cases; as in `Result.to_html`.
            num_pictures: Number of cases with a picture; default: 60.
            picture_bytes: Size limit of the pictures; as in `Result.to_html`.
        """
        from boxscore.report import exports
        from boxscore.report.gallery import Gallery
        from boxscore.report.label_error_page import NUM_CASES, make_page

        num = NUM_CASES if num_pictures is None and image_folder is not None else num_pictures
        gallery = Gallery.of(image_folder, num, picture_bytes)
        return exports.save(make_page(self, title=title, made_from=made_from or {}, gallery=gallery), path)

    def __repr__(self) -> str:
        return f"LabelErrors({text.count(len(self), 'case')}, {text.count(len(self.results), 'model')})"

    def __str__(self) -> str:
        shown = [kind for kind in KINDS if kind in (*CONTRADICTED, *self.kind)]
        counts = ", ".join(f"{self.kind.count(kind):,} {kind.replace('_', ' ')}" for kind in shown)
        title = f"{text.count(len(self), 'suspicious label')} from {text.count(len(self.results), 'model')}: {counts}"
        cells = [
            [
                f"{row['suspicion']:.4f}",
                row["kind"].replace("_", " "),
                row["name"],
                "-" if row["truth"] is None else str(row["truth"]),
                row["label"] or "-",
                row["suggested_label"] or "-",
                f"{row['num_models']} of {len(self.results)}",
            ]
            for row in self.first(MOST_ROWS).rows()
        ]
        header = ["suspicion", "kind", "image", "truth", "label", "suggested", "models"]
        more = len(self) - len(cells)
        rest = f"\n… and {more:,} more" if more else ""
        return f"{title}\n\n{text.table(cells, align='><<><<>', header=header)}{rest}" if cells else title


_ARRAYS = (
    *("suspicion", "num_models", "image", "truth", "label", "suggested_label", "truth_box", "suggested_box"),
    *("model", "detection"),
)


def _or_none(row: Any) -> int | None:
    return None if row == NONE else int(row)


def _box(box: Floats) -> list[float | None] | None:
    return None if np.isnan(box).any() else [number_or_none(float(value)) for value in box]


def label_errors(
    results: Result | Sequence[Result] | Mapping[str, Result],
    *,
    score: float | None = None,
    iou: float | None = None,
    background: float = 0.1,
    kinds: Sequence[str] = CONTRADICTED,
    threads: int | None = None,
) -> LabelErrors:
    """Find truths that are likely wrong, because confident detections of one or more models contradict them.

    Args:
        results: Results with `inputs`: of one model, or of several on the same truths under the same protocol. The more
            models agree, the higher the suspicion.
        score: Detections with at least this score are confident; default: each model's threshold with the best F1.
        iou: IoU threshold of a match, as in `Result.errors`; also for two models to agree.
        background: A detection whose IoU with every truth is at most this has no truth near it.
        kinds: Some of "missing", "wrong_class", "misplaced" and, not by default, "spurious".
        threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.

    >>> from boxscore import Detections, Truths, evaluate
    >>> box = [[0, 0, 9, 9], [20, 0, 29, 9], [40, 0, 49, 9]]
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 2], boxes=box[:2], class_names={1: "cat", 2: "dog"})
    >>> result = evaluate(Detections(image_ids=[0] * 3, labels=[1, 1, 2], scores=[0.9, 0.8, 0.7], boxes=box), truths)
    >>> print(label_errors(result, score=0.5))
    2 suspicious labels from 1 model: 1 missing, 1 wrong class, 0 misplaced
    <BLANKLINE>
    suspicion  kind         image  truth  label  suggested  models
    ---------  -----------  -----  -----  -----  ---------  ------
       0.8000  wrong class  0          1  dog    cat        1 of 1
       0.7000  missing      0          -  -      dog        1 of 1
    """
    models = _models(results)
    check_fraction("background", background)
    for kind in kinds:
        check_choice("kinds", kind, KINDS)
    pairings = [pair_inputs(each, "`label_errors`", iou, threads) for each in models]
    evidence = [Evidence.of(each, score, background) for each in pairings]
    return _named_cases(models, pairings, find_suspects(evidence, dict.fromkeys(kinds)))


def _models(results: Any) -> list[Result]:
    """Validate the results, which must have the same truths in the same order."""
    given = [results] if isinstance(results, Result) else results
    given = list(given.values()) if isinstance(given, Mapping) else given
    if not isinstance(given, Sequence) or not given or not all(isinstance(each, Result) for each in given):
        raise InputError(f"`results` must be a boxscore.Result, or several of them; got {type(results).__name__}")
    truths = [inputs_of(each, "`label_errors`").truths for each in given]
    for index, other in enumerate(truths[1:], 1):
        if given[index].protocol != given[0].protocol:
            difference = difference_of(given[0].protocol, given[index].protocol)
            rule = f"`results` must have one protocol; the first and number {index + 1} have different ones"
            raise InputError(f"{rule} ({difference})")
        if not all(map(np.array_equal, _columns(truths[0]), _columns(other))):
            raise InputError(f"`results` must have the same truths; the first and number {index + 1} have others")
    return list(given)


def _named_cases(models: Sequence[Result], pairings: Sequence[Pairing], suspects: Sequence[Suspect]) -> LabelErrors:
    """The cases in their order, with names, labels and boxes."""
    inputs = [inputs_of(each, "`label_errors`") for each in models]
    truths = inputs[0].truths
    own = _columns(truths)
    others = [_columns(each.detections) for each in inputs]
    nothing = _Row(NONE, NONE, NONE, np.full(4, np.nan))
    cases = []
    for suspect in suspects:
        truth = detection = nothing
        if suspect.truth != NONE:
            truth = _row(own, int(pairings[0].truth_row[suspect.truth]))
        if suspect.detection != NONE:
            detection = _row(others[suspect.model], int(pairings[suspect.model].detection_row[suspect.detection]))
        cases.append(_Case(suspect, truth, detection))
    cases.sort(key=_Case.order)
    names = truths.image_names or {}
    images = [(case.truth if case.truth.row != NONE else case.detection).image for case in cases]
    class_names = dict(zip(models[0].per_class.label.tolist(), models[0].per_class.name, strict=True))
    return LabelErrors(
        kind=tuple(case.suspect.kind for case in cases),
        suspicion=np.array([case.suspect.suspicion for case in cases], np.float64),
        num_models=np.array([case.suspect.num_models for case in cases], np.int64),
        image=np.array(images, np.int64),
        name=tuple(str(names.get(image, image)) for image in images),
        truth=np.array([case.truth.row for case in cases], np.int64),
        label=np.array([case.truth.label for case in cases], np.int64),
        suggested_label=np.array([case.detection.label for case in cases], np.int64),
        truth_box=np.array([case.truth.bounds for case in cases], np.float64).reshape(-1, 4),
        suggested_box=np.array([case.detection.bounds for case in cases], np.float64).reshape(-1, 4),
        model=np.array([case.suspect.model for case in cases], np.int64),
        detection=np.array([case.detection.row for case in cases], np.int64),
        class_names=class_names | (truths.names_by_label or {}),
        results=tuple(models),
    )


class _Row(NamedTuple):
    """A truth or a detection as it was given."""

    row: int
    image: int
    label: int
    bounds: Floats


class _Case(NamedTuple):
    """A suspect with its truth and its detection."""

    suspect: Suspect
    truth: _Row
    detection: _Row

    def order(self) -> tuple[float, int, int, int, int]:
        """Sort key of cases."""
        image = self.truth.image if self.truth.row != NONE else self.detection.image
        return -self.suspect.suspicion, _ORDER.index(self.suspect.kind), image, self.truth.row, self.detection.row


def _row(columns: tuple[NDArray[Any], ...], row: int) -> _Row:
    image, label, box = columns
    return _Row(row, int(image[row]), int(label[row]), box[row])


def _columns(side: Detections | Truths) -> tuple[NDArray[Any], ...]:
    """Images, labels, and boxes around the shapes."""
    return host_ids(side.image_ids), host_ids(side.labels), to_numpy(side.geometry.outer_boxes())
