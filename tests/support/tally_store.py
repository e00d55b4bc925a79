"""Tallies and bins in memory, for the driver of the reduce."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boxscore.engines.map_reduce import Bins, Built, T, TallyStore
from boxscore.result.tally import Tally, joined


@dataclass(frozen=True, slots=True)
class MemoryStore(TallyStore):
    """A store that runs every task in this process."""

    tallies: Sequence[Tally]
    bin_size: int
    is_local: bool

    def map(self, task: Callable[[Tally], T]) -> list[T]:
        """One result per tally."""
        return [task(tally) for tally in self.tallies]

    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built]) -> list[Built]:
        """One result per bin."""
        pieces: dict[int, list[Tally]] = {}
        for tally in self.tallies:
            for number, piece in bins.split(tally):
                pieces.setdefault(number, []).append(piece)
        return [task(number, joined(rows)) for number, rows in pieces.items()]
