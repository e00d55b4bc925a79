"""PASCAL VOC: one XML file an image, and one results file a class, `comp4_det_test_CLASS.txt`."""

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from boxscore.checks import RowError
from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.text import count

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def read_truths(path: Path) -> Truths:
    """The objects in a folder or zip of annotations. Images are numbered by name; classes alphabetically."""
    image, names, box, ignore, stems = [], [], [], [], []
    places: list[str] = []
    for stem, place, xml in _annotations(path):
        stems.append(stem)
        try:
            root = ElementTree.fromstring(xml)
        except ElementTree.ParseError as error:
            raise InputError(f"{place}: not XML: {error}") from None
        for i, thing in enumerate(root.iter("object")):
            corners = [thing.findtext(f"bndbox/{corner}") for corner in _CORNERS]
            try:
                box.append([float(corner) for corner in corners if corner is not None])
            except ValueError:
                raise InputError(f"{place}: object {i}: `bndbox` must have 4 numbers; got {corners}") from None
            name = thing.findtext("name")
            if len(box[-1]) != 4 or name is None:
                raise InputError(f"{place}: object {i} must have `name` and `bndbox` with {', '.join(_CORNERS)}")
            places.append(f"{place}: object {i}")
            image.append(len(stems) - 1)
            names.append(name)
            ignore.append(thing.findtext("difficult", "0").strip() == "1")
    if not stems:
        raise InputError(f"{path}: no annotation (.xml) in it")
    classes = sorted(set(names))
    label_of = {name: label for label, name in enumerate(classes)}
    try:
        return Truths(
            image=image,
            label=[label_of[name] for name in names],
            box=np.array(box, dtype=np.float64).reshape(-1, 4),
            ignore=np.array(ignore, dtype=bool),
            box_format="xyxy",
            class_names=classes,
            image_names=dict(enumerate(stems)),
        )
    except RowError as error:
        raise InputError(f"{places[error.row]}: `{error.column}` {error.rule}") from None


def _annotations(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Stem, place and content of each annotation, by name."""
    if path.is_dir():
        for file in sorted(path.glob("*.xml")):
            yield file.stem, str(file), file.read_bytes()
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for member in sorted(name for name in archive.namelist() if name.endswith(".xml")):
                yield Path(member).stem, f"{path}:{member}", archive.read(member)
    except zipfile.BadZipFile:
        raise InputError(f"{path}: neither a folder nor a zip of annotations") from None


def read_detections(path: Path, truths: Truths) -> Detections:
    """The rows of all results files in a folder: image, score and four corners in each line."""
    class_ids = {name: label for label, name in (truths.names_by_label or {}).items()}
    image_ids = {name: image for image, name in (truths.image_names or {}).items()}
    files = _results_by_class(path, sorted(class_ids))
    image, label, numbers = [], [], []
    places: list[str] = []
    inverted: list[str] = []
    for name, file in files.items():
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: byte {error.start} is not UTF-8") from None
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if not fields:
                continue
            try:
                stem, values = fields[0], [float(field) for field in fields[1:]]
            except ValueError:
                values = []
            if len(values) != 5:
                raise InputError(f"{file}: line {number} must have an image, a score and 4 corners; got {line!r}")
            if stem not in image_ids:
                raise InputError(f"{file}: line {number}: image {stem!r} is not among those of the truths")
            image.append(image_ids[stem])
            label.append(class_ids[name])
            numbers.append(values)
            places.append(f"{file}: line {number}")
            if values[3] < values[1] or values[4] < values[2]:
                inverted.append(places[-1])
    table = np.array(numbers, dtype=np.float64).reshape(-1, 5)
    if inverted:
        # As the devkit has it, such a box overlaps nothing and is a false positive. Columns hold no negative sizes.
        place = f"{count(len(inverted), 'box', 'boxes')}, first in {inverted[0]}"
        fate = "each is taken as a box one pixel thin, so it counts as a false positive"
        warnings.warn(f"corners in the wrong order ({place}); {fate}", stacklevel=3)
        table[:, 3:] = np.maximum(table[:, 3:], table[:, 1:3])
    try:
        return Detections(image=image, label=label, score=table[:, 0], box=table[:, 1:], box_format="xyxy")
    except RowError as error:
        raise InputError(f"{places[error.row]}: `{error.column}` {error.rule}") from None


def _results_by_class(path: Path, class_names: Sequence[str]) -> dict[str, Path]:
    """The results file of each class: the longest class name that its own name ends in, since sets have names, too."""
    files: dict[str, Path] = {}
    for file in sorted(file for file in path.glob("comp*_det_*.txt")):
        names = [name for name in class_names if file.stem.endswith(f"_{name}")]
        if not names:
            raise InputError(f"{file}: ends in no class of the truths: {', '.join(class_names)}")
        name = max(names, key=len)
        if name in files:
            raise InputError(f"{file}: class {name!r} has results in {files[name].name}, too")
        files[name] = file
    if not files:
        raise InputError(f"{path}: no results (comp*_det_*_CLASS.txt) in it")
    return files
