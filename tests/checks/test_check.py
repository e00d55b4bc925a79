"""`boxscore check`: each planted problem is found, with its count and place; clean data has no findings."""

import json
from pathlib import Path

import numpy as np
import pytest

from boxscore.checks.inspector import Reading, inspect_files
from boxscore.cli import main, sample
from boxscore.formats.records import Options
from boxscore.protocol.protocol import Protocol
from tests.support.planted_problems import DETECTION, NAMES, PLANTED, TRUTH, Planting, change, clean, inspect, of
from tests.support.shared import shared_data

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("seed", range(5))
def test_clean_data_has_no_findings(tmp_path: Path, seed: int) -> None:
    """Random scenes, under every protocol."""
    for protocol in ("coco", "voc2007", "voc2012", "paper"):
        assert inspect(tmp_path, *clean(seed), protocol=protocol) == []


def test_the_sample_has_notes_only(capsys: Captured) -> None:
    """Detections over the border, which is no mistake."""
    assert main(["check", str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("note: 5 boxes beyond the border of their image by more than a pixel\n  ")
    assert out.endswith("\n\nno errors, no warnings, 1 note\n")


@pytest.mark.parametrize(
    ("file", "kind", "plant", "severity", "num", "example"), PLANTED, ids=[f"{row[0][:2]}-{row[1]}" for row in PLANTED]
)
def test_a_planted_problem_is_found(
    tmp_path: Path, file: str, kind: str, plant: Planting, severity: str, num: int, example: str
) -> None:
    """With its count, the place of the first, and how bad it is; nothing else is an error then."""
    dataset, results = clean(1)
    plant(dataset, results)
    findings = [each for each in inspect(tmp_path, dataset, results) if each.file == str(tmp_path / file)]
    found = of(findings, kind)
    assert (found.severity, found.count) == (severity, num)
    assert found.example.startswith(f"{tmp_path}/{example.format(f'{tmp_path}/')}")
    assert found.effect
    assert [each.kind for each in findings if each.severity == "error"] == [kind] * (severity == "error")


def test_many_problems_are_found_in_one_pass(tmp_path: Path) -> None:
    """The first does not stop it, and the worst come first."""
    dataset, results = clean(2)
    for kind in ("negative-size", "unknown-class", "duplicate-ids", "no-size"):
        TRUTH[kind][0](dataset, results)
    for kind in ("score-range", "unknown-image"):
        DETECTION[kind][0](dataset, results)
    findings = inspect(tmp_path, dataset, results)
    kinds = [finding.kind for finding in findings]
    assert kinds == [
        "negative-size",
        "unknown-class",
        "unknown-image",
        "duplicate-ids",
        "score-range",
        "no-size",
    ]


@pytest.mark.parametrize("has_sizes", [True, False])
def test_corners_given_as_sizes(tmp_path: Path, has_sizes: bool) -> None:
    """COCO's box is left, top, width, height; many tools give corners. Both in truths and detections."""
    dataset, results = clean(3)
    for row in (*dataset["annotations"], *results):
        x, y, w, h = row["bbox"]
        row["bbox"] = [x, y, x + w, y + h]
        row["area"] = (x + w) * (y + h)
    if not has_sizes:
        for image in dataset["images"]:
            image["width"] = 0
    found = [finding for finding in inspect(tmp_path, dataset, results) if finding.kind == "box-format"]
    assert [Path(finding.file).name for finding in found] == ["gt.json", "dt.json"]
    assert all(finding.title.endswith("as xywh; they fit as xyxy") for finding in found)
    assert all(finding.severity == "warning" for finding in found)


@pytest.mark.parametrize("has_sizes", [True, False])
def test_sizes_given_as_corners(tmp_path: Path, has_sizes: bool) -> None:
    """A table that says corners, with widths and heights in it."""
    dataset, _ = clean(4)
    rows = [
        [row["image_id"], row["category_id"], *row["bbox"], *([640, 480] if has_sizes else [])]
        for row in dataset["annotations"]
    ]
    header = "image,label,x1,y1,x2,y2" + (",image_width,image_height" if has_sizes else "")
    path = tmp_path / "gt.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    findings = inspect_files(path, [], Protocol.named("coco"))
    assert of(findings, "box-format").title.endswith("as xyxy; they fit as xywh")
    assert of(findings, "negative-size").example.startswith(f"{path}: line ")


@pytest.mark.parametrize("has_sizes", [True, False])
def test_fractions_given_as_pixels(tmp_path: Path, has_sizes: bool) -> None:
    """All of them between 0 and 1, in images of hundreds of pixels, or of unknown size."""
    dataset, results = clean(5)
    for row in results:
        row["bbox"] = (np.array(row["bbox"]) / [640, 480, 640, 480]).tolist()
    if not has_sizes:
        for image in dataset["images"]:
            image["width"] = 0
    found = of(inspect(tmp_path, dataset, results), "fractions-as-pixels")
    assert (found.severity, found.count) == ("warning", 96)


def test_pixels_given_as_fractions(tmp_path: Path) -> None:
    """A folder of YOLO labels with pixels in it."""
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 100 100 20 20\n0 0.5 0.5 0.2 0.2\n0 200 100 20 20\n")
    (tmp_path / "sizes.csv").write_text("name,width,height\na,640,480\n")
    findings = inspect_files(tmp_path / "labels", [], Protocol.named("coco"))
    found = of(findings, "pixels-as-fractions")
    assert (found.severity, found.count) == ("error", 2)
    assert found.example.startswith(f"{tmp_path / 'labels' / 'a.txt'}: line 1: ")
    assert not any(finding.kind == "refused" for finding in findings), "it is told once"


def test_ids_against_names(tmp_path: Path) -> None:
    """Integer ids of results that are no names of a YOLO folder can't be evaluated."""
    folder = tmp_path / "labels"
    folder.mkdir()
    for name in ("cat", "dog"):
        (folder / f"{name}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    (tmp_path / "sizes.csv").write_text("name,width,height\ncat,640,480\ndog,640,480\n")
    path = tmp_path / "results.json"
    rows = [{"image_id": i, "category_id": 0, "bbox": [256, 192, 128, 96], "score": 0.9} for i in (0, 1)]
    path.write_text(json.dumps(rows))
    found = of(inspect_files(folder, [path], Protocol.named("coco")), "refused")
    assert found.severity == "error"
    assert found.example.startswith(
        f"{path}: images have ids (0, 1), but those of the truths have only names (cat, dog)"
    )


@pytest.mark.parametrize(
    ("shift", "reading"),
    [(-1, "look one too low"), (1, "look one too high")],
)
def test_class_ids_off_by_one(tmp_path: Path, shift: int, reading: str) -> None:
    """Found by the boxes that overlap, also where no class is unknown."""
    dataset, results = clean(6)
    dataset["categories"] += [{"id": 0, "name": "zero"}, {"id": 5, "name": "five"}]
    for row in results:
        row["category_id"] += shift
    found = of(inspect(tmp_path, dataset, results), "shifted-labels")
    assert f"{reading}: of 96 that overlap a truth, 96 would be of its class, and 0 are now" in found.title
    assert (found.severity, found.count) == ("warning", 96)
    assert found.example.startswith(f"{tmp_path / 'dt.json'}: result ")


def test_class_ids_off_by_one_without_overlaps(tmp_path: Path) -> None:
    """Classes 0 to 3 against 1 to 4, and not a single hit."""
    dataset, results = clean(7)
    for row in results:
        row |= {"bbox": [600, 440, 7 + row["score"], 7], "category_id": row["category_id"] - 1}
    title = of(inspect(tmp_path, dataset, results), "shifted-labels").title
    assert title == "class ids of 96 detections look one too low: read so, all are classes of the ground truth"


def test_class_ids_that_are_indices_into_the_list(tmp_path: Path) -> None:
    """0 to 3, where the classes are 1, 17, 18 and 90, as with COCO's 80 classes in 90 ids."""
    dataset, results = clean(8)
    ids = dict(zip((1, 2, 3, 4), (1, 17, 18, 90), strict=True))
    for row in (*dataset["annotations"], *dataset["categories"]):
        key = "category_id" if "category_id" in row else "id"
        row[key] = ids[row[key]]
    for row in results:
        row["category_id"] -= 1
    findings = inspect(tmp_path, dataset, results)
    title = of(findings, "shifted-labels").title
    assert "look like indices into the list of classes, from 0: of 96 that overlap a truth, 96 would be" in title
    assert of(findings, "unknown-class").severity == "error"


@pytest.mark.parametrize(
    ("name", "severity", "num_errors"), [("PERSON", "note", 0), ("per son", "warning", 1), ("person", None, 0)]
)
def test_class_names_in_another_spelling(tmp_path: Path, name: str, severity: str | None, num_errors: int) -> None:
    """Another case is found all the same; spaces are not."""
    dataset, results = clean(9)
    (tmp_path / "gt.json").write_text(json.dumps(dataset))
    names = [name, *NAMES[1:]]
    rows = [[r["image_id"], names[r["category_id"] - 1], *r["bbox"], r["score"]] for r in results]
    path = tmp_path / "dt.csv"
    path.write_text("\n".join(["image,class,x,y,w,h,score", *(",".join(map(str, row)) for row in rows)]))
    findings = inspect_files(tmp_path / "gt.json", [path], Protocol.named("coco"))
    assert sum(finding.severity == "error" for finding in findings) == num_errors
    if severity is None:
        assert findings == []
    else:
        found = of(findings, "class-spelling")
        assert (found.severity, found.count) == (severity, 1)
        assert found.example == f"{path}: line 2: {name!r}, in the ground truth 'person'"


def test_more_detections_than_count(tmp_path: Path) -> None:
    """By the largest limit of the protocol; without a limit all count."""
    dataset, results = clean(10)
    found = of(inspect(tmp_path, dataset, results, limits=(1,)), "over-limit")
    assert (found.severity, found.count) == ("warning", 48)
    assert found.example == f"{tmp_path / 'dt.json'}: result 0: image 10, class 1: 2 detections"
    assert inspect(tmp_path, dataset, results, limits=(1, None)) == []


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """In boxes, scores and areas of formats that can hold them; all else is checked still."""
    (tmp_path / "gt.csv").write_text("image,label,x,y,w,h,area\na,1,5,5,nan,5,25\na,1,5,5,5,5,inf\na,1,5,5,-1,5,25\n")
    (tmp_path / "dt.csv").write_text("image,label,x,y,w,h,score\na,1,5,5,5,inf,0.5\na,1,5,5,5,5,nan\nb,1,5,5,5,6,2\n")
    findings = inspect_files(tmp_path / "gt.csv", [tmp_path / "dt.csv"], Protocol.named("coco"))
    assert [(Path(each.file).name, each.kind, each.count) for each in findings if each.severity == "error"] == [
        ("gt.csv", "not-finite", 1),
        ("gt.csv", "area-not-finite", 1),
        ("gt.csv", "negative-size", 1),
        ("dt.csv", "not-finite", 1),
        ("dt.csv", "score-not-finite", 1),
        ("dt.csv", "unknown-image", 1),
    ]
    assert of(findings, "score-range").count == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"images": [{"id": 7}, {"id": 7}], "annotations": [], "categories": []}', "different ids; got 7 twice"),
        ('{"images": [], "annotations": [], "categories": [{"id": 3, "name": "a"}, {"id": 3, "name": "b"}]}', "got 3 "),
    ],
)
def test_what_can_not_be_read_is_a_finding_and_the_rest_is_checked(tmp_path: Path, text: str, message: str) -> None:
    """Truths that are refused; the scores of the detections are looked at all the same."""
    (tmp_path / "gt.json").write_text(text)
    row = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1.5}
    (tmp_path / "dt.json").write_text(json.dumps([row]))
    findings = inspect_files(tmp_path / "gt.json", [tmp_path / "dt.json"], Protocol.named("coco"))
    assert [finding.kind for finding in findings] == ["unreadable", "score-range"]
    assert message in findings[0].example
    assert findings[0].example.startswith(f"{tmp_path / 'gt.json'}: ")


