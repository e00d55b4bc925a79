"""Random scenes of CrowdHuman as its files have them, and what mmdetection makes of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import boxscore
from boxscore import Detections, Truths
from tests.support import oracles

Record = dict[str, Any]


def random_crowd(seed: int, *, num_images: int = 12, size: tuple[int, int] = (100, 80)) -> list[Record]:
    """One record per image, on whole pixels: persons that overlap, masks, boxes beyond the image, equal scores.

    Every image has a truth, without which mmdetection fails.
    """
    random = np.random.default_rng(seed)
    width, height = size
    records = []
    for image in range(num_images):
        truth = _boxes(random, int(random.integers(1, 8)), size)
        is_ignored = random.random(len(truth)) < 0.25
        extra = random.integers(0, 3, len(truth))
        gtboxes = [
            {
                "tag": "mask" if ignored and kind != 1 else "person",
                "fbox": box,
                "vbox": box,
                "hbox": [0, 0, 1, 1],
                "extra": {"ignore": 1} if ignored and kind else {"box_id": 0},
            }
            for box, ignored, kind in zip(truth, is_ignored.tolist(), extra.tolist(), strict=True)
        ]
        near = [truth[row] for row in random.integers(0, len(truth), int(random.integers(0, 10)))]
        moved = [(np.array(box) + random.integers(-4, 5, 4)).tolist() for box in near]
        found = [*([*box[:2], *(max(side, 0) for side in box[2:])] for box in moved), *_boxes(random, 3, size)]
        score = (random.integers(1, 60, len(found)) / 60).tolist()
        dtboxes = [{"box": box, "score": each, "tag": 1} for box, each in zip(found, score, strict=True)]
        records.append({"ID": f"{image:03}", "width": width, "height": height, "gtboxes": gtboxes, "dtboxes": dtboxes})
    return records


def _boxes(random: np.random.Generator, num: int, size: tuple[int, int]) -> list[list[int]]:
    corner = random.integers(-10, [size[0], size[1]], (num, 2))
    return np.concatenate([corner, random.integers(3, 50, (num, 2))], axis=1).tolist()  # type: ignore[no-any-return]


def write_crowd(folder: Path, records: list[Record]) -> tuple[Path, Path]:
    """Truths without sizes and detections with them, as they are published."""
    truths, detections = folder / "truths.odgt", folder / "detections.odgt"
    for path, left_out in ((truths, ("width", "height", "dtboxes")), (detections, ("gtboxes",))):
        plain = [{key: value for key, value in record.items() if key not in left_out} for record in records]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in plain))
    return truths, detections


def read_crowd(folder: Path, records: list[Record]) -> tuple[Detections, Truths]:
    """The columns of these records, from their files."""
    truths_path, detections_path = write_crowd(folder, records)
    truths = boxscore.read_truths(truths_path, sizes=detections_path)
    return boxscore.read_detections(detections_path, truths), truths


class _Results(list[Any]):
    """In place of a queue between processes."""

    put_nowait = list.append


def mmdetection_numbers(records: list[Record]) -> tuple[dict[str, float], Any]:
    """AP, MR and JI by mmdetection, before it rounds them; and what the last counts in each image at each score
    threshold: pairs, truths and detections. Shape (S, N, 3).
    """
    module = oracles.mmdet("metrics.crowdhuman_metric")
    metric = module.CrowdHumanMetric(ann_file="")
    samples = {}
    for record in records:
        image = samples[record["ID"]] = module.Image(0)
        for is_truth in (True, False):
            image.load(record, "box", None, module.PERSON_CLASSES, is_truth)
        image.clip_all_boader()
    scores = metric.compare(samples)
    num_truths = sum(int(each.gt_num - each.ign_num) for each in samples.values())
    indices, counts = [], []
    for step in range(10):
        results = _Results()
        metric.compute_ji_with_ignore(results, samples, 1e-1 * step)
        indices.append(metric.gather(results)[1])
        counts.append([[each["k"], each["m"], each["n"]] for each in results])
    ap, mr = (measure(scores, num_truths, len(samples)) for measure in (metric.eval_ap, metric.eval_mr))
    return {"map": ap, "mr": mr, "ji": max(indices)}, np.array(counts)
