"""Bad input gets an error that names the argument, the rule and what came."""

import pickle
import re
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths, parallel
from boxscore.data.validation import ImageError, RowError
from boxscore.protocol.table import PROTOCOLS
from tests.conftest import Backend

HINT = "; oriented boxes have a box_format such as xyxyxyxy or cxcywha:degrees"


def detections(**changes: Any) -> Detections:
    """Three good detections, but for the changes."""
    good: dict[str, Any] = {
        "image_ids": [0, 0, 1],
        "labels": [1, 2, 1],
        "scores": [0.9, 0.8, 0.7],
        "boxes": np.ones((3, 4)),
    }
    return Detections(**good | changes)


def truths(**changes: Any) -> Truths:
    """Two good truths, but for the changes."""
    good: dict[str, Any] = {"image_ids": [0, 1], "labels": [1, 2], "boxes": np.ones((2, 4))}
    return Truths(**good | changes)


def refused(message: str) -> Any:
    """Raises InputError with exactly this message."""
    return pytest.raises(InputError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boxes": np.ones((3, 5))}, f"`boxes` must have shape (N, 4), four numbers per box; got (3, 5){HINT}"),
        ({"boxes": np.ones((2, 4))}, "`boxes` must have 3 rows, the number of scores; got 2"),
        ({"labels": [1, 2]}, "`labels` must have shape (D,) with D = 3, the number of scores; got (2,)"),
        ({"scores": [[0.9], [0.8], [0.7]]}, "`scores` must have one dimension; got shape (3, 1)"),
        ({"scores": [0.9, float("nan"), 0.7]}, "`scores` row 1 must be finite; got nan"),
        ({"scores": [0.9, 0.8, float("inf")]}, "`scores` row 2 must be finite; got inf"),
        ({"scores": ["a", "b", "c"]}, "`scores` must be an array or a list of numbers; got list of <U1"),
        ({"labels": [1.0, 2.0, 1.0]}, "`labels` must hold integers; got float64"),
        ({"image_ids": [True, False, True]}, "`image_ids` must hold integers; got bool"),
        (
            {"boxes": [[1, 2, 3, 4], [1, 2, np.nan, 4], [1, 2, 3, 4]]},
            "`boxes` row 1 must have 4 finite numbers; got [1.0, 2.0, nan, 4.0]",
        ),
        (
            {"boxes": [[1, 2, 3, 4], [1, 2, 3, 4], [5, 2, 3, 4]]},
            "`boxes` row 2 must have x1 <= x2 and y1 <= y2 (box_format='xyxy'); got [5, 2, 3, 4]",
        ),
        (
            {"boxes": [[1, 2, 3, 4], [1, 2, 3, -4], [5, 2, 3, 4]], "box_format": "xywh"},
            "`boxes` row 1 must not have a negative width or height (box_format='xywh'); got [1, 2, 3, -4]",
        ),
        (
            {"boxes": [[1, 2, 3, 4], [1, 2], [5]]},
            "`boxes` must be an array or a list of numbers; got rows of different length",
        ),
        ({"boxes": np.ones((3, 4), complex)}, "`boxes` must hold real numbers; got complex128"),
        (
            {"box_format": "yxyx"},
            "`box_format` must be one of xyxy, xywh, cxcywh, xyxyxyxy, cxcywha:radians, cxcywha:degrees,"
            " cxcywha:radians:ccw, cxcywha:degrees:ccw; got 'yxyx'",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_detections(changes: dict[str, Any], message: str) -> None:
    """Each column has its rule."""
    with refused(message):
        detections(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_ids": [0]}, "`image_ids` must have shape (G,) with G = 2, the number of labels; got (1,)"),
        ({"ignore": [0, 2]}, "`ignore` row 1 must be 0 or 1; got 2"),
        ({"ignore": [0.0, 1.0]}, "`ignore` must hold booleans, or integers 0 and 1; got float64"),
        ({"area": [1.0, -2.0]}, "`area` row 1 must not be negative; got -2.0"),
        ({"area": [1.0, float("inf")]}, "`area` row 1 must be finite; got inf"),
        (
            {"class_names": ["cat", "dog"]},
            "`labels` must be one of those in `class_names` (0, 1); got 2;"
            " labels that count from 1 need class_names={1: …}, or a name for 0 in front",
        ),
        ({"class_names": "cat"}, "`class_names` must be a sequence or a mapping of names; got 'cat'"),
        ({"class_names": 5}, "`class_names` must be a sequence or a mapping of names; got 5"),
        ({"labels": None}, "`labels` must be given; got None"),
        ({"labels": np.array([1, 2**63], np.uint64)}, "`labels` row 1 must fit in 63 bits; got 9223372036854775808"),
        (
            {"boxes": [[0, 0, 1, 1], [0, 0, 1e80, 1]]},
            "`boxes` row 1 must have sides up to 1e+18; got [0.0, 0.0, 1e+80, 1.0]",
        ),
        ({"class_names": {"cat": 1}}, "`class_names` must have integer keys; got 'cat'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_truths(changes: dict[str, Any], message: str) -> None:
    """Each column has its rule."""
    with refused(message):
        truths(**changes)


GOOD = {"boxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [1]}


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (GOOD, "`images` must be a sequence of dicts, one per image; got dict"),
        ([GOOD, {"boxes": []}], "images[1] must have the key 'scores'; got ['boxes']"),
        ([GOOD, GOOD | {"scores": [0.9, 0.8]}], "images[1]: `scores` must have shape (1,) for 1 labels; got (2,)"),
        ([GOOD, GOOD | {"boxes": [[0, 0, 9]]}], "images[1]: `boxes` must have shape (1, 4) for 1 labels; got (1, 3)"),
        ([GOOD, GOOD | {"scores": [np.nan]}], "images[1]: `scores` row 0 must be finite; got nan"),
        ([GOOD, 1], "images[1] must be a dict with `boxes`, `scores` and `labels`; got int"),
        ([GOOD, GOOD | {"labels": [1.5]}], "images[1]: `labels` must hold integers; got float64"),
        ([GOOD, GOOD | {"labels": 1}], "images[1]: `labels` must have one dimension; got shape ()"),
    ],
)
def test_detections_of_images(images: Any, message: str) -> None:
    """The error names the image, and the key as the caller wrote it."""
    with refused(message):
        Detections.from_images(images)


def test_truths_of_images() -> None:
    """Optional keys have rules, too."""
    good = {"boxes": [[0, 0, 9, 9]], "labels": [1]}
    with refused("images[1]: `iscrowd` row 0 must be 0 or 1; got 2"):
        Truths.from_images([good, good | {"iscrowd": [2]}])
    with refused("images[1] must have the key 'area', as other images do; got ['boxes', 'labels']"):
        Truths.from_images([good | {"area": [81]}, good])
    with refused("`image_ids` must have one id per image; got 2 for 1 images"):
        Truths.from_images([good], image_ids=[3, 4])
    with refused("`image_ids` must have each id once; got 3 more than once"):
        Truths.from_images([good, good, good], image_ids=[3, 4, 3])
    with refused("image_ids[0]: an image id must be an integer of 64 bits or a name; got 0.5"):
        Truths.from_images([good], image_ids=[0.5])


def test_padded_batches() -> None:
    """The error names the place in the batch as the caller sees it."""
    box, label = np.ones((2, 3, 4)), np.array([[1, 1, -1], [1, -1, 1]])
    box[1, 2] = np.inf
    with refused("`boxes` row [1, 2] must have 4 finite numbers; got [inf, inf, inf, inf]"):
        Truths.from_padded(boxes=box, labels=label)
    with refused("`scores` must have shape (2, 3), to go with `labels`; got (2, 2)"):
        Detections.from_padded(boxes=np.ones((2, 3, 4)), labels=label, scores=np.ones((2, 2)))
    with refused("`labels` must have two dimensions, images and boxes; got shape (3,)"):
        Truths.from_padded(boxes=np.ones((3, 4)), labels=np.ones(3, int))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thresholds": ()}, "`thresholds` must have at least one number; got none"),
        ({"thresholds": 0.5}, "`thresholds` must be a sequence of numbers; got 0.5"),
        ({"thresholds": (0.5, 1.5)}, "`thresholds` must lie between 0 and 1; got 1.5"),
        ({"thresholds": (float("nan"),)}, "`thresholds` must lie between 0 and 1; got nan"),
        ({"thresholds": (0.75, 0.5)}, "`thresholds` must be ascending, without repeats; got [0.75, 0.5]"),
        ({"recall_points": []}, "`recall_points` must have at least one number; got none"),
        ({"limits": ()}, "`limits` must have 1 to 255 limits; got 0"),
        ({"limits": (0,)}, "`limits` must be positive integers, or None for all; got 0"),
        ({"limits": (None, 5)}, "`limits` must be ascending, without repeats; got [None, 5]"),
        ({"limits": 100}, "`limits` must be a sequence of integers or None; got 100"),
        ({"areas": {}}, "`areas` must have 1 to 63 ranges; got 0"),
        ({"areas": {"all": (5, 1)}}, "`areas`: 'all' must have 0 <= low <= high; got (5, 1)"),
        ({"areas": [("a", 0, 1), ("a", 1, 2)]}, "`areas` must have different names; got ['a', 'a']"),
        ({"areas": {"50": (0, 1)}}, "`areas` must have names that are not numbers, as `map_50` is one; got '50'"),
        ({"class_agnostic": "no"}, "`class_agnostic` must be True or False; got 'no'"),
        ({"precision_epsilon": float("nan")}, "`precision_epsilon` must be a finite number; got nan"),
        ({"precision_epsilon": -1.0}, "`precision_epsilon` must not be negative; got -1.0"),
        ({"areas": {"all": 5}}, "`areas` must map names to (low, high); got {'all': 5}"),
        ({"pixels": "round"}, "`pixels` must be one of continuous, inclusive; got 'round'"),
        ({"matching": "any"}, "`matching` must be one of best, best_regular, next_best; got 'any'"),
        ({"average": "median"}, "`average` must be one of macro, weighted, micro; got 'median'"),
        ({"comparison": "<"}, "`comparison` must be one of >=, >; got '<'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_protocols(changes: dict[str, Any], message: str) -> None:
    """Each field has its rule."""
    with refused(message):
        Protocol.named("coco", **changes)


def test_unknown_fields_of_a_protocol_are_refused() -> None:
    """With the fields that there are."""
    with pytest.raises(InputError, match=r"^a protocol has no field `treshold`; it has name, iou_type, "):
        Protocol.named("coco", treshold=0.5)


def test_evaluate() -> None:
    """Unknown names and foreign types."""
    with refused(f"`protocol` must be one of {', '.join(PROTOCOLS)}; got 'lvis2'"):
        boxscore.evaluate(detections(), truths(), "lvis2")  # type: ignore[arg-type]
    with refused("`protocol` must be a name or a boxscore.Protocol; got int"):
        boxscore.evaluate(detections(), truths(), 5)  # type: ignore[arg-type]
    with refused("`engine` must be one of auto, native, parallel, sequential; got 'warp'"):
        boxscore.evaluate(detections(), truths(), engine="warp")  # type: ignore[arg-type]
    forms = "a path, a list of dicts, or a dict of padded arrays"
    with refused(f"`detections` must be boxscore.Detections, {forms}; got Truths"):
        boxscore.evaluate(truths(), detections())  # type: ignore[arg-type]
    with refused(f"`truths` must be boxscore.Truths, {forms}; got int"):
        boxscore.evaluate(detections(), 7)  # type: ignore[arg-type]
    with refused("`detections` must be boxscore.Detections; got list"):
        boxscore.match([], truths())  # type: ignore[arg-type]
    with refused("`truths` must be boxscore.Truths; got dict"):
        boxscore.match(detections(), {})  # type: ignore[arg-type]
    with refused("`labels` must be one of those in `class_names` (1, 2); got 7"):
        boxscore.evaluate(detections(labels=[1, 2, 7]), truths(class_names={1: "cat", 2: "dog"}))


def test_tallies_of_different_protocols_do_not_merge() -> None:
    """Even if they have the same name."""
    first = boxscore.match(detections(), truths(), Protocol.named("coco"))
    second = boxscore.match(detections(), truths(), Protocol.named("coco", limits=(5,)))
    with refused("tallies were made under different protocols (both named 'coco'; they differ in `limits`)"):
        first.merge(second)


def test_tallies_that_share_an_image_do_not_merge() -> None:
    """Ids tell images apart; batches that both begin at 0 would break ties by the order of merging."""
    tally = boxscore.match(detections(), truths())
    with refused("image 0 is in more than one tally; each image must have its own id, and be in one tally"):
        tally.merge(tally)
    with refused("a tally can be merged with tallies only; got int"):
        tally.merge(3)  # type: ignore[arg-type]
    with refused("`tally` must be a boxscore.Tally, or a list of them; got int"):
        boxscore.finish(3)  # type: ignore[arg-type]


def test_tallies_that_name_a_class_differently_do_not_merge() -> None:
    """One of them must be wrong."""
    first = boxscore.match(detections(), truths(class_names={1: "cat", 2: "dog"}))
    second = boxscore.match(detections(image_ids=[5, 5, 5]), truths(image_ids=[5, 6], class_names={1: "cat", 2: "cow"}))
    with refused("label 2 is 'dog' in one tally and 'cow' in another"):
        first.merge(second)


def test_stages() -> None:
    """Choices are checked where they are made."""
    box = np.ones((1, 1, 4))
    with refused("`pixels` must be one of continuous, inclusive; got 'round'"):
        parallel.pairwise_iou(box, box, pixels="round")  # type: ignore[arg-type]
    with refused("`comparison` must be one of >=, >; got '<'"):
        parallel.categorize_below(np.ones((1, 1, 1)), np.zeros((1, 1), bool), 0.5, comparison="<")  # type: ignore[arg-type]
    with refused("`ignores` must have 1 images, as `boxes` has; got 2"):
        parallel.pad_truths([box[0]], [np.ones(1, int)], [np.ones(1, bool)] * 2)


def test_columns_are_checked_on_every_library(eager: Backend) -> None:
    """The same texts, wherever the array lives."""
    box = np.ones((3, 4))
    box[1, 2] = np.nan
    with refused("`boxes` row 1 must have 4 finite numbers; got [1.0, 1.0, nan, 1.0]"):
        detections(boxes=eager.array(box))
    with pytest.raises(InputError, match=r"`labels` must hold integers; got .*float64"):
        detections(labels=eager.array(np.ones(3)))
    with refused(f"`boxes` must have shape (N, 4), four numbers per box; got (3, 5){HINT}"):
        detections(boxes=eager.array(np.ones((3, 5))))


def test_rules_that_contradict_each_other() -> None:
    """Names that two numbers would have, groups without classes of their own, an error that divides by 0."""
    with refused("`class_groups` must not have names of area ranges, as map_small is one; got 'small'"):
        Protocol.named("coco", class_groups=("small",))
    with refused("`class_groups` must be empty where `average` is micro: one curve has no groups of classes"):
        Protocol.named("lvis", average="micro")
    with refused("`thresholds` must begin below 1 for olrp, which divides by 1 - threshold; got 1"):
        Protocol.named("olrp", thresholds=(1.0,))
    with refused("`limits` must be one number where they are per dataset; got [1, 10]"):
        Protocol.named("lvis_fixed", limits=(1, 10))
    with refused("`group_of_weight` must be 0, 1 or None; got 0.5"):
        Protocol.named("openimages", group_of_weight=0.5)
    with refused("`extra_numbers` must be of mr, ji, olrp; got 'mrr'"):
        Protocol.named("coco", extra_numbers=("mrr",))
    with refused("`federated` must be True or False; got 'yes'"):
        Protocol.named("coco", federated="yes")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("`limits` must be given"), "`limits` must be given"),
        (InputError("must be given", argument="limits"), "`limits` must be given"),
        (InputError("must be 0", argument="kind", place="a.csv: line 3"), "a.csv: line 3: `kind` must be 0"),
        (RowError("box", 3, "must be finite", np.array([True])), "`box` row 3 must be finite"),
        (ImageError(3, ": `boxes` must be finite", "preds"), "preds[3]: `boxes` must be finite"),
    ],
)
def test_an_error_is_rendered_from_its_parts(error: InputError, message: str) -> None:
    """And keeps its message in another process."""
    assert str(error) == message
    assert str(pickle.loads(pickle.dumps(error))) == message
