"""Result: the numbers by name, the numbers per class, and the curves behind them.

Analyses, charts and exports are thin methods: each imports and calls a function of `boxscore.analysis` or
`boxscore.report`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.lazy import Lazy
from boxscore.data.dataset import Detections, Truths
from boxscore.protocol.comparable import Comparable
from boxscore.protocol.protocol import Protocol
from boxscore.result.curves import Averages, Curves, Ints
from boxscore.result.extra_numbers import ExtraNumbers, extra_numbers
from boxscore.result.per_class import PerClass, per_class_of
from boxscore.result.summary import Summary
from boxscore.result.tally import Tally, Totals, joined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from boxscore.analysis.bootstrap import Intervals
    from boxscore.analysis.calibration import Calibration
    from boxscore.analysis.confusion import Confusion, Normalize
    from boxscore.analysis.errors import Errors
    from boxscore.analysis.match_table import RowKind, Table
    from boxscore.analysis.operating_points import OperatingPoints
    from boxscore.analysis.pairing import Pairing
    from boxscore.analysis.scores import Scores
    from boxscore.analysis.worst_images import WorstImages
    from boxscore.report.pictures import Picture


class Inputs(NamedTuple):
    """The evaluated detections and truths."""

    detections: Detections
    truths: Truths


class Stored(NamedTuple):
    """Facts about the inputs of a result without `inputs`."""

    image_names: Mapping[int, str] | None
    subset: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(Mapping[str, float]):
    """The result of an evaluation: a mapping of names to numbers, with the curves and verdicts behind them.

    `evaluate`, `finish` and `load_result` make results. `print` shows a table. NaN marks an undefined number: the data
    has no truths for it. The names:

    - `map`: the mean over all thresholds; `map_50`, `map_75`: at a threshold, if the protocol has it.
    - `map_small`, …: in each area range but the first.
    - `mar_1`, …: for each limit; `mar` without a limit.
    - `mar_small`, …: in each area range but the first.

    Args:
        numbers: The numbers by name.
        per_threshold: `map` at each IoU threshold.
        per_class: The numbers of each class.
        curves: Precision, recall and scores.
        protocol: The rules behind the numbers.
        iou_dtype: The precision in which IoUs were computed.
        inputs: The evaluated detections and truths; None: not retained.
        num_invalid: Number of invalid detections that were dropped.
        num_given: Number of input detections; None: unknown.
    """

    numbers: Mapping[str, float]
    """The numbers by name; `result[name]` is one of them."""
    per_threshold: Mapping[float, float]
    """`map` at each IoU threshold."""
    per_class: PerClass
    """The numbers of each class."""
    curves: Curves
    """Precision, recall and scores in pycocotools' layout."""
    protocol: Protocol
    """The rules behind the numbers."""
    iou_dtype: str
    """The precision in which IoUs were computed: float64, or float32 on devices without float64."""
    _lazy_tally: Lazy[Tally] | None = None
    """The verdicts; several tallies are merged at the first read. None: there were too many to retain."""
    inputs: Inputs | None = None
    """The evaluated detections and truths, for analyses that need more than verdicts; None: they were not retained."""
    num_invalid: int = 0
    """Number of invalid detections that were dropped (`invalid="drop"`)."""
    num_given: int | None = None
    """Number of input detections, including those that no number counts; None: unknown."""
    _stored: Stored | None = None
    """Facts about the inputs if `inputs` is None: for a result from a file, or of a slice."""
    last_pairing: "dict[Protocol, Pairing]" = field(default_factory=dict, init=False)
    """Cache: the verdicts of all inputs at the last threshold that an analysis used, by protocol."""

    @property
    def tally(self) -> Tally:
        """The verdicts behind all numbers; a limit over the dataset is not applied yet."""
        if self._lazy_tally is None:
            raise InputError("this result has no tally: it was computed class by class, and no verdicts were retained")
        return self._lazy_tally.value

    @property
    def has_tally(self) -> bool:
        """Whether the verdicts were retained."""
        return self._lazy_tally is not None

    @property
    def images(self) -> Ints:
        """Ids of all images, ascending: with detections or truths, or listed by the truths. Shape (N,)."""
        images, listed = self.tally.all_images, self.image_names
        return images if listed is None else np.union1d(images, np.array([*listed], np.int64))

    @property
    def image_names(self) -> Mapping[int, str] | None:
        """File names of images by id; None: unknown."""
        if self.inputs is not None:
            return self.inputs.truths.image_names
        return None if self._stored is None else self._stored.image_names

    @property
    def subset(self) -> tuple[str, ...]:
        """Descriptions of excluded data; empty: none is known."""
        if self.inputs is not None:
            return tuple(self.inputs.truths.subset)
        return () if self._stored is None else self._stored.subset

    def intervals(
        self, *, resamples: int = 1000, seed: int = 0, level: float = 0.95, threads: int | None = None
    ) -> "Intervals":
        """Compute bootstrap confidence intervals of every number: images are drawn with replacement, and not matched
        again.

        Args:
            resamples: Number of bootstrap samples.
            seed: Seed of the random numbers.
            level: The confidence level.
            threads: As in `evaluate`; doesn't change the bits.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image_ids=range(9), labels=[1] * 9, boxes=[[0, 0, 10, 10]] * 9)
        >>> detections = Detections(image_ids=range(6), labels=[1] * 6, scores=[0.9] * 6, boxes=[[0, 0, 10, 10]] * 6)
        >>> intervals = evaluate(detections, truths, "voc2012").intervals()  # six of nine are found
        >>> round(intervals.numbers["map"], 2), round(intervals.low["map"], 2), round(intervals.high["map"], 2)
        (0.67, 0.34, 0.89)
        """
        from boxscore.analysis import bootstrap

        plan = bootstrap.Plan.checked(resamples, seed, level)
        estimates = bootstrap.Estimates(self.numbers, self.per_class.ap, self.per_class.ar)
        return bootstrap.intervals(self.tally, self.images, estimates, plan, threads=threads)

    def __getitem__(self, name: str) -> float:
        try:
            return self.numbers[name]
        except KeyError:
            raise KeyError(f"{name!r} is not measured under this protocol; measured are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def summary(self) -> Summary:
        """The numbers as Python values."""
        return Summary(
            protocol=self.protocol,
            numbers=self.numbers,
            per_class=list(self.per_class.rows()),
            iou_dtype=self.iou_dtype,
            num_invalid=self.num_invalid,
            num_left_out=self._num_left_out(),
            subset=self.subset,
        )

    @property
    def comparable(self) -> Comparable:
        """Whether the numbers may be compared with published ones: the name of the rules, or the differences from them.

        A subset of images or classes is known only if `read_truths`, `select` or `slices` took it.
        """
        return self.summary.comparable

    def _num_left_out(self) -> int | None:
        """Number of detections that the protocol drops, so that no number counts them; None: unknown."""
        if not self.protocol.left_out:
            return 0
        return None if self.num_given is None else self.num_given - int(self.per_class.num_detections.sum())

    def to_dict(self) -> dict[str, Any]:
        """Convert to values for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None."""
        return self.summary.to_dict()

    def save(self, path: str | os.PathLike[str], *, name: str | None = None, step: int | None = None) -> None:
        """Write the result to a file, completely or not at all; `boxscore.load_result` reads it, with the same bits.

        The file has the tally, about 20 bytes per detection, and the names of images, but not the inputs.
        `boxscore serve` shows folders of such files:
        `metric.compute().save(f"runs/a/epoch_{epoch:03}.boxscore", step=epoch)`.

        Args:
            path: The file. Missing folders are created.
            name: The name of the model.
            step: The epoch or step of training.
        """
        from boxscore.result import saved_results

        saved_results.save_result(self, path, name=name, step=step)

    def log_dict(self, prefix: str = "", *, undefined: float | None = None, per_class: bool = True) -> dict[str, float]:
        """Convert to a flat dict of floats for TensorBoard, W&B or MLflow.

        Args:
            prefix: Put before each name: "val/" makes "val/map".
            undefined: The value of undefined numbers, such as -1.0 for callbacks that need a number. Default: undefined
                numbers are dropped, as loggers refuse NaN. Without truths all numbers are undefined.
            per_class: Whether to add `ap/<class>` for each class.
        """
        from boxscore.report import exports

        return exports.log_dict(self.summary, prefix, undefined=undefined, per_class=per_class)

    def log_to(
        self,
        target: Any,
        *,
        step: int | None = None,
        prefix: str = "",
        charts: bool | Sequence[str] = True,
        table: bool = True,
        report: bool = False,
        run_id: str | None = None,
    ) -> None:
        """Log the numbers of `log_dict`, charts and the table of classes to TensorBoard, W&B or MLflow.

        If any requested item can't be logged, nothing is.

        Args:
            target: A `SummaryWriter`, a run of W&B, the module `mlflow` or a run of it, an `MlflowClient`, a logger of
                Lightning, or a tracker of Accelerate.
            step: The epoch or step of training.
            prefix: Put before each name: "val/" makes "val/map" and "val/charts/pr".
            charts: True: all charts that the result has data for. False: none. Or some of "pr", "ap_by_iou", "sizes",
                "scores", "calibration", "errors" and "confusion". Charts need `boxscore[plots]`.
            table: Whether to log the table of classes.
            report: Whether to log the HTML report; not possible with TensorBoard.
            run_id: The run of an `MlflowClient`.
        """
        from boxscore.report.loggers import LogOptions, log_result

        options = LogOptions(step=step, prefix=prefix, charts=charts, table=table, report=report, run_id=run_id)
        log_result(self, target, options)

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Convert to CSV with one number per line: class (empty: all), number, value (empty: undefined).

        Args:
            path: The file to write. None: return the text.
        """
        from boxscore.report import exports

        return exports.save(exports.to_csv([self.summary]), path)

    def to_markdown(self, name: str | None = None) -> str:
        """Convert to Markdown: a table of numbers and a table of classes.

        Args:
            name: The model's name, for a column `model`.
        """
        from boxscore.report import exports

        return exports.to_markdown([self.summary], None if name is None else [name])

    def to_latex(self, name: str | None = None) -> str:
        """Convert to LaTeX with booktabs: the tables of `to_markdown`, in percent. More than 40 rows: a `longtable`.

        Args:
            name: The model's name, for a column `model`.
        """
        from boxscore.report import exports

        return exports.to_latex([self.summary], None if name is None else [name])

    def to_pandas(
        self,
        rows: "RowKind" = "classes",
        *,
        iou: float | None = None,
        score: float | None = None,
        errors: bool = False,
        threads: int | None = None,
    ) -> Any:
        """Convert to a `pandas.DataFrame` with one row per class, image, detection or truth.

        The guide on analysis lists the columns.

        Args:
            rows: "classes", "images", "detections" with their verdicts, or "truths" with the detections that found
                them; the latter two need `inputs`.
            iou: As in `errors`.
            score: Detections below this score are dropped.
            errors: Whether to add TIDE's type of each error, for detections and truths.
            threads: As in `evaluate`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image_ids=[7, 7], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> boxes = [[0, 0, 10, 9], [50, 50, 60, 60]]
        >>> detections = Detections(image_ids=[7, 7], labels=[1, 1], scores=[0.9, 0.8], boxes=boxes)
        >>> result = evaluate(detections, truths)
        >>> result.to_pandas("detections")[["image", "score", "verdict", "truth", "similarity"]]
           image  score verdict  truth  similarity
        0      7    0.9    true      0         0.9
        1      7    0.8   false   <NA>         NaN
        """
        from boxscore.report import frames

        return frames.to_pandas(
            self._table("to_pandas", rows=rows, iou=iou, score=score, errors=errors, threads=threads)
        )

    def to_polars(self, rows: "RowKind" = "classes", **options: Any) -> Any:
        """Convert to a `polars.DataFrame` with the rows of `to_pandas`.

        Args:
            rows: As in `to_pandas`.
            **options: The other arguments of `to_pandas`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image_ids=[7, 7], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> boxes = [[0, 0, 10, 9], [50, 50, 60, 60]]
        >>> detections = Detections(image_ids=[7, 7], labels=[1, 1], scores=[0.9, 0.8], boxes=boxes)
        >>> evaluate(detections, truths).to_polars("truths").select("truth", "is_found", "detection").rows()
        [(0, True, 0), (1, False, None)]
        """
        from boxscore.report import frames

        return frames.to_polars(self._table("to_polars", rows=rows, **options))

    def to_arrow(self, rows: "RowKind" = "classes", **options: Any) -> Any:
        """Convert to a `pyarrow.Table` with the rows of `to_pandas`.

        Args:
            rows: As in `to_pandas`.
            **options: The other arguments of `to_pandas`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image_ids=[7, 7], labels=[1, 1], boxes=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> detections = Detections(image_ids=[7], labels=[1], scores=[0.9], boxes=[[0, 0, 10, 9]])
        >>> evaluate(detections, truths).to_arrow("images").select(["image", "num_true", "num_unfound"]).to_pylist()
        [{'image': 7, 'num_true': 1, 'num_unfound': 1}]
        """
        from boxscore.report import frames

        return frames.to_arrow(self._table("to_arrow", rows=rows, **options))

    def _table(self, method: str, **options: Any) -> "Table":
        """The columns of a data frame. `method`: the caller's name, for errors; `options`: fields of `TableOptions`."""
        from boxscore.analysis.match_table import TableOptions, make_table

        return make_table(self, TableOptions(**options), method)

    def errors(self, *, iou: float | None = None, background: float = 0.1, threads: int | None = None) -> "Errors":
        """Classify every false positive and every missed truth by TIDE's types, with the AP that fixing each would add.

        Needs `inputs`.

        Args:
            iou: The threshold of a match. Default: 0.5, or the protocol's first threshold if it has no 0.5.
            background: A detection whose IoU with every truth is at most this is on background.
            threads: As in `evaluate`.
        """
        from boxscore.analysis.errors import find_errors
        from boxscore.analysis.pairing import pair_inputs

        pairing = pair_inputs(self, "`errors`", iou, threads)
        return find_errors(pairing, self.tally.classes, self.per_class.name, background)

    def confusion(
        self,
        *,
        score: float | None = None,
        iou: float | None = None,
        normalize: "Normalize | None" = None,
        threads: int | None = None,
    ) -> "Confusion":
        """Compute the confusion matrix: which classes are detected as which, with background as row and column.

        Needs `inputs`.

        Args:
            score: Detections below this score are dropped. Default: the threshold with the best F1 over all classes.
            iou: As in `errors`.
            normalize: "truths", "detections" or "all", for fractions instead of counts.
            threads: As in `evaluate`.
        """
        from boxscore.analysis.confusion import confuse
        from boxscore.analysis.pairing import pair_inputs

        pairing = pair_inputs(self, "`confusion`", iou, threads)
        return confuse(pairing, self.tally.classes, self.per_class.name, score, normalize)

    def calibration(self, *, bins: int = 10, iou: float | None = None) -> "Calibration":
        """Compute mean score and precision in bins of score, and the expected calibration error.

        Args:
            bins: Number of bins.
            iou: As in `errors`. A threshold that the protocol doesn't have needs `inputs`.
        """
        from boxscore.analysis.calibration import calibrate

        return calibrate(self, bins=bins, iou=iou)

    def operating_points(
        self, *, iou: float | None = None, precision: float | None = None, recall: float | None = None
    ) -> "OperatingPoints":
        """Find the score threshold with the best F1, for all classes together and for each class.

        Args:
            iou: As in `calibration`.
            precision: Instead of the best F1, find the lowest threshold with at least this precision.
            recall: Instead of the best F1, find the highest threshold with at least this recall.
        """
        from boxscore.analysis.operating_points import Aim, find_operating_points

        return find_operating_points(self, Aim.validated(precision, recall), iou=iou)

    def scores(self, *, bins: int = 40, iou: float | None = None) -> "Scores":
        """Compute histograms of the scores of true and false positives.

        Args:
            bins: Number of bins.
            iou: As in `calibration`.
        """
        from boxscore.analysis.scores import histogram_scores

        return histogram_scores(self, bins=bins, iou=iou)

    def worst_images(
        self, *, num: int | None = 20, score: float | None = None, iou: float | None = None
    ) -> "WorstImages":
        """Find the images with the most false positives and missed truths.

        Args:
            num: Number of images; None: all.
            score: As in `confusion`.
            iou: As in `calibration`.
        """
        from boxscore.analysis.worst_images import find_worst_images

        return find_worst_images(self, num=num, score=score, iou=iou)

    def draw(
        self,
        image: int | str,
        image_folder: str | os.PathLike[str] | None = None,
        *,
        pixels: Any = None,
        score: float | None = None,
        iou: float | None = None,
        threads: int | None = None,
    ) -> "Picture":
        """Draw true positives, false positives and missed truths on an image.

        Needs `inputs` and `boxscore[pictures]`.

        Args:
            image: The id or the name of the image.
            image_folder: The folder of the image files, which may be in subfolders.
            pixels: Instead of `image_folder`, the image: a path, an image of Pillow, or an array of bytes (H, W, 3).
            score: As in `confusion`.
            iou: As in `confusion`.
            threads: As in `evaluate`.
        """
        from boxscore.report.pictures import draw_image

        return draw_image(self, image, image_folder, pixels, score=score, iou=iou, threads=threads)

    def plot_pr(self, *, iou: float | None = None, classes: Sequence[str] | None = None) -> "Figure":
        """Plot precision over recall. By default, one line per IoU threshold: the mean over classes.

        Args:
            iou: One line per class at this threshold, and one for their mean.
            classes: Only lines of these classes, at `iou`.
        """
        from boxscore.report import plots

        return plots.plot_pr(self, iou=iou, classes=classes)

    def plot_ap_by_iou(self) -> "Figure":
        """Plot AP at each IoU threshold."""
        from boxscore.report import plots

        return plots.draw_ap_by_iou(self.per_threshold, self.protocol.similarity)

    def plot_sizes(self) -> "Figure":
        """Plot AP and AR of each area range."""
        from boxscore.report import plots

        return plots.plot_sizes(self)

    def plot_scores(self, *, bins: int = 40, iou: float | None = None) -> "Figure":
        """Plot the scores of true and false positives, and the threshold with the best F1.

        Args:
            bins: Number of bins.
            iou: As in `calibration`.
        """
        from boxscore.report import plots

        return plots.draw_scores(self.scores(bins=bins, iou=iou))

    def plot_confusion(self, **options: Any) -> "Figure":
        """Plot the confusion matrix.

        Args:
            **options: The arguments of `confusion`.
        """
        from boxscore.report import plots

        return plots.draw_confusion(self.confusion(**options))

    def plot_errors(self, **options: Any) -> "Figure":
        """Plot the AP that fixing each type of error would add.

        Args:
            **options: The arguments of `errors`.
        """
        from boxscore.report import plots

        return plots.draw_errors(self.errors(**options))

    def plot_calibration(self, *, bins: int = 10, iou: float | None = None) -> "Figure":
        """Plot the reliability diagram.

        Args:
            bins: Number of bins.
            iou: As in `calibration`.
        """
        from boxscore.report import plots

        return plots.draw_calibration(self.calibration(bins=bins, iou=iou))

    def save_plots(self, folder: str | Path) -> list[Path]:
        """Write every chart as PNG and PDF to a folder.

        Errors and confusion need `inputs`; calibration needs scores between 0 and 1. Charts without data are skipped.

        Args:
            folder: The folder.

        Returns:
            The paths of the files.
        """
        from boxscore.report import plots

        return plots.save(plots.plot_all(self), folder)

    @overload
    def to_html(
        self,
        path: None = None,
        *,
        title: str = "boxscore",
        name: str = "model",
        resamples: int | None = None,
        seed: int = 0,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> str: ...
    @overload
    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "boxscore",
        name: str = "model",
        resamples: int | None = None,
        seed: int = 0,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> None: ...
    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "boxscore",
        name: str = "model",
        resamples: int | None = None,
        seed: int = 0,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> str | None:
        """Make a report as one HTML file that opens offline.

        Charts need `boxscore[report]`, pictures `boxscore[pictures]`.

        Args:
            path: The file to write, completely or not at all. None: return the text.
            title: The heading.
            name: The model's name.
            resamples: Number of bootstrap samples of the confidence intervals; 0: no intervals. Default: 1,000, or 0 if
                the number of classes would make them take minutes.
            seed: Seed of the confidence intervals.
            image_folder: The folder of the image files, which may be in subfolders, for pictures of the worst images.
                Default: no pictures.
            num_pictures: Maximum number of pictures; default: 24.
            picture_bytes: Maximum size of all pictures together; default: 6,000,000. Pictures are made smaller, or
                dropped, to stay below it.
        """
        from boxscore.report import html
        from boxscore.report.gallery import Gallery

        gallery = Gallery.of(image_folder, num_pictures, picture_bytes)
        intervals = html.sample_intervals({name: self}, resamples, seed=seed)
        return html.make_report({name: self}, path, title=title, intervals=intervals, gallery=gallery)

    def __repr__(self) -> str:
        classes = text.count(len(self.per_class), "class", "classes")
        return f"Result({self.protocol.title}, map={self['map']:.4f}, {classes})"

    def __str__(self) -> str:
        return str(self.summary)


def inputs_of(result: Result, purpose: str) -> Inputs:
    """The evaluated detections and truths, for the method that errors name; raise `InputError` without them."""
    if result.inputs is None:
        raise InputError(
            f"{purpose} needs the detections and truths, and this result has only verdicts: a metric discards its "
            "inputs once they are matched; `boxscore.evaluate(detections, truths)` retains them"
        )
    return result.inputs


def summarize(
    totals: Totals,
    curves: Curves,
    averages: Averages,
    tally: Tally | tuple[Tally, ...] | None = None,
    extra: ExtraNumbers | None = None,
) -> Result:
    """Assemble a result.

    Args:
        totals: Counts by class.
        curves: The curves of all classes.
        averages: The numbers that follow from the curves.
        tally: The verdicts, in one or more parts; None: they are not retained.
        extra: The extra numbers, if the verdicts are not retained.
    """
    more = extra or ExtraNumbers({}, {})
    if totals.protocol.extra_numbers and tally is not None:
        tally = tally if isinstance(tally, Tally) else joined(tally)
        more = extra_numbers(tally)
    return Result(
        numbers={**averages.numbers, **more.numbers},
        per_threshold=averages.per_threshold,
        per_class=per_class_of(totals, curves, averages, more.per_class),
        curves=curves,
        protocol=totals.protocol,
        iou_dtype=totals.iou_dtype,
        num_invalid=totals.num_invalid,
        _lazy_tally=None if tally is None else Lazy(lambda: tally if isinstance(tally, Tally) else joined(tally)),
    )
