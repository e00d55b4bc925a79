"""torchmetrics' names and manners around boxscore's numbers."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.wrappers import Running

import boxscore
from boxscore.torchmetrics import MeanAveragePrecision
from tests.support.processes import run_world
from tests.support.scenes import Scene, random_scene
from tests.support.torchmetrics_results import BATCH, IN_DOUBLE, NUMBERS, check_equal
from tests.support.world_of_metrics import SCENE, as_dicts
from tests.support.world_of_torchmetrics import over

EVERYTHING = list(range(SCENE.num_images))
NAMES = [*NUMBERS, "map_per_class", "mar_100_per_class", "classes"]


def evaluated(scene: Scene, **changes: Any) -> boxscore.Result:
    """What boxscore itself makes of a scene without class names."""
    truths = boxscore.Truths(**scene.truth, box_format="xywh")
    return boxscore.evaluate(scene.detections, truths, boxscore.Protocol.named("coco", **changes))


def tensor(values: Any) -> torch.Tensor:
    """In single precision, -1 for NaN."""
    return torch.tensor(np.nan_to_num(np.array(values), nan=-1.0), dtype=torch.float32)


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_evaluate(seed: int) -> None:
    """Rounded to single precision, -1 for NaN; image by image."""
    scene = random_scene(seed)
    metric = MeanAveragePrecision("xywh", class_metrics=True)
    for image in range(scene.num_images):
        pred, target = as_dicts(scene, image)
        metric.update([pred], [target])
    found, expected = metric.compute(), evaluated(scene)
    assert list(found) == NAMES
    for name in NUMBERS:
        assert torch.equal(found[name], tensor(expected[name])), name
    assert torch.equal(found["map_per_class"], tensor(expected.per_class.ap))
    assert torch.equal(found["mar_100_per_class"], tensor(expected.per_class.ar))
    assert found["classes"].tolist() == expected.per_class.label.tolist()


SETTINGS: list[dict[str, Any]] = [
    {},
    {"class_metrics": True},
    {"average": "micro"},
    {"average": "micro", "class_metrics": True, "extended_summary": True},
    {"extended_summary": True},
    {"iou_thresholds": [0.5]},
    {"iou_thresholds": [0.3, 0.6]},
    {"rec_thresholds": [0.0, 0.5, 1.0]},
    {"max_detection_thresholds": [100, 3, 2]},
    {"class_metrics": True, "is_one_class": True},
    {"has_no_truths": True},
    {"has_no_detections": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_all_is_as_torchmetrics_gives_it(theirs: Any, settings: dict[str, Any]) -> None:
    """Keys, shapes, dtypes and bits, with thresholds in double precision."""
    settings = dict(settings)
    scene = random_scene(7, num_images=20, num_classes=3 if settings.pop("is_one_class", False) else 6)
    if scene.num_classes == 3:
        for columns in (scene.detection, scene.truth):
            columns["labels"][:] = 4
    emptied = [settings.pop(name, False) for name in ("has_no_detections", "has_no_truths")]
    for columns in (each for each, is_empty in zip((scene.detection, scene.truth), emptied, strict=True) if is_empty):
        columns |= {name: column[:0] for name, column in columns.items()}
    ours = MeanAveragePrecision("xywh", warn=not emptied[0], **settings)
    other = theirs("xywh", **(IN_DOUBLE | settings))
    for image in range(scene.num_images):
        pred, target = as_dicts(scene, image)
        del target["area"]
        for metric in (ours, other):
            metric.update([pred], [target | {"iscrowd": target["iscrowd"].int()}])
    check_equal(ours.compute(), other.compute())


def test_numbers_of_torchmetrics_are_reproduced_by_one_keyword(theirs: Any) -> None:
    """To the last bit; by default `map` differs in many small sets, and always by its recall points."""
    num_different = 0
    for seed in range(30):
        scene = random_scene(seed, num_images=10 + seed, num_classes=5)
        given: dict[str, Any] = {"class_metrics": True}
        metrics = {
            "theirs": theirs("xywh", **given),
            "ours": MeanAveragePrecision("xywh", torchmetrics_thresholds=True, **given),
            "default": MeanAveragePrecision("xywh", **given),
            "theirs_with_recall_points": theirs("xywh", rec_thresholds=IN_DOUBLE["rec_thresholds"], **given),
        }
        preds, targets = zip(*(as_dicts(scene, image) for image in range(scene.num_images)), strict=True)
        computed = {}
        for name, metric in metrics.items():
            metric.warn_on_many_detections = False
            metric.update(list(preds), list(targets))
            computed[name] = metric.compute()
        check_equal(computed["ours"], computed["theirs"])
        if not torch.equal(computed["default"]["map"], computed["theirs"]["map"]):
            num_different += 1
            assert torch.equal(computed["default"]["map"], computed["theirs_with_recall_points"]["map"])
    assert num_different > 5


@pytest.mark.parametrize("given", ["iou_thresholds", "rec_thresholds"])
def test_thresholds_that_are_given_are_taken_as_they_are(theirs: Any, given: str) -> None:
    """By torchmetrics, and with `torchmetrics_thresholds`."""
    values: dict[str, Any] = {given: [0.1, 0.6, 0.7]}
    ours, other = MeanAveragePrecision("xywh", torchmetrics_thresholds=True, **values), theirs("xywh", **values)
    assert (ours.iou_thresholds, ours.rec_thresholds) == (other.iou_thresholds, other.rec_thresholds)


def test_an_area_of_zero_means_that_of_the_box(theirs: Any) -> None:
    """So does none; those given decide the size class."""
    metrics = [MeanAveragePrecision("xywh"), theirs("xywh", **IN_DOUBLE)]
    for image in EVERYTHING:
        pred, target = as_dicts(SCENE, image)
        target["area"] = torch.where(torch.arange(len(target["area"])) % 2 == 0, 0.0, target["area"])
        if image % 3 == 0:
            del target["area"]
        for metric in metrics:
            metric.update([pred], [target])
    found, expected = (metric.compute() for metric in metrics)
    assert found["map_small"] > 0
    for name in NUMBERS:
        assert torch.equal(found[name], expected[name]), name


def test_ours_is_right_where_theirs_is_not(theirs: Any) -> None:
    """Limits without 100 have a map; default thresholds are COCO's."""
    with_limits: dict[str, Any] = {"max_detection_thresholds": [1, 2, 5]}
    ours, other = MeanAveragePrecision("xywh", **with_limits), theirs("xywh", **with_limits)
    for metric in (ours, other):
        metric.warn_on_many_detections = False
        metric.update(*BATCH)
    assert other.compute()["map"] == -1
    assert ours.compute()["map"] > 0
    assert MeanAveragePrecision().iou_thresholds == list(boxscore.Protocol.named("coco").thresholds)
    assert theirs().iou_thresholds != MeanAveragePrecision().iou_thresholds


