"""Evaluators of other projects, imported from what is installed, with shims for what their age or their packages need.

Their packages import far more than their evaluators do (CUDA operators, torchvision, protocol buffers), so a module is
loaded from its package's folder without the package's own `__init__`.
"""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np


@contextlib.contextmanager
def old_numpy() -> Iterator[None]:
    """NumPy with names that it had years ago."""
    names: dict[str, Any] = {"float": float, "NAN": np.nan}
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for name, value in names.items():
            if name not in vars(np):
                stack.enter_context(patch.object(np, name, value, create=True))
        yield


@contextlib.contextmanager
def stand_in(name: str, **attributes: Any) -> Iterator[None]:
    """A module of this name, which is not installed, with nothing but these attributes."""
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]


def _bare_package(name: str) -> None:
    """Make an installed package importable without running its `__init__`."""
    if name in sys.modules:
        return
    parent, _, last = name.rpartition(".")
    if parent:
        _bare_package(parent)
        folder = f"{sys.modules[parent].__path__[0]}/{last}"
    else:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        folder = next(iter(spec.submodule_search_locations))
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


@cache
def lvis() -> Any:
    """`lvis` 0.5.3; call it within `old_numpy`, as it uses `np.float`."""
    with old_numpy():
        return importlib.import_module("lvis")


@cache
def mmdet(module: str) -> Any:
    """A module of `mmdet.evaluation`, such as "functional.mean_ap"."""
    package, _, _ = module.rpartition(".")
    for name in ("mmdet", "mmdet.evaluation", f"mmdet.evaluation.{package}", "mmdet.evaluation.functional"):
        _bare_package(name)
    with old_numpy():
        return importlib.import_module(f"mmdet.evaluation.{module}")


@cache
def open_images() -> Any:
    """The module of Open Images' evaluators in TensorFlow's object detection API; its label maps are left out."""
    for name in ("object_detection", "object_detection.utils"):
        _bare_package(name)
    with old_numpy():
        if "object_detection.utils.label_map_util" not in sys.modules:
            maps: Any = types.ModuleType("object_detection.utils.label_map_util")
            maps.create_category_index = lambda categories: {each["id"]: each for each in categories}
            sys.modules[maps.__name__] = maps
            sys.modules["object_detection.utils"].label_map_util = maps  # type: ignore[attr-defined]
        return importlib.import_module("object_detection.utils.object_detection_evaluation")


@cache
def open_images_hierarchy() -> Any:
    """The module that expands labels by their hierarchy."""
    for name in ("object_detection", "object_detection.dataset_tools"):
        _bare_package(name)
    with old_numpy():
        return importlib.import_module("object_detection.dataset_tools.oid_hierarchical_labels_expansion")


@cache
def ultralytics(module: str) -> Any:
    """A module of `ultralytics`, such as "utils.metrics"; torchvision's version is all that it asks for at once."""
    version = importlib.metadata.version

    def known(name: str) -> str:
        return "0.28.0" if name == "torchvision" else version(name)

    os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.mkdtemp(prefix="boxscore-"))  # else it writes settings at home
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")  # else it installs what it misses
    # It changes how NumPy prints arrays, for good.
    with patch.object(importlib.metadata, "version", known), warnings.catch_warnings(), np.printoptions():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"ultralytics.{module}")


def rfdetr(module: str) -> Any:
    """A module of `rfdetr`, such as "evaluation.coco_eval"; call it after torchmetrics was imported."""
    for name in ("rfdetr", "rfdetr.evaluation", "rfdetr.training", "rfdetr.utilities"):
        _bare_package(name)
    detection = importlib.import_module("torchmetrics.detection")
    metric = importlib.import_module("torchmetrics.detection.mean_ap").MeanAveragePrecision
    with patch.object(detection, "MeanAveragePrecision", metric, create=True):  # it is there with torchvision alone
        return importlib.import_module(f"rfdetr.{module}")


@cache
def sahi_evaluation() -> Any:
    """SAHI's module of COCO evaluation; its command line is left out."""
    for name in ("sahi", "sahi.scripts", "sahi.utils"):
        _bare_package(name)
    with stand_in("fire"):
        return importlib.import_module("sahi.scripts.coco_evaluation")


def load_again(package: str, path: str) -> Any:
    """A module of an installed package, from its file, as a module of its own: it imports what is there now."""
    _bare_package(package)
    name = f"{package}.{path}"
    file = f"{sys.modules[package].__path__[0]}/{path.replace('.', '/')}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_again", file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def mmdet_coco_metric() -> Any:
    """The module of mmdetection's CocoMetric; masks, which need mmcv, are left out."""
    functional = mmdet("functional.recall")
    sys.modules["mmdet.evaluation.functional"].eval_recalls = functional.eval_recalls  # type: ignore[attr-defined]
    for name in ("mmdet.datasets", "mmdet.structures"):
        _bare_package(name)
    with stand_in("mmdet.structures.mask", encode_mask_results=None):
        return mmdet("metrics.coco_metric")
