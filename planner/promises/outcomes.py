"""Promises of times, beside a run: kept, broken, or not yet decided."""

from collections.abc import Iterator, Sequence
from typing import Literal

from planner.notes import Note, note
from planner.optimizer.solution import GAP_TARGET
from planner.results.certified import Promise
from planner.results.plan import Plan
from planner.results.run import Interval, PeriodRun, Run, RunFigures
from planner.scenario import Scenario
from planner.units import MILLI, number

ROUNDING = 1e-9
"""Part of a limit on the time per token that a decode step at just that limit may exceed it by."""
TIME_UP, NOT_ASKED = "time was up", "--no-run"
"""Why a promise was not run;"""
INSIDE = "it lies within the interval of the run"
"""why it is undecided."""
SLOWEST, STEP = "ttft_promised_s", "tpot_promised_s"


def promise_outcome(
    metric: str,
    limit: float,
    executed: float,
    sure: Interval | None,
    sign: Literal[1, -1],
    allowed: float,
    *,
    still_grows: bool = False,
) -> Promise:
    """A promise of at least the limit, or with sign -1 of at most, which the worse end of the interval must keep.

    What still grows, as a system that began empty is still filling, can break a limit but not keep it.

    >>> found = promise_outcome("ttft_p90_s", 4.0, 3.9, Interval(low=3.7, high=4.1), -1, 0.0)
    >>> found.holds, found.decided
    (False, False)
    """
    low, high = (executed, executed) if sure is None else (sure.low, sure.high)
    worse, better = (low, high) if sign > 0 else (high, low)
    least = sign * limit - allowed * limit
    holds = sign * worse >= least and not still_grows
    return Promise(
        metric=metric,
        limit=limit,
        executed=executed,
        ci_low=None if sure is None else low,
        ci_high=None if sure is None else high,
        allowed=allowed,
        holds=holds,
        decided=holds or sign * better < least,
    )


def bounded_as_asked(plan: Plan, bound: float) -> Plan:
    """A plan beside what no plan of the promise as it is stated passes by the latency model.

    Args:
        plan: one that runs bear out, of a stricter promise, whose own bound says nothing of the stated one.
        bound: of the question as it was asked, in the unit of the objective.

    Returns:
        The plan with that bound and the gap to it; of the least TTFT, which is claimed rather than sought, as it is.
    """
    ours = plan.cost.usd_per_hour if plan.objective == "min-cost" else plan.throughput_req_per_s
    if plan.objective == "min-ttft" or not ours:
        return plan
    if bound > ours if plan.objective == "min-cost" else bound < ours:
        return plan.model_copy(update={"bound": ours})  # a run is kinder than the model: nothing is known beyond
    gap = abs(bound - ours) / ours
    status = plan.status if gap <= max(plan.gap, GAP_TARGET) else "feasible"
    return plan.model_copy(update={"bound": bound, "gap": gap, "status": status})


def is_decided(found: Sequence[Promise], precise_fraction: float = 0.0) -> bool:
    """True where each promise is kept or broken for certain, or its figure is as precise as is asked for.

    Args:
        precise_fraction: half of an interval over its figure, below which nobody runs on: 0 where a promise is to be
            decided, more where a rate is sought and one that is a little lower decides sooner.
    """
    return all(p.decided or _is_precise(p, precise_fraction) for p in found)


def are_undecided(found: Sequence[Promise]) -> bool:
    """True where no promise is broken for certain, and one is neither kept nor broken."""
    return any(not p.decided for p in found) and not any(p.decided and not p.holds for p in found)


def _is_precise(one: Promise, precise_fraction: float) -> bool:
    if one.ci_low is None or one.ci_high is None:
        return True  # of one replication there is no interval, and more of it never gives one
    return one.ci_high - one.ci_low < 2 * precise_fraction * one.executed


def time_promises(scenario: Scenario, run: RunFigures) -> Iterator[Promise]:
    """Promises of a scenario to each class on TTFT and on the decode step, beside a run."""
    for part in run.classes:
        slo = scenario.slo_of(part.name)
        if slo is None:
            continue
        found = []
        if slo.ttft_s is not None and part.ttft_promised_s is not None:
            sure, name = part.intervals.get(SLOWEST), f"ttft_p{slo.ttft_percentile:g}_s"
            found.append(
                promise_outcome(name, slo.ttft_s, part.ttft_promised_s, sure, -1, 0.0, still_grows=run.is_transient)
            )
        if slo.tpot_ms is not None and part.tpot_promised_s is not None:
            sure, limit_s = part.intervals.get(STEP), slo.tpot_ms * MILLI
            grows = run.is_decode_transient
            found.append(promise_outcome(STEP, limit_s, part.tpot_promised_s, sure, -1, ROUNDING, still_grows=grows))
        of = part.name if part.name in scenario.classes else None
        yield from (one.model_copy(update={"request_class": of}) for one in found)


def run_promises(scenario: Scenario, run: Run) -> list[Promise]:
    """Promises of a scenario on times beside a run, each period by itself."""
    return [
        p.model_copy(update={"period": one.name if isinstance(one, PeriodRun) else None})
        for one in run.periods or (run,)
        for p in time_promises(scenario, one)
    ]


def undecided(scenario: Scenario, run: Run) -> list[Note]:
    """Promises that a run leaves open, in words, each period by itself."""
    return [_open(p) for p in run_promises(scenario, run) if not p.decided]


def _open(one: Promise) -> Note:
    when = "" if one.period is None else f"{one.period}: "
    whose = "" if one.request_class is None else f" of {one.request_class}"
    interval = f"{number(one.ci_low, 4)} to {number(one.ci_high, 4)} s"
    asked = f"{one.metric}{whose} is at most {number(one.limit, 4)} s"
    return note("promise-undecided", f"{when}whether {asked} is undecided ({interval})")
