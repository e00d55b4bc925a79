"""COCO JSON: a dataset with `images`, `annotations` and `categories`; a list of results."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled
from boxscore._support.exceptions import InputError
from boxscore._support.inputs import ParsedFile, keep, kept
from boxscore._support.threads import num_threads
from boxscore.arrays import to_numpy
from boxscore.data.batch_keys import COVERAGE_KEYS
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import is_oriented
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.keypoints import Keypoints, PoseRows
from boxscore.data.geometry.masks import Masks, Polygons
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, OrientedRows
from boxscore.formats.federated import class_groups, coverage_rows, written_letters, written_lists
from boxscore.formats.files import Output, Source
from boxscore.formats.records import Key, Named, Options, Records
from boxscore.formats.registry import Role
from boxscore.formats.ultralytics_json import are_oriented_results, is_from_ultralytics, read_oriented
from boxscore.formats.writers import ANGLES, Host, Loss, rounding_of_sizes
from boxscore.protocol.comparable import NO_FREQUENCY
from boxscore.protocol.protocol import Protocol

_KEYS = {"boxes": "bbox", "masks": "segmentation", "ignore": "iscrowd", "visibility": "keypoints"}
"""COCO's names for our columns, if they differ and a row can be invalid."""
_SHAPES: Mapping[type[Geometry], str] = {Masks: "masks", Keypoints: "keypoints", OrientedBoxes: "corners"}
"""The shapes besides boxes that files have, and the name of each in `_compiled.CocoShapes`."""
_SEGMENTATION = re.compile(rb'"segmentation"\s*:\s*(\{\s*"|\[\s*[^\]\s])')
"""Matches a segmentation that is not empty."""
_KEYPOINTS = re.compile(rb'"keypoints"\s*:\s*\[\s*[-\d]')
"""Matches keypoints that are not empty; `keypoints` of categories are names, which it does not match."""


def recognises(source: Source, role: str) -> bool:
    """Whether the source is JSON: a list of results, or an object with annotations."""
    if source.head is None or source.suffix not in (".json", ""):
        return False
    head = source.head[:200].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return head == b"{" or (head == b"[" and role == "detections") or source.suffix == ".json"


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """The geometries of annotations or results: masks and keypoints that are not empty."""
    content = source.read()
    patterns: Mapping[type[Geometry], re.Pattern[bytes]] = {Masks: _SEGMENTATION, Keypoints: _KEYPOINTS}
    return [kind for kind, pattern in patterns.items() if pattern.search(content) is not None]


def read_truths(source: Source, options: Options) -> Records:
    """Read the annotations of a COCO dataset."""
    file = _load(source, options, "truths")
    if not file.is_dataset:
        raise InputError(f"{source}: expected an object with `annotations` and `categories`; got a list")
    if file.categories is None:
        raise InputError(f"{source}: `categories` must be a list; got nothing")
    records = _records(source, file, options, ignore=file.boxes.is_crowd)
    if records.coverage is not None and (row := file.boxes.first_ignored) is not None:
        rule = "lvis ignores such truths, which protocol lvis does not: remove it, or evaluate by boxscore.lvis"
        raise InputError(f"{records.location(row)}: `ignore` must be 0 in a file with LVIS' lists of classes; {rule}")
    return replace(records, **_poses(file.boxes)) if options.reads(Keypoints) else records


def read_detections(source: Source, options: Options) -> Records:
    """Read the rows of a COCO results file, or the annotations of a dataset that have scores.

    `options` may give a box format other than COCO's for results.
    """
    if options.reads(OrientedBoxes) and are_oriented_results(source):
        return read_oriented(source, options.box_format)
    file = _load(source, options, "detections")
    score = file.boxes.score
    records = _records(source, file, options, score=np.zeros(0) if score is None else score)
    records = replace(records, has_ultralytics_ids=is_from_ultralytics(source))
    if options.reads(Keypoints):
        records = replace(records, **_poses(file.boxes))
    if options.box_format is not None and file.boxes.has_boxes and not file.is_dataset:
        records = replace(records, box_format=options.box_format)
    if score is None and len(records):
        raise InputError(f"{records.location(0)} must have `score`")
    return records


def _load(source: Source, options: Options, role: Role) -> Any:
    """Read the source as a `_compiled.CocoFile`: boxes, images and categories; or return it if it was kept."""
    others = [kind for kind in options.kinds if kind is not Boxes]
    if len(others) > 1:
        names = " and ".join(kind.plural for kind in others)
        raise InputError(f"`iou_type` must not have {names} at once; got {', '.join(options.iou_types)}")
    name = _SHAPES.get(others[0], "boxes") if others else "boxes"
    if name == "corners" and is_oriented(options.box_format) and options.box_format != "xyxyxyxy":
        name = "turned_boxes"
    settings = {"shapes": getattr(_compiled.CocoShapes, name), "score": getattr(_compiled.CocoScore, options.score_key)}
    path, threads = source.unread_path, num_threads(options.threads)
    known: ParsedFile | None = kept(role, source.path)
    if known is not None and known.shapes == name and options.score_key == "score":
        return known.file
    try:
        if path is not None:  # read in parts, so that the file need not fit into memory
            file = _compiled.read_coco_file(os.fsencode(path), threads, **settings)
        else:
            file = _compiled.read_coco_bytes(source.read(), threads, **settings)
    except _compiled.CocoError as error:
        raise InputError(f"{source}: {error}") from None
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}") from None
    if file.is_dataset and not file.has_annotations:
        raise InputError(f"{source}: `annotations` must be a list; got nothing")
    if role == "truths":
        keep(role, source.path, ParsedFile(file, name))
    return file


