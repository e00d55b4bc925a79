"""Ultralytics' validators and trainers with COCO's numbers, in `boxscore.training.ultralytics`, and its results."""

from boxscore._support.versions import framework_imports
from boxscore.formats.ultralytics_results import from_ultralytics

with framework_imports("boxscore.ultralytics", "ultralytics"):
    from boxscore.training.ultralytics import (
        DetectionTrainer,
        DetectionValidator,
        OBBTrainer,
        OBBValidator,
        PoseTrainer,
        PoseValidator,
        SegmentationTrainer,
        SegmentationValidator,
    )

__all__ = [
    "DetectionTrainer",
    "DetectionValidator",
    "OBBTrainer",
    "OBBValidator",
    "PoseTrainer",
    "PoseValidator",
    "SegmentationTrainer",
    "SegmentationValidator",
    "from_ultralytics",
]
