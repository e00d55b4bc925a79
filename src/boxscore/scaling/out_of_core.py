"""Parquet files that are larger than memory, on one machine: boxes are spilled to disk by image, verdicts by class.

Images and classes are read first, then the rows, which go to shards on disk by the hash of their image. Each shard is
matched by itself. If all verdicts fit, they are finished as always; else they go to bins on disk, and curves are drawn
bin by bin. The result has the bits of one evaluation of everything.
"""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.memory import in_use, num_bytes, text_of
from boxscore._support.temporaries import temporary_folder
from boxscore._support.text import count
from boxscore._support.threads import num_threads
from boxscore.analysis.diagnosis import Watch, Words
from boxscore.analysis.suspicion import Counts
from boxscore.formats.records import Options
from boxscore.formats.streaming import Keys, Numbering, files_of, stream_detections, stream_truths
from boxscore.geometry.boxes import BoxFormat
from boxscore.model.curves import Curves
from boxscore.model.dataset import Detections, Truths
from boxscore.model.protocol import Protocol, as_protocol, check_choice
from boxscore.model.result import Result
from boxscore.model.tally import Tally, joined
from boxscore.pipeline import finish, match
from boxscore.scaling import storage
from boxscore.scaling.arrow import pyarrow
from boxscore.scaling.reduction import Bins, Sample, reduce_bins, result_of
from boxscore.scaling.shards import repeated_image, shard_of

READ_BYTES = 1_000
"""Memory for a row while it is read and sent to its shard."""
MATCH_BYTES = 300
"""Memory for a row, detection or truth, while its shard is matched."""
FINISH_BYTES = 150
"""Memory for a detection while its verdict is on its way into a curve."""
LEAST_IN_A_BIN = 1_000
"""Detections for which there must be room."""
SPARE = 32_000_000
"""What is left unused, for all that is too small to count."""

_ROW = [("image", "i8"), ("source", "i4"), ("label", "i8"), ("box", "f8", 4)]
_DETECTION = np.dtype([*_ROW, ("score", "f8")])
_TRUTH = np.dtype([*_ROW, ("ignore", "?"), ("area", "f8")])
SPILL_BYTES = _TRUTH.itemsize
"""Disk for a row, detection or truth, in its shard."""


