"""Plan, run, compare: every promise of a plan beside what the executor saw."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from planner.errors import InputError, UsageError
from planner.executor import RunQuestion, default_load, simulate
from planner.jobs import HERE, Workers
from planner.optimizer import Problem, at_rate, optimize, planned_at, planning_problem, solved
from planner.results import Check, Fleet, Interval, Run, Validation, enough_requests, judgement, relative_error
from planner.scenario import Scenario
from planner.schema import dotted
from planner.studies.periods import one_period

TOLERANCES = {
    "throughput_req_per_s": 0.02,
    "max_throughput_req_per_s": 0.02,
    "offload_fraction": 0.02,
    "ttft_mean_s": 0.05,
    "ttft_p50_s": 0.10,
    "ttft_p90_s": 0.10,
    "ttft_p99_s": 0.15,
    "tpot_mean_s": 0.05,
    "mean_inside": 0.05,
    "utilization": 0.03,
    "links": 0.03,
}
"""Relative error allowed, by the metric's name or what it begins with."""

Say = Callable[[str, float], None]


def validate(
    scenario: Scenario,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    say: Say = lambda _, __: None,
    workers: Workers = HERE,
    period: str | None = None,
) -> Validation:
    """Hold a plan's promises against a run at a load, and its highest rate against a run with the system kept full.

    Args:
        scenario: the question.
        question: how long, how often and at what load to run.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for a plan may take.
        say: is told what is going on, and the fraction done.
        workers: who shares the replications; the answer does not depend on it.
        period: the period that is run, of a plan for several.

    Raises:
        PlannerError: as planning or running does.
    """
    if period is not None:
        return _of_period(scenario, period, question, data_dirs, time_limit_s, say, workers)
    _check_one_demand(scenario)
    say("planning", 0.0)
    problem = planning_problem(scenario, data_dirs)
    solution = solved(problem, time_limit_s)
    plan = planned_at(problem, solution)
    load = default_load(plan) if question.load is None else question.load
    executed = execute(scenario, plan, question, load, data_dirs, say, workers)
    promised = at_rate(problem, solution, load * plan.throughput_req_per_s)
    inside = (
        "mean_inside",
        _inside(problem, promised),
        executed.run.mean_inside,
        executed.run.intervals.get("mean_inside"),
    )
    return _validation(scenario, question, load, [*pairs(plan, promised, load, executed), inside])


def _inside(problem: Problem, promised: Fleet) -> float | None:
    """Requests in the system by the promised times; None where they are not known.

    Equation:
        rate (TTFT + (E[output] - 1) TPOT), Little's law; the run counts them by their integral over time
    """
    ttft_s, tpot_s = promised.latency.ttft_mean_s, promised.latency.tpot_mean_s
    if ttft_s is None or tpot_s is None:
        return None
    output_tokens = sum(c.share * c.mix.mean_output_tokens for c in problem.classes)
    return promised.throughput_req_per_s * (ttft_s + (output_tokens - 1) * tpot_s)


def _of_period(
    scenario: Scenario,
    period: str,
    question: RunQuestion,
    data_dirs: Sequence[Path],
    time_limit_s: float,
    say: Say,
    workers: Workers,
) -> Validation:
    """One period of a plan for many, at its own demand."""
    if question.load not in (None, 1.0):
        raise UsageError("--load: a period is validated at its own demand, which is what is promised of it")
    say("planning", 0.0)
    asked, plan = one_period(scenario, optimize(scenario, data_dirs, time_limit_s), period)
    at = replace(question, load=1.0, is_full=False)
    run, _ = simulate(asked, plan, at, data_dirs, progress=partial(say, f"running {period}"), workers=workers)
    executed = Executed(run)  # the highest rate is promised of all periods together
    found = _validation(scenario, question, 1.0, list(pairs(plan, plan, 1.0, executed)))
    return found.model_copy(update={"period": period})


def _validation(scenario: Scenario, question: RunQuestion, load: float, found: Sequence["Pair"]) -> Validation:
    return Validation(
        scenario=scenario.name,
        load=load,
        seed=question.seed,
        n_requests=question.n_requests,
        **judged(found, question.n_requests),
    )


