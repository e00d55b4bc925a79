"""Each common mistake has one warning, with its likely cause, at every way in; correct data has none."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, MeanAveragePrecision, Truths
from boxscore.checks.evidence import find_resizings, rounded_to
from boxscore.checks.mistakes import Remedies, find_mistakes
from boxscore.cli import main
from boxscore.cli.sample import FOLDER
from boxscore.data.dataset import take, with_geometries
from boxscore.data.geometry.boxes import Boxes, to_xyxy
from boxscore.data.geometry.keypoints import Keypoints
from tests.support.near_truths import SIZE, centers, corners, data, write_coco
from tests.support.shared import shared_data

Floats = np.ndarray[Any, np.dtype[np.float64]]


def brain(box: Floats) -> Floats:
    """Rounded to bfloat16: float32 with the lower half of its bits rounded away."""
    bits = box.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def half(box: Floats) -> Floats:
    """Rounded to float16."""
    return box.astype(np.float16).astype(np.float64)


def letterboxed(box: Floats) -> Floats:
    """In a square of 512 pixels, with padding above and below. The boxes are xywh."""
    scale = 512 / max(SIZE)
    return box * scale + [(512 - SIZE[0] * scale) / 2, (512 - SIZE[1] * scale) / 2, 0, 0]


def same(box: Floats) -> Floats:
    """As it is."""
    return box


class Mistake(NamedTuple):
    """What happens to boxes in xywh on the way, in which format they are then read, and what is said."""

    kind: str
    message: str
    change: Callable[[Floats], Floats]
    change_truths: Callable[[Floats], Floats] = same
    box_format: str = "xywh"


FRACTION = np.array([*SIZE, *SIZE])

MISTAKES = {
    "x 1.6": Mistake("resized", "if they are multiplied by 0.62", lambda box: box * 1.6),
    "x 2": Mistake("resized", "if they are multiplied by 0.5", lambda box: box * 2),
    "x 0.65": Mistake("resized", "if they are multiplied by 1.5", lambda box: box * 0.65),
    "another factor per axis": Mistake("resized", " (y): of the 60 best", lambda box: box * [1, 4 / 3, 1, 4 / 3]),
    "letterbox": Mistake("resized", "if they are shifted by the image's padding and multiplied by", letterboxed),
    "fractions on both sides": Mistake(
        "fractions",
        "look like fractions of the image's size, but are read as pixels: every box counts as small",
        lambda box: box / FRACTION,
        lambda box: box / FRACTION,
    ),
    "xyxy as cxcywh": Mistake(
        "box-format", "have width > cx and height > cy; did you mean box_format='xyxy'?", corners, corners, "cxcywh"
    ),
    "xyxy as xywh": Mistake(
        "box-format", "have width > x and height > y; did you mean box_format='xyxy'?", corners, corners
    ),
    "xywh as cxcywh": Mistake("box-format", "did you mean box_format='xywh'?", same, same, "cxcywh"),
    "bfloat16": Mistake("low-precision", "the boxes of `preds` are rounded to bfloat16", brain),
    "float16": Mistake("low-precision", "the boxes of `preds` are rounded to float16", half),
    "truths in bfloat16": Mistake("low-precision", "the boxes of `targets` are rounded to bfloat16", same, brain),
}


def scene(mistake: Mistake, num_images: int = 12) -> tuple[Detections, Truths]:
    """A good detector's output with a mistake on the way."""
    found, truths = data(num_images=num_images)
    box, truth_box = (np.asarray(each.boxes, np.float64) for each in (found, truths))
    box[:, :2] = np.clip(box[:, :2], 0, None)
    geometry = [
        Boxes(boxes=change(each), box_format=mistake.box_format)  # type: ignore[arg-type]
        for change, each in ((mistake.change, box), (mistake.change_truths, truth_box))
    ]
    return replace(found, geometry=geometry[0]), replace(truths, geometry=geometry[1], image_sizes=None)


def on_images(found: Detections, truths: Truths, images: Any) -> tuple[Detections, Truths]:
    """The rows on some images."""
    return take(found, np.isin(np.asarray(found.image_ids), images)), take(
        truths, np.isin(np.asarray(truths.image_ids), images)
    )


