"""LabelMe: one JSON file per image with rectangles, polygons, circles and masks, read as boxes or as masks."""

import base64
import binascii
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of, stem_of
from boxscore.data.dataset import Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.masks import Masks
from boxscore.formats.archives import refuse_bomb
from boxscore.formats.files import Output, Source, is_json_number, parse_json
from boxscore.formats.image_sizes import open_header
from boxscore.formats.pixel_masks import Crop, with_masks
from boxscore.formats.polygon_writers import bounds_of, boxes_lost, polygons_of, shapes_lost, with_enough_points
from boxscore.formats.records import Floats, Options, Records, RowBuilder, warn_of_shapes_left_out
from boxscore.formats.tables import shown
from boxscore.formats.writers import Host, Loss, named_classes, rounding_of_corners

NUM_CORNERS = 64
"""Number of corners of a circle's polygon, which is within about a thousandth of the radius of the circle."""
VERSION = "5.5.0"
"""The version of LabelMe's format that is written."""
_KINDS = ("rectangle", "polygon", "circle", "mask", "rotation")


def recognises(source: Source, role: str) -> bool:
    """Whether the source is a JSON file with `shapes`, or a folder of such files."""
    if role != "truths":
        return False
    if source.head is not None:
        is_coco = b'"images"' in source.head and b'"shapes"' not in source.head  # then skip reading the rest
        return source.suffix == ".json" and not is_coco and _has_shapes(source.read())
    files = source.files(".json")
    return bool(files) and _has_shapes(source.read(files[0]))


def _has_shapes(content: bytes) -> bool:
    return b'"shapes"' in content and b'"annotations"' not in content[:2000]


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """Masks, if any shape that is read is not a rectangle."""
    for file in source.files(".json") if source.is_folder else [""]:
        shapes = _load(source.read(file), source.location(file))["shapes"]
        kinds = [_kind(shape) for shape in shapes if isinstance(shape, dict)]
        if any(kind in _KINDS and kind != "rectangle" for kind in kinds):
            return [Masks]
    return []


@dataclass(kw_only=True, slots=True)
class _Object:
    """An object, which becomes one row: a shape, or several shapes of one group."""

    label: str
    shape: int
    """The index of the first shape in its file."""
    boxes: list[Sequence[float]]
    is_ignored: bool
    parts: list[Floats] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)

    def bounds(self) -> list[float]:
        """Left, top, right, bottom of the box around all shapes."""
        corners = np.array(self.boxes, np.float64)
        return [*corners[:, :2].min(axis=0).tolist(), *corners[:, 2:].max(axis=0).tolist()]


def read_truths(source: Source, options: Options) -> Records:
    """Read the shapes of a file or a folder of files. Images and classes are numbered by name.

    If masks are read, shapes with the same label and `group_id` are one object.
    """
    files = source.files(".json") if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no LabelMe files (.json)")
    rows = RowBuilder(source, lambda file, shape: f"{source.location(files[file])}: shape {shape}")
    objects: list[_Object] = []
    sizes: dict[str, tuple[int, int]] = {}
    num_other = 0
    for file in files:
        location = source.location(file)
        data = _load(source.read(file), location)
        name = base_of(str(data.get("imagePath") or stem_of(file or source.name)))
        rows.begin(name)
        width, height = data.get("imageWidth"), data.get("imageHeight")
        if type(width) is int and type(height) is int and 0 < min(width, height) <= max(width, height) < 10**9:
            sizes[name] = (width, height)
        found = _objects(data["shapes"], location, has_masks=options.reads(Masks))
        num_other += len(data["shapes"]) - sum(len(each.boxes) for each in found)
        for each in found:
            rows.add(each.label, each.bounds(), each.shape, is_ignored=each.is_ignored)
        objects += found
    if len({*rows.groups}) < len(files):
        name = next(name for name, num in Counter(rows.groups).items() if num > 1)
        raise InputError(f"{source}: files must be of different images; got {name!r} more than once")
    warn_of_shapes_left_out(num_other, "rectangle, polygon and circle", source)
    records = Records(
        **rows.fields(),
        box=rows.values(4),
        box_format="xyxy",
        ignore=rows.ignore,
        image_sizes=sizes,
        terms={"masks": "points"},
    )
    if not options.reads(Masks):
        return records
    crops = {row: each.crops for row, each in enumerate(objects) if each.crops}
    return with_masks(records, [each.parts for each in objects], crops, options)


