"""Fleets on the way, each run request by request beside what is promised about latency."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.results.current import StepRun
from planner.results.plan import Plan
from planner.results.run import Interval, Run
from planner.scenario import Scenario


def step_run(scenario: Scenario, plan: Plan, question: RunQuestion, data_dirs: Sequence[Path] = ()) -> StepRun | None:
    """A fleet at the rate that it is planned for, of several periods in the one with the highest demand.

    Returns:
        The promise that comes nearest to being broken beside its run; None where no TTFT is promised.

    Raises:
        InputError: it cannot be run.
    """
    period = max(plan.periods, key=lambda one: one.demand_req_per_s).name if len(plan.periods) > 1 else None
    run, _ = simulate(scenario, plan, question, data_dirs, period=period)
    return max(_promised(scenario, run, period), key=lambda one: one.executed_s / one.promised_s, default=None)


def _promised(scenario: Scenario, run: Run, period: str | None) -> Iterator[StepRun]:
    """Every promise on TTFT beside the run."""
    for part in run.classes:
        slo = scenario.slo_of(part.name)
        if slo is None or slo.ttft_s is None or part.ttft_promised_s is None:
            continue
        sure = part.intervals.get("ttft_promised_s")
        yield StepRun(
            promised_s=slo.ttft_s,
            percentile=slo.ttft_percentile,
            executed_s=part.ttft_promised_s,
            ci_low_s=None if sure is None else sure.low,
            ci_high_s=None if sure is None else sure.high,
            n_requests=run.n_requests,
            holds=_holds(slo.ttft_s, part.ttft_promised_s, sure),
            period=period,
            request_class=part.name if len(run.classes) > 1 else None,
        )


def _holds(promised_s: float, executed_s: float, sure: Interval | None) -> bool | None:
    """True if a promise was kept; None where the interval holds both answers.

    >>> _holds(4.0, 3.9, Interval(low=3.7, high=4.1)), _holds(4.0, 3.9, None)
    (None, True)
    """
    low, high = (executed_s, executed_s) if sure is None else (sure.low, sure.high)
    return True if high <= promised_s else False if low > promised_s else None
