"""Saved results with a header that boxscore would not write."""

import json
import struct
import zlib
from typing import Any

from boxscore.result.saved_results import MAGIC


def sealed(content: bytes, **changes: Any) -> bytes:
    """The same with other values in its header, and lengths and checksum that fit."""
    start = len(MAGIC) + 16
    header_size, tally_size = struct.unpack("<QQ", content[len(MAGIC) : start])
    header = json.loads(content[start : start + header_size]) | changes
    encoded = json.dumps(header).encode()
    tally = content[start + header_size + 4 :]
    return b"".join(
        [MAGIC, struct.pack("<QQ", len(encoded), tally_size), encoded, struct.pack("<I", zlib.crc32(encoded)), tally]
    )
