"""Methods that `torch.compile` calls without tracing them."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Values = ParamSpec("Values")
Made = TypeVar("Made")


def untraced(function: Callable[Values, Made]) -> Callable[Values, Made]:
    """Keep `torch.compile` out of a function: a compiled step that calls it is split in two graphs.

    As `torch.compiler.disable`, which would import PyTorch's compiler, for seconds, in programs that don't use it.
    """
    disabled: Any = None

    @wraps(function)
    def call(*values: Values.args, **named: Values.kwargs) -> Made:
        nonlocal disabled
        compiler = sys.modules.get("torch._dynamo")
        if compiler is None:
            return function(*values, **named)
        if disabled is None:
            disabled = compiler.disable(function)
            compiler.decorators.skip(call)  # it does not look into this frame either
        made: Made = disabled(*values, **named)
        return made

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # as the decorator marks functions
    return call
