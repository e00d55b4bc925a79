"""The versions of frameworks that adapters need: one table, and the error for older ones."""

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
    "torchmetrics": {"torchmetrics": "1.4"},
    "ultralytics": {"ultralytics": "8.4.190"},
}
"""The oldest version of each package that adapters work with, by extra of boxscore, as pyproject.toml has them."""


class VersionError(InputError, ImportError):
    """A framework is older than the versions that its adapter works with."""


@contextmanager
def framework_imports(adapter: str, extra: str) -> Iterator[None]:
    """Import the packages of an extra for an adapter: a missing or outdated one is an error.

    Versions are checked first: an older framework may be imported without an error, and then compute nothing.

    Args:
        adapter: the name of the adapter, for errors: "boxscore.keras".
        extra: a key of `OLDEST`.

    Raises:
        ModuleNotFoundError: for a package that is not installed.
        VersionError: for one that is too old.
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
    """The version of a package, without importing it; None if it is not installed, or does not say."""
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
    """The release of a version, as numbers; none if it has none.

    >>> _numbers("8.4.190"), _numbers("2.13.0+cpu"), _numbers("5.0.0rc1")
    ((8, 4, 190), (2, 13, 0), (5, 0, 0))
    """
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
