"""Label errors: by hand, on planted errors in real truths, by the command, and as a page."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from playwright.sync_api import expect

import boxscore
from boxscore import Detections, InputError, Result, Truths
from boxscore.analysis import LabelErrors, label_errors
from boxscore.analysis.label_review import KINDS
from boxscore.cli import find_label_errors as command
from boxscore.cli import main
from boxscore.data import Masks
from tests.support.documents import ROOT
from tests.support.pages import HOSTILE, Open
from tests.support.photos import photo
from tests.support.planted_labels import Planted, plant, simulated_detector
from tests.support.shared import shared_data

CAT, DOG = 1, 2
BOXES: list[list[float]] = [[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]]
NAMES = {CAT: "cat", DOG: "dog"}
NO_RESULT: Any = "none"
SEED = 1  # the definition of suspicion was chosen with seed 0


def truths_of(boxes: list[list[float]], labels: list[int]) -> Truths:
    """Truths of one image."""
    return Truths(image_ids=[7] * len(boxes), labels=labels, boxes=boxes, class_names=NAMES, image_names={7: "a.jpg"})


def result_of(truths: Truths, *rows: tuple[Sequence[float], int, float]) -> Result:
    """The result of detections of that image: box, label, score."""
    boxes, labels, scores = zip(*rows, strict=True)
    found = Detections(image_ids=[7] * len(rows), labels=list(labels), scores=list(scores), boxes=list(boxes))
    return boxscore.evaluate(found, truths)


def cases(errors: LabelErrors) -> list[tuple[Any, ...]]:
    """Kind, row of the truth, label, suggested label, suspicion and number of models of each case."""
    names = ("kind", "truth", "label", "suggested_label", "suspicion", "num_models")
    return [tuple(row[name] for name in names) for row in errors.rows()]


def test_each_kind_by_hand() -> None:
    """Of four truths, one is right, one a dog called cat, one moved to the right, one nothing at all."""
    truths = truths_of([BOXES[0], BOXES[1], [46, 0, 56, 10], BOXES[3]], [CAT, CAT, CAT, CAT])
    result = result_of(
        truths, (BOXES[0], CAT, 0.95), (BOXES[1], DOG, 0.9), (BOXES[2], CAT, 0.8), ([80, 0, 90, 10], DOG, 0.7)
    )
    errors = label_errors(result, score=0.5, kinds=list(KINDS))
    assert cases(errors) == [
        ("wrong_class", 1, "cat", "dog", 0.9, 1),
        ("misplaced", 2, "cat", "cat", 0.8, 1),
        ("missing", None, None, "dog", 0.7, 1),
        ("spurious", 3, "cat", None, 0.25, 1),  # one of four cats of this size is found
    ]
    assert errors.rows()[1]["truth_box"] == [46, 0, 56, 10]
    assert errors.rows()[1]["suggested_box"] == BOXES[2]
    assert errors.rows()[2]["truth_box"] is None
    assert errors.name == ("a.jpg",) * 4
    assert cases(label_errors(result, score=0.5)) == cases(errors)[:3]


def test_several_models_count_where_they_agree() -> None:
    """The mean of the scores; a model without such a detection counts as 0."""
    truths = truths_of(BOXES[:1], [CAT])
    nothing = ([80, 0, 90, 10], DOG, 0.7)
    one = result_of(truths, (BOXES[0], CAT, 0.9), (BOXES[1], DOG, 0.75), nothing)
    two = result_of(truths, (BOXES[0], CAT, 0.9), ([20, 1, 30, 11], DOG, 0.25))
    errors = label_errors([one, two], score=0.2)
    assert cases(errors) == [
        ("missing", None, None, "dog", 0.5, 2),
        ("missing", None, None, "dog", 0.35, 1),
    ]
    assert (errors.model[0], errors.detection[0]) == (0, 1)  # the suggestion is the detection with the highest score
    turned = label_errors({"two": two, "one": one}, score=0.2)
    assert cases(turned) == cases(errors)
    assert (turned.model[0], turned.detection[0]) == (1, 1)


def test_a_model_that_finds_the_truth_speaks_against_the_case() -> None:
    """Its score is subtracted, of the same model only."""
    truths = truths_of(BOXES[:1], [CAT])
    doubts = result_of(truths, (BOXES[0], DOG, 0.75), (BOXES[0], CAT, 0.25))
    sure = result_of(truths, (BOXES[0], DOG, 0.25), (BOXES[0], CAT, 0.75))
    assert cases(label_errors(doubts, score=0.1)) == [("wrong_class", 0, "cat", "dog", 0.5, 1)]
    assert cases(label_errors([doubts, sure], score=0.1)) == [("wrong_class", 0, "cat", "dog", 0.25, 1)]
    assert len(label_errors(sure, score=0.1)) == 0


def test_one_missing_object_is_one_case() -> None:
    """Also if it is detected twice, or as two classes; the case is the one with the highest suspicion."""
    truths = truths_of(BOXES[:1], [CAT])
    twice = ([20, 0, 31, 10], DOG, 0.6), ([20, 1, 30, 11], CAT, 0.8), (BOXES[1], DOG, 0.7)
    assert cases(label_errors(result_of(truths, *twice), score=0.1)) == [("missing", None, None, "cat", 0.8, 1)]


def test_a_duplicate_of_a_found_truth_is_no_case() -> None:
    """Nor is a detection that a crowd takes."""
    truths = Truths(image_ids=[7, 7], labels=[CAT, CAT], boxes=[BOXES[0], [20, 0, 60, 40]], ignore=[False, True])
    result = result_of(truths, (BOXES[0], CAT, 0.9), ([0, 0, 10, 9], CAT, 0.8), ([22, 2, 40, 30], CAT, 0.7))
    assert len(label_errors(result, score=0.1, kinds=list(KINDS))) == 0


def test_only_confident_detections_count() -> None:
    """By default from the score with the best F1 on."""
    truths = truths_of(BOXES[:2], [CAT, CAT])
    rows = (BOXES[0], CAT, 0.9), (BOXES[1], CAT, 0.6), (BOXES[2], CAT, 0.7), (BOXES[3], CAT, 0.5)
    assert cases(label_errors(result_of(truths, *rows))) == [("missing", None, None, "cat", 0.7, 1)]


def test_masks_and_class_agnostic_protocols_work_too() -> None:
    """The rows are those that were given, whatever the order of matching."""
    pixels = np.zeros((3, 20, 60), bool)
    pixels[0, :, :10], pixels[1, :, 20:30], pixels[2, :, 40:50] = True, True, True
    truths = Truths(image_ids=[7], labels=[CAT], masks=pixels[:1])
    found = Detections(image_ids=[7, 7], labels=[CAT, DOG], scores=[0.9, 0.8], masks=Masks.from_pixels(pixels[[0, 2]]))
    (case,) = label_errors([boxscore.evaluate(found, truths)] * 2, score=0.1).rows()
    assert (case["kind"], case["suggested_box"], case["num_models"]) == ("missing", [40, 0, 50, 20], 2)
    truths = truths_of([BOXES[0], BOXES[1]], [DOG, CAT])
    found = Detections(image_ids=[7] * 3, labels=[DOG, CAT, CAT], scores=[0.9, 0.8, 0.7], boxes=[*BOXES[:2], BOXES[2]])
    result = boxscore.evaluate(found, truths, boxscore.Protocol.named("coco", class_agnostic=True))
    (case,) = label_errors(result, score=0.1).rows()
    assert (case["kind"], case["suggested_label"], case["detection"]) == ("missing", "cat", 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: label_errors([]), "`results` must be a boxscore.Result, or several of them; got list"),
        (lambda r: label_errors([r, NO_RESULT]), "`results` must be a boxscore.Result, or several of them; got list"),
        (
            lambda r: label_errors(r, kinds=["wrong"]),
            "`kinds` must be one of missing, wrong_class, misplaced, spuri",
        ),
        (lambda r: label_errors(r, background=2), "`background` must be a number between 0 and 1; got 2"),
        (lambda r: label_errors(r, score=NO_RESULT), "`score` must be a finite number; got 'none'"),
        (lambda r: label_errors(r).of_kind("x"), "`kind` must be one of missing, wrong_class, misplaced, spuri"),
        (
            lambda r: label_errors([r, result_of(truths_of(BOXES[1:2], [CAT]), (BOXES[0], CAT, 0.9))]),
            "`results` must have the same truths; the first and number 2 have others",
        ),
        (
            lambda r: label_errors([r, boxscore.evaluate(r.inputs[0], r.inputs[1], "voc2012")]),
            "`results` must have one protocol; the first and number 2 have different ones",
        ),
        (
            lambda r: label_errors(boxscore.finish(r.tally)),
            "`label_errors` needs the detections and truths, and this result has only verdicts",
        ),
    ],
)
def test_what_cannot_be_ranked_is_an_error(call: Any, message: str) -> None:
    """It names the argument, the rule and what came."""
    result = result_of(truths_of(BOXES[:1], [CAT]), (BOXES[0], CAT, 0.9))
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        call(result)


def test_nothing_to_say_is_an_empty_table() -> None:
    """Without detections, without truths, and where all is right."""
    right = result_of(truths_of(BOXES[:1], [CAT]), (BOXES[0], CAT, 0.9))
    empty = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]),
        Truths(image_ids=[], labels=[], boxes=[], class_names=NAMES),
    )
    for result in (right, empty):
        errors = label_errors(result, kinds=list(KINDS))
        assert str(errors) == "0 suspicious labels from 1 model: 0 missing, 0 wrong class, 0 misplaced"
        assert errors.to_dict() == {"num_models": 1, "cases": []}
        assert "No truth is contradicted." in errors.to_html()


def planted_coco() -> tuple[Planted, Truths]:
    """Val2017 with 497 errors of each kind, and as it was."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    return plant(truths, 0.02, SEED), truths


