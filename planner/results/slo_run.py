"""Promises on times, beside what came of them when the plan was run before it was printed."""

from typing import Literal

from planner.ranges import Counted, Quantity, Seed, Signed
from planner.schema import StrictModel

Outcome = Literal["kept", "not kept", "undecided", "not run"]
"""Of a promise."""


class DecodeStepRun(StrictModel):
    """A limit on the decode step, beside its run."""

    promised_s: Quantity
    predicted_s: Quantity | None
    executed_s: Quantity | None
    """That of the percentage of requests that the promise is about; None where it was not run."""
    ci_low_s: Signed | None
    ci_high_s: Signed | None
    holds: bool | None
    decided: bool | None = None
    """False where the limit lies within the interval; None where it was not run."""


class SloRun(StrictModel):
    """A promise beside its run: of several periods and classes, the ones that are nearest to breaking it."""

    basis: Literal["executed", "predicted"]
    holds: bool | None
    """Whether the worse end of every interval is within its promise; None where it was not run."""
    requests: Counted
    """Of the run; 0 where there was none."""
    percentile: Quantity
    promised_s: Quantity | None
    """TTFT that is promised; None where only the decode step is limited."""
    predicted_s: Quantity | None
    executed_s: Quantity | None
    ci_low_s: Signed | None
    """95 % confidence interval."""
    ci_high_s: Signed | None
    tpot: DecodeStepRun | None = None
    """None where nothing is promised of the decode step."""
    request_class: str | None = None
    """Class that it is promised to, of several."""
    period: str | None = None
    """Period that was run, of several."""
    not_run: tuple[str, ...] = ()
    """Periods that were not."""
    seed: Seed | None = None
    n_plans: Counted = 0
    """Plans that were run to find this one."""
    because: str | None = None
    """Why it was not run, or not again, or why no plan that keeps the promise is printed."""
    decided: bool | None = None
    """False where the run neither keeps nor breaks it: it lies within an interval; None where it was not run."""

    @property
    def outcome(self) -> Outcome:
        """The promise in one word."""
        if self.holds is None:
            return "not run"
        return "kept" if self.holds else "undecided" if self.decided is False else "not kept"
