"""PASCAL VOC: one XML file per image, and one results file per class, `comp4_det_test_CLASS.txt`."""

import re
import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of
from boxscore._support.text import count
from boxscore.data.dataset import Detections, Truths
from boxscore.formats import xml
from boxscore.formats.files import Output, Source, decode
from boxscore.formats.records import Named, Options, Records, RowsWarning, locations
from boxscore.formats.writers import Host, Loss, files_of_classes, named_classes, number, rounding_of_corners

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def recognises(source: Source, role: str) -> bool:
    """Whether the source has VOC annotations, or for detections files named like VOC results."""
    if role == "detections":
        names = source.files(".txt") if source.is_folder else [source.name]
        return any(is_result(name) for name in names)
    if not source.is_folder:
        return source.suffix == ".xml" and _is_annotation(source.read())
    return any(_is_annotation(source.read(file)) for file in source.files(".xml")[:10])


def is_result(file: str) -> bool:
    """Whether a file is named like results: comp*_det_*.txt.

    >>> is_result("results/comp4_det_test_cat.txt"), is_result("labels/000001.txt")
    (True, False)
    """
    if "_det_" not in file:
        return False
    base = base_of(file)
    return base.startswith("comp") and "_det_" in base and base.endswith(".txt")


def is_image_set(file: str) -> bool:
    """Whether a file is in a folder of image sets.

    >>> is_image_set("VOC2007/ImageSets/Main/test.txt"), is_image_set("labels/test.txt")
    (True, False)
    """
    return "ImageSets" in file and "ImageSets" in file.split("/")[:-1]


def _is_annotation(content: bytes) -> bool:
    head = content[:4000].replace(b"\0", b"")  # UTF-16 has zero bytes
    return b"<annotation>" in head or b"<annotation " in head


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """Read the objects in a file, folder or zip of annotations. Images and classes are numbered by name."""
    files = _annotations(source)
    names: list[str] = []
    corners: list[bytes | str] = []
    flags: list[bytes | str] = []
    cuts: list[bytes | str] = []
    offsets = [0]
    sizes: dict[str, tuple[int, int]] = {}
    images = source.image_names(files)
    for image, file, content in zip(images, files, source.read_all(files), strict=True):
        found, size = _scan(content) or _parse(content, source.location(file))
        for name, cut, difficult, *box, late in found:
            names.append(name)
            cuts.append(cut)
            flags.append(difficult or late)
            corners += box
        offsets.append(len(names))
        if size is not None:
            sizes[image] = size
    location = locations(offsets[:-1], lambda file, row: f"{source.location(files[file])}: object {row}")
    class_names = _decoded(names, location)
    counts = np.diff(offsets)
    return Records(
        image=Named(code=np.repeat(np.arange(len(files)), counts), names=images),
        label=Named.of(class_names),
        box=_corner_columns(corners, location),
        box_format="xyxy",
        location=location,
        source=str(source),
        ignore=_are_set(flags),
        truncated=_are_set(cuts) if any(cuts) else None,
        image_sizes=sizes,
    )


def _are_set(flags: Sequence[bytes | str]) -> NDArray[np.bool_]:
    return np.array([flag.strip() in (b"1", "1") for flag in flags], bool)


def _annotations(source: Source) -> list[str]:
    if not source.is_folder:
        return [""]
    files = source.files(".xml")
    inside = [file for file in files if "Annotations" in file.split("/")[:-1]]
    if not files:
        raise InputError(f"{source}: the folder has no annotations (.xml)")
    return inside or files


