"""The Keras callback; see `boxscore.training.keras`."""

from boxscore._support.versions import framework_imports

with framework_imports("boxscore.keras", "keras"):
    from boxscore.training.keras import (
        MeanAveragePrecisionCallback,
    )

__all__ = [
    "MeanAveragePrecisionCallback",
]
