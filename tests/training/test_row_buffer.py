"""The fast path of the metric: batches wait, copied and validated, to be matched together; nobody can tell."""

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision, _compiled
from boxscore.data import row_buffer
from boxscore.data.batch_keys import DETECTION_KEYS, TRUTH_KEYS
from boxscore.data.batches import collect_arrays
from boxscore.data.row_buffer import BufferSettings, RowBuffer
from boxscore.engines.native import compiled_engine
from tests.support.comparisons import TALLY, assert_same
from tests.support.image_dicts import dicts
from tests.support.scenes import random_scene

pytestmark = pytest.mark.native

SCENE = random_scene(9, num_images=40, num_classes=5, most_detections=30, most_truths=9)


def quick_tally(preds: Any, targets: Any, ids: list[int], names: Any = None) -> boxscore.Tally | None:
    """What the buffer makes of one batch; None if it does not take it."""
    buffer = RowBuffer(BufferSettings(boxscore.Protocol.named("coco"), "xywh", names))
    arrays = collect_arrays(preds, DETECTION_KEYS), collect_arrays(targets, TRUTH_KEYS)
    return compiled_engine.match_buffer(buffer, 1) if buffer.add(*arrays, ids) else None


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("flag", [bool, np.int32, np.int64])
@pytest.mark.parametrize("is_torch", [False, True])
def test_a_batch_of_arrays_takes_one_step_and_has_the_same_bits(real: Any, flag: Any, is_torch: bool) -> None:
    """Column by column, with and without names, flags and areas, whatever the order of the ids."""
    wrap = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
    scene = random_scene(8, num_images=5)
    kinds = {"boxes": real, "scores": real, "area": real, "labels": np.int32, "ignore": flag}
    for columns in (scene.detection, scene.truth):
        columns.update({name: columns[name].astype(kind) for name, kind in kinds.items() if name in columns})
    preds, targets = dicts(scene, wrap)
    ids = [7, -3, 2**40, 0, 5]
    for names in (None, scene.truths.class_names):
        for left_out in ((), ("iscrowd",), ("iscrowd", "area")):
            there = [{key: each[key] for key in each if key not in left_out} for each in targets]
            sides = (
                boxscore.Detections.from_images(preds, image_ids=ids, box_format="xywh"),
                boxscore.Truths.from_images(there, image_ids=ids, box_format="xywh", class_names=names),
            )
            tally, expected = quick_tally(preds, there, ids, names), boxscore.match(*sides)
            assert tally is not None
            for column in TALLY:
                made, right = getattr(tally, column), getattr(expected, column)
                assert made.dtype == right.dtype, column
                assert np.array_equal(made, right), column


