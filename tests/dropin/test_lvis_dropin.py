"""boxscore.lvis: every array, entry, number and printed line of `lvis` 0.5.3."""

import contextlib
import copy
import io
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore.coco
import boxscore.lvis
from boxscore import InputError
from boxscore.lvis import LVIS, LVISEval, LVISResults
from tests.support import oracles
from tests.support.dropin import check_equal
from tests.support.lvis_scenes import federated_scene, reference, write_lvis

Dict = dict[str, Any]

KINDS: list[tuple[str, Dict]] = [
    ("bbox", {}),
    ("segm", {"has_masks": True}),
    ("segm", {"has_masks": True, "has_boxes": False}),
    ("bbox", {"has_masks": True, "has_boxes": False}),
]
"""Boxes; masks beside boxes, which decide the areas of detections; masks alone, by masks and by the boxes around."""


def ours(files: tuple[str, str], iou_type: str, *, results: Any = None, limit: int = 300, **params: Any) -> LVISEval:
    """Our evaluation after `run`, as `reference` runs it."""
    truths = LVIS(files[0])
    given = LVISResults(truths, files[1] if results is None else copy.deepcopy(results), max_dets=limit)
    evaluation = LVISEval(truths, given, iou_type)
    for name, value in params.items():
        setattr(evaluation.params, name, copy.deepcopy(value))
    evaluation.run()
    return evaluation


