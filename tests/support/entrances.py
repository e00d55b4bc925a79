"""One scene through every entrance of boxscore that takes a protocol or a similarity.

An entrance gives the numbers of `boxscore.evaluate`, or refuses by name what it can't do. Frameworks are imported by
the entrances that need them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import boxscore
from boxscore import Detections, Protocol, Truths
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.kinds import kind_of
from boxscore.protocol.protocol import IOU_TYPES, KeypointRules
from boxscore.protocol.table import PROTOCOLS, protocol_of
from boxscore.result.tally import CountedTruths, RankedRows, Tally
from tests.support.memory_limits import plenty

Dict = dict[str, Any]
Numbers = Mapping[str, float]

SIDE, NUM_IMAGES, NUM_CLASSES = 128, 6, 3
GROUPS = {0: "rare", 1: "common", 2: "frequent"}


def _options() -> Iterator[Protocol]:
    """COCO's protocol with one rule changed, for each rule that a protocol has and each of its values."""
    changes: list[Dict] = [
        *({"ap": ap} for ap in ("interpolated", "linear_points", "envelope", "trapezoid")),
        *({"matching": matching, "thresholds": (0.1, 0.5)} for matching in ("best", "best_regular")),
        *({"ignored": ignored} for ignored in ("difficult", "regular", "absent")),
        *({"average": average} for average in ("weighted", "micro")),
        *({"extra_numbers": (name,)} for name in ("mr", "ji", "olrp")),
        *({"empty": empty} for empty in ("drop_detections", "drop")),
        {"thresholds": (0.5,)},
        {"thresholds": (0.3, 0.75)},
        {"recall_points": (0.0, 0.5, 1.0)},
        {"pixels": "inclusive"},
        {"comparison": ">"},
        {"ties": "first"},
        {"group_of_weight": 1},
        {"federated": True},
        {"areas": {"all": (0, None), "tiny": (0, 200)}},
        {"truth_area": "shape"},
        {"clips_boxes": True},
        {"ranges_by": "crowd_index", "areas": {"all": (0, None), "easy": (0, 0.3)}},
        {"limits": (1, 2)},
        {"limits": (3,), "limits_per": "image"},
        {"limits": (4,), "limits_per": "dataset"},
        {"min_score": 0.3},
        {"class_agnostic": True},
        {"recall_at": (0.5,)},
        {"class_groups": ("rare", "common")},
    ]
    coco = Protocol.named("coco")
    for change in changes:
        words = (f"{name} {value}" for name, value in change.items() if name not in ("areas",) or len(change) == 1)
        yield coco.replace(name=f"coco with {', '.join(words)}", **change)


def _cases() -> Iterator[tuple[str, Protocol]]:
    yield from PROTOCOLS.items()
    for iou_type in (each for each in IOU_TYPES if each != "bbox"):  # as protocols by name have
        yield f"coco {iou_type}", protocol_of("coco", iou_type)
        if iou_type != "keypoints":
            yield f"voc2012 {iou_type}", protocol_of("voc2012", iou_type)
    yield from ((protocol.name, protocol) for protocol in _options())


CASES: Mapping[str, Protocol] = dict(_cases())


