"""The pipeline on one page: columns -> match -> Tally -> curves -> averages -> Result."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.arrays import is_in_host_memory, library, to_numpy
from boxscore.data.dataset import Detections, Truths, check_labels_are_named, host_ids, pooled, pooled_order
from boxscore.data.preparation import common_iou_type, prepare, prepare_rows
from boxscore.engines.map_reduce import finish_tallies, finish_within_limit
from boxscore.engines.native import compiled_engine as native
from boxscore.engines.native.jaccard import count_jaccard
from boxscore.protocol.protocol import EngineName, Protocol, ProtocolLike, as_protocol
from boxscore.protocol.table import protocol_of
from boxscore.result.curves import Curves
from boxscore.result.result import Inputs, Result, summarize
from boxscore.result.tally import Tally, check_can_be_one, joined

if TYPE_CHECKING:
    from boxscore.result.saved_results import Header


class Engine(NamedTuple):
    """One way to do the work. All give the same verdicts and the same curves."""

    match: Callable[[Detections, Truths, Protocol, int, bool], Tally]
    curves: Callable[[Tally, int], Curves]


ENGINES = ("native", "parallel", "sequential")


def evaluate(
    detections: Detections,
    truths: Truths,
    protocol: ProtocolLike = "coco",
    engine: EngineName = "auto",
    *,
    threads: int | None = None,
) -> Result:
    """How well `detections` find `truths`, under a protocol.

    `protocol`: "coco", "voc2007", "voc2012", "paper", "coco_keypoints", … or a `Protocol`. A name takes the shapes that
    both sides have, boxes if they have several; the `iou_type` of a `Protocol` says which: "bbox", "segm", "boundary",
    "keypoints", "obb", "probiou". `engine`:
    "native" is C++ for arrays in host memory; "parallel" works on any array library, on its device; "sequential" is the
    textbook loop, the same and slow; "auto" takes "native" for data in host memory, else "parallel". `threads`: for
    "native", else BOXSCORE_THREADS, else all cores that this process may use, at most OMP_NUM_THREADS; any number gives
    the same bits. Empty inputs are fine: without truths every number is NaN, without detections 0.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image=[0, 0], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 10, 10]], box_format="xywh")
    >>> detections = Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 10, 9]], box_format="xywh")
    >>> result = evaluate(detections, truths)  # one of two found, with IoU 0.9
    >>> round(result["map_50"], 4), result["mar_100"]
    (0.505, 0.45)
    """
    check_sides(detections, truths)
    rules = protocol_for(protocol, detections, truths)
    inputs = Inputs(*prepare(detections, truths, rules))
    chosen, sides = _sides_for_engine(inputs, rules, engine)
    if chosen == "native" and native.can_evaluate(rules):
        tally, finished = native.evaluate(*sides, rules, num_threads(threads))
        result = summarize(*finished, tally)
    else:
        result = finish(_match(chosen, sides, rules, threads), engine, threads=threads)
    return replace(result, inputs=inputs, num_given=len(detections))


def match(
    detections: Detections,
    truths: Truths,
    protocol: ProtocolLike = "coco",
    engine: EngineName = "auto",
    *,
    threads: int | None = None,
    trace: bool = False,
) -> Tally:
    """The verdict of every detection. Tallies of different images can be merged before they are finished.

    Args:
        detections: Every detection of these images.
        truths: Every truth of these images.
        protocol: As in `evaluate`.
        engine: As in `evaluate`.
        threads: As in `evaluate`.
        trace: Record which rows of `detections` and `truths` the tally is of, in `Tally.row` and `Tally.truth_row`, and
            which truth each detection takes in the first area range at the first threshold, in `Tally.taken` and
            `Tally.taken_similarity`. `Protocol.at` makes any threshold the first. Rows that the protocol leaves out
            are in no column. Merging tallies and storing them drops these columns.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image=[0, 0], label=[1, 1], box=[[20, 20, 30, 30], [0, 0, 10, 10]])
    >>> detections = Detections(image=[0, 0], label=[1, 1], score=[0.7, 0.9], box=[[0, 0, 9, 9], [0, 0, 10, 9]])
    >>> tally = match(detections, truths, "voc2012", trace=True)
    >>> tally.verdict.tolist(), tally.row.tolist(), tally.taken.tolist(), tally.taken_similarity.tolist()
    ([[[2]], [[1]]], [1, 0], [1, -1], [0.9090909090909091, nan])
    """
    check_sides(detections, truths)
    rules = protocol_for(protocol, detections, truths)
    prepared = prepare_rows(detections, truths, rules)
    inputs = Inputs(prepared.detections, prepared.truths)
    tally = _match(*_sides_for_engine(inputs, rules, engine), rules, threads, is_traced=trace)
    if trace and rules.class_agnostic:
        tally = tally.traced_to(*(pooled_order(to_numpy(side.label)) for side in inputs))
    return tally.traced_to(prepared.row, prepared.truth_row) if trace else tally


def check_sides(detections: Any, truths: Any) -> None:
    """Raise `InputError` unless these are detections and truths."""
    if not isinstance(detections, Detections):
        raise InputError(f"`detections` must be boxscore.Detections; got {type(detections).__name__}")
    if not isinstance(truths, Truths):
        raise InputError(f"`truths` must be boxscore.Truths; got {type(truths).__name__}")


def _sides_for_engine(inputs: Inputs, protocol: Protocol, engine: str) -> tuple[str, Inputs]:
    """Choose the engine that matches, and pool the classes of both sides if the protocol ignores them."""
    detections, truths = inputs
    arrays = (*detections.geometry.arrays, *truths.geometry.arrays)
    library(*arrays)  # one, or NumPy and one
    if engine == "auto":
        engine = "native" if all(map(is_in_host_memory, arrays)) else "parallel"
    _check_engine(engine)
    if (names := truths.names_by_label) is not None:
        check_labels_are_named(detections.label, names)
    return engine, Inputs(pooled(detections), pooled(truths)) if protocol.class_agnostic else inputs


def _match(engine: str, sides: Inputs, protocol: Protocol, threads: int | None, *, is_traced: bool = False) -> Tally:
    detections, truths = sides
    tally = _engine(engine).match(detections, truths, protocol, num_threads(threads), is_traced)
    if protocol.class_groups:
        tally = replace(tally, class_groups=truths.class_groups)
    if detections.invalid_image is not None:
        tally = replace(tally, invalid_image=detections.invalid_image)
    return _with_images(tally, detections, truths, num_threads(threads)) if protocol.extra_numbers else tally


def _with_images(tally: Tally, detections: Detections, truths: Truths, threads: int) -> Tally:
    """The same with what extra numbers need to know of each image."""
    images = np.union1d(host_ids(detections.image), host_ids(truths.image))
    jaccard = None
    if "ji" in tally.protocol.extra_numbers:
        jaccard = count_jaccard(detections, truths, images, tally.protocol, threads)
    listed = truths.image_names or truths.image_sizes or ()
    return replace(tally, listed_image=images, jaccard=jaccard).listing(listed)


def protocol_for(protocol: ProtocolLike, detections: Detections, truths: Truths) -> Protocol:
    """A protocol, or the one of that name for the shapes that both sides have: boxes, unless one side has none."""
    if not isinstance(protocol, str):
        return as_protocol(protocol)
    named = as_protocol(protocol)
    if named.iou_type != "bbox":
        return named  # a protocol of these shapes alone
    return protocol_of(protocol, common_iou_type(detections, truths) or named.iou_type)


def finish(tally: Tally | Sequence[Tally], engine: EngineName = "auto", *, threads: int | None = None) -> Result:
    """The result of all that a tally has counted, or several tallies of different images.

    Several tallies give the same bits as one into which they were merged, but large ones are not copied for it.

    >>> from boxscore import Detections, Truths
    >>> truths = [Truths(image=[i], label=[1], box=[[0, 0, 10, 10]]) for i in range(2)]
    >>> detections = [Detections(image=[i], label=[1], score=[0.9], box=[[0, 0, 10, 9 - i]]) for i in range(2)]
    >>> round(finish([match(*pair) for pair in zip(detections, truths)])["map"], 4)
    0.801
    """
    tallies = [tally] if isinstance(tally, Tally) else _as_tallies(tally)
    return finish_within_limit(tallies, lambda parts: _finish(parts, engine, threads))


def _finish(tallies: list[Tally], engine: str, threads: int | None) -> Result:
    name = "native" if engine == "auto" else engine
    chosen, num = _engine(name), num_threads(threads)
    if name == "native":
        return finish_tallies(tallies, num)
    whole = joined(tallies) if len(tallies) > 1 else tallies[0]
    totals, curves = whole.totals, chosen.curves(whole, num)
    pooled_curves = chosen.curves(whole.pooled(), num) if whole.protocol.average == "micro" else None
    return summarize(totals, curves, native.average(totals, curves, pooled_curves), whole)


def load_result(path: str | PathLike[str]) -> Result:
    """The result in a file that `Result.save` or `Tally.save` made, with the same bits.

    It has no `inputs`, so errors and the confusion matrix are not available. Any other file, and one that is truncated
    or damaged, is an `InputError`.

    >>> import tempfile
    >>> from boxscore import Detections, Truths, evaluate
    >>> truths = Truths(image=[0], label=[1], box=[[0, 0, 10, 10]])
    >>> result = evaluate(Detections(image=[0], label=[1], score=[0.9], box=[[0, 0, 10, 9]]), truths)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(f"{folder}/runs/a/epoch_003.boxscore", step=3)
    ...     load_result(f"{folder}/runs/a/epoch_003.boxscore")["map"] == result["map"]
    True
    """
    from boxscore.result.saved_results import read_saved

    return finish_saved(*read_saved(path))


def finish_saved(tally: Tally, header: "Header | None") -> Result:
    """The result of a saved tally, with the facts about its inputs that the header has."""
    result = finish(tally)
    return result if header is None else replace(result, num_given=header.num_given, stored=header.stored)


def _as_tallies(tallies: Any) -> list[Tally]:
    if not isinstance(tallies, list | tuple) or not tallies or not all(isinstance(each, Tally) for each in tallies):
        raise InputError(f"`tally` must be a boxscore.Tally, or a list of them; got {_kinds(tallies)}")
    check_can_be_one(tallies)
    return list(tallies)


def _kinds(values: Any) -> str:
    if not isinstance(values, list | tuple):
        return type(values).__name__
    return f"a list of {' and '.join(sorted({type(each).__name__ for each in values})) or 'none'}"


def _check_engine(name: str) -> None:
    if name not in ENGINES:
        raise InputError(f"`engine` must be one of auto, {', '.join(ENGINES)}; got {name!r}")


def _engine(name: str) -> Engine:
    """The engine of a name. Native is always loaded, as means are its own; the others are when they are asked for."""
    _check_engine(name)
    if name == "parallel":
        from boxscore.engines.parallel import array_engine

        return Engine(array_engine.match, array_engine.curves)
    if name == "sequential":
        from boxscore.engines import sequential

        return Engine(sequential.match, sequential.curves)
    return Engine(native.match, native.curves)
