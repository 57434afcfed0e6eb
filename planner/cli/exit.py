"""End of a command: every error becomes one message in characters that the stream has, and an exit code."""

import codecs
import os
import sys
import threading
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn

import typer

from planner.cli.commands import app
from planner.cli.groups import exit_code
from planner.cli.signals import AFTER_SIGNAL, Signals
from planner.errors import TEXT_CHARACTERS, InputError, PlannerError, printable

READER_LEFT = AFTER_SIGNAL + 13
"""What shells know a process by that wrote into a pipe without a reader (SIGPIPE)."""


def run(signals: Signals) -> NoReturn:
    """Run a command and exit as it ends."""
    reserve_stdout()
    write_plainly()
    signals.raise_interrupts()
    _quiet_threads(signals)
    try:
        app()
        _end(0)
    except BaseException as error:
        # Whatever comes of an interrupt, a library's own error perhaps, is the interrupt.
        if signals.heard is not None:
            _end(signals.exit_code, signals.word())
        if isinstance(error, PlannerError):
            _end(error.exit_code, str(error))
        _end_as(error)


def _quiet_threads(signals: Signals) -> None:
    """Threads of libraries that an interrupt ends say nothing of it: the command does."""
    told = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        if signals.heard is None:
            told(failed)

    threading.excepthook = hook


def _end_as(error: BaseException) -> NoReturn:
    """The end that is not of the planner's own making; a fault of the program goes on as it is."""
    cause = error.__context__ if isinstance(error, SystemExit) and error.code == 1 else error
    if isinstance(cause, typer.Abort) and cause.__cause__ is not None:
        raise cause.__cause__  # Typer takes any EOFError for the end of what is typed, and there is no prompt here
    if isinstance(cause, BrokenPipeError) and _reader_has_left():
        _end(READER_LEFT)
    if isinstance(cause, MemoryError):
        _end(InputError.exit_code, f"there is not the memory for it: {cause or 'a limit of the system'}")
    if isinstance(cause, OSError):
        _end(exit_code(cause), _refusal(cause))
    if isinstance(error, SystemExit):
        _end(error.code)
    raise error


def _refusal(error: OSError) -> str:
    """The system's refusal in one line, whatever name it was called with."""
    return f"the system refuses: {printable(str(error), TEXT_CHARACTERS)}"


def _reader_has_left() -> bool:
    """True if whoever read our output has gone, rather than the other side of some other pipe."""
    import select

    from planner.files import OWN_OUTPUTS

    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    for descriptor in OWN_OUTPUTS:
        poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _end(code: str | int | None, message: str = "") -> NoReturn:
    """Say why on stderr and exit; an answer that could not be written whole is a failure of its own."""
    if message:
        with suppress(OSError):
            sys.stderr.write(f"planner: {message}\n")
            sys.stderr.flush()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code in (0, None) and isinstance(error, BrokenPipeError):
            _end(READER_LEFT)
        if code in (0, None):
            _end(exit_code(error), _refusal(error))
    sys.exit(code)


PLAIN = {
    "–": "-",
    "—": "-",
    "−": "-",
    "±": "+-",
    "×": "x",
    "·": "*",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "µ": "u",
    "…": "...",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "•": "*",
    "✓": "ok",
    "│": "|",
    "─": "-",
}
"""Characters that answers and messages use, and how they are written in ASCII."""
HANDLER = "planner.plain"
STDOUT = 1
"""Descriptor of the standard output that a process is started with."""


def reserve_stdout() -> None:
    """Standard output for what Python prints: from now on what libraries write to descriptor 1 goes nowhere.

    Solvers written in C announce themselves there, past `sys.stdout`, and what they keep in a buffer comes out when the
    process ends; worker processes that are interrupted while they start print their traceback there. So descriptor 1
    is not given back. A `sys.stdout` that is something else already stays as it is.
    """
    from planner.files import OWN_OUTPUTS

    stdout = sys.stdout
    if stdout is not sys.__stdout__ or not isinstance(stdout, TextIOWrapper) or stdout.fileno() != STDOUT:
        return
    answers = os.dup(STDOUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
    OWN_OUTPUTS[0] = answers
    binary = open(answers, "wb", buffering=0 if stdout.write_through else -1, closefd=False)  # noqa: SIM115
    sys.stdout = TextIOWrapper(
        binary,
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


def plain(text: str) -> str:
    """A text in ASCII: letters without their marks, and what has no likeness by its number.

    >>> plain("0.5–2 µs ± 3 %: Löwe 中")
    '0.5-2 us +- 3 %: Lowe \\\\u4e2d'
    """
    return "".join(map(_plain_character, text))


def _plain_character(character: str) -> str:
    import unicodedata  # most terminals have every character

    likeness = PLAIN.get(character) or unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return likeness or character.encode("ascii", "backslashreplace").decode()


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end


def write_plainly() -> None:
    """Have stdout and stderr write in ASCII whatever their encoding has no character for."""
    codecs.register_error(HANDLER, _instead)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=HANDLER)
