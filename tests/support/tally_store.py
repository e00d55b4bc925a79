"""Tallies and bins in memory, for the driver of the reduce."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from boxscore.engines.bins import Bins
from boxscore.engines.map_reduce import Built, Reduced, T, TallyStore
from boxscore.result.tally import Tally, joined


@dataclass(frozen=True, slots=True)
class MemoryStore(TallyStore):
    """A store that runs every task in this process; rows that nobody needs again are not kept."""

    tallies: Sequence[Tally]
    bin_size: int
    is_local: bool

    def map(self, task: Callable[[Tally], T]) -> list[T]:
        """One result per tally."""
        return [task(tally) for tally in self.tallies]

    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built], needed_again: Collection[int]) -> Reduced:
        """One result per bin."""
        pieces: dict[int, list[Tally]] = {}
        for tally in self.tallies:
            for number, piece in bins.split(tally):
                pieces.setdefault(number, []).append(piece)
        rows = {number: joined(pieces[number]) for number in sorted(pieces, reverse=not self.is_local)}
        again = {number: piece for number, piece in rows.items() if number in needed_again}
        return Reduced({number: task(number, piece) for number, piece in rows.items()}, again.__getitem__)