class Scene:
    """Both sides of a few images in the shapes of a protocol, with all that any protocol asks for."""

    def __init__(self, iou_type: Any, num_points: int) -> None:
        random = np.random.default_rng(7)
        self.iou_type, self.key = iou_type, kind_of(iou_type).key
        self.box_format: BoxFormat = "cxcywha:radians" if iou_type in ("obb", "probiou") else "xyxy"
        self.preds: list[Dict] = []
        self.targets: list[Dict] = []
        for _ in range(NUM_IMAGES):
            num = int(random.integers(4, 9))
            corner = random.integers(0, 8, (num, 2)) * 12.0
            side = random.integers(1, 8, (num, 2)) * 12.0
            label = random.integers(0, NUM_CLASSES, num)
            points = random.random((num, num_points, 2))
            angle = random.random((num, 1))
            is_crowd = random.random(num) < 0.2
            target = self._shapes(corner, side, points, angle)
            target |= {"labels": label, "area": side.prod(axis=1) * 0.6, "iscrowd": is_crowd.astype(int)}
            if self.key == "masks":
                target["area"] = target["masks"].sum(axis=(1, 2)).astype(float)
            if iou_type == "keypoints":
                target["visibility"] = (random.random((num, num_points)) < 0.8).astype(int)
                target["boxes"] = np.concatenate([corner, corner + side], axis=1)
            rows = random.integers(0, num, 3 * num)
            moved = corner[rows] + 3.0 * random.integers(-2, 3, (len(rows), 2))
            resized = side[rows] + 6.0 * random.integers(0, 3, (len(rows), 2)) * (random.random((len(rows), 1)) < 0.5)
            resized[0] = 0  # no area
            near = points[rows] + random.normal(0, 0.01, (len(rows), num_points, 2))
            pred = self._shapes(moved, resized, near, angle[rows])
            wrong = random.random(len(rows)) < 0.15
            pred |= {
                "labels": np.where(wrong, random.integers(0, NUM_CLASSES, len(rows)), label[rows]),
                "scores": random.integers(0, 12, len(rows)) / 12,
            }
            if iou_type == "keypoints":
                pred["keypoints_scores"] = (random.random((len(rows), num_points)) < 0.6).astype(float)
            self.preds.append(pred)
            self.targets.append(target)

    def _shapes(self, corner: Any, side: Any, points: Any, angle: Any) -> Dict:
        if self.key == "keypoints":
            return {"keypoints": corner[:, None] + points * np.maximum(side, 1)[:, None]}
        if self.key == "masks":
            place = np.arange(SIDE)
            columns, rows = ((place >= corner[:, i, None]) & (place < (corner + side)[:, i, None]) for i in (0, 1))
            return {"masks": rows[:, :, None] & columns[:, None, :]}
        if self.box_format == "xyxy":
            return {"boxes": np.concatenate([corner, corner + side], axis=1)}
        return {"boxes": np.concatenate([corner + side / 2, side, angle], axis=1)}

    def listed(self) -> list[Dict]:
        """The targets with the lists of labels that federated protocols ask for."""
        lists = ({"neg_category_ids": [i % NUM_CLASSES], "not_exhaustive_category_ids": [0]} for i in range(NUM_IMAGES))
        return [{**target, **each} for target, each in zip(self.targets, lists, strict=True)]

    def columns(self, *, is_full: bool = True) -> tuple[Detections, Truths]:
        """Both sides as columns. `is_full`: with all that a protocol may ask for of images and classes."""
        settings: Any = {"iou_type": self.iou_type, "box_format": self.box_format}
        detections = Detections.from_images(self.preds, **settings)
        truths = Truths.from_images(self.listed() if is_full else self.targets, **settings)
        if is_full:
            truths = replace(
                truths,
                image_sizes=dict.fromkeys(range(NUM_IMAGES), (SIDE, SIDE)),
                crowd_index={image: image / 5 for image in range(NUM_IMAGES)},
                class_groups=GROUPS,
            )
        return detections, truths

    def padded(self) -> tuple[Dict, Dict]:
        """Both sides as dicts of padded arrays."""
        return _padded(self.preds), _padded(self.targets)


def _padded(images: list[Dict]) -> Dict:
    length = max(len(image["labels"]) for image in images)
    batch: Dict = {}
    for key, column in images[0].items():
        batch[key] = np.full((len(images), length, *column.shape[1:]), -1 if key == "labels" else 0, column.dtype)
        for row, image in enumerate(images):
            batch[key][row, : len(image[key])] = image[key]
    return batch


@cache
def _scene(iou_type: Any, num_points: int) -> Scene:
    return Scene(iou_type, num_points)


