"""`boxscore check` asks of the ground truth what `boxscore eval` asks, in the same words."""

import json
from pathlib import Path
from typing import Any

import pytest

from boxscore.checks.checklist import Finding
from boxscore.checks.inspector import Reading, inspect_files
from boxscore.cli import main
from boxscore.formats.records import Options
from boxscore.protocol.protocol import Protocol
from tests.support.crowd_scenes import Record, random_crowd, write_crowd
from tests.support.lvis_scenes import federated_scene, write_lvis
from tests.support.open_images_files import RESULTS, TRUTHS, write_all
from tests.support.planted_problems import clean, inspect, of
from tests.support.small_files import write

Captured = pytest.CaptureFixture[str]


def says_the_same(capsys: Captured, truths: Any, detections: Any, *options: str) -> str:
    """The one error of `check` is that of `eval`; it is about the truths."""
    assert main(["eval", str(truths), str(detections), *options]) == 1
    expected = capsys.readouterr().err.removeprefix("boxscore: ").strip()
    assert main(["check", str(truths), str(detections), *options, "--json", "-"]) == 1
    (error,) = [each for each in json.loads(capsys.readouterr().out) if each["severity"] == "error"]
    assert (error["kind"], error["file"]) == ("refused", str(truths))
    assert error["example"] == expected
    return expected


class TestCrowdHuman:
    """Its boxes are clipped to images."""

    def test_sizes_may_come_from_the_detections(self, tmp_path: Path) -> None:
        """As in the evaluation; boxes beyond the border are no finding, as they are clipped."""
        records = random_crowd(5)
        for record in records:
            record["gtboxes"].append({"tag": "person", "fbox": [90, 70, 30, 40], "extra": {}})
        truths, detections = write_crowd(tmp_path, records)
        assert "width" not in truths.read_text()
        findings = inspect_files(truths, [detections], Protocol.named("crowdhuman"))
        assert not {finding.kind for finding in findings} & {"refused", "over-the-border", "no-size"}
        unclipped, reading = Protocol.named("crowdhuman", clips_boxes=False), Reading(options=Options(sizes=detections))
        assert of(inspect_files(truths, [], unclipped, reading), "over-the-border").count >= len(records)

    def test_without_sizes_both_say_the_same(self, tmp_path: Path, capsys: Captured) -> None:
        """Of the truths' file."""
        records: list[Record] = [{key: record[key] for key in record if key != "width"} for record in random_crowd(5)]
        assert "--sizes" in says_the_same(capsys, *write_crowd(tmp_path, records), "--protocol", "crowdhuman")

    def test_a_truth_outside_of_its_image_is_empty_then(self, tmp_path: Path) -> None:
        """And so a miss."""
        dataset, results = clean(3)
        dataset["annotations"][0] |= {"bbox": [700, 60, 10, 10], "area": 100}
        found = of(inspect(tmp_path, dataset, results, "crowdhuman"), "outside-image")
        assert found.effect == "clipped to the image, as under crowdhuman, it is empty, so each is a miss"


class TestOpenImages:
    """Groups, labels and a hierarchy."""

    def test_groups_and_missing_labels_are_errors_of_the_truths(self, tmp_path: Path, capsys: Captured) -> None:
        """In the words of the options."""
        truths = write(tmp_path / "t.csv", TRUTHS)
        detections = write(tmp_path / "d.csv", RESULTS.replace("c,", "b,").replace("/m/dog", "/m/pug"))
        assert "--protocol openimages" in says_the_same(capsys, truths, detections, "--protocol", "voc2012")
        assert "--image-labels" in says_the_same(capsys, truths, detections, "--protocol", "openimages")

    def findings(self, files: dict[str, Any], tree: Any, *detections: Path) -> list[Finding]:
        """With a hierarchy."""
        reading = Reading(options=Options(image_labels=files["labels"], hierarchy=tree))
        return inspect_files(files["truths"], detections, Protocol.named("openimages"), reading)

    def test_a_hierarchy_with_a_cycle_is_one_finding(self, tmp_path: Path) -> None:
        """However many files it would expand; the classes that it may have are no findings then."""
        files = write_all(tmp_path)
        cycle = {"LabelName": "r", "Subcategory": [{"LabelName": "a", "Subcategory": [{"LabelName": "r"}]}]}
        tree = write(tmp_path / "cycle.json", json.dumps(cycle))
        found = self.findings(files, tree, files["detections"], files["detections"])
        (error,) = [each for each in found if each.severity == "error"]
        assert error.file == str(tree)
        assert error.example == f"{tree}: class 'r' must not be its own ancestor; got r > a > r"

    def test_ids_are_found_by_the_names_of_the_truths(self, tmp_path: Path) -> None:
        """As in the evaluation: a COCO results file has ids alone."""
        files = write_all(tmp_path)
        dataset = {
            "images": [{"id": 5, "file_name": "a", "width": 10, "height": 10}],
            "categories": [{"id": 9, "name": "/m/cat"}],
            "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "bbox": [0, 0, 5, 5]}],
        }
        files["truths"] = write(tmp_path / "t.json", json.dumps(dataset))
        box = {"image_id": 5, "category_id": 0, "bbox": [0, 0, 5, 5], "score": 0.5}
        results = write(tmp_path / "d.json", json.dumps([box]))
        assert not [each for each in self.findings(files, files["tree"], results) if each.severity == "error"]


