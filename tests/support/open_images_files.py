"""The five files of a small dataset of Open Images, written by hand."""

import json
from pathlib import Path
from typing import Any

from tests.support.small_files import write

PART = {"LabelName": "/m/limb", "Subcategory": [{"LabelName": "/m/tail"}, {"LabelName": "/m/tree"}]}
TREE = {
    "LabelName": "/m/root",
    "Subcategory": [
        {
            "LabelName": "/m/animal",
            "Subcategory": [
                {"LabelName": "/m/cat", "Part": [PART, {"LabelName": "/m/dog"}]},
                {"LabelName": "/m/dog", "Subcategory": [{"LabelName": "/m/pug"}]},
            ],
        },
        {"LabelName": "/m/pet", "Subcategory": [{"LabelName": "/m/cat"}]},
        {"LabelName": "/m/tree"},
    ],
}
NAMES = {"/m/animal": "Animal", "/m/cat": "Cat", "/m/dog": "Dog", "/m/pug": "Pug", "/m/pet": "Pet", "/m/tree": "Tree"}
HEADER = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction\n"
TRUTHS = f"""{HEADER}a,x,/m/cat,1,0.0,0.1,0.0,0.1,1,0,0,0
a,x,/m/pug,1,0.2,0.6,0.0,0.4,0,1,1,0
b,x,/m/tree,1,0.5,0.9,0.5,0.9,-1,-1,-1,-1
"""
RESULTS = """ImageID,LabelName,Score,XMin,XMax,YMin,YMax
a,/m/cat,0.9,0.0,0.1,0.0,0.1
a,/m/dog,0.8,0.2,0.3,0.0,0.1
b,/m/tree,0.7,0.5,0.9,0.5,0.9
c,/m/cat,0.6,0.5,0.9,0.5,0.9
"""
LABELS = """ImageID,Source,LabelName,Confidence
a,verification,/m/cat,1
a,verification,/m/pug,1
b,verification,/m/tree,1
c,verification,/m/animal,0
"""


def write_all(folder: Path) -> dict[str, Any]:
    """The five files of a small dataset."""
    return {
        "truths": write(folder / "truths.csv", TRUTHS),
        "detections": write(folder / "detections.csv", RESULTS),
        "labels": write(folder / "labels.csv", LABELS),
        "tree": write(folder / "tree.json", json.dumps(TREE)),
        "names": write(folder / "names.csv", "".join(f"{label},{name}\n" for label, name in NAMES.items())),
    }