def _objects(shapes: Sequence[Any], location: str, *, has_masks: bool) -> list[_Object]:
    """The objects of a file; shapes of other kinds are dropped."""
    objects: list[_Object] = []
    of_group: dict[tuple[str, int | str], _Object] = {}
    for row, shape in enumerate(shapes):
        where = f"{location}: shape {row}"
        if not isinstance(shape, dict) or not isinstance(shape.get("label"), str):
            raise InputError(f"{where} must have a label, a text; got {shown(shape)}")
        if _kind(shape) not in _KINDS:
            continue
        pairs = _pairs(shape, where)
        own = _Object(
            label=shape["label"],
            shape=row,
            boxes=[_bounds(_kind(shape), pairs)],
            is_ignored=bool(shape.get("difficult", False)),
        )
        group = shape.get("group_id")
        if has_masks:
            if _kind(shape) == "mask":
                own.crops.append(_crop(shape, pairs, where))
            else:
                own.parts.append(_polygon(_kind(shape), pairs))
            if group is not None and type(group) not in (int, str):
                raise InputError(f"{where}: `group_id` must be an integer or null; got {shown(group)}")
        first = own if not has_masks or group is None else of_group.setdefault((own.label, group), own)
        if first is own:
            objects.append(own)
            continue
        first.boxes += own.boxes
        first.parts += own.parts
        first.crops += own.crops
        first.is_ignored |= own.is_ignored
    return objects


def _kind(shape: dict[str, Any]) -> Any:
    return shape.get("shape_type") or "polygon"


def _load(content: bytes, location: str) -> dict[str, Any]:
    data = parse_json(content, location)
    if not isinstance(data, dict) or not isinstance(data.get("shapes"), list):
        raise InputError(f"{location}: must be an object with a list of `shapes`; got {type(data).__name__}")
    return data


def _pairs(shape: dict[str, Any], location: str) -> Floats:
    """The points of a shape. Shape (P, 2)."""
    points = shape.get("points")
    pairs = points if isinstance(points, list) else []
    is_valid = all(isinstance(p, list) and len(p) == 2 and all(map(is_json_number, p)) for p in pairs)
    if len(pairs) < 2 or not is_valid:
        raise InputError(f"{location}: `points` must be at least 2 pairs of numbers; got {shown(points)}")
    return np.array([[float(x), float(y)] for x, y in pairs])


def _bounds(kind: str, pairs: Floats) -> Sequence[float]:
    """Left, top, right, bottom of a shape."""
    if kind == "circle":
        (x, y), edge = pairs[:2].tolist()
        radius = math.dist((x, y), edge)
        return x - radius, y - radius, x + radius, y + radius
    left, top, right, bottom = bounds_of([pairs])
    if kind == "mask":  # the points are the top left and the bottom right pixel
        return left, top, right + 1, bottom + 1
    return left, top, right, bottom


def _polygon(kind: str, pairs: Floats) -> Floats:
    """Convert a shape to a polygon x, y, x, y, …"""
    if kind == "rectangle":
        left, top, right, bottom = _bounds(kind, pairs)
        return np.array([left, top, right, top, right, bottom, left, bottom])
    if kind == "circle":
        angle = np.arange(NUM_CORNERS) * (2 * math.pi / NUM_CORNERS)
        radius = math.dist(*pairs[:2].tolist())
        return np.asarray((pairs[0] + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)).reshape(-1))
    return pairs.reshape(-1)


