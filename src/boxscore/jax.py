"""mAP as a state of JAX arrays, for jitted loops; see `boxscore.training.jax`."""

from boxscore._support.versions import framework_imports

with framework_imports("boxscore.jax", "jax"):
    from boxscore.training.jax import (
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
