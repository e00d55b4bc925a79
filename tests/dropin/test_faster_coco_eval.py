"""`boxscore.faster_coco_eval` has the names, the numbers and the printed lines of faster_coco_eval 1.8."""

import copy
import importlib
import json
import pickle
import re
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import faster_coco_eval
import faster_coco_eval.core.faster_eval_api
import numpy as np
import pytest

import boxscore
import boxscore.faster_coco_eval as ours
from boxscore import InputError
from boxscore.dropin import evaluation
from boxscore.dropin.evaluated_rows import RefusedRowError
from boxscore.dropin.faster_evaluation import PrintingCOCOeval
from tests.support.documents import ROOT
from tests.support.dropin import check_equal
from tests.support.evaluators import scene_of
from tests.support.lvis_scenes import federated_scene
from tests.support.shared import shared_data

Dict = dict[str, Any]
ARRAYS = ("precision", "recall", "scores")


def run(tool: Any, dataset: Any, results: Any, kind: str, *, params: Dict | None = None, **settings: Any) -> Any:
    """The evaluation by one package, and the lines that it printed, but for seconds."""
    said: list[str] = []
    truths = tool.COCO(copy.deepcopy(dataset))
    evaluation = tool.COCOeval_faster(
        truths, truths.loadRes(copy.deepcopy(results)), kind, print_function=said.append, **settings
    )
    for name, value in (params or {}).items():
        setattr(evaluation.params, name, copy.deepcopy(value))
    evaluation.run()
    return evaluation, [re.sub(r"t=\d+\.\d\ds", "", line) for line in said]


def check_same(dataset: Any, results: Any, kind: str, **settings: Any) -> Any:
    """Both packages: lines, arrays, numbers and their names, pairs, extended metrics. Gives our evaluation."""
    (expected, expected_lines), (found, lines) = (
        run(tool, dataset, results, kind, **settings) for tool in (faster_coco_eval, ours)
    )
    assert lines == expected_lines
    assert set(found.eval) == set(expected.eval)
    for name in (*ARRAYS, "counts", "evaluations_size"):
        check_equal(found.eval[name], expected.eval[name], name)
    check_equal(found.stats, expected.stats, "stats")
    check_pairs(found.eval["matched"], expected.eval["matched"], is_exact="keypoints" not in kind)
    names = found.stats_as_dict
    assert list(names) == list(expected.stats_as_dict)
    # Its sum of overlaps is in the order of a hash table.
    assert abs(names.pop("mIoU", 0) - expected.stats_as_dict.get("mIoU", 0)) < 1e-12
    assert names == {name: expected.stats_as_dict[name] for name in names}
    assert found.extended_metrics == expected.extended_metrics
    return found


def check_pairs(found: dict[str, float], expected: dict[str, float], *, is_exact: bool) -> None:
    """The same pairs. The last digit of an OKS is that of the C library's exp here, and of NumPy's there."""
    assert found.keys() == expected.keys()
    for pair, overlap in expected.items():
        assert found[pair] == overlap or (not is_exact and abs(found[pair] - overlap) < 1e-15), pair


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["bbox", "segm", "boundary", "keypoints"])
def test_random_scenes_give_the_same_bits_and_lines(kind: str, seed: int) -> None:
    """Also mean IoU, mean area under the curves, and the best F1."""
    found = check_same(*scene_of(kind.replace("boundary", "segm"), seed), kind, extra_calc=True)
    assert "mIoU" in found.stats_as_dict


@pytest.mark.parametrize("separate_eval", [False, True])
def test_curves_may_be_made_by_accumulate(separate_eval: bool) -> None:
    """Of boxes under parameters of one's own."""
    params = {"iouThrs": np.array([0.3, 0.5, 0.6]), "maxDets": [2, 7], "recThrs": np.linspace(0, 1, 11)}
    check_same(*scene_of("bbox", 4), "bbox", separate_eval=separate_eval, params=params)


