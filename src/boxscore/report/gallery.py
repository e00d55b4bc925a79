"""The pictures of a report: the worst images of each model, small enough for one file."""

import base64
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore.formats.image_sizes import pillow
from boxscore.protocol.fields import check_number
from boxscore.report.compact import cut, rounded
from boxscore.report.image_files import ImageFolder, Photo, UnreadableImageError, read_photo
from boxscore.report.pictures import KINDS, Drawer, DrawnShape, known_size, label_position
from boxscore.result.result import Result

NUM_PICTURES = 24
"""The default number of pictures per model."""

PICTURE_BYTES = 6_000_000
"""The default limit of the bytes of all pictures."""

SIDES = (800, 640, 480, 360, 240)
"""The longest sides to try, in pixels, until a picture has few enough bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gallery:
    """The choice of a report's pictures."""

    folder: ImageFolder
    num: int = NUM_PICTURES
    """Maximum number of pictures per model."""
    max_bytes: int = PICTURE_BYTES
    """Maximum number of bytes of all pictures, shapes included."""

    @classmethod
    def of(
        cls,
        image_folder: str | os.PathLike[str] | None,
        num_pictures: int | None = None,
        picture_bytes: int | None = None,
    ) -> "Gallery | None":
        """Validate the options of a gallery; None without a folder."""
        given = {"num_pictures": num_pictures, "picture_bytes": picture_bytes}
        for name, value in given.items():
            if value is not None:
                check_number(name, value)
                if image_folder is None:
                    raise InputError(f"`{name}` must be given with `image_folder`; got no folder")
        if image_folder is None:
            return None
        pillow("pictures")
        return cls(
            folder=ImageFolder.opened(image_folder),
            num=num_pictures or NUM_PICTURES,
            max_bytes=picture_bytes or PICTURE_BYTES,
        )


class _Wanted(NamedTuple):
    """The images of which a model gets pictures."""

    drawer: Drawer
    images: list[int]
    """Image ids, the worst first."""


def describe_gallery(gallery: Gallery, results: Mapping[str, Result]) -> dict[str, Any]:
    """The pictures of the page: the images by id, the pictures of each model, and notes on omissions.

    An image of several models is in the file once. Warn about files that are missing or unreadable.
    """
    wanted = {name: _wanted(result, gallery.num) for name, result in results.items() if result.inputs is not None}
    distinct = {image: each.drawer for each in wanted.values() for image in each.images}
    photos, problems = _photos(gallery.folder, distinct)
    share = gallery.max_bytes // max(1, len(photos))
    images: dict[int, dict[str, Any]] = {}
    shapes: dict[tuple[str, int], list[Any]] = {}
    too_large: list[str] = []
    for image, photo in photos.items():
        having = {name: each.drawer for name, each in wanted.items() if image in each.images}
        drawn = _fitted(image, photo, having, share)
        if drawn is None:
            too_large.append(distinct[image].name_of(image))
            continue
        images[image], of_models = drawn
        shapes |= {(name, image): of_model for name, of_model in of_models.items()}
    notes = problem_notes(problems, gallery.folder)
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return {
        "kinds": KINDS,
        "images": {str(image): described for image, described in images.items()},
        "models": [
            None
            if name not in wanted
            else [[str(image), shapes[name, image]] for image in wanted[name].images if image in images]
            for name in results
        ],
        "notes": [*notes, *size_notes(too_large, gallery)],
    }


def _wanted(result: Result, num: int) -> _Wanted:
    worst = result.worst_images(num=num)
    rows = zip(worst.image.tolist(), worst.num_errors.tolist(), strict=True)
    return _Wanted(Drawer(result, score=worst.score if worst.score == worst.score else None), [i for i, n in rows if n])


class Problem(NamedTuple):
    """An image without a picture."""

    name: str
    path: str | None
    """The path of its file; None: not found."""
    why: str


def _photos(folder: ImageFolder, distinct: Mapping[int, Drawer]) -> tuple[dict[int, Photo], list[Problem]]:
    photos: dict[int, Photo] = {}
    problems: list[Problem] = []
    for image, drawer in distinct.items():
        path = folder.find(image, (drawer.truths.image_names or {}).get(image))
        if path is None:
            problems.append(Problem(drawer.name_of(image), None, "has no file, or several"))
            continue
        try:
            photos[image] = read_photo(path, known_size(drawer.truths, image), SIDES[0])
        except UnreadableImageError as error:
            problems.append(Problem(drawer.name_of(image), str(path), str(error)))
    return photos, problems


def _fitted(
    image: int, photo: Photo, drawers: Mapping[str, Drawer], share: int
) -> tuple[dict[str, Any], dict[str, list[Any]]] | None:
    """An image and its shapes per model, at the largest size that fits in `share` bytes; None if no size fits."""
    for longest in SIDES:
        jpeg, drawn = photo.as_jpeg(longest)
        name = next(iter(drawers.values())).name_of(image)
        described: dict[str, Any] = {
            "name": cut(name),
            "width": drawn[0],
            "height": drawn[1],
            "jpeg": base64.b64encode(jpeg).decode(),
            "notes": list(photo.notes),
        }
        if len(described["jpeg"]) > share:
            continue
        of_models = {
            model: [shape_values(shape, drawn) for shape in drawer.shapes(image, photo.size, drawn)]
            for model, drawer in drawers.items()
        }
        if len(json.dumps([described, of_models], separators=(",", ":"))) <= share:
            return described, of_models
    return None


def shape_values(shape: DrawnShape, size: tuple[int, int]) -> list[Any]:
    """A shape as a list: kind, class name, score, lines, dots, x and y of the text, and whether it is filled."""
    lines, dots, _ = shape.paths
    score = None if shape.score is None else rounded(shape.score)
    return [shape.kind, cut(shape.name), score, lines, dots, *label_position(shape, size), int(shape.is_area)]


def problem_notes(problems: Sequence[Problem], folder: ImageFolder, images: str = "worst images") -> list[str]:
    """One sentence on missing files and one on unreadable ones, each with an example. `images`: the word for them."""
    missing = [each for each in problems if each.path is None]
    unreadable = [each for each in problems if each.path is not None]
    notes = []
    if missing:
        name, where = text.line(missing[0].name), text.line(str(folder.path))
        notes.append(f"{_without(missing, images)}: {where} has no file, or several, named {name}")
    if unreadable:
        path, why = text.line(unreadable[0].path or ""), text.line(unreadable[0].why)
        notes.append(f"{_without(unreadable, images)}: the file {path} {why}")
    return notes


def _without(left_out: Sequence[Any], images: str) -> str:
    num = len(left_out)
    return f"{num:,} of the {images} {'has' if num == 1 else 'have'} no picture"


def size_notes(names: Sequence[str], gallery: Gallery, images: str = "worst images") -> list[str]:
    """A sentence on the pictures that are dropped because of their size; empty without any."""
    if not names:
        return []
    return [
        f"{_without(names, images)}, such as {text.line(names[0])}: all pictures together may have "
        f"{gallery.max_bytes:,} bytes (`--picture-bytes`, in Python `picture_bytes`)"
    ]
