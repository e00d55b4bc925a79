"""Patches: `import pycocotools` and `import faster_coco_eval` give boxscore, until the patch is undone.

`ModulePatch` puts boxscore's modules into `sys.modules`. `original_module` still returns pycocotools' modules, and
`fallback_attributes` gets names from them that boxscore's modules lack.
"""

import atexit
import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any, Self

PACKAGE = "pycocotools"

MODULES = ("coco", "cocoeval", "mask")
"""The modules of pycocotools that boxscore replaces."""

_DUNDERS = ("__all__", "__author__", "__version__")
"""The dunder names that are looked up in pycocotools. Python itself reads others, such as `__path__` at each import."""

_patches: list["ModulePatch"] = []
"""The patches in effect, the latest last."""

_displaced: list[tuple[str, int]] = []
"""The modules of other packages that the last warning named."""


class Patch:
    """Replaces the modules of a package until `undo`. Also a context manager."""

    def undo(self) -> None:
        """Restore the previous modules. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


class ModulePatch(Patch):
    """Replaces modules of pycocotools until `undo`. Also a context manager."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        warn_if_displaced()
        _displaced.clear()
        self._modules = modules
        self._package_before = sys.modules.get(PACKAGE)
        self._package = sys.modules[PACKAGE] = _package() or _empty_package()
        # Only modules that are not replaced yet: a nested patch has nothing to restore.
        self._before = {name: _module(name) for name, ours in modules.items() if _module(name) is not ours}
        attributes = {name: vars(self._package).get(name) for name in modules}
        self._attributes = {name: value for name, value in attributes.items() if value is not modules[name]}
        for name, ours in modules.items():
            sys.modules[f"{PACKAGE}.{name}"] = ours
            setattr(self._package, name, ours)
        _patches.append(self)

    def undo(self) -> None:
        """Restore the previous modules. A second call does nothing.

        Modules that another package has put there since the patch stay, with a warning.
        """
        if self not in _patches:
            return
        warn_if_displaced()
        position = _patches.index(self)
        _patches.remove(self)
        if position < len(_patches):
            later = _patches[position]
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

    def _remember(self, package: ModuleType, originals: dict[str, ModuleType]) -> None:
        """Make `undo` restore these modules, too: they were loaded during the patch and must stay the same after it."""
        if self._package_before is None:
            self._package_before = package
        for name, module in originals.items():
            for before in (self._before, self._attributes):
                if name in before and before[name] is None:
                    before[name] = module


def warn_if_displaced() -> None:
    """Warn once if another package has replaced boxscore's modules since the patch.

    Python doesn't notify of that, so this is called when boxscore's classes are used, patched again or undone, and at
    exit.
    """
    if not _patches:
        return
    names = [name for name, ours in _patches[-1]._modules.items() if _module(name) is not ours]
    taken = [(name, id(_module(name))) for name in names]
    if not taken or taken == _displaced:
        return
    _displaced[:] = taken
    owners = sorted({_owner(module) for name in names if (module := _module(name)) is not None} - set(MODULES))
    warnings.warn(
        f"boxscore.patch_pycocotools() is no longer in effect: {' and '.join(owners) or f'{PACKAGE} itself'} has "
        f"replaced {', '.join(f'{PACKAGE}.{name}' for name in names)}; imports from there no longer give boxscore. "
        "Call only one of the two, or boxscore.patch_pycocotools() last",
        stacklevel=outer_level(),
    )


atexit.register(warn_if_displaced)


def outer_level() -> int:
    """The `stacklevel` of a warning that points at the first line outside this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("boxscore.dropin"):
        level, frame = level + 1, frame.f_back
    return level


@cache
def original_module(name: str, purpose: str) -> ModuleType:
    """Import a module of the installed pycocotools, even if it is replaced. `purpose` is for the error if none is."""
    keys = {PACKAGE: "", **{f"{PACKAGE}.{each}": each for each in MODULES}}
    present = {key: sys.modules.pop(key, None) for key in keys}
    package, attributes = None, {}
    try:
        # Modules that were loaded before or during the patch are not imported a second time.
        for key, each in keys.items():
            loaded = [present[key], *(patch._before.get(each) for patch in _patches)]
            for module in filter(None, loaded):
                if _is_original(module, key):
                    sys.modules[key] = module
        package = _package()
        if package is None:
            raise ModuleNotFoundError(PACKAGE)
        sys.modules[PACKAGE] = package
        attributes = {each: vars(package).get(each) for each in MODULES}
        for each in MODULES:
            _restore(vars(package), each, _module(each))  # for their imports of each other
        module = importlib.import_module(f"{PACKAGE}.{name}")
        if _patches:
            _patches[0]._remember(package, {each: own for each in MODULES if (own := _module(each)) is not None})
        return module
    except ModuleNotFoundError:
        reason = f"{purpose} needs {PACKAGE}, which is not installed"
        raise ImportError(f"boxscore does not have it; {reason}: pip install {PACKAGE}") from None
    finally:
        for key, before in present.items():
            if _patches or before is not None:
                _restore(sys.modules, key, before)
        if _patches and package is not None:
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
    """Whether the module is pycocotools', not one of another package under that name."""
    return module.__name__ == name and getattr(module, "__file__", None) is not None


