"""CVAT for images 1.1 and for video 1.1: one XML file with boxes, polygons and masks of every image or track."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.data.dataset import Truths
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.outlines import trace
from boxscore.formats import xml
from boxscore.formats.cvat_shapes import CORNERS, OTHER_SHAPES, SHAPES, Shape, shape_of, size_of, whole_number
from boxscore.formats.cvat_video import frame_name, read_video
from boxscore.formats.files import Output, Source, suffix_of
from boxscore.formats.pixel_masks import Crop, drawn, row_major_counts, with_masks
from boxscore.formats.polygon_writers import bounds_of, boxes_lost, shapes_lost, with_enough_points
from boxscore.formats.records import Floats, Named, Options, Records, RowsWarning, locations
from boxscore.formats.writers import Host, Loss, named_classes, number, rounding_of_corners


def recognises(source: Source, role: str) -> bool:
    """Whether it is an XML file with <annotations>, or a folder with such an annotations.xml."""
    if role != "truths":
        return False
    file = _file(source)
    return file is not None and b"<annotations" in source.read(file)[:4000]


def _file(source: Source) -> str | None:
    if not source.is_folder:
        return ""
    return next((file for file in source.files(".xml") if file == "annotations.xml"), None)


def has_masks(source: Source, role: str) -> bool:  # noqa: ARG001
    """Whether there is a polygon or a mask."""
    file = _file(source)
    content = b"" if file is None else source.read(file)
    return b"<polygon" in content or b"<mask" in content


def read_truths(source: Source, options: Options) -> Records:
    """The shapes of every image, as boxes or as masks. Classes in the order of the file's list."""
    file = _file(source)
    if file is None:
        raise InputError(f"{source}: must be an XML file, or a folder with annotations.xml")
    where = source.location(file)
    root = xml.parse(source.read(file), where)
    if root.tag != "annotations":
        raise InputError(f"{where}: must have <annotations> as its root; got <{root.tag}>")
    if root.find("track") is not None:
        if root.find("image") is not None:
            raise InputError(f"{where}: must have images or tracks; got both")
        return _read_tracks(root, source, where, options)
    ids: list[int] = []
    names: list[str] = []
    sizes, labels, offsets = [], [], [0]
    shapes: list[Shape] = []
    num_other = 0
    for index, image in enumerate(root.iter("image")):
        location = f"{where}: image {index}"
        name = image.get("name")
        if name is None:
            raise InputError(f"{location} must have a name")
        ids.append(index if (given := image.get("id")) is None else whole_number(given, f"{location}: `id`"))
        names.append(name)
        sizes.append(size_of(image.get("width"), image.get("height")))
        for row, element in enumerate(element for element in image if element.tag in SHAPES):
            label = element.get("label")
            if label is None:
                raise InputError(f"{location} ({name}): {element.tag} {row} must have a label")
            labels.append(label)
            shapes.append(shape_of(element, f"{location} ({name}): {element.tag} {row}", has_masks=options.has_masks))
        num_other += sum(element.tag in OTHER_SHAPES for element in image)
        offsets.append(len(shapes))
    _warn_of_others(num_other, where)
    if len(set(ids)) < len(ids):
        raise InputError(f"{where}: images must have different ids")
    records = Records(
        image=np.repeat(np.array(ids, np.int64), np.diff(offsets)),
        label=Named.of(labels),
        box=_boxes(shapes),
        box_format="xyxy",
        location=locations(
            offsets[:-1] or [0], lambda image, row: f"{where}: image {image} ({names[image]}): shape {row}"
        ),
        source=str(source),
        image_names=dict(zip(ids, names, strict=True)),
        image_sizes={number: size for number, size in zip(ids, sizes, strict=True) if size is not None},
        class_names=_class_names(root),
    )
    return _with_masks(records, shapes, options)


def _boxes(shapes: Sequence[Shape]) -> Floats:
    return np.array([shape.box for shape in shapes], np.float64).reshape(-1, 4)


def _with_masks(records: Records, shapes: Sequence[Shape], options: Options) -> Records:
    """The records with the masks of shapes, if they were asked for."""
    if not options.has_masks:
        return records
    parts = [[] if shape.outline is None else [shape.outline] for shape in shapes]
    crops = {row: [shape.crop] for row, shape in enumerate(shapes) if shape.crop is not None}
    return with_masks(records, parts, crops, options)


def _class_names(root: Any) -> dict[int, str] | None:
    listed = [element.text.strip() for element in root.iterfind("meta//labels/label/name") if element.text]
    return dict(enumerate(dict.fromkeys(listed))) if listed else None


def _warn_of_others(num_other: int, where: str) -> None:
    if num_other:
        what = f"{count(num_other, 'shape')} other than box and polygon"
        fate = "they are left out"
        message = f"{where}: {what} left out"
        warnings.warn(RowsWarning(message, num=num_other, what=what, fate=fate, location=str(where)), stacklevel=5)


def _read_tracks(root: Any, source: Source, where: str, options: Options) -> Records:
    """The shapes of every frame of a video. Images are the frames, with their numbers and CVAT's names for them."""
    rows, video, num_other = read_video(root, where, has_masks=options.has_masks)
    _warn_of_others(num_other, where)
    shapes = [row.shape for row in rows]
    records = Records(
        image=np.array([row.frame for row in rows], np.int64),
        label=Named.of([row.label for row in rows]),
        box=_boxes(shapes),
        box_format="xyxy",
        location=lambda row: rows[row].location,
        source=str(source),
        image_names={frame: frame_name(frame) for frame in video.frames},
        image_sizes=None if video.size is None else dict.fromkeys(video.frames, video.size),
        class_names=_class_names(root),
    )
    return _with_masks(records, shapes, options)


