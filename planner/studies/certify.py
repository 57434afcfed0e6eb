"""A plan that was run before anybody relies on it: tightened until its promise holds in the run, or refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Any

from planner.errors import CheckFailedError, InfeasibleError
from planner.executor import RunQuestion, default_load
from planner.notes import Note, note
from planner.optimizer import (
    Problem,
    Solution,
    at_rate,
    class_plans,
    explained,
    planned_at,
    planning_problem,
    solved,
)
from planner.results import Certified, Fleet, Plan, Promise, Round, RunFigures
from planner.scenario import Scenario, Slo
from planner.studies.certify_network import certified_network
from planner.studies.promises import CLOSE, MOST_ROUNDS, SAFETY, SUPPOSED, Say, promise, supposed
from planner.studies.validation import TOLERANCES, Executed, execute, judged, pairs
from planner.units import MILLI, number, percent


@dataclass(frozen=True)
class Handed:
    """What the optimizer is asked to promise, which is more than is promised."""

    ttft_s: float | None
    tpot_ms: float | None
    demand_req_per_s: float | None
    """Demand that must be served; None where the rate is sought [1/s]."""
    claimed_req_per_s: float | None = None
    """Most that is claimed where the rate is sought; None: what the search finds [1/s]."""


@dataclass(frozen=True)
class Tried:
    """A plan that was run."""

    handed: Handed
    searched: Problem
    stated: Problem
    """The question with the disciplines and the promise that it states."""
    solution: Solution
    fleet: Fleet
    load: float
    executed: Executed
    promises: tuple[Promise, ...]

    @property
    def broken(self) -> tuple[Promise, ...]:
        """Promises that the run does not bear out."""
        return tuple(p for p in self.promises if not p.holds)


@dataclass
class Search:
    """Rounds of search and run, and what they have in common."""

    scenario: Scenario
    question: RunQuestion
    data_dirs: Sequence[Path]
    time_limit_s: float
    say: Say
    tried: list[Tried] = field(default_factory=list)
    too_strict_s: float | None = None
    """Promise on TTFT that no plan keeps by the optimizer's own account [s]."""
    why: str = ""
    """What it says of that."""


def certified_plan(
    scenario: Scenario,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    say: Say = lambda _: None,
) -> Plan:
    """The plan of a scenario that keeps its promises when it is run request by request.

    The question is planned as asked, and run at its operating point and with the system kept full. Where the promised
    percentile of TTFT, a limit on the decode step or the rate is not kept, the optimizer is handed a stricter promise,
    or a lower rate is claimed, by as much as the run shows; then once more, MOST_ROUNDS times at most. Between a
    promise that was too lax and one that is far stricter, a middle one is tried.

    Args:
        scenario: the question; of many sites, models or periods, it is run period by period.
        question: how long and how often each plan is run; the load is the plan's own.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        say: is told what is going on.

    Returns:
        The plan, with `certified`.

    Raises:
        InputError: the scenario cannot be run.
        InfeasibleError, UndecidedError: there is no plan as asked, run or not.
        CheckFailedError: no plan held.
    """
    if not planning_problem(scenario, data_dirs).is_routed:
        return certified_network(scenario, question, data_dirs, time_limit_s, say)
    search = Search(scenario, question, data_dirs, time_limit_s, say)
    handed = _as_asked(scenario)
    for _ in range(MOST_ROUNDS):
        try:
            search.tried.append(_tried(search, handed))
        except InfeasibleError as error:
            if not search.tried:
                raise
            search.too_strict_s, search.why = handed.ttft_s, f"\na stricter promise: {error}"
        following = _next(search)
        if following is None:
            break
        handed = following
    chosen = _best(search.tried)
    if chosen is None:
        raise CheckFailedError(_no_plan(search))
    return _plan(search, chosen)


def _as_asked(scenario: Scenario) -> Handed:
    slo, seeks_rate = scenario.slo, scenario.objective == "max-throughput"
    promised_s = None if slo is None or scenario.objective == "min-ttft" else slo.ttft_s
    limit_ms = None if slo is None else slo.tpot_ms
    return Handed(promised_s, limit_ms, None if seeks_rate else scenario.demand_req_per_s)


def _tried(search: Search, handed: Handed) -> Tried:
    """Plan and run."""
    search.say(f"{search.scenario.name}: planning, round {len(search.tried) + 1}")
    stated = _stated(search, handed)
    last = search.tried[-1] if search.tried else None
    if last is not None and replace(last.handed, claimed_req_per_s=handed.claimed_req_per_s) == handed:
        searched, solution = last.searched, last.solution
    else:
        searched = planning_problem(_handed_over(stated.scenario, handed), search.data_dirs, stated.classes)
        solution = solved(searched, search.time_limit_s)
    rate = _claimed_req_per_s(search.scenario, handed, planned_at(searched, solution))
    fleet = at_rate(stated, solution, rate)
    load = default_load(fleet)
    search.say(f"{search.scenario.name}: running at {number(load * rate)} req/s, round {len(search.tried) + 1}")
    executed = execute(stated.scenario, fleet, search.question, load, search.data_dirs)
    _check_dropped(search.scenario, executed.run)
    promises = tuple(_promises(search.scenario, solution, handed, fleet, executed))
    return Tried(handed, searched, stated, solution, fleet, load, executed, promises)


