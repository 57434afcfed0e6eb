"""A plan that was run before anybody relies on it: tightened until its promises hold in the runs, or refused."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from planner.comparison import at_population_rate, explained
from planner.errors import CheckFailedError, UndecidedError
from planner.executor.run_question import RunQuestion
from planner.notes import Note, note
from planner.optimizer.solution import objective_unit
from planner.progress import Progress
from planner.promises.outcomes import bounded_as_asked
from planner.promises.period_results import RunSettings
from planner.promises.targets import modelled
from planner.promises.tighten import Attempt, PlanCandidate, PromiseSearch, run_rounds
from planner.results.certified import Certified, Promise, Round
from planner.results.plan import Fleet, Plan
from planner.scenario import Scenario
from planner.units import number

MOST_TOLD = 8
"""Broken promises that a message names."""
LOSS_NOT_RUN = "periods were run with everything in place: what is left after a loss was not"
SUPPOSED = note(
    "supposed-discipline",
    "the search supposed dispatch = shared-queue with prefill_batching = one-at-a-time, which waits are known "
    "for; the plan was run with the disciplines as stated, the other fleets were not run",
)


def certified_plan(
    scenario: Scenario,
    question: RunQuestion,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
) -> Plan:
    """The plan of a scenario that keeps its promises when it is run request by request.

    The question is planned as asked, and run at its operating point and with the system kept full; of several periods
    those that bind first: those in which some pool or link is busiest, or requests are slowest. A plan that holds in
    those is run in all. What is not kept is asked of the optimizer more strictly, see `run_rounds`.

    Args:
        scenario: the question.
        question: how long and how often each plan is run; the load is the plan's own.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that the search for one plan may take.
        progress: is told what is going on.

    Returns:
        The plan, with `certified`.

    Raises:
        InputError: the scenario cannot be run.
        InfeasibleError: there is no plan as asked, run or not.
        UndecidedError: no plan was found in the time, or the runs are too short to tell whether one holds.
        CheckFailedError: no plan held.
    """
    scenario = at_population_rate(scenario, data_dirs, time_limit_s)
    search = PromiseSearch(scenario, RunSettings(question, data_dirs, progress), time_limit_s)
    run_rounds(search)
    if search.best is None:
        raise _no_plan(scenario, search.tried, search.why)
    return _plan(search, search.best)


def _no_plan(scenario: Scenario, tried: Sequence[Attempt], why: str) -> UndecidedError | CheckFailedError:
    """Error to raise where nothing held."""
    undecided = next((one for one in tried if one.is_undecided), None)
    shown, which = (tried[-1], "the last one") if undecided is None else (undecided, "one that is undecided")
    lines = list(map(_broken, shown.unkept))
    more = [f"  - and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else []
    head = f"{scenario.name}: none of {len(tried)} plans that were run holds; of {which}:\n"
    error = CheckFailedError if undecided is None else UndecidedError
    return error(head + "\n".join(lines[:MOST_TOLD] + more) + why)


def _broken(one: Promise) -> str:
    of = ", ".join(filter(None, (one.period, one.request_class)))
    interval = "" if one.ci_low is None else f" ({number(one.ci_low, 4)} to {number(one.ci_high, 4)})"
    return (
        f"  - {of}{': ' if of else ''}{one.metric}: {number(one.limit, 4)} promised, {number(one.executed, 4)} "
        f"executed{interval}{'' if one.decided else ', undecided'}"
    )


def _plan(search: PromiseSearch, chosen: Attempt) -> Plan:
    """The plan in full, with what was certified of it."""
    search.settings.progress(f"{search.scenario.name}: comparing with other fleets")
    plan = as_promised(
        search.scenario, chosen, explained(chosen.problem, chosen.found, search.time_limit_s, chosen.answer)
    )
    first = search.tried[0]
    plan = bounded_as_asked(plan, first.found.bound * objective_unit(first.problem))
    notes = (*_notes(search, chosen), *plan.notes)
    return plan.model_copy(
        update={
            "certified": _certified(search.scenario, search.settings.question, chosen, search.tried),
            "notes": notes,
        }
    )


def as_promised(scenario: Scenario, chosen: PlanCandidate, plan: Plan) -> Plan:
    """A plan in full at what it was run at, with the promises that the scenario makes."""
    fields = {name: getattr(chosen.plan, name) for name in Fleet.model_fields}
    if fields["goodput_req_per_s"] is None and modelled(chosen.as_run) == chosen.as_run:
        del fields["goodput_req_per_s"]  # that of colocated pools is left out of a plan to run, as it takes long
    slos = {name: scenario.slo_of(name) for name in scenario.workloads}
    stated = {name: None if slo is None else slo.model_dump(exclude_none=True) for name, slo in slos.items()}
    classes = tuple(c.model_copy(update={"slo": stated[c.name]}) for c in chosen.plan.classes)
    periods = chosen.plan.periods if plan.periods else ()
    notes = tuple(note for note in plan.notes if not note.startswith("the demand of "))
    return plan.model_copy(update={**fields, "classes": classes, "periods": periods, "notes": notes})


def _certified(scenario: Scenario, question: RunQuestion, chosen: Attempt, tried: Sequence[Attempt]) -> Certified:
    return Certified(
        req_per_s=chosen.plan.throughput_req_per_s,
        load=chosen.results[0].load,
        n_requests=question.n_requests,
        n_replications=question.n_replications,
        seed=question.seed,
        promises=chosen.promises,
        checks=tuple(check for one in chosen.results for check in one.checks),
        unpredicted=tuple(dict.fromkeys(name for one in chosen.results for name in one.unpredicted)),
        rounds=tuple(_round(scenario, one) for one in tried),
        chosen=tried.index(chosen),
        periods=tuple(one.name for one in chosen.results if one.name is not None),
    )


def _round(scenario: Scenario, tried: Attempt) -> Round:
    demand, is_given = scenario.demand_req_per_s, scenario.objective != "max-throughput"
    told = (" ".join(filter(None, (p.period, p.request_class, p.metric))) for p in tried.unkept)
    targets, is_one = tried.targets, not scenario.classes
    only = next(iter(scenario.workloads))
    return Round(
        ttft_s=targets.ttft_s.get(only) if is_one else None,
        tpot_ms=targets.tpot_ms.get(only) if is_one else None,
        demand_req_per_s=demand * targets.demand_factor if is_given and demand is not None else None,
        req_per_s=tried.plan.throughput_req_per_s,
        broken=tuple(told),
        ttft_by_class_s={} if is_one else dict(targets.ttft_s),
        tpot_by_class_ms={} if is_one else dict(targets.tpot_ms),
    )


def _notes(search: PromiseSearch, chosen: Attempt) -> Iterator[Note]:
    """Notes on what was run, and on what was not."""
    if search.scenario.spare.survive:
        yield note("loss-not-run", LOSS_NOT_RUN)
    if modelled(search.scenario) != search.scenario:
        yield SUPPOSED
    if chosen.problem.scenario != modelled(search.scenario):
        yield note("stricter-promise", "the other fleets are those of the promise that the optimizer was given")