def test_classes_may_be_pooled() -> None:
    """And more limits than three have their own names."""
    found = check_same(*scene_of("bbox", 5), "bbox", params={"useCats": 0, "maxDets": [1, 5, 50, 500]})
    assert "AR_500" in found.stats_as_dict
    check_same(*scene_of("segm", 5), "segm", params={"useCats": 0})


def test_area_ranges_have_names_of_ones_own() -> None:
    """In the lines and in the dict."""
    found = check_same(*scene_of("bbox", 6), "bbox", ranges={"tiny": [0, 100], "huge": [100, 1e10]})
    assert {"AP_tiny", "AR_huge"} <= set(found.stats_as_dict)


@pytest.mark.parametrize("settings", [{"use_area": False}, {"kpt_oks_sigmas": [0.05] * 17}])
def test_poses_may_have_other_rules(settings: Any) -> None:
    """Areas from boxes, and sigmas of one's own."""
    check_same(*scene_of("keypoints", 7), "keypoints", **settings)


def test_images_of_crowdpose_have_three_levels() -> None:
    """Easy, medium and hard, by their crowd index."""
    dataset, results = scene_of("keypoints", 8)
    for image in dataset["images"]:
        image["crowdIndex"] = [0.1, 0.5, 0.9][image["id"] % 3]
    found = check_same(dataset, results, "keypoints_crowd", use_area=False)
    assert list(found.stats_as_dict)[-3:] == ["AP_easy", "AP_medium", "AP_hard"]


def test_annotations_need_no_flags() -> None:
    """Neither crowds nor numbers of keypoints."""
    dataset, results = scene_of("bbox", 9)
    for annotation in dataset["annotations"]:
        if not annotation["iscrowd"]:
            del annotation["iscrowd"]
    check_same(dataset, results, "bbox")
    dataset, results = scene_of("keypoints", 9)
    for annotation in dataset["annotations"]:
        del annotation["num_keypoints"]
    check_same(dataset, results, "keypoints")


@pytest.mark.parametrize("limits", [[1, 10, 100], [300]])
@pytest.mark.parametrize("seed", range(3))
def test_the_style_of_lvis_counts_classes_that_were_looked_for(seed: int, limits: list[int]) -> None:
    """With numbers for rare, common and frequent classes."""
    dataset, results = federated_scene(seed)
    found = check_same(dataset, results, "bbox", lvis_style=True, params={"maxDets": limits})
    plain, _ = run(ours, dataset, results, "bbox", params={"maxDets": limits})
    assert found.stats_as_dict["AP_all"] != plain.stats_as_dict["AP_all"]
    assert {"APr", "APc", "APf"} <= set(found.stats_as_dict)


@pytest.mark.parametrize("separate_eval", [False, True])
def test_masks_in_the_style_of_lvis(separate_eval: bool) -> None:
    """Also from entries."""
    check_same(*federated_scene(0, has_masks=True), "segm", lvis_style=True, separate_eval=separate_eval)


def evaluate_in_batches(tool: Any, dataset: Dict, results: list[Dict]) -> Any:
    """A client in the manner of RT-DETR and D-FINE: entries of each batch, put together at the end."""
    truths = tool.COCO(copy.deepcopy(dataset))
    evaluation = tool.COCOeval_faster(truths, iouType="bbox", separate_eval=True)
    entries, seen = [], []
    for first in range(0, len(dataset["images"]), 4):
        images = [image["id"] for image in dataset["images"][first : first + 4]]
        own = [copy.deepcopy(row) for row in results if row["image_id"] in images]
        evaluation.cocoDt = truths.loadRes(own) if own else tool.COCO()
        evaluation.params.imgIds = images
        evaluation.evaluate()
        p = evaluation.params
        shape = len(p.catIds), len(p.areaRng), len(p.imgIds)
        entries.append(np.array(pickle.loads(pickle.dumps(evaluation._evalImgs_cpp)), object).reshape(shape))
        seen += images
    order = np.argsort(seen)
    evaluation.params.imgIds = sorted(seen)
    evaluation._paramsEval = copy.deepcopy(evaluation.params)
    evaluation._evalImgs_cpp = np.concatenate(entries, axis=2)[..., order].ravel().tolist()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def test_entries_of_batches_may_be_put_together() -> None:
    """As evaluators for several processes do; overlaps are not among them."""
    scene = scene_of("bbox", 10)
    found, expected = evaluate_in_batches(ours, *scene), evaluate_in_batches(faster_coco_eval, *scene)
    for name in ARRAYS:
        check_equal(found.eval[name], expected.eval[name], name)
    check_equal(found.stats, expected.stats)
    with pytest.raises(InputError, match=r"`matched` needs the overlaps of evaluate\(\)"):
        found.eval["matched"]