def _check_dropped(scenario: Scenario, run: RunFigures) -> None:
    """Raises CheckFailedError where faults drop more requests than may be late, or missed of the rate."""
    late = TOLERANCES["throughput_req_per_s"]
    if _promises_time(scenario):
        late = 1 - (scenario.slo or Slo()).ttft_percentile / 100
    if run.n_dropped > late * run.n_requests:
        dropped = f"{run.n_dropped:,} of {run.n_requests:,} requests were dropped"
        raise CheckFailedError(f"{scenario.name}: no plan holds: {dropped}, more than {percent(late)}")


def _stated(search: Search, handed: Handed) -> Problem:
    """The system as it is run: a stricter limit on the decode step makes smaller batches."""
    scenario, asked = search.scenario, search.scenario.slo
    if asked is not None and handed.tpot_ms != asked.tpot_ms:
        scenario = scenario.varied({"slo.tpot_ms": handed.tpot_ms})
    classes = search.tried[0].stated.classes if search.tried else ()
    return planning_problem(scenario, search.data_dirs, classes)


def _handed_over(scenario: Scenario, handed: Handed) -> Scenario:
    """The question that the optimizer is asked."""
    changes: dict[str, Any] = {}
    if _promises_time(scenario):
        changes |= supposed(scenario)
    seeks_least = scenario.objective == "min-ttft"
    if not seeks_least and scenario.slo is not None and handed.ttft_s not in (None, scenario.slo.ttft_s):
        changes["slo.ttft_s"] = handed.ttft_s
    if handed.demand_req_per_s is not None and handed.demand_req_per_s != scenario.demand_req_per_s:
        changes["demand_req_per_s"] = handed.demand_req_per_s
    return scenario.varied(changes) if changes else scenario


def _promises_time(scenario: Scenario) -> bool:
    return scenario.objective == "min-ttft" or (scenario.slo is not None and scenario.slo.ttft_s is not None)


def _claimed_req_per_s(scenario: Scenario, handed: Handed, found: Fleet) -> float:
    """The rate that the plan claims: a demand as stated, else what the search found, as far as runs bore it out."""
    if handed.demand_req_per_s is not None and scenario.demand_req_per_s is not None:
        return scenario.demand_req_per_s
    if handed.claimed_req_per_s is None:
        return found.throughput_req_per_s
    return min(found.throughput_req_per_s, handed.claimed_req_per_s)


def _promises(
    scenario: Scenario, solution: Solution, handed: Handed, fleet: Fleet, executed: Executed
) -> Iterator[Promise]:
    """What is promised beside what came of it."""
    run, slo = executed.run, scenario.slo
    most = executed.most or run
    name = "throughput_req_per_s"
    allowed = TOLERANCES[name]
    yield promise(name, fleet.throughput_req_per_s, most.throughput_req_per_s, most.intervals.get(name), 1, allowed)
    if _promises_time(scenario) and run.ttft_promised_s is not None:
        least_s = handed.ttft_s if handed.ttft_s is not None else solution.objective
        limit_s = least_s if scenario.objective == "min-ttft" or slo is None or slo.ttft_s is None else slo.ttft_s
        percentile = (slo or Slo()).ttft_percentile
        sure = run.intervals.get("ttft_promised_s")
        yield promise(f"ttft_p{percentile:g}_s", limit_s, run.ttft_promised_s, sure, -1, 0.0)
    if slo is not None and slo.tpot_ms is not None and run.tpot_mean_s is not None:
        sure, allowed = run.intervals.get("tpot_mean_s"), TOLERANCES["tpot_mean_s"]
        yield promise("tpot_mean_s", slo.tpot_ms * MILLI, run.tpot_mean_s, sure, -1, allowed)


def _next(search: Search) -> Handed | None:
    """What to hand over next; None when the plan is found, or none can be."""
    last, held = search.tried[-1], [t for t in search.tried if not t.broken]
    if held:
        kept, lax = max(t.handed.ttft_s or 0.0 for t in held), _too_lax(search.tried)
        return None if lax is None or kept >= CLOSE * lax else replace(held[-1].handed, ttft_s=sqrt(kept * lax))
    tightened, least_s = _tightened(last), search.too_strict_s
    if not search.why:
        return tightened
    if least_s is None or tightened.ttft_s is None or last.handed.ttft_s is None:
        return None
    if tightened.ttft_s > least_s / CLOSE:
        return tightened
    middle_s = sqrt(least_s * last.handed.ttft_s)
    return None if least_s >= CLOSE * last.handed.ttft_s else replace(last.handed, ttft_s=middle_s)


