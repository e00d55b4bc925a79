"""Resamples of the bootstrap against evaluations of repeated images."""

from dataclasses import replace
from typing import Any

import numpy as np

import boxscore
from boxscore import Protocol
from boxscore.analysis.bootstrap import draws
from tests.support.scenes import Scene


def repeated(columns: dict[str, Any], drawn: Any) -> dict[str, Any]:
    """Columns with each image as often as it was drawn, under ids that have a copy right behind its original."""
    image = columns["image_ids"]
    rows = [np.flatnonzero(drawn[image] > copy) for copy in range(max(int(drawn.max(initial=0)), 1))]
    ids = np.concatenate([image[row] * 100 + copy for copy, row in enumerate(rows)])
    return {name: column[np.concatenate(rows)] for name, column in columns.items()} | {"image_ids": ids}


def assert_resamples_are_exact(scene: Scene, protocol: Protocol, *, seed: int, resamples: int = 11) -> None:
    """The samples equal the numbers of images that are really there several times: eight at once, and some more."""
    result = boxscore.finish(boxscore.match(scene.detections, scene.truths, protocol))
    samples = result.intervals(resamples=resamples, seed=seed).samples
    images = result.images
    for resample in range(resamples):
        drawn = np.zeros(scene.num_images, np.int64)
        drawn[images] = draws(images.size, resample=resample, seed=seed)
        again = replace(scene, detection=repeated(scene.detection, drawn), truth=repeated(scene.truth, drawn))
        expected = boxscore.evaluate(again.detections, again.truths, protocol)
        assert np.array_equal(samples.ap[resample], expected.per_class.ap, equal_nan=True)
        assert np.array_equal(samples.ar[resample], expected.per_class.ar, equal_nan=True)
        numbers = [samples.numbers[name][resample] for name in expected]
        assert np.array_equal(numbers, list(expected.values()), equal_nan=True)
