"""The same script on pycocotools and on ours, and whether anything differs."""

import contextlib
import copy
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import boxscore.coco
from tests.support.scenes import random_scene

SCENE = random_scene(3, num_images=9, num_classes=5)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """The two classes of one package."""

    COCO: Any
    COCOeval: Any


THEIRS = Tool(COCO=COCO, COCOeval=COCOeval)
OURS = Tool(COCO=boxscore.coco.COCO, COCOeval=boxscore.coco.COCOeval)

Script = Callable[[Tool], Any]


def outcome(script: Script, tool: Tool) -> tuple[Any, str]:
    """What a script returns, or the kind of the error it ends with, and what was printed, but for seconds."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            result = script(tool)
        except Exception as error:
            result = type(error)
    return result, re.sub(r"t=\d+\.\d\ds", "t=0.00s", said.getvalue())


def check_same(script: Script) -> Any:
    """Run it on both; everything evaluated is the same, and so is every printed letter. Gives our result."""
    (expected, expected_text), (found, text) = outcome(script, THEIRS), outcome(script, OURS)
    assert text == expected_text
    check_equal(found, expected)
    return found


def check_equal(found: Any, expected: Any, name: str = "") -> None:
    """The same values, dtypes and shapes, all the way down."""
    if hasattr(expected, "evalImgs"):
        check_evaluations(found, expected)
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray), name
        assert found.dtype == expected.dtype, name
        assert found.shape == expected.shape, name
        assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), name
    elif isinstance(expected, dict):
        assert list(found) == list(expected), name
        for key, value in expected.items():
            check_equal(found[key], value, f"{name}[{key!r}]")
    elif isinstance(expected, list | tuple):
        assert type(found) is type(expected), name
        assert len(found) == len(expected), name
        for row, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_equal(one, other, f"{name}[{row}]")
    else:
        assert found == expected or (found != found and expected != expected), name


def check_evaluations(found: Any, expected: Any) -> None:
    """`eval`, `stats`, `evalImgs` and `ious`, and the parameters."""
    for name in ("precision", "recall", "scores", "counts"):
        check_equal(found.eval.get(name), expected.eval.get(name), name)
    check_equal(found.stats, expected.stats, "stats")
    check_equal(found.evalImgs, expected.evalImgs, "evalImgs")
    assert found.ious.keys() == expected.ious.keys()
    for pair, overlap in expected.ious.items():
        check_equal(found.ious[pair], overlap, f"ious[{pair}]")
    for name, value in vars(expected.params).items():
        check_equal(getattr(found.params, name), value, name)


def dataset_of(tool: Tool, dataset: dict[str, Any]) -> Any:
    """A dataset from a copy of dicts."""
    coco = tool.COCO()
    coco.dataset = copy.deepcopy(dataset)
    coco.createIndex()
    return coco


def from_dicts(tool: Tool, dataset: Any, results: Any, *, iou_type: str = "bbox", **params: Any) -> Any:
    """An evaluation of copies of dicts, not evaluated yet."""
    truths = dataset_of(tool, dataset)
    evaluation = tool.COCOeval(truths, truths.loadRes(copy.deepcopy(results)), iou_type)
    for name, value in params.items():
        setattr(evaluation.params, name, copy.deepcopy(value))
    return evaluation


def from_files(tool: Tool, files: tuple[str, str], iou_type: str = "bbox") -> Any:
    """An evaluation of two files, not evaluated yet."""
    truths = tool.COCO(files[0])
    return tool.COCOeval(truths, truths.loadRes(files[1]), iou_type)


def evaluated(tool: Tool, dataset: Any, results: Any, *, summarize: bool = True, **params: Any) -> Any:
    """The usual script over dicts."""
    return run(from_dicts(tool, dataset, results, **params), summarize=summarize)


def write_files(folder: Path, dataset: Any, results: Any) -> tuple[str, str]:
    """A dataset and results in two files."""
    names = folder / "truths.json", folder / "results.json"
    for name, content in zip(names, (dataset, results), strict=True):
        name.write_text(json.dumps(content))
    return str(names[0]), str(names[1])


def run(evaluation: Any, *, summarize: bool = True) -> Any:
    """`evaluate`, `accumulate` and `summarize`."""
    evaluation.evaluate()
    evaluation.accumulate()
    if summarize:
        evaluation.summarize()
    return evaluation


def measure_by_steps(evaluation: Any) -> None:
    """`ious`, by one call of `computeIoU` per image and class."""
    p = evaluation.params
    labels = p.catIds if p.useCats else [-1]
    evaluation.ious = {(image, label): evaluation.computeIoU(image, label) for image in p.imgIds for label in labels}


def match_by_steps(evaluation: Any, limit: Any = None) -> list[Any]:
    """The entries of `evalImgs`, by one call of `evaluateImg` per class, area range and image."""
    p = evaluation.params
    limit = p.maxDets[-1] if limit is None else limit
    return [
        evaluation.evaluateImg(image, label, area, limit)
        for label in (p.catIds if p.useCats else [-1])
        for area in p.areaRng
        for image in p.imgIds
    ]


def check_same_from(dataset: Any, results: Any, folder: Path) -> Any:
    """From dicts, and from files. Gives our result from dicts."""
    files = write_files(folder, dataset, results)
    check_same(lambda tool: run(from_files(tool, files)))
    return check_same(lambda tool: evaluated(tool, dataset, results))
