"""Metrics for Transformers, Accelerate and Evaluate; see `boxscore.training.huggingface` and its neighbours."""

from typing import TYPE_CHECKING, Any

from boxscore._support.versions import framework_imports

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
    with framework_imports(f"boxscore.huggingface.{name}", extra):
        value = getattr(import_module(f"boxscore.training.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
