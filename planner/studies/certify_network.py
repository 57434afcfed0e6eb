"""A plan of many sites, models or periods, run period by period and tightened until every class's promise holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Any

from planner.errors import CheckFailedError, InfeasibleError, UndecidedError
from planner.executor import RunQuestion
from planner.notes import Note, note
from planner.optimizer import (
    Solution,
    explained,
    planning_problem,
    sketched,
    solved,
)
from planner.results import Certified, Fleet, Plan, Promise, Round
from planner.scenario import Scenario
from planner.studies.period_runs import RATE, STEP, Seen, seen_periods
from planner.studies.promises import CLOSE, MOST_ROUNDS, SAFETY, SUPPOSED, Say, supposed
from planner.units import number

AS_GOOD = 1e-3
"""Relative difference to the plan as asked up to which a plan that holds is not improved upon."""
MOST_TOLD = 8
"""Broken promises that a message names."""


@dataclass(frozen=True)
class Handed:
    """What the optimizer is asked to promise, which is more than is promised."""

    ttft_s: Mapping[str, float]
    """By class; of those without a promise of their own, where the least TTFT is sought, what is claimed."""
    tpot_ms: Mapping[str, float]
    demand_factor: float = 1.0
    """Demand over the demand that is asked for."""
    claimed_fraction: float = 1.0
    """Where the rate is sought, what is claimed of that which was found."""


@dataclass(frozen=True)
class Tried:
    """A plan that was run in the periods that bind and, where it held in those, in all of them."""

    handed: Handed
    searched: Scenario
    """The question that the optimizer was asked."""
    found: Solution
    plan: Plan
    """At the demand and with the promises that are asked for."""
    seen: tuple[Seen, ...]

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Of all periods that were run."""
        return tuple(p for one in self.seen for p in one.promises)

    @property
    def broken(self) -> tuple[Promise, ...]:
        """Promises that the runs do not bear out."""
        return tuple(p for p in self.promises if not p.holds)


@dataclass
class Search:
    """Rounds of search and runs, and what they have in common."""

    scenario: Scenario
    question: RunQuestion
    data_dirs: Sequence[Path]
    time_limit_s: float
    say: Say
    tried: list[Tried] = field(default_factory=list)
    strict: Handed | None = None
    """What was strict enough, or more than any plan was found to keep by the optimizer's own account."""
    why: str = ""
    """What it says of that."""

    @property
    def seeks_least(self) -> bool:
        """Whether the objective is the least TTFT."""
        return self.scenario.objective == "min-ttft"


def certified_network(
    scenario: Scenario, question: RunQuestion, data_dirs: Sequence[Path], time_limit_s: float, say: Say
) -> Plan:
    """The plan of a network that keeps its promises when every period is run request by request.

    The periods that bind are run first: those in which some pool or link is busiest, or requests are slowest. Where a
    class breaks its promise on TTFT or on the decode step there, the optimizer is handed a stricter one for that class;
    where a period is not served, a higher demand, or a lower rate is claimed. A plan that holds in those is run in all.
    Between promises that were too lax and far stricter ones, middle ones are tried; the best plan that holds is taken.

    Args:
        scenario: the question.
        question: how long and how often each period is run; the load is the period's own.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        say: is told what is going on.

    Returns:
        The plan, with `certified`.

    Raises:
        InputError: the plan cannot be run.
        InfeasibleError, UndecidedError: there is no plan as asked, run or not.
        CheckFailedError: no plan held.
    """
    search = Search(scenario, question, data_dirs, time_limit_s, say)
    handed: Handed | None = _as_asked(scenario)
    for _ in range(MOST_ROUNDS):
        if handed is None:
            break
        try:
            search.tried.append(_tried(search, handed))
        except (InfeasibleError, UndecidedError) as error:
            if not search.tried:
                raise
            search.strict, search.why = handed, f"\na stricter promise: {error}"
        else:
            search.strict = search.strict if search.tried[-1].broken else handed
        handed = _next(search)
    held = [tried for tried in search.tried if not tried.broken]
    if not held:
        raise CheckFailedError(_no_plan(search))
    return _plan(search, min(held, key=_badness))


def _badness(tried: Tried) -> float:
    """What a plan costs, or how little it serves."""
    if tried.searched.objective == "max-throughput":
        return -tried.plan.throughput_req_per_s
    return tried.plan.cost.usd_per_hour or float(tried.plan.n_accelerators)


def _is_as_good(held: Tried, asked: Tried) -> bool:
    return _badness(held) - _badness(asked) <= AS_GOOD * abs(_badness(asked))


def _as_asked(scenario: Scenario) -> Handed:
    promised = {name: slo for name in scenario.workloads if (slo := scenario.slo_of(name)) is not None}
    return Handed(
        {name: slo.ttft_s for name, slo in promised.items() if slo.ttft_s is not None},
        {name: slo.tpot_ms for name, slo in promised.items() if slo.tpot_ms is not None},
    )


