"""Values that are computed when they are first read."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from boxscore._support.locks import fork_safe_lock

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is computed once, by the thread that reads it first. Copies and pickles contain the value.

    >>> numbers = Lazy(lambda: [1, 2])
    >>> numbers.value is numbers.value
    True
    """

    __slots__ = ("_compute", "_lock", "_value")

    def __init__(self, compute: Callable[[], T]) -> None:
        self._lock = fork_safe_lock()
        self._compute: Callable[[], T] | None = compute

    @property
    def value(self) -> T:
        """The value, computed on first use."""
        with self._lock:
            if self._compute is not None:
                self._value = self._compute()
                self._compute = None  # frees the objects that only the computation needs
            return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return _of, (self.value,)


def _of(value: T) -> Lazy[T]:
    return Lazy(lambda: value)


class LazyField(Generic[T]):
    """A field of a frozen dataclass without slots that accepts a value, or a `Lazy`, computed on first use.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pair:
    ...     first: int
    ...     second: LazyField[int] = LazyField()
    >>> Pair(1, 2).second, Pair(1, Lazy(lambda: 3)).second
    (2, 3)
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> T:
        if instance is None:
            raise AttributeError(self._name)  # as for a field without a default
        value = vars(instance)[self._name]
        return cast(T, value.value if isinstance(value, Lazy) else value)

    def __set__(self, instance: object, value: T | Lazy[T]) -> None:
        vars(instance)[self._name] = value
