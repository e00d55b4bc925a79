"""The table of geometries: one line per geometry, in the order in which rows with several of them are read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from boxscore._support.exceptions import InputError
from boxscore.arrays import Array
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat, check_box_format, is_oriented
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


def geometries_of(
    geometry: Geometry | None, others: Sequence[Geometry], written: Mapping[str, Any], *, is_truth: bool, area: Any
) -> list[Geometry]:
    """Build the geometries from the arguments of a constructor, the main one first.

    Args:
        geometry: The main geometry, if given as such.
        others: Other geometries of the same rows.
        written: The arguments by the keys of geometries, and `box_format`; None: not given.
        is_truth: Whether the rows are truths.
        area: The areas of the rows, or None.
    """
    for name, each in (("geometry", geometry), *(("geometry", other) for other in others)):
        if each is not None and not isinstance(each, Geometry):
            raise InputError(f"`{name}` must be a boxscore.data.geometry.Geometry; got {type(each).__name__}")
    given = {name: value for name, value in written.items() if value is not None}
    _check_arguments(given, is_truth=is_truth)
    made: list[Geometry] = []
    if geometry is not None:
        made.append(geometry)
        for name in given:
            raise InputError(f"`geometry` and `{name}` must not both be given; boxes are `geometry=Boxes(boxes=…)`")
    if "boxes" in given:
        made.append(boxes_of(given["boxes"], given.get("box_format", "xyxy")))
    shapes = [kind for kind in GEOMETRIES if kind.key in given and not kind.is_box]
    made += [kind.from_written(given, is_truth=is_truth, area=area) for kind in shapes]
    if not made:
        raise InputError("`boxes`, `masks` or `keypoints` must be given; got none of them")
    return [each.for_side(is_truth=is_truth) for each in (*made, *others)]


def _check_arguments(given: Mapping[str, Any], *, is_truth: bool) -> None:
    """Raise an error for an argument that no geometry has, or that is given without its shapes."""
    keys = dict.fromkeys(kind.key for kind in GEOMETRIES)
    for name in given:
        if name in keys or name == "box_format":
            continue
        kinds = [kind for kind in GEOMETRIES if name in (kind.truth_keys if is_truth else kind.detection_keys)]
        if not kinds:
            raise InputError(f"`shapes` must have keys of geometries, {', '.join(keys)}; got {name!r}")
        if not any(kind.key in given for kind in kinds):
            key = kinds[0].key
            raise InputError(f"`{name}` must be given with `{key}`; got no {key}")


def boxes_of(box: Array, box_format: BoxFormat) -> Boxes | OrientedBoxes:
    """Make upright or oriented boxes, depending on the format."""
    check_box_format(box_format)
    if is_oriented(box_format):
        return OrientedBoxes(boxes=box, box_format=box_format)
    return Boxes(boxes=box, box_format=box_format)
