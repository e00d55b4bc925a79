"""The examples run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("example", ["process_pool", "shards_on_disk"])
def test_shards_of_the_sample_make_the_table_of_the_demo(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In other processes, and by way of a folder, where a shard that is there already is not made again."""
    from boxscore.cli import main

    main(["demo"])
    table = capsys.readouterr().out.split("\n\nclass")[0]
    # A tally has no detections beyond the limit, and does not know whether there were any.
    table = table.replace("356 detections", "356 detections within the limit of 100 per image and class", 1)
    folder = [str(tmp_path / "shards")] if example == "shards_on_disk" else []
    for _ in range(1 + len(folder)):
        command = [sys.executable, "-W", "error", "-m", f"examples.{example}", *folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == table
    if folder:
        assert sorted(path.name for path in Path(folder[0]).iterdir()) == [f"shard-{n}.tally" for n in range(4)]


@needs_torch
def test_a_centernet_learns_and_every_method_gives_the_same_verdicts(tmp_path: Path) -> None:
    """The quick run: mAP rises, the best weights are kept, and what mAP took is told."""
    command = [sys.executable, "-m", "examples.centernet.train", "--quick", "--threads", "1", "--folder", str(tmp_path)]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    scores = [float(score) for score in re.findall(r"^epoch .* mAP ([\d.]+)", done.stdout, flags=re.MULTILINE)]
    assert len(scores) == 3
    assert scores[-1] > max(2 * scores[0], 0.1)
    compared = {float(score) for score in re.findall(r"^(?:ours|sequential).* mAP ([\d.]+)", done.stdout, flags=re.M)}
    assert compared == {max(scores)}, "the best weights were kept and give the same mAP again, by every method"
    assert re.search(r"^detections with another verdict: 0 of \d{3,}$", done.stdout, flags=re.MULTILINE)
    assert re.search(r"it took [\d.]+% of the\n?\s*[\d.]+ s of all validation", done.stdout)
    assert (tmp_path / "best.pt").exists()
    assert "\r" not in done.stderr, "no bar where there is no terminal"


@needs_torch
def test_network_loss_and_detections_are_on_the_device_of_the_batch() -> None:
    """On PyTorch's device without memory, where an operation with a tensor elsewhere fails."""
    import torch
    from examples.centernet.model import CenterNet, decode, loss_of
    from examples.centernet.shapes import CLASSES, make_batch

    image, truths = make_batch(0, 0, 2, 64).to(torch.device("meta"))
    maps = CenterNet(len(CLASSES), 8).to("meta")(image)
    found = decode(maps, 10)
    on_device = (loss_of(maps, truths), found.boxes, found.labels, found.scores, found.discarded)
    assert {tensor.device.type for tensor in on_device} == {"meta"}


@needs_torch
def test_a_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is trained."""
    from examples.centernet.train import parse

    with pytest.raises(SystemExit):
        parse(["--device", "cuda"])
    assert "--device must be one that PyTorch finds here; got cuda: use --device cpu" in capsys.readouterr().err
    assert parse([]).device.type == "cpu"


@needs_torch
def test_shapes_are_the_same_for_a_seed_and_lie_in_their_boxes() -> None:
    """Of every class, some difficult; boxes within the image, each around a pixel at least."""
    from examples.centernet.shapes import CLASSES, draw

    pictures = [draw(np.random.default_rng((0, index)), 64) for index in range(100)]
    again = draw(np.random.default_rng((0, 99)), 64)
    for field in again._fields:
        assert np.array_equal(getattr(pictures[-1], field), getattr(again, field)), field
    box = np.concatenate([picture.box for picture in pictures])
    assert 0 <= box.min() <= box.max() <= 63
    assert (box[:, 2:] > box[:, :2]).all()
    assert set(np.concatenate([picture.label for picture in pictures])) == set(range(len(CLASSES)))
    assert 0.01 < np.concatenate([picture.difficult for picture in pictures]).mean() < 0.2


@needs_torch
def test_what_a_perfect_network_says_is_decoded_to_the_truths() -> None:
    """Maps with the truths' middles, sizes and offsets give the truths' boxes back, and mAP 1."""
    import torch
    from examples.centernet.model import STRIDE, Maps, decode
    from examples.centernet.shapes import make_batch

    import boxscore

    _, truths = make_batch(0, 0, 8, 64)
    heat, size, offset = torch.full((8, 5, 16, 16), -9.0), torch.zeros(8, 2, 16, 16), torch.zeros(8, 2, 16, 16)
    taken: set[tuple[int, int, int]] = set()
    kept = truths.labels.clone()
    for n, g in torch.nonzero(truths.labels >= 0).tolist():
        left, top, right, bottom = truths.boxes[n, g].tolist()
        x, y = (left + right + 1) / 2 / STRIDE, (top + bottom + 1) / 2 / STRIDE
        near = {(n, int(x) + i, int(y) + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
        if near & taken:
            kept[n, g] = -1  # a cell has room for one
            continue
        taken.add((n, int(x), int(y)))
        heat[n, truths.labels[n, g], int(y), int(x)] = 3.0
        size[n, :, int(y), int(x)] = torch.tensor([right - left + 1, bottom - top + 1]) / STRIDE
        offset[n, :, int(y), int(x)] = torch.tensor([x % 1, y % 1])
    found = decode(Maps(heat, size, offset), 10)
    metric = boxscore.MeanAveragePrecision(boxscore.Protocol.named("voc2012", thresholds=[0.99]), warn=False)
    metric.update(
        {"boxes": found.boxes, "labels": found.labels, "scores": found.scores, "discarded": found.discarded},
        {"boxes": truths.boxes, "labels": kept, "difficult": truths.ignore},
    )
    assert metric.compute()["map"] == pytest.approx(1)
