"""Image files for tests: plain colours with shapes where the truths are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from boxscore import Truths


def photo(size: tuple[int, int], seed: int = 0) -> Any:
    """An image of Pillow with a soft pattern. `size`: width and height."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    phase = np.random.default_rng(seed).uniform(0, 6, 3)
    waves = [110 + 60 * np.sin(x / 50 + phase[c]) + 50 * np.cos(y / 40 - phase[c]) for c in range(3)]
    return Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8))


def write_photos(folder: Path, truths: Truths) -> Path:
    """One file per image of the truths, under its name and with its size."""
    folder.mkdir(exist_ok=True)
    names: Mapping[int, str] = truths.image_names or {}
    sizes = truths.image_sizes or {}
    for number, name in names.items():
        photo(sizes[number], number).save(folder / name)
    return folder
