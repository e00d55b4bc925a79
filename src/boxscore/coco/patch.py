"""`import pycocotools` means boxscore, for a while or for good."""

import sys
import warnings
from types import ModuleType

from boxscore.coco import dataset, evaluation, mask
from boxscore.coco.names import PACKAGE, Swap


def patch_pycocotools() -> Swap:
    """From now on `pycocotools.coco`, `.cocoeval` and `.mask` are boxscore's, for whoever imports them.

    Call it before the code that evaluates is imported. It works whether or not pycocotools is installed. What it
    returns has `undo()`, and is a context manager that undoes itself. Modules that have pycocotools' classes by name
    already keep them; a warning says which these are. Another, if a different package takes these names later.

    >>> with patch_pycocotools():
    ...     from pycocotools.cocoeval import COCOeval
    >>> COCOeval.__module__
    'boxscore.coco.evaluation'
    """
    holders = _holders()
    if holders:
        warnings.warn(
            f"pycocotools was imported before the patch and stays what it was in {', '.join(holders)}; "
            "call boxscore.patch_pycocotools() before importing these",
            stacklevel=2,
        )
    return Swap({"coco": dataset, "cocoeval": evaluation, "mask": mask})


def _holders() -> list[str]:
    """The modules, by name, that have the classes that pycocotools' names mean now, or their modules."""
    originals: list[object] = []
    owners = {PACKAGE, "boxscore"}
    for module, name in ((f"{PACKAGE}.coco", "COCO"), (f"{PACKAGE}.cocoeval", "COCOeval")):
        loaded = sys.modules.get(module)
        if loaded is not None and loaded not in (dataset, evaluation):
            originals += [loaded, getattr(loaded, name, loaded)]
            owners.add(loaded.__name__.split(".")[0])
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
