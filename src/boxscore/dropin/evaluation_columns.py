"""The columns of an evaluation: the annotations of its images and classes, selected once, when it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.lazy import LazyField
from boxscore._support.threads import num_threads
from boxscore.data.coverage import Coverage
from boxscore.data.dataset import Detections, Truths
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.dropin.coco_dataset import get_lazy
from boxscore.dropin.oks import detected_keypoints, labelled_keypoints, oks_protocol
from boxscore.dropin.params import Params
from boxscore.dropin.row_selection import ImageClassIndex, load_annotations, odd_value
from boxscore.engines.native import compiled_engine
from boxscore.protocol.protocol import Protocol
from boxscore.protocol.table import PROTOCOLS
from boxscore.result.tally import Tally

Dict = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TRUTH_KEYPOINT_KEYS = ("iscrowd", "area", "bbox", "num_keypoints")
"""What truths with keypoints have besides these."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SideColumns:
    """Truths or detections, one row each. Rows of one image and class are in the order that breaks ties."""

    image: Ints
    """Indices into the images of the evaluation."""
    label: Ints
    """Indices into its classes."""
    box: Floats
    """In xywh; where masks are evaluated, zeros."""
    mask: Masks | None = None
    """The masks, where they are evaluated."""
    keypoints: Keypoints | None = None
    """The keypoints, where they are evaluated."""
    area: Floats = LazyField()  # type: ignore[assignment]
    id: NDArray[Any] = LazyField()  # type: ignore[assignment]
    """Integers, or objects if not all ids are integers."""

    @property
    def float_id(self) -> Floats:
        """Ids as pycocotools writes them into its matrices of matches."""
        return self.id.astype(np.float64)

    @property
    def comparable_id(self) -> NDArray[Any]:
        """Ids as numbers, for comparisons with 0."""
        return self.float_id if self.id.dtype == object else self.id


Side = TypeVar("Side", bound=SideColumns)


def take_side(side: Side, row: Ints) -> Side:
    """Some rows of truths or detections."""
    if row.size == side.image.size and (row == np.arange(row.size)).all():
        return side
    taken: Dict = {}
    for each in fields(side):
        value = getattr(side, each.name)
        if isinstance(value, Masks | Keypoints):
            taken[each.name] = value.take(row)
        elif isinstance(value, list):
            taken[each.name] = [value[i] for i in row.tolist()]
        elif value is not None and not isinstance(value, bool):
            taken[each.name] = value[row]
    return replace(side, **taken)


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionColumns(SideColumns):
    """Detections."""

    score: Floats
    given_score: list[Any] | None = None
    """The scores as they were given, if not all are floats."""
    is_partial: NDArray[np.bool_] | None = None
    """Whether the class was not annotated exhaustively in the image; None: all were. Shape (D,)."""
    has_box_areas: bool = False
    """Whether all areas are surely those of the boxes."""
    is_numbered: bool = False
    """Whether all ids surely are above 0."""

    @property
    def scores(self) -> list[Any]:
        """The scores as pycocotools hands them on: as they were given."""
        return self.score.tolist() if self.given_score is None else self.given_score


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthColumns(SideColumns):
    """Truths."""

    is_crowd: NDArray[np.uint8]
    is_ignored: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EvaluationColumns:
    """Detections, truths, and the parameters under which they were selected."""

    detections: DetectionColumns
    truths: TruthColumns
    images: list[Any]
    classes: list[Any]
    """Ids, or [-1] if the evaluation is class-agnostic."""
    areas: list[Any]
    """As in the parameters."""
    iou_type: str
    """ "bbox", "segm" or "keypoints"."""
    sigmas: Any
    """Of keypoints."""
    bounds: list[tuple[float, float]]
    """Of the areas."""
    thresholds: Floats
    limits: list[Any]
    """Ascending."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Those of the protocol that are not COCO's."""

    @property
    def num_entries(self) -> int:
        """The number of entries of `evalImgs`."""
        return len(self.classes) * len(self.areas) * len(self.images)

    def tally(self) -> Tally | None:
        """The tally of boxscore's engine; None for inputs that pycocotools treats differently."""
        detections, truths = self.detections, self.truths
        if not (self.num_entries and self.limits):
            return None
        # as in COCO: the id 0 means no match, so neither such a truth nor such a detection is ever matched
        if (truths.comparable_id == 0).any() or not (detections.is_numbered or (detections.comparable_id > 0).all()):
            return None
        if truths.keypoints is None and (truths.is_crowd != truths.is_ignored).any():
            return None
        try:
            protocol = self.protocol(
                thresholds=self.thresholds,
                areas=[(f"area {a}", low, high) for a, (low, high) in enumerate(self.bounds)],
                limits=self.limits,
            )
            columns = Detections(
                image=detections.image,
                label=detections.label,
                score=detections.score,
                area=self.own_area(),
                **shapes_of(detections),
            )
            truth_columns = Truths(
                image=truths.image,
                label=truths.label,
                **shapes_of(truths),
                area=truths.area,
                ignore=truths.is_crowd,
                class_names=[str(each) for each in self.classes],
                coverage=None if detections.is_partial is None else coverage_of(detections, detections.is_partial),
            )
        except (InputError, TypeError, ValueError):
            return None
        return compiled_engine.match(columns, truth_columns, protocol, num_threads(None))

    def protocol(self, **changes: Any) -> Protocol:
        """COCO's, with these changes."""
        changes = {**self.rules, **changes}
        if self.iou_type == "keypoints":
            return oks_protocol(self.sigmas, **changes)
        return PROTOCOLS["coco"].replace(iou_type=self.iou_type, **changes)

    def own_area(self) -> Floats | None:
        """The areas of detections, if they are not those of their shapes."""
        side = self.detections
        if side.keypoints is not None:
            return side.area
        if side.has_box_areas and side.mask is None:
            return None
        own = side.box[:, 2] * side.box[:, 3] if side.mask is None else side.mask.runs.area
        return None if np.array_equal(side.area, own) else side.area


