"""Random federated scenes as LVIS' dicts: lists of classes, frequencies, ties, shapes without area, many detections."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

from boxscore.coco import mask
from tests.support import oracles
from tests.support.mask_scenes import blob, encoded, moved, polygon, with_listed_runs

Dict = dict[str, Any]

SIZE = 40, 60
"""Height and width of every image."""


def federated_scene(
    seed: int,
    *,
    num_images: int = 8,
    num_classes: int = 7,
    num_detections: int = 40,
    has_masks: bool = False,
    has_boxes: bool = True,
) -> tuple[Dict, list[Dict]]:
    """A dataset and results. The last image has nothing, the last class no truths, and no list names some classes.

    `has_masks`: whether annotations and results have masks; `has_boxes`: whether results have boxes.
    """
    random = np.random.default_rng(seed)
    labels = (np.arange(num_classes) * 3 + 1).tolist()
    images: list[Dict] = []
    annotations: list[Dict] = []
    for number in range(num_images):
        absent, partial = (random.choice(labels, random.integers(0, 4), replace=False).tolist() for _ in range(2))
        lists = {"neg_category_ids": absent, "not_exhaustive_category_ids": partial}
        images.append({"id": number * 5 + 2, "height": SIZE[0], "width": SIZE[1], "coco_url": f"http://x/{number}.jpg"})
        images[-1] |= lists
        for _ in range(random.integers(0, 8) if number < num_images - 1 else 0):
            label = int(random.choice(labels[:-1]))
            shape = _shape(random, has_masks=has_masks)
            shape["area"] *= 90 if random.random() < 0.2 else 1  # now and then medium or large
            shape["area"] = 0 if random.random() < 0.1 else shape["area"]
            ids = {"id": len(annotations) + 1, "image_id": images[-1]["id"], "category_id": label}
            annotations.append({**ids, **shape})
            if random.random() < 0.2:
                annotations[-1]["iscrowd"] = 1
    results = []
    for _ in range(num_detections * (num_images - 1)):
        image = int(random.choice([each["id"] for each in images[:-1]]))
        own = [ann for ann in annotations if ann["image_id"] == image]
        near = own[random.integers(len(own))] if own and random.random() < 0.7 else None
        label = near["category_id"] if near and random.random() < 0.8 else int(random.choice(labels))
        shape = _near(random, near) if near else _shape(random, has_masks=has_masks)
        shape.pop("area", None)
        if not has_boxes:
            shape.pop("bbox")
            shape["segmentation"] = _text(shape["segmentation"])
        score = round(float(random.random()), 1 if random.random() < 0.7 else 6)
        results.append({"image_id": image, "category_id": label, "score": score, **shape})
    order = random.permutation(len(results)).tolist()
    categories = [
        {"id": label, "name": f"class {label}", "frequency": "rcf"[random.integers(3)]} for label in labels[::-1]
    ]
    dataset = {"info": {"year": 2026}, "images": images, "annotations": annotations, "categories": categories}
    return dataset, [results[row] for row in order]


def _shape(random: np.random.Generator, *, has_masks: bool) -> Dict:
    """A box, with a mask in one of COCO's forms or without."""
    if not has_masks:
        x, y = (random.random(2) * (SIZE[1], SIZE[0])).round(1).tolist()
        width, height = (1 + random.random(2) * 25).round(1).tolist()
        width = 0 if random.random() < 0.05 else width
        return {"bbox": [x, y, width, height], "area": width * height}
    outline: Any = polygon(random, *SIZE)
    kind = random.integers(3)
    if kind:
        pixels = blob(random, *SIZE)
        outline = encoded(pixels) if kind == 1 else with_listed_runs(pixels)
    rle = _text(outline)
    area = float(mask.area(rle))
    return {"bbox": mask.toBbox(rle).tolist(), "segmentation": outline, "area": area}


def _near(random: np.random.Generator, ann: Dict) -> Dict:
    """A shape like that of an annotation."""
    if "segmentation" not in ann:
        box = np.array(ann["bbox"]) + random.normal(0, 1, 4).round(1)
        box[2:] = np.abs(box[2:])
        return {"bbox": box.tolist() if random.random() < 0.8 else ann["bbox"]}
    if random.random() < 0.2:
        return {"bbox": ann["bbox"], "segmentation": _text(ann["segmentation"])}
    rle = encoded(moved(random, mask.decode(_text(ann["segmentation"])).astype(bool)))
    box = mask.toBbox(rle) * (1 + random.random(4))  # boxes of another area than the mask
    return {"bbox": box.tolist(), "segmentation": rle}


def _text(outline: Any) -> Dict:
    """A segmentation as compressed run lengths."""
    rle = outline
    if isinstance(outline, list):
        rle = mask.merge(mask.frPyObjects(outline, *SIZE))
    elif isinstance(outline["counts"], list):
        rle = mask.frPyObjects(outline, *SIZE)
    counts = rle["counts"]
    return {"size": list(rle["size"]), "counts": counts.decode() if isinstance(counts, bytes) else counts}


def write_lvis(folder: Path, dataset: Dict, results: list[Dict]) -> tuple[str, str]:
    """A dataset and results in two files."""
    paths = folder / "truths.json", folder / "results.json"
    for path, content in zip(paths, (dataset, results), strict=True):
        path.write_text(json.dumps(content))
    return str(paths[0]), str(paths[1])


def reference(
    files: tuple[str, str], iou_type: str, *, results: list[Dict] | None = None, limit: int = 300, **params: Any
) -> Any:
    """The evaluation of `lvis` 0.5.3, after `run`; `results` in place of those in the file."""
    with oracles.old_numpy():
        lvis = oracles.lvis()
        truths = lvis.LVIS(files[0])
        given = files[1] if results is None else copy.deepcopy(results)
        evaluation = lvis.LVISEval(truths, lvis.LVISResults(truths, given, max_dets=limit), iou_type)
        for name, value in params.items():
            setattr(evaluation.params, name, copy.deepcopy(value))
        evaluation.run()
        return evaluation
