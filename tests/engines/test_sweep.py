"""Matching in static shapes: the verdicts of the compiled core, whatever the rules, on any library and device."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Protocol, Truths, parallel
from boxscore.arrays.counting import counting
from boxscore.data import Coverage
from boxscore.data.dataset import coverage_codes
from tests.conftest import make_backend
from tests.support.scenes import Scene, padded, random_scene

NUM_IMAGES, NUM_CLASSES = 4, 3

RULES = [
    *(Protocol.named(name) for name in ("coco", "voc2007", "voc2012", "paper")),
    *(Protocol.named("coco", matching=matching) for matching in ("best", "best_regular")),
    Protocol.named("voc2012", matching="next_best", ties="last"),
    Protocol.named("voc2012", comparison=">"),
    Protocol.named("coco", limits=(1, 3)),
    Protocol.named("coco", limits=(7,), limits_per="image"),
    Protocol.named("coco", ignored="difficult"),
    Protocol.named("coco", thresholds=(0.0, 0.3, 1.0)),
    *(
        Protocol.named(name, group_of_weight=weight, federated=is_federated)
        for name in ("coco", "voc2007", "paper")
        for weight in (0, 1)
        for is_federated in (False, True)
    ),
]


def by_image(column: Any, images: Any, like: Any) -> Any:
    """A column of a scene in padded rows."""
    rows = np.zeros(like.shape, column.dtype)
    for image in range(NUM_IMAGES):
        row = np.flatnonzero(images == image)
        rows[image, : row.size] = column[row]
    return rows


def sides_of(
    scene: Scene, protocol: Protocol, random: np.random.Generator
) -> tuple[Truths, parallel.PaddedDetections, parallel.PaddedTruths]:
    """The truths with random kinds and coverage where the protocol has a use for them, and both sides padded."""
    found, there = padded(scene)
    truth, truths, kind, code = scene.truth, scene.truths, None, None
    if protocol.group_of_weight is not None:
        kinds = random.integers(0, 4, truth["labels"].size).astype(np.uint8)
        coverage = None
        if protocol.federated:
            sure = {*zip(truth["image_ids"].tolist(), truth["labels"].tolist(), strict=True)}
            more = zip(
                random.integers(0, NUM_IMAGES, 6).tolist(), random.integers(0, NUM_CLASSES, 6).tolist(), strict=True
            )
            images, labels = zip(*sorted(sure | {*more}), strict=True)
            is_exhaustive = random.random(len(images)) < 0.7
            coverage = Coverage(image_ids=images, labels=labels, is_exhaustive=is_exhaustive)
        columns = {name: column for name, column in truth.items() if name != "ignore"}
        truths = Truths(
            **columns, kind=kinds, coverage=coverage, box_format="xywh", class_names=scene.truths.class_names
        )
        kind = by_image(kinds, truth["image_ids"], there.labels)
        codes = coverage_codes(scene.detections, truths, protocol)
        code = None if codes is None else by_image(codes, scene.detection["image_ids"], found.labels)
    area = by_image(truth["area"], truth["image_ids"], there.labels)
    return truths, found._replace(coverage=code), there._replace(area=area, kind=kind)


def in_order_of_a_tally(labels: Any, matched: parallel.Matched) -> Any:
    """The verdicts, by image, label and rank."""
    verdict, rank, discarded = (np.asarray(each) for each in matched)
    image, slot = np.nonzero(~discarded)
    order = np.lexsort((rank[image, slot], labels[image, slot], image))
    return verdict[image[order], slot[order]]


@pytest.mark.parametrize("index", range(len(RULES)))
def test_random_scenes_have_the_verdicts_of_the_compiled_core(index: int) -> None:
    """Ties in score and IoU, crowds, area ranges, groups, coverage, limits."""
    protocol = RULES[index]
    for seed in range(1000 * index, 1000 * index + 8):
        random = np.random.default_rng(seed)
        scene = random_scene(
            seed,
            num_images=NUM_IMAGES,
            num_classes=NUM_CLASSES,
            most_detections=int(random.integers(1, 40)),
            most_truths=int(random.integers(1, 16)),
            is_whole=bool(seed % 2),
        )
        truths, found, there = sides_of(scene, protocol, random)
        matched = parallel.match_batch(found, there, protocol, box_format="xywh")
        expected = boxscore.match(scene.detections, truths, protocol, "native")
        assert np.array_equal(in_order_of_a_tally(found.labels, matched), expected.verdict), seed


@pytest.mark.parametrize("index", [0, 1, len(RULES) - 1])
def test_nothing_is_copied_or_read_on_a_device(index: int) -> None:
    """Constants are literals, the number of steps is a shape."""
    import torch

    scene = random_scene(1, num_images=NUM_IMAGES, num_classes=NUM_CLASSES)
    _, found, there = sides_of(scene, RULES[index], np.random.default_rng(0))
    expected = parallel.match_batch(found, there, RULES[index], box_format="xywh")
    with counting() as counts:

        def placed(column: Any) -> Any:
            return None if column is None else counts.place(torch.from_numpy(np.array(column)))

        found, there = parallel.PaddedDetections(*map(placed, found)), parallel.PaddedTruths(*map(placed, there))
        matched = parallel.match_batch(found, there, RULES[index], box_format="xywh")
        assert (counts.copies_to_device, counts.copies_to_host, counts.reads) == (0, 0, 0)
        assert counts.launches > 0
        verdict = matched.verdict.cpu().numpy()
    assert np.array_equal(verdict, expected.verdict)


def test_temporary_memory_is_similarities_and_one_flag_per_truth_and_cell() -> None:
    """Not one flag per pair and cell: these 16 x 100 x 24 pairs have 1.5 million cells."""
    jax = pytest.importorskip("jax")
    make_backend("jax")
    random = np.random.default_rng(0)
    corner, truth_corner = random.uniform(0, 500, (16, 100, 2)), random.uniform(0, 500, (16, 24, 2))
    found = parallel.PaddedDetections(
        np.concatenate([corner, corner + 50], axis=2),
        random.integers(0, 3, (16, 100)),
        random.random((16, 100)),
        np.zeros((16, 100), bool),
    )
    there = parallel.PaddedTruths(
        np.concatenate([truth_corner, truth_corner + 50], axis=2),
        random.integers(0, 3, (16, 24)),
        np.zeros((16, 24), bool),
    )
    step = jax.jit(lambda found, there: parallel.match_batch(found, there, "coco").verdict)
    compiled = step.lower(found, there).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 1.5e6


def test_one_compilation_serves_batches_of_every_size() -> None:
    """Of images, detections and truths: PyTorch specializes once, then generalizes."""
    import torch
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    protocol = Protocol.named("coco")

    def match(*columns: Any) -> Any:
        found, there = parallel.PaddedDetections(*columns[:4]), parallel.PaddedTruths(*columns[4:])
        return parallel.match_batch(found, there, protocol, box_format="xywh").verdict

    compiled = torch.compile(match, fullgraph=True, backend=counter)
    for seed in range(12):
        random = np.random.default_rng(seed)
        sizes = [int(each) for each in random.integers(3, 20, 3)]
        scene = random_scene(seed, num_images=sizes[0], most_detections=sizes[1], most_truths=sizes[2])
        found, there = padded(scene)
        columns = [torch.from_numpy(np.array(column)) for column in (*found[:4], *there[:3])]
        assert torch.equal(compiled(*columns), match(*columns))
    assert counter.frame_count <= 4


def test_a_tf_function_of_unknown_sizes_says_nothing() -> None:
    """One trace for every number of images, detections and truths; AutoGraph can read all of it."""
    code = """
