"""Evaluation of data larger than memory: on Ray, or within a memory limit."""

import argparse

from boxscore._support.exceptions import InputError
from boxscore.cli.input_files import is_pipe
from boxscore.cli.terminal import Progress
from boxscore.protocol.protocol import Protocol
from boxscore.result.summary import Summary

_REFUSED = (
    *("gt_format", "dt_format", "sizes", "names", "classes", "only_images", "min_score", "map_classes"),
    *("image_labels", "hierarchy"),
)
"""Options of readers, which neither of the two supports."""
_NEEDS_VERDICTS = (
    *("bootstrap", "html", "plots", "errors", "operating_point", "confusion", "calibration", "worst_images"),
    *("slice", "slice_by"),
)
"""Options that need all verdicts or boxes in memory."""


def evaluate_large_data(options: argparse.Namespace, detections: str, protocol: Protocol) -> Summary:
    """Evaluate one file, folder or pattern of detections, on Ray or within a memory limit."""
    option = "--engine ray" if options.engine == "ray" else "--memory"
    for name in (*_REFUSED, *_NEEDS_VERDICTS):
        if getattr(options, name) not in (None, False, 0):
            options.command.error(f"argument --{name.replace('_', '-')}: not with {option}")
    for path in (options.truths, detections):
        if is_pipe(path):
            raise InputError(f"{path}: must be a Parquet file, a folder or a pattern with {option}; got a pipe")
    if options.engine == "ray":
        from boxscore.scaling import ray

        limit = {} if options.memory is None else {"memory": options.memory}
        ray.connect(options.address)
        return ray.evaluate_files(
            detections, options.truths, protocol, box_format=options.box_format, quiet=options.quiet, **limit
        ).summary
    if options.engine not in ("auto", "native"):
        options.command.error(f"argument --engine: {options.engine} has no limit of memory")
    from boxscore.scaling.out_of_core import evaluate_files

    with Progress(6, is_quiet=options.quiet) as progress:
        return evaluate_files(
            detections,
            options.truths,
            protocol,
            memory=options.memory,
            box_format=options.box_format,
            unmatched=options.unmatched,
            threads=options.threads,
            step=progress.step,
        ).summary
