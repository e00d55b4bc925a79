"""Files of boxes that are read while Python imports what evaluates them. It imports next to nothing itself."""

import os
from collections.abc import Sequence

from boxscore._support.exceptions import InputError
from boxscore._support.threads import num_threads

TYPE_CHECKING = False  # as in `boxscore`
if TYPE_CHECKING:
    import boxscore._compiled as _compiled

_HARMLESS = frozenset({"--iou-type", "bbox", "--per-class", "--quiet"})
"""Words of a command line with which COCO files are read as they are without them."""


def start_reading(words: Sequence[str]) -> "_compiled.EarlyFiles | None":
    """The truths and the first detections of a command line, if they surely are COCO files with boxes; else None.

    It is a guess that costs nothing but time: who wants other files, or other shapes, reads them.
    """
    files = [word for word in words if word not in _HARMLESS]
    if len(files) < 2 or os.name == "nt":
        return None
    if not all(word.endswith(".json") and os.path.isfile(word) for word in files):  # noqa: PTH113 (without pathlib)
        return None
    try:
        threads = num_threads(None)
    except InputError:
        return None
    import boxscore._compiled as _compiled

    return _compiled.EarlyFiles(os.fsencode(files[0]), os.fsencode(files[1]), threads)
