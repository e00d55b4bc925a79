"""Real clients of pycocotools, over ours: torchmetrics, evaluators of several processes, masks and keypoints."""

import contextlib
import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
import boxscore.coco
from tests.support.dropin import OURS, THEIRS, Tool, check_equal, check_same, dataset_of, evaluated, outcome, run
from tests.support.evaluators import parts_of
from tests.support.processes import run_world
from tests.support.scenes import as_dataset
from tests.support.world_of_coco import SCENE
from tests.support.world_of_metrics import as_dicts

# pycocotools' own
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"class_metrics": True},
        {"average": "micro", "extended_summary": True},
        {"iou_thresholds": [0.3, 0.6]},
        {"rec_thresholds": [0.0, 0.5, 1.0]},
        {"max_detection_thresholds": [1, 10, 100]},
    ],
    ids=str,
)
def test_torchmetrics_gives_its_own_numbers_over_the_patch(theirs: Any, settings: dict[str, Any]) -> None:
    """Every tensor of its result."""

    def computed() -> dict[str, Any]:
        metric = theirs("xywh", **settings)
        for image in range(SCENE.num_images):
            pred, target = as_dicts(SCENE, image)
            metric.update([pred], [target | {"iscrowd": target["iscrowd"].int()}])
        with contextlib.redirect_stdout(io.StringIO()):
            return metric.compute()  # type: ignore[no-any-return]

    expected = computed()
    with boxscore.patch_pycocotools():
        from pycocotools.cocoeval import COCOeval

        assert COCOeval is boxscore.coco.COCOeval
        found = computed()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name == "ious":
            assert found[name].keys() == value.keys()
            for pair, overlap in value.items():
                assert torch.equal(torch.as_tensor(found[name][pair]), torch.as_tensor(overlap))
        else:
            assert torch.equal(found[name], value), name


def test_an_evaluator_of_two_processes_gets_what_one_gets(tmp_path: Path) -> None:
    """Batches, entries gathered, then accumulated: by `evaluate`, and step by step."""
    one, _ = outcome(lambda tool: evaluated(tool, *as_dataset(SCENE)), THEIRS)
    for rank in run_world("tests.support.world_of_coco", 2, tmp_path):
        assert rank is not None
        for found in rank.values():
            check_equal(found, parts_of(one))


def with_outlines(scene: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A scene whose truths have masks: their boxes, without a corner."""
    dataset, results = as_dataset(scene)
    for ann in dataset["annotations"]:
        x, y, width, height = ann["bbox"]
        ann["segmentation"] = [[x, y, x + width, y, x + width, y + height]]
    return dataset, results


def with_keypoints() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """People by their keypoints, some of which can't be seen."""
    dataset, _ = as_dataset(SCENE)
    random = np.random.default_rng(0)
    dataset["categories"] = [{"id": 0, "name": "person"}]
    results = []
    for ann in dataset["annotations"]:
        ann["category_id"] = 0
        x, y, width, height = ann["bbox"]
        points = np.column_stack([random.uniform(x, x + width, 17), random.uniform(y, y + height, 17)])
        seen = random.integers(0, 3, 17) * (random.random() < 0.9)
        ann["keypoints"] = np.column_stack([points, seen]).ravel().tolist()
        ann["num_keypoints"] = int((seen > 0).sum())
        moved = points + random.normal(0, 2, points.shape)
        keypoints = np.column_stack([moved, np.ones(17)]).ravel().tolist()
        row = {"image_id": ann["image_id"], "category_id": 0, "keypoints": keypoints}
        results.append(row | {"score": float(random.random())})
    return dataset, results


def of_kind(tool: Tool, kind: str, dataset: Any, results: Any) -> Any:
    """An evaluation of masks or keypoints."""
    truths = dataset_of(tool, dataset)
    rows = [dict(row) for row in results]
    return run(tool.COCOeval(truths, truths.loadRes(rows), kind))


@pytest.mark.usefixtures("libm_exp")
@pytest.mark.parametrize("is_patched", [False, True])
def test_keypoints_have_the_numbers_and_the_text_of_pycocotools(is_patched: bool) -> None:
    """Under the patch as without it."""
    dataset, results = with_keypoints()
    expected = outcome(lambda tool: of_kind(tool, "keypoints", dataset, results), THEIRS)
    with boxscore.patch_pycocotools() if is_patched else contextlib.nullcontext():
        found = outcome(lambda tool: of_kind(tool, "keypoints", dataset, results), OURS)
    assert found[1] == expected[1]
    check_equal(found[0], expected[0])


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_of_boxes_are_pycocotools_own(seed: int) -> None:
    """In arrays and lists."""
    import pycocotools.mask as theirs

    from boxscore.coco import mask as ours

    random = np.random.default_rng(seed)
    found, there = random.uniform(-5, 50, (9, 4)).round(seed), random.uniform(-5, 50, (7, 4)).round(seed)
    crowds = (random.random(7) < 0.3).astype(int).tolist()
    for one, other in ((found, there), (found.tolist(), there.tolist()), (list(found), there.tolist())):
        assert np.array_equal(ours.iou(one, other, crowds), theirs.iou(one, other, crowds))
    for one, other, flags in (([], there, crowds), (found, [], []), (np.zeros((0, 4)), there, crowds)):
        assert list(ours.iou(one, other, flags)) == theirs.iou(one, other, flags)
    with pytest.raises(AssertionError, match="must have the same length as gt"):
        ours.iou(found, there, crowds[:-1])


def shown(tool: Tool, anns: Any) -> Any:
    """What showing annotations gives."""
    return tool.COCO().showAnns(anns)


def test_annotations_are_drawn_as_pycocotools_does() -> None:
    """The same polygons, points and colours; captions are printed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    dataset, _ = with_outlines(SCENE)
    dataset["categories"][0]["skeleton"] = [[1, 2], [2, 3]]
    anns = dataset["annotations"][:3]
    anns[0] |= {"category_id": 0, "keypoints": [1, 2, 2, 30, 40, 1, 5, 6, 0]}

    def drawn(tool: Tool) -> Any:
        coco = dataset_of(tool, dataset)
        np.random.seed(0)  # noqa: NPY002 — what pycocotools takes its colours from
        figure, axes = pyplot.subplots()
        coco.showAnns(anns, draw_bbox=True)
        pyplot.close(figure)
        shapes = [
            ([path.vertices for path in each.get_paths()], each.get_facecolor(), each.get_edgecolor())
            for each in axes.collections
        ]
        return shapes, [line.get_xydata() for line in axes.lines]

    expected, found = drawn(THEIRS), drawn(OURS)
    assert len(expected[0]) == 2
    check_equal(found, expected)
    several: list[Any] = [[], [{"caption": "two boxes"}], [{}]]
    for few in several:
        check_same(partial(shown, anns=few))
