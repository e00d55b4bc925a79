"""`boxscore convert IN OUT`: shapes in another format, with a warning for lost information."""

import argparse
import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from boxscore._support.exceptions import InputError
from boxscore._support.text import count, line
from boxscore.cli import arguments
from boxscore.cli.output_files import check_conversion
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.terminal import Outcome

if TYPE_CHECKING:
    from boxscore.data.dataset import Detections, Truths
    from boxscore.data.geometry import Geometry
    from boxscore.formats import Loss, Role

Columns = TypeVar("Columns", "Detections", "Truths")

_EXAMPLES = """\
examples:
  boxscore convert instances_val2017.json truths.csv
  boxscore convert instances_val2017.json labels/ --to yolo   # polygons, if the annotations have them
  boxscore convert VOC2007/Annotations labels/ --to yolo
  boxscore convert labels/ truths.json --sizes images/ --names data.yaml
  boxscore convert detections.json results/ --truths instances_val2017.json --to voc
  boxscore convert boxes.csv expanded.csv --to openimages --hierarchy bbox_labels_600_hierarchy.json

With --truths, IN contains detections: GT provides the names and sizes of images, and the classes.
Shapes other than boxes are kept if every row of IN has them.
The suffix of OUT sets its format: .json, .csv, .tsv, .npz, .parquet, .arrow, each also with .gz; else use --to."""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "convert",
        usage="%(prog)s IN OUT [options]",
        help="write ground truth or detections in another format",
        description="Write ground truth or detections in another format, with a warning for what it can't represent.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    groups = arguments.add_groups(parser)
    group = groups.files
    group.add_argument("input", metavar="IN", help="ground truth or detections, in any supported format")
    group.add_argument("--from", dest="from_format", metavar="NAME", help="format of IN (default: auto-detected)")
    group.add_argument("--truths", metavar="GT", help="ground truth of the detections in IN, in any supported format")
    arguments.add_details(group)
    arguments.add_expansion(group)
    group = groups.output
    group.add_argument("output", metavar="OUT", help="the file or folder to write, completely or not at all")
    group.add_argument("--to", dest="to_format", metavar="NAME", help="format of OUT (default: by its suffix)")
    group.add_argument("--overwrite", action="store_true", help="replace OUT; other files in a folder are kept")
    group.add_argument("--quiet", action="store_true", help="print only errors")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """Convert the input; warn once per kind of information that is lost."""
    role = _role(options)
    name = _format_to_write(options, role)
    output = Path(options.output)
    if not options.overwrite and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
        raise InputError(f"{output}: already exists; pass --overwrite to replace it")
    given = (options.input, options.truths, options.sizes, options.names, options.image_labels, options.hierarchy)
    read = [path for path in given if path is not None]
    if output.exists():
        check_conversion(output, read, is_same_format=_format_to_read(options, role) == name)
    written, losses = (_convert_truths if role == "truths" else _convert_detections)(options, output, name)
    for loss in losses:
        warnings.warn(str(loss), stacklevel=2)
    return Outcome("" if options.quiet else line(f"wrote {written} to {output} ({name})"))


def _role(options: argparse.Namespace) -> "Role":
    """Role of the input: detections if `--truths` is given, unless it can only be read as truths."""
    if options.truths is None:
        return "truths"
    from boxscore.formats import detect

    if options.from_format is None:
        try:
            detect(options.input, "detections")
        except InputError as error:
            try:
                detect(options.input, "truths")
            except InputError:
                raise error from None
            warnings.warn(f"{options.input} has no scores, so it is converted as ground truth", stacklevel=2)
            return "truths"
    return "detections"


def _format_to_write(options: argparse.Namespace, role: "Role") -> str:
    """Format of the output; an unknown name is a usage error."""
    from boxscore.formats import FORMATS, format_by_suffix

    source = FORMATS.get(options.from_format or "")
    if options.from_format is not None and (source is None or getattr(source, role) is None):
        known = ", ".join(name for name, each in FORMATS.items() if getattr(each, role))
        options.command.error(f"argument --from: must be one of {known} for {role}; got {options.from_format!r}")
    name = format_by_suffix(options.output) if options.to_format is None else options.to_format
    known = ", ".join(name for name, each in FORMATS.items() if each.is_written and getattr(each, role))
    if name is None:
        options.command.error(
            f"argument --to: required, as the suffix of {options.output!r} is not known; one of {known}"
        )
    if name not in known.split(", "):
        options.command.error(f"argument --to: must be one of {known} for {role}; got {name!r}")
    return str(name)


