"""Every entrance that takes a protocol gives the numbers of `boxscore.evaluate`, or refuses it by name."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore.faster_coco_eval as faster
from boxscore import InputError
from boxscore.coco import COCO, COCOeval
from boxscore.lvis import LVISEval
from boxscore.protocol.protocol import IOU_TYPES
from boxscore.protocol.table import protocol_of
from boxscore.torchvision import CocoEvaluator
from tests.support.entrances import CASES, ENTRANCES, REFUSED, expected, rules_of, scene_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_entrance_gives_the_numbers_of_evaluate_or_refuses_by_name(entrance: str, case: str) -> None:
    """The error names the protocol, or the similarity, that the entrance can't do."""
    protocol = CASES[case]
    if rules_of(protocol) & REFUSED.get(entrance, set()):
        with pytest.raises(InputError) as error:
            ENTRANCES[entrance](protocol)
        assert protocol.name in str(error.value) or f"got {protocol.iou_type!r}" in str(error.value)
    else:
        plain = protocol.replace(extra_numbers=()) if entrance == "match_batch" else protocol
        assert dict(ENTRANCES[entrance](protocol)) == dict(expected(plain))


@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_torchmetrics_gives_the_numbers_of_evaluate_or_refuses_by_name(iou_type: Any) -> None:
    """In single precision, as torchmetrics has them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from boxscore.torchmetrics import MeanAveragePrecision

    if iou_type not in ("bbox", "segm", "keypoints"):
        with pytest.raises(InputError, match=f"`iou_type` must be bbox, segm, .*; got {iou_type!r}"):
            MeanAveragePrecision(iou_type=iou_type)
        return
    protocol = protocol_of("coco", iou_type)
    scene = scene_of(protocol)
    metric = MeanAveragePrecision(iou_type=iou_type, scalars_only=True)
    metric.update(
        *(
            [{key: torch.as_tensor(value) for key, value in image.items()} for image in images]
            for images in (scene.preds, scene.targets)
        )
    )
    numbers = {name: float(value) for name, value in metric.compute().items()}
    assert numbers == {name: float(np.float32(value)) for name, value in expected(protocol).items()}


def test_the_sequential_functions_prepare_their_input() -> None:
    """As `match` and `finish` do: a minimum score, a limit over the dataset, masks beside boxes."""
    for protocol in (CASES["ultralytics"], CASES["lvis_fixed"].replace(limits=(4,)), CASES["coco segm"]):
        detections, truths = scene_of(protocol).columns()
        tally = boxscore.sequential.match(detections, truths, protocol)
        wanted = boxscore.evaluate(detections, truths, protocol)
        assert boxscore.finish(tally)["map"] == wanted["map"]
        ours, theirs = (each.average_precision for each in (boxscore.sequential.curves(tally), wanted.curves))
        assert np.array_equal(ours, theirs, equal_nan=True)


DATASET: dict[str, Any] = {
    "images": [{"id": 7, "height": 50, "width": 50, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
    "categories": [{"id": 1, "name": "cat", "frequency": "r"}],
    "annotations": [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}],
}
RESULT: dict[str, Any] = {"image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 8], "score": 0.9}


@pytest.mark.parametrize("iou_type", ["boundary", "obb", "probiou", "OBB", "", None])
@pytest.mark.parametrize("kind", [COCOeval, faster.COCOeval_faster])
def test_drop_ins_refuse_a_similarity_that_they_do_not_have(kind: Any, iou_type: Any) -> None:
    """As the tools do when they are made; and also where `params.iouType` is changed later, which computed box IoU."""
    with contextlib.redirect_stdout(io.StringIO()):
        truths = (COCO if kind is COCOeval else faster.COCO)()
        truths.dataset = DATASET
        truths.createIndex()
        evaluation = kind(truths, truths.loadRes([RESULT]), "bbox")
        if kind is faster.COCOeval_faster and iou_type == "boundary":
            return
        with pytest.raises(Exception, match="iouType not supported"):
            kind(truths, None, iou_type)
        evaluation.params.iouType = iou_type
        with pytest.raises(InputError, match=r"`params.iouType` must be one of segm, bbox, .*keypoints.*; got"):
            evaluation.evaluate()


@pytest.mark.parametrize("iou_type", ["boundary", "keypoints", "obb", ""])
def test_lvis_refuses_a_similarity_that_it_does_not_have(iou_type: Any, tmp_path: Path) -> None:
    """When the evaluation is made, and where `params.iou_type` is changed later."""
    path = tmp_path / "truths.json"
    path.write_text(json.dumps(DATASET))
    with pytest.raises(InputError, match="`iou_type` must be bbox or segm; got"):
        LVISEval(str(path), [RESULT], iou_type)
    evaluation = LVISEval(str(path), [RESULT], "bbox")
    evaluation.params.iou_type = iou_type
    with pytest.raises(InputError, match=r"`params.iou_type` must be bbox or segm; got"):
        evaluation.run()


@pytest.mark.parametrize("iou_type", ["boundary", "obb", ""])
def test_torchvisions_evaluator_refuses_a_similarity_that_it_does_not_have(iou_type: Any) -> None:
    """When it is made."""
    with pytest.raises(InputError, match="`iou_types` must be a list of 'bbox', 'segm', 'keypoints'; got"):
        CocoEvaluator(COCO(), [iou_type])
