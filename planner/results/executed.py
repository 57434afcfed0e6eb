"""A plan run at parts of its highest rate, for its report: what was promised without a queue and with it, what came."""

from planner.results.judging import enough_requests, judgement, relative_error
from planner.results.scheduling import ScheduledSeries, SchedulerComparison
from planner.schema import StrictModel


class ExecutedFigure(StrictModel):
    """One figure by the paper's rule, by the planner's, and as it came out."""

    by_paper: float | None
    """By the paper's rule: times without a queue, capacity of the mean length; None where it says nothing."""
    predicted: float | None
    """By queueing, or by the exact capacity; None where nothing is known of it."""
    executed: float
    """Mean over replications."""
    ci_low: float | None
    """Its 95 % confidence interval; None where all replications ran the same."""
    ci_high: float | None
    allowed: float
    """Relative error of the prediction that is allowed [-]."""

    @property
    def error(self) -> float | None:
        """Predicted over executed, less one [-]."""
        return _error(self.predicted, self.executed)

    @property
    def error_of_paper(self) -> float | None:
        """By the paper's rule over executed, less one [-]."""
        return _error(self.by_paper, self.executed)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of its interval; twice the figure itself where there is none."""
        return (
            self.executed if self.ci_low is None else self.ci_low,
            self.executed if self.ci_high is None else self.ci_high,
        )

    @property
    def decided(self) -> bool:
        """False where there is a prediction, and the interval is too wide to judge it."""
        return self.predicted is None or self._judgement(self.predicted) is not None

    @property
    def holds(self) -> bool | None:
        """True if the whole interval is within what is allowed of the prediction; None without one, or undecided."""
        return None if self.predicted is None else self._judgement(self.predicted)

    def enough_requests(self, n: int) -> int | None:
        """About how many would do instead of n; None where these decide, or where that cannot be said."""
        if self.predicted is None or self.decided:
            return None
        return enough_requests(n, self.predicted, *self.interval, self.allowed)

    def _judgement(self, predicted: float) -> bool | None:
        return judgement(predicted, *self.interval, self.allowed)


def _error(stated: float | None, executed: float) -> float | None:
    return None if stated is None else relative_error(stated, executed)


class ExecutedLoad(StrictModel):
    """A run at a part of the highest rate."""

    load: float
    """Part of the highest rate [-]."""
    offered_req_per_s: float
    ttft_mean_s: ExecutedFigure
    ttft_p90_s: ExecutedFigure
    links_gbps: dict[str, ExecutedFigure]
    """Mean rate of every link that carries anything, by name [Gbps]."""


class TtftByLoad(StrictModel):
    """TTFT that queueing predicts over the load; fields have one length."""

    loads: tuple[float, ...]
    """Parts of the highest rate, ascending [-]."""
    mean_s: tuple[float, ...]
    p90_s: tuple[float, ...]


class Executed(StrictModel):
    """Outcome of running a plan."""

    seed: int
    n_requests: int
    """Of every run, all replications together."""
    n_replications: int
    loads: tuple[ExecutedLoad, ...]
    max_throughput_req_per_s: ExecutedFigure
    """The most it serves, run with the system kept full; by the paper's rule, that rule's own plan for the fleet."""
    predicted_ttft: TtftByLoad
    schedulers: SchedulerComparison | None = None
    """None where the scenario does not ask for it."""
    scheduler_series: tuple[ScheduledSeries, ...] = ()
    """Threshold and queues over time, for every run of that comparison."""

    @property
    def figures(self) -> tuple[ExecutedFigure, ...]:
        """Everything that is held against a prediction."""
        by_load = ((at.ttft_mean_s, at.ttft_p90_s, *at.links_gbps.values()) for at in self.loads)
        return (*(figure for some in by_load for figure in some), self.max_throughput_req_per_s)
