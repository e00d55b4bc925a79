"""Make the sample that ships with boxscore: street scenes, and a detector that errs in all the usual ways.

    python examples/make_sample.py src/boxscore/cli/sample

Truths have crowds and objects of every size. The detector misses some, finds some twice, shifts boxes, confuses
classes and sees things that are not there; surer when it is right.
"""

import json
import sys
from pathlib import Path

import numpy as np

CLASSES = {1: "person", 2: "bicycle", 3: "car", 18: "dog"}
TYPICAL_SIZE = {1: (40, 110), 2: (70, 60), 3: (110, 70), 18: (60, 50)}
WIDTH, HEIGHT, NUM_IMAGES = 640, 480, 40


def main(folder: Path) -> None:
    """Write `truths.json` and `detections.json`."""
    random = np.random.default_rng(7)
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    results: list[dict[str, object]] = []
    for image in range(1, NUM_IMAGES + 1):
        images.append({"id": image, "file_name": f"street_{image:03}.jpg", "width": WIDTH, "height": HEIGHT})
        for _ in range(random.integers(2, 9)):
            label = int(random.choice(list(CLASSES), p=[0.45, 0.15, 0.25, 0.15]))
            box = make_box(random, label)
            is_crowd = int(label == 1 and random.random() < 0.06)
            annotation = {"id": len(annotations) + 1, "image_id": image, "category_id": label, "bbox": rounded(box)}
            annotations.append(annotation | {"area": round(float(box[2] * box[3]) * 0.8, 1), "iscrowd": is_crowd})
            for found, score in detect(random, box):
                said = int(random.choice(list(CLASSES))) if random.random() < 0.08 else label
                results.append(result(image, said, found, score))
        for _ in range(random.poisson(3)):
            label = int(random.choice(list(CLASSES)))
            results.append(result(image, label, make_box(random, label), random.beta(1.2, 5)))
    categories = [{"id": label, "name": name} for label, name in CLASSES.items()]
    write(folder / "truths.json", {"images": images, "categories": categories, "annotations": annotations})
    write(folder / "detections.json", results)


def make_box(random: np.random.Generator, label: int) -> np.ndarray:
    """A box of a size typical for its class, inside the image."""
    size = np.array(TYPICAL_SIZE[label]) * random.lognormal(-0.2, 0.7) * random.uniform(0.8, 1.2, 2)
    size = np.clip(size, 6, (WIDTH - 1, HEIGHT - 1))
    corner = random.uniform(0, (WIDTH, HEIGHT) - size)
    return np.concatenate([corner, size])


def detect(random: np.random.Generator, box: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """What the detector makes of an object: nothing, one box or two."""
    num_found = random.choice(3, p=[0.15, 0.65, 0.2])
    found = []
    for place in range(num_found):
        spread = 0.05 if place == 0 else 0.15
        shift = random.normal(0, spread, 4) * np.tile(box[2:], 2)
        found.append((np.maximum(box + shift, 1), random.beta(5, 2) * (1.0 if place == 0 else 0.5)))
    return found


def result(image: int, label: int, box: np.ndarray, score: float) -> dict[str, object]:
    """One row of a COCO results file."""
    return {"image_id": image, "category_id": label, "bbox": rounded(box), "score": round(float(score), 3)}


def rounded(box: np.ndarray) -> list[float]:
    """Coordinates to a tenth of a pixel."""
    return [round(float(value), 1) for value in box]


def write(path: Path, value: object) -> None:
    """JSON with a line for each row, so that a change can be read."""
    path.write_text(json.dumps(value).replace("}, {", "},\n {") + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
