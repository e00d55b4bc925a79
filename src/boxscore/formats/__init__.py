"""Files to columns and back: one module a format, and the table of them."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.formats.files import Source, open_source, write_output
from boxscore.formats.groups import read_groups
from boxscore.formats.joining import Report, join, to_truths
from boxscore.formats.records import Options, Records
from boxscore.formats.selection import Pattern, Selection, select, select_truths
from boxscore.formats.writing import Loss
from boxscore.geometry.boxes import BoxFormat, check_box_format
from boxscore.model.dataset import Detections, Truths, take

__all__ = [
    "FORMATS",
    "Format",
    "Loss",
    "Records",
    "Report",
    "detect",
    "format_by_suffix",
    "join",
    "read_detections",
    "read_groups",
    "read_records",
    "read_truths",
    "select",
    "selected_images",
    "to_truths",
    "write_detections",
    "write_truths",
]

AnyPath = str | PathLike[str]
Role = Literal["truths", "detections"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A format by name: where its functions are, and what a file of it looks like."""

    name: str
    title: str
    truths: str | None = None
    """What truths are looked for; None: the format has none."""
    detections: str | None = None
    module: str = ""
    """The module, if it has another name; it is imported when it is needed."""
    infix: str = ""
    """For a module of two formats: what comes before "truths" in the names of its functions."""
    suffixes: Sequence[str] = ()
    """File names that mean this format when writing."""
    is_written: bool = True

    def function(self, verb: str, role: Role) -> Callable[..., Any]:
        """`read_truths` and the like."""
        return getattr(self._module, f"{verb}_{self.infix}{role}")  # type: ignore[no-any-return]

    def recognises(self, source: Source, role: Role) -> bool:
        """Whether a file or folder looks like one of this format and role."""
        if getattr(self, role) is None:
            return False
        suffix = self.infix.removesuffix("_")
        return bool(getattr(self._module, f"recognises_{suffix}" if suffix else "recognises")(source, role))

    @property
    def _module(self) -> Any:
        return import_module(f"boxscore.formats.{self.module or self.name}")


_TABLE = "a table with columns for the image, the class"
_OPEN_IMAGES = "a .csv file with ImageID, LabelName, XMin, XMax, YMin, YMax"
FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(name="labelme", title="LabelMe", truths="a folder of .json files with `shapes`", is_written=False),
        Format(
            name="coco",
            title="COCO JSON",
            truths="a .json file with `images`, `annotations` and `categories`",
            detections="a .json file with a list of results, or with `annotations` that have a score",
            suffixes=(".json",),
        ),
        Format(
            name="cvat",
            title="CVAT for images 1.1, for video 1.1",
            truths="an .xml file with <annotations>",
            is_written=False,
        ),
        Format(
            name="voc",
            title="PASCAL VOC",
            truths="a folder or zip of .xml files with <annotation>",
            detections="a folder or zip of comp*_det_*_CLASS.txt",
        ),
        Format(
            name="openimages",
            title="Open Images CSV",
            truths=_OPEN_IMAGES,
            detections=f"{_OPEN_IMAGES}, Score",
            module="delimited",
            infix="open_images_",
        ),
        Format(
            name="csv",
            title="CSV or TSV with a header",
            truths=f"{_TABLE} and the box, .csv or .tsv",
            detections=f"{_TABLE}, the box and the score, .csv or .tsv",
            module="delimited",
            suffixes=(".csv", ".tsv"),
        ),
        Format(
            name="parquet",
            title="Parquet or Arrow IPC",
            truths=f"{_TABLE} and the box, .parquet or .arrow",
            detections=f"{_TABLE}, the box and the score, .parquet or .arrow",
            suffixes=(".parquet", ".pq", ".arrow", ".feather"),
        ),
        Format(
            name="npz",
            title="NumPy .npz",
            truths="an .npz file with arrays for the image, the class and the box",
            detections="an .npz file with arrays for the image, the class, the box and the score",
            suffixes=(".npz",),
        ),
        Format(
            name="text",
            title="Text files of Cartucho/mAP and review_object_detection_metrics",
            truths="a folder of *.txt with `class left top right bottom` in each line",
            detections="a folder of *.txt with `class confidence left top right bottom` in each line",
            is_written=False,
        ),
        Format(
            name="yolo",
            title="YOLO (ultralytics)",
            truths="data.yaml, or a folder of labels/*.txt with `class cx cy w h` in each line",
            detections="a folder of *.txt with `class cx cy w h confidence` in each line",
        ),
    )
}
"""Every format, in the order in which they are tried."""


