"""Names that pycocotools' modules have and ours don't: answered by the pycocotools that is installed.

Who evaluates imports more from there than the classes: `maskUtils`, `_isArrayLike`, `json`, `_mask`.
"""

from collections.abc import Callable
from typing import Any

from boxscore.coco.names import PACKAGE, own_module

_DUNDERS = ("__author__", "__version__")
"""Other names of this kind are Python's own questions to a module, as `__path__` is at every import."""


def names_of_original(name: str, own: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for our module in the place of pycocotools' module `name`; `own`: its globals."""

    def get(wanted: str) -> Any:
        message = f"module {own['__name__']!r}, in the place of {PACKAGE}.{name}, has no attribute {wanted!r}"
        is_dunder = wanted.startswith("__") and wanted.endswith("__")
        if is_dunder and wanted not in (*_DUNDERS, "__all__"):
            raise AttributeError(message)
        try:
            original = own_module(name, "a name that only it has")
        except ImportError:
            raise AttributeError(
                f"{message}; {PACKAGE}, which may have it, is not installed: pip install {PACKAGE}"
            ) from None
        if wanted == "__all__":
            # For `from pycocotools.coco import *`: what that gives without the patch, too.
            return [each for each in vars(original) if not each.startswith("_")]
        try:
            return getattr(original, wanted)
        except AttributeError:
            raise AttributeError(f"{message}, nor has {PACKAGE} itself") from None

    def names() -> list[str]:
        try:
            return sorted({*own, *vars(own_module(name, "a name that only it has"))})
        except ImportError:
            return sorted(own)

    return get, names