def scene_of(protocol: Protocol) -> Scene:
    """The scene in the shapes of a protocol; of a part of the body, whole bodies."""
    num = 133 if protocol.name.startswith("coco_wholebody") else len(protocol.sigmas)
    return _scene(protocol.iou_type, num)


def numbers_of(result: boxscore.Result) -> Numbers:
    """The numbers of a result; -1 where undefined, so that they can be compared."""
    return result.log_dict(per_class=False, undefined=-1.0)


def expected(protocol: Protocol) -> Numbers:
    """What every entrance must give."""
    return numbers_of(boxscore.evaluate(*scene_of(protocol).columns(), protocol))


def _metric(preds: Any, targets: Any, protocol: Protocol, box_format: BoxFormat) -> Numbers:
    metric = boxscore.MeanAveragePrecision(protocol, box_format=box_format, class_groups=GROUPS, warn=False)
    metric.update(preds, targets)
    return numbers_of(metric.compute())


def _by_lists(protocol: Protocol) -> Numbers:
    scene = scene_of(protocol)
    return _metric(scene.preds, scene.listed(), protocol, scene.box_format)


def _by_tensors(protocol: Protocol) -> Numbers:
    import torch

    scene = scene_of(protocol)
    preds, targets = (
        [{key: torch.as_tensor(value) for key, value in image.items()} for image in images]
        for images in (scene.preds, scene.listed())
    )
    return _metric(preds, targets, protocol, scene.box_format)


def _by_padded(protocol: Protocol) -> Numbers:
    scene = scene_of(protocol)
    return _metric(*scene.padded(), protocol, scene.box_format)


def _by_columns(protocol: Protocol) -> Numbers:
    scene = scene_of(protocol)
    return _metric(*scene.columns(), protocol, scene.box_format)


def _by_engine(engine: Any) -> Callable[[Protocol], Numbers]:
    return lambda protocol: numbers_of(boxscore.evaluate(*scene_of(protocol).columns(), protocol, engine))


QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of JAX's compiler: it works once for each protocol, on a few boxes."""


def _by_jax(protocol: Protocol) -> Numbers:
    import jax

    import boxscore.jax

    jax.config.update("jax_enable_x64", True)
    scene = scene_of(protocol)
    state = boxscore.jax.init(1000, protocol)
    update = jax.jit(boxscore.jax.update, compiler_options=QUICKLY)
    state = update(state, *scene.padded(), np.arange(NUM_IMAGES))
    return numbers_of(boxscore.jax.compute(state))


def _by_torch(protocol: Protocol) -> Numbers:
    import torch

    import boxscore.torch

    preds, targets = (
        {key: torch.from_numpy(np.array(column)) for key, column in side.items()}
        for side in scene_of(protocol).padded()
    )
    state = boxscore.torch.update(boxscore.torch.init(1000, protocol), preds, targets, torch.arange(NUM_IMAGES))
    return numbers_of(boxscore.torch.compute(state))


def _by_shard_of_columns(protocol: Protocol) -> Numbers:
    return numbers_of(
        boxscore.finish(boxscore.scaling.match_shard(*scene_of(protocol).columns(), protocol, name="all"))
    )


def _by_shard_of_tables(protocol: Protocol) -> Numbers:
    scene = scene_of(protocol)
    tally = boxscore.scaling.match_shard(*tables_of(scene), protocol, name="all", box_format=scene.box_format)
    return numbers_of(boxscore.finish(tally))


