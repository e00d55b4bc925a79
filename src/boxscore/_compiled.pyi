# Made by `make stubs`, not by hand.
"""The compiled engine: indices, matching, curves."""

from collections.abc import Sequence
import enum
from typing import Any

from numpy.typing import NDArray

class BoxFormat(enum.Enum):
    xyxy = 0

    xywh = 1

    cxcywh = 2

class Matching(enum.Enum):
    best = 0

    best_regular = 1

    next_best = 2

class ApRule(enum.Enum):
    recall_points = 0

    interpolated = 1

    envelope = 2

    trapezoid = 3

class Rules:
    def __init__(self) -> None: ...
    @property
    def cutoffs(self) -> list[float]: ...
    @cutoffs.setter
    def cutoffs(self, arg: Sequence[float], /) -> None: ...
    @property
    def is_strict(self) -> bool: ...
    @is_strict.setter
    def is_strict(self, arg: bool, /) -> None: ...
    @property
    def matching(self) -> Matching: ...
    @matching.setter
    def matching(self, arg: Matching, /) -> None: ...
    @property
    def area_low(self) -> list[float]: ...
    @area_low.setter
    def area_low(self, arg: Sequence[float], /) -> None: ...
    @property
    def area_high(self) -> list[float]: ...
    @area_high.setter
    def area_high(self, arg: Sequence[float], /) -> None: ...
    @property
    def limits(self) -> list[int]: ...
    @limits.setter
    def limits(self, arg: Sequence[int], /) -> None: ...
    @property
    def is_limit_per_image(self) -> bool: ...
    @is_limit_per_image.setter
    def is_limit_per_image(self, arg: bool, /) -> None: ...
    @property
    def recall_points(self) -> list[float]: ...
    @recall_points.setter
    def recall_points(self, arg: Sequence[float], /) -> None: ...
    @property
    def ap(self) -> ApRule: ...
    @ap.setter
    def ap(self, arg: ApRule, /) -> None: ...
    @property
    def epsilon(self) -> float: ...
    @epsilon.setter
    def epsilon(self, arg: float, /) -> None: ...

NO_LIMIT: int = 4294967295

def are_finite(values: NDArray[Any]) -> bool: ...
def are_boxes_fine(box: NDArray[Any], box_format: BoxFormat, largest: float) -> bool: ...
def are_columns_fine(
    box: Any,
    box_format: BoxFormat,
    largest: float,
    ids: tuple[Any, ...],
    reals: tuple[Any, ...],
    flags: tuple[Any, ...],
) -> bool: ...
def distinct(ids: NDArray[Any]) -> Any: ...
def find(ids: NDArray[Any], table: NDArray[Any]) -> Any: ...
def count(ids: NDArray[Any], table: NDArray[Any]) -> Any: ...

class Tally:
    def __init__(
        self,
        *,
        image: Any,
        label: Any,
        score: Any,
        tier: Any,
        state: Any,
        is_true: Any,
        is_counted: Any,
        classes: Any,
        truth_image: Any,
        truth_label: Any,
        truth_state: Any,
    ) -> None: ...
    @property
    def image(self) -> Any: ...
    @property
    def label(self) -> Any: ...
    @property
    def score(self) -> Any: ...
    @property
    def tier(self) -> Any: ...
    @property
    def state(self) -> Any: ...
    @property
    def is_true(self) -> Any: ...
    @property
    def is_counted(self) -> Any: ...
    @property
    def classes(self) -> Any: ...
    @property
    def truth_image(self) -> Any: ...
    @property
    def truth_label(self) -> Any: ...
    @property
    def truth_state(self) -> Any: ...

class Measure:
    def __init__(self, is_recall: bool, thresholds: Sequence[int], area: int, limit: int) -> None: ...

class Averages:
    @property
    def numbers(self) -> list[float]: ...
    @property
    def ap(self) -> Any: ...
    @property
    def ar(self) -> Any: ...

class Finished:
    @property
    def averages(self) -> Averages: ...
    @property
    def classes(self) -> Any: ...
    @property
    def num_truths(self) -> Any: ...
    @property
    def num_detections(self) -> Any: ...
    @property
    def recall(self) -> Any: ...
    @property
    def average_precision(self) -> Any: ...
    @property
    def num_true(self) -> Any: ...
    @property
    def num_false(self) -> Any: ...

