"""CrowdHuman's .odgt: one JSON object per line, with the persons of one image."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import Detections, Truths
from boxscore.formats.files import Output, Source, is_json_number, parse_json
from boxscore.formats.records import Named, Options, Records, RowBuilder
from boxscore.formats.selection import some
from boxscore.formats.tables import shown
from boxscore.formats.writers import Host, Loss, named_classes, rounding_of_sizes

PERSON = "person"
"""The only class of the format."""

_BOXES = {"truths": "gtboxes", "detections": "dtboxes"}


class _Image(NamedTuple):
    """One line of a file."""

    name: str
    size: tuple[int, int] | None
    rows: Sequence[Mapping[str, Any]]
    location: str
    key: str
    """The key of the list of boxes."""

    def place(self, row: int) -> str:
        """The location of a box, for errors."""
        return f"{self.location}: `{self.key}` {row}"


def recognises(source: Source, role: str) -> bool:
    """Whether the head has the role's list of boxes; or the suffix is .odgt, and the other role's list is absent."""
    if source.head is None or source.suffix not in (".odgt", ".json", ".jsonl", ""):
        return False
    own, other = (_has_key(source.head, key) for key in (_BOXES[role], _BOXES[_other(role)]))
    return own or (source.suffix == ".odgt" and not other)


def _has_key(head: bytes, key: str) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and f'"{key}"'.encode() in head


def _other(role: str) -> str:
    return "truths" if role == "detections" else "detections"


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """Read the full boxes. Boxes with a tag other than "person", or with a nonzero `ignore` in `extra`, are ignored."""
    images = _images(source, "truths")
    ignore = [_is_ignored(row, place) for row, place in _boxes_of(images)]
    return Records(**_fields(source, images, "fbox"), ignore=np.array(ignore, bool))


def read_detections(source: Source, options: Options) -> Records:  # noqa: ARG001
    """Read the boxes with scores; all are persons, regardless of their `tag`."""
    images = _images(source, "detections")
    score = [_number(row, "score", place) for row, place in _boxes_of(images)]
    return Records(**_fields(source, images, "box"), score=np.array(score, np.float64))


def image_sizes_of(source: Source) -> dict[Any, tuple[int, int]]:
    """Read the sizes of images by name from truths or detections; some or all may be missing."""
    role = "truths" if recognises(source, "truths") else "detections"
    return _sizes(_images(source, role))


def _fields(source: Source, images: Sequence[_Image], box_key: str) -> dict[str, Any]:
    """The fields of `Records` that truths and detections share."""
    rows = RowBuilder(source, lambda index, number: images[index].place(number))
    for image in images:
        rows.begin(image.name)
        for number, row in enumerate(image.rows):
            rows.add(PERSON, _box(row, box_key, image.place(number)), number)
    return {
        **rows.fields(),
        "label": Named(code=np.zeros(len(rows.names), np.int64), names=[PERSON]),
        "box": rows.values(4),
        "box_format": "xywh",
        "image_sizes": _sizes(images) or None,
        "terms": {"boxes": box_key},
    }


def _sizes(images: Sequence[_Image]) -> dict[Any, tuple[int, int]]:
    return {image.name: image.size for image in images if image.size is not None}


def _boxes_of(images: Sequence[_Image]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every box with its location."""
    return ((row, image.place(number)) for image in images for number, row in enumerate(image.rows))


def _images(source: Source, role: str) -> list[_Image]:
    """Read the lines of a file, or the entries of a JSON list, as mmdetection writes them."""
    key = _BOXES[role]
    images: list[_Image] = []
    seen: dict[str, str] = {}
    for value, location in _objects(source):
        if not isinstance(value, dict):
            raise InputError(f"{location}: must be an object with `ID` and `{key}`; got {shown(value)}")
        name = _name(value.get("ID"), location)
        if name in seen:
            raise InputError(f"{location}: `ID` must be unique; got {shown(name)}, as {seen[name]} has")
        seen[name] = location.removeprefix(f"{source}: ")
        rows = value.get(key)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            got = shown(rows) if key in value else f"an object with {some(value, 5)}"
            raise InputError(f"{location}: `{key}` must be a list of objects, one per box; got {got}")
        images.append(_Image(name, _size(value, location), rows, location, key))
    return images


