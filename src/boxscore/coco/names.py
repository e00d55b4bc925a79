"""Which modules answer to pycocotools' names, ours or its own."""

import importlib
import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Self

PACKAGE = "pycocotools"

_swaps: list["Swap"] = []
"""Those in place, the latest last."""


class Swap:
    """Modules in the place of some of pycocotools', until `undo`. A context manager, too."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._modules = modules
        self._put()
        _swaps.append(self)

    def undo(self) -> None:
        """What was there before is there again. A second time does nothing."""
        if self in _swaps:
            above = _swaps[_swaps.index(self) + 1 :]
            for swap in reversed(above):
                swap._take_away()
            self._take_away()
            _swaps.remove(self)
            for swap in above:
                swap._put()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def _put(self) -> None:
        self._was_loaded = PACKAGE in sys.modules
        package = importlib.import_module(PACKAGE) if is_installed() else _package()
        sys.modules[PACKAGE] = self._package = package
        self._attributes = {name: vars(package).get(name) for name in self._modules}
        self._loaded = {name: sys.modules.get(f"{PACKAGE}.{name}") for name in self._modules}
        for name, module in self._modules.items():
            sys.modules[f"{PACKAGE}.{name}"] = module
            setattr(package, name, module)

    def _take_away(self) -> None:
        for name, module in self._loaded.items():
            if module is None:
                sys.modules.pop(f"{PACKAGE}.{name}", None)
            else:
                sys.modules[f"{PACKAGE}.{name}"] = module
        for name, value in self._attributes.items():
            if value is None:
                vars(self._package).pop(name, None)
            else:
                setattr(self._package, name, value)
        if not self._was_loaded:
            sys.modules.pop(PACKAGE, None)


def is_installed() -> bool:
    """Whether there is a pycocotools, loaded or not, whatever it is."""
    return PACKAGE in sys.modules or importlib.util.find_spec(PACKAGE) is not None


@cache
def own_module(name: str, purpose: str) -> ModuleType:
    """A module of the pycocotools that is installed, whatever is in its place now; `purpose` says what needs it."""
    swaps = list(_swaps)
    for swap in reversed(swaps):
        swap._take_away()
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError:
        raise ImportError(
            f"boxscore measures boxes; {purpose} takes pycocotools, which is not installed: pip install pycocotools"
        ) from None
    finally:
        for swap in swaps:
            swap._put()


def _package() -> ModuleType:
    """A package without files, for where pycocotools is not installed."""
    package = ModuleType(PACKAGE, "The names of pycocotools, answered by boxscore.")
    package.__path__ = []
    package.__spec__ = ModuleSpec(PACKAGE, None, is_package=True)
    return package
