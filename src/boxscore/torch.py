"""mAP as a state of tensors, for compiled steps; see `boxscore.training.torch`."""

from boxscore._support.versions import framework_imports

with framework_imports("boxscore.torch", "torch"):
    from boxscore.training.torch import (
        State,
        compute,
        init,
        merge,
        numbers,
        update,
    )

__all__ = [
    "State",
    "compute",
    "init",
    "merge",
    "numbers",
    "update",
]
