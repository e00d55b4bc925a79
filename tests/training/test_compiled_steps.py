"""A step under `torch.compile` that updates a metric with lists: the metric is called between two graphs."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.testing import CompileCounter  # noqa: E402

from boxscore import MeanAveragePrecision  # noqa: E402
from boxscore.torchmetrics import MeanAveragePrecision as TorchMetric  # noqa: E402

pytestmark = pytest.mark.native


@pytest.mark.parametrize(
    ("make", "name"), [(MeanAveragePrecision, "update"), (TorchMetric, "update"), (TorchMetric, "forward")]
)
def test_a_compiled_step_updates_a_metric(make: Any, name: str) -> None:
    """One graph before the update and one after it, for any number of steps; the numbers of an eager loop."""
    metrics = {"eager": make(warn=False), "compiled": make(warn=False)}

    def step(rows: Any, metric: Any) -> Any:
        start = rows[:, :2] * 9
        boxes = torch.cat([start, start + 1 + rows[:, 2:] * 9], dim=1)
        labels = torch.ones(len(rows), dtype=torch.int64)
        batch = [{"boxes": boxes, "scores": rows[:, 0], "labels": labels}], [{"boxes": boxes, "labels": labels}]
        getattr(metric, name)(*batch)
        return boxes.sum() + 1

    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(step, backend=counter, dynamic=False)
    for seed in range(3):
        rows = torch.rand(6, 4, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(compiled(rows, metrics["compiled"]), step(rows, metrics["eager"]))
    assert counter.frame_count == 2
    values = [metric.compute() for metric in metrics.values()]
    assert values[0].keys() == values[1].keys()
    assert 0 < values[0]["map"] == values[1]["map"]
    torch._dynamo.reset()
