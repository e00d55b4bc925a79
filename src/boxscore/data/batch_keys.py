"""The keys of batches: one table for every reader of dicts and padded arrays.

Dicts may have keys that are not read (`size`, `masks` if boxes are evaluated, …), but none that looks like a
misspelling of one that is read: a flag that is dropped because of one letter would change the result silently.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from boxscore._support.exceptions import InputError
from boxscore.data.geometry import Geometry, RowShape
from boxscore.data.geometry.box_formats import check_box_format, check_format_of, row_size
from boxscore.data.geometry.kinds import GEOMETRIES, as_iou_types, kind_of

FLAGS = ("ignore", "iscrowd", "difficult")
"""The keys that mark truths to be ignored. A dict may have several: a truth that any of them marks is ignored."""

COVERAGE_KEYS = ("neg_category_ids", "not_exhaustive_category_ids")
"""The keys of an image's lists of labels: verified to be absent, and not annotated exhaustively (LVIS)."""

_WRONG_NAMES = {
    "iscrowd": ("crowd", "crowds", "crowded", "iscrowded"),
    "ignore": ("isignore", "isignored"),
    "difficult": ("isdifficult",),
    "image_id": ("imageids", "imgid", "imgids"),
    "discarded": ("discard", "isdiscarded"),
    "neg_category_ids": ("negcategories", "negativecategoryids", "neglabels"),
    "not_exhaustive_category_ids": ("notexhaustivecategories", "nonexhaustivecategoryids", "notexhaustivelabels"),
}
"""Wrong names that are more than one edit away, in lower case and without punctuation; of shapes, see the geometry."""

_SYNONYMS = {
    "labels": ("class", "classes", "classid", "classids", "classlabels", "category", "categoryid", "categoryids"),
    "scores": ("conf", "confidence", "confidences", "probs"),
}
"""Names that suggest a missing key; if the key is present, they may mean something else."""


class Keys(NamedTuple):
    """The keys of dicts of detections or truths, and the column that each becomes."""

    required: Mapping[str, str]
    optional: Mapping[str, str]
    others: tuple[str, ...] = ()
    """Keys that are read, but don't become columns."""
    defaults: Mapping[str, float] = dict.fromkeys(FLAGS, 0)
    """Values of optional keys in images that lack them while other images have them; without a default, an error."""
    box_size: int = 4
    """Number of numbers per box."""

    def of_shapes(self, iou_type: str | Sequence[str], box_format: str = "xyxy") -> "Keys":
        """Replace the boxes by the shapes of one or more similarities.

        >>> list(DETECTION_KEYS.of_shapes(("bbox", "segm")).required)
        ['boxes', 'masks', 'scores', 'labels']
        """
        check_box_format(box_format)
        iou_types = as_iou_types(iou_type)
        for each in iou_types:
            check_format_of(each, box_format)
        kinds = [kind_of(each) for each in iou_types]
        every_key = {kind.key for kind in GEOMETRIES}
        shapes = {kind.key: kind.key for kind in kinds}
        others = {key: name for key, name in self.required.items() if key not in every_key}
        optional = dict(self.optional)
        for kind in kinds:
            more = kind.detection_keys if "scores" in others else kind.truth_keys
            optional |= {key: key for key in more if key not in shapes}
        return self._replace(required={**shapes, **others}, optional=optional, box_size=row_size(box_format))

    @property
    def all(self) -> tuple[str, ...]:
        """All keys that are read."""
        return (*self.required, *self.optional, *self.others)

    @property
    def columns(self) -> dict[str, str]:
        """The column of each key that becomes one."""
        return {**self.required, **self.optional}

    def broken_rule(self, given: Mapping[str, Any]) -> str | None:
        """The rule that a dict breaks by a missing or misspelled key, with the remedy; None if it breaks none."""
        for key in self.required:
            if key not in given:
                synonyms = _SYNONYMS.get(key, ())
                misnomers = [each for each in given if _meant(each, (key,)) or _letters(each) in synonyms]
                hint = f": {misnomers[0]!r} must be called {key!r}" if misnomers else ""
                return f"must have the key {key!r}; got {sorted(map(str, given))}{hint}"
        known = self.all
        for key in given:
            meant = _meant(key, known)
            if meant and meant not in given:
                return f"must not have the key {key!r}, which is not read: rename it to {meant!r}, or remove it"
        return None

    def of_padded(self, batch: Mapping[str, Any], owner: str) -> dict[str, Any]:
        """The values of a padded batch that are not None. Raise `InputError` for keys that are not read."""
        given = {key: value for key, value in batch.items() if value is not None}
        if (rule := self.broken_rule(given)) is not None:
            raise InputError(f"{owner} {rule}")
        known = self.all
        for key in batch:
            if key not in known:
                raise InputError(f"{owner} must have no keys but {', '.join(known)}; got {key!r}")
        return given


