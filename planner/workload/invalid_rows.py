"""Rows of a table or trace that are no requests: the first one is refused, or a few are left out and counted."""

from dataclasses import replace

from planner.errors import InputError, InputProblem
from planner.notes import Note, note
from planner.units import percent

MOST_INVALID_FRACTION = 0.05
"""Share of the rows that may be left out; a single one may be in any case."""
ROWS_NAMED = 3
"""First invalid rows that are named."""
OPTION = "--skip-invalid (skip_invalid in a scenario)"


class InvalidRows:
    """The invalid rows of a file."""

    def __init__(self, name: str, *, are_skipped: bool) -> None:
        self.name, self.are_skipped = name, are_skipped
        self.n = 0
        self.first: list[InputProblem] = []

    def add(self, problem: InputProblem) -> None:
        """Count a row. Raises InputError where none may be left out."""
        if not self.are_skipped:
            allowed = "; ".join(filter(None, (problem.allowed, f"{OPTION} leaves a few such rows out")))
            raise InputError(replace(problem, allowed=allowed))
        self.n += 1
        if len(self.first) < ROWS_NAMED:
            self.first.append(problem)

    def check(self, n_valid: int) -> None:
        """Raises InputError, naming the first ones, where they are too many to be left out."""
        n = self.n + n_valid
        if self.n > max(1.0, MOST_INVALID_FRACTION * n):
            what = f"has {self.n:,} invalid rows of {n:,}: {self._named()}"
            allowed = f"at most {percent(MOST_INVALID_FRACTION)} of the rows, or one"
            raise InputError(InputProblem(self.name, "", what, allowed, self.first[0].line))

    def notes(self, n_valid: int) -> tuple[Note, ...]:
        """A note that counts them and names the first."""
        if not self.n:
            return ()
        n = self.n + n_valid
        share = percent(self.n / n)
        text = f"{self.n:,} of {n:,} rows are invalid and left out ({share}): {self._named()}"
        return (note("rows-left-out", text),)

    def _named(self) -> str:
        named = [f"line {p.line} {': '.join(filter(None, (p.key, p.message)))}" for p in self.first]
        return ", ".join([*named, *(["..."] if self.n > len(named) else [])])
