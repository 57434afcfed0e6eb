"""The promise of a plan with a colocated pool, run before it is printed: tightened where it is not kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import CheckFailedError, InfeasibleError, InputError, UndecidedError
from planner.executor import RunQuestion
from planner.notes import note
from planner.optimizer.infeasibility import Trials
from planner.optimizer.time_limit import TimeLimit
from planner.optimizer.together.plan import together_explained, together_found, together_plan
from planner.optimizer.together.planned import Together
from planner.results import Fleet, Plan, PoolPlan, SloRun
from planner.scenario import Scenario, Slo
from planner.studies.handed import Handed, as_asked, between, roomier, searched, stated, tightened
from planner.studies.period_runs import Judge, Ran, Seen, seen_periods
from planner.studies.planned import planned_together
from planner.studies.promises import INSIDE, NOT_ASKED, STEP, TIME_UP, Say, bounded_as_asked
from planner.studies.slo_runs import beside_promises, cheaper_undecided, decided_of, step_run
from planner.studies.ways_out import trials
from planner.units import MILLI

MOST_ROUNDS = 6
SEARCH_PART, RUN_PART = 0.3, 0.5
"""Of the time that is left: what one search may take, and what all runs and the searches between them may."""
ALL_WAITS: Mapping[str, float] = {}
"""TTFT without waits, by class, as strictness takes it: none is known, as passes that others fill have no such part."""


@dataclass(frozen=True)
class Tried(Ran):
    """A plan, and what came of it."""

    handed: Handed
    found: Together
    """What the optimizer found for what it was handed."""
    claimed: Fleet
    """The same fleet at the rate that it is for."""
    seen: tuple[Seen, ...] = ()

    @property
    def plan(self) -> Fleet:
        """The plan at its rate."""
        return self.claimed


def kept_together(
    scenario: Scenario, question: RunQuestion | None, data_dirs: Sequence[Path], time_limit_s: float, say: Say
) -> Plan:
    """The plan of a scenario with a colocated pool that promises times, with what a run made of the promise.

    The plan is run at its rate. Where a promise is not kept, the optimizer is handed a stricter one, by as much as the
    run shows, and a middle one once that was enough; the best that is kept is printed.

    Args:
        scenario: the question.
        question: how long a plan is run; None: it is only predicted.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take.
        say: is told what is going on.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    limit = TimeLimit.of(time_limit_s)
    say(f"{scenario.name}: planning")
    if question is None:
        explained = together_plan(scenario, data_dirs, limit.left_s)
        one = Tried(as_asked(scenario), explained.found, explained.found.fleet)
        return _told(scenario, explained.plan, one, 0, None, NOT_ASKED)
    until = TimeLimit.of(limit.part_s(RUN_PART)).deadline
    judge = Judge(question, data_dirs, say, sees_rate=False, deadline=until)
    runs = trials(question, data_dirs, say, limit)
    first = _planned(scenario, as_asked(scenario), judge, limit.part_s(SEARCH_PART), is_explained=True, runs=runs)
    tried, because = [first], None
    try:
        tried = list(_rounds(scenario, tried[0], judge, limit.part_s(SEARCH_PART)))
        tried += _sizes_between(scenario, tried, judge, limit.part_s(SEARCH_PART))
    except (InputError, CheckFailedError) as error:
        because = str(error).splitlines()[0]
    undecided = min((one for one in tried if one.is_undecided), key=_badness, default=None)
    chosen = best_together(tried) or undecided or tried[0]
    if because is None and not chosen.is_kept:
        because = _why_not(tried, chosen)
    say(f"{scenario.name}: comparing with other fleets")
    plan = told_together(scenario, chosen, tried[0], limit.left_s)
    told = _told(scenario, plan, chosen, len(tried), question.seed, because)
    if scenario.objective != "min-cost":
        return told
    may_do = cheaper_undecided(tried, [_badness(one) for one in tried], _badness(chosen))
    return told.model_copy(update={"notes": (*may_do, *told.notes)})


