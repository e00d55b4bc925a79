"""The torchmetrics metric; see `boxscore.training.torchmetrics`."""

from boxscore.training.torchmetrics import (
    MeanAveragePrecision,
)

__all__ = [
    "MeanAveragePrecision",
]
