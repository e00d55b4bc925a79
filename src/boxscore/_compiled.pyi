# Made by `make stubs`, not by hand.
"""The compiled engine: places, matching, curves."""

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
    def is_inclusive(self) -> bool: ...
    @is_inclusive.setter
    def is_inclusive(self, arg: bool, /) -> None: ...
    @property
    def is_crowd(self) -> bool: ...
    @is_crowd.setter
    def is_crowd(self, arg: bool, /) -> None: ...
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

class Side:
    def __init__(
        self, image: NDArray[Any], label: NDArray[Any], box: NDArray[Any], box_format: BoxFormat, is_used: NDArray[Any]
    ) -> None: ...

def find_nearest(detections: Side, truths: Side, is_inclusive: bool, num_threads: int) -> tuple[Any, ...]: ...
def match_across(detections: Side, score: NDArray[Any], truths: Side, rules: Rules, num_threads: int) -> Any: ...

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
def match(
    image: NDArray[Any],
    label: NDArray[Any],
    score: NDArray[Any],
    box: NDArray[Any],
    box_format: BoxFormat,
    truth_image: NDArray[Any],
    truth_label: NDArray[Any],
    truth_box: NDArray[Any],
    truth_box_format: BoxFormat,
    area: NDArray[Any] | None,
    ignore: NDArray[Any] | None,
    named: NDArray[Any],
    rules: Rules,
    num_threads: int,
    is_paired: bool = False,
) -> Any: ...
def match_images(
    image_ids: Any,
    box: Any,
    score: Any,
    label: Any,
    num_rows: Sequence[int],
    truth_box: Any,
    truth_label: Any,
    area: Any | None,
    ignore: Any | None,
    truth_num_rows: Sequence[int],
    box_format: BoxFormat,
    largest: float,
    named: Any | None,
    rules: Rules,
    num_threads: int,
) -> Any: ...

class CocoError(ValueError):
    pass

def read_coco_file(path: bytes, num_threads: int, chunk_size: int = 262144) -> dict[str, Any]: ...
def read_coco_bytes(content: Any, num_threads: int, chunk_size: int = 262144) -> dict[str, Any]: ...
def evaluate_coco_files(
    truths: bytes,
    detections: Sequence[bytes],
    rules: Rules,
    measures: Sequence[Measure],
    largest: float,
    num_threads: int,
) -> Any: ...
def overlaps(
    box: NDArray[Any],
    truth_box: NDArray[Any],
    is_crowd: NDArray[Any],
    start: NDArray[Any],
    truth_start: NDArray[Any],
    num_threads: int,
) -> Any: ...
def assign(
    overlap: NDArray[Any],
    start: NDArray[Any],
    truth_start: NDArray[Any],
    area: NDArray[Any],
    id: NDArray[Any],
    truth_area: NDArray[Any],
    truth_id: NDArray[Any],
    is_ignored: NDArray[Any],
    is_crowd: NDArray[Any],
    thresholds: Sequence[float],
    area_low: Sequence[float],
    area_high: Sequence[float],
    num_threads: int,
) -> tuple[Any, ...]: ...
def measure_annotations(found: Any, truths: Any, overlap: Any) -> bool: ...
def assign_annotations(
    found: Any,
    truths: Any,
    overlap: Any | None,
    thresholds: Any,
    low: Any | None,
    high: Any | None,
    limit: int,
    match: Any,
    truth_match: Any,
    is_ignored: Any,
    is_truth_ignored: Any,
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