def test_files_give_what_dicts_give(tmp_path: Path) -> None:
    """Without a dict being made."""
    files = tmp_path / "truths.json", tmp_path / "results.json"
    for kind in ("bbox", "segm", "keypoints"):
        scene = scene_of(kind, 11)
        for file, content in zip(files, scene, strict=True):
            file.write_text(json.dumps(content))
        truths = ours.COCO(str(files[0]))
        evaluation = ours.COCOeval_faster(truths, truths.loadRes(files[1]), kind)
        evaluation.run()
        expected, _ = run(ours, *scene, kind)
        assert evaluation.stats_as_dict == expected.stats_as_dict
        assert "dataset" not in vars(truths)


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_data_gives_the_same_bits_and_lines(kind: str) -> None:
    """The example of the COCO API."""
    dataset = json.loads(shared_data("val2014_100/instances_val2014_100.json").read_text())
    results = json.loads(shared_data(f"val2014_100/instances_val2014_fake{kind}100_results.json").read_text())
    check_same(dataset, results, kind, extra_calc=True)


def test_real_poses_give_the_same_bits_and_lines() -> None:
    """Lite-HRNet on 200 people of COCO."""
    dataset = json.loads(shared_data("keypoints/person_keypoints_1000.json").read_text())
    results = json.loads(shared_data("keypoints/litehrnet_18_256.json").read_text())
    images = {image["id"] for image in dataset["images"][:200]}
    dataset["images"] = dataset["images"][:200]
    dataset["annotations"] = [row for row in dataset["annotations"] if row["image_id"] in images]
    check_same(dataset, [row for row in results if row["image_id"] in images], "keypoints")


def test_matches_are_written_into_annotations() -> None:
    """`tp`, `fp`, `fn`, ids and overlaps, which charts read."""
    expected, found = (
        run(tool, *scene_of("bbox", 12), "bbox", extra_calc=True)[0] for tool in (faster_coco_eval, ours)
    )
    assert found.cocoDt.anns.keys() == expected.cocoDt.anns.keys()
    for number, ann in expected.cocoDt.anns.items():
        own = found.cocoDt.anns[number]
        assert (own.get("tp"), own.get("fp")) == (ann.get("tp"), ann.get("fp"))
    assert {number for number, ann in found.cocoGt.anns.items() if ann.get("fn")} == {
        number for number, ann in expected.cocoGt.anns.items() if ann.get("fn")
    }


def test_a_stored_evaluation_is_a_plain_dict() -> None:
    """With all that it has."""
    found, _ = run(ours, *scene_of("bbox", 13), "bbox")
    stored = pickle.loads(pickle.dumps(found.eval))
    assert type(stored) is dict
    assert (
        stored["matched"] == found.eval["matched"] == dict(found.eval)["matched"] == dict(found.eval.items())["matched"]
    )


