"""Charts by matplotlib for papers: one column wide, no titles, colours for colour-blind readers.

`draw_…` functions draw values, `plot_…` functions draw a result. Each returns a `matplotlib.figure.Figure` that is
independent of pyplot.
"""

import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.analysis.calibration import Calibration
from boxscore.analysis.confusion import Confusion
from boxscore.analysis.errors import TYPES, Errors
from boxscore.analysis.scores import Scores
from boxscore.protocol.measures import measures
from boxscore.protocol.protocol import check_alike
from boxscore.report.labels import fit_labels
from boxscore.result.curves import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from boxscore.result.result import Result

Parameters = ParamSpec("Parameters")

_STYLE: Mapping[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "savefig.dpi": 300,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.02,
    "figure.dpi": 150,
    "pdf.fonttype": 42,  # TrueType: publishers reject type 3 fonts
    "svg.fonttype": "none",
}

# Okabe and Ito's colours, and a grey.
_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
_PURPLE, _SKY, _GREY = "#CC79A7", "#56B4E9", "#7F7F7F"
_CYCLE = (_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _SKY, "#000000")
_DASHES = ("-", "--")

_WIDTH, _HEIGHT = 3.4, 2.5
"""Size of a chart that fills a column of a paper, in inches."""

_MAX_NUMBERED = 16
"""Maximum number of classes of a matrix with numbers in its cells."""

_MAX_DRAWN = 100
"""Maximum number of classes of a matrix; of more, the most confused: all 1,203 of LVIS take two gigapixels."""

_MAX_LABEL, _MAX_NAME = 44, 26
"""Maximum width of a line's label, and of a class name on an axis, in columns of text."""

_PER_COLUMN = 0.055
"""Inches per column of small text."""

FORMATS = ("png", "pdf")

CHARTS = ("pr", "ap_by_iou", "sizes", "scores", "calibration", "errors", "confusion")
"""The charts of a result, by the names of their files; `Result` has a method `plot_NAME` for each."""


class Line(NamedTuple):
    """A precision-recall curve."""

    label: str
    precision: Floats
    """Precision at the recall points. Shape (R,)."""


def _drawn(draw: Callable[Parameters, "Figure"]) -> Callable[Parameters, "Figure"]:
    """Decorate a function to draw in the style of this module."""

    @functools.wraps(draw)
    def drawn(*arguments: Parameters.args, **options: Parameters.kwargs) -> "Figure":
        with style():
            return draw(*arguments, **options)

    return drawn


def check_matplotlib() -> None:
    """Raise `InputError` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise InputError("plots need matplotlib, which is not installed: pip install 'boxscore[plots]'")


def style() -> Any:
    """A context in which matplotlib draws in the style of this module, whatever the user's settings."""
    check_matplotlib()
    import matplotlib as mpl

    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **_STYLE}
    del settings["backend"]  # the user's; reading it would import pyplot
    return mpl.rc_context(settings)


