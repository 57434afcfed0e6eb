"""Text of others in Markdown: it is shown as it stands, and never taken for headings, links, images, tables or HTML.

What could be is written as the number of its character, which Markdown shows and never takes for structure.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from planner.schema import StrictModel

Record = TypeVar("Record", bound=StrictModel)
UNKNOWN = "\ufffd"
"""Stands for a character that controls a terminal, or the direction of writing."""
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ANYWHERE = r"[\\`|~$#\[\]]|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
"""Code, tables, formulas, headings, links, HTML, numbers of characters, and what would hide one of them."""
EMPHASIS = r"\*|(?<![^\W_])_|_(?![^\W_])"
"""Within a word a line is none."""
FIRST = r"^>|^[+\-](?=\s|$)|^[-=](?=[-=\s]*$)|^\d{1,9}[.)](?=\s|$)"
"""Quotes, lists and underlines; only at the start of a line, and no sign of a number."""
SPECIAL = re.compile(f"{ANYWHERE}|{EMPHASIS}|{FIRST}")
CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
IN_PROSE = re.compile(rf"{ANYWHERE}|^[\s>]*[-=](?=[-=\s]*$)", re.MULTILINE)
NUMBER = re.compile(r"&#(\d+);")


def plain(text: str) -> str:
    """Text on one line, without characters that do anything but show.

    >>> plain("a title,  and\t more")
    'a title, and more'
    """
    return " ".join(_visible(text).split())


def escaped(text: str) -> str:
    """Text on one line that Markdown shows as it stands.

    >>> escaped("P90 of pd-p, n_instances"), escaped("# <b>![x](y)"), escaped("1. a|b")
    ('P90 of pd-p, n_instances', '&#35; &#60;b>!&#91;x&#93;(y)', '1&#46; a&#124;b')
    >>> escaped("-20 %"), escaped("- a list"), escaped("---")
    ('-20 %', '&#45; a list', '&#45;--')
    """
    return SPECIAL.sub(_numbered, plain(text))


def code(text: str) -> str:
    """Text as code on one line.

    >>> code("a[0] = `b`"), code("n_instances")
    ('``a[0] = `b` ``', '`n_instances`')
    """
    content = plain(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", content)), default=0))
    before, after = (" " if end == "`" else "" for end in (content[:1], content[-1:] or "`"))
    return f"{fence}{before}{content}{after}{fence}"


def as_code(text: str) -> str:
    """Escaped text as code.

    >>> as_code(escaped("tiers[0]"))
    '`tiers[0]`'
    """
    return code(unescaped(text))


def unescaped(text: str) -> str:
    """What was escaped, on one line."""
    return NUMBER.sub(lambda match: chr(int(match[1])), text)


def prose(text: str) -> str:
    """Markdown of others: its paragraphs, lists, emphasis and code on one line stay, nothing else does.

    >>> prose("- **one** `a[0]`: [two](http://x) <img src=y>")
    '- **one** `a[0]`: &#91;two&#93;(http://x) &#60;img src=y>'
    """
    parts = CODE.split(_visible("\n".join(text.splitlines())))
    parts[::2] = [IN_PROSE.sub(_numbered, part) for part in parts[::2]]
    return "".join(f"`{part}`" if i % 2 else part for i, part in enumerate(parts))


def escaped_record(record: Record) -> Record:
    """A record with every text in it escaped; its notes, where it has some in Markdown, as prose."""
    notes = getattr(record, "notes", None)
    kept = {"notes": prose(notes)} if isinstance(notes, str) else {}
    changed: Record = _mapped(record, escaped)
    return changed.model_copy(update=kept)


def plain_record(record: Record) -> Record:
    """A record with every text in it on one line, for what is not Markdown."""
    changed: Record = _mapped(record, plain)
    return changed


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text in it changed, keys of tables as well; the same value where nothing changes."""
    if isinstance(value, str):
        return value if value == (new := change(value)) else new
    if isinstance(value, StrictModel):
        fields = {name: (old, _mapped(old, change)) for name, old in value}
        update = {name: new for name, (old, new) in fields.items() if new is not old}
        return value.model_copy(update=update) if update else value
    if isinstance(value, tuple | list):
        items = [_mapped(item, change) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, Mapping):
        pairs = [(key, item, _mapped(key, change), _mapped(item, change)) for key, item in value.items()]
        return value if all(a is c and b is d for a, b, c, d in pairs) else {c: d for *_, c, d in pairs}
    return value


def _numbered(match: re.Match[str]) -> str:
    """The last character of what was found as its number."""
    return f"{match[0][:-1]}&#{ord(match[0][-1])};"


def _visible(text: str) -> str:
    return "".join(UNKNOWN if _controls(c) else c for c in text)


def _controls(character: str) -> bool:
    return character in TURNS or (not character.isspace() and unicodedata.category(character) in ("Cc", "Cs"))
