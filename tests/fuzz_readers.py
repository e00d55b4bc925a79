"""Small files of every format, most of them damaged, through every reader, for as long as you like.

    python -m tests.fuzz_readers SECONDS [SEED [FORMAT]]

Each must give a result or an `InputError` of one line, nothing else, within seconds and within a limit of memory. What
is found is told with its seed; the same seed makes the same file.
"""

import faulthandler
import gzip
import io
import json
import random
import re
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import boxscore
from boxscore import InputError, Tally, Truths
from boxscore.formats.groups import read_groups
from boxscore.result.storage import to_bytes
from tests.support.fuzzing import damage
from tests.support.masked_files import MASKED_COCO, MASKED_TABLE, RLE, with_mask_in_cvat, with_masks_in_labelme
from tests.support.small_files import COCO, EMPTY_VOC, PNG, VOC

SECONDS = 20
"""A case that takes longer ends the run, with the stack."""
MEMORY = 2 << 30
"""What a case may allocate."""
Files = dict[str, bytes]

KNOWN: dict[str, Any] = {"image_names": {0: "a.jpg", 1: "b.jpg"}, "class_names": ["cat", "dog"]}
TRUTHS = Truths(
    image_ids=[0, 1], labels=[0, 1], boxes=[[0, 0, 9, 9]] * 2, image_sizes={0: (100, 100), 1: (100, 100)}, **KNOWN
)
FOUND = boxscore.Detections(image_ids=[0, 1], labels=[0, 1], scores=[0.9, 0.8], boxes=[[0, 0, 9, 9]] * 2)

CVAT = """<?xml version="1.0"?><annotations><meta><task><labels><label><name>cat</name></label></labels></task></meta>
<image id="0" name="a.jpg" width="90" height="80"><box label="cat" xtl="1" ytl="2.5" xbr="8" ybr="9" rotation="30"/>
<polygon label="cat" points="1,2;3,4;5.5,6"/></image><image id="1" name="b.jpg" width="90" height="80"/>
</annotations>"""
LABELME = {
    "imagePath": "a.jpg",
    "imageWidth": 90,
    "imageHeight": 80,
    "shapes": [
        {"label": "cat", "points": [[1, 2], [3.5, 4]], "shape_type": "rectangle"},
        {"label": "dog", "points": [[1, 2], [3, 4], [5, 1]], "shape_type": "polygon", "difficult": True},
        {"label": "dog", "points": [[5, 5], [5, 8]], "shape_type": "circle"},
    ],
}
RESULTS = [{"image_id": 0, "category_id": 1, "bbox": [1, 2, 3.5, 4], "score": 0.5}]
TABLE = "image_id,file_name,category_id,class_name,x1,y1,x2,y2,ignore,area,image_width,image_height\n" + "".join(
    f"{i},{name},{i},{label},1,2.5,8,9,0,12,90,80\n"
    for i, (name, label) in enumerate([("a.jpg", "cat"), ("b.jpg", "dog")])
)
SCORED = "image,label,score,x,y,w,h\na.jpg,cat,0.5,1,2.5,8,9\nb.jpg,dog,1e-3,1,2,8,9\n"
OPEN = "ImageID,LabelName,Score,XMin,XMax,YMin,YMax,IsGroupOf\na,cat,0.5,0.1,0.5,0.2,1,0\nb,dog,0.25,0,1,0,1,1\n"
YAML = "path: .\nval: images\nnc: 2\nnames:\n  0: cat\n  1: 'a dog'\n"

