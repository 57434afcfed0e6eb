"""A plan run as it is planned, period by period: its promises and predictions beside what came."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from planner.errors import CheckFailedError
from planner.executor.run_question import RunQuestion, default_load
from planner.progress import Progress
from planner.promises.outcomes import STEP, are_undecided, is_decided, promise_outcome, time_promises
from planner.promises.plan_to_run import PlanToRun
from planner.promises.validation import TOLERANCES, Enough, Pair, PlanRuns, execute_plan, pairs, validation_fields
from planner.results.certified import Promise
from planner.results.plan import Fleet, Plan
from planner.results.run import RunFigures
from planner.results.validation import Check
from planner.scenario import Scenario, Slo
from planner.units import percent
from planner.work_clock import spend, work_s

RATE = "throughput_req_per_s"
REQUEST_S, FULL_POOL_S = 3e-6, 0.1
"""What a request takes to be run, and before that to see what a colocated pool does at the most [s]."""
RUN_ON_PART = 0.5
"""Of the time that is left for runs, what one of a settled system may take to decide."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of a plan's runs, and what is judged of them."""

    question: RunQuestion
    """How long and how often each period is run; the load is the plan's own."""
    data_dirs: Sequence[Path] = ()
    progress: Progress = lambda _: None
    sees_rate: bool = True
    """Whether the rate is judged too, by a run with the system kept full."""
    precise_fraction: float = 0.0
    """Half of an interval over its figure, below which a promise is not run on for; 0: it is until it is decided."""
    deadline: float = inf
    """`work_s()` time beyond which nothing is begun."""

    @property
    def is_over(self) -> bool:
        """True if time is up."""
        return work_s() >= self.deadline

    def is_late(self, began: float, run: RunFigures) -> bool:
        """True if what was begun then could not be as long again in the time that is left.

        A run of a settled system leaves time to others, that decide sooner: it may take a part of what was left.
        """
        now = work_s()
        part = 1.0 if run.is_transient else RUN_ON_PART
        return now + (now - began) > began + part * (self.deadline - began)

    def is_enough(self, run: RunFigures, promises: Sequence[Promise]) -> bool:
        """True if one is broken for certain, or all are decided, or as precise as asked for, by a settled system.

        Queues before decode need not have settled for what is promised of the decode step alone.
        """
        if any(p.decided and not p.holds for p in promises):
            return True
        if promises and all(p.decided and p.metric == STEP for p in promises):
            return True
        return not run.is_transient and is_decided(promises, self.precise_fraction)


@dataclass(frozen=True)
class PeriodResult:
    """A period that was run; of a plan for one demand all there is."""

    name: str | None
    load: float
    """Part of its demand at which it was run."""
    promises: tuple[Promise, ...]
    checks: tuple[Check, ...]
    unpredicted: tuple[str, ...]
    n_requests: int
    """Of the run at its load."""
    is_cut_short: bool
    """Whether it is undecided because time was up."""


class PeriodRuns:
    """A plan that was run, in the periods that bind and, where it held in those, in all of them."""

    results: tuple[PeriodResult, ...]

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Of all periods that were run."""
        return tuple(p for one in self.results for p in one.promises)

    @property
    def unkept(self) -> tuple[Promise, ...]:
        """Promises that the runs do not bear out: broken, or undecided."""
        return tuple(p for p in self.promises if not p.holds)

    @property
    def is_kept(self) -> bool:
        """True if it was run, and keeps all promises."""
        return bool(self.results) and not self.unkept

    @property
    def is_undecided(self) -> bool:
        """True if no promise is broken for certain, and one is neither kept nor broken."""
        return are_undecided(self.promises)

    @property
    def is_cut_short(self) -> bool:
        """True if time was up before anything was known of it, or before it was decided."""
        return not self.results or (self.is_undecided and any(one.is_cut_short for one in self.results))


def binding_periods(plan: Plan) -> list[str]:
    """Periods with demand in which a pool or link is busiest, demand is highest or TTFT longest; busiest first."""
    served = [period for period in plan.periods if period.demand_req_per_s > 0]
    rows = [[period.demand_req_per_s for period in served]]
    rows += [list(row) for row in zip(*([pool.utilization for pool in p.pools] for p in served), strict=True)]
    rows += [list(row) for row in zip(*([link.utilization for link in p.links] for p in served), strict=True)]
    rows.append([p.latency.ttft_p90_s or 0.0 for p in served])
    chosen = {row.index(max(row)) for row in rows if max(row, default=0.0) > 0}
    return [served[i].name for i in sorted(chosen, key=lambda i: -served[i].demand_req_per_s)]


def period_results(
    settings: RunSettings,
    stated: Scenario,
    promised: Scenario,
    planned: PlanToRun,
    known: Sequence[PeriodResult] = (),
) -> Iterator[PeriodResult]:
    """Run the periods that bind, and the others where all of these hold, as long as there is time.

    Args:
        stated: the question as it is run: a stricter limit on the time per token makes smaller batches.

    Yields:
        Periods with their promises, and predictions beside what came.

    Raises:
        InputError: a period cannot be run.
        CheckFailedError: faults drop more requests than may be late, or missed of the rate.
    """
    plan = planned.plan
    if not (isinstance(plan, Plan) and plan.periods):
        if not settings.is_over:
            yield _all(settings, stated, promised, planned)
        return
    binding = binding_periods(plan)
    done = {*binding, *(one.name for one in known)}
    others = [p.name for p in plan.periods if p.name not in done and p.demand_req_per_s > 0]
    for names in (binding, others):
        holds = True
        for name in names:
            if settings.is_over:
                return
            one = _of_period(settings, stated, promised, plan, name)
            holds &= all(p.holds for p in one.promises)
            yield one
        if not holds:
            return


def _all(settings: RunSettings, stated: Scenario, promised: Scenario, planned: PlanToRun) -> PeriodResult:
    """A plan for one demand, at its own rate or, where that saturates something, below it."""
    plan, load = planned.plan, default_load(planned.plan)
    settings.progress("running it")
    found = watched(settings, stated, promised, plan, None, load, plan.throughput_req_per_s)
    return found.result(None, load, pairs(plan, planned.at(load), load, found.executed))


def _of_period(settings: RunSettings, stated: Scenario, promised: Scenario, plan: Plan, name: str) -> PeriodResult:
    """A period at its own demand; no period's highest rate is predicted."""
    settings.progress(f"running {name}")
    alone = plan.in_period(plan.period(name))
    found = watched(settings, stated, promised, plan, name, 1.0, alone.throughput_req_per_s)
    return found.result(name, 1.0, pairs(alone, alone, 1.0, PlanRuns(found.executed.run)))


