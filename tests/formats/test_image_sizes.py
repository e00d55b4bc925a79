"""Width and height from the headers of image files."""

import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import boxscore
from boxscore.formats.image_sizes import size_in
from tests.support.masked_files import png_of
from tests.support.small_files import image_file, refused, write


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_sizes_are_those_of_the_image_as_displayed(tmp_path: Path, kind: str, orientation: int) -> None:
    """A turned JPEG has its sides swapped; other formats are displayed as they are stored."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"exif": exif} if kind in ("PNG", "JPEG", "WEBP") else {}
    path = write(tmp_path / "a.img", image_file((30, 20), kind, **options))
    is_swapped = kind == "JPEG" and orientation in (6, 8)
    assert size_in(str(path)) == ((20, 30) if is_swapped else (30, 20))


def test_no_pixel_is_decoded(tmp_path: Path) -> None:
    """So the size of an image of 10 gigapixels, whose pixels are missing, is known."""
    assert size_in(str(write(tmp_path / "a.png", png_of(b"", 100_000, 100_000)))) == (100_000, 100_000)


def test_a_long_header_of_a_jpeg_is_read_to_its_end(tmp_path: Path) -> None:
    """Its size comes after two segments of 60 kB, such as thumbnails."""
    whole = image_file((32, 24), "JPEG")
    segment = b"\xff\xe5" + struct.pack(">H", 60_002) + b"\xff\xc0" * 30_000
    assert size_in(str(write(tmp_path / "a.jpg", whole[:2] + segment * 2 + whole[2:]))) == (32, 24)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.png: must be a JPEG, PNG, WEBP, TIFF, BMP or GIF image; got another file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "must be a JPEG, PNG, WEBP, TIFF, BMP or GIF image; got another file"),
        (image_file((9, 9))[:20], "a.png: not a whole PNG image: "),
        (image_file((9, 9), "JPEG")[:100], "a.png: not a whole JPEG image: "),
        (image_file((9, 9), "WEBP")[:20], "a.png: not a whole WEBP image: "),
        (b"II*\0", "a.png: not a whole TIFF image: "),
    ],
)
def test_other_files_and_damaged_headers_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """By name, in one line."""
    refused(lambda: size_in(str(write(tmp_path / "a.png", content))), message)


def test_damaged_orientations_are_left_out(tmp_path: Path) -> None:
    """The size is that of the stored pixels."""
    path = write(tmp_path / "a.jpg", image_file((30, 20), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\xff\1"))
    assert size_in(str(path)) == (30, 20)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_headers_with_bytes_changed_give_a_size_or_one_line(tmp_path: Path, kind: str, seed: int) -> None:
    """Never another error, nor a warning."""
    rng = np.random.default_rng(seed)
    changed = bytearray(image_file((30, 20), kind))
    for place in rng.integers(min(200, len(changed)), size=3):
        changed[place] = rng.integers(256)
    path = write(tmp_path / "a.img", bytes(changed))
    try:
        assert min(size_in(str(path))) > 0
    except boxscore.InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.skipif(os.name != "posix", reason="pipes are files there")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Nor is a folder read."""
    os.mkfifo(tmp_path / "a.png")
    refused(lambda: size_in(str(tmp_path / "a.png")), "a.png: is not a regular file")
    refused(lambda: size_in(str(tmp_path)), "Is a directory")


def test_without_pillow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes from a list need nothing."""
    labels = write(tmp_path / "d" / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2\n").parent
    write(tmp_path / "d" / "images" / "a.png", image_file((30, 20)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused(lambda: boxscore.read_truths(labels), "a.png: sizes and masks need Pillow, to read images: pip install 'bo")
    assert len(boxscore.read_truths(labels, sizes={"a": (30, 20)})) == 1


@pytest.mark.parametrize("key", [7, np.int64(7), "7", "a", "a.jpg", "val/a.jpg"])
def test_sizes_are_given_by_id_or_by_name(tmp_path: Path, key: Any) -> None:
    """Ids of any integer type, or as text; names with or without folder and suffix."""
    header = "image_id,file_name,category_id,cx,cy,w,h"
    truths = boxscore.read_truths(
        write(tmp_path / "t.csv", f"{header}\n7,val/a.jpg,1,5,5,2,2\n"), sizes={key: (40, 20)}
    )
    assert truths.image_sizes == {7: (40, 20)}
