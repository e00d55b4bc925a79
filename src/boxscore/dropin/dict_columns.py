"""Annotations that are dicts: their columns, read when they are evaluated, and the index of a dataset of them.

Dicts may change at any time, so columns are never stored: each evaluation reads them again, in one compiled pass.
What pycocotools stores when it makes an index (which annotations there were, their ids and images) is a snapshot here.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boxscore._compiled as _compiled

Dict = dict[str, Any]
Ints = NDArray[np.int64]

ANNOTATION_INDEX = ("anns", "imgToAnns", "catToImgs")
"""The parts of an index that hold annotations."""


def read_columns(annotations: Any, keys: Sequence[str], *, skips_crowds: bool = False) -> _compiled.DictColumns | None:
    """The columns of these keys; None if not all values are plain numbers, or if there are none.

    `skips_crowds`: the areas of crowds are not read, and 0.
    """
    return _compiled.read_dicts(annotations, list(keys), skips_crowds) if len(annotations) else None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AnnotationSnapshot:
    """The annotations that a dataset had when its index was made, with their ids and images of then.

    All ids are integers, and those of annotations are distinct. The dicts are the user's, and may have changed since.
    """

    annotations: list[Dict]
    image: Ints
    id: Ints
    category: Ints | None
    """None if the dataset has no categories."""

    @classmethod
    def of(cls, dataset: Dict) -> "AnnotationSnapshot | None":
        """None if ids are not distinct integers, or missing."""
        annotations = dataset.get("annotations", ())
        if type(annotations) is not list:
            return None
        has_categories = "categories" in dataset
        columns = read_columns(annotations, ("image_id", "id", *["category_id"] * has_categories))
        if columns is None or not columns.has_plain_ids or not _are_distinct(ids := columns.id):
            return None
        return cls(
            annotations=list(annotations),
            image=columns.image,
            id=ids,
            category=columns.category if has_categories else None,
        )

    def index(self, name: str) -> Any:
        """`anns`, `imgToAnns` or `catToImgs`."""
        if name == "anns":
            return dict(zip(self.id.tolist(), self.annotations, strict=True))
        grouped = defaultdict(list)
        if name == "imgToAnns":
            for image, annotation in zip(self.image.tolist(), self.annotations, strict=True):
                grouped[image].append(annotation)
        elif self.category is not None:
            for category, image in zip(self.category.tolist(), self.image.tolist(), strict=True):
                grouped[category].append(image)
        return grouped

    def is_mostly_of(self, images: Sequence[Any]) -> bool:
        """Whether so many images are wanted that all annotations may be read, instead of looking up those of each."""
        return 2 * len(images) >= len(_compiled.distinct(self.image))

    def read(self, keys: Sequence[str], *, skips_crowds: bool) -> _compiled.DictColumns | None:
        """The columns as they are now; None if ids have changed, so that the index has to say who belongs where."""
        columns = read_columns(self.annotations, keys, skips_crowds=skips_crowds)
        if columns is None or not np.array_equal(columns.image, self.image) or not np.array_equal(columns.id, self.id):
            return None
        return columns


def _are_distinct(ids: Ints) -> bool:
    return bool((ids[1:] > ids[:-1]).all()) or len(_compiled.distinct(ids)) == len(ids)
