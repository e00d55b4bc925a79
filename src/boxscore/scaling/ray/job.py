"""An evaluation on Ray: what its tasks know, and the map: rows to shards by image, shards to verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.memory_size import format_size, parse_size
from boxscore.data.dataset import ClassNames, Detections, Truths
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, row_size
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.validation import RowError
from boxscore.pipeline import match
from boxscore.protocol.protocol import Protocol, ProtocolLike, as_protocol
from boxscore.result import arrow
from boxscore.result.tally import Tally, num_words
from boxscore.scaling.keypoint_rows import columns_of
from boxscore.scaling.ray.datasets import distinct_values, has_text, library, place_of, sources_of
from boxscore.scaling.shards import check_sources, check_streams, detections_from, match_shard, shard_of, truths_from

MATCH_BYTES = 500
"""Memory of a worker per row, detection or truth, while its shard is matched."""

POINT_BYTES = 100
"""More of it per keypoint."""

_IDS = ("image", "label", "truth_image", "truth_label")
_COLUMNS = ("image", "source", "label", "score", "ignore", "area")


MIN_MEMORY = 10_000_000
"""Of a worker, in bytes: with less, there would be so many shards that Ray only keeps track of them."""


def shape_of(protocol: Protocol) -> str:
    """The column of the shapes that a protocol compares: `box`, `mask` or `keypoints`."""
    kinds = {"mask": Masks.iou_types, "keypoints": Keypoints.iou_types}
    return next((name for name, iou_types in kinds.items() if protocol.iou_type in iou_types), "box")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Names:
    """Images and classes that have names, in order; none where they have integers."""

    image: NDArray[np.str_] | None = None
    label: Mapping[str, int] | None = None

    def name_image(self, number: int) -> Any:
        """An image as it was given."""
        return number if self.image is None else self.image[number]

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
class Job:
    """What every task of an evaluation knows."""

    protocol: Protocol
    box_format: BoxFormat
    class_names: Mapping[int, str] | None
    memory: int
    """Of a worker, in bytes."""
    names: Names = Names()
    num_rows: int = 0
    """Of both sides."""
    num_detections: int = 0
    num_shards: int = 1

    @classmethod
    def of(
        cls, protocol: ProtocolLike, box_format: BoxFormat, class_names: ClassNames | None, memory: int | str
    ) -> "Job":
        """An evaluation with these options, or `InputError`."""
        check_box_format(box_format)
        check_streams(as_protocol(protocol))
        limit = parse_size(memory)
        if limit < MIN_MEMORY:
            raise InputError(f"`memory` must be {format_size(MIN_MEMORY)} or more; got {format_size(limit)}")
        names = Truths(image=[], label=[], box=[], class_names=class_names).names_by_label
        return cls(protocol=as_protocol(protocol), box_format=box_format, class_names=names, memory=limit)

    @property
    def shapes(self) -> dict[str, Any]:
        """How the shapes of tables are read."""
        return {"box_format": self.box_format, "iou_type": self.protocol.iou_type}

    @property
    def _box_columns(self) -> list[str]:
        """The columns of a box in tables of shards; masks have upright boxes around them."""
        is_upright = self.shape != "box"
        return [f"box_{i}" for i in range(4 if is_upright else row_size(self.box_format))]

    @property
    def shape(self) -> str:
        """The column of the shapes in tables: `box`, `mask` or `keypoints`."""
        return shape_of(self.protocol)

    @property
    def has_masks(self) -> bool:
        """Whether the shapes are masks."""
        return self.shape == "mask"

    @property
    def _row_bytes(self) -> int:
        """Memory of a worker per row."""
        return MATCH_BYTES + (POINT_BYTES * len(self.protocol.sigmas) if self.shape == "keypoints" else 0)

    def survey(self, detections: Any, truths: Any) -> "Job":
        """The same with the names of two datasets collected, their rows counted and shards planned."""
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
        num_detections = detections.count()
        num_rows = num_detections + truths.count()
        num_workers = ceil(library().cluster_resources().get("CPU", 1))
        # Rows are spread by a hash, so some shards are larger than others, and a task may get two of them.
        num_needed = ceil(2 * num_rows * self._row_bytes / self.memory)
        return replace(
            self,
            class_names=class_names,
            names=Names(image=image, label=label),
            num_rows=num_rows,
            num_detections=num_detections,
            num_shards=max(1, num_needed, min(num_workers, num_rows // 50_000)),
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
        """Rows as they are sent to shards: validated, numbered, each with its shard."""
        side = "truths" if is_truth else "detections"
        try:
            numbered = self.names.numbered(table.drop_columns(["row"]))
            rows: Any = (
                arrow.truths_of(numbered, **self.shapes, class_names=self.class_names)
                if is_truth
                else arrow.detections_of(numbered, **self.shapes)
            )
        except RowError as error:
            raise InputError(f"{place_of(table, error.row, side)}: `{error.column}` {error.rule}") from None
        except InputError as error:
            raise InputError(f"{place_of(table, 0, side)}: {error}") from None
        return self._shard_rows(table, rows, is_truth)

    def _shard_rows(self, table: Any, rows: Any, is_truth: bool) -> Any:
        num = table.num_rows
        image = np.asarray(rows.image, np.int64)
        more: dict[str, Any] = {}
        if self.shape == "keypoints":
            poses = columns_of(rows.keypoints)
            box = poses["box"]
            more = {name: arrow.list_column(poses[name]) for name in ("point", "third")}
            more["num_labelled"] = poses["num_labelled"]
        elif self.has_masks:
            # Masks have their outer boxes beside them, by which a shard that was given twice is found.
            box = np.asarray(rows.geometry.outer_boxes(), np.float64)
            more = {"mask": arrow.column_of(rows.mask)}
        else:
            box = np.asarray(rows.written_boxes[0], np.float64)

        def column(name: str, default: Any) -> Any:
            values = getattr(rows, name, None)
            return np.full(num, default) if values is None else np.asarray(values, type(default))

        return arrow.pyarrow().table(
            {
                "shard": shard_of(image, self.num_shards),
                "is_truth": np.full(num, is_truth),
                "row": table.column("row"),
                "source": sources_of(table),
                "image": image,
                "label": np.asarray(rows.label, np.int64),
                "score": column("score", 0.0),
                **{name: np.ascontiguousarray(box[:, i]) for i, name in enumerate(self._box_columns)},
                "ignore": column("ignore", False),
                # NaN stands for no area at all; all truths have one, or none has.
                "area": column("area", np.nan),
                **more,
            }
        )

    def match_rows(self, table: Any) -> Any:
        """The verdicts of a shard."""
        shard = f"shard {table.column('shard')[0]} of {self.num_shards}"
        order = np.argsort(table.column("row").to_numpy(), kind="stable")  # tasks finish in any order
        columns = {name: table.column(name).to_numpy()[order] for name in (*_COLUMNS, "is_truth")}
        columns["box"] = np.stack([table.column(name).to_numpy()[order] for name in self._box_columns], axis=1)
        if self.shape == "keypoints":
            columns["num_labelled"] = table.column("num_labelled").to_numpy()[order]
        is_truth = columns.pop("is_truth")
        detections, truths = (
            {name: column[rows] for name, column in columns.items()} for rows in (~is_truth, is_truth)
        )
        if self.shape == "keypoints":
            detections |= self._points(table, order[~is_truth], f"{shard}: detections")
            truths |= self._points(table, order[is_truth], f"{shard}: truths")
        for rows in (detections, truths):
            check_sources(rows, name_source="source {}".format, name_image=self.names.name_image)
        masks, truth_masks = None, None
        if self.has_masks:
            every = arrow.masks_of(table.column("mask")).take(order)
            masks, truth_masks = every.take(~is_truth), every.take(is_truth)
        tally = match_shard(
            detections_from(detections, self.box_format, masks),
            truths_from(truths, self.box_format, self.class_names, truth_masks),
            self.protocol,
            name=shard,
            threads=1,
        )
        # One schema for all shards, whatever their ids; and an index for each row, to get them in order again.
        verdicts = arrow.verdict_table(replace(tally, **{key: getattr(tally, key).astype(np.int64) for key in _IDS}))
        return verdicts.append_column("index", arrow.pyarrow().array(np.arange(verdicts.num_rows)))

    @staticmethod
    def _points(table: Any, rows: Any, place: str) -> dict[str, Any]:
        """The points of some rows, and what else each has."""
        try:
            lists = {name: table.column(name).take(arrow.pyarrow().array(rows)) for name in ("point", "third")}
            return {
                name: arrow.number_lists(each, "keypoints", arrow.size_of_lists(each)) for name, each in lists.items()
            }
        except RowError as error:
            raise InputError(f"{place}: must have as many keypoints in every row; one {error.rule}") from None

    def tally_of(self, table: Any) -> Tally:
        """The rows of a table of verdicts, those of an image in the order in which they were matched."""
        table = table.combine_chunks()
        columns: dict[str, Any] = arrow.rows_of(
            table.take(np.lexsort((table.column("index").to_numpy(), table.column("image").to_numpy()))),
            num_words(self.protocol),
        )
        classes = np.union1d(columns["label"], columns["truth_label"])
        return Tally(protocol=self.protocol, classes=classes, **columns)

    def empty_tally(self) -> Tally:
        """The tally of no images, with the names of the classes."""
        nothing: dict[str, Any] = {"image": [], "label": [], self.shape: []}
        nothing |= {"box_format": self.box_format} if self.shape == "box" else {}
        return match(Detections(**nothing, score=[]), Truths(**nothing, class_names=self.class_names), self.protocol)
