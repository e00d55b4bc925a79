"""mAP in `model.fit`: the numbers are in the logs, and the callbacks behind see them."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError

keras = pytest.importorskip("keras", reason="Keras is not installed")
Callback = importlib.import_module("boxscore.keras").MeanAveragePrecisionCallback

SIDE = 32


def squares(num: int) -> tuple[Any, Any]:
    """Images with one bright rectangle each, and its corners as parts of the side."""
    random = np.random.default_rng(0)
    corner = random.integers(0, SIDE // 2, (num, 2))
    box = np.concatenate([corner, corner + random.integers(8, SIDE // 2, (num, 2))], axis=1)
    place = np.arange(SIDE)
    rows, columns = ((place >= box[:, i, None]) & (place < box[:, i + 2, None]) for i in (1, 0))
    image = (rows[:, :, None] & columns[:, None, :]).astype(np.float32)
    return image[..., None], (box / SIDE).astype(np.float32)


def decode(outputs: Any) -> dict[str, Any]:
    """One box an image, in pixels; of no size if its corners are the wrong way round."""
    box = np.concatenate([outputs[:, :2], np.maximum(outputs[:, :2], outputs[:, 2:])], axis=1)[:, None] * SIDE
    return {"boxes": box, "labels": np.ones((len(box), 1), int), "scores": np.full((len(box), 1), 0.9)}


def batches(image: Any, box: Any, size: int = 16) -> list[Any]:
    """Inputs and targets for the callback."""
    targets = {"boxes": box[:, None] * SIDE, "labels": np.ones((len(box), 1), int)}
    parts = [slice(start, start + size) for start in range(0, len(image), size)]
    return [(image[part], {key: value[part] for key, value in targets.items()}) for part in parts]


def make_model() -> Any:
    """A model that learns to put one box around a rectangle."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    inputs = layers.Input((SIDE, SIDE, 1))
    model = keras.Sequential([inputs, layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(4)])
    model.compile(keras.optimizers.Adam(3e-3), "mae")
    return model


@pytest.fixture
def toy() -> tuple[Any, Any, Any]:
    """The model and its data."""
    return make_model(), *squares(64)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it saves
def test_fit_reports_map_and_other_callbacks_see_it(toy: Any, tmp_path: Path) -> None:
    """History, ModelCheckpoint and EarlyStopping; and the numbers are those of the model as it was then."""
    model, image, box = toy
    metric = Callback(batches(image, box), decode=decode, class_names={1: "square"})
    best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "val_map", mode="max", save_best_only=True)
    early = keras.callbacks.EarlyStopping("val_map", mode="max", patience=8, restore_best_weights=True)
    history = model.fit(image, box, batch_size=8, epochs=25, verbose=0, callbacks=[metric, best, early]).history
    assert {"val_map", "val_map_50", "val_map_75", "val_mar_100"} <= history.keys()
    scores = history["val_map"]
    assert scores[0] < 0.05 < 0.1 < max(scores)
    assert len(scores) == len(history["loss"])
    assert best.best == early.best == max(scores)
    assert metric.result.per_class.name == ("square",)

    again = boxscore.MeanAveragePrecision()
    loaded = keras.saving.load_model(tmp_path / "best.keras")
    for images, targets in batches(image, box):
        again.update(decode(loaded.predict_on_batch(images)), targets)
    assert again.compute()["map"] == max(scores)


def test_early_stopping_ends_a_training_that_no_longer_gains(toy: Any, tmp_path: Path) -> None:
    """A model that learns nothing stays at 0 and is stopped; the result of each epoch is saved."""
    model, image, box = toy
    model.compile(keras.optimizers.SGD(0.0), "mae")
    metric = Callback(batches(image, box), decode=decode, save_to=tmp_path / "runs" / "a")
    early = keras.callbacks.EarlyStopping("val_map", mode="max", patience=1)
    history = model.fit(image, box, epochs=9, verbose=0, callbacks=[metric, early]).history
    assert len(history["val_map"]) == 2
    saved = sorted((tmp_path / "runs" / "a").iterdir())
    assert [path.name for path in saved] == ["epoch_000.boxscore", "epoch_001.boxscore"]
    assert [boxscore.load_result(path)["map"] for path in saved] == history["val_map"]


