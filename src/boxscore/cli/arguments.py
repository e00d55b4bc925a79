"""Options that commands share, in titled groups, and the types of their values.

An invalid value is a usage error, exit code 2.
"""

import argparse
import contextlib
import math
from typing import Any, NamedTuple

from boxscore._support.exceptions import InputError
from boxscore._support.memory_size import parse_size
from boxscore.protocol.measures import QUANTITIES
from boxscore.protocol.protocol import EXTRA_NUMBERS, IOU_TYPES, Protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.protocol.table import protocol_of as named_for
from boxscore.protocol.words import RULES

UPRIGHT_FORMATS = ("xyxy", "xywh", "cxcywh")
ORIENTED_FORMATS = (
    "xyxyxyxy",
    "cxcywha:radians",
    "cxcywha:degrees",
    "cxcywha:radians:ccw",
    "cxcywha:degrees:ccw",
)
"""The formats of oriented boxes; a copy, since `data.geometry` needs NumPy."""


SIMILARITIES = ", ".join(
    name if name == value.words else f"{name} ({value.words})" for name, value in RULES["iou_type"].choices.items()
)
"""The values of `--iou-type` in words."""


class Groups(NamedTuple):
    """The titled groups of a command's help, in their order. A group without options is not shown."""

    files: Any
    evaluated: Any
    rules: Any
    analysis: Any
    output: Any
    pictures: Any
    speed: Any


def add_groups(parser: argparse.ArgumentParser) -> Groups:
    """Add the groups to the parser of a command, each to be filled by the functions below."""
    titles = ("input files", "what is evaluated", "rules", "analysis", "output", "pictures", "speed")
    return Groups(*map(parser.add_argument_group, titles))


def add_truths(group: Any) -> None:
    """Add the argument for the ground truth."""
    group.add_argument("truths", metavar="GT", help="ground truth: a file, folder, .gz or .zip in any supported format")


def add_formats(group: Any) -> None:
    """Add the options for the formats of files, for when auto-detection does not suffice."""
    group.add_argument("--gt-format", metavar="NAME", help="format of GT (default: auto-detected)")
    group.add_argument("--dt-format", metavar="NAME", help="format of DT (default: auto-detected)")
    add_details(group)
    add_expansion(group)


def add_expansion(group: Any) -> None:
    """Add the options for Open Images' files beside boxes."""
    group.add_argument(
        "--image-labels",
        metavar="FILE",
        help="verified image labels of Open Images, a .csv file: which classes were verified in which images",
    )
    group.add_argument(
        "--hierarchy",
        metavar="FILE",
        help="hierarchy of Open Images' classes, a .json file: GT and DT are expanded to all classes above their own",
    )


def add_details(group: Any) -> None:
    """Add the options for information that files may lack."""
    group.add_argument(
        "--box-format",
        type=box_format,
        metavar="FORMAT",
        help="meaning of the numbers of a box, in tables, text and COCO files: xyxy, xywh, cxcywh; of oriented boxes:"
        " xyxyxyxy, cxcywha:radians, cxcywha:degrees, with :ccw behind if angles turn counter-clockwise",
    )
    group.add_argument(
        "--sizes",
        metavar="PATH",
        help="image sizes for normalized boxes: a list of name,width,height, or the folder of images",
    )
    group.add_argument(
        "--names",
        metavar="FILE",
        help="class names for YOLO and Open Images: data.yaml, or a list of names",
    )


def add_selection(group: Any) -> None:
    """Add the options that select images, classes and detections."""
    group.add_argument("--classes", type=words, metavar="A,B", help="evaluate only these classes, by name or id")
    group.add_argument(
        "--only-images",
        metavar="LIST",
        help="evaluate only these images: a file with one per line, a glob like 'night_*', or a VOC image set of GT",
    )
    group.add_argument(
        "--min-score", type=finite, metavar="S", help="evaluate only detections with at least this score"
    )
    group.add_argument(
        "--map-classes",
        metavar="MAP",
        help="map classes of DT to classes of GT, by id or name: 1:0,2:1, or a JSON object or two-column CSV file",
    )
    group.add_argument(
        "--unmatched",
        choices=("error", "warn"),
        default="error",
        help="for detections whose image or class is not in GT: error (default), or skip them with a warning",
    )


def add_limits(group: Any) -> None:
    """Add the options for the protocol and its detection limits."""
    group.add_argument(
        "--protocol",
        choices=tuple(PROTOCOLS),
        default="coco",
        metavar="NAME",
        help=f"evaluation protocol (default: coco): {', '.join(PROTOCOLS)}",
    )
    group.add_argument(
        "--max-dets",
        type=limits,
        metavar="N",
        help="detection limits, 1,10,100 or all, as the protocol has them: per image and class, per image, or over all"
        " images",
    )


