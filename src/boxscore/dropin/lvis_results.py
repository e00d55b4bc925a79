"""LVISResults: a detector's results on an LVIS dataset, with the best detections of each image only."""

import logging
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.data.geometry.masks import Masks
from boxscore.dropin import mask
from boxscore.dropin.lazy_annotations import AnnotationColumns, FileSnapshot, LazyResults
from boxscore.dropin.lvis_dataset import (
    LVIS,
    Dict,
    InvalidFileError,
    LazyFederated,
    UnsupportedTypeError,
    copy_all_but_annotations,
    get_lazy,
    parsed,
)


class LimitedResults:
    """Results from a file as columns, in the order that `lvis` gives them, within a limit per image."""

    def __init__(self, file: FileSnapshot, results: LazyResults, header: LazyFederated, max_dets: int) -> None:
        self._file, self._results, self._header = file, results, header
        columns = results.columns
        assert columns.score is not None
        self._row = limited_rows(columns.image, columns.score, max_dets)
        self.columns = AnnotationColumns(
            image=columns.image[self._row],
            category=columns.category[self._row],
            box=columns.box[self._row],
            area=columns.area[self._row],
            id=np.arange(1, self._row.size + 1),
            score=columns.score[self._row],
        )

    def masks(self, truths: Any = None) -> Masks | None:
        """The masks of all results; if they are compared with `truths` only, others may have an area alone."""
        masks = self._results.masks(truths)
        return None if masks is None else masks.take(self._row)

    def dataset(self) -> Dict:
        """As `lvis` has it: all of the dataset but its annotations, and one completed dict per result."""
        given = parsed(self._file)
        anns = [given[row] for row in self._row.tolist()]
        complete(anns)
        return {**self._header.header(), "annotations": anns}


class LVISResults(LVIS):
    """Results as `lvis.LVISResults` has them, of a file or a list of dicts, which are completed in place.

    `lvis_gt`: the dataset, or its path. `max_dets`: how many detections of an image count; all, if it is negative.
    """

    def __init__(self, lvis_gt: Any, results: Any, max_dets: int = 300) -> None:
        self.logger = logging.getLogger(__name__)
        self.logger.info("Loading and preparing results.")
        lvis_gt = as_dataset("lvis_gt", lvis_gt)
        self._lazy = None
        self._source = "results"
        header = get_lazy(lvis_gt)
        if isinstance(results, str | os.PathLike):
            self._source = os.fspath(results)
            file = FileSnapshot(results)
            lazy = LazyResults.from_file(file, header) if isinstance(header, LazyFederated) else None
            if lazy is not None:
                self._lazy = LimitedResults(file, lazy, header, max_dets)
                _check_images(set(np.unique(lazy.columns.image).tolist()), lvis_gt)
                return
            results = parsed(file)
        if not isinstance(results, list):
            got = type(results).__name__
            raise InvalidFileError(f"`results` must be a list of dicts, or the path of a file with one; got a {got}")
        check_results(results, self._source)
        _check_images({ann["image_id"] for ann in results}, lvis_gt)
        anns = self.limit_dets_per_image(results, max_dets) if max_dets >= 0 else results
        complete(anns)
        header = header.header() if isinstance(header, LazyFederated) else copy_all_but_annotations(lvis_gt.dataset)
        self.dataset = {**header, "annotations": anns}
        self._create_index()

    def limit_dets_per_image(self, anns: list[Dict], max_dets: int) -> list[Dict]:
        """The results of each image, one image after the other; where there are too many, those of highest score."""
        by_image: dict[Any, list[Dict]] = {}
        for ann in anns:
            by_image.setdefault(ann["image_id"], []).append(ann)
        for image, own in by_image.items():
            if len(own) > max_dets:
                by_image[image] = sorted(own, key=lambda ann: ann["score"], reverse=True)[:max_dets]
        return [ann for own in by_image.values() for ann in own]

    def get_top_results(self, img_id: Any, score_thrs: float) -> list[Dict]:
        """The results of an image with a score above a threshold."""
        return [ann for ann in self.load_anns(self.get_ann_ids(img_ids=[img_id])) if ann["score"] > score_thrs]


def as_dataset(argument: str, value: Any) -> LVIS:
    """A dataset, or that of a path."""
    if isinstance(value, LVIS):
        return value
    if isinstance(value, str | os.PathLike):
        return LVIS(value)
    raise UnsupportedTypeError(f"`{argument}` must be a boxscore.lvis.LVIS or a path; got {type(value).__name__}")


def limited_rows(image: NDArray[np.int64], score: NDArray[np.float64], max_dets: int) -> NDArray[np.int64]:
    """The rows of `limit_dets_per_image`.

    >>> limited_rows(np.array([7, 3, 7, 7]), np.array([0.1, 0.5, 0.9, 0.9]), 2).tolist()
    [2, 3, 1]
    """
    if max_dets < 0:
        return np.arange(image.size)
    _, first, index, count = np.unique(image, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((np.where(count[index] > max_dets, -score, 0.0), first[index]))
    rank = np.arange(order.size) - np.searchsorted(first[index][order], first[index][order])
    return order[rank < max_dets]


def check_results(results: list[Any], source: str) -> None:
    """Raise `InputError` for the first result that lacks something."""
    for row, ann in enumerate(results):
        if not isinstance(ann, dict):
            raise InputError(f"{source}: result {row} must be an object; got a {type(ann).__name__}")
        for key in ("image_id", "category_id", "score"):
            if key not in ann:
                raise InputError(f"{source}: result {row} must have `{key}`")


def complete(anns: list[Dict]) -> None:
    """Give results an area, an id and what they lack of box and mask.

    As in LVIS: the first one decides whether the areas of all are those of their boxes, or of their masks.
    """
    if not anns:
        return
    if "bbox" in anns[0]:
        for number, ann in enumerate(anns, start=1):
            x, y, width, height = _box_of(ann)
            if "segmentation" not in ann:
                right, bottom = x + width, y + height
                ann["segmentation"] = [[x, y, x, bottom, right, bottom, right, y]]
            ann["area"], ann["id"] = width * height, number
    elif "segmentation" in anns[0]:
        masks = [_mask_of(ann) for ann in anns]
        try:
            areas, boxes = mask.area(masks), mask.toBbox(masks)
        except ValueError as error:
            raise InputError(f"results: `segmentation` must be COCO's compressed run lengths: {error}") from None
        for number, (ann, area, box) in enumerate(zip(anns, areas, boxes, strict=True), start=1):
            ann["area"] = area
            ann.setdefault("bbox", box)
            ann["id"] = number
    else:
        raise InputError("results must have `bbox` or `segmentation`; the first one has neither")


def _box_of(ann: Dict) -> Any:
    box = ann.get("bbox")
    if box is None or len(box) != 4:
        got = "nothing" if box is None else f"{len(box)}"
        raise InputError(
            f"a result of image {ann['image_id']} must have 4 numbers in `bbox`, as the first result has; got {got}"
        )
    return box


def _mask_of(ann: Dict) -> Any:
    given = ann.get("segmentation")
    if not isinstance(given, dict) or not isinstance(given.get("counts"), str | bytes):
        raise InputError(
            f"a result of image {ann['image_id']} must have compressed run lengths in `segmentation`, as the first"
            " result has no `bbox`"
        )
    return given


def _check_images(images: set[Any], lvis_gt: LVIS) -> None:
    foreign = images - set(lvis_gt.get_img_ids())
    if foreign:
        some = next(iter(foreign))
        raise InvalidFileError(f"Results do not correspond to current LVIS set: image {some!r} is not in it")
