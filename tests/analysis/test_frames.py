"""Data frames of a result: equal to pycocotools' records of each image and to plain loops, in three libraries."""

import re
import sys
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis.errors import TYPES
from boxscore.analysis.match_table import RowKind
from boxscore.cli import sample
from boxscore.data import Coverage
from boxscore.data.dataset import SHARED_KINDS
from boxscore.protocol.protocol import POOLED
from tests.support import mask_scenes, open_images_scenes, oriented_scenes, pose_scenes
from tests.support.documents import ROOT
from tests.support.scenes import random_scene

ROWS = get_args(RowKind)
SIDES: tuple[RowKind, RowKind] = ("detections", "truths")
KEYS: dict[RowKind, str] = {"classes": "label", "images": "image"}
"""The tables of counts, and what they count by."""
NUMBERS = {"ignored": 0, "false": 1, "true": 2}


@pytest.fixture(scope="module")
def result() -> boxscore.Result:
    """That of the sample."""
    return boxscore.evaluate(*sample.load())


@pytest.fixture(scope="module")
def by_hand() -> boxscore.Result:
    """Image 7: one truth found with IoU 0.9, one found twice, one not at all; a stray. Image 8: no truth."""
    truths = Truths(
        image_ids=[7, 7, 7],
        labels=[1, 2, 2],
        boxes=[[0, 0, 10, 10], [20, 20, 30, 30], [60, 60, 70, 70]],
        class_names={1: "cat", 2: "dog"},
        image_names={7: "a.jpg", 8: "b.jpg", 9: "c.jpg"},
    )
    detections = Detections(
        image_ids=[7, 7, 7, 8],
        labels=[2, 1, 2, 1],
        scores=[0.5, 0.75, 0.25, 1.0],
        boxes=[[20, 20, 30, 30], [0, 0, 10, 9], [20, 20, 30, 28], [0, 0, 4, 5]],
    )
    return boxscore.evaluate(detections, truths)


def test_a_detection_has_its_verdict_its_truth_and_its_error(by_hand: boxscore.Result) -> None:
    """All columns, derived by hand: the second detection of truth 1 is a duplicate, that in image 8 on background."""
    frame = by_hand.to_pandas("detections", errors=True)
    expected = {
        "detection": [0, 1, 2, 3],
        "image": [7, 7, 7, 8],
        "image_name": ["a.jpg", "a.jpg", "a.jpg", "b.jpg"],
        "label": [2, 1, 2, 1],
        "class_name": ["dog", "cat", "dog", "cat"],
        "score": [0.5, 0.75, 0.25, 1.0],
        "x1": [20.0, 0.0, 20.0, 0.0],
        "y1": [20.0, 0.0, 20.0, 0.0],
        "x2": [30.0, 10.0, 30.0, 4.0],
        "y2": [30.0, 9.0, 28.0, 5.0],
        "area": [100.0, 90.0, 80.0, 20.0],
        "verdict": ["true", "true", "false", "false"],
        "truth": [1, 0, None, None],
        "similarity": [1.0, 0.9, None, None],
        "error": [None, None, "duplicate", "background"],
        "error_truth": [None, None, 1, None],
    }
    assert {name: plain(frame[name]) for name in frame} == expected


def test_a_truth_has_the_detection_that_found_it(by_hand: boxscore.Result) -> None:
    """All columns, derived by hand."""
    frame = by_hand.to_pandas("truths", errors=True)
    expected = {
        "truth": [0, 1, 2],
        "image": [7, 7, 7],
        "image_name": ["a.jpg"] * 3,
        "label": [1, 2, 2],
        "class_name": ["cat", "dog", "dog"],
        "x1": [0.0, 20.0, 60.0],
        "y1": [0.0, 20.0, 60.0],
        "x2": [10.0, 30.0, 70.0],
        "y2": [10.0, 30.0, 70.0],
        "area": [100.0] * 3,
        "kind": ["regular"] * 3,
        "is_counted": [True] * 3,
        "is_found": [True, True, False],
        "detection": [1, 0, None],
        "score": [0.75, 0.5, None],
        "similarity": [0.9, 1.0, None],
        "error": [None, None, "missed"],
    }
    assert {name: plain(frame[name]) for name in frame} == expected