def _by_batch(protocol: Protocol) -> Numbers:
    """The verdicts as a tally; extra numbers are made of more than verdicts."""
    from boxscore.data.dataset import ignored_kinds
    from boxscore.engines.parallel.batch import which_count
    from boxscore.parallel import PaddedDetections, PaddedTruths, match_batch

    protocol = protocol.replace(extra_numbers=())
    preds, targets = scene_of(protocol).padded()
    if protocol.class_agnostic:  # `evaluate` puts rows in order of their labels then
        preds, targets = _by_label(preds), _by_label(targets)
    nothing = np.zeros((*preds["labels"].shape, 4))
    found = PaddedDetections(preds.get("boxes", nothing), preds["labels"], preds["scores"], preds["labels"] < 0)
    box = targets.get("boxes", np.zeros((*targets["labels"].shape, 4)))
    there = PaddedTruths(box, targets["labels"], targets["iscrowd"] > 0, targets["area"])
    matched = match_batch(found, there, protocol)
    counts = which_count(there.area, ignored_kinds(there.ignore, protocol), protocol)
    image, truth_image = (np.indices(each.shape)[0] for each in (found.labels, there.labels))
    is_row, is_truth = ~matched.discarded, there.labels >= 0
    labels = [np.zeros_like(each) if protocol.class_agnostic else each for each in (found.labels, there.labels)]
    tally = Tally.from_verdicts(
        protocol=protocol,
        rows=RankedRows(image[is_row], labels[0][is_row], found.scores[is_row], matched.rank[is_row]),
        verdict=matched.verdict[is_row],
        truths=CountedTruths(truth_image[is_truth], labels[1][is_truth], counts[is_truth]),
        classes=np.unique(np.concatenate([labels[0][is_row], labels[1][is_truth]])),
    )
    return numbers_of(boxscore.finish(replace(tally, class_groups=GROUPS if protocol.class_groups else None)))


def _by_label(batch: Dict) -> Dict:
    order = np.argsort(batch["labels"], axis=1, kind="stable")
    rows = np.arange(len(order))[:, None]
    return {key: column[rows, order] for key, column in batch.items()}


def _by_keras(protocol: Protocol) -> Numbers:
    import keras

    import boxscore.keras

    scene = scene_of(protocol)
    inputs = np.arange(NUM_IMAGES, dtype=np.float32)[:, None]
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Identity()])
    callback = boxscore.keras.MeanAveragePrecisionCallback(
        [(inputs, scene.listed())],
        protocol,
        decode=lambda outputs: [scene.preds[int(index)] for index in outputs[:, 0]],
        box_format=scene.box_format,
        class_groups=GROUPS,
        warn=False,
    )
    callback.set_model(model)
    callback.on_epoch_end(0)
    assert callback.result is not None
    return numbers_of(callback.result)


def _by_huggingface(protocol: Protocol) -> Numbers:
    import torch

    import boxscore.huggingface

    scene = scene_of(protocol)

    def process(outputs: Any, threshold: float, target_sizes: Any) -> list[Dict]:
        if scene.key == "masks":
            return [
                {
                    "segmentation": torch.from_numpy(pred["masks"]),
                    "segments_info": [
                        {"id": row, "score": score, "label_id": label}
                        for row, (score, label) in enumerate(
                            zip(pred["scores"].tolist(), pred["labels"].tolist(), strict=True)
                        )
                    ],
                }
                for pred in scene.preds
            ]
        return [{key: torch.from_numpy(value) for key, value in pred.items()} for pred in scene.preds]

    metrics = boxscore.huggingface.DetectionMetrics(process, protocol, class_groups=GROUPS, warn=False)
    labels = []
    for target in scene.listed():
        size = torch.tensor([SIDE, SIDE])
        label = {key: target[key] for key in target if key not in ("boxes", "labels")}
        if "boxes" in target:
            corner, end = target["boxes"][:, :2], target["boxes"][:, 2:]
            label["boxes"] = np.concatenate([(corner + end) / 2, end - corner], axis=1) / SIDE
        labels.append(label | {"class_labels": target["labels"], "orig_size": size, "size": size})
    queries = torch.zeros(NUM_IMAGES, 2, 4)
    outputs = {"logits": queries, "pred_boxes": queries, "pred_masks": queries}
    metrics.update(outputs, labels)
    return metrics.compute()


def _by_evaluate(protocol: Protocol) -> Numbers:
    import boxscore.huggingface

    scene = scene_of(protocol)
    metric = boxscore.huggingface.EvaluateMetric(protocol, class_groups=GROUPS, warn=False, keep_in_memory=True)
    numbers: Numbers = metric.compute(predictions=scene.preds, references=scene.listed())
    return numbers


