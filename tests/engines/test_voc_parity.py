"""VOC: the sequential and the parallel method give the same verdict for every detection, and the devkit's numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore.cli.table1 import table1
from boxscore.data.geometry.boxes import Boxes
from boxscore.formats import read_detections, read_truths
from tests.support.comparisons import TALLY
from tests.support.scenes import random_scene
from tests.support.shared import shared_data
from tests.support.voc_reference import average_precisions


@pytest.fixture(scope="module")
def voc2007() -> tuple[Detections, Truths]:
    """VOC 2007 test, and a YOLOv3 on it."""
    truths = read_truths(shared_data("voc2007/Annotations.zip"))
    with pytest.warns(UserWarning, match=r"^corners in the wrong order \(3 boxes, first in .*bird.txt: line 530\)"):
        detections = read_detections(shared_data("voc2007/results"), truths)
    return detections, truths


def test_real_data_is_all_there(voc2007: tuple[Detections, Truths]) -> None:
    """The counts that the data's README states."""
    detections, truths = voc2007
    assert len(detections) == 87_765
    assert len(truths) == 14_976
    assert truths.ignore is not None
    assert np.count_nonzero(truths.ignore) == 2_944
    assert len(truths.class_names or ()) == 20
    assert len(truths.image_names or ()) == 4_952


@pytest.mark.parametrize("protocol", ["voc2007", "voc2012", "paper"])
def test_real_data_gets_the_same_verdicts_from_all_engines(voc2007: tuple[Detections, Truths], protocol: Any) -> None:
    """For every detection, so precision and recall are the same to the last bit."""
    expected = boxscore.match(*voc2007, protocol, "sequential")
    drawn = boxscore.finish(expected, "sequential").curves
    for engine in ("parallel", "native"):
        tally = boxscore.match(*voc2007, protocol, engine)
        for column in TALLY:
            assert np.array_equal(getattr(tally, column), getattr(expected, column)), (engine, column)
        curves = boxscore.finish(tally, engine).curves
        for name in ("precision", "recall", "scores", "num_true", "num_false"):
            assert np.array_equal(getattr(curves, name), getattr(drawn, name)), (engine, name)
        if protocol == "paper" and engine == "parallel":  # its trapezoids are a segmented sum, in the library's order
            np.testing.assert_allclose(curves.average_precision, drawn.average_precision, rtol=0, atol=1e-12)
        else:
            assert np.array_equal(curves.average_precision, drawn.average_precision), engine


@pytest.mark.parametrize(("name", "expected"), [("voc2007", 0.67748), ("voc2012", 0.69676)])
def test_real_data_has_the_reference_map(voc2007: tuple[Detections, Truths], name: str, expected: float) -> None:
    """By the rules of py-faster-rcnn, which wants IoU > 0.5; five digits are stated."""
    result = boxscore.evaluate(*voc2007, Protocol.named(name, comparison=">"))
    assert round(result["map"], 5) == expected


def xyxy(box: Any) -> Any:
    """Corners of whole numbers from xywh."""
    return np.hstack([box[:, :2], box[:, :2] + box[:, 2:]])


def check_bits(detections: Detections, truths: Truths, name: str, engine: Any) -> None:
    """Every class has the AP of py-faster-rcnn, and mAP is NumPy's mean of them."""
    expected = average_precisions(detections, truths, is_2007=name == "voc2007")
    result = boxscore.evaluate(detections, truths, Protocol.named(name, comparison=">"), engine)
    ap = dict(zip(result.per_class.label.tolist(), result.per_class.ap.tolist(), strict=True))
    assert {label: value for label, value in ap.items() if not np.isnan(value)} == expected
    assert result["map"] == (np.mean(list(expected.values())) if expected else result["map"])


@pytest.mark.parametrize("name", ["voc2007", "voc2012"])
def test_real_data_has_every_bit_of_py_faster_rcnn(voc2007: tuple[Detections, Truths], name: str) -> None:
    """AP of all 20 classes by both rules; sums of a thousand numbers show in which order they were added."""
    check_bits(*voc2007, name, "native")


@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
@pytest.mark.parametrize("name", ["voc2007", "voc2012"])
@pytest.mark.parametrize("seed", range(4))
def test_random_scenes_have_every_bit_of_py_faster_rcnn(seed: int, name: str, engine: Any) -> None:
    """Difficult truths and ties included, from every engine."""
    scene = random_scene(seed, is_whole=True, num_images=40)
    detections = replace(scene.detections, geometry=Boxes(boxes=xyxy(scene.detections.boxes)))
    truths = replace(scene.truths, geometry=Boxes(boxes=xyxy(scene.truths.boxes)))
    check_bits(detections, truths, name, engine)


def test_table_1_of_real_data_shows_no_difference(voc2007: tuple[Detections, Truths]) -> None:
    """Ours differs by 0 in every row; the method as published does not."""
    rows = [line.split() for line in table1(*voc2007).splitlines()[2:]]
    assert len(rows) == 21
    for _, *cells in rows[:-1]:
        tp, _, _, tp_ours, tp_change, fp, _, _, fp_ours, fp_change = cells
        assert (tp_ours, tp_change, fp_ours, fp_change) == (tp, "0", fp, "0")
    assert any(cells[3] != "0" or cells[8] != "0" for cells in rows[:-1])
    assert rows[-1] == ["mAP", "0.696757", "0.695734", "-0.15%", "0.696757", "0"]


@pytest.mark.parametrize("pixels", ["inclusive", "continuous"])
@pytest.mark.parametrize("comparison", [">", ">="])
@pytest.mark.parametrize("seed", range(6))
def test_random_scenes_get_the_same_verdicts_from_all_engines(seed: int, comparison: str, pixels: str) -> None:
    """Difficult truths, ties, several thresholds and area ranges."""
    scene = random_scene(seed, is_whole=True)
    changes = {"thresholds": (0.0, 0.5, 0.7), "areas": {"all": (0, 1e10), "small": (0, 32**2)}, "limits": (3, None)}
    for name in ("voc2007", "paper"):
        protocol = Protocol.named(name, comparison=comparison, pixels=pixels, **changes)
        expected = boxscore.match(scene.detections, scene.truths, protocol, "sequential")
        for engine in ("parallel", "native"):
            tally = boxscore.match(scene.detections, scene.truths, protocol, engine)
            for column in TALLY:
                assert np.array_equal(getattr(tally, column), getattr(expected, column)), (engine, column)
