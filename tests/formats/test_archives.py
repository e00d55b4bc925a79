"""Zip and gzip files that are damaged, cut while they are read, or built to explode are refused in one line."""

import io
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

import boxscore
from boxscore.formats.archives import Archive
from boxscore.formats.files import open_source
from tests.support.small_files import EMPTY_VOC, VOC, refused, write

METHODS = {"stored": 0, "deflated": 8, "bzip2": 12, "lzma": 14}


def zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip of these members."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_zip_that_is_cut_while_it_is_read_ends_no_process(tmp_path: Path) -> None:
    """Between its opening and the reading of a member; a process of its own, as a signal would end it."""
    path = zip_of(tmp_path / "v.zip", {f"{i}.xml": bytes(range(256)) * 64 for i in range(50)}, zipfile.ZIP_STORED)
    code = (
        "import os, sys\n"
        "from boxscore import InputError\n"
        "from boxscore.formats.files import open_source\n"
        "source = open_source(sys.argv[1])\n"
        "files = source.files('.xml')\n"
        "source.read(files[0])\n"
        "os.truncate(sys.argv[1], 10_000)\n"
        "try:\n"
        "    source.read(files[-1])\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{path}:9.xml: can't be read from the zip: " in done.stdout


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_of_compression_is_read(tmp_path: Path, method: int) -> None:
    """The fast path knows two of them, the module all."""
    members = {"a.xml": VOC.encode(), "b/ü.xml": EMPTY_VOC.encode(), "c.xml": b""}
    source = open_source(zip_of(tmp_path / "v.zip", members, method))
    assert {name: source.read(name) for name in source.files(".xml")} == members


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_damaged_members_are_told_by_their_names(tmp_path: Path, method: int) -> None:
    """Whatever byte it is, in data or directory; an error of each method's own is not let through."""
    whole = zip_of(tmp_path / "v.zip", {"a.xml": VOC.encode(), "b.xml": EMPTY_VOC.encode()}, method).read_bytes()
    complaints: list[str] = []
    for place in range(0, len(whole), 3):
        path = write(tmp_path / "d.zip", whole[:place] + bytes([whole[place] ^ 0xA5]) + whole[place + 1 :])
        try:
            boxscore.read_truths(path, format="voc")
        except boxscore.InputError as error:
            complaints.append(str(error))
    assert len(complaints) > len(whole) // 12
    assert all(complaint.startswith(f"{tmp_path}/d.zip") and "\n" not in complaint for complaint in complaints)


def test_names_of_members_are_shown_on_one_line(tmp_path: Path) -> None:
    """And do nothing to a terminal."""
    path = zip_of(tmp_path / "v.zip", {"a\n\x1b[31m.xml": b"<annotation>", "b.xml": b"<annotation/>"})
    refused(lambda: boxscore.read_truths(path, format="voc"), r"v.zip:a\n\x1b[31m.xml: not XML: ")


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    """It is not for us to choose one."""
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("a.xml", VOC)
        archive.writestr("a.xml", EMPTY_VOC)
    refused(lambda: boxscore.read_truths(tmp_path / "v.zip"), "v.zip: must not have two files of one name; got 'a.xml'")


def test_a_member_without_a_name_is_refused(tmp_path: Path) -> None:
    """Python's own module fails on one."""
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("a.xml", VOC)
        archive.writestr(zipfile.ZipInfo("\0rest"), EMPTY_VOC)  # a name ends at its first zero
    refused(lambda: boxscore.read_truths(tmp_path / "v.zip"), "v.zip: must not have a file without a name")


@pytest.mark.parametrize("method", [8, 12, 14], ids=["deflated", "bzip2", "lzma"])
def test_a_zip_that_lies_about_its_sizes_stays_small(tmp_path: Path, method: int) -> None:
    """100 MB that the directory calls ten bytes are never all in memory."""
    resource = pytest.importorskip("resource")
    path = zip_of(tmp_path / "b.zip", {"a.json": b"\0" * 100_000_000}, method)
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 100_000_000), struct.pack("<I", 10)))
    code = (
        "import resource, sys\n"
        "from boxscore import InputError\n"
        "from boxscore.formats.files import open_source\n"
        "import bz2, lzma, zipfile\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    open_source(sys.argv[1])\n"
        "except InputError as error:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)\n"
    )
    assert resource
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    grown, _, message = done.stdout.partition(" ")
    assert message.startswith(f"{path}:a.json: can't be read from the zip: ")
    assert int(grown) < 95_000, "kilobytes"


def test_no_more_is_asked_of_the_system_than_the_zip_has() -> None:
    """A member that claims four gigabytes of packed bytes gets no buffer of that size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.json", b"x" * 1000)
    content = file.getvalue()
    place = content.index(b"PK\x01\x02") + 20
    content = content[:place] + struct.pack("<I", 0xFFFFFFF0) + content[place + 4 :]
    archived = Archive.of_bytes(content, "a.zip", "a zip file")
    if sys.version_info >= (3, 13):  # whose module refuses it
        refused(lambda: archived.read("a.json"), "a.zip:a.json: can't be read from the zip: Overlapped entries")
    else:
        assert archived.read("a.json") == b"x" * 1000, "by the module"
