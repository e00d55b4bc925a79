"""One source of array code: every stage on every library, eager and compiled, with NumPy's own bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import parallel
from boxscore.arrays import library, to_numpy
from boxscore.coco import mask as mask_functions
from boxscore.data.geometry.boxes import Boxes, padded_boxes
from boxscore.engines.parallel import postprocessing
from boxscore.protocol.protocol import Protocol
from tests.conftest import Backend, make_backend
from tests.support.scenes import padded, random_scene

PROTOCOLS = ["coco", "voc2007", "voc2012", "paper"]


def assert_same(backend: Backend, function: Callable[..., Any], arguments: Sequence[Any], **options: Any) -> Any:
    """The function gives on a backend what it gives on NumPy; its outputs belong to the backend."""
    expected = function(*arguments, **options)
    moved = [backend.array(argument) for argument in arguments]
    got = backend.compile(lambda *arrays: function(*arrays, **options))(*moved)
    if not isinstance(expected, tuple):
        expected, got = (expected,), (got,)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert library(ours) == backend.name.partition("-")[0]
        assert np.array_equal(to_numpy(ours), theirs, equal_nan=True)
    for argument, array in zip(arguments, moved, strict=True):
        assert np.array_equal(to_numpy(array), argument), "an input was written to"
    return expected


@pytest.fixture
def batch() -> tuple[parallel.PaddedDetections, parallel.PaddedTruths]:
    """Five images, padded."""
    return padded(random_scene(11, num_images=5))


def test_every_stage_of_the_paper(backend: Backend, batch: Any) -> None:
    """Alg. 5 to 13, one after the other."""
    found, truths = batch
    assert_same(backend, parallel.discard_below, [found.scores], threshold=0.3)
    assert_same(backend, parallel.discard_beyond_top, [found.scores], num=5)
    iou = assert_same(backend, parallel.pairwise_iou, [found.boxes, truths.boxes], box_format="xywh")[0]
    filter_arguments = [iou, found.labels, truths.labels, found.discarded]
    iou = assert_same(backend, parallel.filter_iou, filter_arguments)[0]
    verdict = assert_same(backend, parallel.categorize_below, [iou, found.discarded], threshold=0.5)[0]
    above = [verdict, iou, found.scores, truths.ignore]
    for matching in ("best", "next_best", "best_regular"):
        verdict = assert_same(backend, parallel.categorize_above, above, threshold=0.5, matching=matching)[0]
    rows = assert_same(backend, parallel.extract, [found.labels, found.scores, verdict])
    num_truths = np.array([3, 40, 0, 7])
    curves = assert_same(backend, parallel.precision_recall, [*rows, num_truths], epsilon=1e-9)

    points = np.linspace(0, 1, 11).tolist()

    def at_recalls(curves: parallel.ClassCurves, num_truths: Any) -> Any:
        return parallel.average_at_recalls(curves, num_truths, points)

    for average in (at_recalls, parallel.average_every_element, parallel.average_under_envelope):
        compiled = backend.compile(lambda *columns, f=average: f(parallel.ClassCurves(*columns[:-1]), columns[-1]))
        ours = to_numpy(compiled(*(backend.array(column) for column in (*curves, num_truths))))
        theirs = average(parallel.ClassCurves(*curves), num_truths)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)  # only the order of a sum differs


def test_masks_are_compared_by_their_pixels(backend: Backend) -> None:
    """A product of matrices, exact, with crowds and masks without pixels."""
    random = np.random.default_rng(0)
    masks, truths = random.random((2, 5, 13, 17)) < 0.4, random.random((2, 4, 13, 17)) < 0.6
    masks[1, 2], truths[0, 3] = False, False
    is_crowd = random.random((2, 4)) < 0.3

    def iou(mask: Any, truth: Any, is_crowd: Any) -> Any:
        return parallel.pairwise_mask_iou(mask, truth, is_crowd=is_crowd)

    found = assert_same(backend, iou, [masks, truths, is_crowd])[0]
    for image in range(2):
        ours, theirs = (boxscore.data.Masks.from_pixels(each[image]).rle() for each in (masks, truths))
        assert np.array_equal(found[image], mask_functions.iou(ours, theirs, is_crowd[image].astype(int)))


@pytest.mark.parametrize("is_tiled", [False, True])
@pytest.mark.parametrize("is_by_class", [False, True])
def test_non_maximum_suppression(
    backend: Backend, batch: Any, is_by_class: bool, is_tiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fixed point, from all pairs at once and in tiles."""
    if is_tiled:
        monkeypatch.setattr(postprocessing, "PAIRS_PER_TILE", 300)
        monkeypatch.setattr(postprocessing, "LEAST_WINDOW", 4)
    found, _ = batch
    columns = [found.boxes, found.scores, found.labels, found.discarded]

    def suppress(box: Any, score: Any, label: Any, discarded: Any) -> Any:
        label = label if is_by_class else None
        return parallel.discard_overlapping(box, score, 0.4, label=label, discarded=discarded, box_format="xywh")

    assert_same(backend, suppress, columns)


