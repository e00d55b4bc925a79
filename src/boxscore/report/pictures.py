"""Pictures: an image with its detections and truths, each drawn by its verdict.

A picture is an SVG file. The image is a JPEG inside of it, shapes are paths above it, in one group per kind: true,
false, missed, matched, ignored. The report draws the same paths in the browser, where kinds can be hidden.
"""

import base64
import html
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support import text
from boxscore._support.exceptions import InputError
from boxscore._support.writing import write_file
from boxscore.analysis.operating_points import curve_of_pairs, given_or_best
from boxscore.analysis.pairing import Pairing, pair_inputs
from boxscore.data.dataset import Detections, Truths, host_ids, host_scores, take
from boxscore.data.geometry import Geometry
from boxscore.pipeline import check_sides, evaluate_columns
from boxscore.protocol.protocol import ProtocolLike
from boxscore.report.image_files import ImageFolder, Photo, UnreadableImageError, read_photo
from boxscore.report.labels import printable
from boxscore.report.paths import Paths, paths_of
from boxscore.result.result import Result, inputs_of
from boxscore.result.tally import FALSE, IGNORED, TRUE

KINDS = {
    "ignored": "ignored",
    "matched": "truth that was found",
    "true": "true positive",
    "missed": "truth not found",
    "false": "false positive",
}
"""The kinds of shapes in words, in the order of drawing."""

LONGEST = 960
"""Maximum width and height of a picture for a notebook, in pixels."""

# Colours of Okabe and Ito, which colour-blind people can tell apart; dashes and marks give the same information.
_STYLE = """
.shape path{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.shape .under{stroke:#000;stroke-opacity:.55;stroke-width:4}
.shape .dots{stroke-width:6;stroke-linecap:round}
.shape.area .line{fill-opacity:.18}
.true .line,.true .dots{stroke:#56b4e9}.true .line{fill:#56b4e9}
.false .line,.false .dots{stroke:#ff7a1a}.false .line{fill:#ff7a1a;stroke-dasharray:7 4}
.missed .line,.missed .dots{stroke:#f0e442}.missed .line{fill:#f0e442;stroke-dasharray:1.5 4;stroke-linecap:round}
.matched .line,.matched .dots{stroke:#fff;stroke-width:1}.matched .line{fill:#fff}
.ignored .line,.ignored .dots{stroke:#bbb;stroke-width:1}.ignored .line{fill:#bbb}
.shape:not(.area) .line{fill:none}
text{font:600 12px system-ui,sans-serif}
.words{stroke:#000;stroke-opacity:.8;stroke-width:3;paint-order:stroke}
.words.true{fill:#8fd0ff}.words.false{fill:#ffa766}.words.missed{fill:#f0e442}
"""
"""The styles of an SVG file; page/gallery.css has the report's."""

MARKS = {"true": "✓ ", "false": "✗ ", "missed": "missed "}
"""Prefixes of the class name, for readers who can't see colours."""


