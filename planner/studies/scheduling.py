"""Worth of scheduling: one plan, several patterns of load, and every kind of scheduling on the same requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion, default_load
from planner.executor.systems import system
from planner.jobs import Workers
from planner.notes import Note, note
from planner.progress import MeasuredProgress
from planner.results.plan import Fleet
from planner.results.run import Run, RunRecords
from planner.results.scheduling import LoadPattern, ScheduledRun, ScheduledSeries, SchedulerComparison, SchedulerName
from planner.scenario import LongTermScheduler, Scenario, ShortTermScheduler

KINDS: dict[SchedulerName, tuple[bool, bool]] = {
    "static": (False, False),
    "short-term": (True, False),
    "long-term": (False, True),
    "both": (True, True),
}
"""Whether the short term and the long term are on."""
DAY_S, HOUR_S = 86_400.0, 3_600.0
BURSTS = {"kind": "bursts", "rate_factor": 1.5, "mean_calm_s": 600.0, "mean_burst_s": 120.0}
WHOLE = {"execution.warm_up_fraction": 0.0, "execution.cool_down_fraction": 0.0}
SWING_FRACTION = 0.2
BROWNOUT_FRACTION = 0.85
"""What a link carries in a brownout, of what the plan sends over it in the mean."""
BROWNOUT_BEGINS, BROWNOUT_LASTS = 0.4, 0.125
"""Of the time in which requests arrive; an hour at most."""


@dataclass(frozen=True)
class Pattern:
    """Pattern of load or faults, and the keys that make it happen."""

    name: str
    text: str
    changes: Mapping[str, Any]


def compare_schedulers(
    scenario: Scenario,
    plan: Fleet,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    progress: MeasuredProgress = lambda _, __: None,
    n_workers: int = 1,
) -> tuple[SchedulerComparison, tuple[ScheduledSeries, ...]]:
    """Run a plan under bursts, a day and a brownout, with every kind of scheduling.

    A scenario that states parts of the scheduler, arrivals or faults has its own: parts it does not state have their
    defaults, and what it states of arrivals and faults is a pattern beside the others.

    Args:
        scenario: the question that the plan answers.
        plan: its sizes, threshold and links.
        question: how long, how often and at what load.
        data_dirs: folders in which traces are looked for.
        progress: is told what is going on, and the fraction done.
        n_workers: processes that share the replications; the answer does not depend on it.

    Returns:
        The comparison, and the state of the first replications over time.

    Raises:
        InputError: the plan is not the scenario's, or a trace is missing.
    """
    load = default_load(plan) if question.load is None else question.load
    question = replace(question, load=load)
    patterns = list(patterns_of(scenario, plan, question))
    kinds, notes = _kinds(scenario, plan, data_dirs)
    runs, series = [], []
    for index, (pattern, kind) in enumerate((p, k) for p in patterns for k in kinds):
        progress(f"{pattern.name}, {kind}", index / (len(patterns) * len(kinds)))
        varied = scenario.varied({**pattern.changes, "execution.scheduler": scheduler_keys(scenario, *KINDS[kind])})
        run, kept = simulate(varied, plan, question, data_dirs, keep=True, workers=Workers(n_workers))
        assert kept is not None, "records were asked for"
        threshold = _threshold(varied, plan, data_dirs)
        runs.append(_scheduled(pattern.name, kind, run, threshold))
        series.append(_series(pattern.name, kind, kept, threshold))
    found = SchedulerComparison(
        scenario=scenario.name,
        seed=question.seed,
        load=load,
        n_requests=question.n_requests,
        n_replications=question.n_replications,
        patterns=tuple(LoadPattern(name=p.name, text=p.text) for p in patterns),
        runs=tuple(runs),
        notes=tuple(notes),
    )
    return found, tuple(series)


def patterns_of(scenario: Scenario, plan: Fleet, question: RunQuestion) -> Iterator[Pattern]:
    """Patterns that are tried: nothing in particular, bursts, a day, a brownout; and what the scenario states.

    Turns of sessions arrive in their own way: with them there are no bursts and no day.
    """
    rate = (question.load or 1.0) * plan.throughput_req_per_s
    span_s = question.n_requests / question.n_replications / rate
    usual: dict[str, Any] = {"execution.arrivals": None, "execution.faults": []}
    if scenario.execution.arrivals is not None or scenario.execution.faults:
        yield Pattern("as stated", "arrivals and faults of the scenario", {})
    yield Pattern("steady", "nothing in particular", usual)
    if scenario.execution.sessions is None:
        text = "half as many again for 2 min every 12 min, at random"
        yield Pattern("bursts", text, usual | {"execution.arrivals": dict(BURSTS)})
        day_s = min(DAY_S, span_s)
        day = {"kind": "diurnal", "period_s": day_s, "swing_fraction": SWING_FRACTION}
        text = f"a sinusoid of {day_s / HOUR_S:.3g} h, {SWING_FRACTION:.0%} above and below the mean, all of it counted"
        yield Pattern("diurnal", text, usual | {"execution.arrivals": day} | WHOLE)
    link = next((link for link in plan.links if link.mean_gbps > 0), None)
    if link is not None:
        sent_gbps = link.mean_gbps * (question.load or 1.0)
        left = BROWNOUT_FRACTION * sent_gbps / link.capacity_gbps
        lasts_s = min(BROWNOUT_LASTS * span_s, HOUR_S)
        fault = {"kind": "brownout", "link": link.name, "at_s": BROWNOUT_BEGINS * span_s, "duration_s": lasts_s}
        if left < 1:
            text = f"for {lasts_s / 60:.3g} min {link.name} carries {BROWNOUT_FRACTION:.0%} of what is sent in the mean"
            yield Pattern("brownout", text, usual | {"execution.faults": [fault | {"left_fraction": left}]})


def scheduler_keys(scenario: Scenario, is_short_term: bool, is_long_term: bool) -> dict[str, Any]:
    """The scheduler's keys: parts that are on as the scenario states them, else with their defaults."""
    stated, found = scenario.execution.scheduler, {}
    if is_short_term:
        found["short_term"] = (stated.short_term or ShortTermScheduler()).model_dump()
    if is_long_term:
        found["long_term"] = (stated.long_term or LongTermScheduler()).model_dump()
    return found


