"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from planner.errors import InputError, Problem


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside another to write into: moved into its place when all of it is written, and removed where not.

    Args:
        path: the file that is to be.

    Raises:
        InputError: the folder is not there or cannot be written, or the disk is full.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(Problem(str(path), "", f"cannot be written: {reason}", "a writable folder")) from None
    finally:
        with suppress(OSError):
            aside.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 with its own line ends; raises as `whole_file` does."""
    with whole_file(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="")
