"""The table of formats that `make fuzz` goes through: each is read when it is whole, and a few cases of each hold."""

import subprocess
import sys
from pathlib import Path

import pytest

from boxscore.formats import FORMATS as READ
from tests.fuzz_readers import FORMATS, check_case, files_of, known_formats, outcome


@pytest.mark.parametrize("name", known_formats())
def test_whole_files_are_read(tmp_path: Path, name: str) -> None:
    """Else the fuzz would try nothing but refusals. Tables are of random kinds; one of some must be sound."""
    seeds = (seed for seed in range(200))
    assert any(outcome(name, files_of(name, seed, is_damaged=False), tmp_path / str(seed)) is None for seed in seeds)


@pytest.mark.parametrize("name", known_formats())
def test_damaged_files_give_a_result_or_one_line(name: str) -> None:
    """Whatever the seed; these are few, `make fuzz` has no end of them."""
    assert len([check_case(name, seed) for seed in range(25)]) == 25


def test_every_format_is_in_the_table() -> None:
    """A format that is new is fuzzed, too."""
    assert set(READ) <= {name.split()[0].split(".")[0] for name in FORMATS}


def test_the_command_tells_what_it_did() -> None:
    """And ends well where nothing is found."""
    command = [sys.executable, "-m", "tests.fuzz_readers", "0.5", "3", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "files of 1 formats" in done.stdout
