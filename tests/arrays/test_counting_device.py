"""The counting device counts what an accelerator would do, and refuses what it would refuse."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from boxscore.arrays.counting import Counts, counting  # noqa: E402


@pytest.fixture
def device() -> Iterator[Counts]:
    """The device, with nothing counted."""
    with counting() as counts:
        yield counts


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x[0].item(),
        lambda x: float(x[0]),
        lambda x: bool(x[0] > 0),
        lambda x: int(x[0]),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.nonzero(),
        lambda x: x.unique(),
        lambda x: x[x > 1],
        lambda x: torch.masked_select(x, x > 1),
        lambda x: torch.equal(x, x),
        lambda x: torch.empty(4).copy_(x),
        lambda x: x.numpy(force=True),
    ],
)
def test_reads_block(device: Counts, read: Callable[[Any], Any]) -> None:
    """Values that the host needs, and sizes that depend on values."""
    x = device.place(torch.arange(4.0))
    device.reset()
    read(x)
    assert device.reads == 1


@pytest.mark.parametrize(
    ("work", "launches"),
    [
        (lambda x: x + 1, 1),
        (lambda x: torch.cat([x, x, x]), 1),
        (lambda x: x.sum(), 1),
        (lambda x: x.double(), 1),
        (lambda x: x.fill_(2), 1),
        (lambda x: x[1:].reshape(-1).view(torch.uint8), 0),
        (lambda x: x.detach()[None].expand(3, 4), 0),
        (lambda x: x[:, None].T.contiguous(), 0),
        (lambda x: x[::2].contiguous(), 1),
        (torch.empty_like, 0),
        (torch.zeros_like, 1),
    ],
)
def test_launches_are_operations_that_are_no_views(device: Counts, work: Callable[[Any], Any], launches: int) -> None:
    """Nothing waits for them."""
    x = device.place(torch.arange(4.0))
    device.reset()
    work(x)
    assert (device.launches, device.reads, device.copies_to_host, device.copies_to_device) == (launches, 0, 0, 0)


def test_copies_to_the_device_are_counted(device: Counts) -> None:
    """Of tensors, of values, and of indices in host memory."""
    x = device.place(torch.arange(4.0))
    device.reset()
    torch.tensor([1.0, 2.0], device="cuda:0")
    torch.ones(2).to("cuda")
    x.copy_(torch.zeros(4))
    assert device.copies_to_device == 3
    assert x[torch.tensor([0, 1])].device.type == "cuda"
    assert device.copies_to_device == 4


def test_copies_to_the_host_count_their_bytes(device: Counts) -> None:
    """Whether they block or not."""
    x = device.place(torch.arange(4.0))
    device.reset()
    torch.empty(4).copy_(x, non_blocking=True)
    assert (device.copies_to_host, device.bytes_to_host, device.reads) == (1, 16, 0)
    x.cpu()
    assert (device.copies_to_host, device.bytes_to_host, device.reads) == (2, 32, 1)


class TestStream:
    """Copies that don't block arrive when the host waits, with the values of the time when they were started."""

    @pytest.fixture
    def copied(self, device: Counts) -> tuple[Any, Any]:
        """A tensor on the device, and the target of a copy that does not block."""
        x, host = device.place(torch.arange(4.0)), torch.zeros(4)
        host.copy_(x, non_blocking=True)
        return x, host

    def test_a_target_has_other_values_until_the_copy_has_arrived(self, device: Counts, copied: Any) -> None:
        """So that a value that is read too early is wrong."""
        _, host = copied
        assert host.tolist() == [85.0] * 4
        device.finish()
        assert host.tolist() == [0.0, 1.0, 2.0, 3.0]

    def test_later_work_on_the_stream_does_not_change_the_copy(self, device: Counts, copied: Any) -> None:
        """As the copy comes before it."""
        x, host = copied
        x.fill_(7)
        device.finish()
        assert host.tolist() == [0.0, 1.0, 2.0, 3.0]

    def test_an_event_that_is_not_reached_makes_the_host_wait(self, device: Counts, copied: Any) -> None:
        """Once: then it is reached."""
        _, host = copied
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(0))
        assert not event.query()
        assert device.reads == 0
        event.synchronize()
        assert (event.query(), device.reads, host.tolist()) == (True, 1, [0.0, 1.0, 2.0, 3.0])
        event.synchronize()
        assert device.reads == 1

    def test_an_event_does_not_wait_for_what_comes_after_it(self, device: Counts, copied: Any) -> None:
        """The order on the stream decides."""
        event = torch.cuda.Event()
        event.record()
        device.finish()
        torch.zeros(4).copy_(copied[0], non_blocking=True)
        assert event.query()

    def test_a_read_makes_all_copies_before_it_arrive(self, copied: Any) -> None:
        """There is one stream."""
        x, host = copied
        x.sum().item()
        assert host.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_tensors_in_host_memory_are_refused(device: Counts) -> None:
    """As PyTorch refuses them, unless they have one element."""
    x = device.place(torch.arange(4.0))
    with pytest.raises(RuntimeError, match="all tensors must be on one device"):
        x + torch.ones(4)
    assert (x + torch.tensor(1.0)).device == x.device
    with pytest.raises(TypeError, match="can't convert a tensor of the counting device to NumPy"):
        x.numpy()


def test_the_device_is_gone_after_the_context() -> None:
    """PyTorch's own classes are back."""
    event = torch.cuda.Event
    with counting():
        assert torch.cuda.Event is not event
    assert torch.cuda.Event is event
