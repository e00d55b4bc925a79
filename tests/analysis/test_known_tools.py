"""Each tool's rules give the tool's numbers: the tool itself runs where it is on PyPI, else examples are by hand."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis.known_tools import TOOLS, as_rules, rules_of_shapes, with_sigmas_of
from boxscore.protocol.table import PROTOCOLS
from boxscore.result.tally import FALSE, TRUE
from tests.support import oracles
from tests.support.engines import ENGINES
from tests.support.scenes import Scene, random_scene
from tests.support.tool_runs import (
    by_corners,
    run_mmdetection,
    run_podm,
    run_supervision,
    run_ultralytics,
    tool_scene,
    without_close_calls,
)
from tests.support.torchmetrics_results import NUMBERS
from tests.support.voc_reference import average_precisions
from tests.support.world_of_metrics import as_dicts

Floats = NDArray[np.float64]

SCENES = [*range(5), "crowded"]


def scene_of(seed: int | str, **settings: bool) -> Scene:
    """A scene by seed, or one with more detections than any limit."""
    return tool_scene(0, is_crowded=True, **settings) if isinstance(seed, str) else tool_scene(seed, **settings)


def evaluated(scene: Scene, tool: str) -> boxscore.Result:
    """A scene under the rules of a tool."""
    return boxscore.evaluate(scene.detections, scene.truths, TOOLS[tool].protocol)


def test_scenes_have_what_tools_differ_in() -> None:
    """Crowds, equal scores and IoUs, other areas than those of boxes, more detections than limits, lonely classes."""
    scene = tool_scene(0)
    assert scene.truth["ignore"].any()
    assert np.unique(scene.detection["scores"]).size < scene.detection["scores"].size / 4
    assert (scene.truth["area"] != scene.truth["boxes"][:, 2:].prod(axis=1)).sum() > 10
    assert set(scene.truth["labels"]) ^ set(scene.detection["labels"]) == {3, 4}
    assert np.bincount(tool_scene(0, is_crowded=True).detection["image_ids"]).max() > 400


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_described(name: str) -> None:
    """Its protocol has its name, its rule can be looked up, and sentences end."""
    tool = TOOLS[name]
    assert tool.name == tool.protocol.name == name
    assert ": " in tool.source
    assert "/" in tool.source
    assert tool.title
    assert tool.note.endswith(".")
    assert tool.protocol.iou_type == "bbox"


def test_rules_have_names() -> None:
    """Those of a tool or of a protocol; a protocol stands for itself."""
    assert as_rules("torchmetrics") is TOOLS["torchmetrics"].protocol
    assert as_rules("voc2007") == Protocol.named("voc2007")
    changed = Protocol.named("coco", limits=(1,))
    assert as_rules(changed) is changed
    assert {name for name in TOOLS if name in PROTOCOLS} == {"ultralytics"}
    assert as_rules("ultralytics") == Protocol.named("ultralytics")


@pytest.mark.parametrize("wrong", ["cocotools", "", None, 3])
def test_unknown_rules_are_refused(wrong: Any) -> None:
    """With the names of both kinds."""
    with pytest.raises(InputError, match=rf"cartucho.*lvis_fixed.*boxscore\.Protocol; got {wrong!r}"):
        as_rules(wrong)


@pytest.mark.parametrize("seed", SCENES)
def test_pycocotools(seed: int | str) -> None:
    """All twelve numbers and the whole array of precisions, bit for bit."""
    scene = scene_of(seed)
    expected, found = scene.pycocotools(), evaluated(scene, "pycocotools")
    assert np.array_equal(np.nan_to_num(list(found.values()), nan=-1.0), expected.stats)
    assert np.array_equal(found.curves.precision, expected.eval["precision"])
    assert np.array_equal(found.curves.recall, expected.eval["recall"])


@pytest.mark.parametrize("seed", SCENES)
def test_torchmetrics(theirs: Any, seed: int | str) -> None:
    """The numbers in float32, in which it gives them, and the precisions and recalls behind them, bit for bit."""
    scene = scene_of(seed)
    metric = theirs("xywh", class_metrics=True, extended_summary=True)
    metric.warn_on_many_detections = False
    metric.update(*map(list, zip(*(as_dicts(scene, image) for image in range(scene.num_images)), strict=True)))
    expected, found = metric.compute(), evaluated(scene, "torchmetrics")
    assert expected["classes"].tolist() == found.per_class.label.tolist()
    assert np.array_equal(found.curves.precision, expected["precision"].numpy())
    assert np.array_equal(found.curves.recall, expected["recall"].numpy())
    for name in NUMBERS:
        assert expected[name] == single(found[name]), name
    assert torch.equal(expected["map_per_class"], single(found.per_class.ap))
    assert torch.equal(expected["mar_100_per_class"], single(found.per_class.ar))


def single(values: Any) -> torch.Tensor:
    """In float32, -1 for NaN."""
    return torch.tensor(np.nan_to_num(np.array(values), nan=-1.0), dtype=torch.float32)


def test_torchmetrics_has_thresholds_in_float32(theirs: Any) -> None:
    """All are those of `torch.linspace`; some recall points may have another last bit on another CPU."""
    metric, protocol = theirs(), TOOLS["torchmetrics"].protocol
    assert protocol.thresholds == tuple(metric.iou_thresholds)
    assert np.allclose(protocol.recall_points, metric.rec_thresholds, rtol=0, atol=6e-8)


def test_names_need_no_numpy() -> None:
    """The command lists them in its help, and completes them."""
    code = "import sys, boxscore.analysis.known_tools, boxscore.cli.explain; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tools_have_rules_for_the_shapes_of_the_data() -> None:
    """Those of pycocotools for keypoints are others than for boxes; sigmas are taken only where there are none."""
    poses = rules_of_shapes("pycocotools", "keypoints")
    assert poses == Protocol.named("coco_keypoints", name="pycocotools")
    assert rules_of_shapes("pycocotools", "segm") == TOOLS["pycocotools"].protocol.replace(iou_type="segm")
    assert rules_of_shapes("coco", "keypoints") == Protocol.named("coco_keypoints")
    turned = rules_of_shapes("ultralytics", "probiou")
    assert turned == Protocol.named("ultralytics", iou_type="probiou")
    assert with_sigmas_of(turned, poses) is turned
    assert with_sigmas_of(rules_of_shapes("ultralytics", "keypoints"), poses).sigmas == poses.sigmas
    crowded = Protocol.named("crowdpose")
    assert with_sigmas_of(crowded, poses) is crowded


def test_torchmetrics_misses_an_iou_of_exactly_a_threshold() -> None:
    """An IoU of 60 / 100 reaches 0.6, but not 0.6 in float32, which is 0.60000002: one of ten thresholds fewer."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    detections = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 6]])
    ap = {name: boxscore.evaluate(detections, truths, TOOLS[name].protocol) for name in ("pycocotools", "torchmetrics")}
    hits = {name: int(result.per_class.num_true.sum()) for name, result in ap.items()}
    assert hits == {"pycocotools": 3, "torchmetrics": 2}  # 0.5, 0.55 and 0.6