def printed(evaluation: Any) -> str:
    """What `print_results` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        evaluation.print_results()
    return said.getvalue()


def check_same(found: LVISEval, expected: Any) -> None:
    """Numbers, lines, arrays, entries, overlaps and pointers."""
    assert printed(found) == printed(expected)
    check_equal(dict(found.results), dict(expected.results))
    assert list(found.eval) == list(expected.eval)
    for name in ("counts", "precision", "recall", "dt_pointers"):
        check_equal(found.eval[name], expected.eval[name], name)
    check_equal(found.freq_groups, expected.freq_groups)
    check_equal(found.eval_imgs, expected.eval_imgs)
    assert found.ious.keys() == expected.ious.keys()
    for pair, overlap in expected.ious.items():
        check_equal(found.ious[pair], overlap, f"ious[{pair}]")
    for name, value in vars(expected.params).items():
        check_equal(getattr(found.params, name), value, name)


ODD_VALUES: tuple[Any, ...] = (None, "5", True, [], {}, 10**400, float("nan"), float("inf"), -1, 1.5)
ODD_FIELDS = {
    "annotations": ("area", "bbox", "ignore", "iscrowd", "category_id", "image_id", "id", "segmentation"),
    "results": ("bbox", "score", "category_id", "image_id", "segmentation"),
}


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
@pytest.mark.parametrize("side", ODD_FIELDS)
def test_extreme_values_give_what_lvis_gives_or_an_error(side: str, iou_type: str, tmp_path: Path) -> None:
    """Never a number where `lvis` raises, and never another number."""
    scene = federated_scene(3, num_images=5, num_detections=12, has_masks=iou_type == "segm")
    num_answered = 0
    for field in ODD_FIELDS[side]:
        for value in ODD_VALUES:
            dataset, results = copy.deepcopy(scene)
            (dataset["annotations"] if side == "annotations" else results)[2][field] = value
            files = write_lvis(tmp_path, dataset, results)
            try:
                found = ours(files, iou_type)
            except (InputError, TypeError, ValueError, LookupError, AttributeError, OverflowError):
                continue
            expected = reference(files, iou_type)
            check_equal(found.eval["precision"], expected.eval["precision"], f"{field}: {value!r}")
            num_answered += 1
    assert num_answered > 5


@pytest.mark.parametrize(("iou_type", "kind"), KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_everything_is_of_lvis(seed: int, iou_type: str, kind: Dict, tmp_path: Path) -> None:
    """From files and from dicts: lists of classes, equal scores, shapes without area, crowds, images without anything;
    images with more detections than the limit.
    """
    dataset, results = federated_scene(seed, **kind)
    files = write_lvis(tmp_path, dataset, results)
    expected = reference(files, iou_type, limit=25)
    assert expected.results["AP"] > 0.05
    check_same(ours(files, iou_type, limit=25), expected)
    found = ours(files, iou_type, results=results, limit=25)
    check_same(found, expected)
    # Entries are there now, and are what is accumulated.
    found.accumulate()
    found.summarize()
    check_same(found, expected)


def test_the_limit_of_300_per_image(tmp_path: Path) -> None:
    """Over all classes, of equal scores the first."""
    files = write_lvis(tmp_path, *federated_scene(7, num_images=3, num_detections=450))
    expected = reference(files, "bbox")
    found = ours(files, "bbox")
    assert len(found.lvis_dt.anns) == len(expected.lvis_dt.anns) < 900
    check_same(found, expected)


@pytest.mark.parametrize(
    "params",
    [
        {"img_ids": [12, 2, 2, 17]},
        {"cat_ids": [7, 1, 4]},
        {"cat_ids": [7, 1, 7]},
        {"cat_ids": []},
        {"iou_thrs": np.array([0.5, 0.75])},
        {"iou_thrs": np.array([0.75, 0.5])},
        {"rec_thrs": np.array([0.0, 0.5, 1.0])},
        {"max_dets": 17},
        {"area_rng": [[0, 1e10], [0, 300]], "area_rng_lbl": ["all", "small"]},
        {"img_count_lbl": ["f", "c", "r"]},
    ],
    ids=str,
)
def test_parameters_change_the_same(params: Dict, tmp_path: Path) -> None:
    """From files and from dicts; `max_dets` changes names and lines alone."""
    dataset, results = federated_scene(3)
    files = write_lvis(tmp_path, dataset, results)
    expected = reference(files, "bbox", **params)
    check_same(ours(files, "bbox", **params), expected)
    check_same(ours(files, "bbox", results=results, **params), expected)


def test_without_classes_there_is_nothing(tmp_path: Path) -> None:
    """As in LVIS, whose `use_cats = 0` looks for a class -1; its numbers of rare classes are an IndexError."""
    files = write_lvis(tmp_path, *federated_scene(3))
    truths = LVIS(files[0])
    evaluation = LVISEval(truths, files[1], "bbox")
    evaluation.params.use_cats = 0
    evaluation.evaluate()
    evaluation.accumulate()
    assert evaluation.eval["precision"].shape == (10, 101, 1, 4)
    assert (evaluation.eval["precision"] == -1).all()
    with pytest.raises(IndexError, match=r"`params.use_cats` must be 1"):
        evaluation.summarize()
    with pytest.raises(IndexError):
        reference(files, "bbox", use_cats=0)


def test_an_annotation_may_say_that_it_is_ignored(tmp_path: Path) -> None:
    """And one whose id is 0 is never found, as in LVIS."""
    dataset, results = federated_scene(4)
    for number, ann in enumerate(dataset["annotations"]):
        ann["id"] = number
        ann["ignore"] = int(number % 3 == 0)
    files = write_lvis(tmp_path, dataset, results)
    check_same(ours(files, "bbox"), reference(files, "bbox"))
    for ann in dataset["annotations"]:
        ann["id"] += 1
    files = write_lvis(tmp_path, dataset, results)
    check_same(ours(files, "bbox"), reference(files, "bbox"))


def test_a_subclass_may_match_by_itself(tmp_path: Path) -> None:
    """Then every image is evaluated by the methods, which are those of LVIS."""

    class Own(LVISEval):
        def compute_iou(self, img_id: Any, cat_id: Any) -> Any:
            return super().compute_iou(img_id, cat_id)

    for iou_type, kind in KINDS[:2]:
        files = write_lvis(tmp_path, *federated_scene(5, **kind))
        evaluation = Own(files[0], files[1], iou_type)
        evaluation.run()
        check_same(evaluation, reference(files, iou_type))


def test_the_dataset_and_the_results_are_those_of_lvis(tmp_path: Path) -> None:
    """Queries, dicts and masks."""
    dataset, results = federated_scene(6, has_masks=True)
    files = write_lvis(tmp_path, dataset, results)
    with oracles.old_numpy():
        theirs = oracles.lvis().LVIS(files[0])
        their_results = oracles.lvis().LVISResults(theirs, files[1], max_dets=9)
    truths = LVIS(files[0])
    assert truths.get_img_ids() == theirs.get_img_ids()
    assert truths.get_cat_ids() == theirs.get_cat_ids()
    for query in ({}, {"img_ids": [2, 12]}, {"img_ids": [2], "cat_ids": [1, 4]}, {"cat_ids": [4], "area_rng": [9, 99]}):
        assert truths.get_ann_ids(**query) == theirs.get_ann_ids(**query)
    assert truths.load_anns([1, 2]) == theirs.load_anns([1, 2])
    assert truths.load_anns() == theirs.load_anns()
    assert truths.load_cats([1]) == theirs.load_cats([1])
    assert truths.load_imgs([2]) == theirs.load_imgs([2])
    for ann, other in zip(truths.load_anns(), theirs.load_anns(), strict=True):
        assert truths.ann_to_rle(ann) == theirs.ann_to_rle(other)
        check_equal(truths.ann_to_mask(ann), theirs.ann_to_mask(other))
    found = LVISResults(truths, files[1], max_dets=9)
    for lvis, other in ((truths, theirs), (found, their_results)):
        assert lvis.dataset == other.dataset
        assert lvis.anns == other.anns
        assert lvis.cats == other.cats
        assert lvis.imgs == other.imgs
        assert lvis.img_ann_map == other.img_ann_map
        assert lvis.cat_img_map == other.cat_img_map
    assert found.get_top_results(2, 0.5) == their_results.get_top_results(2, 0.5)
    given = copy.deepcopy(results)
    LVISResults(files[0], given, max_dets=-1)
    assert given[0].keys() >= {"area", "id", "segmentation"}, "as in LVIS: they are completed in place"


def test_entries_that_were_changed_count(tmp_path: Path) -> None:
    """`accumulate` uses `eval_imgs`, once it was read."""
    files = write_lvis(tmp_path, *federated_scene(3))
    evaluation = ours(files, "bbox")
    for entry in evaluation.eval_imgs:
        if entry is not None:
            entry["dt_ignore"][:] = True
    evaluation.accumulate()
    evaluation.summarize()
    assert evaluation.results["AP"] == 0


def test_the_arrays_can_be_pickled_and_copied(tmp_path: Path) -> None:
    """As plain dicts, with the pointers."""
    found = ours(write_lvis(tmp_path, *federated_scene(2)), "bbox").eval
    for other in (pickle.loads(pickle.dumps(found)), copy.copy(found), dict(found), {**found}, dict(found.items())):
        check_equal(other["dt_pointers"], found["dt_pointers"])
        check_equal(other.get("precision"), found.get("precision"))
    assert found.get("nothing") is None
    assert len(list(found.values())) == 6


def test_no_detections_are_no_error(tmp_path: Path) -> None:
    """`lvis` raises an IndexError; here nothing was found."""
    dataset, _ = federated_scene(3)
    files = write_lvis(tmp_path, dataset, [])
    results = ours(files, "bbox").get_results()
    assert results["AP"] == results["AR@300"] == 0


def test_nothing_is_logged_that_lvis_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning where a step is missing."""
    files = write_lvis(tmp_path, *federated_scene(3))
    with caplog.at_level(logging.WARNING):
        ours(files, "bbox")
        assert caplog.messages == []
        evaluation = LVISEval(files[0], files[1], "bbox")
        assert evaluation.get_results() == {}
        assert caplog.messages == ["results is empty. Call run()."]
        with pytest.raises(InputError, match="needs the results of evaluate"):
            evaluation.accumulate()
        assert caplog.messages[-1] == "Please run evaluate first."
        with pytest.raises(RuntimeError, match=r"Please run accumulate\(\) first"):
            evaluation.summarize()


