"""Small files of several formats, written by hand, and what is asked of those who read them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import boxscore
from boxscore import Detections, InputError, Truths


def image_file(size: tuple[int, int], kind: str = "PNG", **options: Any) -> bytes:
    """A black image, as Pillow writes it."""
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind, **options)
    return file.getvalue()


PNG = image_file((200, 100))

COCO = {
    "images": [
        {"id": 7, "file_name": "val/a.jpg", "width": 200, "height": 100},
        {"id": 9, "file_name": "val/b.jpg", "width": 100, "height": 100},
    ],
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30.5, 40], "area": 1000, "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 5, "bbox": [5, 6, 7, 8], "area": 50, "iscrowd": 1},
    ],
    "categories": [{"id": 3, "name": "cat"}, {"id": 5, "name": "dog"}],
}

VOC = """<annotation><filename>x.jpg</filename><size><width>200</width><height>100</height></size>
<object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>1</difficult>
<bndbox><xmin>48</xmin><ymin>24.5</ymin><xmax>195</xmax><ymax>71</ymax></bndbox></object>
<object><name>cat</name><bndbox><ymin>2</ymin><xmin>1</xmin><xmax>3</xmax><ymax>4</ymax></bndbox></object>
</annotation>"""

EMPTY_VOC = "<annotation></annotation>"


def write(path: Path, text: str | bytes) -> Path:
    """The file with this text, and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(columns: Truths | Detections, truths: Truths) -> list[Any]:
    """(image name, class name, box, …) of every row; names instead of numbers."""
    names, classes = truths.image_names or {}, truths.names_by_label or {}
    keys = zip(columns.image_ids.tolist(), columns.labels.tolist(), columns.boxes.tolist(), strict=True)
    rows = [(names.get(image, image), classes.get(label, label), box) for image, label, box in keys]
    if isinstance(columns, Detections):
        return [(*row, score) for row, score in zip(rows, columns.scores.tolist(), strict=True)]
    return rows


def coco_truths(folder: Path) -> Truths:
    """A cat and a crowd of dogs in a.jpg; nothing in b.jpg."""
    return boxscore.read_truths(write(folder / "truths" / "coco.json", json.dumps(COCO)))


def refused(call: Any, message: str) -> str:
    """Raises InputError with the message in it, in one line, which is returned."""
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)
