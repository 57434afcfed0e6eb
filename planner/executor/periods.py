"""All periods of a plan, each run by itself, and the whole time that they add up to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, UsageError
from planner.executor import timings
from planner.executor.measure import Outcome, RequestTimes
from planner.executor.memory import RunMemory
from planner.executor.run import replications, with_full_rates
from planner.executor.run_answer import run_of_replications
from planner.executor.run_question import Enough, RunQuestion, default_load, run_on
from planner.executor.streams import RequestStream
from planner.executor.systems import System, system
from planner.jobs import HERE, Workers
from planner.notes import Note, note
from planner.progress import MeasuredProgress
from planner.results.plan import PeriodPlan, Plan, PoolPlan
from planner.results.run import PeriodRun, Run, RunFigures
from planner.results.threshold import NONE_LEAVES
from planner.scenario import Scenario

Floats = NDArray[np.float64]
NO_TIMES = RequestTimes(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
"""Of all periods together: these have the times of their own."""
BY_TIME = ("throughput_req_per_s", "mean_inside", "factor_mean")
BY_TIME_LAST = ("mean_gbps", "instances")
"""Last words of figures that count by the hours of a period."""
BY_INSTANCES = ("utilization", "batch")
"""Words of figures of an instance, which count by the hours of the instances that a period has."""
EXTREMES = {"factor_low": min, "factor_high": max, "peak_gbps": max}
MOST_NAMED = 4
"""Periods with notes of their own that a note names."""


@dataclass(frozen=True, eq=False)
class PeriodPart:
    """A period that was run."""

    plan: PeriodPlan
    system: System
    time_fraction: float
    """Of the whole time."""
    outcomes: list[Outcome]
    """Those that were run so far."""


def simulate_periods(
    scenario: Scenario,
    plan: Plan,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    progress: MeasuredProgress = lambda _, __: None,
    workers: Workers = HERE,
    enough: Enough = lambda _: True,
) -> Run:
    """Run every period of a plan that has demand, each request by request.

    Equation:
        rates and use: sum over periods of h_p x_p / sum h_p; times and their percentiles: over the requests of all
        periods, those of period p with weight h_p lambda_p / n_p

    Args:
        scenario: the question that the plan answers.
        plan: the plan, with its periods.
        question: how long and how often each period is run, and at what fraction of its demand.
        data_dirs: folders in which traces are looked for.
        progress: is told which period is run, and the fraction done of all.
        workers: who shares the replications; the answer does not depend on it.
        enough: whether a run will do; else replications are added in every period, up to the limit of the question.

    Returns:
        The run of the whole time, with the run of every period.

    Raises:
        UsageError: the system is to be kept full, or a closed loop is asked for, which is a question about one period.
        InputError, CheckFailedError: as `simulate` does.
    """
    if question.is_full:
        raise UsageError("--full: the most that is served is that of one period (--period NAME)")
    if question.concurrency is not None:
        raise UsageError("--concurrency: a closed loop has no hours, it is that of one period (--period NAME)")
    load = default_load(plan) if question.load is None else question.load
    memory = RunMemory(scenario, data_dirs, workers, n_periods=len(_served(scenario, plan)))
    memory.check(replace(question, most_requests=None))
    parts = [_part(scenario, plan, period, question, load, data_dirs) for period in _served(scenario, plan)]

    def run(asked: RunQuestion, some: range) -> Run:
        for i, part in enumerate(parts):
            done = partial(_report_progress, progress, part.plan.name, i / len(parts), 1 / len(parts))
            done(0.0)
            rate = load * part.plan.demand_req_per_s
            part.outcomes[some.start :] = replications(part.system, asked, some, rate, data_dirs, done, workers)
        return _together(plan, parts, asked, load)

    return run_on(question, run, enough, memory.fits)


def _part(
    scenario: Scenario, plan: Plan, period: PeriodPlan, question: RunQuestion, load: float, data_dirs: Sequence[Path]
) -> PeriodPart:
    """A period that is yet to be run."""
    of_all = period.hours / sum(p.hours for p in plan.periods)
    alone = system(scenario, plan, data_dirs, period.name)
    return PeriodPart(period, with_full_rates(alone, question, load * period.demand_req_per_s, data_dirs), of_all, [])


def _together(plan: Plan, parts: Sequence[PeriodPart], question: RunQuestion, load: float) -> Run:
    """The run of the whole time, with that of every period."""
    runs = tuple(_period_run(part, question, load) for part in parts)
    rate = sum(part.time_fraction * part.plan.demand_req_per_s for part in parts)
    joined = [_joined(parts, r) for r in range(len(parts[0].outcomes))]
    shares = [
        timings.PeriodReplications(p.system, p.time_fraction * p.plan.demand_req_per_s, p.outcomes) for p in parts
    ]
    run = run_of_replications(whole_system(plan, parts), question, load, load * rate, joined, shares)
    return run.model_copy(
        update={
            "periods": runs,
            "notes": tuple(_notes(runs)),
            "is_transient": any(one.is_transient for one in runs),
            "is_decode_transient": any(one.is_decode_transient for one in runs),
            "settling_requests": max((n for one in runs if (n := one.settling_requests) is not None), default=None),
        }
    )


def _served(scenario: Scenario, plan: Plan) -> list[PeriodPlan]:
    """Periods with demand, in their order."""
    found = [period for period in plan.periods if period.demand_req_per_s > 0]
    if not any(period.hours > 0 for period in found):
        what = "have no demand in any hour of the plan"
        raise InputError(scenario.problem(("periods",), what, "the plan as `optimize` printed it"))
    return [period for period in found if period.hours > 0]


def _report_progress(progress: MeasuredProgress, name: str, begun: float, share: float, fraction: float) -> None:
    progress(f"running {name}", begun + share * fraction)


def _period_run(part: PeriodPart, question: RunQuestion, load: float) -> PeriodRun:
    run = run_of_replications(part.system, question, load, load * part.plan.demand_req_per_s, part.outcomes)
    figures = {name: getattr(run, name) for name in RunFigures.model_fields}
    return PeriodRun(name=part.plan.name, hours=part.plan.hours, **figures)


def _notes(runs: Sequence[PeriodRun]) -> Iterator[Note]:
    """Notes on the first period that has some, and names of the others that do."""
    noted = [run for run in runs if run.notes]
    yield from (Note(f"{run.name}: {said}") for run in noted[:1] for said in run.notes)
    others = [run.name for run in noted[1:]]
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        yield note(
            "more-notes",
            f"the runs of {', '.join(others[:MOST_NAMED])}{more} have notes of their own (--period NAME shows them)",
        )


def whole_system(plan: Plan, parts: Sequence[PeriodPart]) -> System:
    """Union of what ran in any period: pools with as many instances as they ever have, streams at their mean rates."""
    ran = [part.system for part in parts]
    used = {pool.name for one in ran for pool in (*one.prefill, *one.decode)}
    prefill, decode = (
        tuple(pool for pool in plan.pools if pool.name in used and pool.role == role) for role in ("prefill", "decode")
    )
    guests = {pool.name: (pool, one.prefill[host].name) for one in ran for pool, host in one.guests}
    names = [pool.name for pool in prefill]
    return replace(
        ran[0],
        period=None,
        fleet=plan,
        prefill=prefill,
        decode=decode,
        streams=_streams(parts),
        guests=tuple((pool, names.index(host)) for pool, host in guests.values()),
    )


def _streams(parts: Sequence[PeriodPart]) -> tuple[RequestStream, ...]:
    rates: dict[tuple[str, str | None], float] = {}
    for part in parts:
        for stream in part.system.streams:
            key = stream.request_class, stream.site
            rates[key] = rates.get(key, 0.0) + part.time_fraction * stream.req_per_s
    order = list(parts[0].system.scenario.workloads)
    known = sorted(rates, key=lambda key: order.index(key[0]))
    return tuple(RequestStream(name, site, rates[name, site], NONE_LEAVES, None) for name, site in known)


def _joined(parts: Sequence[PeriodPart], replication: int) -> Outcome:
    """One replication of every period as one of the whole time."""
    outcomes = [part.outcomes[replication] for part in parts]
    counts = {name: sum(o.counts[name] for o in outcomes) for name in outcomes[0].counts}
    names = dict.fromkeys(name for o in outcomes for name in o.metrics)
    metrics = {name: _metric(parts, replication, name) for name in names}
    return Outcome(metrics, counts, NO_TIMES)


def _metric(parts: Sequence[PeriodPart], replication: int, name: str) -> float:
    """A figure over all periods: their sum, extreme or mean; what a period does not have counts nothing."""
    values = np.array([part.outcomes[replication].metrics.get(name, np.nan) for part in parts])
    known = np.isfinite(values)
    last = name.replace(".", " ").rpartition(" ")[2]
    extreme = EXTREMES.get(name) or EXTREMES.get(last)
    if not known.any():
        return np.nan
    if extreme is not None:
        return float(extreme(values[known]))
    if name.startswith("n_counted"):
        return float(values[known].sum())
    if name in BY_TIME or last in BY_TIME_LAST or name.partition(".")[0] in BY_INSTANCES or last in BY_INSTANCES:
        return float(np.where(known, values, 0.0) @ _by_time(parts, name))
    weights = np.array([_requests(part, replication, name) for part in parts])[known]
    return float(values[known] @ weights / weights.sum()) if weights.sum() > 0 else np.nan


def _by_time(parts: Sequence[PeriodPart], name: str) -> Floats:
    """Fractions of the time, of what instances do those of the largest number that a pool has."""
    fractions = np.array([part.time_fraction for part in parts])
    pool = name.partition(".")[2] if name.startswith("utilization.") else name.removesuffix(" batch")
    sizes = np.array([_n_instances(part.system, pool) for part in parts], dtype=float)
    return fractions * sizes / sizes.max() if sizes.max() > 0 else fractions


def _n_instances(one: System, name: str) -> int:
    pools: Mapping[str, PoolPlan] = {pool.name: pool for pool in (*one.prefill, *one.decode)}
    return pools[name].n_instances if name in pools else 0


def _requests(part: PeriodPart, replication: int, name: str) -> float:
    """Weight of a period in a mean over requests: its requests, or those of a class, or their prompt tokens."""
    metrics = part.outcomes[replication].metrics
    n, rate = part.outcomes[replication].counts["n_counted"], part.plan.demand_req_per_s
    of = metrics.get(f"n_counted of {name.partition(' of ')[2]}", n)
    each = metrics["prompt_tokens"] if name == "prefix_hit_fraction" else 1.0
    return part.time_fraction * rate * of / max(n, 1) * each
