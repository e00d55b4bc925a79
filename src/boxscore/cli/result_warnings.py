"""Warnings of `eval` and `compare` about results that suggest a mistake in the files."""

import argparse
import warnings
from typing import TYPE_CHECKING

from boxscore._support.text import fraction
from boxscore.checks.suspicion import Counts
from boxscore.cli.arguments import iou_types_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from boxscore.data.dataset import Detections
    from boxscore.protocol.protocol import Protocol
    from boxscore.result.result import Result

_BOX_FORMAT = {"coco": "`--box-format {}` reads them so"} | dict.fromkeys(
    ("csv", "parquet", "npz"), "name their columns so, or try `--box-format {}`"
)
"""The remedy for a wrong box format, by the format of the file."""


def warn_if_suspicious(options: argparse.Namespace, path: str, result: "Result") -> None:
    """Warn about likely mistakes behind a result, each at most once per file of detections."""
    if result.inputs is None:
        return
    from boxscore.checks.mistakes import Remedies, find_mistakes
    from boxscore.formats import detect

    counts = Counts.of_result(result.per_class)
    detected = options.dt_format or detect(path, "detections")
    remedies = Remedies(
        detections=path,
        truths=options.truths,
        box_format=_BOX_FORMAT.get(detected, "write them in the format's own way"),
        truth_box_format="convert them",
        both_formats="are both {}? Convert them",
        angles="`--box-format {}` reads them so",
        labels="`--map-classes` does that",
        classes="`--map-classes` says which is which",
        class_names="put a name for 0 in front" if options.names is not None else None,
    )
    messages = [*map(str, find_mistakes(result, *result.inputs, remedies))]
    if not messages and counts.is_near_zero:
        threshold = f"{result.protocol.similarity} {result.protocol.thresholds[0]:g}"
        messages = [
            f"{path}: AP at {threshold} is {fraction(counts.mean_ap)}; no other reading of"
            " labels, boxes and units would raise it, so the detections may just be bad, or belong to other images"
        ]
    for message in messages:
        warnings.warn(f"{message}; try `{check_command(options, path)}`", stacklevel=2)


def warn_of_masks(options: argparse.Namespace, path: str, detections: "Detections") -> None:
    """Warn if detections that have only masks, and therefore areas, are evaluated as boxes."""
    if iou_types_of(options) == ("bbox",) and detections.area is not None:
        message = "has masks and no boxes, so the boxes around the masks are evaluated; `--iou-type segm` evaluates the"
        warnings.warn(f"{path}: {message} masks", stacklevel=2)


def warn_of_ids(options: argparse.Namespace, protocol: "Protocol", scores: "Sequence[tuple[str, float]]") -> None:
    """Warn if pycocotools gives another `map` for a file because of annotation ids. `scores` has paths and `map`."""
    if any(
        getattr(options, name, None) is not None for name in ("only_images", "classes", "box_format", "sizes", "names")
    ):
        return
    from boxscore.checks.pycocotools_ids import differing

    for message in differing(options.truths, scores, protocol, options.gt_format):
        warnings.warn(message, stacklevel=2)


def check_command(options: argparse.Namespace, path: str) -> str:
    """The `boxscore check` command line for these files."""
    import shlex

    return shlex.join(["boxscore", "check", options.truths, path])
