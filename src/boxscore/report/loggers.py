"""A result in TensorBoard, Weights & Biases and MLflow: numbers, charts, the table of classes, the report.

A client is recognised by its methods, so none is imported that the caller has not imported. Everything is prepared
before anything is sent.
"""

import io
import posixpath
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from numbers import Integral
from types import ModuleType
from typing import TYPE_CHECKING, Any

from boxscore._support.exceptions import InputError
from boxscore.analysis.match_table import Table, TableOptions, make_table
from boxscore.protocol.fields import check_choice
from boxscore.report import exports, plots
from boxscore.report.frames import to_lists, to_pandas
from boxscore.result.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TARGETS = (
    "a SummaryWriter of TensorBoard, a run of W&B, the module mlflow, a run of MLflow, an MlflowClient with `run_id`,"
    " or a logger of Lightning or a tracker of Accelerate for one of these"
)
"""The supported targets, for messages."""

_MLFLOW_BATCH = 1000
"""Maximum number of metrics in one request to MLflow."""

_NOT_IN_MLFLOW = re.compile(r"[^/\w.\- :]")
"""Characters that MLflow refuses in the names of metrics."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogOptions:
    """The numbers and charts to log, and their names; validated."""

    step: int | None = None
    prefix: str = ""
    charts: bool | Sequence[str] = True
    table: bool = True
    report: bool = False
    run_id: str | None = None

    def __post_init__(self) -> None:
        step: Any = self.step
        if step is not None and (isinstance(step, bool) or not isinstance(step, Integral) or int(step) < 0):
            raise InputError(f"`step` must be an integer that is not negative, or None; got {step!r}")
        if not isinstance(self.prefix, str):
            raise InputError(f"`prefix` must be text; got {self.prefix!r}")
        if isinstance(self.charts, str):
            raise InputError(f"`charts` must be True, False or a sequence of names; got {self.charts!r}")
        for name in () if isinstance(self.charts, bool) else self.charts:
            check_choice("charts", name, plots.CHARTS)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Record:
    """The contents to log of a result."""

    prefix: str
    step: int | None
    numbers: Mapping[str, float]
    """Numbers by name; the name includes the prefix, as in all fields below."""
    figures: "Mapping[str, Figure]"
    table: Table
    """The table of classes; without columns if it is not requested."""
    markdown: str
    """The table and the numbers."""
    html: str | None


_Send = Callable[[_Record], None]


def log_result(result: Result, target: Any, options: LogOptions) -> None:
    """Log a result to a client."""
    send = _find_client(target, options)
    prefix = options.prefix
    names = None if options.charts is True else options.charts or ()
    record = _Record(
        prefix=prefix,
        step=None if options.step is None else int(options.step),
        numbers=result.log_dict(prefix),
        figures={f"{prefix}charts/{name}": figure for name, figure in plots.plot_all(result, names).items()},
        table=make_table(result, TableOptions(rows="classes"), "log_to") if options.table else {},
        markdown=exports.to_markdown([result.summary]) if options.table else "",
        html=result.to_html() if options.report else None,
    )
    if not record.figures:
        send(record)
        return
    with plots.style():  # clients draw figures when they get them
        send(record)


def _find_client(target: Any, options: LogOptions) -> _Send:
    """Choose the function that sends records to the target; `InputError` if no client fits or it lacks a feature."""
    if isinstance(target, ModuleType):
        return _of_module(target, options)
    run_id = options.run_id
    for attribute in ("experiment", "tracker"):  # Lightning's loggers, Accelerate's trackers
        if (client := getattr(target, attribute, None)) is not None:
            run_id, target = run_id or getattr(target, "run_id", None), client
            break
    if _has(target, "add_scalar", "add_figure", "add_text"):
        return _of_tensorboard(target, options)
    if _has(target, "log_batch", "log_figure", "log_table"):
        if run_id is None:
            raise InputError("`run_id` must be given with an MlflowClient, which logs to any run; got None")
        return _of_mlflow(lambda: (target, run_id), options)
    if _has(target, "info") and _has(target.info, "run_id", "experiment_id"):
        from mlflow import MlflowClient

        return _of_mlflow(lambda: (MlflowClient(), target.info.run_id), options)
    if _has(target, "log", "log_artifact", "define_metric"):
        _check_no_run_id(options)
        return lambda record: _send_to_wandb(target, record)
    raise InputError(f"`target` must be {TARGETS}; got {_kind(target)}")


def _of_module(module: Any, options: LogOptions) -> _Send:
    """Choose the sending function for the module of a client, which owns its run."""
    if module.__name__ == "wandb":
        if module.run is None:
            raise InputError("`target` must have a run: call wandb.init() before logging to the module wandb")
        return _find_client(module.run, options)
    if module.__name__ == "mlflow":

        def find_run() -> tuple[Any, str]:
            # Start a run if none is active, as mlflow's own functions do.
            run_id = options.run_id or (module.active_run() or module.start_run()).info.run_id
            return module.MlflowClient(), run_id

        return _of_mlflow(find_run, options)
    raise InputError(f"`target` must be {TARGETS}; got the module {module.__name__}")


def _of_tensorboard(writer: Any, options: LogOptions) -> _Send:
    _check_no_run_id(options)
    if options.report:
        raise InputError(
            "`report` must be False for TensorBoard, which stores no files: `result.to_html(path)` writes one"
        )
    return lambda record: _send_to_tensorboard(writer, record)


def _of_mlflow(find_run: Callable[[], tuple[Any, str]], options: LogOptions) -> _Send:
    """Validate the options for MLflow. `find_run`: returns a client and the id of a run, which may begin only then."""
    if options.table and find_spec("pandas") is None:
        raise InputError(
            "MLflow's tables need pandas: pip install 'boxscore[pandas]', or log without the table of classes,"
            " table=False"
        )
    path = f"{options.prefix}charts"
    if posixpath.normpath(path) != path or path.startswith(("/", "..")):
        raise InputError(
            "`prefix` must begin a relative path without empty and dotted parts for MLflow, such as 'val/'; got"
            f" {options.prefix!r}"
        )
    return lambda record: _send_to_mlflow(*find_run(), record)


def _check_no_run_id(options: LogOptions) -> None:
    if options.run_id is not None:
        raise InputError(f"`run_id` must be given for MLflow only; got {options.run_id!r}")


def _has(target: Any, *names: str) -> bool:
    return all(hasattr(target, name) for name in names)


def _kind(target: Any) -> str:
    return f"{type(target).__module__}.{type(target).__qualname__}"


def _send_to_tensorboard(writer: Any, record: _Record) -> None:
    for name, value in record.numbers.items():
        writer.add_scalar(name, value, record.step)
    for name, figure in record.figures.items():
        writer.add_figure(name, figure, record.step)
    if record.table:
        writer.add_text(f"{record.prefix}classes", record.markdown, record.step)


def _send_to_wandb(run: Any, record: _Record) -> None:
    """Log everything in one row of the history."""
    import wandb
    from PIL import Image  # a dependency of matplotlib

    values: dict[str, Any] = {**record.numbers}
    for name, figure in record.figures.items():
        # For a figure, wandb would check whether it is pyplot, which may not be imported.
        values[name] = wandb.Image(Image.open(io.BytesIO(plots.rendered(figure, "png"))))
    if record.table:
        rows = list(map(list, zip(*to_lists(record.table).values(), strict=True)))
        values[f"{record.prefix}classes"] = wandb.Table(columns=list(record.table), data=rows)
    if record.html is not None:
        values[f"{record.prefix}report"] = wandb.Html(record.html, inject=False)
    run.log(values, step=record.step)


def _send_to_mlflow(client: Any, run_id: str, record: _Record) -> None:
    """Log to MLflow. Files have no steps: charts go to a folder per step, the table gets a column `step`, and grows."""
    from mlflow.entities import Metric

    now, names = int(time.time() * 1000), mlflow_names(record.numbers)
    metrics = [Metric(names[name], value, now, record.step or 0) for name, value in record.numbers.items()]
    for first in range(0, len(metrics), _MLFLOW_BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + _MLFLOW_BATCH])
    step = "" if record.step is None else f"step_{record.step}/"
    for name, figure in record.figures.items():
        folder, _, file = name.rpartition("/")
        client.log_figure(run_id, figure, f"{folder}/{step}{file}.png")
    if record.table:
        frame = to_pandas(record.table)
        if record.step is not None:
            frame.insert(0, "step", record.step)
        client.log_table(run_id, frame, f"{record.prefix}classes.json")
    if record.html is not None:
        client.log_text(run_id, record.html, f"{record.prefix}{step}report.html")


def mlflow_names(names: Iterable[str]) -> dict[str, str]:
    """A distinct valid name in MLflow for each name: invalid characters become underscores.

    >>> list(mlflow_names(["val/ap/cat", "val/ap/dog (big)", "val/ap/dog [big]"]).values())
    ['val/ap/cat', 'val/ap/dog _big_', 'val/ap/dog _big_ 2']
    """
    valid_of: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        # MLflow treats a name as a path: no part of it may be empty or only dots.
        valid = "/".join(part if part.strip(".") else "_" for part in _NOT_IN_MLFLOW.sub("_", name).split("/"))
        unique = valid
        for number in count(2):
            if unique not in used:
                break
            unique = f"{valid} {number}"
        valid_of[name] = unique
        used.add(unique)
    return valid_of