def _tried(search: Search, handed: Handed) -> Tried:
    """Plan, and run the periods that bind; all of them where those hold."""
    n = len(search.tried) + 1
    search.say(f"{search.scenario.name}: planning, round {n}")
    searched, found = _found(search, handed)
    if search.seeks_least and not search.tried:
        free = {name: found.objective for name in search.scenario.workloads if name not in handed.ttft_s}
        handed = replace(handed, ttft_s={**handed.ttft_s, **free})
    stated = _stated(search, handed)
    problem = planning_problem(_modelled(stated), search.data_dirs)
    plan = sketched(problem, _served(handed, found))
    if _modelled(stated) != stated:
        plan = _without_ttft(plan)

    def tell(what: str) -> None:
        search.say(f"{search.scenario.name}: {what}, round {n}")

    seen = seen_periods(stated, plan, search.question, search.data_dirs, tell)
    return Tried(handed, searched, found, plan, tuple(seen))


def _found(search: Search, handed: Handed) -> tuple[Scenario, Solution]:
    """What is searched for, and the answer; that of the round before where the same is asked again."""
    last = search.tried[-1] if search.tried else None
    # Where the least is sought, a longer time is claimed of the same plan; only a stricter step is another question.
    searched = _promising(search.scenario, {} if search.seeks_least else handed.ttft_s, handed.tpot_ms)
    searched = _modelled(searched)
    if handed.demand_factor != 1:
        demand = handed.demand_factor * (search.scenario.demand_req_per_s or 1.0)
        searched = searched.varied({"demand_req_per_s": demand})
    if last is not None and last.searched == searched:
        return searched, last.found
    problem = planning_problem(searched, search.data_dirs)
    return searched, solved(problem, search.time_limit_s)


def _modelled(scenario: Scenario) -> Scenario:
    """The question with disciplines that waits are known for, where it promises a TTFT under others."""
    promises = scenario.objective == "min-ttft" or _as_asked(scenario).ttft_s
    changes = supposed(scenario) if promises else {}
    return scenario.varied(changes) if changes else scenario


def _without_ttft(plan: Plan) -> Plan:
    """A plan that predicts no TTFT under load: it is run with disciplines that waits are not known for."""
    marks = dict.fromkeys(("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s"))
    periods = (p.model_copy(update={"latency": p.latency.model_copy(update=marks)}) for p in plan.periods)
    classes = (c.model_copy(update={"latency": c.latency.model_copy(update=marks)}) for c in plan.classes)
    update = {"latency": plan.latency.model_copy(update=marks), "goodput_req_per_s": None}
    return plan.model_copy(update={**update, "periods": tuple(periods), "classes": tuple(classes)})


def _promising(scenario: Scenario, ttft_s: Mapping[str, float], tpot_ms: Mapping[str, float]) -> Scenario:
    """The scenario with other promises to its classes."""
    changes: dict[str, Any] = {}
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        stated = {} if slo is None else slo.model_dump(exclude_none=True)
        wanted = dict(stated)
        for key, given in (("ttft_s", ttft_s), ("tpot_ms", tpot_ms)):
            if name in given:
                wanted[key] = given[name]
        if wanted != stated:
            changes[f"classes.{name}.slo" if name in scenario.classes else "slo"] = wanted
    return scenario.varied(changes) if changes else scenario


def _stated(search: Search, handed: Handed) -> Scenario:
    """The system as it is run, with what is promised: a stricter limit on the decode step makes smaller batches."""
    claimed = handed.ttft_s if search.seeks_least else {}
    return _promising(search.scenario, claimed, handed.tpot_ms)


def _served(handed: Handed, found: Solution) -> Solution:
    """The solution at what is asked for or claimed."""
    ratio = handed.claimed_fraction / handed.demand_factor
    return found if ratio == 1 else found.at(ratio)


def _next(search: Search) -> Handed | None:
    """What to hand over next; None where nothing is left between what was too lax and what was strict enough."""
    broken, last = [tried for tried in search.tried if tried.broken], search.tried[-1]
    if not broken or (not last.broken and (search.seeks_least or _is_as_good(last, broken[0]))):
        return None
    return _tightened(search, broken[-1]) if search.strict is None else _between(broken[-1].handed, search.strict)


def _between(lax: Handed, strict: Handed) -> Handed | None:
    """Half way, on a logarithmic scale; None where they are close to one another."""
    ratios = [s / lax.ttft_s[name] for name, s in strict.ttft_s.items()]
    ratios += [ms / lax.tpot_ms[name] for name, ms in strict.tpot_ms.items()]
    if min([*ratios, lax.demand_factor / strict.demand_factor]) >= CLOSE:
        return None
    return Handed(
        {name: sqrt(s * lax.ttft_s[name]) for name, s in strict.ttft_s.items()},
        {name: sqrt(ms * lax.tpot_ms[name]) for name, ms in strict.tpot_ms.items()},
        sqrt(lax.demand_factor * strict.demand_factor),
        min(lax.claimed_fraction, strict.claimed_fraction),
    )


