"""Machine code of the event loop: what an earlier process stored, else compiled, which is told of, and stored."""

import logging
import pickle
from collections.abc import Mapping, Sequence
from hashlib import sha256
from time import monotonic
from typing import Any, cast

from planner.executor.code_cache import CACHE_VARIABLE, DIGITS, cache_folder, store, stored
from planner.executor.codegen import optimized_once

LOG = logging.getLogger("planner.executor")
OVER = {"is_over": True}
"""Of a record that tells of the end of what an earlier one announced."""
ABOUT_S = 25
"""Seconds that compiling the loop of a plain system takes on one core of 2024."""
Types = tuple[Any, ...]
"""Of the arguments of a function, as numba knows them."""


def load_or_compile(calls: Mapping[Any, tuple[Any, ...]], about_s: int = ABOUT_S) -> None:
    """Machine code of functions that Python calls, for the types of what they are called with.

    numba keeps a cache of its own. This one differs in three ways: files are found by content and not by path, each is
    checked before it is run, and two processes that store code of different types do not get in each other's way.

    Args:
        calls: functions made by `compiled_entry`, and arguments such as each will be called with.
        about_s: how long compiling them takes [s].
    """
    from numba.core.compiler_lock import global_compiler_lock

    wanted = [(entry, tuple(map(entry.typeof_pyval, arguments))) for entry, arguments in calls.items()]
    with global_compiler_lock:
        missing = [(entry, types) for entry, types in wanted if types not in entry.overloads]
        missing = [(entry, types) for entry, types in missing if not _load(entry, types)]
        if missing:
            _compile(missing, about_s)


def _load(entry: Any, types: Types) -> bool:
    """Take what an earlier process compiled; False where there is nothing."""
    from numba.core.compiler import CompileResult

    context = entry.targetctx
    context.refresh()
    code = stored(_name(entry, types))
    if code is None:
        return False
    found = cast(Any, CompileResult)._rebuild(context, *pickle.loads(code))
    context.insert_user_function(found.entry_point, found.fndesc, [found.library])
    entry.add_overload(found)
    return True


def _compile(missing: Sequence[tuple[Any, Types]], about_s: int) -> None:
    began = monotonic()
    kept = "once" if cache_folder() else f"for this run only, as no folder keeps it (set {CACHE_VARIABLE})"
    LOG.info("compiling the executor %s, about %d s", kept, about_s)
    with optimized_once(entry.py_func.__qualname__ for entry, _ in missing):
        for entry, types in missing:
            entry.compile(types)
            _store(entry, types)
    LOG.info("the executor is compiled, after %.0f s", monotonic() - began, extra=OVER)


def _store(entry: Any, types: Types) -> None:
    """Keep what was compiled for later processes, unless it holds addresses of this one."""
    from numba.core.serialize import dumps

    result = entry.overloads[types]
    if not result.library.has_dynamic_globals:
        store(_name(entry, types), cast(Any, dumps)(result._reduce()))


def _name(entry: Any, types: Types) -> str:
    """Name of a file: the function, with a digest of what it is called with and of the processor it is made for."""
    function = entry.py_func
    known = function.__module__, function.__qualname__, str(types), entry.targetctx.codegen().magic_tuple()
    return f"{function.__name__}-{sha256(repr(known).encode()).hexdigest()[:DIGITS]}"
