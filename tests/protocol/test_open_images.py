"""Open Images: TensorFlow's evaluator and its expansion of labels as oracles; each published rule by hand; files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.cli import main
from boxscore.data import Coverage
from boxscore.formats.hierarchy import read_hierarchy
from boxscore.protocol.protocol import GROUP, REGULAR
from tests.support import oracles
from tests.support.engines import ENGINES
from tests.support.open_images_files import LABELS, NAMES, RESULTS, TRUTHS, write_all
from tests.support.open_images_scenes import random_open_images, tensorflow_numbers
from tests.support.small_files import refused, rows_of, write

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("engine", ["native", "parallel", "sequential"])
@pytest.mark.parametrize("group_of_weight", [1, 0])
def test_numbers_are_those_of_tensorflow(engine: Any, group_of_weight: int) -> None:
    """Per class and in the mean, to the last bit, where no two scores are equal: it sorts unstably."""
    protocol = Protocol.named("openimages", group_of_weight=group_of_weight)
    for seed in range(60 if engine == "native" else 6):
        scene = random_open_images(seed)
        ap, mean = tensorflow_numbers(scene, group_of_weight=group_of_weight)
        result = boxscore.evaluate(scene.detections, scene.truths, protocol, engine)
        assert np.array_equal(result.per_class.ap, ap, equal_nan=True), seed
        assert np.array_equal(result["map"], mean, equal_nan=True), seed


CAT, OTHER_CAT, CATS = (0, 0, 10, 10), (0, 50, 10, 60), (20, 0, 60, 40)
IN_CATS, ALSO_IN_CATS = (20, 0, 30, 10), (50, 20, 60, 30)


def found(*boxes: tuple[float, float, float, float], image: int = 0) -> Detections:
    """Detections of class 0 in one image, with scores 0.9, 0.8, …"""
    num = len(boxes)
    score = np.linspace(0.9, 0.9 - 0.1 * (num - 1), num)
    return Detections(image_ids=[image] * num, labels=[0] * num, scores=score, boxes=np.array(boxes, float))


def annotated(*boxes: tuple[float, float, float, float], groups: int = 0, **coverage: Any) -> Truths:
    """Truths of class 0 in image 0, the last ones of them groups."""
    kind = [REGULAR] * (len(boxes) - groups) + [GROUP] * groups
    verified = Coverage(**coverage or {"image_ids": [], "labels": []})
    box, num = np.array(boxes, float).reshape(-1, 4), len(boxes)
    return Truths(image_ids=[0] * num, labels=[0] * num, boxes=box, kind=kind, coverage=verified, class_names=["Cat"])


def average_precision(detections: Detections, truths: Truths, engine: Any, **changes: Any) -> float:
    """Under Open Images' rules, with some changes."""
    return boxscore.evaluate(detections, truths, Protocol.named("openimages", **changes), engine)["map"]


