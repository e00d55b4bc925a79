"""Logging to TensorBoard, W&B and MLflow by their own clients, and what these have then."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import mlflow
import numpy as np
import pytest
import wandb
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

import boxscore
from boxscore import Detections, InputError, Truths
from boxscore.cli import sample
from boxscore.report import plots
from boxscore.report.plots import CHARTS
from tests.support.event_files import event_writer, last_scalars, read_events
from tests.support.page_runs import run_page
from tests.support.page_setups import prepare_page

OF_VERDICTS = ("pr", "ap_by_iou", "sizes", "scores", "calibration")
"""The charts that need no detections and truths."""


@pytest.fixture(scope="module")
def result() -> boxscore.Result:
    """That of the sample."""
    return boxscore.evaluate(*sample.load())


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of clients that need no server and no network."""
    folder = tmp_path_factory.mktemp("clients")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # databases need more than mlflow-skinny
        patch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("WANDB_CONSOLE", "off")
        patch.setenv("WANDB_DIR", str(folder))
        patch.setenv("WANDB_X_DISABLE_STATS", "true")
        mlflow.set_tracking_uri(f"file:{folder / 'mlflow'}")
        yield folder
        mlflow.set_tracking_uri(None)


def in_single(numbers: dict[str, float], step: int) -> dict[str, tuple[int, float]]:
    """Numbers as TensorBoard stores them."""
    return {name: (step, float(np.float32(value))) for name, value in numbers.items()}


def test_tensorboard_has_numbers_charts_and_the_tables(result: boxscore.Result, tmp_path: Path) -> None:
    """At their step, under their prefix; and pyplot has no figure afterwards."""
    with event_writer(tmp_path) as writer:
        result.log_to(writer, step=3, prefix="val/")
    events = read_events(tmp_path)
    assert last_scalars(tmp_path) == in_single(result.log_dict("val/"), 3)
    assert events.Tags()["images"] == [f"val/charts/{name}" for name in CHARTS]
    for name in events.Tags()["images"]:
        (image,) = events.Images(name)
        assert image.step == 3
        assert min(image.width, image.height) > 300
    (text,) = events.Tensors("val/classes/text_summary")
    assert text.tensor_proto.string_val[0].decode() == result.to_markdown()
    assert plt.get_fignums() == []


def test_charts_and_table_may_be_left_out(result: boxscore.Result, tmp_path: Path) -> None:
    """Some charts by name, or all of them."""
    with event_writer(tmp_path) as writer:
        result.log_to(writer, charts=("sizes",), table=False)
    events = read_events(tmp_path)
    assert events.Tags()["images"] == ["charts/sizes"]
    assert events.Tags()["tensors"] == []
    with event_writer(tmp_path / "plain") as writer:
        result.log_to(writer, charts=False, table=False)
    assert read_events(tmp_path / "plain").Tags()["images"] == []
    assert set(last_scalars(tmp_path / "plain")) == set(result.log_dict())


def test_a_result_of_a_metric_has_the_charts_of_verdicts(tmp_path: Path) -> None:
    """It has no detections and truths, and says so if it is asked for a chart that needs them, before it logs."""
    metric = boxscore.MeanAveragePrecision()
    metric.update(*sample.load())
    result = metric.compute()
    with event_writer(tmp_path) as writer:
        with pytest.raises(InputError, match=r"^`confusion` needs the detections and truths"):
            result.log_to(writer, charts=("confusion",))
        result.log_to(writer, step=1, charts=True)
    events = read_events(tmp_path)
    assert events.Tags()["images"] == [f"charts/{name}" for name in OF_VERDICTS]
    assert len(events.Scalars("map")) == 1


def test_wandb_has_numbers_charts_table_and_report(clients: Path) -> None:
    """In one row of its history."""
    result = small_result(["cat", "dog"])
    with wandb.init(project="test") as run:
        result.log_to(run, step=5, prefix="val/", charts=("pr", "sizes"), report=True)
        result.log_to(wandb, step=6, charts=False, table=False)  # ends step 5
        summary, files = run.summary, Path(run.dir)
        assert summary["_step"] == 5
        assert {name: summary[name] for name in result.log_dict("val/")} == result.log_dict("val/")
        for name in ("pr", "sizes"):
            assert (files / summary[f"val/charts/{name}"]["path"]).read_bytes()[:4] == b"\x89PNG"
        table = json.loads((files / summary["val/classes"]["path"]).read_text())
        assert table["columns"] == result.to_arrow().column_names
        assert table["data"] == [list(row.values()) for row in result.to_arrow().to_pylist()]
        assert "<html" in (files / summary["val/report"]["path"]).read_text()
        run.log({}, step=7)
        assert (run.summary["_step"], run.summary["map"]) == (6, result["map"])
    assert plt.get_fignums() == []
    with pytest.raises(InputError, match=r"^`target` must have a run: call wandb.init\(\) before"):
        result.log_to(wandb)


