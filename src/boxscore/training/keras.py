"""mAP in `model.fit`: a Keras 3 callback, for all backends, that adds the numbers to the logs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras

from boxscore._support.exceptions import InputError
from boxscore._support.keyword_hints import suggests_keywords
from boxscore.data.dataset import ClassNames, Invalid
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.protocol.protocol import EngineName, ProtocolLike
from boxscore.result.result import Result
from boxscore.training.metric import MeanAveragePrecision

__all__ = ["MeanAveragePrecisionCallback"]


class MeanAveragePrecisionCallback(keras.callbacks.Callback):
    """Compute mAP on a dataset after every epoch, and log it as `val_map`, `val_map_50` and so on.

    Callbacks see the logs one after the other, so put this one before callbacks that need its numbers:

        early = keras.callbacks.EarlyStopping("val_map", mode="max")
        model.fit(..., callbacks=[MeanAveragePrecisionCallback(dataset, decode=decode), early])

    Args:
        dataset: Pairs of inputs and targets, iterable once per epoch: a `tf.data.Dataset`, a `PyDataset` or a list.
            Targets are in a form that `MeanAveragePrecision.update` accepts, such as a dict of padded `boxes` and
            `labels`, and may have `image_id`.
        protocol: As in `MeanAveragePrecision`.
        decode: Converts the model's outputs, in NumPy, to the `preds` of `update`; by default they stay unchanged.
        prefix: The beginning of every name in the logs.
        box_format: As in `MeanAveragePrecision`.
        class_names: As in `MeanAveragePrecision`.
        class_groups: As in `MeanAveragePrecision`.
        engine: As in `MeanAveragePrecision`.
        threads: As in `MeanAveragePrecision`.
        warn: As in `MeanAveragePrecision`.
        invalid: As in `MeanAveragePrecision`, but "drop" by default: a head that is not trained yet may predict NaN.
        save_to: A folder for the result of each epoch, `epoch_000.boxscore` and so on, for `boxscore serve`.
    """

    @suggests_keywords
    def __init__(
        self,
        dataset: Iterable[Any],
        protocol: ProtocolLike = "coco",
        *,
        decode: Callable[[Any], Any] | None = None,
        prefix: str = "val_",
        box_format: BoxFormat = "xyxy",
        class_names: ClassNames | None = None,
        class_groups: Mapping[int, str] | None = None,
        engine: EngineName = "auto",
        threads: int | None = None,
        warn: bool = True,
        invalid: Invalid = "drop",
        save_to: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if decode is not None and not callable(decode):
            raise InputError(f"`decode` must be a function; got {type(decode).__name__}")
        if not isinstance(prefix, str):
            raise InputError(f"`prefix` must be text; got {prefix!r}")
        _check_dataset(dataset)
        if save_to is not None and not isinstance(save_to, str | os.PathLike):
            raise InputError(f"`save_to` must be a path; got {type(save_to).__name__}")
        self.dataset, self.decode, self.prefix, self.save_to = dataset, decode, prefix, save_to
        self.metric = MeanAveragePrecision(
            protocol,
            box_format=box_format,
            class_names=class_names,
            class_groups=class_groups,
            engine=engine,
            threads=threads,
            warn=warn,
            invalid=invalid,
        )
        self.result: Result | None = None
        """The result of the last epoch, with classes and curves."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate the model and add the numbers to `logs`."""
        self.metric.reset()
        for batch in self._batches():
            if not isinstance(batch, tuple | list) or len(batch) < 2:
                raise InputError(f"`dataset` must give pairs of inputs and targets; got {type(batch).__name__}")
            outputs = self.model.predict_on_batch(batch[0])
            self.metric.update(outputs if self.decode is None else self.decode(outputs), batch[1])
        self.result = self.metric.compute()
        if self.save_to is not None:
            self.result.save(Path(self.save_to, f"epoch_{epoch:03}.boxscore"), step=epoch)
        if logs is not None:
            logs.update({f"{self.prefix}{name}": value for name, value in self.result.items()})

    def _batches(self) -> Iterator[Any]:
        """Yield the batches; a `PyDataset` is indexed by number."""
        if isinstance(self.dataset, keras.utils.PyDataset):
            for index in range(self.dataset.num_batches):
                yield self.dataset[index]
        else:
            yield from self.dataset


def _check_dataset(dataset: Any) -> None:
    """Raise `InputError` for a dataset that would fail, or never end, after the first epoch."""
    if isinstance(dataset, Iterator):
        raise InputError("`dataset` must give its batches anew each epoch; got an iterator, which gives them once")
    is_numbered = isinstance(dataset, keras.utils.PyDataset)
    if not is_numbered and not isinstance(dataset, Iterable):
        raise InputError(f"`dataset` must give batches of inputs and targets; got {type(dataset).__name__}")
    cardinality = getattr(dataset, "cardinality", None)
    is_endless = dataset.num_batches is None if is_numbered else callable(cardinality) and int(cardinality()) == -1
    if is_endless:  # -1 is TensorFlow's infinite cardinality; -2 is unknown
        raise InputError("`dataset` must end; got one that goes on for ever")