def _objects(source: Source) -> Iterator[tuple[Any, str]]:
    """Each object, with its location."""
    text = source.text()
    if text.lstrip()[:1] == "[":
        entries = parse_json(text, str(source))
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            yield entry, f"{source}: image {number}"
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield parse_json(line, f"{source}: line {number}"), f"{source}: line {number}"


def _name(value: Any, location: str) -> str:
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64 else value
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"{location}: `ID` must be the name of an image; got {shown(value)}")
    return name


def _size(value: Mapping[str, Any], location: str) -> tuple[int, int] | None:
    """Width and height; None unless the file has both."""
    width, height = value.get("width"), value.get("height")
    if width is None or height is None:
        return None
    if not all(type(side) in (int, float) and 0 < side < 10**9 and side == int(side) for side in (width, height)):
        got = f"{shown(width)} and {shown(height)}"
        raise InputError(f"{location}: `width` and `height` must be the sides of the image in pixels; got {got}")
    return int(width), int(height)


def _box(row: Mapping[str, Any], key: str, place: str) -> list[float]:
    box = row.get(key)
    if not isinstance(box, list) or len(box) != 4 or not all(is_json_number(side) for side in box):
        got = "nothing" if key not in row else shown(box)
        raise InputError(f"{place}: `{key}` must have 4 numbers, left, top, width, height; got {got}")
    return box


def _number(row: Mapping[str, Any], key: str, place: str) -> float:
    value: Any = row.get(key)
    if not is_json_number(value):
        got = "nothing" if key not in row else shown(value)
        raise InputError(f"{place}: `{key}` must be a number; got {got}")
    return float(value)


def _is_ignored(row: Mapping[str, Any], place: str) -> bool:
    extra = row.get("extra")
    if extra is not None and not isinstance(extra, dict):
        raise InputError(f"{place}: `extra` must be an object; got {shown(extra)}")
    ignore = (extra or {}).get("ignore", 0)
    if not is_json_number(ignore) and not isinstance(ignore, bool):
        raise InputError(f"{place}: `ignore` in `extra` must be 0 or 1; got {shown(ignore)}")
    return bool(row.get("tag") != PERSON or ignore != 0)


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write one line per image, with or without boxes; ignored truths get the tag "mask"."""
    host = Host.of(truths)
    _check_class(host)
    box = host.left_top_sizes()
    rows: list[dict[str, Any]] = [
        {"tag": "mask" if is_ignored else PERSON, "fbox": each, "extra": {"ignore": int(is_ignored)}}
        for each, is_ignored in zip(box.tolist(), host.is_ignored, strict=True)
    ]
    losses = [
        *_lost(host, box),
        *host.lost("truncated flag", "area"),
        Loss(num=sum(name != PERSON for name in (host.class_names or {}).values()), what="class name"),
        *host.lost("class id", "image id"),
    ]
    return {"": _lines(host, "gtboxes", rows)}, losses


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write one line per image of the truths."""
    host = Host.of(detections, truths)
    _check_class(host)
    box = host.left_top_sizes()
    columns = zip(box.tolist(), host.scores.tolist(), strict=True)
    rows: list[dict[str, Any]] = [{"box": each, "score": score, "tag": 1} for each, score in columns]
    return {"": _lines(host, "dtboxes", rows)}, _lost(host, box)


def _check_class(host: Host) -> None:
    """Raise `InputError` if boxes have several classes."""
    labels = np.unique(host.label).tolist()
    if len(labels) > 1:
        names = named_classes(host)
        got = some((names[label] for label in labels), 5)
        raise InputError(f"CrowdHuman's format has one class, {PERSON}; got boxes of {len(labels)}: {got}; select one")


def _lost(host: Host, box: Any) -> list[Loss]:
    """The losses of both truths and detections."""
    return [*host.shapes_lost(), *host.lost("crowd index"), rounding_of_sizes(host, box)]


def _lines(host: Host, key: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    stems = host.stems()
    lines = []
    for image, of_image in host.by_image().items():
        width, height = host.sizes.get(image, (None, None))
        size = {} if width is None else {"width": width, "height": height}
        lines.append(json.dumps({"ID": stems[image], **size, key: [rows[row] for row in of_image]}, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode()
