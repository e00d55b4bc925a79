"""Tables that contradict themselves, claim what is not there, or cost more than they hold are refused."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, Truths
from tests.support.memory_limits import plenty
from tests.support.small_files import refused, write

HEADER = "image_id,category_id,class_name,x1,y1,x2,y2\n"
COLUMNS: dict[str, Any] = {
    "image": np.array([1, 2]),
    "label": np.array([0, 0]),
    "box": np.array([[0.0, 0, 9, 9], [0, 0, 5, 5]]),
}


def save(path: Path, **arrays: Any) -> Path:
    """An .npz of two truths, with other arrays beside or instead of some."""
    np.savez(path, **COLUMNS | arrays)
    return path


def npy(shape: Any, dtype: str, data: bytes = b"", *, is_fortran: bool = False) -> bytes:
    """An .npy file whose header says what it likes."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": is_fortran, "shape": shape})
    return file.getvalue() + data


def zipped(path: Path, members: list[tuple[str, bytes]]) -> Path:
    """An .npz of any members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_a_class_has_one_name(tmp_path: Path) -> None:
    """Two names for an id are a contradiction, wherever they stand; a name that is missing in some rows is none."""
    path = write(tmp_path / "t.csv", HEADER + "1,1,cat,0,0,9,9\n1,2,dog,0,0,9,9\n2,1,dog,0,0,9,9\n")
    refused(lambda: boxscore.read_truths(path), "t.csv: line 4: class 1 must have one name; got 'dog' and 'cat'")
    results = write(tmp_path / "r.csv", path.read_text().replace("y2", "y2,score").replace("9,9\n", "9,9,1\n"))
    truths = Truths(image_ids=[1, 2], labels=[1, 2], boxes=[[0, 0, 9, 9]] * 2, class_names={1: "cat", 2: "dog"})
    refused(lambda: boxscore.read_detections(results, truths), "r.csv: line 4: class 1 must have one name")
    write(path, HEADER + "1,1,,0,0,9,9\n1,2,dog,0,0,9,9\n2,1,cat,0,0,9,9\n3,3,,0,0,9,9\n")
    assert boxscore.read_truths(path).class_names == {1: "cat", 2: "dog", 3: "3"}


def test_a_class_has_one_name_in_parquet_and_its_metadata(tmp_path: Path) -> None:
    """Rows against rows, rows against the table's own lists, and one file against another."""
    arrow: Any = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    from boxscore.scaling.out_of_core import evaluate_files

    columns = {
        "image_id": [1, 2],
        "category_id": [1, 1],
        "x1": [0.0, 0],
        "y1": [0.0, 0],
        "x2": [9.0, 9],
        "y2": [9.0, 9],
    }
    tables = {
        "rows": arrow.table(columns | {"class_name": ["cat", "dog"]}),
        "lists": arrow.table(columns | {"class_name": ["dog", "dog"]}).replace_schema_metadata(
            {b"boxscore": json.dumps({"classes": {"1": "cat"}}).encode()}
        ),
    }
    good = arrow.table(columns | {"class_name": ["cat", "cat"], "score": [0.5, 0.5]})
    pyarrow.parquet.write_table(good, tmp_path / "good.parquet")
    for name, table in tables.items():
        path = tmp_path / f"{name}.parquet"
        pyarrow.parquet.write_table(table, path)
        refused(lambda: boxscore.read_truths(path), "class 1 must have one name; got ")  # noqa: B023
        refused(
            lambda: evaluate_files(str(tmp_path / "good.parquet"), str(path), memory=plenty()),  # noqa: B023
            "class 1 must have one name; got ",
        )
    (tmp_path / "parts").mkdir()
    for name in ("cat", "dog"):
        part = arrow.table(columns | {"class_name": [name, name]})
        pyarrow.parquet.write_table(part, tmp_path / "parts" / f"{name}.parquet")
    refused(
        lambda: evaluate_files(str(tmp_path / "good.parquet"), str(tmp_path / "parts"), memory=plenty()),
        "dog.parquet: class 1 must have one name; got 'dog' and 'cat'",
    )


def test_names_of_arrays_are_there_once(tmp_path: Path) -> None:
    """In any case, and as members of the file."""
    path = save(tmp_path / "t.npz", score=np.ones(2), Score=np.zeros(2))
    refused(lambda: boxscore.read_truths(path, box_format="xyxy"), "names, in any case; got 'score' more than once")
    file = io.BytesIO()
    np.lib.format.write_array(file, np.arange(2))
    for twice in ("image.npy", "image", "IMAGE.npy"):
        with pytest.warns(UserWarning, match="Duplicate name") if twice == "image.npy" else no_warning():
            zipped(path, [("image.npy", file.getvalue()), (twice, file.getvalue())])
        refused(lambda: boxscore.read_truths(path, box_format="xyxy"), "t.npz: ")
        refused(lambda: boxscore.read_truths(path, box_format="xyxy"), "image")