@pytest.mark.parametrize("engine", ENGINES)
class TestByHand:
    """The published rules, two or three boxes each."""

    def test_a_second_detection_of_a_truth_is_false(self, engine: Any) -> None:
        """True, false, true: precision 1 up to recall 1/2, then 2/3, which makes 1/2 + 1/2 * 2/3 = 5/6."""
        value = average_precision(found(CAT, CAT, OTHER_CAT), annotated(CAT, OTHER_CAT), engine)
        assert value == pytest.approx(5 / 6, abs=1e-15)

    def test_a_class_that_was_not_verified_does_not_count(self, engine: Any) -> None:
        """The first detection is in image 1, where nobody verified cats: it is left out. The second is true: 1. Had
        somebody looked in vain, it would be false, and the precision at the second 1/2.
        """
        first, second = found(CAT, image=1), found(CAT)
        both = Detections(
            image_ids=[1, 0], labels=[0, 0], scores=[0.9, 0.8], boxes=np.concatenate([first.boxes, second.boxes])
        )
        assert average_precision(both, annotated(CAT), engine) == 1
        assert average_precision(both, annotated(CAT, image_ids=[1], labels=[0]), engine) == 0.5

    def test_a_group_counts_once(self, engine: Any) -> None:
        """The first in the group is true, the second is ignored, the third is true at the cat, the fourth is false:
        2 truths, both found before the false one: 1. With weight 0 both in the group are ignored; one truth is left.
        """
        detections = found(IN_CATS, ALSO_IN_CATS, CAT, (80, 80, 90, 90))
        truths = annotated(CAT, CATS, groups=1)
        for weight in (1, 0):
            assert average_precision(detections, truths, engine, group_of_weight=weight) == 1
        tally = boxscore.match(detections, truths, "openimages", engine)
        assert tally.sorted().verdict[:, 0, 0].tolist() == [2, 0, 2, 1]
        assert tally.num_truths.tolist() == [[2]]

    def test_a_group_that_is_missed_is_a_truth_that_is_missed(self, engine: Any) -> None:
        """One of two truths is found: 1/2. With weight 0 it is one of one."""
        truths = annotated(CAT, CATS, groups=1)
        assert average_precision(found(CAT), truths, engine) == 0.5
        assert average_precision(found(CAT), truths, engine, group_of_weight=0) == 1

    def test_half_of_a_detection_must_be_in_the_group(self, engine: Any) -> None:
        """Whatever part of the group that is: 50 of 100 is enough, 40 is not."""
        truths = annotated(CATS, groups=1)
        assert average_precision(found((15, 0, 25, 10)), truths, engine) == 1
        assert average_precision(found((14, 0, 24, 10)), truths, engine) == 0

    def test_a_detection_without_area_is_left_out(self, engine: Any) -> None:
        """It comes first, and would halve the precision."""
        assert average_precision(found((5, 5, 5, 9), CAT), annotated(CAT), engine) == 1


def test_groups_are_of_kind_3_and_flags_that_are_unknown_are_not(tmp_path: Path) -> None:
    """-1 is no group; written files read back."""
    truths = boxscore.read_truths(write_all(tmp_path)["truths"], sizes={"a": (100, 100), "b": (50, 10)})
    assert np.asarray(truths.kind).tolist() == [REGULAR, GROUP, REGULAR]
    lost = boxscore.write_truths(tmp_path / "again.csv", truths, format="openimages")
    assert [str(each) for each in lost] == ["3 class ids are lost"]
    again = boxscore.read_truths(tmp_path / "again.csv", sizes={"a": (100, 100), "b": (50, 10)})
    assert np.asarray(again.kind).tolist() == [REGULAR, GROUP, REGULAR]
    lost = boxscore.write_truths(tmp_path / "again.json", truths)
    assert "1 group (IsGroupOf) becomes a regular truth" in [str(each) for each in lost]
    plain = write(tmp_path / "plain.csv", TRUTHS.replace("0,1,1,0", "0,1,0,0"))
    assert boxscore.read_truths(plain).kind is None


def test_a_table_of_another_kind_keeps_its_flags(tmp_path: Path) -> None:
    """Where the header is not that of Open Images, `IsGroupOf` marks what is ignored."""
    table = "image,label,x1,y1,x2,y2,IsGroupOf\na,cat,0,0,5,5,1\na,cat,0,0,5,5,-1\n"
    truths = boxscore.read_truths(write(tmp_path / "t.csv", table))
    assert truths.kind is None
    assert np.asarray(truths.ignore).tolist() == [True, False]


@pytest.mark.parametrize("protocol", ["voc2007", "voc2012", "coco"])
def test_groups_need_a_rule(tmp_path: Path, protocol: Any, capsys: Captured) -> None:
    """In Python and in the command, which says where they are and what to do."""
    files = write_all(tmp_path)
    truths = boxscore.read_truths(files["truths"], image_labels=files["labels"], names=files["names"])
    detections = found(CAT)
    message = f"`kind` of truth 1 is 3, a group, for which protocol {protocol} has no rule: evaluate under openimages"
    refused(lambda: boxscore.evaluate(detections, truths, protocol), message)
    arguments = ["eval", str(files["truths"]), str(files["detections"]), "--unmatched", "warn", "--protocol", protocol]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert f"{files['truths']}: has 1 group of objects (`IsGroupOf` of Open Images), for which protocol" in error
    assert "evaluate with --protocol openimages, or leave these rows out" in error


