"""TensorBoard's files, written by torch and read back by TensorBoard."""

import sys
import types
from pathlib import Path
from typing import Any

# TensorBoard imports TensorFlow where it is installed, which takes long, unless there is this module.
sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("tensorboard.compat.notf"))


def event_writer(folder: Path) -> Any:
    """A writer of events into a folder."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))


def read_events(folder: Path | str) -> Any:
    """What TensorBoard has of a folder: all of it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"images": 0, "tensors": 0, "scalars": 0})
    events.Reload()
    return events


def last_scalars(folder: Path | str) -> dict[str, tuple[int, float]]:
    """The last step and value of each number."""
    events = read_events(folder)
    last = {name: events.Scalars(name)[-1] for name in events.Tags()["scalars"]}
    return {name: (event.step, event.value) for name, event in last.items()}
