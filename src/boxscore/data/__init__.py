"""Detections and truths: the two tables that every reader makes, and their preparation for matching."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.data.coverage import Coverage as Coverage
    from boxscore.data.dataset import Detections as Detections
    from boxscore.data.dataset import Truths as Truths
    from boxscore.data.geometry.keypoints import Keypoints as Keypoints
    from boxscore.data.geometry.masks import Masks as Masks
    from boxscore.data.geometry.oriented_boxes import OrientedBoxes as OrientedBoxes

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "coverage": "Coverage",
        "dataset": "Detections Truths",
        "geometry.keypoints": "Keypoints",
        "geometry.masks": "Masks",
        "geometry.oriented_boxes": "OrientedBoxes",
    },
)
