"""PASCAL VOC: one XML file an image, and one results file a class, `comp4_det_test_CLASS.txt`."""

import re
import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.formats import xml
from boxscore.formats.files import Output, Source, base_of, decode, stem_of
from boxscore.formats.records import Named, Options, Records, RowsWarning, places
from boxscore.formats.writing import Host, Loss, changed, check_file_name, number
from boxscore.text import count

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_RESULTS = re.compile(r"comp[^/]*_det_[^/]*\.txt$")
_CLASS = re.compile(r"comp[^/]*?_det_[^/_]+_(.+)\.txt$")


def recognises(source: Source, role: str) -> bool:
    """Whether it holds annotations of VOC, or files named as its results are."""
    if role == "detections":
        names = source.files(".txt") if source.is_folder else [source.name]
        return any(_RESULTS.match(base_of(name)) for name in names)
    if not source.is_folder:
        return source.suffix == ".xml" and _is_annotation(source.read())
    return any(_is_annotation(source.read(file)) for file in source.files(".xml")[:10])


def _is_annotation(content: bytes) -> bool:
    head = content[:4000].replace(b"\0", b"")  # whichever the encoding
    return b"<annotation>" in head or b"<annotation " in head


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """The objects in a folder or zip of annotations. Images are numbered by name; classes alphabetically."""
    files = _annotations(source)
    names: list[str] = []
    corners: list[bytes | str] = []
    flags: list[bytes | str] = []
    cuts: list[bytes | str] = []
    offsets = [0]
    sizes: dict[str, tuple[int, int]] = {}
    images = _image_names(files) if source.is_folder else [stem_of(source.name)]
    for image, file, content in zip(images, files, source.read_all(files), strict=True):
        found, size = _scan(content) or _parse(content, source.place(file))
        for name, cut, difficult, *box, late in found:
            names.append(name)
            cuts.append(cut)
            flags.append(difficult or late)
            corners += box
        offsets.append(len(names))
        if size is not None:
            sizes[image] = size
    place = places(offsets[:-1], lambda file, row: f"{source.place(files[file])}: object {row}")
    class_names = _decoded(names, place)
    counts = np.diff(offsets)
    return Records(
        image=Named(code=np.repeat(np.arange(len(files)), counts), names=images),
        label=Named.of(class_names),
        box=_corner_columns(corners, place),
        box_format="xyxy",
        place=place,
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
        raise InputError(f"{source}: no annotation (.xml) in it")
    return inside or files


def _image_names(files: Sequence[str]) -> list[str]:
    """The stems of the files, or, where two are the same, all of them with their folders."""
    stems = [stem_of(file) for file in files]
    return stems if len(set(stems)) == len(stems) else [file.removesuffix(".xml") for file in files]


# A fast path for files as VOC and the usual tools write them. What it can't be sure of goes to the XML parser.
_SIMPLE = rb"(?:\s*<(?:pose|occluded)>[^<&]*</(?:pose|occluded)>)*"
_TRUNCATED = rb"(?:\s*<truncated>([^<&]*)</truncated>)?"
_OBJECT = re.compile(
    rb"<object>\s*<name>([^<&]+)</name>" + _SIMPLE + _TRUNCATED + _SIMPLE
    + rb"(?:\s*<difficult>([^<&]*)</difficult>)?" + _SIMPLE +
    rb"\s*<bndbox>\s*<xmin>([^<&]+)</xmin>\s*<ymin>([^<&]+)</ymin>\s*<xmax>([^<&]+)</xmax>\s*<ymax>([^<&]+)</ymax>\s*</bndbox>"
    + _SIMPLE + rb"(?:\s*<difficult>([^<&]*)</difficult>)?" + _SIMPLE + rb"\s*</object>"
)  # fmt: skip
_SIZE = re.compile(rb"<size>\s*<width>\s*([0-9]{1,9})\s*</width>\s*<height>\s*([0-9]{1,9})\s*</height>")
_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>\s*)?<annotation[ >]")

_Found = tuple[Sequence[Sequence[Any]], tuple[int, int] | None]


