"""Read class names from a list, a file with one name per line, or YOLO's data.yaml; write data.yaml."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.formats.files import Source, open_source

LARGEST_YAML = 1 << 20
"""Maximum number of characters of a data.yaml; names of 20,000 classes take half of it."""


def read_names(given: Any) -> dict[int, str]:
    """Read names by label from a sequence, a mapping or the path of a file."""
    if isinstance(given, Mapping):
        try:
            return {int(label): str(name) for label, name in given.items()}
        except (TypeError, ValueError, OverflowError):
            raise InputError("`names` must be a list of names, a mapping from numbers to names, or a path") from None
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(enumerate(map(str, given)))
    source = open_source(given)
    return names_in(source.text(), source.suffix, str(source))


def names_in(text: str, suffix: str, location: str) -> dict[int, str]:
    """Parse names by label from the text of data.yaml or of a file with one name per line."""
    if suffix in (".yaml", ".yml"):
        return names_of(read_yaml(text, location), location)
    return dict(enumerate(line.strip() for line in text.splitlines() if line.strip()))


def names_of(data: Mapping[str, Any], location: str) -> dict[int, str]:
    """The names by label in `names` of a data.yaml."""
    names = data.get("names")
    rule = f"{location}: `names` must be a list, or a mapping from numbers to names"
    if isinstance(names, list):
        names = {str(label): name for label, name in enumerate(names)}
    if not isinstance(names, Mapping):
        raise InputError(f"{rule}; got {_shown(names)}")
    found: dict[int, str] = {}
    for label, name in names.items():
        if not isinstance(label, str) or not re.fullmatch(r"[0-9]{1,9}", label.strip()) or not isinstance(name, str):
            raise InputError(f"{rule}; got {_shown(label)}: {_shown(name)}")
        if int(label) in found:
            raise InputError(f"{rule}; got the number {int(label)} twice")
        found[int(label)] = _whole(name, f"{location}: `names`: {label.strip()}")
    return found


def _shown(value: Any) -> str:
    """Shorten a value for an error message."""
    if isinstance(value, list | Mapping):
        return f"a {'list' if isinstance(value, list) else 'mapping'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _whole(name: str, location: str) -> str:
    """Combine surrogate pairs, as JSON escapes them, into characters."""
    try:
        return name.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise InputError(f"{location}: must be valid Unicode; got half of a surrogate pair: {name!r}") from None


NAMES_FILES = ("classes.txt", "obj.names", "predefined_classes.txt")


def find_names(source: Source) -> tuple[dict[int, str], str] | None:
    """Find the names in a folder's data.yaml or names file, and the path of that file; None if it has neither."""
    found = find_yaml(source, "names")
    if found is not None:
        return names_of(*found), found[1]
    for file in source.files(".txt", ".names"):
        if file.rpartition("/")[2] in NAMES_FILES and not is_label_line(first_line(source.read(file))):
            return names_in(source.text(file), ".txt", source.location(file)), file
    return None


def find_yaml(source: Source, key: str) -> tuple[dict[str, Any], str] | None:
    """Read the first YAML file with that key, in a folder or the file itself; also return its path for errors."""
    for file in source.files(".yaml", ".yml") if source.is_folder else [""]:
        text = source.text(file)
        if re.search(rf"^{key}\s*:", text, re.MULTILINE):
            return read_yaml(text, source.location(file)), source.location(file)
    return None


def read_yaml(text: str, location: str) -> dict[str, Any]:
    r"""Read a mapping of strings, lists and mappings of strings.

    Anchors and aliases are refused: a few lines of them may stand for more values than fit into memory.

    >>> read_yaml("path: data  # here\nnames: [no, 'a dog']", "data.yaml")
    {'path': 'data', 'names': ['no', 'a dog']}
    """
    if len(text) > LARGEST_YAML:
        raise InputError(
            f"{location}: must have at most {LARGEST_YAML:,} characters, as a data.yaml; got {len(text):,}"
        )
    yaml = _pyyaml(location)

    class Loader(yaml.BaseLoader):  # type: ignore[misc, name-defined]  # strings only, so a class may be called `no`
        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if event.anchor is not None:
                raise yaml.composer.ComposerError(None, None, "anchors and aliases are not read", event.start_mark)
            return super().compose_node(parent, index)

    try:
        data = yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
        raise InputError(f"{location}: line {mark.line + 1}: not YAML: {problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"{location}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{location}: not YAML: nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{location}: must be a mapping with `names`; got {type(data).__name__}")
    return data


def yaml_of(data: Mapping[str, Any]) -> str:
    """Write a data.yaml, one value per line, in the order of the mapping."""
    options = {"allow_unicode": True, "sort_keys": False, "width": LARGEST_YAML}
    return str(_pyyaml("data.yaml").safe_dump(dict(data), **options))


def _pyyaml(location: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InputError(f"{location}: YAML files need PyYAML: pip install 'boxscore[yolo]'") from None
    return yaml


def first_line(content: bytes) -> bytes:
    """The first line of a text file that is not blank; empty if there is none in the first 10,000 bytes."""
    return next(iter(content[:10_000].removeprefix(b"\xef\xbb\xbf").strip().splitlines()), b"")


def is_label_line(line: bytes) -> bool:
    """Whether a line looks like YOLO's: a class as an integer, then at least four numbers.

    >>> is_label_line(b"0 0.5 0.5 0.1 0.1"), is_label_line(b"traffic light")
    (True, False)
    """
    words = line.split()
    return len(words) >= 5 and words[0].isdigit() and are_numbers(words)


def are_numbers(words: Sequence[bytes]) -> bool:
    """Whether every word is a number."""
    try:
        return bool(list(map(float, words)))
    except ValueError:
        return False
