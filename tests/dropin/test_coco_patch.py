"""patch_pycocotools: pycocotools' names mean ours, for as long as they should."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import boxscore
from tests.support.dropin import THEIRS, evaluated
from tests.support.mask_scenes import random_masks
from tests.support.scenes import as_dataset, random_scene


def run(code: str, *, without: str | None = None, folder: Path | None = None) -> Any:
    """The JSON that a fresh Python prints; `without` a package: one that has all the others, linked in `folder`."""
    command = [sys.executable, "-W", "error", "-c", code]
    if without is not None:
        assert folder is not None
        for name in sys.path:
            for entry in Path(name).iterdir() if Path(name).name == "site-packages" else ():
                is_wanted = not entry.name.startswith(without) and not _adds_site(entry)
                if is_wanted and not (folder / entry.name).exists():
                    (folder / entry.name).symlink_to(entry)
        command[1:] = ["-S", "-W", "error", "-c", f"import site; site.addsitedir({str(folder)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _adds_site(file: Path) -> bool:
    """Whether it puts another folder of packages on the path."""
    return file.suffix == ".pth" and any(line.endswith("site-packages") for line in file.read_text().splitlines())


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
            pycocotools.coco.COCO is COCO, cocoeval.COCOeval is COCOeval, mask.__name__ == "boxscore.dropin.mask"]
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
    expected += ["boxscore.dropin.evaluation", "boxscore.dropin.evaluation", "pycocotools.cocoeval"]
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
    assert run(code) == ["boxscore.dropin.coco_dataset", "pycocotools.coco"]


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
    with pytest.warns(UserWarning, match="remains in use in") as told:
        patch = boxscore.patch_pycocotools()
    patch.undo()
    (warning,) = told
    assert "tests.support.dropin, " in str(warning.message)
    assert "tests.support.scenes" in str(warning.message)
    assert warning.filename == __file__


def test_it_works_where_pycocotools_is_not_installed(tmp_path: Path) -> None:
    """Nothing else is needed; what only pycocotools has says what to install."""
    dataset, results = as_dataset(random_scene(1, num_images=4))
    masks, mask_results = random_masks(1)
    expected_masks = evaluated(THEIRS, masks, mask_results, iou_type="segm").stats.tolist()
    (tmp_path / "masks.json").write_text(json.dumps(masks))
    (tmp_path / "mask_results.json").write_text(json.dumps(mask_results))
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
    truths = COCO({str(tmp_path / "masks.json")!r})
    segm = COCOeval(truths, truths.loadRes({str(tmp_path / "mask_results.json")!r}), "segm")
    segm.evaluate()
    segm.accumulate()
    segm.summarize()
    assert mask.area(mask.frPyObjects([[1, 1, 3, 1, 3, 3, 1, 3]], 3, 4)).tolist() == [4]
    try:
        mask.a_name_that_only_it_has
    except AttributeError as error:
        said.append(str(error))
try:
    import pycocotools
except ModuleNotFoundError:
    said.append("gone")
print(json.dumps([evaluation.stats.tolist(), segm.stats.tolist(), said]))
"""
    stats, mask_stats, said = run(code, without="pycocotools", folder=tmp_path / "site")
    result = boxscore.evaluate(random_scene(1, num_images=4).detections, random_scene(1, num_images=4).truths)
    expected = [-1.0 if value != value else value for value in result.values()]
    assert stats == expected
    assert mask_stats == expected_masks
    assert said[0].endswith("pycocotools, which may have it, is not installed: pip install pycocotools")
    assert said[1:] == ["gone"]