@pytest.mark.parametrize("seed", SCENES)
def test_supervision(seed: int | str) -> None:
    """AP at every threshold, per class and per area range, within 1e-7: it rounds precisions to float32."""
    scene = scene_of(seed)
    expected, found = run_supervision(scene), evaluated(scene, "supervision")

    def are_close(found: Any, expected: Any) -> bool:
        return np.allclose(np.nan_to_num(found, nan=-1.0), expected, rtol=0, atol=1e-7)

    assert np.array_equal(expected.iou_thresholds, found.protocol.thresholds)
    assert are_close(list(found.per_threshold.values()), expected.mAP_scores)
    rows = np.searchsorted(found.per_class.label, expected.matched_classes)
    assert are_close(found.per_class.ap_at[rows], expected.ap_per_class)
    assert np.isnan(np.delete(found.per_class.ap, rows)).all()
    numbers = {"map": expected.map50_95, "map_50": expected.map50, "map_75": expected.map75}
    for size in ("small", "medium", "large"):
        numbers[f"map_{size}"] = getattr(expected, f"{size}_objects").map50_95
    assert are_close([found[name] for name in numbers], list(numbers.values()))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [*range(12), "crowded"])
def test_ultralytics(seed: int | str, engine: Any) -> None:
    """AP of every class at every threshold, and all means, bit for bit.

    Its IoUs are float32: scenes have none that would be on the other side of a threshold.
    """
    scene = without_close_calls(scene_of(seed))
    expected, classes = run_ultralytics(scene)
    found = boxscore.evaluate(scene.detections, scene.truths, TOOLS["ultralytics"].protocol, engine)
    rows = np.searchsorted(found.per_class.label, classes)
    assert np.array_equal(found.per_class.ap_at[rows], expected)
    assert np.array_equal(found.per_class.ap[rows], expected.mean(1))
    assert np.isnan(np.delete(found.per_class.ap, rows)).all()
    means = {"map": expected.mean(), "map_50": expected[:, 0].mean(), "map_75": expected[:, 5].mean()}
    assert {name: found[name] for name in means} == means