def test_what_only_the_evaluation_refuses_is_found(tmp_path: Path) -> None:
    """Sides beyond all limits: no check of its own, yet an error."""
    dataset, results = clean(11)
    change(results, 5, bbox=[1, 2, 1e200, 4])
    found = of(inspect(tmp_path, dataset, results), "refused")
    assert found.severity == "error"
    assert "dt.json: result 5: `bbox` must have sides up to" in found.example


def test_it_agrees_with_the_evaluation(tmp_path: Path) -> None:
    """No error: the evaluation goes through. An error: it refuses."""
    twice: Planting = lambda gt, _: gt["images"].append(gt["images"][3])  # noqa: E731
    no_classes: Planting = lambda gt, _: (gt["annotations"].clear(), gt["categories"].clear())  # noqa: E731
    cases = [(file, kind, plant, severity) for file, kind, plant, severity, *_ in PLANTED]
    cases += [("gt.json", "an image twice", twice, "error"), ("gt.json", "no classes", no_classes, "error")]
    for file, kind, plant, severity in cases:
        dataset, results = clean(12)
        plant(dataset, results)
        (tmp_path / "gt.json").write_text(json.dumps(dataset))
        (tmp_path / "dt.json").write_text(json.dumps(results))
        arguments = [str(tmp_path / "gt.json"), str(tmp_path / "dt.json"), "--quiet"]
        expected = int(severity == "error")
        assert main(["check", *arguments]) == expected, f"{file} {kind}"
        assert main(["eval", *arguments]) == expected, f"{file} {kind}"


