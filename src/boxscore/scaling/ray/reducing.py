"""The reduce: verdicts to bins by class, bins to curves, curves to the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from boxscore.engines.native.engine import Start
from boxscore.model.curves import Curves, Floats
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import POOLED
from boxscore.model.result import Result
from boxscore.model.tally import Tally
from boxscore.scaling import arrow, storage
from boxscore.scaling.ray.datasets import as_message, messages_of
from boxscore.scaling.ray.mapping import Job
from boxscore.scaling.reduction import Bins, Sample, assemble, draw_bin, draw_bin_from, join_ranges, no_start, result_of
from boxscore.scaling.shards import match_shard


def reduce_verdicts(job: Job, verdicts: Any) -> Result:
    """The result of all verdicts."""
    surveys = messages_of(verdicts.map_batches(partial(_survey, job=job), batch_format="pyarrow", batch_size=None))
    none = _no_verdicts(job)
    totals = none.totals.merge(*(survey[0] for survey in surveys))
    sample = Sample.joined([Sample.of(none, job.bin_size), *(survey[1] for survey in surveys)])
    curves = Reduction(job=job, bins=Bins.plan(totals, sample, job.bin_size)).curves(verdicts)
    if job.protocol.average != "micro":
        return result_of(totals, curves)
    bins = Bins.plan(totals.pooled(), sample.pooled(), job.bin_size)
    return result_of(totals, curves, Reduction(job=job, bins=bins, is_pooled=True).curves(verdicts))


def _survey(table: Any, job: Job) -> Any:
    """What some verdicts add up to, and a sample of them."""
    tally = job.tally_of(table)
    return as_message((replace(tally.totals, class_names=job.class_names), Sample.of(tally, job.bin_size)))


def result_of_nothing(job: Job) -> Result:
    """The result where there are neither detections nor truths: Ray can't group what has no rows."""
    return replace(_no_verdicts(job).finish(threads=1), lazy_tally=None)


def _no_verdicts(job: Job) -> Tally:
    none = Detections(image=[], label=[], score=[], box=[])
    there = Truths(image=[], label=[], box=[], class_names=job.class_names)
    return match_shard(none, there, job.protocol, name="no boxes")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reduction:
    """What every task knows that draws curves."""

    job: Job
    bins: Bins
    is_pooled: bool = False
    """Whether all classes are taken as one."""
    starts: Mapping[int, Start] | None = None
    """Of the ranges, by their bins."""

    def curves(self, verdicts: Any) -> Curves:
        """The curves of all classes."""
        protocol, ranges = self.job.protocol, self.bins.ranges
        ready = replace(self, starts=self._starts(verdicts) if ranges else {})
        drawn = (
            verdicts.map_batches(ready.number, batch_format="pyarrow", batch_size=None)
            .groupby("bin", num_partitions=max(1, self.bins.num))
            .map_groups(ready.draw, batch_format="pyarrow")
            .materialize()
        )
        parts = dict(messages_of(drawn.select_columns(["message"]) if ready.keeps_pieces else drawn))
        of_ranges = {number for numbers in ranges.values() for number in numbers}
        whole = [part for number, part in parts.items() if number not in of_ranges]
        split = [self._joined([n for n in numbers if n in parts], parts, drawn) for numbers in ranges.values()]
        return assemble(replace(self.bins.totals, protocol=protocol), [*whole, *split])

    @property
    def keeps_pieces(self) -> bool:
        """Whether the rows of ranges are needed once more, for an AP that is a sum over true positives."""
        return bool(self.starts) and not self.job.protocol.is_sampled

    def _joined(self, numbers: Sequence[int], parts: Mapping[int, Curves], drawn: Any) -> Curves:
        """The curves of a class that was split."""

        def redraw(place: int, start: Start) -> tuple[Curves, Floats]:
            number = numbers[place]
            (row,) = drawn.filter(expr=f"bin == {number}").take_all()
            return draw_bin_from(start, storage.from_bytes(row["piece"]), self.bins, number, 1)

        return join_ranges([parts[number] for number in numbers], self.job.protocol, redraw)

    def _starts(self, verdicts: Any) -> dict[int, Start]:
        """The start of each range, from the counts in all ranges."""
        counts = messages_of(verdicts.map_batches(self.count, batch_format="pyarrow", batch_size=None))
        found: dict[int, Start] = {}
        for numbers in self.bins.ranges.values():
            start = no_start(self.job.protocol)
            for number in numbers:
                found[number] = start
                for count in counts:
                    num_true, num_false = count.get(number, (0, 0))
                    total = start.num_true + num_true
                    num_counted = start.num_counted + num_true + num_false
                    start = start._replace(num_true=total, num_counted=num_counted, total_true=total)
        return found

    def count(self, table: Any) -> Any:
        """True and false positives of some verdicts in each range."""
        of_ranges = {number for numbers in self.bins.ranges.values() for number in numbers}
        counts = {}
        for number, piece in self.bins.split(self._tally(table)):
            if number in of_ranges:
                curves = draw_bin(piece, self.bins, number, 1)
                counts[number] = curves.num_true, curves.num_false
        return as_message(counts)

    def number(self, table: Any) -> Any:
        """The detections among some verdicts, each with its bin."""
        table = table.filter(arrow.pyarrow().compute.invert(table.column("is_truth")))
        columns = {name: table.column(name).to_numpy() for name in ("label", "score", "image")}
        if self.is_pooled:
            columns["label"] = np.full_like(columns["label"], POOLED)
        return table.append_column("bin", arrow.pyarrow().array(self.bins.of(**columns)))

    def draw(self, table: Any) -> Any:
        """The curves of a bin; with its rows, if they may be needed once more."""
        number = table.column("bin")[0].as_py()
        piece = self._tally(table.drop_columns(["bin"]))
        start = (self.starts or {}).get(number)
        if start is None:
            curves = draw_bin(piece, self.bins, number, 1)
        else:
            curves, _ = draw_bin_from(start, piece, self.bins, number, 1)
        drawn = as_message((number, curves)).append_column("bin", arrow.pyarrow().array([number]))
        content = [storage.to_bytes(piece) if start is not None and self.keeps_pieces else None]
        return drawn.append_column("piece", arrow.pyarrow().array(content, arrow.pyarrow().large_binary()))

    def _tally(self, table: Any) -> Tally:
        return self.job.tally_of(table, is_pooled=self.is_pooled)
