"""A PyTorch device that exists on every machine: it computes on the CPU, and counts what an accelerator would do.

    with counting() as counts:
        boxes = counts.place(torch.rand(100, 4))  # reports the device cuda:0
        ...
    counts.launches, counts.copies_to_device, counts.copies_to_host, counts.bytes_to_host, counts.reads

Inside the context, tensors on the device follow an accelerator's rules: an operation with a tensor in host memory
fails, unless that has one element or is an index, and their memory can't be read. A copy to the host that does not
block writes nothing until the host waits for the device, by an event or by reading from it, or until the test lets the
device `finish`; until then its target has other values. Code that passes here needs no more launches, copies and reads
on a real device. Times can't be measured with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

DEVICE = torch.device("cuda", 0)
"""The device that placed tensors report."""

_aten = torch.ops.aten

_ALLOCATIONS = {
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
}
_FREE = {_aten.detach.default, _aten.alias.default, _aten.lift_fresh.default, _aten._unsafe_view.default}
_WAITING = {"nonzero", "masked_select", "equal", "_unique2", "unique_consecutive", "unique_dim"}
"""Operations whose result, or its size, the host must know before it can go on."""
_FACTORIES: dict[Callable[..., Any], bool] = {
    **dict.fromkeys((torch.tensor, torch.as_tensor, torch.asarray), True),
    **dict.fromkeys((torch.zeros, torch.ones, torch.full, torch.arange, torch.eye, torch.linspace), False),
    torch.empty: False,
}
"""Functions that make a tensor on a device, and whether its values come from the host."""


@dataclass(slots=True)
class Counts:
    """Events on the device since the context began, or since `reset`."""

    launches: int = 0
    """Kernels: operations on the device that are neither views nor copies from or to the host."""
    copies_to_device: int = 0
    copies_to_host: int = 0
    bytes_to_host: int = 0
    reads: int = 0
    """Times that the host has to wait for the device: values or sizes that it reads, copies that block, and events
    that were not reached yet."""
    _in_flight: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list, repr=False)
    """The targets of copies that have not arrived, and their values."""
    _num_started: int = field(default=0, repr=False)

    def reset(self) -> None:
        """Set all counts to 0."""
        self.launches = self.copies_to_device = self.copies_to_host = self.bytes_to_host = self.reads = 0

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Put a copy of a tensor on the device, without counting it."""
        return CountingTensor(tensor.detach().clone())

    def finish(self) -> None:
        """Let the device do all work that was given to it: copies to the host arrive."""
        with torch.inference_mode(False), torch.no_grad():
            for target, values in self._in_flight:
                target.copy_(values)
        self._in_flight.clear()

    def _start(self, target: torch.Tensor, values: torch.Tensor) -> None:
        """Start a copy that does not block; the target's values are wrong until it has arrived."""
        self._in_flight.append((target, values.clone()))
        target.fill_(85)
        self._num_started += 1

    def _wait(self) -> None:
        self.reads += 1
        self.finish()

    @property
    def _num_arrived(self) -> int:
        return self._num_started - len(self._in_flight)


class _Event:
    """An event of the device's only stream."""

    def __init__(self, **_: Any) -> None:
        self._counts, self._position = _counts(), 0

    def record(self, stream: Any = None) -> None:  # noqa: ARG002
        self._position = self._counts._num_started

    def query(self) -> bool:
        return self._counts._num_arrived >= self._position

    def synchronize(self) -> None:
        if not self.query():
            self._counts._wait()


_active: list[Counts] = []


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what happens to tensors on the device."""
    counts = Counts()
    real = torch.cuda.Event, torch.cuda.current_stream
    _active.append(counts)
    torch.cuda.Event, torch.cuda.current_stream = _Event, lambda _=None: None
    try:
        with _Factories():
            yield counts
    finally:
        torch.cuda.Event, torch.cuda.current_stream = real
        _active.pop()


def _counts() -> Counts:
    return _active[-1] if _active else Counts()


class CountingTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor on the device. `held` has the values, in host memory."""

    held: torch.Tensor
    __slots__: ClassVar[list[str]] = ["held"]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "CountingTensor":
        """Wrap a tensor in host memory."""
        made: CountingTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device="meta",  # a device that PyTorch always has; nothing is in its memory
        )
        made.held = held
        return made

    device = property(lambda _: DEVICE)
    is_cpu = property(lambda _: False)
    is_cuda = property(lambda _: True)
    is_meta = property(lambda _: False)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"CountingTensor(shape={tuple(self.shape)}, dtype={self.dtype})"

    def tolist(self) -> Any:
        """Read all values."""
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Raise a TypeError, as tensors of accelerators do."""
        if force:
            return self.cpu().numpy()
        raise TypeError("can't convert a tensor of the counting device to NumPy; use Tensor.cpu() first")

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation in host memory, and count it."""
        kwargs, counts = dict(kwargs or {}), _counts()
        if func is _aten._to_copy.default and _is_host(kwargs.get("device")):
            return _to_host(args[0], kwargs, counts)
        if func is _aten.copy_.default:
            return _copy(*args, counts=counts, **kwargs)
        _check_devices(func, args, kwargs, counts)
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            return _to_host(args[0], {}, counts).item()
        if name in _WAITING or _has_flags_as_index(name, args):
            counts._wait()
        if not (func.is_view or func in _FREE or func in _ALLOCATIONS):
            counts.launches += 1
        kwargs.pop("pin_memory", None)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        if func._schema.is_mutable and not func.is_view and name.endswith("_") and isinstance(args[0], CountingTensor):
            return args[0]
        return tree_map(lambda each: CountingTensor(each) if isinstance(each, torch.Tensor) else each, result)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, CountingTensor) else value