def test_datasets_of_keras_and_tensorflow_are_asked_for_all_their_batches(toy: Any) -> None:
    """A PyDataset by number, a tf.data.Dataset with padded targets; the numbers are the same."""
    import tensorflow as tf

    model, image, box = toy

    class Numbered(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        @property
        def num_batches(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return batches(image, box)[index]

    targets = {"boxes": box[:, None] * SIDE, "labels": np.ones((len(box), 1), int)}
    stream = tf.data.Dataset.from_tensor_slices((image, targets)).batch(16)
    found = []
    for dataset in (batches(image, box), Numbered(), stream):
        callback = Callback(dataset, "voc2012", decode=decode, prefix="")
        callback.set_model(model)
        logs = {"loss": 1.0}
        callback.on_epoch_end(0, logs)
        assert callback.result.per_class.num_truths.tolist() == [64]
        assert logs.keys() == {"loss", "map", "mar"}
        found.append(dict(callback.result))
    assert found[0] == found[1] == found[2]


def test_a_dataset_that_never_ends_is_refused() -> None:
    """Before the first epoch: after it, nothing would ever come."""
    import tensorflow as tf

    class Endless(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        num_batches = None

    for dataset in (tf.data.Dataset.range(3).batch(2).repeat(), Endless()):
        with pytest.raises(InputError, match="`dataset` must end; got one that goes on for ever"):
            Callback(dataset)
    Callback(tf.data.Dataset.range(3).filter(lambda number: number > 0))  # nobody knows how many; it does end


def test_what_is_likely_a_mistake_can_be_silenced(toy: Any) -> None:
    """Fractions beside pixels, say."""
    model, image, box = toy

    def fractions(outputs: Any) -> Any:
        preds = decode(outputs)
        return preds | {"boxes": preds["boxes"] / SIDE}

    loud, quiet = (Callback(batches(image, box), decode=fractions, warn=warn) for warn in (True, False))
    for callback in (loud, quiet):
        callback.set_model(model)
    with pytest.warns(UserWarning, match="look like fractions"):
        loud.on_epoch_end(0, {})
    quiet.on_epoch_end(0, {})


def test_errors_name_the_argument_and_the_rule(toy: Any) -> None:
    """An iterator would be empty in the second epoch."""
    with pytest.raises(InputError, match="`dataset` must give its batches anew each epoch"):
        Callback(iter([]))
    with pytest.raises(InputError, match="`decode` must be a function; got str"):
        Callback([], decode="boxes")
    with pytest.raises(InputError, match="`prefix` must be text; got None"):
        Callback([], prefix=None)
    neither: list[Any] = [None, lambda: iter([])]
    for dataset in neither:
        with pytest.raises(InputError, match="`dataset` must give batches of inputs and targets; got"):
            Callback(dataset)
    callback = Callback([np.zeros((1, SIDE, SIDE, 1))])
    callback.set_model(toy[0])
    with pytest.raises(InputError, match="`dataset` must give pairs of inputs and targets; got ndarray"):
        callback.on_epoch_end(0, {})


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_report_the_weights_of_the_epoch(backend: str) -> None:
    """After each epoch, not those of the beginning: what is reported last is what the model gives afterwards."""
    code = """
import tests.training.test_keras as t, numpy as np, boxscore
model = t.make_model()
image, box = t.squares(32)
metric = t.Callback(t.batches(image, box), decode=t.decode)
history = model.fit(image, box, batch_size=8, epochs=8, verbose=0, callbacks=[metric]).history
metric.on_epoch_end(0, logs := {})
assert logs["val_map"] == history["val_map"][-1] > history["val_map"][0], history["val_map"]
print(t.keras.backend.backend())
"""
    here = os.environ | {"KERAS_BACKEND": backend}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=here, cwd=root, check=False)
    assert (done.stdout.strip(), done.returncode) == (backend, 0), done.stderr[-2000:]