NUMBERS = (
    b"nan inf -inf 1e400 -1 0 -0 1 2 7 0.5 1e-400 007 1_0 0x1 1. .5 1e9 1e300 4294967296 9223372036854775808"
    b" 99999999999999999999 -9223372036854775808 5\xc2\xa0 true null"
).split()
WORDS = (
    b'None "" [] {} <a> </a> &amp; <!DOCTYPE <![CDATA[ &a; *a &a !!x - : # % , ; \\u0000 \\ud800 ../ / \\ ~'
    b" images a.jpg"
).split()
ODD = [
    b"\xc2\xa0",
    b"\xef\xbb\xbf",
    b"\0",
    b"\r",
    b"\r\n",
    b"\n",
    b"\t",
    b" ",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x90\x88",
    b'"',
]
LONG = [b"9" * 5000, b"[" * 3000, b"<a>" * 2000, b"_det_" * 2000, b"a" * 140_000, b"0 " * 5000, b"\n" * 3000]
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def damaged(content: bytes, rand: random.Random) -> bytes:
    """The content with something wrong, or at least different."""
    text = bytearray(content)
    for _ in range(rand.choice([1, 1, 1, 2, 4])):
        at, to = sorted(rand.randrange(len(text) + 1) for _ in range(2))
        numbers = list(NUMBER.finditer(bytes(text[:100_000])))
        if numbers and rand.random() < 0.5:
            number = rand.choice(numbers)
            text[number.start() : number.end()] = rand.choice(NUMBERS)
            continue
        piece = rand.choice(rand.choices([NUMBERS, WORDS, ODD, LONG], [4, 4, 6, 1])[0])
        kind = rand.randrange(7)
        if kind < 6:
            damage(text, rand, kind, at, to, partial(bytes, piece))
        elif at + 8 <= len(text):
            text[at : at + 8] = struct.pack("<q", rand.choice([-1, 0, 1, 2**31, 2**62, -(2**63), 5 * 10**8]))
    return bytes(text)


def zipped(files: Mapping[str, bytes], rand: random.Random) -> bytes:
    """The files in a zip; now and then two have one name, or an odd one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rand.choice([0, 8, 8, 12, 14])) as archive:
        for name, content in files.items():
            archive.writestr(
                rand.choice(["a\n.xml", "../x", "é.npy", "\x07"]) if rand.random() < 0.005 else name, content
            )
            if rand.random() < 0.005:
                archive.writestr(name, content)
    return buffer.getvalue()


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """How files of a format are made, what of them is damaged, and who reads them."""

    make: Callable[[random.Random], Files]
    """Whole files by name."""
    read: Callable[[Path], Any]
    """Of the folder that they are in."""
    pack: Callable[[Files, random.Random], Files] | None = None
    """What is made of the files before they are written; damage may be before or after it."""
    is_random: bool = False
    """Whether whole files have odd columns already; then half of them stay whole."""
    needs: str = "numpy"
    """A module without which there is no such format."""


def text(name: str, content: str | bytes) -> Callable[[random.Random], Files]:
    """One file, always the same."""
    return lambda _: {name: content.encode() if isinstance(content, str) else content}


def texts(**files: str | bytes) -> Callable[[random.Random], Files]:
    """Several, with "__" for a slash and "_dot_" for a dot in their names."""
    named = {name.replace("__", "/").replace("_dot_", "."): content for name, content in files.items()}
    return lambda _: {
        name: content.encode() if isinstance(content, str) else content for name, content in named.items()
    }


def truths_at(name: str, **options: Any) -> Callable[[Path], Any]:
    """Reads truths, evaluates something against them, and looks for what is suspicious."""
    return lambda folder: boxscore.read_truths(folder / name, **options)


def detections_at(name: str, **options: Any) -> Callable[[Path], Any]:
    """Reads detections."""
    return lambda folder: boxscore.read_detections(folder / name, TRUTHS, **options)


def random_columns(rand: random.Random) -> dict[str, Any]:
    """Columns of a table of two rows, some of another kind than they should be."""
    kinds: list[Callable[[], Any]] = [
        lambda: np.array([0, 1], rand.choice(["<i8", ">i8", "u1", "<u8", "<i2"])),
        lambda: np.array([0.5, 1], rand.choice(["<f8", ">f8", "<f4", "<f2"])),
        lambda: np.array([2**63, 1], np.uint64),
        lambda: np.array(["a", rand.choice(["", "b", "1.5", "7\u00a0", "\ud800"])]),
        lambda: np.array([True, False]),
        lambda: np.array([np.nan, np.inf]),
        lambda: np.ones(rand.choice([(2, 4), (2, 1), (2, 0), (0, 2), (2, 4, 2), (3,), ()])),
        lambda: np.zeros((2,), rand.choice(["S3", "M8[s]", "c16", "V3", "U0", [("a", "i4")]])),
    ]
    columns: dict[str, Any] = {
        "image": np.array([0, 1]),
        "label": np.array([0, 1]),
        "box": np.ones((2, 4)),
        "score": np.array([0.5, 1]),
        "area": np.ones(2),
        "ignore": np.array([0, 1]),
        "class_name": np.array(["cat", "dog"]),
    }
    names = [*columns, "images", "image_names", "image_sizes", "classes", "class_names", "Score", "truncated"]
    for _ in range(rand.choice([0, 0, 1, 1, 2])):
        columns[rand.choice(names)] = rand.choice(kinds)()
    if rand.random() < 0.1:
        del columns[rand.choice(list(columns))]
    return columns


def arrays(rand: random.Random) -> Files:
    """The columns as .npy files."""
    files = {}
    for name, column in random_columns(rand).items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(column))
        files[f"{name}.npy"] = buffer.getvalue()
    return files


def arrow_table(rand: random.Random) -> Any:
    """The columns as an Arrow table, with metadata of our own that may be anybody's."""
    import pyarrow

    columns: dict[str, Any] = {}
    for name, column in random_columns(rand).items():
        try:
            values = list(column) if getattr(column, "ndim", 0) > 1 else column
            columns[name] = pyarrow.array(values, mask=np.arange(2) < (rand.random() < 0.05))
        except (pyarrow.ArrowException, ValueError, TypeError, UnicodeError, NotImplementedError):
            columns[name] = pyarrow.nulls(2)
        if rand.random() < 0.03:
            columns[name] = rand.choice([columns[name].slice(0, 1), pyarrow.nulls(2), pyarrow.array([{"a": 1}, None])])
    num = min(map(len, columns.values()), default=0)
    table = pyarrow.table({name: column.slice(0, num) for name, column in columns.items()})
    lists = json.dumps({"images": {"0": "a", "1": "b"}, "sizes": {"0": [9, 9]}, "classes": {"0": "cat"}}).encode()
    return table.replace_schema_metadata({b"boxscore": damaged(lists, rand) if rand.random() < 0.2 else lists})


