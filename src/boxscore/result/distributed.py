"""Merge the tallies of all processes of torch.distributed with two collectives: numbers of bytes, then the bytes."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.protocol.protocol import difference_of
from boxscore.result.tally import Tally, joined, narrowest

_UNKNOWN = -1
"""Sent in place of `is_numbering` by a process that has seen no images."""


def is_distributed(group: Any = None) -> bool:
    """Whether this process is one of several in a process group of PyTorch. Doesn't import PyTorch."""
    dist = _torch_distributed()
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return False
    num_processes = int(dist.get_world_size(group))
    if num_processes < 0:
        raise InputError("`process_group` must have this process in it; got one without it")
    return num_processes > 1


def is_first() -> bool:
    """Whether this process is the only one, or has rank 0."""
    return not is_distributed() or _torch_distributed().get_rank() == 0


@contextmanager
def explained(call: str, advice: str = "", group: Any = None) -> Iterator[None]:
    """Explain the failure of a collective: every process must make `call`. `advice`: the end of the message."""
    try:
        yield
    except RuntimeError as error:
        if not is_distributed(group):
            raise
        dist = _torch_distributed()
        raise RuntimeError(
            f"gathering from {dist.get_world_size(group)} processes failed on rank {dist.get_rank(group)}: a process"
            f" may have died, or not called {call}. Every process must call it, also one without data{advice}"
        ) from error


def gather(tally: Tally, is_numbering: bool | None = None, group: Any = None) -> Tally:
    """Merge the tallies of all processes; the result is the same on every process. All processes must call this.

    Args:
        tally: The tally of this process.
        is_numbering: Whether images were numbered in order of arrival; None: no images yet. The same number then means
            different images on different processes, so images are renumbered by rank, which also breaks ties. If images
            have ids, an image on several processes (samplers repeat images to fill batches) counts once: the copy of
            the lowest rank.
        group: The process group; None: the default group.
    """
    from boxscore.result import storage

    tallies = []
    numberings = set()
    advice = "; MeanAveragePrecision(sync=False) computes the numbers of one process"
    with explained("compute()", advice, group):
        gathered = _all_gather(storage.to_bytes(tally), is_numbering, group)
    for rank, (numbering, content) in enumerate(gathered):
        numberings |= {numbering} - {_UNKNOWN}
        tallies.append(storage.from_bytes(content, f"the tally of rank {rank}"))
    for rank, other in enumerate(tallies):
        if other.protocol != tallies[0].protocol:
            difference = difference_of(tallies[0].protocol, other.protocol)
            raise InputError(
                f"every process must have the same protocol; rank 0 and rank {rank} have different ones ({difference})"
            )
    if len(numberings) > 1:
        raise InputError("either every process must name its images, by `image_ids`, or none; got some of each")
    return joined(renumbered(tallies) if numberings == {1} else without_copies(tallies))


def gather_bytes(content: bytes, call: str) -> list[memoryview]:
    """Gather the bytes of all processes, by rank. All processes must call this, through `call`, which errors name."""
    with explained(call):
        return [part for _, part in _all_gather(content, None, None)]


def renumbered(tallies: Iterable[Tally]) -> list[Tally]:
    """Renumber images from 0 in the order of tallies, so that no two have an image in common.

    In each tally, images must be numbered from 0.
    """
    first = 0
    moved = []
    for tally in tallies:
        image, truth_image = (narrowest(column.astype(np.int64) + first) for column in (tally.image, tally.truth_image))
        columns: dict[str, Any] = {"image": image, "truth_image": truth_image}
        for name in ("listed_image", "invalid_image"):
            if (own := getattr(tally, name)) is not None:
                columns[name] = own + first
        moved.append(replace(tally, **columns))
        first = max(first, *(int(column.max(initial=-1)) + 1 for column in columns.values()))
    return moved


def without_copies(tallies: Sequence[Tally]) -> list[Tally]:
    """Remove from each tally the images of earlier tallies."""
    seen = np.zeros(0, np.int64)
    different = []
    for tally in tallies:
        images = tally.images if tally.invalid_image is None else np.union1d(tally.images, tally.invalid_image)
        copies = np.intersect1d(images, seen, assume_unique=True)
        different.append(tally.without(copies) if copies.size else tally)
        seen = np.union1d(seen, images)
    return different


def _all_gather(content: bytes, is_numbering: bool | None, group: Any) -> list[tuple[int, memoryview]]:
    """Gather, by rank, whether the process numbers its images, and its bytes."""
    torch, dist = sys.modules["torch"], _torch_distributed()
    num_processes = dist.get_world_size(group)
    device = _device_of(dist.get_backend_config(group))
    numbering = _UNKNOWN if is_numbering is None else int(is_numbering)
    mine = torch.tensor([len(content), numbering], dtype=torch.int64, device=device)
    heads = [torch.zeros_like(mine) for _ in range(num_processes)]
    dist.all_gather(heads, mine, group=group)
    sizes, numberings = torch.stack(heads).cpu().T.tolist()

    padded = np.zeros(max(sizes), np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    mine = torch.from_numpy(padded).to(device)
    parts = [torch.empty_like(mine) for _ in range(num_processes)]
    dist.all_gather(parts, mine, group=group)
    arrays = [part.cpu().numpy() for part in parts]
    return [
        (numbering, memoryview(array[:size])) for numbering, array, size in zip(numberings, arrays, sizes, strict=True)
    ]


def _device_of(config: str) -> str:
    """The device of tensors for a backend: "cpu", where the bytes are, if the backend supports it, else its device.

    >>> _device_of("cpu:gloo,cuda:nccl"), _device_of("cuda:nccl")
    ('cpu', 'cuda')
    """
    devices = [part.partition(":")[0] for part in config.split(",")]
    return "cpu" if "cpu" in devices else devices[0]


def _torch_distributed() -> Any:
    """torch.distributed if PyTorch was imported, else None."""
    return getattr(sys.modules.get("torch"), "distributed", None)
