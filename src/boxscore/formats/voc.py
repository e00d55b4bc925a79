"""PASCAL VOC: one XML file an image, and one results file a class, `comp4_det_test_CLASS.txt`."""

import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.text import count

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_RESULTS = re.compile(r"comp\d+_det_.+?_(?P<name>[^_]+)\.txt")


def read_truths(path: Path) -> Truths:
    """The objects in a folder or zip of annotations. Images are numbered by name; classes alphabetically."""
    image, names, box, ignore, stems = [], [], [], [], []
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
            image.append(len(stems) - 1)
            names.append(name)
            ignore.append(thing.findtext("difficult", "0").strip() == "1")
    if not stems:
        raise InputError(f"{path}: no annotation (.xml) in it")
    classes = sorted(set(names))
    return Truths(
        image=image,
        label=[classes.index(name) for name in names],
        box=np.array(box, dtype=np.float64).reshape(-1, 4),
        ignore=np.array(ignore, dtype=bool),
        box_format="xyxy",
        class_names=classes,
        image_names=dict(enumerate(stems)),
    )


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
    files = {match["name"]: file for file in sorted(path.glob("*.txt")) if (match := _RESULTS.fullmatch(file.name))}
    if not files:
        raise InputError(f"{path}: no results (comp*_det_*_CLASS.txt) in it")
    class_ids = {name: label for label, name in (truths.names_by_label or {}).items()}
    image_ids = {name: image for image, name in (truths.image_names or {}).items()}
    image, label, numbers, inverted = [], [], [], []
    for name, file in files.items():
        if name not in class_ids:
            raise InputError(f"{file}: class {name!r} is not among those of the truths: {', '.join(class_ids)}")
        for number, line in enumerate(file.read_text().splitlines(), start=1):
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
            if values[3] < values[1] or values[4] < values[2]:
                inverted.append(f"{file}: line {number}")
    table = np.array(numbers, dtype=np.float64).reshape(-1, 5)
    if inverted:
        # As the devkit has it, such a box overlaps nothing and is a false positive. Columns hold no negative sizes.
        place = f"{count(len(inverted), 'box', 'boxes')}, first in {inverted[0]}"
        fate = "each is taken as a box one pixel thin, so it counts as a false positive"
        warnings.warn(f"corners in the wrong order ({place}); {fate}", stacklevel=3)
        table[:, 3:] = np.maximum(table[:, 3:], table[:, 1:3])
    return Detections(image=image, label=label, score=table[:, 0], box=table[:, 1:], box_format="xyxy")
