"""Every way that a file can be given, in every format, to every command: as the file itself, or refused in one line."""

import gzip
import inspect
import io
import json
import os
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore import formats
from boxscore.cli import main
from boxscore.formats.registry import FormatModule, Role
from tests.support.small_files import write

BOXES = [(image, [10 + 5 * image, 10, 40, 30 + 10 * step]) for image in range(3) for step in range(2)]
"""Image, and left, top, width and height."""
TRUTHS = {
    "images": [{"id": image + 1, "file_name": f"i{image}.jpg", "width": 200, "height": 100} for image in range(3)],
    "annotations": [
        {"id": i + 1, "image_id": image + 1, "category_id": 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for i, (image, box) in enumerate(BOXES)
    ],
    "categories": [{"id": 1, "name": "person"}],
}
RESULTS = [
    {"image_id": image + 1, "category_id": 1, "bbox": [box[0] + i, *box[1:]], "score": 0.9 - 0.1 * i}
    for i, (image, box) in enumerate(BOXES)
]
SUFFIX = {"coco": ".json", "csv": ".csv", "cvat": ".xml", "npz": ".npz", "odgt": ".odgt", "openimages": ".csv"}
SUFFIX |= {"parquet": ".parquet"}
"""Formats of one file; the others are folders."""

ROLES: tuple[Role, ...] = ("truths", "detections")
INPUTS = [(name, role) for name, each in formats.FORMATS.items() for role in ROLES if getattr(each, role) is not None]
Files = dict[tuple[str, Role], Path]
COMMANDS = ("eval", "check", "compare", "explain", "label-errors", "convert")


def write_text(folder: Path, role: Role) -> None:
    """Lines of Cartucho/mAP."""
    for image in range(3):
        lines = [
            f"person {'' if role == 'truths' else f'{score} '}{left} {top} {right} {bottom}\n"
            for number, score, (left, top, right, bottom) in rows_of(role)
            if number == image
        ]
        write(folder / f"i{image}.txt", "".join(lines))


def write_dota(folder: Path, role: Role) -> None:
    """Upright boxes by their four corners."""
    lines = dict.fromkeys(range(3), "")
    for image, score, (left, top, right, bottom) in rows_of(role):
        corners = f"{left} {top} {right} {top} {right} {bottom} {left} {bottom}"
        lines[image] += f"{corners} person 0\n" if role == "truths" else f"i{image} {score} {corners}\n"
    if role == "detections":
        write(folder / "Task1_person.txt", "".join(lines.values()))
    for image, text in lines.items() if role == "truths" else ():
        write(folder / "labelTxt" / f"i{image}.txt", text)


def rows_of(role: Role) -> list[tuple[int, float, list[float]]]:
    """Image, score and corners of each box."""
    rows: Any = TRUTHS["annotations"] if role == "truths" else RESULTS
    boxes = [(row["image_id"] - 1, row.get("score", 0), row["bbox"]) for row in rows]
    return [(image, score, [x, y, x + width, y + height]) for image, score, (x, y, width, height) in boxes]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The same truths and detections, as a file or folder of each format."""
    root = tmp_path_factory.mktemp("inputs")
    truths = boxscore.read_truths(write(root / "truths.json", json.dumps(TRUTHS)))
    detections = boxscore.read_detections(write(root / "results.json", json.dumps(RESULTS)), truths)
    paths = {}
    for name, role in INPUTS:
        paths[name, role] = path = root / name / f"{role}{SUFFIX.get(name, '')}"
        path.parent.mkdir(exist_ok=True)
        if name in ("text", "dota"):
            (write_text if name == "text" else write_dota)(path, role)
        elif role == "truths":
            boxscore.write_truths(path, truths, format=name)
        else:
            boxscore.write_detections(path, detections, truths, format=name)
    return paths


def zipped(source: Path, target: Path) -> Path:
    """A zip of a file, or of the files in a folder."""
    with zipfile.ZipFile(target, "w") as archive:
        members = [each for each in sorted(source.rglob("*")) if each.is_file()] if source.is_dir() else [source]
        for each in members:
            archive.write(each, each.relative_to(source if source.is_dir() else source.parent))
    return target


@contextmanager
def piped(content: bytes) -> Iterator[str]:
    """The path of a pipe that can be read once, as `<(command)` of a shell gives it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
        os.close(writer)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


def in_folder(path: Path, folder: Path) -> Path:
    """A folder that has a copy of the file or folder."""
    if path.is_dir():
        shutil.copytree(path, folder / path.name)
    else:
        write(folder / path.name, path.read_bytes())
    return folder


WAYS: dict[str, Callable[[Path, Path], Path]] = {
    "folder": in_folder,
    "zip": lambda path, here: zipped(path, here.with_suffix(".zip")),
    "zip of a folder": lambda path, here: zipped(in_folder(path, here), here.with_suffix(".zip")),
}
FILE_WAYS: dict[str, Callable[[Path, Path], Path]] = {
    "gz": lambda path, here: write(here / f"{path.name}.gz", gzip.compress(path.read_bytes())),
    "capitals": lambda path, here: write(here / path.name.upper(), path.read_bytes()),
    "other suffix": lambda path, here: write(here / f"{path.stem}.dat", path.read_bytes()),
    "no suffix": lambda path, here: write(here / path.stem, path.read_bytes()),
    "gz without suffix": lambda path, here: write(here / f"{path.stem}.gz", gzip.compress(path.read_bytes())),
    "pipe": lambda path, _: path,  # its content is piped
}
TOLD_BY_CONTENT = {
    "other suffix": ("openimages", "parquet"),
    **dict.fromkeys(("no suffix", "gz without suffix", "pipe"), ("coco", "csv", "odgt", "openimages", "parquet")),
}
"""Formats that are recognised without their suffix; others must be named."""


def answer(command: str, given: tuple[str, Role], path: str, files: Files, *, is_named: bool = False) -> Any:
    """What a command says of an input: its exit code, and its document, or its error. `is_named`: its format is."""
    name, role = given
    other = name if name in ("dota", "openimages") or given == ("coco", "detections") else "csv"
    truths, found = str(files[other, "truths"]), str(files[other, "detections"])
    truths, found = (path, found) if role == "truths" else (truths, path)
    output = files["csv", "truths"].with_name("converted.csv")
    words = {
        "check": [truths, found, "--json", "-"],
        "compare": [truths, f"a={found}", f"b={found}", "--bootstrap", "2", "--json", "-"],
        "convert": [path, str(output), "--overwrite", *([] if role == "truths" else ["--truths", truths])],
    }.get(command, [truths, f"a={found}", "--json", "-"])
    option = "--from" if command == "convert" else "--gt-format" if role == "truths" else "--dt-format"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([command, *words, *([option, name] if is_named else [])])
    if command == "check":
        findings = json.loads(out.getvalue())
        if code:
            return code, "".join(each["example"] for each in findings if each["severity"] == "error")
        return code, [(each["severity"], each["title"], each["effect"]) for each in findings]
    if code:
        return code, err.getvalue()
    return code, output.read_text() if command == "convert" else json.loads(out.getvalue().replace(path, "INPUT"))


@pytest.fixture(scope="module")
def answers(files: Files) -> dict[tuple[str, str, Role], Any]:
    """What each command says of each input as it lies there."""
    return {
        (command, *given): answer(command, given, str(path), files)
        for given, path in files.items()
        for command in COMMANDS
    }


def test_the_plain_way_works(answers: dict[tuple[str, str, Role], Any]) -> None:
    """Every command accepts every format."""
    assert {key: said for key, said in answers.items() if said[0]} == {}
    maps = {key: said[1]["map"] for key, said in answers.items() if key[0] == "eval"}
    assert all(0 < value < 1 for value in maps.values()), maps


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("way", [*WAYS, *FILE_WAYS])
def test_every_way_gives_the_same(
    way: str, command: str, files: Files, answers: dict[tuple[str, str, Role], Any], tmp_path: Path
) -> None:
    """Or is refused in one line that says what to do, and accepted once that is done."""
    if way == "pipe" and not Path("/dev/fd").is_dir():
        pytest.skip("this system has no /dev/fd")
    for given, path in files.items():
        name, role = given
        if way in FILE_WAYS and path.is_dir():
            continue
        place = tmp_path / f"{name} {role}"
        made = {**WAYS, **FILE_WAYS}[way](path, place)
        is_told = name in TOLD_BY_CONTENT.get(way, tuple(formats.FORMATS))
        for is_named in (False, True):
            with piped(path.read_bytes()) if way == "pipe" else nullcontext(str(made)) as shown:
                said = answer(command, given, shown, files, is_named=is_named)
            if is_told or is_named:
                assert said == answers[(command, *given)], (given, is_named)
                continue
            rule = f"is in no known format for {role}; if it is in one of these, name it by `format`: "
            assert said[0] == 1
            assert said[1].removeprefix("boxscore: ").startswith(f"{shown}: the file {rule}"), given
            assert said[1].count("\n") <= 1


def test_folders_are_not_piped(files: Files) -> None:
    """Formats of folders are refused in one line."""
    for name, role in files:
        if name in SUFFIX:
            continue
        with piped(b"person\n") as path:
            code, error = answer("eval", (name, role), path, files, is_named=True)
        assert code == 1, name
        assert error.startswith("boxscore: "), error
        assert error.count("\n") == 1, error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_once(files: Files, answers: dict[tuple[str, str, Role], Any], tmp_path: Path) -> None:
    """Whatever its name is; opening it again would wait for ever."""
    for command in COMMANDS:
        path = tmp_path / f"{command}.json"
        os.mkfifo(path)
        content = files["coco", "truths"].read_bytes()
        writer = threading.Thread(target=path.write_bytes, args=[content], daemon=True)
        writer.start()
        assert answer(command, ("coco", "truths"), str(path), files) == answers[command, "coco", "truths"]
        writer.join(10)


def test_pipes_are_refused_where_files_are_read_in_parts(files: Files) -> None:
    """Before anything is opened."""
    with piped(b"") as path:
        err = io.StringIO()
        with redirect_stderr(err):
            code = main(["eval", path, str(files["parquet", "detections"]), "--memory", "1GB"])
        assert code == 1
        rule = "must be a Parquet file, a folder or a pattern with --memory; got a pipe"
        assert err.getvalue() == f"boxscore: {path}: {rule}\n"


def test_a_dash_is_no_file(files: Files) -> None:
    """The message says what is."""
    said = answer("eval", ("coco", "truths"), "-", files)
    assert said == (1, "boxscore: -: no such file or folder; /dev/stdin is the standard input\n")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_modules_define_what_the_table_of_formats_calls(name: str) -> None:
    """A function of the same name that is imported from elsewhere may take other arguments."""
    each = formats.FORMATS[name]
    module = import_module(f"boxscore.formats.{each.module or name}")
    roles = [role for role in ROLES if getattr(each, role) is not None]
    needed = {"recognises", *(f"read_{role}" for role in roles)}
    needed |= {f"write_{role}" for role in roles} if each.is_written else set()
    interface = {name: member for name, member in vars(FormatModule).items() if isinstance(member, staticmethod)}
    assert needed <= interface.keys()
    assert needed <= vars(module).keys()
    for function in interface.keys() & vars(module).keys():
        defined = getattr(module, function)
        assert defined.__module__ == module.__name__, f"{name}.{function}"
        wanted = [
            (parameter.name, parameter.kind)
            for parameter in inspect.signature(interface[function]).parameters.values()
            if parameter.name != "path" or each.needs_path
        ]
        got = [(parameter.name, parameter.kind) for parameter in inspect.signature(defined).parameters.values()]
        assert got == wanted, f"{name}.{function}"
