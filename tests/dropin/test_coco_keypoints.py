"""Keypoints from COCO's files: every array, entry, OKS and letter of pycocotools; the reader; the command."""

import copy
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore._compiled as _compiled
from boxscore import InputError, Protocol, read_detections, read_truths
from boxscore.arrays import to_numpy
from boxscore.cli import main
from boxscore.cli.direct import summarize_files
from tests.support.comparisons import assert_same, assert_same_tally
from tests.support.dropin import (
    OURS,
    THEIRS,
    Tool,
    check_same,
    dataset_of,
    evaluated,
    from_dicts,
    from_files,
    match_by_steps,
    outcome,
    run,
    write_files,
)
from tests.support.pose_scenes import columns_of, random_poses, sigmas_of
from tests.support.shared import shared_data

KINDS = [
    {"has_boxes": has_boxes, "has_zero_areas": has_zero_areas}
    for has_boxes in (False, True)
    for has_zero_areas in (False, True)
]
"""Results with and without boxes, truths with and without areas of 0."""


@pytest.mark.native
@pytest.mark.usefixtures("libm_exp")
class TestDropIn:
    """With the exp of the C library, everything is pycocotools' own."""

    @pytest.mark.parametrize("kind", KINDS, ids=str)
    @pytest.mark.parametrize("seed", range(8))
    def test_everything_is_pycocotools_own(self, seed: int, kind: Any) -> None:
        """From dicts: crowds, ties, truths without labels, poses of no size, images without poses."""
        dataset, results = random_poses(seed, **kind)
        evaluation = check_same(lambda tool: evaluated(tool, dataset, results, iou_type="keypoints"))
        assert 0 < evaluation.stats[0] < 1

    @pytest.mark.parametrize("kind", KINDS, ids=str)
    @pytest.mark.parametrize("seed", range(8))
    def test_everything_is_pycocotools_own_from_files(self, seed: int, kind: Any, tmp_path: Path) -> None:
        """Keypoints and boxes, one after the other, from one reading."""
        files = write_files(tmp_path, *random_poses(seed, **kind))

        def script(tool: Tool) -> Any:
            truths = tool.COCO(files[0])
            results = truths.loadRes(files[1])
            return [run(tool.COCOeval(truths, results, each)) for each in ("keypoints", "bbox", "keypoints")]

        check_same(script)

    @pytest.mark.parametrize(
        "params",
        [
            {"useCats": 0},
            {"maxDets": [2]},
            {"maxDets": [3, 1]},
            {"imgIds": [1, 4]},
            {"imgIds": [5, 2, 5]},
            {"catIds": [1]},
            {"areaRng": [[0, 1e10], [500, 3000.0]], "areaRngLbl": ["all", "medium"]},
            {"iouThrs": np.array([0.3, 0.9])},
            {"recThrs": np.array([0.0, 0.5])},
            {"kpt_oks_sigmas": np.array(sigmas_of(17))},
        ],
        ids=str,
    )
    def test_parameters_change_the_same(self, params: dict[str, Any], tmp_path: Path) -> None:
        """From dicts and from files."""
        dataset, results = random_poses(3, num_images=10)
        files = write_files(tmp_path, dataset, results)
        usual = evaluated(OURS, dataset, results, iou_type="keypoints", summarize=False)

        def script(tool: Tool) -> Any:
            evaluation = from_files(tool, files, "keypoints")
            for name, value in params.items():
                setattr(evaluation.params, name, copy.copy(value))
            return run(evaluation, summarize=False)

        check_same(script)
        other = check_same(
            lambda tool: evaluated(tool, dataset, results, iou_type="keypoints", summarize=False, **params)
        )
        assert not np.array_equal(other.eval["precision"], usual.eval["precision"])

    @pytest.mark.parametrize("num_points", [1, 5, 8, 9, 14, 133, 200])
    def test_any_number_of_points_with_its_sigmas(self, num_points: int, tmp_path: Path) -> None:
        """`kpt_oks_sigmas` of another length; NumPy adds 8, 9 and 200 numbers in different orders."""
        dataset, results = random_poses(4, num_points=num_points, num_images=6)
        files = write_files(tmp_path, dataset, results)
        sigmas = np.array(sigmas_of(num_points))

        def script(tool: Tool) -> Any:
            evaluations = [
                from_dicts(tool, dataset, results, iou_type="keypoints"),
                from_files(tool, files, "keypoints"),
            ]
            for evaluation in evaluations:
                evaluation.params.kpt_oks_sigmas = sigmas
            return [run(evaluation) for evaluation in evaluations]

        check_same(script)

    def test_num_keypoints_decides_what_is_ignored(self, tmp_path: Path) -> None:
        """As in COCO: 0 although points are labelled, more than 0 although none is, as floats, as other numbers."""
        dataset, results = random_poses(5, num_images=12)
        for row, number in zip(dataset["annotations"], (0, 3, 0.0, 17.0, 0, 1) * 20, strict=False):
            row["num_keypoints"] = number
        files = write_files(tmp_path, dataset, results)
        check_same(lambda tool: run(from_files(tool, files, "keypoints")))
        other = check_same(lambda tool: evaluated(tool, dataset, results, iou_type="keypoints"))
        usual = evaluated(OURS, *random_poses(5, num_images=12), iou_type="keypoints")
        assert not np.array_equal(other.stats, usual.stats)

    def test_without_num_keypoints_it_is_the_same_error(self, tmp_path: Path) -> None:
        """A KeyError in both."""
        dataset, results = random_poses(5)
        del dataset["annotations"][3]["num_keypoints"]
        files = write_files(tmp_path, dataset, results)
        for script in (
            lambda tool: run(from_files(tool, files, "keypoints")),
            lambda tool: evaluated(tool, dataset, results, iou_type="keypoints"),
        ):
            assert outcome(script, THEIRS)[0] is outcome(script, OURS)[0] is KeyError

    def test_steps_by_themselves(self) -> None:
        """As evaluators call them that match image by image: `_prepare`, `computeOks`, `evaluateImg`."""
        dataset, results = random_poses(7)

        def script(tool: Tool) -> Any:
            evaluation = from_dicts(tool, dataset, results, iou_type="keypoints")
            evaluation._prepare()
            p = evaluation.params
            evaluation.ious = {(i, c): evaluation.computeOks(i, c) for i in p.imgIds for c in p.catIds}
            return evaluation.ious, match_by_steps(evaluation), match_by_steps(evaluation, 2)

        found = check_same(script)
        assert sum(len(each) > 0 for each in found[0].values()) > 5

    def test_compute_iou_of_keypoints_is_the_same_error(self) -> None:
        """`computeIoU` is for boxes and masks."""
        dataset, results = random_poses(7)

        def script(tool: Tool) -> Any:
            evaluation = from_dicts(tool, dataset, results, iou_type="keypoints")
            evaluation._prepare()
            return evaluation.computeIoU(1, 0)

        assert outcome(script, OURS)[0] is outcome(script, THEIRS)[0] is Exception

    def test_a_subclass_with_an_oks_of_its_own(self) -> None:
        """Is asked for every image."""
        dataset, results = random_poses(8)

        def script(tool: Tool) -> Any:
            class Own(tool.COCOeval):  # type: ignore[misc, name-defined]
                def computeOks(self, imgId: Any, catId: Any) -> Any:
                    found = super().computeOks(imgId, catId)
                    return np.asarray(found) ** 2 if len(found) else found

            truths = dataset_of(tool, dataset)
            return run(Own(truths, truths.loadRes(copy.deepcopy(results)), "keypoints"))

        squared = check_same(script)
        usual = evaluated(OURS, dataset, results, iou_type="keypoints")
        assert squared.stats[0] < usual.stats[0]

    @pytest.mark.parametrize("has_boxes", [False, True])
    def test_dicts_of_results_are_pycocotools_own(self, has_boxes: bool, tmp_path: Path) -> None:
        """`anns` with areas, boxes, outlines and ids, from dicts and from a file, before and after an evaluation."""
        dataset, results = random_poses(9, has_boxes=has_boxes)
        files = write_files(tmp_path, dataset, results)

        def script(tool: Tool) -> Any:
            loaded = dataset_of(tool, dataset).loadRes(copy.deepcopy(results))
            read = tool.COCO(files[0]).loadRes(files[1])
            evaluation = run(from_files(tool, files, "keypoints"))
            return [[dict(ann) for ann in each.anns.values()] for each in (loaded, read, evaluation.cocoDt)]

        found = check_same(script)
        assert len(found[1]) == len(results)
        assert any(ann["area"] > 0 for ann in found[1])

    def test_the_first_result_decides_whether_all_have_boxes(self, tmp_path: Path) -> None:
        """As in COCO: if it has none, those of others are replaced; if it has one, all must have one."""
        dataset, results = random_poses(10, has_boxes=True)
        for row in results[::2]:
            del row["bbox"]
        files = write_files(tmp_path, dataset, results)
        check_same(lambda tool: run(from_files(tool, files, "keypoints")))
        check_same(lambda tool: evaluated(tool, dataset, results, iou_type="keypoints"))
        files = write_files(tmp_path, dataset, results[1:])
        assert check_same(lambda tool: run(from_files(tool, files, "keypoints"))) is KeyError
        assert check_same(lambda tool: evaluated(tool, dataset, results[1:], iou_type="keypoints")) is KeyError

    def test_files_that_are_gone_are_still_there(self, tmp_path: Path) -> None:
        """Keypoints of a dataset are read when they are first wanted; by then its file may be deleted."""
        files = write_files(tmp_path, *random_poses(11))
        evaluations = {tool: from_files(tool, files, "keypoints") for tool in (THEIRS, OURS)}
        for file in files:
            Path(file).unlink()
        check_same(lambda tool: run(evaluations[tool]))

    def test_no_results_of_an_image_and_no_truths(self) -> None:
        """A dataset without annotations, and one whose images have no results."""
        dataset, results = random_poses(12)
        check_same(lambda tool: evaluated(tool, dataset | {"annotations": []}, results, iou_type="keypoints"))
        lonely = [{**results[0], "image_id": 7}]
        check_same(lambda tool: evaluated(tool, dataset, lonely, iou_type="keypoints"))

    @pytest.mark.parametrize(
        ("broken", "rule"),
        [
            ([1, 2, 2] * 16, "`keypoints` must have three numbers per point, 51; got 48"),
            ([1, 2, 2] * 16 + [1], "`keypoints` must have three numbers per point, 51; got 49"),
        ],
        ids=["fewer", "cut off"],
    )
    def test_what_is_no_pose_is_an_error(self, broken: Any, rule: str) -> None:
        """That names the annotation, where pycocotools has a `ValueError`: where it is compared with another."""
        dataset, results = random_poses(4)
        for rows in (dataset["annotations"], results):
            num_refused = 0
            for number, row in enumerate(rows, start=1):
                good, row["keypoints"] = row["keypoints"], broken
                script = partial(evaluated, dataset=dataset, results=results, iou_type="keypoints")
                expected = outcome(script, THEIRS)[0]
                if not isinstance(expected, type):
                    check_same(script)
                else:
                    num_refused += 1
                    assert expected in (ValueError, IndexError)
                    where = f"annotation {number} of image {row['image_id']}: "
                    with pytest.raises(InputError, match=re.escape(f"{where}{rule}")):
                        script(OURS)
                row["keypoints"] = good
            assert 0 < num_refused < len(rows)