class TestImageLabels:
    """Verified classes."""

    def test_images_and_classes_with_labels_alone_are_part_of_the_data(self, tmp_path: Path) -> None:
        """Image c has no boxes, and animals were verified there."""
        files = write_all(tmp_path)
        truths = boxscore.read_truths(files["truths"], image_labels=files["labels"])
        assert truths.image_names == {0: "a", 1: "b", 2: "c"}
        assert truths.names_by_label == dict(enumerate(["/m/animal", "/m/cat", "/m/pug", "/m/tree"]))
        assert truths.coverage is not None
        assert [*zip(truths.coverage.image_ids.tolist(), truths.coverage.labels.tolist(), strict=True)] == [
            *((0, 1), (0, 2), (1, 3), (2, 0))
        ]
        assert boxscore.read_truths(files["truths"]).coverage is None

    def test_integers_are_names_too(self, tmp_path: Path) -> None:
        """ImageIDs that all look like numbers."""
        path = write(tmp_path / "t.csv", "ImageID,LabelName,XMin,XMax,YMin,YMax\n7,1,0,0.5,0,0.5\n")
        labels = write(tmp_path / "l.csv", "ImageID,LabelName,ConfidenceImageLabel\n8,2,1\n7,1,0\n")
        truths = boxscore.read_truths(path, image_labels=labels)
        assert truths.image_names == {0: "7", 1: "8"}
        assert truths.names_by_label == {0: "1", 1: "2"}
        assert truths.coverage is not None
        assert truths.coverage.image_ids.tolist() == [1, 0]

    def test_truths_of_another_format_have_them_for_the_images_that_they_list(self, tmp_path: Path) -> None:
        """COCO's ids and list of images stay; the label of an image that it does not list says nothing."""
        dataset = {
            "images": [{"id": 5, "file_name": "a.jpg", "width": 10, "height": 10}],
            "categories": [{"id": 9, "name": "/m/cat"}],
            "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "bbox": [0, 0, 5, 5]}],
        }
        path = write(tmp_path / "t.json", json.dumps(dataset))
        truths = boxscore.read_truths(path, image_labels=write(tmp_path / "l.csv", LABELS))
        assert truths.coverage is not None
        assert (truths.coverage.image_ids.tolist(), truths.coverage.labels.tolist()) == ([5], [9])
        assert truths.image_names == {5: "a.jpg"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("ImageID,LabelName\na,/m/cat\n", "must have a column with the verdict on the label (confidence, "),
            (
                "ImageID,LabelName,Confidence\na,/m/cat,0.7\n",
                "line 2: `confidence` must be 1, the class is in the image, or 0, it is not: labels that people"
                " verified; got '0.7'",
            ),
            ("ImageID,LabelName,Confidence\na,,1\n", "line 2: `labelname` must be an id or a name; got ''"),
            ("ImageID,Confidence\na,1\n", "must have a column with the class"),
            ("", "must have a header; got an empty first line"),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path: Path, text: str, message: str) -> None:
        """With the file and the line."""
        path = write(tmp_path / "t.csv", TRUTHS)
        labels = write(tmp_path / "l.csv", text)
        refused(lambda: boxscore.read_truths(path, image_labels=labels), message)
        refused(lambda: boxscore.read_truths(path, image_labels=labels), str(labels))
        refused(lambda: boxscore.read_truths(path, image_labels=7), "`image_labels` must be the path of a CSV file")  # type: ignore[arg-type]

    def test_without_them_the_protocol_says_what_is_missing(self, tmp_path: Path, capsys: Captured) -> None:
        """In Python and in the command."""
        files = write_all(tmp_path)
        truths = boxscore.read_truths(files["truths"])
        detections = found(CAT)
        message = "`image_labels` of `read_truths` reads Open Images'"
        refused(lambda: boxscore.evaluate(detections, truths, "openimages"), message)
        assert main(["eval", str(files["truths"]), str(files["detections"]), "--protocol", "openimages"]) == 1
        assert "--image-labels reads Open Images' verified labels" in capsys.readouterr().err


