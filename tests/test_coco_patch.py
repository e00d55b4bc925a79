"""patch_pycocotools: pycocotools' names mean ours, for as long as they should."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import boxscore
from tests.dropin import as_dataset
from tests.scenes import random_scene


def run(code: str, *, without: str | None = None, folder: Path | None = None) -> Any:
    """The JSON that a fresh Python prints; `without` a package: one that has all the others, linked in `folder`."""
    command = [sys.executable, "-W", "error", "-c", code]
    if without is not None:
        assert folder is not None
        for entry in Path(sysconfig.get_path("platlib")).iterdir():
            if not entry.name.startswith(without):
                (folder / entry.name).symlink_to(entry)
        command[1:] = ["-S", "-W", "error", "-c", f"import site; site.addsitedir({str(folder)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_names_mean_ours_until_it_is_undone() -> None:
    """In every way in which they can be imported; afterwards all is as it was."""
    code = """
import json, sys, boxscore
before = set(sys.modules)
patch = boxscore.patch_pycocotools()
import pycocotools.coco
import pycocotools.mask as mask_utils
from pycocotools import cocoeval, mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval, Params
import boxscore.coco as ours
ours_all = [COCO is ours.COCO, COCOeval is ours.COCOeval, Params is ours.Params, mask is mask_utils,
            pycocotools.coco.COCO is COCO, cocoeval.COCOeval is COCOeval, mask.__name__ == "boxscore.coco.mask"]
patch.undo()
patch.undo()
left = [name for name in sys.modules if name.startswith("pycocotools")]
from pycocotools.coco import COCO
from pycocotools import mask
with boxscore.patch_pycocotools() as outer:
    with boxscore.patch_pycocotools():
        from pycocotools.cocoeval import COCOeval as inner
    from pycocotools.cocoeval import COCOeval as still
from pycocotools.cocoeval import COCOeval as own
print(json.dumps([ours_all, left, COCO.__module__, mask.__name__, inner.__module__, still.__module__, own.__module__]))
"""
    expected = [[True] * 7, [], "pycocotools.coco", "pycocotools.mask"]
    expected += ["boxscore.coco.evaluation", "boxscore.coco.evaluation", "pycocotools.cocoeval"]
    assert (
        run(code.replace("from pycocotools.coco import COCO\nfrom pycocotools import mask\nwith", HOLDING)) == expected
    )


HOLDING = """
import warnings
from pycocotools.coco import COCO
from pycocotools import mask
warnings.simplefilter("ignore")
with"""


def test_it_may_be_undone_in_any_order() -> None:
    """The first of two, and then the second."""
    code = """
import json, sys, boxscore
first, second = boxscore.patch_pycocotools(), boxscore.patch_pycocotools()
first.undo()
from pycocotools.coco import COCO
second.undo()
from pycocotools.coco import COCO as own
print(json.dumps([COCO.__module__, own.__module__]))
"""
    assert run(code) == ["boxscore.coco.dataset", "pycocotools.coco"]


def test_an_error_undoes_it_too() -> None:
    """Out of a `with`."""
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("pycocotools")}
    with pytest.warns(UserWarning, match="imported before the patch"):
        patch = boxscore.patch_pycocotools()
    with pytest.raises(ZeroDivisionError), patch:
        raise ZeroDivisionError
    assert {name: module for name, module in sys.modules.items() if name.startswith("pycocotools")} == loaded


def test_modules_that_have_the_classes_already_are_named() -> None:
    """For they keep them."""
    with pytest.warns(UserWarning, match="stays what it was in") as told:
        patch = boxscore.patch_pycocotools()
    patch.undo()
    (warning,) = told
    assert "tests.dropin, " in str(warning.message)
    assert "tests.scenes" in str(warning.message)
    assert warning.filename == __file__


def test_it_works_where_pycocotools_is_not_installed(tmp_path: Path) -> None:
    """Boxes need nothing else; masks and keypoints say what to install."""
    dataset, results = as_dataset(random_scene(1, num_images=4))
    (tmp_path / "truths.json").write_text(json.dumps(dataset))
    (tmp_path / "results.json").write_text(json.dumps(results))
    (tmp_path / "site").mkdir()
    code = f"""
import importlib.util, json, boxscore
assert importlib.util.find_spec("pycocotools") is None
with boxscore.patch_pycocotools():
    assert importlib.util.find_spec("pycocotools") is not None
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    from pycocotools import mask
    truths = COCO({str(tmp_path / "truths.json")!r})
    found = truths.loadRes({str(tmp_path / "results.json")!r})
    evaluation = COCOeval(truths, found, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    said = []
    segm, keypoints = (COCOeval(truths, found, kind).evaluate for kind in ("segm", "keypoints"))
    for call in (segm, lambda: mask.area([]), keypoints):
        try:
            call()
        except ImportError as error:
            said.append(str(error))
try:
    import pycocotools
except ModuleNotFoundError:
    said.append("gone")
print(json.dumps([evaluation.stats.tolist(), said]))
"""
    stats, said = run(code, without="pycocotools", folder=tmp_path / "site")
    result = boxscore.evaluate(random_scene(1, num_images=4).detections, random_scene(1, num_images=4).truths)
    expected = [-1.0 if value != value else value for value in result.values()]
    assert stats == expected
    wanted = ("iouType='segm'", "anything with masks", "iouType='keypoints'")
    message = "boxscore measures boxes; {} takes pycocotools, which is not installed: pip install pycocotools"
    assert said == [*(message.format(each) for each in wanted), "gone"]
