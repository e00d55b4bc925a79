"""Files of many rows, here or at an address, as datasets with our columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from boxscore import arrow
from boxscore.boxes import BoxFormat
from boxscore.errors import InputError
from boxscore.formats import tables
from boxscore.formats.tables import Table
from boxscore.ray.datasets import library

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Files:
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
    def at(cls, path: str) -> "Files":
        """The files that a path means."""
        files = files_at(path)
        suffix = PurePosixPath(files[0]).suffix.lower()
        kind = _KINDS.get(suffix)
        if kind is None:
            raise InputError(f"{files[0]}: must be one of {', '.join(_KINDS)}")
        schema = getattr(library().data, f"read_{kind}")(files[:1]).schema()
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
        rows = getattr(library().data, f"read_{self.kind}")(self.files, include_paths=True)
        return rows.map_batches(self.renamed, batch_format="pyarrow", batch_size=None)

    def renamed(self, table: Any) -> Any:
        """The columns that are needed, under our names; the box as a list of four."""
        kept = {ours: table.column(name) for ours, name in self.columns.items()} | {"path": table.column("path")}
        if len(self.box) == 1:
            return arrow.pyarrow().table(kept | {"box": table.column(self.box[0])})
        numbers = np.stack([table.column(name).to_numpy().astype(np.float64) for name in self.box], axis=1)
        return arrow.pyarrow().table(kept | {"box": arrow.pyarrow().FixedSizeListArray.from_arrays(numbers.ravel(), 4)})


def files_at(path: str) -> list[str]:
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
