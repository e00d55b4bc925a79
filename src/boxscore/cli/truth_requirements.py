"""The ground truth with all that a protocol asks for."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from boxscore.protocol.protocol import Protocol

if TYPE_CHECKING:
    from boxscore.data.dataset import Truths


def ready_truths(
    truths: "Truths", options: argparse.Namespace, protocol: Protocol, detections: Sequence[str]
) -> "Truths":
    """The truths with all that a protocol asks for; an error names the option that would give it.

    Sizes of images that boxes are clipped to may come from CrowdHuman's files of detections.
    """
    from boxscore.checks.requirements import check_requirements, sizes_of_detections, with_sizes

    if protocol.clips_boxes:
        listed = truths.image_names or set(truths.image.tolist())
        if not all(image in (truths.image_sizes or {}) for image in listed):
            truths = with_sizes(truths, sizes_of_detections(detections, options.dt_format))
    check_requirements(truths, options.truths, protocol)
    return truths