def _records(source: Source, file: Any, options: Options, **more: Any) -> Records:
    boxes, kind = file.boxes, "annotation" if file.is_dataset else "result"
    is_truth = "score" not in more

    def location(row: int) -> str:
        name = f"{source}: {kind} {row}"
        return name if boxes.id is None else f"{name} (id {boxes.id[row]})"

    image = _keys(boxes.image, boxes.image_names)
    if file.images is not None and len(file.images.id):
        listed = _keys(file.images.id, file.images.names)
        if len(image) and isinstance(listed, Named) != isinstance(image, Named):
            wanted, got = ("a string", "an integer") if isinstance(listed, Named) else ("an integer", "a string")
            raise InputError(f"{location(0)}: `image_id` must be {wanted}, as the ids of `images` are; got {got}")
        more |= _images(source, file.images, listed)
        more["coverage"] = coverage_rows(source, file.images, listed, boxes)
        if isinstance(listed, Named):
            image = Named.of(image.tolist(), also=listed.names)
    if file.categories is not None:
        more["class_names"] = dict(zip(file.categories.id.tolist(), file.categories.name, strict=True))
        more["class_groups"] = class_groups(source, file.categories)
        if more.get("coverage") is not None and more["class_groups"] is None:
            more["subset"] = (NO_FREQUENCY,)
    try:
        (file.complete_truths if is_truth else file.complete_detections)(num_threads(options.threads))
    except _compiled.MaskError as error:
        row, rule = error.args
        raise InputError(f"{location(row)}: `segmentation` {rule}") from None
    if boxes.segmentations is not None:
        more |= _masks(boxes.segmentations, keeps_polygons=options.keeps_polygons)
    elif options.reads(Masks) and not len(image):
        more["mask"] = Masks.from_rle([])
    fields: dict[str, Any] = {"box": boxes.box, "box_format": "xywh"}
    if boxes.oriented is not None:
        fields = OrientedRows(boxes.oriented, options.box_format or "xyxyxyxy").fields()
    is_corners = boxes.oriented is not None and boxes.oriented.shape[1] == 8
    return Records(
        image=image,
        label=boxes.category,
        **fields,
        location=location,
        source=str(source),
        terms=_KEYS | {"boxes": "segmentation"} if is_corners else _KEYS,
        id=boxes.id,
        area=boxes.area,
        **more,
    )


def _masks(segmentations: Any, *, keeps_polygons: bool) -> dict[str, Masks | Polygons]:
    """Fields of `Records` for masks: drawn, or with polygons if the file lacks the sizes of images."""
    polygons = None
    if segmentations.has_polygons and (keeps_polygons or not segmentations.is_drawn):
        polygons = Polygons(**dict(zip(("points", "part_start", "mask_start"), segmentations.polygons(), strict=True)))
    if segmentations.is_drawn:
        return {"mask": Masks(runs=segmentations.masks, polygons=polygons)}
    return {"mask": Masks(runs=segmentations.masks), **({} if polygons is None else {"polygons": polygons})}


def _poses(boxes: Any) -> dict[str, Any]:
    """The field `shapes` of `Records`, with keypoints."""
    given, poses = boxes.keypoints, PoseRows(np.zeros((0, 0, 2)), np.zeros((0, 0)))
    if given is not None:
        point = given.point.reshape(len(boxes.image), -1, 2)
        poses = PoseRows(point, given.third, given.num_labelled, has_boxes=boxes.has_boxes)
    return {"shapes": {Keypoints: poses}}


def _keys(ids: NDArray[np.int64], names: list[str] | None) -> Key:
    return ids if names is None else Named(code=ids, names=names)


