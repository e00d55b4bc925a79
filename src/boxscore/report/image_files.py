"""The image files of a dataset: their location in a folder, and their pixels, by Pillow."""

import io
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore._support.image_file_names import IMAGE_SUFFIXES, NAME_KEYS, number_of
from boxscore.formats.image_sizes import is_turned, open_regular, pillow

QUALITY = 82
"""The quality of JPEG files."""

_FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "MPO", "AVIF", "HEIF", "JPEG2000", "PPM", "TGA", "DIB")
"""Pillow's names of photo formats. Other formats may start programs: PostScript is run by Ghostscript."""

_BLOCK_PIXELS = 1 << 20
"""Number of pixels of deep greys that are scaled at a time."""


@dataclass(frozen=True)
class ImageFolder:
    """A folder with image files, also in subfolders. It is only listed if a file is not at the path of its name."""

    path: Path
    _groups: dict[Any, dict[Any, list[str]]] = field(default_factory=dict)

    @classmethod
    def opened(cls, folder: str | os.PathLike[str]) -> "ImageFolder":
        """Open the folder at a path, which must exist."""
        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"`image_folder` must be the path of a folder; got {type(folder).__name__}")
        path = Path(folder)
        if not path.is_dir():
            raise InputError(f"`image_folder` must be a folder of images; got {os.fspath(folder)!r}")
        return cls(path)

    def find(self, image: int, name: str | None) -> Path | None:
        """The file of an image: by its name, else by its id; None if no file matches, or more than one.

        A name is compared as a path first, then without folders, then without suffix. Files outside of the folder are
        never found, nor are links to them.
        """
        if name is None:
            return self._only(str(image), self._grouped(number_of).get(image, []))
        posix = name.replace("\\", "/")
        is_inside = not {"..", ""} & set(posix.split("/")) and not PureWindowsPath(posix).drive
        if is_inside and self._has(posix):
            return self.path / posix
        for key in NAME_KEYS[1:]:
            if found := self._grouped(key).get(key(name)):
                return self._only(posix, found)
        return None

    def _only(self, name: str, found: list[str]) -> Path | None:
        """The only file; of several, the one whose path shares the most folders with the name, if that is unique."""
        ranked = sorted(found, key=lambda file: -_num_common(file, name))
        if not ranked or (len(ranked) > 1 and len({_num_common(file, name) for file in ranked[:2]}) == 1):
            return None
        return self.path / ranked[0]

    @cached_property
    def _files(self) -> list[str]:
        """The paths of all images, relative to the folder, sorted. Links to folders are not followed."""
        return sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, _, files in os.walk(self.path):
            inside = Path(folder).relative_to(self.path)
            for file in files:
                if os.path.splitext(file)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122 (creating a Path takes longer)
                    path = os.path.join(folder, file)  # noqa: PTH118
                    relative = (inside / file).as_posix()
                    if self._has(relative) if os.path.islink(path) else os.path.isfile(path):  # noqa: PTH113, PTH114
                        yield relative

    def _has(self, file: str) -> bool:
        """Whether a regular file is at a relative path; a link counts if its target is inside of the folder."""
        path = self.path / file
        if not os.path.isfile(path):  # noqa: PTH113 (a name may be too long for a file)
            return False
        return Path(os.path.realpath(path)).is_relative_to(self._real)

    @cached_property
    def _real(self) -> str:
        """The path of the folder with links resolved."""
        return os.path.realpath(self.path)

    def _grouped(self, key: Callable[[str], Any]) -> dict[Any, list[str]]:
        """The files by their keys."""
        if key not in self._groups:
            groups: dict[Any, list[str]] = {}
            for file in self._files:
                groups.setdefault(key(file), []).append(file)
            self._groups[key] = groups
        return self._groups[key]


def _num_common(file: str, name: str) -> int:
    """Number of folders, counted from the file upwards, that two paths have in common.

    >>> _num_common("train/a/1.jpg", "data/a/1.jpg")
    1
    """
    folders = [path.split("/")[-2::-1] for path in (file, name)]
    num = 0
    for one, other in zip(*folders, strict=False):
        if one != other:
            break
        num += 1
    return num


class Photo(NamedTuple):
    """The pixels of an image, and the size that shapes refer to."""

    pixels: Any
    """An image of Pillow, RGB."""
    size: tuple[int, int]
    """Width and height that shapes refer to: from the truths, else from the file."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as a size that differs."""

    def cropped(self, left: float, top: float, right: float, bottom: float) -> "Photo":
        """A part of the photo. The bounds are whole numbers, in units of `size`."""
        across, down = self.pixels.width / self.size[0], self.pixels.height / self.size[1]
        part = self.pixels.crop([round(end) for end in (left * across, top * down, right * across, bottom * down)])
        return self._replace(pixels=part, size=(int(right - left), int(bottom - top)))

    def as_jpeg(self, longest: int) -> tuple[bytes, tuple[int, int]]:
        """A JPEG of at most `longest` pixels in each direction, and its width and height."""
        size, output = _drawn_size(self.size, longest), io.BytesIO()
        _resized(self.pixels, size).save(output, "JPEG", quality=QUALITY, optimize=True)
        return output.getvalue(), size


