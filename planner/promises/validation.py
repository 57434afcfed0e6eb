"""Plan, run, compare: every promise of a plan beside what the executor saw."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from planner.errors import UsageError
from planner.executor.run_question import RunQuestion, default_load
from planner.jobs import HERE, Workers
from planner.progress import MeasuredProgress
from planner.promises.plan_to_run import PlanToRun, plan_at_loads
from planner.results.judging import enough_requests, judgement, relative_error
from planner.results.plan import Fleet, Plan
from planner.results.run import Interval, PeriodRun, Run, RunFigures
from planner.results.validation import Check, Observation, PeriodValidation, Validation
from planner.scenario import Scenario
from planner.ties import largest

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


def validate(
    scenario: Scenario,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: MeasuredProgress = lambda _, __: None,
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
        progress: is told what is going on, and the fraction done.
        workers: who shares the replications; the answer does not depend on it.
        period: the only period that is run, of a plan for several.

    Raises:
        PlannerError: as planning or running does.
    """
    if period is not None and question.load not in (None, 1.0):
        raise UsageError("--load: a period is validated at its own demand, which is what is promised of it")
    progress("planning", 0.0)
    found = plan_at_loads(scenario, data_dirs, time_limit_s)
    to_run = ToRun(scenario, found, question, data_dirs, progress, workers)
    if period is not None:
        return _of_period(to_run, period)
    if isinstance(found.plan, Plan) and len(found.plan.periods) > 1:
        return _of_periods(to_run, found.plan)
    load = default_load(found.plan) if question.load is None else question.load
    promised = found.at(load)
    inside = _inside(found, promised)

    def pairs_of(executed: PlanRuns) -> list[Pair]:
        run = executed.run
        sure = run.intervals.get("mean_inside")
        last = Pair("mean_inside", inside, run.mean_inside, sure, run.n_requests, run.settling_requests)
        return [*pairs(found.plan, promised, load, executed), last]

    enough = Enough(
        lambda run: is_settled(run, pairs_of(PlanRuns(run))), lambda most: is_settled(most, [_most(found.plan, most)])
    )
    executed = execute_plan(scenario, found.plan, question, load, data_dirs, progress, workers, enough=enough)
    return _validation(to_run, load, pairs_of(executed), executed)


@dataclass(frozen=True)
class ToRun:
    """Plan that is validated, and the settings of its runs."""

    scenario: Scenario
    planned: PlanToRun
    question: RunQuestion
    data_dirs: Sequence[Path]
    progress: MeasuredProgress
    workers: Workers

    def run(self, text: str, load: float, period: str, pairs: "PeriodResult", *, is_full: bool = False) -> Run:
        """A run of one period, until its pairs of figures are decided."""
        from planner.executor.run import simulate  # compiles, and a plan that is predicted runs nothing

        asked = replace(self.question, load=load, is_full=is_full)
        run, _ = simulate(
            self.scenario,
            self.planned.plan,
            asked,
            self.data_dirs,
            period=period,
            progress=partial(self.progress, text),
            workers=self.workers,
            enough=lambda run: is_settled(run, pairs(run)),
        )
        return run


def _inside(found: PlanToRun, promised: Fleet) -> float | None:
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
    """One period of a plan for many, at its own demand; the highest rate is promised of all periods together."""
    plan = to_run.planned.plan
    alone = plan.in_period(plan.period(name)) if isinstance(plan, Plan) else plan

    def pairs_of(run: RunFigures) -> list[Pair]:
        return list(pairs(alone, alone, 1.0, PlanRuns(run)))

    run = to_run.run(f"running {name}", 1.0, name, pairs_of)
    return _validation(to_run, 1.0, pairs_of(run), PlanRuns(run)).model_copy(update={"period": name})


