"""Random data sets of a known process, for tests of confidence intervals and p-values."""

import numpy as np

from boxscore import Detections, Truths


def random_dataset(random: np.random.Generator, num_images: int) -> tuple[Detections, Truths]:
    """Boxes of three classes, of which some are easier to find than others, in images that are easy or hard."""
    counts = random.poisson(2.0, num_images)
    image = np.repeat(np.arange(num_images), counts)
    label = random.integers(0, 3, image.size)
    left = (np.arange(image.size) - np.repeat(np.cumsum(counts) - counts, counts)) * 50.0
    box = np.stack([left, np.zeros_like(left), np.full_like(left, 40), np.full_like(left, 40)], axis=1)
    ease = np.array([2.0, 1.0, 0.0])[label] + random.normal(0, 0.7, num_images)[image]
    is_found = random.random(image.size) < 1 / (1 + np.exp(-ease))
    found = box[is_found]
    found[:, 0] += random.uniform(0, 15, found.shape[0])
    stray_image = np.repeat(np.arange(num_images), random.poisson(1.0, num_images))
    stray = np.tile([0.0, 100.0, 40.0, 40.0], (stray_image.size, 1))
    detections = Detections(
        image_ids=np.concatenate([image[is_found], stray_image]),
        labels=np.concatenate([label[is_found], random.integers(0, 3, stray_image.size)]),
        scores=np.concatenate([random.beta(4, 2, found.shape[0]), random.beta(2, 4, stray_image.size)]),
        boxes=np.concatenate([found, stray]),
        box_format="xywh",
    )
    return detections, Truths(image_ids=image, labels=label, boxes=box, box_format="xywh", class_names=["a", "b", "c"])