def row_of(name: str, planted: Planted, results: list[Result]) -> str:
    """A row of the table in the docs: how many of the first cases of each kind are planted errors."""
    errors = label_errors(results, kinds=list(KINDS))
    of_kinds = [errors.of_kind(kind) for kind in KINDS]
    cells = [f"{planted.num_found(each, 50) / 50:.2f}, {planted.num_found(each, 200) / 200:.2f}" for each in of_kinds]
    return f"| {name} | {planted.num} | {' | '.join(cells)} |"


def test_planted_errors_in_real_truths_are_found_as_often_as_the_docs_say() -> None:
    """The detections are of real detectors; what else is wrong in these truths counts as false alarm."""
    guide = (ROOT / "docs" / "guides" / "label-errors.md").read_text()
    planted, truths = planted_coco()
    detections = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    assert row_of("COCO val2017, YOLOX-Nano", planted, [boxscore.evaluate(detections, planted.truths)]) in guide
    for num in (1, 2, 3):
        found = [simulated_detector(truths, seed) for seed in range(107, 107 + num)]
        name = f"COCO val2017, {num} simulated detector{'s' if num > 1 else ''}"
        assert row_of(name, planted, [boxscore.evaluate(each, planted.truths) for each in found]) in guide


@pytest.mark.filterwarnings("ignore:corners in the wrong order")
def test_planted_errors_in_voc_are_found_as_often_as_the_docs_say() -> None:
    """By a YOLOv3."""
    guide = (ROOT / "docs" / "guides" / "label-errors.md").read_text()
    listed = shared_data("voc2007/ImageSets/Main/test.txt")
    truths = boxscore.read_truths(shared_data("voc2007/Annotations.zip"), images=listed)
    detections = boxscore.read_detections(shared_data("voc2007/results"), truths)
    planted = plant(truths, 0.02, SEED)
    assert row_of("VOC 2007 test, YOLOv3", planted, [boxscore.evaluate(detections, planted.truths, "voc2012")]) in guide


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """One image with a wrong class and a missing truth, and two models that see both."""
    images = [{"id": 1, "file_name": "a.png", "width": 160, "height": 120}]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 30, 30], "area": 900, "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [60, 10, 30, 30], "area": 900, "iscrowd": 0},
    ]
    found = [
        {"image_id": 1, "category_id": 1, "bbox": [10, 10, 30, 30], "score": 0.75},
        {"image_id": 1, "category_id": 2, "bbox": [60, 10, 30, 30], "score": 0.875},
        {"image_id": 1, "category_id": 2, "bbox": [110, 60, 30, 30], "score": 0.8125},
    ]
    paths = {name: str(tmp_path / f"{name}.json") for name in ("truths", "a", "b")}
    Path(paths["truths"]).write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    Path(paths["a"]).write_text(json.dumps(found))
    Path(paths["b"]).write_text(json.dumps(found[:2]))
    (tmp_path / "images").mkdir()
    photo((160, 120)).save(tmp_path / "images" / "a.png")
    return paths | {"images": str(tmp_path / "images")}


