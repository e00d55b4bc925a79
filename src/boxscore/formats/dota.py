"""DOTA: one file of labels per image, and one file of results per class, `Task1_CLASS.txt`; boxes have four corners.

A label is `x1 y1 x2 y2 x3 y3 x4 y4 class difficult`; the lines `imagesource:` and `gsd:` before them are not read. A
result is `image score x1 y1 x2 y2 x3 y3 x4 y4`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import base_of, stem_of
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.oriented_boxes import OrientedBoxes, OrientedRows
from boxscore.formats.class_names import NAMES_FILES, find_names
from boxscore.formats.files import Output, Source
from boxscore.formats.records import Options, Records, RowBuilder
from boxscore.formats.writers import ANGLES, Host, Loss, check_no_spaces, files_of_classes, named_classes, number

_HEADERS = ("imagesource", "gsd")
_RESULT = "task1_"
_LABELS = "labeltxt"
_NO_LABELS = (*NAMES_FILES, "readme.txt", "license.txt", "train.txt", "val.txt", "test.txt")


def recognises(source: Source, role: str) -> bool:
    """Whether the source has files named like results, or lines with eight numbers and a class that is not a number."""
    if not source.is_folder:
        return role == "detections" and _is_result(source.name)
    if role == "detections":
        return any(map(_is_result, source.files(".txt")))
    files = _label_files(source)
    for file in files[:100]:
        for line in source.read(file)[:10_000].decode("utf-8-sig", "replace").splitlines():
            words = line.split()
            if words and not _is_header(line):
                return len(words) in (9, 10) and _numbers(words[:8]) is not None and _numbers(words[8:9]) is None
    return any(_is_inside(file) for file in files)


def kinds_of(source: Source, role: str) -> list[type[Geometry]]:  # noqa: ARG001
    """Oriented boxes."""
    return [OrientedBoxes]


def _is_result(file: str) -> bool:
    return base_of(file).lower().startswith(_RESULT) and file.lower().endswith(".txt")


def _is_header(line: str) -> bool:
    return line.strip().lower().startswith(_HEADERS)


def _is_inside(file: str) -> bool:
    """Whether a file is in a folder whose name begins with labelTxt: DOTA 1.5 has `labelTxt-v1.5`."""
    return any(folder.lower().startswith(_LABELS) for folder in file.split("/")[:-1])


def _label_files(source: Source) -> list[str]:
    """The label files of a folder: the files in folders called labelTxt if any, else all but results and lists."""
    files = [file for file in source.files(".txt") if not _is_result(file)]
    inside = [file for file in files if _is_inside(file)]
    return inside or [file for file in files if base_of(file).lower() not in _NO_LABELS]


def _numbers(words: Sequence[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None


def read_truths(source: Source, options: Options) -> Records:  # noqa: ARG001
    """Read the boxes of every file. Images are numbered by name; classes by a list of names if any, else by name."""
    files = _label_files(source) if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no label files (labelTxt/*.txt)")
    rows = _rows(source, files)
    for file, name in zip(files, source.image_names(files), strict=True):
        rows.begin(name)
        for line, content in source.lines(file):
            if _is_header(content):
                continue
            words = content.split()
            corners = _numbers(words[:8]) if len(words) in (9, 10) else None
            is_difficult = words[9:] or ["0"]
            if corners is None or is_difficult[0] not in ("0", "1", "2"):
                wanted = "x1 y1 x2 y2 x3 y3 x4 y4 class, and 0 or 1 if it is difficult"
                raise InputError(f"{source.location(file)}: line {line} must be `{wanted}`; got {content[:100]!r}")
            rows.add(words[8], corners, line, is_ignored=is_difficult[0] != "0")
    listed = find_names(source) if source.is_folder else None
    return Records(
        **rows.fields(),
        **OrientedRows(rows.values(8)).fields(),
        ignore=rows.ignore,
        class_names=None if listed is None or not {*rows.names} <= {*listed[0].values()} else listed[0],
    )


def _rows(source: Source, files: Sequence[str]) -> RowBuilder:
    return RowBuilder(source, lambda file, line: f"{source.location(files[file])}: line {line}")


def read_detections(source: Source, options: Options) -> Records:
    """Read the boxes of every class. Each line names its image; the class is a part of the file's name."""
    files = [file for file in source.files(".txt") if _is_result(file)] if source.is_folder else [""]
    if not files:
        raise InputError(f"{source}: the folder has no results (Task1_CLASS.txt)")
    rows = _rows(source, files)
    for file in files:
        rows.begin(_class_of(file or source.name, options.known_classes))
        for line, content in source.lines(file):
            words = content.split()
            numbers = _numbers(words[1:]) if len(words) == 10 else None
            if numbers is None:
                wanted = "image score x1 y1 x2 y2 x3 y3 x4 y4"
                raise InputError(f"{source.location(file)}: line {line} must be `{wanted}`; got {content[:100]!r}")
            rows.add(words[0], numbers, line)
    numbers_of = rows.values(9)
    return Records(
        **rows.fields(is_by_class=True),
        **OrientedRows(np.ascontiguousarray(numbers_of[:, 1:])).fields(),
        score=np.ascontiguousarray(numbers_of[:, 0]),
    )


def _class_of(file: str, known: Sequence[str]) -> str:
    """The class in a file name, after `Task1_`, in the truths' spelling."""
    name = stem_of(base_of(file))[len(_RESULT) :]
    return next((each for each in known if each.casefold() == name.casefold()), name)


def write_truths(truths: Truths) -> tuple[Output, list[Loss]]:
    """Write `labelTxt/STEM.txt` for every image."""
    host = Host.of(truths)
    names, stems, quads = _class_names(host), host.file_stems(), host.quads().tolist()
    labels, ignore = host.label.tolist(), host.is_ignored
    output = {}
    for image, rows in host.by_image().items():
        lines = [f"{' '.join(map(number, quads[row]))} {names[labels[row]]} {int(ignore[row])}\n" for row in rows]
        output[f"labelTxt/{stems[image]}.txt"] = "".join(lines).encode()
    others = ("area", "image id", "class id", "class without boxes", "image size")
    losses = host.lost("crowd index", "truncated flag", ANGLES, *others)
    return output, [*host.shapes_lost(OrientedBoxes), *losses]


def write_detections(detections: Detections, truths: Truths) -> tuple[Output, list[Loss]]:
    """Write `Task1_CLASS.txt` for every class; rows stay in order."""
    host = Host.of(detections, truths)
    _class_names(host)
    output = files_of_classes(host, "Task1_", "DOTA", host.quads())
    return output, [*host.shapes_lost(OrientedBoxes), *host.lost(ANGLES)]


def _class_names(host: Host) -> Mapping[int, str]:
    """Class names by label; a name with a space is an error, so that labels can be written for the same classes."""
    names = named_classes(host)
    check_no_spaces("class", names.values(), "DOTA labels")
    return names