def test_an_image_without_boxes_has_a_row(by_hand: boxscore.Result) -> None:
    """All columns of the table of images, derived by hand."""
    frame = by_hand.to_pandas("images", score=0.5)
    expected = {
        "image": [7, 8, 9],
        "image_name": ["a.jpg", "b.jpg", "c.jpg"],
        "num_truths": [3, 0, 0],
        "num_detections": [2, 1, 0],
        "num_true": [2, 0, 0],
        "num_false": [0, 1, 0],
        "num_ignored": [0, 0, 0],
        "num_unfound": [1, 0, 0],
    }
    assert {name: plain(frame[name]) for name in frame} == expected


def plain(column: Any) -> list[Any]:
    """A column of pandas as a list, with None for missing values."""
    return [None if pd.isna(value) else value for value in column.tolist()]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.5, 0.75])
def test_verdicts_truths_and_ious_are_those_of_pycocotools(seed: int, threshold: float) -> None:
    """Its records `evalImgs` and `ious` of each image and class, within a limit that leaves detections out."""
    scene = random_scene(seed)
    evaluation = scene.pycocotools(maxDets=[1, 4], iouThrs=np.array([threshold]))
    result = boxscore.evaluate(scene.detections, scene.truths, Protocol.named("coco", limits=(1, 4)))
    found = result.to_pandas("detections", iou=threshold)
    truths = result.to_pandas("truths", iou=threshold)
    expected = {name: [*map(default, range(len(found)))] for name, default in DEFAULTS.items()}
    finder: list[Any] = [None] * len(truths)
    for entry in evaluation.evalImgs:
        if entry is None or entry["aRng"] != [0**2, 1e5**2]:
            continue
        iou_DG = evaluation.ious[entry["image_id"], entry["category_id"]]
        order = [annotation["id"] for annotation in evaluation._gts[entry["image_id"], entry["category_id"]]]
        for rank, (annotation, match, is_ignored) in enumerate(
            zip(entry["dtIds"], entry["dtMatches"][0], entry["dtIgnore"][0], strict=True)
        ):
            row = annotation - 1
            expected["verdict"][row] = "ignored" if is_ignored else "true" if match else "false"
            if match:
                expected["truth"][row] = int(match) - 1
                expected["similarity"][row] = iou_DG[rank, order.index(int(match))]
        for annotation, match, is_ignored in zip(entry["gtIds"], entry["gtMatches"][0], entry["gtIgnore"], strict=True):
            assert truths["is_counted"][annotation - 1] == (not is_ignored)
            if match and not is_ignored:
                finder[annotation - 1] = int(match) - 1
    assert {name: plain(found[name]) for name in DEFAULTS} == expected
    assert plain(truths["detection"]) == finder
    assert set(expected["verdict"]) >= {"true", "false", "beyond the limit"}


DEFAULTS: dict[str, Any] = {
    "verdict": lambda _: "beyond the limit",
    "truth": lambda _: None,
    "similarity": lambda _: None,
}
"""What a detection has that pycocotools has no record of."""


def geometries() -> dict[str, tuple[Detections, Truths, Protocol]]:
    """A scene of each geometry, of each similarity that it has, and of rules for groups."""
    scene, open_images = random_scene(5), open_images_scenes.random_open_images(3)
    masks = mask_scenes.columns_of(*mask_scenes.random_masks(1))
    poses = pose_scenes.columns_of(*pose_scenes.random_poses(2))
    oriented = oriented_scenes.random_oriented(3)
    return {
        "boxes": (scene.detections, scene.truths, Protocol.named("coco")),
        "inclusive pixels": (scene.detections, scene.truths, Protocol.named("voc2007")),
        "one class": (scene.detections, scene.truths, Protocol.named("coco", class_agnostic=True)),
        "masks": (*masks, Protocol.named("coco", iou_type="segm")),
        "boundaries": (*masks, Protocol.named("coco", iou_type="boundary")),
        "keypoints": (*poses, Protocol.named("coco_keypoints")),
        "oriented boxes": (*oriented, Protocol.named("coco", iou_type="obb")),
        "ProbIoU": (*oriented, Protocol.named("coco", iou_type="probiou")),
        "groups": (open_images.detections, open_images.truths, Protocol.named("openimages")),
    }


