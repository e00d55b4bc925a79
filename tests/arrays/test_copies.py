"""Copies of many tensors from a device: values, dtypes, and who waits."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from boxscore.arrays import start_copies, start_copy  # noqa: E402
from boxscore.arrays.counting import Counts, counting  # noqa: E402

TENSORS: tuple[Any, ...] = (
    torch.rand(3, 4),
    torch.arange(5, dtype=torch.uint8),
    torch.tensor([True, False, True]),
    torch.rand(2, 4, dtype=torch.float16),
    torch.tensor(7),
    torch.zeros(0, 4),
    torch.rand(3, 2, dtype=torch.float64),
    torch.arange(3, dtype=torch.int16),
)


@pytest.fixture
def device() -> Iterator[Counts]:
    """The counting device."""
    with counting() as counts:
        yield counts


@pytest.mark.parametrize("is_joined", [False, True])
def test_values_and_dtypes_are_those_of_the_tensors(device: Counts, *, is_joined: bool) -> None:
    """Aligned, whatever their sizes are."""
    copies = start_copies([device.place(each) for each in TENSORS], is_joined=is_joined)
    assert not copies.has_arrived()
    for host, tensor in zip(copies.wait(), TENSORS, strict=True):
        assert host.dtype == tensor.numpy().dtype
        assert np.array_equal(host, tensor.numpy())
        assert host.flags.aligned
    assert copies.has_arrived()


def test_bfloat16_becomes_float32(device: Counts) -> None:
    """With the same values."""
    tensor = torch.rand(7).bfloat16()
    (host,) = start_copies([device.place(tensor)], is_joined=True).wait()
    assert np.array_equal(host, tensor.float().numpy())


def test_a_device_without_events_makes_the_host_wait(device: Counts) -> None:
    """For each copy; a copy that does not block would be read too early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(torch.cuda, "Event")
        copies = start_copies([device.place(each) for each in TENSORS[:2]], is_joined=False)
    assert device.reads == 2
    assert copies.has_arrived()
    for host, tensor in zip(copies.wait(), TENSORS, strict=False):
        assert np.array_equal(host, tensor.numpy())


def test_memory_is_used_again_after_it_was_released(device: Counts) -> None:
    """Not before."""
    address = [start_copies([device.place(TENSORS[0])], is_joined=True) for _ in range(2)]
    first, second = (copies.wait()[0] for copies in address)
    assert first.ctypes.data != second.ctypes.data
    address[0].release()
    (third,) = start_copies([device.place(TENSORS[6])], is_joined=True).wait()
    assert third.ctypes.data == first.ctypes.data
    assert np.array_equal(second, TENSORS[0].numpy())


def test_a_single_copy_belongs_to_its_caller(device: Counts) -> None:
    """No later copy overwrites it."""
    wait = start_copy(device.place(TENSORS[0]))
    assert device.reads == 0
    host = wait()
    start_copy(device.place(TENSORS[0] + 1))()
    assert np.array_equal(host, TENSORS[0].numpy())
