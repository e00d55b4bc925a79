"""Files, local or at an address, as datasets with the column names of boxscore."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, is_oriented
from boxscore.data.geometry.boxes import Boxes, to_xywh
from boxscore.data.geometry.masks import Masks
from boxscore.data.image_facts import SIZES
from boxscore.formats import table_facts, table_masks, tables
from boxscore.formats.tables import Table
from boxscore.result import arrow
from boxscore.scaling.ray.datasets import library, readable, settings_of

_READERS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Files:
    """Files of one format, and the names of their columns."""

    files: Sequence[str]
    reader: str
    """The name of Ray's reader: parquet, csv or json."""
    columns: Mapping[str, str]
    """The files' column names, by boxscore's names."""
    box: Sequence[str]
    """One column of lists, or one column per number; empty if masks are read."""
    box_format: BoxFormat | None
    """The format that the names of the box's columns imply; None if it is one column."""
    is_beside: bool = False
    """Whether boxes are read besides other shapes: then they are converted to xywh, whatever their format is."""

    @classmethod
    def at(
        cls,
        path: str,
        *,
        has_scores: bool = False,
        kind: type[Geometry] = Boxes,
        box_format: BoxFormat | None = None,
        quiet: bool = False,
    ) -> "Files":
        """Find the files of a path and the names of their columns.

        Args:
            path: A file, a folder or a pattern.
            has_scores: Whether the files have detections.
            kind: The geometry; boxes are read besides geometries other than masks, if the files have any.
            box_format: The format of boxes; None: as the column names imply.
            quiet: Without Ray's progress bars.
        """
        files = files_at(path)
        reader = _reader_of(files[0])
        other = next((file for file in files if _reader_of(file) != reader), None)
        if other is not None:
            raise InputError(f"{path}: must have files of one kind; got {files[0]} and {other}")
        with readable(files[0]):
            first = _read(reader, files[:1])
            with settings_of(first.context, quiet):
                schema = first.schema()
        named = {name.lower(): name for name in (() if schema is None else schema.names)}
        table = Table(source=files[0], columns=dict.fromkeys(named, ()), num_rows=0, location=lambda _: files[0])
        image = table.need("image", *tables.IMAGE_IDS, *tables.IMAGE_NAMES)
        label = table.need("class", *tables.LABEL_IDS, *tables.LABEL_NAMES)
        more = {
            "score": table.need("score", *tables.SCORES) if has_scores else None,
            "ignore": table.find(*tables.IGNORES),
            "area": table.find("area"),
            "mask": table.need("mask", *table_masks.NAMES) if kind is Masks else None,
            **({} if has_scores else {name: table.find(name) for name in (*table_facts.NAMES, *SIZES)}),
        }
        is_beside = not kind.is_box and kind is not Masks
        if is_beside:
            more |= {name: table.need(kind.plural, name) for name in kind.columns}
            more |= {name: table.find(name) for name in kind.more_columns}
        columns = {"image": image, "label": label} | {ours: name for ours, name in more.items() if name is not None}
        ours = {ours: named[name] for ours, name in columns.items()}
        if kind is Masks or (is_beside and not table.has_boxes()):
            return cls(files=files, reader=reader, columns=ours, box=(), box_format="xywh" if is_beside else "xyxy")
        known = tables.BOXES if is_beside else _box_columns(box_format)
        box: tuple[str, ...] | None = next((names for names in known if all(name in named for name in names)), None)
        one = table.need("box", *tables.LIST_BOXES) if box is None else ""
        return cls(
            files=files,
            reader=reader,
            columns=ours,
            box=[named[name] for name in box or (one,)],
            box_format=box_format if box is None or is_oriented(box_format) else _FORMATS[box],
            is_beside=is_beside,
        )

    def known_box_format(self, given: BoxFormat | None) -> BoxFormat:
        """The format of the boxes; `InputError` if neither the column names nor `given` decides it."""
        box_format = self.box_format or given
        if self.is_beside and box_format is not None:
            return "xywh"
        if box_format is None:
            raise InputError(f"{self.files[0]}: column `{self.box[0]}` has four numbers: say which by `box_format`")
        return box_format

    def dataset(self) -> Any:
        """The rows with boxscore's column names, each with the file that it comes from."""
        try:
            rows = _read(self.reader, self.files, include_paths=True)
        except arrow.pyarrow().ArrowException as error:
            for file in self.files:
                with readable(file):
                    _read(self.reader, [file])
            raise InputError(f"{self.files[0]} and the files beside it don't go together: {error}") from None
        return rows.map_batches(self.renamed, batch_format="pyarrow", batch_size=None)

    def renamed(self, table: Any) -> Any:
        """The needed columns, with boxscore's names; the box as one list column."""
        columns = {ours: table.column(name) for ours, name in self.columns.items()} | {"path": table.column("path")}
        if not self.box:
            return arrow.pyarrow().table(columns)
        if len(self.box) == 1 and not self.is_beside:
            return arrow.pyarrow().table(columns | {"box": table.column(self.box[0])})
        try:
            if len(self.box) == 1:
                numbers = arrow.to_numpy(table.column(self.box[0]), "box").astype(np.float64)
            else:
                numbers = np.stack([table.column(name).to_numpy().astype(np.float64) for name in self.box], axis=1)
            if self.is_beside:
                numbers = np.stack(to_xywh(numbers, self.box_format or "xywh"), axis=1)
        except (ValueError, TypeError):
            file = table.column("path")[0] if table.num_rows else self.files[0]
            raise InputError(f"{file}: `{', '.join(self.box)}` must hold numbers; got others") from None
        return arrow.pyarrow().table(
            columns | {"box": arrow.pyarrow().FixedSizeListArray.from_arrays(numbers.ravel(), numbers.shape[1])}
        )


