"""Comparison: differences between the results of several models, with confidence intervals and p-values."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.analysis.bootstrap import Plan, Samples, grounds, resample, spread
from boxscore.analysis.operating_points import curve_of_all, given_or_best
from boxscore.analysis.verdict_counts import VerdictCounts, count_by_image
from boxscore.protocol.comparable import Comparable, of_all
from boxscore.protocol.measures import meanings
from boxscore.protocol.protocol import difference_of
from boxscore.result.curves import Floats, Ints
from boxscore.result.result import Result
from boxscore.result.summary import number_or_none
from boxscore.result.tally import Tally

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Change(NamedTuple):
    """One number of both results, its difference, interval and p-value.

    NaN: undefined. Interval, error and p-value are also NaN if all truths are in one image, or without resamples.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    error: float
    p_value: float
    is_least: bool = False
    """Whether the p-value is the smallest that this number of resamples can give, and so an upper bound."""

    def to_dict(self) -> dict[str, float | bool | None]:
        """Values for JSON; undefined is None."""
        return {name: value if name == "is_least" else number_or_none(value) for name, value in self._asdict().items()}

    @property
    def p_text(self) -> str:
        """The p-value as tables show it: "0.034", or "≤ 0.002" if it is an upper bound."""
        return text.p_value(self.p_value, is_least=self.is_least)

    def cells(self) -> list[str]:
        """The cells of a table row."""
        if self.difference != self.difference:
            return [text.fraction(self.first), text.fraction(self.second), "-", "-", "-"]
        values = [text.fraction(self.first), text.fraction(self.second), f"{self.difference:+.4f}"]
        if self.low != self.low:
            return [*values, "-", "-"]
        return [*values, f"[{self.low:+.4f}, {self.high:+.4f}]", self.p_text]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ImageChanges:
    """The change of each image, in columns, the largest first; ties by image id. Shape (N,) each.

    Counted at the first IoU threshold, in the first area range, with each model at its score threshold with the best F1
    over all classes.
    """

    image: Ints
    name: tuple[str, ...]
    """File names, or ids as text."""
    first_true: Ints
    first_false: Ints
    second_true: Ints
    second_false: Ints
    num_truths: Ints

    @property
    def gain(self) -> Ints:
        """Decrease in errors (false positives and false negatives) from the first result to the second."""
        return (self.second_true - self.second_false) - (self.first_true - self.first_false)

    def __len__(self) -> int:
        return len(self.name)

    def rows(self) -> list[dict[str, Any]]:
        """The images that changed, as values for JSON."""
        gain = self.gain
        columns = ("num_truths", "first_true", "first_false", "second_true", "second_false")
        return [
            {
                "image": int(self.image[i]),
                "name": self.name[i],
                **{column: int(getattr(self, column)[i]) for column in columns},
                "gain": int(gain[i]),
            }
            for i in np.flatnonzero(gain)
        ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Difference:
    """The differences of a second result from the first, with confidence intervals by a paired bootstrap.

    Both results have the same images in every resample. The interval spans percentiles of the samples, shifted so that
    their mean is the measured difference, and clipped to -1 and 1. The p-value, for the hypothesis of no difference, is
    twice the fraction of shifted samples on the other side of 0, at least 2 / (resamples + 1).
    """

    first: str
    second: str
    numbers: Mapping[str, Change]
    label: Ints
    """The classes. Shape (K,)."""
    class_name: tuple[str, ...]
    ap: Sequence[Change]
    """Changes of AP, one per class; `ar` has the changes of recall."""
    ar: Sequence[Change]
    samples: Samples
    """The difference in each resample."""
    images: ImageChanges

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        return {
            "first": self.first,
            "second": self.second,
            **{name: change.to_dict() for name, change in self.numbers.items()},
            "per_class": [
                {"label": int(label), "name": name, "ap": ap.to_dict(), "ar": ar.to_dict()}
                for label, name, ap, ar in zip(self.label, self.class_name, self.ap, self.ar, strict=True)
            ],
            "images": self.images.rows(),
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Comparison:
    """Several results on the same truths, each compared with the first. `print` shows one table per other result."""

    names: tuple[str, ...]
    """The names of the results."""
    results: tuple[Result, ...]
    """The results, in the order of their names."""
    differences: tuple[Difference, ...]
    """One per result after the first."""
    level: float
    """The confidence level of all intervals."""
    resamples: int
    """Number of resamples."""
    seed: int
    """The seed of the resamples."""
    num_images: int
    """Number of images, which is also the number of draws per resample."""

    @property
    def title(self) -> str:
        """The protocol, and how the confidence intervals were computed."""
        images = text.count(self.num_images, "image")
        if not self.resamples:
            return f"{self.results[0].protocol.title}: differences on {images}, without confidence intervals"
        method = f"{self.resamples:,} paired resamples of {images}, seed {self.seed}"
        return f"{self.results[0].protocol.title}: {self.level * 100:g} % confidence intervals, {method}"

    @property
    def comparable(self) -> Comparable:
        """Whether all models' numbers may be compared with published ones, and which settings of which model differ."""
        return of_all({name: result.comparable for name, result in self._named.items()})

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: the settings, and `differences`. Undefined is None."""
        return {
            "protocol": self.results[0].protocol.name,
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "num_images": self.num_images,
            "differences": [difference.to_dict() for difference in self.differences],
            "settings": self.results[0].protocol.to_dict(),
            "comparable": self.comparable.to_dict(),
        }

    def tables(self, *, is_per_class: bool = False, num_images: int = 0) -> str:
        """Tables as text, one per result after the first.

        Args:
            is_per_class: Add a table with the AP of each class.
            num_images: Add a table of this many images, those that changed most.
        """
        parts = [self.title]
        for difference in self.differences:
            heads = [difference.first, difference.second, "difference", "interval", "p"]
            numbers = [[name, *change.cells()] for name, change in difference.numbers.items()]
            parts.append(text.table(numbers, align="<>>>>>", header=["", *heads]))
            if is_per_class:
                classes = [
                    [name, *change.cells()] for name, change in zip(difference.class_name, difference.ap, strict=True)
                ]
                parts.append(text.table(classes, align="<>>>>>", header=["AP by class", *heads]))
            if num_images:
                parts.append(_image_table(difference, num_images))
        parts.append(self.comparable.sentence)
        return "\n\n".join(parts)

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """CSV with one difference per line.

        Columns: models, class (empty: all), number, both values, difference, interval, p-value, and whether the p-value
        is an upper bound.

        Args:
            path: File to write; None: return the text instead.
        """
        from boxscore.report import comparison_exports, exports

        return exports.save(comparison_exports.to_csv(self), path)

    def to_markdown(self) -> str:
        """Markdown with two tables: every number, and the AP of every class, with difference, interval and p-value."""
        from boxscore.report import comparison_exports

        return comparison_exports.to_markdown(self)

    def to_latex(self) -> str:
        """The tables of `to_markdown` for LaTeX's booktabs, in percent."""
        from boxscore.report import comparison_exports

        return comparison_exports.to_latex(self)

    @overload
    def to_html(
        self,
        path: None = None,
        *,
        title: str = "boxscore",
        made_from: Mapping[str, str] | None = None,
        threads: int | None = None,
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
        made_from: Mapping[str, str] | None = None,
        threads: int | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> None: ...
    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "boxscore",
        made_from: Mapping[str, str] | None = None,
        threads: int | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> str | None:
        """HTML report on all results and their differences, in one file that opens offline. Needs `boxscore[report]`.

        Args:
            path: File to write, completely or not at all; None: return the text instead.
            title: Title of the report.
            made_from: Descriptions of the inputs, by name.
            threads: Number of threads; default: BOXSCORE_THREADS, else this process's share of the cores.
            image_folder: Folder with the images, for pictures; as in `Result.to_html`.
            num_pictures: Number of pictures; as in `Result.to_html`.
            picture_bytes: Size limit of the pictures; as in `Result.to_html`.
        """
        from boxscore.report.contents import default_resamples
        from boxscore.report.gallery import Gallery
        from boxscore.report.html import make_report, sample_intervals

        gallery = Gallery.of(image_folder, num_pictures, picture_bytes)
        named = self._named
        sampled = {name: result for name, result in named.items() if default_resamples(result)}
        intervals = sample_intervals(sampled, self.resamples, seed=self.seed, level=self.level, threads=threads)
        return make_report(
            named, path, title=title, made_from=made_from, intervals=intervals, comparison=self, gallery=gallery
        )

    def plot_pr(self, *, iou: float | None = None) -> "Figure":
        """Chart of precision over recall, the mean over classes, one line per model.

        Args:
            iou: IoU threshold; as in `Result.calibration`.
        """
        from boxscore.report.plots import draw_models

        return draw_models(self._named, iou=iou)["models_pr"]

    def plot_ap_by_iou(self) -> "Figure":
        """Chart of AP at each IoU threshold, one line per model."""
        from boxscore.report.plots import draw_models

        return draw_models(self._named)["models_ap_by_iou"]

    @property
    def _named(self) -> dict[str, Result]:
        return dict(zip(self.names, self.results, strict=True))

    def __repr__(self) -> str:
        return f"Comparison({' against '.join([', '.join(self.names[1:]), self.names[0]])})"

    def __str__(self) -> str:
        return self.tables()


def compare(
    results: Mapping[str, Result] | Sequence[Result],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    threads: int | None = None,
) -> Comparison:
    """Compare results with the first one: every number, also per class, with confidence interval and p-value.

    Images are drawn with replacement, the same ones for all results; nothing is matched again.

    Args:
        results: Results by name, or in a sequence; at least two, on the same truths, under the same protocol.
        resamples: Number of resamples; 0: differences without intervals and p-values.
        seed: Seed of the resamples, which determines every bit of the intervals.
        level: Confidence level, between 0 and 1.
        threads: Number of threads, which changes no bit; default: BOXSCORE_THREADS, else this process's share of
            the cores.

    Raises:
        InputError: The results have different protocols or truths.

    >>> from boxscore import Detections, Truths, evaluate
    >>> box = [[0, 0, 10, 10]] * 9
    >>> truths = Truths(image_ids=range(9), labels=[1] * 9, boxes=box)
    >>> few, many = (
    ...     evaluate(Detections(image_ids=range(n), labels=[1] * n, scores=[0.9] * n, boxes=box[:n]), truths, "voc2012")
    ...     for n in (3, 8)
    ... )
    >>> change = compare({"few": few, "many": many}).differences[0].numbers["map"]
    >>> round(change.difference, 4), change.p_value < 0.05
    (0.5556, True)
    """
    plan = Plan.checked(2 if resamples == 0 else resamples, seed, level)._replace(resamples=int(resamples))
    named = _named(results)
    _check_comparable(named)
    (first_name, first), *others = named.items()
    images = first.images
    for _, other in others:
        images = np.union1d(images, other.images)
    labels = np.unique(np.concatenate([result.tally.classes for result in named.values()]))
    first_samples = _samples(first, images, labels, plan, threads)
    differences = []
    for name, second in others:
        second_samples = _samples(second, images, labels, plan, threads)
        samples = Samples(
            numbers={key: second_samples.numbers[key] - values for key, values in first_samples.numbers.items()},
            ap=second_samples.ap - first_samples.ap,
            ar=second_samples.ar - first_samples.ar,
        )
        differences.append(_difference((first_name, first), (name, second), images, labels, samples, plan.level))
    return Comparison(
        names=tuple(named),
        results=tuple(named.values()),
        differences=tuple(differences),
        level=plan.level,
        resamples=plan.resamples,
        seed=plan.seed,
        num_images=images.size,
    )


def _named(results: Any) -> dict[str, Result]:
    if isinstance(results, Result) or not isinstance(results, Mapping | Sequence):
        raise InputError(f"`results` must be a mapping or a sequence of results; got {type(results).__name__}")
    pairs = results.items() if isinstance(results, Mapping) else ((f"result {i}", r) for i, r in enumerate(results, 1))
    named = {str(name): result for name, result in pairs}
    if len(named) < 2:
        raise InputError(f"`results` must have at least two results; got {len(named)}")
    for name, result in named.items():
        if not isinstance(result, Result):
            raise InputError(f"`results` must have boxscore.Result as values; got {type(result).__name__} for {name!r}")
    return named


def _check_comparable(named: Mapping[str, Result]) -> None:
    (first_name, first), *others = named.items()
    for name, other in others:
        if other.protocol != first.protocol:
            difference = difference_of(first.protocol, other.protocol)
            raise InputError(
                f"`results` must have one protocol; {first_name!r} and {name!r} have different ones ({difference})"
            )
        if not all(np.array_equal(*pair) for pair in zip(_truths(first.tally), _truths(other.tally), strict=True)):
            raise InputError(f"`results` must have the same truths; {first_name!r} and {name!r} have different ones")


def _truths(tally: Tally) -> tuple[NDArray[Any], ...]:
    order = np.lexsort((tally.truth_state, tally.truth_label, tally.truth_image))
    return tally.truth_image[order], tally.truth_label[order], tally.truth_state[order]


def _samples(result: Result, images: Ints, labels: Ints, plan: Plan, threads: int | None) -> Samples:
    """The numbers of each resample, one column per label; no rows without resamples."""
    if plan.resamples:
        return _aligned(resample(result.tally, images, plan, threads=threads), result, labels)
    nothing = np.zeros((0, labels.size))
    return Samples(numbers={name: np.zeros(0) for name in result}, ap=nothing, ar=nothing)


def _aligned(samples: Samples, result: Result, labels: Ints) -> Samples:
    """The samples with one column per label; NaN for a class that the result lacks, since it has no truths there."""
    index = np.searchsorted(labels, result.tally.classes)
    ap, ar = (np.full((column.shape[0], labels.size), np.nan) for column in (samples.ap, samples.ar))
    ap[:, index], ar[:, index] = samples.ap, samples.ar
    return Samples(numbers=samples.numbers, ap=ap, ar=ar)


def _difference(
    first: tuple[str, Result],
    second: tuple[str, Result],
    images: Ints,
    labels: Ints,
    samples: Samples,
    level: float,
) -> Difference:
    names = [name for name, _ in meanings(first[1].protocol)]
    before, after = (np.array([result[name] for name in names]) for _, result in (first, second))
    stacked = np.stack([samples.numbers[name] for name in names], axis=1)
    has = grounds(first[1].tally, labels)
    by_class = {}
    for name in ("ap", "ar"):
        old, new = (_of_classes(result, name, labels) for _, result in (first, second))
        by_class[name] = _changes(old, new, getattr(samples, name), level, has.classes)
    class_names: dict[int, str] = {}
    for _, result in (second, first):
        class_names |= dict(zip(result.per_class.label.tolist(), result.per_class.name, strict=True))
    return Difference(
        first=first[0],
        second=second[0],
        numbers=dict(zip(names, _changes(before, after, stacked, level, has.numbers), strict=True)),
        label=labels,
        class_name=tuple(class_names.get(label, str(label)) for label in labels.tolist()),
        **by_class,
        samples=samples,
        images=_image_changes(first[1], second[1], images),
    )


def _of_classes(result: Result, name: str, labels: Ints) -> Floats:
    column = np.full(labels.size, np.nan)
    column[np.searchsorted(labels, result.per_class.label)] = getattr(result.per_class, name)
    return column


def _changes(first: Floats, second: Floats, samples: Floats, level: float, is_known: NDArray[np.bool_]) -> list[Change]:
    """One change per column of `samples`, with an interval where `is_known`. Shapes (K,), (S, K) for samples."""
    difference = second - first
    if not len(samples):
        nan, known = float("nan"), (first.tolist(), second.tolist(), difference.tolist())
        return [Change(*row, nan, nan, nan, nan) for row in zip(*known, strict=True)]
    low, high, error = spread(samples, difference, level).where(is_known).within(-1, 1)
    p_value, is_least = _p_values(samples, difference)
    p_value = np.where(is_known, p_value, np.nan)
    columns = (first, second, difference, low, high, error, p_value, is_known & is_least)
    return [Change(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _p_values(samples: Floats, difference: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The p-values, and whether each is only an upper bound.

    A p-value is twice the fraction of samples on the other side of 0, once they are shifted so that their mean is the
    difference. It is an upper bound if no sample is on that side: this number of samples can't show a smaller one.
    """
    is_defined = ~np.isnan(samples)
    num = is_defined.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = samples + (difference - np.where(is_defined, samples, 0).sum(axis=0) / num)
    tail = np.minimum((shifted <= 0).sum(axis=0), (shifted >= 0).sum(axis=0))
    return np.where(num > 0, np.minimum(2 * (tail + 1) / (num + 1), 1), np.nan), (num > 0) & (tail == 0)


def _image_changes(first: Result, second: Result, images: Ints) -> ImageChanges:
    before, after = _count(first.tally, images), _count(second.tally, images)
    gain = (after.num_true - after.num_false) - (before.num_true - before.num_false)
    order = np.argsort(-np.abs(gain), kind="stable")
    names = first.image_names or second.image_names or {}
    ids = images[order]
    return ImageChanges(
        image=ids,
        name=tuple(names.get(image, str(image)) for image in ids.tolist()),
        first_true=before.num_true[order],
        first_false=before.num_false[order],
        second_true=after.num_true[order],
        second_false=after.num_false[order],
        num_truths=before.num_truths[order],
    )


def _count(tally: Tally, images: Ints) -> VerdictCounts:
    """The counts at the score threshold with the best F1, at the first IoU threshold and in the first area range."""
    return count_by_image(tally, 0, images, given_or_best(None, curve_of_all(tally, 0)))


def _image_table(difference: Difference, num_images: int) -> str:
    rows = [
        [
            row["name"],
            f"{row['num_truths']:,}",
            f"{row['first_true']:,} / {row['first_false']:,}",
            f"{row['second_true']:,} / {row['second_false']:,}",
            f"{row['gain']:+,}",
        ]
        for row in difference.images.rows()[:num_images]
    ]
    header = ["image", "truths", f"{difference.first}: TP / FP", f"{difference.second}: TP / FP", "gain"]
    return text.table(rows, align="<>>>>", header=header) if rows else "no image changed"