def test_every_name_of_the_installed_pycocotools_is_there() -> None:
    """In all three modules, by every way to import it; what both have is ours, the rest is its own."""
    code = """
import importlib, json, sys
own = {name: dict(vars(importlib.import_module(f"pycocotools.{name}"))) for name in ("coco", "cocoeval", "mask")}
for name in list(sys.modules):
    if name.startswith("pycocotools") and name != "pycocotools._mask":
        del sys.modules[name]
import boxscore
boxscore.patch_pycocotools()
from pycocotools.cocoeval import COCOeval, maskUtils
from pycocotools.coco import _isArrayLike, json as their_json, itertools, urlretrieve, copy, __version__, __author__
import pycocotools.mask
missing, kept = [], []
for module, names in own.items():
    ours = importlib.import_module(f"pycocotools.{module}")
    assert ours.__name__.startswith("boxscore.dropin")
    missing += [f"{module}.{name}" for name in names if not hasattr(ours, name) or name not in dir(ours)]
    scope = {}
    exec(f"from pycocotools.{module} import *", scope)
    assert set(scope) - {"__builtins__"} == {name for name in names if not name.startswith("_")}
    for name in {"COCO", "COCOeval", "Params", "iou", "maskUtils"} & set(scope):
        kept += [name] if scope[name] is names[name] else []
assert maskUtils is pycocotools.mask is pycocotools.coco.maskUtils
assert their_json is json and _isArrayLike([]) and not _isArrayLike(3)
mask = pycocotools.mask
print(json.dumps([missing, kept, __version__, __author__, mask._mask.__name__, mask.__author__]))
"""
    assert run(code) == [[], [], "2.0", "tylin", "pycocotools._mask", "tsungyi"]


def test_a_name_that_nobody_has_is_an_attribute_error() -> None:
    """It says where it was looked for; Python's own questions don't load pycocotools."""
    code = """
import json, sys, boxscore
boxscore.patch_pycocotools()
import pycocotools.coco
from pycocotools.coco import COCO
loaded = "pycocotools._mask" in sys.modules
try:
    pycocotools.coco.nonsense
except AttributeError as error:
    said = str(error)
try:
    from pycocotools.coco import nonsense
except ImportError as error:
    said += " / " + str(error).split(" (")[0]
print(json.dumps([loaded, hasattr(pycocotools.coco, "__path__"), said]))
"""
    attribute = "module 'boxscore.dropin.coco_dataset', which replaces pycocotools.coco, has no attribute 'nonsense'"
    imported = "cannot import name 'nonsense' from 'boxscore.dropin.coco_dataset'"
    assert run(code) == [False, False, f"{attribute}, nor has pycocotools itself / {imported}"]


def test_names_of_an_original_that_is_not_installed_say_so(tmp_path: Path) -> None:
    """What others import most is ours, and there all the same."""
    code = """
import json, boxscore
boxscore.patch_pycocotools()
import pycocotools.coco
from pycocotools.coco import _isArrayLike
from pycocotools.cocoeval import COCOeval, maskUtils
try:
    pycocotools.coco.urlretrieve
except AttributeError as error:
    said = str(error)
print(json.dumps([maskUtils.__name__, hasattr(pycocotools.coco, "json"), "COCO" in dir(pycocotools.coco), said]))
"""
    message = "module 'boxscore.dropin.coco_dataset', which replaces pycocotools.coco, has no attribute 'urlretrieve'; "
    message += "pycocotools, which may have it, is not installed: pip install pycocotools"
    assert run(code, without="pycocotools", folder=tmp_path) == ["boxscore.dropin.mask", False, True, message]


def test_originals_that_were_loaded_under_the_patch_stay_loaded() -> None:
    """The same classes before and after it is undone, and ours in between."""
    code = """
import json, sys, boxscore
with boxscore.patch_pycocotools():
    import pycocotools.coco
    version = pycocotools.coco.__version__
    from pycocotools.coco import COCO
    from boxscore.dropin.patch import original_module
    original = original_module("coco", "")
import pycocotools.coco
from pycocotools import coco, mask
same = [coco is original, pycocotools.coco is original, mask is original.maskUtils, COCO.__module__]
print(json.dumps([version, same]))
"""
    assert run(code) == ["2.0", [True, True, True, "boxscore.dropin.coco_dataset"]]


OTHER = """
import sys
from rival import coco, cocoeval, mask

def init_as_pycocotools():
    sys.modules["pycocotools"] = sys.modules["rival"]
    for name in ("coco", "cocoeval", "mask"):
        sys.modules["pycocotools." + name] = sys.modules["rival." + name]
"""


