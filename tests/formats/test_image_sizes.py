"""Width and height from the first bytes of image files."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore.formats.image_sizes import size_in, size_of
from tests.support.small_files import PNG, write


def jpeg(*, is_turned: bool = False) -> bytes:
    """The head of a JPEG of 320 x 240, with a thumbnail's worth of other things before the frame."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(">HH", 6 if is_turned else 1, 0)
    parts = [(0xE0, b"JFIF\0" + b"\0" * 9), (0xE1, exif), (0xE2, b"\xff\xc0" * 20_000)]
    head = b"\xff\xd8" + b"".join(bytes([0xFF, mark]) + struct.pack(">H", len(data) + 2) + data for mark, data in parts)
    return head + b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, 240, 320, 3)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (PNG, (200, 100)),
        (jpeg(), (320, 240)),
        (jpeg(is_turned=True), (240, 320)),
        (b"GIF87a" + struct.pack("<HH", 3, 4), (3, 4)),
        (b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 5, -6), (5, 6)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x09\0\0\x13\0\0", (10, 20)),
        (b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 30, 40), (30, 40)),
        (b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + struct.pack("<I", 49 | 59 << 14), (50, 60)),
        (b"II*\0", None),
        (b"", None),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0", None),
        (jpeg()[:100], None),
    ],
)
def test_sizes_come_from_the_heads_of_images(head: bytes, size: tuple[int, int] | None) -> None:
    """As shown, so a turned JPEG has its sides swapped."""
    assert size_of(head) == size


def test_a_long_head_of_a_jpeg_is_read_to_its_end(tmp_path: Path) -> None:
    """Its size comes after more than the first read."""
    assert size_in(str(write(tmp_path / "a.jpg", jpeg()))) == (320, 240)


@pytest.mark.parametrize("key", [7, np.int64(7), "7", "a", "a.jpg", "val/a.jpg"])
def test_sizes_are_given_by_id_or_by_name(tmp_path: Path, key: Any) -> None:
    """Ids of any integer type, or as text; names with or without folder and suffix."""
    header = "image_id,file_name,category_id,cx,cy,w,h"
    truths = boxscore.read_truths(
        write(tmp_path / "t.csv", f"{header}\n7,val/a.jpg,1,5,5,2,2\n"), sizes={key: (40, 20)}
    )
    assert truths.image_sizes == {7: (40, 20)}