def test_the_command_prints_the_table_and_writes_the_files(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same cases as in Python, as text, CSV and JSON."""
    out = {name: str(tmp_path / f"out.{name}") for name in ("csv", "json")}
    words = [files["truths"], files["a"], files["b"], "--csv", out["csv"], "--json", out["json"]]
    assert main(["label-errors", *words]) == 0
    printed = capsys.readouterr().out
    truths = boxscore.read_truths(files["truths"])
    results = [boxscore.evaluate(boxscore.read_detections(files[name], truths), truths) for name in ("a", "b")]
    errors = label_errors(results)
    assert printed == f"{errors}\n"
    assert cases(errors) == [
        ("wrong_class", 1, "cat", "dog", 0.875, 2),
        ("missing", None, None, "dog", 0.40625, 1),
    ]
    assert json.loads(Path(out["json"]).read_text()) == errors.to_dict()
    rows = list(csv.DictReader(io.StringIO(Path(out["csv"]).read_text())))
    assert [(row["kind"], row["truth"], row["suggested_left"], row["truth_left"]) for row in rows] == [
        ("wrong_class", "1", "60.0", "60.0"),
        ("missing", "", "110.0", ""),
    ]
    assert main(["label-errors", *words[:3], "--kinds", "missing", "--num", "1", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == errors.of_kind("missing").to_dict()["cases"]


def test_the_command_knows_the_kinds(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same as Python; another is a usage error."""
    assert tuple(KINDS) == command.KINDS
    with pytest.raises(SystemExit, match="2"):
        main(["label-errors", files["truths"], files["a"], "--kinds", "wrong"])
    assert "argument --kinds: invalid choice: 'wrong' (choose from missing, wrong_class" in capsys.readouterr().err


def test_the_page_has_a_picture_of_each_case(show: Open, files: dict[str, str], tmp_path: Path) -> None:
    """The truth in question, the detection, and a table; kinds can be chosen."""
    out = tmp_path / "cases.html"
    words = ["--html", str(out), "--images", files["images"], "--quiet"]
    assert main(["label-errors", files["truths"], files["a"], files["b"], *words]) == 0
    page = show(out.read_text())
    assert page.title() == "Label errors: a.json, b.json on truths.json"
    thumbs = page.locator("#cases .thumb")
    expect(thumbs).to_have_count(2)
    expect(thumbs.first).to_contain_text("wrong class 0.875: cat → dog")
    expect(thumbs.nth(1)).to_contain_text("missing 0.406: – → dog")
    thumbs.first.click()
    viewer = page.get_by_role("dialog")
    assert viewer.locator("text.missed").all_text_contents() == ["label: cat"]
    assert viewer.locator("text.false").all_text_contents() == ["suggested: dog 0.88"]
    assert viewer.locator(".stage .shape.matched").count() == 1
    # The window is the box and 40 pixels on each side: from 20 to 130, and 0 to 80.
    assert viewer.locator(".stage .shape.missed .line").get_attribute("d") == "M40 10L70 10L70 40L40 40Z"
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Kind").select_option("missing")
    expect(thumbs).to_have_count(1)
    rows = page.get_by_role("table", name="Label errors").locator("tbody tr")
    assert rows.count() == 2
    page.get_by_role("searchbox", name="Search cases").fill("missing")
    assert rows.count() == 1
    page.get_by_role("button", name="Dark colours").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_names_on_the_page_are_text(show: Open, tmp_path: Path) -> None:
    """Of images and of classes."""
    num = len(HOSTILE)
    photo((160, 120)).save(tmp_path / "0.png")
    truths = Truths(image_ids=[0] * num, labels=range(num), boxes=[[2, 2, 40, 40]] * num, class_names=HOSTILE)
    box = [[100 + i, 2, 120 + i, 20 + 8 * i] for i in range(num)]
    found = Detections(image_ids=[0] * num, labels=[*range(1, num), 0], scores=[0.9] * num, boxes=box)
    errors = label_errors(boxscore.evaluate(found, truths), score=0.1)
    page = show(errors.to_html(title=HOSTILE[0], image_folder=tmp_path))
    assert page.title() == HOSTILE[0]
    assert page.locator("img, svg[onload]").count() == 0
    assert page.locator("script").count() == 3


def test_missing_files_are_said(files: dict[str, str], tmp_path: Path) -> None:
    """In a warning, and on the page."""
    truths = boxscore.read_truths(files["truths"])
    errors = label_errors(boxscore.evaluate(boxscore.read_detections(files["a"], truths), truths))
    empty = tmp_path / "empty"
    empty.mkdir()
    note = f"2 of the cases have no picture: {empty} has no file, or several, named a.png"
    with pytest.warns(UserWarning, match=re.escape(note)):
        page = errors.to_html(image_folder=empty)
    assert json.dumps(note)[1:-1] in page


@pytest.mark.parametrize("protocol", ["coco_keypoints", "crowdpose"])
def test_poses_without_a_label_are_missing_once(protocol: Literal["coco_keypoints", "crowdpose"]) -> None:
    """Of a pose that is detected twice and by two models, the surest is the suggestion."""
    point = np.random.default_rng(0).uniform(0, 100, (3, 14 if protocol == "crowdpose" else 17, 2))
    box = np.concatenate([point.min(axis=1), point.max(axis=1)], axis=1)
    truths = Truths(image_ids=[7] * 3, labels=[CAT] * 3, keypoints=point, boxes=box, crowd_index={7: 0.5})
    results = []
    for num, shift in enumerate((0, 0.2)):
        found = np.concatenate([point, point[:1] + 300 + shift, point[:1] + 301 + shift])
        score = np.array([0.9, 0.9, 0.9, 0.7, 0.6]) + 0.01 * num
        detections = Detections(image_ids=[7] * 5, labels=[CAT] * 5, scores=score, keypoints=found)
        results.append(boxscore.evaluate(detections, truths, protocol))
    ((kind, truth, _, label, suspicion, num_models),) = cases(label_errors(results, score=0.5))
    assert (kind, truth, label, num_models) == ("missing", None, str(CAT), 2)
    assert suspicion == pytest.approx((0.7 + 0.71) / 2)
