"""One pass of LLVM over the event loop, in place of one for each of its functions.

numba optimises every function it compiles together with all that this function calls, and makes machine code of both.
Functions that only other compiled functions call are then optimised and written again in each of their callers, and
again in the callers of those. Here they are handed on as they are, and what Python calls is optimised once with all of
them in it: a fifth of the compilation less, and the same loop.

This reaches into numba where it has no switch for it. What it needs is looked for first: where another version has
other insides, compiling takes longer and nothing else changes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

LIBRARY = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
"""Methods of a library of compiled code that this needs."""


@contextmanager
def optimized_once(entries: Iterable[str]) -> Iterator[None]:
    """Only these functions are optimised and made machine code of; the others are parts of them.

    Args:
        entries: qualified names of the functions that Python calls.
    """
    from numba.core import codegen

    library, engine = codegen.CPUCodeLibrary, codegen.JITCPUCodegen
    if not (all(hasattr(library, name) for name in LIBRARY) and hasattr(engine, "set_env")):
        yield
        return
    called = frozenset(entries)
    with ExitStack() as stack:
        for owner, name, instead in (
            (library, "_optimize_final_module", _optimized),
            (library, "_finalize_final_module", _finalized),
            (codegen.JITCodeLibrary, "get_pointer_to_function", _pointer),
            (engine, "set_env", _environment),
        ):
            stack.enter_context(patch.object(owner, name, instead(getattr(owner, name), called)))
        yield


def _optimized(usual: Callable[..., Any], called: frozenset[str]) -> Callable[..., Any]:
    def optimize(library: Any) -> None:
        if library.name in called:
            usual(library)

    return optimize


def _finalized(usual: Callable[..., Any], called: frozenset[str]) -> Callable[..., Any]:
    def finalize(library: Any) -> None:
        if library.name in called:
            usual(library)
            return
        library._finalize_dynamic_globals()
        library._finalized = True

    return finalize


def _pointer(usual: Callable[..., Any], called: frozenset[str]) -> Callable[..., Any]:
    def pointer(library: Any, name: str) -> int:
        return int(usual(library, name)) if library.name in called else 0

    return pointer


def _environment(usual: Callable[..., Any], _: frozenset[str]) -> Callable[..., Any]:
    def set_env(engine: Any, name: str, env: Any) -> None:
        if engine._engine.get_global_value_address(name):
            usual(engine, name, env)

    return set_env
