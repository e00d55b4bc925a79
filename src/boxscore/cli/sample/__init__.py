"""A small sample: 40 made-up street scenes with four classes, in COCO's file formats.

`examples/make_sample.py` made it.
"""

from pathlib import Path

from boxscore.data.dataset import Detections, Truths
from boxscore.formats import read_detections, read_truths

FOLDER = Path(__file__).parent


def load() -> tuple[Detections, Truths]:
    """Load the detections and the truths of the sample.

    >>> load()
    (Detections(356 boxes in 40 images, numpy), Truths(222 boxes in 40 images, numpy))
    """
    truths = read_truths(FOLDER / "truths.json")
    return read_detections(FOLDER / "detections.json", truths), truths
