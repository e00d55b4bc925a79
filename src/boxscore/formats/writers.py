"""Shared parts of writers: columns in host memory, checks of file names, and losses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import stem_of
from boxscore._support.text import count
from boxscore.arrays import to_numpy
from boxscore.data.dataset import IGNORED_KINDS, Detections, Kind, Truths, host_ids
from boxscore.data.geometry import Geometry
from boxscore.data.geometry.box_formats import BoxFormat
from boxscore.data.geometry.boxes import Boxes, sizes, to_xywh, to_xyxy
from boxscore.data.geometry.masks import Masks
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from boxscore.formats.records import Floats, Ids
from boxscore.formats.registry import Format
from boxscore.formats.tables import WRITTEN_BOXES
from boxscore.protocol.protocol import GROUP


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A kind of data that is missing in the written file, or changed.

    >>> print(Loss(num=12, what="ignore flag"))
    12 ignore flags are lost
    """

    num: int
    what: str
    plural: str | None = None
    fate: tuple[str, str] = ("is lost", "are lost")
    """The verb phrase of the message, singular and plural."""

    def __str__(self) -> str:
        return f"{count(self.num, self.what, self.plural)} {self.fate[self.num != 1]}"


def without_kinds(truths: Truths, to: Format) -> tuple[Truths, list[Loss]]:
    """Remove the kinds, the coverage and the class groups that a format does not have; return truths and losses.

    A format without kinds has `ignore` for both difficult and crowd.
    """
    losses = []
    if truths.kind is not None and not to.has_kinds:
        kind = to_numpy(truths.kind)
        losses.append(Loss(num=int(np.isin(kind, IGNORED_KINDS).sum()), what="truth kind"))
        num_groups = 0 if to.has_groups else int((kind == GROUP).sum())
        fate = "becomes a regular truth", "become regular truths"
        losses.append(Loss(num=num_groups, what="group (IsGroupOf)", plural="groups (IsGroupOf)", fate=fate))
        if not to.has_groups:
            truths = replace(truths, kind=None, ignore=np.isin(kind, IGNORED_KINDS))
    if not to.has_coverage:
        num_rows = 0 if truths.coverage is None else len(truths.coverage.labels)
        num_groups = len(truths.class_groups or ())
        losses.append(Loss(num=num_rows, what="coverage row"))
        losses.append(Loss(num=num_groups, what="group of a class", plural="groups of classes"))
        truths = replace(truths, coverage=None, class_groups=None)
    return truths, losses


def number(value: float) -> str:
    """The shortest decimal that reads back as the same number; integers without a point.

    >>> number(48.0), number(0.1)
    ('48', '0.1')
    """
    return repr(value).removesuffix(".0")