@pytest.mark.parametrize("name", geometries())
@pytest.mark.parametrize("iou", [None, 0.3, 0.0])
def test_every_geometry_has_the_verdicts_and_similarities_of_the_plain_loops(name: str, iou: float | None) -> None:
    """At a threshold that was measured, and at ones that were not."""
    detections, truths, protocol = geometries()[name]
    result = boxscore.evaluate(detections, truths, protocol)
    assert result.inputs is not None
    detections, truths = result.inputs
    frame, rules = result.to_pandas("detections", iou=iou), protocol.at(iou)
    tally = boxscore.match(detections, truths, rules, engine="sequential").limited()
    is_judged = frame["verdict"].isin(list(NUMBERS))
    judged = frame[is_judged]
    label = [POOLED] * len(judged) if protocol.class_agnostic else judged["label"]
    verdict = judged["verdict"].map(NUMBERS).astype(int)
    assert sorted(zip(judged["image"], label, judged["score"], verdict, strict=True)) == sorted(
        zip(tally.image, tally.label, tally.score, tally.verdict[:, 0, 0], strict=True)
    )
    shapes, truth_shapes = detections.geometry.shapes(rules), truths.geometry.shapes(rules)
    kind = truths.kinds(rules)
    kinds = [0] * len(truths) if kind is None else np.asarray(kind).tolist()
    assert frame["truth"].notna().sum() > 2
    for row, truth, similarity in zip(frame["detection"], frame["truth"], frame["similarity"], strict=True):
        assert pd.isna(truth) == np.isnan(similarity)
        if not pd.isna(truth):
            is_crowd = kinds[truth] in SHARED_KINDS
            compare = detections.geometry.similarity
            assert similarity == compare(shapes[row], truth_shapes[truth], is_crowd=is_crowd, protocol=rules)


@pytest.mark.parametrize("name", geometries())
def test_boxes_and_areas_are_those_of_the_shapes(name: str) -> None:
    """The upright box around each, and the area that decides its range."""
    result = boxscore.evaluate(*geometries()[name])
    assert result.inputs is not None
    for rows, columns in zip(SIDES, result.inputs, strict=True):
        frame = result.to_pandas(rows)
        assert np.array_equal(frame[["x1", "y1", "x2", "y2"]], columns.geometry.outer_boxes())
        area = columns.geometry.areas(result.protocol) if columns.area is None else columns.area
        assert np.array_equal(frame["area"], area)


@pytest.mark.parametrize("name", geometries())
def test_errors_are_those_of_the_analysis(name: str) -> None:
    """Of detections and of truths, in the order of the inputs."""
    result = boxscore.evaluate(*geometries()[name])
    errors = result.errors()
    found, truths = (result.to_pandas(rows, errors=True) for rows in SIDES)
    assert found["error"].cat.categories.tolist() == list(TYPES)
    assert np.array_equal(found["error"].cat.codes, errors.detection_type)
    assert np.array_equal(found["error_truth"].fillna(-1), errors.detection_truth)
    assert np.array_equal(truths["error"].cat.codes, errors.truth_type)


@pytest.mark.parametrize("iou", [0.5, 0.62])
@pytest.mark.parametrize("score", [None, 0.4])
def test_tables_of_classes_and_images_count_what_the_others_list(iou: float, score: float | None) -> None:
    """From one score on; at a threshold that was measured, and at one that was not."""
    scene = random_scene(8)
    result = boxscore.evaluate(scene.detections, scene.truths)
    found, truths = (result.to_pandas(rows, iou=iou, score=score) for rows in SIDES)
    for rows, key in KEYS.items():
        table = result.to_pandas(rows, iou=iou, score=score)
        for name, listed in {
            "num_true": found[found["verdict"] == "true"],
            "num_false": found[found["verdict"] == "false"],
            "num_ignored": found[found["verdict"] == "ignored"],
            "num_truths": truths[truths["is_counted"]],
            "num_unfound": truths[truths["is_counted"] & ~truths["is_found"]],
        }.items():
            counts = listed[key].value_counts().to_dict()
            assert table[name].tolist() == [counts.get(each, 0) for each in table[key]]


def test_images_have_the_counts_of_the_worst_ones(result: boxscore.Result) -> None:
    """At the same score."""
    worst = result.worst_images(num=None)
    frame = result.to_pandas("images", score=worst.score).set_index("image_name")
    for name in ("num_true", "num_false", "num_unfound"):
        assert frame.loc[list(worst.name), name].tolist() == getattr(worst, name).tolist()


