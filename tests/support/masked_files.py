"""Small files with masks: polygons, run lengths and pixels, in several formats."""

import base64
import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.small_files import COCO

RLE = {"size": [80, 90], "counts": "ea0?Q20000000000000000000000000000000000000000000ke4"}
"""Pixels from (7, 5) to (29, 19)."""

MASKED_COCO = COCO | {
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "segmentation": [[1, 2, 31, 2, 31, 42.5]]},
        {"id": 2, "image_id": 9, "category_id": 5, "segmentation": {"size": [100, 100], "counts": [7, 8, 9985]}},
    ]
}

MASKED_TABLE = "image_id\tcategory_id\tsegmentation\timage_width\timage_height\n" + "".join(
    f"0\t0\t{json.dumps(cell)}\t90\t80\n" for cell in (RLE, [[1, 2, 30.5, 4, 5, 60]])
)


def png(pixels: NDArray[Any], *, depth: int = 8, color: int = 0) -> bytes:
    """A PNG of 8 bits per pixel or fewer, without filters."""
    height, width = pixels.shape
    bits = np.unpackbits(pixels.astype(np.uint8)[:, :, None], axis=2)[:, :, 8 - depth :]
    lines = np.packbits(bits.reshape(height, -1), axis=1)
    data = b"".join(b"\0" + line.tobytes() for line in lines)
    return png_of(data, width, height, depth=depth, color=color)


def png_of(data: bytes, width: int, height: int, *, depth: int = 8, color: int = 0) -> bytes:
    """A PNG of these lines of pixels, each after the number of its filter."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def labelme_mask(left: int, top: int, pixels: NDArray[Any], **more: Any) -> dict[str, Any]:
    """A shape of pixels, as LabelMe has it: a PNG in base64, and the first and the last pixel of its box."""
    height, width = pixels.shape
    points = [[left, top], [left + width - 1, top + height - 1]]
    text = base64.b64encode(png(pixels)).decode()
    return {"label": "cat", "points": points, "shape_type": "mask", "mask": text, **more}


def with_masks_in_labelme(data: dict[str, Any]) -> dict[str, Any]:
    """The file with an object of pixels and a polygon."""
    pixels = np.array([[1, 0, 1], [0, 1, 0]])
    polygon = {"label": "cat", "points": [[1, 2], [3, 4], [5, 1]], "shape_type": "polygon", "group_id": 1}
    return data | {"shapes": [*data["shapes"], labelme_mask(4, 5, pixels, group_id=1), polygon]}


def with_mask_in_cvat(text: str) -> str:
    """The file with a mask of three pixels in its first image."""
    return text.replace(
        "</image>", '<mask label="cat" rle="1, 3, 2" left="4" top="5" width="3" height="2"/></image>', 1
    )
