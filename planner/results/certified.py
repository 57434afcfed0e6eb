"""Certification of a plan by running it, and how far its promise had to be tightened."""

from pydantic import Field

from planner.ranges import Counted, Quantity, Seed, Signed
from planner.results.validation import Check
from planner.schema import StrictModel


class Promise(StrictModel):
    """A promise of the plan to whoever uses it, beside its run."""

    metric: str
    limit: Quantity
    """What is promised: at least that rate, at most those seconds."""
    executed: Quantity
    ci_low: Signed | None
    """95 % confidence interval over replications; None with a single one."""
    ci_high: Signed | None
    allowed: Quantity
    """Part of the limit by which it may be missed [-]."""
    holds: bool
    """Whether the worse end of the interval keeps it."""
    decided: bool = True
    """False where only one end of it does: the run is too short to tell."""
    period: str | None = None
    """Period that was run, of a plan for several."""
    request_class: str | None = None
    """Class of requests that it is made to; None: to all."""


class Round(StrictModel):
    """One search and run: what was handed to the optimizer, and what broke."""

    ttft_s: Quantity | None
    """Promise on TTFT handed to the optimizer; None: none, or its least is sought [s]."""
    tpot_ms: Quantity | None
    """Limit on the decode step handed to it [ms]."""
    demand_req_per_s: Quantity | None
    """Demand handed to it; None where the rate is what is sought [1/s]."""
    req_per_s: Quantity
    """Rate that is claimed [1/s]."""
    broken: tuple[str, ...]
    """Promises that did not hold."""
    ttft_by_class_s: dict[str, Quantity] = {}
    """Promises on TTFT handed to the optimizer of a network, by class [s]."""
    tpot_by_class_ms: dict[str, Quantity] = {}
    """Limits on the decode step handed to it, by class [ms]."""


class Certified(StrictModel):
    """A plan's promises, kept in a run of the whole system request by request."""

    req_per_s: Quantity
    """Rate that the plan is certified for [1/s]."""
    load: Quantity
    """Part of that rate at which TTFT and the rest were compared."""
    n_requests: Counted
    """Of the run at that load; the one with the system kept full has as many that count and a full house more."""
    n_replications: Counted
    seed: Seed
    confidence: Quantity = 0.95
    promises: tuple[Promise, ...]
    checks: tuple[Check, ...]
    """Every prediction of the plan beside the run, as `planner validate` has them."""
    unpredicted: tuple[str, ...]
    """Metrics that the plan says nothing about."""
    rounds: tuple[Round, ...] = Field(min_length=1)
    """Searches and runs in order; the first is the question as it was asked."""
    chosen: Counted
    """Which of them is the plan, from 0."""
    periods: tuple[str, ...] = ()
    """Periods that were run, of a plan for several, each with as many requests; those that bind come first."""

    @property
    def is_as_asked(self) -> bool:
        """True if the first plan held."""
        return self.chosen == 0
