"""Suspects: truths that the detections of models contradict. `label_errors` ranks and names them.

Rows are rows of the pairings, whose order may differ from the inputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.analysis.operating_points import curve_of_pairs, given_or_best
from boxscore.analysis.pairing import Pairing, pair_rows
from boxscore.data.dataset import Detections, Truths, host_areas, host_ids, take
from boxscore.engines.native.pairs import nearest, side
from boxscore.result.curves import Floats, Ints
from boxscore.result.tally import FALSE, TRUE

NONE = -1
"""The row number that means no truth or no detection."""


class Suspect(NamedTuple):
    """One likely label error."""

    kind: str
    truth: int
    """The row of the truth, or -1."""
    model: int
    """The index of the model whose detection is the suggestion, or -1."""
    detection: int
    """The row of that detection, or -1."""
    suspicion: float
    num_models: int
    """Number of models that agree."""


def find_suspects(evidence: Sequence["Evidence"], kinds: Iterable[str]) -> list[Suspect]:
    """The suspects of these kinds, unsorted."""
    find = {"missing": _missing, "wrong_class": _wrong_class, "misplaced": _misplaced, "spurious": _spurious}
    return [suspect for kind in kinds for suspect in find[kind](evidence)]


class Evidence(NamedTuple):
    """The evidence of one model's detections about the truths. D detections, G truths."""

    pairing: Pairing
    score: Floats
    """Shape (D,)."""
    contradicts: Mapping[str, NDArray[np.bool_]]
    """Whether a detection is confident and contradicts the truths, by kind. Shape (D,) each."""
    near: Mapping[str, NDArray[np.int32]]
    """The truth that a detection contradicts, or -1, by kind. Shape (D,) each."""
    against: Floats
    """The score of the true positive of each truth, 0 if it has none. Shape (G,)."""
    is_unseen: NDArray[np.bool_]
    """Whether a truth counts, and no detection of any score is on it, nor near it with its class. Shape (G,)."""
    recall: Floats
    """For each truth, the recall of similar truths by confident detections. Shape (G,)."""

    @classmethod
    def of(cls, pairing: Pairing, score: float | None, background: float) -> "Evidence":
        """Collect the evidence of a pairing."""
        verdict, is_counted = pairing.verdict, pairing.is_counted
        is_false, is_true = verdict == FALSE, verdict == TRUE
        found, there = side(pairing.detections, is_false), side(pairing.truths, is_counted)
        near = nearest(found, there, pairing.protocol, pairing.threads)
        cutoff = pairing.protocol.cutoffs[0]
        reaches = np.greater if pairing.protocol.comparison == ">" else np.greater_equal
        is_on_own, is_on_other = reaches(near.own_iou, cutoff), reaches(near.other_iou, cutoff)
        scores = pairing.score.astype(np.float64)
        is_sure = pairing.score >= given_or_best(score, curve_of_pairs(pairing))
        is_confident = is_false & ~is_on_own & is_sure
        against = np.zeros(len(pairing.truths))
        against[pairing.truth[is_true]] = scores[is_true]
        is_seen = pairing.is_found()
        for rows, is_near in ((near.own, near.own_iou > background), (near.other, is_on_other)):
            is_seen[rows[is_false & is_near]] = True
        return cls(
            pairing=pairing,
            score=scores,
            contradicts={
                "missing": is_confident & (np.maximum(near.own_iou, near.other_iou) <= background),
                "wrong_class": is_confident & is_on_other,
                "misplaced": is_confident & ~is_on_other & (near.own_iou > background),
            },
            near={"wrong_class": near.other, "misplaced": near.own},
            against=against,
            is_unseen=is_counted & ~is_seen,
            recall=_recall_of_similar(pairing, pairing.is_found(is_sure)),
        )

    def rows(self, kind: str) -> Ints:
        """The detections that contradict the truths in this way, by descending score."""
        rows = np.flatnonzero(self.contradicts[kind])
        return rows[np.argsort(-self.score[rows], kind="stable")]


def _wrong_class(evidence: Sequence[Evidence]) -> list[Suspect]:
    """For each truth, the other class that has the highest suspicion."""
    support: dict[tuple[int, int], dict[int, int]] = {}
    for m, each in enumerate(evidence):
        for row in each.rows("wrong_class").tolist():
            key = int(each.near["wrong_class"][row]), int(each.pairing.label[row])
            support.setdefault(key, {}).setdefault(m, row)  # the first has the highest score
    return _one_per_truth(evidence, "wrong_class", ((truth, rows) for (truth, _), rows in support.items()))


def _misplaced(evidence: Sequence[Evidence]) -> list[Suspect]:
    """For each truth, the other position that has the highest suspicion."""
    groups = _agreeing(evidence, "misplaced")
    near = [each.near["misplaced"] for each in evidence]
    of_first = (int(near[min(rows)][rows[min(rows)]]) for rows in groups)
    return _one_per_truth(evidence, "misplaced", zip(of_first, groups, strict=True))


def _missing(evidence: Sequence[Evidence]) -> list[Suspect]:
    """Every position on which models agree; of overlapping ones, the one with the highest suspicion."""
    suspects = [_suspect(evidence, "missing", NONE, rows) for rows in _agreeing(evidence, "missing")]
    suspects.sort(key=lambda suspect: -suspect.suspicion)
    return _without_overlaps(evidence, suspects)