def no_warning() -> Any:
    """Nothing to expect."""
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy((500_000_000,), "<i8"), "must have the bytes of (500000000,) values of int64, as its header says; got 0"),
        (npy((500_000_000,), "<U0"), "as its header says; got 0"),
        (npy((500_000_000, 0), "<i8"), "as its header says; got 0"),
        (npy((-2,), "<i8", bytes(16)), "must be an array of numbers, flags or text; got int64 of shape (-2,)"),
        (npy((2,), "<i8", bytes(17)), "as its header says; got 17"),
        (npy((2,), "|O", bytes(16)), "must be an array of numbers, flags or text; got object"),
        (npy((2,), "<M8[s]", bytes(16)), "must be an array of numbers, flags or text; got datetime64[s]"),
        (npy((2,), "<U1", b"\xff" * 8), "must be Unicode text; got an invalid code point"),
        (b"\x93NUMPY\x09\x00", "not an array of NumPy: "),
        (b"PAR1", "not an array of NumPy: "),
        (npy((2, 4), "<i8", bytes(64)), "`image` must have one value per row; got shape (2, 4)"),
        (npy((), "<i8", bytes(8)), "`image` must have as many rows as `label`, 2; got one value"),
        (npy((3,), "<i8", bytes(24)), "`image` must have as many rows as `label`, 2; got 3"),
    ],
)
def test_arrays_that_are_not_what_they_say(tmp_path: Path, content: bytes, message: str) -> None:
    """Nothing is allocated for what is not there."""
    members = [("image.npy", content)]
    for name in ("label", "box"):
        file = io.BytesIO()
        np.lib.format.write_array(file, COLUMNS[name])
        members.insert(0 if name == "label" else 1, (f"{name}.npy", file.getvalue()))
    path = zipped(tmp_path / "t.npz", members)
    refused(lambda: boxscore.read_truths(path, box_format="xyxy"), message)
    refused(lambda: boxscore.read_truths(path, box_format="xyxy"), str(path))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": [1, 2], "image_sizes": [[9, np.inf], [9, 9]]}, "entry 0 of `image_sizes` must be a width and a"),
        ({"images": [1, 2], "image_sizes": [[9, np.nan], [9, 9]]}, "entry 0 of `image_sizes` must be a width and a"),
        ({"images": [1, 2], "image_sizes": [["9", "9"]] * 2}, "`image_sizes` must be numbers of shape (2, 2); got <U1"),
        ({"images": [1, 2], "image_sizes": [[9, 9, 9]] * 2}, "`image_sizes` must be numbers of shape (2, 2)"),
        ({"images": [1.5, 2]}, "entry 0: `images` must be an id or a name; got 1.5"),
        ({"images": ["a", "b"]}, "`images` must be integers, as in the column with the image; got others"),
        ({"images": [1, 2, 1], "image_names": ["a", "b", "c"]}, "image 1 must have one name; got 'c' and 'a'"),
        ({"classes": ["x"], "class_names": ["x"]}, "`classes` must be integers; got text"),
        ({"classes": [0, 0], "class_names": ["x", "y"]}, "class 0 must have one name; got 'y' and 'x'"),
        ({"class_name": ["x", "x"], "class_names": ["y"]}, "class 0 must have one name; got 'x' and 'y'"),
        ({"area": ["1", "x"]}, "row 1: `area` must be a number; got 'x'"),
        ({"area": np.ones((2, 2))}, "`area` must have one value per row; got shape (2, 2)"),
        ({"box": np.ones((2, 4, 2))}, "`box` must have 4 numbers per row; got shape (2, 4, 2)"),
        ({"label": np.array([2**63, 0], np.uint64)}, "row 0: `label` must fit in 63 bits; got 9223372036854775808"),
    ],
)
def test_lists_and_columns_of_npz(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    """The entry or the row."""
    path = save(tmp_path / "t.npz", **{name: np.array(values) for name, values in arrays.items()})
    refused(lambda: boxscore.read_truths(path, box_format="xyxy"), message)


def test_npz_lists_images_by_name(tmp_path: Path) -> None:
    """One that has no rows is there, with its size; numbers may be text, as in a CSV file."""
    path = save(
        tmp_path / "t.npz",
        image=np.array(["b", "a"]),
        images=np.array(["a", "b", "c"]),
        image_sizes=np.array([[1, 2], [3, 4], [5, 6]]),
        area=np.array(["1.5", "2\u00a0"]),
    )
    truths = boxscore.read_truths(path, box_format="xyxy")
    assert truths.image_names == {0: "a", 1: "b", 2: "c"}
    assert truths.image_sizes == {0: (1, 2), 1: (3, 4), 2: (5, 6)}
    assert np.array_equal(np.asarray(truths.area), [1.5, 2])


def test_a_table_of_many_columns_is_refused_at_once(tmp_path: Path) -> None:
    """60,000 of them, the last two alike; and one too few in a row."""
    names = [f"c{i}" for i in range(60_000)]
    path = write(tmp_path / "t.csv", ",".join([*names, "c59999"]) + "\n")
    refused(lambda: boxscore.read_truths(path, format="csv"), "must have different names; got 'c59999' more than once")
    write(path, ",".join(names) + "\n1,2\n")
    refused(lambda: boxscore.read_truths(path, format="csv"), "t.csv: line 2 must have 60,000 cells, as the header has")
    write(path, ",".join(names) + "\n")
    refused(lambda: boxscore.read_truths(path, format="csv"), "t.csv: must have a column with the image (image_id, ")


def test_cells_that_the_csv_module_refuses(tmp_path: Path) -> None:
    """A cell of more than 128 KiB: in a table, in a list of sizes and in class descriptions."""
    cell = "x" * 200_000
    path = write(tmp_path / "t.csv", f"image,label,x1,y1,x2,y2\na,{cell},1,2,3,4\n")
    refused(lambda: boxscore.read_truths(path), "t.csv: line 2: not a delimited file: field larger than field limit")
    sizes = write(tmp_path / "s.csv", f"a,1,1\n{cell},1,1\n")
    write(path, "ImageID,LabelName,XMin,XMax,YMin,YMax\na,c,0,1,0,1\n")
    refused(lambda: boxscore.read_truths(path, sizes=sizes), "s.csv: line 2: not a list of sizes: field larger than")
    refused(lambda: boxscore.read_truths(path, names=sizes), "s.csv: line 2: not a delimited file: field larger than")
    write(path, f"image,label,x1,y1,x2,y2\na,b,{cell[:9000]},2,3,4\n")
    with pytest.raises(InputError) as error:
        boxscore.read_truths(path)
    assert len(str(error.value)) < 300, "a long cell is cut"


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    """Also behind a quoted cell with a line break in it, and behind blank lines."""
    path = write(tmp_path / "t.csv", 'image,label,x1,y1,x2,y2\na,"c\nd",1,2,3,4\n\nb,c,1,2,x,4\n')
    refused(lambda: boxscore.read_truths(path), "t.csv: line 5: `x2` must be a number; got 'x'")


def test_space_behind_a_number_is_no_part_of_it(tmp_path: Path) -> None:
    """Also one that does not break, as spreadsheets write it."""
    path = write(tmp_path / "t.csv", "image,label,x1,y1,x2,y2,area\na,c,1\u00a0,\u00a02,3 ,4,5\u00a0\n")
    truths = boxscore.read_truths(path)
    assert np.array_equal(truths.boxes, [[1, 2, 3, 4]])
    assert np.array_equal(np.asarray(truths.area), [5])


BOXES: dict[str, list[float]] = {"x1": [0.0, 0], "y1": [0.0, 0], "x2": [9.0, 9], "y2": [9.0, 9]}


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image_id": [2**63, None], "category_id": [1, 2]}, "row 0: `image_id` must fit in 63 bits; got 92233"),
        ({"image_id": [1, None], "category_id": [1, 2]}, "row 1: `image_id` must be an id or a name; got None"),
        ({"image_id": [1, 2], "category_id": [2**63, None]}, "row 0: `category_id` must fit in 63 bits; got 92233"),
        ({"image_id": [[1, 2, 3, 4]] * 2, "category_id": [1, 2]}, "`image_id` must have one value per row; got shape"),
        ({"image_id": [1, 2], "category_id": [1, 2], "class_name": [["a"], ["b"]]}, "`class_name` must have one name"),
        ({"image_id": [1, 2], "Image_ID": [1, 2]}, "must have different names, in any case; got `Image_ID` twice"),
        ({"image_id": [1, 2], "category_id": [1, 2], "area": [None, 1]}, "row 0: `area` must be a number; got None"),
        ({"image_id": [1, 2], "other": [1, 2]}, "with the class (category_id, class_id, label_id, label, class_name"),
        ({"image_id": [1, 2], "other": [1, 2]}, "got image_id, x1, y1, x2, y2, other"),
    ],
)
def test_columns_of_parquet_and_arrow(tmp_path: Path, name: str, columns: dict[str, Any], message: str) -> None:
    """The row, where it is about one."""
    arrow: Any = pytest.importorskip("pyarrow")
    types = {column: arrow.uint64() for column, values in columns.items() if 2**63 in values}
    table = arrow.table({key: arrow.array(values, types.get(key)) for key, values in (columns | BOXES).items()})
    path = write_arrow(tmp_path / name, table)
    refused(lambda: boxscore.read_truths(path), message)
    refused(lambda: boxscore.read_truths(path), str(path))