import json
import numpy as np, tensorflow as tf
from boxscore import Protocol, parallel
from tests.support.scenes import padded, random_scene
protocol, num_traces, are_equal = Protocol.named("coco"), [0], []
def match(boxes, labels, scores, discarded, truth_boxes, truth_labels, ignore):
    num_traces[0] += 1
    found = parallel.PaddedDetections(boxes, labels, scores, discarded)
    return parallel.match_batch(found, parallel.PaddedTruths(truth_boxes, truth_labels, ignore), protocol).verdict
box, row = [None, None, 4], [None, None]
specs = [(box, "float64"), (row, "int64"), (row, "float64"), (row, "bool")]
specs += [(box, "float64"), (row, "int64"), (row, "bool")]
traced = tf.function(match, input_signature=[tf.TensorSpec(*spec) for spec in specs])
for seed in range(3):
    found, there = padded(random_scene(seed, num_images=2 + seed))
    columns = (*found[:4], *there[:3])
    expected = match(*columns)
    num_traces[0] -= 1
    are_equal.append(np.array_equal(traced(*columns).numpy(), expected))
print(json.dumps([are_equal, num_traces[0]]))
"""
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=quiet)
    assert json.loads(done.stdout) == [[True] * 3, 1]
    assert done.stderr == ""