class Curves:
    @property
    def precision(self) -> Any: ...
    @property
    def scores(self) -> Any: ...
    @property
    def recall(self) -> Any: ...
    @property
    def average_precision(self) -> Any: ...
    @property
    def num_true(self) -> Any: ...
    @property
    def num_false(self) -> Any: ...
    @property
    def sum_after(self) -> Any: ...

SUM_STATE: int = 41

def are_in_order(parts: Sequence[NDArray[Any]]) -> bool: ...
def count_truths(label: NDArray[Any], state: NDArray[Any], classes: NDArray[Any], num_areas: int) -> Any: ...
def finish(
    tallies: Sequence[Tally], rules: Rules, measures: Sequence[Measure], is_weighted: bool, num_threads: int
) -> Finished: ...
def build_curves(
    tallies: Sequence[Tally],
    rules: Rules,
    num_threads: int,
    num_truths: NDArray[Any] | None = None,
    start: Sequence[NDArray[Any]] | None = None,
) -> Curves: ...
def average_curves(
    precision: NDArray[Any],
    recall: NDArray[Any],
    average_precision: NDArray[Any],
    num_truths: NDArray[Any],
    rules: Rules,
    measures: Sequence[Measure],
    is_weighted: bool,
) -> Averages: ...
def mean_samples(values: NDArray[Any], thresholds: Sequence[int], area: int, limit: int) -> float: ...

class Geometry:
    def __len__(self) -> int: ...

class Boxes(Geometry):
    def __init__(self, box: NDArray[Any], box_format: BoxFormat, is_inclusive: bool) -> None: ...

class GivenShapes(Geometry):
    def __init__(
        self,
        area: NDArray[Any],
        start: NDArray[Any] | None = None,
        truth: NDArray[Any] | None = None,
        similarity: NDArray[Any] | None = None,
    ) -> None: ...

