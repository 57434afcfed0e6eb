"""Compiling the event loop, with a cache that is found again, never stale and never in the way.

numba notices a change of the function it compiles but not of the functions that one calls. The cache therefore lies in
a folder named after all sources of the event loop: another version of the planner compiles again, the same does not.
"""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

KERNEL = Path(__file__).parent / "kernel"
CACHE_VARIABLE = "PLANNER_CACHE_DIR"
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


def compiled_entry(function: Function) -> Function:
    """The function as machine code that Python calls, compiled on its first call and kept for later processes."""
    import numba

    folder, config = cache_folder(), cast(Any, numba.config)
    if folder is None:
        return cast(Function, numba.njit(**OPTIONS)(function))
    previous, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        return cast(Function, numba.njit(cache=True, **OPTIONS)(function))
    finally:
        config.CACHE_DIR = previous


@cache
def cache_folder() -> Path | None:
    """Folder of the compiled event loop: the first that can be written; None where none can.

    Tried in turn: the environment variable PLANNER_CACHE_DIR, the user's cache folder, the system's temporary folder.
    """
    name = f"executor-{_digest()}"
    for root in _roots():
        folder = root / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def _roots() -> list[Path]:
    stated, user = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    home = Path(user) if user else Path(os.path.expanduser("~")) / ".cache"
    own = f"planner-{os.getuid()}" if hasattr(os, "getuid") else "planner"
    return [*([Path(stated)] if stated else []), home / "planner", Path(tempfile.gettempdir()) / own]


def _digest() -> str:
    """What the compiled code depends on: the sources of the event loop, by content."""
    total = sha256()
    for path in (Path(__file__), *sorted(KERNEL.glob("*.py"))):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]
