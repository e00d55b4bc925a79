"""The snippets in docs/frameworks.md run as they stand, on tiny data."""

from typing import Any

import numpy as np
import pytest

from tests.test_docs import blocks

LIGHTNING, KERAS, JAX = blocks("docs/frameworks.md", "python")


def boxes(num: int) -> tuple[Any, dict[str, Any]]:
    """Images that are their own box, in effect, and padded targets."""
    corner = np.random.default_rng(0).uniform(0, 20, (num, 2)).astype(np.float32)
    box = np.concatenate([corner, corner + 10], axis=1)
    return box, {"boxes": box[:, None], "labels": np.ones((num, 1), int)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_the_lightning_module_logs_map(tmp_path: Any) -> None:
    """A network that finds every second box: recall 0.5 at every threshold, 51 of 101 recall points."""
    pytest.importorskip("lightning", reason="Lightning is not installed")
    import lightning
    import torch

    names: dict[str, Any] = {}
    exec(LIGHTNING, names)
    box, _ = boxes(8)
    targets = [{"boxes": torch.from_numpy(row[None]), "labels": torch.tensor([1])} for row in box]
    data = [(torch.from_numpy(box[part]), targets[part]) for part in (slice(0, 4), slice(4, 8))]

    def network(images: Any) -> list[dict[str, Any]]:
        found = [{"boxes": box[None], "labels": torch.tensor([1]), "scores": torch.tensor([0.9])} for box in images]
        return [each if i % 2 else {key: value[:0] for key, value in each.items()} for i, each in enumerate(found)]

    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    model = names["Detector"](network)
    loader = torch.utils.data.DataLoader(data, batch_size=None)
    for _ in range(2):  # the second starts anew
        logged = trainer.validate(model, loader, verbose=False)[0]
        assert logged["val_map"] == pytest.approx(51 / 101)
        assert logged["val_map_50"] == pytest.approx(51 / 101)


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")  # Keras' own default
def test_the_keras_callback_reports_map() -> None:
    """A model that gives its input back as a box: found, every one."""
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    box, targets = boxes(12)
    inputs = keras.Input((4,))
    score = keras.layers.Reshape((1, 2))(
        keras.layers.Dense(2, kernel_initializer="zeros", bias_initializer="zeros")(inputs)
    )
    shifted = keras.layers.Lambda(lambda score: score + np.array([0.1, 0.9], np.float32))(score)
    model = keras.Model(inputs, {"box": keras.layers.Reshape((1, 4))(inputs), "score": shifted})
    model.compile(keras.optimizers.SGD(0.0), {"box": "mae", "score": "mae"})
    train_targets = {"box": targets["boxes"], "score": np.ones((12, 1, 2), np.float32)}
    names: dict[str, Any] = {
        "model": model,
        "train_dataset": _as_dataset(box, train_targets),
        "val_dataset": [(box[:6], _part(targets, slice(0, 6))), (box[6:], _part(targets, slice(6, 12)))],
    }
    exec(KERAS.replace("epochs=2,", "epochs=2, verbose=0,"), names)
    assert names["history"]["val_map"] == pytest.approx([1, 1])
    assert names["history"]["val_map_75"] == pytest.approx([1, 1])


def test_the_jax_loop_computes_map() -> None:
    """A detector that gives its input back as a box, and a second one beside it."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp = jax.numpy
    box, targets = boxes(12)

    def detect(params: Any, image: Any) -> dict[str, Any]:
        found = jnp.stack([image, image + params], axis=1)
        return {"boxes": found, "labels": jnp.ones(found.shape[:2], int), "scores": jnp.asarray([[0.9, 0.5]] * 4)}

    parts = [slice(start, start + 4) for start in range(0, 12, 4)]
    val_batches = [
        {"image": box[part], "targets": _part(targets, part), "image_id": np.arange(12)[part]} for part in parts
    ]
    names: dict[str, Any] = {"detect": detect, "params": jnp.asarray(30.0), "val_batches": val_batches}
    exec(JAX, names)
    assert names["result"]["map"] == pytest.approx(1)
    assert names["result"].per_class.num_false.tolist() == [[12] * 10]


def _part(batch: dict[str, Any], part: slice) -> dict[str, Any]:
    return {key: value[part] for key, value in batch.items()}


def _as_dataset(inputs: Any, targets: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(4)
