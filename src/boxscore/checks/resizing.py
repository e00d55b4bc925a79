"""Detections in the pixels of resized images: find the scale and the padding that separate them from the truths.

A network's input is resized, and often padded to a square (letterboxing). A detection in its pixels has the size of its
truth times one factor per axis. So each pair of a detection and a truth in one image proposes factors, and a pair that
does not belong together rarely has its centers agree with them. The factors on which different objects agree are the
resizing: one for all images, or one per image where images have different sizes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore.data.geometry.boxes import iou_of_measured, measure

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_BOXES = 20
"""Boxes per image and side that are examined."""
MAX_PROPOSALS = 60
"""Proposals per image that are examined."""
MAX_OFFSET = 0.15
"""How far apart the centers of a pair may be, relative to the truth's width and height."""
MAX_SKEW = 0.12
"""How much the logarithms of two factors may differ if these are one."""
BIN = 0.06
"""The width of the bins in which the logarithms of factors are counted."""
IOU = 0.5


class Resizing(NamedTuple):
    """A resizing that would explain the detections."""

    corner: Floats
    """The detections without it. Shape (D, 4), xyxy."""
    num_fitted: int
    """Overlaps that prove nothing, as the factors were chosen to make them."""
    change: str
    """Say in words how the boxes were scaled."""


class _Image(NamedTuple):
    """The boxes of one image."""

    rows: Ids
    """The rows of its detections. Shape (D,)."""
    corner: Floats
    truth: Floats

    def proposals(self) -> Floats:
        """Scale (x, y) and shift (x, y) of each pair that may belong together. Shape (P, 4)."""
        center, size = _centers_and_sizes(self.corner)
        truth_center, truth_size = _centers_and_sizes(self.truth)
        row, other = np.nonzero((size.min(axis=1) > 0)[:, np.newaxis] & (truth_size.min(axis=1) > 0))
        scale, size = truth_size[other] / size[row], truth_size[other]
        shift = truth_center[other] - scale * center[row]
        found = [np.concatenate([scale, 0 * shift], axis=1)[_is_small(shift, size).all(axis=1)]]
        # Letterboxing: one factor for both axes, and padding along one of them.
        is_even = np.abs(np.log(scale[:, 0] / scale[:, 1])) <= MAX_SKEW
        scale = np.sqrt(scale.prod(axis=1, keepdims=True)) * [1.0, 1.0]
        shift = truth_center[other] - scale * center[row]
        for padded in ([True, False], [False, True]):
            is_possible = is_even & (_is_small(shift, size) | padded).all(axis=1)
            found.append(np.concatenate([scale, np.where(padded, shift, 0.0)], axis=1)[is_possible])
        every = np.concatenate(found)
        return np.asarray(every[np.isfinite(every).all(axis=1) & (every[:, :2].min(axis=1) > 0)])

    def best(self, proposals: Floats) -> Floats:
        """The proposal under which most objects are found. Shape (4,)."""
        proposals = proposals[:: -(-len(proposals) // MAX_PROPOSALS)]
        is_overlap = _iou(_moved(self.corner, proposals[:, np.newaxis]), self.truth[np.newaxis]) >= IOU
        num = np.minimum(is_overlap.any(axis=1).sum(axis=1), is_overlap.any(axis=2).sum(axis=1))
        return np.asarray(proposals[np.argmax(num)])


def find_resizings(image: Ids, corner: Floats, truth_image: Ids, truth_corner: Floats) -> Iterator[Resizing]:
    """Yield the likeliest resizings: one for all images, and one with other factors for each image.

    The caller judges whether enough detections overlap truths without it. Corners are xyxy, shape (D, 4) and (G, 4).
    """
    images = list(_images(image, corner, truth_image, truth_corner))
    proposals = [each.proposals() for each in images]
    if (common := _most_common(proposals)) is not None:
        yield Resizing(_moved(corner, np.append(common, [0, 0])), 1, f"multiplied by {_shown(common)}")
    moved, chosen = corner.copy(), []
    for each, own in zip(images, proposals, strict=True):
        if len(own):
            chosen.append(each.best(own))
            moved[each.rows] = _moved(each.corner, chosen[-1])
    if not chosen:
        return
    low, high = np.percentile([each[:2] for each in chosen], [10, 90])
    change = f"multiplied by a factor per image (mostly {low:.3g} to {high:.3g})"
    is_padded = np.mean([each[2:].any() for each in chosen]) > 0.3
    yield Resizing(moved, len(chosen), f"shifted by the image's padding and {change}" if is_padded else change)


def _images(image: Ids, corner: Floats, truth_image: Ids, truth_corner: Floats) -> Iterator[_Image]:
    """The images that have boxes on both sides."""
    order, truth_order = np.argsort(image, kind="stable"), np.argsort(truth_image, kind="stable")
    for each in np.intersect1d(image, truth_image):
        rows, others = (
            some[slice(*np.searchsorted(ids[some], [each, each + 1]))][:MAX_BOXES]
            for ids, some in ((image, order), (truth_image, truth_order))
        )
        yield _Image(rows, corner[rows], truth_corner[others])


def _most_common(proposals: Sequence[Floats]) -> Floats | None:
    """The factors, (x, y), that most proposals without padding have, of any image; None without proposals."""
    each = np.concatenate([np.zeros((0, 4)), *proposals])
    logs = np.log(each[~each[:, 2:].any(axis=1), :2])
    if not len(logs):
        return None
    num = Counter((x, y) for x, y in np.round(logs / BIN).astype(np.int64).tolist())
    # With the bins around it, as factors at the border of two bins are in both.
    around = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    top = max([*num], key=lambda each: sum(num[each[0] + x, each[1] + y] for x, y in around))
    is_near = np.abs(logs - np.multiply(top, BIN)).max(axis=1) <= 1.5 * BIN
    return np.asarray(np.exp(np.median(logs[is_near], axis=0)))


def _moved(corner: Floats, proposal: Floats) -> Floats:
    """Boxes times the scale of a proposal plus its shift."""
    return np.asarray(corner * proposal[..., [0, 1, 0, 1]] + proposal[..., [2, 3, 2, 3]])


def _centers_and_sizes(corner: Floats) -> tuple[Floats, Floats]:
    return (corner[:, :2] + corner[:, 2:]) / 2, corner[:, 2:] - corner[:, :2]


def _is_small(shift: Floats, size: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(shift) <= MAX_OFFSET * size)


def _iou(corner: Floats, truth: Floats) -> Floats:
    """IoU of each pair. Shapes (P, D, 4), (1, G, 4); gives (P, D, G)."""
    measured = (measure(each, box_format="xyxy", pixels="continuous") for each in (corner, truth))
    return np.asarray(iou_of_measured(*measured, extent=0))


def _shown(factors: Floats) -> str:
    """Two factors, or one if they are the same.

    >>> _shown(np.array([0.625, 0.6251])), _shown(np.array([2.0, 1.5]))
    ('0.625', '2 (x) and 1.5 (y)')
    """
    if abs(np.log(factors[0] / factors[1])) <= 0.03:
        return f"{factors.mean():.3g}"
    return f"{factors[0]:.3g} (x) and {factors[1]:.3g} (y)"
