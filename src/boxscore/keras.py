"""The Keras callback; see `boxscore.training.keras`."""

from boxscore.training.keras import (
    MeanAveragePrecisionCallback,
)

__all__ = [
    "MeanAveragePrecisionCallback",
]