class TestHierarchy:
    """Expansion to the classes above."""

    def test_rows_count_for_all_classes_above(self, tmp_path: Path) -> None:
        """A cat is an animal and a pet, and the root is no class. A limb is no cat, a tail is a limb; the tree and the
        dog have their places in the tree, where their being parts changes nothing.
        """
        files = write_all(tmp_path)
        tree = read_hierarchy(files["tree"])
        assert tree.ancestors == {
            "/m/animal": (),
            "/m/cat": ("/m/animal", "/m/pet"),
            "/m/dog": ("/m/animal",),
            "/m/pug": ("/m/dog", "/m/animal"),
            "/m/pet": (),
            "/m/tree": (),
            "/m/limb": (),
            "/m/tail": ("/m/limb",),
        }
        assert tree.descendants["/m/animal"] == ("/m/cat", "/m/dog", "/m/pug")
        assert tree.descendants["/m/limb"] == ("/m/tail",)
        options = {"hierarchy": files["tree"], "names": files["names"]}
        truths = boxscore.read_truths(files["truths"], image_labels=files["labels"], **options)
        assert [row[:2] for row in rows_of(truths, truths)] == [
            *(("a", "Cat"), ("a", "Animal"), ("a", "Pet"), ("a", "Pug"), ("a", "Dog"), ("a", "Animal"), ("b", "Tree"))
        ]
        assert np.asarray(truths.kind).tolist() == [0, 0, 0, 3, 3, 3, 0]
        assert truths.names_by_label == dict(enumerate(sorted([*NAMES.values(), "/m/limb", "/m/tail"])))
        detections = boxscore.read_detections(files["detections"], truths, **options)
        assert [(*row[:2], row[-1]) for row in rows_of(detections, truths)] == [
            *(("a", "Cat", 0.9), ("a", "Animal", 0.9), ("a", "Pet", 0.9), ("a", "Dog", 0.8), ("a", "Animal", 0.8)),
            *(("b", "Tree", 0.7), ("c", "Cat", 0.6), ("c", "Animal", 0.6), ("c", "Pet", 0.6)),
        ]
        # Animals were verified as absent from image c, so cats, dogs and pugs were; whether pets were nobody knows.
        result = boxscore.evaluate(detections, truths, "openimages")
        false = {row.name: row.num_false[0] for row in result.per_class.rows()}
        assert false == {"Animal": 1, "Cat": 1, "Dog": 0, "Pet": 0, "Pug": 0, "Tree": 0, "/m/limb": 0, "/m/tail": 0}

    def test_labels_may_be_written_as_names(self, tmp_path: Path) -> None:
        """By the same descriptions."""
        files = write_all(tmp_path)
        named = write(tmp_path / "named.csv", RESULTS.replace("/m/cat", "Cat"))
        options = {"hierarchy": files["tree"], "names": NAMES}
        truths = boxscore.read_truths(files["truths"], image_labels=files["labels"], **options)
        expected = boxscore.read_detections(files["detections"], truths, **options)
        assert rows_of(boxscore.read_detections(named, truths, **options), truths) == rows_of(expected, truths)

    def test_ids_and_mapped_classes_are_found_by_the_names_of_the_truths(self, tmp_path: Path) -> None:
        """A COCO results file has ids; `map_classes` comes before the expansion."""
        files = write_all(tmp_path)
        truths = boxscore.read_truths(
            files["truths"], image_labels=files["labels"], hierarchy=files["tree"], sizes=dict.fromkeys("abc", (9, 9))
        )
        labels = {name: label for label, name in (truths.names_by_label or {}).items()}
        result = {"image_id": "a", "category_id": labels["/m/pug"], "bbox": [0, 0, 4, 4], "score": 0.5}
        path = write(tmp_path / "d.json", json.dumps([result]))
        found = boxscore.read_detections(path, truths, hierarchy=files["tree"])
        assert [row[1] for row in rows_of(found, truths)] == ["/m/pug", "/m/dog", "/m/animal"]
        odd = write(tmp_path / "odd.csv", RESULTS.replace("/m/dog", "hound"))
        mapped = boxscore.read_detections(odd, truths, hierarchy=files["tree"], map_classes={"hound": "/m/dog"})
        assert [row[1] for row in rows_of(mapped, truths)][3:5] == ["/m/dog", "/m/animal"]

    def test_what_was_expanded_stays(self, tmp_path: Path) -> None:
        """Truths and detections in which every row has its ancestors already; if one misses one, all are expanded."""
        files = write_all(tmp_path)
        truths = boxscore.read_truths(files["truths"], hierarchy=files["tree"])
        sizes = dict.fromkeys("ab", (1, 1))
        whole = boxscore.read_truths(files["truths"], hierarchy=files["tree"], sizes=sizes)
        boxscore.write_truths(tmp_path / "expanded.csv", whole, format="openimages")
        again = boxscore.read_truths(tmp_path / "expanded.csv", hierarchy=files["tree"])
        assert rows_of(again, again) == rows_of(truths, truths)
        assert len(again) == 7
        lines = (tmp_path / "expanded.csv").read_text().splitlines()
        partly = write(tmp_path / "partly.csv", "\n".join(line for line in lines if "/m/pet" not in line))
        assert len(boxscore.read_truths(partly, hierarchy=files["tree"])) > 7

    def test_errors_name_the_row_that_a_copy_comes_from(self, tmp_path: Path) -> None:
        """The third copy is of line 2, the first of the next row of line 3."""
        files = write_all(tmp_path)
        broken = write(tmp_path / "t.csv", TRUTHS.replace("/m/pug,1,0.2", "/m/pug,1,nan"))
        refused(lambda: boxscore.read_truths(broken, hierarchy=files["tree"]), f"{broken}: line 3: `xmin,")

    @pytest.mark.parametrize(
        ("tree", "message"),
        [
            ([], "a hierarchy must have objects with `LabelName`, a text, and perhaps `Subcategory`"),
            ({"LabelName": "/m/root"}, "must be a hierarchy, a tree of classes; '/m/root' has no `Subcategory`"),
            ({"LabelName": "r", "Subcategory": {"a": 1}}, "`Subcategory` of 'r' must be a list; got an object with a"),
            ({"LabelName": "r", "Part": 1}, "`Part` of 'r' must be a list; got 1"),
            (
                {"LabelName": "r", "Subcategory": [{"LabelName": "a", "Subcategory": [{"Name": "x"}]}]},
                "below r > a: a hierarchy must have objects with `LabelName`",
            ),
            (
                {"LabelName": "r", "Subcategory": [{"LabelName": "a", "Subcategory": [{"LabelName": "b", "Subcategory":
                    [{"LabelName": "a"}]}]}]},
                "class 'a' must not be its own ancestor; got r > a > b > a",
            ),
            (
                {"LabelName": "r", "Subcategory": [{"LabelName": "r"}]},
                "class 'r' must not be its own ancestor; got r > r",
            ),
        ],
    )  # fmt: skip
    def test_what_is_no_hierarchy_is_refused(self, tmp_path: Path, tree: Any, message: str) -> None:
        """With the file and the place in it."""
        path = write(tmp_path / "tree.json", json.dumps(tree))
        truths = write(tmp_path / "t.csv", TRUTHS)
        refused(lambda: boxscore.read_truths(truths, hierarchy=path), message)
        refused(lambda: boxscore.read_truths(truths, hierarchy=path), str(path))
        refused(lambda: boxscore.read_truths(truths, hierarchy=write(path, "{")), "tree.json: not JSON")
        refused(lambda: boxscore.read_truths(truths, hierarchy=5), "`hierarchy` must be the path of a JSON file")  # type: ignore[arg-type]

    def test_a_tree_has_its_limits(self, tmp_path: Path) -> None:
        """A hundred levels are enough."""
        tree: dict[str, Any] = {"LabelName": "leaf"}
        for level in range(200):
            tree = {"LabelName": f"level {level}", "Subcategory": [tree]}
        path = write(tmp_path / "tree.json", json.dumps(tree))
        refused(lambda: read_hierarchy(path), "must have at most 100 levels of classes; 'level 98' is deeper")

    @pytest.mark.parametrize(
        ("label", "message"),
        [
            ("/m/wing", "'/m/wing' is not in it: it has /m/animal, /m/cat, /m/dog, /m/pug, /m/pet, …"),
            ("/m/root", "'/m/root' is its root, which stands for no class"),
        ],
    )
    def test_a_class_that_the_tree_does_not_have_is_refused(self, tmp_path: Path, label: str, message: str) -> None:
        """In truths and detections; among labels if no class is in the tree."""
        files = write_all(tmp_path)
        tree = files["tree"]
        truths = boxscore.read_truths(files["truths"], hierarchy=tree)
        for path, call in {
            write(tmp_path / "t.csv", TRUTHS.replace("/m/pug", label)): lambda path: boxscore.read_truths(
                path, hierarchy=tree
            ),
            write(tmp_path / "d.csv", RESULTS.replace("/m/dog", label)): lambda path: boxscore.read_detections(
                path, truths, hierarchy=tree
            ),
            write(tmp_path / "l.csv", f"ImageID,LabelName,Confidence\n\na,{label},1\n"): lambda path: (
                boxscore.read_truths(files["truths"], image_labels=path, hierarchy=tree)
            ),
        }.items():
            refused(lambda call=call, path=path: call(path), message)
            refused(lambda call=call, path=path: call(path), f"{path}: line 3: every class must be one of")