def test_every_map_is_within_the_largest_limit(theirs: Any) -> None:
    """In torchmetrics map is within 100, whatever the limits, and map_50 within the largest."""
    # The only hit comes after 120 misses, so it has precision 1 / 121, and recall 1.
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    found = {"boxes": torch.cat([box + 50] * 120 + [box]), "scores": torch.linspace(1, 0.1, 121)}
    found["labels"] = torch.zeros(121, dtype=torch.int64)
    values = []
    for metric in (make("xywh", max_detection_thresholds=[1, 100, 150]) for make in (MeanAveragePrecision, theirs)):
        metric.update([found], [{"boxes": box, "labels": torch.zeros(1, dtype=torch.int64)}])
        values.append([round(float(metric.compute()[name]) * 121, 4) for name in ("map", "map_50")])
    assert values == [[1, 1], [0, 1]]


def test_an_iou_of_exactly_a_threshold_reaches_it(theirs: Any) -> None:
    """0.6 is one of COCO's thresholds; torchmetrics' is 0.6000000238, which an IoU of 0.6 does not reach."""
    # 10 x 6 within 10 x 10: IoU 0.6, so 0.5, 0.55 and 0.6 are reached: 3 of 10 thresholds.
    found = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 6.0]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}
    there = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 10.0]]), "labels": torch.tensor([0])}
    values = []
    for metric in (MeanAveragePrecision("xywh"), theirs("xywh")):
        metric.update([found], [there])
        values.append(round(float(metric.compute()["map"]), 4))
    assert values == [0.3, 0.2]


