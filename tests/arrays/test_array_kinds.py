"""Arrays whose numbers are not all there (masked, sparse, quantized, without values) are refused where they enter."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore._support.threads import num_threads
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric


def masked(values: Any) -> Any:
    """NumPy's array with its last row masked."""
    mask = np.zeros(np.shape(values), bool)
    mask[-1] = True
    return np.ma.array(values, mask=mask)


def nested(values: Any) -> Any:
    """A tensor of tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls them a prototype
        return torch.nested.nested_tensor([torch.as_tensor(values), torch.as_tensor(values)[:1]])


def quantized(values: Any) -> Any:
    """A tensor of small integers, with a scale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has another way now
        return torch.quantize_per_tensor(torch.as_tensor(values).float(), 0.1, 0, torch.qint32)


def fake(values: Any) -> Any:
    """A tensor that only has a shape, as `torch.compile` traces them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        return mode.from_tensor(torch.as_tensor(values))


def distributed(values: Any) -> Any:
    """A tensor of which each process has a part."""
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        return distribute_tensor(torch.as_tensor(values), init_device_mesh("cpu", (1,)), [Replicate()])
    finally:
        dist.destroy_process_group()


class Wrapper(torch.Tensor):  # type: ignore[misc]
    """A tensor that has its values in another one, and no memory."""

    @staticmethod
    def __new__(cls, values: Any) -> "Wrapper":
        """Make it of these values."""
        held = torch.as_tensor(values)
        made: Wrapper = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute nothing."""
        return torch.zeros(1)


KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "masked": (masked, "must not be a masked array, whose mask would be lost"),
    "masked, nothing": (np.ma.array, "must not be a masked array, whose mask would be lost"),
    "masked in a list": (lambda values: list(masked(values)), "must not be a masked array, whose mask would be lost"),
    "sparse": (
        lambda values: torch.as_tensor(values).to_sparse(),
        r"must be a dense tensor, `values.to_dense\(\)`; got",
    ),
    "meta": (lambda values: torch.as_tensor(values).to("meta"), "must have values; got a tensor on the meta device"),
    "fake": (fake, "must have values, which a FakeTensor does not have"),
    "distributed": (distributed, r"must be a whole tensor, `values.full_tensor\(\)`, or .*; got DTensor"),
    "wrapper": (Wrapper, "must be a tensor with memory: convert it to a torch.Tensor; got Wrapper"),
    "nested": (nested, "must not be a nested tensor"),
    "quantized": (quantized, r"must not be quantized, `values.dequantize\(\)`; got torch.qint32"),
}

