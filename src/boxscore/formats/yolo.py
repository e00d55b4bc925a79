"""YOLO (ultralytics): one label file per image, boxes as fractions; names in data.yaml, sizes from the images."""

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import IMAGE_SUFFIXES, base_of, stem_of
from boxscore.arrays import to_numpy
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import to_xywh
from boxscore.data.geometry.keypoints import Keypoints, PoseRows
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, OrientedRows
from boxscore.data.geometry.outlines import are_same, joined, traced
from boxscore.formats.class_names import (
    NAMES_FILES,
    are_numbers,
    find_names,
    find_yaml,
    first_line,
    is_label_line,
    names_of,
    read_names,
    read_yaml,
    yaml_of,
)
from boxscore.formats.files import Output, Source, open_source, read_file
from boxscore.formats.image_sizes import list_of_sizes, read_sizes, size_in, size_of
from boxscore.formats.polygon_writers import boxes_lost, has_polygons, polygons_of, shapes_lost, with_enough_points
from boxscore.formats.records import Floats, Named, Options, Records
from boxscore.formats.voc import is_image_set, is_result
from boxscore.formats.writers import ANGLES, Host, Loss, changed, fractions_of, number
from boxscore.protocol.protocol import Protocol

KeypointShape = tuple[int, int]
"""Number of keypoints per box, and of numbers per keypoint: `kpt_shape` in data.yaml."""

_BOM = b"\xef\xbb\xbf"
_NO_SCORE = "no confidence (in Ultralytics, `save_conf=True` writes it): "
_BORDER = 0.01
"""Distance by which a box may reach beyond its image, as a fraction of the image."""
_MARGIN = 0.25
"""Distance by which keypoints may lie outside of their box, as a fraction of the box."""
_MIN_OUT, _MIN_OUT_SHARE, _TIMES_FEWER = 3, 0.1, 10
"""Number and share of boxes that must leave their images before another order of the numbers is considered, and the
factor by which fewer must do so in that order. Detectors seldom predict boxes that leave the image by a percent."""
_MIN_SHARE = 0.8
"""Share of lines that must look like poses. Less than half of random polygons do."""

SIZES = "sizes.csv"
"""The list of sizes in folders written by boxscore, which have no images."""
_NO_LABELS = (*NAMES_FILES, "train.txt", "val.txt", "test.txt", "readme.txt", "license.txt", "requirements.txt")
_IMAGES = tuple(IMAGE_SUFFIXES)


def recognises(source: Source, role: str) -> bool:
    """Whether the source is data.yaml, or has label files whose lines begin with a class and four numbers."""
    if not source.is_folder:
        return role == "truths" and source.suffix in (".yaml", ".yml")
    files = _label_files(source)
    for file in files[:100]:
        words = first_line(source.read(file)).split()
        if words:
            return words[0].isdigit() and len(words) >= (5 if role == "truths" else 6) and are_numbers(words)
    return bool(files)


def _label_files(source: Source) -> list[str]:
    """The label files of a folder: the files in folders called "labels" if any, else all but results and lists."""
    files = [file for file in source.files(".txt") if not is_result(file) and not is_image_set(file)]
    inside = [file for file in files if "labels" in file.split("/")[:-1]]
    are_inside = bool(inside) or (source.path.is_dir() and _is_labels(source.path))
    return [
        file
        for file in inside or files
        if base_of(file).lower() not in _NO_LABELS or _is_label(source.read(file), is_inside=are_inside)
    ]


def _is_labels(folder: Path) -> bool:
    """Whether the folder, or its parent, is called "labels": `labels/val`."""
    return "labels" in folder.absolute().parts[-2:]


