"""The paper's pseudocode, line by line, is the oracle of `boxscore.parallel` and of the protocol `paper`."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import boxscore
from boxscore import parallel
from tests.support import paper_algorithms as paper
from tests.support.scenes import random_scene

SEEDS = range(300)
THRESHOLD, LOWEST_SCORE, EPSILON = 0.5, 0.1, 1e-9
RECALL_POINTS = np.linspace(0, 1, 11)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A mini-batch as it enters the pipeline, and what each algorithm gives for it."""

    boxes_of_image: list[Any]
    labels_of_image: list[Any]
    ignores_of_image: list[Any]
    B: Any
    L: Any
    S: Any
    is_padding: Any
    B_hat: Any
    L_hat: Any
    M_hat: Any
    M: Any
    iou: Any
    filtered: Any
    D_below: Any
    D: Any
    L_sorted: Any
    S_sorted: Any


@dataclass(frozen=True, kw_only=True)
class Run:
    """A scene, its mini-batches, and the results of the whole of it."""

    scene: Any
    batches: list[Batch]
    z_hat: Any
    rows: tuple[Any, Any, Any]
    P: Any
    Q: Any
    AP: Any
    AP_at_recalls: Any
    precision_at_recalls: Any


@cache
def run(seed: int) -> Run:
    """The paper's pipeline on a random scene, in mini-batches of one to five images."""
    scene = random_scene(seed, is_whole=seed % 2 == 0)
    k, size = scene.num_classes, 1 + seed % 5
    images = np.arange(scene.num_images)
    batches = [_batch(scene, images[first : first + size]) for first in range(0, scene.num_images, size)]
    rows: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for batch in batches:
        rows = paper.extract(*rows, batch.L_sorted, batch.S_sorted, batch.D)
    z_hat = np.bincount(scene.truth["labels"][~scene.truth["ignore"]], minlength=k)
    P, Q, is_started = paper.compute_pr(*rows, z_hat, k, EPSILON)
    _, AP_at_recalls, precision_at_recalls = paper.average_specific_elements(P, Q, z_hat, RECALL_POINTS)
    return Run(
        scene=scene,
        batches=batches,
        z_hat=z_hat,
        rows=tuple(np.concatenate(column) for column in rows),  # type: ignore[arg-type]
        P=P,
        Q=Q,
        AP=paper.average_every_element(P, Q, is_started, z_hat, k)[1],
        AP_at_recalls=AP_at_recalls,
        precision_at_recalls=precision_at_recalls,
    )


def _batch(scene: Any, images: Any) -> Batch:
    found, truth, n = scene.detection, scene.truth, len(images)
    rows = [np.flatnonzero(found["image_ids"] == image) for image in images]
    true_rows = [np.flatnonzero(truth["image_ids"] == image) for image in images]
    m, m_hat = max(map(len, rows)), max(map(len, true_rows))
    B, L, S, is_padding = np.zeros((n, m, 4)), np.zeros((n, m), int), np.zeros((n, m)), np.ones((n, m), bool)
    for i, row in enumerate(rows):
        j = len(row)
        B[i, :j], L[i, :j], S[i, :j] = _corners(found["boxes"][row]), found["labels"][row], found["scores"][row]
        is_padding[i, :j] = False
    truths = (
        [_corners(truth["boxes"][row]) for row in true_rows],
        [truth["labels"][row] for row in true_rows],
        [truth["ignore"][row] for row in true_rows],
    )
    B_hat, L_hat, M_hat = paper.load_data(*truths, n, m_hat)
    M = paper.post_process(n, m, lambda i, j: is_padding[i, j] or S[i, j] < LOWEST_SCORE)
    iou = paper.compute_iou(B, B_hat, m, m_hat)
    filtered = paper.filter_iou(iou, L, L_hat, M, m, m_hat)
    D_below = paper.categorize_below(filtered, M, n, m, THRESHOLD)
    D, L_sorted, S_sorted = paper.categorize_above(D_below, filtered, L, S, M_hat, m, m_hat, THRESHOLD)
    return Batch(
        boxes_of_image=truths[0],
        labels_of_image=truths[1],
        ignores_of_image=truths[2],
        B=B,
        L=L,
        S=S,
        is_padding=is_padding,
        B_hat=B_hat,
        L_hat=L_hat,
        M_hat=M_hat,
        M=M,
        iou=iou,
        filtered=filtered,
        D_below=D_below,
        D=D,
        L_sorted=L_sorted,
        S_sorted=S_sorted,
    )


def _corners(box: Any) -> Any:
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def _stage_verdict(batch: Batch) -> Any:
    """Alg. 6 to 9 by the stages."""
    iou = parallel.filter_iou(parallel.pairwise_iou(batch.B, batch.B_hat), batch.L, batch.L_hat, batch.M)
    below = parallel.categorize_below(iou, batch.M, THRESHOLD)
    return parallel.categorize_above(below, iou, batch.S, batch.M_hat, THRESHOLD)


@cache
def stage_rows(seed: int) -> parallel.Extracted:
    """Alg. 10 by the stages: the rows of all mini-batches."""
    found = [parallel.extract(batch.L, batch.S, _stage_verdict(batch)) for batch in run(seed).batches]
    return parallel.Extracted(*(np.concatenate(column) for column in zip(*found, strict=True)))


@cache
def stage_curves(seed: int) -> parallel.ClassCurves:
    """Alg. 11 by the stages."""
    return parallel.precision_recall(*stage_rows(seed), run(seed).z_hat)


def _by_score(label: Any, score: Any, is_true: Any) -> list[Any]:
    order = np.argsort(-score, kind="stable")
    return [label[order], score[order], is_true[order]]


