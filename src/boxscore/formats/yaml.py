"""YAML as data.yaml has it: strings, lists and mappings of strings."""

import json
import re
from typing import Any

from boxscore._support.exceptions import InputError


def quoted(text: str) -> str:
    r"""A text in double quotes, as YAML and JSON read it; characters that YAML does not allow are escaped.

    >>> print(quoted('a "b"'), quoted("\u2028"), quoted("\U0001f600") == '"\U0001f600"')
    "a \"b\"" "\u2028" True
    """
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def read_yaml(text: str, location: str) -> dict[str, Any]:
    r"""A mapping of strings, lists and mappings of strings, by PyYAML if it is installed, else by a reader of this
    subset: `key: value`, and lists and mappings of plain values, in brackets or one per line. Every value is a string.

    >>> read_yaml("path: data  # here\nnames: [cat, 'a dog']", "data.yaml")
    {'path': 'data', 'names': ['cat', 'a dog']}
    >>> read_yaml("names:\n  0: cat\n  1: dog", "data.yaml")
    {'names': {'0': 'cat', '1': 'dog'}}
    """
    if len(text) > LARGEST_YAML:
        raise InputError(
            f"{location}: must have at most {LARGEST_YAML:,} characters, as a data.yaml; got {len(text):,}"
        )
    try:
        import yaml
    except ImportError:
        return _read_simple_yaml(text, location)
    try:
        data = yaml.load(text, Loader=yaml.BaseLoader)  # it gives strings only, so a class may be called `no`
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"{location}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{location}: not YAML: nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{location}: must be a mapping with `names`; got {type(data).__name__}")
    return data


LARGEST_YAML = 1 << 20
"""Largest number of characters of a data.yaml; names of 20,000 classes take half of that."""


_KEY = re.compile(r"""([\w.-]+|"[^"]*"|'[^']*')\s*:(?:\s+(.*))?$""")


def _read_simple_yaml(text: str, location: str) -> dict[str, Any]:
    data: dict[str, Any] = {}
    key: str | None = None
    pending = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _without_comment(raw)
        if not line.strip() or line.strip() in ("---", "..."):
            continue
        if pending:  # an open bracket
            pending += " " + line.strip()
            if _is_closed(pending):
                data[str(key)] = _value(pending)
                pending = ""
            continue
        is_item = line.lstrip().startswith("- ")
        if line[0] in " \t" or is_item:
            _add_to(data, key, line.strip(), f"{location}: line {number}")
            continue
        match = _KEY.match(line.rstrip())
        if match is None:
            raise InputError(f"{location}: line {number} must be `key: value`; got {raw!r}")
        key = _unquoted(match[1])
        value = (match[2] or "").strip()
        if value and value[0] in "[{" and not _is_closed(value):
            pending = value
        else:
            data[key] = _value(value) if value else None
    if pending:
        raise InputError(f"{location}: `{key}` must end with a bracket; got the end of the file")
    return data


def _add_to(data: dict[str, Any], key: str | None, line: str, location: str) -> None:
    if key is None:
        raise InputError(f"{location}: must be `key: value`; got {line!r}")
    if line.startswith("- "):
        if data[key] is None:
            data[key] = []
        if isinstance(data[key], list):
            data[key].append(_unquoted(line[2:].strip()))
            return
    match = _KEY.match(line)
    if match is not None:
        if data[key] is None:
            data[key] = {}
        if isinstance(data[key], dict):
            data[key][_unquoted(match[1])] = _unquoted((match[2] or "").strip())
            return
    if isinstance(data[key], str):  # continued text
        data[key] += f" {line}"
        return
    raise InputError(f"{location}: must be an item of `{key}`; got {line!r}")


def _without_comment(line: str) -> str:
    quote = ""
    for index, mark in enumerate(line):
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "\"'" and (index == 0 or line[index - 1] in " [{,:'"):  # '' inside quotes is a quote
            quote = mark
        elif mark == "#" and (index == 0 or line[index - 1] in " \t"):
            return line[:index].rstrip()
    return line.rstrip()


def _is_closed(value: str) -> bool:
    return value.rstrip()[-1] in "]}"


def _value(value: str) -> Any:
    if value[0] == "[":
        return [_unquoted(item) for item in _split(value[1:-1])]
    if value[0] == "{":
        pairs = [item.partition(":") for item in _split(value[1:-1])]
        return {_unquoted(key.strip()): _unquoted(item.strip()) for key, _, item in pairs}
    return _unquoted(value)


def _split(items: str) -> list[str]:
    parts = re.findall(r"""(?:[^,"']|"[^"]*"|'[^']*'|['"])+""", items)
    return [part.strip() for part in parts if part.strip()]


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value
