"""Compiling the event loop.

LLVM works at its first level: what it gains beyond that is nothing here, and takes a third more of the time.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

os.environ.setdefault("NUMBA_OPT", "1")

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "_nrt": False}
"""The event loop allocates nothing, so it counts no references; its functions all go into one. Together fifteen times
faster than calls that hand the records on and count who holds them."""

INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""What Python does not call needs nothing that Python could call it by."""


def compiled(function: Function) -> Function:
    """The function as machine code that other compiled functions take in; Python cannot call it."""
    import numba

    return cast(Function, numba.njit(**OPTIONS, **INNER)(function))


def compiled_within(function: Function) -> Function:
    """As `compiled`, for a large function with one caller: taken in before it is compiled, and so compiled once."""
    import numba

    return cast(Function, numba.njit(error_model="numpy", inline="always")(function))


def compiled_apart(function: Function) -> Function:
    """As `compiled`, for what happens seldom: called and not taken in, which keeps the event loop small."""
    import numba

    return cast(Function, numba.njit(**{**OPTIONS, "forceinline": False}, **INNER)(function))


def compiled_extra(otherwise: object, needed: str = "extras", is_apart: bool = True) -> Callable[[Function], Function]:
    """As `compiled_apart`, for what some systems never do: left out of the code for a state without it.

    Args:
        otherwise: what stands there then, of the same type as the result; it is never reached.
        needed: the field of a state that is None where it does without.
        is_apart: whether it happens seldom; else callers take it in, as with `compiled`.
    """
    import numba.extending

    def nothing(*_: Any) -> object:
        return otherwise

    def extra(function: Function) -> Function:
        @wraps(function)
        def stub(*_: Any) -> Any:
            raise NotImplementedError(f"{function.__name__} is called by compiled code alone")

        def chosen(w: Any, *_: Any) -> Callable[..., Any]:
            kind = w.field(needed) if hasattr(w, "field") else w.types[w.fields.index(needed)]
            is_plain = isinstance(kind, numba.types.NoneType)
            return nothing if is_plain else function

        options = cast(Any, {**OPTIONS, "forceinline": not is_apart, **INNER})
        numba.extending.overload(stub, options, strict=False)(chosen)
        return cast(Function, stub)

    return extra