@pytest.mark.parametrize("pairs", [2**18, 300])
def test_non_maximum_suppression_of_any_number_of_images_in_pytorch(batch: Any, pairs: int, monkeypatch: Any) -> None:
    """A dynamic axis stays one: PyTorch raises an error for one that is specialized."""
    import torch

    monkeypatch.setattr(postprocessing, "PAIRS_PER_TILE", pairs)
    found, _ = batch

    def suppress(box: Any, score: Any) -> Any:
        return parallel.discard_overlapping(box, score, 0.4, box_format="xywh")

    torch.compiler.reset()
    compiled = torch.compile(suppress, fullgraph=True, backend="aot_eager")
    for num_images in (5, 3):
        columns = [torch.from_numpy(column[:num_images].copy()) for column in (found.boxes, found.scores)]
        for column in columns:
            torch._dynamo.mark_dynamic(column, 0)
        assert torch.equal(compiled(*columns), suppress(*columns))


@pytest.mark.parametrize("pairs", [2**18, 300])
def test_non_maximum_suppression_of_batches_of_any_size(batch: Any, pairs: int, monkeypatch: Any) -> None:
    """TensorFlow traces once for all numbers of images."""
    import tensorflow as tf

    monkeypatch.setattr(postprocessing, "PAIRS_PER_TILE", pairs)
    found, _ = batch
    num_boxes = found.scores.shape[1]

    def suppress(box: Any, score: Any) -> Any:
        return parallel.discard_overlapping(box, score, 0.4, box_format="xywh")

    specs = [tf.TensorSpec((None, num_boxes, 4), tf.float64), tf.TensorSpec((None, num_boxes), tf.float64)]
    traced = tf.function(suppress, input_signature=specs)
    for num_images in (5, 2):
        box, score = found.boxes[:num_images], found.scores[:num_images]
        assert np.array_equal(traced(tf.constant(box), tf.constant(score)), suppress(box, score))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_match_batch(backend: Backend, batch: Any, protocol: Any) -> None:
    """Alg. 5 to 9 for all areas and thresholds in one call, the loop to the fixed point included."""
    found, truths = batch

    def match(*columns: Any) -> Any:
        return parallel.match_batch(
            parallel.PaddedDetections(*columns[:4]),
            parallel.PaddedTruths(*columns[4:]),
            boxscore.Protocol.named(protocol),
            box_format="xywh",
        )

    assert_same(backend, match, [*found[:4], *truths[:3]])


def test_match_batch_gives_the_verdicts_of_evaluate(batch: Any) -> None:
    """Static shapes and mini-batches of rows come to the same."""
    found, truths = batch
    matched = parallel.match_batch(found, truths, boxscore.Protocol.named("coco"), box_format="xywh")
    tally = boxscore.match(
        boxscore.Detections.from_padded(
            boxes=found.boxes, labels=found.labels, scores=found.scores, discarded=found.discarded, box_format="xywh"
        ),
        boxscore.Truths.from_padded(boxes=truths.boxes, labels=truths.labels, ignore=truths.ignore, box_format="xywh"),
    )
    image, place = np.nonzero(~found.discarded)
    order = np.lexsort((matched.rank[image, place], found.labels[image, place], image))  # the order of a tally
    image, place = image[order], place[order]
    assert np.array_equal(matched.verdict[image, place], tally.verdict)
    tier = np.searchsorted([1, 10, 100], matched.rank[image, place], side="right")
    assert np.array_equal(tier, tally.tier)


