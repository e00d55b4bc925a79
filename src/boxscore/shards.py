"""Shards: the map, in pieces, for Spark, Dask, a queue or files. A shard is some whole images of a data set."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore import arrow
from boxscore.boxes import BoxFormat
from boxscore.columns import ClassNames, Detections, Truths, host_ids
from boxscore.errors import InputError
from boxscore.pipeline import match
from boxscore.protocol import Protocol
from boxscore.tally import Tally


def match_shard(
    detections: Any,
    truths: Any,
    protocol: str | Protocol = "coco",
    *,
    name: str,
    images: Iterable[int] | None = None,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Tally:
    """The verdicts of a shard; whatever is wrong in it is told with its `name`.

    `detections` and `truths` are `Detections` and `Truths`, or `pyarrow.Table`s with their columns, `box` a list of 4;
    `box_format` and `class_names` are for tables. All boxes of an image must be in one shard, for an image is matched
    as a whole. `images`: the ids that the shard is made of, if you know them; a box on any other is refused. Tallies of
    shards that share an image can't be merged, so a shard that comes twice is found by its image ids.

    >>> truths = Truths(image=[0], label=[1], box=[[0, 0, 10, 10]])
    >>> found = Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 10, 9]])
    >>> match_shard(found, truths, "voc2012", name="part-00000").finish()["map"]
    1.0
    >>> match_shard(found, truths, "voc2012", name="part-00001", images=[1])
    Traceback (most recent call last):
    boxscore.errors.InputError: part-00001: image 0 is not one of the shard's
    """
    with _named(f"{name}: detections"):
        found = (
            detections if isinstance(detections, Detections) else arrow.detections_of(detections, box_format=box_format)
        )
    with _named(f"{name}: truths"):
        there = (
            truths
            if isinstance(truths, Truths)
            else arrow.truths_of(truths, box_format=box_format, class_names=class_names)
        )
    if images is not None:
        seen = np.union1d(host_ids(found.image), host_ids(there.image))
        strange = seen[~np.isin(seen, np.fromiter(images, np.int64))]
        if strange.size:
            raise InputError(f"{name}: image {strange[0]} is not one of the shard's")
    with _named(name):
        return match(found, there, protocol, engine, threads=threads)


def shard_of(image: NDArray[Any], num_shards: int) -> NDArray[np.int64]:
    """The shard of each image id, the same on every machine; ids of any pattern are spread evenly.

    >>> shard_of(np.array([0, 1, 2, 3, 4, 5]), 4).tolist()
    [0, 1, 2, 0, 0, 0]
    """
    return (mixed(np.asarray(image).astype(np.int64)).view(np.uint64) % np.uint64(num_shards)).astype(np.int64)


def mixed(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hashes of integers by the finalizer of SplitMix64: every bit that goes in changes every bit that comes out."""
    bits = numbers.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Whatever is wrong is told with where it is."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