def _kinds(scenario: Scenario, plan: Fleet, data_dirs: Sequence[Path]) -> tuple[list[SchedulerName], list[Note]]:
    """Kinds of scheduling that the plan can have, and why it cannot have others."""
    try:
        system(scenario.varied({"execution.scheduler": scheduler_keys(scenario, False, True)}), plan, data_dirs)
    except InputError as error:
        system(scenario.varied({"execution.scheduler": {}}), plan, data_dirs)  # raises what is wrong anyway
        return ["static", "short-term"], [note("no-long-term", f"no long term: the plan {error.problems[0].message}")]
    return list(KINDS), []


def _threshold(scenario: Scenario, plan: Fleet, data_dirs: Sequence[Path]) -> float | None:
    """The plan's threshold where there is one that decides anything [tokens]."""
    (first, *others) = system(scenario, plan, data_dirs).thresholds_tokens.tolist()
    return first if not others and isfinite(first) and first > 0 else None


def _scheduled(pattern: str, kind: SchedulerName, run: Run, threshold: float | None) -> ScheduledRun:
    seen = run.scheduler
    low, mean, high = (1.0, 1.0, 1.0) if seen is None else (seen.factor_low, seen.factor_mean, seen.factor_high)
    same = {*ScheduledRun.model_fields} - {"scheduler", "intervals"}
    return ScheduledRun(
        **run.model_dump(include=same),
        pattern=pattern,
        scheduler=kind,
        n_conversions=0 if seen is None else seen.n_conversions,
        threshold_low_tokens=None if threshold is None else low * threshold,
        threshold_mean_tokens=None if threshold is None else mean * threshold,
        threshold_high_tokens=None if threshold is None else high * threshold,
        mean_instances={name: float(pool.n_instances) for name, pool in run.pools.items()}
        if seen is None
        else seen.mean_instances,
        intervals={name: i for name, i in run.intervals.items() if name.startswith(("ttft_", "throughput"))},
    )


def _series(pattern: str, kind: SchedulerName, kept: RunRecords, threshold: float | None) -> ScheduledSeries:
    return ScheduledSeries(
        pattern=pattern,
        scheduler=kind,
        time_s=kept.samples["time_s"],
        threshold_tokens=None if threshold is None else threshold * kept.samples["threshold_factor"],
        waiting={name: kept.samples[f"{name} waiting"] for name in kept.words["prefill_pool"]},
    )