_FORMATS: Mapping[tuple[str, ...], BoxFormat] = {tables.CORNERS: "xyxyxyxy", **tables.BOXES}
"""The formats that column names imply; corners first, because their names include the names of other formats."""


def _box_columns(box_format: BoxFormat | None) -> Iterable[tuple[str, ...]]:
    """The possible column names of boxes in a format."""
    if not is_oriented(box_format):
        return _FORMATS
    return [tables.CORNERS] if box_format == "xyxyxyxy" else tables.TURNED_BOXES


def _reader_of(file: str) -> str:
    return _READERS[PurePosixPath(file).suffix.lower()]


def _read(reader: str, files: Sequence[str], **options: Any) -> Any:
    """The rows of files, by one of Ray's readers."""
    return getattr(library().data, f"read_{reader}")(list(files), **options)


def files_at(path: str) -> list[str]:
    """The files of a path: a file, a folder or a pattern, local or at an address; distinct and sorted."""
    from pyarrow import fs

    arrow.pyarrow()
    scheme, mark, _ = path.rpartition("://")
    try:
        system, local = fs.FileSystem.from_uri(path) if mark else (fs.LocalFileSystem(), str(Path(path).absolute()))
        base = PurePosixPath(local)
        while has_magic(str(base)):
            base = base.parent
        (info,) = system.get_file_info([str(base)])
        infos = [info]
        if info.type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(str(base), recursive=True))
        sizes = {each.path: each.size for each in infos if each.type == fs.FileType.File}
    except (OSError, arrow.pyarrow().ArrowException) as error:
        raise InputError(f"{path}: can't be read: {error}") from None
    files = [file for file in sorted(sizes) if PurePosixPath(file).suffix.lower() in _READERS]
    if has_magic(local):
        files = [file for file in files if PurePosixPath(file).match(local)]
    if not files:
        raise InputError(f"{path}: no files with a name that ends in {', '.join(_READERS)}")
    filled = [file for file in files if sizes[file] != 0]
    for file in files:
        # Ray would skip it. A file of JSON lines may be empty; Parquet has a magic number and CSV a heading.
        if sizes[file] == 0 and (_reader_of(file) != "json" or not filled):
            raise InputError(f"{file}: must not be empty; got 0 bytes")
    return [f"{scheme}://{file}" if mark and scheme != "file" else file for file in filled]
