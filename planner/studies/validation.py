"""Plan, run, compare: every promise of a plan beside what the executor saw."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from planner.executor import RunQuestion, default_load, simulate
from planner.optimizer import optimize
from planner.results import Check, Interval, Plan, Run, Validation
from planner.scenario import Scenario

TOLERANCES = {
    "throughput_req_per_s": 0.02,
    "max_throughput_req_per_s": 0.02,
    "offload_fraction": 0.02,
    "ttft_mean_s": 0.05,
    "ttft_p50_s": 0.10,
    "ttft_p90_s": 0.10,
    "ttft_p99_s": 0.15,
    "tpot_mean_s": 0.05,
    "utilization": 0.03,
    "links": 0.03,
}
"""Relative error allowed, by the metric's name or what it begins with."""
NOTHING = 1e-12

Say = Callable[[str, float], None]


def validate(
    scenario: Scenario,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    say: Say = lambda _, __: None,
) -> Validation:
    """Hold a plan's promises against a run at a load, and its highest rate against a run with the system kept full.

    Args:
        scenario: the question.
        question: how long, how often and at what load to run.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for a plan may take.
        say: is told what is going on, and the fraction done.

    Raises:
        PlannerError: as planning or running does.
    """
    say("planning", 0.0)
    plan = optimize(scenario, data_dirs, time_limit_s)
    load = default_load(plan) if question.load is None else question.load
    promised = at_load(scenario, plan, load, data_dirs, time_limit_s)
    at = RunQuestion(question.n_requests, question.seed, load, question.n_replications)
    full = RunQuestion(question.n_requests, question.seed, load, question.n_replications, is_full=True)
    run, _ = simulate(scenario, plan, at, data_dirs, progress=lambda part: say(f"running at {load:g}", part))
    most, _ = simulate(scenario, plan, full, data_dirs, progress=lambda part: say("running full", part))
    found = list(pairs(plan, promised, load, run, most))
    checks = tuple(check(name, promise, seen, sure) for name, promise, seen, sure in found if promise is not None)
    return Validation(
        scenario=scenario.name,
        holds=all(c.holds for c in checks),
        load=load,
        seed=question.seed,
        n_requests=question.n_requests,
        checks=checks,
        unpredicted=tuple(name for name, predicted, *_ in found if predicted is None),
    )


def at_load(scenario: Scenario, plan: Plan, load: float, data_dirs: Sequence[Path], time_limit_s: float) -> Plan:
    """What is promised of the same sizes, ports and threshold at a fraction of the plan's rate.

    The promise on TTFT and the budget have done their part: they chose the sizes, which are given here.
    """
    changes: dict[str, Any] = {
        "objective": "max-throughput",
        "demand_req_per_s": load * plan.throughput_req_per_s,
        "budget_usd_per_hour": None,
        "comparisons": {},
    }
    if scenario.slo is not None:
        changes["slo"] = None if scenario.slo.tpot_ms is None else {"tpot_ms": scenario.slo.tpot_ms}
    if plan.threshold_tokens is not None:
        changes["routing.threshold_tokens"] = plan.threshold_tokens
    for pool in plan.pools:
        changes[f"pools.{pool.name}.n_instances"] = pool.n_instances
    for link in plan.links:
        if link.capacity_gbps > 0:
            changes[f"links.{link.name}.capacity_gbps"] = link.capacity_gbps
    return optimize(scenario.varied(changes), data_dirs, time_limit_s)


Pair = tuple[str, float | None, float, Interval | None]


def pairs(plan: Plan, promised: Plan, load: float, run: Run, most: Run) -> Iterator[Pair]:
    """Every metric with its prediction, None where there is none, and what came of it.

    Args:
        plan: the plan, for its highest rate.
        promised: the same fleet at the load.
        load: fraction of the plan's rate.
        run: at the load.
        most: with the system kept full.
    """
    name = "throughput_req_per_s"
    yield name, load * plan.throughput_req_per_s, run.throughput_req_per_s, run.intervals.get(name)
    predicted, executed = plan.max_throughput_req_per_s, most.throughput_req_per_s
    yield "max_throughput_req_per_s", predicted, executed, most.intervals.get(name)
    yield "offload_fraction", promised.offload_fraction, run.offload_fraction, run.intervals.get("offload_fraction")
    for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s"):
        yield name, getattr(promised.latency, name), getattr(run, name), run.intervals.get(name)
    if run.tpot_mean_s is not None:
        yield "tpot_mean_s", promised.latency.tpot_mean_s, run.tpot_mean_s, run.intervals.get("tpot_mean_s")
    for pool in promised.pools:
        if pool.n_instances > 0:
            name = f"utilization.{pool.name}"
            yield name, pool.utilization, run.utilization[pool.name], run.intervals.get(name)
    for link in promised.links:
        name = f"links.{link.name}.mean_gbps"
        yield name, link.mean_gbps, run.links[link.name].mean_gbps, run.intervals.get(name)


def check(metric: str, predicted: float, executed: float, interval: Interval | None) -> Check:
    """A promise beside its run: refuted where not even the confidence interval comes within the tolerance.

    >>> check("ttft_mean_s", 2.0, 2.08, None).holds, check("ttft_mean_s", 2.0, 2.2, Interval(low=2.1, high=2.3)).holds
    (True, True)
    """
    tolerance = TOLERANCES.get(metric) or TOLERANCES[metric.partition(".")[0]]
    low, high = (executed, executed) if interval is None else (interval.low, interval.high)
    nearest = min(max(predicted, low), high)
    return Check(
        metric=metric,
        predicted=predicted,
        executed=executed,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        relative_error=_error(predicted, executed),
        tolerance=tolerance,
        holds=abs(_error(predicted, nearest)) <= tolerance,
    )


def _error(predicted: float, executed: float) -> float:
    """Predicted over executed, less one; 0 where both are nothing."""
    if abs(predicted) < NOTHING and abs(executed) < NOTHING:
        return 0.0
    return predicted / executed - 1.0 if abs(executed) >= NOTHING else 1.0