def _check_one_demand(scenario: Scenario) -> None:
    """Raises InputError where the plan is of a network, whose promises are made period by period."""
    if keys := scenario.network_keys:
        what = "cannot be validated: only plans of one model, one demand and one promise, or one --period, are run"
        raise InputError(scenario.problem(keys[0], what, f"a scenario without {', '.join(map(dotted, keys))}"))


@dataclass(frozen=True)
class Executed:
    """What a plan does at a load, and with the system kept full where its highest rate is promised."""

    run: Run
    most: Run | None = None


def execute(
    scenario: Scenario,
    plan: Fleet,
    question: RunQuestion,
    load: float,
    data_dirs: Sequence[Path] = (),
    say: Say = lambda _, __: None,
    workers: Workers = HERE,
) -> Executed:
    """Run a plan at a load and full; raises as `simulate` does.

    Args:
        scenario: the question.
        plan: what to run.
        question: how long and how often; each of the two runs has as many requests.
        load: fraction of the plan's rate.
        data_dirs: folders in which traces are looked for.
        say: is told what is going on, and the fraction done.
        workers: who shares the replications.
    """
    at, full = replace(question, load=load, is_full=False), replace(question, load=load, is_full=True)
    texts = {"run": f"running at {load:g}", "most": "running full"}
    found = {
        name: simulate(scenario, plan, asked, data_dirs, progress=partial(say, texts[name]), workers=workers)[0]
        for name, asked in (("run", at), ("most", full))
    }
    return Executed(**found)


Pair = tuple[str, float | None, float, Interval | None]


def judged(found: Sequence[Pair], n_requests: int) -> dict[str, Any]:
    """The fields `holds`, `decided`, `checks` and `unpredicted` of a validation by runs of so many requests."""
    checks = tuple(
        check(name, promise, seen, sure, n_requests) for name, promise, seen, sure in found if promise is not None
    )
    return {
        "holds": all(c.holds for c in checks),
        "decided": all(c.decided for c in checks),
        "checks": checks,
        "unpredicted": tuple(name for name, promise, *_ in found if promise is None),
    }


def pairs(plan: Fleet, promised: Fleet, load: float, executed: Executed) -> Iterator[Pair]:
    """Every metric with its prediction, None where there is none, and what came of it.

    Args:
        plan: the plan, for its highest rate.
        promised: the same fleet at the load.
        load: fraction of the plan's rate.
        executed: what came of it.
    """
    run, most = executed.run, executed.most
    name = "throughput_req_per_s"
    yield name, load * plan.throughput_req_per_s, run.throughput_req_per_s, run.intervals.get(name)
    if most is not None:
        executed_most, sure = most.throughput_req_per_s, most.intervals.get(name)
        yield "max_throughput_req_per_s", plan.max_throughput_req_per_s, executed_most, sure
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


def check(metric: str, predicted: float, executed: float, interval: Interval | None, n_requests: int) -> Check:
    """A promise beside its run: kept or broken where the whole confidence interval says so, otherwise undecided.

    Without an interval, of a single replication, the figure itself is judged.

    >>> sure = Interval(low=2.05, high=2.15)
    >>> check("ttft_mean_s", 2.0, 2.1, sure, 1000).decided, check("ttft_mean_s", 2.0, 2.08, None, 1000).holds
    (False, True)
    """
    allowed = TOLERANCES.get(metric) or TOLERANCES[metric.partition(".")[0]]
    low, high = (executed, executed) if interval is None else (interval.low, interval.high)
    found = judgement(predicted, low, high, allowed)
    return Check(
        metric=metric,
        predicted=predicted,
        executed=executed,
        ci_low=None if interval is None else interval.low,
        ci_high=None if interval is None else interval.high,
        relative_error=relative_error(predicted, executed),
        tolerance=allowed,
        holds=found is True,
        decided=found is not None,
        enough_requests=enough_requests(n_requests, predicted, low, high, allowed) if found is None else None,
    )