def detect(path: AnyPath | Source, role: Role) -> str:
    """The name of the format of a file or folder, found out from its content and name."""
    source = path if isinstance(path, Source) else open_source(path)
    found = _recognised(source, role)
    if found is not None:
        return found[1].name
    wanted = "; ".join(f"{name}: {getattr(each, role)}" for name, each in FORMATS.items() if getattr(each, role))
    got = "a folder" if source.is_folder else "a file"
    raise InputError(f"{source}: {got} in none of the formats for {role}. They are: {wanted}")


def _recognised(
    source: Source, role: Role, formats: Iterable[Format] = FORMATS.values()
) -> tuple[Source, Format] | None:
    """The format, and what has it: the source, or, where that is a folder, the only file in it that has one."""
    each = next((each for each in formats if each.recognises(source, role)), None)
    if each is not None:
        return source, each
    files = source.files(*_DATA_SUFFIXES) if source.is_folder else []
    found = []
    for file in files[:_MOST_FILES]:
        try:
            inner = source.within(file)
        except InputError:  # an archive that is broken, or of something else
            continue
        each = next((each for each in formats if each.recognises(inner, role)), None)
        if each is not None:
            found.append((file, inner, each))
    if len(found) > 1:
        names = ", ".join(file for file, _, _ in found[:5]) + (", …" if len(found) > 5 else "")
        raise InputError(
            f"{source}: a folder with {len(found)} files that may hold the {role}; name one of them: {names}"
        )
    return found[0][1:] if found else None


_DATA_SUFFIXES = (".json", ".csv", ".tsv", ".npz", ".parquet", ".pq", ".arrow", ".feather", ".xml", ".zip", ".gz")
_MOST_FILES = 20
"""How many files of a folder in no known format are looked into."""


def _format(name: str | None, source: Source, role: Role) -> tuple[Source, Format]:
    """The format to read a source in, and the source: that, or a file of the folder."""
    if name is None:
        if (found := _recognised(source, role)) is not None:
            return found
        # What only its suffix tells, or what holds the other role, is read: its reader says what is missing in it.
        by_suffix = None if source.is_folder else format_by_suffix(source.name)
        return source, FORMATS[by_suffix or _recognised_by_other_role(source, role) or detect(source, role)]
    each = FORMATS.get(name)
    if each is None or getattr(each, role) is None:
        known = ", ".join(name for name, each in FORMATS.items() if getattr(each, role))
        raise InputError(f"`format` of {role} must be one of {known}; got {name!r}")
    return (_recognised(source, role, [each]) if source.is_folder else None) or (source, each)


def _recognised_by_other_role(source: Source, role: Role) -> str | None:
    other: Role = "truths" if role == "detections" else "detections"
    names = (name for name, each in FORMATS.items() if getattr(each, role) and each.recognises(source, other))
    return next(names, None)


def read_records(path: AnyPath, role: Role, options: Options | None = None, *, format: str | None = None) -> Records:  # noqa: A002
    """What a file or folder holds, row by row with places, before any number is checked or any image looked up."""
    source, each = _format(format, open_source(path), role)
    records: Records = each.function("read", role)(source, options or Options())
    return records


