"""mAP as a state of JAX arrays, for jitted loops; see `boxscore.training.jax`."""

from boxscore.training.jax import (
    State,
    compute,
    empty,
    merge,
    update,
)

__all__ = [
    "State",
    "compute",
    "empty",
    "merge",
    "update",
]