def _tightened(search: Search, last: Tried) -> Handed:
    """What broken promises ask for: each class by the part that its worst period missed it by, and a little more."""
    ttft_s, tpot_ms, served = dict(last.handed.ttft_s), dict(last.handed.tpot_ms), 1.0
    asked = _as_asked(search.scenario)
    for broken in last.broken:
        low, high = broken.ci_low or broken.executed, broken.ci_high or broken.executed
        name = broken.request_class or ""
        if broken.metric == RATE:
            served = min(served, SAFETY * low / broken.limit)
        elif broken.metric == STEP:
            tpot_ms[name] = min(tpot_ms[name], last.handed.tpot_ms[name] * broken.limit / high * SAFETY)
        elif name in asked.ttft_s:
            ttft_s[name] = min(ttft_s[name], last.handed.ttft_s[name] * broken.limit / high * SAFETY)
        else:  # the least was sought, and is longer than predicted
            ttft_s[name] = max(ttft_s[name], high / SAFETY)
    if search.scenario.objective == "max-throughput":
        return Handed(ttft_s, tpot_ms, 1.0, last.handed.claimed_fraction * served)
    return Handed(ttft_s, tpot_ms, last.handed.demand_factor / served)


def _no_plan(search: Search) -> str:
    """What to say where nothing held."""
    last = search.tried[-1]
    lines = [
        f"  - {', '.join(filter(None, (p.period, p.request_class)))}: {p.metric}: {number(p.limit, 4)} promised, "
        f"{number(p.executed, 4)} executed"
        + ("" if p.ci_low is None else f" ({number(p.ci_low, 4)} to {number(p.ci_high, 4)})")
        for p in last.broken
    ]
    more = [f"  - and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else []
    head = f"{search.scenario.name}: none of {len(search.tried)} plans that were run holds; of the last one:\n"
    return head + "\n".join(lines[:MOST_TOLD] + more) + search.why


def _plan(search: Search, chosen: Tried) -> Plan:
    """The plan in full, with what was certified of it."""
    search.say(f"{search.scenario.name}: comparing with other fleets")
    plan = _explained(search, chosen)
    fields = {name: getattr(chosen.plan, name) for name in Fleet.model_fields}
    slos = {name: search.scenario.slo_of(name) for name in search.scenario.workloads}
    stated = {name: None if slo is None else slo.model_dump(exclude_none=True) for name, slo in slos.items()}
    classes = (c.model_copy(update={"slo": stated[c.name]}) for c in chosen.plan.classes)
    return plan.model_copy(
        update={
            **fields,
            "classes": tuple(classes),
            "periods": chosen.plan.periods if plan.periods else (),
            "certified": _certified(search, chosen),
            "notes": (*_notes(search, chosen), *plan.notes),
        }
    )


def _explained(search: Search, chosen: Tried) -> Plan:
    return explained(planning_problem(chosen.searched, search.data_dirs), chosen.found, search.time_limit_s)


def _certified(search: Search, chosen: Tried) -> Certified:
    return Certified(
        req_per_s=chosen.plan.throughput_req_per_s,
        load=1.0,
        n_requests=search.question.n_requests,
        n_replications=search.question.n_replications,
        seed=search.question.seed,
        promises=chosen.promises,
        checks=tuple(check for one in chosen.seen for check in one.checks),
        unpredicted=tuple(dict.fromkeys(name for one in chosen.seen for name in one.unpredicted)),
        rounds=tuple(_round(search, tried) for tried in search.tried),
        chosen=search.tried.index(chosen),
        periods=tuple(one.name for one in chosen.seen),
    )


def _round(search: Search, tried: Tried) -> Round:
    demand = search.scenario.demand_req_per_s
    told = (" ".join(filter(None, (p.period, p.request_class, p.metric))) for p in tried.broken)
    is_given = search.scenario.objective != "max-throughput" and demand is not None
    return Round(
        ttft_s=None,
        tpot_ms=None,
        demand_req_per_s=(demand or 1.0) * tried.handed.demand_factor if is_given else None,
        req_per_s=tried.plan.throughput_req_per_s,
        broken=tuple(told),
        ttft_by_class_s=dict(tried.handed.ttft_s),
        tpot_by_class_ms=dict(tried.handed.tpot_ms),
    )


def _notes(search: Search, chosen: Tried) -> Iterator[Note]:
    """What the reader must know of what was run, and of what was not."""
    if search.scenario.spare.survive:
        yield note("loss-not-run", "periods were run with everything in place: what is left after a loss was not")
    if _modelled(search.scenario) != search.scenario:
        yield SUPPOSED
    if chosen.searched != _modelled(search.scenario):
        yield note(
            "stricter-promise", "gap, bound and the other fleets are those of the promise that the optimizer was handed"
        )