@_drawn
def draw_pr(recall_points: Sequence[float], lines: Sequence[Line], *, is_ordered: bool) -> "Figure":
    """Draw precision-recall curves; in sequential colours if the lines are ordered, else in distinct colours.

    If there are more lines than distinct colours, all but the last are grey and unlabelled.
    """
    import matplotlib as mpl

    labels, families, longest = fit_labels([line.label for line in lines], _MAX_LABEL)
    figure, axes = _figure(_WIDTH + _PER_COLUMN * max(longest - 24, 0), _WIDTH * 0.8)
    is_crowded = len(lines) > len(_CYCLE) * len(_DASHES) and not is_ordered
    colors = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(lines))) if is_ordered else _CYCLE
    for i, line in enumerate(lines):
        dash = "-" if is_ordered else _DASHES[i // len(_CYCLE) % len(_DASHES)]
        style: dict[str, Any] = {"color": colors[i % len(colors)], "linestyle": dash, "label": labels[i]}
        if is_crowded:
            is_last = i + 1 == len(lines)
            style = {"color": _BLUE, "label": labels[i]} if is_last else {"color": "#cccccc", "linewidth": 0.5}
        axes.plot(recall_points, line.precision, **style)
    axes.set(xlabel="Recall", ylabel="Precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.grid(visible=True)
    if is_crowded:
        _add_legend(axes, families, loc="lower left")
    elif lines:
        _add_legend(axes, families, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.8)
    return figure


def _add_legend(axes: "Axes", families: Sequence[str], **position: Any) -> None:
    """Add a legend in these fonts; dollar signs are not read as formulas."""
    legend = axes.legend(prop={"family": list(families), "size": _STYLE["legend.fontsize"]}, **position)
    for label in legend.get_texts():
        label.set_parse_math(False)


def plot_pr(result: "Result", *, iou: float | None = None, classes: Sequence[str] | None = None) -> "Figure":
    """Plot precision over recall: the mean over classes at each threshold.

    With `classes`, one line per class at `iou`; with only `iou`, one line per class and one for their mean.
    """
    if isinstance(classes, str):
        raise InputError(f"`classes` must be a sequence of class names; got {classes!r}")
    points, has_truths = result.protocol.recall_points, result.per_class.num_truths > 0
    num_means = len(result.protocol.thresholds) if has_truths.any() else 0
    if classes is None and iou is None:
        return draw_pr(points, [_mean_line(result, t) for t in range(num_means)], is_ordered=True)
    t = result.protocol.threshold_index(iou)
    if classes is not None:
        return draw_pr(points, [_class_line(result, name, t) for name in classes], is_ordered=False)
    lines = [_class_line(result, result.per_class.name[k], t) for k in np.flatnonzero(has_truths)]
    means = [line._replace(label=f"mean, {line.label}") for line in [_mean_line(result, t)] if num_means]
    return draw_pr(points, [*lines, *means], is_ordered=False)


def draw_models(results: Mapping[str, "Result"], *, iou: float | None = None) -> "dict[str, Figure]":
    """Draw two charts of several models: precision over recall at one threshold, and AP by threshold.

    `iou`: one of the protocol's thresholds; default: 0.5, or the first if it has no 0.5.
    """
    check_alike(result.protocol for result in results.values())
    protocol = next(iter(results.values())).protocol
    t = protocol.threshold_index(iou)
    lines = []
    for name, result in results.items():
        if (result.per_class.num_truths > 0).any():
            label = f"{name} (AP {text.fraction(result.per_threshold[protocol.thresholds[t]])})"
            lines.append(_mean_line(result, t)._replace(label=label))
    return {
        "models_pr": draw_pr(protocol.recall_points, lines, is_ordered=False),
        "models_ap_by_iou": draw_ap_of_models(
            {name: result.per_threshold for name, result in results.items()}, protocol.similarity
        ),
    }


def _mean_line(result: "Result", t: int) -> Line:
    """The mean over classes with truths, at the t-th threshold."""
    threshold = result.protocol.thresholds[t]
    precision_RK = result.curves.precision[t, :, :, 0, -1]
    label = f"{result.protocol.similarity} {threshold:.2f} (AP {text.fraction(result.per_threshold[threshold])})"
    return Line(label, precision_RK[:, result.per_class.num_truths > 0].mean(axis=1))


def _class_line(result: "Result", name: str, t: int) -> Line:
    per_class = result.per_class
    if name not in per_class.name:
        known = ", ".join(per_class.name[:10]) + (", …" if len(per_class) > 10 else "")
        raise InputError(f"`classes` must be class names ({known}); got {name!r}")
    k = per_class.name.index(name)
    if not per_class.num_truths[k]:
        raise InputError(f"`classes`: {name!r} has no truths, so it has no curve")
    return Line(f"{name} (AP {text.fraction(per_class.ap_at[k, t])})", result.curves.precision[t, :, k, 0, -1])


def plot_sizes(result: "Result") -> "Figure":
    """Plot AP and AR of each area range."""
    names = [area.name for area in result.protocol.areas]
    last = len(result.protocol.limits) - 1
    every = tuple(range(len(result.protocol.thresholds)))
    ap, ar = (
        [
            next(
                result[each.name]
                for each in measures(result.protocol)
                if (each.is_recall, each.thresholds, each.area, each.limit) == (is_recall, every, area, last)
            )
            for area in range(len(names))
        ]
        for is_recall in (False, True)
    )
    return draw_sizes(names, ap, ar)


def plot_all(result: "Result", names: Sequence[str] | None = None) -> "dict[str, Figure]":
    """Plot charts by name. `names`: keys of `CHARTS`; None: all that the result has data for.

    Errors and confusion need `inputs`, calibration needs scores from 0 to 1, and both calibration and scores need
    verdicts.
    """
    return {name: getattr(result, f"plot_{name}")() for name in (_possible_charts(result) if names is None else names)}


def _possible_charts(result: "Result") -> list[str]:
    missing = set() if result.inputs is not None else {"errors", "confusion"}
    if not result.has_tally:
        missing |= {"scores", "calibration"}
    else:
        score = result.tally.limited().score
        if score.size and not (score.min() >= 0 and score.max() <= 1):
            missing.add("calibration")
    return [name for name in CHARTS if name not in missing]


@_drawn
def draw_ap_of_models(per_threshold: Mapping[str, Mapping[float, float]], similarity: str) -> "Figure":
    """Draw AP at each threshold, one line per model."""
    labels, families, longest = fit_labels(list(per_threshold), _MAX_LABEL)
    figure, axes = _figure(_WIDTH + _PER_COLUMN * (longest + 6), _WIDTH * 0.8)
    for i, values in enumerate(per_threshold.values()):
        dash = _DASHES[i // len(_CYCLE) % len(_DASHES)]
        style: dict[str, Any] = {"color": _CYCLE[i % len(_CYCLE)], "linestyle": dash, "label": labels[i]}
        axes.plot(list(values), list(values.values()), marker="o", markersize=3, **style)
    axes.set(xlabel=f"{similarity} threshold", ylabel="AP", ylim=(0, 1.02))
    axes.grid(visible=True)
    _add_legend(axes, families, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.8)
    return figure


@_drawn
def draw_ap_by_iou(per_threshold: Mapping[float, float], similarity: str) -> "Figure":
    """Draw AP at each threshold, and the mean."""
    figure, axes = _figure()
    thresholds, values = list(per_threshold), list(per_threshold.values())
    axes.plot(thresholds, values, color=_BLUE, marker="o", markersize=3)
    mean = float(np.mean(values))
    if len(values) > 1 and not math.isnan(mean):
        axes.axhline(mean, color=_GREY, linewidth=0.8, linestyle="--")
        axes.text(0.99, mean + 0.01, f"mean {mean:.3f}", transform=axes.get_yaxis_transform(), ha="right", color=_GREY)
    axes.set(xlabel=f"{similarity} threshold", ylabel="AP", ylim=(0, 1.02))
    axes.grid(visible=True)
    return figure


@_drawn
def draw_sizes(names: Sequence[str], ap: Sequence[float], ar: Sequence[float]) -> "Figure":
    """Draw AP and AR of each area range, side by side."""
    figure, axes = _figure()
    position = np.arange(len(names))
    for offset, values, color, label in ((-0.2, ap, _BLUE, "AP"), (0.2, ar, _ORANGE, "AR")):
        bars = axes.bar(position + offset, np.nan_to_num(np.asarray(values)), 0.38, color=color, label=label)
        texts = ["–" if math.isnan(value) else f"{value:.2f}" for value in values]
        axes.bar_label(bars, texts, padding=1, fontsize=6.5)
    axes.set(xticks=position, ylim=(0, 1.08), ylabel="AP, AR", xlabel="Object size")
    labels, families, _ = fit_labels(names, _MAX_NAME // 2)
    axes.set_xticklabels(labels, fontfamily=families, parse_math=False)
    axes.legend(loc="upper left", ncols=2)
    axes.grid(visible=True, axis="y")
    return figure


@_drawn
def draw_scores(scores: Scores) -> "Figure":
    """Draw histograms of the scores of true and false positives, and the threshold with the best F1."""
    figure, axes = _figure()
    for values, color, label in (
        (scores.num_false, _RED, "false positives"),
        (scores.num_true, _BLUE, "true positives"),
    ):
        axes.stairs(values, scores.edge, color=color, label=label, fill=True, alpha=0.35)
        axes.stairs(values, scores.edge, color=color, linewidth=1)
    if not math.isnan(scores.best):
        best = f"best F1, {scores.best_f1:.3f}: score ≥ {scores.best:.3f}"
        axes.axvline(scores.best, color="black", linewidth=0.8, linestyle="--", label=best)
    if scores.num_true.any() or scores.num_false.any():
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.8)
    axes.set(xlabel="Score", ylabel="Detections", xlim=(scores.edge[0], scores.edge[-1]))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, handlelength=1.2, columnspacing=1)
    return figure


@_drawn
def draw_confusion(confusion: Confusion) -> "Figure":
    """Draw the confusion matrix: shades are fractions of a row, on a square-root scale; with few classes, also numbers.

    If there are very many classes, only the most confused are drawn.
    """
    from matplotlib.colors import PowerNorm

    indices = [*confusion.most_confused(_MAX_DRAWN), len(confusion.name)]
    names, families, longest = fit_labels([[*confusion.name, "background"][k] for k in indices], _MAX_NAME)
    is_small = len(names) <= _MAX_NUMBERED
    room = 1.2 + _PER_COLUMN * max(longest - 12, 0)
    side = max(_WIDTH, room + len(names) * (0.32 if is_small else 0.13))
    figure, axes = _figure(side, side * 0.92)
    count = confusion.part(indices)
    share = count / np.maximum(confusion.num_of_row[indices, None], 1)
    image = axes.imshow(share, cmap="Blues", norm=PowerNorm(0.5, vmin=0, vmax=1))
    if is_small:
        for (i, j), value in np.ndenumerate(confusion.matrix):
            shown = f"{value:,}" if confusion.normalize is None else f"{value:.2f}"
            if value > 0:
                ink = _ink_on(image.cmap(image.norm(share[i, j])))
                axes.text(j, i, shown, ha="center", va="center", fontsize=6, color=ink)
    slope: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_small else {"rotation": 90}
    style: dict[str, Any] = {"fontsize": 7 if is_small else 5, "fontfamily": families, "parse_math": False}
    axes.set_xticks(range(len(names)), names, **style, **slope)
    axes.set_yticks(range(len(names)), names, **style)
    axes.set(xlabel="Detection", ylabel="Ground truth")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, fraction=0.046 if is_small else 0.02, pad=0.02, ticks=(0, 0.05, 0.25, 0.5, 1))
    bar.set_label("Fraction of the row")
    bar.outline.set_visible(False)
    return figure


def _ink_on(color: Any) -> str:
    """Black or white, whichever has more contrast on an RGB colour: at least 4.58."""
    level = np.asarray(color[:3])
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


@_drawn
def draw_errors(errors: Errors) -> "Figure":
    """Draw bars of the AP gained by fixing each type of error, with the number of errors."""
    figure, axes = _figure()
    rows = list(errors.rows())
    gains = np.nan_to_num([gain for _, _, gain in rows])
    colors = [_BLUE] * len(TYPES) + [_GREY] * (len(rows) - len(TYPES))
    position = np.arange(len(rows)) + np.array([0] * len(TYPES) + [0.4] * (len(rows) - len(TYPES)))
    bars = axes.barh(position, gains, 0.7, color=colors)
    texts = [f"{gain:.3f}  ({count:,})".replace("nan", "–") for _, count, gain in rows]
    axes.bar_label(bars, texts, padding=2, fontsize=6.5)
    axes.set_yticks(position, [name.replace("_", " ") for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set(
        xlabel=f"Gain in AP at {errors.similarity} {errors.iou:g} (number of errors)",
        xlim=(0, max(gains.max() * 1.45, 1e-3)),
    )
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


@_drawn
def draw_calibration(calibration: Calibration) -> "Figure":
    """Draw the reliability diagram: precision over score, and the number of detections."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _WIDTH), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    middle, width = (calibration.edge[:-1] + calibration.edge[1:]) / 2, np.diff(calibration.edge)
    above.bar(middle, np.nan_to_num(calibration.precision), width * 0.92, color=_SKY, label="precision")
    above.plot((0, 1), (0, 1), color="black", linewidth=0.8, linestyle="--", label="perfect calibration")
    is_full = calibration.count > 0
    above.plot(
        calibration.mean_score[is_full],
        calibration.precision[is_full],
        color=_RED,
        marker="o",
        markersize=3,
        linewidth=1,
        label="at the mean score",
    )
    above.set(ylabel="Precision", xlim=(0, 1), ylim=(0, 1.02))
    above.legend(loc="upper left")
    if not math.isnan(calibration.ece):
        above.text(0.98, 0.04, f"ECE {calibration.ece:.3f}", transform=above.transAxes, ha="right")
    below.bar(middle, calibration.count, width * 0.92, color=_GREY)
    if is_full.any():
        below.set_yscale("log")
        below.set_ylim(bottom=0.8)
    below.set(xlabel="Score", ylabel="Detections")
    figure.align_ylabels()
    return figure


def save(figures: Mapping[str, "Figure"], folder: str | Path) -> list[Path]:
    """Write the charts as PNG and PDF to a folder, which is created if needed; return the paths of the files.

    All charts are rendered before the first is written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: can't be created as a folder: {error.strerror}") from None
    with style():
        drawn = {
            folder / f"{name}.{kind}": rendered(figure, kind) for name, figure in figures.items() for kind in FORMATS
        }
    for path, content in drawn.items():
        write_file(path, content)
    return list(drawn)


def rendered(figure: "Figure", kind: str) -> bytes:
    """Render a chart to the content of a file, in one of `FORMATS`. Call it within `style`."""
    output = io.BytesIO()
    # Omit the date, so that files are reproducible.
    figure.savefig(output, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
    return output.getvalue()


def _figure(width: float = _WIDTH, height: float = _HEIGHT) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()
