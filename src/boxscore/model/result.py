"""Result: the numbers under the names that people know, per class, and the curves they come from.

Analyses, charts and exports are methods here, and live elsewhere; each is imported by the method that needs it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads
from boxscore.model.average import average, mean_over_thresholds
from boxscore.model.curves import Curves, Floats, Ints
from boxscore.model.dataset import Detections, Truths
from boxscore.model.measures import measures, threshold_index
from boxscore.model.protocol import Protocol
from boxscore.model.summary import ClassRow, Summary, class_table
from boxscore.model.tally import Tally, Totals, joined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from boxscore.analysis.bootstrap import Intervals
    from boxscore.analysis.calibration import Calibration
    from boxscore.analysis.confusion import Confusion, Normalize
    from boxscore.analysis.errors import Errors
    from boxscore.analysis.operating_points import OperatingPoints
    from boxscore.analysis.pairing import Pairing
    from boxscore.analysis.scores import Scores
    from boxscore.analysis.worst_images import WorstImages
    from boxscore.report.plots import Line


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PerClass:
    """The numbers of each class in columns, in the first area range and within the largest limit.

    NaN marks a class without truths. `print` shows a table.
    """

    label: Ints
    """Shape (K,)."""
    name: tuple[str, ...]
    """Class names, or labels as text. Length K."""
    ap: Floats
    """Average precision, mean over thresholds. Shape (K,)."""
    ap_50: Floats
    """Average precision at IoU 0.5. NaN also where that is not one of the thresholds. Shape (K,)."""
    ar: Floats
    """Recall of all detections within the limit, mean over thresholds. Shape (K,)."""
    num_truths: Ints
    """Truths that count. Shape (K,)."""
    num_detections: Ints
    """Detections within the limit, ignored ones included. Shape (K,)."""
    ap_at: Floats
    """Average precision at each threshold. Shape (K, T)."""
    num_true: Ints
    """True positives at each threshold. Shape (K, T)."""
    num_false: Ints
    """False positives at each threshold. Shape (K, T)."""
    thresholds: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.name)

    def rows(self) -> Iterator[ClassRow]:
        """A row of plain values a class."""
        for k, name in enumerate(self.name):
            yield ClassRow(
                label=int(self.label[k]),
                name=name,
                ap=float(self.ap[k]),
                ap_50=float(self.ap_50[k]),
                ar=float(self.ar[k]),
                num_truths=int(self.num_truths[k]),
                num_detections=int(self.num_detections[k]),
                ap_at=self.ap_at[k].tolist(),
                num_true=self.num_true[k].tolist(),
                num_false=self.num_false[k].tolist(),
            )

    def __repr__(self) -> str:
        return f"PerClass({text.count(len(self), 'class', 'classes')})"

    def __str__(self) -> str:
        return class_table(list(self.rows()), self.thresholds)


class Boxes(NamedTuple):
    """Both sides of an evaluation."""

    detections: Detections
    truths: Truths


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Result(Mapping[str, float]):
    """What an evaluation found: a mapping of names to numbers, with all that is behind them.

    Names: `map`, over all thresholds; `map_50` and `map_75` where those are among several thresholds; `map_small`, …
    for each area range but the first; `mar_1`, … for each limit (`mar` where there is none) and `mar_small`, … for each
    area range but the first. NaN is undefined: no truths there. `print` shows a table.
    """

    numbers: Mapping[str, float]
    per_threshold: Mapping[float, float]
    """`map` at each IoU threshold."""
    per_class: PerClass
    curves: Curves
    protocol: Protocol
    iou_dtype: str
    """The precision in which IoUs were computed: float64, or float32 where the device has no more."""
    kept: Tally | tuple[Tally, ...] | None = None
    """The tally, in one or more parts, or none where there were too many verdicts to keep."""
    boxes: Boxes | None = None
    """What was matched, for the questions that verdicts can't answer; none where boxes were forgotten on the way."""
    num_given: int | None = None
    """How many detections there were, also beyond the limit, where that is known without boxes."""

    @property
    def tally(self) -> Tally:
        """The verdicts that all of it comes from."""
        if self.kept is None:
            raise InputError("the verdicts of this result were not kept: it was put together class by class")
        if isinstance(self.kept, tuple):
            object.__setattr__(self, "kept", joined(self.kept))  # once, for all who ask
        return cast(Tally, self.kept)

    @property
    def images(self) -> Ints:
        """The images of the data, ascending: those with boxes, and those that the truths list. Shape (N,)."""
        listed = None if self.boxes is None else self.boxes.truths.image_names
        return self.tally.images if listed is None else np.union1d(self.tally.images, np.array([*listed], np.int64))

    def intervals(
        self, *, resamples: int = 1000, seed: int = 0, level: float = 0.95, threads: int | None = None
    ) -> "Intervals":
        """How sure every number is, by the bootstrap: images are drawn with replacement, and nothing is matched again.

        The bits depend on `seed`, not on `threads`.

        >>> from boxscore import Detections, Truths, evaluate
        >>> truths = Truths(image=range(9), label=[1] * 9, box=[[0, 0, 10, 10]] * 9)
        >>> found = Detections(image=range(6), label=[1] * 6, score=[0.9] * 6, box=[[0, 0, 10, 10]] * 6)
        >>> sure = evaluate(found, truths, "voc2012").intervals()  # six of nine were found
        >>> round(sure.numbers["map"], 2), round(sure.low["map"], 2), round(sure.high["map"], 2)
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
        """The same in plain values."""
        return Summary(
            protocol=self.protocol,
            numbers=self.numbers,
            per_class=list(self.per_class.rows()),
            iou_dtype=self.iou_dtype,
            num_beyond_limit=self._num_beyond_limit(),
        )

    def _num_beyond_limit(self) -> int | None:
        """How many detections no number counts, as their image and class have better ones; None: they are forgotten."""
        if self.protocol.limits[-1] is None:
            return 0
        given = self.num_given if self.boxes is None else len(self.boxes.detections)
        return None if given is None else given - int(self.per_class.num_detections.sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: `protocol`, the numbers by name, `per_class`, `settings`. Undefined is None."""
        return self.summary.to_dict()

    def log_dict(self, prefix: str = "", *, undefined: float | None = None, per_class: bool = True) -> dict[str, float]:
        """Flat floats for TensorBoard, W&B, MLflow: the numbers, and, with `per_class`, `ap/<class>`.

        `prefix` is put before each name, as it is: "val/" makes "val/map". What is undefined, such as all numbers where
        there are no truths, is left out, for loggers refuse NaN; or it is what `undefined` says, for callbacks that
        need a number: -1.0, say.
        """
        from boxscore.report import exports

        return exports.log_dict(self.summary, prefix, undefined=undefined, per_class=per_class)

    def to_csv(self, path: str | Path | None = None) -> str:
        """One number a line: class (none: all), number, value (none: undefined). With `path`, a file gets it, too."""
        from boxscore._support.writing import write_file
        from boxscore.report import exports

        content = exports.to_csv([self.summary])
        if path is not None:
            write_file(Path(path), content)
        return content

    def to_markdown(self, name: str | None = None) -> str:
        """The numbers in one table, the classes in another. `name`: of the model, for a column that says it."""
        from boxscore.report import exports

        return exports.to_markdown([self.summary], None if name is None else [name])

    def to_latex(self, name: str | None = None) -> str:
        """The same tables for LaTeX's booktabs, in percent; one of more than 40 rows is a `longtable`."""
        from boxscore.report import exports

        return exports.to_latex([self.summary], None if name is None else [name])

    def errors(self, *, iou: float | None = None, background: float = 0.1, threads: int | None = None) -> "Errors":
        """TIDE's type for every false positive and every truth not found, and what fixing each type would add to AP.

        `iou`: what a match needs, any number from 0 to 1; without it 0.5, or the protocol's first threshold where it
        has no 0.5. `background`: an IoU up
        to which a detection is on nothing. Needs the boxes.
        """
        from boxscore.analysis.errors import find_errors

        pairing = self._pairing("errors", iou, threads)
        return find_errors(pairing, self.tally.classes, self.per_class.name, background)

    def confusion(
        self,
        *,
        score: float | None = None,
        iou: float | None = None,
        normalize: "Normalize | None" = None,
        threads: int | None = None,
    ) -> "Confusion":
        """Which classes are taken for which, with background as row and column.

        `score`: detections below it are left out; without one it is the threshold with the best F1 over all classes.
        `iou`: as in `errors`. `normalize`: "truths", "detections" or "all", for fractions instead of counts. Needs the
        boxes.
        """
        from boxscore.analysis.confusion import confuse

        pairing = self._pairing("confusion", iou, threads)
        return confuse(pairing, self.tally.classes, self.per_class.name, score, normalize)

    def calibration(self, *, bins: int = 10, iou: float | None = None) -> "Calibration":
        """Mean score and precision in bins of score, and the expected calibration error.

        `iou`: as in `errors`; boxes are needed only at a threshold that is not one of the protocol's.
        """
        from boxscore.analysis.calibration import calibrate

        tally, index = self._verdicts_at("calibration", iou)
        return calibrate(tally, self.per_class.name, index, bins)

    def operating_points(
        self, *, iou: float | None = None, precision: float | None = None, recall: float | None = None
    ) -> "OperatingPoints":
        """The score threshold with the best F1, for all classes together and for each.

        With `precision`, the lowest that has at least this precision; with `recall`, the highest that has at least
        this recall. `iou`: as in `calibration`.
        """
        from boxscore.analysis.operating_points import Aim, find_operating_points

        aim = Aim.of(precision, recall)
        tally, index = self._verdicts_at("operating_points", iou)
        return find_operating_points(tally, self.per_class.name, index, aim)

    def scores(self, *, bins: int = 40, iou: float | None = None) -> "Scores":
        """How many true and false positives have which scores. `iou`: as in `calibration`."""
        from boxscore.analysis.scores import spread_scores

        tally, index = self._verdicts_at("scores", iou)
        return spread_scores(tally, index, bins)

    def worst_images(
        self, *, num: int | None = 20, score: float | None = None, iou: float | None = None
    ) -> "WorstImages":
        """The images with the most false positives and truths not found; `num` of them, or with None all.

        `score`: as in `confusion`. `iou`: as in `calibration`.
        """
        from boxscore.analysis.worst_images import find_worst_images

        names = None if self.boxes is None else self.boxes.truths.image_names
        tally, index = self._verdicts_at("worst_images", iou)
        return find_worst_images(tally, names, index, score, num)

    def plot_pr(self, *, iou: float | None = None, classes: Sequence[str] | None = None) -> "Figure":
        """Precision over recall: the mean over classes at each IoU threshold.

        With `classes`, a line for each of these at `iou`; with `iou` alone, one for every class and one for their mean.
        """
        from boxscore.report import plots

        if isinstance(classes, str):
            raise InputError(f"`classes` must be a sequence of class names; got {classes!r}")
        precision_TRK = self.curves.precision[:, :, :, 0, -1]
        points, has_truths = self.protocol.recall_points, self.per_class.num_truths > 0
        means = [
            plots.Line(f"IoU {threshold:.2f} (AP {text.fraction(ap)})", precision_RK[:, has_truths].mean(axis=1))
            for (threshold, ap), precision_RK in zip(self.per_threshold.items(), precision_TRK, strict=True)
            if has_truths.any()
        ]
        if classes is None and iou is None:
            return plots.draw_pr(points, means, is_ordered=True)
        t = self.protocol.threshold_index(iou)
        names = [name for name, is_there in zip(self.per_class.name, has_truths, strict=True) if is_there]
        lines = [self._class_line(name, t) for name in (names if classes is None else classes)]
        mean = [line._replace(label=f"mean, {line.label}") for line in means[t : t + 1] if classes is None]
        return plots.draw_pr(points, [*lines, *mean], is_ordered=False)

    def _class_line(self, name: str, t: int) -> "Line":
        from boxscore.report.plots import Line

        if name not in self.per_class.name:
            known = ", ".join(self.per_class.name[:10]) + (", …" if len(self.per_class) > 10 else "")
            raise InputError(f"`classes` must be class names ({known}); got {name!r}")
        k = self.per_class.name.index(name)
        if not self.per_class.num_truths[k]:
            raise InputError(f"`classes`: {name!r} has no truths, so it has no curve")
        return Line(f"{name} (AP {text.fraction(self.per_class.ap_at[k, t])})", self.curves.precision[t, :, k, 0, -1])

    def plot_ap_by_iou(self) -> "Figure":
        """AP at each IoU threshold."""
        from boxscore.report import plots

        return plots.draw_ap_by_iou(self.per_threshold)

    def plot_sizes(self) -> "Figure":
        """AP and AR of each area range."""
        from boxscore.report import plots

        names = [area.name for area in self.protocol.areas]
        limit = self.protocol.limits[-1]
        ends = ["", *(f"_{name}" for name in names[1:])]
        first_ar = "mar" if limit is None else f"mar_{limit}"
        ar = [self[f"mar{end}"] if end else self[first_ar] for end in ends]
        return plots.draw_sizes(names, [self[f"map{end}"] for end in ends], ar)

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

        Without boxes there are neither errors nor confusion; with scores beyond 0 and 1 there is no calibration.
        """
        from boxscore.report import plots

        drawn = {
            "pr": self.plot_pr(),
            "ap_by_iou": self.plot_ap_by_iou(),
            "sizes": self.plot_sizes(),
            "scores": self.plot_scores(),
        }
        if not self.tally.score.size or (self.tally.score.min() >= 0 and self.tally.score.max() <= 1):
            drawn["calibration"] = self.plot_calibration()
        if self.boxes is not None:
            drawn |= {"errors": self.plot_errors(), "confusion": self.plot_confusion()}
        return plots.save(drawn, folder)

    def _pairing(self, name: str, iou: float | None, threads: int | None) -> "Pairing":
        protocol = self.protocol.at(iou)
        from boxscore.analysis.pairing import pair_rows

        return pair_rows(*self._shapes(f"`{name}`"), protocol, num_threads(threads))

    def _verdicts_at(self, name: str, iou: float | None) -> tuple[Tally, int]:
        """The tally with the verdicts at a threshold, and the threshold's index; matched again if it is a new one."""
        if iou is None or self.protocol.find_threshold(iou) is not None:
            return self.tally, self.protocol.threshold_index(iou)
        from boxscore.pipeline import match

        return match(*self._shapes(f"`{name}` at a threshold that was not measured"), self.protocol.at(iou)), 0

    def _shapes(self, purpose: str) -> Boxes:
        if self.boxes is None:
            raise InputError(
                f"{purpose} needs boxes, and this result has only verdicts: a metric forgets boxes once they are "
                "matched; `boxscore.evaluate(detections, truths)` keeps them"
            )
        return self.boxes

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "boxscore",
        name: str = "model",
        resamples: int | None = None,
        seed: int = 0,
    ) -> str:
        """A report as one HTML file that opens offline; written to `path`, if there is one, whole or not at all.

        `title` stands on top, `name` is what the model is called. `resamples`, `seed`: of the intervals; with 0
        resamples there are none. If not said otherwise there are 1,000, and none with so many classes that those would
        take minutes. Needs `boxscore[report]`, for the charts.
        """
        from boxscore.report.contents import default_resamples
        from boxscore.report.html import make_report

        resamples = default_resamples(self) if resamples is None else resamples
        sure = {name: self.intervals(resamples=resamples, seed=seed)} if resamples else {}
        return make_report({name: self}, path, title=title, intervals=sure)

    def __repr__(self) -> str:
        classes = text.count(len(self.per_class), "class", "classes")
        return f"Result({self.protocol.title}, map={self['map']:.4f}, {classes})"

    def __str__(self) -> str:
        return str(self.summary)