def small_result(names: list[str]) -> boxscore.Result:
    """One truth and one detection of each class but the last, which has none."""
    num = len(names) - 1
    columns: dict[str, Any] = {"image_ids": np.arange(num), "labels": np.arange(num)}
    truths = Truths(**columns, boxes=[[0, 0, 10, 10]] * num, class_names=names)
    return boxscore.evaluate(Detections(**columns, scores=[0.5] * num, boxes=[[0, 0, 10, 8]] * num), truths)


def files_of(run_id: str, path: str | None = None) -> set[str]:
    """The paths of a run's artifacts."""
    found = mlflow.MlflowClient().list_artifacts(run_id, path)
    return {file.path for file in found if not file.is_dir}.union(
        *(files_of(run_id, folder.path) for folder in found if folder.is_dir)
    )


def test_mlflow_has_numbers_charts_table_and_report(clients: Path) -> None:
    """By the module and by its run; charts of a step are in a folder, and the table has a column for steps."""
    result = small_result(["cat", "dog"])
    with mlflow.start_run() as run:
        result.log_to(mlflow, step=1, prefix="val/", charts=("pr", "sizes"), report=True)
    result.log_to(run, step=2, prefix="val/", charts=("pr",))
    client, run_id = mlflow.MlflowClient(), run.info.run_id
    assert client.get_run(run_id).data.metrics == result.log_dict("val/")
    history = client.get_metric_history(run_id, "val/map")
    assert [(metric.step, metric.value) for metric in history] == [(1, result["map"]), (2, result["map"])]
    charts = {f"val/charts/{name}.png" for name in ("step_1/pr", "step_1/sizes", "step_2/pr")}
    assert files_of(run_id) == charts | {"val/classes.json", "val/step_1/report.html"}
    report = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/val/step_1/report.html")
    assert report == result.to_html()
    table = mlflow.load_table("val/classes.json", run_ids=[run_id])
    frame = result.to_pandas()
    assert list(table) == ["step", *frame]
    assert table["step"].tolist() == [1, 1, 2, 2]
    assert table["class_name"].tolist() == ["cat", "dog"] * 2
    assert np.array_equal(table["num_true"][2:], frame["num_true"])
    assert plt.get_fignums() == []


def test_mlflow_gets_names_that_it_takes(clients: Path) -> None:
    """Any class name, none lost: other characters become underscores, and equal names get numbers."""
    result = small_result(["dog (big)", "dog [big]", "a//b", "..", "café", "nothing"])
    with mlflow.start_run() as run:
        result.log_to(mlflow, charts=False, table=False)
    logged = mlflow.MlflowClient().get_run(run.info.run_id).data.metrics
    classes = {name.removeprefix("ap/") for name in logged if name.startswith("ap/")}
    assert classes == {"dog _big_", "dog _big_ 2", "a/_/b", "_", "café"}


def test_mlflow_gets_more_numbers_than_one_request_takes(clients: Path) -> None:
    """As many as LVIS' classes."""
    result = small_result([f"class {number}" for number in range(1204)])
    client = mlflow.MlflowClient()
    run_id = client.create_run("0").info.run_id
    result.log_to(client, run_id=run_id, charts=False, table=False)
    assert client.get_run(run_id).data.metrics == result.log_dict()


def test_lightning_loggers_are_clients(result: boxscore.Result, clients: Path, tmp_path: Path) -> None:
    """By what they have as `experiment`."""
    options: dict[str, Any] = {"step": 2, "charts": ("pr",), "table": False}
    board = TensorBoardLogger(str(tmp_path))
    result.log_to(board, **options)
    board.experiment.close()
    assert last_scalars(board.log_dir) == in_single(result.log_dict(), 2)

    of_mlflow = MLFlowLogger(tracking_uri=f"file:{clients / 'mlflow'}")
    result.log_to(of_mlflow, **options)
    assert of_mlflow.experiment.get_run(of_mlflow.run_id).data.metrics == result.log_dict()
    assert files_of(str(of_mlflow.run_id)) == {"charts/step_2/pr.png"}

    of_wandb = WandbLogger(project="test", save_dir=str(tmp_path))
    result.log_to(of_wandb, **options)
    with of_wandb.experiment as run:
        run.log({}, step=3)
        assert run.summary["map"] == result["map"]
        assert run.summary["charts/pr"]["_type"] == "image-file"