def queries(tool: Any, dataset: Dict, results: list[Dict], folder: Path) -> list[Any]:
    """What a dataset answers."""
    coco = tool.COCO(copy.deepcopy(dataset))
    images, classes = [image["id"] for image in dataset["images"][:3]], [0, 2]
    found = coco.loadRes(copy.deepcopy(results), min_score=0.5)
    rows = np.array([[row["image_id"], *row["bbox"], row["score"], row["category_id"]] for row in results])
    coco.dump(folder / "dump.json")
    return [
        coco.get_img_ids(),
        coco.get_cat_ids(cat_names=["class 1"]),
        sorted(coco.get_ann_ids(images, classes)),
        sorted(coco.getAnnIds(iscrowd=True)),
        sorted(coco.getAnnIds(areaRng=[10, 1000], iscrowd=False)),
        coco.load_cats([1]),
        coco.load_imgs(1),
        coco.loadAnns(None),
        sorted(coco.img_ann_map),
        sorted(coco.cat_img_map),
        coco.to_dict(separate_fn=True),
        json.loads((folder / "dump.json").read_text()),
        found.dataset,
        coco.loadRes(rows).dataset,
        coco.loadRes([]).dataset,
    ]


def test_a_dataset_gives_the_same_answers(tmp_path: Path) -> None:
    """Under both of its names for each."""
    scene = scene_of("bbox", 14)
    for found, expected in zip(
        queries(ours, *scene, tmp_path), queries(faster_coco_eval, *scene, tmp_path), strict=True
    ):
        assert found == expected


def test_pairs_are_known_where_images_are_evaluated_one_by_one() -> None:
    """As with values that only pycocotools' rules cover."""
    dataset, results = scene_of("bbox", 14)
    matched = []
    for refuses in (False, True):
        coco = ours.COCO(copy.deepcopy(dataset))
        found = ours.COCOeval_faster(coco, coco.loadRes(copy.deepcopy(results)), "bbox")
        with (
            patch.object(evaluation, "select_rows", side_effect=RefusedRowError("refused"))
            if refuses
            else nullcontext()
        ):
            found.evaluate()
        assert (found._seen is None) == refuses
        matched.append(found.eval["matched"])
    assert matched[0] == matched[1]
    assert len(matched[0]) > 10


def test_a_dump_that_fails_leaves_the_file_unchanged(tmp_path: Path) -> None:
    """A value that JSON can't represent."""
    file = tmp_path / "dump.json"
    coco = ours.COCO(scene_of("bbox", 14)[0])
    coco.dump(file)
    before = file.read_bytes()
    coco.dataset["images"][0]["photographer"] = object()
    with pytest.raises(TypeError, match="not JSON serializable"):
        coco.dump(file)
    assert file.read_bytes() == before
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("tool", [faster_coco_eval, ours])
def test_what_is_no_dataset_is_refused(tool: Any) -> None:
    """As the package does, and by its kinds of errors."""
    with pytest.raises(TypeError, match="is not supported"):
        tool.COCO(7)
    with pytest.raises(AssertionError, match="not supported"):
        tool.COCO([])
    coco = tool.COCO(scene_of("bbox", 14)[0])
    with pytest.raises(AssertionError, match="Results do not correspond to current coco set"):
        coco.loadRes([{"image_id": 999, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 1}])
    with pytest.raises(TypeError, match="ids must be an int or an iterable of ints"):
        coco.loadAnns("1")
    with pytest.raises(TypeError, match="iouType not supported"):
        tool.COCOeval_faster(coco, iouType="obb")


def test_bad_settings_are_named() -> None:
    """What can't be evaluated together, and what has not been."""
    coco = ours.COCO(federated_scene(0)[0])
    results = coco.loadRes([])
    evaluation = ours.COCOeval_faster(coco, results, "bbox", lvis_style=True)
    evaluation.params.useCats = 0
    with pytest.raises(InputError, match="`lvis_style` must be False where classes are pooled"):
        evaluation.evaluate()
    del coco.cats[1]["frequency"]
    with pytest.raises(
        InputError, match="category 1 must have a `frequency`, one of r, c, f, for `lvis_style`; got nothing"
    ):
        ours.COCOeval_faster(coco, results, "bbox", lvis_style=True).evaluate()
    with pytest.raises(InputError, match="`p` must be None"):
        ours.COCOeval_faster(coco, results, "bbox").accumulate(evaluation.params)
    with pytest.raises(Exception, match=r"Please run accumulate\(\) first"):
        ours.COCOeval_faster(coco, results, "bbox").summarize()


