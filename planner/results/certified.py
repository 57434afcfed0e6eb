"""What was certified of a plan by running it, and how far its promise had to be tightened."""

from pydantic import Field

from planner.results.validation import Check
from planner.schema import StrictModel


class Promise(StrictModel):
    """What is promised of the plan to whoever uses it, beside its run."""

    metric: str
    limit: float
    """What is promised: at least that rate, at most those seconds."""
    executed: float
    ci_low: float | None
    """95 % confidence interval over replications; None with a single one."""
    ci_high: float | None
    allowed: float
    """Part of the limit by which it may be missed [-]."""
    holds: bool
    """Whether the worse end of the interval keeps it."""
    period: str | None = None
    """Period that was run, of a plan for several."""
    request_class: str | None = None
    """Class of requests that it is made to, and the site that decodes them; None: to all."""


class Round(StrictModel):
    """One search and run: what was handed to the optimizer, and what broke."""

    ttft_s: float | None
    """Promise on TTFT handed to the optimizer; None: none, or its least is sought [s]."""
    tpot_ms: float | None
    """Limit on the decode step handed to it [ms]."""
    demand_req_per_s: float | None
    """Demand handed to it; None where the rate is what is sought [1/s]."""
    req_per_s: float
    """Rate that is claimed [1/s]."""
    broken: tuple[str, ...]
    """Promises that did not hold."""
    ttft_by_class_s: dict[str, float] = {}
    """Promises on TTFT handed to the optimizer of a network, by class [s]."""
    tpot_by_class_ms: dict[str, float] = {}
    """Limits on the decode step handed to it, by class [ms]."""


class Certified(StrictModel):
    """A plan's promises, kept in a run of the whole system request by request."""

    req_per_s: float
    """Rate that the plan is certified for [1/s]."""
    load: float
    """Part of that rate at which TTFT and the rest were compared."""
    n_requests: int
    """Of the run at that load; the one with the system kept full has as many that count and a full house more."""
    n_replications: int
    seed: int
    confidence: float = 0.95
    promises: tuple[Promise, ...]
    checks: tuple[Check, ...]
    """Every prediction of the plan beside the run, as `planner validate` has them."""
    unpredicted: tuple[str, ...]
    """Metrics that the plan says nothing about."""
    rounds: tuple[Round, ...] = Field(min_length=1)
    """Searches and runs in order; the first is the question as it was asked."""
    chosen: int
    """Which of them is the plan, from 0."""
    periods: tuple[str, ...] = ()
    """Periods that were run, of a plan for several, each with as many requests; those that bind come first."""

    @property
    def is_as_asked(self) -> bool:
        """Whether the first plan held."""
        return self.chosen == 0