NUMBERS: dict[str, Any] = {
    "boxes": np.array([[0.0, 0, 9, 9], [5, 5, 9, 9]]),
    "scores": np.array([0.9, 0.8]),
    "labels": np.array([1, 2]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", NUMBERS)
def test_columns_of_such_kinds_are_refused(kind: str, key: str) -> None:
    """With the column, and what to do."""
    make, message = KINDS[kind]
    column = key
    columns = {"image_ids": [0, 0], "labels": NUMBERS["labels"], "scores": NUMBERS["scores"], "boxes": NUMBERS["boxes"]}
    with pytest.raises(InputError, match=f"`{column}` {message}"):
        Detections(**columns | {column: make(NUMBERS[key])})
    if key != "scores":
        del columns["scores"]
        with pytest.raises(InputError, match=f"`{column}` {message}"):
            Truths(**columns | {column: make(NUMBERS[key])})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("is_whole", [False, True])
def test_dicts_of_such_kinds_are_refused(kind: str, key: str, is_whole: bool) -> None:
    """One column of a dict, or all of it, as a tensor of another kind comes with others of its kind."""
    make, message = KINDS[kind]
    plain = torch.as_tensor if kind in ("sparse", "meta", "nested", "quantized") else np.asarray
    wrap = {name: make if is_whole or name == key else plain for name in NUMBERS}
    pred = {name: wrap[name](values) for name, values in NUMBERS.items()}
    target = {name: plain(NUMBERS[name]) for name in ("boxes", "labels")}
    for metric in (MeanAveragePrecision(), MeanAveragePrecision(warn=False), TorchMetric()):
        with pytest.raises(InputError, match=rf"preds\[0\]: `\w+` {message}"):
            metric.update([pred], [target])
    for flag in ("ignore", "area"):
        bad = target | {flag: make(np.array([0, 1]))}
        with pytest.raises(InputError, match=rf"images\[0\]: `{flag}` {message}"):
            Truths.from_images([bad])
        with pytest.raises(InputError, match=rf"samples\[0\]: `{flag}` {message}"):
            boxscore.collate_truths([(0, bad)])


@pytest.mark.parametrize("kind", ["masked", "sparse", "meta", "quantized"])
def test_padded_batches_of_such_kinds_are_refused(kind: str) -> None:
    """With the argument and its key."""
    make, message = KINDS[kind]
    batch = {key: values[None] for key, values in NUMBERS.items()}
    with pytest.raises(InputError, match=f"`preds`: `scores` {message}"):
        MeanAveragePrecision().update(batch | {"scores": make(batch["scores"])}, batch)
    with pytest.raises(InputError, match=f"`labels` {message}"):
        Truths.from_padded(boxes=batch["boxes"], labels=make(batch["labels"]))


def test_ids_of_such_kinds_are_refused() -> None:
    """In `image_ids` and in `image_id`."""
    metric = MeanAveragePrecision()
    images: list[Any] = [np.ma.array([7]), torch.ones(1, device="meta", dtype=torch.int64)]
    for image in images:
        with pytest.raises(InputError, match="`image_id` must"):
            metric.update([NUMBERS], [NUMBERS | {"image_id": image}])
        with pytest.raises(InputError, match=r"`image_ids?` must"):
            Truths.from_images([NUMBERS], image_ids=image)


def test_numbers_of_eight_bits_are_refused() -> None:
    """PyTorch itself can't compare them."""
    tiny = {"boxes": torch.ones(1, 4), "scores": torch.ones(1), "labels": torch.ones(1).int()}
    tiny["boxes"] = tiny["boxes"].to(torch.float8_e4m3fn)
    for metric in (MeanAveragePrecision(), MeanAveragePrecision(warn=False)):
        with pytest.raises(
            InputError, match=r"must have at least 16 bits per number, `values.float\(\)`; got torch.fl"
        ):
            metric.update([tiny], [{"boxes": torch.ones(1, 4), "labels": torch.ones(1).int()}])


@pytest.mark.parametrize("engine", ["native", "parallel"])
@pytest.mark.parametrize("reversed_column", ["image_ids", "labels", "scores", "area"])
def test_a_reversed_view_of_one_row_stands_beside_tensors(reversed_column: str, engine: Any) -> None:
    """NumPy calls it contiguous, though its stride is negative, which PyTorch has no tensors for."""
    row = {
        "image_ids": np.array([9, 3]),
        "labels": np.array([9, 1]),
        "scores": np.array([0.0, 0.5]),
        "area": np.array([0.0, 81]),
    }
    columns: dict[str, Any] = {name: torch.as_tensor(column[1:]) for name, column in row.items()}
    view = row[reversed_column][::-1][:1]
    assert view.flags.c_contiguous
    assert view.strides[0] < 0
    columns |= {"boxes": torch.tensor([[0.0, 0, 9, 9]]), reversed_column: view}
    detections = Detections(**{name: columns[name] for name in ("image_ids", "labels", "scores", "boxes")})
    truths = Truths(**{name: columns[name] for name in ("image_ids", "labels", "area", "boxes")})
    result = boxscore.evaluate(detections, truths, engine=engine)
    assert result["map"] == 1 / (1 + np.spacing(1))
    assert result["map_small"] == result["map"]


def test_lists_of_tensors_are_arrays() -> None:
    """Those that have a gradient, too."""
    box = [torch.tensor([0.0, 0, 9, 9], requires_grad=True), np.ones(4)]
    assert Truths(image_ids=[0, 0], labels=[1, 1], boxes=box).boxes.tolist() == [[0, 0, 9, 9], [1, 1, 1, 1]]


@pytest.mark.parametrize("threads", [0, -1, 2**64, 2**31, 10**100, 1.5, True, "²", "many"])
def test_numbers_of_threads_that_can_not_be_are_refused(threads: Any) -> None:
    """Wherever threads are asked for."""
    with pytest.raises(InputError, match=r"`threads` must be (a positive integer|at most 65,536); got "):
        num_threads(threads)
    with pytest.raises(InputError, match="`threads` must be"):
        boxscore.evaluate(
            Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 9, 9]]),
            Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 9, 9]]),
            threads=threads,
        )
