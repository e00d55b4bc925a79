"""What options mean: text to values. A value that can't be right is a wrong call, exit code 2."""

import argparse
import math
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore._support.memory_size import parse_size
from boxscore.model.protocol import PROTOCOLS, Protocol


def add_files(parser: argparse.ArgumentParser, *, is_detections_optional: bool = False) -> None:
    """The ground truth, and detections."""
    parser.add_argument("truths", metavar="GT", help="ground truth: a file, folder, .gz or .zip in any format")
    nargs, note = (
        ("*", "; none: the ground truth alone")
        if is_detections_optional
        else ("+", "; several get a column each, as NAME=DT under that name")
    )
    parser.add_argument("detections", metavar="DT", nargs=nargs, help=f"detections, in any format{note}")


def add_formats(parser: argparse.ArgumentParser) -> None:
    """What files are, where it can't be found out, and which part of them is wanted."""
    group = parser.add_argument_group("files")
    group.add_argument("--gt-format", metavar="NAME", help="format of GT (default: found out)")
    group.add_argument("--dt-format", metavar="NAME", help="format of DT (default: found out)")
    add_details(group)


def add_details(group: Any) -> None:
    """What files may not say of themselves."""
    group.add_argument(
        "--box-format",
        choices=("xyxy", "xywh", "cxcywh"),
        help="what the four numbers of a table's box column, or of COCO results, are",
    )
    group.add_argument(
        "--sizes", metavar="PATH", help="image sizes for normalized boxes: name,width,height, or the images"
    )
    group.add_argument("--names", metavar="FILE", help="class names for YOLO and Open Images: data.yaml, or a list")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Some of the images and classes."""
    group = parser.add_argument_group("selection")
    group.add_argument("--classes", type=words, metavar="A,B", help="only these classes, by name or id")
    group.add_argument(
        "--images",
        metavar="LIST",
        help="only these images: a file with one per line, a glob like 'night_*', or the name of a VOC image set of GT",
    )
    group.add_argument("--min-score", type=finite, metavar="S", help="only detections with this score or a higher one")
    group.add_argument(
        "--map-classes",
        metavar="MAP",
        help="GT's classes for DT's, by id or name: 1:0,2:1, or a JSON object or CSV of two columns",
    )
    group.add_argument(
        "--unmatched",
        choices=("error", "warn"),
        default="error",
        help="detections on images or of classes that GT does not have: an error (default), or left out with a warning",
    )


def add_limits(parser: argparse.ArgumentParser) -> Any:
    """The protocol, and how many detections count in it; the group, for more of it."""
    group = parser.add_argument_group("protocol")
    group.add_argument("--protocol", choices=tuple(PROTOCOLS), default="coco", help="the rules (default: coco)")
    group.add_argument("--max-dets", type=limits, metavar="N", help="detections per image and class: 1,10,100 or all")
    return group


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """All that decides a number."""
    group = add_limits(parser)
    group.add_argument("--iou", type=thresholds, metavar="T", help="IoU thresholds: 0.5 or 0.5,0.75 or 0.5:0.95:0.05")
    group.add_argument(
        "--areas", type=areas, metavar="RANGES", help="e.g. small=0:1024,large=1024: in square pixels, or none"
    )
    group.add_argument("--class-agnostic", action="store_true", help="disregard classes: every box is of one")


def add_confidence(parser: argparse.ArgumentParser, *, resamples: int | None = None) -> None:
    """How sure the numbers are; `resamples`: the default, None for no intervals."""
    group = parser.add_argument_group("confidence")
    default = "" if resamples is None else f" (default: {resamples:,})"
    group.add_argument(
        "--bootstrap",
        type=several,
        default=resamples,
        metavar="N",
        help=f"intervals from N resamples of the images, such as 1000; 0: none{default}",
    )
    group.add_argument("--seed", type=whole, default=0, metavar="S", help="what the resamples depend on (default: 0)")
    group.add_argument(
        "--level", type=inner_fraction, default=0.95, metavar="P", help="what an interval holds (default: 0.95)"
    )


def add_slices(parser: argparse.ArgumentParser) -> None:
    """Groups of images, each with numbers of its own."""
    group = parser.add_argument_group("slices")
    group.add_argument(
        "--slice", metavar="FILE", help="a column for each group of images: a table of image and group, or JSON"
    )
    group.add_argument(
        "--slice-by",
        metavar="COLUMN",
        help="the column with the group: of FILE, else of GT or DT, a table or COCO, where it is a key of `images`",
    )


def add_documents(group: Any, csv: str) -> None:
    """Files to write; `csv`: what a line of a CSV has."""
    group.add_argument("--json", metavar="FILE", help="write all of it as JSON; `-`: to stdout, instead of the table")
    group.add_argument("--csv", metavar="FILE", help=f"the same of numbers and classes as CSV, one {csv} a line")
    group.add_argument("--latex", metavar="FILE", help="the same as tables for LaTeX's booktabs, in percent")
    group.add_argument("--markdown", metavar="FILE", help="the same as tables in Markdown")
    group.add_argument("--html", metavar="FILE", help="the same as a report for people (needs boxscore[report])")
    group.add_argument("--title", metavar="TEXT", help="of the report (default: the names of the files)")
    group.add_argument("--quiet", action="store_true", help="print no table, no warnings and no files written")


def check_title(options: argparse.Namespace) -> None:
    """A title without a report is a wrong call."""
    if options.title is not None and options.html is None:
        options.command.error("argument --title: is for --html")


def add_engine(parser: argparse.ArgumentParser, *, has_ray: bool = False) -> None:
    """How it is computed, which changes no number."""
    group = parser.add_argument_group("engine")
    engines = ("auto", "native", "parallel", "sequential", *(["ray"] if has_ray else []))
    group.add_argument("--engine", choices=engines, default="auto")
    group.add_argument("--threads", type=positive, metavar="N", help="default: BOXSCORE_THREADS, else all cores")
    if has_ray:
        group.add_argument(
            "--memory",
            type=amount,
            metavar="SIZE",
            help="stay within 500MB, 2GiB, …: Parquet files; with ray: of a worker",
        )
        group.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster (default: Ray on this machine)")


def protocol_of(options: argparse.Namespace) -> Protocol:
    """The protocol that the options ask for."""
    given = {
        "thresholds": getattr(options, "iou", None),
        "limits": options.max_dets,
        "areas": getattr(options, "areas", None),
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if getattr(options, "class_agnostic", False):
        changes["class_agnostic"] = True
    base = Protocol.named(options.protocol)
    if "areas" in changes:
        changes["areas"] = {"all": (base.areas[0].low, base.areas[0].high), **changes["areas"]}
    return base.replace(**changes)


def words(text: str) -> list[str]:
    """Names between commas."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"must be names between commas; got {text!r}")
    return found


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1; got {text}")
    return value