def _of_periods(to_run: ToRun, plan: Plan) -> Validation:
    """Every period, and all of them together."""
    from planner.executor.periods import simulate_periods

    load = default_load(plan) if to_run.question.load is None else to_run.question.load
    asked, n = replace(to_run.question, load=load), len(plan.periods)
    promised = to_run.planned.at(load)
    assert isinstance(promised, Plan), "a plan with periods has them at any load"

    def pairs_of(run: Run) -> list[Pair]:
        return list(pairs(plan, promised, load, PlanRuns(run)))

    def seen_alone(one: PeriodRun) -> list[Pair]:
        demand, alone = (whole.in_period(whole.period(one.name)) for whole in (plan, promised))
        return list(pairs(demand, alone, load, PlanRuns(one)))

    def is_decided(run: Run) -> bool:
        return is_settled(run, pairs_of(run)) and all(is_settled(one, seen_alone(one)) for one in run.periods)

    progress = partial(_share_of, to_run.progress, 0.0, n / (n + 1))
    run = simulate_periods(to_run.scenario, plan, asked, to_run.data_dirs, progress, to_run.workers, is_decided)
    busiest = largest(plan.periods, lambda one: one.most_used).name
    full = replace(to_run, progress=partial(_share_of, to_run.progress, n / (n + 1), 1 / (n + 1)))
    most = full.run(
        f"running {busiest} full", load, busiest, lambda found: [_highest(plan, busiest, found)], is_full=True
    )
    whole = _validation(to_run, load, [_highest(plan, busiest, most), *pairs_of(run)], PlanRuns(run, most))
    checks, parts = list(whole.checks), []
    for one in run.periods:
        mine = [check.model_copy(update={"period": one.name}) for check in validation_fields(seen_alone(one))["checks"]]
        checks += mine
        parts.append(_message(one.name, plan.period(one.name).demand_req_per_s, mine))
    return whole.model_copy(
        update={
            "checks": tuple(checks),
            "periods": tuple(parts),
            "holds": all(check.holds for check in checks),
            "decided": all(check.decided for check in checks),
        }
    )


def _share_of(progress: MeasuredProgress, begun: float, share: float, text: str, fraction: float) -> None:
    progress(text, begun + share * fraction)


def _highest(plan: Plan, busiest: str, most: Run) -> "Pair":
    """The highest multiple of the demand in every period, as a rate of the whole time: the busiest one decides."""
    scale = plan.throughput_req_per_s / plan.period(busiest).demand_req_per_s
    found = _most(plan, most)
    sure = found.interval and Interval(low=scale * found.interval.low, high=scale * found.interval.high)
    return found._replace(executed=scale * found.executed, interval=sure)


def _message(name: str, demand_req_per_s: float, checks: Sequence[Check]) -> PeriodValidation:
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


def _validation(to_run: ToRun, load: float, found: Sequence["Pair"], executed: "PlanRuns") -> Validation:
    question, run, most = to_run.question, executed.run, executed.most
    return Validation(
        scenario=to_run.scenario.name,
        load=load,
        seed=question.seed,
        n_requests=run.n_asked,
        n_requests_full=None if most is None else most.n_asked,
        most_requests=question.most_requests or question.n_requests,
        notes=run.notes,
        observed=tuple(_observations(to_run.scenario, found)),
        **validation_fields(found),
    )


def _observations(scenario: Scenario, found: Sequence["Pair"]) -> Iterator[Observation]:
    """Measurements that the scenario states, beside prediction and run."""
    told = {pair.metric: (pair.predicted, pair.executed) for pair in found}
    for metric, measured in (scenario.observed.figures if scenario.observed else {}).items():
        predicted, executed = told.get(metric, (None, None))
        yield Observation(metric=metric, measured=measured, predicted=predicted, executed=executed)


@dataclass(frozen=True)
class PlanRuns:
    """Run of a plan at a load, and with the system kept full where its highest rate is promised."""

    run: RunFigures
    most: Run | None = None


class Enough(NamedTuple):
    """Tests of whether the run at a load, and the one with the system kept full, say what is asked of them."""

    run: Callable[[Run], bool] = lambda _: True
    most: Callable[[Run], bool] = lambda _: True


AS_LONG_AS_ASKED = Enough()


def execute_plan(
    scenario: Scenario,
    plan: Fleet,
    question: RunQuestion,
    load: float,
    data_dirs: Sequence[Path] = (),
    progress: MeasuredProgress = lambda _, __: None,
    workers: Workers = HERE,
    period: str | None = None,
    enough: Enough = AS_LONG_AS_ASKED,
    with_most: bool = True,
) -> PlanRuns:
    """Run a plan at a load and full; raises as `simulate` does.

    Args:
        question: how long and how often; each of the two runs has as many requests.
        enough: whether the runs will do; else they are run on, up to the limit of the question.
        with_most: whether it is run full, too.
    """
    from planner.executor.run import simulate

    at, full = replace(question, load=load, is_full=False), replace(question, load=load, is_full=True)
    done = partial(progress, f"running at {load:g}"), partial(progress, "running full")

    def run(asked: RunQuestion, done: Callable[[float], None], enough: Callable[[Run], bool]) -> Run:
        found, _ = simulate(
            scenario, plan, asked, data_dirs, period=period, progress=done, workers=workers, enough=enough
        )
        return found

    return PlanRuns(run(at, done[0], enough.run), run(full, done[1], enough.most) if with_most else None)


