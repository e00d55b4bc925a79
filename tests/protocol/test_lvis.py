"""The protocols lvis and lvis_fixed: files, dicts, streams and commands have the bits of `lvis` 0.5.3."""

import json
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Result, Tally, Truths
from boxscore.checks.inspector import inspect_files
from boxscore.cli import main
from boxscore.data import Coverage
from boxscore.report.contents import default_resamples
from boxscore.scaling.out_of_core import evaluate_files
from tests.support.comparisons import assert_same
from tests.support.engines import ENGINES
from tests.support.lvis_scenes import federated_scene, reference, write_lvis
from tests.support.memory_limits import plenty

Dict = dict[str, Any]


def read(files: tuple[str, str], iou_type: Any = "bbox") -> tuple[Detections, Truths]:
    """Both files."""
    truths = boxscore.read_truths(files[0], iou_type=iou_type)
    return boxscore.read_detections(files[1], truths, iou_type=iou_type), truths


def check_result(result: Result, expected: Any) -> None:
    """The 13 numbers and the curves, bit for bit; -1 is NaN here."""
    numbers = [-1 if np.isnan(number) else number for number in result.values()]
    assert numbers == [float(number) for number in expected.results.values()]
    assert len(numbers) == 13
    # curves have all classes by label; params.cat_ids is sorted, too
    assert np.array_equal(result.curves.precision[..., 0], expected.eval["precision"])
    assert np.array_equal(result.curves.recall[..., 0], expected.eval["recall"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("has_masks", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_files_have_the_bits_of_lvis(seed: int, has_masks: bool, engine: Any, tmp_path: Path) -> None:
    """Boxes, and masks that come alone: all numbers, precision and recall, in every engine."""
    iou_type = "segm" if has_masks else "bbox"
    files = write_lvis(tmp_path, *federated_scene(seed, has_masks=has_masks, has_boxes=not has_masks))
    protocol = Protocol.named("lvis", limits=(25,), iou_type=iou_type)
    check_result(boxscore.evaluate(*read(files, iou_type), protocol, engine), reference(files, iou_type, limit=25))


def test_the_limit_is_300_per_image(tmp_path: Path) -> None:
    """Over all classes."""
    files = write_lvis(tmp_path, *federated_scene(7, num_images=3, num_detections=450))
    check_result(boxscore.evaluate(*read(files), "lvis"), reference(files, "bbox"))


def test_the_area_of_a_detection_is_that_of_its_mask(tmp_path: Path) -> None:
    """As in COCO's files here, and as in detectron2, which takes the boxes away; `lvis` takes the area of the box where
    results have one, and so does the drop-in.
    """
    files = write_lvis(tmp_path, *federated_scene(1, has_masks=True))
    result = boxscore.evaluate(*read(files, "segm"), Protocol.named("lvis", iou_type="segm"))
    assert result["map_small"] != reference(files, "segm").results["APs"]
    check_result(result, reference(write_lvis(tmp_path, *federated_scene(1, has_masks=True, has_boxes=False)), "segm"))


@pytest.mark.parametrize("value", [1, True, 0.5, -1, "yes", [0]])
def test_ignore_in_annotations_is_refused(value: object, tmp_path: Path) -> None:
    """The lvis package ignores such truths, and so does the drop-in; protocol lvis has no such rule."""
    dataset, results = federated_scene(1)
    plain = reference(write_lvis(tmp_path, dataset, results), "bbox").results["AP"]
    for annotation in dataset["annotations"][7:]:
        annotation["ignore"] = value
    files = write_lvis(tmp_path, dataset, results)
    assert reference(files, "bbox").results["AP"] != plain
    with pytest.raises(InputError, match=r"annotation 7 \(id \d+\): `ignore` must be 0 .* boxscore\.lvis"):
        boxscore.read_truths(files[0])


@pytest.mark.parametrize("value", [0, 0.0, False, None, "", []])
def test_ignore_that_is_not_set_changes_nothing(value: object, tmp_path: Path) -> None:
    """As in the lvis package."""
    dataset, results = federated_scene(1)
    for annotation in dataset["annotations"]:
        annotation["ignore"] = value
    files = write_lvis(tmp_path, dataset, results)
    check_result(boxscore.evaluate(*read(files), "lvis"), reference(files, "bbox"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """What a command ends with and prints."""
    status = main([*arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_command_gives_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Boxes and masks."""
    for iou_type, kind in (("bbox", {}), ("segm", {"has_masks": True, "has_boxes": False})):
        files = write_lvis(tmp_path, *federated_scene(2, **kind))
        output = tmp_path / f"{iou_type}.json"
        arguments = ("eval", *files, "--protocol", "lvis", "--iou-type", iou_type, "--json", str(output))
        assert run(capsys, *arguments)[0] == 0
        result = json.loads(output.read_text())
        expected = [None if number == -1 else number for number in reference(files, iou_type).results.values()]
        assert [result[name] for name in boxscore.evaluate(*read(files, iou_type), "lvis")] == expected


class TestFixed:
    """LVIS' fixed AP: the best detections of each class over the dataset (Dave et al. 2021)."""

    PROTOCOL = Protocol.named("lvis_fixed", limits=(12,))

    @staticmethod
    def scene(seed: int, folder: Path) -> tuple[tuple[str, str], Any]:
        """Files without equal scores, and what `lvis` gives for the 12 best of each class, however many in an image."""
        dataset, results = federated_scene(seed)
        random = np.random.default_rng(seed)
        for row in results:
            row["score"] = float(random.random())
        of_class = defaultdict(list)
        for row in sorted(results, key=lambda row: -row["score"]):
            of_class[row["category_id"]].append(row)
        best = [row for rows in of_class.values() for row in rows[:12]]
        files = write_lvis(folder, dataset, results)
        return files, reference(files, "bbox", results=best, limit=-1)

    def test_there_is_one_limit_of_10_000(self) -> None:
        """And none per image."""
        protocol = Protocol.named("lvis_fixed")
        assert (protocol.limits, protocol.limits_per) == ((10_000,), "dataset")

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_lvis_after_a_cut_per_class(self, seed: int, engine: Any, tmp_path: Path) -> None:
        """Detections of classes that were not verified take places, too: the cut knows no truths."""
        files, expected = self.scene(seed, tmp_path)
        check_result(boxscore.evaluate(*read(files), self.PROTOCOL, engine), expected)

    def test_it_works_from_tallies(self, tmp_path: Path) -> None:
        """Of parts that were merged, stored or sent: the cut is made when they are finished."""
        files, expected = self.scene(3, tmp_path)
        detections, truths = read(files)
        parts = [
            boxscore.match(*boxscore.formats.select(detections, truths, images=images), self.PROTOCOL)
            for images in ([2, 22, 37], [7, 32], [12, 17, 27])
        ]
        merged = parts[0].merge(*parts[1:])
        parts[0].save(tmp_path / "tally")
        for tally in (
            merged,
            parts[2].merge(parts[0], parts[1]),
            Tally.load(tmp_path / "tally").merge(*parts[1:]),
            Tally.from_arrow(merged.to_arrow()),
            pickle.loads(pickle.dumps(merged)),
        ):
            check_result(boxscore.finish(tally), expected)
        check_result(boxscore.finish(parts), expected)

    @pytest.mark.parametrize("is_tight", [False, True], ids=["one shard", "shards and bins"])
    @pytest.mark.parametrize("protocol", ["lvis", "lvis_fixed"])
    def test_tables_in_parts_have_the_bits_of_one_evaluation(
        self, protocol: str, is_tight: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Parquet files keep lists, groups and images without truths; limits over the dataset are by class."""
        if is_tight:
            monkeypatch.setattr("boxscore.scaling.out_of_core.MATCH_BYTES", 2**26)
            monkeypatch.setattr("boxscore.scaling.out_of_core.FINISH_BYTES", 2**24)
        files, _ = self.scene(3, tmp_path)
        detections, truths = read(files)
        paths = tmp_path / "detections.parquet", tmp_path / "truths.parquet"
        boxscore.write_detections(paths[0], detections, truths)
        assert not boxscore.write_truths(paths[1], truths)
        rules = boxscore.Protocol.named(protocol, limits=(5,))
        expected = boxscore.evaluate(detections, truths, rules)
        result = evaluate_files(*paths, rules, memory=plenty())
        assert expected["map"] > 0
        assert_same(result, expected)
        assert str(result.per_class) == str(expected.per_class)


class TestStreams:
    """Dicts with lists of labels, batch by batch: the bits of one evaluation."""

    GROUPS: ClassVar = {1: "rare", 4: "common", 7: "frequent", 10: "rare", 13: "common", 16: "frequent", 19: "rare"}

    @staticmethod
    def dicts(seed: int, *, kind: Callable[[Any], Any] = np.array) -> tuple[Dict, list[Dict], list[Dict], list[Dict]]:
        """A dataset, results, and one dict per image of each."""
        dataset, results = federated_scene(seed)
        preds, targets = [], []
        for image in dataset["images"]:
            own, there = (
                [row for row in rows if row["image_id"] == image["id"]] for rows in (results, dataset["annotations"])
            )
            preds.append(
                {
                    "boxes": np.array([row["bbox"] for row in own]).reshape(-1, 4),
                    "scores": np.array([row["score"] for row in own]),
                    "labels": np.array([row["category_id"] for row in own], np.int64),
                }
            )
            targets.append(
                {
                    "boxes": np.array([row["bbox"] for row in there]).reshape(-1, 4),
                    "labels": np.array([row["category_id"] for row in there], np.int64),
                    "area": np.array([row["area"] for row in there], np.float64),
                    "image_id": image["id"],
                    **{key: kind(image[key]) for key in ("neg_category_ids", "not_exhaustive_category_ids")},
                }
            )
        return dataset, results, preds, targets

    def metric(self, **settings: Any) -> MeanAveragePrecision:
        """A metric of all classes."""
        names = {label: f"class {label}" for label in self.GROUPS}
        return MeanAveragePrecision(
            settings.pop("protocol", "lvis"),
            **{"box_format": "xywh", "class_names": names, "class_groups": self.GROUPS, "warn": False, **settings},
        )

    def expected(self, dataset: Dict, results: list[Dict], folder: Path) -> Any:
        """What `lvis` gives, with these groups."""
        for category in dataset["categories"]:
            category["frequency"] = self.GROUPS[category["id"]][0]
        return reference(write_lvis(folder, dataset, results), "bbox")

    @pytest.mark.parametrize("kind", [list, set, np.array], ids=["list", "set", "array"])
    @pytest.mark.parametrize("size", [1, 3, 8])
    def test_batches_have_the_bits_of_one_evaluation(self, size: int, kind: Any, tmp_path: Path) -> None:
        """Which are those of lvis."""
        dataset, results, preds, targets = self.dicts(4, kind=kind)
        metric = self.metric()
        for start in range(0, len(preds), size):
            metric.update(preds[start : start + size], targets[start : start + size])
        check_result(metric.compute(), self.expected(dataset, results, tmp_path))

    def test_metrics_can_be_merged_and_restored(self, tmp_path: Path) -> None:
        """With the groups of classes."""
        dataset, results, preds, targets = self.dicts(5)
        first, second = self.metric(), self.metric()
        first.update(preds[:3], targets[:3])
        second.update(preds[3:], targets[3:])
        expected = self.expected(dataset, results, tmp_path)
        check_result(first.merge(second).compute(), expected)
        other = self.metric()
        other.load_state_dict(first.state_dict())
        other.update(preds[3:], targets[3:])
        check_result(other.compute(), expected)

    def test_columns_and_dicts_are_the_same(self) -> None:
        """`Truths.from_images` has the coverage of the file."""
        _, _, preds, targets = self.dicts(6)
        ids = [target["image_id"] for target in targets]
        detections = Detections.from_images(preds, image_ids=ids, box_format="xywh")
        truths = Truths.from_images(targets, image_ids=ids, box_format="xywh")
        assert truths.coverage is not None
        metric = self.metric(class_names=None, class_groups=None)
        metric.update(preds, targets)
        assert_same(metric.compute(), boxscore.evaluate(detections, truths, "lvis"))
        again = self.metric(class_names=None, class_groups=None)
        again.update(detections, truths)
        assert_same(metric.compute(), again.compute())

    def test_not_exhaustive_lists_may_be_left_out(self) -> None:
        """Then every class was annotated exhaustively."""
        box, labels = np.array([[0.0, 0, 9, 9]]), np.array([1])
        truths = Truths.from_images([{"boxes": box, "labels": labels, "neg_category_ids": [5, 3, 5]}])
        assert truths.coverage is not None
        assert (truths.coverage.labels.tolist(), truths.coverage.image_ids.tolist()) == ([5, 3], [0, 0])
        assert truths.coverage.is_exhaustive is not None
        assert truths.coverage.is_exhaustive.all()

    def test_groups_of_classes_are_for_any_protocol_that_has_them(self) -> None:
        """Also where batches are matched in one step."""
        box = np.array([[0.0, 0, 9, 9]])
        protocol = Protocol.named("coco", class_groups=("rare",))
        metric = MeanAveragePrecision(protocol, class_groups={1: "rare"}, warn=False)
        image = {"boxes": box, "labels": np.array([1]), "scores": np.array([0.9])}
        metric.update([image], [image])
        assert metric.compute()["map_rare"] == metric.compute()["map"] > 0.99

    def test_bad_lists_are_errors(self) -> None:
        """All images have them, or none; of integers."""
        box = {"boxes": np.array([[0.0, 0, 9, 9]]), "labels": np.array([1])}
        listed = {**box, "neg_category_ids": [3]}
        pred = {**box, "scores": np.array([0.5])}
        for targets, message in (
            ([box, box], "`coverage` must be given for the truths: protocol lvis"),
            ([listed, box], r"targets\[1\] must have the key 'neg_category_ids', as other images do"),
            ([{**box, "not_exhaustive_category_ids": [3]}] * 2, r"targets\[0\] must have the key 'neg_category_ids'"),
            ([listed, {**box, "neg_category_ids": [0.5]}], r"targets\[1\]: `neg_category_ids` must"),
            ([listed, {**box, "neg_category_ids": 7}], r"targets\[1\]: `neg_category_ids` must have one dimension"),
            ([listed, {**box, "negative_category_ids": [7]}], r"targets\[1\] must not have the key"),
        ):
            metric = MeanAveragePrecision("lvis", warn=False)
            with pytest.raises(InputError, match=message):
                metric.update([pred, pred], targets)
            assert len(metric.tally) == 0
        padded = {"boxes": np.zeros((1, 1, 4)), "labels": np.array([[1]])}
        with pytest.raises(InputError, match=r"`targets` must have no keys but .* got 'neg_category_ids'"):
            MeanAveragePrecision("lvis").update(
                {**padded, "scores": np.array([[0.5]])}, {**padded, "neg_category_ids": [[3]]}
            )


class TestFiles:
    """LVIS JSON as it is published, and what is wrong with other files."""

    def test_the_lists_become_coverage(self, tmp_path: Path) -> None:
        """A class that is not exhaustive counts if it was verified: 3 and 4 have no truth, 5 has one."""
        lists = {"neg_category_ids": [2, 4], "not_exhaustive_category_ids": [3, 4, 5]}
        image = {"id": 9, "coco_url": "http://images.cocodataset.org/val2017/000000000009.jpg", **lists}
        annotation = {"id": 1, "image_id": 9, "category_id": 5, "bbox": [0, 0, 9, 9], "area": 80}
        categories = [{"id": label, "name": f"{label}", "frequency": "rcf"[label % 3]} for label in range(1, 6)]
        dataset = {"images": [image], "annotations": [annotation], "categories": categories}
        truths = boxscore.read_truths(write_lvis(tmp_path, dataset, [])[0])
        coverage = truths.coverage
        assert coverage is not None
        assert coverage.is_exhaustive is not None
        rows = zip(coverage.labels.tolist(), coverage.is_exhaustive.tolist(), strict=True)
        assert sorted(rows) == [(2, True), (4, False), (5, False)]
        assert set(coverage.image_ids.tolist()) == {9}
        assert truths.class_groups == {1: "common", 2: "frequent", 3: "rare", 4: "common", 5: "frequent"}
        assert truths.image_names == {9: "000000000009.jpg"}

    def test_images_may_be_identified_by_names(self, tmp_path: Path) -> None:
        """As COCO's may."""
        dataset, results = federated_scene(4)
        files = write_lvis(tmp_path, dataset, results)
        expected = boxscore.evaluate(*read(files), "lvis")
        for row in (*dataset["annotations"], *results):
            row["image_id"] = f"image {row['image_id']:03}"
        for image in dataset["images"]:
            image["id"] = f"image {image['id']:03}"
        dataset["images"].reverse()
        found = boxscore.evaluate(*read(write_lvis(tmp_path, dataset, results)), "lvis")
        assert [*found.values()] == pytest.approx([*expected.values()], nan_ok=True)

    @pytest.mark.parametrize(
        ("part", "row", "key", "value", "message"),
        [
            ("images", 3, "neg_category_ids", None, r"truths.json: image 3 \(id 17\) must have `neg_category_ids`"),
            ("images", 3, "not_exhaustive_category_ids", None, r"image 3 \(id 17\) must have `not_exhaustive_category"),
            (
                "images",
                2,
                "neg_category_ids",
                7,
                r"truths.json: image 2.*`neg_category_ids` must be a list of integers",
            ),
            ("images", 2, "neg_category_ids", [1, "x"], "image 2.*`neg_category_ids` must be a list of integers"),
            ("images", 2, "not_exhaustive_category_ids", [1.5], "image 2.*must be a list of integers"),
            ("categories", 1, "frequency", None, r"truths.json: category 1 \(id 16\): `frequency` must be r, c or f"),
            ("categories", 1, "frequency", "q", r"category 1 \(id 16\): `frequency` must be r, c or f.*; got 'q'"),
            ("categories", 1, "frequency", 5, "truths.json: category 1.*`frequency` must be a string"),
        ],
    )
    def test_errors_name_the_file_and_the_position(
        self, part: str, row: int, key: str, value: Any, message: str, tmp_path: Path
    ) -> None:
        """Also where other images and classes are as they should be."""
        dataset, results = federated_scene(4)
        dataset[part][row][key] = value
        if value is None:
            del dataset[part][row][key]
        with pytest.raises(InputError, match=message):
            boxscore.read_truths(write_lvis(tmp_path, dataset, results)[0])

    def test_a_file_without_lists_is_no_lvis_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """It is COCO's, and can be read; but the protocol needs to know which classes were verified."""
        dataset, results = federated_scene(4)
        for image in dataset["images"]:
            del image["neg_category_ids"], image["not_exhaustive_category_ids"]
        files = write_lvis(tmp_path, dataset, results)
        assert read(files)[1].coverage is None
        for protocol in ("lvis", "lvis_fixed"):
            with pytest.raises(InputError, match="`neg_category_ids`"):
                boxscore.evaluate(*read(files), protocol)
        status, _, said = run(capsys, "eval", *files, "--protocol", "lvis")
        assert (status != 0, "neg_category_ids" in said) == (True, True)

    def test_written_files_can_be_evaluated_again(self, tmp_path: Path) -> None:
        """By us and by lvis; nothing is lost."""
        for seed in range(4):
            dataset, results = federated_scene(seed)
            files = write_lvis(tmp_path, dataset, results)
            assert boxscore.write_truths(tmp_path / "again.json", read(files)[1], overwrite=True) == ()
            again = str(tmp_path / "again.json"), files[1]
            expected = reference(files, "bbox")
            check_result(boxscore.evaluate(*read(again), "lvis"), expected)
            assert dict(reference(again, "bbox").results) == dict(expected.results)

    def test_the_command_converts_them(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """To COCO JSON with all that it has, to others with a warning."""
        files = write_lvis(tmp_path, *federated_scene(4))
        assert run(capsys, "convert", files[0], str(tmp_path / "again.json"))[2] == ""
        assert boxscore.read_truths(tmp_path / "again.json").coverage is not None
        said = run(capsys, "convert", files[0], str(tmp_path / "truths.csv"))[2]
        assert "coverage rows are lost" in said
        assert "7 groups of classes are lost" in said

    def test_groups_that_are_not_those_of_lvis_are_lost(self, tmp_path: Path) -> None:
        """So are those of a part of the classes."""
        for groups in ({1: "huge", 2: "rare"}, {1: "rare"}):
            truths = Truths(image_ids=[0, 0], labels=[1, 2], boxes=[[0, 0, 9, 9]] * 2, class_groups=groups)
            losses = boxscore.write_truths(tmp_path / "truths.json", truths, overwrite=True)
            assert [(loss.num, loss.what) for loss in losses] == [(len(groups), "group of a class")]

    def test_images_that_have_coverage_alone_are_written(self, tmp_path: Path) -> None:
        """With both lists, one of which may be empty."""
        coverage = Coverage(image_ids=[5, 7], labels=[1, 1], is_exhaustive=[True, False])
        truths = Truths(image_ids=[3], labels=[1], boxes=[[0, 0, 9, 9]], coverage=coverage)
        boxscore.write_truths(tmp_path / "truths.json", truths)
        images = json.loads((tmp_path / "truths.json").read_text())["images"]
        assert [(image["id"], image["neg_category_ids"], image["not_exhaustive_category_ids"]) for image in images] == [
            (3, [], []),
            (5, [1], []),
            (7, [1], [1]),
        ]

    def test_a_selection_has_its_own_coverage(self, tmp_path: Path) -> None:
        """Of its images and classes; the numbers are those of lvis with these."""
        files = write_lvis(tmp_path, *federated_scene(4))
        detections, truths = boxscore.formats.select(*read(files), images=[2, 7, 22], classes=[1, 4, 10])
        assert truths.coverage is not None
        assert set(truths.coverage.image_ids.tolist()) <= {2, 7, 22}
        assert set(truths.coverage.labels.tolist()) <= {1, 4, 10}
        assert truths.class_groups is not None
        assert set(truths.class_groups) == {1, 4, 10}
        expected = reference(files, "bbox", img_ids=[2, 7, 22], cat_ids=[1, 4, 10])
        check_result(boxscore.evaluate(detections, truths, "lvis"), expected)

    def test_slices_are_evaluations_of_their_images(self, tmp_path: Path) -> None:
        """Every number of a slice is that of lvis on its images."""
        files = write_lvis(tmp_path, *federated_scene(5))
        groups = {image: "odd" if image % 2 else "even" for image in range(2, 40, 5)}
        parts = boxscore.analysis.slices(boxscore.evaluate(*read(files), "lvis"), groups)
        for name, part in parts.items():
            images = [image for image, group in groups.items() if group == name]
            check_result(part, reference(files, "bbox", img_ids=images))
            assert part.inputs is not None
            assert part.inputs.truths.coverage is not None
            assert set(part.inputs.truths.coverage.image_ids.tolist()) <= set(images)

    def test_a_good_file_raises_no_alarm(self, tmp_path: Path) -> None:
        """No crowds, no file names, classes without truths: LVIS' files are so."""
        dataset, _ = federated_scene(4, num_classes=4)
        box = {"bbox": [5.0, 5.0, 20.0, 30.0], "area": 500.0}
        for number, ann in enumerate(dataset["annotations"]):
            ann.pop("iscrowd", None)
            ann |= box | {"bbox": [5.0 + number % 7, 5.0 + number % 3, 20.0, 30.0]}
        annotated = {(ann["image_id"], ann["category_id"]) for ann in dataset["annotations"]}
        for image in dataset["images"]:
            negative = image["neg_category_ids"]
            image["neg_category_ids"] = [label for label in negative if (image["id"], label) not in annotated]
        results = [
            {"image_id": ann["image_id"], "category_id": ann["category_id"], "bbox": ann["bbox"], "score": 0.9}
            for ann in dataset["annotations"]
        ]
        files = write_lvis(tmp_path, dataset, results)
        findings = inspect_files(files[0], [files[1]], Protocol.named("lvis"))
        assert {finding.severity for finding in findings} <= {"note"}


class TestALimitOverTheDataset:
    """Every analysis has the detections within the limit; what would need another limit says so."""

    @pytest.fixture
    def result(self) -> boxscore.Result:
        """Two images with three detections of a class each, of which two in all count."""
        truths = boxscore.Truths(image_ids=[0, 1], labels=[1, 1], boxes=[[0, 0, 10, 10]] * 2)
        box = [[0, 0, 10, 10], [50, 50, 60, 60], [70, 70, 80, 80]] * 2
        score = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
        found = boxscore.Detections(image_ids=[0, 0, 0, 1, 1, 1], labels=[1] * 6, scores=score, boxes=box)
        protocol = boxscore.Protocol.named("lvis_fixed", federated=False, limits=(2,))
        return boxscore.evaluate(found, truths, protocol)

    def test_numbers_and_analyses_agree(self, result: boxscore.Result) -> None:
        """One true and one false positive; the second truth is not found."""
        assert (result.per_class.num_true[0, 0], result.per_class.num_false[0, 0]) == (1, 1)
        confusion = result.confusion(score=0.0)
        assert confusion.matrix.sum() == 3  # a pair, a false positive, a truth that is not found
        errors = result.errors()
        assert (errors.num_false, errors.num_unfound) == (1, 1)
        assert result.calibration(bins=1, iou=0.53).count.sum() == 2
        assert result.worst_images(score=0.0).num_false.tolist() == [1, 0]

    def test_a_slice_has_a_limit_of_its_own(self, result: boxscore.Result) -> None:
        """As if its images were all there are."""
        parts = boxscore.analysis.slices(result, {0: "a", 1: "b"})
        assert parts["b"]["mar_2"] == 1
        assert parts["b"].per_class.num_detections.tolist() == [2]

    def test_resamples_are_refused(self, result: boxscore.Result) -> None:
        """The report has none, then."""
        with pytest.raises(boxscore.InputError, match="protocol lvis_fixed has no confidence intervals: its limit"):
            result.intervals()
        assert default_resamples(result) == 0
        assert "<title>boxscore</title>" in result.to_html()
