"""Where compiled code is kept: found again, never stale, never in the way and never another's.

numba notices a change of the function it compiles but not of the functions that one calls. The cache therefore lies in
a folder named after all sources of the event loop: another version of the planner compiles again, the same does not.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from time import monotonic
from typing import Any

from planner.executor.codegen import optimized_once
from planner.notes import note

SOURCES = Path(__file__).parent
LOOPS = ("engine", "kernel")
"""Folders of what is compiled."""
CACHE_VARIABLE = "PLANNER_CACHE_DIR"
LOG = logging.getLogger("planner.executor")
OVER = {"is_over": True}
"""Of a record that tells of the end of what an earlier one announced."""
ABOUT_S = 25
"""Seconds that compiling the loop of a plain system takes on one core of 2024."""
ALL_OF_OTHERS, WRITING_OF_OTHERS = 0o077, 0o022
"""Bits of a mode by which others than the owner may do something, and by which they may put something in."""


def is_compiled(kind: str) -> bool:
    """Whether the loop for a kind of world can be run at once: compiled in this process, or kept by an earlier one."""
    folder = cache_folder()
    return kind in _compiled_here() or (folder is not None and _mark(folder, kind).exists())


@contextmanager
def told_of_compiling(kind: str, *entries: Any, about_s: int = ABOUT_S) -> Iterator[None]:
    """Compile what is called within, for a kind of world, and say that this takes long; where it is done, nothing."""
    if is_compiled(kind):
        yield
        return
    began, folder = monotonic(), cache_folder()
    kept = "once" if folder else f"for this run only, as no folder keeps it (set {CACHE_VARIABLE})"
    LOG.info("compiling the executor %s, about %d s", kept, about_s)
    with optimized_once(entry.py_func.__qualname__ for entry in entries):
        yield
    LOG.info("the executor is compiled, after %.0f s", monotonic() - began, extra=OVER)
    _compiled_here().add(kind)
    if folder is not None:
        _mark(folder, kind).touch()


def _mark(folder: Path, kind: str) -> Path:
    """A file that says that the loop for a kind of world lies in the folder."""
    return folder / f"{kind}.compiled"


@cache
def _compiled_here() -> set[str]:
    """Kinds of world whose loop was compiled in this process."""
    return set()


@cache
def cache_folder() -> Path | None:
    """Folder of the compiled event loop: the first that can be written and is ours alone; None where there is none.

    Tried in turn: the environment variable PLANNER_CACHE_DIR, the user's cache folder, the system's temporary folder.
    What lies there is run without another look: a folder that others own or may write, or a link in its place, is
    passed over.
    """
    name = f"executor-{_digest()}"
    for root, is_stated in _roots():
        folder = root / name
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if reason := _distrust(folder, ALL_OF_OTHERS) or (not is_stated and _distrust(root, WRITING_OF_OTHERS)):
                LOG.warning("%s", note("compiled-code-not-stored", f"compiled code is not kept in {reason}"))
                continue
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def _distrust(folder: Path, forbidden: int) -> str | None:
    """Why others could have put something into a folder; None where they could not."""
    if not hasattr(os, "geteuid"):
        return None
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder}: is a link, or no folder"
    if found.st_uid != os.geteuid():
        return f"{folder}: belongs to another user"
    if (mode := stat.S_IMODE(found.st_mode)) & forbidden:
        return f"{folder}: has mode {mode:04o}, so that others may use it (empty it, then chmod 700)"
    return None


def _roots() -> list[tuple[Path, bool]]:
    """Folders to keep compiled code in, and whether the user chose them."""
    stated, user = os.environ.get(CACHE_VARIABLE), os.environ.get("XDG_CACHE_HOME")
    home = Path(user) if user else Path(os.path.expanduser("~")) / ".cache"
    own = f"planner-{os.getuid()}" if hasattr(os, "getuid") else "planner"
    chosen = [(Path(stated), True)] if stated else []
    return [*chosen, (home / "planner", False), (Path(tempfile.gettempdir()) / own, False)]


def _digest() -> str:
    """What the compiled code depends on: the compiler, and the sources of the event loop by content."""
    total = sha256(f"{version('numba')} {python_version()}".encode())
    for path in (SOURCES / "compiled.py", *(path for room in LOOPS for path in sorted((SOURCES / room).glob("*.py")))):
        total.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]