def _scan(content: bytes) -> _Found | None:
    """Objects and size of a file that is as plain as most are, else None."""
    found = _OBJECT.findall(content)
    if len(found) != content.count(b"<object") or b"<!" in content or not content.rstrip().endswith(b"</annotation>"):
        return None
    prolog = _PROLOG.match(content)
    if prolog is None or (b"encoding" in prolog[0] and b"utf-8" not in prolog[0].lower()):
        return None
    size = _SIZE.search(content)
    return found, _positive(int(size[1]), int(size[2])) if size else None


def _positive(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if 0 < width < 10**9 and 0 < height < 10**9 else None


def _parse(content: bytes, place: str) -> _Found:
    """The same for any file."""
    root = xml.parse(content, place)
    if root.tag != "annotation":
        raise InputError(f"{place}: must have <annotation> as its root; got <{root.tag}>")
    found = []
    for i, thing in enumerate(root.iter("object")):
        corners = [thing.findtext(f"bndbox/{corner}") for corner in _CORNERS]
        name = thing.findtext("name")
        if name is None or None in corners:
            raise InputError(f"{place}: object {i} must have `name` and `bndbox` with {', '.join(_CORNERS)}")
        found.append((name, thing.findtext("truncated", ""), thing.findtext("difficult", "0"), *corners, ""))
    try:
        size = _positive(int(root.findtext("size/width", "0")), int(root.findtext("size/height", "0")))
    except ValueError:
        size = None
    return found, size


def _decoded(names: Sequence[Any], place: Any) -> list[str]:
    known: dict[Any, str] = {}
    for row, name in enumerate(names):
        if name not in known:
            text = decode(name, place(row)) if isinstance(name, bytes) else name
            known[name] = text.strip()
            if not known[name]:
                raise InputError(f"{place(row)}: `name` must not be empty")
    return [known[name] for name in names]


def _corner_columns(corners: Sequence[Any], place: Any) -> Any:
    try:
        return np.fromiter(map(float, corners), np.float64, len(corners)).reshape(-1, 4)
    except ValueError:
        for row in range(0, len(corners), 4):
            box = [x.decode("utf-8", "replace") if isinstance(x, bytes) else x for x in corners[row : row + 4]]
            try:
                list(map(float, box))
            except ValueError:
                raise InputError(f"{place(row // 4)}: `bndbox` must have 4 numbers; got {box}") from None
        raise


def read_detections(source: Source, options: Options) -> Records:
    """The rows of all results files in a folder: image, score and four corners in each line."""
    files = [file for file in source.files(".txt") if _RESULTS.match(base_of(file))] if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: no results (comp*_det_*_CLASS.txt) in it")
    classes: dict[str, str] = {}
    stems: list[bytes] = []
    numbers: list[bytes] = []
    lines: list[int] = []
    offsets = [0]
    for file in files:
        name = _class_of(base_of(file) or source.name, options.known_classes, source.place(file))
        if name in classes:
            raise InputError(f"{source.place(file)}: class {name!r} has results in {base_of(classes[name])}, too")
        classes[name] = file
        for line, text in enumerate(source.read(file).removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
            fields = text.split()
            if len(fields) != 6:
                if not fields:
                    continue
                raise _not_a_result(source.place(file), line, text)
            stems.append(fields[0])
            numbers += fields[1:]
            lines.append(line)
        offsets.append(len(lines))
    starts = offsets[:-1]
    index = places(starts, lambda file, row: f"{file} {row}")

    def place(row: int) -> str:
        file = int(index(row).split()[0])
        return f"{source.place(files[file])}: line {lines[row]}"

    try:
        table = np.fromiter(map(float, numbers), np.float64, len(numbers)).reshape(-1, 5)
    except ValueError:
        for row in range(len(lines)):
            fields = [stems[row], *numbers[5 * row : 5 * row + 5]]
            try:
                list(map(float, fields[1:]))
            except ValueError:
                where = place(row).rpartition(": line ")[0]
                raise _not_a_result(where, lines[row], b" ".join(fields)) from None
        raise
    is_inverted = (table[:, 3:] < table[:, 1:3]).any(axis=1)
    if is_inverted.any():
        # As the devkit has it, such a box overlaps nothing and is a false positive. Columns hold no negative sizes.
        num, first = int(is_inverted.sum()), place(int(np.argmax(is_inverted)))
        boxes, order = count(num, "box", "boxes"), "corners in the wrong order"
        fate = "each is taken as a box one pixel thin, so it counts as a false positive"
        message = f"{order} ({boxes}, first in {first}); {fate}"
        warnings.warn(RowsWarning(message, num=num, what=f"{boxes} with {order}", fate=fate, place=first), stacklevel=4)
        table[:, 3:] = np.maximum(table[:, 3:], table[:, 1:3])
    names = Named.of(stems)  # type: ignore[arg-type]
    return Records(
        image=Named(code=names.code, names=[decode(stem, str(source)) for stem in names.names]),  # type: ignore[arg-type]
        label=Named(code=np.repeat(np.arange(len(files)), np.diff(offsets)), names=list(classes)),
        box=np.ascontiguousarray(table[:, 1:]),
        box_format="xyxy",
        score=np.ascontiguousarray(table[:, 0]),
        place=place,
        source=str(source),
    )


def _not_a_result(place: str, line: int, text: bytes) -> InputError:
    shown = text.decode("utf-8", "replace")
    return InputError(f"{place}: line {line} must have an image, a score and 4 corners; got {shown!r}")


def _class_of(file: str, known: Sequence[str], place: str) -> str:
    """The longest class name that the file's name ends in, as sets have names, too; else what follows the set."""
    stem = file.removesuffix(".txt")
    names = [name for name in known if stem.endswith(f"_{name}")]
    if names:
        return max(names, key=len)
    match = _CLASS.match(file)
    if match is None:
        raise InputError(f"{place}: must be named comp*_det_SET_CLASS.txt; got {file!r}")
    return match[1]


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """`Annotations/STEM.xml` for every image, and `ImageSets/Main/all.txt` with their names."""
    host = Host.of(truths)
    box = host.corners()
    stems = host.stems()
    names = host.class_names or {label: str(label) for label in np.unique(host.label).tolist()}
    ignore = [False] * len(host) if host.ignore is None else host.ignore.tolist()
    truncated = [None] * len(host) if host.truncated is None else host.truncated.tolist()
    labels, corners = host.label.tolist(), box.tolist()
    output = {}
    for image, rows in host.by_image().items():
        objects = [_object(names[labels[row]], truncated[row], ignore[row], corners[row]) for row in rows]
        output[f"Annotations/{stems[image]}.xml"] = _annotation(host, image, stems[image], objects).encode()
    output["ImageSets/Main/all.txt"] = "".join(f"{stem}\n" for stem in sorted(stems.values())).encode()
    losses = [
        Loss(num=0 if host.area is None else len(host), what="area"),
        Loss(num=0 if truths.is_numbered else len(stems), what="image id"),
        Loss(num=len(host.class_names or ()), what="class id"),
        Loss(num=len(host.empty_classes), what="class without boxes", plural="classes without boxes"),
        _rounding(host, box),
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


def _rounding(host: Host, box: Any) -> Loss:
    from boxscore.boxes import sizes

    width, height = sizes(host.box, host.box_format)
    again = np.stack([box[:, 0], box[:, 1], box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]], axis=1)
    before = np.stack([box[:, 0], box[:, 1], width, height], axis=1)
    what = "last digit of a box that was not left, top, right, bottom"
    return Loss(
        num=changed(before, again),
        what=what,
        plural=what.replace("last digit of a box that was", "last digits of boxes that were"),
    )


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """`comp4_det_test_CLASS.txt` for every class; rows in order."""
    host = Host.of(detections, truths)
    box = host.corners()
    stems = host.stems()
    for stem in stems.values():
        if len(stem.split()) != 1:
            raise InputError(f"image {stem!r} has a space in its name; results of VOC are separated by spaces")
    names = host.class_names or {label: str(label) for label in np.unique(host.label).tolist()}
    lines: dict[int, list[str]] = {label: [] for label in names}
    columns = (host.image.tolist(), host.label.tolist(), host.scores.tolist(), box.tolist())
    for image, label, score, corners in zip(*columns, strict=True):
        lines[label].append(f"{stems[image]} {number(score)} {' '.join(map(number, corners))}\n")
    output = {}
    for label, rows in lines.items():
        check_file_name(names[label])
        output[f"comp4_det_test_{names[label]}.txt"] = "".join(rows).encode()
    return output, [_rounding(host, box)]
