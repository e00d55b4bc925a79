"""Read Parquet files batch by batch, with ids that are the same in all of them.

The images and classes of all files are read first, without boxes. So images and classes get the same numbers, and
detections are joined with the same ones, as if all files were read at once.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_facts import CLASS_GROUP, LISTS, SIZES, ImageFacts, asks_for_facts
from boxscore.formats import table_facts, tables
from boxscore.formats.joining import join_classes, join_images, keep_rows, numbered_classes, numbered_images
from boxscore.formats.parquet import chosen, lists_of, open_parquet, table_of, whole
from boxscore.formats.record_shapes import shapes_for
from boxscore.formats.records import Ids, Key, Named, Options, Records, RowKeys, codes_of
from boxscore.formats.tables import Table
from boxscore.protocol.protocol import Protocol

_BUFFER = 1 << 20
"""Number of bytes of a column that are read at once, independent of the size of row groups."""
_KEYS = {*tables.IMAGE_IDS, *tables.IMAGE_NAMES, *tables.LABEL_IDS, *tables.LABEL_NAMES, CLASS_GROUP}


def files_of(path: str) -> list[str]:
    """Sorted Parquet files at a path: the file itself, all in a folder, or all matches of a pattern.

    >>> files_of("nowhere/*.parquet")
    Traceback (most recent call last):
    boxscore.InputError: nowhere/*.parquet: no Parquet files there
    """
    if Path(path).is_dir():
        found = [str(each) for each in Path(path).rglob("*") if each.suffix.lower() in (".parquet", ".pq")]
    else:
        if not has_magic(path) and not Path(path).exists():
            raise InputError(f"{path}: no such file or folder")
        found = glob(path, recursive=True) if has_magic(path) else [path]  # noqa: PTH207 (a path with or without a root)
    if not found:
        raise InputError(f"{path}: no Parquet files there")
    return sorted(found)


def num_rows_of(paths: Sequence[str]) -> int:
    """Total number of rows of the files, from their footers."""
    from pyarrow import parquet

    num = 0
    for path in paths:
        with whole(path, "Parquet"):
            num += parquet.read_metadata(path).num_rows
    return num


def row_bytes(paths: Sequence[str]) -> int:
    """Estimated bytes of a row with its shape: the largest average over the row groups of the files."""
    from pyarrow import parquet

    largest = 0.0
    for path in paths:
        with whole(path, "Parquet"):
            about = parquet.read_metadata(path)
        for group in map(about.row_group, range(about.num_row_groups)):
            largest = max(largest, group.total_byte_size / max(group.num_rows, 1))
    return ceil(largest)


class BatchSettings(NamedTuple):
    """Settings for reading files in batches."""

    num_rows: int
    """Number of rows per batch."""
    threads: int
    """If more than one, pyarrow decodes columns in its threads."""


def shape_bytes(paths: Sequence[str], options: Options) -> int:
    """Bytes of the shapes of a row in memory, from the first row of each file; they may take less in the file."""
    names = [name for kind in options.kinds for name in kind.columns]
    most = 0
    for path in paths:
        first = next(read_batches(path, BatchSettings(1, 1), options=options)).columns
        arrays = [column for name in names if isinstance(column := first.get(name), np.ndarray)]
        most = max(most, sum(array.nbytes for array in arrays))
    return most


def read_batches(
    path: str,
    settings: BatchSettings,
    *,
    only_keys: bool = False,
    options: Options | None = None,
    without: Container[str] = (),
) -> Iterator[Table]:
    """Read the rows of a file, batch by batch; an empty file gives one empty batch.

    Args:
        path: The file.
        settings: Rows per batch and threads.
        only_keys: Whether to read only the columns of images and classes.
        options: The shapes to read.
        without: Columns to skip.
    """
    import pyarrow

    known = {name for name in tables.known_columns(options or Options()) if name not in without}

    with whole(path, "Parquet"):
        buffered = {"buffer_size": _BUFFER, "pre_buffer": False}
        with open_parquet(path, path, Path(path).stat().st_size, **buffered) as file:
            schema = file.schema_arrow
            names = list(chosen(schema, path, _KEYS if only_keys else known).values())
            unread = [name.lower() for name in schema.names if name not in names]
            first = 0
            for batch in file.iter_batches(settings.num_rows, columns=names, use_threads=settings.threads > 1):
                yield replace(table_of(pyarrow.Table.from_batches([batch]), path, first), unread=unread)
                first += batch.num_rows
            if first == 0:
                yield replace(table_of(schema.empty_table().select(names), path), unread=unread)


@dataclass(slots=True)
class Distinct:
    """The distinct values of a column, ids or names, collected batch by batch."""

    ids: Ids
    names: dict[str, None]

    @classmethod
    def none(cls) -> "Distinct":
        """An empty collection."""
        return cls(np.zeros(0, np.int64), {})

    def add(self, key: Key) -> None:
        """Add the values of some rows."""
        if isinstance(key, Named):
            self.names |= dict.fromkeys(key.names[code] for code in np.unique(key.code))
        else:
            self.ids = np.union1d(self.ids, key)

    @property
    def key(self) -> Key:
        """All values, one row each. If some are names, ids become names, too."""
        if not self.names:
            return self.ids
        return Named.of([*self.names, *map(str, self.ids.tolist())])


class Lookup:
    """Map from the values of a column to ids; the distinct values must be known."""

    def __init__(self, values: Key, ids: Ids, is_lost: NDArray[np.bool_] | None = None) -> None:
        self._is_named = isinstance(values, Named)
        names = values.names if isinstance(values, Named) else ()
        self._index_of = {name: index for index, name in enumerate(names)}
        self._values = codes_of(values)  # ascending in both cases
        self._ids = ids
        self._is_lost = np.zeros(ids.size, bool) if is_lost is None else is_lost

    def find(self, key: Key) -> tuple[Ids, NDArray[np.bool_]]:
        """The id of each row, and which rows have none."""
        if self._is_named and not isinstance(key, Named):
            key = Named.of([str(value) for value in key.tolist()])
        if isinstance(key, Named):
            index = np.array([self._index_of.get(name, -1) for name in key.names], np.int64)[key.code]
        else:
            index = np.searchsorted(self._values, key)
        return self._ids[index], self._is_lost[index]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Keys:
    """The distinct images and classes of some files, and the names that they list."""

    image: Key
    label: Key
    image_names: dict[int, str] | None
    class_names: dict[int, str] | None
    class_groups: dict[Any, str] | None
    """Groups by class, which is an id or a name; None if no file has groups."""
    num_rows: int
    source: str

    @classmethod
    def of(cls, paths: Sequence[str], settings: BatchSettings, check: Callable[[int, int], None]) -> "Keys":
        """Read the images and classes of all files, without boxes.

        `check` is called for each batch, with its number of rows and the number of classes so far, and may raise.
        """
        from pyarrow import parquet

        images, labels = Distinct.none(), Distinct.none()
        image_names: dict[int, str] = {}
        class_names: dict[int, str] = {}
        class_groups: dict[Any, str] = {}
        has_groups, num = False, 0
        for path in paths:
            for table in read_batches(path, settings, only_keys=True):
                names, _, image = tables.image_keys(table)
                images.add(image)
                tables.merge_names(image_names, names or {}, "image", path)
                boxes = tables.boxes_only(table)
                label, titles = tables.label_keys(boxes)
                labels.add(label)
                groups = table_facts.read_class_groups(boxes, label)
                has_groups |= groups is not None
                _merge_groups(class_groups, groups or {}, path)
                tables.merge_names(class_names, titles or {}, "class", path)
                num += table.num_rows
                check(table.num_rows, labels.ids.size + len(labels.names))
            with whole(path, "Parquet"):
                lists = lists_of(parquet.read_schema(path), path)
            tables.merge_names(image_names, lists.get("image_names", {}), "image", path)
            tables.merge_names(class_names, lists.get("class_names", {}), "class", path)
            has_groups |= "class_groups" in lists
            _merge_groups(class_groups, lists.get("class_groups", {}), path)
        return cls(
            image=images.key,
            label=labels.key,
            image_names=image_names or None,
            class_names=class_names or None,
            class_groups=class_groups if has_groups else None,
            num_rows=num,
            source=paths[0],
        )

    def records(self, key: Key) -> Records:
        """One row per value, with an empty box, as input of the functions that number and join records."""
        is_image = key is self.image
        nothing = np.zeros(len(key), np.int64)
        return Records(
            image=key if is_image else nothing,
            label=nothing if is_image else key,
            box=np.zeros((len(key), 4)),
            box_format="xyxy",
            location=lambda _: self.source,
            source=self.source,
            image_names=self.image_names,
            class_names=self.class_names,
        )


def _merge_groups(known: dict[Any, str], more: Mapping[Any, str], path: str) -> None:
    for key, group in more.items():
        if known.setdefault(key, group) != group:
            both = f"{known[key]!r} and {group!r}"
            raise InputError(f"{path}: class {key!r} must have one `{CLASS_GROUP}`; got {both}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Numbering:
    """Ids for the images and classes of truths and detections, equal to the ids if all files were read at once."""

    known: Truths
    """Truths without boxes, which have the names of all images and classes."""
    truths: tuple[Lookup, Lookup]
    """Lookups of images and of classes."""
    detections: tuple[Lookup, Lookup]

    @classmethod
    def of(cls, truths: Keys, detections: Keys) -> "Numbering":
        """Number the images and classes of truths, and join detections with them."""
        image, image_names, is_numbered = numbered_images(truths.records(truths.image))
        label, class_names = numbered_classes(truths.records(truths.label))
        known = Truths(
            image_ids=[],
            labels=[],
            boxes=[],
            image_names=image_names or {number: str(number) for number in image.tolist()},
            class_names=class_names,
            class_groups=table_facts.groups_by_label(truths.class_groups, class_names),
            _is_numbered=is_numbered,
        )
        is_unlisted = ~np.isin(image, list(known.image_names or ()))
        return cls(
            known=known,
            truths=(Lookup(truths.image, image, is_unlisted), Lookup(truths.label, label)),
            detections=(
                Lookup(detections.image, *join_images(detections.records(detections.image), known)),
                Lookup(detections.label, *join_classes(detections.records(detections.label), known)),
            ),
        )


def stream_truths(
    path: str, numbering: Numbering, options: Options, settings: BatchSettings, protocol: Protocol
) -> Iterator[tuple[Truths, ImageFacts | None, int]]:
    """Read the truths of a file, batch by batch.

    Each batch comes with the facts of images that the protocol needs, and the number of truths that were dropped
    because their image is not listed.
    """
    for table in read_batches(path, settings, options=options, without=table_facts.unneeded_columns(protocol)):
        records = tables.truth_records(table, options, has_facts=False)
        image, is_lost = numbering.truths[0].find(records.image)
        label, _ = numbering.truths[1].find(records.label)
        if is_lost.any():
            records, image, label = keep_rows(records, ~is_lost), image[~is_lost], label[~is_lost]
        more = {"ignore": records.ignore, "kind": records.kind, "area": records.area}
        truths = _checked(records, Truths, options, image_ids=image, labels=label, **more)
        facts = _facts(table, numbering).needed_by(protocol) if asks_for_facts(protocol) else None
        yield truths, facts, int(is_lost.sum())


def _facts(table: Table, numbering: Numbering) -> ImageFacts:
    """Read the facts of images from all rows on listed images."""
    _, _, key = tables.image_keys(table)
    facts = table_facts.read_facts(table)
    image, is_lost = numbering.truths[0].find(key)
    unknown = np.full(image.size, np.nan)
    width, height = unknown, unknown
    if all(name in table.columns for name in SIZES):
        width, height = (np.where((size := table.floats(name)) >= 1, size, np.nan) for name in SIZES)
    crowd_index = unknown if facts.crowd_index is None else facts.crowd_index
    lists: dict[str, Any] = {}
    if facts.lists is not None:
        columns = []
        for index, (row, label) in enumerate(facts.lists):
            keys = RowKeys(image=image[row], label=label, location=table.location, source=table.source)
            found, is_unknown = join_classes(keys, numbering.known)
            is_kept = ~(is_unknown | is_lost[row])
            columns.append((image[row][is_kept], found[is_kept], np.full(int(is_kept.sum()), index == 0)))
        lists = dict(zip(LISTS, map(np.concatenate, zip(*columns, strict=True)), strict=True))
    listed = ~is_lost
    return ImageFacts(
        image=image[listed],
        width=width[listed],
        height=height[listed],
        crowd_index=crowd_index[listed],
        **lists,
    )


def stream_detections(
    path: str, numbering: Numbering, options: Options, settings: BatchSettings, *, is_strict: bool
) -> Iterator[tuple[Detections, int]]:
    """Read the detections of a file, batch by batch, each with the number of dropped detections.

    A detection on an image, or of a class, that the truths don't have is dropped or, if `is_strict`, an error.
    """
    for table in read_batches(path, settings, options=options):
        records = tables.detection_records(table, options)
        image, lost_image = numbering.detections[0].find(records.image)
        label, lost_label = numbering.detections[1].find(records.label)
        is_lost = lost_image | lost_label
        if is_lost.any() and is_strict:
            raise InputError(_complaint(records, lost_image, is_lost, numbering))
        if is_lost.any():
            records, image, label = keep_rows(records, ~is_lost), image[~is_lost], label[~is_lost]
        columns = {"image_ids": image, "labels": label, "scores": records.score, "area": records.area}
        yield _checked(records, Detections, options, **columns), int(is_lost.sum())


def _checked(records: Records, side: Any, options: Options, **columns: Any) -> Any:
    if options.reads(Masks) and records.mask is None:
        raise InputError(f"{records.source}: must have a column `segmentation` with run lengths; got none")
    try:
        return side(**columns, **shapes_for(records, records.mask, options.iou_types))
    except InputError as error:
        raise records.refuse(error) from None


def _complaint(
    records: Records, lost_image: NDArray[np.bool_], is_lost: NDArray[np.bool_], numbering: Numbering
) -> str:
    row = int(np.argmax(is_lost))
    kind, key, names = (
        ("image", records.image, numbering.known.image_names)
        if lost_image[row]
        else ("class", records.label, numbering.known.names_by_label)
    )
    known = ", ".join(list((names or {}).values())[:5])
    return f"{records.location(row)}: {kind} {key.item(row)!r} is not among those of the truths ({known or 'none'}, …)"