def _by_files(protocol: Protocol) -> Numbers:
    from pyarrow import parquet

    from boxscore.scaling.out_of_core import evaluate_files

    scene = scene_of(protocol)
    with TemporaryDirectory() as folder:
        paths = Path(folder, "found.parquet"), Path(folder, "there.parquet")
        for path, table in zip(paths, tables_of(scene, image="image_id", label="category_id"), strict=True):
            parquet.write_table(table, path)
        return numbers_of(evaluate_files(*paths, protocol, memory=plenty(), box_format=scene.box_format))


def tables_of(scene: Scene, **names: str) -> tuple[Any, Any]:
    """Both sides as Arrow tables, with the facts of images; `names`: of columns that have another one."""
    import pyarrow

    from tests.support.arrow_tables import table_columns

    tables = []
    for side in scene.columns(is_full=False):
        columns = table_columns(side)
        if isinstance(side, Truths):
            listed, image = scene.listed(), np.asarray(side.image_ids).tolist()
            columns["class_group"] = [GROUPS[label] for label in np.asarray(side.labels).tolist()]
            columns |= {name: np.full(len(image), SIDE) for name in ("image_width", "image_height")}
            columns["crowd_index"] = [number / 5 for number in image]
            for name in ("neg_category_ids", "not_exhaustive_category_ids"):
                columns[name] = pyarrow.array([listed[number][name] for number in image])
        tables.append(pyarrow.table({names.get(name, name): column for name, column in columns.items()}))
    return tables[0], tables[1]


ENTRANCES: Mapping[str, Callable[[Protocol], Numbers]] = {
    "metric, lists": _by_lists,
    "metric, tensors": _by_tensors,
    "metric, padded": _by_padded,
    "metric, columns": _by_columns,
    "parallel": _by_engine("parallel"),
    "sequential": _by_engine("sequential"),
    "jax": _by_jax,
    "torch": _by_torch,
    "match_shard, columns": _by_shard_of_columns,
    "match_shard, tables": _by_shard_of_tables,
    "keras": _by_keras,
    "transformers": _by_huggingface,
    "evaluate": _by_evaluate,
    "out of core": _by_files,
    "match_batch": _by_batch,
}

OF_IMAGES = {"clips_boxes", "ranges_by"}
"""Rules that ask for something of each image that dicts don't have: its size, how crowded it is."""
NOT_OF_MASKS = {"keypoints", "obb", "probiou"}
STATIC = {"min_score", "ignored absent", "truth_area", "empty", *OF_IMAGES, *NOT_OF_MASKS, "segm", "boundary"}
OF_STATES = {"federated", "extra_numbers", "class_groups", "limits_per dataset", "rules of keypoints"}
"""Rules that a state of fixed size can't follow."""

REFUSED: Mapping[str, set[str]] = {
    "metric, lists": OF_IMAGES,
    "metric, tensors": OF_IMAGES,
    "metric, padded": OF_IMAGES | {"federated"},
    "keras": OF_IMAGES,
    "transformers": OF_IMAGES | {"federated"} | NOT_OF_MASKS,
    "evaluate": OF_IMAGES | {"federated"} | NOT_OF_MASKS,
    **dict.fromkeys(("jax", "torch"), STATIC - {"segm", "keypoints"} | OF_STATES),
    "match_batch": STATIC | {"federated"},
}
"""The rules, as `rules_of` names them, that an entrance can't follow; those that are not here can follow all."""


def rules_of(protocol: Protocol) -> set[str]:
    """The rules of a protocol that some entrance can't follow."""
    named = {"ignored absent" if name == "ignored" else name for name in protocol.needs}
    named |= {"class_groups"} if protocol.class_groups else set()
    named |= {"limits_per dataset"} if protocol.limits_per == "dataset" else set()
    named |= {"rules of keypoints"} if protocol.keypoints != KeypointRules() else set()
    return named | {protocol.iou_type}
