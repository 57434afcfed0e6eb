"""Conditions on the difference between two plans, such as `cost>+5%`: small enough to be read in a workflow file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from planner.errors import UndecidedError, UsageError, did_you_mean, printable
from planner.results.plan_diff import FigureChange, PlanDiff
from planner.units import plain

FIGURES = {
    "cost": "usd_per_hour",
    "cost-per-month": "usd_per_month",
    "cost-per-million-input-tokens": "usd_per_million_input_tokens",
    "cost-per-million-output-tokens": "usd_per_million_output_tokens",
    "rate": "throughput_req_per_s",
    "highest-rate": "max_throughput_req_per_s",
    "goodput": "goodput_req_per_s",
    "accelerators": "n_accelerators",
    "ttft": "ttft_mean_s",
    "ttft-p90": "ttft_p90_s",
    "ttft-p99": "ttft_p99_s",
    "tpot": "tpot_mean_s",
}
"""Names of figures in a condition, and the fields they are."""
CONDITION = re.compile(r"\s*([\w-]+)\s*([<>])\s*([+-]?)\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*", re.ASCII)
ALLOWED = "NAME>NUMBER or NAME<NUMBER, such as cost>+5%, rate<-2%, cost>+100 (more by 100), cost>900 (900 in all)"
CHARACTERS = 100


@dataclass(frozen=True)
class Condition:
    """A limit on a figure of the second plan, or on its change."""

    text: str
    name: str
    is_above: bool
    limit: float
    is_change: bool
    """Whether it is about the change rather than about the figure of the second plan."""
    is_fraction: bool

    @classmethod
    def parsed(cls, text: str) -> Self:
        """The condition of a text. With a sign or `%` it is about the change, else about the figure itself.

        Raises:
            UsageError: it is none; the message says what is allowed.

        >>> Condition.parsed("cost>+5%").limit, Condition.parsed("rate < -0.5").is_fraction
        (0.05, False)
        """
        found, shown = CONDITION.fullmatch(text), printable(text, CHARACTERS)
        if not found:
            raise UsageError(f"--fail-on {shown!r}: is no condition ({ALLOWED})")
        name, relation, sign, number, unit = found.groups()
        if name not in FIGURES:
            raise UsageError(f"--fail-on {shown!r}: {name!r} is no figure ({did_you_mean(name, FIGURES)})")
        limit = float(f"{sign}{number}") / (100 if unit else 1)
        return cls(text.strip(), name, relation == ">", limit, bool(sign or unit), bool(unit))

    def broken_by(self, found: PlanDiff) -> str | None:
        """The figure that makes it true of a difference, in words; None where it is not true.

        Raises:
            UndecidedError: a plan does not state the figure.
        """
        figure = found.figure(FIGURES[self.name])
        value = None if figure is None else self._value(figure)
        if figure is None or value is None:
            both = "a plan does" if self.is_change else f"{found.after.name} does"
            raise UndecidedError(f"--fail-on {self.text}: not known, for {both} not state {FIGURES[self.name]}")
        if (value > self.limit) if self.is_above else (value < self.limit):
            return f"{self.text}: {_words(figure)}"
        return None

    def _value(self, figure: FigureChange) -> float | None:
        if not self.is_change:
            return figure.after
        return figure.change_fraction if self.is_fraction else figure.change


def judged(found: PlanDiff, conditions: Iterable[Condition]) -> tuple[list[str], list[str]]:
    """Breaches of conditions, in words, and the conditions that are not known."""
    broken: list[str] = []
    unknown: list[str] = []
    for condition in conditions:
        try:
            broken += filter(None, [condition.broken_by(found)])
        except UndecidedError as error:
            unknown.append(str(error))
    return broken, unknown


def _words(figure: FigureChange) -> str:
    """Both figures, and the change where there were two."""
    fraction = figure.change_fraction
    texts = ["unknown" if value is None else plain(round(value, 6)) for value in (figure.before, figure.after)]
    by = "" if fraction is None else f" ({100 * fraction:+.2f} %)"
    return f"{figure.title} {texts[0]} -> {texts[1]} {figure.unit}".rstrip() + by
