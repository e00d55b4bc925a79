"""Updates with arrays of JAX and TensorFlow on an accelerator: nothing is compiled, and the bits are those of NumPy.

Without an accelerator only the question whether an array is in host memory is answered differently.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from boxscore import InputError, MeanAveragePrecision
from boxscore.arrays import libraries
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

SCENE = random_scene(6, num_images=7, num_classes=3, most_detections=20, most_truths=6)


def narrow(values: Any) -> Any:
    """The values as a network gives them."""
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int32)


@pytest.fixture(params=["jax", "tensorflow"])
def array(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes arrays of a library, which are not in host memory."""
    module = pytest.importorskip(request.param)
    kind = {"jax": libraries.Jax, "tensorflow": libraries.TensorFlow}[request.param]
    monkeypatch.setattr(kind, "is_in_host_memory", lambda *_: False)
    return module.numpy.asarray if request.param == "jax" else module.constant


def made(wrap: Any, batch_size: int = 3, **settings: Any) -> MeanAveragePrecision:
    """A metric after all images."""
    metric = MeanAveragePrecision(box_format="xywh", warn=False, **settings)
    preds, targets = dicts(SCENE, lambda values: wrap(narrow(values)))
    for first in range(0, len(preds), batch_size):
        metric.update(preds[first : first + batch_size], targets[first : first + batch_size])
    return metric


def test_the_tally_is_that_of_host_memory(array: Any) -> None:
    """Of updates that are all on their way until the tally is read."""
    metric = made(array)
    assert len(metric._delayed) > 0
    assert_same_tally(metric.tally, made(np.asarray).tally)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats(array: Any, dtype: str) -> None:
    """bfloat16 is not a dtype of NumPy's own."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16

    def wrap(values: Any, *, is_wide: bool = False) -> Any:
        rounded = values.astype(kind) if values.dtype.kind == "f" else values
        return rounded.astype(np.float32) if is_wide and values.dtype.kind == "f" else rounded

    metric = made(lambda values: array(wrap(values)))
    assert_same(metric.compute(), made(lambda values: wrap(values, is_wide=True)).compute())


def test_padded_batches(array: Any) -> None:
    """One copy per array."""
    boxes = np.array([[[0.0, 0, 9, 9], [5, 5, 3, 4]], [[1, 1, 6, 7], [0, 0, 0, 0]]], np.float32)
    labels = np.array([[0, 1], [1, -1]])
    preds = {"boxes": boxes, "scores": np.array([[0.5, 0.7], [0.9, 0]], np.float32), "labels": labels}
    targets = {"boxes": boxes + np.float32(0.5), "labels": labels, "image_id": np.array([7, 4])}
    metrics = [MeanAveragePrecision(box_format="xywh", warn=False) for _ in range(2)]
    metrics[0].update(preds, targets)
    metrics[1].update(*({key: array(value) for key, value in side.items()} for side in (preds, targets)))
    assert_same_tally(metrics[1].tally, metrics[0].tally)


class TestJax:
    """Its arrays are copied one by one."""

    @pytest.fixture(autouse=True)
    def _is_on_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jax = pytest.importorskip("jax")
        monkeypatch.setattr(libraries.Jax, "is_in_host_memory", lambda *_: False)

    @pytest.fixture
    def compiled(self) -> Iterator[list[str]]:
        """The names of everything that JAX compiles."""
        names: list[str] = []

        def listen(name: str, *_: Any, **__: Any) -> None:
            if "backend_compile" in name:
                names.append(name)

        self.jax.monitoring.register_event_duration_secs_listener(listen)
        yield names
        self.jax.monitoring.unregister_event_duration_listener(listen)

    def test_nothing_is_compiled(self, compiled: list[str]) -> None:
        """Whatever the numbers of rows are; the listener hears of a compilation."""
        metric = made(self.jax.device_put, batch_size=1)
        assert len(metric.tally) > 0
        assert compiled == []
        self.jax.jit(lambda x: x * 3.25 + 1)(np.arange(11.0))
        assert compiled != []

    def test_deleted_arrays_are_an_error_that_names_the_update(self) -> None:
        """As donated ones are."""
        preds, targets = dicts(SCENE, lambda values: self.jax.device_put(narrow(values)))
        metric = MeanAveragePrecision(box_format="xywh", warn=False)
        metric.update(preds, targets)
        preds[0]["boxes"].delete()
        with pytest.raises(InputError, match=r"^update 1 was left out .*: arrays of JAX must stay until their copies"):
            metric.compute()


def test_a_variable_may_be_assigned_after_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values at the time of the update count."""
    tf = pytest.importorskip("tensorflow")
    monkeypatch.setattr(libraries.TensorFlow, "is_in_host_memory", lambda *_: False)
    box, label = np.array([[[0, 0, 9, 9]]], np.float32), np.array([[1]])
    boxes = tf.Variable(box)
    metric = MeanAveragePrecision(warn=False)
    metric.update(
        {"boxes": boxes, "scores": tf.constant([[0.5]]), "labels": tf.constant(label)}, {"boxes": box, "labels": label}
    )
    boxes.assign(box + 50)
    expected = MeanAveragePrecision(warn=False)
    expected.update(
        {"boxes": box, "scores": np.array([[0.5]], np.float32), "labels": label}, {"boxes": box, "labels": label}
    )
    assert_same_tally(metric.tally, expected.tally)
