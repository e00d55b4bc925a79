"""Turn tables of any format into records: columns are recognised by name, with one row per box."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.text import line
from boxscore.data.geometry import Geometry, ShapeRows
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, is_oriented, row_size
from boxscore.data.geometry.kinds import GEOMETRIES
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, OrientedRows
from boxscore.data.validation import RowError
from boxscore.formats import table_facts, table_masks
from boxscore.formats.records import Floats, Ids, Key, Named, Options, Records, codes_of
from boxscore.formats.table_masks import CellPlaces, MaskColumn

IMAGE_IDS = ("image_id", "imageid", "image")
IMAGE_NAMES = ("file_name", "filename", "image_name", "image")
LABEL_IDS = ("category_id", "class_id", "label_id", "label")
LABEL_NAMES = ("class_name", "label_name", "labelname", "category_name", "class", "category", "label")
SCORES = ("score", "confidence", "conf")
IGNORES = ("ignore", "iscrowd", "difficult", "isgroupof")
LIST_BOXES = ("box", "bbox")
BOXES: Mapping[tuple[str, ...], BoxFormat] = {
    ("x1", "y1", "x2", "y2"): "xyxy",
    ("xmin", "ymin", "xmax", "ymax"): "xyxy",
    ("x_min", "y_min", "x_max", "y_max"): "xyxy",
    ("left", "top", "right", "bottom"): "xyxy",
    ("cx", "cy", "w", "h"): "cxcywh",
    ("cx", "cy", "width", "height"): "cxcywh",
    ("xc", "yc", "w", "h"): "cxcywh",
    ("x_center", "y_center", "width", "height"): "cxcywh",
    ("x", "y", "w", "h"): "xywh",
    ("x", "y", "width", "height"): "xywh",
    ("left", "top", "width", "height"): "xywh",
}
CORNERS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")
TURNED_BOXES = tuple(
    (*names, angle)
    for names, box_format in BOXES.items()
    if box_format == "cxcywh"
    for angle in ("angle", "a", "theta", "rotation")
)
"""The columns of oriented boxes with centre, width, height and angle; other oriented boxes have `CORNERS`."""
KNOWN = frozenset(
    {
        *IMAGE_IDS,
        *IMAGE_NAMES,
        *LABEL_IDS,
        *LABEL_NAMES,
        *SCORES,
        *IGNORES,
        *LIST_BOXES,
        *(n for box in BOXES for n in box),
        *CORNERS,
        *(n for box in TURNED_BOXES for n in box),
    }
    | {"truncated", "area", "image_width", "image_height", *table_facts.NAMES}
)
"""The names of all columns that are read for boxes; others are ignored."""
WRITTEN_BOXES: Mapping[BoxFormat, tuple[str, ...]] = {
    "xyxy": ("x1", "y1", "x2", "y2"),
    "xywh": ("x", "y", "w", "h"),
    "cxcywh": ("cx", "cy", "w", "h"),
    "xyxyxyxy": CORNERS,
}
"""The names that writers give to the columns of boxes."""

Column = Sequence[Any] | NDArray[Any] | MaskColumn


def known_columns(options: Options) -> frozenset[str]:
    """Names of all columns to read; of the geometries, only those that the options ask for."""
    return KNOWN.union(*(column_names(kind) for kind in options.kinds))


def column_names(kind: type[Geometry]) -> tuple[str, ...]:
    """Names of the columns of a geometry other than boxes, whose columns are in `KNOWN`."""
    return table_masks.NAMES if kind is Masks else () if kind.is_box else (*kind.columns, *kind.more_columns)


def kinds_in(names: Container[str]) -> list[type[Geometry]]:
    """The geometries, except upright boxes, that a table with columns of these names has."""
    return [kind for kind in GEOMETRIES if _has_columns(kind, names)]


def _has_columns(kind: type[Geometry], names: Container[str]) -> bool:
    if kind is Masks:
        return any(name in names for name in table_masks.NAMES)
    wanted = CORNERS if kind is OrientedBoxes else () if kind.is_box else kind.columns
    return bool(wanted) and all(name in names for name in wanted)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Table:
    """Columns by lower-case name. Text is not converted; missing values are "" or None."""

    source: str
    columns: Mapping[str, Column]
    num_rows: int
    location: Callable[[int], str]
    unread: Sequence[str] = ()
    """Other columns of the source, for errors."""

    def find(self, *names: str) -> str | None:
        """The first of the names that is a column, or None."""
        return next((name for name in names if name in self.columns), None)

    def need(self, what: str, *names: str) -> str:
        """The first of the names that is a column; raise `InputError` if none is."""
        found = self.find(*names)
        if found is None:
            wanted = ", ".join(dict.fromkeys(names))
            raise InputError(f"{self.source}: must have a column with the {what} ({wanted}); got {self._got()}")
        return found

    def _got(self) -> str:
        names = [*self.columns, *self.unread]
        return ", ".join(line(name) for name in names[:12]) + (", …" if len(names) > 12 else "") or "none"

    def values(self, name: str) -> Sequence[Any] | NDArray[Any]:
        """A column that has one value per row."""
        column = self.columns[name]
        if isinstance(column, MaskColumn):
            raise InputError(f"{self.source}: `{name}` must have one value per row; got masks")
        if isinstance(column, np.ndarray) and column.ndim != 1:
            raise InputError(f"{self.source}: `{name}` must have one value per row; got shape {column.shape}")
        return column

    def floats(self, name: str, *, missing: float | None = None) -> Floats:
        """A column of numbers. `missing`: the number for empty cells, which are refused by default."""
        column = self.values(name)
        if isinstance(column, np.ndarray):
            if column.dtype.kind in "iuf":
                return column.astype(np.float64, copy=False)
            column = column.tolist()
        if missing is not None:
            column = [missing if value is None or value == "" else value for value in column]
        try:
            convert = float if {*map(type, column)} == {str} else _as_float
            return np.fromiter(map(convert, column), np.float64, len(column))
        except (ValueError, TypeError, OverflowError):
            for row, value in enumerate(column):
                if not _is_number(value):
                    raise InputError(f"{self.location(row)}: `{name}` must be a number; got {shown(value)}") from None
            raise

    def flags(self, name: str) -> NDArray[Any]:
        """A column of 0 and 1, or false and true; a missing value is 0."""
        column = self.values(name)
        if isinstance(column, np.ndarray) and column.dtype.kind in "biu":
            return column
        meaning = {"0": 0, "1": 1, "false": 0, "true": 1, "": 0, "none": 0, "0.0": 0, "1.0": 1}
        if name == "isgroupof":  # in Open Images, -1 is "unknown"
            meaning["-1"] = 0
        flags = np.zeros(len(column), np.int64)
        for row, value in enumerate(column):
            flag = meaning.get(str(value).strip().lower())
            if flag is None:
                raise InputError(f"{self.location(row)}: `{name}` must be 0 or 1; got {shown(value)}")
            flags[row] = flag
        return flags

    def keys(self, name: str) -> Key:
        """A column of ids or names. Text is ids if every value reads like one: 7, but not 007."""
        column = self.values(name)
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
            if column.dtype.kind == "u" and column.size and column.max() > np.iinfo(np.int64).max:
                row = int(np.argmax(column))
                raise InputError(f"{self.location(row)}: `{name}` must fit in 63 bits; got {column[row]}")
            return column.astype(np.int64, copy=False)
        values = column.tolist() if isinstance(column, np.ndarray) else column
        for row, value in enumerate(values):
            if type(value) not in (int, str) or value == "":
                raise InputError(f"{self.location(row)}: `{name}` must be an id or a name; got {shown(value)}")
            if type(value) is int and value.bit_length() > 63:
                raise InputError(f"{self.location(row)}: `{name}` must fit in 63 bits; got {shown(value)}")
        if {*map(type, values)} == {int}:
            return np.array(values, np.int64)
        named = Named.of([str(value) for value in values])
        if all(_is_id(value) for value in named.names):
            return np.array([int(value) for value in named.names], np.int64)[named.code]
        return named

    def has_boxes(self) -> bool:
        """Whether the table has columns with upright boxes, or a column with lists."""
        return self.find(*LIST_BOXES) is not None or any(all(name in self.columns for name in names) for names in BOXES)

    def oriented_boxes(self, options: Options) -> tuple[OrientedRows, tuple[str, ...]] | None:
        """The oriented boxes and the columns that hold them; None if boxes are upright."""
        box_format = options.box_format
        if all(name in self.columns for name in CORNERS) and box_format in (None, "xyxyxyxy"):
            return OrientedRows(np.stack([self.floats(name) for name in CORNERS], axis=1)), CORNERS
        if box_format is None or not is_oriented(box_format):
            if options.reads(OrientedBoxes) and any(
                all(name in self.columns for name in names) for names in TURNED_BOXES
            ):
                rule = "boxes have an angle: say what it is in, and which way it turns, as `box_format`"
                raise InputError(f"{self.source}: {rule}, cxcywha:radians or cxcywha:degrees")
            return None
        wanted = [CORNERS] if box_format == "xyxyxyxy" else TURNED_BOXES
        names = next((names for names in wanted if all(name in self.columns for name in names)), None)
        if names is not None:
            return OrientedRows(np.stack([self.floats(name) for name in names], axis=1), box_format), names
        name = self.find(*LIST_BOXES)
        if name is None:
            columns = ",".join(CORNERS if box_format == "xyxyxyxy" else TURNED_BOXES[0])
            raise InputError(f"{self.source}: must have the box as columns {columns} | box; got {self._got()}")
        return OrientedRows(self._list_boxes(name, row_size(box_format)), box_format), (name,)

    def boxes(self, box_format: BoxFormat | None) -> tuple[Floats, BoxFormat, tuple[str, ...]]:
        """The boxes, their format, and the columns that hold them."""
        names = next((names for names in BOXES if all(name in self.columns for name in names)), None)
        if names is not None:
            return np.stack([self.floats(name) for name in names], axis=1), box_format or BOXES[names], names
        name = self.find(*LIST_BOXES)
        if name is None:
            wanted = " | ".join(",".join(names) for names in BOXES)
            raise InputError(f"{self.source}: must have the box as columns {wanted} | box; got {self._got()}")
        if box_format is None:
            raise InputError(f"{self.source}: column `{name}` has four numbers; give their format as `box_format`")
        return self._list_boxes(name), box_format, (name,)

    def _list_boxes(self, name: str, size: int = 4) -> Floats:
        column = self.columns[name]
        assert not isinstance(column, MaskColumn)
        if isinstance(column, np.ndarray) and column.dtype.kind in "iuf" and column.shape[1:] == (size,):
            return column.astype(np.float64, copy=False)
        if isinstance(column, np.ndarray) and column.ndim > 2:
            raise InputError(f"{self.source}: `{name}` must have {size} numbers per row; got shape {column.shape}")
        box = np.zeros((len(column), size))
        for row, value in enumerate(column):
            given = value
            try:
                if isinstance(value, str):
                    value = [float(each) for each in value.strip("[]() ").replace(",", " ").split()]
                numbers = np.asarray(value, np.float64)
            except (ValueError, TypeError, OverflowError):
                numbers = np.zeros(0)
            if numbers.shape != (size,):
                raise InputError(f"{self.location(row)}: `{name}` must have {size} numbers; got {shown(given)}")
            box[row] = numbers
        return box


def shown(value: Any) -> str:
    """Shorten a value for an error message.

    >>> shown("x" * 1000)[-4:]
    'xxx…'
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = f"a number of {value.bit_length():,} bits"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _as_float(value: Any) -> float:
    if type(value) in (int, float, str):
        return float(value)
    raise ValueError


