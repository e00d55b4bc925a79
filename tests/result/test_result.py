"""The result as people meet it: a mapping, a table, JSON."""

import json
import math
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore._support.lazy import Lazy
from boxscore.cli import sample
from boxscore.result.tally import joined
from tests.support.scenes import random_scene

BOX = [[0, 0, 10, 10]]


def test_it_is_a_mapping_of_the_names_people_know(result: boxscore.Result) -> None:
    """In the order of COCO's twelve lines."""
    assert isinstance(result, Mapping)
    ap = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
    assert list(result) == [*ap, "mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]
    assert dict(result)["map"] == result["map"]


def test_a_name_that_is_not_measured_is_explained() -> None:
    """VOC has no map_75."""
    result = boxscore.evaluate(*sample.load(), "voc2012")
    with pytest.raises(KeyError, match="'map_75' is not measured under this protocol; measured are map, mar"):
        result["map_75"]


def test_names_follow_the_protocol() -> None:
    """Any areas, any limits, also without 100."""
    areas = {"all": (0, 1e10), "tiny": (0, 100)}
    protocol = Protocol.named("coco", limits=(5, 300), areas=areas, thresholds=(0.3, 0.5))
    result = boxscore.evaluate(*sample.load(), protocol)
    assert list(result) == ["map", "map_50", "map_tiny", "mar_5", "mar_300", "mar_tiny"]
    assert 0 < result["map"] < 1
    assert result.per_threshold[0.5] == result["map_50"]


def test_per_class_has_a_row_for_each_name(result: boxscore.Result) -> None:
    """AP, AR, truths, detections, and TP and FP at each threshold."""
    per_class = result.per_class
    assert per_class.name == ("person", "bicycle", "car", "dog")
    assert per_class.label.tolist() == [1, 2, 3, 18]
    assert per_class.num_true.shape == per_class.num_false.shape == (4, 10)
    assert np.mean(per_class.ap) == pytest.approx(result["map"], abs=1e-12)
    assert np.mean(per_class.ar) == pytest.approx(result["mar_100"], abs=1e-12)
    assert (per_class.num_true[:, 0] <= per_class.num_truths).all()
    assert (per_class.num_true + per_class.num_false <= per_class.num_detections[:, None]).all()


def test_per_class_has_the_ap_at_half_overlap(result: boxscore.Result) -> None:
    """Where 0.5 is one of the thresholds, whatever its place among them; else it is undefined."""
    per_class = result.per_class
    assert np.array_equal(per_class.ap_50, per_class.ap_at[:, 0])
    assert np.mean(per_class.ap_50) == pytest.approx(result["map_50"], abs=1e-12)
    assert [row.ap_50 for row in per_class.rows()] == per_class.ap_50.tolist()
    assert [row["ap_50"] for row in result.to_dict()["per_class"]] == per_class.ap_50.tolist()
    other = boxscore.evaluate(*sample.load(), Protocol.named("coco", thresholds=(0.3, 0.5, 0.7)))
    assert np.array_equal(other.per_class.ap_50, per_class.ap_50)
    voc = boxscore.evaluate(*sample.load(), "voc2012").per_class
    assert np.array_equal(voc.ap_50, voc.ap)
    strict = boxscore.evaluate(*sample.load(), Protocol.named("coco", thresholds=(0.75,)))
    assert np.isnan(strict.per_class.ap_50).all()
    assert strict.to_dict()["per_class"][0]["ap_50"] is None


def test_classes_without_names_go_by_their_labels() -> None:
    """And those without truths have no AP."""
    result = boxscore.evaluate(
        Detections(image_ids=[0, 0], labels=[3, 70], scores=[0.9, 0.8], boxes=BOX * 2),
        Truths(image_ids=[0], labels=[3], boxes=BOX),
    )
    assert result.per_class.name == ("3", "70")
    assert math.isnan(result.per_class.ap[1])
    assert result.per_class.num_false[1, 0] == 1


def test_to_dict_is_plain_json(result: boxscore.Result) -> None:
    """Undefined is null; it survives a round trip."""
    nothing = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    )
    assert nothing.to_dict()["map"] is None
    plain = result.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["protocol"] == "coco"
    assert plain["map"] == result["map"]
    assert plain["per_class"][0]["name"] == "person"
    assert plain["settings"]["limits"] == [1, 10, 100]
    assert json.dumps(boxscore.evaluate(*sample.load(), "voc2007").to_dict(), allow_nan=False)