def _is_host(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"


def _to_host(tensor: CountingTensor, kwargs: Mapping[str, Any], counts: Counts) -> torch.Tensor:
    counts.launches += kwargs.get("dtype") not in (None, tensor.dtype)
    counts.copies_to_host += 1
    counts.bytes_to_host += tensor.held.nbytes
    moved: torch.Tensor = tensor.held.clone().to(kwargs.get("dtype") or tensor.dtype)
    if kwargs.get("non_blocking", False):
        counts._start(moved, moved)
    else:
        counts._wait()
    return moved


def _copy(target: Any, source: Any, non_blocking: bool = False, *, counts: Counts) -> Any:
    """Copy in place, within the device or to or from host memory."""
    if not isinstance(source, CountingTensor):
        counts.copies_to_device += 1
    elif isinstance(target, CountingTensor):
        counts.launches += 1
    else:
        counts.copies_to_host += 1
        counts.bytes_to_host += source.held.nbytes
        if non_blocking:
            counts._start(target, source.held.to(target.dtype))
            return target
        counts._wait()
    _held(target).copy_(_held(source))
    return target


def _check_devices(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], counts: Counts) -> None:
    """Raise a RuntimeError for a tensor in host memory among the arguments, unless accelerators accept it."""
    is_index = func.overloadpacket in (_aten.index, _aten.index_put, _aten.index_put_)

    def check(value: Any) -> None:
        if isinstance(value, torch.Tensor) and not isinstance(value, CountingTensor) and value.dim():
            if not is_index:
                raise RuntimeError(f"{func}: all tensors must be on one device; found cuda:0 and cpu")
            counts.copies_to_device += 1

    tree_map(check, (args, kwargs))


def _has_flags_as_index(name: str, args: Sequence[Any]) -> bool:
    if name not in ("index", "index_put", "index_put_"):
        return False
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])


class _Factories(TorchFunctionMode):  # type: ignore[misc]
    """Make tensors that are asked for on the device, which PyTorch itself can't without an accelerator."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs, counts = dict(kwargs or {}), _counts()
        if func in _FACTORIES and _is_device(kwargs.get("device")):
            if args and isinstance(args[0], CountingTensor):
                kwargs.pop("device")
                return func(*args, **kwargs)
            if _FACTORIES[func]:
                counts.copies_to_device += 1
            else:
                counts.launches += func is not torch.empty
            return CountingTensor(func(*args, **{**kwargs, "device": "cpu"}))
        if func is torch.Tensor.__setitem__ and isinstance(args[0], CountingTensor) and not torch.is_tensor(args[2]):
            counts.launches += 1
            args[0].held[tree_map(_held, args[1])] = args[2]
            return None
        if func in (torch.Tensor.to, torch.Tensor.cuda):
            options = (*args[1:], *kwargs.values())
            is_moved = any(_is_device(each) or isinstance(each, CountingTensor) for each in options)
            if is_moved or func is torch.Tensor.cuda:
                return _to_device(args[0], options, counts)
        return func(*args, **kwargs)


def _to_device(tensor: torch.Tensor, options: Sequence[Any], counts: Counts) -> torch.Tensor:
    dtypes = [each for each in options if isinstance(each, torch.dtype)]
    if isinstance(tensor, CountingTensor):
        return tensor.to(dtypes[0]) if dtypes else tensor
    counts.copies_to_device += 1
    held = tensor.detach().clone()
    return CountingTensor(held.to(dtypes[0]) if dtypes else held)


def _is_device(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.split(":")[0] == DEVICE.type)
    return isinstance(value, torch.device) and bool(value.type == DEVICE.type)
