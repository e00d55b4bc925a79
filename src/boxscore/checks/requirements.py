"""Check that the ground truth has the data that a protocol needs beyond boxes; errors name the commands' options."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from boxscore._support.exceptions import InputError
from boxscore._support.text import count
from boxscore.data.dataset import Truths
from boxscore.formats.image_sizes import read_sizes
from boxscore.formats.joining import sizes_by_id
from boxscore.formats.records import Sizes
from boxscore.formats.registry import detect
from boxscore.protocol.protocol import GROUP, Protocol


def sizes_of_detections(detections: Sequence[str | Path], name: str | None = None) -> Sizes:
    """Read image sizes by name from detections in CrowdHuman's format. `name`: the format of the files, if given."""
    sizes: dict[str, tuple[int, int]] = {}
    for path in detections:
        if (name or detect(path, "detections")) == "odgt":
            sizes = {**(read_sizes(path) or {}), **sizes}
    return sizes


def ready_truths(
    truths: Truths, path: str, protocol: Protocol, detections: Sequence[str], name: str | None = None
) -> Truths:
    """Complete the truths with the data that a protocol needs.

    Args:
        truths: The truths as they were read.
        path: Their file, for errors.
        protocol: The rules of the evaluation.
        detections: Files of detections; if boxes are clipped to images, CrowdHuman's files may give the sizes.
        name: The format of these files, if given.

    Raises:
        InputError: If data is missing; the message names the option that provides it.
    """
    if protocol.clips_boxes:
        own = truths.image_sizes or {}
        if not all(image in own for image in truths.image_names or set(truths.image_ids.tolist())):
            sizes = sizes_of_detections(detections, name)
            known = sizes_by_id(None, sizes, truths.image_names, is_numbered=truths.is_numbered)
            truths = replace(truths, image_sizes={**known, **own})
    check_requirements(truths, path, protocol)
    return truths


def check_requirements(truths: Truths, path: str, protocol: Protocol) -> None:
    """Raise `InputError` if truths lack data that a protocol needs; it names their file and the option for the data."""
    _check_groups(truths, path, protocol)
    if protocol.federated and truths.coverage is None:
        raise InputError(f"{path}: {_without_coverage(protocol)}")
    if protocol.clips_boxes:
        _check_sizes(truths, path, protocol)


def _check_groups(truths: Truths, path: str, protocol: Protocol) -> None:
    if truths.kind is None or protocol.group_of_weight is not None:
        return
    num = int((truths.kind == GROUP).sum())
    if num:
        raise InputError(
            f"{path}: has {count(num, 'group')} of objects (`IsGroupOf` of Open Images), for which protocol"
            f" {protocol.name} has no rule: evaluate with --protocol openimages, or leave these rows out"
        )


def _without_coverage(protocol: Protocol) -> str:
    """Error text about missing coverage; the protocol's usual source of it comes first."""
    rule = f"protocol {protocol.name} counts a class only in images where it was verified"
    lists, labels = "LVIS' JSON has `neg_category_ids`", "--image-labels reads Open Images' verified labels"
    if protocol.class_groups:
        return f"this is not an LVIS file: its images have no `neg_category_ids`; {rule}; {labels}"
    return f"{rule}, and the file does not say where: {labels}; {lists}"


def _check_sizes(truths: Truths, path: str, protocol: Protocol) -> None:
    known = truths.image_sizes or {}
    if unknown := [image for image in np.unique(truths.image_ids).tolist() if image not in known]:
        name = (truths.image_names or {}).get(unknown[0], unknown[0])
        raise InputError(
            f"{path}: protocol {protocol.name} clips boxes to their images, and the size of image {name!r} is"
            " unknown; give --sizes, a list (name,width,height) or the folder of the images"
        )