def _format_to_read(options: argparse.Namespace, role: "Role") -> str | None:
    """Format of the input; None if it can't be detected."""
    from boxscore.formats import detect

    with contextlib.suppress(InputError):
        return options.from_format or detect(options.input, role)
    return None


def _details(options: argparse.Namespace) -> dict[str, Any]:
    return {"box_format": options.box_format, "sizes": options.sizes, "names": options.names}


def _expansion(options: argparse.Namespace) -> dict[str, Any]:
    """The options for Open Images' files beside the truths."""
    return {"image_labels": options.image_labels, "hierarchy": options.hierarchy}


def _convert_truths(options: argparse.Namespace, output: Path, name: str) -> tuple[str, "tuple[Loss, ...]"]:
    from boxscore.formats import read_truths, write_truths

    num_scores = _num_scores(options)
    try:
        truths = _with_shapes(
            options,
            "truths",
            lambda more: read_truths(options.input, format=options.from_format, **more, **_expansion(options)),
        )
    except InputError:
        if num_scores:
            raise InputError(f"{options.input}: contains detections; pass their ground truth with --truths") from None
        raise
    losses = write_truths(output, truths, format=name, overwrite=options.overwrite)
    if num_scores:
        hint = "to convert detections, pass their ground truth with --truths"
        warnings.warn(f"{count(num_scores, 'score')} in {options.input} left out: {hint}", stacklevel=2)
    return f"{count(len(truths), 'truth')} in {count(_num_images(truths, truths), 'image')}", losses


def _with_shapes(options: argparse.Namespace, role: "Role", read: Callable[[dict[str, Any]], Columns]) -> Columns:
    """Read the rows with boxes, and with other shapes that all rows of the input have.

    Boxes are read as oriented if the input has no other boxes, or if the output is DOTA.
    """
    details = _details(options)
    if arguments.has_oriented_boxes(options, options.input, role) or options.to_format == "dota":
        with contextlib.suppress(InputError) if options.to_format == "dota" else contextlib.nullcontext():
            return read(details | {"iou_type": "obb"})
    found: list[Columns] = []
    for kind in _kinds_of(options, role):
        settings = {"iou_type": ("bbox", kind.iou_types[0])}
        problem = None
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                found.append(read(details | settings | {"keep_polygons": True}))
            except InputError as error:
                problem = error
        if problem is not None:
            warnings.warn(f"{kind.plural} are left out, as not every row has valid ones: {problem}", stacklevel=2)
        elif len(found) == 1:  # a second reading repeats the warnings
            for warning in caught:
                warnings.warn(warning.message, stacklevel=2)
    if not found:
        return read(details)
    others: list[Any] = [other for columns in found[:-1] for other in columns.geometries[1:]]  # of the same rows
    from boxscore.data.dataset import with_geometries

    return with_geometries(found[-1], *found[-1].geometries, *others)


def _kinds_of(options: argparse.Namespace, role: "Role") -> "list[type[Geometry]]":
    """Geometries, except boxes, that some or all rows of the input have."""
    from boxscore.formats.files import open_source
    from boxscore.formats.registry import find_format

    with contextlib.suppress(InputError):
        source, each = find_format(options.from_format, open_source(options.input), role)
        return [kind for kind in each.kinds_of(source, role) if not kind.is_box]
    return []


def _num_scores(options: argparse.Namespace) -> int:
    """Number of detections with scores in the input; 0 in formats whose truths have scores, too."""
    from boxscore.formats import detect, read_records
    from boxscore.formats.records import Options

    with contextlib.suppress(InputError), warnings.catch_warnings(action="ignore"):
        name = options.from_format or detect(options.input, "detections")
        if name != "openimages":
            return len(read_records(options.input, "detections", Options(**_details(options)), format=name))
    return 0


def _convert_detections(options: argparse.Namespace, output: Path, name: str) -> tuple[str, "tuple[Loss, ...]"]:
    from boxscore.formats import read_detections, read_truths, write_detections

    truths = read_truths(options.truths, **_details(options), **_expansion(options))
    detections = _with_shapes(
        options,
        "detections",
        lambda more: read_detections(
            options.input, truths, format=options.from_format, hierarchy=options.hierarchy, **more
        ),
    )
    losses = write_detections(output, detections, truths, format=name, overwrite=options.overwrite)
    return f"{count(len(detections), 'detection')} in {count(_num_images(detections, truths), 'image')}", losses


def _num_images(columns: "Detections | Truths", truths: "Truths") -> int:
    """Number of images: for truths all listed images, for detections images with rows."""
    if columns is truths and truths.image_names:
        return len(truths.image_names)
    return len(set(columns.image_ids.tolist()))
