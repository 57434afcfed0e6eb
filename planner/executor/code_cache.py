"""Files of compiled code: found again by content, made anew where damaged, never in the way and never another's.

The folder is named after all that the code depends on but the types and the processor, which name the files in it.
Where the sources lie, and when they were written, does not matter: copies of one version share what one has compiled.
"""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from time import time

from planner.errors import InputError
from planner.files import ASIDE, write_bytes
from planner.notes import Note, note

SOURCES = Path(__file__).parent
LOOPS = ("kernel",)
"""Folders of what is compiled."""
COMPILERS = ("compiled.py", "codegen.py", "compilation.py")
"""Modules that decide what code is made of it."""
LIBRARIES = ("numba", "llvmlite", "numpy")
COMPILER_SETTINGS = "NUMBA_"
"""Beginning of the names of environment variables that set the compiler."""
OTHER_SETTINGS = {"NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR"}
"""Of these, those that do not change the code; joblib sets the first for its processes."""
CACHE_VARIABLE = "PLANNER_CACHE_DIR"
FOLDER, SUFFIX = "executor-", ".code"
DIGITS = 16
"""Of a digest in a name."""
CHECK_BYTES = sha256().digest_size
"""Length of the digest that a file begins with."""
UNUSED_S, MOST_FOLDERS = 30 * 86400.0, 20
"""Folders of other versions are removed that were not used for so long, and those beyond so many."""
UNFINISHED_S = 86400.0
"""Age of an unfinished file whose writer is gone [s]."""
LOG = logging.getLogger("planner.executor")
ALL_OF_OTHERS, WRITING_OF_OTHERS = 0o077, 0o022
"""Bits of a mode by which others than the owner may do something, and by which they may put something in."""


def stored(name: str) -> bytes | None:
    """Content of a file of compiled code, whole as it was stored; None where there is none or it is damaged."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / f"{name}{SUFFIX}"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        content = b""
    check, payload = content[:CHECK_BYTES], content[CHECK_BYTES:]
    if sha256(payload).digest() != check:
        _warn(note("compiled-code-damaged", f"a file of compiled code in {folder} is damaged, and is made anew"))
        with suppress(OSError):
            path.unlink()  # what is written over a file takes its mode
        return None
    with suppress(OSError):
        os.utime(folder)
    return payload


def store(name: str, payload: bytes) -> None:
    """A file of compiled code, written whole or not at all; then what was long unused is removed.

    Several processes may write one file at the same time: each writes its own and puts it into place, and the last
    stays. A disk that does not take it is told of once.
    """
    folder = cache_folder()
    if folder is None:
        return
    try:
        write_bytes(folder / f"{name}{SUFFIX}", sha256(payload).digest() + payload)
    except InputError as error:
        _not_stored(folder, error.problems[0].message)
    else:
        _remove_unused(folder)


def _remove_unused(used: Path) -> None:
    """Remove folders of other versions that were long not used, and what killed processes left in the one in use."""
    with suppress(OSError):
        others = sorted(_folders_beside(used), reverse=True)
        for place, (used_s, folder) in enumerate(others):
            if place >= MOST_FOLDERS or time() - used_s > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)
        for path in used.glob(f"{ASIDE}*"):
            if time() - path.stat().st_mtime > UNFINISHED_S:
                path.unlink()


def _folders_beside(used: Path) -> Iterator[tuple[float, Path]]:
    """When folders of other versions were last used, and which these are; only our own."""
    for folder in used.parent.glob(FOLDER + DIGITS * "[0-9a-f]"):
        if folder != used and _distrust(folder, ALL_OF_OTHERS) is None and folder.is_dir():
            yield folder.stat().st_mtime, folder


@cache
def cache_folder() -> Path | None:
    """Folder of the compiled event loop: the first that can be written and is ours alone; None where there is none.

    Tried in turn: the environment variable PLANNER_CACHE_DIR, the user's cache folder, the system's temporary folder.
    What lies there is run without another look: a folder that others own or may write, or a link in its place, is
    passed over. So is one that cannot be written: told of if the user chose it, or if there is no other.
    """
    name, untold = f"{FOLDER}{_digest()}", []
    for root, is_stated in _roots():
        folder = root / name
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            if reason := _distrust(folder, ALL_OF_OTHERS) or (not is_stated and _distrust(root, WRITING_OF_OTHERS)):
                _warn(note("compiled-code-not-stored", f"compiled code is not stored in {reason}"))
                continue
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            if is_stated:
                _not_stored(root, reason)
            else:
                untold.append((root, reason))
    for root, reason in untold:
        _not_stored(root, reason)
    return None


def _not_stored(folder: Path, reason: str) -> None:
    what = f"compiled code is not stored in {folder}: {reason} (make room there, or set {CACHE_VARIABLE})"
    _warn(note("compiled-code-not-stored", what))


@cache
def _warn(text: Note) -> None:
    """Tell of it once."""
    LOG.warning("%s", text)


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
    """Digest of what the compiled code depends on: the compiler and its settings, and the sources, by content."""
    total = sha256(python_version().encode())
    for library in LIBRARIES:
        total.update(f" {library} {version(library)}".encode())
    for setting in sorted({name for name in os.environ if name.startswith(COMPILER_SETTINGS)} - OTHER_SETTINGS):
        total.update(f" {setting}={os.environ[setting]}".encode())
    of_loops = (path for room in LOOPS for path in sorted((SOURCES / room).glob("*.py")))
    for path in (*(SOURCES / name for name in COMPILERS), *of_loops):
        total.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:DIGITS]
