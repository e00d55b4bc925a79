"""mAP as a Keras 3 metric: matched and finished inside the graph of each step, on TensorFlow, JAX or PyTorch.

Keras variables hold the arrays of a `static_state.State`.

Dimensions: N images, D detections, G truths.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import keras
from keras import ops

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array, float_dtype, int_dtype
from boxscore.data.dataset import ClassNames
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.engines.parallel.batch import check_static
from boxscore.engines.parallel.static_finish import check_static_finish
from boxscore.protocol.protocol import ProtocolLike, as_protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.result.result import Result
from boxscore.training import static_state
from boxscore.training.static_state import ARRAYS, Options, Rows, State

__all__ = ["MeanAveragePrecision"]

_TRUTH_KEYS = {"boxes": "boxes", "classes": "labels", "labels": "labels", "area": "area"}
_TRUTH_KEYS |= dict.fromkeys(("iscrowd", "difficult", "ignore"), "ignore")
_DETECTION_KEYS = {"boxes": "boxes", "classes": "labels", "labels": "labels"}
_DETECTION_KEYS |= {"confidence": "scores", "scores": "scores", "num_detections": "num_detections"}


class MeanAveragePrecision(keras.metrics.Metric):
    """mAP of padded batches in the graph, with the bits of `boxscore.evaluate` in double precision.

    `update_state` matches a batch and appends the verdicts to Keras variables of fixed size, about 60 bytes per
    detection. `result` gives a dict of all numbers of the protocol, which Keras logs as `map`, `map_50` and so on.
    Keras asks for it after each step, too: 0.1 to 0.2 s on a CPU for 100,000 detections of 80 classes.

    An invalid detection, such as one with a NaN, is dropped. A graph can't raise an error: with more rows than fit,
    invalid truths, or truths of no class, all numbers are NaN in it. The `result` that Keras computes at the end,
    outside of the graph, raises `InputError` for rows that did not fit or are invalid.

    On JAX without x64 numbers are in single precision, within 1e-6; those of `compute` are to be compared with others.

    Args:
        num_classes: The number of classes, whose labels are 0 to that number - 1.
        protocol: As in `boxscore.evaluate`; it must compare boxes and need no more than verdicts.
        class_names: The names of classes by label, instead of `num_classes`.
        capacity: The largest number of detections of all updates; padding takes none.
        truth_capacity: The largest number of truths; by default `capacity`.
        box_format: "xyxy", "xywh" or "cxcywh".
        prefix: The beginning of every name in the logs.
        name: As in other Keras metrics.
        dtype: As in other Keras metrics; changes no number.

    Raises:
        InputError: The protocol has a rule that static shapes can't follow, or an argument is invalid.

    >>> metric = MeanAveragePrecision(2, "voc2012", capacity=100)
    >>> box = [[[0.0, 0, 9, 9]]]
    >>> metric.update_state({"boxes": box, "classes": [[1]]}, {"boxes": box, "classes": [[1]], "confidence": [[0.9]]})
    >>> float(metric.result()["map"])
    1.0
    """

    def __init__(
        self,
        num_classes: int | None = None,
        protocol: ProtocolLike = "coco",
        *,
        class_names: ClassNames | None = None,
        capacity: int = 100_000,
        truth_capacity: int | None = None,
        box_format: BoxFormat = "xyxy",
        prefix: str = "",
        name: str = "mean_average_precision",
        dtype: Any = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        if num_classes is None and class_names is None:
            raise InputError("`num_classes` or `class_names` must be given; got neither")
        if not isinstance(prefix, str):
            raise InputError(f"`prefix` must be text; got {prefix!r}")
        _check_one_replica()
        check_static(as_protocol(protocol))  # for boxes only
        options = Options(capacity, protocol, truth_capacity, box_format, class_names, num_classes, "drop")
        empty = static_state.init(options, _like())
        check_static_finish(empty.protocol)
        self.prefix = prefix
        self._static = {name: getattr(empty, name) for name in State.static}
        self._parts: dict[str, Any] = {}
        for part in ARRAYS:
            value = getattr(empty, part)
            arrays = _arrays_of(value) if isinstance(value, Rows) else {"": value}
            self._parts[part] = {name: self._add(f"{part}_{name}", array) for name, array in arrays.items()}

    def _add(self, name: str, array: Array) -> Any:
        dtype = keras.backend.standardize_dtype(array.dtype)
        return self.add_variable(tuple(array.shape), "zeros", dtype, name=name.rstrip("_"))

    @property
    def state(self) -> State:
        """The arrays in the variables."""
        values = {part: {name: each.value for name, each in found.items()} for part, found in self._parts.items()}
        return State(**self._static, **{part: _part_of(arrays) for part, arrays in values.items()})

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Match a padded batch and append the verdicts.

        Rows with a class below 0 are padding. Images are numbered as they come.

        Args:
            y_true: A dict with `boxes` (N, G, 4) and `classes` or `labels` (N, G), and optionally `area` (N, G) and one
                of `iscrowd`, `difficult` and `ignore` (N, G); or one array (N, G, 5), a box and its class.
            y_pred: A dict with `boxes` (N, D, 4), `classes` or `labels` (N, D), `confidence` or `scores` (N, D), and
                optionally `num_detections` (N,); or one array (N, D, 6), a box, its class and its confidence.
            sample_weight: Must be None.

        Raises:
            InputError: A key, a shape or an argument is not supported.
        """
        if sample_weight is not None:
            raise InputError(f"`sample_weight` must be None: mAP has no weights; got {type(sample_weight).__name__}")
        whole, real = (keras.backend.standardize_dtype(dtype(_like())) for dtype in (int_dtype, float_dtype))
        truth = _columns("y_true", y_true, _TRUTH_KEYS, ("boxes", "labels"))
        found = _columns("y_pred", y_pred, _DETECTION_KEYS, ("boxes", "labels", "scores"))
        if getattr(found["boxes"], "is_meta", False):
            return  # Keras on PyTorch asks for shapes first, without data
        before = self.state
        label_ND, truth_label_NG = ops.cast(found["labels"], whole), ops.cast(truth["labels"], whole)
        discarded_ND, ignore_NG = label_ND < 0, truth_label_NG < 0
        if "num_detections" in found:
            place_D = ops.arange(ops.shape(label_ND)[1], dtype=whole)
            discarded_ND = discarded_ND | (place_D >= ops.cast(found["num_detections"], whole)[:, None])
        if "ignore" in truth:
            ignore_NG = ignore_NG | ops.cast(truth["ignore"], "bool")
        box_ND4, truth_box_NG4 = (ops.cast(each["boxes"], real) for each in (found, truth))
        score_ND = ops.cast(found["scores"], real)
        detections = {"boxes": box_ND4, "labels": label_ND, "scores": score_ND, "discarded": discarded_ND}
        truths = {"boxes": truth_box_NG4, "labels": truth_label_NG, "ignore": ignore_NG}
        truths |= {"area": ops.cast(truth["area"], real)} if "area" in truth else {}
        image_N = before.num_images + ops.arange(ops.shape(label_ND)[0], dtype=whole)
        self._assign(static_state.update(before, detections, truths, image_N))

    def _assign(self, state: State) -> None:
        for part, variables in self._parts.items():
            value = getattr(state, part)
            arrays = _arrays_of(value) if isinstance(value, Rows) else {"": value}
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def result(self) -> dict[str, Any]:
        """The numbers of all batches since the last reset, by name.

        Raises:
            InputError: Outside of a graph: rows did not fit, or were invalid.
        """
        state = self.state
        if not _is_traced(state.num_images):
            static_state.check_is_valid(state)
        found = _numbers(state)
        return {f"{self.prefix}{name}": value for name, value in found.items()}

    def compute(self) -> Result:
        """The result of all batches since the last reset, with classes and curves, on the host and in double precision.

        Raises:
            InputError: Rows did not fit, or were invalid.
        """
        return static_state.compute(self.state, "MeanAveragePrecision")

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor.

        Raises:
            InputError: The protocol is not one with a name, which is all that a config can hold.
        """
        state = self.state
        if PROTOCOLS.get(state.protocol.name) != state.protocol:
            raise InputError(f"`protocol` must be one with a name to be saved; got {state.protocol.title}")
        return {
            **super().get_config(),
            "num_classes": state.num_classes,
            "protocol": state.protocol.name,
            "class_names": None if state.class_names is None else [list(pair) for pair in state.class_names],
            "capacity": state.detections.capacity,
            "truth_capacity": state.truths.capacity,
            "box_format": state.box_format,
            "prefix": self.prefix,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MeanAveragePrecision":
        """Make the metric of a config; JSON has no integers as keys, so names are pairs there."""
        names = config["class_names"]
        return cls(**{**config, "class_names": None if names is None else dict(names)})


def _like() -> Array:
    """An array of the backend."""
    return ops.zeros((), "float32")


def _arrays_of(rows: Rows) -> dict[str, Array]:
    return {**rows.columns, "num": rows.num, "num_lost": rows.num_lost}


def _part_of(arrays: dict[str, Array]) -> Any:
    """The rows of some arrays, or the array itself that has no name."""
    if "" in arrays:
        return arrays[""]
    columns = {name: array for name, array in arrays.items() if name not in ("num", "num_lost")}
    return Rows(columns=columns, num=arrays["num"], num_lost=arrays["num_lost"])


def _columns(owner: str, batch: Any, keys: Mapping[str, str], required: Sequence[str]) -> dict[str, Array]:
    """The columns of a padded batch: of a dict, or of one array."""
    if not isinstance(batch, Mapping):
        packed, width = _array(owner, batch), 3 + len(required)
        if len(packed.shape) != 3 or packed.shape[2] != width:
            raise InputError(
                f"`{owner}` must be a dict of padded arrays, or one array of shape (N, rows, {width}): a box, then"
                f" {' and '.join(required[1:])}; got shape {tuple(packed.shape)}"
            )
        parts = (packed[..., :4], *(packed[..., i] for i in range(4, width)))
        return dict(zip(required, parts, strict=True))
    columns: dict[str, Array] = {}
    for key, value in batch.items():
        if key not in keys:
            raise InputError(f"`{owner}` must have no keys but {', '.join(keys)}; got {key!r}")
        if keys[key] in columns:
            others = ", ".join(repr(each) for each, column in keys.items() if column == keys[key])
            raise InputError(f"`{owner}` must have only one of the keys {others}; got several")
        columns[keys[key]] = _array(f"{owner}[{key!r}]", value)
    for column in required:
        if column not in columns:
            names = " or ".join(repr(key) for key, meant in keys.items() if meant == column)
            raise InputError(f"`{owner}` must have the key {names}; got {sorted(batch)}")
    shapes = {"boxes": ("(N, rows, 4)", 3), "num_detections": ("(N,)", 1)}
    for column, value in columns.items():
        shape, num_axes = shapes.get(column, ("(N, rows)", 2))
        if len(value.shape) != num_axes or (column == "boxes" and value.shape[2] != 4):
            raise InputError(f"`{owner}`: {column} must have shape {shape}; got {tuple(value.shape)}")
    return columns


def _array(name: str, value: Any) -> Array:
    if hasattr(value, "to_tensor"):
        raise InputError(f"`{name}` must be padded; got a ragged tensor: use `.to_tensor(-1)`")
    return ops.convert_to_tensor(value)


def _check_one_replica() -> None:
    """Raise `InputError` in a strategy of TensorFlow with several replicas, which would add up the columns."""
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    if (num := tf.distribute.get_strategy().num_replicas_in_sync) > 1:
        raise InputError(
            f"`tf.distribute` must have one replica, as it would add up the columns of several; got {num}: use"
            " `MeanAveragePrecisionCallback`"
        )


def _is_traced(value: Array) -> bool:
    """Whether an array is part of a graph, so that it can't be read."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    if backend == "jax":
        import jax

        return isinstance(value, jax.core.Tracer)
    import torch

    return bool(torch.compiler.is_compiling())


def _numbers(state: State) -> dict[str, Array]:
    """The numbers; on JAX compiled, as operation by operation they would take seconds."""
    return _jitted()(state) if keras.backend.backend() == "jax" else static_state.numbers(state)


@cache
def _jitted() -> Any:
    import jax

    import boxscore.training.jax  # noqa: F401 (registers states)

    return jax.jit(static_state.numbers)