def test_results_may_be_a_path_object(tmp_path: Path) -> None:
    """As the dataset may be."""
    files = write_lvis(tmp_path, *federated_scene(3))
    found = LVISEval(Path(files[0]), Path(files[1]), "bbox")
    found.run()
    assert found.results == ours(files, "bbox").results


class TestBadInput:
    """Clear errors, of the classes that `lvis` raises where a client may catch them."""

    def test_types(self, tmp_path: Path) -> None:
        """TypeError, ValueError and AssertionError."""
        files = write_lvis(tmp_path, *federated_scene(3))
        truths = LVIS(files[0])
        for make in (lambda: LVISEval(7, []), lambda: LVISEval(truths, 7), lambda: LVISResults(None, [])):
            with pytest.raises(TypeError, match=r"must be a boxscore\.lvis\.LVIS") as caught:
                make()
            assert isinstance(caught.value, InputError)
        with pytest.raises(TypeError, match="`annotation_path` must be the path of a file; got dict"):
            LVIS({})
        with pytest.raises(ValueError, match="`iou_type` must be bbox or segm; got 'keypoints'"):
            LVISEval(truths, files[1], "keypoints")
        with pytest.raises(AssertionError, match="`results` must be a list of dicts"):
            LVISResults(truths, {})
        with pytest.raises(AssertionError, match="Results do not correspond to current LVIS set: image 999"):
            LVISResults(truths, [{"image_id": 999, "category_id": 1, "score": 1, "bbox": [0, 0, 1, 1]}])
        with pytest.raises(InputError, match="boxscore downloads no images"):
            truths.download(tmp_path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"score": None}, "result 0 must have `score`"),
            ({"image_id": None}, "result 0 must have `image_id`"),
            ({"bbox": [0, 0, 1]}, "must have 4 numbers in `bbox`"),
            ({"bbox": None}, "the first one has neither"),
            ({"bbox": None, "segmentation": [[0, 0, 1, 1, 2, 2]]}, "must have compressed run lengths"),
            ({"score": "high"}, "`score` must be a number; got 'high'"),
            ({"score": float("nan")}, "result 1: `score` must be finite"),
            ({"bbox": [0, 0, -3, -4]}, "result 1: `bbox` must not have a negative width"),
        ],
    )
    def test_results(self, change: Dict, message: str, tmp_path: Path) -> None:
        """The first result says what is wrong, when it is loaded or evaluated."""
        dataset, _ = federated_scene(3)
        files = write_lvis(tmp_path, dataset, [])
        result = {"image_id": 2, "category_id": dataset["annotations"][0]["category_id"]}
        result |= {"score": 0.5, "bbox": [0, 0, 9, 9], **change}
        result = {key: value for key, value in result.items() if value is not None}
        with pytest.raises(InputError, match=message):
            ours(files, "bbox", results=[result])

    @pytest.mark.parametrize(
        ("part", "key", "value", "message"),
        [
            ("images", "neg_category_ids", None, "image 2 must have `neg_category_ids`"),
            ("images", "not_exhaustive_category_ids", None, "image 2 must have `not_exhaustive_category_ids`"),
            ("images", "neg_category_ids", "all", "image 2: `neg_category_ids` must be a list"),
            ("categories", "frequency", None, "`frequency` must be one of r, c, f; got nothing"),
            ("categories", "frequency", "x", "`frequency` must be one of r, c, f; got 'x'"),
            ("annotations", "area", None, "annotation 1 of image 2 must have `area`"),
            ("annotations", "category_id", None, "annotation 0 must have `category_id`"),
            ("images", "id", None, "image 0 must have `id`"),
        ],
    )
    def test_datasets(self, part: str, key: str, value: Any, message: str, tmp_path: Path) -> None:
        """What LVIS' files have, and others have not."""
        dataset, results = federated_scene(3)
        dataset[part][0][key] = value
        if value is None:
            del dataset[part][0][key]
        files = write_lvis(tmp_path, dataset, results[:3])
        with pytest.raises(InputError, match=message):
            ours(files, "bbox")

    def test_files(self, tmp_path: Path) -> None:
        """Not JSON, not an object, not a dataset, not there."""
        path = tmp_path / "file.json"
        for content, message in (
            ("{", "file.json: not JSON"),
            ("[]", "expected an object"),
            ('{"annotations": []}', "file.json: `images` must be a list; got nothing"),
            ('{"annotations": [3]}', "annotation 0 must be an object; got a int"),
        ):
            path.write_text(content)
            with pytest.raises(InputError, match=message):
                LVIS(path)
        with pytest.raises(FileNotFoundError):
            LVIS(str(tmp_path / "none.json"))

    def test_parameters(self, tmp_path: Path) -> None:
        """Ids that are not in the dataset, and changes between two steps."""
        files = write_lvis(tmp_path, *federated_scene(3))
        for name, value in (("img_ids", [2, 999]), ("cat_ids", [999])):
            with pytest.raises(InputError, match=rf"`params.{name}` must be ids of the dataset; got 999"):
                ours(files, "bbox", **Dict({name: value}))
        evaluation = ours(files, "bbox")
        evaluation.params.iou_type = "keypoints"
        with pytest.raises(InputError, match=r"`params.iou_type` must be bbox or segm"):
            evaluation.evaluate()
        evaluation = ours(files, "bbox")
        evaluation.params.cat_ids = [1]
        with pytest.raises(InputError, match=r"`params.cat_ids` must be as it was in evaluate\(\)"):
            evaluation.accumulate()