def masked_arrays(rand: random.Random) -> Files:
    """The columns as .npy files, and the arrays of two masks."""
    masks = boxscore.data.Masks.from_pixels(np.array([np.eye(9), np.ones((9, 9))], bool)).runs
    columns = {"mask_counts": masks.counts, "mask_start": masks.start, "mask_sizes": masks.sizes}
    if rand.random() < 0.3:
        name = rand.choice(list(columns))
        columns[name] = rand.choice([columns[name][:-1], columns[name].astype("f8"), columns[name].astype("i2")])
    files = arrays(rand)
    for name, column in columns.items():
        np.lib.format.write_array(buffer := io.BytesIO(), np.asarray(column))
        files[f"{name}.npy"] = buffer.getvalue()
    return files


def masked_parquet(rand: random.Random) -> Files:
    """The table as Parquet, with a column of masks: structs, or text."""
    import pyarrow.parquet

    table = arrow_table(rand)
    rows: list[Any] = [RLE, {"size": [2], "counts": "2"}, None, [[1, 2, 3, 4]]]
    some = [rand.choices(rows, [20, 1, 1, 1])[0] for _ in range(table.num_rows)]
    try:
        column = pyarrow.array(some)
    except (pyarrow.ArrowException, TypeError):
        column = pyarrow.array([json.dumps(each) for each in some])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table.append_column("segmentation", column), buffer)
    return {"t.parquet": buffer.getvalue()}


def parquet(rand: random.Random) -> Files:
    """The table as Parquet."""
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(arrow_table(rand), buffer, compression=rand.choice(["none", "snappy", "zstd"]))
    return {"t.parquet": buffer.getvalue()}


def arrow(rand: random.Random) -> Files:
    """The table as Arrow IPC."""
    import pyarrow.ipc

    buffer, table = io.BytesIO(), arrow_table(rand)
    options = pyarrow.ipc.IpcWriteOptions(compression=rand.choice([None, "zstd", "lz4"]))
    with rand.choice([pyarrow.ipc.new_file, pyarrow.ipc.new_stream])(buffer, table.schema, options=options) as writer:
        writer.write_table(table)
    return {"t.arrow": buffer.getvalue()}


def read_in_pieces(folder: Path) -> Any:
    """Parquet within a limit of memory."""
    from boxscore.scaling.out_of_core import evaluate_files

    return evaluate_files(str(folder / "t.parquet"), str(folder / "t.parquet"), memory="64GB", box_format="xyxy")


def tally(rand: random.Random) -> Files:
    """A stored tally."""
    protocol: Any = rand.choice(["coco", "voc2007", "paper"])
    return {"t": to_bytes(boxscore.match(FOUND, TRUTHS, protocol))}