def add_sigmas(group: Any) -> None:
    """Add the option for sigmas other than the protocol's."""
    group.add_argument(
        "--sigmas", type=sigmas, metavar="S", help="for OKS, how far apart annotators place each point: 0.026,0.025,…"
    )


def add_protocol(group: Any, *, has_several: bool = False) -> None:
    """Add all options for rules; `has_several`: whether several similarities may be evaluated at once."""
    add_limits(group)
    group.add_argument(
        "--iou-type",
        type=iou_types if has_several else iou_type,
        metavar="TYPE",
        help=f"what is compared: {SIMILARITIES}"
        + ("; or several, such as bbox,segm" if has_several else "")
        + " (default: as in the protocol)",
    )
    add_sigmas(group)
    group.add_argument("--iou", type=thresholds, metavar="T", help="IoU thresholds: 0.5 or 0.5,0.75 or 0.5:0.95:0.05")
    group.add_argument(
        "--areas",
        type=areas,
        metavar="RANGES",
        help="area ranges in square pixels: none, or such as small=0:1024,large=1024:",
    )
    group.add_argument(
        "--extra-numbers",
        type=extra_numbers,
        metavar="NAMES",
        help="numbers beside AP and recall: "
        + ", ".join(f"{name} ({QUANTITIES[name].meaning})" for name in EXTRA_NUMBERS),
    )
    group.add_argument("--class-agnostic", action="store_true", help="ignore labels: all boxes are one class")


def add_confidence(group: Any, *, resamples: int | None = None) -> None:
    """Add the options for confidence intervals; `resamples`: the default number, None for no intervals."""
    default = "" if resamples is None else f" (default: {resamples:,})"
    group.add_argument(
        "--bootstrap",
        type=num_resamples,
        default=resamples,
        metavar="N",
        help=f"confidence intervals from N bootstrap resamples of the images, such as 1000; 0: none{default}",
    )
    group.add_argument(
        "--seed", type=non_negative, default=0, metavar="S", help="random seed of the resamples (default: 0)"
    )
    group.add_argument(
        "--level", type=inner_fraction, default=0.95, metavar="P", help="confidence level (default: 0.95)"
    )


def add_slices(group: Any) -> None:
    """Add the options for groups of images, each evaluated separately."""
    group.add_argument(
        "--slice",
        metavar="FILE",
        help="evaluate groups of images, one column per group: a table of image and group, or JSON",
    )
    group.add_argument(
        "--slice-by",
        metavar="COLUMN",
        help="column with the group, in FILE, else in GT or DT (a table, or a key of `images` in COCO files)",
    )


def add_documents(group: Any, csv: str) -> None:
    """Add the options for output files; `csv`: the content of a line of the CSV."""
    group.add_argument("--json", metavar="FILE", help="write all results as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help=f"write numbers and classes as CSV, one {csv} per line")
    group.add_argument("--latex", metavar="FILE", help="write tables for LaTeX (booktabs), in percent")
    group.add_argument("--markdown", metavar="FILE", help="write tables in Markdown")
    group.add_argument("--html", metavar="FILE", help="write an HTML report (needs boxscore[report])")
    group.add_argument("--title", metavar="TEXT", help="title of the HTML report (default: the names of the files)")
    add_quiet(group)


def add_quiet(group: Any) -> None:
    """Add the option that prints nothing but errors."""
    group.add_argument("--quiet", action="store_true", help="print no table, no warnings and no notes on files written")


def check_title(options: argparse.Namespace) -> None:
    """Exit with a usage error for a title without a report."""
    if options.title is not None and options.html is None:
        options.command.error("argument --title: needs --html")


def add_engine(group: Any, *, has_ray: bool = False) -> None:
    """Add the options for speed and memory, which change no number."""
    engines = ("auto", "native", "parallel", "sequential", *(["ray"] if has_ray else []))
    group.add_argument(
        "--engine", choices=engines, default="auto", help="how to compute; gives the same numbers (default: auto)"
    )
    add_threads(group)
    if has_ray:
        group.add_argument(
            "--memory",
            type=memory_size,
            metavar="SIZE",
            help="memory limit for Parquet files, such as 500MB or 2GiB; with ray: per worker",
        )
        group.add_argument(
            "--address", metavar="HOST:PORT", help="address of a Ray cluster (default: Ray on this machine)"
        )


def add_threads(group: Any) -> None:
    """Add the option for the number of threads."""
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="number of threads (default: BOXSCORE_THREADS, else all cores, at most OMP_NUM_THREADS)",
    )


def protocols_of(options: argparse.Namespace) -> list[Protocol]:
    """The protocols that the options describe, one per similarity."""
    return [protocol_of(options).replace(iou_type=each) for each in iou_types_of(options)]


