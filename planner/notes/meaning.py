"""Meaning of the code of a note."""

from typing import NamedTuple


class Meaning(NamedTuple):
    """Meaning of a code."""

    of: str
    """Commands that say it."""
    means: str
    """What is the case, and why it matters."""
    do: str
    """What a reader can do about it."""


PLAN, RUN, PREDICT = "optimize", "simulate, validate", "predict"
"""Commands that say many of them."""