def read_truths(
    path: AnyPath,
    *,
    format: str | None = None,  # noqa: A002
    images: Iterable[int | str] | AnyPath | None = None,
    classes: Iterable[int | str] | None = None,
    box_format: BoxFormat | None = None,
    sizes: Any = None,
    names: Any = None,
) -> Truths:
    """The truths in a file, folder, .gz or .zip of any format.

    `format`: one of `FORMATS`, else it is found out. `images` and `classes`: only these, by id or name; images also by
    the path of a list of them, by a pattern like "night_*", or by the name of a VOC image set. `box_format`: what four
    numbers in one column of a table, or in a line of text files, are, or those of COCO results, if they are not xywh.
    `sizes`: of images, for boxes that are fractions: a mapping from names to (width, height), the path of a list
    `name,width,height`, or the folder of the images. `names`: of classes, for YOLO and Open Images: a list of them, or
    the path of a file.

    Where a format has no ids, images are numbered 0, 1, 2, … by name.

    >>> from boxscore.cli.sample import FOLDER
    >>> read_truths(FOLDER / "truths.json")
    Truths(222 boxes in 40 images, numpy)
    """
    from boxscore.formats.image_sizes import read_sizes

    _check(box_format)
    records = read_records(path, "truths", Options(box_format=box_format, sizes=sizes, names=names), format=format)
    truths = to_truths(records, read_sizes(sizes))
    return select_truths(truths, images=selected_images(images, path), classes=_classes(classes))


def read_detections(
    path: AnyPath,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    images: Iterable[int | str] | AnyPath | None = None,
    classes: Iterable[int | str] | None = None,
    box_format: BoxFormat | None = None,
    sizes: Any = None,
    names: Any = None,
    unmatched: Literal["error", "warn"] = "error",
    map_classes: Any = None,
) -> Detections:
    """The detections in a file, folder, .gz or .zip of any format, on the images and classes of the truths.

    A detection on an image, or of a class, that the truths don't have is an error; with `unmatched="warn"` it is left
    out, and a warning says how many are. Those outside of `images` and `classes` are left out in silence.
    `map_classes`: classes of the truths for those of the file, by id or name: a mapping, text like "1:0,2:1", or the
    path of a JSON object or of a CSV of two columns; classes that it does not have stay. The other options are those of
    `read_truths`.

    >>> from boxscore.cli.sample import FOLDER
    >>> read_detections(FOLDER / "detections.json", read_truths(FOLDER / "truths.json"))
    Detections(356 boxes in 40 images, numpy)
    """
    from boxscore.formats.image_sizes import read_sizes

    _check(box_format)
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    if unmatched not in ("error", "warn"):
        raise InputError(f"`unmatched` must be one of error, warn; got {unmatched!r}")
    known = list((truths.names_by_label or {}).values())
    options = Options(box_format=box_format, sizes=sizes, names=names, known_classes=known)
    records = read_records(path, "detections", options, format=format)
    if map_classes is not None:
        from boxscore.formats import class_map

        records = class_map.map_classes(records, class_map.read_class_map(map_classes), truths)
    pictures, kinds = selected_images(images, path), _classes(classes)
    detections, report = join(records, truths, read_sizes(sizes), images=pictures, classes=kinds)
    if report.unmatched and unmatched == "error":
        raise InputError(str(report.unmatched[0]))
    if report.unmatched:
        dropped = count(report.num_unmatched, "detection")
        reasons = "; ".join(map(str, report.unmatched))
        warnings.warn(f"{dropped} of {report.num_rows:,} left out: {reasons}", stacklevel=2)
    if pictures is None and kinds is None:
        return detections
    chosen = select_truths(truths, images=pictures, classes=kinds)
    return _on(detections, chosen)


def _on(detections: Detections, truths: Truths) -> Detections:
    import numpy as np

    is_kept = np.ones(len(detections), bool)
    if truths.image_names:
        is_kept &= np.isin(detections.image, list(truths.image_names))
    if truths.names_by_label:
        is_kept &= np.isin(detections.label, list(truths.names_by_label))
    return take(detections, is_kept)


def _check(box_format: str | None) -> None:
    if box_format is not None:
        check_box_format(box_format)


