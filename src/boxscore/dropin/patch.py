"""`import pycocotools` gives boxscore, until the patch is undone."""

import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from boxscore.dropin import coco_dataset, evaluation, mask
from boxscore.dropin.modules import PACKAGE, ModulePatch


def patch_pycocotools() -> ModulePatch:
    """Replace `pycocotools.coco`, `.cocoeval` and `.mask` by boxscore's modules, for all imports from now on.

    Call it before the code that evaluates is imported. It works whether or not pycocotools is installed. The returned
    object has `undo()`, and as a context manager it undoes itself. Modules that have already imported pycocotools'
    classes keep them; a warning names these modules. Another warning follows if a different package replaces
    boxscore's modules later.

    >>> with patch_pycocotools():
    ...     from pycocotools.cocoeval import COCOeval
    >>> COCOeval.__module__
    'boxscore.dropin.evaluation'
    """
    importers = _find_importers()
    if importers:
        warnings.warn(
            f"pycocotools was imported before the patch and remains in use in {', '.join(importers)}; "
            "call boxscore.patch_pycocotools() before importing these",
            stacklevel=2,
        )
    return ModulePatch({"coco": coco_dataset, "cocoeval": evaluation, "mask": mask})


def _find_importers() -> list[str]:
    """The names of the modules that have imported pycocotools' classes, or the modules of these."""
    originals: list[object] = []
    owners = {PACKAGE, "boxscore"}
    for module, name in ((f"{PACKAGE}.coco", "COCO"), (f"{PACKAGE}.cocoeval", "COCOeval")):
        loaded = sys.modules.get(module)
        if loaded is not None and loaded not in (coco_dataset, evaluation):
            originals += [loaded, getattr(loaded, name, loaded)]
            owners.add(loaded.__name__.split(".")[0])
    return find_importers(originals, owners)


def find_importers(originals: Sequence[object], owners: set[str]) -> list[str]:
    """The names of the modules that have any of these objects; `owners`: packages that may."""
    if not originals:
        return []
    ids = {id(original) for original in originals}
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and name.split(".")[0] not in owners
        and any(id(value) in ids for value in list(vars(module).values()))
    )
