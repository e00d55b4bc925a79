"""Metrics for Transformers, Accelerate and Evaluate; see `boxscore.training.huggingface` and its neighbours."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boxscore.training.evaluate_metric import EvaluateMetric
    from boxscore.training.huggingface import DetectionMetrics
    from boxscore.training.huggingface_trainer import DetectionTrainer

__all__ = [
    "DetectionMetrics",
    "DetectionTrainer",
    "EvaluateMetric",
]

_HOMES = {
    "DetectionMetrics": ("huggingface", "huggingface"),
    "DetectionTrainer": ("huggingface_trainer", "huggingface"),
    "EvaluateMetric": ("evaluate_metric", "evaluate"),
}
"""The module of each name and the extra that it needs. Loaded when first used: Transformers works without Evaluate."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'boxscore.huggingface' has no attribute {name!r}")
    module, extra = _HOMES[name]
    try:
        value = getattr(import_module(f"boxscore.training.{module}"), name)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        rule = f"boxscore.huggingface.{name} needs it: pip install 'boxscore[{extra}]'"
        raise ModuleNotFoundError(f"No module named {package!r}; {rule}", name=package) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