def with_rival(folder: Path) -> str:
    """Code that makes another package importable, which takes pycocotools' names as such packages do."""
    package = folder / "rival"
    package.mkdir()
    (package / "__init__.py").write_text(OTHER)
    for name, content in (("coco", "class COCO: pass"), ("cocoeval", "class COCOeval: pass"), ("mask", "")):
        (package / f"{name}.py").write_text(content)
    return f"""
import json, sys, warnings
sys.path.insert(0, {str(folder)!r})
import boxscore, rival

def said(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    assert all(warning.filename == "<string>" for warning in told)
    return [str(warning.message) for warning in told]

def owner():
    import pycocotools.coco
    from pycocotools.cocoeval import COCOeval
    assert sys.modules["pycocotools.coco"] is pycocotools.coco
    return COCOeval.__module__
"""


TAKEN = (
    "boxscore.patch_pycocotools() is no longer in effect: rival has replaced pycocotools.coco, "
    "pycocotools.cocoeval, pycocotools.mask; imports from there no longer give boxscore. Call only one of the two, or "
    "boxscore.patch_pycocotools() last"
)


@pytest.mark.parametrize("use", ["patch.undo()", "COCO()", "COCOeval()", "boxscore.patch_pycocotools()"])
def test_another_package_that_takes_the_names_later_is_noticed(tmp_path: Path, use: str) -> None:
    """When ours are used, patched again or undone: once. What it has put there stays, unless we are called again."""
    code = f"""{with_rival(tmp_path)}
patch = boxscore.patch_pycocotools()
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
rival.init_as_pycocotools()
first, second = said(lambda: {use}), said(lambda: COCO())
found = owner()
rest = said(patch.undo)
print(json.dumps([first, second, found, owner(), rival.coco.__name__]))
"""
    found = "boxscore.dropin.evaluation" if "patch_pycocotools" in use else "rival.cocoeval"
    assert run(code) == [[TAKEN], [], found, found, "rival.coco"]


def test_a_second_patch_is_undone_to_the_other_package(tmp_path: Path) -> None:
    """In either order; and a package that was there first is left as it is."""
    code = f"""{with_rival(tmp_path)}
first = boxscore.patch_pycocotools()
rival.init_as_pycocotools()
warnings.simplefilter("ignore")
second = boxscore.patch_pycocotools()
owners = [owner()]
for patch in (PATCHES):
    patch.undo()
    owners.append(owner())
with boxscore.patch_pycocotools():
    owners += [owner(), rival.coco.__name__, sys.modules["pycocotools"].__name__]
print(json.dumps([*owners, owner()]))
"""
    ours, rival = "boxscore.dropin.evaluation", "rival.cocoeval"
    rest = [ours, "rival.coco", "pycocotools", rival]
    assert run(code.replace("PATCHES", "first, second")) == [ours, ours, rival, *rest]
    assert run(code.replace("PATCHES", "second, first")) == [ours, rival, rival, *rest]


def test_what_took_the_names_is_told_of_at_the_end_at_the_latest(tmp_path: Path) -> None:
    """On stderr, when Python ends; nothing is said where nothing happened."""
    code = f"{with_rival(tmp_path)}\nboxscore.patch_pycocotools()\n"
    for last, expected in (("rival.init_as_pycocotools()", f"UserWarning: {TAKEN}"), ("", "")):
        done = subprocess.run([sys.executable, "-c", code + last], capture_output=True, text=True, check=True)
        assert done.stderr.strip().endswith(expected)
        assert bool(done.stderr) == bool(expected)


@pytest.mark.parametrize("package", ["faster_coco_eval", "hotcoco"])
def test_real_packages_that_take_the_names_are_noticed(package: str) -> None:
    """Both are installed for the tests."""
    code = f"""
import json, sys, warnings, boxscore, {package}
patch = boxscore.patch_pycocotools()
{package}.init_as_pycocotools()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    patch.undo()
owner = sys.modules["pycocotools.coco"].__name__
print(json.dumps([str(warning.message).split(": ")[1].split(" has")[0] for warning in told] + [owner]))
"""
    said, owner = run(code)
    assert said == package
    assert owner.startswith(package)
