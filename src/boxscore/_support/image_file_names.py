"""Keys that identify an image by its file name: the path, the name without folders, the stem, or its number."""

IMAGE_SUFFIXES = frozenset({".bmp", ".dng", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
SUFFIXES = IMAGE_SUFFIXES | {".json", ".txt", ".xml"}


def base_of(name: str) -> str:
    r"""A file name without its folder, for both kinds of slashes.

    >>> base_of("val/000001.jpg"), base_of("val\\a.b.png")
    ('000001.jpg', 'a.b.png')
    """
    return name.replace("\\", "/").rpartition("/")[2]


def stem_of(name: str) -> str:
    """A file name without its folder and without the suffix of an image or a label file.

    >>> stem_of("val/000001.jpg"), stem_of("clip.v2"), stem_of("clip.v2.TXT")
    ('000001', 'clip.v2', 'clip.v2')
    """
    base = base_of(name)
    stem, dot, suffix = base.rpartition(".")
    return stem if stem and f"{dot}{suffix}".lower() in SUFFIXES else base


NAME_KEYS = (str, base_of, stem_of)
"""Keys by which an image is looked up, the strictest first."""


def number_of(name: str) -> int | None:
    """The id in a file name: its stem as an integer, with or without leading zeros; None for other stems.

    >>> number_of("val/000012.jpg"), number_of("a12.jpg")
    (12, None)
    """
    stem = stem_of(name)
    return int(stem) if stem.isascii() and stem.isdigit() and len(stem) <= 18 else None