def three_images() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Each with two detections and two truths."""
    columns: dict[str, Any] = {"boxes": np.array([[0.0, 0, 9, 9], [5, 5, 3, 4]]), "labels": np.array([0, 1])}
    preds = [columns | {"scores": np.array([0.5, 0.75])} for _ in range(3)]
    targets = [columns | {"iscrowd": np.array([0, 1]), "area": np.array([81.0, 12])} for _ in range(3)]
    return preds, targets


@pytest.mark.parametrize(
    ("side", "key", "change"),
    [
        ("preds", "scores", lambda score: score * np.nan),
        ("preds", "scores", lambda score: score[1:]),
        ("preds", "labels", lambda label: label.astype(float)),
        ("preds", "labels", lambda label: label.astype(bool)),
        ("preds", "labels", lambda label: label + 100),
        ("preds", "boxes", lambda box: -box),
        ("preds", "boxes", lambda box: box[:, :3]),
        ("preds", "boxes", lambda box: box.tolist()),
        ("preds", "boxes", None),
        ("targets", "labels", lambda label: label + 100),
        ("targets", "boxes", lambda box: box + np.inf),
        ("targets", "area", lambda area: area - 1000),
        ("targets", "area", lambda area: area[:, None]),
        ("targets", "area", None),
        ("targets", "iscrowd", lambda flag: flag + 2),
        ("targets", "difficult", lambda _: np.array([0, 1])),
    ],
)
@pytest.mark.parametrize("is_torch", [False, True])
def test_what_needs_a_report_is_left_to_the_general_reader(side: str, key: str, change: Any, is_torch: bool) -> None:
    """One image of three that is different is enough."""
    wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
    sides = dict(zip(("preds", "targets"), three_images(), strict=True))
    different = sides[side][1]
    if change is None:
        del different[key]
    else:
        different[key] = change(different.get(key))
    preds, targets = (
        [{key: wrap(value) if type(value) is np.ndarray else value for key, value in image.items()} for image in images]
        for images in sides.values()
    )
    assert quick_tally(preds, targets, [0, 1, 2], {0: "cat", 1: "dog"}) is None


def test_invalid_ids_are_left_to_the_general_reader() -> None:
    """One too few, one too large."""
    preds, targets = three_images()
    assert quick_tally(preds, targets, [0, 1, 2]) is not None
    for ids in ([0, 1], [0, 1, 2**70]):
        assert quick_tally(preds, targets, ids) is None


def assert_same_tally(tally: boxscore.Tally, expected: boxscore.Tally) -> None:
    """Every column, with its dtype."""
    for column in TALLY:
        made, right = getattr(tally, column), getattr(expected, column)
        assert made.dtype == right.dtype, column
        assert np.array_equal(made, right), column


def matched_one_by_one(batches: Any, **settings: Any) -> MeanAveragePrecision:
    """A metric whose tally is read after each update: so nothing ever waits."""
    metric = MeanAveragePrecision("coco", box_format="xywh", warn=False, **settings)
    for preds, targets in batches:
        metric.update(preds, targets)
        assert metric.tally.protocol is metric.protocol
    return metric


def batches_of(wrap: Any, size: int = 3) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Those of the scene."""
    preds, targets = dicts(SCENE, wrap)
    return [(preds[first : first + size], targets[first : first + size]) for first in range(0, len(preds), size)]


