"""Worst images: the images with the most false positives and unfound truths."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boxscore._support import text
from boxscore.analysis.operating_points import curve_of_all, given_or_best
from boxscore.analysis.pairing import verdicts_at
from boxscore.analysis.verdict_counts import count_by_image
from boxscore.protocol.fields import check_number
from boxscore.result.curves import Ints
from boxscore.result.result import Result
from boxscore.result.summary import number_or_none


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class WorstImages:
    """Images by descending number of errors, ties by ascending id. `print` shows a table.

    At one IoU threshold, in the first area range and within the largest limit.
    """

    iou: float
    similarity: str = "IoU"
    """The similarity that `iou` is a threshold of."""
    score: float
    """Detections below this score are dropped. NaN: no detections or no truths."""
    image: Ints
    """Image ids. Shape (N,)."""
    name: tuple[str, ...]
    """File names, or ids as text. Length N."""
    num_true: Ints
    """True positives. Shape (N,)."""
    num_false: Ints
    """False positives. Shape (N,)."""
    num_unfound: Ints
    """Truths without a true positive. Shape (N,)."""

    def __len__(self) -> int:
        return len(self.name)

    @property
    def num_errors(self) -> Ints:
        """False positives and unfound truths. Shape (N,)."""
        return self.num_false + self.num_unfound

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON; undefined is None."""
        columns = (self.image, self.num_true, self.num_false, self.num_unfound)
        keys = ("image", "num_true", "num_false", "num_unfound")
        rows = [dict(zip(keys, row, strict=True)) for row in zip(*(column.tolist() for column in columns), strict=True)]
        return {
            "iou": self.iou,
            "score": number_or_none(self.score),
            "images": [{"name": name, **row} for name, row in zip(self.name, rows, strict=True)],
        }

    def __repr__(self) -> str:
        return f"WorstImages({text.count(len(self), 'image')})"

    def __str__(self) -> str:
        cells = [
            [name, *(f"{column[i]:,}" for column in (self.num_true, self.num_false, self.num_unfound))]
            for i, name in enumerate(self.name)
        ]
        title = f"worst images at {self.similarity} {self.iou:.2f}, score >= {text.fraction(self.score)}"
        return f"{title}\n\n{text.table(cells, align='<>>>', header=['image', 'TP', 'FP', 'not found'])}"


def find_worst_images(
    result: Result, *, num: int | None = 20, score: float | None = None, iou: float | None = None
) -> WorstImages:
    """The `num` images of a result with the most errors; None: all images.

    `score`: detections below it are dropped; default: the threshold with the best F1. `iou`: as in `calibrate`.
    """
    if num is not None:
        check_number("num", num)
    tally, t = verdicts_at(result, "worst_images", iou)
    score = given_or_best(score, curve_of_all(tally, t))
    images = tally.images
    counts = count_by_image(tally, t, images, score)
    order = np.argsort(-(counts.num_false + counts.num_unfound), kind="stable")[:num]
    names = result.image_names or {}
    return WorstImages(
        iou=tally.protocol.thresholds[t],
        similarity=tally.protocol.similarity,
        score=score,
        image=images[order],
        name=tuple(names.get(image, str(image)) for image in images[order].tolist()),
        num_true=counts.num_true[order],
        num_false=counts.num_false[order],
        num_unfound=counts.num_unfound[order],
    )