def iou_types_of(options: argparse.Namespace) -> tuple[str, ...]:
    """The similarities that the options name, else the protocol's."""
    given: tuple[str, ...] | None = getattr(options, "iou_type", None)
    own = Protocol.named(options.protocol).iou_type
    if given is None:
        if own == "bbox" and not hasattr(options, "is_oriented"):  # files are inspected only once
            options.is_oriented = has_oriented_boxes(options)
        return ("obb",) if own == "bbox" and options.is_oriented else (own,)
    is_alone = len(given) == 1 and (own == "bbox" or given[0] == own or {given[0], own} == {"obb", "probiou"})
    special = next((each for each in given if named_for(options.protocol, each).name != options.protocol), None)
    if not is_alone and (own != "bbox" or special is not None):
        rule = f"{special} must be evaluated alone, as it has another protocol than other similarities"
        if own != "bbox":
            wanted = "obb or probiou" if own == "obb" else own
            rule = f"protocol {options.protocol} needs {wanted}"
        options.command.error(f"argument --iou-type: {rule}; got {','.join(given)}")
    return given


def has_oriented_boxes(options: argparse.Namespace, path: str | None = None, role: Any = "truths") -> bool:
    """Whether the boxes of a file must be oriented, by the box format or by the format of the file.

    `path` is None for the ground truth.
    """
    if getattr(options, "box_format", None) is not None:
        return options.box_format in ORIENTED_FORMATS
    name = getattr(options, "gt_format", None) if path is None else getattr(options, "from_format", None)
    path = str(options.truths) if path is None else path
    if not path or path.lower().endswith((".json", ".json.gz")):
        return False  # known without inspecting the files and without NumPy
    from glob import glob

    from boxscore.formats.files import open_source
    from boxscore.formats.registry import find_format

    path = next(iter(sorted(glob(path))), path)  # noqa: PTH207, a pattern of Parquet files, wherever they are
    with contextlib.suppress(InputError):
        source, each = find_format(name, open_source(path), role)
        return any("obb" in kind.iou_types for kind in each.kinds_of(source, role))
    return False


def protocol_of(options: argparse.Namespace) -> Protocol:
    """The protocol that the options describe, for the first of several similarities."""
    given = {
        "thresholds": getattr(options, "iou", None),
        "limits": options.max_dets,
        "areas": getattr(options, "areas", None),
    }
    given |= {name: getattr(options, name, None) for name in ("min_score", "extra_numbers")}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    base = named_for(options.protocol, iou_types_of(options)[0])
    if getattr(options, "class_agnostic", False):
        if base.federated:
            rule = "a class counts only in images where it was verified, so classes can't be disregarded"
            options.command.error(f"argument --class-agnostic: not with --protocol {options.protocol}: there {rule}")
        changes["class_agnostic"] = True
    if getattr(options, "sigmas", None) is not None:
        if base.similarity != "OKS":
            options.command.error(f"argument --sigmas: OKS needs them, and --iou-type {base.iou_type} does not")
        changes["sigmas"] = options.sigmas
    if "areas" in changes:
        changes["areas"] = {"all": (base.areas[0].low, base.areas[0].high), **changes["areas"]}
    return base.replace(**changes)


def extra_numbers(text: str) -> tuple[str, ...]:
    """Names of numbers in addition to AP and recall.

    >>> extra_numbers("mr,olrp")
    ('mr', 'olrp')
    """
    names = tuple(words(text))
    if unknown := [name for name in names if name not in EXTRA_NUMBERS]:
        raise argparse.ArgumentTypeError(f"invalid choice: {unknown[0]!r} (choose from {', '.join(EXTRA_NUMBERS)})")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"each name once, please; got {text!r}")
    return names


def box_format(text: str) -> str:
    """Name of a box format.

    >>> box_format("xywh")
    'xywh'
    """
    known = (*UPRIGHT_FORMATS, *ORIENTED_FORMATS)
    if text == "cxcywha":
        raise argparse.ArgumentTypeError(
            "say what angles are in, radians or degrees: cxcywha:radians or cxcywha:degrees"
        )
    if text not in known:
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {', '.join(known)})")
    return text


def iou_types(text: str) -> tuple[str, ...]:
    """Similarities separated by commas.

    >>> iou_types("bbox,segm")
    ('bbox', 'segm')
    """
    names = tuple(words(text))
    if not set(names) <= set(IOU_TYPES):  # of a geometry that another package has, or unknown
        from boxscore.data.geometry.kinds import as_iou_types

        with contextlib.suppress(InputError):
            return as_iou_types(names)
    if len(set(names)) < len(names) or not set(names) <= set(IOU_TYPES):
        raise argparse.ArgumentTypeError(f"must be of {', '.join(IOU_TYPES)}, each at most once; got {text!r}")
    return names


