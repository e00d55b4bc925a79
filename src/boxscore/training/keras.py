"""mAP in `model.fit`: a callback of Keras 3, on any of its backends, that puts the numbers into the logs."""

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
    """mAP of the model on a dataset after every epoch, in the logs as `val_map`, `val_map_50` and so on.

    Callbacks see the logs one after the other, so put this one before those that want its numbers:

        early = keras.callbacks.EarlyStopping("val_map", mode="max")
        model.fit(..., callbacks=[MeanAveragePrecisionCallback(dataset, decode=decode), early])

    `dataset`: batches of inputs and targets, as often as they are asked for: a `tf.data.Dataset`, a `PyDataset`, a
    list. The targets are as `MeanAveragePrecision.update` takes them, such as a dict of padded `boxes` and `labels`,
    and may have `image_id`. `decode` makes of the model's outputs, in NumPy, what `update` takes as `preds`; by default
    they are that already. `prefix` stands before every name. `class_groups`, `warn` and `invalid`: as in
    `MeanAveragePrecision`, but invalid predictions, as of a head that is not trained yet, are dropped unless
    `invalid="error"`. `save_to`: a folder for the result of each epoch, `epoch_000.boxscore` and so on, as `boxscore
    serve` shows them.
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
        """That of the last epoch, with classes and curves."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the numbers of the model as it is now to `logs`."""
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
        """The batches; a `PyDataset` is asked for each by number."""
        if isinstance(self.dataset, keras.utils.PyDataset):
            for index in range(self.dataset.num_batches):
                yield self.dataset[index]
        else:
            yield from self.dataset


def _check_dataset(dataset: Any) -> None:
    """Raise `InputError` for what would only be found out, or never end, after the first epoch."""
    if isinstance(dataset, Iterator):
        raise InputError("`dataset` must give its batches anew each epoch; got an iterator, which gives them once")
    is_numbered = isinstance(dataset, keras.utils.PyDataset)
    if not is_numbered and not isinstance(dataset, Iterable):
        raise InputError(f"`dataset` must give batches of inputs and targets; got {type(dataset).__name__}")
    cardinality = getattr(dataset, "cardinality", None)
    is_endless = dataset.num_batches is None if is_numbered else callable(cardinality) and int(cardinality()) == -1
    if is_endless:  # -1 is TensorFlow's infinity; what it does not know is -2
        raise InputError("`dataset` must end; got one that goes on for ever")