def test_an_annotation_with_id_0_is_warned_of() -> None:
    """And is never matched, as there."""
    dataset, results = scene_of("bbox", 15)
    for row in dataset["annotations"]:
        row["id"] -= 1
    with pytest.warns(UserWarning, match="Found annotation id 0"):
        found, lines = run(ours, dataset, results, "bbox")
    with pytest.warns(UserWarning, match="Found annotation id 0"):
        expected, expected_lines = run(faster_coco_eval, dataset, results, "bbox")
    assert lines == expected_lines
    check_equal(found.eval["precision"], expected.eval["precision"])


PIXELS = np.random.default_rng(0).random((23, 31, 3)) < 0.4
RLES = faster_coco_eval.mask.encode(PIXELS)
MASK_CALLS = {
    "encode": lambda mask: [mask.encode(PIXELS), mask.encode(PIXELS[:, :, 0]), mask.encode(np.asfortranarray(PIXELS))],
    "decode": lambda mask: [mask.decode(RLES), mask.decode(RLES[0])],
    "area": lambda mask: [mask.area(RLES), mask.area(RLES[0])],
    "toBbox": lambda mask: [mask.toBbox(RLES), mask.toBbox(RLES[0])],
    "merge": lambda mask: [mask.merge(RLES), mask.merge(RLES, 1)],
    "iou": lambda mask: [mask.iou(RLES, RLES, [0, 1, 0]), mask.iou([[0, 0, 2, 2]], [[1, 1, 2, 2]], [0])],
    "frPyObjects": lambda mask: [
        mask.frPyObjects([[1, 1, 9, 1, 9, 9]], 23, 31),
        mask.frPyObjects([[1.0, 1, 5, 6]], 23, 31),
        mask.frPyObjects([1.0, 1, 5, 6], 23, 31),
    ],
    "segmToRle": lambda mask: [
        mask.segmToRle([[1, 1, 9, 1, 9, 9]], 31, 23),
        mask.segmToRle(RLES[0], 31, 23),
        mask.segmToRle({"size": [2, 2], "counts": [1, 3]}, 2, 2),
    ],
    "rleToBoundary": lambda mask: [mask.rleToBoundary(RLES[0]), mask.rleToBoundary(RLES[1], 0.1)],
}


@pytest.mark.parametrize("call", MASK_CALLS)
def test_masks_have_the_same_values(call: str) -> None:
    """And dtypes."""
    check_equal(MASK_CALLS[call](ours.mask), MASK_CALLS[call](faster_coco_eval.mask))


def test_imports_give_boxscore_until_the_patch_is_undone() -> None:
    """Under all of its paths; this module, which imported it before, is named by a warning."""
    before = sys.modules["faster_coco_eval"]
    with pytest.warns(
        UserWarning, match=r"was imported before the patch and remains in use in .*tests\.dropin\.test_faster_coco_eval"
    ):
        patch = boxscore.patch_faster_coco_eval()
    with patch, boxscore.patch_faster_coco_eval():
        package = importlib.import_module("faster_coco_eval")
        assert package.COCO is importlib.import_module("faster_coco_eval.core").COCO is ours.COCO
        assert package.cocoeval.COCOeval is PrintingCOCOeval
        assert importlib.import_module("faster_coco_eval.core.faster_eval_api").COCOeval_faster is ours.COCOeval_faster
        assert importlib.import_module("faster_coco_eval.core.mask") is package.mask is ours.mask
        assert importlib.import_module("faster_coco_eval.core.cocoeval").Params("segm").compute_rle
        patch.undo()
        assert sys.modules["faster_coco_eval"] is package
    assert sys.modules["faster_coco_eval"] is before
    patch.undo()
    assert sys.modules["faster_coco_eval"] is before