def with_checksum(files: Files, rand: random.Random) -> Files:
    """A tally whose lengths and checksum are right, whatever was changed, and now and then its header is."""
    content = files["t"]
    start = content.find(b"\n") + 17
    end = content.rfind(b"}") + 1
    if content[:8] != b"boxscore" or not start < end <= len(content) - 4:
        return files
    header, data = content[start:end], content[end:-4]
    if rand.random() < 0.5:
        header = damaged(header, rand)
    total = struct.pack("<I", zlib.crc32(data, zlib.crc32(header)))
    return {"t": content[: start - 16] + struct.pack("<QQ", len(header), len(data) + 4) + header + data + total}


VOC_FILES = texts(Annotations__a_dot_xml=VOC, Annotations__b_dot_xml=EMPTY_VOC)
VOC_RESULTS = texts(
    comp4_det_test_cat_dot_txt="a 0.5 1 2 8 9.5\nb 0.25 1 2 8 9\n", comp4_det_test_dog_dot_txt="a 0.5 1 2 8 9\n"
)
YOLO = texts(
    labels__a_dot_txt="0 0.5 0.5 0.5 0.25\n1 0.1 0.1 0.3 0.3 0.2 0.4\n",
    labels__b_dot_txt="",
    images__a_dot_png=PNG,
    images__b_dot_png=PNG,
    data_dot_yaml=YAML,
)
IN_ZIP: dict[str, Any] = {"pack": lambda files, rand: {"z.zip": zipped(files, rand)}}
IN_GZ: dict[str, Any] = {
    "pack": lambda files, _: {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}
}
IN_NPZ: dict[str, Any] = {"pack": lambda files, rand: {"t.npz": zipped(files, rand)}, "is_random": True}
YOLO_POLYGONS = texts(
    labels__a_dot_txt="0 0.5 0.5 0.5 0.25 0.1 0.3\n1 0.1 0.1 0.3 0.3 0.2 0.4 0.1 0.7\n",
    images__a_dot_png=PNG,
    data_dot_yaml=YAML,
)
MASKS: dict[str, Any] = {"iou_type": ("bbox", "segm"), "keep_polygons": True}
GROUPS = json.dumps({"a.jpg": "night", "b.jpg": 7})
IMAGES = json.dumps({"images": [{"id": 0, "night": True, "file_name": "a.jpg"}, {"id": 1, "night": "x"}]})

LABELS = "ImageID,Source,LabelName,Confidence\na,x,cat,1\nc,x,dog,0\n"
TREE = {"LabelName": "root", "Subcategory": [{"LabelName": "pet", "Subcategory": [{"LabelName": "cat"}]}]}
TREE["Subcategory"].append({"LabelName": "dog", "Part": [{"LabelName": "tail"}]})  # type: ignore[attr-defined]
PERSON = {"tag": "person", "fbox": [1, 2, 3.5, 4], "vbox": [1, 2, 3, 4], "extra": {"ignore": 0}}
CROWD = "".join(json.dumps({"ID": name, "width": 90, "height": 80, "gtboxes": [PERSON] * 2}) + "\n" for name in "ab")
FOUND_CROWD = json.dumps({"ID": "a", "width": 9, "height": 8, "dtboxes": [{"box": [1, 2, 3.5, 4], "score": 0.5}]})
PERSONS = Truths(image_ids=[0], labels=[0], boxes=[[0, 0, 9, 9]], image_names={0: "a"}, class_names=["person"])

DOTA = texts(a_dot_txt="gsd:0.1\n0 0 9 0 9 9 0 9 ship 0\n", b_dot_txt="0 0 9 1 9 9 0 8 plane 1\n")