def evaluate_files(
    truths: str,
    detections: str,
    protocol: str | Protocol = "coco",
    *,
    memory: int | str,
    box_format: BoxFormat | None = None,
    unmatched: str = "error",
    threads: int | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Result:
    """The result of Parquet files, within a limit of memory for the whole process: 500_000_000, "500MB", "2GiB".

    `truths` and `detections` are each a file, a folder, or a pattern like "found/*.parquet"; rows may be in any order.
    Columns are named as `read_truths` and `read_detections` have it. What doesn't fit goes to a temporary folder, which
    is gone when this returns or raises. Beside boxes and verdicts, some 200 bytes an image are in memory all the time,
    for its id or name. `step` is told what is being done.
    """
    protocol = as_protocol(protocol)
    check_choice("unmatched", unmatched, ("error", "warn"))
    pyarrow()  # or the error that it is not there
    files, truth_files = files_of(detections), files_of(truths)
    limit = num_bytes(memory)
    with _temporary_folder() as folder:
        spill = _Spill(folder, limit, num_threads(threads))
        spill.check_room(curve_bytes(protocol, 1))  # what it takes at least is known before anything is read
        step(f"reading the images of {truths}")
        options = Options(box_format=box_format)
        known = Keys.of(truth_files, spill.batch_size, spill.check_limit)
        spill.check_room(curve_bytes(protocol, len(known.label)))
        step(f"reading the images of {detections}")
        keys = known, Keys.of(files, spill.batch_size, spill.check_limit)
        numbering = Numbering.of(*keys)
        spill.make_room(sum(each.num_rows for each in keys))
        step(f"reading {truths}")
        spill.add_truths(truth_files, numbering, options)
        step(f"reading {detections}")
        spill.add_detections(files, numbering, options, is_strict=unmatched == "error")
        for shard in range(spill.num_shards):
            step(f"matching shard {shard + 1} of {spill.num_shards}")
            spill.match(shard, numbering.known, protocol)
        step("drawing curves")
        result = replace(spill.finish(protocol), num_given=spill.num_given)
    words = Words(detections=detections, truths=truths, box_format="give `box_format`", labels="in the file")
    has_classes = not protocol.class_agnostic
    if found := spill.watch.diagnose(Counts.of_result(result.per_class), words, has_classes=has_classes):
        warnings.warn(str(found), stacklevel=2)
    return result


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder that is gone afterwards; what goes wrong with it, such as a full disk, is told with where it is."""
    place = Path(tempfile.gettempdir())
    try:
        with temporary_folder(place / "spill", mode=0o700) as folder:
            yield folder
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{place}: can't be used: {reason}; TMPDIR=FOLDER takes another folder") from None


class _Spill:
    """What is on disk, and how much of it may be in memory at once."""

    def __init__(self, folder: Path, limit: int, threads: int) -> None:
        self.folder, self.limit, self.threads = folder, limit, threads
        self.batch_size = int(np.clip(limit // 10 // READ_BYTES, 1_000, 200_000))
        self.num_shards = 1
        self.num_given = 0
        self._for_curves = 0
        self._has_area: bool | None = None
        self._box_format: dict[str, BoxFormat] = {}
        self._paths: dict[str, Sequence[str]] = {}
        self._tallies: list[Path] = []
        self.watch = Watch()

    def check_room(self, for_curves: int) -> int:
        """What may be used beside all that is in use now; `InputError` unless curves of that size find room in it."""
        self._for_curves = for_curves
        room = self._room()
        if room < for_curves + SPARE:
            least = self.limit - room + for_curves + SPARE
            raise InputError(f"`memory` must be {text_of(least)} or more for these files; got {text_of(self.limit)}")
        return room

    def check_limit(self) -> None:
        """Raise `InputError` if what is in use now, and will be to the end, is too much already."""
        if self._room() + SPARE < self._for_curves:
            self.check_room(self._for_curves)

    def make_room(self, num_rows: int) -> None:
        """There are as many shards as so many rows need, and there is disk for all of them."""
        self.num_shards = max(1, ceil(1.2 * num_rows * MATCH_BYTES / self.check_room(self._for_curves)))
        needed, free = num_rows * SPILL_BYTES, shutil.disk_usage(self.folder).free
        if needed > free:
            raise InputError(
                f"{self.folder.parent}: must have {text_of(needed)} free for the boxes of these files; got"
                f" {text_of(free)}; TMPDIR=FOLDER takes another folder"
            )

    def _room(self) -> int:
        """What may be used beside all that is in use now."""
        pyarrow().default_memory_pool().release_unused()
        return self.limit - in_use() - SPARE

    def add_truths(self, paths: Sequence[str], numbering: Numbering, options: Options) -> None:
        """The truths are in their shards."""
        num_lost = 0
        self._paths["truths"] = paths
        for source, (truths, num) in _each_path(stream_truths, paths, numbering, options, self.batch_size):
            num_lost += num
            if self._has_area not in (None, truths.area is not None):
                raise InputError("`area` must be a column of all files of truths, or of none; got some of each")
            self._has_area = truths.area is not None
            columns = {name: getattr(truths, name) for name in ("image", "label", "box", "ignore", "area")}
            columns["source"] = source
            self._append("truths", _packed(_TRUTH, columns), truths.box_format)
        if num_lost:
            what = count(num_lost, "truth on an image", "truths on images")
            warnings.warn(f"{what} that the file does not list left out", stacklevel=3)

    def add_detections(self, paths: Sequence[str], numbering: Numbering, options: Options, *, is_strict: bool) -> None:
        """The detections are in their shards."""
        num_lost = num_rows = 0
        self._paths["detections"] = paths
        stream = partial(stream_detections, is_strict=is_strict)
        for source, (found, num) in _each_path(stream, paths, numbering, options, self.batch_size):
            num_lost, num_rows = num_lost + num, num_rows + len(found) + num
            columns = {name: getattr(found, name) for name in ("image", "label", "score", "box")} | {"source": source}
            self._append("detections", _packed(_DETECTION, columns), found.box_format)
        self.num_given = num_rows - num_lost
        if num_lost:
            left_out = f"{count(num_lost, 'detection')} of {num_rows:,} left out"
            warnings.warn(f"{left_out}: on images or of classes that the truths don't have", stacklevel=3)

    def _append(self, side: str, rows: NDArray[Any], box_format: BoxFormat) -> None:
        if self._box_format.setdefault(side, box_format) != box_format:
            raise InputError(f"the boxes of all {side} must be {self._box_format[side]}; got {box_format}, too")
        shard = shard_of(rows["image"], self.num_shards)
        for number in np.unique(shard).tolist():
            with (self.folder / f"{side}-{number}").open("ab") as file:
                file.write(rows[shard == number].view(np.uint8).data)  # `tofile` would not say why it can't

    def match(self, shard: int, known: Truths, protocol: Protocol) -> None:
        """The verdicts of a shard are on disk, and its boxes no more."""
        found = Detections(**self._take("detections", shard, _DETECTION))
        there = self._take("truths", shard, _TRUTH)
        if not self._has_area:
            del there["area"]
        truths = Truths(**there, class_names=known.class_names)
        self.watch.add(found, truths)
        tally = match(found, truths, protocol, threads=self.threads)
        self._tallies.append(self.folder / f"tally-{shard}")
        tally.save(self._tallies[-1])

    def _take(self, side: str, shard: int, dtype: np.dtype[Any]) -> dict[str, Any]:
        path = self.folder / f"{side}-{shard}"
        rows = np.fromfile(path, dtype) if path.exists() else np.zeros(0, dtype)
        path.unlink(missing_ok=True)
        columns: dict[str, Any] = {name: rows[name].copy() for name in dtype.names or ()}
        del rows
        image, source = columns["image"], columns.pop("source")
        repeated = repeated_image(image, source, [columns[name] for name in columns if name != "image"])
        if repeated is not None:
            places = " and ".join(self._paths[side][number] for number in repeated[1][:2])
            raise InputError(f"image {repeated[0]} comes twice, with the same boxes: from {places}")
        return columns | {"box_format": self._box_format.get(side, "xyxy")}

    def finish(self, protocol: Protocol) -> Result:
        """The result of all shards."""
        bin_size = max(LEAST_IN_A_BIN, (self._room() - self._for_curves) // FINISH_BYTES)
        totals, samples = [], []
        for tally in self._each():
            totals.append(tally.totals)
            samples.append(Sample.of(tally, bin_size))
        total, sample = totals[0].merge(*totals[1:]), Sample.joined(samples)
        if total.num_detections.sum() <= bin_size:
            return finish(joined(list(self._each())), threads=self.threads)
        curves = self._curves(Bins.plan(total, sample, bin_size), self._each())
        if protocol.average != "micro":
            return result_of(total, curves)
        pooled = Bins.plan(total.pooled(), sample.pooled(), bin_size)
        return result_of(total, curves, self._curves(pooled, (tally.pooled() for tally in self._each())))

    def _each(self) -> Iterator[Tally]:
        return map(storage.load, self._tallies)

    def _curves(self, bins: Bins, tallies: Iterator[Tally]) -> Curves:
        """The curves of all classes, by way of bins on disk."""
        for tally in tallies:
            for number, piece in bins.split(tally):
                with (self.folder / f"bin-{number}").open("ab") as file:
                    file.write(storage.to_bytes(piece))
        curves = reduce_bins(bins, self._load_bin, self.threads)
        for path in self.folder.glob("bin-*"):
            path.unlink()
        return curves

    def _load_bin(self, number: int) -> Tally | None:
        path = self.folder / f"bin-{number}"
        if not path.exists():
            return None
        pieces, rest = [], memoryview(path.read_bytes())
        while len(rest):
            piece, rest = storage.split_bytes(rest, str(path))
            pieces.append(piece)
        return joined(pieces)


def _each_path(stream: Callable[..., Iterator[Any]], paths: Sequence[str], *options: Any) -> Iterator[tuple[int, Any]]:
    """What a stream gives of each path, with the place of the path."""
    for source, path in enumerate(paths):
        for piece in stream([path], *options):
            yield source, piece


def curve_bytes(protocol: Protocol, num_classes: int) -> int:
    """Memory for the curves of all classes: precision and scores, as they are drawn and as they are put together."""
    num_cells = len(protocol.thresholds) * len(protocol.areas) * len(protocol.limits)
    return 4 * 8 * num_cells * len(protocol.recall_points) * max(num_classes, 1)


def _packed(dtype: np.dtype[Any], columns: dict[str, Any]) -> NDArray[Any]:
    """Columns as rows; what is not there is zero."""
    rows = np.zeros(len(columns["image"]), dtype)
    for name, column in columns.items():
        if column is not None:
            rows[name] = column
    return rows