def _drawn_size(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """The width and height of a picture of at most `longest` pixels in each direction."""
    scale = min(1.0, longest / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _resized(pixels: Any, size: tuple[int, int]) -> Any:
    return pixels if pixels.size == size else pixels.resize(size, resample=3, reducing_gap=2.0)


class UnreadableImageError(Exception):
    """Raised for an image file that can't be decoded. The text gives the reason."""


def read_photo(source: Any, size: tuple[int, int] | None, longest: int) -> Photo:
    """Read the photo in a file, an image of Pillow, or an array (H, W), (H, W, 3) or (H, W, 4).

    Args:
        source: The path, image or array.
        size: Width and height from the truths. They decide whether the file is rotated by its EXIF orientation: COCO's
            boxes refer to the pixels as stored, boxes of other tools to the image as displayed.
        longest: Maximum number of pixels that will be drawn in each direction; a large JPEG is not decoded in full.

    Raises:
        UnreadableImageError: The image can't be decoded.
    """
    Image = pillow("pictures")
    from PIL import UnidentifiedImageError

    with warnings.catch_warnings():
        # A JPEG of up to twice Pillow's limit may be within it once it is reduced.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            if isinstance(source, str | os.PathLike):
                formats = [name for name in _FORMATS if name in Image.OPEN]
                with open_regular(source) as file, Image.open(file, formats=formats) as opened:
                    return _decoded(opened, size, longest)
            return _decoded(_as_image(source), size, longest)
        except Image.DecompressionBombError:
            raise UnreadableImageError(f"has more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels") from None
        except UnidentifiedImageError:
            raise UnreadableImageError("is not an image that Pillow can read") from None
        except OSError as error:
            raise UnreadableImageError(error.strerror or f"is damaged: {error}") from None
        except ImportError:  # Ultralytics patches `Image.open` to try more packages
            raise UnreadableImageError("is not an image that Pillow can read") from None
        except (SyntaxError, ValueError, EOFError, MemoryError) as error:  # raised by decoders for damaged files
            if isinstance(error, InputError):
                raise
            raise UnreadableImageError(f"is damaged: {error}") from None


def _as_image(source: Any) -> Any:
    from PIL import Image

    if isinstance(source, Image.Image):
        return source
    pixels = np.asarray(source)
    is_image = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))
    if not is_image or pixels.dtype != np.uint8 or 0 in pixels.shape:
        raise InputError(
            "`image` must be a path, an image of Pillow, or an array of bytes with shape (H, W), (H, W, 3) or"
            f" (H, W, 4); got {type(source).__name__} of shape {pixels.shape}, {pixels.dtype}"
        )
    return Image.fromarray(np.ascontiguousarray(pixels))


def _decoded(opened: Any, size: tuple[int, int] | None, longest: int) -> Photo:
    own = opened.size
    notes: tuple[str, ...] = ()
    wanted = own if size is None else size
    is_swapped = wanted != own and wanted == own[::-1] and is_turned(opened)
    if wanted != own and not is_swapped:
        notes = (
            f"the file has {own[0]} x {own[1]} pixels, the truths say {wanted[0]} x {wanted[1]}: "
            "the file is drawn at that size",
        )
    opened.draft("RGB", (longest, longest))
    _check_pixels(opened)
    pixels = _as_bytes(opened)
    if is_swapped:
        from PIL import ImageOps

        pixels = ImageOps.exif_transpose(pixels)
    return Photo(_resized(pixels, _drawn_size(wanted, longest)).convert("RGB"), wanted, notes)


def _check_pixels(opened: Any) -> None:
    """Raise `UnreadableImageError` if a file has more pixels to decode than Pillow's limit."""
    from PIL import Image, ImageFile

    limit = Image.MAX_IMAGE_PIXELS
    is_file = isinstance(opened, ImageFile.ImageFile)
    if is_file and limit is not None and opened.width * opened.height > limit:
        raise UnreadableImageError(f"has more than {limit:,} pixels")


def _as_bytes(opened: Any) -> Any:
    """The image with 8 bits per colour or grey; deeper greys are scaled from their smallest to their largest value."""
    if opened.mode in ("RGB", "L"):
        return opened
    if not opened.mode.startswith(("I", "F")):
        return opened.convert("RGB")
    from PIL import Image

    width, height = opened.size
    num_rows = max(1, _BLOCK_PIXELS // width)
    blocks = [(0, top, width, min(top + num_rows, height)) for top in range(0, height, num_rows)]
    ends = [(values.min(), values.max()) for values in map(partial(_values_of, opened), blocks)]
    least, largest = min(low for low, _ in ends), max(high for _, high in ends)
    scale = 255 / (largest - least) if largest > least else 0
    grey = np.empty((height, width), np.uint8)
    for block in blocks:
        grey[block[1] : block[3]] = (_values_of(opened, block) - least) * scale
    return Image.fromarray(grey)


def _values_of(image: Any, block: tuple[int, int, int, int]) -> NDArray[np.float64]:
    """The greys of a part of an image: left, top, right, bottom."""
    return np.nan_to_num(np.asarray(image.crop(block), np.float64))
