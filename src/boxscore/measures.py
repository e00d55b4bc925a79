"""Measures: which numbers a protocol has, and what each is the mean of."""

from collections.abc import Iterator
from typing import NamedTuple

from boxscore import text
from boxscore.protocol import Protocol


class Measure(NamedTuple):
    """One number: the mean over classes of AP or of recall, at some thresholds, in one area range, within one limit."""

    name: str
    is_recall: bool
    thresholds: tuple[int, ...]
    """Places in the protocol's thresholds, and so on."""
    area: int
    limit: int

    def meaning(self, protocol: Protocol) -> list[str]:
        """What the number is, in words: the quantity, the IoU thresholds, the area range, the limit."""
        low, high = protocol.thresholds[self.thresholds[0]], protocol.thresholds[self.thresholds[-1]]
        limit = protocol.limits[self.limit]
        return [
            "AR" if self.is_recall else "AP",
            f"IoU {low:.2f}" if low == high else f"IoU {low:.2f}:{high:.2f}",
            protocol.areas[self.area].name,
            "all detections" if limit is None else text.count(limit, "detection"),
        ]


def measures(protocol: Protocol) -> Iterator[Measure]:
    """The numbers of a protocol under the names that people know.

    >>> [measure.name for measure in measures(Protocol.named("coco", limits=(1, 300), areas={"all": (0, 1e10)}))]
    ['map', 'map_50', 'map_75', 'mar_1', 'mar_300']
    >>> [measure.name for measure in measures(Protocol.named("voc2007"))]
    ['map', 'mar']
    """
    every = tuple(range(len(protocol.thresholds)))
    last = len(protocol.limits) - 1
    sizes = list(enumerate(protocol.areas))[1:]
    yield Measure("map", False, every, 0, last)
    for percent in (50, 75):
        places = tuple(t for t in every if abs(protocol.thresholds[t] - percent / 100) < 1e-9)
        if places and len(every) > 1:
            yield Measure(f"map_{percent}", False, places, 0, last)
    for a, area in sizes:
        yield Measure(f"map_{area.name}", False, every, a, last)
    for m, limit in enumerate(protocol.limits):
        yield Measure("mar" if limit is None else f"mar_{limit}", True, every, 0, m)
    for a, area in sizes:
        yield Measure(f"mar_{area.name}", True, every, a, last)
