"""Files to columns: one module a format, and the table of them."""

from pathlib import Path

from boxscore.columns import Detections, Truths
from boxscore.errors import InputError
from boxscore.formats import coco, voc


def read_truths(path: str | Path) -> Truths:
    """The truths in a COCO JSON file, or in a folder or zip of PASCAL VOC annotations."""
    path = _existing(path)
    return coco.read_truths(path) if path.suffix == ".json" else voc.read_truths(path)


def read_detections(path: str | Path, truths: Truths) -> Detections:
    """The detections in a COCO results file, or in a folder of PASCAL VOC results, for the images of `truths`."""
    path = _existing(path)
    return coco.read_detections(path, truths) if path.suffix == ".json" else voc.read_detections(path, truths)


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    return path