def write_arrow(path: Path, table: Any, **options: Any) -> Path:
    """The table as the kind of file that its name says."""
    import pyarrow.ipc
    import pyarrow.parquet

    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, **options)
    else:
        with pyarrow.ipc.new_file(str(path), table.schema, **options) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize(
    "metadata",
    [
        b'{"images": 5}',
        b'{"images": {"x": "a"}}',
        b'{"classes": {"99999999999999999999": "a"}}',
        b'{"sizes": {"1": [1e999, 2]}}',
        b'{"sizes": {"1": 3}}',
        b'{"sizes": {"1": ["a", "b"]}}',
    ],
)
def test_metadata_of_parquet_that_is_not_ours(tmp_path: Path, metadata: bytes) -> None:
    """Read at once or in pieces; what is no JSON at all is somebody else's, and left alone."""
    arrow: Any = pytest.importorskip("pyarrow")
    from boxscore.scaling.out_of_core import evaluate_files

    table = arrow.table({"image_id": [1, 2], "category_id": [1, 1], **BOXES, "score": [0.5, 0.5]})
    path = write_arrow(tmp_path / "t.parquet", table.replace_schema_metadata({b"boxscore": metadata}))
    complaint = f"{path}: the metadata `boxscore` must list images and classes by id"
    refused(lambda: boxscore.read_truths(path), complaint)
    refused(lambda: evaluate_files(str(path), str(path), memory=plenty()), complaint)
    for other in (b"[" * 100_000, b"\xff", b"5"):
        write_arrow(path, table.replace_schema_metadata({b"boxscore": other}))
        assert len(boxscore.read_truths(path)) == 2


