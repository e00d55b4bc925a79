"""Evaluation on Ray: the map per image, the reduce per class, with the bits of one machine.

Rows are checked where they are read, and go to shards by the hash of their image. A shard is matched by one task. Its
verdicts go to bins by class, or by score where a class is too large for one task, and each bin's curves are drawn by
one task. The driver sees counts, a sample of the scores and the curves, never a box.
"""

import logging
import pickle
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from math import ceil
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore import arrow, storage
from boxscore.boxes import BoxFormat, check_box_format
from boxscore.checks import RowError
from boxscore.columns import ClassNames, Detections, Truths
from boxscore.curves import Curves
from boxscore.errors import InputError
from boxscore.formats import tables
from boxscore.formats.tables import Table
from boxscore.memory import num_bytes
from boxscore.native.engine import Start
from boxscore.protocol import POOLED, Protocol, as_protocol
from boxscore.reduction import Bins, Sample, assemble, draw_bin, join_ranges, no_start, result_of
from boxscore.result import Result
from boxscore.shards import match_shard, repeated_image, shard_of
from boxscore.tally import Tally, num_words

MATCH_BYTES = 500
"""Memory of a worker for a row, detection or truth, while its shard is matched."""
DRAW_BYTES = 250
"""Memory of a worker for a detection while its bin is drawn."""

_TASK_BITS = 33
"""Bits of a row's number for its place within the task that read it; those above are the task's."""


def evaluate(
    detections: Any,
    truths: Any,
    protocol: str | Protocol = "coco",
    *,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    memory: int | str = "1GB",
    quiet: bool = False,
) -> Result:
    """How well `detections` find `truths`, two `ray.data.Dataset`s: the result of `boxscore.evaluate`, to the last bit.

    Columns are those of `Detections` and `Truths`: `image`, `label`, `score` and `box`, a list of 4; `image`, `label`,
    `box` and, if you like, `ignore` and `area`. Images and classes have integers, or names, which are numbered in
    alphabetical order. Rows may be in any order; that of the dataset breaks ties within an image, as always. If there
    is a column `path`, as `read_parquet(…, include_paths=True)` gives it, errors name the file.

    `class_names`: as in `Truths`. `memory`: what one worker may use; the numbers of shards and bins follow from it. An
    image is never split, so one that needs more gets more. `quiet`: without Ray's progress bars and notes. An image
    all of whose rows come twice, from two files or blocks, is refused: a shard is there twice. The result has no
    tally; the verdicts stay where they are, and are forgotten.
    """
    check_box_format(box_format)
    protocol = as_protocol(protocol)
    names = Truths(image=[], label=[], box=[], class_names=class_names).names_by_label
    for name, dataset in (("detections", detections), ("truths", truths)):
        if not isinstance(dataset, _ray().data.Dataset):
            raise InputError(f"`{name}` must be a ray.data.Dataset; got {type(dataset).__name__}")
    with ExitStack() as stack:
        for dataset in (detections, truths):
            stack.enter_context(_settings(dataset.context, quiet))
        stack.enter_context(_plain_errors((detections, truths), quiet))
        job = _Job.of(detections, truths, protocol, box_format, names, num_bytes(memory))
        verdicts = job.match(detections, truths)
        return job.reduce(verdicts)


def evaluate_files(
    truths: str,
    detections: str,
    protocol: str | Protocol = "coco",
    *,
    box_format: BoxFormat | None = None,
    **options: Any,
) -> Result:
    """The result of Parquet, CSV or JSON-lines files, which every worker must be able to read; options as `evaluate`.

    `truths` and `detections` are each a file, a folder, or a pattern like "found/*.parquet", local or at an address
    like "s3://bucket/found". Columns are named as `read_truths` and `read_detections` have it; the box's tell its
    format, but for one column of four numbers, which needs `box_format`.
    """
    sides = [_Files.at(path) for path in (truths, detections)]
    first, second = (side.box_format or box_format for side in sides)
    if first is None or second is None:
        side = sides[0 if first is None else 1]
        raise InputError(f"{side.files[0]}: column `{side.box[0]}` has four numbers: say which by `box_format`")
    if first != second:
        raise InputError(f"the boxes of truths and detections must be in one format; got {first} and {second}")
    there, found = (side.dataset() for side in sides)
    return evaluate(found, there, protocol, box_format=first, **options)