ANGLES = "angle of a box that has corners now"
_PLURALS = {
    ANGLES: "angles of boxes that have corners now",
    "crowd index": "crowd indices",
    "image without boxes": "images without boxes",
    "class without boxes": "classes without boxes",
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Host:
    """Columns in host memory as float64, with the names and sizes of the truths."""

    image: Ids
    label: Ids
    box: Floats
    box_format: BoxFormat
    shapes: Sequence[Geometry]
    """Other shapes than upright boxes."""
    has_boxes: bool
    """Whether boxes were given; if not, `box` has the boxes around other shapes."""
    score: Floats | None
    ignore: NDArray[np.bool_] | None
    truncated: NDArray[np.bool_] | None
    area: Floats | None
    image_names: Mapping[int, str]
    class_names: Mapping[int, str] | None
    sizes: Mapping[int, tuple[int, int]]
    crowd_index: Mapping[int, float]
    is_numbered: bool
    """Whether image ids were assigned by boxscore, and so are not written."""
    empty_images: Sequence[int]
    """Images without boxes."""
    empty_classes: Sequence[int]
    """Classes without boxes."""

    @classmethod
    def of(cls, columns: Detections | Truths, truths: Truths | None = None) -> "Host":
        """Copy columns to host memory; `truths` gives the names and sizes for detections."""
        columns_are_truths = isinstance(columns, Truths)
        named = columns if isinstance(columns, Truths) else truths
        if not isinstance(named, Truths):
            raise InputError(f"`truths` must be boxscore.Truths; got {type(named).__name__}")
        shapes = [each for each in columns.geometries if not isinstance(each, Boxes)]
        has_boxes = any(each.is_box for each in columns.geometries)
        if len(shapes) == len(columns.geometries):
            # Files have boxes; if only other shapes were given, write the boxes around them.
            around = Boxes(boxes=to_numpy(columns.geometry.outer_boxes()))
            own = next((boxes for each in shapes if (boxes := each.own_boxes()) is not None), None)
            if own is not None and not has_boxes:
                around, has_boxes = Boxes(boxes=to_numpy(own[0]), box_format=own[1]), True
            columns = replace(columns, geometry=around, _others=tuple(shapes))
        image, label = host_ids(columns.image_ids), host_ids(columns.labels)
        seen_images, seen_labels = set(np.unique(image).tolist()), set(np.unique(label).tolist())
        names = dict(named.image_names or {})
        classes = named.names_by_label
        if unknown := sorted(seen_images - set(names)) if names else []:
            raise InputError(f"image {unknown[0]} is not among those of the truths")
        if classes is not None and (unnamed := sorted(seen_labels - set(classes))):
            raise InputError(f"label {unnamed[0]} is not among those of the truths")

        def floats(name: str) -> Any:
            column = getattr(columns, name, None)
            return None if column is None else to_numpy(column).astype(np.float64, copy=False)

        def flags(name: str) -> Any:
            column = getattr(columns, name, None)
            return None if column is None else to_numpy(column).astype(bool)

        for key, name in (classes or {}).items():
            check_text(name, f"the name of class {key}")
        for key, name in names.items():
            check_text(name, f"the name of image {key}")
        return cls(
            image=image,
            label=label,
            box=floats("boxes").reshape(-1, 4),
            box_format=columns.box_format,
            shapes=shapes,
            has_boxes=has_boxes,
            score=floats("scores"),
            ignore=flags("ignore"),
            truncated=flags("truncated"),
            area=floats("area"),
            image_names=names,
            class_names=classes,
            sizes=dict(named.image_sizes or {}),
            crowd_index=dict((named.crowd_index if columns_are_truths else None) or {}),
            is_numbered=named.is_numbered,
            empty_images=[number for number in names if number not in seen_images],
            empty_classes=[label for label in classes or () if label not in seen_labels],
        )

    def __len__(self) -> int:
        return len(self.box)

    def get(self, kind: type[Kind]) -> Kind | None:
        """The shapes of a geometry, or None."""
        return next((each for each in self.shapes if isinstance(each, kind)), None)

    @property
    def mask(self) -> Masks | None:
        """The masks, or None."""
        return self.get(Masks)

    @property
    def oriented(self) -> OrientedBoxes | None:
        """The oriented boxes, or None."""
        return self.get(OrientedBoxes)

    def shapes_lost(self, *kept: type[Geometry]) -> list[Loss]:
        """The losses of a format that has upright boxes and `kept` geometries."""
        lost = (each for each in self.shapes if type(each) not in kept)
        return [Loss(num=len(each), what=each.name, plural=each.plural) for each in lost]

    def shapes_lost_in_tables(self) -> list[Loss]:
        """The losses of a table: geometries that have no columns."""
        return self.shapes_lost(*(type(each) for each in self.shapes if each.columns))

    def shape_columns(self) -> dict[str, NDArray[Any]]:
        """The columns of shapes other than boxes and masks. Shape (R,) each, or (R, …)."""
        return {name: column for each in self.shapes for name, column in each.written_columns().items()}

    def lost(self, *kinds: str) -> list[Loss]:
        """The losses of a format that does not have these kinds of data."""
        ignored, truncated = (0 if flags is None else int(flags.sum()) for flags in (self.ignore, self.truncated))
        has_angles = self.oriented is not None and self.oriented.box_format != "xyxyxyxy"
        nums = {
            "ignore flag": ignored,
            "truncated flag": truncated,
            "area": 0 if self.area is None else len(self),
            "image id": 0 if self.is_numbered else len(self.images),
            "image size": len(self.sizes),
            "image without boxes": len(self.empty_images),
            "crowd index": len(self.crowd_index),
            "class id": len(self.class_names or ()),
            "class without boxes": len(self.empty_classes),
            ANGLES: len(self) if has_angles else 0,
        }
        return [Loss(num=nums[kind], what=kind, plural=_PLURALS.get(kind)) for kind in kinds]

    def own_areas(self) -> dict[str, Floats]:
        """The column `area` of detections with shapes other than boxes, if readers don't derive it."""
        if self.score is None:
            return {}
        _, _, width, height = to_xywh(self.box, self.box_format)
        box_area = width * height if self.has_boxes else None
        written = (each.written_areas(self.area, box_area) for each in self.shapes if each.written_columns())
        area = next((each for each in written if each is not None), None)
        return {} if area is None else {"area": area}

    @property
    def scores(self) -> Floats:
        """The scores of detections."""
        assert self.score is not None
        return self.score

    @property
    def is_ignored(self) -> list[bool]:
        """Whether each row is ignored."""
        return [False] * len(self) if self.ignore is None else self.ignore.tolist()

    def facts(self) -> dict[str, NDArray[Any]]:
        """The columns of truths besides shapes, where given: `ignore`, `truncated` and `area`."""
        columns = {"ignore": self.ignore, "truncated": self.truncated, "area": self.area}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def images(self) -> list[int]:
        """Every image, with or without boxes, ascending."""
        return sorted(self.image_names) if self.image_names else np.unique(self.image).tolist()

    def box_columns(self) -> dict[str, Floats]:
        """The columns of the boxes, named after their box format; corners for oriented boxes.

        Empty for shapes that were given without boxes and have columns.
        """
        if self.oriented is not None:
            return dict(zip(WRITTEN_BOXES["xyxyxyxy"], self.quads().T, strict=True))
        if not self.has_boxes and self.shape_columns():
            return {}
        return dict(zip(WRITTEN_BOXES[self.box_format], self.box.T, strict=True))

    def quads(self) -> Floats:
        """The corners of each box, in the given order if they were given, else turning from x to y. Shape (R, 8)."""
        if self.oriented is None:
            left, top, right, bottom = self.corners().T
            return np.stack([left, top, right, top, right, bottom, left, bottom], axis=1)
        if self.oriented.box_format == "xyxyxyxy":
            return to_numpy(self.oriented.boxes).astype(np.float64, copy=False)
        return self.oriented.corners()

    def corners(self) -> Floats:
        """Left, top, right, bottom. Shape (R, 4)."""
        return np.stack(to_xyxy(self.box, self.box_format), axis=1)

    def left_top_sizes(self) -> Floats:
        """Left, top, width, height. Shape (R, 4)."""
        return np.stack(to_xywh(self.box, self.box_format), axis=1)

    def stems(self) -> dict[int, str]:
        """File stems by image: distinct, and valid as file names."""
        images = self.images
        stems = {image: stem_of(self.image_names.get(image, str(image))) for image in images}
        owner: dict[str, int] = {}
        for image, stem in stems.items():
            check_file_name(stem)
            if stem in owner:
                raise InputError(
                    f"images {owner[stem]} and {image} have the same file stem {stem!r}; the format cannot hold both"
                )
            owner[stem] = image
        return stems

    def file_stems(self) -> dict[int, str]:
        """File stems by image, for formats with one file per image: stems of hidden files are refused."""
        stems = self.stems()
        hidden = next((stem for stem in stems.values() if stem.startswith(".")), None)
        if hidden is not None:
            raise InputError(
                f"image {hidden!r} begins with a dot: its file would be hidden, and readers skip those; rename it,"
                " or choose a format with one file for all images, such as coco or csv"
            )
        return stems

    def scale(self, num: int, what: str = "boxes") -> Floats:
        """Width and height of each row's image, repeated to `num` numbers. Shape (R, num)."""
        seen, code = np.unique(self.image, return_inverse=True)
        unknown = next((image for image in seen.tolist() if image not in self.sizes), None)
        if unknown is not None:
            raise InputError(
                f"image {unknown}: {what} are written as fractions of its size, and `image_sizes` has none for it"
            )
        size = np.array([self.sizes[image] for image in seen.tolist()], np.float64).reshape(-1, 2)
        return np.tile(size[code], num // 2)

    def fractions(self, box: Floats) -> Floats:
        """Divide pixels x, y, x, y, … by the images' sizes; multiplying gives the same pixels back where possible."""
        return fractions_of(box, self.scale(box.shape[1]))

    def by_image(self) -> dict[int, list[int]]:
        """The rows of every image, in order."""
        rows: dict[int, list[int]] = {image: [] for image in self.images}
        for row, image in enumerate(self.image.tolist()):
            rows[image].append(row)
        return rows


def fractions_of(pixels: Floats, scale: Floats, *others: Callable[..., NDArray[np.bool_]]) -> Floats:
    """Divide pixels by sizes, such that multiplying gives equal pixels back where possible.

    `others`: tests of pixels that are as good as equal, where none gives equal ones.
    """
    fraction = pixels / scale
    tests: list[Callable[..., NDArray[np.bool_]]] = [np.equal, *others]
    for is_same in tests:
        for direction in (np.inf, -np.inf):
            other = np.nextafter(fraction, direction)
            is_better = is_same(other * scale, pixels) & ~is_same(fraction * scale, pixels)
            fraction = np.where(is_better, other, fraction)
    return fraction


def check_text(text: str, what: str) -> None:
    """Raise `InputError` unless the text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} must be valid Unicode; got half of a surrogate pair: {text!r}") from None


def named_classes(host: Host) -> Mapping[int, str]:
    """Class names by label, for formats that identify classes by name; an empty name is an error."""
    names = host.class_names or {label: str(label) for label in np.unique(host.label).tolist()}
    empty = next((label for label, name in names.items() if not name.strip()), None)
    if empty is not None:
        raise InputError(f"class {empty} has an empty name, but the format identifies classes by name; give it one")
    return names


def check_file_name(name: str) -> None:
    """Raise `InputError` unless a name is valid as a part of a file name."""
    if not name or name in (".", "..") or any(mark in name for mark in "/\\\0\n\r"):
        raise InputError(f"{name!r} cannot be a part of a file name, which the format needs")


def changed(before: Floats, after: Floats) -> int:
    """The number of boxes that are not exactly equal before and after."""
    return int((before != after).any(axis=1).sum()) if len(before) else 0


def rounding_of_corners(host: Host, box: Floats) -> Loss:
    """The loss of boxes whose last digits change in corner format. `box`: left, top, right, bottom. Shape (R, 4)."""
    before = np.stack([box[:, 0], box[:, 1], *sizes(host.box, host.box_format)], axis=1)
    again = np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], axis=1)
    return _rounding(changed(before, again), "left, top, right, bottom")


def rounding_of_sizes(host: Host, box: Floats) -> Loss:
    """The loss of boxes whose last digits change with sizes. `box`: left, top, width, height. Shape (R, 4)."""
    corner, size = box[:, :2], box[:, 2:]
    again = {"xyxy": (corner, corner + size), "cxcywh": (corner + size / 2, size)}.get(host.box_format, (corner, size))
    # Upright boxes around oriented ones were computed for the file.
    num = 0 if host.oriented is not None else changed(host.box, np.concatenate(again, axis=1))
    return _rounding(num, "left, top, width, height")


def _rounding(num: int, form: str) -> Loss:
    what, plural = (
        f"{digits} not {form}" for digits in ("last digit of a box that was", "last digits of boxes that were")
    )
    return Loss(num=num, what=what, plural=plural)


def check_no_spaces(kind: str, names: Iterable[str], what: str) -> None:
    """Raise `InputError` if the name of an image or a class has a space, which separates the columns of a file."""
    spaced = next((name for name in names if len(name.split()) != 1), None)
    if spaced is not None:
        raise InputError(f"{kind} {spaced!r} has a space in its name, and columns of {what} are separated by spaces")


def files_of_classes(host: Host, prefix: str, title: str, numbers: Floats) -> dict[str, bytes]:
    """Results files by class, named after it; lines have an image, a score and the numbers. Rows stay in order."""
    names, stems = named_classes(host), host.stems()
    check_no_spaces("image", stems.values(), f"{title} results")
    lines: dict[int, list[str]] = {label: [] for label in names}
    columns: Any = (host.image.tolist(), host.label.tolist(), host.scores.tolist(), numbers.tolist())
    for image, label, score, row in zip(*columns, strict=True):
        lines[label].append(f"{stems[image]} {number(score)} {' '.join(map(number, row))}\n")
    for label in lines:
        check_file_name(names[label])
    return {f"{prefix}{names[label]}.txt": "".join(rows).encode() for label, rows in lines.items()}
