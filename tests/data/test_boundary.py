"""Boundary IoU is that of its reference: faster-coco-eval takes over its definition, and is asked here."""

import contextlib
import copy
import io
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Protocol
from boxscore.data.geometry.masks import Masks
from tests.support.mask_scenes import columns_of, encoded, random_masks

faster_coco_eval = pytest.importorskip("faster_coco_eval")
BOUNDARY = Protocol.named("coco", iou_type="boundary")


def reference(dataset: dict[str, Any], results: list[dict[str, Any]], **settings: Any) -> Any:
    """The evaluation by faster-coco-eval, with its overlaps."""
    with contextlib.redirect_stdout(io.StringIO()):
        truths = faster_coco_eval.COCO()
        truths.dataset = copy.deepcopy(dataset)
        truths.createIndex()
        found = truths.loadRes(copy.deepcopy(results))
        silent: Any = lambda *_, **__: None  # noqa: E731
        settings |= {"print_function": silent, "extra_calc": True}
        evaluation = faster_coco_eval.COCOeval_faster(truths, found, "boundary", **settings)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


@pytest.mark.parametrize("ratio", [0.02, 0.008, 0.1])
@pytest.mark.parametrize("seed", range(8))
def test_every_overlap_is_that_of_the_reference(seed: int, ratio: float) -> None:
    """The smaller one of mask IoU and boundary IoU; with crowds mask IoU alone; -1 for masks of other sizes."""
    dataset, results = random_masks(seed)
    evaluation = reference(dataset, results, boundary_dilation_ratio=ratio)
    protocol = BOUNDARY.replace(dilation_ratio=ratio)
    detections, truths = columns_of(dataset, results)
    shapes, truth_shapes = detections.geometry.shapes(protocol), truths.geometry.shapes(protocol)
    num = 0
    for (image, label), expected in evaluation.ious.items():
        rows, truth_rows = (
            [row for row, each in enumerate(side) if (each["image_id"], each["category_id"]) == (image, label)]
            for side in (results, dataset["annotations"])
        )
        rows = [rows[i] for i in np.argsort([-results[row]["score"] for row in rows], kind="stable")]
        found = [
            [
                Masks.similarity(
                    shapes[row],
                    truth_shapes[other],
                    is_crowd=bool(dataset["annotations"][other]["iscrowd"]),
                    protocol=protocol,
                )
                for other in truth_rows
            ]
            for row in rows
        ]
        if len(expected):
            assert np.array_equal(found, expected)
            num += np.size(expected)
    assert num > 5


@pytest.mark.parametrize("seed", range(8))
def test_the_numbers_are_those_of_the_reference(seed: int) -> None:
    """But for the last digit, as faster-coco-eval adds up in another order; all of them from masks that are alike."""
    random = np.random.default_rng(seed)
    dataset, results = random_masks(seed, num_images=10)
    for row in dataset["annotations"]:
        if row["iscrowd"]:
            continue
        image = dataset["images"][row["image_id"]]
        pixels = boxscore.data.Masks.from_rle([row["segmentation"]], (image["height"], image["width"])).pixels(0)
        near = np.roll(pixels, random.integers(-1, 2, 2), axis=(0, 1)).astype(bool)
        found = {"image_id": row["image_id"], "category_id": row["category_id"], "score": round(random.random(), 2)}
        results.append(found | {"segmentation": encoded(near)})
    expected = reference(dataset, results).stats[:12]
    result = boxscore.evaluate(*columns_of(dataset, results), BOUNDARY)
    np.testing.assert_allclose(np.nan_to_num(list(result.values()), nan=-1), expected, rtol=0, atol=1e-12)
    assert 0.01 < result["map"] < boxscore.evaluate(*columns_of(dataset, results))["map"]
