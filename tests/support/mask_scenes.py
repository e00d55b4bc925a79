"""Random scenes of masks, as COCO's dicts: polygons, run lengths, crowds, ties, empty masks, images of many sizes."""

from typing import Any

import numpy as np
from pycocotools import mask

import boxscore

Dict = dict[str, Any]


def blob(random: np.random.Generator, height: int, width: int) -> Any:
    """An ellipse or a rectangle, whole numbers or not, now and then beyond the border. Shape (H, W)."""
    center = random.random(2) * (height, width)
    radius = 1 + random.random(2) * (height, width) / 3
    y, x = np.mgrid[:height, :width]
    if random.random() < 0.3:
        return (np.abs(y - center[0]) < radius[0]) & (np.abs(x - center[1]) < radius[1])
    return ((y - center[0]) / radius[0]) ** 2 + ((x - center[1]) / radius[1]) ** 2 < 1


def moved(random: np.random.Generator, pixels: Any) -> Any:
    """The same mask some pixels away, with some pixels more or less."""
    shift = random.integers(-2, 3, 2)
    other = np.roll(pixels, shift, axis=(0, 1))
    return other ^ (random.random(pixels.shape) < 0.02)


def encoded(pixels: Any) -> Dict:
    """COCO's compressed run lengths."""
    rle = mask.encode(np.asfortranarray(pixels.astype(np.uint8)))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def with_listed_runs(pixels: Any) -> Dict:
    """COCO's run lengths as a list, as crowds have them."""
    flat = np.concatenate([[0], pixels.astype(np.int64).reshape(-1, order="F")])
    edges = np.flatnonzero(np.diff(flat))
    counts = np.diff(np.concatenate([[0], edges, [pixels.size]]))
    return {"size": list(pixels.shape), "counts": counts.tolist()}


def polygon(random: np.random.Generator, height: int, width: int) -> list[list[float]]:
    """One outline or two."""
    parts = []
    for _ in range(random.integers(1, 3)):
        angle = np.sort(random.random(random.integers(3, 12))) * 2 * np.pi
        center, radius = random.random(2) * (width, height), 2 + random.random(2) * (width, height) / 3
        points = center + np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius
        parts.append(np.round(points, 2).reshape(-1).tolist())
    return parts


def pixels_of(segmentation: Any, size: tuple[int, int]) -> Any:
    """What pycocotools draws. Shape (H, W)."""
    rle = mask.frPyObjects(segmentation, *size)
    return mask.decode(mask.merge(rle) if isinstance(rle, list) else rle).astype(bool)


def random_masks(
    seed: int, *, num_images: int = 6, num_classes: int = 3, has_boxes: bool = False
) -> tuple[Dict, list[Dict]]:
    """A dataset and results. `has_boxes`: whether results have boxes, too, which decide their areas in pycocotools."""
    random = np.random.default_rng(seed)
    images: list[Dict] = []
    annotations: list[Dict] = []
    results: list[tuple[int, int, Any]] = []
    for image in range(num_images):
        size = int(random.integers(8, 70)), int(random.integers(8, 70))
        images.append({"id": image, "height": size[0], "width": size[1]})
        for _ in range(random.integers(0, 7) if image else 0):
            is_crowd = bool(random.random() < 0.15)
            outline: Any = polygon(random, *size) if random.random() < 0.6 else encoded(blob(random, *size))
            if is_crowd:
                outline = with_listed_runs(blob(random, *size) | blob(random, *size))
            is_text = isinstance(outline, dict) and isinstance(outline["counts"], str)
            pixels = mask.decode(outline).astype(bool) if is_text else pixels_of(outline, size)
            label = int(random.integers(num_classes))
            annotation = {"id": len(annotations) + 1, "image_id": image, "category_id": label, "iscrowd": int(is_crowd)}
            box = mask.toBbox(mask.encode(np.asfortranarray(pixels.astype(np.uint8)))).tolist()
            area = float(random.choice([pixels.sum(), random.integers(1, 12_000)]))
            annotations.append(annotation | {"bbox": box, "area": area, "segmentation": outline})
            for _ in range(random.integers(0, 4)):
                near = moved(random, pixels) if random.random() < 0.8 else blob(random, *size)
                results.append((image, label if random.random() < 0.9 else 0, near))
        for _ in range(random.integers(0, 3)):
            other = size if random.random() < 0.9 else (size[0] + 1, size[1])
            stray = blob(random, *other) if random.random() < 0.8 else np.zeros(other, bool)
            results.append((image, int(random.integers(num_classes)), stray))
    if not results:
        results.append((0, 0, np.ones((8, 8), bool)))
    dataset = {
        "info": {"year": 2026},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": label, "name": f"class {label}"} for label in range(num_classes)],
    }
    rows = []
    for image, label, pixels in results:
        score = round(float(random.random()), 1)  # ties
        row = {"image_id": image, "category_id": label, "score": score, "segmentation": encoded(pixels)}
        box = {"bbox": np.round(random.random(4) * 50, 1).tolist()} if has_boxes else {}
        rows.append(row | box)
    return dataset, rows


def columns_of(dataset: Dict, results: list[Dict]) -> tuple[boxscore.Detections, boxscore.Truths]:
    """The same as boxscore's columns."""
    sizes = {image["id"]: (image["height"], image["width"]) for image in dataset["images"]}
    annotations = dataset["annotations"]
    truths = boxscore.Truths(
        image_ids=[row["image_id"] for row in annotations],
        labels=[row["category_id"] for row in annotations],
        masks=boxscore.data.Masks.from_rle(
            [row["segmentation"] for row in annotations], [sizes[row["image_id"]] for row in annotations]
        ),
        area=[row["area"] for row in annotations],
        ignore=[row["iscrowd"] for row in annotations],
        class_names={row["id"]: row["name"] for row in dataset["categories"]},
    )
    detections = boxscore.Detections(
        image_ids=[row["image_id"] for row in results],
        labels=[row["category_id"] for row in results],
        scores=[row["score"] for row in results],
        masks=[row["segmentation"] for row in results],
    )
    return detections, truths
