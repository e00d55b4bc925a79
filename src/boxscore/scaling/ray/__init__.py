"""Evaluation on Ray: the map per image, the reduce per class, with the bits of one machine.

Rows are validated where they are read, and go to shards by the hash of their image. A shard is matched by one task.
`boxscore.engines.map_reduce` does the rest, with one task per bin. The driver process gets counts and curves; it gets
some boxes only if the result looks like a mistake.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.data.dataset import ClassNames
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.kinds import kind_of
from boxscore.engines.map_reduce import reduce_tallies
from boxscore.protocol.protocol import ProtocolLike, as_protocol
from boxscore.result.result import Result
from boxscore.scaling.ray.datasets import check_columns, library, one_line_errors, settings_of
from boxscore.scaling.ray.job import Job
from boxscore.scaling.ray.parquet_files import Files
from boxscore.scaling.ray.suspicious_results import warn_if_suspicious
from boxscore.scaling.ray.tally_store import RayTallyStore


def evaluate(
    detections: Any,
    truths: Any,
    protocol: ProtocolLike = "coco",
    *,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    memory: int | str = "1GB",
    quiet: bool = False,
) -> Result:
    """Evaluate two `ray.data.Dataset`s: the result of `boxscore.evaluate`, to the last bit.

    Rows may be in any order; their order in the dataset breaks ties within an image, as always. An image is never
    split, so an image that needs more than `memory` gets more. An image all of whose rows come twice, from two files or
    blocks, is an error: a shard was given twice. The result has no tally; the verdicts stay on the workers.

    Args:
        detections: Columns `image`, `label`, `score` and `box`, a list or array of 4. A protocol of masks
            (`Protocol.named("coco", iou_type="segm")`) reads `mask` instead of `box`: a struct of `size`, height and
            width, and `counts`, COCO's compressed run lengths. A protocol of other shapes reads the columns of their
            geometry (a list or tensor for several numbers), and optionally `box` and `area`. With a column `path`, as
            `read_parquet(…, include_paths=True)` gives it, errors name the file.
        truths: As `detections`, without `score`, optionally with `ignore`, `area` and the geometry's `more_columns`.
            Images and classes are integers, or names, on both sides; names are numbered in alphabetical order.
        protocol: A protocol or its name.
        box_format: The format of the boxes on both sides.
        class_names: As in `Truths`.
        memory: Memory of one worker; it determines the numbers of shards and bins. A class must fit, 250 bytes per
            detection.
        quiet: Without Ray's progress bars and notes.
    """
    return _evaluate(detections, truths, Job.of(protocol, box_format, class_names, memory), quiet)


def _evaluate(detections: Any, truths: Any, job: Job, quiet: bool, files: Sequence[str] = ()) -> Result:
    """Evaluate two datasets. `files`: the files that they read, for errors."""
    for name, dataset in (("detections", detections), ("truths", truths)):
        if not isinstance(dataset, library().data.Dataset):
            raise InputError(f"`{name}` must be a ray.data.Dataset; got {type(dataset).__name__}")
    with ExitStack() as stack:
        for dataset in (detections, truths):
            stack.enter_context(settings_of(dataset.context, quiet))
        stack.enter_context(one_line_errors((detections, truths), quiet, files))
        check_columns(detections, truths, job.kind.columns)
        job = job.survey(detections, truths)
        tallies = job.match(detections, truths) if job.num_rows else None
        result = reduce_tallies(RayTallyStore.of(job, tallies), threads=1)
        warn_if_suspicious(job, result, detections, truths)
        return replace(result, num_given=job.num_detections)


def evaluate_files(
    detections: str | PathLike[str],
    truths: str | PathLike[str],
    protocol: ProtocolLike = "coco",
    *,
    box_format: BoxFormat | None = None,
    class_names: ClassNames | None = None,
    memory: int | str = "1GB",
    quiet: bool = False,
) -> Result:
    """Evaluate Parquet, CSV or JSON-lines files, which every worker must be able to read.

    Args:
        detections: A file, a folder, or a pattern like "found/*.parquet", local or at an address like
            "s3://bucket/found". Columns are named as in `read_detections`.
        truths: As `detections`; columns are named as in `read_truths`.
        protocol: A protocol or its name.
        box_format: The format of the boxes. Needed if they are one column of four numbers; else column names imply it.
        class_names: As in `Truths`.
        memory: Memory of one worker; it determines the numbers of shards and bins. A class must fit, 250 bytes per
            detection.
        quiet: Without Ray's progress bars and notes.
    """
    with one_line_errors((), quiet):
        kind = kind_of(as_protocol(protocol).iou_type)
        sides = [
            Files.at(fspath(detections), has_scores=True, kind=kind, box_format=box_format, quiet=quiet),
            Files.at(fspath(truths), kind=kind, box_format=box_format, quiet=quiet),
        ]
    first, second = (side.known_box_format(box_format) for side in sides)
    if first != second:
        raise InputError(f"the boxes of detections and truths must be in one format; got {first} and {second}")
    job = Job.of(protocol, first, class_names, memory)
    files = [*sides[0].files, *sides[1].files]
    return _evaluate(sides[0].dataset(), sides[1].dataset(), job, quiet, files)


def connect(address: str | None = None) -> None:
    """Connect to Ray, if this process is not connected yet.

    Args:
        address: The address of a cluster; None: start Ray on this machine if it isn't running.
    """
    ray = library()
    if not ray.is_initialized():
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="warning",
            include_dashboard=False if address is None else None,
        )
