"""Read files into columns and write columns to files. Each format has a module; `registry` has the table of formats."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from boxscore._support.exceptions import InputError
from boxscore._support.lazy_names import lazy_names
from boxscore._support.text import count
from boxscore._support.threads import num_threads
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format
from boxscore.data.geometry.kinds import as_iou_types
from boxscore.formats.files import open_source, write_output
from boxscore.formats.joining import Report, join, to_truths
from boxscore.formats.records import Options, Records
from boxscore.formats.registry import (
    FORMATS,
    AnyPath,
    Format,
    Role,
    detect,
    find_format,
    format_by_suffix,
    format_to_write,
)
from boxscore.formats.selection import select, select_detections, select_truths, selected_classes, selected_images
from boxscore.formats.writers import Loss, without_kinds

if TYPE_CHECKING:
    from boxscore.formats.groups import read_groups
    from boxscore.formats.ultralytics_results import from_ultralytics

__all__ = [
    "FORMATS",
    "Format",
    "Loss",
    "Records",
    "Report",
    "Role",
    "detect",
    "format_by_suffix",
    "from_ultralytics",
    "join",
    "read_detections",
    "read_detections_and_report",
    "read_groups",
    "read_records",
    "read_truths",
    "select",
    "selected_images",
    "to_truths",
    "write_detections",
    "write_truths",
]

_, __getattr__, __dir__ = lazy_names(
    __name__, globals(), {"groups": "read_groups", "ultralytics_results": "from_ultralytics"}
)


def read_records(path: AnyPath, role: Role, options: Options | None = None, *, format: str | None = None) -> Records:  # noqa: A002
    """Read the rows of a file or folder, each with its location for errors. Numbers are not validated yet."""
    source, each = find_format(format, open_source(path), role)
    options = replace(options or Options(), is_format_given=format is not None)
    records: Records = each.function("read", role)(source, options)
    return with_labels(records, role, options)


def with_labels(records: Records, role: Role, options: Options, known: Mapping[int, str] | None = None) -> Records:
    """Expand the records by the hierarchy of the options; add the coverage of the verified image labels to truths.

    `known`: class names by label, for files that have labels without names.
    """
    hierarchy = None
    if options.hierarchy is not None:
        from boxscore.formats.hierarchy import expand_records, read_hierarchy

        hierarchy = read_hierarchy(options.hierarchy, options.names)
        records = expand_records(records, hierarchy, known)
    if options.image_labels is not None and role == "truths":
        from boxscore.formats.image_labels import cover

        records = cover(records, options, hierarchy)
    return records


def find_swapped(truths: AnyPath, detections: Sequence[AnyPath]) -> AnyPath | None:
    """The file among the detections that can only be truths, if the file of truths can be detections; else None."""
    are_there = all(os.path.exists(path) for path in (truths, *detections))  # noqa: PTH110 (False for a name that is too long)
    if not are_there or not _is_read_as(truths, "detections"):
        return None
    candidates = (path for path in detections if _is_read_as(path, "truths"))
    return next((path for path in candidates if not _is_read_as(path, "detections")), None)


def _is_read_as(path: AnyPath, role: Role) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            read_records(path, role)
    except InputError:
        return False
    return True


def read_truths(
    path: AnyPath,
    *,
    format: str | None = None,  # noqa: A002
    images: Iterable[int | str] | AnyPath | None = None,
    classes: Iterable[int | str] | None = None,
    box_format: BoxFormat | None = None,
    sizes: Any = None,
    names: Any = None,
    iou_type: str | Sequence[str] = "bbox",
    keep_polygons: bool = False,
    image_labels: AnyPath | None = None,
    hierarchy: AnyPath | None = None,
    threads: int | None = None,
) -> Truths:
    """Read the truths in a file, folder, .gz or .zip of any format.

    Images of a format without ids are numbered 0, 1, 2, … by name.

    Args:
        path: The file, folder or archive.
        format: One of `FORMATS`; detected by default.
        images: Images to read: ids or names, the path of a list of them, a pattern like "night_*", or the name of a VOC
            image set. All by default.
        classes: Ids or names of the classes to read. All by default.
        box_format: The format of boxes where the file does not say it: four numbers in one column of a table, lines of
            text files, and COCO results that are not xywh.
        sizes: Sizes of images, for boxes that are fractions: a mapping from ids or names to (width, height), the path
            of a list `name,width,height`, or the folder of the images.
        names: Names of classes, for YOLO and Open Images: a list, or the path of a file.
        iou_type: The shapes to read, one or several: of the geometry that has the similarity, such as boxes for "bbox",
            masks for "segm" and "boundary", oriented boxes for "obb" and "probiou".
        keep_polygons: Keep the polygons that masks are drawn from, for writing them again.
        image_labels: Open Images' verified labels: a CSV with ImageID, LabelName and Confidence, which says which
            classes were verified in which images.
        hierarchy: Open Images' tree of classes in JSON, by which truths and labels are expanded.
        threads: Number of threads for COCO JSON; by default BOXSCORE_THREADS, else all cores of this process.

    >>> from boxscore.cli.sample import FOLDER
    >>> read_truths(FOLDER / "truths.json")
    Truths(222 boxes in 40 images, numpy)
    """
    from boxscore.formats.image_sizes import read_sizes

    options = _options(box_format=box_format, sizes=sizes, names=names, threads=threads, iou_type=iou_type)
    options = replace(options, keeps_polygons=keep_polygons, image_labels=image_labels, hierarchy=hierarchy)
    records = read_records(path, "truths", options, format=format)
    truths = to_truths(records, read_sizes(sizes), iou_types=options.iou_types, keeps_polygons=keep_polygons)
    return select_truths(truths, images=selected_images(images, path), classes=selected_classes(classes))


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
    iou_type: str | Sequence[str] = "bbox",
    score_key: str = "score",
    keep_polygons: bool = False,
    hierarchy: AnyPath | None = None,
    threads: int | None = None,
) -> Detections:
    """Read the detections in a file, folder, .gz or .zip of any format, on the images and classes of the truths.

    If a COCO results file has only masks, `iou_type="bbox"` reads the boxes around them, as pycocotools does.

    Args:
        path: The file, folder or archive.
        truths: The truths, whose images and classes the detections are joined with.
        format: One of `FORMATS`; detected by default.
        images: Images to read, given as for `read_truths`. Other detections are dropped without a warning.
        classes: Ids or names of the classes to read. Other detections are dropped without a warning.
        box_format: The format of boxes where the file does not say it, as for `read_truths`.
        sizes: Sizes of images, for boxes that are fractions, given as for `read_truths`.
        names: Names of classes, for YOLO and Open Images: a list, or the path of a file.
        unmatched: For detections on an image, or of a class, that the truths do not have: "error" raises `InputError`;
            "warn" drops them, and a warning says how many.
        map_classes: The class of the truths for each class of the file, by id or name: a mapping, text like "1:0,2:1",
            or the path of a JSON object or of a CSV of two columns. Classes that it does not have stay as they are.
        iou_type: The shapes to read, one or several, as for `read_truths`.
        score_key: Which score of COCO-WholeBody's results to read, if they have it: "foot_score", …
        keep_polygons: Keep the polygons that masks are drawn from, for writing them again.
        hierarchy: Open Images' tree of classes in JSON, by which detections are expanded.
        threads: Number of threads for COCO JSON; by default BOXSCORE_THREADS, else all cores of this process.

    >>> from boxscore.cli.sample import FOLDER
    >>> read_detections(FOLDER / "detections.json", read_truths(FOLDER / "truths.json"))
    Detections(356 boxes in 40 images, numpy)
    """
    detections, _ = read_detections_and_report(
        path,
        truths,
        format=format,
        images=images,
        classes=classes,
        box_format=box_format,
        sizes=sizes,
        names=names,
        unmatched=unmatched,
        map_classes=map_classes,
        iou_type=iou_type,
        score_key=score_key,
        keep_polygons=keep_polygons,
        hierarchy=hierarchy,
        threads=threads,
    )
    return detections


def read_detections_and_report(
    path: AnyPath,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    images: Any = None,
    classes: Any = None,
    unmatched: Literal["error", "warn"] = "error",
    map_classes: Any = None,
    score_key: str = "score",
    keep_polygons: bool = False,
    keep_labels: bool = False,
    hierarchy: AnyPath | None = None,
    **details: Any,
) -> tuple[Detections, Report]:
    """Read detections, and report the rows that are dropped because their image or class is unknown.

    The options are as for `read_detections`. In addition, `keep_labels` keeps detections of classes that the truths do
    not have, or that are not selected, with their labels, if the file has labels but no class names; `explain_claim`
    searches for a mapping of them.
    """
    from boxscore.formats.image_sizes import read_sizes

    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    if unmatched not in ("error", "warn"):
        raise InputError(f"`unmatched` must be one of error, warn; got {unmatched!r}")
    known = list((truths.names_by_label or {}).values())
    options = _options(**details)
    options = replace(options, known_classes=known, keeps_polygons=keep_polygons, score_key=score_key)
    records = read_records(path, "detections", options, format=format)
    if map_classes is not None:
        from boxscore.formats import class_map

        records = class_map.map_classes(records, class_map.read_class_map(map_classes), truths)
    if hierarchy is not None:
        records = with_labels(records, "detections", replace(options, hierarchy=hierarchy), truths.names_by_label)
    some_images, some_classes = selected_images(images, path), selected_classes(classes)
    settings: dict[str, Any] = {"images": some_images, "classes": some_classes}
    settings |= {"iou_types": options.iou_types, "keeps_polygons": keep_polygons, "keeps_labels": keep_labels}
    detections, report = join(records, truths, read_sizes(options.sizes), **settings)
    if report.unmatched and unmatched == "error":
        raise InputError(str(report.unmatched[0]))
    if report.unmatched:
        dropped = count(report.num_unmatched, "detection")
        reasons = "; ".join(map(str, report.unmatched))
        warnings.warn(f"{dropped} of {report.num_rows:,} left out: {reasons}", stacklevel=2)
    some_classes = None if keep_labels else some_classes
    return select_detections(detections, truths, images=some_images, classes=some_classes), report


def _options(
    *, box_format: BoxFormat | None, threads: int | None, iou_type: str | Sequence[str], **others: Any
) -> Options:
    iou_types = as_iou_types(iou_type)
    if box_format is not None:
        check_box_format(box_format)
    if threads is not None:
        num_threads(threads)
    return Options(box_format=box_format, threads=threads, iou_types=iou_types, **others)


def write_truths(
    path: AnyPath,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    overwrite: bool = False,
) -> tuple[Loss, ...]:
    """Write the truths to a file or folder, all or nothing.

    Args:
        path: The file or folder to write.
        truths: The truths.
        format: One of `FORMATS`; by default the suffix decides (.json, .csv, .tsv, .npz, .parquet, .arrow, each also
            with .gz).
        overwrite: Whether to write into a folder that is not empty, which is refused by default.

    Returns:
        A `Loss` for each kind of data that the format cannot hold, or not exactly.
    """
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")
    path = Path(path)
    each = format_to_write(format, path, "truths")
    flagged, losses = without_kinds(truths, each)
    return (*_write(path, "truths", each.name, overwrite, flagged), *(loss for loss in losses if loss.num))


def write_detections(
    path: AnyPath,
    detections: Detections,
    truths: Truths,
    *,
    format: str | None = None,  # noqa: A002
    overwrite: bool = False,
) -> tuple[Loss, ...]:
    """Write the detections to a file or folder, all or nothing.

    Args:
        path: The file or folder to write.
        detections: The detections.
        truths: The truths, which give the names of images and classes.
        format: One of `FORMATS`; by default the suffix decides, as for `write_truths`.
        overwrite: Whether to write into a folder that is not empty, which is refused by default.

    Returns:
        A `Loss` for each kind of data that the format cannot hold, or not exactly.
    """
    if not isinstance(detections, Detections):
        raise InputError(f"`detections` must be boxscore.Detections; got {type(detections).__name__}")
    return _write(Path(path), "detections", format, overwrite, detections, truths)


def _write(path: Path, role: Role, name: str | None, overwrite: bool, *columns: Any) -> tuple[Loss, ...]:
    each = format_to_write(name, path, role)
    settings = {"path": path} if each.needs_path else {}
    output, losses = each.function("write", role)(*columns, **settings)
    write_output(path, output, overwrite=overwrite)
    return tuple(loss for loss in losses if loss.num)