def random_tree(random: np.random.Generator, labels: list[str], depth: int) -> list[Any]:
    """Nodes of random classes; one class may be in several places, but never above itself."""
    nodes = []
    for label in random.permutation(labels)[: random.integers(1, 4)].tolist():
        rest = [each for each in labels if each != label]
        below = random_tree(random, rest, depth - 1) if depth and rest and random.random() < 0.7 else []
        parts = {"Part": random_tree(random, rest, 0)} if rest and random.random() < 0.2 else {}
        nodes.append({"LabelName": label} | ({"Subcategory": below} if below else {}) | parts)
    return nodes


@pytest.mark.parametrize("seed", range(25))
def test_expansion_is_that_of_tensorflow(tmp_path: Path, seed: int) -> None:
    """Rows of boxes and labels of images, on random trees: the same rows as its script writes."""
    random = np.random.default_rng(seed)
    tree = {"LabelName": "/m/root", "Subcategory": random_tree(random, [f"/m/{number}" for number in range(8)], 3)}
    expansion = oracles.open_images_hierarchy().OIDHierarchicalLabelsExpansion(tree)
    path = write(tmp_path / "tree.json", json.dumps(tree))
    classes = sorted(expansion._hierarchy_keyed_child)  # it knows nothing of parts
    header = "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf"
    is_group = (random.random(20) < 0.3).astype(int).tolist()
    lines = [
        f"image{random.integers(5)},{random.choice(classes)},1,{row / 40},{row / 30 + 0.1},0.25,0.5,{flag}"
        for row, flag in enumerate(is_group)
    ]
    expected = [each for line in lines for each in expansion.expand_boxes_or_segments_from_csv(line)]
    own = boxscore.read_truths(write(tmp_path / "t.csv", "\n".join([header, *lines])), hierarchy=path, sizes=SIZES)
    other = boxscore.read_truths(write(tmp_path / "e.csv", "\n".join([header, *expected])), sizes=SIZES)
    assert sorted(with_kinds(own)) == sorted(with_kinds(other))
    header = "ImageID,Source,LabelName,Confidence"
    labels = [f"image{random.integers(5)},x,{random.choice(classes)},{int(random.random() < 0.5)}" for _ in range(20)]
    expected = [each for line in labels for each in expansion.expand_labels_from_csv(line, 2, 3)]
    given = write(tmp_path / "l.csv", "\n".join([header, *labels]))
    truths = boxscore.read_truths(tmp_path / "t.csv", hierarchy=path, image_labels=given, sizes=SIZES)
    assert truths.coverage is not None
    images, names = truths.image_names or {}, truths.names_by_label or {}
    pairs = zip(truths.coverage.image_ids.tolist(), truths.coverage.labels.tolist(), strict=True)
    wanted = {(image, label) for image, _, label, _ in (line.split(",") for line in expected)}
    assert {(images[image], names[label]) for image, label in pairs} == wanted


