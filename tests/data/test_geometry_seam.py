"""A geometry in one file goes through everything: intervals on a line give the numbers of boxes of height 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Result, Truths
from boxscore.data.dataset import take
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from tests.geometries.intervals import Intervals
from tests.support.comparisons import TALLY
from tests.support.engines import ENGINES

COCO = Protocol.named("coco", areas={"all": (0, 1e10), "short": (0, 20), "long": (20, 1e10)})


def protocol_of(detections: Detections, protocol: Protocol = COCO) -> Protocol:
    """The same rules for the shapes of these detections."""
    return protocol.replace(iou_type=detections.geometry.iou_types[0])


@dataclass(frozen=True)
class Scene:
    """The same shapes under two geometries."""

    detections: tuple[Detections, Detections]
    truths: tuple[Truths, Truths]


def geometries(interval: Any) -> tuple[Geometry, Geometry]:
    """Intervals, and boxes of height 1 with the same sides."""
    start, end = interval.T
    box = np.stack([start, np.zeros(len(start)), end, np.ones(len(start))], axis=1)
    return Intervals(interval=interval), Boxes(box=box)


def make_scene(seed: int = 0, num: int = 120) -> Scene:
    """Whole numbers, so that both geometries have the same bits; detections near truths, and some anywhere."""
    random = np.random.default_rng(seed)
    start = random.integers(0, 200, num)
    interval = np.stack([start, start + random.integers(5, 40, num)], axis=1).astype(float)
    truth: dict[str, Any] = {"image": random.integers(0, 12, num), "label": random.integers(0, 3, num)}
    ignore = random.random(num) < 0.1
    moved = interval + random.integers(-3, 4, (num, 1))
    found: dict[str, Any] = {
        "image": truth["image"],
        "label": truth["label"],
        "score": random.integers(0, 50, num) / 50,
    }
    found["label"] = np.where(random.random(num) < 0.15, (found["label"] + 1) % 3, found["label"])
    moved[random.random(num) < 0.2] += 60
    first, second = (Detections(**found, geometry=geometry) for geometry in geometries(moved))
    true, other = (Truths(**truth, ignore=ignore, geometry=geometry) for geometry in geometries(interval))
    return Scene((first, second), (true, other))


def assert_same(result: Result, expected: Result) -> None:
    """Every number and every curve, bit for bit."""
    assert np.array_equal(list(result.values()), list(expected.values()), equal_nan=True)
    assert np.array_equal(result.curves.precision, expected.curves.precision)


@pytest.mark.parametrize("protocol", [COCO, Protocol.named("voc2012", pixels="continuous")])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_tally_of_boxes(engine: Any, protocol: Protocol) -> None:
    """Crowds and area ranges included; and some of the detections are right."""
    scene = make_scene()
    tally, expected = (
        boxscore.match(detections, truths, protocol_of(detections, protocol), engine)
        for detections, truths in zip(scene.detections, scene.truths, strict=True)
    )
    for column in TALLY:
        assert np.array_equal(getattr(tally, column), getattr(expected, column)), column
    assert 0.2 < boxscore.finish(tally)["map"] < 0.9


@pytest.mark.parametrize("engine", ENGINES)
class TestEverythingAfter:
    """What comes after matching never asks what a shape is."""

    def test_evaluate_and_bootstrap(self, engine: Any) -> None:
        """The same numbers, and the same confidence intervals."""
        scene = make_scene()
        result, expected = (
            boxscore.evaluate(detections, truths, protocol_of(detections), engine)
            for detections, truths in zip(scene.detections, scene.truths, strict=True)
        )
        assert_same(result, expected)
        sure, other = result.intervals(resamples=20), expected.intervals(resamples=20)
        assert sure.low == other.low
        assert sure.high == other.high

    def test_metric_and_merge(self, engine: Any) -> None:
        """Two halves of the images, in one metric and in two tallies that are merged."""
        scene = make_scene()
        results = []
        for detections, truths in zip(scene.detections, scene.truths, strict=True):
            metric = MeanAveragePrecision(protocol_of(detections), engine=engine, warn=False)
            tallies = []
            for part in (0, 1):
                rows, truth_rows = detections.image % 2 == part, truths.image % 2 == part
                some = take(detections, rows), take(truths, truth_rows)
                metric.update(*some)
                tallies.append(boxscore.match(*some, protocol_of(detections), engine))
            results.append(metric.compute())
            assert_same(boxscore.finish(tallies[0].merge(tallies[1])), results[-1])
        assert_same(*results)

    def test_class_agnostic(self, engine: Any) -> None:
        """All classes as one: rows are sorted by label first."""
        scene = make_scene()
        protocol = COCO.replace(class_agnostic=True)
        assert_same(
            *(
                boxscore.evaluate(detections, truths, protocol_of(detections, protocol), engine)
                for detections, truths in zip(scene.detections, scene.truths, strict=True)
            )
        )


def test_errors_confusion_and_report() -> None:
    """TIDE's types, the confusion matrix and the page."""
    scene = make_scene()
    result, expected = (
        boxscore.evaluate(detections, truths, protocol_of(detections), "parallel")
        for detections, truths in zip(scene.detections, scene.truths, strict=True)
    )
    assert result.errors().to_dict() == expected.errors().to_dict()
    assert result.confusion().to_dict() == expected.confusion().to_dict()
    page, expected_page = (
        each.to_html(resamples=0).replace(each.comparable.sentence, "").replace(str(each.comparable), "")
        for each in (result, expected)
    )
    page = page.replace("coco interval_iou", "coco").replace('["shapes","interval_iou"]', '["shapes","boxes"]')
    page = page.replace('"interval_iou"', '"bbox"')
    assert len(page) == len(expected_page)


def test_both_sides_have_the_shapes_of_the_protocol() -> None:
    """Intervals can't be compared with boxes."""
    scene = make_scene()
    rule = r"`iou_type` 'bbox' needs other shapes; these Detections have intervals \(interval_iou\)"
    with pytest.raises(InputError, match=rule):
        boxscore.match(scene.detections[0], scene.truths[1], COCO)
    with pytest.raises(InputError, match=rule):
        boxscore.match(scene.detections[0], scene.truths[1], "coco")


def test_a_geometry_says_what_it_is() -> None:
    """In its repr, and in errors."""
    scene = make_scene()
    assert repr(scene.detections[0]) == "Detections(120 intervals in 12 images, numpy)"
    with pytest.raises(InputError, match="boxes are needed here; these Detections have intervals"):
        _ = scene.detections[0].box
    with pytest.raises(InputError, match="`interval` must have 1 rows, the number of scores; got 120"):
        Detections(image=[0], label=[0], score=[0.5], geometry=scene.detections[0].geometry)
