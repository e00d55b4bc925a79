"""The pipeline on one page: columns -> match -> Tally -> curves -> averages -> Result."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.arrays import library, to_numpy
from boxscore.data.dataset import Detections, Truths, check_labels_are_named, host_ids, pooled, pooled_order
from boxscore.data.preparation import common_iou_type, prepare, prepare_rows
from boxscore.engines.map_reduce import finish_tallies, finish_within_limit
from boxscore.engines.native import compiled_engine as native
from boxscore.engines.native.pairs import count_jaccard
from boxscore.protocol.protocol import EngineName, Protocol, ProtocolLike, as_protocol
from boxscore.protocol.table import protocol_of
from boxscore.result.curves import Curves
from boxscore.result.result import Inputs, Result, summarize
from boxscore.result.tally import Tally, check_can_be_one, joined

if TYPE_CHECKING:
    from boxscore.result.saved_results import Header


class Engine(NamedTuple):
    """One implementation of matching and curves. All engines give the same verdicts and curves."""

    match: Callable[[Detections, Truths, Protocol, int, bool], Tally]
    curves: Callable[[Tally, int], Curves]


ENGINES = ("native", "parallel", "sequential")


def evaluate_columns(
    detections: Detections,
    truths: Truths,
    protocol: ProtocolLike = "coco",
    engine: EngineName = "auto",
    *,
    threads: int | None = None,
) -> Result:
    """Evaluate columns, as `evaluate` does."""
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
    """Match detections with truths. Tallies of different images can be merged before they are finished.

    Args:
        detections: All detections of these images.
        truths: All truths of these images.
        protocol: As in `evaluate`.
        engine: As in `evaluate`.
        threads: As in `evaluate`.
        trace: Whether to record the input rows in `Tally.row` and `Tally.truth_row`, and the truth that each detection
            takes in the first area range at the first threshold in `Tally.taken` and `Tally.taken_similarity`.
            `Protocol.at` makes any threshold the first. Rows that the protocol drops are in no column. Merging and
            storing tallies drops these columns.

    Returns:
        The verdict of every detection.

    >>> from boxscore import Detections, Truths
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=[[20, 20, 30, 30], [0, 0, 10, 10]])
    >>> detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.7, 0.9], boxes=[[0, 0, 9, 9], [0, 0, 10, 9]])
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
        tally = tally.traced_to(*(pooled_order(to_numpy(side.labels)) for side in inputs))
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
    shapes = detections.geometry, truths.geometry
    library(*(array for each in shapes for array in each.arrays))  # one, or NumPy and one
    if engine == "auto":
        engine = "native"
    _check_engine(engine)
    if (names := truths.names_by_label) is not None:
        check_labels_are_named(detections.labels, names)
    return engine, Inputs(pooled(detections), pooled(truths)) if protocol.class_agnostic else inputs


def _match(engine: str, sides: Inputs, protocol: Protocol, threads: int | None, *, is_traced: bool = False) -> Tally:
    detections, truths = sides
    tally = _engine(engine).match(detections, truths, protocol, num_threads(threads), is_traced)
    if protocol.class_groups:
        tally = replace(tally, class_groups=truths.class_groups)
    if detections.invalid_image_ids is not None:
        tally = replace(tally, invalid_image=detections.invalid_image_ids)
    return _with_images(tally, detections, truths, num_threads(threads)) if protocol.extra_numbers else tally


def _with_images(tally: Tally, detections: Detections, truths: Truths, threads: int) -> Tally:
    """Add the columns per image that extra numbers need."""
    images = np.union1d(host_ids(detections.image_ids), host_ids(truths.image_ids))
    jaccard = None
    if "ji" in tally.protocol.extra_numbers:
        jaccard = count_jaccard(detections, truths, images, tally.protocol, threads)
    listed = truths.image_names or truths.image_sizes or ()
    return replace(tally, listed_image=images, jaccard=jaccard).listing(listed)


def protocol_for(protocol: ProtocolLike, detections: Detections, truths: Truths) -> Protocol:
    """The protocol; a name selects the variant for the first similarity that the shapes of both sides have."""
    if not isinstance(protocol, str):
        return as_protocol(protocol)
    named = as_protocol(protocol)
    if named.iou_type != "bbox":
        return named  # this protocol is only for these shapes
    return protocol_of(protocol, common_iou_type(detections, truths) or named.iou_type)


def finish(tally: Tally | Sequence[Tally], engine: EngineName = "auto", *, threads: int | None = None) -> Result:
    """Compute the result of a tally, or of several tallies of different images.

    Args:
        tally: A tally, or a list of tallies. A list gives the bits of the merged tally, without copying large ones.
        engine: As in `evaluate`; "auto" takes "native".
        threads: As in `evaluate`.

    Returns:
        The numbers by name, with curves and verdicts.

    Raises:
        InputError: Tallies have different protocols, or an image in common.

    >>> from boxscore import Detections, Truths
    >>> truths = [Truths(image_ids=[i], labels=[1], boxes=[[0, 0, 10, 10]]) for i in range(2)]
    >>> detections = [Detections(image_ids=[i], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 9 - i]]) for i in range(2)]
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
    """Read a result from a file of `Result.save` or `Tally.save`, with the same bits.

    Args:
        path: The file.

    Returns:
        The result, without `inputs`: errors and the confusion matrix are not available.

    Raises:
        InputError: The file is of another kind, truncated or damaged.

    >>> import tempfile
    >>> from boxscore import Detections, Truths, evaluate
    >>> truths = Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    >>> result = evaluate(Detections(image_ids=[0], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 9]]), truths)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(f"{folder}/runs/a/epoch_003.boxscore", step=3)
    ...     load_result(f"{folder}/runs/a/epoch_003.boxscore")["map"] == result["map"]
    True
    """
    from boxscore.result.saved_results import read_saved

    return finish_saved(*read_saved(path))


def finish_saved(tally: Tally, header: "Header | None") -> Result:
    """Compute the result of a saved tally, with the facts about its inputs from the header."""
    result = finish(tally)
    return result if header is None else replace(result, num_given=header.num_given, _stored=header.stored)


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
    """The engine of a name. Native is always loaded, as it computes the averages; the others are imported on demand."""
    _check_engine(name)
    if name == "parallel":
        from boxscore.engines.parallel import array_engine

        return Engine(array_engine.match, array_engine.curves)
    if name == "sequential":
        from boxscore.engines import sequential

        return Engine(sequential.match, sequential.curves)
    return Engine(native.match, native.curves)
