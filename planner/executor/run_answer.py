"""The run that replications of a plan add up to."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np

from planner.errors import CheckFailedError
from planner.executor.full_house import n_users
from planner.executor.measure import REASONS, Outcome, averaged, site_name
from planner.executor.rebalancing import stated_rebalance
from planner.executor.run_question import RunQuestion
from planner.executor.streams import RequestStream
from planner.executor.systems import System
from planner.executor.timings import PeriodReplications, timed
from planner.executor.warm_up import Unsettled, unsettled
from planner.notes import Note, note
from planner.results.judging import rounded_up
from planner.results.run import ClassRun, Interval, LinkRun, PoolRun, RebalanceRun, Run, SchedulerRun, SiteRun, WaitRun
from planner.scenario import DiurnalArrivals
from planner.units import number

WHOLE_DAY = 0.99
"""Part of a day from which on a run counts as one."""
MOST_SETTLING = 1e12
"""Requests of a warm-up at the most that is told: far more than any run has."""

COUNTS = ("n_requests", "n_counted", "n_completed", "n_dropped", "n_retried")
MEANS = (
    "throughput_req_per_s",
    "offload_fraction",
    "mean_inside",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
)
SITE_MEANS = ("ttft_mean_s", "ttft_p90_s", "ttft_p99_s")
SHOWN = ("ttft_", "tpot_", "throughput", "offload", "mean_inside", "utilization.", "links.")
"""What the names of figures begin with whose intervals are told."""
CLASS_MEANS = (*SITE_MEANS, "ttft_promised_s", "tpot_mean_s", "tpot_promised_s")
PROMISED = ("ttft_promised_s", "tpot_promised_s")
"""Figures at the percentile of a promise, which are left out where there is none."""


def run_of_replications(
    plan: System,
    question: RunQuestion,
    load: float | None,
    req_per_s: float,
    outcomes: Sequence[Outcome],
    parts: Sequence[PeriodReplications] = (),
) -> Run:
    """The run that replications add up to; of several periods, with the parts that they are made of."""
    _check_finished(plan, outcomes)
    mean, intervals = averaged(outcomes)
    parts = parts or (PeriodReplications(plan, 1.0, outcomes),)
    times = timed(parts, plan.classes)
    alike = all(are_alike(part.outcomes) for part in parts)
    mean, intervals = mean | times.figures, {} if alike else intervals | times.intervals
    pools = plan.pools if load else ()
    open_, filling = unsettled(pools, mean), unsettled([pool for pool in pools if pool.role != "prefill"], mean)
    n_asked = question.n_requests * len(outcomes) // question.n_replications
    promises = plan.scenario.slo is not None or plan.scenario.objective == "min-ttft"
    total = {name: sum(o.counts[name] for o in outcomes) for name in outcomes[0].counts}
    fields: dict[str, Any] = {name: int(total[name]) for name in COUNTS} | {name: mean[name] for name in MEANS}
    return Run(
        scenario=plan.scenario.name,
        seed=question.seed,
        period=plan.period,
        load=load,
        offered_req_per_s=None if load is None else req_per_s,
        concurrency=question.concurrency,
        users=None if question.is_closed or plan.scenario.users is None else n_users(plan, question),
        n_replications=len(outcomes),
        n_asked=n_asked,
        is_transient=open_ is not None,
        is_decode_transient=filling is not None,
        settling_requests=None if open_ is None else rounded_up(min(n_asked * open_.times, MOST_SETTLING)),
        dropped={why: int(total[f"dropped {why}"]) for why in REASONS if total[f"dropped {why}"]},
        simulated_s=total["simulated_s"],
        cross_site_bytes=total["cross_site_bytes"],
        **fields,
        ttft_promised_s=figure_or_none(mean["ttft_promised_s"]) if promises else None,
        tpot_mean_s=figure_or_none(mean["tpot_mean_s"]),
        tpot_p90_s=figure_or_none(mean["tpot_p90_s"]),
        utilization=_utilization(plan, mean),
        links={link.name: _link(mean, link.name) for link in plan.links},
        prefix_hit_fraction=figure_or_none(mean["prefix_hit_fraction"]) if _caches(plan) else None,
        waits=WaitRun(**{name: mean[name] for name in WaitRun.model_fields}),
        pools=_pools(plan, mean),
        classes=tuple(_class(plan, mean, intervals, name, outcomes) for name in plan.classes),
        intervals=_shown(intervals, promises=promises),
        notes=(*_alike_note(len(outcomes), alike=alike), *_notes(plan, load, req_per_s, open_, mean, outcomes)),
        scheduler=_scheduler(plan, mean, outcomes) if plan.scenario.execution.scheduler.is_on else None,
        rebalance=None if stated_rebalance(plan.scenario) is None else _rebalance(total),
    )


def are_alike(outcomes: Sequence[Outcome]) -> bool:
    """True if several replications ran the same requests at the same times, so that they tell no more than one.

    Equal requests at the recorded times of a trace leave nothing to chance, and neither does a trace of one request.
    """
    first, *others = (outcome.times for outcome in outcomes)
    return bool(others) and all(
        np.array_equal(first.ttft_s, other.ttft_s) and np.array_equal(first.tpot_s, other.tpot_s, equal_nan=True)
        for other in others
    )


def _alike_note(n: int, *, alike: bool) -> Iterator[Note]:
    if alike:
        yield note("replications-alike", f"all {n} replications ran the same: there is no interval of confidence")


def _shown(intervals: dict[str, Interval], *, promises: bool) -> dict[str, Interval]:
    """Intervals of the figures of a run; of the promised percentile where something is promised."""
    return {
        name: interval
        for name, interval in intervals.items()
        if (name not in PROMISED or promises) and name.startswith(SHOWN) and " " not in name
    }


def _rebalance(total: dict[str, float]) -> RebalanceRun:
    """Counts of rebalancing, under the names of the fields."""
    return RebalanceRun.model_validate({name: total[f"rebalance {name}"] for name in RebalanceRun.model_fields})


def _scheduler(plan: System, mean: dict[str, float], outcomes: Sequence[Outcome]) -> SchedulerRun:
    return SchedulerRun(
        n_conversions=int(sum(o.counts["n_conversions"] for o in outcomes)),
        factor_low=min(o.metrics["factor_low"] for o in outcomes),
        factor_mean=mean["factor_mean"],
        factor_high=max(o.metrics["factor_high"] for o in outcomes),
        mean_instances={pool.name: mean[f"{pool.name} instances"] for pool in plan.pools},
    )


def _check_finished(plan: System, outcomes: Sequence[Outcome]) -> None:
    """Raises CheckFailedError where there is nothing to report of: no request that counts has finished."""
    if any(o.counts["n_counted"] for o in outcomes):
        return
    n, dropped = (int(sum(o.counts[name] for o in outcomes)) for name in ("n_requests", "n_dropped"))
    what = f"not one request that counts has finished: {dropped:,} of {n:,} were dropped"
    raise CheckFailedError(f"{plan.scenario.name}: {what}; see its [execution]")


def figure_or_none(value: float) -> float | None:
    """None for a figure of nothing."""
    return value if isfinite(value) else None


def _caches(plan: System) -> bool:
    return plan.scenario.execution.cache is not None or any(
        workload.prefix_hits != "none" for _, workload in plan.scenario.workloads.values()
    )


def _utilization(plan: System, mean: dict[str, float]) -> dict[str, float]:
    """By pool; one on the instances of another is as busy as they are."""
    own = {pool.name: mean[f"utilization.{pool.name}"] for pool in plan.pools}
    return own | {guest.name: own[plan.prefill[host].name] for guest, host in plan.guests}


def _link(mean: dict[str, float], name: str) -> LinkRun:
    return LinkRun(
        mean_gbps=mean[f"links.{name}.mean_gbps"],
        peak_gbps=mean[f"links.{name}.peak_gbps"],
        mean_transfers=mean[f"{name} transfers"],
    )


def _pools(plan: System, mean: dict[str, float]) -> dict[str, PoolRun]:
    return {
        pool.name: PoolRun(
            role=pool.role,
            n_instances=pool.n_instances,
            mean_waiting=mean[f"{pool.name} waiting"],
            mean_batch=mean.get(f"{pool.name} batch"),
            busy_fraction=mean.get(f"{pool.name} busy"),
        )
        for pool in plan.pools
    }


def _class(
    plan: System, mean: dict[str, float], intervals: dict[str, Interval], name: str, outcomes: Sequence[Outcome]
) -> ClassRun:
    slo = plan.scenario.slo_of(name)
    promised = {
        "ttft_promised_s": plan.scenario.objective == "min-ttft" or (slo is not None and slo.ttft_s is not None),
        "tpot_promised_s": slo is not None and slo.tpot_ms is not None,
    }
    metrics = [metric for metric in CLASS_MEANS if promised.get(metric, True)]
    sites = [stream for stream in plan.streams if stream.request_class == name]
    return ClassRun(
        name=name,
        n_counted=_n_counted(outcomes, name),
        **{metric: figure_or_none(mean[f"{metric} of {name}"]) for metric in metrics},
        intervals={metric: intervals[key] for metric in metrics if (key := f"{metric} of {name}") in intervals},
        sites=tuple(_site(mean, stream, outcomes) for stream in sites) if len(sites) > 1 else (),
    )


def _site(mean: dict[str, float], stream: RequestStream, outcomes: Sequence[Outcome]) -> SiteRun:
    name = site_name(stream)
    figures = {metric: figure_or_none(mean[f"{metric} of {name}"]) for metric in SITE_MEANS}
    return SiteRun(name=stream.site or "", n_counted=_n_counted(outcomes, name), **figures)


def _n_counted(outcomes: Sequence[Outcome], name: str) -> int:
    return int(sum(o.metrics[f"n_counted of {name}"] for o in outcomes))


def _notes(
    plan: System,
    load: float | None,
    req_per_s: float,
    open_: Unsettled | None,
    mean: dict[str, float],
    outcomes: Sequence[Outcome],
) -> Iterator[Note]:
    process = plan.scenario.execution.arrivals
    if isinstance(process, DiurnalArrivals) and load is not None:
        n_days = min(o.counts["n_requests"] for o in outcomes) / req_per_s / process.period_s
        if n_days < WHOLE_DAY:
            yield note(
                "part-of-a-day",
                f"a replication lasts {number(n_days)} of a day, and has the rates of that part: run more requests",
            )
    if load is None and plan.scenario.users is None:
        yield note(
            "kept-full", "the system was kept full: times are those of a queue as long as the experiment made it"
        )
    elif load is not None and load * max(pool.utilization for pool in plan.pools) > 1 - 1e-6:
        yield note("run-saturated", "at this load a pool is full: its queue grows as long as requests arrive")
    if open_ is not None:
        yield note(
            "warm-up-short",
            f"the warm-up of {number(mean['warm_up_s'])} s is {open_.because}; run "
            f"{number(open_.times, 2)} times as many requests",
        )