FORMATS: dict[str, Format] = {
    "coco": Format(make=text("c.json", json.dumps(COCO)), read=truths_at("c.json")),
    "coco results": Format(make=text("c.json", json.dumps(RESULTS)), read=detections_at("c.json")),
    "coco.gz": Format(make=text("c.json", json.dumps(COCO)), read=truths_at("c.json.gz"), **IN_GZ),
    "coco.zip": Format(make=text("c.json", json.dumps(COCO)), read=truths_at("z.zip"), **IN_ZIP),
    "voc": Format(make=VOC_FILES, read=truths_at("Annotations")),
    "voc.zip": Format(make=VOC_FILES, read=truths_at("z.zip"), **IN_ZIP),
    "voc results": Format(make=VOC_RESULTS, read=detections_at("", format="voc")),
    "dota": Format(make=DOTA, read=truths_at("", format="dota", iou_type="obb")),
    "yolo": Format(make=YOLO, read=truths_at("", format="yolo")),
    "yolo.zip": Format(make=YOLO, read=truths_at("z.zip"), **IN_ZIP),
    "yolo results": Format(
        make=texts(a_dot_txt="0 0.5 0.5 0.5 0.25 0.9\n", b_dot_txt="1 0.5 0.5 0.5 0.25 0.9\n"),
        read=detections_at("", format="yolo"),
    ),
    "data.yaml": Format(make=YOLO, read=truths_at("data.yaml")),
    "text": Format(
        make=texts(a_dot_txt="cat 1 2 8 9\ndog 1 2 3 4 difficult\n", b_dot_txt=""), read=truths_at("", format="text")
    ),
    "text results": Format(
        make=texts(a_dot_txt="cat 0.5 1 2 8 9\n", b_dot_txt="dog 0.25 1 2 3 4\n"), read=detections_at("", format="text")
    ),
    "cvat": Format(make=text("c.xml", CVAT), read=truths_at("c.xml")),
    "labelme": Format(make=text("a.json", json.dumps(LABELME)), read=truths_at("", format="labelme")),
    "openimages": Format(make=text("o.csv", OPEN), read=truths_at("o.csv")),
    "openimages results": Format(
        make=texts(o_dot_csv=OPEN, names_dot_csv="cat,cat\ndog,dog\n"),
        read=lambda folder: boxscore.read_detections(folder / "o.csv", TRUTHS, names=folder / "names.csv"),
    ),
    "openimages labels": Format(
        make=texts(o_dot_csv=OPEN, l_dot_csv=LABELS, t_dot_json=json.dumps(TREE)),
        read=lambda folder: boxscore.read_truths(
            folder / "o.csv", image_labels=folder / "l.csv", hierarchy=folder / "t.json"
        ),
    ),
    "odgt": Format(make=text("c.odgt", CROWD), read=truths_at("c.odgt")),
    "odgt results": Format(
        make=text("c.odgt", FOUND_CROWD), read=lambda folder: boxscore.read_detections(folder / "c.odgt", PERSONS)
    ),
    "odgt sizes": Format(
        make=texts(c_dot_odgt=CROWD, o_dot_csv=OPEN),
        read=lambda folder: boxscore.read_truths(folder / "o.csv", sizes=folder / "c.odgt"),
    ),
    "csv": Format(make=text("t.csv", TABLE), read=truths_at("t.csv")),
    "csv results": Format(make=text("t.csv", SCORED), read=detections_at("t.csv")),
    "csv.gz": Format(make=text("t.csv", TABLE), read=truths_at("t.csv.gz"), **IN_GZ),
    "tsv": Format(make=text("t.tsv", TABLE.replace(",", "\t")), read=truths_at("t.tsv")),
    "sizes": Format(
        make=texts(s_dot_csv="name,width,height\na,9,9\nb,9,9\n", o_dot_csv=OPEN),
        read=lambda folder: boxscore.read_truths(folder / "o.csv", sizes=folder / "s.csv"),
    ),
    "npz": Format(make=arrays, read=truths_at("t.npz", box_format="xyxy"), **IN_NPZ),
    "npz results": Format(make=arrays, read=detections_at("t.npz", box_format="xyxy"), **IN_NPZ),
    "parquet": Format(make=parquet, read=truths_at("t.parquet", box_format="xyxy"), is_random=True, needs="pyarrow"),
    "parquet results": Format(
        make=parquet, read=detections_at("t.parquet", box_format="xyxy"), is_random=True, needs="pyarrow"
    ),
    "parquet in pieces": Format(make=parquet, read=read_in_pieces, is_random=True, needs="pyarrow"),
    "arrow": Format(make=arrow, read=truths_at("t.arrow", box_format="xyxy"), is_random=True, needs="pyarrow"),
    "coco masks": Format(make=text("c.json", json.dumps(MASKED_COCO)), read=truths_at("c.json", **MASKS)),
    "yolo masks": Format(make=YOLO_POLYGONS, read=truths_at("", format="yolo", **MASKS)),
    "yolo mask results": Format(
        make=texts(a_dot_txt="0 0.5 0.5 0.5 0.25 0.1 0.3 0.9\n", b_dot_txt="1 0.5 0.5 0.5 0.25 0.3 0.3 0.9\n"),
        read=detections_at("", format="yolo", **MASKS),
    ),
    "cvat masks": Format(make=text("c.xml", with_mask_in_cvat(CVAT)), read=truths_at("c.xml", **MASKS)),
    "labelme masks": Format(
        make=text("a.json", json.dumps(with_masks_in_labelme(LABELME))), read=truths_at("", format="labelme", **MASKS)
    ),
    "tsv masks": Format(make=text("t.tsv", MASKED_TABLE), read=truths_at("t.tsv", **MASKS)),
    "npz masks": Format(make=masked_arrays, read=truths_at("t.npz", box_format="xyxy", **MASKS), **IN_NPZ),
    "parquet masks": Format(
        make=masked_parquet, read=truths_at("t.parquet", box_format="xyxy", **MASKS), is_random=True, needs="pyarrow"
    ),
    "groups": Format(make=text("g.json", GROUPS), read=lambda folder: read_groups(folder / "g.json", TRUTHS)),
    "groups of images": Format(
        make=text("g.json", IMAGES), read=lambda folder: read_groups(folder / "g.json", TRUTHS, column="night")
    ),
    "groups.csv": Format(
        make=text("g.csv", "image,group\na.jpg,x\nb.jpg,y\n"), read=lambda folder: read_groups(folder / "g.csv", TRUTHS)
    ),
    "groups.parquet": Format(
        make=parquet, read=lambda folder: read_groups(folder / "t.parquet", TRUTHS, column="label"), needs="pyarrow"
    ),
    "tally": Format(make=tally, read=lambda folder: boxscore.finish(Tally.load(folder / "t")), pack=with_checksum),
}
"""Every reader."""


