"""What is printed where not every character can be: the nearest ASCII, and never an error."""

import codecs
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