# A fast path for files as VOC and the usual tools write them: a folder is read in a quarter of the time ("VOC" in
# benchmarks/files.py). The grammar below is a subset of XML: files that it matches get the same result as from the XML
# parser, which reads all other files. All repetitions are possessive, so that no input takes more than linear time.
_SPACE = rb"[ \t\r\n]*+"
_TEXT = rb"[^<>&\x00-\x08\x0b\x0c\x0e-\x1f]*+"
_NAME = rb"([^<>&\x00-\x1f]++)"
_NUMBER = rb"%b([0-9eE.+\-]++)%b" % (_SPACE, _SPACE)
_TAG = rb"[A-Za-z_][A-Za-z0-9_.\-]*+"
_OTHER_TAG = rb"(?!(?:object|size)[ \t\r\n/>])" + _TAG
_FLAG = rb"[0-9A-Za-z.+\- \t\r\n]"
_POSES = rb"(?:%b<(?:pose>%b</pose>|occluded>%b</occluded>))*+" % (_SPACE, _TEXT, _TEXT)
_TRUNCATED = rb"(?:%b<truncated>(%b)</truncated>)?+" % (_SPACE, _FLAG + b"*+")
_DIFFICULT = rb"(?:%b<difficult>(%b)</difficult>)?+" % (_SPACE, _FLAG + b"++")
_BOX = b"".join(rb"%b<%b>%b</%b>" % (_SPACE, corner.encode(), _NUMBER, corner.encode()) for corner in _CORNERS)
_OBJECT = (
    rb"<object>%b<name>%b</name>" % (_SPACE, _NAME)
    + _POSES + _TRUNCATED + _POSES + _DIFFICULT + _POSES
    + rb"%b<bndbox>%b%b</bndbox>" % (_SPACE, _BOX, _SPACE)
    + _POSES + _DIFFICULT + _POSES + _SPACE + rb"</object>"
)  # fmt: skip
_SIDE = rb"%b([0-9]{1,9}+)%b" % (_SPACE, _SPACE)
_SIZE = (
    rb"<size>%b<width>%b</width>%b<height>%b</height>" % (_SPACE, _SIDE, _SPACE, _SIDE)
    + rb"(?:%b<depth>%b</depth>)?+%b</size>" % (_SPACE, _TEXT, _SPACE)
)  # fmt: skip
_LEAF = rb"<(?P<leaf>%b)>%b</(?P=leaf)>" % (_OTHER_TAG, _TEXT)
_BRANCH = rb"<(?P<branch>%b)>(?:%b<(?P<twig>%b)>%b</(?P=twig)>)*+%b</(?P=branch)>" % (
    _OTHER_TAG, _SPACE, _OTHER_TAG, _TEXT, _SPACE,
)  # fmt: skip
_CHILD = re.compile(_SPACE + b"(?:%b|%b|%b|%b|([^ \t\r\n][\\s\\S]*+))" % (_OBJECT, _SIZE, _LEAF, _BRANCH))
"""A child of the root; the last group matches an unknown one with everything after it."""
_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:<\?xml version=([\"'])1\.0\1(?: encoding=([\"'])(?i:utf-8)\2)?+ ?\?>)?+"
    rb"%b<annotation(?: verified=\"[a-z]*+\")?+>" % _SPACE
)

_Found = tuple[Sequence[Sequence[Any]], tuple[int, int] | None]


def _scan(content: bytes) -> _Found | None:
    """Fast path: parse the objects and the size of a file in the subset of XML above; None for other files."""
    head = _HEAD.match(content)
    body, mark, tail = content.rpartition(b"</annotation>")
    if head is None or not mark or tail.strip(b" \t\r\n") or not (content.isascii() or _is_text(content)):
        return None
    found, size = [], None
    for child in _CHILD.findall(content, head.end(), len(body.rstrip(b" \t\r\n"))):
        if child[0]:
            found.append(child[:8])
        elif child[8]:
            if size is not None:
                return None
            size = (int(child[8]), int(child[9]))
        elif child[-1]:
            return None
    return found, None if size is None else _positive(*size)


def _is_text(content: bytes) -> bool:
    """Whether the content is UTF-8 without U+FFFE and U+FFFF, which XML does not allow."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\xef\xbf\xbe" not in content and b"\xef\xbf\xbf" not in content


def _positive(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


def _parse(content: bytes, location: str) -> _Found:
    """General path: parse the objects and the size of any file."""
    root = xml.parse(content, location)
    if root.tag != "annotation":
        raise InputError(f"{location}: must have <annotation> as its root; got <{root.tag}>")
    found = []
    for i, thing in enumerate(root.iter("object")):
        corners = [thing.findtext(f"bndbox/{corner}") for corner in _CORNERS]
        name = thing.findtext("name")
        if name is None or None in corners:
            raise InputError(f"{location}: object {i} must have `name` and `bndbox` with {', '.join(_CORNERS)}")
        found.append((name, thing.findtext("truncated", ""), thing.findtext("difficult", "0"), *corners, ""))
    try:
        size = _positive(int(root.findtext("size/width", "0")), int(root.findtext("size/height", "0")))
    except ValueError:
        size = None
    return found, size


def _decoded(names: Sequence[Any], location: Any) -> list[str]:
    known: dict[Any, str] = {}
    for row, name in enumerate(names):
        if name not in known:
            text = name.decode() if isinstance(name, bytes) else name
            known[name] = text.strip()
            if not known[name]:
                raise InputError(f"{location(row)}: `name` must not be empty")
    return [known[name] for name in names]


def _corner_columns(corners: Sequence[Any], location: Any) -> Any:
    try:
        return np.fromiter(map(float, corners), np.float64, len(corners)).reshape(-1, 4)
    except ValueError:
        for row in range(0, len(corners), 4):
            box = [x.decode("utf-8", "replace") if isinstance(x, bytes) else x for x in corners[row : row + 4]]
            try:
                list(map(float, box))
            except ValueError:
                raise InputError(f"{location(row // 4)}: `bndbox` must have 4 numbers; got {box}") from None
        raise


def read_detections(source: Source, options: Options) -> Records:
    """Read the rows of all results files in a folder: image, score and four corners in each line."""
    files = [file for file in source.files(".txt") if is_result(file)] if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no results (comp*_det_*_CLASS.txt)")
    classes: dict[str, str] = {}
    stems: list[bytes] = []
    numbers: list[bytes] = []
    lines: list[int] = []
    offsets = [0]
    for file in files:
        name = _class_of(base_of(file) or source.name, options.known_classes, source.location(file))
        if name in classes:
            raise InputError(f"{source.location(file)}: class {name!r} also has results in {base_of(classes[name])}")
        classes[name] = file
        for line, text in enumerate(source.read(file).removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
            fields = text.split()
            if len(fields) != 6:
                if not fields:
                    continue
                raise _not_a_result(source.location(file), line, text)
            stems.append(fields[0])
            numbers += fields[1:]
            lines.append(line)
        offsets.append(len(lines))
    file_of = locations(offsets[:-1], lambda file, _: source.location(files[file]))

    def location(row: int) -> str:
        return f"{file_of(row)}: line {lines[row]}"

    try:
        table = np.fromiter(map(float, numbers), np.float64, len(numbers)).reshape(-1, 5)
    except ValueError:
        for row in range(len(lines)):
            fields = [stems[row], *numbers[5 * row : 5 * row + 5]]
            try:
                list(map(float, fields[1:]))
            except ValueError:
                raise _not_a_result(file_of(row), lines[row], b" ".join(fields)) from None
        raise
    is_inverted = (table[:, 3:] < table[:, 1:3]).any(axis=1)
    if is_inverted.any():
        # As in the devkit, such a box overlaps nothing and is a false positive. Columns must not have negative sizes.
        num, first = int(is_inverted.sum()), location(int(np.argmax(is_inverted)))
        boxes, order = count(num, "box", "boxes"), "corners in the wrong order"
        fate = "each becomes a box of one pixel width or height, and so a false positive"
        message = f"{order} ({boxes}, first in {first}); {fate}"
        warnings.warn(
            RowsWarning(message, num=num, what=f"{boxes} with {order}", fate=fate, location=first), stacklevel=4
        )
        table[:, 3:] = np.maximum(table[:, 3:], table[:, 1:3])
    names = Named.of(stems)  # type: ignore[arg-type]
    return Records(
        image=Named(code=names.code, names=[decode(stem, str(source)) for stem in names.names]),  # type: ignore[arg-type]
        label=Named(code=np.repeat(np.arange(len(files)), np.diff(offsets)), names=list(classes)),
        box=np.ascontiguousarray(table[:, 1:]),
        box_format="xyxy",
        score=np.ascontiguousarray(table[:, 0]),
        location=location,
        source=str(source),
    )


def _not_a_result(location: str, line: int, text: bytes) -> InputError:
    shown = text.decode("utf-8", "replace")
    return InputError(f"{location}: line {line} must have an image, a score and 4 corners; got {shown!r}")


def _class_of(file: str, known: Sequence[str], location: str) -> str:
    """The longest known class that the file name ends with; else the part after the name of the image set."""
    stem = file.removesuffix(".txt")
    names = [name for name in known if stem.endswith(f"_{name}")]
    if names:
        return max(names, key=len)
    mark = stem.find("_det_") if is_result(file) else -1
    while mark >= 0:
        end_of_set = stem.find("_", mark + 5)
        if end_of_set > mark + 5 and end_of_set + 1 < len(stem):
            return stem[end_of_set + 1 :]
        mark = stem.find("_det_", mark + 1)
    raise InputError(f"{location}: the file name must be comp*_det_SET_CLASS.txt; got {file[:80]!r}")


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write `Annotations/STEM.xml` for every image, and `ImageSets/Main/all.txt` with their names."""
    host = Host.of(truths)
    box = host.corners()
    stems = host.file_stems()
    names = named_classes(host)
    ignore = host.is_ignored
    truncated = [None] * len(host) if host.truncated is None else host.truncated.tolist()
    labels, corners = host.label.tolist(), box.tolist()
    output = {}
    for image, rows in host.by_image().items():
        objects = [_object(names[labels[row]], truncated[row], ignore[row], corners[row]) for row in rows]
        output[f"Annotations/{stems[image]}.xml"] = _annotation(host, image, stems[image], objects).encode()
    output["ImageSets/Main/all.txt"] = "".join(f"{stem}\n" for stem in sorted(stems.values())).encode()
    losses = [
        *host.shapes_lost(),
        *host.lost("crowd index", "area", "image id", "class id", "class without boxes"),
        rounding_of_corners(host, box),
    ]
    return output, losses


def _annotation(host: Host, image: int, stem: str, objects: Sequence[str]) -> str:
    name = base_of(host.image_names.get(image, stem))
    size = ""
    if image in host.sizes:
        width, height = host.sizes[image]
        size = f"\t<size>\n\t\t<width>{width}</width>\n\t\t<height>{height}</height>\n\t</size>\n"
    return f"<annotation>\n\t<filename>{escape(name, quote=False)}</filename>\n{size}{''.join(objects)}</annotation>\n"


def _object(name: str, is_truncated: bool | None, is_difficult: bool, box: Sequence[float]) -> str:
    corners = "".join(f"\t\t\t<{tag}>{number(x)}</{tag}>\n" for tag, x in zip(_CORNERS, box, strict=True))
    truncated = "" if is_truncated is None else f"\t\t<truncated>{int(is_truncated)}</truncated>\n"
    return (
        f"\t<object>\n\t\t<name>{escape(name, quote=False)}</name>\n"
        f"{truncated}\t\t<difficult>{int(is_difficult)}</difficult>\n"
        f"\t\t<bndbox>\n{corners}\t\t</bndbox>\n\t</object>\n"
    )


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write `comp4_det_test_CLASS.txt` for every class; rows stay in order."""
    host = Host.of(detections, truths)
    box = host.corners()
    output = files_of_classes(host, "comp4_det_test_", "VOC", box)
    return output, [*host.shapes_lost(), rounding_of_corners(host, box)]
