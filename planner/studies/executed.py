"""The plan of a report, run request by request beside what the paper's rules and the planner's own promise of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.comparison import Planned
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.progress import Progress
from planner.promises.validation import TOLERANCES
from planner.results.executed import Executed, ExecutedFigure, ExecutedLoad, TtftByLoad
from planner.results.plan import Plan
from planner.results.run import Interval, Run
from planner.results.scheduling import ScheduledSeries, SchedulerComparison
from planner.scenario import ReportedRuns
from planner.studies.scheduling import compare_schedulers
from planner.units import rounded

RATE_DIGITS = 4
"""Significant digits of rates that are run: as many as a report prints."""
CURVE_LOADS = np.linspace(0.05, 0.95, 37)
"""Where queueing is asked, for the figure."""
MEAN, P90, RATE = "ttft_mean_s", "ttft_p90_s", "throughput_req_per_s"


def executed_plan(
    problem: Problem,
    solution: Solution,
    plan: Plan,
    capacities: tuple[float, float | None],
    asked: ReportedRuns,
    data_dirs: Sequence[Path] = (),
    progress: Progress = lambda _: None,
) -> Executed:
    """Run a plan at parts of its highest rate and full, and compare kinds of scheduling where that is asked for.

    What is run is the plan as it is printed: thresholds in whole tokens, rates to RATE_DIGITS digits. The last digits
    of a search depend on the machine, and from other digits another run would grow.

    Args:
        capacities: the plan's highest rate, and what the paper's rule promises of its own best plan for the fleet,
            None where that is not known [1/s].

    Raises:
        InputError: the plan cannot be run.
    """
    highest, by_paper = capacities
    printed = as_printed(plan)
    question = RunQuestion(asked.n_requests, asked.seed, None, asked.n_replications)

    def run(load: float | None) -> Run:
        progress("running full" if load is None else f"running at {load:g}")
        rate = rounded((load or 1.0) * highest, RATE_DIGITS)
        at = replace(question, load=rate / printed.throughput_req_per_s, is_full=load is None)
        return simulate(problem.scenario, printed, at, data_dirs)[0]

    most = run(None)
    loads = tuple(_at_load(problem, solution, load, run(load)) for load in asked.loads)
    found, series = _scheduling(problem, printed, asked, highest, data_dirs, progress)
    return Executed(
        seed=asked.seed,
        n_requests=asked.n_requests,
        n_replications=asked.n_replications,
        loads=loads,
        max_throughput_req_per_s=_figure(RATE, by_paper, highest, most.throughput_req_per_s, most.intervals.get(RATE)),
        predicted_ttft=_predicted(problem, solution, highest),
        schedulers=found,
        scheduler_series=series,
    )


def as_printed(plan: Plan) -> Plan:
    """A plan with the digits that a report prints of what a run depends on."""

    def whole(tokens: float | None) -> float | None:
        return None if tokens is None else float(round(tokens))

    classes = (c.model_copy(update={"threshold_tokens": whole(c.threshold_tokens)}) for c in plan.classes)
    links = (k.model_copy(update={"mean_gbps": rounded(k.mean_gbps, RATE_DIGITS)}) for k in plan.links)
    pools = (p.model_copy(update={"offered_req_per_s": rounded(p.offered_req_per_s, RATE_DIGITS)}) for p in plan.pools)
    update = {
        "threshold_tokens": whole(plan.threshold_tokens),
        "throughput_req_per_s": rounded(plan.throughput_req_per_s, RATE_DIGITS),
        "classes": tuple(classes),
        "links": tuple(links),
        "pools": tuple(pools),
    }
    return plan.model_copy(update=update)


def _at_load(problem: Problem, solution: Solution, load: float, run: Run) -> ExecutedLoad:
    assert run.offered_req_per_s is not None, "a run at a load has an offered rate"
    promised = Planned(problem, solution).at(run.offered_req_per_s)
    latency, sure = promised.latency, run.intervals
    links = {
        link.name: _figure(
            "links",
            None,
            link.mean_gbps,
            run.links[link.name].mean_gbps,
            sure.get(f"links.{link.name}.mean_gbps"),
        )
        for link in promised.links
        if link.mean_gbps > 0
    }
    return ExecutedLoad(
        load=load,
        offered_req_per_s=run.offered_req_per_s,
        ttft_mean_s=_figure(MEAN, latency.ttft_unloaded_mean_s, latency.ttft_mean_s, run.ttft_mean_s, sure.get(MEAN)),
        ttft_p90_s=_figure(P90, latency.ttft_unloaded_p90_s, latency.ttft_p90_s, run.ttft_p90_s, sure.get(P90)),
        links_gbps=links,
    )


def _figure(
    metric: str, by_paper: float | None, predicted: float | None, executed: float, sure: Interval | None
) -> ExecutedFigure:
    return ExecutedFigure(
        by_paper=by_paper,
        predicted=predicted,
        executed=executed,
        ci_low=None if sure is None else sure.low,
        ci_high=None if sure is None else sure.high,
        allowed=TOLERANCES[metric],
    )


def _predicted(problem: Problem, solution: Solution, highest_req_per_s: float) -> TtftByLoad:
    """TTFT over the load, as far as queueing knows it."""
    known = [
        (float(load), found.mean_s, found.quantile_s(0.9))
        for load in CURVE_LOADS
        if (found := Planned(problem, solution).ttft(float(load) * highest_req_per_s)) is not None
    ]
    loads, mean_s, p90_s = zip(*known, strict=True) if known else ((), (), ())
    return TtftByLoad(loads=loads, mean_s=mean_s, p90_s=p90_s)


def _scheduling(
    problem: Problem,
    printed: Plan,
    asked: ReportedRuns,
    highest_req_per_s: float,
    data_dirs: Sequence[Path],
    progress: Progress,
) -> tuple[SchedulerComparison | None, tuple[ScheduledSeries, ...]]:
    if asked.scheduler_load is None:
        return None, ()
    rate = rounded(asked.scheduler_load * highest_req_per_s, RATE_DIGITS)
    question = RunQuestion(asked.n_requests, asked.seed, rate / printed.throughput_req_per_s, asked.n_replications)
    return compare_schedulers(problem.scenario, printed, question, data_dirs, lambda text, _: progress(text))
