"""Parquet files that are larger than memory, on one machine: boxes are spilled to disk by image, verdicts by class.

Images and classes are read first, then the rows, which go to shards on disk by the hash of their image. Each shard is
matched separately. `boxscore.engines.map_reduce` does the rest, with tallies and bins on disk. The result has the same
bits as an evaluation in memory.
"""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.memory_size import format_size, parse_size, resident_memory
from boxscore._support.temporary_files import temporary_folder
from boxscore._support.text import count
from boxscore._support.threads import num_threads
from boxscore.checks.mistakes import Remedies, Watch
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import Truths, take
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.image_facts import CLASS_GROUP, ImageFacts
from boxscore.engines.map_reduce import Bins, Built, T, TallyStore, reduce_tallies
from boxscore.formats.joining import Report
from boxscore.formats.records import Options
from boxscore.formats.streaming import (
    BatchSettings,
    Keys,
    Numbering,
    files_of,
    num_rows_of,
    row_bytes,
    shape_bytes,
    stream_detections,
    stream_truths,
)
from boxscore.pipeline import match
from boxscore.protocol.fields import check_choice
from boxscore.protocol.protocol import Protocol, ProtocolLike, as_protocol
from boxscore.result import storage
from boxscore.result.arrow import pyarrow
from boxscore.result.result import Result, Stored
from boxscore.result.tally import Tally, joined
from boxscore.scaling.parts import Part, check_alike, join, layout_of, row_values, split_by_shard
from boxscore.scaling.shards import check_has_groups, check_sources, shard_of

READ_BYTES = 1_000
"""Memory per row while it is read and sent to its shard."""
BATCH_SHARE = 0.1
"""Share of the limit that the rows of a batch take while they are read."""
MATCH_BYTES = 300
"""Memory per row, detection or truth, while its shard is matched."""
FINISH_BYTES = 150
"""Memory per detection while the curves of its bin are built."""
SHAPE_COPIES = 4
"""Copies of a shape other than a box that are in memory while it is read, spilled or matched."""
SPARE = 32_000_000
"""Memory that is left unused until curves are built, for everything too small to count."""
START = 100_000_000
"""Memory that images and classes may always take: how much they need is known only after reading them."""

SPILL_BYTES = 72
"""Disk per row, detection or truth, in its shard."""