class TestLvis:
    """Lists of classes, and limits per image."""

    def test_a_file_without_lists_is_an_error_of_the_truths(self, tmp_path: Path, capsys: Captured) -> None:
        """With what LVIS has first."""
        dataset, results = clean(3)
        files = write(tmp_path / "t.json", json.dumps(dataset)), write(tmp_path / "d.json", json.dumps(results))
        assert "this is not an LVIS file" in says_the_same(capsys, *files, "--protocol", "lvis")

    @pytest.mark.parametrize("has_names", [False, True])
    def test_lists_that_contradict_the_file_are_found(self, tmp_path: Path, *, has_names: bool) -> None:
        """With the image and the class; a list of what is not exhaustive contradicts nothing."""
        dataset, results = federated_scene(4)
        annotation = dataset["annotations"][0]
        image = next(each for each in dataset["images"] if each["id"] == annotation["image_id"])
        lists = {"neg_category_ids": [999, annotation["category_id"]], "not_exhaustive_category_ids": []}
        for each in dataset["images"]:
            own = {row["category_id"] for row in dataset["annotations"] if row["image_id"] == each["id"]}
            each["neg_category_ids"] = []
            each["not_exhaustive_category_ids"] = sorted(own)
        image |= lists
        for category in dataset["categories"]:
            del category["frequency"]
        if has_names:
            for row in (*dataset["annotations"], *results):
                row["image_id"] = f"image {row['image_id']}"
            for each in dataset["images"]:
                each["id"] = f"image {each['id']}"
        truths, _ = write_lvis(tmp_path, dataset, results)
        findings = inspect_files(truths, [], Protocol.named("lvis"))
        unknown, annotated = of(findings, "unknown-negative"), of(findings, "annotated-negative")
        assert (unknown.severity, unknown.count, annotated.severity, annotated.count) == ("warning", 1, "warning", 1)
        assert unknown.example.endswith("`neg_category_ids` has 999")
        name = image["id"] if has_names else image["coco_url"].rpartition("/")[2]
        assert unknown.example.startswith(f"{truths}: image {name!r}: ")
        assert f"`neg_category_ids` has {annotation['category_id']} (" in annotated.example
        assert of(findings, "no-frequency").count == len(dataset["categories"])

    def test_limits_are_those_of_the_protocol(self, tmp_path: Path) -> None:
        """Per image and class, per image, or per class."""
        dataset, results = clean(10)  # in each of 12 images two detections of each of 4 classes
        for scope, num, title in (
            ("class", 48, "48 detections beyond the limit of 1 per image and class, in 48 images and classes"),
            ("image", 84, "84 detections beyond the limit of 1 per image, in 12 images"),
            ("dataset", 92, "92 detections beyond the limit of 1 per class over all images, in 4 classes"),
        ):
            found = of(inspect(tmp_path, dataset, results, limits=(1,), limits_per=scope), "over-limit")
            assert (found.count, found.title) == (num, title)

    def test_what_has_no_area_is_left_out(self, tmp_path: Path) -> None:
        """LVIS drops it on both sides."""
        dataset, results = clean(3)
        for image in dataset["images"]:
            image |= {"neg_category_ids": [], "not_exhaustive_category_ids": []}
        dataset["annotations"][5]["area"] = 0
        results[5]["bbox"] = [50, 60, 0, 4]
        findings = inspect(tmp_path, dataset, results, "lvis")
        assert [of(findings, kind).effect for kind in ("zero-area", "zero-size")] == ["it is left out under lvis"] * 2