def test_json_has_every_finding(tmp_path: Path, capsys: Captured) -> None:
    """To a file beside the listing, or to stdout instead of it."""
    dataset, results = clean(13)
    DETECTION["unknown-image"][0](dataset, results)
    (tmp_path / "gt.json").write_text(json.dumps(dataset))
    (tmp_path / "dt.json").write_text(json.dumps(results))
    arguments = ["check", str(tmp_path / "gt.json"), str(tmp_path / "dt.json"), "--json"]
    assert main([*arguments, "-"]) == 1
    out = capsys.readouterr().out
    assert json.loads(out) == [
        {
            "severity": "error",
            "kind": "unknown-image",
            "file": str(tmp_path / "dt.json"),
            "count": 3,
            "title": "3 detections on images that the ground truth does not have",
            "example": f"{tmp_path / 'dt.json'}: result 4: image 999;"
            " known: 000.jpg, 001.jpg, 002.jpg, 003.jpg, 004.jpg, …",
            "effect": "the evaluation refuses the file; with --unmatched warn, it leaves them out",
        }
    ]
    assert main([*arguments, str(tmp_path / "findings.json"), "--quiet"]) == 1
    assert capsys.readouterr() == ("", "")
    assert json.loads((tmp_path / "findings.json").read_text()) == json.loads(out)


