"""Shards: the map in pieces, for Spark, Dask, a queue or files. A shard consists of whole images of a dataset."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import is_array
from boxscore.data.dataset import ClassNames, Detections, Truths, host_ids
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.kinds import kind_of
from boxscore.data.image_facts import CLASS_GROUP
from boxscore.data.validation import RowError, as_array, as_ids
from boxscore.pipeline import match
from boxscore.protocol.protocol import EngineName, Protocol, ProtocolLike, as_protocol
from boxscore.result import arrow
from boxscore.result.tally import Tally


def match_shard(
    detections: Any,
    truths: Any,
    protocol: ProtocolLike = "coco",
    *,
    name: str,
    images: Iterable[int] | None = None,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    engine: EngineName = "auto",
    threads: int | None = None,
) -> Tally:
    """Match one shard of a dataset.

    All boxes of an image must be in one shard, because an image is matched as a whole. Tallies of shards that share an
    image can't be merged, so a shard that is given twice is detected by its image ids.

    Args:
        detections: `Detections`, or a `pyarrow.Table` with their columns. In tables, `box` is a list or tensor of 4.
            For protocols of masks: `mask`, a struct of `size`, height and width, and `counts`, COCO's compressed run
            lengths. For protocols of other shapes: the columns of their geometry, and optionally `box` and `area`.
        truths: `Truths`, or a `pyarrow.Table`, as `detections`.
        protocol: A protocol or its name.
        name: The shard's name, with which errors begin.
        images: The image ids of the shard, if known; a box on any other image is an error.
        box_format: The format of the boxes in tables.
        class_names: Class names by label, for truths in a table.
        engine: The engine that matches.
        threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.

    >>> import boxscore
    >>> truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    >>> detections = Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 9]])
    >>> tally = match_shard(detections, truths, "voc2012", name="part-00000")
    >>> boxscore.finish(tally)["map"]
    1.0
    >>> match_shard(detections, truths, "voc2012", name="part-00001", images=[1])
    Traceback (most recent call last):
    boxscore.InputError: part-00001: image 0 is not one of the shard's
    """
    rules = as_protocol(protocol)
    kind = kind_of(rules.iou_type)
    with _named(f"{name}: detections"):
        if not isinstance(detections, Detections):
            detections = arrow.detections_of(detections, box_format=box_format, kind=kind)
    with _named(f"{name}: truths"):
        if not isinstance(truths, Truths):
            check_has_groups(rules, getattr(truths, "column_names", ()))
            truths = arrow.truths_of(truths, box_format=box_format, kind=kind, class_names=class_names)
    with _named(name):
        if images is not None:
            own = as_ids("images", as_array("images", images if is_array(images) else list(images)))
            given = np.union1d(host_ids(detections.image_ids), host_ids(truths.image_ids))
            foreign = given[~np.isin(given, host_ids(own))]
            if foreign.size:
                raise InputError(f"image {foreign[0]} is not one of the shard's")
        return match(detections, truths, protocol, engine, threads=threads)


def shard_of(image: NDArray[Any], num_shards: int) -> NDArray[np.int64]:
    """The shard of each image id, equal on every machine. Ids of any pattern are spread evenly.

    >>> shard_of(np.array([0, 1, 2, 3, 4, 5]), 4).tolist()
    [0, 1, 2, 0, 0, 0]
    """
    return (mixed(np.asarray(image).astype(np.int64)).view(np.uint64) % np.uint64(num_shards)).astype(np.int64)


def mixed(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hashes of integers by the finalizer of SplitMix64: every input bit affects every output bit."""
    bits = numbers.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


def check_sources(
    rows: Mapping[str, NDArray[Any]], name_source: Callable[[int], str], name_image: Callable[[int], Any] = int
) -> None:
    """Raise `InputError` if an image has the same rows from several sources: then a shard was given twice.

    `rows`: columns, including `image_ids` and `source`. An image may be spread over files, for example by class; then
    the files have different rows of it.

    >>> rows = {"image_ids": np.array([7, 7, 8]), "source": np.array([0, 1, 1]), "scores": np.array([0.5, 0.5, 0.5])}
    >>> check_sources(rows, name_source=["a.csv", "b.csv"].__getitem__)
    Traceback (most recent call last):
    boxscore.InputError: image 7 comes twice, with the same boxes: from a.csv and b.csv
    """
    image, source = rows["image_ids"], rows["source"]
    order = np.lexsort((source, image))
    is_first = np.ones(image.size, bool)
    is_first[1:] = (np.diff(image[order]) != 0) | (np.diff(source[order]) != 0)
    start = np.flatnonzero(is_first)
    if start.size in (0, np.unique(image).size):
        return
    # Compare rows by their hashes, and parts of an image by the sums of hashes, which don't depend on order.
    hashed = np.zeros(image.size, np.int64)
    for column in (rows[name] for name in rows if name not in ("image_ids", "source")):
        wide = column.astype(np.float64 if column.dtype.kind == "f" else np.int64).view(np.int64)
        for part in wide.reshape(image.size, -1).T:
            hashed = mixed(hashed ^ part)
    total, size = np.add.reduceat(hashed[order], start), np.diff(np.append(start, image.size))
    images, first, num_parts = np.unique(image[order][start], return_index=True, return_counts=True)
    for index in np.flatnonzero(num_parts > 1).tolist():
        parts = slice(first[index], first[index] + num_parts[index])
        if np.unique(total[parts]).size == 1 and np.unique(size[parts]).size == 1:
            names = " and ".join(name_source(number) for number in source[order][start][parts].tolist()[:2])
            raise InputError(f"image {name_image(images[index])} comes twice, with the same boxes: from {names}")


def check_has_groups(protocol: Protocol, columns: Container[str]) -> None:
    """Raise `InputError` if truths lack the column of class groups that the protocol measures."""
    if protocol.class_groups and CLASS_GROUP not in columns:
        raise InputError(
            f"protocol {protocol.name} has numbers of groups of classes: truths must have a column"
            f" `{CLASS_GROUP}`; got none"
        )


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Put the name of the source in front of errors."""
    try:
        yield
    except RowError as error:
        raise InputError(f"{source}: `{error.heading}` row {error.row} {error.rule}") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