def _is_label(content: bytes, *, is_inside: bool) -> bool:
    """Whether a file named like a list of class names is a label file: `classes.txt` for `classes.jpg`."""
    return is_label_line(first_line(content)) or (is_inside and not content.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Folder:
    """Label files and image files by image, on disk or in a zip."""

    labels: dict[str, str]
    images: dict[str, str]
    read: Callable[[str], bytes]
    measure: Callable[[str], tuple[int, int]]
    show: Callable[[str], str]


def _key(file: str, kind: str) -> str:
    """A path without its suffix and its folder "labels" or "images", which is equal for an image and its labels.

    >>> _key("labels/val/a.txt", "labels"), _key("images/val/a.jpg", "images")
    ('val/a', 'val/a')
    """
    *folders, base = file.split("/")
    if kind in folders:
        last = len(folders) - 1 - folders[::-1].index(kind)
        del folders[last]
    return "/".join([*folders, stem_of(base)])


def _by_key(files: Sequence[str], kind: str, prefix: str = "") -> dict[str, str]:
    return {_key(file, kind): prefix + file for file in files}


def _read_source(source: Source) -> _Folder:
    if not source.path.is_dir():
        return _Folder(
            labels=_by_key(_label_files(source), "labels"),
            images=_by_key(source.files(*_IMAGES), "images"),
            read=source.read,
            measure=lambda file: size_of(io.BytesIO(source.read(file)), source.location(file)),
            show=source.location,
        )
    root = f"{source.path}{os.sep}"
    images = _by_key(source.files(*_IMAGES), "images", root)
    if not images and (beside := _swapped(source.path, "labels", "images")):
        images = _by_key(open_source(beside).files(*_IMAGES), "images", f"{beside}{os.sep}")
    return _on_disk(_by_key(_label_files(source), "labels", root), images)


def _on_disk(labels: dict[str, str], images: dict[str, str]) -> _Folder:
    return _Folder(labels=labels, images=images, read=read_file, measure=size_in, show=str)


def _swapped(path: Path, old: str, new: str) -> Path | None:
    """The sibling folder, if it exists: root/labels/val -> root/images/val."""
    parts = list(path.absolute().parts)
    if old not in parts:
        return None
    parts[len(parts) - 1 - parts[::-1].index(old)] = new
    other = Path(*parts)
    return other if os.path.isdir(other) else None  # noqa: PTH112


def _read_yaml_folder(source: Source) -> _Folder:
    """Find the labels of the images that `val` (else `test`, else `train`) in data.yaml names: folders or lists."""
    data = read_yaml(source.text(), str(source))
    given_root = data.get("path") or ""
    if not isinstance(given_root, str):
        raise InputError(f"{source}: `path` must be a folder; got a {type(given_root).__name__}")
    root = source.path.parent / given_root
    if not os.path.isdir(root):  # noqa: PTH112 (takes any text)
        root = source.path.parent
    given = data.get("val") or data.get("test") or data.get("train")
    if given is None:
        return _read_source(open_source(root))
    labels: dict[str, str] = {}
    images: dict[str, str] = {}
    for entry in given if isinstance(given, list) else [given]:
        if not isinstance(entry, str):
            raise InputError(f"{source}: `val` must be a folder or a list of images; got a {type(entry).__name__}")
        path = root / entry
        folder = _swapped(path, "images", "labels")
        if os.path.isdir(path):  # noqa: PTH112
            pictures = _by_key(open_source(path).files(*_IMAGES), "images", f"{path}{os.sep}")
            folder = folder or path
            labels |= _by_key(_label_files(open_source(folder)), "labels", f"{folder}{os.sep}")
        elif os.path.isfile(path):  # noqa: PTH113
            lines = [line.strip() for line in open_source(path).text().splitlines() if line.strip()]
            files = [str(path.parent / line.removeprefix("./")) for line in lines]
            pictures = _by_key(files, "images")
            found = {key: _label_of(file) for key, file in pictures.items()}
            labels |= {key: file for key, file in found.items() if os.path.isfile(file)}  # noqa: PTH113
        elif folder is not None:  # labels without images, as `convert` writes them
            pictures = {}
            labels |= _by_key(_label_files(open_source(folder)), "labels", f"{folder}{os.sep}")
        else:
            raise InputError(
                f"{source}: `val` must be a folder or a list of images; got {entry!r}, which does not exist"
            )
        images |= pictures
    return _on_disk(labels, images)


def _label_of(image: str) -> str:
    head, mark, tail = image.replace("\\", "/").rpartition("/images/")
    folder = f"{head}/labels/{tail}" if mark else tail
    return folder.rpartition(".")[0] + ".txt"


def read_truths(source: Source, options: Options) -> Records:
    """Read the label files: boxes (for polygons their bounds), masks, oriented boxes or keypoints.

    An image without a label file has no truths.
    """
    folder = _read_source(source) if source.is_folder else _read_yaml_folder(source)
    if not folder.labels:
        raise InputError(f"{source}: the folder has no label files (labels/*.txt)")
    keys = sorted(folder.labels.keys() | folder.images.keys())
    sizes: dict[Any, tuple[int, int]] | None = None
    names = _image_names(keys)
    if options.sizes is None:
        sizes = _sizes(source, folder, dict(zip(keys, names, strict=True)))
    labels = [key for key in keys if key in folder.labels]
    name_of = dict(zip(keys, names, strict=True))
    records = _records(folder, labels, [name_of[key] for key in labels], source, options, has_score=False)
    image = records["image"]
    also = [name_of[key] for key in keys if key not in folder.labels]
    records["image"] = Named(code=image.code, names=[*image.names, *also])
    return Records(**records, image_sizes=sizes, class_names=_class_names(source, options))


def _image_names(keys: Sequence[str]) -> list[str]:
    stems = [base_of(key) for key in keys]
    return stems if len(set(stems)) == len(stems) else list(keys)


def _sizes(source: Source, folder: _Folder, names: dict[str, str]) -> dict[Any, tuple[int, int]]:
    if folder.images:
        return {name: folder.measure(folder.images[key]) for key, name in names.items() if key in folder.images}
    for location in (source.path, *source.path.parents[:2]):
        if (location / SIZES).is_file():
            return read_sizes(location / SIZES) or {}
    for file in source.files(".csv") if source.is_folder else []:
        if base_of(file) == SIZES:
            return list_of_sizes(source.text(file), source.location(file))
    raise InputError(
        f"{source}: boxes are fractions, and there are no images to read sizes from; give `sizes`, a list"
        " (name,width,height) or the folder of the images"
    )


def _class_names(source: Source, options: Options) -> dict[int, str] | None:
    if options.names is not None:
        return read_names(options.names)
    if not source.is_folder:
        return names_of(read_yaml(source.text(), str(source)), str(source))
    found = find_names(source)
    if found is not None:
        return found[0]
    if source.path.is_dir():
        for parent in list(source.path.absolute().parents)[:2]:
            for name in ("data.yaml", "dataset.yaml", "data.yml", *NAMES_FILES):
                if (parent / name).is_file():
                    return read_names(parent / name)
    return None


def read_detections(source: Source, options: Options) -> Records:
    """Read the label files; the last number of a line is the score. Only images with a file are listed."""
    if not source.is_folder:
        raise InputError(f"{source}: must be a folder of label files; got a file")
    folder = _read_source(source)
    keys = sorted(folder.labels)
    names = None if options.names is None else read_names(options.names)
    if names is None and (found := find_names(source)):
        names = found[0]
    if not keys and names is None:
        raise InputError(f"{source}: the folder has no label files (*.txt)")
    records = _records(folder, keys, _image_names(keys), source, options, has_score=True)
    return Records(**records, class_names=names, is_position=names is None)


def _keypoint_shape(source: Source, options: Options) -> KeypointShape | None:
    """Read `kpt_shape` from data.yaml: the source, the file of names, or one in the folder or the two above it."""
    found = None
    if not source.is_folder:
        found = read_yaml(source.text(), str(source)), str(source)
    elif isinstance(options.names, str | Path) and Path(options.names).suffix in (".yaml", ".yml"):
        given = open_source(options.names)
        found = read_yaml(given.text(), str(given)), str(given)
    else:
        near = [parent / "data.yaml" for parent in list(source.path.absolute().parents)[:2]]
        found = find_yaml(source, "kpt_shape") or next(
            (yaml for file in near if file.is_file() and (yaml := find_yaml(open_source(file), "kpt_shape"))), None
        )
    if found is None or found[0].get("kpt_shape") is None:
        return None
    shape = found[0]["kpt_shape"]
    if isinstance(shape, list) and len(shape) == 2 and all(isinstance(each, str) and each.isdigit() for each in shape):
        num, size = (int(each[:9]) for each in shape)
        if num == 0 or size in (2, 3):
            return num, size
    raise InputError(f"{found[1]}: `kpt_shape` must be [number of keypoints, 2 or 3]")


def _records(
    folder: _Folder, keys: list[str], names: list[str], source: Source, options: Options, *, has_score: bool
) -> dict[str, Any]:
    """Fields of `Records` for either role, from the lines of all files as one table.

    The geometries of the options decide whether lines are polygons, four corners, or boxes with keypoints.
    """
    files = [folder.labels[key] for key in keys]
    contents = [
        content.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in content else content
        for content in map(folder.read, files)
    ]
    lines = b"\n".join(contents).split(b"\n")
    num_lines = [content.count(b"\n") + 1 for content in contents]
    first = np.concatenate([[0], np.cumsum(num_lines)])
    fields = [line.split() for line in lines]
    line_of = np.flatnonzero(np.fromiter(map(len, fields), np.int64, len(fields)))

    def location(row: int) -> str:
        line = int(line_of[row])
        file = int(np.searchsorted(first, line, side="right")) - 1
        return f"{folder.show(files[file])}: line {line - int(first[file]) + 1}"

    rows = LabelLines(
        words=[words for words in fields if words],
        has_score=has_score,
        location=location,
        keypoint_shape=partial(_keypoint_shape, source, options),
    )
    more: dict[str, Any] = {}
    if options.reads(Masks):
        table, polygons = rows.polygons()
        more = {"polygons": polygons, "terms": {"masks": "polygon"}}
    elif options.reads(OrientedBoxes):
        table, corners = rows.corners()
        more = OrientedRows(corners).fields()
    elif options.reads(Keypoints):
        table, poses = rows.poses()
        more = {"shapes": {Keypoints: poses}, "terms": Keypoints.terms}
    else:
        table = rows.boxes()
        if not options.is_format_given:
            rows.check_order(table)
    given = table[:, 0]
    is_valid = (given >= 0) & (given < 1e9) & (given == np.floor(given))
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise InputError(f"{location(row)}: the class must be an integer from 0 on; got {number(float(table[row, 0]))}")
    file_of_line = np.repeat(np.arange(len(files)), num_lines)
    return {
        "image": Named(code=file_of_line[line_of] if len(files) else line_of, names=names),
        "label": given.astype(np.int64),
        "box": np.ascontiguousarray(table[:, 1:5]),
        "box_format": "cxcywh",
        "score": np.ascontiguousarray(table[:, -1]) if has_score else None,
        "is_normalized": True,
        "location": location,
        "source": str(source),
        **more,
    }


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:
    """Keypoints if data.yaml declares them; else masks if a line has more numbers than a box."""
    shape = _keypoint_shape(source, Options())
    if shape is not None and shape[0] > 0:
        return [Keypoints]
    folder = _read_source(source) if source.is_folder else _read_yaml_folder(source)
    num = 5 if role == "truths" else 6
    lines = (line for file in folder.labels.values() for line in folder.read(file).splitlines())
    return [Masks] if any(len(line.split()) > num for line in lines) else []


def write_truths(truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write `labels/STEM.txt` for every image, Ultralytics' data.yaml, and a list of sizes.

    `path`: the folder. If it, or its parent, is called "labels", the label files are directly in it.
    """
    host = Host.of(truths)
    paths = _paths(path)
    output, losses = _written(truths, host, host.by_image(), path, paths)
    stems = host.stems()
    sizes = "".join(
        f"{_cell(stems[image])},{w},{h}\n" for image, (w, h) in sorted(host.sizes.items()) if image in stems
    )
    output[SIZES] = f"name,width,height\n{sizes}".encode()
    hint = f"# Put the images into {paths['val']}; the labels of the same names are beside it.\n"
    output["data.yaml"] = hint.encode() + output["data.yaml"]
    return output, [*host.lost("ignore flag", "truncated flag", "area"), *losses]


def _paths(folder: Path) -> dict[str, str]:
    """The entries of data.yaml that locate the images, and so the labels, for Ultralytics."""
    root, inside = folder.absolute(), ["images"]
    if _is_labels(root):
        depth = root.parts[::-1].index("labels")
        root, inside = Path(*root.parts[: -1 - depth]), ["images", *root.parts[len(root.parts) - depth :]]
    return {"path": str(root)} | dict.fromkeys(("train", "val"), "/".join(inside))


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n') else text


def write_detections(detections: Detections, truths: Truths, *, path: Path) -> tuple[Output, list[Loss]]:
    """Write `labels/STEM.txt` for every image with detections, the score as last number; names in data.yaml."""
    host = Host.of(detections, truths)
    rows = {image: rows for image, rows in host.by_image().items() if rows}
    return _written(detections, host, rows, path, {})


def _written(
    columns: Detections | Truths, host: Host, rows_by_image: dict[int, list[int]], folder: Path, paths: dict[str, str]
) -> tuple[dict[str, bytes], list[Loss]]:
    names = host.class_names or {label: str(label) for label in np.unique(host.label).tolist()}
    order = {label: position for position, label in enumerate(sorted(names))}
    if host.oriented is not None:
        rows, losses = host.fractions(host.quads()).tolist(), host.lost(ANGLES)
    elif (poses := host.get(Keypoints)) is not None:
        boxes, lost = _boxes_as_fractions(host)
        rows, losses = _poses_as_fractions(host, poses, boxes)
        losses = [*lost, *losses]
    elif host.mask is None:
        rows, losses = _boxes_as_fractions(host)
    else:
        rows, losses = _polygons_as_fractions(columns, host, host.mask)
    stems = host.file_stems()
    prefix = "" if _is_labels(folder) else "labels/"
    labels, scores = host.label.tolist(), None if host.score is None else host.score.tolist()
    output: dict[str, bytes] = {}
    for image, chosen in rows_by_image.items():
        lines = [
            f"{order[labels[row]]} {' '.join(map(number, rows[row]))}{f' {number(scores[row])}' if scores else ''}\n"
            for row in chosen
        ]
        output[f"{prefix}{stems[image]}.txt"] = "".join(lines).encode()
    data: dict[str, Any] = paths | {"names": {position: names[label] for label, position in order.items()} or []}
    if (poses := host.get(Keypoints)) is not None:
        data["kpt_shape"] = [poses.num_points, 3]
    elif host.mask is not None:
        data["kpt_shape"] = [0, 0]  # lines are polygons
    output["data.yaml"] = yaml_of(data).encode()
    return output, [Loss(num=sum(label != position for label, position in order.items()), what="class id"), *losses]


def _boxes_as_fractions(host: Host) -> tuple[list[list[float]], list[Loss]]:
    """Center, width and height of each box as fractions, and the loss of digits."""
    left, top, width, height = to_xywh(host.box, host.box_format)
    box = host.box
    if host.box_format != "cxcywh":
        box = np.stack([left + width / 2, top + height / 2, width, height], axis=1)
    fractions = host.fractions(box)
    moved = np.stack(to_xywh(fractions * host.scale(4), "cxcywh"), axis=1)
    before = np.stack([left, top, width, height], axis=1)
    what = "last digit of a box that is a fraction now"
    loss = Loss(num=changed(before, moved), what=what, plural="last digits of boxes that are fractions now")
    return fractions.tolist(), [loss]


def _polygons_as_fractions(
    columns: Detections | Truths, host: Host, mask: Masks
) -> tuple[list[list[float]], list[Loss]]:
    """The fractions x, y, x, y, … of each mask's polygon, and the losses.

    A mask with several parts or holes becomes one polygon, too: its parts are connected by lines that enclose nothing,
    as Ultralytics does with COCO's polygons.
    """
    parts = [polygons_of(mask, row) for row in range(len(mask))]
    corners = host.corners().tolist()
    whole = [_one_polygon(polygons, corner) for polygons, corner in zip(parts, corners, strict=True)]
    is_kept = has_polygons(mask)
    is_divided = is_kept & np.array([len(polygons) > 1 for polygons in parts], bool)
    is_overlapping = _overlap(mask, whole, is_divided)
    for row in np.flatnonzero(is_overlapping).tolist():
        whole[row] = _one_polygon(traced(mask, row), corners[row])
    column = Polygons.of([[polygon] for polygon in whole])
    num_points = np.diff(column.part_start) // 2
    points, size = column.points.reshape(-1, 2), host.scale(2, "polygons")
    scale = np.repeat(size, num_points, axis=0)
    fractions = fractions_of(points, scale, _are_drawn_alike)
    again = fractions * scale
    is_kept_point = np.repeat(is_kept & ~is_overlapping, num_points)
    row_of_point = np.repeat(np.arange(len(mask)), num_points)
    num_moved = len(np.unique(row_of_point[is_kept_point & (again != points).any(axis=1)]))
    redrawn_from = replace(column, points=again.reshape(-1))
    redrawn = Masks.from_polygons(redrawn_from, size[:, ::-1].astype(np.int64))
    moved, divided = "last digit of a polygon that is a fraction now", "division of a mask into polygons"
    overlapping = "outline of overlapping polygons that is traced now"
    losses = [
        Loss(num=int((is_divided & ~is_overlapping).sum()), what=divided, plural="divisions of masks into polygons"),
        Loss(num=int(is_overlapping.sum()), what=overlapping, plural=overlapping.replace("outline", "outlines", 1)),
        Loss(num=num_moved, what=moved, plural="last digits of polygons that are fractions now"),
        shapes_lost(mask, redrawn),
        *boxes_lost(columns, host, redrawn_from.bounds()),
    ]
    numbers, starts = fractions.reshape(-1).tolist(), column.part_start.tolist()
    return [numbers[start:end] for start, end in pairwise(starts)], losses


def _one_polygon(polygons: Sequence[Floats], box: Sequence[float]) -> Floats:
    """Join polygons into one; an empty mask gets a polygon at the corner of its box that encloses nothing."""
    return with_enough_points(joined(polygons) if polygons else np.zeros(0), box[:2])


def _overlap(mask: Masks, whole: list[Floats], is_divided: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether joining the polygons of each mask changes its pixels: where polygons overlap, pixels become unset."""
    rows = np.flatnonzero(is_divided)
    is_overlapping = np.zeros(len(mask), bool)
    own = mask.take(rows)
    one = Masks.from_polygons([[whole[row]] for row in rows.tolist()], own.runs.sizes)
    is_overlapping[rows] = ~are_same(own, one)
    return is_overlapping


def _are_drawn_alike(points: Floats, others: Floats) -> NDArray[np.bool_]:
    """Whether coordinates are drawn at the same point: as in COCO, polygons are drawn on a grid of fifths of pixels."""
    return np.asarray(np.trunc(5 * points + 0.5) == np.trunc(5 * others + 0.5))


def _poses_as_fractions(
    host: Host, keypoints: Keypoints, boxes: list[list[float]]
) -> tuple[list[list[float]], list[Loss]]:
    """The numbers of each line, the box, then x, y and the third number of each point; and the losses.

    `boxes`: the numbers of the boxes, as fractions.
    """
    shape = len(host), keypoints.num_points
    numbers = keypoints.triples()
    point = numbers[:, :, :2].reshape(len(host), -1) if len(host) else np.zeros((0, 2))
    fractions = host.fractions(point)
    num_moved = int((fractions * host.scale(point.shape[1]) != point).any(axis=1).sum())
    poses = np.concatenate([fractions.reshape(*shape, 2), numbers[:, :, 2:]], axis=2) if len(host) else numbers
    what = "last digit of a pose that is a fraction now"
    losses = [
        Loss(num=0 if host.mask is None else len(host.mask), what="mask"),
        Loss(num=num_moved, what=what, plural="last digits of poses that are fractions now"),
        *_counts_lost(host, keypoints),
        *host.lost("crowd index"),
    ]
    lines = poses.reshape(len(host), 3 * keypoints.num_points).tolist()
    return [[*box, *pose] for box, pose in zip(boxes, lines, strict=True)], losses


def _counts_lost(host: Host, keypoints: Keypoints) -> list[Loss]:
    """The losses of numbers of labelled points and areas of detections that don't follow from the points."""
    num_counts = num_areas = 0
    if keypoints.num_labelled is not None and keypoints.visibility is not None:
        counted = (to_numpy(keypoints.visibility) > 0).sum(axis=1)
        num_counts = int((to_numpy(keypoints.num_labelled) != counted).sum())
    if host.score is not None and host.area is not None:
        num_areas = int((to_numpy(keypoints.areas(Protocol.named("coco_keypoints"))) != host.area).sum())
    what = "number of labelled points"
    return [Loss(num=num_counts, what=what, plural="numbers of labelled points"), Loss(num=num_areas, what="area")]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelLines:
    """The lines of label files, without blank ones."""

    words: Sequence[Sequence[bytes]]
    """The words of each line."""
    has_score: bool
    """Whether the last number of a line is a score."""
    location: Callable[[int], str]
    keypoint_shape: Callable[[], KeypointShape | None]

    def boxes(self) -> Floats:
        """Class, cx, cy, w, h and, for detections, the score of every line; the bounds of polygons.

        A pose is `class cx cy w h` and its keypoints, a polygon `class x y x y x y …`. `kpt_shape` decides which;
        without it the numbers decide, and ambiguous files are refused.
        """
        width = 5 + self.has_score
        try:
            if {*map(len, self.words)} <= {width}:  # the usual case
                flat = map(float, chain.from_iterable(self.words))
                return np.fromiter(flat, np.float64, width * len(self.words)).reshape(-1, width)
        except ValueError:
            pass
        rows, scores = [], []
        for row, words in enumerate(self.words):
            values = _numbers(words)
            if len(values) < width:
                raise self._no_box(row, values)
            rows.append(values[:-1] if self.has_score else values)
            scores += values[-1:] if self.has_score else []
        wide = [row for row, values in enumerate(rows) if len(values) > 5]
        are_poses = bool(wide) and self._are_poses([rows[row] for row in wide], wide, self.keypoint_shape())
        table = np.zeros((len(rows), 5))
        for row, values in enumerate(rows):
            if len(values) == 5 or are_poses:
                table[row] = values[:5]
            elif len(values) >= 7 and len(values) % 2 == 1:
                x, y = values[1::2], values[2::2]
                low, high = (min(x), min(y)), (max(x), max(y))
                center = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
                table[row] = [values[0], *center, high[0] - low[0], high[1] - low[1]]
            else:
                raise self._no_box(row, values)
        return np.column_stack([table, scores]) if self.has_score else table

    def corners(self) -> tuple[Floats, Floats]:
        """The class and, for detections, the score of every line, and its four corners. Shapes (R, 1 or 2), (R, 8)."""
        width = 9 + self.has_score
        rows = [_numbers(words) for words in self.words]
        for row, values in enumerate(rows):
            if len(values) != width:
                hint = _NO_SCORE if self.has_score and len(values) == 9 else ""
                raise self._refusal(row, "an oriented box: class x1 y1 x2 y2 x3 y3 x4 y4", hint)
        table = np.array(rows, np.float64).reshape(-1, width)
        return table[:, [0, 9] if self.has_score else [0]], np.ascontiguousarray(table[:, 1:9])

    def poses(self) -> tuple[Floats, PoseRows]:
        """The table of `boxes`, and the keypoints of every line: x, y and a third number.

        Without a third number, it is 1 for points whose coordinates are not negative, else 0.
        """
        has_score = self.has_score
        rows = [_numbers(words) for words in self.words]
        shape = self.keypoint_shape() if rows else (1, 3)
        num_words = len(rows[0]) if rows else 8 + has_score
        num = num_words - 5 - has_score
        sizes = [size for size in (3, 2) if num > 0 and num % size == 0 and shape in (None, (num // size, size))]
        if has_score and shape is not None and not sizes:  # results may have more or fewer numbers than labels
            sizes = [size for size in (3, 2) if num == shape[0] * size]
        for row, values in enumerate(rows):
            if len(values) != num_words or not sizes:
                more = "" if shape is None else f", with `kpt_shape: [{shape[0]}, {shape[1]}]` of data.yaml"
                raise self._refusal(row, "a box with keypoints: class cx cy w h x y v x y v …", more=more)
        table = np.array(rows, np.float64).reshape(-1, num_words)
        if len(sizes) > 1 and not (has_score is False and np.isin(table[:, 7::3], (0, 1, 2)).all()):
            raise InputError(
                f"{self.location(0)}: {num} numbers may be {num // 3} keypoints of three numbers, or {num // 2} of two;"
                " give data.yaml `kpt_shape: [number of keypoints, 2 or 3]`"
            )
        points = table[:, 5 : 5 + num].reshape(len(rows), -1, sizes[0])
        third = points[..., 2] if sizes[0] == 3 else (points >= 0).all(axis=2).astype(np.float64)
        columns = table[:, [*range(5), *([num_words - 1] if has_score else [])]]
        return columns, PoseRows(np.ascontiguousarray(points[..., :2]), np.ascontiguousarray(third))

    def polygons(self) -> tuple[Floats, Polygons]:
        """The table of `boxes`, and the polygon of every line; a line with a box, or a pose, is refused."""
        lines, has_score = self.words, self.has_score
        num_words = np.fromiter(map(len, lines), np.int64, len(lines))
        num_numbers = num_words - 1 - has_score  # of the polygon
        is_polygon = (num_numbers >= 6) & (num_numbers % 2 == 0)
        try:
            flat = np.fromiter(map(float, chain.from_iterable(lines)), np.float64, int(num_words.sum()))
        except ValueError:
            is_polygon = is_polygon & [bool(_numbers(words)) for words in lines]
            flat = np.array(list(chain.from_iterable(map(_numbers, lines))), np.float64)
        if not is_polygon.all():
            row = int(np.argmin(is_polygon))
            hint = "a box: " if num_words[row] == 5 + has_score and _numbers(lines[row]) else ""
            if has_score and num_words[row] >= 7 and num_words[row] % 2 == 1:
                hint = _NO_SCORE
            raise self._refusal(row, "a polygon, as masks are read: class x y x y x y …", hint)
        shape = self.keypoint_shape() if len(lines) else None
        start = np.concatenate([[0], np.cumsum(num_words)])
        if len(lines) and (shape is not None or (num_words == num_words[0]).all()):
            rows = [flat[first:last].tolist() for first, last in zip(start, start[1:] - has_score, strict=False)]
            if self._are_poses(rows, range(len(rows)), shape):
                raise InputError(f"{self.location(0)} must be a polygon, as masks are read; got a box with keypoints")
        is_point = np.ones(len(flat), bool)
        is_point[start[:-1]] = False
        if has_score:
            is_point[start[1:] - 1] = False
        points = flat[is_point]
        part_start = np.concatenate([[0], np.cumsum(num_numbers)])
        polygons = Polygons(points=points, part_start=part_start, mask_start=np.arange(len(lines) + 1, dtype=np.int64))
        low, high = np.split(polygons.bounds(), 2, axis=1)
        columns = [flat[start[:-1]], (low + high) / 2, high - low, *([flat[start[1:] - 1]] if has_score else [])]
        return np.column_stack(columns), polygons

    def _no_box(self, row: int, values: Sequence[float]) -> InputError:
        """The error about a line that is neither a box nor a polygon."""
        if self.has_score and len(values) == 5:
            hint = "the sixth, the confidence, is missing (in Ultralytics, `save_conf=True` writes it)"
            return InputError(f"{self.location(row)} must be six numbers: class cx cy w h confidence; got five: {hint}")
        more = "" if self.has_score else ", or a class and a polygon"
        return self._refusal(row, "numbers: class cx cy w h", more=more)

    def _refusal(self, row: int, wanted: str, hint: str = "", more: str = "") -> InputError:
        """The error about an invalid line."""
        score, text = " confidence" * self.has_score, _shortened(b" ".join(self.words[row]))
        return InputError(f"{self.location(row)} must be {wanted}{score}{more}; got {hint}{text!r}")

    def check_order(self, table: Floats) -> None:
        """Raise `InputError` if boxes leave their images, and would not if the numbers of a line had another order.

        Lines of the text format, `class confidence cx cy w h` or with corners, have the same length as YOLO's.
        """
        is_out = _leaves_image(table[:, 1:5])
        num_out = int(is_out.sum())
        if num_out < _MIN_OUT or num_out < _MIN_OUT_SHARE * len(table):
            return
        box = table[:, -4:] if self.has_score else table[:, 1:5]
        confidence, option = (" confidence", "--dt-format") if self.has_score else ("", "--gt-format")
        corners = np.concatenate([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], axis=1)
        others = [("left top right bottom", corners, "`format` text", f"{option} text")]
        if self.has_score:
            more = ("`format` text and `box_format` cxcywh", f"{option} text --box-format cxcywh")
            others.append(("cx cy w h", box, *more))
        num_left, (order, _, setting, words) = min(
            ((int(_leaves_image(other[1]).sum()), other) for other in others), key=lambda pair: pair[0]
        )
        if num_left * _TIMES_FEWER <= num_out:
            raise InputError(
                f"{self.location(int(np.argmax(is_out)))}: read as `class cx cy w h{confidence}`, this box and"
                f" {num_out - 1} of {len(table) - 1} others leave their images; read as `class{confidence} {order}`,"
                f" {num_left} do: give {setting} ({words}) if that is their order, or `format` yolo ({option}"
                " yolo) if it is not"
            )

    def _are_poses(self, rows: Sequence[Sequence[float]], numbers: Sequence[int], shape: KeypointShape | None) -> bool:
        """Whether lines of more than five numbers are boxes with keypoints, all of the same length.

        `numbers`: the index of each line.
        """
        if shape is not None:
            num_wanted = 5 + shape[0] * shape[1]
            wrong = next((index for index, row in enumerate(rows) if len(row) != num_wanted), None)
            if wrong is not None and shape[0]:
                what = f"`kpt_shape: [{shape[0]}, {shape[1]}]` in data.yaml means 5 + {num_wanted - 5} numbers per line"
                more = " and the confidence" if self.has_score else ""
                raise InputError(
                    f"{self.location(numbers[wrong])}: {what}{more}; got {len(rows[wrong]) + self.has_score}"
                )
            return shape[0] > 0
        length = len(rows[0])
        if any(len(row) != length for row in rows):
            return False
        if length % 2 == 0:  # a polygon has an odd length
            return (length - 5) % 3 == 0 and _look_like_poses(rows, 3, self.has_score)
        is_likely = (length - 5) % 3 == 0 and _look_like_poses(rows, 3, self.has_score)
        if is_likely and not self.has_score and any(2 in row[7::3] for row in rows):
            return True  # 2 is "labelled and visible", and cannot be a fraction of an image
        if not is_likely and not _look_like_poses(rows, 2, self.has_score):
            return False
        if length == 9 and _are_oriented_boxes(rows):
            return False
        raise InputError(
            f"{self.location(numbers[0])}: {length + self.has_score} numbers, here and in all such lines, may be"
            " polygons, or boxes with keypoints; give data.yaml `kpt_shape: [number of keypoints, 2 or 3]`, or [0, 0]"
            " for polygons"
        )


def _numbers(words: Sequence[bytes]) -> list[float]:
    try:
        return [float(word.removeprefix(_BOM)) for word in words]
    except ValueError:
        return []


def _leaves_image(box: Floats) -> NDArray[np.bool_]:
    """Whether a box, given by center and size, reaches beyond its image, or is empty. Shape (R,)."""
    center, extent = box[:, :2], box[:, 2:]
    is_inside = (extent > 0) & (center - extent / 2 >= -_BORDER) & (center + extent / 2 <= 1 + _BORDER)
    return np.logical_not(is_inside.all(axis=1))


def _shortened(content: bytes) -> str:
    """Decode and shorten bytes for an error message."""
    text = content.decode("utf-8", "replace")
    return text if len(text) <= 80 else f"{text[:79]}…"


def _are_oriented_boxes(rows: Sequence[Sequence[float]]) -> bool:
    """Whether all lines are the four corners of parallelograms."""
    corners = np.array(rows, np.float64)[:, 1:].reshape(-1, 4, 2)
    return bool((np.abs(corners[:, 0] - corners[:, 1] + corners[:, 2] - corners[:, 3]) <= _BORDER).all())


def _look_like_poses(rows: Sequence[Sequence[float]], size: int, has_score: bool) -> bool:
    """Whether most lines are a box in the image with keypoints in or near it. `size`: numbers per keypoint."""
    table = np.array(rows, np.float64)
    center, extent = table[:, 1:3], table[:, 3:5]
    low, high = center - extent / 2, center + extent / 2
    is_box = ~_leaves_image(table[:, 1:5])
    points = table[:, 5:].reshape(len(rows), -1, size)
    low, high = (low - _MARGIN * extent)[:, None], (high + _MARGIN * extent)[:, None]
    is_inside = ((points[..., :2] >= low) & (points[..., :2] <= high)).all(axis=2)
    is_pose = is_box & (is_inside | (points[..., :2] == 0).all(axis=2)).all(axis=1)
    if size == 3 and not has_score:
        is_pose &= np.isin(points[..., 2], (0, 1, 2)).all(axis=1)
    return bool(is_pose.mean() >= _MIN_SHARE)
