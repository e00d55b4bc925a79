"""The oldest versions of frameworks that adapters work with, and the error for older ones."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from boxscore._support.exceptions import InputError

OLDEST: Mapping[str, Mapping[str, str]] = {
    "evaluate": {"evaluate": "0.4"},
    "huggingface": {"accelerate": "1.10", "torch": "2.4", "transformers": "5"},
    "jax": {"jax": "0.4.35"},
    "keras": {"keras": "3.0"},
    "ray": {"ray": "2.60"},
    "torch": {"torch": "2.4"},
    "torchmetrics": {"torchmetrics": "1.4"},
    "ultralytics": {"ultralytics": "8.4.190"},
}
"""The oldest version of each package that adapters work with, by extra of boxscore; as in pyproject.toml."""


class VersionError(InputError, ImportError):
    """Raised for a framework that is too old for its adapter."""


@contextmanager
def framework_imports(adapter: str, extra: str) -> Iterator[None]:
    """Check the packages of an extra, and explain failing imports inside the block.

    Versions are checked first: an older framework may be imported without an error, and then compute nothing.

    Args:
        adapter: The name of the adapter, for errors: "boxscore.keras".
        extra: A key of `OLDEST`.

    Raises:
        ModuleNotFoundError: If a package is not installed.
        VersionError: If a package is too old.
    """
    advice = f"pip install 'boxscore[{extra}]'"
    for package, oldest in OLDEST[extra].items():
        found = installed_version(package)
        if found is not None and () < _numbers(found) < _numbers(oldest):
            raise VersionError(f"{adapter} needs {package} {oldest} or newer; found {found}: {advice}")
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ModuleNotFoundError(f"No module named {package!r}; {adapter} needs it: {advice}", name=package) from None


def installed_version(package: str) -> str | None:
    """The version of a package, without importing it; None if it is not installed."""
    version = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(version, str):
        return version
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of(package)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version's release; empty if it doesn't begin with a number.

    >>> _numbers("8.4.190"), _numbers("2.13.0+cpu"), _numbers("5.0.0rc1")
    ((8, 4, 190), (2, 13, 0), (5, 0, 0))
    """
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
