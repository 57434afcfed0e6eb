"""The plan of a promise, run before it is printed: tightened where it is not kept, cheaper where there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from planner.errors import CheckFailedError, InputError
from planner.executor import RunQuestion
from planner.optimizer import explained, optimize
from planner.optimizer.time_limit import TimeLimit
from planner.results import Plan
from planner.scenario import Scenario
from planner.studies.certify import as_promised
from planner.studies.handed import as_asked, modelled, seeks_least
from planner.studies.neighbours import cheaper
from planner.studies.period_runs import Judge
from planner.studies.promises import Say
from planner.studies.rounds import Candidate, Search, Tried, candidate, run, run_rounds
from planner.studies.slo_runs import with_slo_run

SEARCH_PART = 0.5
"""Of the time limit of a command, what the search of the plan may take;"""
RUN_PART = 1 / 3
"""what runs, and the searches between them, may; the rest is for what explains the plan."""
EACH_PART = 0.1
"""Of the time for runs, what one of the searches between them may take."""
PRECISE_FRACTION = 0.015
"""Half of an interval over its figure, below which nobody runs on for a promise."""
LEVELS = 3
"""Times that a cheaper fleet is sought around the cheapest so far."""
TIME_UP, NOT_ASKED = "time was up", "--no-run"


def kept_plan(
    scenario: Scenario,
    question: RunQuestion | None = None,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    say: Say = lambda _: None,
) -> Plan:
    """The plan of a scenario that promises times, with what runs made of the promise.

    The plan is run at its rate, in each period the busiest first, until it is known whether the worse end of the 95 %
    interval of what is promised is within the promise, or the interval is narrow. Where it is not kept, the optimizer
    is handed a stricter promise, see `run_rounds`. Where it is kept, cheaper fleets near it are run too, see `cheaper`.
    What was chosen out of several plans is run once more with other seeds.

    Args:
        scenario: the question.
        question: how long and how often a plan is run; None: the plan is only predicted.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take; runs take a third of it at most.
        say: is told what is going on.

    Returns:
        The plan, with `slo_run`; as predicted, and why, where it cannot be run or time was up.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    if modelled(scenario) != scenario or seeks_least(scenario):
        return optimize(scenario, data_dirs, time_limit_s)  # which says what it has no model for
    limit = TimeLimit.of(time_limit_s)
    judge = Judge(question or RunQuestion(), data_dirs, say, sees_rate=False, precise_fraction=PRECISE_FRACTION)
    search = Search(scenario, judge, limit.part_s(SEARCH_PART))
    asked = candidate(search, as_asked(scenario))
    if question is None:
        return with_slo_run(explained(asked.problem, asked.found, limit.left_s), scenario, asked, 0, 0, NOT_ASKED)
    runs = TimeLimit.of(min(RUN_PART * time_limit_s, limit.left_s))
    search.judge, search.time_limit_s = replace(judge, deadline=runs.deadline), runs.part_s(EACH_PART)
    chosen, because = _chosen(search, asked)
    say(f"{scenario.name}: comparing with other fleets")
    plan = _explained(search, asked, chosen, limit.left_s)
    seed = search.judge.question.seed + (chosen not in (asked, *search.tried))
    return with_slo_run(plan, scenario, chosen, seed, len(search.tried), because)


def _chosen(search: Search, asked: Candidate) -> tuple[Candidate, str | None]:
    """The plan to be printed, run where that was possible, and why where it does not keep its promise."""
    try:
        first = run(search, asked)
        search.tried.append(first)
        if first.is_cut_short:
            return asked, TIME_UP
        if first.broken:
            run_rounds(search)
        elif search.scenario.objective == "min-cost":
            _run_cheaper(search)
    except (InputError, CheckFailedError) as error:
        if not search.tried:
            return asked, str(error).splitlines()[0]
    return _confirmed(search)


def _run_cheaper(search: Search) -> None:
    """Run cheaper fleets around the cheapest that is kept, as long as one is found that is kept too."""
    known = {_sizes(one) for one in search.tried}
    for _ in range(LEVELS):
        best = search.best
        assert best is not None, "the plan as asked is kept"
        offers = [one for one in cheaper(search, best, search.time_limit_s) if _sizes(one) not in known]
        for one in offers:
            if search.judge.is_over:
                return
            known.add(_sizes(one))
            search.tried.append(run(search, one))
            if not (search.tried[-1].broken or search.tried[-1].is_cut_short):
                break
        else:
            return


def _sizes(one: Candidate) -> tuple[object, ...]:
    """What tells fleets apart."""
    pools = tuple(pool.n_instances for pool in one.plan.pools)
    return pools, tuple(link.ports_by_tier for link in one.plan.links)


def _confirmed(search: Search) -> tuple[Tried, str | None]:
    """The best plan that is kept with other seeds too; without one the plan as asked, and what came of it."""
    question, first = search.judge.question, search.tried[0]
    held = [one for one in search.tried if not (one.broken or one.is_cut_short)]
    for one in sorted(held, key=lambda tried: tried.badness):
        if one is first:
            return first, None
        other = replace(search.judge, question=replace(question, seed=question.seed + 1))
        again = run(replace(search, judge=other), one)
        if not (again.broken or again.is_cut_short):
            return again, None
    n = len(search.tried)
    tried = f"none of {n} plans that were run keeps it" if n > 1 else "it is not kept in the run"
    return first, f"{tried}{': ' + TIME_UP if search.judge.is_over else ''}"


def _explained(search: Search, asked: Candidate, chosen: Candidate, time_limit_s: float) -> Plan:
    """The plan in full, with what is to know of how it was found."""
    if chosen.found is asked.found:
        return explained(asked.problem, asked.found, time_limit_s)
    if search.scenario.objective == "min-cost" and chosen.badness < asked.badness:
        # A fleet that the latency model excludes is no part of what it proves.
        found = replace(chosen.found, bound=min(asked.found.bound, chosen.found.objective))
        plan = explained(asked.problem, found, time_limit_s)
    else:
        plan = explained(chosen.problem, chosen.found, time_limit_s)
    plan = as_promised(search.scenario, chosen, plan)
    return plan.model_copy(update={"notes": (*_notes(asked, chosen), *plan.notes)})


def _notes(asked: Candidate, chosen: Candidate) -> Iterator[str]:
    if chosen.badness < asked.badness:
        yield (
            "the fleet is cheaper than what the latency model finds, and was kept in the runs; bound and the other "
            "fleets are that model's"
        )
    else:
        yield "gap, bound and the other fleets are those of a stricter promise, which the runs showed to be needed"