def aim(text: str) -> dict[str, float]:
    """What an operating point is chosen by: nothing more for f1, else the least precision or recall."""
    name, _, value = text.partition("=")
    if text == "f1":
        return {}
    if name not in ("precision", "recall") or not value:
        raise argparse.ArgumentTypeError(f"must be f1, precision=P or recall=R; got {text!r}")
    return {name: fraction(value)}


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer; got {text!r}")
    return int(text)


def whole(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number, not negative; got {text!r}")
    return int(text)


def several(text: str) -> int:
    """A whole number above 1, or 0 for none."""
    if (number := whole(text)) == 1:
        raise argparse.ArgumentTypeError(f"must be 2 or more, or 0 for none; got {text!r}")
    return number


def finite(text: str) -> float:
    """A finite number."""
    if not math.isfinite(value := _number(text)):
        raise argparse.ArgumentTypeError(f"must be a finite number; got {text!r}")
    return value


def inner_fraction(text: str) -> float:
    """A number between 0 and 1."""
    if not 0 < (value := _number(text)) < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, both excluded; got {text}")
    return value


def amount(text: str) -> int:
    """A number of bytes.

    >>> amount("1.5GB")
    1500000000
    """
    try:
        return parse_size(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error).partition(" ")[2]) from None


def thresholds(text: str) -> tuple[float, ...]:
    """One number, some, or first:last:step.

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
            raise argparse.ArgumentTypeError(f"must go from first to last in whole steps; got {text!r}")
        values = (*(first + i * ((last - first) / num) for i in range(num)), last)
    return _checked("thresholds", values)  # type: ignore[no-any-return]


def limits(text: str) -> tuple[int | None, ...]:
    """Whole numbers, or "all".

    >>> limits("1,10,all")
    (1, 10, None)
    """
    return _checked("limits", tuple(None if part == "all" else positive(part) for part in text.split(",")))  # type: ignore[no-any-return]


def areas(text: str) -> dict[str, tuple[float, float | None]]:
    """Named ranges; an end that is left out is none. All boxes together are always a range, the first.

    >>> areas("small=0:1024,large=1024:")
    {'small': (0.0, 1024.0), 'large': (1024.0, None)}
    """
    found: dict[str, tuple[float, float | None]] = {}
    for part in () if text == "none" else text.split(","):
        name, _, bounds = part.partition("=")
        low, colon, high = bounds.partition(":")
        if not name or not colon:
            raise argparse.ArgumentTypeError(f"must be name=low:high,…; got {text!r}")
        if name in found or name == "all":
            raise argparse.ArgumentTypeError(f"must have different names, and `all` is there by itself; got {text!r}")
        found[name] = (_number(low) if low else 0.0, _number(high) if high else None)
    _checked("areas", {"all": (0.0, None), **found})
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def _checked(field: str, value: Any) -> Any:
    """The value, if a protocol takes it."""
    try:
        Protocol.named("coco", **{field: value})
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value
