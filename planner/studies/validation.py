"""Plan, run, compare: every promise of a plan beside what the executor saw."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from planner.errors import UsageError
from planner.executor import RunQuestion, default_load, simulate, simulate_periods
from planner.jobs import HERE, Workers
from planner.notes import Note
from planner.results import (
    Check,
    Fleet,
    Interval,
    Observation,
    PeriodValidation,
    Plan,
    Run,
    RunFigures,
    Validation,
    enough_requests,
    judgement,
    relative_error,
)
from planner.scenario import Scenario
from planner.studies.planned import Planned, planned

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
    """Hold a plan's promises against runs at a load, and its highest rate against a run with the system kept full.

    A plan for several periods is run in each of them: the promises of each, and those of the whole time, are held
    against these runs, and the highest rate against a full run of the busiest one.

    Args:
        scenario: the question.
        question: how long, how often and at what load to run; each period as long.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for a plan may take.
        say: is told what is going on, and the fraction done.
        workers: who shares the replications; the answer does not depend on it.
        period: the only period that is run, of a plan for several.

    Raises:
        PlannerError: as planning or running does.
    """
    if period is not None and question.load not in (None, 1.0):
        raise UsageError("--load: a period is validated at its own demand, which is what is promised of it")
    say("planning", 0.0)
    found = planned(scenario, data_dirs, time_limit_s)
    to_run = ToRun(scenario, found, question, data_dirs, say, workers)
    if period is not None:
        return _of_period(to_run, period)
    if isinstance(found.plan, Plan) and len(found.plan.periods) > 1:
        return _of_periods(to_run, found.plan)
    load = default_load(found.plan) if question.load is None else question.load
    executed = execute(scenario, found.plan, question, load, data_dirs, say, workers)
    promised = found.at(load)
    inside = _inside(found, promised), executed.run.mean_inside, executed.run.intervals.get("mean_inside")
    seen = [*pairs(found.plan, promised, load, executed), ("mean_inside", *inside)]
    return _validation(to_run, load, seen, executed.run.notes)


@dataclass(frozen=True)
class ToRun:
    """What is validated, and how."""

    scenario: Scenario
    planned: Planned
    question: RunQuestion
    data_dirs: Sequence[Path]
    say: Say
    workers: Workers

    def run(self, text: str, load: float, period: str, *, is_full: bool = False) -> Run:
        """A run of one period."""
        asked = replace(self.question, load=load, is_full=is_full)
        tell, plan = partial(self.say, text), self.planned.plan
        return simulate(self.scenario, plan, asked, self.data_dirs, period=period, progress=tell, workers=self.workers)[
            0
        ]


def _inside(found: Planned, promised: Fleet) -> float | None:
    """Requests in the system by the promised times; None where they are not known.

    Equation:
        rate (TTFT + (E[output] - 1) TPOT), Little's law; the run counts them by their integral over time
    """
    ttft_s, tpot_s = promised.latency.ttft_mean_s, promised.latency.tpot_mean_s
    if ttft_s is None or tpot_s is None:
        return None
    rates = found.class_rates(promised)
    tokens = sum(rate * found.output_tokens[name] for name, rate in rates.items()) / sum(rates.values())
    return promised.throughput_req_per_s * (ttft_s + (tokens - 1) * tpot_s)


def _of_period(to_run: ToRun, name: str) -> Validation:
    """One period of a plan for many, at its own demand."""
    run, plan = to_run.run(f"running {name}", 1.0, name), to_run.planned.plan
    alone = plan.in_period(plan.period(name)) if isinstance(plan, Plan) else plan
    # the highest rate is promised of all periods together
    found = _validation(to_run, 1.0, list(pairs(alone, alone, 1.0, Executed(run))), run.notes)
    return found.model_copy(update={"period": name})


def _of_periods(to_run: ToRun, plan: Plan) -> Validation:
    """Every period, and all of them together."""
    load = default_load(plan) if to_run.question.load is None else to_run.question.load
    asked, n = replace(to_run.question, load=load), len(plan.periods)
    promised = to_run.planned.at(load)
    assert isinstance(promised, Plan), "a plan with periods has them at any load"
    say = partial(_share_of, to_run.say, 0.0, n / (n + 1))
    run = simulate_periods(to_run.scenario, plan, asked, to_run.data_dirs, say, to_run.workers)
    busiest = max(plan.periods, key=lambda one: one.most_used).name
    full = replace(to_run, say=partial(_share_of, to_run.say, n / (n + 1), 1 / (n + 1)))
    most = full.run(f"running {busiest} full", load, busiest, is_full=True)
    seen = [_highest(plan, busiest, most), *pairs(plan, promised, load, Executed(run))]
    whole = _validation(to_run, load, seen, run.notes)
    checks, parts = list(whole.checks), []
    for one in run.periods:
        alone = promised.in_period(promised.period(one.name))
        demand = plan.in_period(plan.period(one.name))
        found = judged(list(pairs(demand, alone, load, Executed(one))), to_run.question.n_requests)
        mine = [check.model_copy(update={"period": one.name}) for check in found["checks"]]
        checks += mine
        parts.append(_told(one.name, demand.throughput_req_per_s, mine))
    return whole.model_copy(
        update={
            "checks": tuple(checks),
            "periods": tuple(parts),
            "holds": all(check.holds for check in checks),
            "decided": all(check.decided for check in checks),
        }
    )


def _share_of(say: Say, begun: float, share: float, text: str, fraction: float) -> None:
    say(text, begun + share * fraction)


def _highest(plan: Plan, busiest: str, most: Run) -> "Pair":
    """The highest multiple of the demand in every period, as a rate of the whole time: the busiest one decides."""
    scale = plan.throughput_req_per_s / plan.period(busiest).demand_req_per_s
    name, sure = "throughput_req_per_s", most.intervals.get("throughput_req_per_s")
    scaled = None if sure is None else Interval(low=scale * sure.low, high=scale * sure.high)
    return f"max_{name}", plan.max_throughput_req_per_s, scale * most.throughput_req_per_s, scaled


def _told(name: str, demand_req_per_s: float, checks: Sequence[Check]) -> PeriodValidation:
    undecided = sum(not check.decided for check in checks)
    return PeriodValidation(
        name=name,
        demand_req_per_s=demand_req_per_s,
        holds=all(check.holds for check in checks),
        decided=undecided == 0,
        n_checks=len(checks),
        n_failed=sum(check.decided and not check.holds for check in checks),
        n_undecided=undecided,
    )


def _validation(to_run: ToRun, load: float, found: Sequence["Pair"], notes: tuple[Note, ...]) -> Validation:
    question = to_run.question
    return Validation(
        scenario=to_run.scenario.name,
        load=load,
        seed=question.seed,
        n_requests=question.n_requests,
        notes=notes,
        observed=tuple(_observations(to_run.scenario, found)),
        **judged(found, question.n_requests),
    )


def _observations(scenario: Scenario, found: Sequence["Pair"]) -> Iterator[Observation]:
    """What the scenario says was measured, beside prediction and run."""
    told = {metric: (predicted, executed) for metric, predicted, executed, _ in found}
    for metric, measured in (scenario.observed.figures if scenario.observed else {}).items():
        predicted, executed = told.get(metric, (None, None))
        yield Observation(metric=metric, measured=measured, predicted=predicted, executed=executed)


@dataclass(frozen=True)
class Executed:
    """What a plan does at a load, and with the system kept full where its highest rate is promised."""

    run: RunFigures
    most: Run | None = None


def execute(
    scenario: Scenario,
    plan: Fleet,
    question: RunQuestion,
    load: float,
    data_dirs: Sequence[Path] = (),
    say: Say = lambda _, __: None,
    workers: Workers = HERE,
    period: str | None = None,
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
        period: the period that is run, of a plan for several.
    """
    at, full = replace(question, load=load, is_full=False), replace(question, load=load, is_full=True)
    texts = {"run": f"running at {load:g}", "most": "running full"}

    def run(name: str, asked: RunQuestion) -> Run:
        tell = partial(say, texts[name])
        return simulate(scenario, plan, asked, data_dirs, period=period, progress=tell, workers=workers)[0]

    return Executed(run("run", at), run("most", full))


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
