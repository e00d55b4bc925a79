"""The table of geometries: one line per geometry, in the order in which rows with several of them are read."""

from collections.abc import Iterable
from typing import TypeVar

from boxscore._support.exceptions import InputError
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.keypoints import Keypoints
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.protocol.protocol import IOU_TYPES, iou_types_of

Kind = TypeVar("Kind", bound=type[Geometry])

GEOMETRIES: list[type[Geometry]] = [
    Boxes,
    OrientedBoxes,
    Masks,
    Keypoints,
]
"""All geometries: the own ones, registered ones, and geometries of installed packages that were asked for."""

_NUM_OWN = len(GEOMETRIES)

ENTRY_POINTS = "boxscore.geometries"
"""The group of entry points by which an installed package offers geometries."""


def register(kind: Kind) -> Kind:
    """Add a geometry to the table. It can decorate the class.

    Args:
        kind: The geometry.

    Raises:
        InputError: Another geometry has one of its similarities.
    """
    for known in GEOMETRIES:
        shared = {*known.iou_types} & {*kind.iou_types}
        is_same = (known.__module__, known.__qualname__) == (kind.__module__, kind.__qualname__)
        if shared and not is_same:
            raise InputError(f"`iou_type` {min(shared)!r} of {kind.plural} is known already, for {known.plural}")
    GEOMETRIES[:] = [known for known in GEOMETRIES if {*known.iou_types}.isdisjoint(kind.iou_types)] + [kind]
    return kind


def kind_of(iou_type: str) -> type[Geometry]:
    """The geometry that has a similarity.

    Args:
        iou_type: The similarity, a value of `Protocol.iou_type`.

    Raises:
        InputError: No geometry has it.

    >>> kind_of("obb").plural
    'oriented boxes'
    """
    for kind in GEOMETRIES:
        if iou_type in kind.iou_types:
            return kind
    (name,) = as_iou_types(iou_type)
    return next(kind for kind in GEOMETRIES if name in kind.iou_types)


def as_iou_types(value: object) -> tuple[str, ...]:
    """A tuple of one similarity or several that geometries have.

    Args:
        value: A name, or a tuple or list of names.

    Raises:
        InputError: If `value` is anything else.
    """
    names = [value] if isinstance(value, str) else value if isinstance(value, tuple | list) else []
    if not {*_known()}.issuperset(name for name in names if isinstance(name, str)):
        from importlib.metadata import entry_points  # slow to import

        for each in entry_points(group=ENTRY_POINTS):
            register(each.load())
    return iou_types_of(value, _known())


def _known() -> list[str]:
    """All similarities, boxscore's own first."""
    return list(dict.fromkeys((*IOU_TYPES, *(name for kind in GEOMETRIES for name in kind.iou_types))))


def registered_keys() -> set[str]:
    """The keys of arrays of geometries that boxscore does not have itself."""
    others = GEOMETRIES[_NUM_OWN:]
    return {key for kind in others for key in (kind.key, *kind.detection_keys, *kind.truth_keys)} - {"boxes"}


def kinds_of(iou_types: Iterable[str]) -> list[type[Geometry]]:
    """The geometries of some similarities, each once, in the order of the table.

    >>> [kind.plural for kind in kinds_of(("segm", "boundary", "bbox"))]
    ['boxes', 'masks']
    """
    kinds = {kind_of(each) for each in dict.fromkeys(iou_types)}
    return [kind for kind in GEOMETRIES if kind in kinds]
