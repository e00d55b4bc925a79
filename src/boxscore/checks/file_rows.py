"""The rows of one file, with the columns that checks need: images and classes as integers, sizes, corners."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.checks.checklist import Evidence, Severity
from boxscore.data.dataset import Truths
from boxscore.data.geometry.boxes import sizes as sides_of
from boxscore.data.geometry.boxes import to_xyxy
from boxscore.formats import Records, Role
from boxscore.formats.joining import sizes_by_id
from boxscore.formats.records import Floats, Ids, Key, Named, Sizes, codes_of
from boxscore.protocol.protocol import Protocol

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileRows:
    """Truths or detections of a file, unchanged. R rows."""

    role: Role
    records: Records
    """The rows; polygons are drawn as masks if possible."""
    protocol: Protocol
    image: Ids
    """The id of each row's image in the file, or the index of its name. Shape (R,)."""
    label: Ids
    """The id of each row's class in the file, or the index of its name. Shape (R,)."""
    group: Ids
    """An integer for each pair of image and class. Shape (R,)."""
    corner: Floats
    """Left, top, right, bottom. Shape (R, 4)."""
    extent: Floats
    """Width and height. Shape (R, 2)."""
    is_finite: Flags
    """Whether all four numbers of the box are finite. Shape (R,)."""
    size: Floats
    """Width and height of each row's image, in the unit of its box; NaN where unknown. Shape (R, 2)."""
    image_size: Floats
    """Width and height of each row's image in pixels; NaN where unknown. Shape (R, 2)."""
    image_names: Mapping[int, str]
    """Names of all images by number; if the file does not list images, of the images that have rows."""
    image_sizes: Mapping[int, tuple[int, int]]

    @property
    def box(self) -> Floats:
        """The boxes as in the file. Shape (R, 4)."""
        return self.records.box

    def where(
        self,
        is_bad: Flags | np.bool_,
        show: Callable[[int], str] | None = None,
        *,
        severity: Severity | None = None,
        **facts: Any,
    ) -> list[Evidence]:
        """Evidence about these rows; empty if there are none.

        Args:
            is_bad: Whether each row is one of them. Shape (R,).
            show: Function that describes a row; by default its box.
            severity: By default the severity of the check.
            facts: Values for the placeholders of the check's template.
        """
        num = int(np.count_nonzero(is_bad))
        if num == 0:
            return []
        row = int(np.argmax(is_bad))
        example = f"{self.records.location(row)}: {(show or self.show_box)(row)}"
        return [Evidence(num=num, facts=facts, example=example, severity=severity)]

    def listed(self, names: Sequence[str], num: int | None = None, **facts: Any) -> list[Evidence]:
        """Evidence about some images or classes; empty if there are none. `num`: by default the number of names."""
        if not names:
            return []
        some = ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
        return [Evidence(num=num or len(names), facts=facts, example=f"{self.records.source}: {some}")]

    def of_role(self, truths: str, detections: str) -> str:
        """The text for the role of the rows."""
        return truths if self.role == "truths" else detections

    def show_box(self, row: int) -> str:
        """The box of a row, as in the file."""
        box, box_format = self.records.written_boxes
        numbers = ", ".join(f"{number:.10g}" for number in box[row].tolist())
        return f"[{numbers}] ({box_format})"

    def show_image(self, row: int) -> str:
        """The name or the id of a row's image."""
        return repr(self.records.image.item(row))

    def show_class(self, row: int) -> str:
        """The name or the id of a row's class."""
        return repr(self.records.label.item(row))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """Detections joined with the valid truths. D rows."""

    detections: FileRows
    truths: Truths
    image: Ids
    """The id of each detection's image among the truths. Shape (D,)."""
    label: Ids
    """The label of each detection among the truths. Shape (D,)."""
    is_image_lost: Flags
    """Whether the truths lack a detection's image. Shape (D,)."""
    is_class_lost: Flags
    """Whether the truths lack a detection's class. Shape (D,)."""


def names_of(column: Key, listed: Mapping[int, str] | None) -> dict[int, str]:
    """Names by number: from the column, else from the list, else the ids as text."""
    if isinstance(column, Named):
        return dict(enumerate(column.names))
    return dict(listed) if listed is not None else {number: str(number) for number in np.unique(column).tolist()}


def rows_of_truths(records: Records, protocol: Protocol, sizes: Sizes | None) -> FileRows:
    """The rows of truths. `sizes`: sizes of images, which override the sizes in the file."""
    names = names_of(records.image, records.image_names)
    is_numbered = isinstance(records.image, Named)
    known = sizes_by_id(records.image_sizes, sizes, names, is_numbered=is_numbered)
    return _file_rows("truths", records, protocol, codes_of(records.image), names, known)


def rows_of_detections(
    records: Records, protocol: Protocol, *, image: Ids, sizes: Mapping[int, tuple[int, int]]
) -> FileRows:
    """The rows of detections. `image`: the key of each row's image in `sizes`. Shape (R,)."""
    names = names_of(records.image, records.image_names)
    return _file_rows("detections", records, protocol, image, names, sizes)


def _file_rows(
    role: Role,
    records: Records,
    protocol: Protocol,
    image: Ids,
    names: Mapping[int, str],
    sizes: Mapping[int, tuple[int, int]],
) -> FileRows:
    own, label = codes_of(records.image), codes_of(records.label)
    labels, label_code = np.unique(label, return_inverse=True)
    group = np.unique(own, return_inverse=True)[1] * max(labels.size, 1) + label_code
    seen, code = np.unique(image, return_inverse=True)
    unknown = (np.nan, np.nan)
    size = np.array([sizes.get(number, unknown) for number in seen.tolist()], np.float64).reshape(-1, 2)[code]
    return FileRows(
        role=role,
        records=_drawn(records, size),
        protocol=protocol,
        image=own,
        label=label,
        group=group,
        corner=np.stack(to_xyxy(records.box, records.box_format), axis=1),
        extent=np.stack(sides_of(records.box, records.box_format), axis=1),
        is_finite=np.asarray(np.isfinite(records.written_boxes[0]).all(axis=1)),
        size=np.ones_like(size) if records.is_normalized else size,
        image_size=size,
        image_names=names,
        image_sizes=sizes,
    )


def _drawn(records: Records, size: Floats) -> Records:
    """Draw the polygons of records as masks.

    If a size is unknown or a polygon invalid, the records get no masks: the evaluation refuses such files.
    """
    if records.polygons is None:
        return records
    mask = None
    if not np.isnan(size[records.polygons.has_parts]).any():
        with contextlib.suppress(InputError):
            mask = records.drawn_masks(np.nan_to_num(size).astype(np.int64))
    return replace(records, mask=mask)
