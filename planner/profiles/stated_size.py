"""The number of parameters that a model's name states, and whether a count agrees with it."""

import re
from dataclasses import dataclass
from typing import Literal

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
NAME_TOLERANCE = 0.25
"""Names round: gemma-7b has 8.5e9 with its embeddings."""
FIGURE_TOLERANCE = 0.03
"""A figure that somebody gives for this purpose has two digits or more."""
SHARED_FRACTION = 0.6
"""Experts of an NxM share everything else: 8x7B are 46.7e9, 16x3.8B are 41.9e9."""
_SIZE = re.compile(r"(?:(?P<times>\d+)x)?(?P<number>\d+(?:\.\d+)?)(?P<unit>[mbt])")
_ACTIVE = re.compile(r"a(?P<number>\d+(?:\.\d+)?)(?P<unit>[mbt])")
_EXPERTS = re.compile(r"\d+e")
_FIGURE = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e\d+)?)(?P<unit>[kmbt]?)")


@dataclass(frozen=True)
class StatedSize:
    """A number of parameters as somebody states it, and the range of counts that agree with it."""

    text: str
    """As it is written."""
    of: Literal["total", "active"]
    """All parameters, or those that a token meets."""
    low: float
    """Fewest parameters that agree."""
    high: float
    """Most parameters that agree."""

    def agrees(self, n_parameters: float) -> bool:
        """True if a count is within the range."""
        return self.low <= n_parameters <= self.high


def sizes_in(name: str) -> tuple[StatedSize, ...]:
    """Sizes that a model's name states: of all parameters, of the active ones, or none.

    >>> [(size.text, size.of) for size in sizes_in("Qwen/Qwen3-235B-A22B")]
    [('235B', 'total'), ('A22B', 'active')]
    >>> [(size.text, size.of) for size in sizes_in("meta-llama/Llama-4-Scout-17B-16E")]
    [('17B', 'active')]
    >>> [(size.text, size.agrees(46.7e9)) for size in sizes_in("mistralai/Mixtral-8x7B-v0.1")]
    [('8x7B', True)]
    >>> sizes_in("deepseek-ai/DeepSeek-V3")
    ()
    """
    words = re.split(r"[-_ ]", name.rpartition("/")[2])
    # The size of one with "16E" is of what a token meets, whatever stands before it.
    counts_active = any(_EXPERTS.fullmatch(word.casefold()) for word in words)
    found: dict[str, StatedSize] = {}
    for word in words:
        if active := _ACTIVE.fullmatch(word.casefold()):
            found.setdefault("active", _size(word, "active", active))
        elif size := _SIZE.fullmatch(word.casefold()):
            of: Literal["total", "active"] = "active" if counts_active else "total"
            found.setdefault(of, _size(word, of, size))
    return tuple(found.values())


def stated_total(text: str) -> StatedSize | None:
    """A total as a user gives it, such as 7.2e9 or 7.2B; None where it is no number.

    >>> size = stated_total("7.2e9")
    >>> size.agrees(7.24e9), size.agrees(72e9), stated_total("many")
    (True, False, None)
    """
    match = _FIGURE.fullmatch(text.casefold())
    if match is None or not float(match["number"]):
        return None
    value = float(match["number"]) * UNITS[match["unit"]]
    return StatedSize(text, "total", value * (1 - FIGURE_TOLERANCE), value * (1 + FIGURE_TOLERANCE))


def _size(text: str, of: Literal["total", "active"], match: re.Match[str]) -> StatedSize:
    each = float(match["number"]) * UNITS[match["unit"]]
    times = int(match.groupdict().get("times") or 1)
    least = SHARED_FRACTION * times if times > 1 else 1 - NAME_TOLERANCE
    return StatedSize(text, of, each * least, each * times * (1 + NAME_TOLERANCE))