def test_any_number_of_limits_will_do() -> None:
    """Each has its name, and the last one's classes."""
    metric = MeanAveragePrecision("xywh", max_detection_thresholds=[5])
    metric.warn_on_many_detections = False
    metric.update(*BATCH)
    names = [name for name in NAMES if not name.startswith("mar_1")]
    assert sorted(metric.compute()) == sorted([*names, "mar_5", "mar_5_per_class"])


def test_scalars_only_is_what_log_dict_takes() -> None:
    """Twelve numbers, whatever else is asked for."""
    metric = MeanAveragePrecision("xywh", scalars_only=True, class_metrics=True, extended_summary=True)
    metric.update(*BATCH)
    assert list(metric.compute()) == NUMBERS
    assert all(value.shape == () for value in metric.compute().values())


def test_no_images_give_the_same_keys() -> None:
    """All of it -1, no classes."""
    metric = MeanAveragePrecision()
    metric.update([], [])
    found = metric.compute()
    assert list(found) == NAMES
    assert all(found[name] == -1 for name in NAMES[:-1])
    assert found["classes"].shape == (0,)


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_forward_gives_the_batch_and_counts_it(average: str) -> None:
    """All batches together are the whole."""
    metric, whole = (MeanAveragePrecision("xywh", average=average) for _ in range(2))
    for image in EVERYTHING:
        pred, target = as_dicts(SCENE, image)
        alone = MeanAveragePrecision("xywh", average=average)
        alone.update([pred], [target])
        check_equal(metric([pred], [target]), alone.compute())
        whole.update([pred], [target])
    check_equal(metric.compute(), whole.compute())


def test_copies_have_a_state_of_their_own() -> None:
    """By clone, deepcopy and pickle."""
    metric = over(EVERYTHING[:9])
    copies = [metric.clone(), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))]
    expected = metric.compute()
    metric.reset()
    for each in copies:
        check_equal(each.compute(), expected)
        each.update(*BATCH)
    assert len(metric.tallies) == 0


@pytest.mark.parametrize("settings", [{}, {"keep_boxes": True, "extended_summary": True}])
def test_a_shallow_copy_goes_on_by_itself(settings: dict[str, Any]) -> None:
    """Its updates don't count in the original, nor the original's in the copy."""
    metric = over(EVERYTHING[:9], **settings)
    expected = metric.compute()
    other = copy.copy(metric)
    check_equal(other.compute(), expected)
    other.update(*BATCH)
    metric._computed = None  # what torchmetrics caches
    check_equal(metric.compute(), expected)
    metric.update(*BATCH)
    metric.update(*BATCH)
    num, num_more, num_of_original = (sum(map(len, each._split())) for each in (over(EVERYTHING[:9]), other, metric))
    assert num < num_more
    assert num_of_original - num == 2 * (num_more - num)


def test_reset_forgets() -> None:
    """And starts anew."""
    metric = over(EVERYTHING[:9])
    metric.reset()
    metric.update(*BATCH)
    check_equal(metric.compute(), over(EVERYTHING[:4]).compute())


def test_a_checkpoint_goes_on() -> None:
    """If states are persistent; else there is nothing in it, as torchmetrics has it."""
    metric = over(EVERYTHING[:9])
    assert metric.state_dict() == {}
    metric.persistent(True)
    fresh = over([])
    fresh.persistent(True)
    fresh.load_state_dict(metric.state_dict())
    fresh.update(*BATCH)
    metric.update(*BATCH)
    check_equal(fresh.compute(), metric.compute())


