"""Standard output for the answer alone, and in ASCII where a stream has no other characters."""

import codecs
import os
import sys
from io import TextIOWrapper

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
