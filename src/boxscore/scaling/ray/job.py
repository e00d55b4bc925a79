"""An evaluation on Ray: the settings of its tasks, and the map: rows to shards by image, shards to verdicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.memory_size import format_size, parse_size
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import ClassNames, Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format
from boxscore.data.geometry.kinds import kind_of
from boxscore.data.image_facts import CLASS_GROUP
from boxscore.data.validation import RowError
from boxscore.pipeline import match
from boxscore.protocol.protocol import Protocol, ProtocolLike, as_protocol
from boxscore.result import arrow, storage
from boxscore.result.tally import Tally
from boxscore.scaling.parts import Part, join, row_values, split_by_shard
from boxscore.scaling.ray.datasets import (
    as_messages,
    distinct_values,
    has_text,
    library,
    messages_of,
    place_of,
    sources_of,
)
from boxscore.scaling.shards import check_has_groups, check_sources, match_shard

MATCH_BYTES = 500
"""Memory of a worker per row, detection or truth, while its shard is matched."""

MIN_MEMORY = 10_000_000
"""Minimum memory of a worker, in bytes: with less, Ray would spend its time on keeping track of shards."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Names:
    """The sorted names of images and classes; None if they are integers."""

    image: NDArray[np.str_] | None = None
    label: Mapping[str, int] | None = None

    def name_image(self, number: int) -> Any:
        """The id of an image in the inputs: its name, or the number itself."""
        return number if self.image is None else self.image[number]

    def numbered(self, table: Any) -> Any:
        """The table with integers for names. Coverage lists drop unknown classes."""
        library = arrow.pyarrow()
        for name, known in (("image", self.image), ("label", self.label)):
            if known is None or name not in table.column_names:
                continue
            values = table.column(name).to_pylist()
            if None in values and (name == "image" or "score" in table.column_names):
                raise RowError(name, values.index(None), "must not be null")
            if isinstance(known, Mapping):
                valid = {*known, None}
                unknown = next((row for row, value in enumerate(values) if value not in valid), None)
                if unknown is not None:
                    raise RowError(name, unknown, f"must be a class of the truths; got {values[unknown]!r}")
                numbers = library.array([known.get(value) for value in values], library.int64())
            else:
                numbers = library.array(np.searchsorted(known, np.array(values, known.dtype)))
            table = table.set_column(table.column_names.index(name), name, numbers)
        for name in COVERAGE_KEYS:
            if self.label is not None and name in table.column_names:
                number_of = self.label
                lists = [
                    None if labels is None else [number_of[label] for label in labels if label in number_of]
                    for labels in table.column(name).to_pylist()
                ]
                numbers = library.array(lists, library.list_(library.int64()))
                table = table.set_column(table.column_names.index(name), name, numbers)
        return table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """The settings of an evaluation, which every task knows."""

    protocol: Protocol
    kind: type[Geometry]
    """The geometry that the protocol compares; sent by reference, so that workers import its module."""
    box_format: BoxFormat
    class_names: Mapping[int, str] | None
    class_groups: Mapping[int, str] | None = None
    has_lists: bool = False
    """Whether truths have the lists of labels that define their coverage."""
    memory: int
    """Memory of a worker, in bytes."""
    names: Names = Names()
    num_rows: int = 0
    """Number of rows of both sides."""
    num_detections: int = 0
    num_shards: int = 1

    @classmethod
    def of(
        cls, protocol: ProtocolLike, box_format: BoxFormat, class_names: ClassNames | None, memory: int | str
    ) -> "Job":
        """Validate the options; raise `InputError` for invalid ones."""
        check_box_format(box_format)
        limit = parse_size(memory)
        if limit < MIN_MEMORY:
            raise InputError(f"`memory` must be {format_size(MIN_MEMORY)} or more; got {format_size(limit)}")
        names = Truths(image_ids=[], labels=[], boxes=[], class_names=class_names).names_by_label
        rules = as_protocol(protocol)
        kind = kind_of(rules.iou_type)
        return cls(protocol=rules, kind=kind, box_format=box_format, class_names=names, memory=limit)

    @property
    def shapes(self) -> dict[str, Any]:
        """Arguments for reading the shapes of tables."""
        return {"box_format": self.box_format, "kind": self.kind}

    def survey(self, detections: Any, truths: Any) -> "Job":
        """Collect the names of two datasets, count their rows and plan the shards; return the completed job."""
        image = label = None
        class_names = self.class_names
        if has_text(truths, "image"):
            image = np.unique([*distinct_values(truths, "image"), *distinct_values(detections, "image")])
        if has_text(truths, "label"):
            if class_names is None:
                class_names = dict(enumerate(sorted(distinct_values(truths, "label"))))
            label = {name: number for number, name in class_names.items()}
            if len(label) < len(class_names):
                raise InputError("`class_names` must have each name once, as classes are text; got one twice")
        schema = truths.schema()
        columns = [] if schema is None else schema.names
        groups = None
        if self.protocol.class_groups and columns:
            check_has_groups(self.protocol, columns)
            groups = _class_groups(truths, label)
        num_detections = detections.count()
        num_rows = num_detections + truths.count()
        num_workers = ceil(library().cluster_resources().get("CPU", 1))
        # Rows are spread by a hash, so some shards are larger than others, and a task may get two of them.
        row_bytes = MATCH_BYTES + self.kind.row_bytes(self.protocol)
        num_needed = ceil(2 * num_rows * row_bytes / self.memory)
        return replace(
            self,
            class_names=class_names,
            class_groups=groups,
            has_lists=COVERAGE_KEYS[0] in columns,
            names=Names(image=image, label=label),
            num_rows=num_rows,
            num_detections=num_detections,
            num_shards=max(1, num_needed, min(num_workers, num_rows // 50_000)),
        )

    def match(self, detections: Any, truths: Any) -> Any:
        """Match all shards: a dataset of tallies, with one row per shard."""
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
        """Validate and number a block of rows; return one row per shard, with the bytes of its part of the block."""
        side = "truths" if is_truth else "detections"
        rows: Any
        facts = None
        try:
            numbered = self.names.numbered(table.drop_columns(["row"]))
            if is_truth:
                rows, facts = arrow.truth_rows_of(numbered, **self.shapes, class_names=self.class_names)
                facts = None if facts is None else facts.needed_by(self.protocol)
            else:
                rows = arrow.detections_of(numbered, **self.shapes)
        except RowError as error:
            raise InputError(f"{place_of(table, error.row, side)}: `{error.heading}` {error.rule}") from None
        except InputError as error:
            raise InputError(f"{place_of(table, 0, side)}: {error}") from None
        first = table.column("row")[0].as_py() if table.num_rows else 0
        has_label = table.column("label").is_valid() if is_truth else None
        source = sources_of(table if has_label is None else table.filter(has_label))
        parts = dict(split_by_shard(Part(rows, source, facts), self.num_shards))
        library = arrow.pyarrow()
        return library.table(
            {
                "shard": library.array(list(parts), library.int64()),
                "is_truth": library.array([is_truth] * len(parts), library.bool_()),
                # The number of the block's first row: tasks finish in any order.
                "row": library.array([first] * len(parts), library.int64()),
                "part": library.array(list(parts.values()), library.large_binary()),
            }
        )

    def match_rows(self, table: Any) -> Any:
        """Match one shard; return its tally as bytes."""
        shard = f"shard {table.column('shard')[0]} of {self.num_shards}"
        table = table.take(np.argsort(table.column("row").to_numpy(), kind="stable"))
        empty = self._no_rows()
        is_truth = table.column("is_truth")
        found, there = (
            join((each.as_buffer() for each in table.filter(rows).column("part")), empty[side], side)
            for side, rows in (("detections", arrow.pyarrow().compute.invert(is_truth)), ("truths", is_truth))
        )
        for part in (found, there):
            check_sources(row_values(part), name_source="source {}".format, name_image=self.names.name_image)
        truths = replace(there.rows, class_names=self.class_names, class_groups=self.class_groups)
        if there.facts is not None:
            truths = there.facts.completed(truths, has_lists=self.has_lists)
        return as_tally_row(match_shard(found.rows, truths, self.protocol, name=shard, threads=1))

    def _no_rows(self) -> dict[str, Any]:
        """Both sides without rows."""
        nothing: dict[str, Any] = {"image_ids": [], "labels": [], "geometry": self.kind.empty(self.box_format)}
        return {"detections": Detections(**nothing, scores=[]), "truths": Truths(**nothing)}

    def empty_tally(self) -> Tally:
        """The tally of no images, with the class names."""
        empty = self._no_rows()
        truths = replace(empty["truths"], class_names=self.class_names, class_groups=self.class_groups)
        return match(empty["detections"], truths, self.protocol)


def _class_groups(truths: Any, label: Mapping[str, int] | None) -> dict[int, str]:
    """Collect the group of each class from the rows of the truths."""
    names = Names(label=label)

    def groups(table: Any) -> Any:
        return as_messages([arrow.class_groups_of(names.numbered(table))])

    columns = truths.select_columns(["label", CLASS_GROUP])
    found: dict[int, str] = {}
    for part in messages_of(columns.map_batches(groups, batch_format="pyarrow", batch_size=None)):
        for number, group in part.items():
            if found.setdefault(number, group) != group:
                both = f"{found[number]!r} and {group!r}"
                raise InputError(f"`{CLASS_GROUP}` of class {number} must be one; got {both}")
    return found


def as_tally_row(tally: Tally, **more: Any) -> Any:
    """A tally as a table of one row. `more`: values of additional columns."""
    library = arrow.pyarrow()
    content = library.array([storage.to_bytes(tally)], library.large_binary())
    return library.table({"tally": content} | {name: library.array([value]) for name, value in more.items()})


def tallies_of(table: Any) -> Iterator[Tally]:
    """The tallies of a table, one at a time."""
    return (storage.from_bytes(each.as_buffer()) for each in table.column("tally"))