def test_other_processes_of_lightning_log_nothing(
    result: boxscore.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their loggers are empty, and the same call works."""
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    result.log_to(TensorBoardLogger(str(tmp_path)), charts=("pr",))
    assert list(tmp_path.rglob("*")) == []


def test_a_tracker_of_accelerate_is_a_client(result: boxscore.Result, tmp_path: Path) -> None:
    """By what it has as `tracker`."""
    from accelerate.tracking import TensorBoardTracker

    tracker = TensorBoardTracker("run", str(tmp_path))
    tracker.start()
    result.log_to(tracker, step=1, charts=False, table=False)
    tracker.finish()
    assert last_scalars(tmp_path / "run") == in_single(result.log_dict(), 1)


def test_what_is_no_client_is_refused(result: boxscore.Result, clients: Path, tmp_path: Path) -> None:
    """With all that would be one."""
    kinds = "a SummaryWriter of TensorBoard, a run of W&B, the module mlflow, a run of MLflow, an MlflowClient"
    for target, name in (
        (3, "builtins.int"),
        (CSVLogger(str(tmp_path)), "lightning.fabric.loggers.csv_logs._ExperimentWriter|.*ExperimentWriter"),
        (os, "the module os"),
    ):
        with pytest.raises(InputError, match=rf"^`target` must be {kinds} with .*; got ({name})$"):
            result.log_to(target)
    with pytest.raises(
        InputError, match=r"^`run_id` must be given with an MlflowClient, which logs to any run; got None$"
    ):
        result.log_to(mlflow.MlflowClient())


def test_bad_options_are_refused_before_anything_is_logged(
    result: boxscore.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, with the rule and what came."""
    known = "pr, ap_by_iou, sizes, scores, calibration, errors, confusion"
    with event_writer(tmp_path) as writer:
        for options, text in (
            ({"step": -1}, "`step` must be an integer that is not negative, or None; got -1"),
            ({"step": 0.5}, "`step` must be an integer that is not negative, or None; got 0.5"),
            ({"prefix": 3}, "`prefix` must be text; got 3"),
            ({"run_id": "x"}, "`run_id` must be given for MLflow only; got 'x'"),
            ({"charts": "pr"}, "`charts` must be True, False or a sequence of names; got 'pr'"),
            ({"charts": ("roc",)}, f"`charts` must be one of {known}; got 'roc'"),
            (
                {"report": True},
                "`report` must be False for TensorBoard, which stores no files: `result.to_html(path)` writes one",
            ),
        ):
            with pytest.raises(InputError) as raised:
                result.log_to(writer, **options)
            assert str(raised.value) == text
        monkeypatch.setattr(plots, "find_spec", lambda _: None)
        with pytest.raises(InputError, match=r"^plots need matplotlib, .*pip install 'boxscore\[plots\]'$"):
            result.log_to(writer)
    assert read_events(tmp_path).Tags()["scalars"] == []


def test_a_run_of_mlflow_begins_once_all_is_ready(clients: Path) -> None:
    """Not if something can't be logged, or would have no path."""
    result = small_result(["cat", "dog"])
    text = r"^`prefix` must begin a relative path without empty and dotted parts for MLflow, such as .*; got '/val/'$"
    with pytest.raises(InputError, match=text):
        result.log_to(mlflow, prefix="/val/")
    metric = boxscore.MeanAveragePrecision()
    with pytest.raises(InputError, match=r"^`errors` needs the detections and truths"):
        metric.compute().log_to(mlflow, charts=("errors",))
    assert mlflow.active_run() is None
    result.log_to(mlflow, charts=False, table=False)
    run = mlflow.active_run()
    mlflow.end_run()
    assert mlflow.MlflowClient().get_run(run.info.run_id).data.metrics == result.log_dict()


def test_mlflow_without_pandas_says_that_its_tables_need_it(
    result: boxscore.Result, clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is logged."""
    monkeypatch.setattr("boxscore.report.loggers.find_spec", lambda _: None)
    text = r"^MLflow's tables need pandas: pip install 'boxscore\[pandas\]', or log"
    with mlflow.start_run() as run, pytest.raises(InputError, match=text):
        result.log_to(run)
    assert mlflow.MlflowClient().get_run(run.info.run_id).data.metrics == {}


def test_the_guide_runs_as_it_stands(
    clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With clients that need no server."""
    page = "docs/guides/logging.md"
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, prepare_page(page, tmp_path), capsys)
    assert "val/charts/pr" in read_events(tmp_path / "runs" / "detector").Tags()["images"]