def test_casts_and_moves_change_nothing() -> None:
    """The state is bytes, whatever dtype it is carried in."""
    metric = over(EVERYTHING)
    expected = metric.compute()
    for move in (metric.to("cpu"), metric.half(), metric.to(torch.float16), metric.set_dtype(torch.float16)):
        move._computed = None
        check_equal(move.compute(), expected)


def test_a_collection_takes_several() -> None:
    """With names in front where they would be the same; what can be shared is."""
    pair = {"one": MeanAveragePrecision("xywh"), "pooled": MeanAveragePrecision("xywh", average="micro")}
    collection = MetricCollection(pair)
    collection.update(*BATCH)
    collection.update(*([each] for each in as_dicts(SCENE, 9)))
    found = collection.compute()
    for name, average in (("one", "macro"), ("pooled", "micro")):
        metric = MeanAveragePrecision("xywh", average=average)
        metric.update(*BATCH)
        metric.update(*([each] for each in as_dicts(SCENE, 9)))
        check_equal({key: found[f"{name}_{key}"] for key in NAMES}, metric.compute())
    assert set(collection(*BATCH)) == set(found)


def test_images_with_one_id_count_once_if_asked() -> None:
    """Else every image counts, as torchmetrics has it."""
    twice = [*EVERYTHING, *EVERYTHING[:6]]
    check_equal(over(twice, unique_images=True).compute(), over(EVERYTHING).compute())
    assert not torch.equal(over(twice).compute()["map"], over(EVERYTHING).compute()["map"])


def test_images_with_one_id_count_once_within_a_batch() -> None:
    """The first of them; an error in the other is still told, by its own place."""
    pred, target = as_dicts(SCENE, 3)
    target["image_id"] = torch.tensor([3])
    other = {"boxes": pred["boxes"][:0], "scores": pred["scores"][:0], "labels": pred["labels"][:0]}
    metric, once = (MeanAveragePrecision("xywh", unique_images=True, invalid="error") for _ in range(2))
    metric.update([pred, other], [target, target])
    once.update([pred], [target])
    check_equal(metric.compute(), once.compute())
    with pytest.raises(boxscore.InputError, match=r"preds\[1\]: `scores` row 0 must be finite; got nan"):
        metric.update([other, pred | {"scores": pred["scores"] * torch.nan}], [target, target])


def spoilt(pred: dict[str, Any]) -> dict[str, Any]:
    """A prediction with three rows more, none of which can be."""
    box = torch.tensor([[torch.nan, 0, 1, 1], [0, 0, -1, 1], [0, 0, 1, 1]], dtype=pred["boxes"].dtype)
    score = torch.tensor([0.9, 0.9, torch.inf], dtype=pred["scores"].dtype)
    label = torch.zeros(3, dtype=pred["labels"].dtype)
    more = {"boxes": box, "scores": score, "labels": label}
    return {key: torch.cat([more[key][:2], column, more[key][2:]]) for key, column in pred.items()}


@pytest.mark.parametrize("settings", [{}, {"average": "micro"}, {"extended_summary": True}, {"unique_images": True}])
def test_predictions_that_can_not_be_are_dropped(theirs: Any, settings: dict[str, Any]) -> None:
    """As if they had not been there, with one warning and a count; torchmetrics gives a number, too."""
    metric = MeanAveragePrecision("xywh", class_metrics=True, **settings)

    def update(images: list[int]) -> None:
        for image in images:
            pred, target = as_dicts(SCENE, image)
            metric.update([spoilt(pred)], [target | {"image_id": image}])

    with pytest.warns(UserWarning, match=r"^3 invalid predictions of a batch were dropped; the first: preds") as caught:
        update(EVERYTHING)
    assert len([each for each in caught if "invalid" in str(each.message)]) == 1
    check_equal(metric.compute(), over(EVERYTHING, **settings).compute())
    assert metric.num_invalid == 3 * len(EVERYTHING)
    if metric.unique_images:
        update([0, 1])
        assert metric.num_invalid == 3 * len(EVERYTHING)
    pred, target = next(pair for pair in (as_dicts(SCENE, image) for image in EVERYTHING) if len(pair[1]["labels"]))
    other = theirs("xywh", **IN_DOUBLE)
    other.update([spoilt(pred)], [target])
    assert other.compute()["map"] >= 0
    with pytest.raises(boxscore.InputError, match=r"preds\[0\]: `boxes` row 0 must have 4 finite numbers; got \[nan"):
        MeanAveragePrecision("xywh", invalid="error").update([spoilt(pred)], [target])
    with pytest.raises(boxscore.InputError, match=r"target\[0\]: `boxes` row 0 must have 4 finite numbers"):
        metric.update([pred], [target | {"boxes": target["boxes"] * torch.nan, "image_id": 99}])


