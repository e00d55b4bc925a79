"""Tallies as Ray datasets: tasks run on Ray's workers, and its shuffle sends rows to their bins."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from boxscore.engines.bins import Bins
from boxscore.engines.map_reduce import Built, Reduced, T, TallyStore
from boxscore.result import arrow, storage
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

    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built], needed_again: Collection[int]) -> Reduced:
        """Run one task per bin, after a shuffle. Only results come to this process; rows only one bin at a time."""

        def split(table: Any) -> Any:
            """Split the detections of some shards by bin."""
            pieces = (piece for tally in tallies_of(table) for piece in bins.split(tally))
            rows = [as_tally_row(piece, bin=number) for number, piece in pieces]
            return arrow.pyarrow().concat_tables([*rows, as_tally_row(self.job.empty_tally(), bin=0).slice(1)])

        def run(table: Any) -> Any:
            """Run the task on a bin; return its result, and its rows if they are needed again."""
            number = table.column("bin")[0].as_py()
            rows = joined(list(tallies_of(table)))
            content = [storage.to_bytes(rows) if number in needed_again else None]
            return (
                as_messages([(number, task(number, rows))])
                .append_column("bin", arrow.pyarrow().array([number]))
                .append_column("rows", arrow.pyarrow().array(content, arrow.pyarrow().large_binary()))
            )

        groups = _map_blocks(self.tallies, split).groupby("bin", num_partitions=max(1, bins.num_bins))
        drawn = groups.map_groups(run, batch_format="pyarrow").materialize()

        def load(number: int) -> Tally:
            (row,) = drawn.filter(expr=f"bin == {number}").take_all()
            return storage.from_bytes(row["rows"])

        return Reduced(dict(messages_of(drawn.select_columns(["message"]))), load)


def _map_blocks(dataset: Any, run: Callable[[Any], Any]) -> Any:
    return dataset.map_batches(run, batch_format="pyarrow", batch_size=None)