SIZES = {f"image{number}": (1, 1) for number in range(5)}


def with_kinds(truths: Truths) -> list[Any]:
    """The rows by name, with their kinds."""
    kind = np.zeros(len(truths), int) if truths.kind is None else np.asarray(truths.kind)
    return [(*row, each) for row, each in zip(rows_of(truths, truths), kind.tolist(), strict=True)]


def test_the_command_reads_all_five_files(tmp_path: Path, capsys: Captured) -> None:
    """Animal: cat and group are found, then a false one in image c: 1. Cat 1, though false in c; Dog: the group is
    found: 1. Pet 1, Pug 0, Tree 1: the mean is 5/6. Without the hierarchy: Cat 1, Pug 0, Tree 1; /m/dog is no class.
    """
    files = {name: str(path) for name, path in write_all(tmp_path).items()}
    arguments = ["eval", files["truths"], files["detections"], "--protocol", "openimages", "--names", files["names"]]
    arguments += ["--image-labels", files["labels"], "--json", "-"]
    assert main([*arguments, "--hierarchy", files["tree"]]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["map"] == pytest.approx(5 / 6, abs=1e-15)
    values = {"Animal": 1, "Cat": 1, "Dog": 1, "Pet": 1, "Pug": 0, "Tree": 1, "/m/limb": None, "/m/tail": None}
    assert {row["name"]: row["ap"] for row in plain["per_class"]} == values
    assert main([*arguments, "--unmatched", "warn"]) == 0
    assert json.loads(capsys.readouterr().out)["map"] == pytest.approx(2 / 3, abs=1e-15)
    check = ["check", files["truths"], files["detections"], "--protocol", "openimages", "--names", files["names"]]
    check += ["--hierarchy", files["tree"]]
    assert main(check) == 1
    assert "3 detections on images that the ground truth does not have" in capsys.readouterr().out
    assert main([*check, "--image-labels", files["labels"]]) == 0


def test_options_of_files_are_refused_with_data_that_does_not_fit_in_memory(tmp_path: Path, capsys: Captured) -> None:
    """As all options of readers are."""
    files = write_all(tmp_path)
    for option in ("--image-labels", "--hierarchy"):
        with pytest.raises(SystemExit):
            main(["eval", str(files["truths"]), str(files["detections"]), "--memory", "1GB", option, "x"])
        assert f"argument {option}: not with --memory" in capsys.readouterr().err


def test_a_selection_of_classes_keeps_what_was_looked_for(tmp_path: Path) -> None:
    """Trees alone: no group is left, and the coverage of the others does no harm."""
    files = write_all(tmp_path)
    options: dict[str, Any] = {"classes": ["/m/tree"]}
    truths = boxscore.read_truths(files["truths"], image_labels=files["labels"], **options)
    detections = boxscore.read_detections(files["detections"], truths, **options)
    assert boxscore.evaluate(detections, truths, "openimages")["map"] == 1
    with pytest.raises(InputError, match="is neither a name nor an id in the data"):
        boxscore.read_truths(files["truths"], classes=["/m/dog"])