@dataclass(frozen=True)
class WatchedRun:
    """Outcome of a plan's run, or of the run of a period of it."""

    executed: PlanRuns
    promises: tuple[Promise, ...]
    is_cut_short: bool

    def result(self, name: str | None, load: float, found: Iterable[Pair]) -> PeriodResult:
        """The same beside predictions."""
        checks = validation_fields(list(found))
        return PeriodResult(
            name=name,
            load=load,
            promises=tuple(p.model_copy(update={"period": name}) for p in self.promises),
            checks=tuple(check.model_copy(update={"period": name}) for check in checks["checks"]),
            unpredicted=checks["unpredicted"],
            n_requests=self.executed.run.n_requests,
            is_cut_short=self.is_cut_short,
        )


@dataclass
class RunWork:
    """Work of a run that is longer at every look at it, on the clock of work."""

    n_requests: int = 0
    """At the last look."""

    def add(self, run: RunFigures) -> None:
        """Count what came since the last look."""
        spend(REQUEST_S * max(run.n_requests - self.n_requests, 0))
        self.n_requests = run.n_requests


def watched(
    settings: RunSettings,
    stated: Scenario,
    promised: Scenario,
    plan: Fleet,
    name: str | None,
    load: float,
    rate: float,
) -> WatchedRun:
    """Run a plan, or a period of it, until what is promised is decided.

    Args:
        name: of the period; None of a plan for one demand.
        rate: that is promised, where the settings ask for it [1/s].

    Raises:
        InputError: it cannot be run.
        CheckFailedError: faults drop more requests than may be late.
    """
    began = work_s()

    def of_rate(most: RunFigures) -> Promise:
        return promise_outcome(RATE, rate, most.throughput_req_per_s, most.intervals.get(RATE), 1, TOLERANCES[RATE])

    def of_times(run: RunFigures) -> tuple[Promise, ...]:
        return tuple(time_promises(promised, run))

    spend(FULL_POOL_S * sum(pool.role == "colocated" and pool.n_instances > 0 for pool in plan.pools))
    counted, counted_full = RunWork(), RunWork()

    def is_enough(run: RunFigures) -> bool:
        counted.add(run)
        return settings.is_enough(run, of_times(run)) or settings.is_late(began, run)

    def is_rate_enough(most: RunFigures) -> bool:
        counted_full.add(most)
        return settings.is_enough(most, (of_rate(most),)) or settings.is_late(began, most)

    enough = Enough(is_enough, is_rate_enough)
    executed = execute_plan(
        stated,
        plan,
        settings.question,
        load,
        settings.data_dirs,
        period=name,
        enough=enough,
        with_most=settings.sees_rate,
    )
    _check_dropped(promised, name, executed.run)
    times = of_times(executed.run)
    rates = () if executed.most is None else (of_rate(executed.most),)
    is_late = settings.is_late(began, executed.run)
    return WatchedRun(executed, (*rates, *times), is_late and not settings.is_enough(executed.run, times))


def _check_dropped(stated: Scenario, name: str | None, run: RunFigures) -> None:
    """Raises CheckFailedError where faults drop more requests than may be late, or missed of the rate."""
    slos = [slo for slo in map(stated.slo_of, stated.workloads) if slo is not None and slo.ttft_s is not None]
    if stated.objective == "min-ttft":
        slos = slos or [stated.slo or Slo()]
    allowed = max((1 - slo.ttft_percentile / 100 for slo in slos), default=TOLERANCES[RATE])
    if run.n_dropped > allowed * run.n_requests:
        when = "" if name is None else f" in {name}"
        dropped = f"{run.n_dropped:,} of {run.n_requests:,} requests were dropped{when}"
        raise CheckFailedError(f"{stated.name}: no plan holds: {dropped}, more than {percent(allowed)}")