def _is_number(value: Any) -> bool:
    try:
        _as_float(value)
    except (ValueError, OverflowError):
        return False
    return True


def _is_id(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and str(int(text)) == text


def truth_records(table: Table, options: Options, *, has_facts: bool = True) -> Records:
    """Turn the rows of a table into truths. A row without a class is an image without boxes.

    `has_facts`: read the crowd indices and coverage of images and the groups of classes, too; a batch of rows may have
    only a part of these.
    """
    image_names, image_sizes, images = image_keys(table)
    if image_names is None and not isinstance(images, Named):
        image_names = {number: str(number) for number in np.unique(images).tolist()}
    whole, every_image = table, images
    label = table.need("class", *LABEL_IDS, *LABEL_NAMES)
    has_value = _has_value(table.values(label))
    if not has_value.all():
        rows = np.flatnonzero(has_value)
        table = _take(table, rows)
        images = images[rows]
    records = _records(table, options, images, image_names, image_sizes)
    ignore, truncated, area = table.find(*IGNORES), table.find("truncated"), table.find("area")
    return replace(
        records,
        ignore=None if ignore is None else table.flags(ignore),
        truncated=None if truncated is None else table.flags(truncated),
        area=None if area is None else table.floats(area),
        image_sizes=image_sizes,
        kind=table_facts.read_kinds(table),
        **(table_facts.fields_of(whole, every_image, (images, records.label), table) if has_facts else {}),
    )


def detection_records(table: Table, options: Options) -> Records:
    """Turn the rows of a table into detections."""
    image_names, sizes, images = image_keys(table)
    score = table.need("score", *SCORES)
    records = _records(table, options, images, image_names, sizes, is_truth=False)
    area = None
    for rows in records.shapes.values():
        given = table.floats("area") if "area" in table.columns else None
        area = rows.detection_areas(given, records.box, records.box_format)
    return replace(records, score=table.floats(score), area=area)


def image_keys(table: Table) -> tuple[dict[int, str] | None, dict[Any, tuple[int, int]] | None, Key]:
    """Image names by id, if the table has both; image sizes; and the column that identifies images."""
    name = table.need("image", *IMAGE_IDS, *IMAGE_NAMES)
    images = table.keys(name)
    other = table.find(*IMAGE_NAMES)
    names: dict[int, str] | None = None
    if not isinstance(images, Named) and other is not None and other != name:
        names = _names_by_id(table, "image", images, other)
    sizes: dict[Any, tuple[int, int]] | None = None
    if "image_width" in table.columns and "image_height" in table.columns:
        width, height = table.floats("image_width"), table.floats("image_height")
        is_valid = (width >= 0) & (height >= 0) & (np.maximum(width, height) < 1e9)
        if not is_valid.all():
            row = int(np.argmin(is_valid))
            raise InputError(
                f"{table.location(row)}: `image_width` and `image_height` must be sizes in pixels, or 0 where they are"
                f" unknown; got {width[row]:g} and {height[row]:g}"
            )
        codes = codes_of(images)
        known = np.flatnonzero((width >= 1) & (height >= 1))  # writers put 0 for unknown sizes
        _, first, index = np.unique(codes[known], return_index=True, return_inverse=True)
        rows = known[first]
        is_other = (width[known] != width[rows][index]) | (height[known] != height[rows][index])
        if is_other.any():
            row = known[np.argmax(is_other)]
            other = rows[index[np.argmax(is_other)]]
            raise InputError(
                f"{table.location(row)}: `image_width` and `image_height` must be one size for each image; got"
                f" {width[row]:g} x {height[row]:g}, but {width[other]:g} x {height[other]:g} before"
            )
        pairs = zip(width[rows].tolist(), height[rows].tolist(), strict=True)
        sizes = dict(zip(images[rows].tolist(), ((int(w), int(h)) for w, h in pairs), strict=True))
    return names, sizes, images


def label_keys(table: Table) -> tuple[Key, dict[int, str] | None]:
    """The column that identifies classes, and class names by id, if the table has both."""
    name = table.need("class", *LABEL_IDS, *LABEL_NAMES)
    label = table.keys(name)
    other = table.find(*LABEL_NAMES)
    if isinstance(label, Named) or other is None or other == name:
        return label, None
    return label, _names_by_id(table, "class", label, other)


def _names_by_id(table: Table, kind: str, ids: Ids, column: str) -> dict[int, str]:
    """Names by id, ascending; an id that no row names gets itself as text."""
    values = table.values(column)
    try:
        pairs = {*zip(ids.tolist(), values.tolist() if isinstance(values, np.ndarray) else values, strict=True)}
    except TypeError:  # lists have no hash
        raise InputError(f"{table.source}: `{column}` must have one name per row; got lists") from None
    named = {(number, str(name)) for number, name in pairs if name is not None and name != ""}
    names = dict(named)
    if len(names) < len(named):
        seen: dict[int, str] = {}
        for row, (number, name) in enumerate(zip(ids.tolist(), values, strict=True)):
            if name is not None and name != "":
                merge_names(seen, {number: str(name)}, kind, table.location(row))
    return {number: names.get(number, str(number)) for number in sorted({number for number, _ in pairs})}


def merge_names(known: dict[int, str], more: Mapping[int, str], kind: str, location: str) -> None:
    """Add names by id to `known`; an id with two names is an error, which names the location.

    A name that is only the id as text counts as missing, and may be replaced.

    >>> known = {1: "cat"}
    >>> merge_names(known, {1: "dog"}, "class", "t.csv: line 7")
    Traceback (most recent call last):
    boxscore.InputError: t.csv: line 7: class 1 must have one name; got 'dog' and 'cat'
    """
    for number, name in more.items():
        before = known.setdefault(number, name)
        if before == str(number):
            known[number] = name
        elif name not in (before, str(number)):
            raise InputError(f"{location}: {kind} {number} must have one name; got {shown(name)} and {shown(before)}")


def boxes_only(table: Table) -> Table:
    """The rows that have a class; other rows are images without boxes."""
    has_value = _has_value(table.values(table.need("class", *LABEL_IDS, *LABEL_NAMES)))
    return table if has_value.all() else _take(table, np.flatnonzero(has_value))


def _has_value(column: Sequence[Any] | NDArray[Any]) -> NDArray[np.bool_]:
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OU":
        return np.ones(len(column), bool)
    return np.array([value is not None and value != "" for value in column], bool)


def _take(table: Table, rows: Ids) -> Table:
    def taken(column: Column) -> Column:
        if isinstance(column, MaskColumn):
            return column.take(rows)
        if isinstance(column, np.ndarray):
            return column[rows]
        values = [column[row] for row in rows.tolist()]
        return np.array(values) if {*map(type, values)} in ({int}, {float}) else values

    return Table(
        source=table.source,
        columns={name: taken(column) for name, column in table.columns.items()},
        num_rows=len(rows),
        location=lambda row: table.location(int(rows[row])),
    )


def _records(
    table: Table,
    options: Options,
    images: Key,
    image_names: dict[int, str] | None,
    sizes: Mapping[Any, tuple[int, int]] | None,
    *,
    is_truth: bool = True,
) -> Records:
    if options.box_format is not None:
        check_box_format(options.box_format)
    masks, mask_name = _masks(table, options, images, sizes or {})
    shapes = _shapes(table, options, is_truth=is_truth)
    names: tuple[str, ...]
    oriented = None if masks else table.oriented_boxes(options)
    if oriented is not None:
        fields, names = oriented[0].fields(), oriented[1]
        shapes |= fields.pop("shapes")
    elif masks and not table.has_boxes():
        (box, box_format), names = table_masks.boxes_around(masks), (mask_name,)
        fields = {"box": box, "box_format": box_format}
    elif shapes and not table.has_boxes():
        shapes = {kind: replace(rows, has_boxes=False) for kind, rows in shapes.items()}
        kind, rows = next(iter(shapes.items()))
        with _located(table, kind):
            fields, names = {"box": rows.outer_boxes(is_truth=is_truth), "box_format": "xyxy"}, kind.columns
    else:
        box, box_format, names = table.boxes(options.box_format)
        fields = {"box": box, "box_format": box_format}
    label, class_names = label_keys(table)
    return Records(
        image=images,
        label=label,
        location=table.location,
        source=table.source,
        image_names=image_names,
        class_names=class_names,
        terms={"boxes": ",".join(names), "masks": mask_name} | {a: b for kind in shapes for a, b in kind.terms.items()},
        shapes=shapes,
        **fields,
        **masks,
    )


def _shapes(table: Table, options: Options, *, is_truth: bool) -> dict[type[Geometry], ShapeRows]:
    """The shapes, except boxes and masks, that the table has and the options ask for."""
    shapes = {}
    for kind in options.kinds:
        if kind is Masks or kind.is_box or not _has_columns(kind, table.columns):
            continue
        with _located(table, kind):
            shapes[kind] = kind.read_columns(table, is_truth=is_truth)
    return shapes


@contextmanager
def _located(table: Table, kind: type[Geometry]) -> Iterator[None]:
    """Add the location in the file to errors about rows, and name the file's column."""
    try:
        yield
    except RowError as error:
        term = kind.terms.get(error.column, error.column)
        raise InputError(f"{table.location(error.row)}: `{term}` {error.rule}") from None


def _masks(
    table: Table, options: Options, images: Key, sizes: Mapping[Any, tuple[int, int]]
) -> tuple[dict[str, Any], str]:
    """Fields of `Records` for masks, if the table has them and the options ask for them; and their column's name."""
    name = table.find(*table_masks.NAMES) if options.reads(Masks) else None
    if name is None:
        return {}, "mask"
    places = CellPlaces(name=name, location=table.location, sizes=[sizes.get(key) for key in images.tolist()])
    column = table.columns[name]
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    return table_masks.read_column(cells, places, keeps_polygons=options.keeps_polygons), name