PYCOCOTOOLS = """
import sys
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

truths = COCO(sys.argv[1])
evaluation = COCOeval(truths, truths.loadRes(sys.argv[2]), "keypoints")
evaluation.evaluate()
evaluation.accumulate()
evaluation.summarize()
oks = [np.ravel(each) for each in evaluation.ious.values()]
np.savez(sys.argv[3], oks=np.concatenate(oks), size=[len(each) for each in oks], stats=evaluation.stats)
"""


def run_without_wide_vectors(*arguments: str) -> None:
    """Start pycocotools in a process in which NumPy uses no AVX-512, so that its exp is the C library's."""
    for features in ("X86_V4 AVX512_ICL AVX512_SPR", "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"):
        process = subprocess.run(
            [sys.executable, "-W", "error", "-c", PYCOCOTOOLS, *arguments],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": features},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode == 0:
            return
    # Where the processor has none of them, NumPy says so, and there is nothing to disable.
    env = {key: value for key, value in os.environ.items() if key != "NPY_DISABLE_CPU_FEATURES"}
    subprocess.run([sys.executable, "-c", PYCOCOTOOLS, *arguments], env=env, capture_output=True, check=True)


@pytest.mark.not_sanitized
class TestRealData:
    """1,000 images of COCO val2017 with the poses of Lite-HRNet."""

    @pytest.fixture
    def files(self) -> tuple[str, str]:
        """Truths and results."""
        names = "person_keypoints_1000.json", "litehrnet_18_256.json"
        return str(shared_data(f"keypoints/{names[0]}")), str(shared_data(f"keypoints/{names[1]}"))

    def test_every_oks_is_that_of_pycocotools(self, files: tuple[str, str], tmp_path: Path) -> None:
        """In a process without fixtures, whose NumPy has no AVX-512."""
        out = tmp_path / "oks.npz"
        run_without_wide_vectors(*files, str(out))
        evaluation, _ = outcome(lambda tool: run(from_files(tool, files, "keypoints")), OURS)
        oks = [np.ravel(each) for each in evaluation.ious.values()]
        with np.load(out) as expected:
            assert [len(each) for each in oks] == expected["size"].tolist()
            assert np.array_equal(np.concatenate(oks), expected["oks"])
            assert np.array_equal(evaluation.stats, expected["stats"])
        assert evaluation.stats[0] == 0.8273053803676101
        assert sum(map(len, oks)) >= 1000

    def test_the_command_and_the_columns_give_the_same(self, files: tuple[str, str], tmp_path: Path) -> None:
        """From the fast path, from columns, and by the textbook loop."""
        out = tmp_path / "numbers.json"
        assert main(["eval", *files, "--iou-type", "keypoints", "--quiet", "--json", str(out)]) == 0
        numbers = json.loads(out.read_text())
        assert numbers["map"] == 0.8273053803676101
        truths = read_truths(files[0], iou_type="keypoints")
        result = boxscore.evaluate(read_detections(files[1], truths, iou_type="keypoints"), truths)
        assert [numbers[name] for name in result] == [None if np.isnan(each) else each for each in result.values()]


@pytest.mark.native
class TestReading:
    """COCO's files as columns."""

    @pytest.mark.parametrize("kind", [{"has_boxes": False}, {"has_boxes": True}], ids=str)
    def test_columns_are_what_the_files_have(self, kind: Any, tmp_path: Path) -> None:
        """Points, labels, scores, areas, boxes and crowds, in the order of the rows."""
        dataset, results = random_poses(1, **kind)
        files = write_files(tmp_path, dataset, results)
        truths = read_truths(files[0], iou_type="keypoints")
        detections = read_detections(files[1], truths, iou_type="keypoints")
        found, there = columns_of(dataset, results)
        for name in ("point", "visibility", "area", "box"):
            assert np.array_equal(getattr(truths.keypoints, name), getattr(there.keypoints, name)), name
        assert truths.keypoints.num_labelled is not None
        assert truths.keypoints.num_labelled.tolist() == [row["num_keypoints"] for row in dataset["annotations"]]
        for name in ("point", "score"):
            assert np.array_equal(getattr(detections.keypoints, name), getattr(found.keypoints, name)), name
        for name in ("image_ids", "labels", "scores"):
            assert np.array_equal(getattr(detections, name), getattr(found, name)), name
        assert np.array_equal(to_numpy(truths.ignore), to_numpy(there.ignore))
        own = found.keypoints.areas(Protocol.named("coco_keypoints")) if found.area is None else found.area
        assert np.array_equal(to_numpy(detections.area), own)
        assert_same_tally(boxscore.match(detections, truths), boxscore.match(found, there))

    def test_areas_boxes_and_counts_may_be_missing(self, tmp_path: Path) -> None:
        """An area is then that of columns: 0.53 of the box."""
        dataset, results = random_poses(2)
        for row in dataset["annotations"]:
            row["area"] = row["bbox"][2] * row["bbox"][3] * 0.53
        expected = boxscore.evaluate(*columns_of(dataset, results))
        for row in dataset["annotations"]:
            del row["area"], row["num_keypoints"]
        files = write_files(tmp_path, dataset, results)
        truths = read_truths(files[0], iou_type="keypoints")
        assert_same(boxscore.evaluate(read_detections(files[1], truths, iou_type="keypoints"), truths), expected)
        for row in dataset["annotations"]:
            del row["bbox"]
        bare = read_truths(write_files(tmp_path, dataset, results)[0], iou_type="keypoints")
        assert bare.keypoints.box is None
        assert np.array_equal(bare.keypoints.point, truths.keypoints.point)

    def test_files_without_rows(self, tmp_path: Path) -> None:
        """Neither annotations nor results."""
        dataset, results = random_poses(2)
        files = write_files(tmp_path, dataset | {"annotations": []}, results)
        truths = read_truths(files[0], iou_type="keypoints")
        assert len(truths) == 0
        assert np.isnan(boxscore.evaluate(read_detections(files[1], truths, iou_type="keypoints"), truths)["map"])
        files = write_files(tmp_path, dataset, [])
        truths = read_truths(files[0], iou_type="keypoints")
        detections = read_detections(files[1], truths, iou_type="keypoints")
        assert boxscore.evaluate(detections, truths)["map"] == 0

    def test_boxes_are_read_beside_keypoints(self, tmp_path: Path) -> None:
        """From one reading; results without a box have the one around their points."""
        dataset, results = random_poses(2)
        files = write_files(tmp_path, dataset, results)
        types: Any = ("bbox", "keypoints")
        truths = read_truths(files[0], iou_type=types)
        detections = read_detections(files[1], truths, iou_type=types)
        corners = np.array([row["keypoints"] for row in results]).reshape(len(results), -1, 3)[:, :, :2]
        assert np.array_equal(detections.boxes[:, :2], corners.min(axis=1))
        assert np.array_equal(detections.boxes[:, 2:], corners.max(axis=1) - corners.min(axis=1))
        alone = read_truths(files[0], iou_type="keypoints")
        expected = boxscore.evaluate(read_detections(files[1], alone, iou_type="keypoints"), alone)
        assert_same(boxscore.evaluate(detections, truths, Protocol.named("coco_keypoints")), expected)

    @pytest.mark.parametrize("side", ["annotations", "results"])
    def test_chunks_and_threads_give_the_same_columns(self, side: str) -> None:
        """However the bytes are cut."""
        dataset, results = random_poses(3, num_images=20)
        content = json.dumps(dataset if side == "annotations" else results).encode()

        def read(threads: int, size: int) -> Any:
            return _compiled.read_coco_bytes(
                content, threads, chunk_size=size, shapes=_compiled.CocoShapes.keypoints
            ).boxes

        expected = read(1, 1 << 18)
        names = ("point", "third", "num_labelled")
        assert expected.keypoints.point.shape == (len(expected.image), 34)
        for threads in (1, 2, 3):
            for size in (700, 1000, 1777, 4096, 50_000):
                boxes = read(threads, size)
                for name in ("image", "category", "box", "area", "is_crowd", "id", "score"):
                    one, other = getattr(boxes, name), getattr(expected, name)
                    assert one is other is None or np.array_equal(one, other, equal_nan=True), (name, threads, size)
                for name in names:
                    one, other = getattr(boxes.keypoints, name), getattr(expected.keypoints, name)
                    assert one is other is None or np.array_equal(one, other), (name, threads, size)

    @pytest.mark.parametrize(("threads", "size"), [(1, 1 << 18), (3, 700), (2, 2000)])
    def test_the_row_with_another_number_of_points_is_told(self, threads: int, size: int) -> None:
        """Even where it is the first of a chunk."""
        dataset, _ = random_poses(3, num_images=20)
        for row in (1, 7, len(dataset["annotations"]) - 1):
            other = copy.deepcopy(dataset)
            other["annotations"][row]["keypoints"] = [1, 2, 2] * 5
            where = rf"annotation {row} \(id {row + 1}\)"
            rule = "`keypoints` must have 17 points, as in the rows before it; got 5"
            with pytest.raises(_compiled.CocoError, match=f"^{where}: {rule}$"):
                _compiled.read_coco_bytes(
                    json.dumps(other).encode(), threads, chunk_size=size, shapes=_compiled.CocoShapes.keypoints
                )


POSE = [1, 2, 2, *range(48), 9, 8, 1]
TRUTH = {
    "id": 42, "image_id": 1, "category_id": 1, "bbox": [1, 1, 20, 20], "area": 400, "iscrowd": 0, "num_keypoints": 18,
    "keypoints": POSE,
}  # fmt: skip
FOUND = {"image_id": 1, "category_id": 1, "score": 0.5, "keypoints": POSE}
LIST = "`keypoints` must be a list of numbers x, y, v, x, y, v, …, three per point; got "


def write_rows(folder: Path, truth: Any, found: Any) -> tuple[str, str]:
    """Two annotations and two results; the second of each is the given one."""
    dataset = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [TRUTH, {**truth, "id": 43}],
    }
    return write_files(folder, dataset, [FOUND, found])