def write_truths(truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Every image with its shapes, as "CVAT for images 1.1": boxes, or for masks polygons and masks.

    `path`: a file that ends in .xml, or else a folder, which gets an annotations.xml.
    """
    host = Host.of(truths)
    names = _checked(named_classes(host), "class")
    images = _checked({image: host.image_names.get(image, str(image)) for image in host.images}, "image")
    sizes = dict(host.sizes)
    corners = host.corners()
    if host.mask is None:
        attributes = [_box_attributes(box) for box in corners.tolist()]
        losses = [rounding_of_corners(host, corners)]
    else:
        attributes, losses = _mask_attributes(truths, host, host.mask, sizes)
    labels = host.label.tolist()
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "  <version>1.1</version>"]
    lines += ["  <meta>", "    <task>", "      <labels>"]
    lines += [f"        <label><name>{xml.escaped(name)}</name></label>" for name in names.values()]
    lines += ["      </labels>", "    </task>", "  </meta>"]
    for image, rows in host.by_image().items():
        size = f' width="{sizes[image][0]}" height="{sizes[image][1]}"' if image in sizes else ""
        lines.append(f'  <image id="{image}" name={xml.quoted(images[image])}{size}>')
        for row in rows:
            tag, _, rest = attributes[row].partition(" ")
            label = xml.quoted(names[labels[row]])
            lines.append(f'    <{tag} label={label} source="file" occluded="0" {rest} z_order="0"/>')
        lines.append("  </image>")
    content = "\n".join([*lines, "</annotations>", ""]).encode()
    losses = [
        *host.flags_lost("ignore", "truncated"),
        Loss(num=0 if host.area is None else len(host), what="area"),
        *host.oriented_lost(),
        Loss(num=sum(label != position for position, label in enumerate(names)), what="class id"),
        *host.keypoints_lost(),
        *losses,
    ]
    return {"" if suffix_of(path) == ".xml" else "annotations.xml": content}, losses


def _checked(names: Mapping[int, str], kind: str) -> Mapping[int, str]:
    """The names, if XML can hold them, and readers find them again."""
    owner: dict[str, int] = {}
    for key, name in names.items():
        if not xml.is_text(name) or (kind == "class" and name != name.strip()):
            raise InputError(
                f"{kind} {key} must have a name without control characters{' and outer spaces' * (kind == 'class')};"
                f" got {name!r}"
            )
        if kind == "class" and owner.setdefault(name, key) != key:
            raise InputError(f"classes {owner[name]} and {key} have the same name {name!r}; CVAT's labels must differ")
    return names


def _box_attributes(box: Sequence[float]) -> str:
    """The tag and the attributes of a box."""
    sides = (f'{name}="{number(side)}"' for name, side in zip(CORNERS, box, strict=True))
    return f"box {' '.join(sides)}"


def _mask_attributes(
    truths: Truths, host: Host, mask: Masks, sizes: dict[int, tuple[int, int]]
) -> tuple[list[str], list[Loss]]:
    """The tag and the attributes of each mask, and what is lost. Unknown sizes of images are those of their masks.

    One outline without holes is a polygon; all else is a mask, within the box around its pixels.
    """
    attributes: list[str] = []
    parts: list[list[Floats]] = []
    crops: dict[int, list[Crop]] = {}
    corners, images = host.corners().tolist(), host.image.tolist()
    num_divided = 0
    for row, (image, (height, width)) in enumerate(zip(images, mask.runs.sizes.tolist(), strict=True)):
        size = sizes.setdefault(image, (width, height))
        kept = [] if mask.polygons is None else mask.polygons[row]
        outlines = [kept] if kept else trace(mask.pixels(row))
        num_divided += len(kept) > 1
        if len(outlines) == 1 and len(outlines[0]) == 1:
            polygon = with_enough_points(outlines[0][0], corners[row][:2])
            points = ";".join(f"{number(x)},{number(y)}" for x, y in polygon.reshape(-1, 2).tolist())
            attributes.append(f'polygon points="{points}"')
            parts.append([polygon])
            continue
        left, top, width, height = mask.runs.box[row].tolist()
        is_on = mask.pixels(row)[top : top + height, left : left + width].astype(bool)
        crop = Crop(left, top, is_on if is_on.size else np.zeros((1, 1), bool))
        crop.check_inside(size, f"image {image}: row {row}")
        height, width = crop.is_on.shape
        counts = ", ".join(map(str, row_major_counts(crop.is_on)))
        attributes.append(f'mask rle="{counts}" left="{left}" top="{top}" width="{width}" height="{height}"')
        crops[row] = [crop]
        parts.append([])
    known = np.array([sizes[image][::-1] for image in images], np.int64).reshape(-1, 2)
    bounds = [crops[row][0].bounds() if row in crops else bounds_of(polygons) for row, polygons in enumerate(parts)]
    return attributes, [
        Loss(
            num=num_divided,
            what="outline of several polygons that is a mask now",
            plural="outlines of several polygons that are masks now",
        ),
        shapes_lost(mask, drawn(parts, crops, known, keeps_polygons=False)),
        *boxes_lost(truths, host, np.array(bounds, np.float64).reshape(-1, 4)),
    ]