DETECTION_KEYS = Keys({"boxes": "boxes", "scores": "scores", "labels": "labels"}, {})
TRUTH_KEYS = Keys(
    {"boxes": "boxes", "labels": "labels"},
    {**dict.fromkeys(FLAGS, "ignore"), "area": "area"},
    ("image_id", *COVERAGE_KEYS),
)
PADDED_TRUTH_KEYS = TRUTH_KEYS._replace(others=("image_id",))
PADDED_DETECTION_KEYS = DETECTION_KEYS._replace(optional={"discarded": "discarded"}, others=("image_id",))


def row_shape_of(column: str, box_size: int) -> RowShape:
    """The shape of one row of a column.

    >>> row_shape_of("boxes", 5), row_shape_of("labels", 5)
    ((5,), ())
    """
    return (box_size,) if column == "boxes" else _row_shape(column, tuple(GEOMETRIES))


@lru_cache(maxsize=256)
def _row_shape(column: str, kinds: tuple[type[Geometry], ...]) -> RowShape:
    tables = [{kind.key: kind.row_shape, **kind.detection_keys, **kind.truth_keys} for kind in kinds]
    return next((table[column] for table in tables if column in table), ())


def is_unread(key: Any, known: tuple[str, ...]) -> bool:
    """Whether a key may be skipped: it is not a misspelling of a known key.

    >>> is_unread("size", FLAGS), is_unread("is_crowd", FLAGS)
    (True, False)
    """
    return not _meant(key, known)


def _meant(key: Any, known: tuple[str, ...]) -> str:
    """The known key of which `key` is a misspelling; "" if it is known itself, or similar to none.

    >>> _meant("is_crowd", FLAGS), _meant("ignroe", FLAGS), _meant("masks", FLAGS)
    ('iscrowd', 'ignore', '')
    """
    return _meant_text(key, known) if type(key) is str and len(key) < 40 else ""


@lru_cache(maxsize=4096)
def _meant_text(key: str, known: tuple[str, ...]) -> str:
    if key in known:
        return ""
    letters = _letters(key)
    for right in known:
        # `image_idx` is usually another number, so near names don't count for `image_id`.
        is_near = letters == "imageid" if right == "image_id" else _is_near(letters, right)
        if is_near or letters in _WRONG_NAMES.get(right, ()):
            return right
        if any(letters in kind.misspellings.get(right, ()) for kind in GEOMETRIES):
            return right
    return ""


def _letters(key: Any) -> str:
    return "".join(filter(str.isalnum, str(key))).lower()


def _is_near(key: str, right: str) -> bool:
    """Whether `key` is `right`, or one edit away: a letter added, removed or replaced, or two letters swapped.

    >>> _is_near("iscrwd", "iscrowd"), _is_near("lables", "labels"), _is_near("boxes", "bowls")
    (True, True, False)
    """
    start = next((i for i, (a, b) in enumerate(zip(key, right, strict=False)) if a != b), None)
    if start is None:
        return abs(len(key) - len(right)) <= 1
    rest, expected = key[start:], right[start:]
    is_swapped = rest[:2] == expected[1::-1] and rest[2:] == expected[2:]
    return is_swapped or rest[1:] == expected[1:] or rest[1:] == expected or rest == expected[1:]
