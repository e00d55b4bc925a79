"""The numbers of a protocol: their names, what each is the mean of, and their words."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from boxscore._support import text
from boxscore.protocol.protocol import Protocol, threshold_index


class Quantity(NamedTuple):
    """The quantity that a number measures."""

    latex: str
    """Its symbol in papers."""
    meaning: str
    """Its name in words, with the similarity to be filled in."""
    is_error: bool = False
    """Whether less is better."""


QUANTITIES: Mapping[str, Quantity] = {
    "map": Quantity("AP", "AP"),
    "mar": Quantity("AR", "AR"),
    "mr": Quantity(r"MR\textsuperscript{-2}", "log-average miss rate", is_error=True),
    "ji": Quantity("JI", "Jaccard index"),
    "olrp": Quantity("oLRP", "optimal LRP error", is_error=True),
    "olrp_loc": Quantity(r"oLRP\textsubscript{loc}", "1 - {similarity} of TP", is_error=True),
    "olrp_fp": Quantity(r"oLRP\textsubscript{fp}", "1 - precision", is_error=True),
    "olrp_fn": Quantity(r"oLRP\textsubscript{fn}", "1 - recall", is_error=True),
}
"""Quantities by the first part of the names of their numbers: `map_50` and `map_small` are of `map`."""


def quantity_of(name: str) -> tuple[Quantity, str] | None:
    """The quantity of a number and the rest of its name; None if it is not the name of a number.

    >>> [found[0].meaning + " " + found[1] for name in ("map_50", "olrp_loc") if (found := quantity_of(name))]
    ['AP 50', '1 - {similarity} of TP ']
    >>> quantity_of("num_images")
    """
    if name in QUANTITIES:
        return QUANTITIES[name], ""
    first, _, rest = name.partition("_")
    return (QUANTITIES[first], rest) if first in QUANTITIES and rest else None


class Measure(NamedTuple):
    """One number: the mean over classes of AP or of recall, at some thresholds, in one area range, within one limit."""

    name: str
    is_recall: bool
    thresholds: tuple[int, ...]
    """Indices of the protocol's thresholds, as `area` and `limit` are of its area ranges and limits."""
    area: int
    limit: int
    group: str | None = None
    """Group of classes over which the mean is taken; None: all classes."""

    def meaning(self, protocol: Protocol) -> list[str]:
        """The number in words: quantity, IoU thresholds, area range, limit."""
        return [
            QUANTITIES["mar" if self.is_recall else "map"].meaning,
            f"{protocol.similarity} {text.thresholds([protocol.thresholds[t] for t in self.thresholds])}",
            protocol.areas[self.area].name if self.group is None else f"{self.group} classes",
            detections_within(protocol.limits[self.limit]),
        ]


def measures(protocol: Protocol) -> Iterator[Measure]:
    """Yield the numbers of a protocol that are means of AP or of recall.

    >>> [measure.name for measure in measures(Protocol.named("coco", limits=(1, 300), areas={"all": (0, 1e10)}))]
    ['map', 'map_50', 'map_75', 'mar_1', 'mar_300']
    >>> [measure.name for measure in measures(Protocol.named("voc2007"))]
    ['map', 'mar']
    >>> [measure.name for measure in measures(Protocol.named("olrp", thresholds=(0.5,), areas={"all": (0, 1e10)}))]
    ['map', 'map_50', 'mar_1', 'mar_10', 'mar_100']
    >>> [measure.name for measure in measures(Protocol.named("crowdpose"))][-3:]
    ['mar_easy', 'mar_medium', 'mar_hard']
    """
    every = tuple(range(len(protocol.thresholds)))
    last = len(protocol.limits) - 1
    sizes = list(enumerate(protocol.areas))[1:]
    yield Measure("map", False, every, 0, last)
    for percent in (50, 75):
        index = threshold_index(protocol.thresholds, percent / 100)
        if index is not None and protocol.names_thresholds:
            yield Measure(f"map_{percent}", False, (index,), 0, last)
    for a, area in sizes:
        yield Measure(f"map_{area.name}", False, every, a, last)
    for group in protocol.class_groups:
        yield Measure(f"map_{group}", False, every, 0, last, group)
    for m, limit in enumerate(protocol.limits):
        is_unlimited = limit is None or (protocol.recall_at and m == last)
        yield Measure("mar" if is_unlimited else f"mar_{limit}", True, every, 0, m)
    for recall in protocol.recall_at:
        index = threshold_index(protocol.thresholds, recall)
        if index is not None and protocol.names_thresholds:
            yield Measure(f"mar_{round(recall * 100)}", True, (index,), 0, last)
    for a, area in sizes:
        yield Measure(f"mar_{area.name}", True, every, a, last)


def meanings(protocol: Protocol) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each number of a protocol and its words: the measures, then the extra numbers.

    >>> [name for name, _ in meanings(Protocol.named("crowdhuman"))]
    ['map', 'mar', 'mr', 'ji']
    >>> dict(meanings(Protocol.named("olrp")))["olrp_loc"]
    ['1 - IoU of TP', 'IoU 0.50', 'all', '100 detections']
    """
    for measure in measures(protocol):
        yield measure.name, measure.meaning(protocol)
    first = f"{protocol.similarity} {text.thresholds(protocol.thresholds[:1])}"
    for name in protocol.extra_names:
        what = QUANTITIES[name].meaning.format(similarity=protocol.similarity)
        within = ["all", detections_within(None)]
        if name != "ji":
            within = [protocol.areas[0].name, detections_within(protocol.limits[-1])]
        yield name, [what, first, *within]


def detections_within(limit: int | None) -> str:
    """The detections that count, in words."""
    return "all detections" if limit is None else text.count(limit, "detection")


def measures_at_thresholds(protocol: Protocol) -> Iterator[Measure]:
    """Yield the first number once per threshold.

    >>> [measure.thresholds for measure in measures_at_thresholds(Protocol.named("coco", thresholds=(0.5, 0.75)))]
    [(0,), (1,)]
    """
    first = next(measures(protocol))
    for t in first.thresholds:
        yield first._replace(thresholds=(t,))