def _images(source: Source, images: Any, listed: Key) -> dict[str, Any]:
    """Fields of `Records` for images: names, sizes and crowd indices."""
    keys = listed.tolist()
    if len(set(keys)) < len(keys):
        twice = next(key for key, num in Counter(keys).items() if num > 1)
        raise InputError(f"{source}: images must have different ids; got {twice!r} twice")
    sizes = {key: (width, height) for key, (width, height) in zip(keys, images.size.tolist(), strict=True) if width}
    crowded = {key: value for key, value in zip(keys, images.crowd_index.tolist(), strict=True) if value == value}
    more = {"image_sizes": sizes, "crowd_index": crowded or None}
    if isinstance(listed, Named):
        return more
    names = {key: name or str(key) for key, name in zip(keys, images.file_name, strict=True)}
    return {**more, "image_names": names}


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write a dataset; annotations are numbered 1, 2, 3, … in order."""
    host = Host.of(truths)
    box = host.left_top_sizes()
    area = host.area
    if area is None:
        area = box[:, 2] * box[:, 3] if host.mask is None else host.mask.runs.area.astype(np.float64)
        if host.oriented is not None:
            area = to_numpy(host.oriented.areas(Protocol.named("coco")))
        elif (poses := host.get(Keypoints)) is not None:  # OKS is relative to this area
            area = to_numpy(poses.areas(Protocol.named("coco_keypoints"))).astype(np.float64)
    columns = (host.image.tolist(), host.label.tolist(), box.tolist(), area.tolist(), host.is_ignored)
    shapes = [{**mask, **pose} for mask, pose in zip(_segmentations(host), _keypoints(host), strict=True)]
    lists, letters = written_lists(truths), written_letters(truths)
    images = sorted({*host.images, *lists})
    nothing: dict[str, list[int]] = {key: [] for key in COVERAGE_KEYS} if lists else {}
    dataset = {
        "images": [_image(host, image) | lists.get(image, nothing) for image in images],
        "annotations": [
            {
                "id": i,
                "image_id": image,
                "category_id": label,
                **shape,
                "bbox": box,
                "area": area,
                "iscrowd": int(flag),
            }
            for i, (shape, image, label, box, area, flag) in enumerate(zip(shapes, *columns, strict=True), start=1)
        ],
        "categories": [{"id": label, "name": name, **letters.get(label, {})} for label, name in _categories(host)],
    }
    groups = Loss(
        num=len(truths.class_groups or ()) - len(letters), what="group of a class", plural="groups of classes"
    )
    return {"": json.dumps(dataset).encode()}, [
        *host.lost("truncated flag"),
        groups,
        *host.shapes_lost(*_SHAPES),
        *host.lost(ANGLES),
        rounding_of_sizes(host, box),
    ]


def _segmentations(host: Host) -> Iterable[dict[str, Any]]:
    """The segmentation of each row: the corners of an oriented box, else kept polygons, else run lengths.

    Rows without oriented boxes and masks get an empty dict.
    """
    if host.oriented is not None:
        return [{"segmentation": [quad]} for quad in host.quads().tolist()]
    if host.mask is None:
        return [{}] * len(host)
    rle, polygons = host.mask.rle(), host.mask.polygons
    if polygons is None:
        return [{"segmentation": each} for each in rle]
    outlines = ([part.tolist() for part in polygons[row]] for row in range(len(polygons)))
    return [{"segmentation": outline or each} for outline, each in zip(outlines, rle, strict=True)]


def _keypoints(host: Host) -> Iterable[dict[str, Any]]:
    """The keypoints of each row, for truths with the number of labelled points; empty dicts without keypoints."""
    keypoints = host.get(Keypoints)
    if keypoints is None:
        return [{}] * len(host)
    numbers = keypoints.triples().reshape(len(host), -1)
    num = (numbers[:, 2::3] > 0).sum(axis=1) if keypoints.num_labelled is None else keypoints.num_labelled
    rows = [[int(x) if i % 3 == 2 and x.is_integer() else x for i, x in enumerate(row)] for row in numbers.tolist()]
    if host.score is not None:
        return [{"keypoints": row} for row in rows]
    counts = to_numpy(num).astype(np.int64).tolist()
    return [{"keypoints": row, "num_keypoints": count} for row, count in zip(rows, counts, strict=True)]


def _image(host: Host, image: int) -> dict[str, Any]:
    name: dict[str, Any] = {"id": image, "file_name": host.image_names.get(image, str(image))}
    if image in host.crowd_index:
        name["crowdIndex"] = host.crowd_index[image]
    if image not in host.sizes:
        return name
    return name | {"width": host.sizes[image][0], "height": host.sizes[image][1]}


def _categories(host: Host) -> list[tuple[int, str]]:
    if host.class_names is not None:
        return list(host.class_names.items())
    return [(label, str(label)) for label in np.unique(host.label).tolist()]


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write a list of results, in order."""
    host = Host.of(detections, truths)
    box = host.left_top_sizes()
    boxes = [{"bbox": each} for each in box.tolist()]
    if host.get(Keypoints) is not None and not host.has_boxes:
        boxes = [{}] * len(host)  # readers compute the boxes around the points
    shapes = (_segmentations(host), _keypoints(host))
    columns = (host.image.tolist(), host.label.tolist(), boxes, host.scores.tolist(), *shapes)
    results = [
        {"image_id": image, "category_id": label, **box, "score": score, **mask, **pose}
        for image, label, box, score, mask, pose in zip(*columns, strict=True)
    ]
    area = host.own_areas().get("area")
    lost = Loss(num=0 if area is None else int((area != box[:, 2] * box[:, 3]).sum()), what="area")
    return {"": json.dumps(results).encode()}, [
        *host.shapes_lost(*_SHAPES),
        *host.lost(ANGLES),
        rounding_of_sizes(host, box),
        lost,
    ]
