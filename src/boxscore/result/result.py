"""Result: the numbers by name, per class, and the curves they come from.

Analyses, charts and exports are thin methods here. The work is in free functions of `boxscore.analysis` and
`boxscore.report`, which a method imports when it is called.
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
    """What was evaluated."""

    detections: Detections
    truths: Truths


class Stored(NamedTuple):
    """Facts about the inputs of a result that does not store them."""

    image_names: Mapping[int, str] | None
    subset: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(Mapping[str, float]):
    """The result of an evaluation: a mapping of names to numbers, with the curves and verdicts behind them.

    Names: `map`, over all thresholds; `map_50` and `map_75` where those are among the thresholds; `map_small`, …
    for each area range but the first; `mar_1`, … for each limit (`mar` where there is none) and `mar_small`, … for each
    area range but the first. NaN marks an undefined number: there are no truths. `print` shows a table.
    """

    numbers: Mapping[str, float]
    """The numbers by name; `result[name]` is one of them."""
    per_threshold: Mapping[float, float]
    """`map` at each IoU threshold."""
    per_class: PerClass
    """The numbers of each class."""
    curves: Curves
    """Precision, recall and scores as pycocotools has them."""
    protocol: Protocol
    """The rules behind the numbers."""
    iou_dtype: str
    """The precision in which IoUs were computed: float64, or float32 where the device has no more."""
    lazy_tally: Lazy[Tally] | None = None
    """The verdicts, merged from several tallies when they are first read; None where there were too many to retain."""
    inputs: Inputs | None = None
    """The evaluated detections and truths, for the analyses that need more than verdicts; None where they were not
    retained."""
    num_invalid: int = 0
    """How many invalid detections were dropped, as `invalid="drop"` says."""
    num_given: int | None = None
    """How many detections were given, those that no number counts included; None: unknown."""
    stored: Stored | None = None
    """Facts about the inputs, where `inputs` are not stored: of a result from a file, or of a slice."""
    last_pairing: "dict[Protocol, Pairing]" = field(default_factory=dict, init=False)
    """The verdicts of all inputs at the last threshold that an analysis asked for, by the rules with that threshold."""

    @property
    def tally(self) -> Tally:
        """The verdicts that all numbers come from; under a limit over the dataset, those beyond it, too."""
        if self.lazy_tally is None:
            raise InputError("this result has no tally: it was computed class by class, and no verdicts were retained")
        return self.lazy_tally.value

    @property
    def images(self) -> Ints:
        """Ids of all images, ascending: those with detections or truths, and those that the truths list. Shape (N,)."""
        images, listed = self.tally.all_images, self.image_names
        return images if listed is None else np.union1d(images, np.array([*listed], np.int64))

    @property
    def image_names(self) -> Mapping[int, str] | None:
        """The file names of images by id, where they are known."""
        if self.inputs is not None:
            return self.inputs.truths.image_names
        return None if self.stored is None else self.stored.image_names

    @property
    def subset(self) -> tuple[str, ...]:
        """What was left out of the data, in words; empty: nothing that is known."""
        if self.inputs is not None:
            return tuple(self.inputs.truths.subset)
        return () if self.stored is None else self.stored.subset

    def intervals(
        self, *, resamples: int = 1000, seed: int = 0, level: float = 0.95, threads: int | None = None
    ) -> "Intervals":
        """Confidence intervals of every number, by the bootstrap: images are drawn with replacement, and nothing is
        matched again.

        The bits depend on `seed`, not on `threads`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image=range(9), label=[1] * 9, box=[[0, 0, 10, 10]] * 9)
        >>> detections = Detections(image=range(6), label=[1] * 6, score=[0.9] * 6, box=[[0, 0, 10, 10]] * 6)
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
        """The numbers in plain values."""
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
        """Whether the numbers may be compared with published ones: the name of the rules, or what differs from them.

        Images and classes are known to be a part where `read_truths`, `select` or `slices` took that part.
        """
        return self.summary.comparable

    def _num_left_out(self) -> int | None:
        """How many detections no number counts, as the protocol leaves them out; None: unknown."""
        if not self.protocol.left_out:
            return 0
        return None if self.num_given is None else self.num_given - int(self.per_class.num_detections.sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None."""
        return self.summary.to_dict()

    def save(self, path: str | os.PathLike[str], *, name: str | None = None, step: int | None = None) -> None:
        """Write the result to a file, completely or not at all; `boxscore.load_result` reads it, with the same bits.

        The file has the tally, about 20 bytes per detection, and the names of images, not the inputs. Missing folders
        are created. `name`: of the model; `step`: the epoch or step of training. `boxscore serve` shows folders of such
        files: `metric.compute().save(f"runs/a/epoch_{epoch:03}.boxscore", step=epoch)`.
        """
        from boxscore.result import saved_results

        saved_results.save_result(self, path, name=name, step=step)

    def log_dict(self, prefix: str = "", *, undefined: float | None = None, per_class: bool = True) -> dict[str, float]:
        """Flat floats for TensorBoard, W&B, MLflow: the numbers, and, with `per_class`, `ap/<class>`.

        `prefix` is put before each name: "val/" makes "val/map". Undefined numbers, such as all numbers where there are
        no truths, are left out, as loggers refuse NaN; or they have the value `undefined`, such as -1.0, for callbacks
        that need a number.
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

        `target`: a `SummaryWriter`, a run of W&B, the module `mlflow` or a run of it, an `MlflowClient` with `run_id`,
        a logger of Lightning, or a tracker of Accelerate. `prefix` is put before each name: "val/" makes "val/map" and
        "val/charts/pr". `charts`: all that the result has data for, none, or some of "pr", "ap_by_iou", "sizes",
        "scores", "calibration", "errors" and "confusion"; they need `boxscore[plots]`. `report`: also the HTML report,
        not to TensorBoard. Nothing is logged where something that was asked for can't be.
        """
        from boxscore.report.loggers import LogOptions, log_result

        options = LogOptions(step=step, prefix=prefix, charts=charts, table=table, report=report, run_id=run_id)
        log_result(self, target, options)

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """One number per line: class (empty: all), number, value (empty: undefined).

        Written to `path`, if given, and returned if not.
        """
        from boxscore.report import exports

        return exports.save(exports.to_csv([self.summary]), path)

    def to_markdown(self, name: str | None = None) -> str:
        """A table of numbers and a table of classes. `name`: the model's name, for a column `model`."""
        from boxscore.report import exports

        return exports.to_markdown([self.summary], None if name is None else [name])

    def to_latex(self, name: str | None = None) -> str:
        """The same tables for LaTeX's booktabs, in percent; one of more than 40 rows is a `longtable`."""
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
        """A `pandas.DataFrame` with one row per class, image, detection or truth.

        `rows`: "classes", "images", "detections" with their verdicts, or "truths" with what found them; the latter two
        need `inputs`. `iou`: as in `errors`. `score`: detections below it are left out. `errors`: with TIDE's type of
        each error, for detections and truths. The guide on analysis lists the columns.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image=[7, 7], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> detections = Detections(image=[7, 7], label=[1, 1], score=[0.9, 0.8], box=[[0, 0, 10, 9], [50, 50, 60, 60]])
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
        """The same table as a `polars.DataFrame`; options are those of `to_pandas`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image=[7, 7], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> detections = Detections(image=[7, 7], label=[1, 1], score=[0.9, 0.8], box=[[0, 0, 10, 9], [50, 50, 60, 60]])
        >>> evaluate(detections, truths).to_polars("truths").select("truth", "is_found", "detection").rows()
        [(0, True, 0), (1, False, None)]
        """
        from boxscore.report import frames

        return frames.to_polars(self._table("to_polars", rows=rows, **options))

    def to_arrow(self, rows: "RowKind" = "classes", **options: Any) -> Any:
        """The same table as a `pyarrow.Table`; options are those of `to_pandas`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image=[7, 7], label=[1, 1], box=[[0, 0, 10, 10], [20, 20, 30, 30]])
        >>> detections = Detections(image=[7], label=[1], score=[0.9], box=[[0, 0, 10, 9]])
        >>> evaluate(detections, truths).to_arrow("images").select(["image", "num_true", "num_unfound"]).to_pylist()
        [{'image': 7, 'num_true': 1, 'num_unfound': 1}]
        """
        from boxscore.report import frames

        return frames.to_arrow(self._table("to_arrow", rows=rows, **options))

    def _table(self, method: str, **options: Any) -> "Table":
        """The columns of a data frame, for the method of that name. `options`: those of `TableOptions`."""
        from boxscore.analysis.match_table import TableOptions, make_table

        return make_table(self, TableOptions(**options), method)

    def errors(self, *, iou: float | None = None, background: float = 0.1, threads: int | None = None) -> "Errors":
        """TIDE's type for every false positive and every truth not found, and what fixing each type would add to AP.

        `iou`: the threshold of a match; 0.5, or the protocol's first threshold where it has no 0.5. `background`: a
        detection whose IoU with every truth is at most this is on background. Needs `inputs`.
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
        """The confusion matrix: which classes are detected as which, with background as row and column.

        `score`: detections below it are left out; default: the threshold with the best F1 over all classes. `iou`: as
        in `errors`. `normalize`: "truths", "detections" or "all", for fractions instead of counts. Needs `inputs`.
        """
        from boxscore.analysis.confusion import confuse
        from boxscore.analysis.pairing import pair_inputs

        pairing = pair_inputs(self, "`confusion`", iou, threads)
        return confuse(pairing, self.tally.classes, self.per_class.name, score, normalize)

    def calibration(self, *, bins: int = 10, iou: float | None = None) -> "Calibration":
        """Mean score and precision in bins of score, and the expected calibration error.

        `iou`: as in `errors`; `inputs` are needed only at a threshold that was not measured.
        """
        from boxscore.analysis.calibration import calibrate

        return calibrate(self, bins=bins, iou=iou)

    def operating_points(
        self, *, iou: float | None = None, precision: float | None = None, recall: float | None = None
    ) -> "OperatingPoints":
        """The score threshold with the best F1, for all classes together and for each.

        With `precision`, the lowest threshold that has at least this precision; with `recall`, the highest that has at
        least this recall. `iou`: as in `calibration`.
        """
        from boxscore.analysis.operating_points import Aim, find_operating_points

        return find_operating_points(self, Aim.validated(precision, recall), iou=iou)

    def scores(self, *, bins: int = 40, iou: float | None = None) -> "Scores":
        """Histograms of the scores of true and false positives. `iou`: as in `calibration`."""
        from boxscore.analysis.scores import histogram_scores

        return histogram_scores(self, bins=bins, iou=iou)

    def worst_images(
        self, *, num: int | None = 20, score: float | None = None, iou: float | None = None
    ) -> "WorstImages":
        """The `num` images with the most false positives and truths not found; None: all images.

        `score`: as in `confusion`. `iou`: as in `calibration`.
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
        """A picture of an image with its detections and truths: true, false and missed ones.

        `image`: its id or its name. `image_folder`: where the files are, in subfolders, too; or `pixels`: a path, an
        image of Pillow, or an array of bytes (H, W, 3). `score`, `iou`: as in `confusion`. Needs `inputs` and
        `boxscore[pictures]`.
        """
        from boxscore.report.pictures import draw_image

        return draw_image(self, image, image_folder, pixels, score=score, iou=iou, threads=threads)

    def plot_pr(self, *, iou: float | None = None, classes: Sequence[str] | None = None) -> "Figure":
        """Precision over recall: the mean over classes at each IoU threshold.

        With `classes`, one line per class at `iou`; with `iou` alone, one line per class and one for their mean.
        """
        from boxscore.report import plots

        return plots.plot_pr(self, iou=iou, classes=classes)

    def plot_ap_by_iou(self) -> "Figure":
        """AP at each IoU threshold."""
        from boxscore.report import plots

        return plots.draw_ap_by_iou(self.per_threshold, self.protocol.similarity)

    def plot_sizes(self) -> "Figure":
        """AP and AR of each area range."""
        from boxscore.report import plots

        return plots.plot_sizes(self)

    def plot_scores(self, *, bins: int = 40, iou: float | None = None) -> "Figure":
        """The scores of true and false positives, and the threshold with the best F1."""
        from boxscore.report import plots

        return plots.draw_scores(self.scores(bins=bins, iou=iou))

    def plot_confusion(self, **options: Any) -> "Figure":
        """The confusion matrix; options are those of `confusion`."""
        from boxscore.report import plots

        return plots.draw_confusion(self.confusion(**options))

    def plot_errors(self, **options: Any) -> "Figure":
        """What fixing each type of error would add to AP; options are those of `errors`."""
        from boxscore.report import plots

        return plots.draw_errors(self.errors(**options))

    def plot_calibration(self, *, bins: int = 10, iou: float | None = None) -> "Figure":
        """The reliability diagram."""
        from boxscore.report import plots

        return plots.draw_calibration(self.calibration(bins=bins, iou=iou))

    def save_plots(self, folder: str | Path) -> list[Path]:
        """Every chart as PNG and PDF in a folder; the paths of the files.

        Without `inputs` there are neither errors nor confusion; with scores outside 0 to 1 there is no calibration.
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
        """A report as one HTML file that opens offline.

        Written to `path`, if given, completely or not at all, and returned if not.

        `title`: the heading. `name`: the model's name. `resamples`, `seed`: of the confidence intervals; 0 resamples:
        no intervals. Default: 1,000 resamples, and none with so many classes that they would take minutes. Needs
        `boxscore[report]`, for the charts.

        `image_folder`: with pictures of the worst images, whose files are there or in subfolders; `num_pictures`: so
        many at most, default: 24; `picture_bytes`: their bytes together at most, default: 6,000,000; else they are
        smaller, or left out. Needs `boxscore[pictures]`.
        """
        from boxscore.report import html
        from boxscore.report.gallery import Gallery

        gallery = Gallery.of(image_folder, num_pictures, picture_bytes)
        intervals = html.sample_intervals({name: self}, resamples, seed=seed)
        return html.make_report({name: self}, path, title=title, intervals=intervals, gallery=gallery)

    def inputs_for(self, purpose: str) -> Inputs:
        """The evaluated detections and truths; `InputError` says what needs them where they were not retained."""
        if self.inputs is None:
            raise InputError(
                f"{purpose} needs the detections and truths, and this result has only verdicts: a metric discards its "
                "inputs once they are matched; `boxscore.evaluate(detections, truths)` retains them"
            )
        return self.inputs

    def __repr__(self) -> str:
        classes = text.count(len(self.per_class), "class", "classes")
        return f"Result({self.protocol.title}, map={self['map']:.4f}, {classes})"

    def __str__(self) -> str:
        return str(self.summary)


def summarize(
    totals: Totals,
    curves: Curves,
    averages: Averages,
    tally: Tally | tuple[Tally, ...] | None = None,
    extra: ExtraNumbers | None = None,
) -> Result:
    """The result of all that `totals` count.

    Args:
        totals: Counts by class.
        curves: The curves of all classes.
        averages: The numbers that follow from the curves.
        tally: The verdicts, in one or more parts, where they are kept.
        extra: The extra numbers, where the verdicts are not kept.
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
        lazy_tally=None if tally is None else Lazy(lambda: tally if isinstance(tally, Tally) else joined(tally)),
    )
