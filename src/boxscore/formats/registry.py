"""The table of formats, and detection of the format of a file or folder."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from boxscore._support.exceptions import InputError
from boxscore.formats.files import Source, open_source, suffix_of

if TYPE_CHECKING:
    from boxscore.data.dataset import Detections, Truths
    from boxscore.data.geometry import Geometry
    from boxscore.formats.files import Output
    from boxscore.formats.records import Options, Records
    from boxscore.formats.writers import Loss

AnyPath = str | PathLike[str]
Role = Literal["truths", "detections"]


class FormatModule(Protocol):
    """The functions of a format's module. A module defines the ones that its format needs; a test checks signatures.

    Readers and writers exist for the roles that the format has, writers only if it `is_written`. A format without
    `kinds_of` has upright boxes.
    """

    @staticmethod
    def recognises(source: Source, role: Role) -> bool:
        """Whether a file or folder looks like this format and role."""

    @staticmethod
    def kinds_of(source: Source, role: Role) -> "Collection[type[Geometry]]":
        """The geometries, except upright boxes, of some or all rows; oriented boxes if boxes can only be oriented."""

    @staticmethod
    def read_truths(source: Source, options: "Options") -> "Records":
        """Read the rows of a file or folder as truths."""

    @staticmethod
    def read_detections(source: Source, options: "Options") -> "Records":
        """Read the rows of a file or folder as detections."""

    @staticmethod
    def write_truths(truths: "Truths", *, path: Path) -> "tuple[Output, list[Loss]]":
        """The files to write, and the losses. Only writers of formats with `needs_path` take the path."""

    @staticmethod
    def write_detections(detections: "Detections", truths: "Truths", *, path: Path) -> "tuple[Output, list[Loss]]":
        """The files to write, and the losses. Only writers of formats with `needs_path` take the path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A file format. Its module, a `FormatModule`, is imported when it is needed."""

    name: str
    title: str
    truths: str | None = None
    """Description of a file or folder of truths; None if the format has no truths."""
    detections: str | None = None
    """Description of a file or folder of detections; None if the format has no detections."""
    suffixes: Sequence[str] = ()
    """Suffixes of files that are written in this format."""
    read_suffixes: Sequence[str] = ()
    """Suffixes of files that may be in this format, single or in a folder; for others its module is not imported. Empty
    if any suffix is possible."""
    is_written: bool = True
    needs_path: bool = False
    """Whether the writers take the path, because its suffix or its folder matters."""
    has_groups: bool = False
    """Whether its truths may be groups, of kind 3."""
    has_kinds: bool = False
    """Whether its truths have all kinds, groups included."""
    has_coverage: bool = False
    """Whether its truths have the classes verified in each image."""
    module: str = ""
    """The module in `boxscore.formats`; empty if it has the name of the format."""

    def function(self, verb: str, role: Role) -> Callable[..., Any]:
        """The function of the module for a verb and a role, such as `read_truths` or `write_detections`."""
        return getattr(self._module, f"{verb}_{role}")  # type: ignore[no-any-return]

    def recognises(self, source: Source, role: Role) -> bool:
        """Whether a file or folder looks like this format and role."""
        return (
            getattr(self, role) is not None
            and self._may_have_suffix(source)
            and bool(self._module.recognises(source, role))
        )

    def _may_have_suffix(self, source: Source) -> bool:
        if not self.read_suffixes:
            return True
        return bool(source.files(*self.read_suffixes)) if source.is_folder else source.suffix in self.read_suffixes

    def kinds_of(self, source: Source, role: Role) -> "Collection[type[Geometry]]":
        """The geometries, except upright boxes, of some or all rows; oriented boxes if boxes can only be oriented."""
        kinds: Collection[type[Geometry]] = getattr(self._module, "kinds_of", lambda *_: ())(source, role)
        return kinds

    @property
    def _module(self) -> Any:
        return import_module(f"boxscore.formats.{self.module or self.name}")


_TABLE = "a table with columns for the image, the class"
_OPEN_IMAGES = "a .csv file with ImageID, LabelName, XMin, XMax, YMin, YMax"
FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="labelme",
            title="LabelMe",
            truths="a folder of .json files with `shapes`",
            read_suffixes=(".json",),
        ),
        Format(
            name="odgt",
            title="CrowdHuman's .odgt",
            truths="an .odgt file with an object in each line that has `ID` and `gtboxes`",
            detections="the same with `dtboxes`",
            suffixes=(".odgt",),
            read_suffixes=(".odgt", ".json", ".jsonl", ""),
        ),
        Format(
            name="coco",
            title="COCO JSON",
            truths="a .json file with `images`, `annotations` and `categories`",
            detections="a .json file with a list of results, or with `annotations` that have a score",
            suffixes=(".json",),
            read_suffixes=(".json", ""),
            has_coverage=True,
        ),
        Format(
            name="cvat",
            title="CVAT for images 1.1, for video 1.1",
            truths="an .xml file with <annotations>",
            read_suffixes=(".xml",),
            needs_path=True,
        ),
        Format(
            name="voc",
            title="PASCAL VOC",
            truths="a folder or zip of .xml files with <annotation>",
            detections="a folder or zip of comp*_det_*_CLASS.txt",
            read_suffixes=(".xml", ".txt"),
        ),
        Format(
            name="dota",
            title="DOTA",
            truths="a folder of labelTxt/*.txt with `x1 y1 x2 y2 x3 y3 x4 y4 class difficult` in each line",
            detections="a folder or zip of Task1_CLASS.txt with `image score x1 y1 x2 y2 x3 y3 x4 y4` in each line",
            read_suffixes=(".txt",),
        ),
        Format(
            name="openimages",
            title="Open Images CSV",
            truths=_OPEN_IMAGES,
            detections=f"{_OPEN_IMAGES}, Score",
            has_groups=True,
        ),
        Format(
            name="csv",
            title="CSV or TSV with a header",
            truths=f"{_TABLE} and the box, .csv or .tsv",
            detections=f"{_TABLE}, the box and the score, .csv or .tsv",
            suffixes=(".csv", ".tsv"),
            read_suffixes=(".csv", ".tsv", ".txt", ""),
            needs_path=True,
        ),
        Format(
            name="parquet",
            title="Parquet or Arrow IPC",
            truths=f"{_TABLE} and the box, .parquet or .arrow",
            detections=f"{_TABLE}, the box and the score, .parquet or .arrow",
            suffixes=(".parquet", ".pq", ".arrow", ".feather"),
            needs_path=True,
            has_kinds=True,
            has_coverage=True,
        ),
        Format(
            name="npz",
            title="NumPy .npz",
            truths="an .npz file with arrays for the image, the class and the box",
            detections="an .npz file with arrays for the image, the class, the box and the score",
            suffixes=(".npz",),
            read_suffixes=(".npz",),
        ),
        Format(
            name="text",
            title="Text files of Cartucho/mAP and review_object_detection_metrics",
            truths="a folder of *.txt with `class left top right bottom` in each line",
            detections="a folder of *.txt with `class confidence left top right bottom` in each line",
            is_written=False,
            read_suffixes=(".txt",),
            module="text_files",
        ),
        Format(
            name="yolo",
            title="YOLO (ultralytics)",
            truths="data.yaml, or a folder of labels/*.txt with `class cx cy w h` in each line",
            detections="a folder of *.txt with `class cx cy w h confidence` in each line",
            read_suffixes=(".txt", ".yaml", ".yml"),
            needs_path=True,
        ),
    )
}
"""All formats by name, in the order in which detection tries them."""

_DATA_SUFFIXES = (
    *(".json", ".odgt", ".csv", ".tsv", ".npz", ".parquet", ".pq", ".arrow", ".feather", ".xml", ".zip", ".gz"),
)
_MAX_FILES = 20
"""Maximum number of files that are tried in a folder that is not itself in a known format."""


def detect(path: AnyPath | Source, role: Role) -> str:
    """Detect the format of a file or folder by its content and name.

    Args:
        path: The file or folder.
        role: "truths" or "detections".

    Returns:
        The name of the format.

    Raises:
        InputError: If no format is recognised.
    """
    source = path if isinstance(path, Source) else open_source(path)
    found = _recognised(source, role)
    if found is not None:
        return found[1].name
    known = "; ".join(f"{name}: {getattr(each, role)}" for name, each in FORMATS.items() if getattr(each, role))
    got = "folder" if source.is_folder else "file"
    raise InputError(
        f"{source}: the {got} is in no known format for {role}; if it is in one of these, name it by `format`: {known}"
    )


def format_by_suffix(path: AnyPath) -> str | None:
    """The name of the format that a file is written in, by its suffix; None if the suffix does not decide it.

    >>> format_by_suffix("truths.csv.gz"), format_by_suffix("labels/")
    ('csv', None)
    """
    suffix = suffix_of(Path(path))
    return next((name for name, each in FORMATS.items() if suffix in each.suffixes), None)


def find_format(name: str | None, source: Source, role: Role) -> tuple[Source, Format]:
    """Find the source to read, the given one or the only data file in it, and its format, by name or by detection."""
    if name is None:
        if (found := _recognised(source, role)) is not None:
            return found
        # The suffix, or the other role, may still tell the format; its reader then reports what is missing.
        by_suffix = None if source.is_folder else format_by_suffix(source.name)
        return source, FORMATS[by_suffix or _recognised_by_other_role(source, role) or detect(source, role)]
    each = FORMATS.get(name)
    if each is None or getattr(each, role) is None:
        known = ", ".join(name for name, each in FORMATS.items() if getattr(each, role))
        raise InputError(f"`format` of {role} must be one of {known}; got {name!r}")
    return (_recognised(source, role, [each]) if source.is_folder else None) or (source, each)


def format_to_write(name: str | None, path: Path, role: Role) -> Format:
    """The format to write, given by name or by the suffix of the path."""
    each = FORMATS.get(name or format_by_suffix(path) or "")
    if each is None or not each.is_written or getattr(each, role) is None:
        known = ", ".join(name for name, each in FORMATS.items() if each.is_written and getattr(each, role))
        raise InputError(
            f"`format` to write {role} must be one of {known}; got {name or format_by_suffix(path)!r} for {path.name!r}"
        )
    return each


def _recognised(
    source: Source, role: Role, formats: Iterable[Format] = FORMATS.values()
) -> tuple[Source, Format] | None:
    """The recognised source and its format: the given source, or the only recognised file in the folder; else None."""
    each = next((each for each in formats if each.recognises(source, role)), None)
    if each is not None:
        return source, each
    files = source.files(*_DATA_SUFFIXES) if source.is_folder else []
    found = []
    for file in files[:_MAX_FILES]:
        try:
            inner = source.within(file)
        except InputError:  # a broken archive, or an archive of something else
            continue
        each = next((each for each in formats if each.recognises(inner, role)), None)
        if each is not None:
            found.append((file, inner, each))
    if len(found) > 1:
        names = ", ".join(file for file, _, _ in found[:5]) + (", …" if len(found) > 5 else "")
        raise InputError(f"{source}: the folder has {len(found)} files that may hold the {role}; choose one: {names}")
    return found[0][1:] if found else None


def _recognised_by_other_role(source: Source, role: Role) -> str | None:
    other: Role = "truths" if role == "detections" else "detections"
    names = (name for name, each in FORMATS.items() if getattr(each, role) and each.recognises(source, other))
    return next(names, None)
