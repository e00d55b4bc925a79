"""Post-processing: masks that equal what the sequential methods discard."""

import tracemalloc

import numpy as np
import pytest

from boxscore import parallel, sequential
from boxscore.engines.parallel import postprocessing


@pytest.fixture(params=["at once", "in tiles"])
def few_pairs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of boxes at once; or so few at a time that there are many windows and tiles."""
    if request.param == "in tiles":
        monkeypatch.setattr(postprocessing, "PAIRS_PER_TILE", 200)
        monkeypatch.setattr(postprocessing, "LEAST_WINDOW", 7)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("is_by_class", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_nms_equals_the_greedy_loop(seed: int, is_by_class: bool, threshold: float, few_pairs: None) -> None:
    """For every image of a batch, with ties in score and IoU, and padding."""
    random = np.random.default_rng(seed)
    num_images, num_boxes = 6, 40
    corner = random.integers(0, 30, (num_images, num_boxes, 2))
    box = np.concatenate([corner, corner + random.integers(0, 25, corner.shape)], axis=2).astype(float)
    score = random.integers(0, 12, (num_images, num_boxes)) / 12
    label = random.integers(0, 3, (num_images, num_boxes))
    padding = np.arange(num_boxes) >= random.integers(0, num_boxes + 1, num_images)[:, None]
    discarded = parallel.discard_overlapping(
        box, score, threshold, label=label if is_by_class else None, discarded=padding
    )
    for image, is_real in enumerate(~padding):
        of_class = label[image][is_real].tolist() if is_by_class else None
        real_box, real_score = box[image][is_real].tolist(), score[image][is_real].tolist()
        expected = sequential.suppress(real_box, real_score, threshold, label=of_class)
        assert discarded[image][is_real].tolist() == expected
        assert discarded[image][~is_real].all()


def test_nms_of_a_yolo_head_takes_less_memory_than_one_column_of_its_pairs() -> None:
    """8,400 boxes around 50 objects: one column of all pairs would take 564 MB."""
    random = np.random.default_rng(0)
    middle = random.uniform(0, 640, (50, 2))[random.integers(0, 50, 8400)] + random.normal(0, 2, (8400, 2))
    size = random.uniform(40, 48, (8400, 2))
    box = np.concatenate([middle - size / 2, middle + size / 2], axis=1)
    score = random.integers(0, 1000, 8400) / 1000
    tracemalloc.start()
    discarded = parallel.discard_overlapping(box[None], score[None], 0.4)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    assert discarded.tolist() == sequential.suppress(box.tolist(), score.tolist(), 0.4)


def test_nms_of_no_boxes() -> None:
    """A batch of images without detections."""
    assert parallel.discard_overlapping(np.zeros((2, 0, 4)), np.zeros((2, 0)), 0.5).shape == (2, 0)


def test_a_chain_of_boxes_is_settled_link_by_link(few_pairs: None) -> None:
    """Each box overlaps only its neighbours, so every other one stays: as many rounds as boxes."""
    left = np.arange(101.0)
    box = np.stack([left, np.zeros(101), left + 2.5, np.ones(101)], axis=1)[None]
    discarded = parallel.discard_overlapping(box, -left[None], 0.4)  # neighbours: 1.5 of 3.5; next but one: 0.5 of 4.5
    assert discarded[0].tolist() == [bool(place % 2) for place in range(101)]


def test_masks_chain() -> None:
    """What is discarded already neither suppresses nor takes a place among the best."""
    box = np.array([[[0.0, 0, 10, 10], [0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]]])
    score = np.array([[0.9, 0.8, 0.7, 0.05]])
    discarded = parallel.discard_below(score, 0.1, discarded=np.array([[True, False, False, False]]))
    assert discarded.tolist() == [[True, False, False, True]]
    discarded = parallel.discard_overlapping(box, score, 0.5, discarded=discarded)
    assert discarded.tolist() == [[True, False, False, True]]
    assert parallel.discard_beyond_top(score, 1, discarded=discarded).tolist() == [[True, False, True, True]]


def test_top_k_counts_by_class_if_given_labels() -> None:
    """One of each class; of equal scores the first."""
    score, label = np.array([[0.5, 0.5, 0.9, 0.1]]), np.array([[1, 1, 2, 2]])
    assert parallel.discard_beyond_top(score, 1, label=label).tolist() == [[False, True, False, True]]


def test_pad_truths_with_room_to_spare() -> None:
    """A fixed length, for a jit that must not compile anew for each batch; nothing is cut off."""
    boxes, labels = [np.ones((2, 4)), np.ones((0, 4))], [np.array([3, 5]), np.array([], int)]
    padded = parallel.pad_truths(boxes, labels, [np.array([False, True]), np.array([], bool)], num_truths=3)
    assert padded.labels.tolist() == [[3, 5, -1], [-1, -1, -1]]
    assert padded.ignore.tolist() == [[False, True, True], [True, True, True]]
    assert padded.boxes.shape == (2, 3, 4)
    with pytest.raises(ValueError, match="`num_truths` must be at least 2, the most truths of an image; got 1"):
        parallel.pad_truths(boxes, labels, num_truths=1)
