"""Random data and random protocols through the compiled engine, for as long as you like.

    python -m tests.fuzz_native SECONDS [SEED]

Every case must equal the parallel engine bit for bit, and its resamples the results of repeated images; columns that
were tampered with must be refused or survived. Run under the sanitizers (`make fuzz`) they will have their say, too. A
case is named by its seed, to be tried again.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

import numpy as np

import boxscore
from boxscore import Detections, Protocol, Tally, Truths
from boxscore.analysis.bootstrap import Plan, resample
from boxscore.engines.map_reduce import reduce_tallies
from boxscore.engines.native import compiled_engine as native
from boxscore.protocol.protocol import ApRule
from boxscore.result.tally import EXTRAS
from tests.support.comparisons import TALLY, assert_same
from tests.support.fuzzing import fuzz
from tests.support.resampling import assert_resamples_are_exact
from tests.support.scenes import random_scene
from tests.support.tally_store import MemoryStore


def random_protocol(random: np.random.Generator) -> Protocol:
    """Any field, anything that is allowed."""
    num_areas = int(random.choice([1, 1, 2, 4, 7, 8, 12]))
    bounds = np.sort(random.choice([0, 1, 100, 900, 1024, 5000, 9216, 1e10], (num_areas, 2)), axis=1)
    limits = sorted({int(limit) for limit in random.choice([1, 2, 3, 10, 100], random.integers(1, 4))})
    thresholds = np.linspace(0.05, 0.95, int(random.integers(1, 90)))
    if random.random() < 0.7:
        thresholds = np.unique(random.choice([0, 0.1, 0.3, 0.5, 0.7, 0.9, 1], 3).tolist())
    extra_numbers = ("mr", "ji", "olrp") if thresholds[0] < 1 else ("mr", "ji")
    return Protocol.named(
        str(random.choice(["coco", "voc2007", "voc2012", "paper"])),
        thresholds=thresholds,
        recall_points=np.unique(np.round(random.random(random.integers(1, 30)), 2)),
        areas={f"area {a}": (low, high) for a, (low, high) in enumerate(bounds.tolist())},
        limits=[*limits, None] if random.random() < 0.3 else limits,
        pixels=str(random.choice(["continuous", "inclusive"])),
        comparison=str(random.choice([">=", ">"])),
        matching=str(random.choice(["best", "best_regular", "next_best"])),
        ties=str(random.choice(["first", "last"])),
        ignored=str(random.choice(["crowd", "difficult", "regular", "absent"])),
        group_of_weight=int(random.choice([0, 1])),
        limits_per=str(random.choice(["class", "image"])),
        min_score=None if random.random() < 0.8 else 0.3,
        empty=str(random.choice(["keep", "drop", "drop_detections"])),
        extra_numbers=[name for name in extra_numbers if random.random() < 0.1],
        ap=str(random.choice(get_args(ApRule))),
        class_agnostic=bool(random.random() < 0.2),
        average=str(random.choice(["macro", "weighted", "micro"])),
        precision_epsilon=float(random.choice([0.0, np.spacing(1)])),
    )


def check_case(seed: int) -> None:
    """One scene under one protocol: both engines, whole and in shards."""
    random = np.random.default_rng(seed)
    sizes = {"num_images": int(random.integers(1, 12)), "num_classes": int(random.integers(2, 70))}
    most = {"most_detections": int(random.choice([0, 3, 40, 200])), "most_truths": int(random.choice([0, 2, 10, 40]))}
    scene = random_scene(seed, **sizes, **most, is_whole=bool(random.random() < 0.5))
    protocol = random_protocol(random)
    real = str(random.choice(["float32", "float64"]))
    spread = int(random.choice([1, 1000, 10**10]))
    found = scene.detection | {
        "boxes": scene.detection["boxes"].astype(real),
        "image_ids": scene.detection["image_ids"] * spread,
    }
    there = scene.truth | {"image_ids": scene.truth["image_ids"] * spread}
    if random.random() < 0.3:
        there.pop("ignore")
        there["kind"] = random.integers(0, 4, there["labels"].size)

    def columns(is_found: Any, is_there: Any) -> tuple[Detections, Truths]:
        detections = Detections(**{n: c[is_found] for n, c in found.items()}, box_format="xywh")
        return detections, Truths(**{n: c[is_there] for n, c in there.items()}, box_format="xywh")

    everything = columns(slice(None), slice(None))
    tally = boxscore.match(*everything, protocol, "native", threads=int(random.integers(1, 4)))
    expected = boxscore.match(*everything, protocol, "parallel")
    for column in (*TALLY, *EXTRAS):
        assert np.array_equal(getattr(tally, column), getattr(expected, column)), column
    result = boxscore.finish(tally, "native", threads=int(random.integers(1, 4)))
    assert_same(result, boxscore.finish(expected, "parallel"))

    halves = [
        boxscore.match(
            *columns(found["image_ids"] // spread % 2 == odd, there["image_ids"] // spread % 2 == odd), protocol
        )
        for odd in (1, 0)
    ]
    assert_same(boxscore.finish(halves[0].merge(halves[1])), result)
    assert_resamples_are_exact(scene, protocol, seed=seed, resamples=2)

    size = int((tally.totals.pooled() if protocol.average == "micro" else tally.totals).num_detections.max(initial=1))
    assert_same(
        reduce_tallies(MemoryStore(halves, size, bool(random.random() < 0.5)), int(random.integers(1, 4))), result
    )
    tamper(tally, random)


def tamper(tally: Tally, random: np.random.Generator) -> None:
    """Columns that do not fit together any more: an error, or numbers, but nothing worse."""
    name = str(random.choice(TALLY))
    column = getattr(tally, name).copy()
    if column.size == 0:
        return
    kind = random.integers(3)
    if kind == 0:
        column = column[: random.integers(column.shape[0])]
    elif kind == 1:
        noise = random.integers(0, 256, column.nbytes, np.uint8).view(column.dtype).reshape(column.shape)
        column = np.where(random.random(column.shape) < 0.3, noise, column)
    else:
        column = column.astype(str(random.choice(["int8", "uint64", "float32"])))
    tampered = replace(tally, **{name: column})
    with suppress(ValueError, TypeError, OverflowError):
        native.curves(tampered, threads=2)
    with suppress(ValueError, TypeError, OverflowError):
        resample(tampered, tally.images, Plan(resamples=2, seed=0, level=0.95), threads=2)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        print(f"{len(fuzz(check_case))} cases, nothing found")
