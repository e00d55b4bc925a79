"""Which modules answer to pycocotools' names: ours, its own, or those of another package."""

import atexit
import importlib
import importlib.util
import inspect
import sys
import warnings
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Self

PACKAGE = "pycocotools"

MODULES = ("coco", "cocoeval", "mask")
"""The modules of pycocotools that ours stand in for."""

_swaps: list["Swap"] = []
"""Those in place, the latest last."""

_displaced: list[tuple[str, int]] = []
"""Which modules of other packages the last warning was about."""


class Swap:
    """Modules in the place of some of pycocotools', until `undo`. A context manager, too."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        warn_if_displaced()
        _displaced.clear()
        self._modules = modules
        self._package_before = sys.modules.get(PACKAGE)
        self._package = sys.modules[PACKAGE] = _package() or _empty_package()
        # Only what is not ours already: a patch within a patch has nothing to restore.
        self._before = {name: _module(name) for name, ours in modules.items() if _module(name) is not ours}
        attributes = {name: vars(self._package).get(name) for name in modules}
        self._attributes = {name: value for name, value in attributes.items() if value is not modules[name]}
        for name, ours in modules.items():
            sys.modules[f"{PACKAGE}.{name}"] = ours
            setattr(self._package, name, ours)
        _swaps.append(self)

    def undo(self) -> None:
        """What was there before is there again. A second time does nothing.

        What another package has put in the place of ours meanwhile stays there, and a warning says so.
        """
        if self not in _swaps:
            return
        warn_if_displaced()
        position = _swaps.index(self)
        _swaps.remove(self)
        if position < len(_swaps):
            later = _swaps[position]
            later._before = self._before | later._before
            later._attributes = self._attributes | later._attributes
            if later._package_before is self._package:
                later._package_before = self._package_before
            return
        for name, module in self._before.items():
            if _module(name) is self._modules[name]:
                _restore(sys.modules, f"{PACKAGE}.{name}", module)
        for name, value in self._attributes.items():
            if vars(self._package).get(name) is self._modules[name]:
                _restore(vars(self._package), name, value)
        if sys.modules.get(PACKAGE) is self._package:
            _restore(sys.modules, PACKAGE, self._package_before)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def _remember(self, package: ModuleType, originals: dict[str, ModuleType]) -> None:
        """Restore these, too: they were loaded under the patch, and must be the same ones after it."""
        if self._package_before is None:
            self._package_before = package
        for name, module in originals.items():
            for before in (self._before, self._attributes):
                if name in before and before[name] is None:
                    before[name] = module


def warn_if_displaced() -> None:
    """Warn, once, if another package has taken pycocotools' names since ours were put there.

    Nothing tells when that happens. So it is looked for when ours are used, patched again or undone, and when Python
    ends.
    """
    if not _swaps:
        return
    names = [name for name, ours in _swaps[-1]._modules.items() if _module(name) is not ours]
    taken = [(name, id(_module(name))) for name in names]
    if not taken or taken == _displaced:
        return
    _displaced[:] = taken
    owners = sorted({_owner(module) for name in names if (module := _module(name)) is not None} - set(MODULES))
    warnings.warn(
        f"boxscore.patch_pycocotools() is no longer in effect: {' and '.join(owners) or f'{PACKAGE} itself'} has taken "
        f"the place of {', '.join(f'{PACKAGE}.{name}' for name in names)}; what is imported from there now is not "
        "boxscore's. Call only one of the two, or boxscore.patch_pycocotools() last",
        stacklevel=outer_level(),
    )


atexit.register(warn_if_displaced)


def outer_level() -> int:
    """The `stacklevel` of a warning that points at the first line outside of this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("boxscore.coco"):
        level, frame = level + 1, frame.f_back
    return level


@cache
def own_module(name: str, purpose: str) -> ModuleType:
    """A module of the pycocotools that is installed, whatever is in its place now; `purpose` says what needs it."""
    keys = {PACKAGE: "", **{f"{PACKAGE}.{each}": each for each in MODULES}}
    present = {key: sys.modules.pop(key, None) for key in keys}
    package, attributes = None, {}
    try:
        # What is loaded already, here or under the patch, is not imported a second time.
        for key, each in keys.items():
            loaded = [present[key], *(swap._before.get(each) for swap in _swaps)]
            for module in filter(None, loaded):
                if _is_original(module, key):
                    sys.modules[key] = module
        package = _package()
        if package is None:
            raise ModuleNotFoundError(PACKAGE)
        sys.modules[PACKAGE] = package
        attributes = {each: vars(package).get(each) for each in MODULES}
        for each in MODULES:
            _restore(vars(package), each, _module(each))  # for what these import from each other
        found = importlib.import_module(f"{PACKAGE}.{name}")
        if _swaps:
            _swaps[0]._remember(package, {each: own for each in MODULES if (own := _module(each)) is not None})
        return found
    except ModuleNotFoundError:
        raise ImportError(
            f"boxscore measures boxes; {purpose} takes pycocotools, which is not installed: pip install pycocotools"
        ) from None
    finally:
        for key, before in present.items():
            if _swaps or before is not None:
                _restore(sys.modules, key, before)
        if _swaps and package is not None:
            for each, value in attributes.items():
                _restore(vars(package), each, value)


def _module(name: str) -> ModuleType | None:
    return sys.modules.get(f"{PACKAGE}.{name}")


def _owner(module: ModuleType) -> str:
    return module.__name__.split(".")[0]


def _restore(mapping: dict[str, ModuleType], key: str, value: ModuleType | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _is_original(module: ModuleType, name: str) -> bool:
    """Whether it is pycocotools' own, and no module of another package under that name."""
    return module.__name__ == name and getattr(module, "__file__", None) is not None


def _package() -> ModuleType | None:
    """Pycocotools itself, also where another package goes by its name; None if it is not installed."""
    loaded = sys.modules.get(PACKAGE)
    for package in (loaded, *(swap._package for swap in _swaps)):
        if package is not None and _is_original(package, PACKAGE):
            return package
    sys.modules.pop(PACKAGE, None)
    try:
        return importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        return None
    finally:
        _restore(sys.modules, PACKAGE, loaded)


def _empty_package() -> ModuleType:
    """A package without files, for where pycocotools is not installed."""
    package = ModuleType(PACKAGE, "The names of pycocotools, answered by boxscore.")
    package.__path__ = []
    package.__spec__ = ModuleSpec(PACKAGE, None, is_package=True)
    return package