@pytest.fixture(params=[1, 100, 1 << 15])
def num_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many rows are matched at once."""
    monkeypatch.setattr(row_buffer, "NUM_ROWS", request.param)
    return int(request.param)


class TestWaiting:
    """However many rows wait, the tally is the one of batches that are matched one by one."""

    @pytest.mark.parametrize("is_torch", [False, True])
    @pytest.mark.parametrize("threads", [1, 3])
    def test_the_tally_is_the_same(self, num_rows: int, is_torch: bool, threads: int) -> None:
        """Column by column."""
        assert num_rows
        batches = batches_of(pytest.importorskip("torch").as_tensor if is_torch else np.asarray)
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False, threads=threads)
        for preds, targets in batches:
            metric.update(preds, targets)
        expected = matched_one_by_one(batches)
        assert_same_tally(metric.tally, expected.tally)
        assert_same(metric.compute(), boxscore.evaluate(SCENE.detections, replace(SCENE.truths, class_names=None)))

    @pytest.mark.parametrize("read", [repr, pickle.dumps, copy.copy, copy.deepcopy, MeanAveragePrecision.state_dict])
    def test_reading_in_between_changes_nothing(self, num_rows: int, read: Any) -> None:
        """What is read has all that came before, and is the same that it would be without waiting."""
        assert num_rows
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        one_by_one = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        for preds, targets in batches_of(np.asarray, 7):
            metric.update(preds, targets)
            one_by_one.update(preds, targets)
            num = len(one_by_one.tally)
            assert f"{num:,} detections" in repr(one_by_one)
            read(metric)
            assert repr(metric) == repr(one_by_one)
        assert_same_tally(metric.tally, one_by_one.tally)

    @pytest.mark.parametrize("travel", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
    def test_copies_go_on_by_themselves(self, travel: Any) -> None:
        """Batches that waited are in both; later ones in one of them."""
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        first, second, *_ = batches_of(np.asarray)
        metric.update(*first)
        other = travel(metric)
        other.update(*second)
        assert_same_tally(metric.tally, matched_one_by_one([first]).tally)
        assert_same_tally(other.tally, matched_one_by_one([first, second]).tally)

    def test_state_and_merge_have_what_waits(self) -> None:
        """Nothing is lost on the way."""
        first, second, third, *_ = batches_of(np.asarray)
        one, other = (MeanAveragePrecision("coco", box_format="xywh", warn=False) for _ in range(2))
        one.update(*first, image_ids=range(3))
        other.load_state_dict(one.state_dict())
        other.update(*second, image_ids=range(3, 6))
        rest = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        rest.update(*third, image_ids=range(6, 9))
        assert_same_tally(other.merge(rest).tally, matched_one_by_one([first, second, third]).tally)
        rest.reset()
        assert len(rest.tally) == 0

    @pytest.mark.parametrize("is_torch", [False, True])
    def test_inputs_may_change_afterwards(self, is_torch: bool) -> None:
        """What waits is a copy."""
        wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        for preds, targets in batches_of(lambda column: wrap(column.copy())):
            metric.update(preds, targets)
            for image in (*preds, *targets):
                for column in image.values():
                    column[:] = 0
        assert_same_tally(metric.tally, matched_one_by_one(batches_of(np.asarray)).tally)

    def test_ids_in_any_order(self) -> None:
        """Images of different batches are matched together, but are not mixed up."""
        ids = np.random.default_rng(2).permutation(SCENE.num_images)
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        for number, (preds, targets) in enumerate(batches_of(np.asarray, 4)):
            named = ids[4 * number : 4 * number + 4]
            metric.update(preds, targets, image_ids=named)
        expected = boxscore.evaluate(
            replace(SCENE.detections, image_ids=ids[SCENE.detections.image_ids]),
            replace(SCENE.truths, image_ids=ids[SCENE.truths.image_ids], class_names=None),
        )
        assert_same(metric.compute(), expected)


class TestUnlikeBatches:
    """Batches of other types or keys than those that wait are matched as well as any."""

    @pytest.mark.parametrize(
        ("side", "change"),
        [
            ("preds", lambda image: image | {"scores": image["scores"].astype(np.float32)}),
            ("preds", lambda image: image | {"scores": image["scores"].astype(np.float16)}),
            ("preds", lambda image: image | {"boxes": image["boxes"].astype(np.float32)}),
            ("preds", lambda image: image | {"labels": image["labels"].astype(np.int16)}),
            ("preds", lambda image: {key: column[:0] for key, column in image.items()}),
            ("preds", lambda image: image | {"masks": None, "size": (3, 4)}),
            ("targets", lambda image: {key: column[:0] for key, column in image.items()}),
            ("targets", lambda image: {key: image[key] for key in ("boxes", "labels", "iscrowd")}),
            ("targets", lambda image: {key: image[key] for key in ("boxes", "labels", "area")}),
            ("targets", lambda image: image | {"iscrowd": image["iscrowd"].astype(bool)}),
            ("targets", lambda image: image | {"area": image["area"].astype(int)}),
            ("targets", lambda image: image | {"labels": image["labels"].astype(np.uint8)}),
        ],
    )
    @pytest.mark.parametrize("is_torch", [False, True])
    def test_every_second_batch_is_different(self, side: str, change: Any, is_torch: bool) -> None:
        """The bits are those of batches that are matched one by one, by the general path."""
        torch = pytest.importorskip("torch") if is_torch else None

        def wrapped(image: dict[str, Any]) -> dict[str, Any]:
            if torch is None:
                return image
            return {key: torch.as_tensor(each) if type(each) is np.ndarray else each for key, each in image.items()}

        batches = []
        for number, (preds, targets) in enumerate(batches_of(np.asarray)):
            if number % 2:
                preds = [change(image) for image in preds] if side == "preds" else preds
                targets = [change(image) for image in targets] if side == "targets" else targets
            batches.append(([*map(wrapped, preds)], [*map(wrapped, targets)]))
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        for preds, targets in batches:
            metric.update(preds, targets)
        general = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        general._add_to_buffer = lambda *_: False  # type: ignore[method-assign]
        for preds, targets in batches:
            general.update(preds, targets)
        assert_same_tally(metric.tally, general.tally)

    def test_settings_may_change(self) -> None:
        """Those of an update are those that the metric had then."""
        first, second, *_ = batches_of(np.asarray)
        corners = [
            image | {"boxes": np.concatenate([image["boxes"][:, :2], image["boxes"][:, :2] + image["boxes"][:, 2:]], 1)}
            for image in second[0]
        ]
        corner_targets = [
            image | {"boxes": np.concatenate([image["boxes"][:, :2], image["boxes"][:, :2] + image["boxes"][:, 2:]], 1)}
            for image in second[1]
        ]
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        metric.update(*first)
        metric.box_format = "xyxy"
        metric.update(corners, corner_targets)
        assert_same_tally(metric.tally, matched_one_by_one([first, second]).tally)


class TestWarnings:
    """Likely mistakes in the first batches are told on the fast path, too."""

    @pytest.mark.parametrize("is_torch", [False, True])
    def test_the_first_batches_are_looked_at(self, is_torch: bool) -> None:
        """At the update that they come with; as an error, a warning refuses the batch."""
        wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
        preds, targets = batches_of(wrap, 9)[0]
        shifted = [image | {"labels": image["labels"] + 1000} for image in preds]
        fractions = [image | {"boxes": image["boxes"] / 1000} for image in shifted]
        metric = MeanAveragePrecision("coco", box_format="xywh")
        with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="look like fractions"):
            metric.update(fractions, targets)
        assert repr(metric) == "MeanAveragePrecision(coco, 0 images, 0 detections)"
        metric = MeanAveragePrecision("coco", box_format="xywh")
        with pytest.warns(UserWarning, match="look like fractions") as told:
            metric.update(fractions, targets)
        assert [each.filename for each in told] == [__file__]  # the line to look at
        assert repr(metric).startswith("MeanAveragePrecision(coco, 9 images, ")

    def test_what_was_looked_at_is_what_the_general_path_looks_at(self) -> None:
        """The diagnosis of a result near 0 is the same."""
        told = []
        for is_buffered in (True, False):
            metric = MeanAveragePrecision("coco", box_format="xywh")
            if not is_buffered:
                metric._add_to_buffer = lambda *_: False  # type: ignore[method-assign]
            for preds, targets in batches_of(np.asarray):
                metric.update([image | {"labels": image["labels"] + 5} for image in preds], targets)
            with pytest.warns(UserWarning, match="labels of `preds`") as warned:
                metric.compute()
            told.append([str(each.message) for each in warned])
        assert told[0] == told[1]


class TestRefusal:
    """An invalid batch is refused when it comes, and what waits stays as it is."""

    @pytest.mark.parametrize(
        ("side", "key", "value", "message"),
        [
            ("preds", "scores", np.nan, r"^preds\[1\]: `scores` row 0 must be finite; got nan$"),
            ("preds", "boxes", -1.0, r"^preds\[1\]: `boxes` row 0 "),
            ("targets", "area", -1.0, r"^targets\[1\]: `area` row 0 "),
            ("targets", "iscrowd", 3, r"`iscrowd`"),
            ("targets", "labels", 99, r"`labels` must be one of those in `class_names` .*; got 99$"),
        ],
    )
    @pytest.mark.parametrize("is_torch", [False, True])
    def test_it_is_refused_at_once(self, side: str, key: str, value: Any, message: str, is_torch: bool) -> None:
        """With the error of the general path; the valid batch then takes its place."""
        wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
        names = SCENE.truths.class_names
        first, *_ = batches_of(lambda column: wrap(column.copy()))
        sides = dict(zip(("preds", "targets"), three_images(), strict=True))
        second = [[{k: wrap(v.copy()) for k, v in image.items()} for image in images] for images in sides.values()]
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False, class_names=names)
        metric.update(*first)
        column = second[side == "targets"][1][key]
        right = column[0].clone() if is_torch else column[0].copy()
        column[0] = value
        with pytest.raises(InputError, match=message):
            metric.update(*second)
        assert repr(metric).startswith("MeanAveragePrecision(coco, 3 images, ")
        column[0] = right
        metric.update(*second)
        assert_same_tally(metric.tally, matched_one_by_one([first, second], class_names=names).tally)

    def test_a_misspelled_key_is_refused(self) -> None:
        """Also after batches without it."""
        torch = pytest.importorskip("torch")
        preds, targets = batches_of(torch.as_tensor)[0]
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        metric.update(preds, [image | {"size": 3, "orig_size": 4} for image in targets])
        misspelled = [{key.replace("iscrowd", "is_crowd"): image[key] for key in image} for image in targets]
        with pytest.raises(InputError, match="must not have the key 'is_crowd'"):
            metric.update(preds, misspelled)
        metric.update(preds, [image | {"size": 3} for image in targets])
        assert repr(metric).startswith("MeanAveragePrecision(coco, 6 images, ")

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
    def test_an_update_that_is_stopped_changes_nothing(self, error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its rows are not among those that wait; the same batch may come again."""
        first, second, *_ = batches_of(np.asarray)
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        metric.update(*first)
        with monkeypatch.context() as changed:
            changed.setattr(row_buffer, "NUM_ROWS", 1)
            changed.setattr(compiled_engine, "tally_of", raising(error))
            with pytest.raises(error):
                metric.update(*second)
        assert repr(metric) == repr(matched_one_by_one([first]))
        metric.update(*second)
        assert_same_tally(metric.tally, matched_one_by_one([first, second]).tally)


