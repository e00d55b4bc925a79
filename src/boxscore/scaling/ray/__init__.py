"""Evaluation on Ray: the map per image, the reduce per class, with the bits of one machine.

Rows are checked where they are read, and go to shards by the hash of their image. A shard is matched by one task. Its
verdicts go to bins by class, or by score where a class is too large for one task, and each bin's curves are drawn by
one task. The driver sees counts, a sample of the scores and the curves; of boxes some, and only where the result looks
like a mistake.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore._support.memory import num_bytes, text_of
from boxscore.geometry.boxes import BoxFormat, check_box_format
from boxscore.model.dataset import ClassNames, Truths
from boxscore.model.protocol import Protocol, as_protocol
from boxscore.model.result import Result
from boxscore.scaling.ray.datasets import check_columns, library, plain_errors, settings_of
from boxscore.scaling.ray.files import Files
from boxscore.scaling.ray.looking import warn_if_suspicious
from boxscore.scaling.ray.mapping import Job
from boxscore.scaling.ray.reducing import reduce_verdicts, result_of_nothing

LEAST_MEMORY = 10_000_000
"""Of a worker, in bytes: with less, shards would be so many that Ray does nothing but keep count of them."""


def evaluate(
    detections: Any,
    truths: Any,
    protocol: str | Protocol = "coco",
    *,
    box_format: BoxFormat = "xyxy",
    class_names: ClassNames | None = None,
    memory: int | str = "1GB",
    quiet: bool = False,
) -> Result:
    """How well `detections` find `truths`, two `ray.data.Dataset`s: the result of `boxscore.evaluate`, to the last bit.

    Columns are those of `Detections` and `Truths`: `image`, `label`, `score` and `box`, a list or array of 4; `image`,
    `label`, `box` and, if you like, `ignore` and `area`. Images and classes have integers, or names, on both sides;
    names are numbered in alphabetical order. Rows may be in any order; that of the dataset breaks ties within an image,
    as always. If there is a column `path`, as `read_parquet(…, include_paths=True)` gives it, errors name the file.

    `class_names`: as in `Truths`. `memory`: what one worker may use; the numbers of shards and bins follow from it. An
    image is never split, so one that needs more gets more. `quiet`: without Ray's progress bars and notes. An image
    all of whose rows come twice, from two files or blocks, is refused: a shard is there twice. The result has no
    tally; the verdicts stay where they are, and are forgotten.
    """
    return _evaluate(detections, truths, protocol, box_format, class_names, memory, quiet)


def _evaluate(
    detections: Any,
    truths: Any,
    protocol: str | Protocol,
    box_format: BoxFormat,
    class_names: ClassNames | None = None,
    memory: int | str = "1GB",
    quiet: bool = False,
    files: Sequence[str] = (),
) -> Result:
    """The same; `files`: what the datasets read, for errors."""
    check_box_format(box_format)
    protocol = as_protocol(protocol)
    names = Truths(image=[], label=[], box=[], class_names=class_names).names_by_label
    for name, dataset in (("detections", detections), ("truths", truths)):
        if not isinstance(dataset, library().data.Dataset):
            raise InputError(f"`{name}` must be a ray.data.Dataset; got {type(dataset).__name__}")
    limit = num_bytes(memory)
    if limit < LEAST_MEMORY:
        raise InputError(f"`memory` must be {text_of(LEAST_MEMORY)} or more; got {text_of(limit)}")
    with ExitStack() as stack:
        for dataset in (detections, truths):
            stack.enter_context(settings_of(dataset.context, quiet))
        stack.enter_context(plain_errors((detections, truths), quiet, files))
        check_columns(detections, truths)
        job = Job.of(detections, truths, protocol, box_format, names, limit)
        if job.num_rows:
            result = reduce_verdicts(job, job.match(detections, truths))
            warn_if_suspicious(job, result, detections, truths)
        else:
            result = result_of_nothing(job)
        return replace(result, num_given=job.num_detections)


def evaluate_files(
    truths: str | PathLike[str],
    detections: str | PathLike[str],
    protocol: str | Protocol = "coco",
    *,
    box_format: BoxFormat | None = None,
    quiet: bool = False,
    **options: Any,
) -> Result:
    """The result of Parquet, CSV or JSON-lines files, which every worker must be able to read; options as `evaluate`.

    `truths` and `detections` are each a file, a folder, or a pattern like "found/*.parquet", local or at an address
    like "s3://bucket/found". Columns are named as `read_truths` and `read_detections` have it; the box's tell its
    format, but for one column of four numbers, which needs `box_format`.
    """
    with plain_errors((), quiet):
        sides = [
            Files.at(fspath(truths), quiet=quiet),
            Files.at(fspath(detections), has_scores=True, quiet=quiet),
        ]
    first, second = (side.box_format or box_format for side in sides)
    if first is None or second is None:
        side = sides[0 if first is None else 1]
        raise InputError(f"{side.files[0]}: column `{side.box[0]}` has four numbers: say which by `box_format`")
    if first != second:
        raise InputError(f"the boxes of truths and detections must be in one format; got {first} and {second}")
    there, found = (side.dataset() for side in sides)
    files = [file for side in sides for file in side.files]
    return _evaluate(found, there, protocol, first, quiet=quiet, files=files, **options)


def connect(address: str | None = None) -> None:
    """Ray is there: at an address, or, without one, on this machine, started for this process if it has to be."""
    ray = library()
    if not ray.is_initialized():
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="warning",
            include_dashboard=False if address is None else None,
        )
