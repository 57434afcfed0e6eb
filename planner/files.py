"""Files of the user: written whole or not at all, and as what they are.

Results (reports, figures, tables, records, pages, exports) replace what an earlier call left. A scenario or a profile,
which people go on to edit, replaces nothing unless that is asked for: see `check_new`.

A regular file is written aside and moved into place, so that no reader ever sees half of it; it keeps its mode and, as
far as the system lets us, its owner. A link is followed: what it leads to is replaced, and the link stays. Into what is
no regular file - a device, a pipe - the text is written through, and it stays what it is.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EISDIR, ENOENT, ENOTDIR, EXDEV
from pathlib import Path
from secrets import token_hex

from planner.errors import InputError, InputProblem

ASIDE = ".planner-"
"""What names of files begin with that are not yet in their place."""
OWN_OUTPUTS = [1, 2]
"""Descriptors of our standard output, which the command line moves elsewhere, and of our standard error."""
STDOUT_NAMES = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
"""Names that systems have for the standard output of whoever opens them."""
NEW_MODE = 0o666
"""Of a new file, less the umask."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write into: put into a path's place when all of it is written, and removed where not.

    Args:
        path: the file that is to be; a device or a pipe gets the content when all of it is there.

    Raises:
        InputError: the folder is not there or cannot be written, or the disk is full.
    """
    with _said(path):
        if _is_written_through(path):
            with tempfile.TemporaryDirectory(prefix=scratch_prefix()) as scratch:
                aside = Path(scratch) / "content"
                yield aside
                _write_through(aside, path)
        else:
            target = _target(path)
            with _aside(target) as aside:
                yield aside
                _synced(aside)
                aside.replace(target)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; raises as `whole_file` does."""
    with whole_file(path) as aside:
        aside.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 with its own line ends; raises as `whole_file` does."""
    with whole_file(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="")


def make_folder(path: Path) -> None:
    """Make a folder and those above it where they are not there; raises as `whole_file` does."""
    with _said(path):
        path.mkdir(parents=True, exist_ok=True)


def move_into_place(aside: Path, path: Path) -> None:
    """Move a file that is written already to where it belongs, under the rules of this module.

    Raises:
        OSError: it cannot be put there.
    """
    target = _target(path)
    if _is_written_through(path):
        _write_through(aside, path)
        return
    _take_after(aside, target)
    try:
        aside.replace(target)
    except OSError as error:
        # A link may lead to another file system, where nothing can be moved to.
        if error.errno != EXDEV:
            raise
        with whole_file(target) as copy:
            shutil.copyfile(aside, copy)


def check_writable(path: Path) -> None:
    """Say before any work that a file cannot be written.

    Raises:
        InputError: its folder is not there or takes no files, or it is a folder itself.
    """
    with _said(path):
        if path.is_dir():
            raise _refusal(EISDIR)
        place = path if _is_written_through(path) else _target(path).parent
        if not place.exists():
            raise _refusal(ENOENT)
        if not os.access(place, os.W_OK):
            raise _refusal(EACCES)


def check_new(path: Path, force: bool) -> None:
    """Say before any work that a file which people edit is there already, or cannot be written.

    Args:
        path: the file: a scenario or a profile.
        force: whether it may replace another.

    Raises:
        InputError: it is there and may not be replaced; or as `check_writable` does.
    """
    if os.path.lexists(path) and not force:
        raise InputError(InputProblem(str(path), "", "exists already", "a new name, or --force to write over it"))
    check_writable(path)


def check_writable_folder(path: Path) -> None:
    """Say before any work that a folder, which is made where it is not there, cannot be written.

    Raises:
        InputError: it, or the nearest folder above it that is there, is none or takes no files.
    """
    with _said(path):
        place = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
        if not place.is_dir():
            raise _refusal(ENOTDIR)
        if not os.access(place, os.W_OK | os.X_OK):
            raise _refusal(EACCES)


def scratch_prefix() -> str:
    """Prefix of the names of this process's temporary folders, so that they can be found however it ends."""
    return f"planner-{os.getpid()}-"


def remove_scratch() -> None:
    """Remove the temporary folders of this process: for an end that lets nobody else do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{scratch_prefix()}*"):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Errors of the system about a file that is written, in the planner's words."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        problem = InputProblem(str(path), "", f"cannot be written: {reason}", "a file in a writable folder")
        raise InputError(problem) from None


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _target(path: Path) -> Path:
    """Where a path leads: itself, or the end of its links, which need not be there yet."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _status(path: Path) -> os.stat_result:
    """The status of what a path leads to; the names of our standard output mean the one that we were started with."""
    return os.fstat(OWN_OUTPUTS[0]) if str(path) in STDOUT_NAMES else path.stat()


def _is_written_through(path: Path) -> bool:
    """True if a path leads to something that must not be replaced: no regular file, or our own output."""
    try:
        found = _status(path)
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(found.st_mode) or _own_output(found) is not None


def _own_output(found: os.stat_result) -> int | None:
    """The descriptor of our standard output or error that a file is, such as /dev/stdout."""
    for descriptor in OWN_OUTPUTS:
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def _write_through(content: Path, path: Path) -> None:
    """Write a file's content into a device or a pipe; into our own output after what stands there."""
    if path.is_dir():
        raise _refusal(EISDIR)
    own = _own_output(_status(path))
    target = os.open(path, os.O_WRONLY) if own is None else os.dup(own)
    with content.open("rb") as source, os.fdopen(target, "wb") as file:
        shutil.copyfileobj(source, file)


@contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """A new file beside another, with that one's mode and owner; gone at the end unless it was moved away."""
    aside = target.with_name(f"{ASIDE}{token_hex(8)}")
    os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, NEW_MODE))
    try:
        _take_after(aside, target)
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _take_after(aside: Path, target: Path) -> None:
    """Give a file the owner and the mode of the one that it replaces; without one it stays as it is."""
    try:
        before = target.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(aside, before.st_uid, before.st_gid)
    aside.chmod(stat.S_IMODE(before.st_mode))


def _synced(path: Path) -> None:
    """Have a file on its disk before another is given up for it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
