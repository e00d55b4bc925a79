"""`import faster_coco_eval` gives boxscore, until the patch is undone."""

import importlib.util
import sys
import warnings
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any, Self

from boxscore.dropin import faster_mask
from boxscore.dropin.faster_dataset import FasterCOCO
from boxscore.dropin.faster_evaluation import COCOeval_faster, PrintingCOCOeval
from boxscore.dropin.faster_params import FasterParams
from boxscore.dropin.patch import find_importers

PACKAGE = "faster_coco_eval"

VERSION = "1.8.0"
"""The version whose names, numbers and texts the classes have."""

_patches: list["FasterPatch"] = []
"""Those in effect. The first has put the modules there, and the last takes them away."""

_before: dict[str, ModuleType] = {}
"""The modules of the package before the first patch."""


class FasterPatch:
    """Modules that replace faster_coco_eval's until `undo`. Also a context manager."""

    def __init__(self) -> None:
        if not _patches:
            _before.update(_taken_away())
            sys.modules.update(_modules())
        _patches.append(self)

    def undo(self) -> None:
        """Restore what was there before. A second call does nothing."""
        if self not in _patches:
            return
        _patches.remove(self)
        if not _patches:
            _taken_away()
            sys.modules.update(_before)
            _before.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def patch_faster_coco_eval() -> FasterPatch:
    """Replace `faster_coco_eval` by boxscore's modules, for all imports from now on.

    Call it before the code that evaluates is imported. It works whether or not faster_coco_eval is installed. The
    returned object has `undo()`, and as a context manager it undoes itself. Modules that have already imported its
    classes keep them; a warning names these modules. `faster_coco_eval.extra`, which draws charts, stays its own.

    >>> with patch_faster_coco_eval():
    ...     from faster_coco_eval import COCOeval_faster
    >>> COCOeval_faster.__module__
    'boxscore.dropin.faster_evaluation'
    """
    importers = [] if _patches else find_importers(_originals(), {PACKAGE, "boxscore"})
    if importers:
        warnings.warn(
            f"{PACKAGE} was imported before the patch and remains in use in {', '.join(importers)}; "
            f"call boxscore.patch_{PACKAGE}() before importing these",
            stacklevel=2,
        )
    return FasterPatch()


def init_as_pycocotools() -> None:
    """Replace pycocotools by the modules of this package, as faster_coco_eval's function of this name does."""
    modules = _modules()
    sys.modules["pycocotools"] = modules[PACKAGE]
    for name, module in (("coco", "core.coco"), ("cocoeval", "core.faster_eval_api"), ("mask", "core.mask")):
        sys.modules[f"pycocotools.{name}"] = modules[f"{PACKAGE}.{module}"]


def _taken_away() -> dict[str, ModuleType]:
    """All modules of the package, which are no longer in `sys.modules`."""
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}


def _originals() -> list[object]:
    """The package's own modules, where they are loaded, and their classes."""
    loaded = [module for name, module in sys.modules.items() if name.split(".")[0] == PACKAGE]
    classes = [getattr(module, name, None) for module in loaded for name in ("COCO", "COCOeval", "COCOeval_faster")]
    return [*loaded, *filter(None, classes)]


@cache
def _modules() -> dict[str, ModuleType]:
    """The modules by name."""
    with_print = {"COCO": FasterCOCO, "COCOeval": PrintingCOCOeval, "COCOeval_faster": COCOeval_faster}
    parts = {
        "core.coco": _module("core.coco", COCO=FasterCOCO, maskUtils=faster_mask),
        "core.cocoeval": _module(
            "core.cocoeval", COCO=FasterCOCO, COCOeval=COCOeval_faster, Params=FasterParams, maskUtils=faster_mask
        ),
        "core.faster_eval_api": _module("core.faster_eval_api", **with_print, Params=FasterParams),
        "core.mask": faster_mask,
    }
    last = {name.rpartition(".")[2]: module for name, module in parts.items()}
    core = _module("core", COCO=FasterCOCO, COCOeval_faster=COCOeval_faster, **last)
    package = _module(
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
    return {PACKAGE: package, f"{PACKAGE}.core": core, **{f"{PACKAGE}.{name}": part for name, part in parts.items()}}


def _module(name: str, **attributes: Any) -> ModuleType:
    """A module of the package; the package itself finds the others, such as `extra`, where they are installed."""
    full = f"{PACKAGE}.{name}" if name else PACKAGE
    module = ModuleType(full, "faster_coco_eval's module, provided by boxscore.")
    module.__spec__ = ModuleSpec(full, None, is_package=name in ("", "core"))
    if name in ("", "core"):
        module.__path__ = [] if name else _folders()
    vars(module).update(attributes)
    return module


def _folders() -> list[str]:
    """Where the package is installed; nowhere if it is not."""
    loaded = {PACKAGE: sys.modules.pop(PACKAGE)} if PACKAGE in sys.modules else {}
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except ImportError:
        spec = None
    finally:
        sys.modules.update(loaded)
    return [] if spec is None else list(spec.submodule_search_locations or ())


def _absent(name: str) -> ModuleType:
    """A module whose names are an ImportError that says where they are."""

    def get(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        raise ImportError(
            f"{PACKAGE}.{name}.{wanted} draws charts and is faster_coco_eval's own, which is not installed: "
            f"pip install faster-coco-eval[extra]. boxscore's charts are in the HTML report of a result"
        )

    module = _module(name)
    module.__getattr__ = get  # type: ignore[method-assign]
    return module