class DrawnShape(NamedTuple):
    """One detection or truth, in drawn pixels."""

    kind: str
    """One of `KINDS`."""
    name: str
    """The name of its class."""
    score: float | None
    """The score of a detection; None for a truth."""
    paths: Paths
    is_area: bool
    """Whether the shape is filled, as masks are."""

    @property
    def label(self) -> str:
        """The label beside the shape."""
        score = "" if self.score is None else f" {self.score:.2f}"
        return f"{MARKS.get(self.kind, '')}{printable(self.name)}{score}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Picture:
    """An image with its detections and truths. Notebooks show it; `svg` is its text.

    Blue and solid: true positives. Orange and dashed: false positives. Yellow and dotted: truths not found. Thin lines:
    white for truths that were found, grey for ignored detections and truths.
    """

    name: str
    """The name of the image, or its id as text."""
    width: int
    """In drawn pixels."""
    height: int
    jpeg: bytes
    """The image, without shapes."""
    shapes: tuple[DrawnShape, ...]
    """The shapes, in the order of drawing."""
    notes: tuple[str, ...] = ()
    """Notes on the image's file, such as a size that differs."""

    def num(self, kind: str) -> int:
        """Number of shapes of a kind.

        Args:
            kind: "true", "false", "missed", "matched" or "ignored".
        """
        if kind not in KINDS:
            raise InputError(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}")
        return sum(shape.kind == kind for shape in self.shapes)

    @property
    def title(self) -> str:
        """The name of the image, and the number of shapes per kind."""
        return f"{printable(self.name)}: {', '.join(self._counts())}"

    def _counts(self) -> list[str]:
        plural = {"true": "true positive", "false": "false positive"}
        counts = [text.count(self.num(kind), word) for kind, word in plural.items()]
        return [*counts, f"{text.count(self.num('missed'), 'truth')} not found"]

    @property
    def svg(self) -> str:
        """The picture as an SVG file, with a line of counts below it."""
        lines = [*self.notes]
        foot = 26 + 18 * len(lines)
        box = f'width="{self.width}" height="{self.height + foot}" viewBox="0 0 {self.width} {self.height + foot}"'
        size = f'width="{self.width}" height="{self.height}"'
        image = f'<image {size} preserveAspectRatio="none" href="data:image/jpeg;base64,{self.encoded}"/>'
        notes = (
            f'<text x="4" y="{self.height + 36 + 18 * i}" fill="#777">{_escaped(line)}</text>'
            for i, line in enumerate(lines)
        )
        return "".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" style="max-width:100%;height:auto">',
                f"<title>{_escaped(self.title)}</title><style>{_STYLE}</style>{image}",
                *map(_group, self.shapes),
                *(_words(shape, (self.width, self.height)) for shape in self.shapes),
                *self._legend(),
                *notes,
                "</svg>",
            ]
        )

    @property
    def encoded(self) -> str:
        """The JPEG in base64."""
        return base64.b64encode(self.jpeg).decode()

    def _legend(self) -> Iterator[str]:
        """Yield the kinds, each with its line and its count."""
        left, y = 4, self.height + 17
        for kind, count in zip(("true", "false", "missed"), self._counts(), strict=True):
            paths = f'<path class="under" d="M{left} {y - 4}h28"/><path class="line" d="M{left} {y - 4}h28"/>'
            yield f'<g class="shape {kind}">{paths}</g><text x="{left + 34}" y="{y}" fill="#777">{count}</text>'
            left += 50 + 7 * len(count)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an SVG file, completely or not at all.

        Args:
            path: The file, which must end in .svg.
        """
        if Path(path).suffix.lower() != ".svg":
            raise InputError(f"`path` must end in .svg; got {os.fspath(path)!r}")
        write_file(Path(path), self.svg)

    def __repr__(self) -> str:
        return f"Picture({self.title})"


def _group(shape: DrawnShape) -> str:
    """The lines of a shape as SVG elements."""
    lines, dots, _ = shape.paths
    paths = f'<path class="under" d="{lines}"/><path class="line" d="{lines}" fill-rule="evenodd"/>' if lines else ""
    paths += f'<path class="under dots" d="{dots}"/><path class="dots" d="{dots}"/>' if dots else ""
    tip = f"<title>{_escaped(f'{KINDS[shape.kind]}: {shape.label}')}</title>"
    return f'<g class="shape {shape.kind}{" area" if shape.is_area else ""}">{tip}{paths}</g>'


def _words(shape: DrawnShape, size: tuple[int, int]) -> str:
    """The text of a shape as an SVG element, drawn above all shapes."""
    if shape.kind in ("matched", "ignored"):
        return ""
    x, y = label_position(shape, size)
    return f'<text class="words {shape.kind}" x="{x}" y="{y}">{_escaped(shape.label)}</text>'


def label_position(shape: DrawnShape, size: tuple[int, int]) -> tuple[int, int]:
    """The position of a shape's text: above a detection, below a truth, because both may be at the same position.

    It is inside of the picture, whose width and height are `size`.
    """
    left, top, _, bottom = shape.paths.bounds
    y = top - 4 if shape.score is not None else bottom + 12
    return round(min(max(left + 1, 2), max(size[0] - 60, 2))), round(min(max(y, 11), size[1] - 4))


def _escaped(words: str) -> str:
    return html.escape(printable(words))


def known_size(truths: Truths, image: int) -> tuple[int, int] | None:
    """The width and height of an image, if the truths have them."""
    width, height = map(int, (truths.image_sizes or {}).get(image, (0, 0)))
    return (width, height) if min(width, height) > 0 else None


class Drawer:
    """The verdict of each row of a result, by image, ready to be drawn; equal to the verdicts of `worst_images`."""

    def __init__(
        self, result: Result, *, score: float | None = None, iou: float | None = None, threads: int | None = None
    ) -> None:
        self.pairing = pair_inputs(result, "`draw`", iou, threads)
        self.truths = inputs_of(result, "`draw`").truths
        self.score = given_or_best(score, curve_of_pairs(self.pairing))
        named = zip(result.per_class.label.tolist(), result.per_class.name, strict=True)
        self._names: dict[int, str] = dict(named)
        self._names |= self.truths.names_by_label or {}
        inputs = inputs_of(result, "`draw`")
        self._labels = [host_ids(inputs.detections.labels), host_ids(inputs.truths.labels)]
        self._rows = [_Rows(host_ids(side.image_ids)) for side in (self.pairing.detections, self.pairing.truths)]
        self._kinds = _kinds_of(self.pairing, self.score)

    def name_of(self, image: int) -> str:
        """The name of an image, or its id as text."""
        names = self.truths.image_names or {}
        return str(names.get(image, image))

    def shapes(self, image: int, size: tuple[int, int], drawn: tuple[int, int]) -> tuple[DrawnShape, ...]:
        """The shapes of an image. `size`: the size that they refer to; `drawn`: the size of the picture."""
        scale = drawn if self.truths.is_normalized else (drawn[0] / size[0], drawn[1] / size[1])
        found, there = (rows.of(image) for rows in self._rows)
        shapes = [*self._detections(found, scale), *self._truths(there, scale)]
        order = list(KINDS)
        return tuple(sorted(shapes, key=lambda shape: order.index(shape.kind)))

    def _detections(self, rows: Sequence[int], scale: tuple[float, float]) -> Iterator[DrawnShape]:
        given = self.pairing.detection_row
        for row in sorted(rows, key=lambda row: float(self.pairing.score[row])):  # the surest are drawn last
            if kind := self._kinds[0][row]:
                name = self._name(0, int(given[row]))
                yield _drawn(self.pairing.detections.geometry, row, scale, kind, name, float(self.pairing.score[row]))

    def _truths(self, rows: Sequence[int], scale: tuple[float, float]) -> Iterator[DrawnShape]:
        for row in rows:
            name = self._name(1, int(self.pairing.truth_row[row]))
            yield _drawn(self.pairing.truths.geometry, row, scale, self._kinds[1][row], name, None)

    def _name(self, side: int, row: int) -> str:
        label = int(self._labels[side][row])
        return self._names.get(label, str(label))

    def draw(self, image: int, photo: Photo, longest: int = LONGEST) -> Picture:
        """Draw the picture of an image."""
        jpeg, drawn = photo.as_jpeg(longest)
        shapes = self.shapes(image, photo.size, drawn)
        name, notes = self.name_of(image), photo.notes
        return Picture(name=name, width=drawn[0], height=drawn[1], jpeg=jpeg, shapes=shapes, notes=notes)


class _Rows:
    """The rows of each image."""

    def __init__(self, image: NDArray[np.int64]) -> None:
        self._order = np.argsort(image, kind="stable")
        self._sorted = image[self._order]

    def of(self, image: int) -> list[int]:
        """The rows of one image, ascending."""
        start, end = np.searchsorted(self._sorted, image, "left"), np.searchsorted(self._sorted, image, "right")
        rows: list[int] = self._order[start:end].tolist()
        return rows


def _kinds_of(pairing: Pairing, score: float) -> tuple[list[str], list[str]]:
    """The kind of each detection and of each truth; empty for detections that are not drawn."""
    is_kept = pairing.score >= score
    by_verdict = {TRUE: "true", FALSE: "false", IGNORED: "ignored"}
    verdicts = zip(pairing.verdict.tolist(), is_kept.tolist(), strict=True)
    found = [by_verdict.get(verdict, "") if kept else "" for verdict, kept in verdicts]
    flags = zip(pairing.is_counted.tolist(), pairing.is_found(is_kept).tolist(), strict=True)
    return found, [("matched" if is_found else "missed") if counts else "ignored" for counts, is_found in flags]


def _drawn(
    geometry: Geometry, row: int, scale: tuple[float, float], kind: str, name: str, score: float | None
) -> DrawnShape:
    sketch = geometry.sketch(row)
    return DrawnShape(kind, name, score, paths_of(sketch, scale), sketch.is_area)


def draw_image(
    result: Result,
    image: int | str,
    image_folder: str | os.PathLike[str] | None,
    pixels: Any,
    *,
    score: float | None,
    iou: float | None,
    threads: int | None,
) -> Picture:
    """Draw an image of a result. Its pixels are in a folder, or given."""
    if (image_folder is None) == (pixels is None):
        raise InputError("one of `image_folder` and `pixels` must be given, and not both")
    drawer = Drawer(result, score=score, iou=iou, threads=threads)
    number = _number_of(result, image)
    if image_folder is not None:
        folder = ImageFolder.opened(image_folder)
        pixels = folder.find(number, (result.image_names or {}).get(number))
        if pixels is None:
            name = drawer.name_of(number)
            raise InputError(f"`image_folder`: {os.fspath(image_folder)} has no file, or several, of image {name!r}")
    try:
        return drawer.draw(number, read_photo(pixels, known_size(drawer.truths, number), LONGEST))
    except UnreadableImageError as error:
        raise InputError(f"{pixels}: {error}") from None


def _number_of(result: Result, image: int | str) -> int:
    """The id of an image, given by id or by name."""
    if isinstance(image, str):
        ids = [number for number, name in (result.image_names or {}).items() if name == image]
        if len(ids) != 1:
            raise InputError(f"`image` must be an id, or the name of one image; got {image!r}")
        return ids[0]
    if isinstance(image, bool) or not isinstance(image, int | np.integer) or int(image) not in result.images:
        raise InputError(f"`image` must be the id or the name of an image of this result; got {image!r}")
    return int(image)


def draw(
    image: Any,
    detections: Detections,
    truths: Truths,
    *,
    image_id: int | None = None,
    protocol: ProtocolLike = "coco",
    score: float | None = None,
    iou: float | None = None,
) -> Picture:
    """Draw one image with its detections and truths, for a notebook. Needs `boxscore[pictures]`.

    Args:
        image: The path of a file, an image of Pillow, or an array of bytes (H, W, 3).
        detections: Detections.
        truths: Truths.
        image_id: The image whose rows are drawn; not needed if all rows are of one image.
        protocol: A protocol or its name.
        score: Detections below this score are not drawn; default: all are drawn.
        iou: The threshold of a match; default: 0.5, or the protocol's first threshold if it has no 0.5.

    >>> import numpy as np
    >>> boxes = [[2, 2, 20, 20], [30, 30, 50, 40]]
    >>> truths = Truths(image_ids=[0, 0], labels=[1, 1], boxes=boxes, class_names={1: "dog"})
    >>> boxes = [[2, 2, 20, 19], [50, 2, 60, 9]]
    >>> detections = Detections(image_ids=[0, 0], labels=[1, 1], scores=[0.9, 0.4], boxes=boxes)
    >>> draw(np.zeros((48, 64, 3), np.uint8), detections, truths)
    Picture(0: 1 true positive, 1 false positive, 1 truth not found)
    """
    check_sides(detections, truths)
    images = np.union1d(host_ids(detections.image_ids), host_ids(truths.image_ids))
    if image_id is None:
        if images.size > 1:
            raise InputError(f"`image_id` must be given, as the rows are of {images.size:,} images")
        image_id = int(images[0]) if images.size else 0
    detections = take(detections, host_ids(detections.image_ids) == image_id)
    truths = take(truths, host_ids(truths.image_ids) == image_id)
    lowest = float(host_scores(detections.scores).min(initial=0.0))
    drawer = Drawer(evaluate_columns(detections, truths, protocol), score=lowest if score is None else score, iou=iou)
    try:
        return drawer.draw(image_id, read_photo(image, known_size(drawer.truths, image_id), LONGEST))
    except UnreadableImageError as error:
        raise InputError(f"`image`: {error}") from None
