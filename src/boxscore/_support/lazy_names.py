"""Names of a package whose module is loaded on first use."""

TYPE_CHECKING = False  # type checkers treat it as `typing.TYPE_CHECKING`, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(
    package: str, namespace: "dict[str, Any]", homes: "Mapping[str, str]", modules: str = ""
) -> "tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]":
    """Make `__all__`, `__getattr__` and `__dir__` of a package.

    Args:
        package: The name of the package.
        namespace: Its globals, which cache a name once it was loaded.
        homes: The names that each module defines, separated by spaces, by the module's name below the package.
        modules: Modules of the package that are also its attributes, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    known = set(modules.split())

    def get(name: str) -> "Any":
        from importlib import import_module

        if name in home_of:
            value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        elif name in known:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = value
        return value

    return sorted(home_of), get, lambda: sorted({*namespace, *home_of, *known})
