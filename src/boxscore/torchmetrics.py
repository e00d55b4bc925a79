"""The torchmetrics metric; see `boxscore.training.torchmetrics`."""

from boxscore._support.versions import framework_imports

with framework_imports("boxscore.torchmetrics", "torchmetrics"):
    from boxscore.training.torchmetrics import (
        MeanAveragePrecision,
    )

__all__ = [
    "MeanAveragePrecision",
]
