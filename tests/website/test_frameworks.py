"""The snippets in docs/frameworks run as they stand, on tiny data."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.documents import blocks
from tests.support.page_runs import run_page
from tests.support.page_setups import prepare_page

LIGHTNING, SILENCE = blocks("docs/frameworks/lightning.md", "python")
(ACCELERATE,) = blocks("docs/frameworks/accelerate.md", "python")
KERAS, KERAS_METRIC = blocks("docs/frameworks/keras.md", "python")
(JAX,) = blocks("docs/frameworks/jax.md", "python")
(COMPILED_PYTORCH,) = blocks("docs/frameworks/pytorch-compiled.md", "python")


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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_validation_without_truths_does_not_stop_the_training(tmp_path: Any) -> None:
    """`EarlyStopping` ends it at a NaN; what the module logs is a number."""
    lightning = pytest.importorskip("lightning", reason="Lightning is not installed")
    import torch
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    names: dict[str, Any] = {}
    exec(LIGHTNING, names)
    exec(SILENCE, {})

    detector: Any = names["Detector"]

    class Trained(detector):  # type: ignore[misc]
        def training_step(self, *_: Any) -> Any:
            return self.network.weight.sum() * 0

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def validation_step(self, *_: Any) -> None:
            nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
            found = {"boxes": torch.ones(1, 4), "scores": torch.ones(1), "labels": torch.ones(1).int()}
            self.val_map.update([found], [nothing])

    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        max_epochs=3,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        callbacks=[
            EarlyStopping("val_map", mode="max", patience=5),
            ModelCheckpoint(tmp_path, monitor="val_map", mode="max"),
        ],
    )
    loader = torch.utils.data.DataLoader([torch.zeros(1)])
    trainer.fit(Trained(torch.nn.Linear(1, 1)), loader, loader)
    assert trainer.current_epoch == 3
    assert trainer.callback_metrics["val_map"] == -1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_the_loop_of_accelerate_computes_map() -> None:
    """A network that finds every box; a loader that gives one image again."""
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    import torch

    class Network(torch.nn.Module):  # type: ignore[misc]
        def forward(self, images: Any) -> Any:
            return [{"boxes": box[None], "labels": torch.tensor([1]), "scores": torch.tensor([0.9])} for box in images]

    box, _ = boxes(4)
    data = [
        (torch.from_numpy(row), {"boxes": torch.from_numpy(row[None]), "labels": torch.tensor([1]), "image_id": i})
        for i, row in enumerate(box)
    ]

    def collate(samples: Any) -> Any:
        return torch.stack([image for image, _ in samples]), [target for _, target in samples]

    loader = torch.utils.data.DataLoader([*data, data[0]], batch_size=2, collate_fn=collate)
    names: dict[str, Any] = {"model": Network(), "val_loader": loader}
    exec(ACCELERATE, names)
    assert names["result"]["map"] == pytest.approx(1)
    assert repr(names["metric"]).endswith("4 images, 4 detections)")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_the_page_of_hugging_face_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trainer, and the metric of Evaluate."""
    pytest.importorskip("transformers", reason="Transformers is not installed")
    evaluate = pytest.importorskip("evaluate", reason="Evaluate is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "cache"))
    page = "docs/frameworks/huggingface.md"
    run_page(page, tmp_path, prepare_page(page, tmp_path), capsys)


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


def test_the_keras_metric_logs_map() -> None:
    """A model that gives its input back, whose boxes have a class and a confidence."""
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    box, targets = boxes(12)
    rows = np.concatenate([box[:, None], np.ones((12, 1, 1)), np.full((12, 1, 1), 0.9)], axis=2)
    truths = np.concatenate([targets["boxes"], targets["labels"][..., None]], axis=2)
    names: dict[str, Any] = {
        "detector": keras.Sequential([keras.Input((1, 6)), keras.layers.Identity()]),
        "loss": lambda _, pred: keras.ops.sum(pred),
        "val_dataset": _as_dataset(rows, truths),
    }
    exec(KERAS_METRIC.replace("50_000", "500"), names)
    assert names["logs"]["map_50"] == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")  # Keras' own default
def test_an_untrained_head_does_not_end_fit() -> None:
    """The page as it stands, with a head of random weights: boxes are inverted, and one has NaN."""
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    keras.utils.set_random_seed(0)
    box, targets = boxes(12)
    inputs = keras.Input((4,))
    features = keras.layers.Dense(8)(inputs)
    heads = {
        "box": keras.layers.Reshape((1, 4))(keras.layers.Dense(4)(features)),
        "score": keras.layers.Reshape((1, 2))(keras.layers.Dense(2, "softmax")(features)),
    }
    model = keras.Model(inputs, heads)
    model.compile(keras.optimizers.SGD(1e-6), {"box": "mae", "score": "mae"})
    train_targets = {"box": targets["boxes"], "score": np.ones((12, 1, 2), np.float32)}
    spoilt = box.copy()
    spoilt[3] = np.nan
    names: dict[str, Any] = {
        "model": model,
        "train_dataset": _as_dataset(box, train_targets),
        "val_dataset": [(spoilt[:6], _part(targets, slice(0, 6))), (spoilt[6:], _part(targets, slice(6, 12)))],
    }
    with pytest.warns(UserWarning, match="invalid predictions of a batch were dropped") as caught:
        exec(KERAS.replace("epochs=2,", "epochs=2, verbose=0,"), names)
    assert len(names["history"]["val_map"]) == 2
    assert len([each for each in caught if "invalid" in str(each.message)]) == 1
    outputs = model.predict_on_batch(box)["box"][:, 0]
    assert (outputs[:, :2] > outputs[:, 2:]).any()


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


def test_the_compiled_pytorch_loop_computes_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same detector; one graph, without a C++ compiler."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    box, targets = boxes(12)

    def detect(image: Any) -> dict[str, Any]:
        found = torch.stack([image, image + 30], dim=1)
        label = torch.ones(found.shape[:2], dtype=torch.int64)
        return {"boxes": found, "labels": label, "scores": torch.tensor([[0.9, 0.5]]).expand(label.shape)}

    val_batches = []
    for start in range(0, 12, 4):
        part = slice(start, start + 4)
        there = {key: torch.from_numpy(np.array(column)) for key, column in _part(targets, part).items()}
        image = torch.from_numpy(np.array(box[part]))
        val_batches.append({"image": image, "targets": there, "image_id": torch.arange(12)[part]})
    names: dict[str, Any] = {"detect": detect, "device": "cpu", "val_batches": val_batches}
    exec(COMPILED_PYTORCH, names)
    assert names["result"]["map"] == pytest.approx(1)
    assert names["result"].per_class.num_false.tolist() == [[12] * 10]


def _part(batch: dict[str, Any], part: slice) -> dict[str, Any]:
    return {key: value[part] for key, value in batch.items()}


def _as_dataset(inputs: Any, targets: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(4)