def _crop(shape: dict[str, Any], pairs: Floats, location: str) -> Crop:
    """Read the pixels of a mask, which is a PNG of the size of its box."""
    text = shape.get("mask")
    if not isinstance(text, str):
        raise InputError(f"{location}: `mask` must be a PNG image in base64; got {shown(text)}")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{location}: `mask` must be a PNG image in base64: {error}") from None
    pixels = _pixels_on(content, f"{location}: `mask`")
    left, top, right, bottom = _bounds("mask", pairs)
    wanted = (bottom - top, right - left)
    if pixels.shape != wanted or not left.is_integer() or not top.is_integer():
        size = " x ".join(f"{side:g}" for side in wanted[::-1])
        got = f"{pixels.shape[1]} x {pixels.shape[0]}"
        raise InputError(f"{location}: `mask` must have the {size} pixels of the box in `points`; got {got}")
    return Crop(int(left), int(top), pixels)


def _pixels_on(content: bytes, location: str) -> NDArray[np.bool_]:
    """Whether each pixel of a PNG, a gray value or a palette index, is above 0. Shape (H, W)."""
    image = open_header(io.BytesIO(content), location, ("PNG",))
    if image.mode not in ("1", "L", "P"):
        rule = "must be a PNG of at most 8 bits per pixel, gray or with a palette"
        raise InputError(f"{location}: {rule}; got Pillow's mode {image.mode}")
    refuse_bomb(location, image.width * image.height, len(content))
    try:
        return np.asarray(image) > 0
    except Exception as error:  # damaged files raise errors of many types
        raise InputError(f"{location}: not a whole PNG image: {error}") from None


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write `STEM.json` for every image, with rectangles, or with the polygons of masks.

    If a mask has several polygons, they share a `group_id`.
    """
    host = Host.of(truths)
    stems, names = host.file_stems(), named_classes(host)
    sizes = dict(host.sizes)
    corners = host.corners()
    parts: list[list[Floats]] = []
    losses = [rounding_of_corners(host, corners)]
    if host.mask is not None:
        parts, losses = _polygons(truths, host, host.mask, corners, sizes)
    labels, rectangles, ignore = host.label.tolist(), corners.reshape(-1, 2, 2).tolist(), host.is_ignored
    output = {}
    for image, rows in host.by_image().items():
        shapes, num_groups = [], 0
        for row in rows:
            polygons = [part.reshape(-1, 2).tolist() for part in parts[row]] if parts else []
            num_groups += len(polygons) > 1
            group = num_groups if len(polygons) > 1 else None
            kind = "polygon" if parts else "rectangle"
            flag = {"difficult": True} if ignore[row] else {}
            shapes += [
                _shape(names[labels[row]], points, kind, group) | flag for points in polygons or [rectangles[row]]
            ]
        width, height = sizes.get(image, (None, None))
        data: dict[str, Any] = {
            "version": VERSION,
            "flags": {},
            "shapes": shapes,
            "imagePath": host.image_names.get(image, stems[image]),
            "imageData": None,
            "imageHeight": height,
            "imageWidth": width,
        }
        output[f"{stems[image]}.json"] = f"{json.dumps(data, indent=1)}\n".encode()
    losses = [
        *host.lost("truncated flag", "area"),
        *host.shapes_lost(Masks),
        *host.lost("image id", "class id", "class without boxes", "crowd index"),
        *losses,
    ]
    return output, losses


def _polygons(
    truths: Truths, host: Host, mask: Masks, corners: Floats, sizes: dict[int, tuple[int, int]]
) -> tuple[list[list[Floats]], list[Loss]]:
    """The polygons of each mask, and the losses. Unknown image sizes are taken from the masks."""
    images, sides = host.image.tolist(), mask.runs.sizes.tolist()
    for image, (height, width) in zip(images, sides, strict=True):
        sizes.setdefault(image, (width, height))
    parts = [
        [with_enough_points(part, corner[:2]) for part in polygons_of(mask, row) or [np.zeros(0)]]
        for row, corner in enumerate(corners.tolist())
    ]
    known = np.array([sizes[image][::-1] for image in images], np.int64).reshape(-1, 2)
    bounds = np.array([bounds_of(polygons) for polygons in parts], np.float64).reshape(-1, 4)
    return parts, [shapes_lost(mask, Masks.from_polygons(parts, known)), *boxes_lost(truths, host, bounds)]


def _shape(label: str, points: Any, kind: str, group: int | None) -> dict[str, Any]:
    return {
        "label": label,
        "points": points,
        "group_id": group,
        "description": "",
        "shape_type": kind,
        "flags": {},
    }