def rounds_together(
    scenario: Scenario,
    judge: Judge,
    time_limit_s: float,
    *,
    is_explained: bool = True,
    most_rounds: int = MOST_ROUNDS,
) -> list[Tried]:
    """Plans that were run, each handed a stricter promise where the one before broke its own.

    Args:
        scenario: the question.
        judge: how each is run, and what is judged.
        time_limit_s: seconds that the search for one plan may take.
        is_explained: whether, where there is no plan as asked, what would do is looked for.
        most_rounds: plans that are run.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    judge.say(f"{scenario.name}: planning")
    first = _planned(scenario, as_asked(scenario), judge, time_limit_s, is_explained=is_explained)
    return list(_rounds(scenario, first, judge, time_limit_s, most_rounds))


def best_together(tried: Sequence[Tried]) -> Tried | None:
    """The best of the plans that keep everything; None where none does."""
    return min((one for one in tried if one.is_kept), key=_badness, default=None)


def told_together(scenario: Scenario, chosen: Tried, first: Tried, time_limit_s: float) -> Plan:
    """A plan that was run, in full, with what it is compared with, and the bound of what was planned as asked."""
    plan = _as_promised(scenario, together_explained(chosen.found, time_limit_s).plan, chosen)
    is_first = chosen.found.question.scenario == first.found.question.scenario
    return plan if is_first else bounded_as_asked(plan, first.found.bound)


def _rounds(
    scenario: Scenario, first: Tried, judge: Judge, search_s: float, most: int = MOST_ROUNDS
) -> Iterator[Tried]:
    """Plans that were run: the first, and where it breaks its promise those of stricter ones, until time is up."""
    lax = _run(scenario, first, judge)
    yield lax
    strict: Handed | None = None
    n, handed = 1, tightened(scenario, lax.handed, lax.unkept, ALL_WAITS) if lax.unkept else None
    while handed is not None and n < most and not judge.is_over:
        try:
            one = _run(scenario, _planned(scenario, handed, judge, search_s), judge)
        except (InfeasibleError, UndecidedError):
            strict = handed
        else:
            yield one
            n += 1
            strict, lax = (strict, one) if one.unkept else (handed, lax)
        handed = _next(scenario, lax, strict)


def _sizes_between(scenario: Scenario, tried: Sequence[Tried], judge: Judge, search_s: float) -> Iterator[Tried]:
    """Fleets of colocated instances alone between one that breaks its promise and one that keeps it, by halving.

    A stricter promise is a rough way to a larger fleet: the model of waits turns little of it into many instances.
    """
    kept, key = best_together(tried), scenario.colocated_pool or ""
    if kept is None or scenario.objective != "min-cost" or len(scenario.pools) > 1:
        return
    enough = kept.claimed.pools[0]
    broken = [one.claimed.pools[0] for one in tried if one.unkept]
    alike = [pool.n_instances for pool in broken if _is_alike(pool, enough) and pool.n_instances < enough.n_instances]
    low, high = max(alike, default=enough.n_instances), enough.n_instances
    while high - low > 1 and not judge.is_over:
        middle = (low + high) // 2
        sized = scenario.varied({f"pools.{key}.n_instances": middle})
        try:
            one = _run(scenario, _planned(sized, as_asked(scenario), judge, search_s), judge)
        except (InfeasibleError, UndecidedError):
            low = middle
            continue
        yield one
        low, high = (low, middle) if one.is_kept else (middle, high)


def _is_alike(one: PoolPlan, other: PoolPlan) -> bool:
    """Whether instances of both run in the same way."""
    fields = ("accelerators_per_instance", "layout", "tokens_per_pass")
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _next(scenario: Scenario, lax: Tried, strict: Handed | None) -> Handed | None:
    """What to hand over next; None where nothing is left between what was too lax and what was strict enough."""
    if strict is None:
        return tightened(scenario, lax.handed, lax.unkept, ALL_WAITS)
    middle = between(lax.handed, strict)
    return roomier(scenario, lax.handed) if middle is None and lax.handed.headroom >= strict.headroom else middle


def _planned(
    scenario: Scenario,
    handed: Handed,
    judge: Judge,
    search_s: float,
    *,
    is_explained: bool = False,
    runs: Trials | None = None,
) -> Tried:
    found = together_found(searched(scenario, handed), judge.data_dirs, search_s, (), is_explained, runs)
    rate = found.req_per_s * handed.claimed_fraction / handed.demand_factor
    return Tried(handed, found, found.at(rate).fleet())


def _run(scenario: Scenario, one: Tried, judge: Judge) -> Tried:
    """A plan with its run; without one where time was up before it began."""
    planned = replace(planned_together(one.found), plan=one.claimed)
    seen = seen_periods(judge, stated(scenario, one.handed), planned)
    return replace(one, seen=tuple(seen))


def _why_not(tried: Sequence[Tried], chosen: Tried) -> str:
    """Why the plan that is printed is not known to keep its promise."""
    if chosen.is_undecided and not chosen.is_cut_short:
        return INSIDE
    return TIME_UP if chosen.is_cut_short else f"none of {len(tried)} plans that were run keeps it"


def _badness(one: Tried) -> float:
    """What it costs, or how little it serves."""
    if one.found.question.scenario.objective == "max-throughput":
        return -one.claimed.throughput_req_per_s
    return one.claimed.cost.usd_per_hour or float(one.claimed.n_accelerators)


def _as_promised(scenario: Scenario, plan: Plan, chosen: Tried) -> Plan:
    """A plan in full at what it was run at, with the promises that the scenario makes."""
    if chosen.handed == as_asked(scenario):
        return plan
    fields = {name: getattr(chosen.claimed, name) for name in Fleet.model_fields}
    slos = {name: slo.model_dump(exclude_none=True) for name in scenario.workloads if (slo := scenario.slo_of(name))}
    classes = tuple(c.model_copy(update={"slo": slos.get(c.name)}) for c in plan.classes)
    stricter = note(
        "stricter-promise",
        "the other fleets are those of a stricter promise: no run bore out a plan of the stated one",
    )
    return plan.model_copy(update={**fields, "classes": classes, "notes": (stricter, *plan.notes)})


def _told(scenario: Scenario, plan: Plan, one: Tried, n_plans: int, seed: int | None, because: str | None) -> Plan:
    """A plan with what its run made of the promise, and of that to each class."""
    found = {}
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        if slo is not None and slo.promises_something:
            own = _slo_run(one, name if name in scenario.classes else None, slo)
            extra = {"n_plans": n_plans, "because": because, "seed": seed if own.basis == "executed" else None}
            found[name] = own.model_copy(update=extra)
    return beside_promises(plan, found, next(iter(found.values()), None))


def _slo_run(one: Tried, request_class: str | None, slo: Slo) -> SloRun:
    """The promise to a class beside prediction and run."""
    mine = [p for p in one.promises if p.request_class == request_class]
    ttft, step = (next((p for p in mine if (p.metric == STEP) == is_step), None) for is_step in (False, True))
    predicted = None
    if slo.ttft_s is not None and one.claimed.latency.ttft_mean_s is not None:
        predicted = one.found.ttft(one.claimed.throughput_req_per_s)
    holds, decided = decided_of(mine, is_run=bool(one.seen))
    return SloRun(
        basis="executed" if one.seen else "predicted",
        holds=holds,
        decided=decided,
        requests=max((period.n_requests for period in one.seen), default=0),
        percentile=slo.ttft_percentile,
        promised_s=slo.ttft_s,
        predicted_s=None if predicted is None else predicted.quantile_s(slo.ttft_percentile / 100),
        executed_s=None if ttft is None else ttft.executed,
        ci_low_s=None if ttft is None else ttft.ci_low,
        ci_high_s=None if ttft is None else ttft.ci_high,
        tpot=None if slo.tpot_ms is None else step_run(slo.tpot_ms * MILLI, one.claimed.latency.tpot_mean_s, step),
        request_class=request_class,
    )