def ap_until_april_2026(recall: Floats, precision: Floats) -> tuple[float]:
    """What Ultralytics 8.3.200 computes: the envelope from (0, 1) to (1, 0), in 100 trapezoids."""
    recall, precision = np.concatenate([[0.0], recall, [1.0]]), np.concatenate([[1.0], precision, [0.0]])
    envelope = np.flip(np.maximum.accumulate(np.flip(precision)))
    points = np.linspace(0, 1, 101)
    return (float(np.trapezoid(np.interp(points, recall, envelope), points)),)


@pytest.mark.parametrize("tool", ["ultralytics", "ultralytics-8.3"])
@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
@pytest.mark.parametrize("seed", [*range(3), "crowded"])
def test_ultralytics_rule_of_ap_is_exact(seed: int | str, engine: Any, tool: str) -> None:
    """From our precisions and recalls in float64, its function gives our AP, bit for bit."""
    scene = random_scene(seed, num_images=20) if isinstance(seed, int) else scene_of(seed)
    found = boxscore.evaluate(scene.detections, scene.truths, TOOLS[tool].protocol, engine)
    compute_ap = ap_until_april_2026 if tool.endswith("8.3") else oracles.ultralytics("utils.metrics").compute_ap
    rows = found.tally.sorted()
    expected = np.full(found.per_class.ap_at.shape, np.nan)
    for k, label in enumerate(found.per_class.label.tolist()):
        for t in range(len(found.protocol.thresholds)):
            verdict = rows.verdict_at(t)[rows.label == label]
            num_true, num_false = np.cumsum(verdict == TRUE), np.cumsum(verdict == FALSE)
            if num_truths := found.per_class.num_truths[k]:
                precision = num_true / (num_true + num_false)
                expected[k, t] = compute_ap(num_true / num_truths, precision)[0] if precision.size else 0.0
    assert np.array_equal(found.per_class.ap_at, expected, equal_nan=True)


@pytest.mark.parametrize("seed", range(5))
def test_ultralytics_matched_by_the_best_truth_alone(seed: int) -> None:
    """Until July 2026, at each threshold: of all pairs the best one of each detection, and of these the first detection
    of each truth. That is what VOC does.
    """
    scene = without_close_calls(scene_of(seed))
    found = boxscore.evaluate(scene.detections, scene.truths, TOOLS["ultralytics-8.3"].protocol)
    expected, classes = run_ultralytics(scene, match=match_until_july_2026, compute_ap=ap_until_april_2026)
    rows = np.searchsorted(found.per_class.label, classes)
    assert np.allclose(expected, found.per_class.ap_at[rows], rtol=0, atol=1e-6)


def match_until_july_2026(labels: Any, truth_labels: Any, iou: Any, thresholds: Floats) -> NDArray[np.bool_]:
    """What Ultralytics 8.3.200 computes; detections are by falling score. Shape (D, T)."""
    correct = np.zeros((len(labels), thresholds.size), bool)
    iou = np.where(np.asarray(truth_labels)[:, None] == np.asarray(labels), np.asarray(iou), 0)
    for t, threshold in enumerate(thresholds):
        pairs = np.argwhere(iou >= threshold)
        pairs = pairs[np.argsort(-iou[tuple(pairs.T)], kind="stable")]
        pairs = pairs[np.unique(pairs[:, 1], return_index=True)[1]]
        pairs = pairs[np.unique(pairs[:, 0], return_index=True)[1]]
        correct[pairs[:, 1], t] = True
    return correct


def test_ultralytics_has_no_crowds_and_300_detections_per_image() -> None:
    """A detection of a crowd is false; the 301st of an image does not count, whatever its class; nor does score 0."""
    truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [50, 50, 90, 90]], ignore=[False, True])
    box = [[50.0, 50, 90, 90], *[[200.0, 200, 210, 210]] * 298, [0.0, 0, 10, 10], [0.0, 0, 10, 10]]
    label = [1, *[2] * 298, 1, 1]
    score = np.linspace(0.9, 0.1, 301)
    detections = Detections(image_ids=np.zeros(301, int), labels=label, scores=score, boxes=box)
    found = boxscore.evaluate(detections, truths, TOOLS["ultralytics"].protocol)
    row = next(row for row in found.per_class.rows() if row.label == 1)
    assert (row.num_truths, row.num_detections, row.num_true[0], row.num_false[0]) == (1, 2, 1, 1)
    nothing = boxscore.evaluate(replace(detections, scores=0 * score), truths, TOOLS["ultralytics"].protocol)
    assert (nothing["map"], nothing.per_class.num_detections.sum()) == (0, 0)