def test_charts_are_its_own_and_read_our_evaluation() -> None:
    """`faster_coco_eval.extra` works on top of the patch."""
    scene = scene_of("bbox", 16)

    def curves() -> Any:
        package = importlib.import_module("faster_coco_eval")
        extra = importlib.import_module("faster_coco_eval.extra.extra")
        truths = package.COCO(copy.deepcopy(scene[0]))
        made = extra.ExtraEval(truths, truths.loadRes(copy.deepcopy(scene[1])), iou_tresh=0.5)
        return made.fp_image_ann_map, made.fn_image_ann_map, made.eval["precision"]

    expected = curves()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with boxscore.patch_faster_coco_eval():
            found = curves()
    assert found[:2] == expected[:2]
    check_equal(found[2], expected[2])


def run_python(code: str, *, hidden: bool = False) -> str:
    """What a fresh Python prints; `hidden`: faster_coco_eval can't be found in it."""
    hide = "import sys; sys.meta_path.insert(0, type('Hidden', (), {'find_spec': staticmethod(hide)}))\n"
    function = (
        "def hide(name, path=None, target=None):\n"
        "    if name.split('.')[0] in ('faster_coco_eval', 'pycocotools'): raise ModuleNotFoundError(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", (function + hide if hidden else "") + code], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_need_not_be_installed() -> None:
    """Its charts alone are missing, and the error says so."""
    code = """
import boxscore
boxscore.patch_faster_coco_eval()
import faster_coco_eval
print(faster_coco_eval.COCOeval_faster.__module__, faster_coco_eval.__version__)
try:
    from faster_coco_eval.extra import Curves
except ImportError as error:
    print(error)
faster_coco_eval.init_as_pycocotools()
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
import pycocotools.mask
print(COCO.__name__, COCOeval.__name__, pycocotools.mask.__name__)
"""
    lines = run_python(code, hidden=True).splitlines()
    assert lines[0] == "boxscore.dropin.faster_evaluation 1.8.0"
    assert "Curves draws charts and is faster_coco_eval's own, which is not installed" in lines[1]
    assert lines[2] == "FasterCOCO COCOeval boxscore.dropin.faster_mask"


def test_its_name_for_pycocotools_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever `print_function` it is given, as there; one that is set later counts."""
    scene = scene_of("bbox", 17)
    texts = []
    for coco, kind in (
        (faster_coco_eval.COCO, faster_coco_eval.core.faster_eval_api.COCOeval),
        (ours.COCO, PrintingCOCOeval),
    ):
        truths = coco(copy.deepcopy(scene[0]))
        evaluation = kind(truths, truths.loadRes(copy.deepcopy(scene[1])), "bbox", print_function=len)
        evaluation.run()
        texts.append(re.sub(r"t=\d+\.\d\ds", "", capsys.readouterr().out))
        evaluation.print_function = lambda _: None
        evaluation.summarize()
        assert capsys.readouterr().out == ""
    assert texts[0] == texts[1] != ""


@pytest.fixture(scope="module")
def clients() -> Any:
    """What real clients give, over the real package and over ours."""
    return json.loads(run_python("from tests.support.faster_clients import main; main()").splitlines()[-1])


@pytest.mark.parametrize(
    "client",
    [
        "ultralytics",
        "ultralytics lvis",
        *(f"rfdetr {kind}" for kind in ("bbox", "segm", "keypoints", "training")),
        "torchmetrics",
    ],
)
def test_real_clients_give_the_same_bits_under_the_patch(clients: Any, client: str) -> None:
    """Ultralytics' validator, RF-DETR's evaluators, and torchmetrics."""
    assert clients["used"] == "boxscore.dropin.faster_evaluation"
    assert len(clients["theirs"][client]) > 0
    assert clients["ours"][client] == clients["theirs"][client]