def as_lists(found: Detections, truths: Truths, wrap: Any = np.asarray) -> tuple[list[Any], list[Any]]:
    """One dict per image."""
    images = np.unique(np.asarray(truths.image_ids))

    def of(columns: Any, **names: str) -> list[dict[str, Any]]:
        rows = [np.flatnonzero(np.asarray(columns.image_ids) == image) for image in images]
        return [{key: wrap(np.asarray(getattr(columns, name))[row]) for key, name in names.items()} for row in rows]

    return of(found, boxes="boxes", labels="labels", scores="scores"), of(truths, boxes="boxes", labels="labels")


def padded(images: list[dict[str, Any]]) -> dict[str, Any]:
    """One array per key, with two rows of padding more than are needed."""
    size = 2 + max(len(image["labels"]) for image in images)

    def pad(rows: Any, value: float) -> Any:
        return np.pad(rows, [(0, size - len(rows)), *[(0, 0)] * (rows.ndim - 1)], constant_values=value)

    fill = {"boxes": 0, "scores": 0, "labels": -1}
    return {key: np.stack([pad(image[key], fill[key]) for image in images]) for key in images[0]}


def warned(found: Detections, truths: Truths, way: str, **settings: Any) -> list[str]:
    """What the metric warns of, in batches of two images."""
    box_format = found.box_format
    with warnings.catch_warnings(record=True, action="always") as caught:
        if way == "torchmetrics":
            torch = pytest.importorskip("torch")
            metric: Any = pytest.importorskip("boxscore.torchmetrics").MeanAveragePrecision(box_format)
            preds, targets = as_lists(found, truths, torch.as_tensor)
        else:
            metric = MeanAveragePrecision(box_format=box_format, **settings)
            preds, targets = as_lists(found, truths)
        for i in range(0, len(preds), 2):
            batch = preds[i : i + 2], targets[i : i + 2]
            metric.update(*map(padded, batch)) if way == "padded" else metric.update(*batch)
        metric.compute()
        metric.compute()
        metric.reset()
    for each in caught:
        assert each.filename == __file__, "the line to look at"
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("way", ["lists", "padded", "torchmetrics"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_metric_warns_once_of_each_mistake(name: str, way: str) -> None:
    """By the first batches, however small these are."""
    mistake = MISTAKES[name]
    told = warned(*scene(mistake), way)
    assert len(told) == 1
    message = mistake.message.replace("targets", "target") if way == "torchmetrics" else mistake.message
    assert message in told[0]
    assert told[0].endswith("=False silences this)")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_a_stable_kind(name: str) -> None:
    """Whatever is evaluated, nothing else is found."""
    found, truths = scene(MISTAKES[name])
    mistakes = find_mistakes(boxscore.evaluate(found, truths), found, truths, Remedies())
    assert [each.kind for each in mistakes] == [MISTAKES[name].kind]


def test_tensors_of_16_bits_are_warned_of() -> None:
    """Whatever the type that they come in becomes."""
    torch = pytest.importorskip("torch")
    preds, targets = as_lists(*data(), torch.as_tensor)
    for dtype in (torch.bfloat16, torch.float16):
        rounded = [image | {"boxes": image["boxes"].to(dtype)} for image in preds]
        metric = MeanAveragePrecision(box_format="xywh")
        with pytest.warns(UserWarning, match=f"rounded to {str(dtype).removeprefix('torch.')}, in steps of"):
            metric.update(rounded, targets)


def files(folder: Path, found: Detections, truths: Truths) -> list[str]:
    """Both as COCO files, without sizes of images."""
    images = [{"id": image} for image in np.unique(np.asarray(truths.image_ids)).tolist()]
    return write_coco(folder, found, truths, images=images)


IN_FILES = [name for name, mistake in MISTAKES.items() if mistake.box_format == "xywh"]


@pytest.mark.parametrize("name", IN_FILES)
def test_eval_warns_once_of_each_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Though COCO files are evaluated without looking at columns, if nothing in them is suspicious."""
    paths = files(tmp_path, *scene(MISTAKES[name]))
    assert main(["eval", *paths]) == 0
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    message = MISTAKES[name].message.partition(";")[0]
    assert message.replace("`preds`", paths[1]).replace("`targets`", paths[0]) in told[0]
    assert told[0].endswith(f"; try `boxscore check {paths[0]} {paths[1]}`")


@pytest.mark.parametrize("name", IN_FILES)
def test_check_finds_each_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """In the detections once, by this check or by one of the file's rows."""
    paths = files(tmp_path, *scene(MISTAKES[name]))
    assert main(["check", *paths, "--json", "-"]) == 0
    findings = json.loads(capsys.readouterr().out)
    kinds = [each["kind"] for each in findings if each["severity"] == "warning" and each["file"] == paths[1]]
    other = {"fractions": "fractions-as-pixels"}
    assert kinds == [MISTAKES[name].kind] or kinds == [other.get(MISTAKES[name].kind)]


def test_commands_say_nothing_of_correct_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A detector that finds nearly everything."""
    paths = files(tmp_path, *data())
    assert main(["eval", *paths]) == 0
    assert capsys.readouterr().err == ""


class TestImages:
    """Detections that were made for a part of the images."""

    @pytest.mark.parametrize("share", [0.1, 0.3])
    def test_files_of_a_part_are_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float) -> None:
        """Also where the part is large enough for a plausible AP."""
        found, truths = data(num_images=100)
        found = take(found, np.asarray(found.image_ids) <= 100 * share)
        paths = files(tmp_path, found, truths)
        assert main(["eval", *paths]) == 0
        told = capsys.readouterr().err
        assert told.count("warning") == 1
        expected = f"only {round(100 * share)} of 100 images with truths have detections: is {paths[1]} complete"
        assert expected in told
        assert main(["check", *paths, "--json", "-"]) == 0
        assert "few-images" in {each["kind"] for each in json.loads(capsys.readouterr().out)}

    def test_a_metric_with_a_tenth_of_the_detections_warns(self) -> None:
        """Images without detections come with empty arrays."""
        found, truths = data(num_images=100)
        told = warned(take(found, np.asarray(found.image_ids) <= 10), truths, "lists")
        assert len(told) == 1
        assert "only 10 of 100 images with truths have detections: is `preds` complete" in told[0]

    def test_a_detector_that_reports_little_is_not_accused(self) -> None:
        """One detection on every third image, as with a high score threshold."""
        found, truths = data(1, num_images=60)
        image = np.asarray(found.image_ids)
        is_kept = (image % 3 == 0) & np.append(True, image[1:] != image[:-1])
        found = take(found, is_kept)
        assert find_mistakes(boxscore.evaluate(found, truths), found, truths, Remedies()) == []


class TestLabels:
    """Labels that count from another number, and padding."""

    NAMES = ("cat", "dog", "cow", "pig", "hen")

    def labelled(self, names: Any) -> list[str]:
        """What is told of labels 1 to 4 and these names."""
        found, truths = data(4, num_images=12)
        return warned(found, truths, "lists", class_names=names)

    def test_names_from_0_and_labels_from_1(self) -> None:
        """With the last class, an error; without it, a warning at the end."""
        told = self.labelled(self.NAMES)
        assert len(told) == 1
        assert "no label is 0, the label of 'cat', and nearly all other classes occur" in told[0]
        assert "pass class_names={1: …}, or a list that starts with a name for label 0" in told[0]
        with pytest.raises(InputError, match=r"got 4; labels that count from 1 need class_names=\{1: …\}"):
            self.labelled(self.NAMES[:4])

    @pytest.mark.parametrize("first", ["background", "__background__", "N/A", "_bg"])
    def test_a_name_for_the_background_is_no_mistake(self, first: str) -> None:
        """As torchvision's lists have it."""
        assert self.labelled((first, *self.NAMES[1:])) == []

    def test_a_mapping_from_1_is_no_mistake(self) -> None:
        """It is the cure."""
        assert self.labelled(dict(enumerate(self.NAMES[:4], start=1))) == []

    def test_a_few_labels_of_many_names_are_no_mistake(self) -> None:
        """Small batches have some classes only."""
        assert self.labelled([f"class {i}" for i in range(80)]) == []

    def test_commands_tell_it_of_a_list_of_names(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """In YOLO's text files, whose labels are indices into the list."""
        found, truths = data(4, num_images=12)
        for folder, columns in (("labels", truths), ("predictions", found)):
            (tmp_path / folder).mkdir()
            box = centers(np.clip(np.asarray(columns.boxes), 0, None)) / FRACTION
            for image in range(1, 13):
                rows = np.flatnonzero(np.asarray(columns.image_ids) == image)
                lines = [
                    " ".join(
                        map(str, [columns.labels[row], *box[row], *([columns.scores[row]] if columns is found else [])])
                    )
                    for row in rows
                ]
                (tmp_path / folder / f"{image}.txt").write_text("\n".join(lines))
        (tmp_path / "sizes.csv").write_text("".join(f"{i},{SIZE[0]},{SIZE[1]}\n" for i in range(1, 13)))
        (tmp_path / "names.txt").write_text("\n".join(self.NAMES))
        paths = [str(tmp_path / name) for name in ("labels", "predictions")]
        options = ["--sizes", str(tmp_path / "sizes.csv"), "--names", str(tmp_path / "names.txt")]
        assert main(["eval", *paths, *options]) == 0
        told = capsys.readouterr().err
        assert told.count("warning") == 1
        assert "no label is 0, the label of 'cat', and nearly all other classes occur" in told
        assert main(["check", *paths, *options, "--json", "-"]) == 0
        assert "unused-first-class" in {each["kind"] for each in json.loads(capsys.readouterr().out)}

    @pytest.mark.parametrize("side", ["preds", "targets"])
    @pytest.mark.parametrize("is_torch", [True, False])
    def test_a_negative_label_in_a_list_is_an_error(self, side: str, is_torch: bool) -> None:
        """It would be a class here, and is padding in padded batches."""
        wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
        preds, targets = as_lists(*data(), wrap)
        sides = {"preds": preds, "targets": targets}
        sides[side][2]["labels"][1] = -1
        metric = MeanAveragePrecision(box_format="xywh")
        rule = "must not be negative: -1 is padding in padded batches; leave these rows out here; got -1"
        with pytest.raises(InputError) as error:
            metric.update(preds, targets)
        assert str(error.value) == f"{side}[2]: `labels` row 1 {rule}"
        with pytest.raises(InputError, match=r"^images\[2\]: `labels` row 1 must not be negative"):
            (Detections if side == "preds" else Truths).from_images(sides[side])

    def test_a_negative_label_in_a_padded_batch_is_padding(self) -> None:
        """It changes nothing."""
        preds, targets = as_lists(*data())
        metrics = [MeanAveragePrecision(box_format="xywh") for _ in range(2)]
        metrics[0].update(preds, targets)
        metrics[1].update(padded(preds), padded(targets))
        one, other = (np.array(list(metric.compute().values())) for metric in metrics)
        assert np.array_equal(one, other, equal_nan=True)


class TestFalseAlarms:
    """Correct data is not warned of."""

    @pytest.mark.parametrize("seed", range(40))
    def test_random_data(self, seed: int) -> None:
        """Perfect and typical detectors, small and large boxes, few and many, whole pixels and fractions of them."""
        rng = np.random.default_rng(seed)
        num_images, per_image, num_classes = (int(rng.integers(1, most)) for most in (13, 15, 20))
        size = rng.choice([64, 300, 640, 1280], 2)
        num, box_format = num_images * per_image, ("xyxy", "xywh", "cxcywh")[seed % 3]
        extent = rng.uniform(0.02, rng.choice([0.15, 0.4, 0.95]), (num, 2)) * size
        box = np.concatenate([rng.uniform(0, 1, (num, 2)) * (size - extent), extent], axis=1)
        if seed % 4 == 0:
            box = np.round(box) + np.array([0, 0, 1, 1])
        noise = 0 if seed % 2 else rng.normal(0, 0.04, box.shape) * box[:, [2, 3, 2, 3]]
        change = {"xyxy": corners, "xywh": same, "cxcywh": centers}[box_format]
        label, image = rng.integers(0, num_classes, num), np.repeat(np.arange(num_images), per_image)
        settings: dict[str, Any] = {"image_ids": image, "labels": label, "box_format": box_format}
        truths = Truths(**settings, boxes=change(box))
        found = Detections(**settings, scores=rng.random(num), boxes=change(np.maximum(box + noise, 0)))
        names = [f"class {i}" for i in range(num_classes)]
        for way in ("lists", "padded"):
            assert warned(found, truths, way, class_names=names) == []

    @pytest.mark.parametrize("seed", range(40))
    def test_random_boxes_are_not_resized_ones(self, seed: int) -> None:
        """No factors make them overlap truths, though each image may choose its own."""
        rng = np.random.default_rng(seed)
        num = int(rng.integers(10, 200))
        image = np.sort(rng.integers(0, 12, num))

        def boxes() -> Any:
            return corners(np.concatenate([rng.random((num, 2)) * 400, rng.uniform(5, 200, (num, 2))], axis=1))

        settings: dict[str, Any] = {"image_ids": image, "labels": np.zeros(num, np.int64)}
        truths = Truths(**settings, boxes=boxes())
        found = Detections(**settings, scores=rng.random(num), boxes=boxes())
        mistakes = find_mistakes(boxscore.evaluate(found, truths), found, truths, Remedies())
        assert "resized" not in [each.kind for each in mistakes]

    def test_boxes_that_fill_their_images_are_not_corners(self) -> None:
        """All have width > x and height > y, as in photos of single objects."""
        rng = np.random.default_rng(0)
        position = rng.uniform(1, 60, (200, 2))
        box = np.concatenate([position, 500 - position - rng.uniform(1, 60, (200, 2))], axis=1)
        settings: dict[str, Any] = {
            "image_ids": np.arange(200),
            "labels": np.zeros(200, np.int64),
            "box_format": "xywh",
        }
        assert (
            warned(Detections(**settings, scores=rng.random(200), boxes=box), Truths(**settings, boxes=box), "lists")
            == []
        )

    @pytest.mark.parametrize("step", [1, 0.5, 0.25, 4, 0.1])
    @pytest.mark.parametrize("size", [100, 255, 640, 4000])
    def test_multiples_of_a_step_are_not_rounded_to_16_bits(self, step: float, size: int) -> None:
        """Whole pixels fit in 16 bits, too."""
        values = np.round(np.random.default_rng(size).uniform(0, size, 2000) / step) * step
        assert rounded_to(values) is None

    def test_the_sample(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Of the package."""
        assert main(["eval", str(FOLDER / "truths.json"), str(FOLDER / "detections.json")]) == 0
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(
        ("truths", "detections", "options"),
        [
            ("coco_val2017/instances_val2017_boxes.json", "coco_val2017/yolox_nano.json", []),
            (
                "val2014_100/instances_val2014_100.json",
                "val2014_100/instances_val2014_fakebbox100_results.json",
                [],
            ),
            (
                "val2014_100/instances_val2014_100.json",
                "val2014_100/instances_val2014_fakesegm100_results.json",
                ["--iou-type", "segm"],
            ),
            (
                "keypoints/person_keypoints_1000.json",
                "keypoints/litehrnet_18_256.json",
                ["--protocol", "coco_keypoints"],
            ),
        ],
    )
    @pytest.mark.parametrize("is_general", [False, True])
    def test_real_detectors(
        self, truths: str, detections: str, options: list[str], is_general: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """By the fast path, and by the general path, which examines columns."""
        paths = [str(shared_data(each)) for each in (truths, detections)]
        more = ["--engine", "native", "--errors"] if is_general else []
        assert main(["eval", *paths, *options, *more]) == 0
        assert capsys.readouterr().err == ""

    def test_a_real_detector_on_voc(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Whose only problem is three boxes with corners in the wrong order."""
        paths = [str(shared_data(f"voc2007/{name}")) for name in ("Annotations.zip", "results")]
        images = str(shared_data("voc2007/ImageSets/Main/test.txt"))
        assert main(["eval", *paths, "--protocol", "voc2007", "--only-images", images]) == 0
        told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
        assert all("corners in the wrong order" in line for line in told)

    @pytest.mark.parametrize("way", ["lists", "padded"])
    @pytest.mark.parametrize("num_images", [4, 40, 400])
    def test_a_real_detector_in_batches(self, way: str, num_images: int) -> None:
        """Parts of val2017, in boxes of every format."""
        truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
        found = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
        for seed in range(3):
            images = np.random.default_rng(seed).choice(
                np.unique(np.asarray(truths.image_ids)), num_images, replace=False
            )
            some, others = on_images(found, truths, images)
            for change, name in ((corners, "xyxy"), (same, "xywh"), (centers, "cxcywh")):
                shapes: list[Any] = [
                    Boxes(boxes=change(np.asarray(each.boxes)), box_format=name)  # type: ignore[arg-type]
                    for each in (some, others)
                ]
                assert warned(replace(some, geometry=shapes[0]), replace(others, geometry=shapes[1]), way) == []


class TestResizing:
    """Factors from pairs of boxes."""

    REAL = ("longest side 416", "shortest side 800", "square of 640", "letterbox 640", "letterbox 416", "all x 1.25")

    @pytest.mark.parametrize("num_images", [100, 1000])
    @pytest.mark.parametrize("name", REAL)
    def test_a_real_detector_in_resized_images(self, name: str, num_images: int) -> None:
        """Images have different sizes, so each has its own factor."""
        truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
        found = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
        sizes = truths.image_sizes or {}
        images = np.random.default_rng(num_images).choice([*sizes], num_images, replace=False)
        found, truths = on_images(found, truths, images)
        size = np.array([sizes[image] for image in np.asarray(found.image_ids).tolist()], np.float64)
        side = float(name.split()[-1]) if name != self.REAL[-1] else 0
        scale = {
            "longest": side / size.max(axis=1, keepdims=True),
            "shortest": side / size.min(axis=1, keepdims=True),
            "square": side / size,
            "letterbox": side / size.max(axis=1, keepdims=True),
            "all": 1.25,
        }[name.split()[0]] * np.ones_like(size)
        box = np.asarray(found.boxes) * np.concatenate([scale, scale], axis=1)
        if name.startswith("letterbox"):
            box[:, :2] += (side - size * scale) / 2
        found = replace(found, geometry=Boxes(boxes=box, box_format="xywh"))
        truths = replace(truths, image_sizes=None)
        mistakes = find_mistakes(boxscore.evaluate(found, truths), found, truths, Remedies())
        assert [each.kind for each in mistakes] == ["resized"]

    def test_poses_in_resized_images(self) -> None:
        """By the boxes around their points."""
        truths = boxscore.read_truths(shared_data("keypoints/person_keypoints_1000.json"), iou_type="keypoints")
        path = shared_data("keypoints/litehrnet_18_256.json")
        found = boxscore.read_detections(path, truths, iou_type="keypoints")
        points = found.geometry
        assert isinstance(points, Keypoints)
        scaled = replace(points, point=np.asarray(points.point) * 1.6)
        found = with_geometries(found, scaled)
        mistakes = find_mistakes(boxscore.evaluate(found, truths, "coco_keypoints"), found, truths, Remedies())
        assert [each.kind for each in mistakes] == ["resized"]
        assert "the shapes of `preds` match the truths if they are scaled: of the 143" in str(mistakes[0])

    def test_the_factor_is_found(self) -> None:
        """Of two boxes in one image, and three in another; derived by hand."""
        truth = np.array(
            [[10, 10, 50, 40], [100, 20, 160, 90], [5, 60, 65, 80], [30, 5, 90, 45], [70, 50, 95, 99]], float
        )
        image = np.array([0, 0, 1, 1, 1])
        first, each = find_resizings(image, truth * [1.6, 2, 1.6, 2], image, truth)
        assert np.allclose(first.factors, [0.625, 0.5])
        assert (first.is_common, each.is_common) == (True, False)
        assert np.allclose(first.corner, truth)
        assert (first.num_fitted, each.num_fitted) == (1, 2)

    def test_nothing_is_found_in_nothing(self) -> None:
        """No boxes, no pairs, boxes without a size."""
        nothing, empty = np.zeros((0, 4)), np.zeros(0, np.int64)
        assert list(find_resizings(empty, nothing, empty, nothing)) == []
        image, point = np.array([0]), np.array([[5.0, 5, 5, 5]])
        assert list(find_resizings(image, point, image, point)) == []
        assert list(find_resizings(image, to_xyxy_array(1), image + 1, to_xyxy_array(2))) == []

    @pytest.mark.parametrize("largest", [1e-300, 1e150, 1e300])
    def test_boxes_of_any_size_are_examined(self, largest: float) -> None:
        """Without a warning of NumPy."""
        rng = np.random.default_rng(0)
        box = corners(rng.random((40, 4)))
        image = np.arange(40) // 10
        with warnings.catch_warnings(action="error"), np.errstate(all="ignore"):
            for resizing in find_resizings(image, box * largest, image, box):
                assert resizing.corner.shape == (40, 4)


def to_xyxy_array(seed: int) -> Floats:
    """One box."""
    return np.stack(to_xyxy(np.random.default_rng(seed).uniform(1, 9, (1, 4)), "xywh"), axis=1)
