"""Slices: every number for each group of images, from the verdicts of one matching."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.data.dataset import host_ids, take
from boxscore.pipeline import finish
from boxscore.protocol.measures import meanings
from boxscore.result.result import Inputs, Result, Stored

NO_GROUP = "(none)"
"""The group of all images without a group."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Slices(Mapping[str, Result]):
    """One result per group of images, by name. `print` shows a table with one column per group."""

    results: Mapping[str, Result]
    """The results by group."""
    num_images: Mapping[str, int]
    """The number of images of each group."""

    def __getitem__(self, group: str) -> Result:
        try:
            return self.results[group]
        except KeyError:
            raise KeyError(f"{group!r} is not a group; groups are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: `Result.to_dict()` by group, with `num_images`."""
        return {group: {"num_images": self.num_images[group], **self[group].to_dict()} for group in self}

    def __repr__(self) -> str:
        return f"Slices({', '.join(self)})"

    def __str__(self) -> str:
        results = list(self.results.values())
        rows = [
            [name, *(text.fraction(result[name]) for result in results)]
            for name, _ in (meanings(results[0].protocol) if results else ())
        ]
        rows.append(["images", *(f"{num:,}" for num in self.num_images.values())])
        rows.append(["truths", *(f"{result.per_class.num_truths.sum():,}" for result in results)])
        return text.table(rows, align="<" + ">" * len(self), header=["", *self])


def slices(result: Result, groups: Mapping[int, str], *, threads: int | None = None) -> Slices:
    """Compute the result of each group of images, without matching again. Every group has all classes.

    Args:
        result: A result with a tally.
        groups: The group of each image, by image id. Groups are in the order of their first image here. Images without
            a group form the last group, "(none)"; unknown image ids are ignored.
        threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.

    >>> from boxscore import Detections, Truths, evaluate
    >>> truths = Truths(image_ids=[0, 1, 2], labels=[1, 1, 1], boxes=[[0, 0, 10, 10]] * 3)
    >>> boxes = [[0, 0, 10, 10], [50, 50, 60, 60]]
    >>> detections = Detections(image_ids=[0, 1], labels=[1, 1], scores=[0.9, 0.8], boxes=boxes)
    >>> parts = slices(evaluate(detections, truths, "voc2012"), {0: "day", 1: "night", 2: "night"})
    >>> {group: part["map"] for group, part in parts.items()}
    {'day': 1.0, 'night': 0.0}
    """
    if not isinstance(result, Result):
        raise InputError(f"`result` must be a boxscore.Result; got {type(result).__name__}")
    images = result.images
    names = _names(groups)
    group_of = np.array([names.get(image, NO_GROUP) for image in images.tolist()], object)
    present = set(group_of.tolist())
    order = [*(group for group in dict.fromkeys(names.values()) if group != NO_GROUP), NO_GROUP]
    members = {group: images[group_of == group] for group in order if group in present}
    return Slices(
        results={group: _part(result, chosen, threads) for group, chosen in members.items()},
        num_images={group: chosen.size for group, chosen in members.items()},
    )


def _part(result: Result, images: NDArray[np.int64], threads: int | None) -> Result:
    part = finish(result.tally.within(images), threads=threads)
    chosen, subset = set(images.tolist()), result.subset
    if images.size < result.images.size:
        subset = (*subset, f"{text.count(images.size, 'image')} of {result.images.size:,}, a slice")
    names = result.image_names and {image: name for image, name in result.image_names.items() if image in chosen}
    if result.inputs is None:
        return replace(part, _stored=Stored(names, subset))
    detections, truths = result.inputs
    detections = take(detections, np.isin(host_ids(detections.image_ids), images))
    truths = take(truths, np.isin(host_ids(truths.image_ids), images))
    coverage = truths.coverage and truths.coverage.within(images=chosen)
    truths = replace(truths, image_names=names, subset=subset, coverage=coverage)
    return replace(part, inputs=Inputs(detections, truths), num_given=len(detections))


def _names(groups: Any) -> dict[int, str]:
    if not isinstance(groups, Mapping):
        raise InputError(f"`groups` must map image ids to names of groups; got {type(groups).__name__}")
    for image, group in groups.items():
        if isinstance(image, bool) or not isinstance(image, Integral):
            raise InputError(f"`groups` must have image ids as keys; got {image!r}")
        if not isinstance(group, str):
            raise InputError(f"`groups` must have names of groups as values; got {group!r} for image {image}")
    return {int(image): group for image, group in groups.items()}
