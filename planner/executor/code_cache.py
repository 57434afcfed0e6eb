"""Files of compiled code: found again by content, made anew where damaged, never in the way and never another's.

The folder is named after all that the code depends on but the types and the processor, which name the folders in it.
Where the sources lie, and when they were written, does not matter: copies of one version share what one has compiled.
"""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from time import time
from typing import Any
from uuid import uuid4

from planner.notes import Note, note

SOURCES = Path(__file__).parent
LOOPS = ("kernel",)
"""Folders of what is compiled."""
COMPILERS = ("compiled.py", "compilation.py")
"""Modules that decide what code is made of it."""
LIBRARIES = ("numba", "llvmlite", "numpy")
COMPILER_SETTINGS = "NUMBA_"
"""Beginning of the names of environment variables that set the compiler."""
OTHER_SETTINGS = {"NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR"}
"""Of these, those that do not change the code; joblib sets the first for its processes."""
CACHE_VARIABLE = "PLANNER_CACHE_DIR"
FOLDER, ASIDE, SUMS = "executor-", ".planner-", "sums"
"""Beginnings of the names of folders, whole and unfinished, and the file with the digests of the others."""
DIGITS = 16
"""Of a digest in a name."""
UNUSED_S, MOST_FOLDERS = 30 * 86400.0, 20
"""Folders of other versions are removed that were not used for so long, and those beyond so many."""
UNFINISHED_S = 86400.0
"""Age of an unfinished folder whose writer is gone [s]."""
LOG = logging.getLogger("planner.executor")
ALL_OF_OTHERS, WRITING_OF_OTHERS = 0o077, 0o022
"""Bits of a mode by which others than the owner may do something, and by which they may put something in."""


class Locator:
    """Where numba keeps the code of a function, as `kept_in` says; its sources are looked at by the name of the folder.

    numba finds locators by `NUMBA_CACHE_LOCATOR_CLASSES`, which is set while a function is made known to it.
    """

    folder = Path()

    @classmethod
    def from_function(cls, *_: object) -> "Locator":
        """The locator of a function."""
        found = cls()
        found.folder = cls.folder
        return found

    def ensure_cache_path(self) -> None:
        """Make the folder, if it is not there."""
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """Stamp that changes with the sources: nothing in one folder."""
        return ""

    def get_disambiguator(self) -> str:
        """Text that tells functions of one name apart: there are none in one folder."""
        return ""


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Functions that become known to numba meanwhile keep their code in a folder."""
    import numba

    config: Any = numba.config
    usual = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES, Locator.folder = f"{Locator.__module__}.{Locator.__name__}", folder
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = usual


def is_intact(folder: Path) -> bool:
    """True if a folder of compiled code is there, as it was stored; one that is damaged is told of, and removed."""
    if not folder.is_dir():
        return False
    with suppress(OSError):
        if (folder / SUMS).read_bytes() == _sums(folder):
            os.utime(folder.parent)
            return True
    _warn(note("compiled-code-damaged", f"compiled code in {folder.parent} is damaged, and is made anew"))
    shutil.rmtree(folder, ignore_errors=True)
    return False


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A folder beside, which comes into the place of this one when all is in it; then what was long unused is removed.

    Several processes may keep the same code at the same time: each has its own, and the first stays. What cannot be
    written is told of once.
    """
    aside = folder.parent / f"{ASIDE}{uuid4().hex}"
    with suppress(OSError):
        aside.mkdir(mode=0o700)
    try:
        yield aside
        if not aside.is_dir():
            return
        (aside / SUMS).write_bytes(_sums(aside))
        aside.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            not_stored(folder.parent, error)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _remove_unused(folder.parent)


def _sums(folder: Path) -> bytes:
    """Digests of the files of a folder, by name."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{sha256(path.read_bytes()).hexdigest()} {path.name}\n" for path in files).encode()


def _remove_unused(used: Path) -> None:
    """Remove folders of other versions that were long not used, and what killed processes left in the one in use."""
    with suppress(OSError):
        others = sorted(_folders_beside(used), reverse=True)
        for place, (used_s, folder) in enumerate(others):
            if place >= MOST_FOLDERS or time() - used_s > UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)
        for path in used.glob(f"{ASIDE}*"):
            if time() - path.stat().st_mtime > UNFINISHED_S:
                shutil.rmtree(path, ignore_errors=True)


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


def not_stored(folder: Path, error: OSError) -> None:
    """Tell that a folder takes no code."""
    _not_stored(folder, f"cannot be written: {error.strerror or error}")


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