def connect(address: str | None = None) -> None:
    """Ray is there: at an address, or, without one, on this machine, started for this process if it has to be."""
    ray = _ray()
    if not ray.is_initialized():
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="warning",
            include_dashboard=False if address is None else None,
        )


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise InputError("evaluation on Ray needs it: pip install 'boxscore[ray]'") from None
    return ray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Files:
    """Files of one kind, and which of their columns is which."""

    files: Sequence[str]
    kind: str
    columns: Mapping[str, str]
    """The files' names for ours."""
    box: Sequence[str]
    """One column of lists, or four of numbers."""
    box_format: BoxFormat | None
    """As the names of the box's columns tell it; none if it is one column."""

    @classmethod
    def at(cls, path: str) -> "_Files":
        """The files that a path means."""
        files = _files_at(path)
        suffix = PurePosixPath(files[0]).suffix.lower()
        kind = _KINDS.get(suffix)
        if kind is None:
            raise InputError(f"{files[0]}: must be one of {', '.join(_KINDS)}")
        schema = getattr(_ray().data, f"read_{kind}")(files[:1]).schema()
        named = {name.lower(): name for name in (() if schema is None else schema.names)}
        table = Table(source=files[0], columns=dict.fromkeys(named, ()), num_rows=0, place=lambda _: files[0])
        image = table.need("image", *tables.IMAGE_IDS, *tables.IMAGE_NAMES)
        label = table.need("class", *tables.LABEL_IDS, *tables.LABEL_NAMES)
        more = {"score": table.find(*tables.SCORES), "ignore": table.find(*tables.IGNORES), "area": table.find("area")}
        columns = {"image": image, "label": label} | {ours: name for ours, name in more.items() if name is not None}
        box = next((names for names in tables.BOXES if all(name in named for name in names)), None)
        one = table.need("box", *tables.LIST_BOXES) if box is None else ""
        return cls(
            files=files,
            kind=kind,
            columns={ours: named[name] for ours, name in columns.items()},
            box=[named[name] for name in box or (one,)],
            box_format=None if box is None else tables.BOXES[box],
        )

    def dataset(self) -> Any:
        """The rows under our names, each with the file that it comes from."""
        rows = getattr(_ray().data, f"read_{self.kind}")(self.files, include_paths=True)
        return rows.map_batches(self.renamed, batch_format="pyarrow", batch_size=None)

    def renamed(self, table: Any) -> Any:
        """The columns that are needed, under our names; the box as a list of four."""
        kept = {ours: table.column(name) for ours, name in self.columns.items()} | {"path": table.column("path")}
        if len(self.box) == 1:
            return arrow.pyarrow().table(kept | {"box": table.column(self.box[0])})
        numbers = np.stack([table.column(name).to_numpy().astype(np.float64) for name in self.box], axis=1)
        return arrow.pyarrow().table(kept | {"box": arrow.pyarrow().FixedSizeListArray.from_arrays(numbers.ravel(), 4)})


_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


