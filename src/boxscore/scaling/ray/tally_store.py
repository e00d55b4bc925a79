"""Tallies as Ray datasets: tasks run on Ray's workers, and its shuffle sends rows to their bins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boxscore.engines.map_reduce import Bins, Built, T, TallyStore
from boxscore.result import arrow
from boxscore.result.tally import Tally, joined
from boxscore.scaling.ray.datasets import as_messages, messages_of
from boxscore.scaling.ray.job import Job, as_tally_row, tallies_of

DRAW_BYTES = 250
"""Memory of a worker per detection while the curves of its bin are built."""


@dataclass(frozen=True, slots=True, eq=False)
class RayTallyStore(TallyStore):
    """The tallies of all shards as a dataset, one row per shard.

    `tallies` is None without detections and truths: Ray can't group an empty dataset.
    """

    job: Job
    tallies: Any | None
    bin_size: int
    is_local = False

    @classmethod
    def of(cls, job: Job, tallies: Any | None) -> "RayTallyStore":
        """Create a store with bins that fit in the memory of a worker."""
        return cls(job, tallies, max(1, job.memory // DRAW_BYTES))

    def map(self, task: Callable[[Tally], T]) -> list[T]:
        """Run a task on the tally of each shard."""
        results = [task(self.job.empty_tally())]  # for the class names
        if self.tallies is not None:

            def run(table: Any) -> Any:
                return as_messages(task(tally) for tally in tallies_of(table))

            results += messages_of(_map_blocks(self.tallies, run))
        return results

    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built]) -> list[Built]:
        """Run one task per bin, after a shuffle. Only results come to this process."""

        def split(table: Any) -> Any:
            """Split the detections of some shards by bin."""
            pieces = (piece for tally in tallies_of(table) for piece in bins.split(tally))
            rows = [as_tally_row(piece, bin=number) for number, piece in pieces]
            return arrow.pyarrow().concat_tables([*rows, as_tally_row(self.job.empty_tally(), bin=0).slice(1)])

        def run(table: Any) -> Any:
            """Run the task on a bin."""
            number = table.column("bin")[0].as_py()
            return as_messages([task(number, joined(list(tallies_of(table))))])

        groups = _map_blocks(self.tallies, split).groupby("bin", num_partitions=max(1, bins.num_bins))
        return messages_of(groups.map_groups(run, batch_format="pyarrow"))


def _map_blocks(dataset: Any, run: Callable[[Any], Any]) -> Any:
    return dataset.map_batches(run, batch_format="pyarrow", batch_size=None)