def _package() -> ModuleType | None:
    """Import pycocotools, even if another package is registered under its name; None if it is not installed."""
    loaded = sys.modules.get(PACKAGE)
    for package in (loaded, *(patch._package for patch in _patches)):
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
    """Make a package without files, for when pycocotools is not installed."""
    package = ModuleType(PACKAGE, "pycocotools' modules, provided by boxscore.")
    package.__path__ = []
    package.__spec__ = ModuleSpec(PACKAGE, None, is_package=True)
    return package


def fallback_attributes(name: str, own: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` for boxscore's module that replaces pycocotools' `name`; `own` are its globals.

    Other packages import more from pycocotools' modules than its classes: `maskUtils`, `_isArrayLike`, `json`, `_mask`.
    """

    def get(wanted: str) -> Any:
        message = f"module {own['__name__']!r}, which replaces {PACKAGE}.{name}, has no attribute {wanted!r}"
        is_dunder = wanted.startswith("__") and wanted.endswith("__")
        if is_dunder and wanted not in _DUNDERS:
            raise AttributeError(message)
        try:
            original = original_module(name, "a name that only it has")
        except ImportError:
            raise AttributeError(
                f"{message}; {PACKAGE}, which may have it, is not installed: pip install {PACKAGE}"
            ) from None
        if wanted == "__all__":
            # `from pycocotools.coco import *` imports the same names as without the patch.
            return [each for each in vars(original) if not each.startswith("_")]
        try:
            return getattr(original, wanted)
        except AttributeError:
            raise AttributeError(f"{message}, nor has {PACKAGE} itself") from None

    def names() -> list[str]:
        try:
            return sorted({*own, *vars(original_module(name, "a name that only it has"))})
        except ImportError:
            return sorted(own)

    return get, names


def patch_pycocotools() -> ModulePatch:
    """Replace `pycocotools.coco`, `.cocoeval` and `.mask` by boxscore's modules, for all imports from now on.

    Call it before importing the code that evaluates. It works whether or not pycocotools is installed. Modules that
    have already imported pycocotools' classes keep them; a warning names these modules. Another warning follows if a
    different package replaces boxscore's modules later.

    Returns:
        The patch, with `undo()`; as a context manager it undoes itself.

    >>> with patch_pycocotools():
    ...     from pycocotools.cocoeval import COCOeval
    >>> COCOeval.__module__
    'boxscore.dropin.evaluation'
    """
    from boxscore.dropin import coco_dataset, evaluation, mask

    originals: list[object] = []
    owners = {PACKAGE, "boxscore"}
    for module, name in ((f"{PACKAGE}.coco", "COCO"), (f"{PACKAGE}.cocoeval", "COCOeval")):
        loaded = sys.modules.get(module)
        if loaded is not None and loaded not in (coco_dataset, evaluation):
            originals += [loaded, getattr(loaded, name, loaded)]
            owners.add(loaded.__name__.split(".")[0])
    _warn_importers(PACKAGE, originals, owners)
    return ModulePatch({"coco": coco_dataset, "cocoeval": evaluation, "mask": mask})


def _warn_importers(package: str, originals: Sequence[object], owners: set[str]) -> None:
    """Warn if modules have imported any of these objects, except modules of the packages `owners`."""
    ids = {id(original) for original in originals}
    importers = sorted(
        name
        for name, module in list(sys.modules.items() if ids else ())
        if isinstance(module, ModuleType)
        and name.split(".")[0] not in owners
        and any(id(value) in ids for value in list(vars(module).values()))
    )
    if importers:
        warnings.warn(
            f"{package} was imported before the patch and remains in use in {', '.join(importers)}; "
            f"call boxscore.patch_{package}() before importing these",
            stacklevel=3,
        )


FASTER = "faster_coco_eval"

VERSION = "1.8.0"
"""The version whose names, numbers and texts the classes reproduce."""

_faster_patches: list["FasterPatch"] = []
"""The patches in effect. The first one installed the modules; the last one to be undone removes them."""

_faster_before: dict[str, ModuleType] = {}
"""The modules of the package before the first patch."""


class FasterPatch(Patch):
    """Replaces the modules of faster_coco_eval until `undo`. Also a context manager."""

    def __init__(self) -> None:
        if not _faster_patches:
            _faster_before.update(_taken_away())
            sys.modules.update(_faster_modules())
        _faster_patches.append(self)

    def undo(self) -> None:
        """Restore the previous modules. A second call does nothing."""
        if self not in _faster_patches:
            return
        _faster_patches.remove(self)
        if not _faster_patches:
            _taken_away()
            sys.modules.update(_faster_before)
            _faster_before.clear()


def patch_faster_coco_eval() -> FasterPatch:
    """Replace `faster_coco_eval` by boxscore's modules, for all imports from now on.

    Call it before importing the code that evaluates. It works whether or not faster_coco_eval is installed. Modules
    that have already imported its classes keep them; a warning names these modules. `faster_coco_eval.extra`, which
    draws charts, is not replaced.

    Returns:
        The patch, with `undo()`; as a context manager it undoes itself.

    >>> with patch_faster_coco_eval():
    ...     from faster_coco_eval import COCOeval_faster
    >>> COCOeval_faster.__module__
    'boxscore.dropin.faster_evaluation'
    """
    if not _faster_patches:
        _warn_importers(FASTER, _faster_originals(), {FASTER, "boxscore"})
    return FasterPatch()


def init_as_pycocotools() -> None:
    """Replace pycocotools by boxscore's faster_coco_eval, as faster_coco_eval's function of this name does."""
    modules = _faster_modules()
    sys.modules["pycocotools"] = modules[FASTER]
    for name, module in (("coco", "core.coco"), ("cocoeval", "core.faster_eval_api"), ("mask", "core.mask")):
        sys.modules[f"pycocotools.{name}"] = modules[f"{FASTER}.{module}"]


def _taken_away() -> dict[str, ModuleType]:
    """Remove all modules of the package from `sys.modules` and return them."""
    names = [name for name in sys.modules if name == FASTER or name.startswith(f"{FASTER}.")]
    return {name: sys.modules.pop(name) for name in names}


def _faster_originals() -> list[object]:
    """The loaded modules of the package and their classes."""
    loaded = [module for name, module in sys.modules.items() if name.split(".")[0] == FASTER]
    classes = [getattr(module, name, None) for module in loaded for name in ("COCO", "COCOeval", "COCOeval_faster")]
    return [*loaded, *filter(None, classes)]


@cache
def _faster_modules() -> dict[str, ModuleType]:
    """Make boxscore's modules of the package, by full name."""
    from boxscore.dropin import faster_mask
    from boxscore.dropin.faster_dataset import FasterCOCO
    from boxscore.dropin.faster_evaluation import COCOeval_faster, PrintingCOCOeval
    from boxscore.dropin.params import FasterParams

    with_print = {"COCO": FasterCOCO, "COCOeval": PrintingCOCOeval, "COCOeval_faster": COCOeval_faster}
    parts = {
        "core.coco": _made_module("core.coco", COCO=FasterCOCO, maskUtils=faster_mask),
        "core.cocoeval": _made_module(
            "core.cocoeval", COCO=FasterCOCO, COCOeval=COCOeval_faster, Params=FasterParams, maskUtils=faster_mask
        ),
        "core.faster_eval_api": _made_module("core.faster_eval_api", **with_print, Params=FasterParams),
        "core.mask": faster_mask,
    }
    last = {name.rpartition(".")[2]: module for name, module in parts.items()}
    core = _made_module("core", COCO=FasterCOCO, COCOeval_faster=COCOeval_faster, **last)
    package = _made_module(
        "",
        core=core,
        coco=last["coco"],
        cocoeval=last["faster_eval_api"],
        mask=faster_mask,
        COCO=FasterCOCO,
        COCOeval_faster=COCOeval_faster,
        init_as_pycocotools=init_as_pycocotools,
        __version__=VERSION,
        __author__="boxscore",
    )
    if not package.__path__:
        parts["extra"] = _absent("extra")
    return {FASTER: package, f"{FASTER}.core": core, **{f"{FASTER}.{name}": part for name, part in parts.items()}}


def _made_module(name: str, **attributes: Any) -> ModuleType:
    """Make a module of the package; the package finds other modules, such as `extra`, where they are installed."""
    full = f"{FASTER}.{name}" if name else FASTER
    module = ModuleType(full, "faster_coco_eval's module, provided by boxscore.")
    module.__spec__ = ModuleSpec(full, None, is_package=name in ("", "core"))
    if name in ("", "core"):
        module.__path__ = [] if name else _folders()
    vars(module).update(attributes)
    return module


def _folders() -> list[str]:
    """The folders of the installed package; empty if it is not installed."""
    loaded = {FASTER: sys.modules.pop(FASTER)} if FASTER in sys.modules else {}
    try:
        spec = importlib.util.find_spec(FASTER)
    except ImportError:
        spec = None
    finally:
        sys.modules.update(loaded)
    return [] if spec is None else list(spec.submodule_search_locations or ())


def _absent(name: str) -> ModuleType:
    """Make a module that raises an ImportError for every name, with advice on what to install."""

    def get(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        raise ImportError(
            f"{FASTER}.{name}.{wanted} draws charts and is faster_coco_eval's own, which is not installed: "
            f"pip install faster-coco-eval[extra]. boxscore's charts are in the HTML report of a result"
        )

    module = _made_module(name)
    module.__getattr__ = get  # type: ignore[method-assign]
    return module