def _files_at(path: str) -> list[str]:
    """A file, those in a folder, or those that match a pattern, here or at an address; each once, in order."""
    from pyarrow import fs

    arrow.pyarrow()
    scheme, mark, _ = path.rpartition("://")
    try:
        system, place = fs.FileSystem.from_uri(path) if mark else (fs.LocalFileSystem(), str(Path(path).absolute()))
        base = PurePosixPath(place)
        while has_magic(str(base)):
            base = base.parent
        (info,) = system.get_file_info([str(base)])
        if info.type == fs.FileType.Directory:
            found = system.get_file_info(fs.FileSelector(str(base), recursive=True))
            files = [each.path for each in found if each.type == fs.FileType.File]
        else:
            files = [str(base)] if info.type == fs.FileType.File else []
    except (OSError, arrow.pyarrow().ArrowException) as error:
        raise InputError(f"{path}: can't be read: {error}") from None
    kept = [file for file in files if PurePosixPath(file).suffix.lower() in _KINDS]
    if has_magic(place):
        kept = [file for file in kept if PurePosixPath(file).match(place)]
    if not kept:
        raise InputError(f"{path}: no files with a name that ends in {', '.join(_KINDS)}")
    return sorted(f"{scheme}://{file}" if mark and scheme != "file" else file for file in kept)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Names:
    """Images and classes that have names, in order; none where they have integers."""

    image: NDArray[np.str_] | None
    label: Mapping[str, int] | None

    def numbered(self, table: Any) -> Any:
        """The table with integers for names."""
        for name, known in (("image", self.image), ("label", self.label)):
            if known is None or name not in table.column_names:
                continue
            values = table.column(name).to_pylist()
            if None in values:
                raise RowError(name, values.index(None), "must not be null")
            if isinstance(known, Mapping):
                unknown = next((row for row, value in enumerate(values) if value not in known), None)
                if unknown is not None:
                    raise RowError(name, unknown, f"must be a class of the truths; got {values[unknown]!r}")
                numbers = np.array([known[value] for value in values], np.int64)
            else:
                numbers = np.searchsorted(known, np.array(values, known.dtype))
            table = table.set_column(table.column_names.index(name), name, arrow.pyarrow().array(numbers))
        return table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Job:
    """What every task of an evaluation knows."""

    protocol: Protocol
    box_format: BoxFormat
    class_names: Mapping[int, str] | None
    names: _Names
    num_shards: int
    bin_size: int

    @classmethod
    def of(
        cls,
        detections: Any,
        truths: Any,
        protocol: Protocol,
        box_format: BoxFormat,
        class_names: Mapping[int, str] | None,
        memory: int,
    ) -> "_Job":
        """Names are gathered, rows are counted, shards are planned."""
        image = label = None
        if _has_text(truths, "image"):
            image = np.unique([*_distinct(truths, "image"), *_distinct(detections, "image")])
        if _has_text(truths, "label"):
            if class_names is None:
                class_names = dict(enumerate(sorted(_distinct(truths, "label"))))
            label = {name: number for number, name in class_names.items()}
        num_rows = detections.count() + truths.count()
        num_workers = ceil(_ray().cluster_resources().get("CPU", 1))
        # Rows are spread by a hash, so some shards are larger than others, and a task may get two of them.
        num_needed = ceil(2 * num_rows * MATCH_BYTES / memory)
        return cls(
            protocol=protocol,
            box_format=box_format,
            class_names=class_names,
            names=_Names(image=image, label=label),
            num_shards=max(1, num_needed, min(num_workers, num_rows // 50_000)),
            bin_size=max(1, memory // DRAW_BYTES),
        )

    def match(self, detections: Any, truths: Any) -> Any:
        """The verdicts of all shards, as a dataset of Arrow tables."""
        from ray.data.expressions import monotonically_increasing_id

        sides = [
            dataset.with_column("row", monotonically_increasing_id()).map_batches(
                self.check, fn_kwargs={"is_truth": is_truth}, batch_format="pyarrow", batch_size=None
            )
            for dataset, is_truth in ((detections, False), (truths, True))
        ]
        groups = sides[0].union(sides[1]).groupby("shard", num_partitions=self.num_shards)
        return groups.map_groups(self.match_rows, batch_format="pyarrow").materialize()

    def check(self, table: Any, is_truth: bool) -> Any:
        """Rows as they are sent to shards: checked, numbered, each with its shard."""
        try:
            numbered = self.names.numbered(table)
            rows: Any = (
                arrow.truths_of(numbered, box_format=self.box_format, class_names=self.class_names)
                if is_truth
                else arrow.detections_of(numbered, box_format=self.box_format)
            )
        except RowError as error:
            place = _place(table, error.row)
            raise InputError(f"{place}: `{error.column}` {error.rule}") from None
        except InputError as error:
            raise InputError(f"{_place(table, 0)}: {error}") from None
        return self._sent(table, rows, is_truth)

    def _sent(self, table: Any, rows: Any, is_truth: bool) -> Any:
        num = table.num_rows
        box, image = np.asarray(rows.box, np.float64), np.asarray(rows.image, np.int64)

        def column(name: str, default: Any) -> Any:
            values = getattr(rows, name, None)
            return np.full(num, default) if values is None else np.asarray(values, type(default))

        return arrow.pyarrow().table(
            {
                "shard": shard_of(image, self.num_shards),
                "is_truth": np.full(num, is_truth),
                "row": table.column("row"),
                "source": _sources(table),
                "image": image,
                "label": np.asarray(rows.label, np.int64),
                "score": column("score", 0.0),
                **{f"box_{i}": np.ascontiguousarray(box[:, i]) for i in range(4)},
                "ignore": column("ignore", False),
                # NaN stands for no area at all; all truths have one, or none has.
                "area": column("area", np.nan),
            }
        )

    def match_rows(self, table: Any) -> Any:
        """The verdicts of a shard."""
        shard = f"shard {table.column('shard')[0]} of {self.num_shards}"
        order = np.argsort(table.column("row").to_numpy(), kind="stable")  # tasks finish in any order
        columns = {name: table.column(name).to_numpy()[order] for name in table.column_names}
        columns["box"] = np.stack([columns.pop(f"box_{i}") for i in range(4)], axis=1)
        is_truth = columns["is_truth"]
        found, there = ({key: column[rows] for key, column in columns.items()} for rows in (~is_truth, is_truth))
        for rows in (found, there):
            self._check_sources(rows)
        has_area = ~np.isnan(there["area"])
        if has_area.any() and not has_area.all():
            raise InputError("`area` must be a column of all truths, or of none; got some of each")
        detections = Detections(
            **{key: found[key] for key in ("image", "label", "score", "box")}, box_format=self.box_format
        )
        truths = Truths(
            **{key: there[key] for key in ("image", "label", "box", "ignore")},
            area=there["area"] if has_area.any() else None,
            box_format=self.box_format,
            class_names=self.class_names,
        )
        tally = match_shard(detections, truths, self.protocol, name=shard, threads=1)
        # One schema for all shards, whatever their ids; and a place for each row, to get them in order again.
        verdicts = arrow.verdict_table(replace(tally, **{key: getattr(tally, key).astype(np.int64) for key in _IDS}))
        return verdicts.append_column("place", arrow.pyarrow().array(np.arange(verdicts.num_rows)))

    def _check_sources(self, rows: Mapping[str, NDArray[Any]]) -> None:
        repeated = repeated_image(rows["image"], rows["source"], [rows[name] for name in _COMPARED])
        if repeated is not None:
            number, sources = repeated
            image = number if self.names.image is None else self.names.image[number]
            places = " and ".join(f"source {source}" for source in sources[:2])
            raise InputError(f"image {image} comes twice, with the same boxes: from {places}")

    def survey(self, table: Any) -> Any:
        """What some verdicts add up to, and a sample of them."""
        tally = self.tally_of(table)
        return _message((replace(tally.totals, class_names=self.class_names), Sample.of(tally, self.bin_size)))

    def reduce(self, verdicts: Any) -> Result:
        """The result of all verdicts."""
        surveys = _messages(verdicts.map_batches(self.survey, batch_format="pyarrow", batch_size=None))
        none = match_shard(*_nothing(self.class_names), self.protocol, name="no boxes")
        totals = none.totals.merge(*(survey[0] for survey in surveys))
        sample = Sample.joined([Sample.of(none, self.bin_size), *(survey[1] for survey in surveys)])
        curves = _Reduction(job=self, bins=Bins.plan(totals, sample, self.bin_size)).curves(verdicts)
        if self.protocol.average != "micro":
            return result_of(totals, curves)
        bins = Bins.plan(totals.pooled(), sample.pooled(), self.bin_size)
        return result_of(totals, curves, _Reduction(job=self, bins=bins, is_pooled=True).curves(verdicts))

    def tally_of(self, table: Any, *, is_pooled: bool = False) -> Tally:
        """The rows of a table of verdicts, those of an image in the order in which they were matched."""
        table = table.combine_chunks()
        columns: dict[str, Any] = arrow.rows_of(
            table.take(np.lexsort((table.column("place").to_numpy(), table.column("image").to_numpy()))),
            num_words(self.protocol),
        )
        if is_pooled:
            columns |= {name: np.full_like(columns[name], POOLED) for name in ("label", "truth_label")}
        classes = np.union1d(columns["label"], columns["truth_label"])
        return Tally(protocol=self.protocol, classes=classes, **columns)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Reduction:
    """What every task knows that draws curves."""

    job: _Job
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
        parts = dict(_messages(drawn.select_columns(["message"]) if ready.keeps_pieces else drawn))
        of_ranges = {number for numbers in ranges.values() for number in numbers}
        whole = [part for number, part in parts.items() if number not in of_ranges]
        split = [self._joined([n for n in numbers if n in parts], parts, drawn) for numbers in ranges.values()]
        return assemble(replace(self.bins.totals, protocol=protocol), [*whole, *split])

    @property
    def keeps_pieces(self) -> bool:
        """Whether the rows of ranges are needed once more, for an AP that is a sum over true positives."""
        return bool(self.starts) and self.job.protocol.ap != "recall_points"

    def _joined(self, numbers: Sequence[int], parts: Mapping[int, Curves], drawn: Any) -> Curves:
        """The curves of a class that was split."""

        def redraw(place: int, start: Start) -> Curves:
            number = numbers[place]
            (row,) = drawn.filter(expr=f"bin == {number}").take_all()
            return draw_bin(storage.from_bytes(row["piece"]), self.bins, number, 1, start)

        return join_ranges([parts[number] for number in numbers], self.job.protocol, redraw)

    def _starts(self, verdicts: Any) -> dict[int, Start]:
        """The start of each range, from the counts in all ranges."""
        counts = _messages(verdicts.map_batches(self.count, batch_format="pyarrow", batch_size=None))
        found: dict[int, Start] = {}
        for numbers in self.bins.ranges.values():
            start = no_start(self.job.protocol)
            for number in numbers:
                found[number] = start
                for count in counts:
                    num_true, num_false = count.get(number, (0, 0))
                    start = start._replace(
                        num_true=start.num_true + num_true, num_counted=start.num_counted + num_true + num_false
                    )
        return found

    def count(self, table: Any) -> Any:
        """True and false positives of some verdicts in each range."""
        of_ranges = {number for numbers in self.bins.ranges.values() for number in numbers}
        counts = {}
        for number, piece in self.bins.split(self._tally(table)):
            if number in of_ranges:
                curves = draw_bin(piece, self.bins, number, 1)
                counts[number] = curves.num_true, curves.num_false
        return _message(counts)

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
        curves = draw_bin(piece, self.bins, number, 1, start)
        drawn = _message((number, curves)).append_column("bin", arrow.pyarrow().array([number]))
        content = [storage.to_bytes(piece) if start is not None and self.keeps_pieces else None]
        return drawn.append_column("piece", arrow.pyarrow().array(content, arrow.pyarrow().large_binary()))

    def _tally(self, table: Any) -> Tally:
        return self.job.tally_of(table, is_pooled=self.is_pooled)


_IDS = ("image", "label", "truth_image", "truth_label")
_COMPARED = ("label", "score", "box", "ignore", "area")


def _nothing(class_names: Mapping[int, str] | None) -> tuple[Detections, Truths]:
    none = Detections(image=[], label=[], score=[], box=[])
    return none, Truths(image=[], label=[], box=[], class_names=class_names)


def _with_paths(message: str, datasets: Sequence[Any]) -> str:
    """The message with the paths of its sources, where rows have paths; else they are blocks."""
    if not re.search(r"source \d+", message):
        return message
    paths = [path for dataset in datasets if _has_text(dataset, "path") for path in _distinct(dataset, "path")]
    named = {str(_number_of(path)): path for path in paths}
    return re.sub(r"source (\d+)", lambda match: named.get(match[1], f"block {match[1]}"), message)


def _distinct(dataset: Any, name: str) -> list[Any]:
    """The different values of a column, block by block."""

    def distinct(table: Any) -> Any:
        return arrow.pyarrow().table({name: table.column(name).unique()})

    found = dataset.select_columns([name]).map_batches(distinct, batch_format="pyarrow", batch_size=None)
    return list({row[name]: None for row in found.iter_rows() if row[name] is not None})


def _message(value: Any) -> Any:
    """A value for the driver, as a table of one row."""
    kind = arrow.pyarrow().large_binary()
    return arrow.pyarrow().table({"message": arrow.pyarrow().array([pickle.dumps(value)], kind)})


def _messages(dataset: Any) -> list[Any]:
    """What tasks have sent to the driver."""
    return [pickle.loads(row["message"]) for row in dataset.iter_rows()]


def _has_text(dataset: Any, name: str) -> bool:
    """Whether a column of a dataset has names."""
    schema = dataset.schema()
    kinds = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
    types = arrow.pyarrow().types
    return name in kinds and bool(types.is_string(kinds[name]) or types.is_large_string(kinds[name]))


def _place(table: Any, row: int) -> str:
    """Where a row is, as well as can be told."""
    names = table.column_names
    image = f"image {table.column('image')[row]}" if "image" in names and table.num_rows else "a block"
    return f"{table.column('path')[row]}: {image}" if "path" in names and table.num_rows else image


def _sources(table: Any) -> NDArray[np.int64]:
    """The file that each row comes from, as a number; where it is not known, the task that read it."""
    if "path" not in table.column_names:
        return np.asarray(table.column("row").to_numpy() >> _TASK_BITS)
    paths = table.column("path").combine_chunks().dictionary_encode()
    numbers = np.array([_number_of(path) for path in paths.dictionary.to_pylist()], np.int64)
    return np.asarray(numbers[paths.indices.to_numpy()])


def _number_of(path: str) -> int:
    """A number for a path, the same in every process."""
    return zlib.crc32(path.encode())


@contextmanager
def _settings(context: Any, quiet: bool) -> Iterator[None]:
    """Rows stay in order, so that ties can be broken by it; the user's own settings are back afterwards."""
    options = context.execution_options
    before = options.preserve_order, context.enable_progress_bars
    options.preserve_order, context.enable_progress_bars = True, before[1] and not quiet
    try:
        yield
    finally:
        options.preserve_order, context.enable_progress_bars = before


@contextmanager
def _plain_errors(datasets: Sequence[Any], quiet: bool) -> Iterator[None]:
    """What was wrong in a task is told in one line, without the stacks of all that was between."""
    ray = _ray()
    logger = logging.getLogger("ray.data")
    muted = [handler for handler in logger.handlers if isinstance(handler, logging.StreamHandler)]

    def is_shown(record: logging.LogRecord) -> bool:
        return not quiet and record.levelno < logging.ERROR

    for handler in muted:
        handler.addFilter(is_shown)
    try:
        yield
    except ray.exceptions.RayError as error:
        # Of an error in a task only the text is left.
        found = re.findall(r"^boxscore\.errors\.InputError: (.*)$", str(error), flags=re.MULTILINE)
        if not found:
            raise
        raise InputError(_with_paths(found[0], datasets)) from None
    finally:
        for handler in muted:
            handler.removeFilter(is_shown)
