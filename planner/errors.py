"""The error tree: every failure a user can cause has one class, one message and one exit code."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

NAME_CHARACTERS, TEXT_CHARACTERS, LINE_CHARACTERS = 200, 2_000, 6_000
"""Most characters of a key, of a sentence or a path, and of a line in a message."""
VALUE_CHARACTERS = 60
"""Most characters of a value in a message."""
MOST_LINES = 50
"""Most lines of a message."""
ALIKE = 3
"""Problems of one kind that are still told one by one."""
LINES_NAMED = 5
"""Lines that are named of problems told together."""


class PlannerError(Exception):
    """Anything the command line reports without a traceback; nothing in its text can steer a terminal."""

    exit_code = 1

    def __str__(self) -> str:
        lines = super().__str__().split("\n")
        more = [f"... and {len(lines) - MOST_LINES:,} more lines"] if len(lines) > MOST_LINES else []
        return "\n".join(printable(line, LINE_CHARACTERS) for line in [*lines[:MOST_LINES], *more])


class UsageError(PlannerError):
    """The command was called the wrong way."""

    exit_code = 2


@dataclass(frozen=True)
class InputProblem:
    """One thing wrong with an input file: where, what, and what would be right."""

    file: str
    key: str
    message: str
    allowed: str = ""
    line: int | None = None

    def __post_init__(self) -> None:
        # Whatever shows a problem shows names and values from outside: here none can be forgotten.
        for name in ("file", "key", "message", "allowed"):
            most = NAME_CHARACTERS if name == "key" else TEXT_CHARACTERS
            object.__setattr__(self, name, printable(getattr(self, name), most))

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f"{self.key}: " if self.key else ""
        allowed = f" ({self.allowed})" if self.allowed else ""
        return f"{place}: {key}{self.message}{allowed}"


class InputError(PlannerError):
    """A file or value cannot be used; carries every problem found, not only the first."""

    exit_code = 3

    def __init__(self, problems: InputProblem | Iterable[InputProblem]) -> None:
        self.problems = (problems,) if isinstance(problems, InputProblem) else tuple(problems)
        super().__init__("\n".join(told_together(self.problems)))


class ExcessiveAnswerError(PlannerError):
    """A figure of the answer is greater than any answer states: numbers of the question are beyond every fleet's."""

    exit_code = InputError.exit_code


class LostClusterError(PlannerError):
    """The machines that were to do the work went away."""

    exit_code = InputError.exit_code


class InfeasibleError(PlannerError):
    """Proven: no plan satisfies the question. The message names what binds and the smallest relaxation."""

    exit_code = 4

    def __init__(self, message: str, relaxations: Iterable[str] = ()) -> None:
        self.relaxations = tuple(relaxations)
        super().__init__(message)


class UndecidedError(PlannerError):
    """The answer is not known: the time limit came before a plan or a proof, or a run is too short to judge."""

    exit_code = 5


class CheckFailedError(PlannerError):
    """A check that was asked for did not hold."""

    exit_code = 6


def printable(text: str, most: int) -> str:
    r"""A text without control characters and the like, which are written as escapes, cut to so many characters.

    >>> printable("\x1b[31mred\u202e", 80), printable("x" * 9, 6)
    ('\\x1b[31mred\\u202e', 'xxx...')
    """
    text = text[: most + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= most else text[: most - 3] + "..."


def shown(value: Any) -> str:
    """A value as JSON, cut to a readable length.

    >>> shown("x" * 100)
    '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    import json  # help has no values to show

    if isinstance(value, str | list | tuple):
        value = value[: VALUE_CHARACTERS + 1]
    text = "a table" if isinstance(value, Mapping) else json.dumps(value, default=str, ensure_ascii=False)
    return printable(text, VALUE_CHARACTERS)


_VALUES = re.compile(r"""\[\d+\]|"[^"]*"|'[^']*'|[-+]?\d[\d.,]*(?:e[-+]?\d+)?""")


def told_together(problems: Iterable[InputProblem]) -> Iterator[str]:
    """Lines that tell every problem: those that only differ in their line and values are one, with their number.

    >>> rows = [InputProblem("points.csv", "tp_size", f"is {n}", "1 or more", n) for n in (2, 3, 4, 5)]
    >>> [*told_together(rows)]
    ['points.csv:2: tp_size: is 2 (1 or more); and 3 more like it, on lines 3, 4, 5']
    """
    groups: dict[tuple[str, str, str, str], list[InputProblem]] = {}
    for problem in problems:
        key, message = (_VALUES.sub("_", text) for text in (problem.key, problem.message))
        groups.setdefault((problem.file, key, message, problem.allowed), []).append(problem)
    for alike in groups.values():
        if len(alike) <= ALIKE:
            yield from map(str, alike)
        else:
            yield f"{alike[0]}; and {len(alike) - 1:,} more like it{_on_lines(alike[1:])}"


def _on_lines(problems: Sequence[InputProblem]) -> str:
    lines = [str(line) for line in dict.fromkeys(problem.line for problem in problems) if line is not None]
    dots = ", ..." if len(lines) > LINES_NAMED else ""
    return f", on lines {', '.join(lines[:LINES_NAMED])}{dots}" if lines else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name, or the whole choice when nothing is close.

    >>> did_you_mean("lenghts", ["lengths", "arrivals"])
    "did you mean 'lengths'?"
    >>> did_you_mean("demand", ["demand_req_per_s", "dispatch"]), did_you_mean("slo_ttft", ["slo", "model"])
    ("did you mean 'demand_req_per_s'?", "did you mean 'slo'?")
    >>> did_you_mean("x", ["lengths", "arrivals"])
    'known: arrivals, lengths'
    """
    choices: Sequence[str] = sorted(known)
    longer = [choice for choice in choices if choice.startswith(f"{name}_") or name.startswith(f"{choice}_")]
    close = get_close_matches(name, choices, n=1) or longer
    return f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(choices)