def raising(error: type[BaseException]) -> Any:
    """A function that does nothing else."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def arrays_of(preds: Any, targets: Any) -> tuple[Any, Any]:
    """The arrays of both sides, as the buffer takes them."""
    return collect_arrays(preds, DETECTION_KEYS), collect_arrays(targets, TRUTH_KEYS)


class TestBuffer:
    """The compiled buffer takes what fits, and is safe whatever it is given."""

    def buffer(self) -> RowBuffer:
        """An empty one."""
        return RowBuffer(BufferSettings(boxscore.Protocol.named("coco"), "xywh", None))

    @pytest.mark.parametrize("kind", ["meta", "sparse", "missing", "list", "rows", "matrix", "twice", "half"])
    def test_what_it_can_not_read_is_left_to_others(self, kind: str) -> None:
        """False, no error of its own, and no rows."""
        torch = pytest.importorskip("torch")
        scores = {
            "meta": torch.ones(4, device="meta"),
            "sparse": torch.ones(4).to_sparse(),
            "list": [1.0, 2.0, 3.0, 4.0],
            "rows": torch.ones(3),
            "matrix": torch.ones(4, 1),
            "half": torch.ones(4, dtype=torch.bfloat16),
        }
        box, label = torch.ones(4, 4), torch.ones(4, dtype=torch.int64)
        preds: list[Any] = [{"boxes": box, "scores": torch.ones(4), "labels": label} for _ in range(2)]
        targets: list[Any] = [{"boxes": box, "labels": label, "iscrowd": label * 0} for _ in range(2)]
        buffer = self.buffer()
        assert buffer.add(*arrays_of(preds, targets), [0, 1])
        assert (len(buffer.compiled), buffer.compiled.num_truths) == (8, 8)
        if kind == "missing":
            del preds[1]["scores"]
        elif kind == "twice":
            targets[1]["difficult"] = label * 0
        else:
            preds[1]["scores"] = scores[kind]
        assert not buffer.add(*arrays_of(preds, targets), [2, 3])
        assert (len(buffer.compiled), buffer.compiled.num_truths) == (8, 8)

    @pytest.mark.parametrize("is_torch", [False, True])
    def test_arrays_may_have_any_layout(self, is_torch: bool) -> None:
        """Columns of a larger array, reversed ones, misaligned ones, and empty ones without their second axis."""
        torch = pytest.importorskip("torch") if is_torch else None
        columns = np.random.default_rng(3).random((7, 6))
        misaligned = np.frombuffer(bytes(1) + columns[:, 4].tobytes(), np.uint8)[1:].view(np.float64)
        label = np.arange(7)
        preds: list[dict[str, Any]] = [
            {"boxes": columns[:, :4], "scores": columns[:, 4], "labels": label},
            {"boxes": np.zeros(0), "scores": np.zeros(0), "labels": np.zeros(0)},
            {"boxes": np.asfortranarray(columns[:, :4]), "scores": misaligned, "labels": np.repeat(label, 2)[::2]},
        ]
        if torch is None:
            preds.append({"boxes": columns[::-1, :4], "scores": columns[::-1, 4], "labels": label[::-1]})
        else:
            preds = [{key: torch.as_tensor(each.copy("K")) for key, each in image.items()} for image in preds]
            preds[0]["boxes"], preds[0]["scores"] = torch.as_tensor(columns)[:, :4], torch.as_tensor(columns)[:, 4]
        as_is: Any = np.ascontiguousarray if torch is None else torch.Tensor.contiguous
        compact = [{key: as_is(each) for key, each in image.items()} for image in preds]
        compact[1] = {key: each[:0] for key, each in compact[0].items()}
        targets = [{key: image[key] for key in ("boxes", "labels")} for image in compact]
        ids = list(range(len(preds)))
        tally, expected = quick_tally(preds, targets, ids), quick_tally(compact, targets, ids)
        assert tally is not None
        assert expected is not None
        assert_same_tally(tally, expected)
        read, right = (boxscore.Detections.from_images(each, box_format="xywh") for each in (preds, compact))
        for name in ("boxes", "scores", "labels", "image_ids"):
            assert np.array_equal(getattr(read, name), getattr(right, name))

    def test_arrays_with_another_byte_order_or_fields_are_left_to_others(self) -> None:
        """They need a conversion, or are an error."""
        target = {"boxes": np.ones((2, 4)), "labels": np.ones(2, np.int64)}
        pred = target | {"scores": np.ones(2)}
        for scores in (np.ones(2, ">f8"), np.ones(2, [("a", "f8")]), np.ones(2, np.longdouble), np.ones((1,) * 6)):
            assert quick_tally([pred | {"scores": scores}], [target], [0]) is None
        assert quick_tally([pred], [target], [0]) is not None

    def test_much_memory_is_given_back(self) -> None:
        """A batch that is far larger than what waits otherwise leaves nothing behind, and others may follow."""
        buffer = self.buffer()
        sizes = []
        for num in (3, 100_000, 5):
            columns = {"boxes": np.ones((num, 4)), "labels": np.arange(num)}
            assert buffer.add(*arrays_of([columns | {"scores": np.ones(num)}], [columns]), [num])
            assert buffer.is_full == (num == 100_000)
            sizes.append(len(compiled_engine.match_buffer(buffer, 2)))
            assert len(buffer) == 0
        assert sizes == [3, 100_000, 5]

    def test_keys_are_asked_about_once(self) -> None:
        """Only those that nobody knows; an error in the answer is raised."""
        asked: list[str] = []

        def is_unread(key: str) -> bool:
            asked.append(key)
            if key == "bad":
                raise ZeroDivisionError
            return key != "boxs"

        keys = _compiled.ImageKeys({"boxes": "boxes", "scores": "scores", "labels": "labels"}, is_unread)
        read = _compiled.ArrayBatch.of_images
        pred = {"boxes": np.ones((1, 4)), "scores": np.ones(1), "labels": np.ones(1, np.int64)}
        for _ in range(2):
            assert read([pred | {"size": 3}], keys) is not None
        assert asked == ["size"]
        assert read([pred | {"boxs": 3}], keys) is None
        with pytest.raises(ZeroDivisionError):
            read([pred | {"bad": 3}], keys)
        assert read([pred | {7: 3}], keys) is None
        assert asked == ["size", "boxs", "bad"]
        with pytest.raises(ValueError, match=r"^columns: expected 1 to 32 of them$"):
            _compiled.ImageKeys({}, is_unread)


class TestPadded:
    """Padded batches wait with the others, and give the same tally as lists of dicts."""

    @pytest.mark.parametrize("is_torch", [False, True])
    @pytest.mark.parametrize("has_discarded", [False, True])
    @pytest.mark.parametrize("fill", [-1, -7])
    def test_the_tally_is_that_of_lists(self, is_torch: bool, has_discarded: bool, fill: int) -> None:
        """Whatever is in the padding; rows that are discarded may be anywhere."""
        wrap: Any = pytest.importorskip("torch").as_tensor if is_torch else np.asarray
        random = np.random.default_rng(5)
        metric, expected = (MeanAveragePrecision("coco", box_format="xywh", warn=False) for _ in range(2))
        for preds, targets in batches_of(np.asarray, 7):
            padded = pad(preds, fill)
            if has_discarded:
                padded["discarded"] = random.random(padded["labels"].shape) < 0.3
                is_kept = [
                    ~mask[: len(image["labels"])] for mask, image in zip(padded["discarded"], preds, strict=True)
                ]
                preds = [
                    {key: each[rows] for key, each in image.items()} for image, rows in zip(preds, is_kept, strict=True)
                ]
            sides = ({key: wrap(each) for key, each in side.items()} for side in (padded, pad(targets, fill)))
            metric.update(*sides)
            assert metric._waiting is not None  # the fast path
            expected.update(preds, targets)
        assert_same_tally(metric.tally, expected.tally)

    def test_lists_and_padded_batches_may_alternate(self) -> None:
        """They wait in one buffer."""
        batches = batches_of(np.asarray, 7)
        metric, expected = (MeanAveragePrecision("coco", box_format="xywh", warn=False) for _ in range(2))
        for number, (preds, targets) in enumerate(batches):
            metric.update(*((pad(preds, -1), pad(targets, -1)) if number % 2 else (preds, targets)))
            expected.update(preds, targets)
        assert_same_tally(metric.tally, expected.tally)

    def test_an_invalid_row_is_named(self) -> None:
        """By the general reader, at the update that it comes with."""
        preds, targets = (pad(images, -1) for images in three_images())
        metric = MeanAveragePrecision("coco", box_format="xywh", warn=False)
        metric.update(preds, targets)
        preds["scores"][1, 0] = np.nan
        with pytest.raises(InputError, match=r"^`preds`: `scores` row \[1, 0\] must be finite; got nan$"):
            metric.update(preds, targets)
        with pytest.raises(InputError, match=r"^`preds`: `labels` must hold integers; got float64$"):
            metric.update(preds | {"labels": preds["labels"] * 1.0}, targets)
        assert repr(metric) == "MeanAveragePrecision(coco, 3 images, 6 detections)"


def pad(images: list[dict[str, Any]], fill: int) -> dict[str, Any]:
    """Dicts as one padded batch; the padding of other columns than labels is NaN or 0."""
    length = 2 + max(len(image["labels"]) for image in images)
    padded: dict[str, Any] = {}
    for key in images[0]:
        rows = np.concatenate([image[key] for image in images])
        blank: Any = np.nan if rows.dtype.kind == "f" else 0
        shape = len(images), length, *rows.shape[1:]
        padded[key] = np.full(shape, fill if key == "labels" else blank, rows.dtype)
        for index, image in enumerate(images):
            padded[key][index, : len(image[key])] = image[key]
    return padded
