"""mAP as a Keras metric: in the graph of each step, with the bits of `evaluate`, on every backend."""

import importlib
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Protocol
from tests.support.documents import ROOT
from tests.support.scenes import padded, random_scene

keras = pytest.importorskip("keras", reason="Keras is not installed")
Metric = importlib.import_module("boxscore.keras").MeanAveragePrecision

BOX = [[[0.0, 0, 9, 9]]]


def batch(seed: int = 3) -> tuple[dict[str, Any], dict[str, Any]]:
    """Eleven images as KerasCV has them: truths and predictions in dicts, with -1 for the class of padding.

    In single precision, as Keras casts NumPy's doubles.
    """
    found, truths = padded(random_scene(seed, num_images=11))
    box, truth_box, score = (column.astype(np.float32) for column in (found.boxes, truths.boxes, found.scores))
    y_true = {"boxes": truth_box, "classes": truths.labels, "iscrowd": truths.ignore}
    return y_true, {"boxes": box, "classes": np.where(found.discarded, -1, found.labels), "confidence": score}


def packed(batch: dict[str, Any]) -> Any:
    """A batch as one array, without flags of crowds."""
    columns = [batch[name][..., None] for name in ("classes", "confidence") if name in batch]
    return np.concatenate([batch["boxes"], *columns], axis=-1)


def evaluated(y_true: dict[str, Any], y_pred: dict[str, Any], protocol: Any = "coco") -> boxscore.Result:
    """The numbers of `evaluate`."""
    return boxscore.evaluate(
        boxscore.Detections.from_padded(
            boxes=y_pred["boxes"], labels=y_pred["classes"], scores=y_pred["confidence"], box_format="xywh"
        ),
        boxscore.Truths.from_padded(
            boxes=y_true["boxes"], labels=y_true["classes"], ignore=y_true.get("iscrowd"), box_format="xywh"
        ),
        protocol,
    )


def numbers(result: Any) -> dict[str, float]:
    """Numbers as floats."""
    return {name: float(value) for name, value in result.items()}


def identity_model() -> Any:
    """A model that predicts its inputs: boxes, classes and confidences in one array."""
    return keras.Sequential([keras.layers.Input((None, 6), dtype="float64"), keras.layers.Identity(dtype="float64")])


def test_evaluate_logs_the_bits_of_evaluate() -> None:
    """In `compile(metrics=...)`, with a last batch that is smaller than the others."""
    y_true, y_pred = batch()
    del y_true["iscrowd"]
    model = identity_model()
    model.compile(loss=lambda _, pred: 0.0 * keras.ops.sum(pred), metrics=[Metric(4, capacity=400, box_format="xywh")])
    logs = model.evaluate(packed(y_pred), packed(y_true), batch_size=4, verbose=0, return_dict=True)
    assert logs == {"loss": 0.0, **evaluated(y_true, y_pred)}


def test_dicts_of_a_detector_give_the_bits_of_evaluate() -> None:
    """Crowds, `num_detections`, a prefix; the metric starts again after a reset."""
    y_true, y_pred = batch()
    metric = Metric(protocol="voc2012", class_names=list("abcd"), capacity=400, box_format="xywh", prefix="val/")
    num = (y_pred["classes"] >= 0).sum(axis=1)
    given = {**y_pred, "classes": np.where(y_pred["classes"] < 0, 0, y_pred["classes"]), "num_detections": num}
    expected = evaluated(y_true, y_pred, "voc2012")
    for _ in range(2):
        metric.reset_state()
        for part in (slice(0, 6), slice(6, 11)):
            metric.update_state(*({name: column[part] for name, column in each.items()} for each in (y_true, given)))
        assert numbers(metric.result()) == {f"val/{name}": value for name, value in expected.items()}
    assert dict(metric.compute()) == dict(expected)
    assert metric.compute().per_class.name == ("a", "b", "c", "d")