@pytest.mark.parametrize("seed", range(5))
def test_the_stages_in_a_row_are_the_engine(seed: int) -> None:
    """The paper's pipeline, stage by stage, gives the numbers of `evaluate` under the paper's protocol, and VOC's."""
    scene = random_scene(seed, is_whole=True)
    found, truths = padded(scene)
    num_truths = np.bincount(scene.truth["labels"][~scene.truth["ignore"]], minlength=scene.num_classes)
    iou = parallel.pairwise_iou(found.boxes, truths.boxes, box_format="xywh")
    iou = parallel.filter_iou(iou, found.labels, truths.labels, found.discarded)
    below = parallel.categorize_below(iou, found.discarded, 0.5)
    for name, matching in (("paper", "best_regular"), ("voc2012", "best")):
        verdict = parallel.categorize_above(below, iou, found.scores, truths.ignore, 0.5, matching=matching)  # type: ignore[arg-type]
        rows = parallel.extract(found.labels, found.scores, verdict)
        curves = parallel.precision_recall(*rows, num_truths)
        average = parallel.average_every_element if name == "paper" else parallel.average_under_envelope
        protocol = boxscore.Protocol.named(name, comparison=">")
        expected = boxscore.evaluate(scene.detections, scene.truths, protocol)
        is_counted = rows.label >= 0
        num_true = np.bincount(rows.label[is_counted & rows.is_true], minlength=scene.num_classes)
        num_false = np.bincount(rows.label[is_counted & ~rows.is_true], minlength=scene.num_classes)
        assert np.array_equal(num_true, expected.per_class.num_true[:, 0])
        assert np.array_equal(num_false, expected.per_class.num_false[:, 0])
        np.testing.assert_allclose(average(curves, num_truths), expected.per_class.ap, rtol=0, atol=1e-12)
        points = protocol.recall_points
        sampled = boxscore.evaluate(scene.detections, scene.truths, protocol.replace(ap="recall_points"))
        ours = parallel.average_at_recalls(curves, num_truths, points)
        np.testing.assert_allclose(ours, sampled.per_class.ap, rtol=0, atol=1e-12)


def test_stages_without_rows(eager: Backend) -> None:
    """No truths in the batch, no detections at all: nothing is found, nothing breaks."""
    array = eager.array
    iou, discarded = array(np.zeros((1, 2, 0))), array(np.zeros((1, 2), bool))
    verdict = parallel.categorize_below(iou, discarded, 0.5)
    ignore, score = array(np.zeros((1, 0), bool)), array(np.ones((1, 2)))
    assert to_numpy(parallel.categorize_above(verdict, iou, score, ignore, 0.5)).tolist() == [[1, 1]]
    label, no_score, is_true = array(np.zeros(0, int)), array(np.zeros(0)), array(np.zeros(0, bool))
    num_truths = array(np.array([3, 0]))
    curves = parallel.precision_recall(label, no_score, is_true, num_truths)
    for ap in (
        parallel.average_at_recalls(curves, num_truths, [0.0, 0.5]),
        parallel.average_every_element(curves, num_truths),
        parallel.average_under_envelope(curves, num_truths),
    ):
        assert np.array_equal(to_numpy(ap), [0, np.nan], equal_nan=True)


def test_small_and_unsigned_labels_and_scores(eager: Backend) -> None:
    """A dummy is -1 whatever the labels' dtype, and ranks are those of the numbers."""
    array = eager.array
    labels = [array(np.array([200, 3], np.uint8)), array(np.array([7], np.uint8))]
    truths = parallel.pad_truths([array(np.ones((2, 4))), array(np.ones((1, 4)))], labels)
    assert to_numpy(truths.labels).tolist() == [[200, 3], [7, -1]]
    label, score = array(np.array([[200, 3]], np.uint8)), array(np.array([[1, 200]], np.uint8))
    assert to_numpy(parallel.rank_by_score(score)).tolist() == [[1, 0]]
    assert to_numpy(parallel.extract(label, score, array(np.array([[2, 0]])))[0]).tolist() == [200, -1]
    iou = array(np.ones((1, 2, 2)))
    assert to_numpy(parallel.filter_iou(iou, label, truths.labels[:1])).tolist() == [[[1, -1], [-1, 1]]]


def test_no_box_goes_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all real numbers only the scores are ever copied from the boxes' library."""
    import torch

    scene = random_scene(4)
    copied = []

    def recording(array: Any) -> Any:
        if library(array) == "torch":
            copied.append((tuple(array.shape), array.dtype))
        return to_numpy(array)

    found = {name: torch.from_numpy(column) for name, column in scene.detection.items()}
    truth = {name: torch.from_numpy(column) for name, column in scene.truth.items()}
    for module in (
        "boxscore.engines.parallel.array_engine",
        "boxscore.data.dataset",
        "boxscore.data.validation",
        "boxscore.arrays",
    ):
        monkeypatch.setattr(f"{module}.to_numpy", recording)
    detections, truths = boxscore.Detections(**found, box_format="xywh"), boxscore.Truths(**truth, box_format="xywh")
    boxscore.evaluate(detections, truths, "coco", "parallel")
    real = [shape for shape, dtype in copied if dtype.is_floating_point]
    assert real == [tuple(found["scores"].shape)], "the scores, once, for the tally"


def test_bfloat16_and_float16_are_widened() -> None:
    """Detectors run in half precision; their boxes are numbers all the same."""
    import torch

    box = torch.tensor([[0.0, 0, 10, 10], [0, 1, 10, 11]])
    truths = boxscore.Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    for dtype in (torch.bfloat16, torch.float16):
        for engine in ("sequential", "parallel", "native"):
            score = torch.tensor([0.5, 0.75], dtype=dtype)
            detections = boxscore.Detections(image_ids=[0, 0], labels=[1, 1], scores=score, boxes=box.to(dtype))
            assert boxscore.match(detections, truths, "voc2012", engine).sorted().verdict.tolist() == [[[2]], [[1]]]