def test_several_files_and_none(tmp_path: Path, capsys: Captured) -> None:
    """The truths alone, or with as many detections as there are."""
    dataset, results = clean(14)
    (tmp_path / "gt.json").write_text(json.dumps(dataset))
    (tmp_path / "a.json").write_text(json.dumps(results))
    change(results, 0, score=7)
    (tmp_path / "b.json").write_text(json.dumps(results))
    truths = str(tmp_path / "gt.json")
    assert main(["check", truths]) == 0
    assert capsys.readouterr().out == "no errors, no warnings, no notes\n"
    assert main(["check", truths, str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert f"{tmp_path / 'b.json'}: result 0: score 7\n" in capsys.readouterr().out


def test_yolo_against_given_sizes(tmp_path: Path) -> None:
    """Fractions are checked as such, and compared with truths in pixels."""
    dataset, results = clean(15)
    (tmp_path / "gt.json").write_text(json.dumps(dataset))
    (tmp_path / "dt.json").write_text(json.dumps(results))
    files = [str(tmp_path / name) for name in ("gt.json", "dt.json")]
    assert main(["convert", files[0], str(tmp_path / "gt"), "--to", "yolo", "--quiet"]) == 0
    assert main(["convert", files[1], str(tmp_path / "dt"), "--to", "yolo", "--truths", files[0], "--quiet"]) == 0
    coco = Protocol.named("coco")
    for truths in (tmp_path / "gt", tmp_path / "gt.json"):
        for detections in (tmp_path / "dt", tmp_path / "dt.json"):
            reading = Reading(options=Options(sizes={f"{i:03}.jpg": (640, 480) for i in range(12)}))
            findings = inspect_files(truths, [detections], coco, reading)
            # Against truths without ids, the ids of results find nothing: that is told, and all there is to tell.
            expected = [] if truths.suffix or not detections.suffix else ["unknown-image", "unknown-class"]
            assert [finding.kind for finding in findings if finding.severity == "error"] == expected


def test_real_data_of_coco() -> None:
    """Nothing is refused in val2017 and a real detector's results; crowds are fine."""
    truths = shared_data("coco_val2017/instances_val2017_boxes.json")
    findings = inspect_files(truths, [shared_data("coco_val2017/yolox_nano.json")], Protocol.named("coco"))
    assert [(finding.severity, finding.kind, finding.count) for finding in findings] == [
        ("warning", "outside-image", 4),
        ("warning", "over-limit", 8254),
        ("note", "over-the-border", 8012),
        ("note", "silent-images", 4),
    ]


def test_real_data_of_voc() -> None:
    """Three boxes of the results have their corners in the wrong order."""
    truths, results = shared_data("voc2007/Annotations.zip"), shared_data("voc2007/results")
    findings = inspect_files(truths, [results], Protocol.named("voc2007"))
    assert [(finding.severity, finding.kind, finding.count) for finding in findings] == [
        ("warning", "changed-in-reading", 3),
        ("note", "zero-size", 3),
        ("note", "silent-images", 158),
    ]
    assert findings[0].example.endswith("comp4_det_test_bird.txt: line 530")