def test_it_prints_as_a_table() -> None:
    """One line a number, with what it means; undefined is a dash."""
    truths = Truths(image_ids=[0], labels=[3], boxes=BOX, class_names={3: "cat", 4: "dog"})
    result = boxscore.evaluate(Detections(image_ids=[0], labels=[3], scores=[0.9], boxes=BOX), truths, "voc2012")
    assert str(result).splitlines() == [
        "voc2012: 2 classes, 1 truth, 1 detection",
        "",
        "map  1.0000  AP  IoU 0.50  all  all detections",
        "mar  1.0000  AR  IoU 0.50  all  all detections",
        "",
        "comparable with published numbers: PASCAL VOC 2012 rules",
    ]
    assert str(result.per_class).splitlines() == [
        "class      AP      AR  truths  detections  TP@0.50  FP@0.50",
        "-----  ------  ------  ------  ----------  -------  -------",
        "cat    1.0000  1.0000       1           1        1        0",
        "dog         -       -       0           0        0        0",
    ]
    assert repr(result) == "Result(voc2012, map=1.0000, 2 classes)"


def test_weighted_and_micro_averages_of_nothing_are_undefined() -> None:
    """As the plain mean is."""
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    for average in ("macro", "weighted", "micro"):
        assert math.isnan(boxscore.evaluate(*nothing, Protocol.named("coco", average=average))["map"])


def test_the_numbers_of_a_protocol_are_those_of_numpy() -> None:
    """They are made without it, to the same bits."""
    coco, voc2007 = boxscore.Protocol.named("coco"), boxscore.Protocol.named("voc2007")
    assert coco.thresholds == tuple(np.linspace(0.5, 0.95, 10))
    assert coco.recall_points == tuple(np.linspace(0.0, 1.0, 101))
    assert coco.precision_epsilon == np.spacing(1)
    assert voc2007.recall_points == tuple(np.arange(0.0, 1.1, 0.1))


def test_names_of_any_script_leave_the_columns_straight() -> None:
    """Wide letters take two columns of a terminal, marks none; what would move its cursor is escaped."""
    names = ["dog", "犬", "de\u0301", "می\u200cرود", "\x1b[31mred\n"]
    truths = Truths(image_ids=[0] * 5, labels=range(5), boxes=[[0, 0, 9, 9]] * 5, class_names=names)
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    _, _, *rows = str(boxscore.evaluate(nothing, truths).per_class).splitlines()
    cells = [row[: row.index("0.0000")] for row in rows]
    assert [cell.rstrip() for cell in cells] == ["dog", "犬", "de\u0301", "می\u200cرود", "\\x1b[31mred\\n"]
    assert [cell.count(" ") for cell in cells] == [15 - 3, 15 - 2, 15 - 2, 15 - 5, 15 - 13]


def test_tallies_are_merged_when_the_tally_is_first_read() -> None:
    """Once, into the tally that they merge to; the fields of the result stay the objects that they were."""
    protocol = Protocol.named("coco")
    parts = [
        boxscore.match(
            Detections(image_ids=[i], labels=[1], scores=[0.9], boxes=BOX),
            Truths(image_ids=[i], labels=[1], boxes=BOX),
            protocol,
        )
        for i in range(3)
    ]
    lazy = Lazy(lambda: joined(parts))
    result = replace(boxscore.finish(parts), _lazy_tally=lazy)
    assert result.tally is result.tally
    assert result._lazy_tally is lazy
    expected = parts[0].merge(*parts[1:])
    for name in ("image", "label", "score", "state", "truth_image", "truth_label", "truth_state"):
        assert np.array_equal(getattr(result.tally, name), getattr(expected, name)), name
    assert pickle.loads(pickle.dumps(result)).tally.image.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="this result has no tally: it was computed class by class"):
        _ = replace(result, _lazy_tally=None).tally