def test_the_public_names_are_those_of_lvis() -> None:
    """But for the drawing of images."""
    with oracles.old_numpy():
        assert {*boxscore.lvis.__all__} == {*oracles.lvis().__all__} - {"LVISVis"}
    for name in boxscore.lvis.__all__:
        theirs = {each for each in vars(getattr(oracles.lvis(), name)) if not each.startswith("__")}
        assert theirs <= {*dir(getattr(boxscore.lvis, name))}, name


def test_masks_with_empty_runs_on_both_sides_are_refused(tmp_path: Path) -> None:
    """`lvis` stops comparing two masks where both have a run of no pixels."""
    dataset, results = federated_scene(1, has_masks=True)
    empty = boxscore.coco.mask.frPyObjects({"size": [40, 60], "counts": [100, 0, 200, 2100]}, 40, 60)
    segmentation = {"size": [40, 60], "counts": empty["counts"].decode()}
    dataset["annotations"][0] |= {"segmentation": segmentation, "area": 200}
    assert ours(write_lvis(tmp_path, dataset, results), "segm").results["AP"] >= 0
    results[0] |= {key: dataset["annotations"][0][key] for key in ("segmentation", "image_id", "category_id")}
    with pytest.raises(
        InputError, match="have runs of no pixels, where `lvis` stops comparing them; encode them again"
    ):
        ours(write_lvis(tmp_path, dataset, results), "segm")
