"""Arguments with wrong names or values are told what to write; type checkers refuse them, too."""

import contextlib
import io
import json
import math
from typing import Any, get_args

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Truths
from boxscore._support.keyword_hints import FOREIGN
from boxscore.coco import COCO, COCOeval
from boxscore.pipeline import ENGINES
from boxscore.protocol.protocol import IOU_TYPES, EngineName, IouType, ProtocolName
from boxscore.protocol.table import PROTOCOLS

FOUND = {"boxes": np.array([[0.0, 0, 9, 9]]), "scores": np.array([0.9]), "labels": np.array([1])}
THERE = {"boxes": np.array([[0.0, 0, 9, 9]]), "labels": np.array([1])}


def test_the_names_that_type_checkers_know_are_those_of_the_tables() -> None:
    """In the same order."""
    assert get_args(ProtocolName) == tuple(PROTOCOLS)
    assert get_args(EngineName) == ("auto", *ENGINES)
    assert get_args(IouType) == IOU_TYPES


def test_wrong_names_are_refused_by_type_checkers_and_at_run_time() -> None:
    """mypy, which runs over the tests, would report each of these comments if it were not needed."""
    detections, truths = Detections.from_images([FOUND]), Truths.from_images([THERE])
    with pytest.raises(InputError, match=r"`protocol` must be one of voc2007, .*; got 'coc'"):
        boxscore.evaluate(detections, truths, "coc")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`protocol` must be one of voc2007, .*; got 'coc'"):
        boxscore.match(detections, truths, "coc")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`engine` must be one of auto, .*; got 'cuda'"):
        boxscore.evaluate(detections, truths, "coco", "cuda")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`iou_type` must be one of bbox, .*; got 'mask'"):
        MeanAveragePrecision("coco", iou_type="mask")  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"`box_format` must be one of xyxy, .*; got 'yxyx'"):
        MeanAveragePrecision("coco", box_format="yxyx")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="unexpected keyword argument 'maxDets'"):
        MeanAveragePrecision(maxDets=[1, 10, 100])  # type: ignore[call-overload]
    MeanAveragePrecision(Protocol.named("coco"), iou_type="segm", engine="native")


@pytest.mark.parametrize(("first", "advice"), [("xyxy", "box_format='xyxy'"), ("segm", "iou_type='segm'")])
def test_what_other_tools_have_as_first_argument_is_told(first: Any, advice: str) -> None:
    """The first argument of torchmetrics is the box format."""
    with pytest.raises(InputError, match=f"got '{first}': pass {advice}$"):
        MeanAveragePrecision(first)


def calls() -> dict[str, Any]:
    """What takes a protocol with keywords, by name; those whose frameworks are not installed are left out."""
    made: dict[str, Any] = {"MeanAveragePrecision": MeanAveragePrecision}
    with contextlib.suppress(ImportError):
        import boxscore.keras

        made["MeanAveragePrecisionCallback"] = boxscore.keras.MeanAveragePrecisionCallback
    with contextlib.suppress(ImportError):
        import boxscore.huggingface

        made["DetectionMetrics"] = boxscore.huggingface.DetectionMetrics
    return made


@pytest.mark.parametrize("keyword", [*FOREIGN, "nonsense"])
def test_a_keyword_of_another_tool_is_told_with_ours(keyword: str) -> None:
    """And one that nobody knows with those that there are."""
    for name, call in calls().items():
        if name == "DetectionMetrics" and keyword == "id2label":
            continue  # its own
        with pytest.raises(TypeError) as error:
            call(**{keyword: 1})
        advice = f"; use {FOREIGN[keyword]}" if keyword in FOREIGN else "; it has "
        assert str(error.value).startswith(f"{name}() got an unexpected keyword argument {keyword!r}{advice}")


@pytest.mark.parametrize("advice", sorted({each for each in FOREIGN.values() if "=" in each}))
def test_what_is_suggested_can_be_written(advice: str) -> None:
    """As it stands."""
    assert isinstance(eval(f"boxscore.MeanAveragePrecision({advice})", {"boxscore": boxscore}), MeanAveragePrecision)


@pytest.mark.parametrize("name", ["coco", "lvis", "ultralytics", "olrp"])
def test_a_protocol_that_is_reduced_to_one_threshold_keeps_its_names(name: Any) -> None:
    """`map_50` is `map` then; at 0.75 there is no `map_50`."""
    metric = MeanAveragePrecision(Protocol.named(name, thresholds=(0.5,), federated=False), warn=False)
    metric.update([FOUND], [THERE])
    result = metric.compute()
    assert result["map_50"] == result["map"] > 0.9
    assert "map_75" not in result
    other = MeanAveragePrecision(Protocol.named(name, thresholds=(0.75,), federated=False)).compute()
    assert "map_75" in other
    assert "map_50" not in other
    poses = MeanAveragePrecision(Protocol.named("coco_keypoints", thresholds=(0.5,))).compute()
    assert {"map_50", "mar_50"} <= poses.keys()


def test_undefined_numbers_follow_one_convention() -> None:
    """The table in docs/guides/protocols.md: NaN, -1 in COCO's arrays, left out of logs; no truth is large here."""
    result = boxscore.evaluate(Detections.from_images([FOUND]), Truths.from_images([THERE]))
    assert math.isnan(result["map_large"])
    assert "map_large" not in result.log_dict()
    assert result.log_dict(undefined=-1.0)["map_large"] == -1
    assert (result.curves.precision[..., -1, :] == -1).all()
    assert json.loads(json.dumps(result.to_dict()))["map_large"] is None
    with contextlib.redirect_stdout(io.StringIO()):
        truths = COCO()
        row = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
        annotation = {**row, "id": 1, "area": 81, "iscrowd": 0}
        truths.dataset = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "a"}], "annotations": [annotation]}
        truths.createIndex()
        evaluation = COCOeval(truths, truths.loadRes([{**row, "score": 0.9}]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert evaluation.stats[5] == -1


def test_adapters_follow_the_convention_of_their_framework() -> None:
    """That of torchmetrics is -1, and so is that of what is used beside it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric

    cases: list[tuple[dict[str, Any], int | None]] = [({}, -1), ({"skip_undefined": True}, None)]
    for settings, wanted in cases:
        metric = TorchMetric(**settings)
        metric.update(*([{key: torch.as_tensor(value) for key, value in each.items()}] for each in (FOUND, THERE)))
        assert metric.compute().get("map_large") == wanted
    with contextlib.suppress(ImportError):
        from boxscore.huggingface import EvaluateMetric

        numbers = EvaluateMetric(keep_in_memory=True, warn=False).compute(predictions=[FOUND], references=[THERE])
        assert numbers["map_large"] == -1
