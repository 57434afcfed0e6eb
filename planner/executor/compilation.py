"""Machine code of the event loop: what an earlier process stored, else compiled, which is told of, and stored."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np

from planner.executor.code_cache import (
    CACHE_VARIABLE,
    DIGITS,
    cache_folder,
    is_intact,
    kept_in,
    not_stored,
    replaced_folder,
)
from planner.executor.compiled import OPTIONS

LOG = logging.getLogger("planner.executor")
OVER = {"is_over": True}
"""Of a record that tells of the end of what an earlier one announced."""
ABOUT_S = 25
"""Seconds that compiling the loop of a plain system takes on one core of 2024."""
Types = tuple[Any, ...]
"""Of the arguments of a function, as numba knows them."""
Calls = tuple[tuple[Callable[..., Any], Types], ...]
KNOWN: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""What this process has loaded or compiled, by function and form of its arguments."""
LOCK = Lock()


def machine_code(calls: Mapping[Callable[..., Any], tuple[Any, ...]], about_s: int = ABOUT_S) -> tuple[Any, ...]:
    """Functions as machine code that Python calls, for the types of what they are called with.

    numba keeps the code, in a folder that is found by content and not by path. It is checked before it is run, and
    comes into place whole: processes that compile at the same time do not get in each other's way.

    Args:
        calls: functions, and arguments such as each will be called with.
        about_s: how long compiling them takes [s].
    """
    forms = tuple((function, _form(arguments)) for function, arguments in calls.items())
    with LOCK:  # where numba keeps code is stated for the whole process
        if forms not in KNOWN:
            wanted = _typed(calls)
            KNOWN[forms] = _loaded(wanted) or _compiled(wanted, about_s)
    return KNOWN[forms]


def _form(value: Any) -> Any:
    """Properties of a value that numba's type of it depends on, told sooner than the type."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_form, value))
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    return type(value)


def _typed(calls: Mapping[Callable[..., Any], tuple[Any, ...]]) -> Calls:
    import numba

    return tuple((function, tuple(map(numba.typeof, arguments))) for function, arguments in calls.items())


def _loaded(wanted: Calls) -> tuple[Any, ...] | None:
    """Functions that an earlier process compiled; None where there is nothing whole."""
    folder = cache_folder()
    if folder is None or not is_intact(folder / _name(wanted)):
        return None
    return _made(wanted, folder / _name(wanted))


def _compiled(wanted: Calls, about_s: int) -> tuple[Any, ...]:
    """Compile functions, tell of it, and keep what came of it for later processes."""
    began, folder = monotonic(), cache_folder()
    kept = "once" if folder else f"for this run only, as no folder keeps it (set {CACHE_VARIABLE})"
    LOG.info("compiling the executor %s, about %d s", kept, about_s)
    if folder is None:
        found = _made(wanted, None)
    else:
        with replaced_folder(folder / _name(wanted)) as aside:
            found = _made(wanted, aside)
    LOG.info("the executor is compiled, after %.0f s", monotonic() - began, extra=OVER)
    return found


def _made(wanted: Calls, folder: Path | None) -> tuple[Any, ...]:
    """Functions with code for some types each, from a folder or put into it; without one for this process alone."""
    import numba

    found = []
    for function, types in wanted:
        if folder is None:
            made = numba.njit(**OPTIONS)(function)
        else:
            with kept_in(folder):
                made = numba.njit(**OPTIONS, cache=True)(function)
        try:
            made.compile(types)
        except OSError as error:  # of a disk that takes nothing: the code is there
            if types not in made.signatures or folder is None:
                raise
            not_stored(folder.parent, error)
            rmtree(folder, ignore_errors=True)
        found.append(made)
    return tuple(found)


def _name(wanted: Calls) -> str:
    """Name of a folder: a digest of functions, of what they are called with, and of the processor."""
    import llvmlite.binding as llvm

    features = ""
    with suppress(RuntimeError):  # where they cannot be told
        features = llvm.get_host_cpu_features().flatten()
    functions = [(function.__module__, function.__qualname__, str(types)) for function, types in wanted]
    known = functions, llvm.get_default_triple(), llvm.get_host_cpu_name(), features
    return sha256(repr(known).encode()).hexdigest()[:DIGITS]
