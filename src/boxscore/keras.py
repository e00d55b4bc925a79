"""The Keras callback and metric; see `boxscore.training.keras` and `boxscore.training.keras_metric`."""

from boxscore._support.versions import framework_imports

with framework_imports("boxscore.keras", "keras"):
    from boxscore.training.keras import (
        MeanAveragePrecisionCallback,
    )
    from boxscore.training.keras_metric import MeanAveragePrecision

__all__ = [
    "MeanAveragePrecision",
    "MeanAveragePrecisionCallback",
]