class Pair(NamedTuple):
    """A metric with its prediction, None where there is none, and what came of it in a run of so many requests."""

    metric: str
    predicted: float | None
    executed: float
    interval: Interval | None
    n_requests: int
    settling_requests: int | None = None
    """How many would let the system settle; None where it has."""


PeriodResult = Callable[[Run], list[Pair]]


def validation_fields(found: Sequence[Pair]) -> dict[str, Any]:
    """The fields `holds`, `decided`, `checks` and `unpredicted` of a validation."""
    checks = tuple(
        promise_check(p.metric, p.predicted, p.executed, p.interval, p.n_requests, p.settling_requests)
        for p in found
        if p.predicted is not None
    )
    return {
        "holds": all(c.holds for c in checks),
        "decided": all(c.decided for c in checks),
        "checks": checks,
        "unpredicted": tuple(pair.metric for pair in found if pair.predicted is None),
    }


def is_settled(run: RunFigures, found: Sequence[Pair]) -> bool:
    """True if every prediction is borne out or refuted, by a run whose system is not still filling."""
    return not run.is_transient and bool(validation_fields(found)["decided"])


def _most(plan: Fleet, most: Run) -> Pair:
    """The highest rate beside a run with the system kept full."""
    name = "throughput_req_per_s"
    rate, sure = most.throughput_req_per_s, most.intervals.get(name)
    return Pair(f"max_{name}", plan.max_throughput_req_per_s, rate, sure, most.n_requests, most.settling_requests)


def pairs(plan: Fleet, promised: Fleet, load: float, executed: PlanRuns) -> Iterator[Pair]:
    """Every metric with its prediction, None where there is none, and what came of it."""
    run, most, latency = executed.run, executed.most, promised.latency

    def pair(metric: str, predicted: float | None, seen: float) -> Pair:
        return Pair(metric, predicted, seen, run.intervals.get(metric), run.n_requests, run.settling_requests)

    yield pair("throughput_req_per_s", load * plan.throughput_req_per_s, run.throughput_req_per_s)
    if most is not None:
        yield _most(plan, most)
    yield pair("offload_fraction", promised.offload_fraction, run.offload_fraction)
    for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s"):
        yield pair(name, getattr(latency, name), getattr(run, name))
    if run.tpot_mean_s is not None:
        yield pair("tpot_mean_s", latency.tpot_mean_s, run.tpot_mean_s)
    for pool in promised.pools:
        if pool.n_instances > 0:
            yield pair(f"utilization.{pool.name}", pool.utilization, run.utilization[pool.name])
    for link in promised.links:
        yield pair(f"links.{link.name}.mean_gbps", link.mean_gbps, run.links[link.name].mean_gbps)


def promise_check(
    metric: str,
    predicted: float,
    executed: float,
    interval: Interval | None,
    n_requests: int,
    settling_requests: int | None = None,
) -> Check:
    """A promise beside its run: kept or broken where the whole confidence interval says so, otherwise undecided.

    A run begins empty, and what is judged grows until the system has settled: before, a figure that is too low says
    nothing, and one that is too high says enough.

    Without an interval, of a single replication, the figure itself is judged.

    >>> sure = Interval(low=2.05, high=2.15)
    >>> beside = promise_check("ttft_mean_s", 2.0, 2.08, None, 1000)
    >>> promise_check("ttft_mean_s", 2.0, 2.1, sure, 1000).decided, beside.holds
    (False, True)
    """
    allowed = TOLERANCES.get(metric) or TOLERANCES[metric.partition(".")[0]]
    low, high = (executed, executed) if interval is None else (interval.low, interval.high)
    found = judgement(predicted, low, high, allowed)
    if found is False and settling_requests is not None and high < predicted:
        found = None
    enough = enough_requests(n_requests, predicted, low, high, allowed), settling_requests
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
        enough_requests=max((n for n in enough if n is not None), default=None) if found is None else None,
    )