MALFORMED = [
    ({"keypoints": POSE[:-1]}, LIST + "[1, 2, 2, 0, 1,"),
    ({"keypoints": ["a", *POSE[1:]]}, LIST + '["a", 2, 2,'),
    ({"keypoints": [True, *POSE[1:]]}, LIST + "[true, 2, 2,"),
    ({"keypoints": [[1, 2, 2]] * 18}, LIST + "[[1, 2, 2],"),
    ({"keypoints": "abc"}, LIST + '"abc"'),
    ({"keypoints": None}, LIST + "null"),
    ({"keypoints": []}, LIST + "[]"),
    ({"keypoints": [float("nan"), *POSE[1:]]}, LIST + "[NaN, 2, 2,"),
    ({"keypoints": [float("inf"), *POSE[1:]]}, LIST + "[Infinity, 2, 2,"),
    ({"keypoints": POSE[:-3]}, "`keypoints` must have 18 points, as in the rows before it; got 17"),
    ({"num_keypoints": "x"}, '`num_keypoints` must be a number; got "x"'),
    ({"num_keypoints": float("nan")}, "`num_keypoints` must be finite; got NaN"),
]


class TestMalformedFiles:
    """The file, the annotation, its id, the rule and what came."""

    @pytest.mark.native
    @pytest.mark.parametrize(("changes", "rule"), MALFORMED)
    def test_a_row_that_is_no_pose_is_told(self, changes: Any, rule: str, tmp_path: Path) -> None:
        """On either side."""
        files = write_rows(tmp_path, TRUTH | changes, FOUND)
        with pytest.raises(InputError, match="^" + re.escape(f"{files[0]}: annotation 1 (id 43): {rule}")):
            read_truths(files[0], iou_type="keypoints")
        files = write_rows(tmp_path, TRUTH, FOUND | changes)
        truths = read_truths(files[0], iou_type="keypoints")
        with pytest.raises(InputError, match="^" + re.escape(f"{files[1]}: result 1: {rule}")):
            read_detections(files[1], truths, iou_type="keypoints")

    @pytest.mark.parametrize(
        ("changes", "rule"),
        [
            (
                {"keypoints": [1, 2, -1, *POSE[3:]]},
                "`keypoints` must not have a negative visibility; got -1.0 for point 0",
            ),
            ({"area": 0}, "`area` must be above 0, as OKS divides by it; got 0"),
        ],
    )
    def test_a_truth_that_can_not_be_compared_is_told(
        self, changes: Any, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """By the reader, and by the command; a result may have both, as its third numbers are scores."""
        files = write_rows(tmp_path, TRUTH | changes, FOUND)
        message = f"{files[0]}: annotation 1 (id 43): {rule}"
        with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
            read_truths(files[0], iou_type="keypoints")
        assert main(["eval", *files, "--iou-type", "keypoints"]) == 1
        assert message in capsys.readouterr().err
        files = write_rows(tmp_path, TRUTH, FOUND | changes)
        truths = read_truths(files[0], iou_type="keypoints")
        assert len(read_detections(files[1], truths, iou_type="keypoints")) == 2

    def test_rows_without_keypoints_are_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """And parts of a whole body without the others."""
        bare, bare_found = ({k: v for k, v in row.items() if k != "keypoints"} for row in (TRUTH, FOUND))
        for truth, found, message in (
            (bare, FOUND, "truths.json: annotation 1 (id 43) must have `keypoints`"),
            (TRUTH, bare_found, "results.json: result 1 must have `keypoints`"),
            (
                TRUTH | {"foot_kpts": [1, 2, 2] * 6},
                FOUND,
                "truths.json: annotation 1 (id 43) must have `face_kpts`, as it has other parts of a whole body",
            ),
        ):
            files = write_rows(tmp_path, truth, found)
            assert main(["eval", *files, "--iou-type", "keypoints", "--json", str(tmp_path / "out.json")]) == 1
            captured = capsys.readouterr()
            assert captured.out == ""
            assert message in captured.err
            assert captured.err.count("\n") == 1
            assert not (tmp_path / "out.json").exists()

    def test_masks_and_keypoints_are_not_read_at_once(self, tmp_path: Path) -> None:
        """A protocol has one of them."""
        files = write_rows(tmp_path, TRUTH, FOUND)
        with pytest.raises(InputError, match="must not have masks and sets of keypoints at once; got segm, keypoints"):
            read_truths(files[0], iou_type=("segm", "keypoints"))


class TestCommand:
    """`boxscore eval GT DT --iou-type keypoints`."""

    def numbers(self, files: tuple[str, str], *options: str) -> dict[str, Any]:
        """The JSON of a run."""
        out = Path(files[0]).parent / "numbers.json"
        assert main(["eval", *files, "--quiet", "--json", str(out), *options]) == 0
        numbers: dict[str, Any] = json.loads(out.read_text())
        return numbers

    @pytest.mark.parametrize("has_boxes", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_the_numbers_are_the_stats_of_the_drop_in(self, seed: int, has_boxes: bool, tmp_path: Path) -> None:
        """By every engine, and by the name of the protocol."""
        files = write_files(tmp_path, *random_poses(seed, has_boxes=has_boxes))
        stats, _ = outcome(lambda tool: run(from_files(tool, files, "keypoints")).stats.tolist(), OURS)
        names = list(boxscore.evaluate(*columns_of(*random_poses(seed))))
        for options in (
            ["--iou-type", "keypoints"],
            ["--iou-type", "keypoints", "--engine", "sequential"],
            ["--iou-type", "keypoints", "--engine", "parallel"],
            ["--protocol", "coco_keypoints"],
            ["--protocol", "coco_keypoints", "--iou-type", "keypoints", "--threads", "1"],
        ):
            numbers = self.numbers(files, *options)
            assert [-1 if numbers[name] is None else numbers[name] for name in names] == stats

    def test_sigmas_of_another_number_of_points(self, tmp_path: Path) -> None:
        """As text; the numbers of `kpt_oks_sigmas`."""
        dataset, results = random_poses(5, num_points=9)
        files = write_files(tmp_path, dataset, results)
        sigmas = sigmas_of(9)

        def script(tool: Tool) -> Any:
            evaluation = from_files(tool, files, "keypoints")
            evaluation.params.kpt_oks_sigmas = np.array(sigmas)
            return run(evaluation).stats.tolist()

        stats, _ = outcome(script, OURS)
        numbers = self.numbers(files, "--iou-type", "keypoints", "--sigmas", ",".join(map(repr, sigmas)))
        assert [numbers["map"], numbers["mar_75"]] == [stats[0], stats[7]]
        assert 0 < stats[0] < 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                ["--iou-type", "keypoints", "--sigmas", "0.1,0.2"],
                "boxscore: `sigmas` must have one number for each of the 17 keypoints; got 2 (protocol coco_keypoints)",
            ),
            (
                ["--protocol", "crowdpose"],
                "boxscore: `sigmas` must have one number for each of the 17 keypoints; got 14 (protocol crowdpose)",
            ),
        ],
    )
    def test_sigmas_for_other_points_are_told(
        self, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """In one line."""
        dataset, results = random_poses(5)
        for image in dataset["images"]:
            image["crowdIndex"] = 0.5
        assert main(["eval", *write_files(tmp_path, dataset, results), *options]) == 1
        assert capsys.readouterr().err == f"{message}\n"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                ["--iou-type", "bbox,keypoints"],
                "--iou-type: keypoints must be evaluated alone, as it has another protocol",
            ),
            (
                ["--protocol", "coco_keypoints", "--iou-type", "bbox"],
                "--iou-type: protocol coco_keypoints needs keypoints; got bbox",
            ),
            (
                ["--iou-type", "keypoints", "--sigmas", "0.1,-1"],
                "--sigmas: must be above 0 and finite; got -1",
            ),
            (["--iou-type", "keypoints", "--sigmas", "x"], "--sigmas: must be a number; got 'x'"),
        ],
    )
    def test_options_that_can_not_be_are_told(
        self, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As usage errors."""
        files = write_files(tmp_path, *random_poses(5))
        with pytest.raises(SystemExit):
            main(["eval", *files, *options])
        assert message in capsys.readouterr().err

    def test_the_table_says_oks(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Ten lines under a title."""
        files = write_files(tmp_path, *random_poses(5))
        assert main(["eval", *files, "--iou-type", "keypoints"]) == 0
        title, _, *lines = capsys.readouterr().out.splitlines()
        assert title.startswith("coco_keypoints: 2 classes, ")
        assert [line.split()[0] for line in lines[:10]][5:8] == ["mar", "mar_50", "mar_75"]
        assert all(" OKS 0." in line for line in lines[:10])

    @pytest.mark.native
    @pytest.mark.parametrize("has_boxes", [False, True])
    @pytest.mark.parametrize("seed", range(8))
    def test_the_fast_path_gives_every_bit_of_columns(self, seed: int, has_boxes: bool, tmp_path: Path) -> None:
        """With any number of threads, and with other sigmas."""
        files = write_files(tmp_path, *random_poses(seed, has_boxes=has_boxes, num_images=20))
        truths, found = map(Path, files)
        there = read_truths(truths, iou_type="keypoints")
        columns = read_detections(found, there, iou_type="keypoints")
        coco = Protocol.named("coco_keypoints")
        for protocol in (coco, coco.replace(sigmas=sigmas_of(17)), coco.replace(thresholds=[0.75], limits=[3])):
            expected = boxscore.evaluate(columns, there, protocol).summary
            for threads in (1, 3):
                summaries = summarize_files(truths, [found, found], [protocol], threads=threads)
                assert [repr(each) for each in summaries] == [repr([expected])] * 2

    @pytest.mark.native
    def test_the_fast_path_leaves_rules_of_its_own_to_columns(self, tmp_path: Path) -> None:
        """Other numbers of points, areas of 0, negative visibilities: there the reader says what is wrong."""
        coco = Protocol.named("coco_keypoints")
        files = write_files(tmp_path, *random_poses(1))
        paths = Path(files[0]), [Path(files[1])]
        assert summarize_files(*paths, [coco], threads=1) != [None]
        assert summarize_files(*paths, [coco.replace(sigmas=sigmas_of(5))], threads=1) == [None]
        assert summarize_files(*paths, [Protocol.named("crowdpose", sigmas=sigmas_of(17))], threads=1) == [None]
        assert summarize_files(*paths, [Protocol.named("coco_wholebody", sigmas=sigmas_of(17))], threads=1) == [None]
        for changes in ({"area": 0}, {"keypoints": [1, 2, -1, *POSE[3:]]}):
            bad = write_rows(tmp_path, TRUTH | changes, FOUND)
            eighteen = coco.replace(sigmas=sigmas_of(18))
            assert summarize_files(Path(bad[0]), [Path(bad[1])], [eighteen], threads=1) == [None]
        good = write_rows(tmp_path, TRUTH, FOUND)
        assert summarize_files(Path(good[0]), [Path(good[1])], [eighteen], threads=1) != [None]

    @pytest.mark.native
    def test_counts_of_labelled_points_are_taken_if_all_truths_have_them(self, tmp_path: Path) -> None:
        """With one count missing the points decide, in the command and in columns; of whole bodies they always do."""
        whole = [1, 2, 2, *[3, 4, 1] * 132]
        for points, is_first_given, is_second_given in (
            (POSE, True, True),
            (POSE, True, False),
            (POSE, False, True),
            (whole, True, True),
        ):
            truth = {**TRUTH, "keypoints": points, "num_keypoints": 0}
            dataset = {
                "images": [{"id": 1}],
                "categories": [{"id": 1, "name": "person"}],
                "annotations": [
                    {key: value for key, value in (truth | {"id": i}).items() if is_given or key != "num_keypoints"}
                    for i, is_given in enumerate((is_first_given, is_second_given), start=1)
                ],
            }
            truths, found = map(Path, write_files(tmp_path, dataset, [FOUND | {"keypoints": points}] * 2))
            there = read_truths(truths, iou_type="keypoints")
            columns = read_detections(found, there, iou_type="keypoints")
            protocol = Protocol.named("coco_keypoints", sigmas=sigmas_of(len(points) // 3))
            expected = boxscore.evaluate(columns, there, protocol).summary
            is_counted = is_first_given and is_second_given and points is POSE
            assert [row.num_truths for row in expected.per_class] == [0 if is_counted else 2]
            (summaries,) = summarize_files(truths, [found], [protocol], threads=1)
            assert summaries is not None
            assert repr(summaries[0]) == repr(expected)

    def test_models_are_compared_by_their_poses(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """`boxscore compare`, and a report of two models."""
        dataset, results = random_poses(6, num_images=20)
        files = write_files(tmp_path, dataset, results)
        worse = tmp_path / "worse.json"
        worse.write_text(json.dumps(results[::2]))
        options = ["--iou-type", "keypoints", "--bootstrap", "20"]
        out = tmp_path / "compared.json"
        assert main(["compare", *files, str(worse), *options, "--quiet", "--json", str(out)]) == 0
        numbers = json.loads(out.read_text())
        assert numbers["protocol"] == "coco_keypoints"
        assert numbers["differences"][0]["map"]["first"] == self.numbers(files, "--iou-type", "keypoints")["map"]
        capsys.readouterr()
