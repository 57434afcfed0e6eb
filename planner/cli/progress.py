"""Progress on stderr: a spinner or a bar on a terminal; elsewhere a line now and then, once it takes long."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Protocol

from planner.progress import Progress

PATIENCE_S = 2.0
"""How long something may take before a line says that it goes on [s]."""
GROWTH = 2.0
"""Each pause between lines over the one before."""
LONGEST_PAUSE_S = 300.0
LOG = "planner"
"""Logger by which rooms say what takes them long; a record at INFO is shown."""


@contextmanager
def progress(text: str) -> Iterator[Progress]:
    """Show that something goes on.

    Yields:
        What changes the text.
    """
    if not _is_terminal():
        with _Lines(text) as lines, _shown(lines.update, text):
            yield lines.update
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    status = console.status(Text(text), spinner="dots" if console.encoding.startswith("utf") else "line")

    def update(doing: str) -> None:
        status.update(Text(doing))  # as it stands: brackets of a title are no markup

    with status, _shown(update, text):
        yield update


@contextmanager
def progress_bar(text: str) -> Iterator["Reach"]:
    """Show how far something is.

    Yields:
        What is told the fraction that is done, and of what.
    """
    if not _is_terminal():
        with _Lines(text) as lines, _shown(lines.update, text):
            yield lines.reach
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=1.0)
        with _shown(lambda said: bar.update(task, description=said), text):
            yield lambda fraction, doing=None: bar.update(
                task, completed=fraction, description=text if doing is None else f"{text}: {doing}"
            )


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Reach(Protocol):
    """Listener that is told how far something is, and of several things which one goes on."""

    def __call__(self, fraction: float, doing: str | None = None) -> None:
        """So much of all is done."""


class _Lines:
    """Plain lines: none in the first seconds, then one after pauses that grow, and one at the end if there were any."""

    def __init__(self, text: str) -> None:
        self._text, self._doing, self._done = text, text, ""
        self._stream, self._began = sys.stderr, monotonic()
        self._is_over, self._has_spoken = Event(), False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "_Lines":
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._has_spoken and kind is None:
            self._print(f"{self._text}: done after {self._seconds()} s")

    def update(self, doing: str) -> None:
        """Something else goes on now."""
        self._doing, self._done = doing, ""

    def reach(self, fraction: float, doing: str | None = None) -> None:
        """So much is done."""
        self._doing = self._text if doing is None else f"{self._text}: {doing}"
        self._done = f", {100 * fraction:.0f} % done"

    def _run(self) -> None:
        pause_s = PATIENCE_S
        while not self._is_over.wait(pause_s):
            self._print(f"{self._doing}: {self._seconds()} s so far{self._done}")
            pause_s = min(GROWTH * pause_s, LONGEST_PAUSE_S)

    def _seconds(self) -> str:
        return f"{monotonic() - self._began:,.0f}"

    def _print(self, line: str) -> None:
        self._has_spoken = True
        with suppress(OSError, ValueError):  # whoever read it has gone
            self._stream.write(f"planner: {line}\n")
            self._stream.flush()


@contextmanager
def _shown(update: Progress, text: str) -> Iterator[None]:
    """While this is open, what rooms say of long work is shown: at once as a line, then as what goes on."""
    logger, handler = logging.getLogger(LOG), _Shown(update, text)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


class _Shown(logging.Handler):
    def __init__(self, update: Progress, text: str) -> None:
        super().__init__()
        self._update, self._text = update, text

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record; rich moves its spinner out of the way of what is written to stderr."""
        text = record.getMessage()
        with suppress(OSError, ValueError):
            sys.stderr.write(f"planner: {text}\n")
            sys.stderr.flush()
        self._update(self._text if getattr(record, "is_over", False) else text)
