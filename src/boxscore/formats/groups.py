"""Read groups of images from a table, from a JSON object, or from a column of the annotations."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Truths
from boxscore.formats import coco, csv, parquet
from boxscore.formats.files import Source, open_source, parse_json
from boxscore.formats.joining import join_images
from boxscore.formats.records import Key, Named, RowKeys
from boxscore.formats.selection import some
from boxscore.formats.tables import IMAGE_IDS, IMAGE_NAMES, Table, shown


class _Pairs:
    """All pairs of a JSON object, in which a key may occur twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


_Rows = tuple[RowKeys, Sequence[Any]]
"""The image of each row, and its group; None or "" where the image has no group."""


def read_groups(path: str | PathLike[str], truths: Truths, *, column: str | None = None) -> dict[int, str]:
    """Read the group of each of the truths' images, for `slices`.

    Args:
        path: A .csv, .tsv or Parquet table with a column for the image, by id or file name, and one for the group; or a
            JSON object of groups by image. With `column`, also a COCO dataset, or the truths or detections in any of
            these formats, where all rows of an image must agree.
        truths: The truths. Images that they do not have are dropped.
        column: The column of the group, or its key in the `images` of a COCO dataset. By default the only column
            beside the image's, else `group`.

    Returns:
        The groups by image id, without images that have no group.

    Raises:
        InputError: If no image in the file is an image of the truths, or an image has two groups.
    """
    source = open_source(path)
    keys, given = _read(source, column)
    images, is_lost = join_images(keys, truths)
    if is_lost.all() and is_lost.size:
        raise InputError(
            f"{source}: none of its images is an image of the truths: {some((truths.image_names or {}).values())}"
        )
    groups: dict[int, str] = {}
    for row, (image, group) in enumerate(zip(images.tolist(), given, strict=True)):
        if is_lost[row] or group is None or group == "":
            continue
        name = _text(group, keys.location(row))
        if groups.setdefault(image, name) != name:
            both = f"{shown(groups[image])} and {shown(name)}"
            raise InputError(f"{keys.location(row)}: an image must have one group; got {both}")
    return groups


def _text(group: Any, location: str) -> str:
    """The name of a group; flags and numbers become text."""
    if isinstance(group, bool):
        return str(group).lower()
    if isinstance(group, str | int | float):
        return str(group)
    raise InputError(f"{location}: a group must be a text, a number or a flag; got {type(group).__name__}")


def _read(source: Source, column: str | None) -> _Rows:
    if coco.recognises(source, "truths") or coco.recognises(source, "detections"):
        return _from_json(source, column)
    if parquet.recognises(source, "truths"):
        return _from_table(parquet.read_table(source, column), column)
    if not source.is_folder and source.suffix in (".csv", ".tsv", ".txt", ""):
        return _from_table(csv.read_table(source), column)
    raise InputError(f"{source}: groups are read from JSON, .csv, .tsv and Parquet")


def _keyed(image: Key, location: Callable[[int], str], source: object, **more: Any) -> RowKeys:
    """Keys of rows without classes."""
    return RowKeys(image=image, label=np.zeros(len(image), np.int64), location=location, source=str(source), **more)


def _from_table(table: Table, column: str | None) -> _Rows:
    image = table.need("image", *IMAGE_IDS, *IMAGE_NAMES)
    if column is None:
        others = [name for name in table.columns if name not in (*IMAGE_IDS, *IMAGE_NAMES)]
        column = others[0] if len(others) == 1 else "group"
    group = table.values(table.need("group", column.lower()))
    keys = _keyed(table.keys(image), table.location, table.source)
    return keys, group.tolist() if isinstance(group, np.ndarray) else group


def _from_json(source: Source, column: str | None) -> _Rows:
    data = parse_json(source.text(), str(source), object_pairs_hook=_Pairs if column is None else None)
    if column is None:
        if not isinstance(data, _Pairs) or not all(
            isinstance(group, str | int | float | None) for _, group in data.pairs
        ):
            raise InputError(
                f"{source}: must be a JSON object from images to groups, or `column` must name the key of the groups"
            )
        images = [image for image, _ in data.pairs]
        keys = _keyed(Named.of(images), lambda row: f"{source}: {shown(images[row])}", source)
        return keys, [group for _, group in data.pairs]
    is_results = isinstance(data, list)
    rows = data if is_results else data.get("images") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source}: must have `images`, or be a list of results, to have `{column}`; got neither")
    key, word = ("image_id", "result") if is_results else ("id", "image")
    if not any(column in row for row in rows):
        raise InputError(
            f"{source}: no {word} has `{column}`; they have {some(dict.fromkeys(k for row in rows for k in row))}"
        )

    def location(row: int) -> str:
        return f"{source}: {word} {row}"

    for number, row in enumerate(rows):
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InputError(f"{location(number)}: `{key}` must be an id or a name; got {shown(value)}")
        if isinstance(value, int) and value.bit_length() > 63:
            raise InputError(f"{location(number)}: `{key}` must fit in 63 bits; got {shown(value)}")
    ids = [row[key] for row in rows]
    are_ids = all(isinstance(image, int) for image in ids)
    names = {row["id"]: str(row.get("file_name") or row["id"]) for row in rows} if are_ids and not is_results else None
    image = np.array(ids, np.int64) if are_ids else Named.of([str(image) for image in ids])
    return _keyed(image, location, source, image_names=names), [row.get(column) for row in rows]