@pytest.mark.parametrize(("tool", "mode"), [("mmdetection-voc2007", "11points"), ("mmdetection-voc2012", "area")])
@pytest.mark.parametrize("seed", SCENES)
def test_mmdetection(seed: int | str, tool: str, mode: str) -> None:
    """AP of every class within 1e-6, as it is float32; counts and recalls exactly."""
    scene = scene_of(seed)
    mean, per_class = run_mmdetection(scene, mode=mode)
    found = boxscore.evaluate(*by_corners(scene), TOOLS[tool].protocol)
    assert abs(mean - found["map"]) < 1e-6
    for theirs, row in zip(per_class, found.per_class.rows(), strict=True):
        assert (theirs["num_gts"], theirs["num_dets"]) == (row.num_truths, row.num_detections)
        if row.num_truths:
            assert abs(theirs["ap"] - row.ap) < 1e-6
            assert (theirs["recall"][-1] if row.num_detections else 0.0) == row.num_true[0] / row.num_truths


@pytest.mark.parametrize("year", ["2007", "2012"])
@pytest.mark.parametrize("seed", SCENES)
def test_detectron2(seed: int | str, year: str) -> None:
    """AP of every class at every threshold, bit for bit, by the rules of py-faster-rcnn, whose code detectron2 has."""
    detections, truths = by_corners(scene_of(seed))
    found = boxscore.evaluate(detections, truths, TOOLS[f"detectron2-voc{year}"].protocol)
    for t, percent in enumerate(range(50, 100, 5)):
        ap = average_precisions(detections, truths, is_2007=year == "2007", threshold=percent / 100)
        is_defined = np.isin(found.per_class.label, list(ap))
        assert np.array_equal(found.per_class.ap_at[is_defined, t], list(ap.values()))
        assert np.isnan(found.per_class.ap_at[~is_defined, t]).all()
        assert abs(found.per_threshold[percent / 100] - np.mean(list(ap.values()))) < 1e-15
    assert {"map", "map_50", "map_75"} < found.keys()
    assert abs(found["map"] - np.mean(list(found.per_threshold.values()))) < 1e-15


@pytest.mark.parametrize("seed", SCENES)
def test_object_detection_metrics(seed: int | str) -> None:
    """Counts exactly, AP up to the order of additions."""
    scene = scene_of(seed, has_empty_boxes=False)
    check_podm(by_corners(scene), by_corners(scene), "object-detection-metrics")


@pytest.mark.parametrize("seed", SCENES)
def test_review_object_detection_metrics(seed: int | str) -> None:
    """Its relative on PyPI does the same with boxes that end one pixel later: their last pixel is inside."""
    scene = scene_of(seed, has_empty_boxes=False)
    check_podm(by_corners(scene, longer=1), by_corners(scene), "review-object-detection-metrics")


def check_podm(theirs: tuple[Detections, Truths], ours: tuple[Detections, Truths], tool: str) -> None:
    """Podm's results of its columns are ours of our columns."""
    mean, per_class = run_podm(*theirs)
    found = boxscore.evaluate(*ours, TOOLS[tool].protocol)
    assert abs(mean - found["map"]) < 1e-14
    for row in found.per_class.rows():
        if row.label in per_class:
            expected = per_class[row.label]
            assert (expected.num_groundtruth, expected.num_detection) == (row.num_truths, row.num_detections)
            if row.num_truths:
                assert (expected.tp, expected.fp) == (row.num_true[0], row.num_false[0])
                assert abs(expected.ap - row.ap) < 1e-14


@pytest.mark.parametrize("seed", SCENES)
def test_review_object_detection_metrics_by_coco(seed: int | str) -> None:
    """All is as in pycocotools for truths without crowds and with the areas of boxes; but no epsilon in precisions."""
    scene = scene_of(seed)
    plain = scene.truth | {"ignore": np.zeros_like(scene.truth["ignore"])}
    plain["area"] = plain["boxes"][:, 2:].prod(axis=1)
    expected = replace(scene, truth=plain).pycocotools()
    found = evaluated(scene, "review-object-detection-metrics-coco")
    assert np.allclose(np.nan_to_num(list(found.values()), nan=-1.0), expected.stats, rtol=0, atol=1e-14)
    assert np.array_equal(found.curves.recall, expected.eval["recall"])