def selected_images(images: Any, path: AnyPath) -> Selection | None:
    """The images of a list, of the file of a list, of a pattern, or of a VOC image set of that name.

    The set is looked for in the folder or zip at `path`, and in the folder that it is in.
    """
    if images is None or isinstance(images, Selection):
        return images
    if not isinstance(images, str | PathLike):
        return Selection("images", images)
    given = os.fspath(images)
    text = open_source(given).text() if os.path.isfile(given) else _image_set(given, Path(path))  # noqa: PTH113
    if text is None and any(sign in given for sign in "*?["):
        return Pattern(given)
    if text is None:
        if os.path.exists(given):  # noqa: PTH110
            text = open_source(given).text()
        else:
            sets = "ImageSets/Main"
            raise InputError(
                f"`images`: {given!r} is no file, no pattern like 'night_*', and no image set in {sets} of {path}"
            )
    return Selection("images", [line.split()[0] for line in text.splitlines() if line.strip()])


def _image_set(name: str, root: Path) -> str | None:
    """The text of a VOC image set, if there is one of that name."""
    inside = f"ImageSets/Main/{name}.txt"
    for folder in (root, root.parent):
        if os.path.isfile(folder / inside):  # noqa: PTH113
            return open_source(folder / inside).text()
    if not (root.is_dir() or root.suffix.lower() == ".zip") or "/" in name:
        return None
    source = open_source(root)
    files = [file for file in source.files(".txt") if f"/{file}".endswith(f"/{inside}")] if source.is_folder else []
    return source.text(files[0]) if len(files) == 1 else None


def _classes(classes: Any) -> Selection | None:
    if isinstance(classes, str):
        raise InputError(f"`classes` must be a list of names or ids; got {classes!r}")
    return None if classes is None else Selection("classes", classes)


def write_truths(
    path: AnyPath,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    overwrite: bool = False,
) -> tuple[Loss, ...]:
    """The truths are in the file or folder, all or nothing; what the format can't hold is returned.

    `format`: one of `FORMATS`; else the suffix says it (.json, .csv, .tsv, .npz, .parquet, .arrow, each also with .gz).
    A folder with files in it is refused unless `overwrite`.
    """
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    return _write(Path(path), "truths", format, overwrite, truths)


def write_detections(
    path: AnyPath,
    detections: Detections,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    overwrite: bool = False,
) -> tuple[Loss, ...]:
    """The detections are in the file or folder, with the names that the truths give to images and classes.

    What the format can't hold is returned. The options are those of `write_truths`.
    """
    if not isinstance(detections, Detections):
        raise InputError(f"`detections` must be boxscore.Detections; got {type(detections).__name__}")
    return _write(Path(path), "detections", format, overwrite, detections, truths)


def format_by_suffix(path: AnyPath) -> str | None:
    """The name of the format that a file is written in by its name; None: the name doesn't tell.

    >>> format_by_suffix("truths.csv.gz"), format_by_suffix("labels/")
    ('csv', None)
    """
    suffix = _suffix(Path(path))
    return next((name for name, each in FORMATS.items() if suffix in each.suffixes), None)


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _write(path: Path, role: Role, name: str | None, overwrite: bool, *columns: Any) -> tuple[Loss, ...]:
    suffix = _suffix(path)
    if name is None:
        name = format_by_suffix(path)
    each = FORMATS.get(name or "")
    if each is None or not each.is_written or getattr(each, role) is None:
        known = ", ".join(name for name, each in FORMATS.items() if each.is_written and getattr(each, role))
        raise InputError(f"`format` to write {role} in must be one of {known}; got {name!r} for {path.name!r}")
    settings: dict[str, Any] = {}
    if name == "csv" and suffix == ".tsv":
        settings["delimiter"] = "\t"
    if name == "parquet" and suffix in (".arrow", ".feather"):
        settings["is_ipc"] = True
    if name == "yolo":
        settings["folder"] = path
    output, losses = each.function("write", role)(*columns, **settings)
    write_output(path, output, overwrite=overwrite)
    return tuple(loss for loss in losses if loss.num)