class Detections:
    def __init__(
        self,
        image: NDArray[Any],
        label: NDArray[Any],
        score: NDArray[Any],
        geometry: Any,
        coverage: NDArray[Any] | None = None,
        area: NDArray[Any] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def is_valid(self, largest: float) -> bool: ...

class Truths:
    def __init__(
        self,
        image: NDArray[Any],
        label: NDArray[Any],
        geometry: Any,
        area: NDArray[Any] | None = None,
        kind: NDArray[Any] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def is_valid(self, largest: float) -> bool: ...

def repeat_ids(ids: Sequence[int], num_rows: Sequence[int]) -> Any: ...
def kinds_of(flags: NDArray[Any], marked: int) -> Any: ...
def match(detections: Detections, truths: Truths, class_ids: NDArray[Any], rules: Rules, num_threads: int) -> Any: ...
def pair(detections: Detections, truths: Truths, rules: Rules, num_threads: int) -> Any: ...
def find_nearest(
    detections: Detections, truths: Truths, is_used: NDArray[Any], is_truth_used: NDArray[Any], num_threads: int
) -> Any: ...
def match_across(
    detections: Detections,
    truths: Truths,
    is_used: NDArray[Any],
    is_truth_used: NDArray[Any],
    rules: Rules,
    num_threads: int,
) -> Any: ...

class Keypoints(Geometry):
    def __init__(
        self,
        point: NDArray[Any],
        sigmas: Sequence[float],
        area: NDArray[Any] | None = None,
        is_labelled: NDArray[Any] | None = None,
        scale: NDArray[Any] | None = None,
        region: NDArray[Any] | None = None,
    ) -> None: ...

class MaskError(ValueError):
    pass

class Masks(Geometry):
    @staticmethod
    def from_objects(objects: list[Any], sizes: NDArray[Any] | None, num_threads: int) -> Masks: ...
    @staticmethod
    def from_polygons(
        points: NDArray[Any], part_start: NDArray[Any], mask_start: NDArray[Any], sizes: NDArray[Any], num_threads: int
    ) -> Masks: ...
    @staticmethod
    def from_pixels(arrays: Sequence[NDArray[Any]], num_threads: int) -> Masks: ...
    @staticmethod
    def from_arrays(counts: NDArray[Any], start: NDArray[Any], sizes: NDArray[Any], num_threads: int) -> Masks: ...
    @staticmethod
    def concatenate(parts: Sequence[Masks]) -> Masks: ...
    def take(self, rows: NDArray[Any]) -> Masks: ...
    def with_boundary(self, ratio: float) -> Masks: ...
    def pixels(self, row: int) -> Any: ...
    @property
    def counts(self) -> Any: ...
    @property
    def start(self) -> Any: ...
    @property
    def sizes(self) -> Any: ...
    @property
    def area(self) -> Any: ...
    @property
    def box(self) -> Any: ...

class OrientedFormat(enum.Enum):
    corners = 0

    radians = 1

    degrees = 2

    radians_ccw = 3

    degrees_ccw = 4

class OrientedFault(enum.Enum):
    none = 0

    not_finite = 1

    negative_size = 2

    large_side = 3

    large_angle = 4

    self_crossing = 5

    not_convex = 6

class OrientedBoxes(Geometry):
    def __init__(self, box: NDArray[Any], box_format: OrientedFormat, is_probabilistic: bool) -> None: ...
    def find_fault(self, largest: float) -> tuple[Any, ...]: ...
    def faults(self, largest: float) -> Any: ...
    def measured(self) -> Any: ...
    def gaussians(self) -> Any: ...
    def rectangles(self) -> Any: ...

def rle_encode(pixels: NDArray[Any], height: int, width: int, num: int) -> list[Any]: ...
def rle_decode(masks: Any | None) -> Any: ...
def rle_merge(masks: Any | None, is_intersection: bool) -> dict[str, Any]: ...
def rle_areas(masks: Any | None) -> Any: ...
def rle_boxes(masks: Any | None) -> Any: ...
def rle_compare(detections: Any, truths: Any, is_crowd: NDArray[Any]) -> Any: ...
def rle_from_polygons(polygons: Sequence[NDArray[Any]], height: Any, width: Any) -> list[Any]: ...
def rle_from_counts(counts: NDArray[Any], height: Any, width: Any) -> dict[str, Any]: ...

class CocoError(ValueError):
    pass

class CocoShapes(enum.Enum):
    boxes = 0

    masks = 1

    keypoints = 2

    corners = 3

    turned_boxes = 4

class CocoScore(enum.Enum):
    score = 0

    wholebody_score = 1

    foot_score = 2

    face_score = 3

    lefthand_score = 4

    righthand_score = 5

class CocoSegmentations:
    @property
    def has_polygons(self) -> bool: ...
    def polygons(self) -> Any: ...
    def draw(self, sizes: NDArray[Any], num_threads: int) -> Masks: ...

class CocoKeypoints:
    @property
    def point(self) -> Any: ...
    @property
    def third(self) -> Any: ...
    @property
    def around(self) -> Any: ...
    @property
    def num_labelled(self) -> Any: ...

class CocoBoxes:
    @property
    def image(self) -> Any: ...
    @property
    def image_names(self) -> Any: ...
    @property
    def category(self) -> Any: ...
    @property
    def box(self) -> Any: ...
    @property
    def mask_area(self) -> Any: ...
    @property
    def score(self) -> Any: ...
    @property
    def area(self) -> Any: ...
    @property
    def is_crowd(self) -> Any: ...
    @property
    def id(self) -> Any: ...
    @property
    def segmentations(self) -> Any: ...
    @property
    def keypoints(self) -> Any: ...
    @property
    def oriented(self) -> Any: ...
    @property
    def num_flagged(self) -> int: ...

class CocoImages:
    @property
    def id(self) -> Any: ...
    @property
    def names(self) -> Any: ...
    @property
    def file_name(self) -> Any: ...
    @property
    def width(self) -> Any: ...
    @property
    def height(self) -> Any: ...
    @property
    def crowd_index(self) -> Any: ...

class CocoCategories:
    @property
    def id(self) -> Any: ...
    @property
    def name(self) -> Any: ...

class CocoFile:
    @property
    def is_dataset(self) -> bool: ...
    @property
    def has_annotations(self) -> bool: ...
    @property
    def boxes(self) -> CocoBoxes: ...
    @property
    def images(self) -> CocoImages | None: ...
    @property
    def categories(self) -> CocoCategories | None: ...

class IouType(enum.Enum):
    bbox = 0

    segm = 1

    boundary = 2

    keypoints = 3

class ShapeRules:
    def __init__(
        self,
        iou_types: Sequence[IouType],
        largest: float,
        is_inclusive: bool,
        ignored_kind: int,
        boundary_ratio: float,
        sigmas: Sequence[float],
    ) -> None: ...

class PlainResult:
    @property
    def name(self) -> list[str]: ...
    @property
    def numbers(self) -> list[float]: ...
    @property
    def ap(self) -> list[float]: ...
    @property
    def ar(self) -> list[float]: ...
    @property
    def label(self) -> list[int]: ...
    @property
    def num_truths(self) -> list[int]: ...
    @property
    def num_detections(self) -> list[int]: ...
    @property
    def num_read(self) -> int: ...
    @property
    def ap_at(self) -> list[float]: ...
    @property
    def num_true(self) -> list[int]: ...
    @property
    def num_false(self) -> list[int]: ...

def read_coco_file(
    path: bytes,
    num_threads: int,
    chunk_size: int = 262144,
    shapes: CocoShapes = CocoShapes.boxes,
    compared: tuple[NDArray[Any], NDArray[Any]] | None = None,
    score: CocoScore = CocoScore.score,
    keeps_third: bool = True,
) -> CocoFile: ...
def read_coco_bytes(
    content: Any,
    num_threads: int,
    chunk_size: int = 262144,
    shapes: CocoShapes = CocoShapes.boxes,
    compared: tuple[NDArray[Any], NDArray[Any]] | None = None,
    score: CocoScore = CocoScore.score,
    keeps_third: bool = True,
) -> CocoFile: ...
def evaluate_coco_files(
    truths: bytes,
    detections: Sequence[bytes],
    rules: Rules,
    measures: Sequence[Measure],
    shapes: ShapeRules,
    num_threads: int,
) -> Any: ...

class ImageGroups:
    def __init__(self, start: NDArray[Any], truth_start: NDArray[Any]) -> None: ...

class GroupedDetections:
    def __init__(self, area: NDArray[Any], id: NDArray[Any]) -> None: ...

class GroupedTruths:
    def __init__(
        self, area: NDArray[Any], id: NDArray[Any], is_ignored: NDArray[Any], is_crowd: NDArray[Any]
    ) -> None: ...

class AssignmentRules:
    def __init__(self, thresholds: Sequence[float], area_low: Sequence[float], area_high: Sequence[float]) -> None: ...

class Assignments:
    @property
    def match(self) -> Any: ...
    @property
    def is_ignored(self) -> Any: ...
    @property
    def truth_match(self) -> Any: ...
    @property
    def is_truth_ignored(self) -> Any: ...
    @property
    def truth_order(self) -> Any: ...

def overlaps(
    groups: ImageGroups, box: NDArray[Any], truth_box: NDArray[Any], is_crowd: NDArray[Any], num_threads: int
) -> Any: ...
def similarities(
    groups: ImageGroups, detections: Geometry, truths: Geometry, is_crowd: NDArray[Any], num_threads: int
) -> Any: ...
def assign(
    groups: ImageGroups,
    overlap: NDArray[Any],
    detections: GroupedDetections,
    truths: GroupedTruths,
    rules: AssignmentRules,
    num_threads: int,
) -> Assignments: ...
def measure_annotations(detections: Any, truths: Any, overlap: Any) -> bool: ...
def match_annotations(
    detections: Any, truths: Any, overlap: Any | None, rules: tuple[Any, ...], out: tuple[Any, ...]
) -> Any: ...
def bootstrap(
    tally: Tally,
    images: NDArray[Any],
    rules: Rules,
    measures: Sequence[Measure],
    is_weighted: bool,
    seed: int,
    num_resamples: int,
    num_threads: int,
    max_lanes: int = 8,
) -> tuple[Any, ...]: ...
def draw_images(num_images: int, seed: int, resample: int) -> Any: ...
