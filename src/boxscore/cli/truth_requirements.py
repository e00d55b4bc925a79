"""What a protocol asks of the ground truth, in the words of the command's options."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.model.protocol import GROUP, Protocol

if TYPE_CHECKING:
    from boxscore.model.dataset import Truths


def ready_truths(
    truths: "Truths", options: argparse.Namespace, protocol: Protocol, detections: Sequence[str]
) -> "Truths":
    """The truths with all that a protocol asks for; an error names the option that would give it.

    Sizes of images that boxes are clipped to may come from CrowdHuman's files of detections.
    """
    _check_groups(truths, options.truths, protocol)
    if protocol.federated and truths.coverage is None:
        raise InputError(
            f"{options.truths}: protocol {protocol.name} counts a class only in images where it was looked for, and"
            " the file does not say where: --image-labels reads Open Images' verified labels; LVIS' JSON has"
            " `neg_category_ids`"
        )
    return _with_sizes(truths, options, protocol, detections) if protocol.clips_boxes else truths


def _check_groups(truths: "Truths", path: str, protocol: Protocol) -> None:
    if truths.kind is None or protocol.group_of_weight is not None:
        return
    num = int((truths.kind == GROUP).sum())
    if num:
        raise InputError(
            f"{path}: has {count(num, 'group')} of objects (`IsGroupOf` of Open Images), for which protocol"
            f" {protocol.name} has no rule: evaluate with --protocol openimages, or leave these rows out"
        )


def _with_sizes(
    truths: "Truths", options: argparse.Namespace, protocol: Protocol, detections: Sequence[str]
) -> "Truths":
    import numpy as np

    from boxscore.formats import detect
    from boxscore.formats.image_sizes import read_sizes
    from boxscore.formats.joining import sizes_by_id

    known = dict(truths.image_sizes or {})
    listed = truths.image_names or np.unique(truths.image).tolist()
    for path in detections:
        is_known = all(image in known for image in listed)
        if not is_known and (options.dt_format or detect(path, "detections")) == "odgt":
            known = sizes_by_id(None, read_sizes(path), truths.image_names, is_numbered=truths.is_numbered) | known
    if unknown := [image for image in np.unique(truths.image).tolist() if image not in known]:
        name = (truths.image_names or {}).get(unknown[0], unknown[0])
        raise InputError(
            f"{options.truths}: protocol {protocol.name} clips boxes to their images, and the size of image {name!r} is"
            " unknown; give --sizes, a list (name,width,height) or the folder of the images"
        )
    return replace(truths, image_sizes=known)
