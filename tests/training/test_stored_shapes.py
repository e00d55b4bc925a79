"""The shapes that a metric keeps as bytes: blocks of several updates, and damaged ones."""

import numpy as np
import pytest

from boxscore import Detections, InputError, Truths
from boxscore.training.stored_shapes import StoredShapes, pack

FOUND = Detections(image_ids=[0], labels=[1], scores=[0.5], boxes=[[1, 2, 3, 4]], box_format="xywh")
TRUTHS = Truths(
    image_ids=[0, 1], labels=[1, 2], boxes=[[1, 2, 3, 4], [5, 6, 7, 8]], box_format="xywh", ignore=[True, False]
)
CONTENT = pack(FOUND, TRUTHS, [0, 1])


def test_blocks_are_concatenated() -> None:
    """Images of the second update are counted on, or left out where an id was seen before."""
    both = StoredShapes.unpack(CONTENT + CONTENT, unique_images=False)
    assert both.ids.tolist() == [0, 1, 2, 3]
    assert both.truths["image"].tolist() == [0, 1, 2, 3]
    assert both.truths["area"].tolist() == [12, 56, 12, 56]
    assert np.array_equal(both.detections["box"], [[1, 2, 3, 4]] * 2)
    assert len(StoredShapes.unpack(CONTENT + CONTENT, unique_images=True).truths) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1], "the state of shapes is truncated: got "),
        (CONTENT[:200] + b"?" + CONTENT[201:], "the checksum of the state of shapes does not match"),
        (CONTENT + b"x", "not a boxscore state of shapes, or one of another version"),
    ],
)
def test_damaged_states_are_refused(content: bytes, message: str) -> None:
    """By the name of the state."""
    with pytest.raises(InputError, match=f"^the state of the metric: {message}"):
        StoredShapes.unpack(content, unique_images=False)
