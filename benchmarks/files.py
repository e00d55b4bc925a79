"""Files to the table: whole processes, imports included. And folders of many small files, read by those who can."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import Cost, Row, run, say, take_turns
from benchmarks.workloads import FOLDER, SHARED

_DROP_IN = """
import sys
from {module} import COCO, COCOeval
truths = COCO(sys.argv[1])
evaluation = COCOeval(truths, truths.loadRes(sys.argv[2]), "{iou_type}")
evaluation.evaluate()
evaluation.accumulate()
evaluation.summarize()
"""

_VERNIER = """
import sys
from pathlib import Path
from vernier import instance
truths = instance.CocoDataset.from_json(Path(sys.argv[1]).read_bytes())
summary = instance.evaluate_{iou_type}_summary(
    truths, Path(sys.argv[2]).read_bytes(), parity_mode="strict", use_cats=True, {settings}
)
print(summary.stats)
"""
_OF_VERNIER = {"keypoints": "max_dets=[20], sigmas={}"}
"""Settings of vernier by IoU type, where they are not those of boxes."""
_FILES_OF = {("vernier", "keypoints"): "detections_with_boxes.json"}
"""The detections of a tool that does not read `detections.json`."""


def commands(iou_type: str = "bbox") -> Mapping[str, Sequence[str]]:
    """Each is called with the truths and the detections."""

    def script(module: str) -> list[str]:
        return [sys.executable, "-c", _DROP_IN.format(module=module, iou_type=iou_type)]

    return {
        "boxscore eval": [str(Path(sys.executable).with_name("boxscore")), "eval", "--iou-type", iou_type],
        "hotcoco": script("hotcoco"),
        "ultrafast-pycocotools": script("ultrafast_pycocotools"),
        "vernier": [
            sys.executable,
            "-c",
            _VERNIER.format(iou_type=iou_type, settings=_OF_VERNIER.get(iou_type, "max_dets=[1, 10, 100]")),
        ],
    }


def measure_commands(folder: Path, iou_type: str, *, group: str, rounds: int, threads: int) -> list[Row]:
    """All commands in turns: medians."""

    def measure(name: str) -> Cost:
        say(f"files, {iou_type}: {name}")
        paths = [folder / "truths.json", folder / _FILES_OF.get((name, iou_type), "detections.json")]
        return run([*commands(iou_type)[name], *map(str, paths)], threads=threads)

    costs = take_turns(commands(iou_type), measure, rounds=rounds)
    return [
        {
            "group": group,
            "tool": name,
            "seconds": statistics.median(cost.seconds for cost in each),
            "peak_mb": statistics.median(cost.peak_mb for cost in each),
        }
        for name, each in costs.items()
    ]


_READERS = {
    "voc": {
        "boxscore": "from boxscore import read_truths; read_truths(sys.argv[1] + '/Annotations')",
        "supervision": (
            "import supervision; supervision.DetectionDataset.from_pascal_voc("
            "images_directory_path=sys.argv[1] + '/images', annotations_directory_path=sys.argv[1] + '/Annotations')"
        ),
        "globox": (
            "import globox, pathlib; globox.AnnotationSet.from_pascal_voc("
            "folder=pathlib.Path(sys.argv[1]) / 'Annotations')"
        ),
    },
    "yolo": {
        "boxscore": (
            "from boxscore import read_truths; read_truths(sys.argv[1] + '/labels', sizes=sys.argv[1] + '/images',"
            " names=sys.argv[1] + '/data.yaml')"
        ),
        "supervision": (
            "import supervision; supervision.DetectionDataset.from_yolo(images_directory_path=sys.argv[1] + '/images',"
            " annotations_directory_path=sys.argv[1] + '/labels', data_yaml_path=sys.argv[1] + '/data.yaml')"
        ),
        "globox": (
            "import globox, pathlib; p = pathlib.Path(sys.argv[1]); globox.AnnotationSet.from_yolo_v5("
            "folder=p / 'labels', image_folder=p / 'images', image_extension='.png')"
        ),
    },
}
_TIMED = """
import sys, time, warnings
warnings.simplefilter("ignore")
{module}
start = time.perf_counter()
{call}
print(time.perf_counter() - start)
"""


def readers(kind: str) -> Mapping[str, list[str]]:
    """A command for each tool that reads a folder of that kind; it prints seconds, without those of imports."""
    return {
        name: [sys.executable, "-c", _TIMED.format(module=code.split("; ", 1)[0], call=code.split("; ", 1)[1])]
        for name, code in _READERS[kind].items()
    }


def folder_of(kind: str) -> Path | None:
    """A folder of about 5,000 annotations with their images, all of them tiny; None where the real data is not here."""
    folder = FOLDER / f"folder-{kind}"
    if (folder / "data.yaml").exists():
        return folder
    archive = SHARED / "voc2007/Annotations.zip"
    if not archive.exists():
        return None
    import boxscore

    truths = boxscore.read_truths(archive)
    names = [Path(name).stem for name in (truths.image_names or {}).values()]
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for name, (width, height) in zip(names, (truths.image_sizes or {}).values(), strict=True):
        (folder / "images" / f"{name}.png").write_bytes(_png(width, height))
    if kind == "voc":
        boxscore.write_truths(folder, truths, format="voc", overwrite=True)
    else:
        boxscore.write_truths(folder, truths, format="yolo", overwrite=True)
    classes = (truths.names_by_label or {}).values()
    (folder / "data.yaml").write_text("names: [" + ", ".join(f"'{name}'" for name in classes) + "]\n")
    return folder


def _png(width: int, height: int) -> bytes:
    """A black picture."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = np.zeros((height, 1 + (width + 7) // 8), np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