def test_inputs_are_what_was_evaluated() -> None:
    """The same objects; the result of a tally has none."""
    detections, truths = sample.load()
    result = boxscore.evaluate(detections, truths)
    assert result.inputs is not None
    assert result.inputs.detections is detections
    assert result.inputs.truths is truths
    assert result.image_names == truths.image_names
    assert boxscore.finish(result.tally).inputs is None
    assert boxscore.finish(result.tally).image_names is None


def test_the_large_arrays_are_built_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither numbers nor tables need them; reading either of them builds both, once."""
    built = []

    def build(*arguments: Any) -> Any:
        built.append(arguments)
        return compiled(*arguments)

    compiled = boxscore._compiled.Finished.build_curves
    monkeypatch.setattr(boxscore._compiled.Finished, "build_curves", build)
    result = boxscore.evaluate(*sample.load())
    assert str(result)
    assert result.to_dict()
    assert not built
    assert result.curves.precision.shape == result.curves.scores.shape == (10, 101, 4, 4, 3)
    assert result.curves.precision is result.curves.precision
    assert len(built) == 1


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("name", ["coco", "voc2007", "voc2012", "paper"])
def test_numbers_are_those_of_the_arrays(name: str, average: str) -> None:
    """Every mean that is taken on the way is that of NumPy over the arrays, or of the other engines' arrays."""
    scene = random_scene(4, num_images=12)
    protocol = Protocol.named(name, average=average)
    result = boxscore.evaluate(scene.detections, scene.truths, protocol)
    other = boxscore.evaluate(scene.detections, scene.truths, protocol, engine="parallel")
    assert dict(result) == dict(other)
    assert result.per_threshold == other.per_threshold
    for column in ("ap", "ap_50", "ar", "num_truths", "num_detections", "ap_at", "num_true", "num_false"):
        assert np.array_equal(getattr(result.per_class, column), getattr(other.per_class, column), equal_nan=True), (
            column
        )
    if average == "macro":
        samples = result.curves.precision if protocol.ap == "recall_points" else result.curves.average_precision
        samples = samples[..., 0, -1]
        assert result["map"] == samples[samples > -1].mean()
    if average == "weighted":
        per_class, has_truths = result.per_class, result.per_class.num_truths > 0
        assert result["map"] == np.average(per_class.ap[has_truths], weights=per_class.num_truths[has_truths])


def test_curves_are_values() -> None:
    """They survive a pickle, can be replaced and not changed."""
    curves = boxscore.evaluate(*sample.load()).curves
    again = pickle.loads(pickle.dumps(curves))
    for name in ("precision", "scores", "recall"):
        assert np.array_equal(getattr(again, name), getattr(curves, name))
    other = replace(curves, precision=curves.precision * 2)
    assert np.array_equal(other.precision, curves.precision * 2)
    assert other.scores is curves.scores
    with pytest.raises(FrozenInstanceError):
        setattr(curves, "precision", other.precision)  # noqa: B010 (mypy knows that it can't be)


def test_a_lazy_value_is_computed_by_one_thread() -> None:
    """Eight of them ask at once, and get the same."""
    barrier, computed = Barrier(8), []

    def compute() -> object:
        computed.append(object())
        return computed[0]

    value = Lazy(compute)

    def read(_: int) -> object:
        barrier.wait()
        return value.value

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(read, range(8)))) == 1
    assert len(computed) == 1