def test_a_running_metric_is_over_the_last_updates() -> None:
    """By torchmetrics' wrapper, which puts the state of each update aside."""
    running = Running(MeanAveragePrecision("xywh", scalars_only=True), window=2)
    for image in EVERYTHING[:5]:
        running.update(*([each] for each in as_dicts(SCENE, image)))
    found = running.compute()
    check_equal({name: found[name] for name in NUMBERS}, over([3, 4], scalars_only=True).compute())


def test_inputs_that_need_gradients_are_welcome() -> None:
    """And don't get any."""
    pred, target = as_dicts(SCENE, 3)
    metric = MeanAveragePrecision("xywh")
    metric.update(
        [{**pred, "boxes": pred["boxes"].requires_grad_(), "scores": pred["scores"].requires_grad_()}], [target]
    )
    assert not metric.compute()["map"].requires_grad


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iou_type": "obb"}, "`iou_type` must be bbox, segm, a tuple of both, or keypoints; got 'obb'"),
        ({"iou_type": ("bbox", "bbox")}, "`iou_type` must be bbox, segm, a tuple of both, or keypoints"),
        ({"box_format": "yxyx"}, "`box_format` must be one of"),
        ({"average": "weighted"}, "`average` must be one of macro, micro; got 'weighted'"),
        ({"iou_thresholds": [0.5, 0.4]}, "`iou_thresholds` must be ascending"),
        ({"iou_thresholds": 0.5}, "`iou_thresholds` must be a list of numbers; got 0.5"),
        ({"rec_thresholds": [2.0]}, "`rec_thresholds` must lie between 0 and 1; got 2"),
        ({"max_detection_thresholds": [1, 10, None]}, "`max_detection_thresholds` must be positive integers"),
        ({"max_detection_thresholds": [0, 10, 100]}, "`max_detection_thresholds` must be positive integers"),
        ({"max_detection_thresholds": [True, 10]}, "`max_detection_thresholds` must be positive integers"),
        ({"class_metrics": 1}, "`class_metrics` must be True or False; got 1"),
        ({"backend": "cocoapi"}, "`backend` must be one of pycocotools, faster_coco_eval; got 'cocoapi'"),
        ({"torchmetrics_thresholds": "yes"}, "`torchmetrics_thresholds` must be True or False; got 'yes'"),
        (IN_DOUBLE | {"torchmetrics_thresholds": True}, "`iou_thresholds` and `rec_thresholds` are given: leave out"),
        ({"iou_type": "keypoints", "torchmetrics_thresholds": True}, "torchmetrics has no keypoints"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(settings: dict[str, Any], message: str) -> None:
    """By torchmetrics' names."""
    with pytest.raises(boxscore.InputError, match=message.replace("(", r"\(")):
        MeanAveragePrecision(**settings)


def test_batches_that_cannot_be_right_are_refused_as_a_whole() -> None:
    """With the argument, the image and the rule."""
    metric = MeanAveragePrecision("xywh", unique_images=True)
    pred, target = as_dicts(SCENE, 3)
    cases: list[tuple[Any, Any, str]] = [
        ([pred], [], "`preds` and `target` must have one entry per image; got 1 and 0"),
        (pred, [target], "`preds` must be a list of dicts, one per image; got dict"),
        ([pred], [target], "target[0] must have the key 'image_id', for unique_images=True"),
        ([pred], [None], "target[0] must be a dict with `boxes` and `labels`; got NoneType"),
        (
            [None],
            [target | {"image_id": 3}],
            "preds[0] must be a dict with `boxes`, `scores` and `labels`; got NoneType",
        ),
        (
            [pred],
            [target | {"image_id": 3.7}],
            "target[0]: an image id must be an integer of 64 bits or a name; got 3.7",
        ),
        (
            [pred],
            [target | {"image_id": None}],
            "target[0]: an image id must be an integer of 64 bits or a name; got None",
        ),
        (
            [pred],
            [target | {"image_id": torch.tensor([1, 2])}],
            "target[0]: an image id must be an integer of 64 bits or a name; got int64 of shape (2,)",
        ),
        (
            [pred | {"boxes": pred["boxes"].to(torch.complex64)}],
            [target | {"image_id": 3}],
            "`preds`: `boxes` must hold real numbers; got complex64",
        ),
        ([{"boxes": pred["boxes"]}], [target | {"image_id": 3}], "preds[0] must have the key 'scores'; got ['boxes']"),
        (
            [pred],
            [{"labels": target["labels"], "image_id": 3}],
            "target[0] must have the key 'boxes'; got ['image_id', 'labels']",
        ),
    ]
    for preds, targets, message in cases:
        with pytest.raises(boxscore.InputError) as caught:
            metric.update(preds, targets)
        assert str(caught.value) == message
    assert len(metric.tallies) == 0


def test_many_detections_in_an_image_are_told_of() -> None:
    """Unless told not to."""
    metric = MeanAveragePrecision("xywh", max_detection_thresholds=[1])
    with pytest.warns(UserWarning, match="^Encountered more than 1 detections in a single image: 18 are of one class"):
        metric.update(*BATCH)
    metric.warn_on_many_detections = False
    metric.update(*BATCH)


def test_plot_draws_the_numbers() -> None:
    """One result, or several."""
    metric = MeanAveragePrecision("xywh", scalars_only=True)
    metric.update(*BATCH)
    assert len(metric.plot()) == 2
    assert len(metric.plot([metric.compute(), metric.compute()])) == 2


@pytest.mark.filterwarnings("ignore:::lightning", "ignore:::pytorch_lightning", "ignore:::torch")
def test_lightning_logs_what_evaluate_gives() -> None:
    """From a validation loop, by log_dict."""
    import lightning

    class Detector(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.metric = MeanAveragePrecision("xywh", scalars_only=True)

        def validation_step(self, batch: Any) -> None:
            self.metric.update(*batch)

        def on_validation_epoch_end(self) -> None:
            self.log_dict(self.metric.compute())
            self.metric.reset()

    batches = [tuple([each] for each in as_dicts(SCENE, image)) for image in EVERYTHING]
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(accelerator="cpu", devices=1, enable_model_summary=False, **quiet)
    (logged,) = trainer.validate(Detector(), loader, verbose=False)
    expected = evaluated(SCENE)
    assert logged == {name: float(tensor(expected[name])) for name in NUMBERS}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two processes found in each case."""
    found = run_world("tests.support.world_of_torchmetrics", 2, tmp_path_factory.mktemp("world"))
    assert all(each is not None for each in found)
    return found


def test_two_processes_get_what_one_gets(world: list[dict[str, Any]]) -> None:
    """Through torchmetrics' own synchronization, and a collection's."""
    for rank in world:
        for average in ("macro", "micro"):
            check_equal(rank[average], over(EVERYTHING, average=average).compute())
        check_equal(rank["collection"], rank["macro"])


def test_a_process_without_images_gets_it_too(world: list[dict[str, Any]]) -> None:
    """Torchmetrics would have it send floats, and fail."""
    for rank in world:
        check_equal(rank["one empty"], over(EVERYTHING, extended_summary=True).compute())


def test_repeated_images_of_a_sampler_count_once(world: list[dict[str, Any]]) -> None:
    """With unique_images=True."""
    for rank in world:
        check_equal(rank["sampler"], over(EVERYTHING).compute())


def test_a_box_that_can_not_be_fails_on_no_rank(world: list[dict[str, Any]]) -> None:
    """One rank has it; all have the numbers without it."""
    for rank in world:
        check_equal(rank["invalid"], over(EVERYTHING).compute())


def test_synchronizing_takes_three_collectives(world: list[dict[str, Any]]) -> None:
    """A barrier, the sizes and the bytes."""
    assert all(rank["collectives"] == ["barrier", "all_gather", "all_gather"] for rank in world)


def test_after_compute_each_process_has_its_own_state_again(world: list[dict[str, Any]]) -> None:
    """And without synchronization its own result."""
    assert all(rank["stays"] for rank in world)
    assert not torch.equal(world[0]["not synced"]["map"], world[1]["not synced"]["map"])


def test_forward_can_be_over_all_processes(world: list[dict[str, Any]]) -> None:
    """By dist_sync_on_step, as any metric of torchmetrics."""
    for rank in world:
        check_equal(rank["on step"], over([0, 1]).compute())


class TestWaiting:
    """Batches of boxes wait to be matched together; nobody can tell."""

    @pytest.mark.parametrize("settings", [{}, {"unique_images": True}, {"class_metrics": True, "box_format": "cxcywh"}])
    def test_the_numbers_are_those_of_batches_that_are_matched_at_once(
        self, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Areas of 0, which are those of boxes, and images that come again included."""
        batches = []
        for image in [*EVERYTHING[:9], *EVERYTHING[3:6], *EVERYTHING[9:]]:
            pred, target = as_dicts(SCENE, image)
            area = torch.where(torch.arange(len(target["labels"])) % 2 == 0, 0, target["area"])
            batches.append(([pred], [target | {"image_id": torch.tensor(image), "area": area}]))
        waiting, at_once = (MeanAveragePrecision(**{"box_format": "xywh", **settings}) for _ in range(2))
        for batch in batches:
            waiting.update(*batch)
        assert sum(map(len, waiting._tallies)) == 0 or settings.get("unique_images")
        with monkeypatch.context() as changed:
            changed.setattr("boxscore.training.torchmetrics._Matcher._add_to_buffer", lambda *_: False)
            for batch in batches:
                at_once.update(*batch)
                assert len(at_once.tallies[-1])
        assert len(at_once.tallies) == len(batches)
        check_equal(waiting.compute(), at_once.compute())

    def test_metrics_that_share_their_state_share_what_waits(self) -> None:
        """As those of a collection do."""
        metric, other = MeanAveragePrecision("xywh"), MeanAveragePrecision("xywh")
        metric.update(*BATCH)
        other.tallies, other._update_count = metric.tallies, 1
        metric.update(*BATCH)
        assert len(metric._tallies) == 1
        check_equal(other.compute(), metric.compute())
        assert sum(map(len, other._split())) == 2 * sum(len(pred["labels"]) for pred in BATCH[0])

    def test_a_batch_that_is_stopped_leaves_nothing(self) -> None:
        """Where a warning is an error, neither rows nor ids of images stay."""
        metric = MeanAveragePrecision("xywh", max_detection_thresholds=[1])
        many = {key: torch.cat([column] * 2) for key, column in as_dicts(SCENE, 0)[0].items()}
        with pytest.warns(UserWarning, match="Encountered more than 1 detections") as told:
            metric.update([many], [as_dicts(SCENE, 0)[1]])
        assert [each.filename for each in told] == [__file__]
        metric.reset()
        with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="Encountered"):
            metric.update([many], [as_dicts(SCENE, 0)[1]])
        state: Any = metric.tallies
        assert (len(state), state.matcher._seen) == (0, set())
