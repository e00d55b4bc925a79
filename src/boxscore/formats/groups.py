"""Groups of images, from a table, from a JSON object, or from a column of the annotations themselves."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from boxscore.columns import Truths
from boxscore.errors import InputError
from boxscore.formats import coco, delimited, parquet
from boxscore.formats.files import Source, open_source
from boxscore.formats.joining import join_images
from boxscore.formats.records import Key, Named, Records
from boxscore.formats.selection import some
from boxscore.formats.tables import IMAGE_IDS, IMAGE_NAMES, Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Rows:
    """An image and its group in each row; a group that is None or "" is none."""

    image: Key
    group: Sequence[Any]
    place: Callable[[int], str]
    image_names: Mapping[int, str] | None = None


def read_groups(path: str | PathLike[str], truths: Truths, *, column: str | None = None) -> dict[int, str]:
    """The group of each of the truths' images, by id, for `slices`; images without one are left out.

    `path`: a .csv, .tsv or Parquet table with a column for the image, by id or file name, and one for the group, called
    `column`, else `group`, else the only other one; or a JSON object of groups by image. With `column`, also a COCO
    dataset, of whose `images` it is a key, or the truths or detections of any of these kinds, where all rows of an
    image must agree. Images that the truths don't have are left out, but not all of them may be such.
    """
    source = open_source(path)
    rows = _read(source, column)
    records = Records(
        image=rows.image,
        label=np.zeros(len(rows.group), np.int64),
        box=np.zeros((len(rows.group), 4)),
        box_format="xyxy",
        place=rows.place,
        source=str(source),
        image_names=rows.image_names,
    )
    images, is_lost = join_images(records, truths)
    if is_lost.all() and is_lost.size:
        raise InputError(
            f"{source}: none of its images is among the truths': {some((truths.image_names or {}).values())}"
        )
    groups: dict[int, str] = {}
    for row, (image, group) in enumerate(zip(images.tolist(), rows.group, strict=True)):
        if is_lost[row] or group is None or group == "":
            continue
        name = _text(group, rows.place(row))
        if groups.setdefault(image, name) != name:
            raise InputError(f"{rows.place(row)}: an image must have one group; got {groups[image]!r} and {name!r}")
    return groups


def _text(group: Any, place: str) -> str:
    """The name of a group; a flag or a number is its text."""
    if isinstance(group, bool):
        return str(group).lower()
    if isinstance(group, str | int | float):
        return str(group)
    raise InputError(f"{place}: a group must be a text, a number or a flag; got {type(group).__name__}")


def _read(source: Source, column: str | None) -> _Rows:
    if coco.recognises(source, "truths") or coco.recognises(source, "detections"):
        return _from_json(source, column)
    if parquet.recognises(source, "truths"):
        return _from_table(parquet.read_table(source, column), column)
    if not source.is_folder and source.suffix in (".csv", ".tsv", ".txt", ""):
        return _from_table(delimited.read_table(source), column)
    raise InputError(f"{source}: groups are read from JSON, .csv, .tsv and Parquet")


def _from_table(table: Table, column: str | None) -> _Rows:
    image = table.need("image", *IMAGE_IDS, *IMAGE_NAMES)
    if column is None:
        others = [name for name in table.columns if name not in (*IMAGE_IDS, *IMAGE_NAMES)]
        column = others[0] if len(others) == 1 else "group"
    group = table.columns[table.need("group", column.lower())]
    return _Rows(
        image=table.keys(image),
        group=group.tolist() if isinstance(group, np.ndarray) else group,
        place=table.place,
    )


def _from_json(source: Source, column: str | None) -> _Rows:
    try:
        data = json.loads(source.text())
    except ValueError as error:
        raise InputError(f"{source}: not JSON: {error}") from None
    if column is None:
        if not isinstance(data, dict) or not all(
            isinstance(group, str | int | float | None) for group in data.values()
        ):
            raise InputError(f"{source}: must be an object of groups by image, or `column` must say where they are")
        return _Rows(
            image=Named.of(list(data)), group=list(data.values()), place=lambda row: f"{source}: {list(data)[row]!r}"
        )
    is_results = isinstance(data, list)
    rows = data if is_results else data.get("images")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source}: `{column}` is looked for in `images`, or in results; got neither")
    key, word = ("image_id", "result") if is_results else ("id", "image")
    if not any(column in row for row in rows):
        raise InputError(
            f"{source}: no {word} has `{column}`; they have {some(dict.fromkeys(k for row in rows for k in row))}"
        )

    def place(row: int) -> str:
        return f"{source}: {word} {row}"

    for number, row in enumerate(rows):
        if isinstance(row.get(key), bool) or not isinstance(row.get(key), int | str):
            raise InputError(f"{place(number)}: `{key}` must be an id or a name; got {row.get(key)!r}")
    ids = [row[key] for row in rows]
    are_ids = all(isinstance(image, int) for image in ids)
    names = {row["id"]: str(row.get("file_name") or row["id"]) for row in rows} if are_ids and not is_results else None
    return _Rows(
        image=np.array(ids, np.int64) if are_ids else Named.of([str(image) for image in ids]),
        group=[row.get(column) for row in rows],
        place=place,
        image_names=names,
    )