def iou_type(text: str) -> tuple[str, ...]:
    """One similarity, in a tuple."""
    if len(names := iou_types(text)) > 1:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(IOU_TYPES)}; got {text!r}")
    return names


def sigmas(text: str) -> tuple[float, ...]:
    """One positive number per point.

    >>> sigmas("0.026,0.025")
    (0.026, 0.025)
    """
    return _checked("sigmas", tuple(_number(part) for part in text.split(",")))  # type: ignore[no-any-return]


def words(text: str) -> list[str]:
    """Names separated by commas."""
    names = [word.strip() for word in text.split(",") if word.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"must be names separated by commas; got {text!r}")
    return names


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1; got {text}")
    return value


def aim(text: str) -> dict[str, float]:
    """Aim of an operating point: {} for the best F1, else a minimum precision or recall."""
    name, _, value = text.partition("=")
    if text == "f1":
        return {}
    if name not in ("precision", "recall") or not value:
        raise argparse.ArgumentTypeError(f"must be f1, precision=P or recall=R; got {text!r}")
    return {name: fraction(value)}


def positive(text: str) -> int:
    """A positive integer."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer; got {text!r}")
    return int(text)


def non_negative(text: str) -> int:
    """A non-negative integer."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a non-negative integer; got {text!r}")
    return int(text)


def num_resamples(text: str) -> int:
    """An integer of at least 2, or 0 for none."""
    if (number := non_negative(text)) == 1:
        raise argparse.ArgumentTypeError(f"must be 2 or more, or 0 for none; got {text!r}")
    return number


def finite(text: str) -> float:
    """A finite number."""
    if not math.isfinite(value := _number(text)):
        raise argparse.ArgumentTypeError(f"must be a finite number; got {text!r}")
    return value


def inner_fraction(text: str) -> float:
    """A number between 0 and 1, both excluded."""
    if not 0 < (value := _number(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be greater than 0 and less than 1; got {text}")
    return value


def memory_size(text: str) -> int:
    """A number of bytes.

    >>> memory_size("1.5GB")
    1500000000
    """
    try:
        return parse_size(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(error.rule) from None


def thresholds(text: str) -> tuple[float, ...]:
    """IoU thresholds: numbers separated by commas, or first:last:step.

    >>> thresholds("0.5,0.75")
    (0.5, 0.75)
    >>> thresholds("0.5:0.95:0.05") == Protocol.named("coco").thresholds
    True
    """
    if ":" not in text:
        values = tuple(fraction(part) for part in text.split(","))
    else:
        parts = text.split(":")
        if len(parts) != 3:
            raise argparse.ArgumentTypeError(f"must be first:last:step; got {text!r}")
        first, last, step = (fraction(part) for part in parts)
        num = round((last - first) / step) if step > 0 else 0
        if num < 1 or abs(first + num * step - last) > 1e-9:
            raise argparse.ArgumentTypeError(f"must reach last from first in whole steps; got {text!r}")
        values = (*(first + i * ((last - first) / num) for i in range(num)), last)
    return _checked("thresholds", values)  # type: ignore[no-any-return]


def limits(text: str) -> tuple[int | None, ...]:
    """Positive integers, or "all".

    >>> limits("1,10,all")
    (1, 10, None)
    """
    return _checked("limits", tuple(None if part == "all" else positive(part) for part in text.split(",")))  # type: ignore[no-any-return]


def areas(text: str) -> dict[str, tuple[float, float | None]]:
    """Named ranges; a missing bound means none. The first range, `all`, is implicit.

    >>> areas("small=0:1024,large=1024:")
    {'small': (0.0, 1024.0), 'large': (1024.0, None)}
    """
    ranges: dict[str, tuple[float, float | None]] = {}
    for part in () if text == "none" else text.split(","):
        name, _, bounds = part.partition("=")
        low, colon, high = bounds.partition(":")
        if not name or not colon:
            raise argparse.ArgumentTypeError(f"must be name=low:high,…; got {text!r}")
        if name in ranges or name == "all":
            raise argparse.ArgumentTypeError(
                f"must have different names, and not `all`, which is implicit; got {text!r}"
            )
        ranges[name] = (_number(low) if low else 0.0, _number(high) if high else None)
    _checked("areas", {"all": (0.0, None), **ranges})
    return ranges


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def _checked(field: str, value: Any) -> Any:
    """The value, validated as a field of a protocol."""
    try:
        Protocol.named("coco", **{field: value})
    except InputError as error:
        raise argparse.ArgumentTypeError(error.rule) from None
    return value