def test_classes_have_the_numbers_of_the_result() -> None:
    """And those beside AP and recall, and AP at each threshold."""
    scene = random_scene(2)
    protocol = Protocol.named("coco", extra_numbers=("olrp",))
    result = boxscore.evaluate(scene.detections, scene.truths, protocol)
    frame, per_class = result.to_pandas(), result.per_class
    for name in ("ap", "ap_50", "ar", "num_truths", "num_detections"):
        assert np.array_equal(frame[name], getattr(per_class, name), equal_nan=True)
    assert list(per_class.extra)
    for name, values in per_class.extra.items():
        assert np.array_equal(frame[name], values, equal_nan=True)
    names = [f"ap_at_{threshold:.4g}" for threshold in per_class.thresholds]
    assert np.array_equal(frame[names], per_class.ap_at, equal_nan=True)
    assert np.array_equal(frame["num_true"], per_class.num_true[:, 0])
    assert frame["class_name"].tolist() == list(per_class.name)


def test_a_score_leaves_detections_out_and_what_they_found(result: boxscore.Result) -> None:
    """Rows keep their numbers."""
    every, kept = result.to_pandas("detections"), result.to_pandas("detections", score=0.5)
    pd.testing.assert_frame_equal(kept, every[every["score"] >= 0.5].reset_index(drop=True))
    truths, fewer = result.to_pandas("truths"), result.to_pandas("truths", score=0.5)
    assert fewer["is_found"].tolist() == (truths["is_found"] & (truths["score"] >= 0.5)).tolist()
    assert 0 < fewer["is_found"].sum() < truths["is_found"].sum()


def test_a_detection_of_a_class_that_nobody_looked_for_is_left_out() -> None:
    """Under a federated protocol; one of a verified class is not."""
    found = Detections(image_ids=[0, 0], labels=[1, 2], scores=[0.9, 0.8], boxes=[[0, 0, 9, 9]] * 2)
    coverage = Coverage(image_ids=[0], labels=[1])
    truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 9, 9]], coverage=coverage, class_names={1: "a", 2: "b"})
    protocol = Protocol.named("coco", federated=True)
    assert boxscore.evaluate(found, truths, protocol).to_pandas("detections")["verdict"].tolist() == [
        "true",
        "left out",
    ]


def test_kinds_of_truths_are_in_words() -> None:
    """A crowd is one that is not counted, and any number of detections may take it."""
    truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[0, 0, 9, 9], [20, 20, 60, 60]], ignore=[False, True])
    found = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.8], boxes=[[20, 20, 30, 30], [30, 30, 40, 40]])
    result = boxscore.evaluate(found, truths)
    frame = result.to_pandas("truths")
    assert frame["kind"].tolist() == ["regular", "crowd"]
    assert frame["is_counted"].tolist() == [True, False]
    assert plain(frame["detection"]) == [None, None]
    assert result.to_pandas("detections")["truth"].tolist() == [1, 1]


def test_classes_of_one_name_share_a_category() -> None:
    """And an id without a name has its number as text."""
    truths = Truths(
        image_ids=[3, 4],
        labels=[1, 2],
        boxes=[[0, 0, 9, 9]] * 2,
        class_names={1: "a", 2: "a"},
        image_names={4: "x.jpg"},
    )
    frame = boxscore.evaluate(Detections(image_ids=[], labels=[], scores=[], boxes=[]), truths).to_pandas("truths")
    assert frame["class_name"].cat.categories.tolist() == ["a"]
    assert frame["image_name"].tolist() == ["3", "x.jpg"]


@pytest.mark.parametrize("rows", ROWS)
def test_pandas_polars_and_arrow_have_one_table(rows: str, result: boxscore.Result) -> None:
    """Names, values and missing values."""
    options: dict[str, Any] = {"errors": rows in ("detections", "truths")}
    pandas, polars, arrow = (getattr(result, f"to_{name}")(rows, **options) for name in ("pandas", "polars", "arrow"))
    assert (type(pandas), type(polars), type(arrow)) == (pd.DataFrame, pl.DataFrame, pa.Table)
    assert list(pandas) == polars.columns == arrow.column_names
    for name in pandas:
        assert plain(pandas[name]) == polars[name].to_list() == arrow[name].to_pylist(), name


@pytest.mark.parametrize("rows", ROWS)
def test_the_guide_lists_every_column(rows: RowKind, result: boxscore.Result) -> None:
    """In the row of its table of columns, in the same order."""
    guide = (ROOT / "docs" / "guides" / "analysis.md").read_text()
    line = next(line for line in guide.splitlines() if line.startswith(f'| `"{rows}"` |'))
    frame = result.to_pandas(rows, errors=rows in SIDES)
    names = [name for name in frame if name == "ap_at_0.5" or not name.startswith("ap_at_")]
    assert [name for name in re.findall(r"`(\w[\w.]*)`", line) if name in frame] == names


