"""Columns of a table of requests by what they are, and names that say that a column is something else."""

from collections.abc import Iterator, Mapping, Sequence

from planner.errors import InputError, InputProblem, shown
from planner.notes import Note, note
from planner.units import name_words, time_unit_in

LATENCY_UNITS = ("s", "ms")
"""Units of latencies."""
SHARE_WORDS = {"pct", "percent", "percentage", "fraction", "ratio", "rate", "share"}
"""In the name of a column, they say that its values count no tokens."""
COUNTED_WORDS: Mapping[str, frozenset[str]] = {
    "input": frozenset({"input", "prompt", "prompts"}),
    "output": frozenset({"output", "completion", "response", "generated"}),
    "cached": frozenset({"cached"}),
}
"""In the name of a column, they say which tokens it counts;"""
OTHER_WORDS: Mapping[str, frozenset[str]] = {
    "input": frozenset({"context", "request", "query", "in"}),
    "output": frozenset({"answer", "generation", "decode", "decoded", "out"}),
    "cached": frozenset({"cache", "hit", "hits", "prefix", "reused"}),
}
"""these fit a role, and contradict no other."""
UNIT_WORDS = frozenset(
    {"char", "chars", "character", "characters", "byte", "bytes", "word", "words", "kb", "mb", "ktok"}
)
"""In the name of a column, they say what it counts instead of tokens;"""
LIMIT_WORDS = frozenset({"max", "maximum", "limit", "budget"})
"""these say that it states what a request might have taken, and not what it took."""
TOTAL_WORDS = frozenset({"total", "sum", "all"})
MOST_NAMED = 8
"""Columns that a note names."""


def check_names(name: str, columns: Mapping[str, str], roles: Mapping[str, str]) -> None:
    """Raises InputError where a column's name says that it is of another unit, or counts other tokens."""
    for role, column in columns.items():
        words = {word.casefold() for word in name_words(column)}
        if role in COUNTED_WORDS and (counted := _counted(role, words)):
            is_share = counted == "a share"
            allowed = "a column of tokens; workload.prefix_hits.fraction states a share"
            allowed = allowed if is_share else f"the column of {role} tokens"
            raise InputError(
                InputProblem(name, column, f"is named as {counted}, and {role} counts tokens of its own", allowed)
            )
        base, _, unit = role.partition("_")
        named = time_unit_in(column)
        if unit and named not in (None, unit):
            other = (
                f"{base}_{named}={column}" if f"{base}_{named}" in roles else f"times in {' or '.join(LATENCY_UNITS)}"
            )
            raise InputError(
                InputProblem(name, column, f"is named as a time in {named}, and {role} is in {unit}", other)
            )


def _counted(role: str, words: set[str]) -> str:
    """Quantity that a column counts by the words of its name; nothing where that is its role, or not known.

    >>> _counted("output", {"total", "tokens"}), _counted("output", {"total", "output", "tokens"})
    ('a total', '')
    >>> _counted("input", {"completion", "tokens"}), _counted("cached", {"hit", "rate"}), _counted("input", {"n"})
    ('output tokens', 'a share', '')
    """
    if words & SHARE_WORDS:
        return "a share"
    if words & UNIT_WORDS:
        return sorted(words & UNIT_WORDS)[0]
    if words & LIMIT_WORDS:
        return "a limit"
    if words & (COUNTED_WORDS[role] | OTHER_WORDS[role]):
        return ""
    others = [f"{other} tokens" for other, own in COUNTED_WORDS.items() if words & own]
    return others[0] if others else "a total" if words & TOTAL_WORDS else ""


def unread_columns(header: Sequence[str], columns: Mapping[str, str]) -> Iterator[Note]:
    """Which columns of a table are not read, such as the status of a request: all rows count, whatever these say."""
    left = [column for column in header if column not in columns.values()]
    if left:
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        names = ", ".join(shown(column) for column in left[:MOST_NAMED])
        says = "says" if len(left) == 1 else "say"
        yield note("columns-not-read", f"every row counts, whatever {names}{more} {says}: not read")
