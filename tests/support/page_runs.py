"""Pages of the documentation run as a reader would run them, from the first block to the last.

| block | what happens |
|---|---|
| `json`, `csv`, … with `title="name"` | is written into the page's folder |
| `python` | is executed; all blocks of a page share their names |
| `text` right after `python` | is what that block prints |
| an expression with a value behind it, as in `result["map"]  # 0.5` | has that value, to the digits given |
| `console` | every line that begins with `$ boxscore` is called; what follows is what it prints, if anything follows |
| `sh` | is not run: it installs, or changes the machine |
"""

import ast
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from boxscore.cli import main
from tests.support.documents import ROOT

FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', flags=re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"t=\d+\.\d\ds")
"""What a run prints of its own time."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    """The name of a file, if the block is one."""
    content: str
    is_output: bool
    """Whether it follows a block of Python with nothing between them."""


def read_blocks(document: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text, end_of_python = (ROOT / document).read_text(), -1
    for found in FENCE.finditer(text):
        follows = end_of_python >= 0 and not text[end_of_python : found.start()].strip()
        language, title, content = found.groups()
        yield Block(language, title or "", content, follows and language == "text")
        end_of_python = found.end() if language == "python" else -1


def run_page(document: str, folder: Path, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Run all blocks of a page; the current folder is the page's."""
    printed = ""
    for block in read_blocks(document):
        if block.title:
            (folder / block.title).write_text(block.content)
        elif block.language == "python":
            _execute(block.content, document, names)
            printed = capsys.readouterr().out
        elif block.is_output:
            assert _without_time(printed) == _without_time(block.content), f"{document}: an example prints\n{printed}"
        elif block.language == "console":
            _run_commands(block.content, capsys)


def _without_time(text: str) -> str:
    return SECONDS.sub("t=0.00s", text)


def _run_commands(content: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each prints what is below it, to the letter; where nothing is, it succeeds."""
    for piece in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, _, expected = piece.partition("\n")
        program, *arguments = shlex.split(command, comments=True)
        assert program == "boxscore", f"only boxscore is run; use `sh` for {command}"
        code = main(arguments)
        out, err = capsys.readouterr()
        if expected:
            assert err + out == expected, f"{command} prints\n{err}{out}"
        else:
            assert code == 0, f"{command}\n{err}"


def _execute(content: str, document: str, names: dict[str, Any]) -> None:
    """Statement by statement; values in comments are those of the expressions before them."""
    lines = content.encode().splitlines()
    for statement in ast.parse(content, document).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), document, "exec"), names)
            continue
        actual = eval(compile(ast.Expression(statement.value), document, "eval"), names)
        comment = lines[(statement.end_lineno or 0) - 1][statement.end_col_offset :].decode()
        _check_value(actual, comment.strip().removeprefix("#").strip(), f"{document}: {ast.unparse(statement)}")


def _check_value(actual: Any, comment: str, where: str) -> None:
    value = _value_of(comment)
    if isinstance(value, float):
        digits = len(comment.partition(":")[0].partition(".")[2])
        assert math.isclose(actual, value, rel_tol=0, abs_tol=0.51 * 10.0**-digits), f"{where} is {actual}, not {value}"
    elif value is not None:
        assert actual == value, f"{where} is {actual!r}, not {value!r}"


def _value_of(comment: str) -> Any:
    """What a comment says before its first colon, if that is a Python literal."""
    for text in (comment, comment.partition(": ")[0]):
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            continue
    return None