def _too_lax(tried: Sequence[Tried]) -> float | None:
    """The strictest promise on TTFT that was not strict enough; None where none was too lax."""
    found = [t.handed.ttft_s for t in tried if t.handed.ttft_s and any(p.metric.startswith("ttft_") for p in t.broken)]
    return min(found, default=None)


def _tightened(last: Tried) -> Handed:
    """What a broken promise asks for: each by the part that the run missed it by, and a little more."""
    handed = last.handed
    for broken in last.broken:
        low, high = broken.ci_low or broken.executed, broken.ci_high or broken.executed
        if broken.metric == "throughput_req_per_s" and handed.demand_req_per_s is not None:
            factor = broken.limit / low / SAFETY
            handed = replace(handed, demand_req_per_s=handed.demand_req_per_s * factor)
        elif broken.metric == "throughput_req_per_s":
            handed = replace(handed, claimed_req_per_s=low * SAFETY)
        elif broken.metric == "tpot_mean_s" and handed.tpot_ms is not None:
            handed = replace(handed, tpot_ms=handed.tpot_ms * broken.limit / high * SAFETY)
        elif handed.ttft_s is None:  # the least was sought, and is longer than predicted
            handed = replace(handed, ttft_s=high / SAFETY)
        else:
            handed = replace(handed, ttft_s=handed.ttft_s * broken.limit / high * SAFETY)
    return handed


def _best(tried: Sequence[Tried]) -> Tried | None:
    """The plan that holds with the least tightening."""
    held = [t for t in tried if not t.broken]
    return max(held, key=lambda t: t.handed.ttft_s or 0.0, default=None)


def _no_plan(search: Search) -> str:
    """What to say where nothing held."""
    last = search.tried[-1]
    lines = [
        f"  - {p.metric}: {number(p.limit, 4)} promised, {number(p.executed, 4)} executed"
        + ("" if p.ci_low is None else f" ({number(p.ci_low, 4)} to {number(p.ci_high, 4)})")
        for p in last.broken
    ]
    head = f"{search.scenario.name}: none of {len(search.tried)} plans that were run holds; of the last one:\n"
    return head + "\n".join(lines) + search.why


def _plan(search: Search, chosen: Tried) -> Plan:
    """The plan in full, with what was certified of it."""
    search.say(f"{search.scenario.name}: comparing with other fleets")
    plan = explained(chosen.searched, chosen.solution, search.time_limit_s)
    fields = {name: getattr(chosen.fleet, name) for name in Fleet.model_fields}
    stated = search.scenario.slo and search.scenario.slo.model_dump(exclude_none=True)
    by_class = class_plans(chosen.stated, chosen.solution, chosen.fleet.throughput_req_per_s)
    classes = (c.model_copy(update={"slo": stated}) for c in by_class)
    certified = _certified(search, chosen)
    notes = (*_notes(search.scenario, chosen), *(note for note in plan.notes if not note.startswith("the demand of ")))
    update = {**fields, "classes": tuple(classes), "certified": certified, "notes": notes}
    return plan.model_copy(update=update)


def _certified(search: Search, chosen: Tried) -> Certified:
    rate, load = chosen.fleet.throughput_req_per_s, chosen.load
    predicted = at_rate(chosen.stated, chosen.solution, load * rate)
    found = judged(list(pairs(chosen.fleet, predicted, load, chosen.executed)), search.question.n_requests)
    return Certified(
        req_per_s=rate,
        load=load,
        n_requests=search.question.n_requests,
        n_replications=search.question.n_replications,
        seed=search.question.seed,
        promises=chosen.promises,
        checks=found["checks"],
        unpredicted=found["unpredicted"],
        rounds=tuple(map(_round, search.tried)),
        chosen=search.tried.index(chosen),
    )


def _round(tried: Tried) -> Round:
    return Round(
        ttft_s=tried.handed.ttft_s,
        tpot_ms=tried.handed.tpot_ms,
        demand_req_per_s=tried.handed.demand_req_per_s,
        req_per_s=tried.fleet.throughput_req_per_s,
        broken=tuple(p.metric for p in tried.broken),
    )


def _notes(scenario: Scenario, chosen: Tried) -> Iterator[Note]:
    """What the reader must know of a plan that was searched for under another promise than its own."""
    if not chosen.stated.has_queueing_model and _promises_time(scenario):
        yield SUPPOSED
    if chosen.searched.scenario.slo != scenario.slo:
        yield note(
            "stricter-promise", "gap, bound and the other fleets are those of the promise that the optimizer was handed"
        )
