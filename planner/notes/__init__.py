"""Notes that readers need to use an answer: every note ends with a stable code, and every code is explained here once.

The page of notes in the handbook is written from the table of their meanings.
"""

import re
from typing import NewType

from planner.notes.meaning import Meaning
from planner.notes.of_plans import OF_PLANS
from planner.notes.of_runs import OF_RUNS

__all__ = ["MEANINGS", "Meaning", "Note", "code_of", "note"]

Note = NewType("Note", str)
"""A text that ends with its code; made by `note` alone."""
MEANINGS: dict[str, Meaning] = {**OF_PLANS, **OF_RUNS}
"""Every code with its meaning. A code is never used again for something else."""
ENDING = re.compile(r" \(note: ([a-z0-9-]+)\)$")


def note(code: str, text: str) -> Note:
    """A note: the text with its code at the end.

    Args:
        code: one of MEANINGS.
        text: what is the case, without a full stop.

    Raises:
        KeyError: nobody explained that code.

    >>> note("price-missing", "cost unknown; missing: wan")
    'cost unknown; missing: wan (note: price-missing)'
    """
    if code not in MEANINGS:
        raise KeyError(code)
    return Note(f"{text} (note: {code})")


def code_of(text: str) -> str | None:
    """The code that a note ends with; None of one that an older version wrote.

    >>> code_of("cost unknown; missing: wan (note: price-missing)"), code_of("cost unknown")
    ('price-missing', None)
    """
    found = ENDING.search(text)
    return found and found[1]
