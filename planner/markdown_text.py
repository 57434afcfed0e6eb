"""Text of others in Markdown: it is shown as it stands, and never taken for headings, links, images, tables or HTML.

What could be is written as the number of its character, which Markdown shows and never takes for structure. Mentions of
people, numbers of issues and e-mail addresses are looked for in what is shown: a space of no width parts these.
"""

import re
import unicodedata

UNKNOWN = "\ufffd"
"""Stands for a character that controls a terminal, or the direction of writing."""
TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ANYWHERE = r"[\\`|~$#\[\]]|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
"""Code, tables, formulas, headings, links, HTML, numbers of characters, and what would hide one of them."""
EMPHASIS = r"\*|(?<![^\W_])_|_(?![^\W_])"
"""Within a word a line is none."""
FIRST = r"^>|^[+\-](?=\s|$)|^[-=](?=[-=\s]*$)|^\d{1,9}[.)](?=\s|$)"
"""Quotes, lists and underlines; only at the start of a line, and no sign of a number."""
ADDRESS = r"(?:(?<=https)|(?<=http)|(?<=ftp)):(?=//)|(?<=www)\."
"""Of what would be a link without brackets."""
SPECIAL = re.compile(f"{ANYWHERE}|{EMPHASIS}|{FIRST}|{ADDRESS}", re.IGNORECASE)
CALL = re.compile(r"(@|&#35;)(?=\w)")
"""What begins a mention, or the number of an issue."""
APART = "&#8203;"
"""A space of no width."""
CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
IN_PROSE = re.compile(rf"{ANYWHERE}|{ADDRESS}|^[\s>]*[-=](?=[-=\s]*$)", re.MULTILINE | re.IGNORECASE)
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
    >>> escaped("@team, see www.x.org or https://x.org")
    '@&#8203;team, see www&#46;x.org or https&#58;//x.org'
    """
    return _uncalled(SPECIAL.sub(_numbered, plain(text)))


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
    """Original of an escaped text, on one line."""
    return NUMBER.sub(lambda match: chr(int(match[1])), text.replace(APART, ""))


def prose(text: str) -> str:
    """Markdown of others: its paragraphs, lists, emphasis and code on one line stay, nothing else does.

    >>> prose("- **one** `a[0]`: [two](http://x) <img src=y>")
    '- **one** `a[0]`: &#91;two&#93;(http&#58;//x) &#60;img src=y>'
    """
    parts = CODE.split(_visible("\n".join(text.splitlines())))
    parts[::2] = [_uncalled(IN_PROSE.sub(_numbered, part)) for part in parts[::2]]
    return "".join(f"`{part}`" if i % 2 else part for i, part in enumerate(parts))


def _numbered(match: re.Match[str]) -> str:
    """The last character of what was found as its number."""
    return f"{match[0][:-1]}&#{ord(match[0][-1])};"


def _uncalled(text: str) -> str:
    """Text that mentions nobody."""
    return CALL.sub(rf"\1{APART}", text)


def _visible(text: str) -> str:
    return "".join(UNKNOWN if _controls(c) else c for c in text)


def _controls(character: str) -> bool:
    return character in TURNS or (not character.isspace() and unicodedata.category(character) in ("Cc", "Cs"))
