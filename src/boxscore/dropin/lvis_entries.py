"""`eval_imgs` and `dt_pointers`: what `lvis` keeps of every image and class, and of every curve."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.lazy import Lazy
from boxscore.dropin.accumulation import Arrays, accumulate
from boxscore.dropin.evaluation_columns import EvaluationColumns
from boxscore.dropin.image_entries import Groups, entries
from boxscore.dropin.lvis_columns import NO_LIMIT, FederatedColumns
from boxscore.dropin.single_image import ImageRules, match_image
from boxscore.result.tally import FALSE, TRUE, Tally

Dict = dict[str, Any]

_NAMES = {
    "dtIds": "dt_ids",
    "gtIds": "gt_ids",
    "dtMatches": "dt_matches",
    "gtMatches": "gt_matches",
    "dtScores": "dt_scores",
    "gtIgnore": "gt_ignore",
    "dtIgnore": "dt_ignore",
}
"""The names of `lvis` for what pycocotools has in an entry, in its order."""


class LazyEntries(dict[str, Any]):
    """A dict whose values may be `Lazy`: these are computed when they are first read.

    >>> entries = LazyEntries(one=1, two=Lazy(lambda: 2))
    >>> entries["two"], dict(entries)
    (2, {'one': 1, 'two': 2})
    """

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return value.value if isinstance(value, Lazy) else value

    def __iter__(self) -> Iterator[str]:  # else dict() would copy what is stored
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, if it is there."""
        return self[key] if self.__contains__(key) else default

    def values(self) -> Any:
        """The values, all computed."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """The pairs, all computed."""
        return [(key, self[key]) for key in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.items(),)


def entries_of(columns: FederatedColumns) -> list[Dict | None]:
    """`eval_imgs`: class by class, in it area range by area range, in it image by image."""
    seen = columns.seen
    groups = Groups.of(seen.detections, seen.truths, len(seen.images), NO_LIMIT)
    partial = columns.is_partial[groups.row]
    start = groups.start.tolist()
    rows = {
        (label, image): slice(start[n], start[n + 1])
        for n, (label, image) in enumerate(zip(groups.label.tolist(), groups.image.tolist(), strict=True))
    }
    num_images, per_class = len(seen.images), len(seen.images) * len(seen.areas)
    made = entries(seen)
    for index, entry in enumerate(made):
        if entry is not None:
            own = partial[rows[index // per_class, index % num_images]]
            place = {"image_id": entry["image_id"], "category_id": entry["category_id"], "area_rng": entry["aRng"]}
            made[index] = {**place, **_renamed(entry, own)}
    return made


def match_pair(
    detections: list[Dict],
    truths: list[Dict],
    overlap: Any,
    is_partial: Sequence[bool],
    *,
    thresholds: Any,
    area: Any,
) -> Dict:
    """The entry of one image and class in one area range, without their names."""
    rules = ImageRules(thresholds=thresholds, area=area, limit=max(len(detections), 1))
    # as in LVIS: a crowd is a truth as any other
    entry = match_image(detections, [{**truth, "iscrowd": 0} for truth in truths], overlap, rules)
    order = np.argsort([-each["score"] for each in detections], kind="mergesort")
    return _renamed(entry, np.array(is_partial, bool)[order])


def _renamed(entry: Dict, is_partial: NDArray[np.bool_]) -> Dict:
    """An entry of pycocotools as `lvis` has it; unmatched detections of partial classes are ignored, too."""
    renamed = {name: entry[key] for key, name in _NAMES.items()}
    renamed["dt_ignore"] = renamed["dt_ignore"] | ((renamed["dt_matches"] == 0) & is_partial)
    return renamed


def accumulate_entries(made: Sequence[Dict | None], p: Any) -> Arrays:
    """The arrays of entries."""
    keys = {name: key for key, name in _NAMES.items()}
    again = [None if entry is None else {keys.get(name, name): entry[name] for name in entry} for entry in made]
    wanted: Any = SimpleNamespace(
        imgIds=p.img_ids,
        catIds=p.cat_ids if p.use_cats else [-1],
        areaRng=p.area_rng,
        maxDets=[NO_LIMIT],
        iouThrs=p.iou_thrs,
        recThrs=p.rec_thrs,
        useCats=1,
    )
    return accumulate(again, wanted, wanted)


def pointers_of_tally(tally: Tally, seen: EvaluationColumns) -> dict[int, dict[int, Dict]]:
    """`dt_pointers`: for each class and area range the ids of detections by falling score, and what they are."""
    detections = seen.detections
    # The rows of the tally, by image, class and falling score; then by class and falling score.
    ids = detections.id[np.lexsort((-detections.score, detections.label, detections.image))]
    order = np.lexsort((tally.image, -tally.score, tally.label))
    ids, label, verdict = ids[order], tally.label[order], tally.verdict[order]
    num_truths = tally.num_truths
    start, end = (np.searchsorted(label, np.arange(len(seen.classes)), side=side) for side in ("left", "right"))
    return {
        k: {
            a: _pointers(ids[start[k] : end[k]], verdict[start[k] : end[k], a].T) if num_truths[k, a] else {}
            for a in range(len(seen.areas))
        }
        for k in range(len(seen.classes))
    }


def _pointers(ids: NDArray[Any], verdict: NDArray[np.uint8]) -> Dict:
    return {"dt_ids": ids, "tps": verdict == TRUE, "fps": verdict == FALSE}


def pointers_of_entries(made: Sequence[Dict | None], p: Any) -> dict[int, dict[int, Dict]]:
    """The same from entries."""
    num_images, num_areas = len(p.img_ids), len(p.area_rng)
    num_classes = len(p.cat_ids) if p.use_cats else 1
    pointers: dict[int, dict[int, Dict]] = {k: {a: {} for a in range(num_areas)} for k in range(num_classes)}
    for k in range(num_classes):
        for a in range(num_areas):
            first = (k * num_areas + a) * num_images
            own = [entry for entry in made[first : first + num_images] if entry is not None]
            if not any((entry["gt_ignore"] == 0).any() for entry in own):
                continue
            order = np.argsort(-np.concatenate([entry["dt_scores"] for entry in own]), kind="mergesort")
            is_matched, is_ignored = (
                np.concatenate([entry[key] for entry in own], axis=1)[:, order].astype(bool)
                for key in ("dt_matches", "dt_ignore")
            )
            pointers[k][a] = {
                "dt_ids": np.concatenate([entry["dt_ids"] for entry in own])[order],
                "tps": is_matched & ~is_ignored,
                "fps": ~is_matched & ~is_ignored,
            }
    return pointers
