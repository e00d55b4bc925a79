"""Copies of many arrays from a device to host memory, without waiting.

    device   [a] [b] [c] [d]           arrays of any dtype
                   │  one kernel: their bytes, end to end
             [ a  b  c  d ]
                   │  one copy, ordered by the stream; then an event
    host     [ a  b  c  d ]            pinned memory, which returns to the pool when it was read

The stream runs the kernel and the copy after all work that is in it already, and before all that follows: the arrays
may be overwritten as soon as the copy was started. Padded batches have few and large arrays, which are copied one by
one, without the kernel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

HostArrays = list[NDArray[Any]]


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Copies:
    """Arrays on their way to host memory."""

    wait: Callable[[], HostArrays]
    """Wait until all are there. They are valid until `release`."""
    has_arrived: Callable[[], bool]
    """Whether `wait` would return at once; False where the library can't tell."""
    release: Callable[[], None] = _nothing
    """Allow the memory to be used again; the arrays must not be read any more."""


class _Buffer:
    """Host memory of PyTorch, and NumPy's view of it."""

    def __init__(self, torch: Any, num_bytes: int) -> None:
        with torch.inference_mode(False):  # else later copies into it would fail outside of inference mode
            self.tensor = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        self.bytes: NDArray[np.uint8] = self.tensor.numpy()


_SMALLEST = 1 << 16
_MOST_FREE = 64
_free: dict[int, list[_Buffer]] = {}
"""Buffers that nobody uses, by size in bytes: powers of two."""


def _take_buffer(torch: Any, num_bytes: int) -> _Buffer:
    size = max(_SMALLEST, 1 << max(num_bytes - 1, 0).bit_length())
    try:
        return _free.setdefault(size, []).pop()
    except IndexError:
        return _Buffer(torch, size)


def _return_buffer(buffer: _Buffer) -> None:
    buffers = _free.setdefault(buffer.bytes.size, [])
    if len(buffers) < _MOST_FREE:
        buffers.append(buffer)


def copy_tensors(torch: Any, tensors: Sequence[Any], *, is_joined: bool) -> Copies:
    """Start to copy PyTorch's tensors of one device to host memory.

    Args:
        torch: The module.
        tensors: Tensors of any shapes and dtypes on one device.
        is_joined: Whether to concatenate them on the device first: for many small ones.
    """
    tensors = [tensor.detach() for tensor in tensors]
    rows = [_Bytes(tensor) for tensor in tensors]
    pieces = _pieces(torch, tensors, is_joined=is_joined)
    start = 0
    for piece in pieces:
        for position in piece.positions:
            rows[position].start = start
            start += rows[position].num_bytes
    buffer = _take_buffer(torch, start)
    parts = [piece.bytes for piece in pieces]
    start, make_event = 0, _event_maker(torch, tensors[0].device)
    for part in [torch.cat(parts)] if is_joined and len(parts) > 1 else parts:
        buffer.tensor[start : start + part.numel()].copy_(part, non_blocking=make_event is not None)
        start += part.numel()
    event = None if make_event is None else make_event()

    def wait() -> HostArrays:
        if event is not None:
            event.synchronize()
        return [each.in_buffer(torch, buffer) for each in rows]

    return Copies(wait, lambda: event is None or bool(event.query()), lambda: _return_buffer(buffer))


class _Bytes:
    """The place of a tensor's bytes in a buffer."""

    def __init__(self, tensor: Any) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype
        self.num_bytes = tensor.numel() * tensor.element_size()
        self.start = 0

    def in_buffer(self, torch: Any, buffer: _Buffer) -> NDArray[Any]:
        """The tensor's values in the buffer; bfloat16, which NumPy doesn't have, as a copy in float32."""
        if (dtype := _numpy_dtype(torch, self.dtype)) is not None:
            return buffer.bytes[self.start : self.start + self.num_bytes].view(dtype).reshape(self.shape)
        values = buffer.tensor[self.start : self.start + self.num_bytes].view(self.dtype)
        widened: NDArray[Any] = values.float().numpy().reshape(self.shape)
        return widened


@lru_cache(maxsize=64)
def _numpy_dtype(torch: Any, dtype: Any) -> np.dtype[Any] | None:
    return None if dtype == torch.bfloat16 else torch.empty(0, dtype=dtype).numpy().dtype


@dataclass(frozen=True, slots=True)
class _Piece:
    """The bytes of some tensors, end to end on the device."""

    positions: list[int]
    bytes: Any


def _pieces(torch: Any, tensors: Sequence[Any], *, is_joined: bool) -> list[_Piece]:
    """The bytes of all tensors with values, the widest numbers first, so that all are aligned in the buffer.

    To join tensors with gaps between their rows, such as columns of a wider one, takes one kernel per dtype and shape.
    """
    pieces: list[_Piece] = []
    with_gaps: dict[Any, list[int]] = {}
    for position, tensor in enumerate(tensors):
        if tensor.numel() == 0:
            continue
        if tensor.is_contiguous() or not is_joined or tensor.dim() == 0:
            pieces.append(_Piece([position], _bytes_of(torch, tensor)))
        else:
            with_gaps.setdefault((tensor.dtype, tuple(tensor.shape[1:])), []).append(position)
    pieces += [
        _Piece(positions, _bytes_of(torch, torch.cat([tensors[each] for each in positions])))
        for positions in with_gaps.values()
    ]
    return sorted(pieces, key=lambda piece: -tensors[piece.positions[0]].element_size())


def _bytes_of(torch: Any, tensor: Any) -> Any:
    flat = tensor.contiguous().reshape(-1)
    if flat.numel() == 1:
        flat = flat.as_strided((1,), (1,))  # one number is contiguous with any stride, but its bytes need 1
    return flat.view(torch.uint8)


def _event_maker(torch: Any, device: Any) -> Callable[[], Any] | None:
    """A function that records an event on the device's current stream; None if PyTorch has no events for it.

    Copies must block then, as nothing would say when they have arrived.
    """
    module: Any = getattr(torch, device.type, None)
    events = getattr(module, "event", module)  # Apple's MPS has its class in a module
    if not hasattr(events, "Event"):
        return None

    def record() -> Any:
        event = events.Event()
        event.record(*([module.current_stream(device)] if hasattr(module, "current_stream") else []))
        return event

    return record


def copy_each(arrays: Sequence[Any], start_copy: Callable[[Any], Callable[[], NDArray[Any]]]) -> Copies:
    """Start to copy arrays one by one. `start_copy` returns the function that waits for the copy."""
    waits = [start_copy(array) for array in arrays]
    return Copies(lambda: [wait() for wait in waits], lambda: False)