def test_inductor_compiles_the_whole_of_matching() -> None:
    """PyTorch's own compiler takes all of it as one graph, while_loop included."""
    import torch

    found, truths = padded(random_scene(2, num_images=2, most_detections=6, most_truths=4))
    arrays = [torch.from_numpy(column) for column in (*found[:4], *truths[:3])]

    def match(*columns: Any) -> Any:
        return parallel.match_batch(
            parallel.PaddedDetections(*columns[:4]),
            parallel.PaddedTruths(*columns[4:]),
            boxscore.Protocol.named("coco"),
            box_format="xywh",
        ).verdict

    assert torch.equal(torch.compile(match, fullgraph=True)(*arrays), match(*arrays))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_evaluate_gives_the_same_bits_on_every_library(eager: Backend, protocol: Any) -> None:
    """Verdicts and AP, from flat columns of any library."""
    scene = random_scene(0)
    expected = boxscore.evaluate(scene.detections, scene.truths, protocol, "sequential")
    found = {name: eager.array(column) for name, column in scene.detection.items()}
    truth = {name: eager.array(column) for name, column in scene.truth.items()}
    names = scene.truths.class_names
    result = boxscore.evaluate(
        boxscore.Detections(**found, box_format="xywh"),
        boxscore.Truths(**truth, box_format="xywh", class_names=names),
        protocol,
        "parallel",
    )
    assert result.iou_dtype == "float64"
    for name in ("precision", "recall", "scores", "num_true", "num_false"):
        assert np.array_equal(getattr(result.curves, name), getattr(expected.curves, name)), name
    reference = boxscore.evaluate(scene.detections, scene.truths, protocol, "parallel")
    for name in result:
        assert np.array_equal(result[name], reference[name], equal_nan=True)


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_float32_boxes_are_compared_in_float64(name: str) -> None:
    """A float32 coordinate is a number like any other; nothing is lost by where it came from."""
    array = make_backend(name).array
    scene = random_scene(3)
    narrow = {
        key: column.astype(np.float32) if key in ("box", "score") else column for key, column in scene.detection.items()
    }
    expected = boxscore.match(boxscore.Detections(**narrow, box_format="xywh"), scene.truths, "coco", "sequential")
    moved = boxscore.Detections(**{key: array(column) for key, column in narrow.items()}, box_format="xywh")
    for engine in ("parallel", "native"):
        tally = boxscore.match(moved, scene.truths, "coco", engine)  # truths in NumPy follow the detections
        assert tally.iou_dtype == expected.iou_dtype == "float64"
        assert np.array_equal(tally.verdict, expected.verdict)
        assert np.array_equal(tally.score, expected.score)


def test_two_frameworks_in_one_call_are_refused() -> None:
    """NumPy goes anywhere; PyTorch and JAX don't mix."""
    torch, jax = make_backend("torch"), make_backend("jax")
    scene = random_scene(3)
    found = {name: torch.array(column) for name, column in scene.detection.items()}
    truth = {name: jax.array(column) for name, column in scene.truth.items()}
    with pytest.raises(boxscore.InputError, match="arrays must come from one library; got jax and torch"):
        boxscore.evaluate(boxscore.Detections(**found, box_format="xywh"), boxscore.Truths(**truth, box_format="xywh"))


@pytest.mark.parametrize("protocol", ["coco", "voc2012"])
def test_compiled_similarities_of_boxes_skip_no_rounding(protocol: str) -> None:
    """XLA would add a product to a sum without rounding it, if it could fuse the two."""
    jax = pytest.importorskip("jax")
    rules, rng = Protocol.named(protocol), np.random.default_rng(0)
    near = rng.random((2, 200, 2)) * 300
    box_ND4 = np.concatenate([near, near + rng.random((2, 200, 2)) * 300], axis=-1)
    is_crowd_NG = rng.random((2, 50)) < 0.1

    def compare(box_ND4: Any, is_crowd_NG: Any) -> Any:
        columns = padded_boxes(box_ND4, "xyxy", rules)
        return Boxes.pairwise(columns, padded_boxes(box_ND4[:, :50], "xyxy", rules), is_crowd_NG, rules)

    with jax.enable_x64(True):
        found = jax.jit(compare)(jax.numpy.asarray(box_ND4), jax.numpy.asarray(is_crowd_NG))
    assert np.array_equal(found, compare(box_ND4, is_crowd_NG))
