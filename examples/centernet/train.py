"""Train a CenterNet on shapes, with its mAP after every epoch, and compare with the sequential method at the end.

    python -m examples.centernet.train --epochs 8 --seed 0
    python -m examples.centernet.train --quick
    python -m examples.centernet.train --device cuda

The best weights, by mAP on the validation images, are kept in `--folder`, with logs for TensorBoard if it is installed.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

import boxscore
from boxscore.parallel import PaddedDetections, discard_below
from examples.centernet.model import CenterNet, decode, loss_of
from examples.centernet.shapes import CLASSES, Batch, make_batch

PROTOCOL: Final = "voc2012"
NUM_DETECTIONS = 100
LEAST_SCORE = 0.01


class Plan(NamedTuple):
    """How much of everything."""

    epochs: int
    num_train: int
    """New images an epoch."""
    num_validate: int
    side: int
    width: int
    batch: int = 16


FULL = Plan(epochs=8, num_train=768, num_validate=384, side=128, width=32)
QUICK = Plan(epochs=3, num_train=768, num_validate=192, side=64, width=16)


class Validation(NamedTuple):
    """One pass over the validation images."""

    result: boxscore.Result
    seconds: float
    """From the first image to the mAP."""
    metric_seconds: float
    """In `update` and `compute` alone."""

    @property
    def share(self) -> float:
        """The part of the time that mAP took."""
        return self.metric_seconds / self.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, validate, compare."""
    options = parse(arguments)
    plan = QUICK if options.quick else FULL
    if options.epochs is not None:
        plan = plan._replace(epochs=options.epochs)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    weights = options.folder / "best.pt"
    log, close_log = open_log(options.folder)

    model = CenterNet(len(CLASSES), plan.width).to(options.device)
    validation = [each.to(options.device) for each in batches(options.seed + 1, 0, plan.num_validate, plan, size=96)]
    num_steps = plan.epochs * (plan.num_train // plan.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=num_steps, pct_start=0.2)

    best = -1.0
    passes: list[Validation] = []
    for epoch in range(plan.epochs):
        loss, seconds = train(model, optimizer, schedule, plan, options.seed, epoch)
        done = validate(model, validation)
        passes.append(done)
        score = done.result["map"]
        is_best = score > best
        if is_best:
            best = score
            torch.save(model.state_dict(), weights)
        numbers = {f"ap/{name}": float(ap) for name, ap in zip(CLASSES, done.result.per_class.ap, strict=True)}
        numbers |= {"map": score, "loss": loss, "seconds/train": seconds}
        numbers |= {"seconds/validation": done.seconds, "seconds/map": done.metric_seconds, "share/map": done.share}
        log(numbers, epoch + 1)
        print(
            f"epoch {epoch + 1}/{plan.epochs}  loss {loss:6.3f}  train {seconds:5.1f} s  "
            f"validation {done.seconds:5.2f} s  of which mAP {done.metric_seconds * 1e3:5.1f} ms  mAP {score:.4f}"
            f"{'  best so far' if is_best else ''}",
            flush=True,
        )
    close_log()

    spent, spent_on_map = (sum(each) for each in ((v.seconds for v in passes), (v.metric_seconds for v in passes)))
    first = passes[0].result["map"]
    print(f"\nmAP went from {first:.4f} after the first epoch to {best:.4f}; it took {spent_on_map / spent:.2%} of the")
    print(f"{spent:.1f} s of all validation. The best weights are in {weights.name}.\n")
    model.load_state_dict(torch.load(weights, map_location=options.device, weights_only=True))
    compare(model, validation)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.centernet.train", description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, help="8, or 3 with --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="smaller images, network and data: half a minute")
    parser.add_argument(
        "--device", choices=("cpu", "cuda", "mps"), default="cpu", help="for the network and the paper's stages"
    )
    parser.add_argument("--threads", type=int, default=1, help="for PyTorch; more wait for each other on shared cores")
    parser.add_argument("--folder", type=Path, default=Path("runs/centernet"), help="for weights and logs")
    options = parser.parse_args(arguments)
    for name in ("epochs", "threads"):
        if (value := getattr(options, name)) is not None and value < 1:
            parser.error(f"--{name} must be at least 1; got {value}")
    accelerators = {"cuda": torch.cuda, "mps": torch.backends.mps}
    if options.device != "cpu" and not accelerators[options.device].is_available():
        parser.error(f"--device must be one that PyTorch finds here; got {options.device}: use --device cpu")
    options.device = torch.device(options.device)
    return options