def _batches() -> list[Batch]:
    return [batch for seed in SEEDS for batch in run(seed).batches]


def test_the_scenes_have_every_verdict() -> None:
    """Also detections that a better one precedes, ones that difficult truths absorb, and batches without truths."""
    counts = np.bincount(
        np.concatenate([batch.D[~batch.M] if batch.D.size else [] for batch in _batches()]).astype(int)
    )
    assert counts.size == 3
    assert counts.min() > 500
    assert any(batch.B_hat.shape[1] == 0 and batch.B.shape[1] > 0 for batch in _batches())


def test_data_loading() -> None:
    """Alg. 4: boxes, labels and masks of one length."""
    for batch in _batches():
        truths = parallel.pad_truths(batch.boxes_of_image, batch.labels_of_image, batch.ignores_of_image)
        assert np.array_equal(truths.boxes, batch.B_hat)
        assert np.array_equal(truths.labels, batch.L_hat)
        assert np.array_equal(truths.ignore, batch.M_hat)


def test_post_processing() -> None:
    """Alg. 5: the mask of discarded detections."""
    for batch in _batches():
        discarded = parallel.discard_below(batch.S, LOWEST_SCORE, discarded=batch.is_padding)
        assert np.array_equal(discarded, batch.M)


def test_iou_computation() -> None:
    """Alg. 6, to the last bit, dummies included."""
    for batch in _batches():
        assert np.array_equal(parallel.pairwise_iou(batch.B, batch.B_hat), batch.iou)


def test_iou_filtering() -> None:
    """Alg. 7; the stage has -1 where the paper has 0."""
    for batch in _batches():
        iou = parallel.filter_iou(batch.iou, batch.L, batch.L_hat, batch.M)
        assert np.array_equal(np.maximum(iou, 0), batch.filtered)


def test_categorization_below_the_threshold() -> None:
    """Alg. 8."""
    for batch in _batches():
        assert np.array_equal(parallel.categorize_below(batch.filtered, batch.M, THRESHOLD), batch.D_below)


def test_categorization_above_the_threshold() -> None:
    """Alg. 9; the stage leaves rows where they are, the paper sorts them by score."""
    for batch in _batches():
        verdict = _stage_verdict(batch)
        order = np.argsort(-batch.S, axis=1, kind="stable")
        assert np.array_equal(np.take_along_axis(verdict, order, axis=1), batch.D)


def test_extraction() -> None:
    """Alg. 10; the stage keeps ignored rows with label -1."""
    for seed in SEEDS:
        label, score, is_true = stage_rows(seed)
        found = _by_score(label[label >= 0], score[label >= 0], is_true[label >= 0])
        for ours, theirs in zip(found, _by_score(*run(seed).rows), strict=True):
            assert np.array_equal(ours, theirs)


def test_precision_and_recall() -> None:
    """Alg. 11: the columns of a class's own detections, to the last bit."""
    for seed in SEEDS:
        each, curves = run(seed), stage_curves(seed)
        label = _by_score(*each.rows)[0]
        for k in range(each.scene.num_classes):
            assert np.array_equal(curves.precision[curves.label == k], each.P[k, label == k])
            assert np.array_equal(curves.recall[curves.label == k], each.Q[k, label == k])


def test_average_precision_from_every_element() -> None:
    """Alg. 12; only the order of a sum differs."""
    for seed in SEEDS:
        each = run(seed)
        ap = parallel.average_every_element(stage_curves(seed), each.z_hat)
        np.testing.assert_allclose(ap, each.AP, rtol=0, atol=1e-12)


def test_average_precision_from_specific_elements() -> None:
    """Alg. 13; only the order of a sum differs."""
    for seed in SEEDS:
        each = run(seed)
        ap = parallel.average_at_recalls(stage_curves(seed), each.z_hat, RECALL_POINTS.tolist())
        np.testing.assert_allclose(ap, each.AP_at_recalls, rtol=0, atol=1e-12)


def _evaluate(each: Run, protocol: Any) -> Any:
    """The scene without discarded detections, as one data set."""
    found = {
        name: column[each.scene.detection["scores"] >= LOWEST_SCORE] for name, column in each.scene.detection.items()
    }
    return boxscore.evaluate(boxscore.Detections(**found, box_format="xywh"), each.scene.truths, protocol)


def test_the_protocol_has_the_same_true_and_false_positives() -> None:
    """Per class, in every scene."""
    for each in map(run, SEEDS):
        expected, (label, _, is_true) = _evaluate(each, "paper").per_class, each.rows
        num_classes = each.scene.num_classes
        assert np.array_equal(np.bincount(label[is_true == 1], minlength=num_classes), expected.num_true[:, 0])
        assert np.array_equal(np.bincount(label[is_true == 0], minlength=num_classes), expected.num_false[:, 0])


def test_the_protocol_has_the_same_average_precision() -> None:
    """By trapezoids; and at recall points, where the precisions have the same bits."""
    protocol = boxscore.Protocol.named("paper")
    sampled = protocol.replace(ap="recall_points", recall_points=tuple(RECALL_POINTS.tolist()))
    for each in map(run, SEEDS):
        np.testing.assert_allclose(_evaluate(each, protocol).per_class.ap, each.AP, rtol=0, atol=1e-12)
        result = _evaluate(each, sampled)
        np.testing.assert_allclose(result.per_class.ap, each.AP_at_recalls, rtol=0, atol=1e-12)
        precision = result.curves.precision[0, :, :, 0, 0].T
        is_defined = each.z_hat > 0
        assert np.array_equal(precision[is_defined], each.precision_at_recalls[is_defined])