def _spurious(evidence: Sequence[Evidence]) -> list[Suspect]:
    """Truths that no model detects, although the models find similar ones."""
    is_unseen = np.logical_and.reduce([each.is_unseen for each in evidence])
    recall = np.mean([each.recall for each in evidence], axis=0)
    rows = np.flatnonzero(is_unseen & (recall > 0))
    return [Suspect("spurious", g, NONE, NONE, float(recall[g]), len(evidence)) for g in rows.tolist()]


def _recall_of_similar(pairing: Pairing, is_found: NDArray[np.bool_]) -> Floats:
    """For each truth, the found fraction of the truths of its class with half to twice its area, itself included."""
    area = host_areas(pairing.truths, pairing.protocol).astype(np.float64)
    recall = np.zeros(area.size)
    for label in np.unique(pairing.truth_label[pairing.is_counted]):
        rows = np.flatnonzero(pairing.is_counted & (pairing.truth_label == label))
        rows = rows[np.argsort(area[rows], kind="stable")]
        num_found = np.concatenate([[0], np.cumsum(is_found[rows])])
        start = np.searchsorted(area[rows], area[rows] / 2, "left")
        end = np.searchsorted(area[rows], area[rows] * 2, "right")
        recall[rows] = (num_found[end] - num_found[start]) / (end - start)
    return recall


def _suspect(evidence: Sequence[Evidence], kind: str, truth: int, rows: Mapping[int, int]) -> Suspect:
    """A suspect, with one supporting detection per agreeing model. `truth`: a row of the pairing, or -1."""
    against = [0.0 if truth == NONE else float(each.against[truth]) for each in evidence]
    excess = {m: float(evidence[m].score[row]) - against[m] for m, row in rows.items()}
    suspicion = sum(max(0.0, value) for value in excess.values()) / len(evidence)
    best = max(rows, key=lambda m: (float(evidence[m].score[rows[m]]), -m))
    return Suspect(kind, truth, best, rows[best], suspicion, sum(value > 0 for value in excess.values()))


def _one_per_truth(evidence: Sequence[Evidence], kind: str, groups: Any) -> list[Suspect]:
    """The suspect with the highest suspicion of each truth; the first of equal ones."""
    best: dict[int, Suspect] = {}
    for truth, rows in groups:
        suspect = _suspect(evidence, kind, truth, rows)
        if suspect.suspicion > 0 and (truth not in best or suspect.suspicion > best[truth].suspicion):
            best[truth] = suspect
    return list(best.values())


def _agreeing(evidence: Sequence[Evidence], kind: str) -> list[dict[int, int]]:
    """Group detections of different models that match each other: the row of each model, by the model's index.

    The detections of one model are taken as truths, and the detections of later models are matched with them, by the
    rules of the protocol. A detection is in one group.
    """
    is_left = [each.contradicts[kind].copy() for each in evidence]
    groups: list[dict[int, int]] = []
    for first, each in enumerate(evidence):
        own = np.flatnonzero(is_left[first])
        of_model = [{first: int(row)} for row in own]
        for later in range(first + 1, len(evidence)):
            rows = np.flatnonzero(is_left[later])
            for row, index in _matched(evidence[later].pairing, rows, each.pairing, own):
                of_model[index][later] = row
                is_left[later][row] = False
        groups += of_model
    return groups


def _matched(pairing: Pairing, rows: Ints, other: Pairing, other_rows: Ints) -> list[tuple[int, int]]:
    """Match detections of one model with detections of another: pairs of a row, and an index into `other_rows`."""
    if not rows.size or not other_rows.size:
        return []
    protocol = other.protocol.replace(limits=(None,), limits_per="class", class_agnostic=False)
    found = take(pairing.detections, _flags(rows, len(pairing.detections)))
    there = take(other.detections, _flags(other_rows, len(other.detections)))
    pairs = pair_rows(found, _as_truths(there), protocol, pairing.threads)
    is_true = pairs.verdict == TRUE
    return list(zip(rows[is_true].tolist(), pairs.truth[is_true].tolist(), strict=True))


def _as_truths(detections: Detections) -> Truths:
    """Detections in the role of truths, for shapes that differ in the two roles."""
    return Truths(image_ids=detections.image_ids, labels=detections.labels, geometry=detections.geometry)


def _flags(rows: Ints, num: int) -> NDArray[np.bool_]:
    flags = np.zeros(num, bool)
    flags[rows] = True
    return flags


def _without_overlaps(evidence: Sequence[Evidence], suspects: Sequence[Suspect]) -> list[Suspect]:
    """Drop suspects that overlap a better one in their image: an object may be detected as two classes, or twice."""
    protocol = evidence[0].pairing.protocol
    images = [host_ids(each.pairing.detections.image_ids) for each in evidence]
    truths = [_as_truths(each.pairing.detections) for each in evidence]
    kept: dict[int, list[Any]] = {}
    chosen = []
    for suspect in suspects:
        detections = evidence[suspect.model].pairing.detections
        image = int(images[suspect.model][suspect.detection])
        (shape,) = detections.geometry.take([suspect.detection]).shapes(protocol)
        others = kept.setdefault(image, [])
        similarity = detections.geometry.similarity
        if all(similarity(shape, other, is_crowd=False, protocol=protocol) < protocol.cutoffs[0] for other in others):
            others += truths[suspect.model].geometry.take([suspect.detection]).shapes(protocol)
            chosen.append(suspect)
    return chosen