def coverage_of(detections: DetectionColumns, is_partial: NDArray[np.bool_]) -> Coverage:
    """The pairs of images and classes that have detections, all of which were looked for."""
    num_classes = int(detections.label.max(initial=0)) + 1
    pair, row = np.unique(detections.image * num_classes + detections.label, return_index=True)
    return Coverage(image=pair // num_classes, label=pair % num_classes, is_exhaustive=~is_partial[row])


def shapes_of(side: SideColumns) -> Dict:
    """The shapes of columns, as `Detections` and `Truths` take them."""
    if side.keypoints is not None:
        return {"geometry": side.keypoints}
    return {"box": side.box, "box_format": "xywh"} if side.mask is None else {"mask": side.mask}


def select_columns(truths: Any, results: Any, params: Params) -> EvaluationColumns | None:
    """The annotations that pycocotools would evaluate under these parameters, in its order.

    None if columns can't represent them: a value is not a number, or an overlap depends on how masks were encoded.
    """
    index = ImageClassIndex.of(params, compared=get_lazy(truths) if params.useCats else None)
    detections, truth_side = _select_detections(index, results), select_truths(index, truths)
    if detections is None or truth_side is None:
        return None
    # as in COCO: two masks are compared up to where both have a run of no pixels
    if all(side.mask is not None and side.mask.runs.has_joined_runs for side in (detections, truth_side)):
        return None
    return columns_under(params, index, detections, truth_side)


def describe_odd(truths: Any, results: Any, params: Params) -> str | None:
    """The value for which `select_columns` gives None, by its annotation or result; None if it is of no annotation."""
    has_keypoints = params.iouType.startswith("keypoints")
    shape = ("keypoints",) if has_keypoints else ("bbox",) if params.iouType == "bbox" else ()
    keys = (*shape, *(TRUTH_KEYPOINT_KEYS if has_keypoints else ("iscrowd", "area")))
    defaults = getattr(params, "defaults", {})
    for coco, what, wanted in ((truths, "annotation", keys), (results, "result", (*shape, "area", "score"))):
        anns = load_annotations(coco, params.imgIds, params.catIds, is_pooled=not params.useCats)
        found = odd_value([{**defaults, **ann} for ann in anns], wanted, what)
        if found is not None:
            return found
    return None


def columns_under(
    params: Params, index: "ImageClassIndex", detections: DetectionColumns, truths: TruthColumns
) -> EvaluationColumns:
    """Detections and truths that were selected by `index`, and the parameters."""
    return EvaluationColumns(
        detections=detections,
        truths=truths,
        images=index.images,
        classes=index.classes if params.useCats else [-1],
        areas=list(params.areaRng),
        iou_type="keypoints" if index.has_keypoints else params.iouType,
        sigmas=getattr(params, "kpt_oks_sigmas", ()),
        bounds=[(float(low), float(high)) for low, high in params.areaRng],
        thresholds=np.array(params.iouThrs, np.float64),
        limits=list(params.maxDets),
        rules={"precision_epsilon": getattr(params, "precision_epsilon", Params.precision_epsilon)},
    )


def _select_detections(index: ImageClassIndex, results: Any) -> DetectionColumns | None:
    lazy = index.lazy_columns(results)
    if lazy is not None and lazy.columns.score is not None:
        row, shared = index.select_rows(lazy)
        return DetectionColumns(
            **shared, score=lazy.columns.score[row], has_box_areas=lazy.columns.has_box_areas, is_numbered=True
        )
    selected = index.select_dicts(results, ("area", "score"))
    if selected is None:
        return None
    columns, row, shared = selected.columns, selected.row, selected.shared
    if index.has_keypoints:
        shared["keypoints"] = detected_keypoints(columns.keypoints[row])
    given = None if columns.has_plain_scores else _odd_scores(selected.anns)
    return DetectionColumns(**shared, area=columns.area[row], score=columns.score[row], given_score=given)


def _odd_scores(anns: Sequence[Dict]) -> list[Any] | None:
    """Scores as they were given; None if all of them are floats."""
    given = [ann["score"] for ann in anns]
    return None if all(type(each) is float for each in given) else given


def select_truths(index: ImageClassIndex, truths: Any) -> TruthColumns | None:
    """The truths of the evaluation's images and classes; None if a value is not a number."""
    lazy = index.lazy_columns(truths)
    if lazy is not None and lazy.columns.is_crowd is not None:
        row, shared = index.select_rows(lazy)
        is_crowd = lazy.columns.is_crowd[row]
        return TruthColumns(**shared, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))
    selected = index.select_dicts(truths, TRUTH_KEYPOINT_KEYS if index.has_keypoints else ("iscrowd", "area"))
    if selected is None:
        return None
    columns, row, shared = selected.columns, selected.row, selected.shared
    is_crowd, area = columns.is_crowd[row], columns.area[row]
    if index.has_keypoints:
        shared["keypoints"] = labelled_keypoints(
            columns.keypoints[row], area=area, box=columns.box[row], num_labelled=columns.num_keypoints[row]
        )
    return TruthColumns(**shared, area=area, is_crowd=is_crowd, is_ignored=is_crowd | _blank(shared))


def _blank(shared: Dict) -> Any:
    """Truths without labelled keypoints, which are ignored; 0 where there are no keypoints. Shape (G,)."""
    keypoints = shared.get("keypoints")
    return np.uint8(0) if keypoints is None else (keypoints.num_labelled == 0).astype(np.uint8)