def ap_of(detections: Detections, truths: Truths) -> dict[str, float]:
    """AP at IoU 0.5 of each tool."""
    found = {name: boxscore.evaluate(detections, truths, tool.protocol) for name, tool in TOOLS.items()}
    return {name: result.per_threshold[result.protocol.thresholds[0]] for name, result in found.items()}


COCO_TOOLS = ("pycocotools", "torchmetrics", "supervision", "review-object-detection-metrics-coco")


def test_half_a_box_by_hand() -> None:
    """Rows 0 to 4 of rows 0 to 9, columns 0 to 9: IoU is 50 / 100 with the last pixel inside, else 36 / 81.

    Cartucho/mAP and review_object_detection_metrics ask `iou >= 0.5` of inclusive boxes, detectron2 `>`.
    """
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 9, 9]])
    ap = ap_of(Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 9, 4]]), truths)
    reached = {"cartucho", "review-object-detection-metrics", "mmdetection-voc2007", "mmdetection-voc2012"}
    assert ap == pytest.approx({name: float(name in reached) for name in TOOLS}, abs=1e-12)


def test_a_taken_truth_by_hand() -> None:
    """The second detection overlaps A (90 / 110), which is taken, more than B (70 / 130), which is free.

    VOC's rule makes it false: of two truths one is found at precision 1, and AP is 1/2; by eleven points, of which 6
    are at most 1/2, it is 6/11. COCO's rule gives it B: AP is 1. So does Ultralytics, but its curve is 0 at recall 1: a
    half of the last of 100 trapezoids is lost. Ultralytics 8.3 made it false, and its curve falls from (1/2, 1/2) to
    (1, 0): AP is 0.49 + 0.01 * 3/4 + 1/2 * 1/4.
    """
    truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 10, 10], [4, 0, 14, 10]])
    detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.8], boxes=[[0, 0, 10, 10], [1, 0, 11, 10]])
    ap = ap_of(detections, truths)
    for name, value in ap.items():
        of_voc = 6 / 11 if name.endswith("2007") else 0.5
        expected = {"ultralytics": 0.995, "ultralytics-8.3": 0.6225, **dict.fromkeys(COCO_TOOLS, 1.0)}.get(name, of_voc)
        assert value == pytest.approx(expected, abs=1e-12), name


def test_a_difficult_truth_by_hand() -> None:
    """Detections by score: A, false, C. C is difficult, or a crowd; there is one other truth, A.

    Ignored, C's detection is dropped: AP is 1. Where C counts, the curve is (1/2, 1), (1/2, 1/2), (1, 2/3), and AP is
    1/2 + 1/2 * 2/3 = 5/6 under the envelope; in 101 points 51 have 1 and 50 have 2/3. Ultralytics has no C, and two
    false positives after all truths are found: AP is all that it gives, 0.995.
    """
    truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 9, 9], [50, 50, 59, 59]], ignore=[False, True])
    box = [[0, 0, 9, 9], [200, 0, 209, 9], [50, 50, 59, 59]]
    ap = ap_of(Detections(image_ids=[0] * 3, labels=[1] * 3, scores=[0.9, 0.8, 0.7], boxes=box), truths)
    counted = {
        "review-object-detection-metrics": 5 / 6,
        "object-detection-metrics": 5 / 6,
        "review-object-detection-metrics-coco": (51 + 50 * 2 / 3) / 101,
        "ultralytics": 0.995,
        "ultralytics-8.3": 0.995,
    }
    assert ap == pytest.approx({name: counted.get(name, 1.0) for name in TOOLS}, abs=1e-12)


def test_areas_by_hand() -> None:
    """A truth of 40 x 40 pixels with an annotated area of 900 is small, but medium where its box decides."""
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 40, 40]], area=[900.0])
    detections = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 40, 40]])
    for name in COCO_TOOLS:
        found = boxscore.evaluate(detections, truths, TOOLS[name].protocol)
        is_small, is_medium = (not np.isnan(found[f"map_{size}"]) for size in ("small", "medium"))
        assert (is_small, is_medium) == (name != COCO_TOOLS[-1], name == COCO_TOOLS[-1]), name