def train(model: CenterNet, optimizer: Any, schedule: Any, plan: Plan, seed: int, epoch: int) -> tuple[float, float]:
    """The mean loss of an epoch and its seconds; the model is better afterwards."""
    start = time.perf_counter()
    losses = []
    device = next(model.parameters()).device
    model.train()
    loader = batches(seed, epoch * plan.num_train, plan.num_train, plan, size=plan.batch)
    for batch in with_bar(loader, plan.num_train // plan.batch, f"epoch {epoch + 1}"):
        image, truths = batch.to(device)
        loss = loss_of(model(image), truths)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses)), time.perf_counter() - start


def validate(model: CenterNet, validation: Sequence[Batch]) -> Validation:
    """mAP, as inference goes: `update` after every batch, `compute` after the last."""
    model.eval()
    metric_seconds = 0.0
    start = time.perf_counter()
    metric = boxscore.MeanAveragePrecision(PROTOCOL, class_names=CLASSES, invalid="drop")
    for image, truths in validation:
        found = detect(model, image)
        before = time.perf_counter()
        preds = {"boxes": found.boxes, "labels": found.labels, "scores": found.scores, "discarded": found.discarded}
        metric.update(preds, {"boxes": truths.boxes, "labels": truths.labels, "difficult": truths.ignore})
        metric_seconds += time.perf_counter() - before
    before = time.perf_counter()
    result = metric.compute()
    end = time.perf_counter()
    return Validation(result, end - start, metric_seconds + end - before)


def detect(model: CenterNet, image: torch.Tensor) -> PaddedDetections:
    """The detections of a batch, the unlikely ones discarded."""
    with torch.inference_mode():
        found = decode(model(image), NUM_DETECTIONS)
        return found._replace(discarded=discard_below(found.scores, LEAST_SCORE, discarded=found.discarded))


def compare(model: CenterNet, validation: Sequence[Batch]) -> None:
    """Print the paper's comparison: verdicts of its stages on the device (P) and of the sequential method (S).

    And the seconds of each engine.
    """
    found = [detect(model, image) for image, _ in validation]
    there = [truths for _, truths in validation]
    columns = ("boxes", "labels", "scores", "discarded")
    detections = boxscore.Detections.from_padded(
        **{name: torch.cat([getattr(batch, name) for batch in found]) for name in columns}
    )
    truths = boxscore.Truths.from_padded(
        boxes=torch.cat([each.boxes for each in there]),
        labels=torch.cat([each.labels for each in there]),
        ignore=torch.cat([each.ignore for each in there]),
        class_names=CLASSES,
    )

    results, tallies = {}, {}
    names: dict[Any, str] = {
        "native": "ours, in C++",
        "parallel": f"ours, the paper's stages on {detections.boxes.device.type}",
        "sequential": "sequential",
    }
    print(f"{len(detections)} detections, {len(truths)} truths")
    for engine, name in names.items():
        tallies[engine] = boxscore.match(detections, truths, PROTOCOL, engine)
        results[engine], seconds = fastest(partial(boxscore.evaluate, detections, truths, PROTOCOL, engine))
        print(f"{name:35}  mAP {results[engine]['map']:.4f}  {seconds * 1e3:8.1f} ms")

    print("\nclass     TP(P)  TP(S)  FP(P)  FP(S)")
    ours, theirs = (results[engine].per_class for engine in ("parallel", "sequential"))
    for k, name in enumerate(CLASSES):
        counts = (ours.num_true, theirs.num_true, ours.num_false, theirs.num_false)
        print(f"{name:8}", *(f"{count[k, 0]:6}" for count in counts))
    expected = tallies["sequential"].verdict
    num_different = max(int((tallies[engine].verdict != expected).any(axis=(1, 2)).sum()) for engine in names)
    print(f"\ndetections with another verdict: {num_different} of {len(expected)}")


def fastest(function: Callable[[], boxscore.Result], rounds: int = 3) -> tuple[boxscore.Result, float]:
    """What the function gives, and its seconds in the best of three rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)


def batches(seed: int, first: int, num: int, plan: Plan, *, size: int) -> Iterator[Batch]:
    """A part of the endless dataset called `seed`, in batches."""
    for start in range(first, first + num, size):
        yield make_batch(seed, start, min(size, first + num - start), plan.side)


def with_bar(loader: Iterable[Batch], num: int, title: str) -> Iterator[Batch]:
    """The batches, with a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield from loader
        return
    for index, batch in enumerate(loader):
        done = 30 * index // num
        sys.stderr.write(f"\r{title} [{'=' * done}{' ' * (30 - done)}] {index}/{num}")
        sys.stderr.flush()
        yield batch
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def open_log(folder: Path) -> tuple[Callable[[dict[str, float], int], None], Callable[[], None]]:
    """What writes numbers for TensorBoard, and what closes the file; neither does anything if it is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return lambda *_: None, lambda: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)

    def write(numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return write, writer.close


if __name__ == "__main__":
    main()