def test_names_are_categoricals(result: boxscore.Result) -> None:
    """So that a million rows don't hold a million strings."""
    names = ("image_name", "class_name", "verdict")
    assert {result.to_pandas("detections")[name].dtype.name for name in names} == {"category"}
    assert all(result.to_polars("detections")[name].dtype == pl.Categorical for name in names)
    assert all(pa.types.is_dictionary(result.to_arrow("detections")[name].type) for name in names)


def test_a_frame_does_not_write_into_the_inputs(by_hand: boxscore.Result) -> None:
    """It is the reader's to change."""
    frame = by_hand.to_pandas("detections")
    frame.loc[0, "score"] = -1.0
    assert by_hand.inputs is not None
    assert by_hand.inputs.detections.scores.tolist()[0] == 0.5


@pytest.mark.parametrize("rows", ROWS)
def test_nothing_has_a_table_of_no_rows(rows: str) -> None:
    """With the same columns and kinds of values."""
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    empty, full = boxscore.evaluate(*nothing), boxscore.evaluate(*sample.load())
    for name in ("pandas", "polars", "arrow"):
        frame, other = (getattr(each, f"to_{name}")(rows) for each in (empty, full))
        assert len(frame) == 0
        assert names_of(frame) == names_of(other)


def names_of(frame: Any) -> list[str]:
    """The names of its columns."""
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def test_tensors_become_columns_of_numpy(result: boxscore.Result) -> None:
    """The same table as from arrays."""
    torch = pytest.importorskip("torch")
    assert result.inputs is not None
    found, truths = result.inputs
    on_torch = Detections(
        image_ids=torch.from_numpy(np.asarray(found.image_ids)),
        labels=torch.from_numpy(np.asarray(found.labels)),
        scores=torch.from_numpy(np.asarray(found.scores)),
        boxes=torch.from_numpy(np.asarray(found.boxes)),
        box_format=found.box_format,
    )
    frame = boxscore.evaluate(on_torch, truths).to_pandas("detections")
    pd.testing.assert_frame_equal(frame, result.to_pandas("detections"))


def test_a_metric_has_classes_and_images_and_says_what_the_others_need() -> None:
    """It discards detections and truths once they are matched."""
    found, truths = sample.load()
    metric = boxscore.MeanAveragePrecision()
    metric.update(found, truths)
    result = metric.compute()
    expected = boxscore.evaluate(found, truths)
    for rows in ("classes", "images"):
        names = [name for name in expected.to_pandas(rows) if name != "image_name"]
        pd.testing.assert_frame_equal(result.to_pandas(rows)[names], expected.to_pandas(rows)[names])
    with pytest.raises(InputError, match=r'^`to_polars\(rows="truths"\)` needs the detections and truths, and this'):
        result.to_polars("truths")
    with pytest.raises(InputError, match=r'`to_pandas\(rows="images"\)` at a threshold that was not measured needs'):
        result.to_pandas("images", iou=0.33)


def test_bad_options_are_refused(result: boxscore.Result) -> None:
    """By name, with the rule and what came."""
    with pytest.raises(InputError, match=r"^`rows` must be one of classes, images, detections, truths; got 'boxes'$"):
        result.to_pandas("boxes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^`score` must be a finite number; got nan$"):
        result.to_pandas("images", score=float("nan"))
    with pytest.raises(InputError, match=r"^`iou` must be a number between 0 and 1; got 50$"):
        result.to_pandas("detections", iou=50)
    with pytest.raises(
        InputError, match=r'^`errors` must be given with rows="detections" or rows="truths"; got rows=\'classes\'$'
    ):
        result.to_arrow(errors=True)


@pytest.mark.parametrize(
    ("method", "module", "text"),
    [
        ("to_pandas", "pandas", "`to_pandas` needs pandas: pip install 'boxscore[pandas]'"),
        ("to_polars", "polars", "`to_polars` needs Polars: pip install 'boxscore[polars]'"),
        ("to_arrow", "pyarrow", "Arrow tables need pyarrow: pip install 'boxscore[arrow]'"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    method: str, module: str, text: str, result: boxscore.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is computed."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as raised:
        getattr(result, method)()
    assert str(raised.value) == text