def evaluate_files(
    detections: str | PathLike[str],
    truths: str | PathLike[str],
    protocol: ProtocolLike = "coco",
    *,
    memory: int | str,
    box_format: BoxFormat | None = None,
    unmatched: str = "error",
    threads: int | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Result:
    """Evaluate Parquet files within a memory limit for the whole process. Rows may be in any order.

    Data that doesn't fit goes to a temporary folder, which is removed at the end, also after an error. Besides boxes
    and verdicts, some 200 bytes per image are in memory all the time, for its id or name. The verdicts of a class must
    fit at once, 150 bytes per detection; under `average="micro"`, the verdicts of all classes.

    Args:
        detections: A file, a folder, or a pattern like "found/*.parquet". Columns are named as in `read_detections`.
            Protocols of masks read a column `segmentation` or `mask`, a struct of `size` and `counts`; protocols of
            other shapes read the columns of their geometry.
        truths: As `detections`; columns are named as in `read_truths`.
        protocol: A protocol or its name.
        memory: The limit: 500_000_000, "500MB", "2GiB".
        box_format: The format of the boxes, if the column names don't imply it.
        unmatched: "error" or "warn", for detections on images or of classes that the truths don't have.
        threads: Number of threads for reading, matching and building curves.
        step: Called with a description of each step before it begins.
    """
    protocol = as_protocol(protocol)
    check_choice("unmatched", unmatched, ("error", "warn"))
    pyarrow()  # raises `InputError` if it is not installed
    detections, truths = fspath(detections), fspath(truths)
    paths = {"detections": files_of(detections), "truths": files_of(truths)}
    limit = parse_size(memory)
    with _temporary_folder() as folder:
        iou_types = (protocol.iou_type,)
        spill = _Spill(folder, limit, num_threads(threads), paths, protocol)
        step(f"reading the images of {truths}")
        truth_keys = spill.read_keys("truths")
        step(f"reading the images of {detections}")
        detection_keys = spill.read_keys("detections")
        check_has_groups(protocol, () if truth_keys.class_groups is None else (CLASS_GROUP,))
        numbering = Numbering.of(truth_keys, detection_keys)
        spill.plan_shards(truth_keys.num_rows + detection_keys.num_rows, len(truth_keys.label))
        step(f"reading {truths}")
        options = Options(box_format=box_format, iou_types=iou_types)
        spill.add_truths(numbering, options)
        step(f"reading {detections}")
        spill.add_detections(numbering, options, is_strict=unmatched == "error")
        for shard in range(spill.num_shards):
            step(f"matching shard {shard + 1} of {spill.num_shards}")
            spill.match(shard, numbering.known)
        step("drawing curves")
        given = Report(num_rows=spill.num_given + spill.num_unmatched, num_unmatched=spill.num_unmatched)
        result = replace(spill.finish(), num_given=spill.num_given, _stored=Stored(None, given.subset))
    remedies = Remedies(
        detections=detections, truths=truths, box_format="give `box_format`", labels="in the file", class_names=None
    )
    for mistake in spill.watch.find_mistakes(result, remedies):
        warnings.warn(str(mistake), stacklevel=2)
    return result


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Create a folder that is removed afterwards; errors of the disk, such as a full one, name its path."""
    parent = Path(tempfile.gettempdir())
    try:
        with temporary_folder(parent / "spill", mode=0o700) as folder:
            yield folder
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{parent}: can't be used: {reason}; TMPDIR=FOLDER takes another folder") from None


class _Spill:
    """Shards of boxes on disk, and the budget of memory."""

    def __init__(self, folder: Path, limit: int, threads: int, paths: dict[str, list[str]], protocol: Protocol) -> None:
        self.folder, self.limit, self.threads, self.paths = folder, limit, threads, paths
        self.protocol, options = protocol, Options(iou_types=(protocol.iou_type,))
        self.shape_bytes = 0
        has_boxes = all(kind.is_box for kind in options.kinds)
        if not has_boxes or protocol.federated:
            self.shape_bytes = max(map(row_bytes, paths.values()))
        if not has_boxes:
            self.shape_bytes = max(self.shape_bytes, *(shape_bytes(each, options) for each in paths.values()))
        in_reading = READ_BYTES + SHAPE_COPIES * self.shape_bytes
        self.batches = BatchSettings(int(np.clip(BATCH_SHARE * limit / in_reading, 1_000, 200_000)), threads)
        self.num_shards = 1
        self.num_given = self.num_unmatched = 0
        self._start = resident_memory()
        self._num_read = 0
        self.watch = Watch()
        self._curve_bytes = 0
        self._layout: dict[str, Any] = {}
        self._empty: dict[str, Any] = {}
        self._has_lists: bool | None = None
        self._tallies: list[Path] = []

    def check_keys(self, num_rows: int, num_classes: int) -> None:
        """Raise `InputError` if the images and classes of all batches so far exceed the limit.

        `num_rows`: rows of the last batch. `num_classes`: classes in all batches of this side.
        """
        self._num_read += num_rows
        self._curve_bytes = max(self._curve_bytes, curve_bytes(self.protocol, num_classes))
        in_use = self.limit - self._free_memory()
        if in_use > max(self.limit, self._start + START):
            # Assume that the remaining rows have no more images per row.
            num_all = num_rows_of([path for side in self.paths.values() for path in side])
            self._refuse(self._start + (in_use - self._start) * num_all / self._num_read + SPARE)

    def plan_shards(self, num_rows: int, num_classes: int) -> None:
        """Choose the number of shards by the free memory. Raise `InputError` if memory or disk is too small."""
        self._curve_bytes = curve_bytes(self.protocol, num_classes)
        free = self._free_memory()
        if free < self._curve_bytes + SPARE:
            self._refuse(self.limit - free + SPARE)
        in_matching = MATCH_BYTES + SHAPE_COPIES * self.shape_bytes
        self.num_shards = max(1, ceil(1.2 * num_rows * in_matching / free))
        needed = num_rows * (SPILL_BYTES + self.shape_bytes)
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise InputError(
                f"{self.folder.parent}: must have {format_size(needed)} free for the boxes of these files; got"
                f" {format_size(free)}; TMPDIR=FOLDER takes another folder"
            )

    def _refuse(self, needed: float) -> NoReturn:
        """Raise `InputError` with a limit that is enough. `needed`: memory besides the curves.

        The suggested limit is above the measured need: batches grow with it, and memory differs from run to run.
        """
        least = (needed + self._curve_bytes) / (1 - BATCH_SHARE) + SPARE
        enough = f"{ceil(least / 10**7)}0 MB is enough"
        raise InputError(f"`memory` must be larger for these files: {enough}; got {format_size(self.limit)}")

    def _free_memory(self) -> int:
        pyarrow().default_memory_pool().release_unused()
        return self.limit - resident_memory() - SPARE

    def read_keys(self, side: str) -> Keys:
        """The images and classes of one side."""
        return Keys.of(self.paths[side], self.batches, self.check_keys)

    def add_truths(self, numbering: Numbering, options: Options) -> None:
        """Append the truths to their shard files."""
        num_unlisted = 0
        stream = partial(stream_truths, protocol=self.protocol)
        for source, (truths, facts, num) in self._stream("truths", stream, numbering, options):
            num_unlisted += num
            self._check_lists(facts)
            self._append(Part(truths, np.full(len(truths), source), facts), "truths")
        if num_unlisted:
            what = count(num_unlisted, "truth on an image", "truths on images")
            warnings.warn(f"{what} that the file does not list left out", stacklevel=3)

    def _check_lists(self, facts: ImageFacts | None) -> None:
        """Raise `InputError` unless all files of truths have lists of labels, or none has."""
        has_lists = facts is not None and facts.list_image is not None
        if self._has_lists not in (None, has_lists):
            rule = f"`{COVERAGE_KEYS[0]}` must be a column of all files of truths, or of none"
            raise InputError(f"{rule}; got some of each")
        self._has_lists = has_lists

    def add_detections(self, numbering: Numbering, options: Options, *, is_strict: bool) -> None:
        """Append the detections to their shard files."""
        stream = partial(stream_detections, is_strict=is_strict)
        for source, (detections, num) in self._stream("detections", stream, numbering, options):
            self.num_unmatched, self.num_given = self.num_unmatched + num, self.num_given + len(detections)
            self._append(Part(detections, np.full(len(detections), source)), "detections")
        if self.num_unmatched:
            num_rows = self.num_unmatched + self.num_given
            left_out = f"{count(self.num_unmatched, 'detection')} of {num_rows:,} left out"
            warnings.warn(f"{left_out}: on images or of classes that the truths don't have", stacklevel=3)

    def _stream(self, side: str, stream: Callable[..., Iterator[Any]], *options: Any) -> Iterator[tuple[int, Any]]:
        """Yield the batches of all files of one side, each with the index of its file."""
        for source, path in enumerate(self.paths[side]):
            for batch in stream(path, *options, self.batches):
                yield source, batch

    def _append(self, part: Part[Any], side: str) -> None:
        """Append rows and facts to their shard files."""
        if len(part.rows) or side not in self._empty:
            layout = layout_of(part.rows)
            if len(part.rows):
                check_alike(self._layout.setdefault(side, layout), layout, side)
            self._empty[side] = take(part.rows, np.zeros(len(part.rows), bool))
        for number, content in split_by_shard(part, self.num_shards):
            with self._path(side, number).open("ab") as file:
                file.write(content)

    def match(self, shard: int, known: Truths) -> None:
        """Match one shard: write its tally, delete its rows."""
        found, there = (self._take(side, shard) for side in ("detections", "truths"))
        more: dict[str, Any] = {"class_names": known.class_names, "class_groups": known.class_groups}
        if self.protocol.extra_numbers:
            images = np.array(list(known.image_names or ()), np.int64)
            images = images[shard_of(images, self.num_shards) == shard]
            more["image_names"] = {image: (known.image_names or {})[image] for image in images.tolist()}
        truths = replace(there.rows, **more)
        if there.facts is not None:
            truths = there.facts.completed(truths, has_lists=bool(self._has_lists))
        self.watch.add(found.rows, truths)
        self._tallies.append(self.folder / f"tally-{shard}")
        match(found.rows, truths, self.protocol, threads=self.threads).save(self._tallies[-1])

    def _take(self, side: str, shard: int) -> Part[Any]:
        """Read the rows of one side of a shard, and delete them from disk."""
        path = self._path(side, shard)
        part = join([path.read_bytes()] if path.exists() else [], self._empty[side], side)
        path.unlink(missing_ok=True)
        check_sources(row_values(part), name_source=self.paths[side].__getitem__)
        return part

    def _path(self, side: str, shard: int) -> Path:
        return self.folder / f"{side}-{shard}"

    def finish(self) -> Result:
        """Reduce the tallies of all shards to the result. A bin may always take the spare memory."""
        room = max(SPARE, self._free_memory() - self._curve_bytes)
        return reduce_tallies(_DiskStore(self._tallies, self.folder, room // FINISH_BYTES), self.threads)


@dataclass(frozen=True, slots=True)
class _DiskStore(TallyStore):
    """Tallies in files. Bins are files, too; pieces of tallies are appended to them."""

    tallies: Sequence[Path]
    folder: Path
    bin_size: int
    is_local = True

    def map(self, task: Callable[[Tally], T]) -> Iterator[T]:
        """Run a task on each tally, with one tally in memory at a time."""
        return (task(storage.load(path)) for path in self.tallies)

    def reduce(self, bins: Bins, task: Callable[[int, Tally], Built]) -> Iterator[Built]:
        """Split all tallies into bins on disk, then run the task with one bin in memory at a time."""
        for path in self.folder.glob("bin-*"):
            path.unlink()
        for tally in map(storage.load, self.tallies):
            for number, rows in bins.split(tally):
                with self._bin(number).open("ab") as file:
                    file.write(storage.to_bytes(rows))
        present = [number for number in range(bins.num_bins) if self._bin(number).exists()]
        return (task(number, self._load(number)) for number in present)

    def _bin(self, number: int) -> Path:
        return self.folder / f"bin-{number}"

    def _load(self, number: int) -> Tally:
        pieces, rest = [], memoryview(self._bin(number).read_bytes())
        while len(rest):
            piece, rest = storage.split_bytes(rest, str(self._bin(number)))
            pieces.append(piece)
        return joined(pieces)


def curve_bytes(protocol: Protocol, num_classes: int) -> int:
    """Memory for the curves of all classes: precision and scores, while they are built and assembled."""
    num_cells = len(protocol.thresholds) * len(protocol.areas) * len(protocol.limits)
    return 4 * 8 * num_cells * len(protocol.recall_points) * max(num_classes, 1)