def known_formats() -> list[str]:
    """Those that can be read here."""
    return [name for name, each in FORMATS.items() if find_spec(each.needs)]


def files_of(name: str, seed: int, *, is_damaged: bool = True) -> Files:
    """The files of a case."""
    rand, each = random.Random(f"{name} {seed}"), FORMATS[name]
    files = each.make(rand)
    is_damaged = is_damaged and not (each.is_random and rand.random() < 0.5)
    is_inside = each.pack is not None and rand.random() < 0.6
    victim = rand.choice(list(files))
    if is_damaged and (is_inside or each.pack is None):
        files[victim] = damaged(files[victim], rand)
    with warnings.catch_warnings(action="ignore"):
        files = files if each.pack is None else each.pack(files, rand)
    if is_damaged and each.pack is not None and not is_inside:
        victim = rand.choice(list(files))
        files[victim] = damaged(files[victim], rand)
    return files


def outcome(name: str, files: Files, folder: Path) -> InputError | None:
    """What reading them gives: nothing wrong, or a refusal; another error is let through."""
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            FORMATS[name].read(folder)
        except InputError as error:
            message = str(error)
            assert "\n" not in message, f"more than one line: {message!r}"
            return error
    return None


def check_case(name: str, seed: int) -> bool:
    """One case; whether it was read."""
    with tempfile.TemporaryDirectory(prefix="boxscore-fuzz-") as folder:
        return outcome(name, files_of(name, seed), Path(folder)) is None


def limit_memory() -> None:
    """No case may have more; under the sanitizers, whose own tables are larger than any limit, it is not so."""
    import resource

    if "libasan" not in Path("/proc/self/maps").read_text():
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def main(seconds: float, seed: int, only: str | None) -> int:
    """Cases from a seed on, until time is up; what is found is told once for each place in the code."""
    names = known_formats() if only is None else [only]
    for name in names:
        with tempfile.TemporaryDirectory(
            prefix="boxscore-fuzz-"
        ) as folder:  # modules are there before memory is limited
            outcome(name, files_of(name, 0, is_damaged=False), Path(folder))
    limit_memory()
    end = time.monotonic() + seconds
    found: dict[str, str] = {}
    num = num_valid = 0
    while time.monotonic() < end:
        name = names[num % len(names)]
        if num and num % len(names) == 0:
            seed += 1
        # Said beforehand: a crash says nothing.
        print(f"{name} {seed}\033[K", end="\r", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            num_valid += check_case(name, seed)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{name}: {type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
            if key not in found:
                found[key] = f"python -m tests.fuzz_readers 0.001 {seed} {name!r}"
                print(f"\n{key}\n{found[key]}\n{traceback.format_exc()}")
        faulthandler.cancel_dump_traceback_later()
        num += 1
    print(f"{num} files of {len(names)} formats, {num_valid} of them valid, {len(found) or 'nothing'} found")
    return 1 if found else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    start = int(given[1]) if len(given) > 1 else int(time.time())
    sys.exit(main(float(given[0]), start, given[2] if len(given) > 2 else None))