def summarize(
    totals: Totals, curves: Curves, averaged: Curves, tally: Tally | tuple[Tally, ...] | None = None
) -> Result:
    """The result of all that `totals` count: numbers from the curves in `averaged`, the rest from `curves`.

    They are the same unless all classes are averaged as one. `tally`: the verdicts, where there is one that has all.
    """
    protocol = totals.protocol
    num_truths_KA = totals.num_truths
    num_truths = num_truths_KA if averaged is curves else num_truths_KA.sum(axis=0, keepdims=True)
    main = next(measures(protocol))
    return Result(
        numbers={measure.name: average(measure, averaged, num_truths, protocol) for measure in measures(protocol)},
        per_threshold={
            threshold: average(main._replace(thresholds=(t,)), averaged, num_truths, protocol)
            for t, threshold in enumerate(protocol.thresholds)
        },
        per_class=_per_class(totals, curves, num_truths_KA[:, 0]),
        curves=curves,
        protocol=protocol,
        iou_dtype=totals.iou_dtype,
        kept=tally,
    )


def _per_class(totals: Totals, curves: Curves, num_truths_K: Ints) -> PerClass:
    names = totals.class_names or {}
    recall_TK = np.where(num_truths_K > 0, curves.recall[:, :, 0, -1], np.nan)
    ap_TK = curves.average_precision[:, :, 0, -1]
    place = threshold_index(totals.protocol.thresholds, 0.5)
    return PerClass(
        label=totals.classes,
        name=tuple(names.get(int(label), str(label)) for label in totals.classes),
        ap=mean_over_thresholds(ap_TK),
        ap_50=np.full(ap_TK.shape[1], np.nan) if place is None else ap_TK[place],
        ar=mean_over_thresholds(recall_TK),
        num_truths=num_truths_K,
        num_detections=totals.num_detections,
        ap_at=ap_TK.T,
        num_true=curves.num_true[:, :, 0, -1].T,
        num_false=curves.num_false[:, :, 0, -1].T,
        thresholds=totals.protocol.thresholds,
    )