def test_a_detector_computes_it_in_its_steps() -> None:
    """Outputs in a dict, in `compute_metrics`, where KerasCV and KerasHub decode them."""
    y_true, y_pred = batch()

    class Detector(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.metric = Metric(4, "voc2012", capacity=400, box_format="xywh")

        def call(self, x: Any) -> Any:
            return x

        def compute_loss(self, *_: Any, **__: Any) -> Any:
            return keras.ops.zeros(())

        def compute_metrics(self, _: Any, y: Any, y_pred: Any, **__: Any) -> Any:
            self.metric.update_state(y, y_pred)
            return self.get_metrics_result()

    model = Detector()
    model.compile()
    logs = model.evaluate(y_pred, y_true, batch_size=4, verbose=0, return_dict=True)
    expected = evaluated(y_true, y_pred, "voc2012")
    assert {name: logs[name] for name in expected} == dict(expected)


def test_rows_that_do_not_fit_are_an_error_at_the_end() -> None:
    """In a graph all numbers are NaN; outside of it the error names the argument."""
    import tensorflow as tf

    y_true, y_pred = batch()
    for room, rule in (
        ({"capacity": 100}, "`capacity`"),
        ({"capacity": 400, "truth_capacity": 20}, "`truth_capacity`"),
    ):
        metric = Metric(4, "voc2012", box_format="xywh", **room)
        for start in range(11):
            part = slice(start, start + 1)
            metric.update_state(*({name: column[part] for name, column in each.items()} for each in (y_true, y_pred)))
        assert all(math.isnan(value) for value in numbers(tf.function(metric.result)()).values())
        with pytest.raises(InputError, match=f"^{rule} must be at least the number of rows; got"):
            metric.result()


def test_invalid_boxes() -> None:
    """A detection with a NaN is dropped; a truth with one is an error."""
    y_true, y_pred = {"boxes": BOX, "classes": [[1]]}, {"boxes": BOX, "classes": [[1]], "confidence": [[0.9]]}
    metric = Metric(2, "voc2012", capacity=10)
    metric.update_state(y_true, y_pred)
    metric.update_state({**y_true, "classes": [[-1]]}, {**y_pred, "boxes": np.full((1, 1, 4), np.nan)})
    assert numbers(metric.result()) == {"map": 1.0, "mar": 1.0}
    metric.update_state({**y_true, "boxes": np.full((1, 1, 4), np.nan)}, y_pred)
    with pytest.raises(
        InputError, match=r"^boxes, scores and areas must have finite numbers, .*; got 1 row that had not$"
    ):
        metric.result()


def test_a_config_makes_the_same_metric() -> None:
    """Through JSON, as models are saved."""
    metric = Metric(class_names={7: "cat", 9: "dog"}, protocol="voc2007", capacity=9, truth_capacity=8, prefix="a/")
    config = keras.saving.serialize_keras_object(metric)
    again = keras.saving.deserialize_keras_object(config, custom_objects={"MeanAveragePrecision": Metric})
    assert again.get_config() == metric.get_config()
    assert repr(again.state) == repr(metric.state) == "State(voc2007, room for 9 detections and 8 truths)"
    with pytest.raises(InputError, match=r"^`protocol` must be one with a name to be saved; got voc2012, changed$"):
        Metric(2, Protocol.named("voc2012", thresholds=(0.4,))).get_config()


WRONG: list[tuple[Any, Any, str]] = [
    ({"boxes": BOX}, None, r"`y_true` must have the key 'classes' or 'labels'; got \['boxes'\]"),
    ({"boxes": BOX, "classes": [[1]], "masks": 1}, None, "`y_true` must have no keys but boxes, .*; got 'masks'"),
    ({"boxes": BOX, "classes": [[1]], "labels": [[1]]}, None, "`y_true` must have only one of the keys 'classes', "),
    ({"boxes": BOX, "classes": [1]}, None, r"`y_true`: labels must have shape \(N, rows\); got \(1,\)"),
    (np.zeros((1, 2, 4)), None, r"`y_true` must be a dict of padded arrays, or one array of shape \(N, rows, 5\)"),
    (np.zeros((1, 2, 5)), np.zeros((1, 2, 5)), r"`y_pred` must be a dict .* \(N, rows, 6\): .*; got shape \(1, 2, 5\)"),
]


@pytest.mark.parametrize(("y_true", "y_pred", "rule"), WRONG)
def test_wrong_batches_are_refused_by_name(y_true: Any, y_pred: Any, rule: str) -> None:
    """Keys, shapes; before anything is computed."""
    with pytest.raises(InputError, match=f"^{rule}"):
        Metric(2, capacity=9).update_state(y_true, y_pred)


def test_what_the_metric_cannot_do_is_refused_by_name() -> None:
    """Ragged tensors, weights, rules that need more than verdicts, no classes."""
    import tensorflow as tf

    ragged = tf.ragged.constant([[[0.0, 0, 1, 1]], []], ragged_rank=1)
    with pytest.raises(InputError, match=r"^`y_true\['boxes'\]` must be padded; got a ragged tensor"):
        Metric(2, capacity=9).update_state({"boxes": ragged}, {})
    with pytest.raises(InputError, match=r"^`sample_weight` must be None: mAP has no weights; got list"):
        Metric(2, capacity=9).update_state({}, {}, [1])
    with pytest.raises(InputError, match=r"^`num_classes` or `class_names` must be given; got neither"):
        Metric()
    with pytest.raises(InputError, match=r"^protocol paper has a rule that .* can't follow, `ap`"):
        Metric(2, "paper")
    with pytest.raises(InputError, match=r"^`prefix` must be text; got None"):
        Metric(2, prefix=None)


def test_tf_function_with_unknown_sizes_traces_once_and_says_nothing() -> None:
    """No warning of AutoGraph; and a strategy of several replicas is refused."""
    code = """
import numpy as np, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from boxscore import InputError
from tests.training.test_keras_metric import Metric, batch, evaluated, numbers
y_true, y_pred = batch()
metric = Metric(4, "voc2012", capacity=400, box_format="xywh")
traces = []
def step(*parts):
    traces.append(1)
    metric.update_state(*parts)
spec = [{k: tf.TensorSpec([None] * v.ndim, v.dtype) if k != "boxes" else tf.TensorSpec([None, None, 4], v.dtype)
         for k, v in each.items()} for each in (y_true, y_pred)]
compiled = tf.function(step, input_signature=spec)
for part in (slice(0, 5), slice(5, 6), slice(6, 11)):

    compiled(*({k: tf.constant(v[part]) for k, v in each.items()} for each in (y_true, y_pred)))
assert len(traces) == 1
assert numbers(tf.function(metric.result)()) == dict(evaluated(y_true, y_pred, "voc2012"))
metric = Metric(4, "voc2012", capacity=100, box_format="xywh")
compiled = tf.function(metric.update_state, input_signature=spec)
compiled(*({k: tf.constant(v) for k, v in each.items()} for each in (y_true, y_pred)))
assert np.isnan([*numbers(tf.function(metric.result)()).values()]).all()
assert int(metric.state.detections.num) == 100 < 100 + int(metric.state.detections.num_lost)
try:
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        Metric(4)
except InputError as error:
    print(error)
"""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | quiet, cwd=ROOT, check=False
    )
    assert done.stdout.startswith("`tf.distribute` must have one replica, as it would add up"), done.stderr[-2000:]
    assert "AutoGraph" not in done.stderr


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_log_the_bits_of_evaluate(backend: str) -> None:
    """In `compile(metrics=...)`, too."""
    code = """
import tests.training.test_keras_metric as t
y_true, y_pred = t.batch()
del y_true["iscrowd"]
model = t.identity_model()
metric = t.Metric(4, "voc2012", capacity=400, box_format="xywh")
model.compile(loss=lambda truth, pred: 0.0 * t.keras.ops.sum(pred), metrics=[metric])
logs = model.evaluate(t.packed(y_pred), t.packed(y_true), batch_size=4, verbose=0, return_dict=True)
assert logs == {"loss": 0.0, **t.evaluated(y_true, y_pred, "voc2012")}, logs
print(t.keras.backend.backend())
"""
    here = os.environ | {"KERAS_BACKEND": backend, "JAX_ENABLE_X64": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=here, cwd=ROOT, check=False)
    assert (done.stdout.strip(), done.returncode) == (backend, 0), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("name", "iou_type"), [("coco", "segm"), ("coco", "boundary"), ("coco_keypoints", "keypoints")]
)
def test_the_metric_has_boxes_only(name: str, iou_type: str) -> None:
    """Other similarities of states are refused by name."""
    with pytest.raises(
        InputError, match=f"has `iou_type` '{iou_type}', and padded batches in static shapes have 'bbox'"
    ):
        Metric(2, Protocol.named(name, iou_type=iou_type))