def test_parquet_that_would_explode_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Equal numbers take next to nothing on disk; so do packed zeros in an Arrow file."""
    arrow: Any = pytest.importorskip("pyarrow")
    from boxscore.scaling.out_of_core import evaluate_files

    num = 40_000_000
    path = write_arrow(tmp_path / "t.parquet", arrow.table({"image_id": np.zeros(num, np.int64)}))
    assert path.stat().st_size < 1_000_000
    refused(lambda: boxscore.read_truths(path), "t.parquet: would grow from ")
    refused(lambda: boxscore.read_truths(path), "to 320,000,000 bytes or more; beyond 256 MiB no more than 200 times")
    refused(lambda: evaluate_files(str(path), str(path), memory=plenty()), "t.parquet: would grow from ")
    options = arrow.ipc.IpcWriteOptions(compression="zstd")
    path = write_arrow(tmp_path / "t.arrow", arrow.table({"image_id": np.zeros(num, np.int64)}), options=options)
    refused(lambda: boxscore.read_truths(path), "t.arrow: would grow from ")
    path = write_arrow(tmp_path / "t.arrow", arrow.table({"image_id": arrow.nulls(num)}))
    refused(lambda: boxscore.read_truths(path), "t.arrow: would grow from ")


def test_a_long_text_in_many_rows_is_in_memory_once(tmp_path: Path) -> None:
    """On disk it is there once, too: 1 MB of it in 5,000 rows would be 5 GB."""
    arrow: Any = pytest.importorskip("pyarrow")
    num = 5_000
    name = arrow.DictionaryArray.from_arrays(np.zeros(num, np.int32), ["x" * 1_000_000])
    box = {side: np.full(num, value) for side, value in zip(("x1", "y1", "x2", "y2"), (0.0, 0, 9, 9), strict=True)}
    table = arrow.table({"image_id": np.arange(num), "class_name": name, **box})
    before = arrow.total_allocated_bytes()
    path = write_arrow(tmp_path / "t.parquet", table)
    truths = boxscore.read_truths(path)
    assert len(truths) == num
    assert truths.class_names == {0: "x" * 1_000_000}
    assert arrow.total_allocated_bytes() - before < 100_000_000
    assert arrow.default_memory_pool().max_memory() < 1_000_000_000
