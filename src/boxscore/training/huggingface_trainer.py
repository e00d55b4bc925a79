"""Transformers' `Trainer` for detectors: each process matches its images, and only verdicts are gathered."""

from typing import Any

import transformers

from boxscore._support.exceptions import InputError
from boxscore.training.huggingface import DetectionMetrics, read_labels

__all__ = ["DetectionTrainer"]


class DetectionTrainer(transformers.Trainer):
    """Transformers' `Trainer`, whose `compute_metrics` may be `DetectionMetrics`.

    Each process matches each batch after its prediction, and `evaluate` gathers about 20 bytes per detection.
    Transformers' `Trainer` gathers all outputs and labels, which loses truths in an incomplete last batch and fails on
    several processes. `predict` reports the numbers and returns no predictions. With any other `compute_metrics` this
    class behaves as `Trainer`, whose arguments it takes.

    To combine it with another trainer: `class MyTrainer(DetectionTrainer, TheirTrainer)`.
    """

    _outputs: Any = None
    """The outputs of the current batch."""
    _is_matching = False
    """Whether an evaluation with `DetectionMetrics` is running."""
    _is_complete = True
    """Whether all batches of the evaluation so far were matched."""

    def compute_loss(self, *values: Any, **named: Any) -> Any:
        """As in `Trainer`."""
        computed = super().compute_loss(*values, **named)
        if self._is_matching and isinstance(computed, tuple):
            self._outputs = computed[1]
        return computed

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Any, Any, Any]:
        """As in `Trainer`; with `DetectionMetrics` match the outputs here and return only the loss."""
        if not self._is_matching or prediction_loss_only:
            self._is_complete = False
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)  # type: ignore[no-any-return]
        named = {name: inputs.get(name) for name in self.label_names}
        stepped = super().prediction_step(model, inputs, False, ignore_keys)
        outputs, self._outputs = self._outputs, None
        if outputs is None:  # images without labels
            self._is_complete = False
            return stepped  # type: ignore[no-any-return]
        labels = read_labels(next(iter(named.values())) if len(named) == 1 else named, self.compute_metrics.has_masks)
        self._match(outputs, labels, inputs.get("pixel_mask"))
        return stepped[0], None, None

    def evaluation_loop(self, *values: Any, metric_key_prefix: str = "eval", **named: Any) -> Any:
        """As in `Trainer`; add the numbers of `DetectionMetrics` to the metrics."""
        metrics = self.compute_metrics
        if not isinstance(metrics, DetectionMetrics):
            return super().evaluation_loop(*values, metric_key_prefix=metric_key_prefix, **named)
        metrics.reset()
        self._is_matching, self._is_complete = True, True
        try:
            output = super().evaluation_loop(*values, metric_key_prefix=metric_key_prefix, **named)
        finally:
            self._is_matching, self._outputs = False, None
        if self._is_complete:
            numbers = metrics.compute()
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in numbers.items()})
        return output

    def _match(self, outputs: Any, labels: Any, pixel_mask: Any) -> None:
        """Match the images of a batch, without the copies by which Accelerate gives all processes equally many."""
        state, accelerator = self.accelerator.gradient_state, self.accelerator
        num_images = num_new = len(labels)
        metric = self.compute_metrics.metric
        is_unique = metric.unique_images
        if accelerator.num_processes > 1 and state.end_of_dataloader:
            if state.remainder > 0:  # the number of new images in the last batches of all ranks, rank 0 first
                num_new = min(max(state.remainder - accelerator.process_index * num_images, 0), num_images)
            elif state.remainder < 0:
                _check_has_ids(labels)
                metric.unique_images = True
        try:
            self.compute_metrics.update(outputs, labels, pixel_mask=pixel_mask, num_images=num_new)
        finally:
            metric.unique_images = is_unique


def _check_has_ids(labels: Any) -> None:
    if any("image_id" not in label for label in labels):
        raise InputError(
            "labels must have `image_id` if a dataset of unknown length is evaluated by several processes: the last"
            " batch repeats images"
        )
