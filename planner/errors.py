"""The error tree: every failure a user can cause has one class, one message and one exit code."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class PlannerError(Exception):
    """Anything the command line reports without a traceback."""

    exit_code = 1


class UsageError(PlannerError):
    """The command was called the wrong way."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input file: where, what, and what would be right."""

    file: str
    key: str
    message: str
    allowed: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f"{self.key}: " if self.key else ""
        allowed = f" ({self.allowed})" if self.allowed else ""
        return f"{place}: {key}{self.message}{allowed}"


class InputError(PlannerError):
    """A file or value cannot be used; carries every problem found, not only the first."""

    exit_code = 3

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


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
    """The time limit came before a plan or a proof that there is none."""

    exit_code = 5


class CheckFailedError(PlannerError):
    """A check that was asked for did not hold."""

    exit_code = 6


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name, or the whole choice when nothing is close.

    >>> did_you_mean("lenghts", ["lengths", "arrivals"])
    "did you mean 'lengths'?"
    >>> did_you_mean("x", ["lengths", "arrivals"])
    'known: arrivals, lengths'
    """
    choices: Sequence[str] = sorted(known)
    close = get_close_matches(name, choices, n=1)
    return f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(choices)
