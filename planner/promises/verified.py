"""The plan of a promise, run before it is printed: tightened where it is not kept, better where there is room."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from planner.comparison import explained, posed_problem, sketched, solved
from planner.comparison.evaluation import Evaluation
from planner.errors import CheckFailedError, InputError
from planner.executor.run_question import RunQuestion
from planner.notes import Note, note
from planner.optimizer.layout_choice import layout_notes
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution, objective_unit
from planner.optimizer.time_limit import TimeLimit
from planner.progress import Progress
from planner.promises.certify import as_promised
from planner.promises.cheaper_fleets import cheaper
from planner.promises.outcomes import INSIDE, NOT_ASKED, TIME_UP, bounded_as_asked
from planner.promises.period_results import RunSettings
from planner.promises.raise_rate import raise_rate
from planner.promises.remedies import trials
from planner.promises.slo_runs import cheaper_undecided, with_slo_run
from planner.promises.targets import as_asked, modelled, seeks_least
from planner.promises.tighten import PlanCandidate, PromiseSearch, candidate, run, run_again, run_rounds
from planner.results.plan import Plan
from planner.scenario import Scenario

SEARCH_PART = 0.5
"""Of the time limit of a command, what the search of the plan may take;"""
RUN_PART = 1 / 3
"""what runs, and the searches between them, may; the rest is for what explains the plan."""
EACH_PART = 0.1
"""Of the time for runs, what one of the searches between them may take."""
LEVELS = 3
"""Times that a cheaper fleet is sought around the cheapest so far."""


@dataclass(frozen=True)
class Verified:
    """A plan whose promise was run."""

    plan: Plan
    problem: Problem
    """What it answers."""
    solution: Solution


@dataclass(frozen=True)
class Pace:
    """Time that the steps may take."""

    time_limit_s: float
    whole: TimeLimit
    """Of all steps together, if nobody is patient."""
    is_patient: bool
    """Whether the limit is that of each step."""

    @property
    def explaining_s(self) -> float:
        """Time that explaining a plan may take [s]."""
        return (1 - SEARCH_PART) * self.time_limit_s if self.is_patient else self.whole.left_s

    def of_runs(self) -> TimeLimit:
        """The limit of runs and of the searches between them, from now on."""
        return TimeLimit.of(min(RUN_PART * self.time_limit_s, self.whole.left_s))


class Chosen(NamedTuple):
    """The plan that is printed."""

    plan: PlanCandidate
    seed: int
    """Of its run."""
    because: str | None = None
    """Why it does not keep its promise, or why it was not run."""


def verified_plan(
    scenario: Scenario,
    question: RunQuestion | None = None,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
) -> Plan:
    """The plan of a scenario that promises times, with what runs made of the promise; see `verified`."""
    return verified(scenario, question, data_dirs, time_limit_s, progress).plan


def verified(
    scenario: Scenario,
    question: RunQuestion | None,
    data_dirs: Sequence[Path],
    time_limit_s: float,
    progress: Progress,
    *,
    is_patient: bool = False,
) -> Verified:
    """The plan of a scenario that promises times, with what runs made of the promise.

    The plan is run at its rate, in each period the busiest first, until the whole 95 % interval of what is promised is
    on one side of the promise, or the question allows no more requests. Where it is not kept, the optimizer
    is given a stricter promise, see `run_rounds`. Where it is kept, cheaper fleets near it are run too, see `cheaper`,
    or the same fleet at higher rates, see `raise_rate`. What was chosen out of several plans is run once more with
    other seeds. Of plans of which none is kept an undecided one is printed rather than a broken one.

    Args:
        scenario: the question.
        question: how long and how often a plan is run; None: the plan is only predicted.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take; runs take a third of it at most.
        progress: is told what is going on.
        is_patient: whether each search may take half of the limit, and what explains the plan the other half, and runs
            as long as they do: then the plan does not depend on how busy the machine is.

    Returns:
        The plan, with `slo_run`; as predicted, and why, where it cannot be run or time was up.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    limit = TimeLimit.of(time_limit_s)
    first = posed_problem(scenario, data_dirs, time_limit_s=limit.part_s(SEARCH_PART))
    pace = Pace(limit.left_s, TimeLimit.of(limit.left_s), is_patient)
    found = _settled(first, question, data_dirs, pace, progress)
    known = {one.pool for one in found.problem.layouts}  # a stricter promise may compare others
    others = replace(first, layouts=tuple(one for one in first.layouts if one.pool not in known))
    chosen = tuple(one for one in layout_notes(others) if one not in found.plan.notes)
    return replace(found, plan=found.plan.model_copy(update={"notes": (*found.plan.notes, *chosen)}))


def verified_fleet(
    scenario: Scenario,
    question: RunQuestion | None,
    data_dirs: Sequence[Path],
    time_limit_s: float,
    progress: Progress,
    *,
    has_ways_out: bool = True,
) -> Verified:
    """The same plan without what explains it: other fleets, and what its limits are worth. It is found patiently.

    Args:
        scenario: the question.
        question: how long and how often a plan is run; None: the plan is only predicted.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds of which each search may take half.
        progress: is told what is going on.
        has_ways_out: whether ways out are looked for where there is no plan.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    first = posed_problem(scenario, data_dirs, time_limit_s=SEARCH_PART * time_limit_s)
    pace = Pace(time_limit_s, TimeLimit.of(time_limit_s), is_patient=True)
    return _settled(first, question, data_dirs, pace, progress, is_explained=False, has_ways_out=has_ways_out)


def _settled(
    first: Problem,
    question: RunQuestion | None,
    data_dirs: Sequence[Path],
    pace: Pace,
    progress: Progress,
    *,
    is_explained: bool = True,
    has_ways_out: bool = True,
) -> Verified:
    """The same of pools whose layouts are settled, as those of all rounds."""
    scenario = first.scenario
    settings = RunSettings(question or RunQuestion(), data_dirs, progress, sees_rate=False)
    as_run = None if question is None else trials(question, data_dirs, progress, pace.whole)
    time_limit_s = SEARCH_PART * pace.time_limit_s
    search = PromiseSearch(
        scenario, settings, time_limit_s, open_bound=first.open_bound, is_explained=has_ways_out, trials=as_run
    )

    def explain(problem: Problem, solution: Solution, answer: Evaluation | None = None) -> Plan:
        if is_explained:
            return explained(problem, solution, pace.explaining_s, answer, as_run)
        return sketched(problem, solution)

    if modelled(scenario) != scenario or seeks_least(scenario):  # there is no model of it, which the search says
        problem = search.problem(scenario)
        solution = solved(problem, search.time_limit_s)
        return Verified(explain(problem, solution), problem, solution)
    if first.open_bound is None:  # else the layouts of the scenario were chosen for it, and are posed alone
        search.posed_first(first)
    asked = candidate(search, as_asked(scenario))
    if question is None:
        plan = with_slo_run(explain(asked.problem, asked.found), scenario, asked, 0, 0, NOT_ASKED)
        return Verified(plan, asked.problem, asked.found)
    if not pace.is_patient:
        runs = pace.of_runs()
        search.settings, search.time_limit_s = replace(settings, deadline=runs.deadline), runs.part_s(EACH_PART)
    chosen = chosen_by_runs(search, asked)
    if is_explained:
        progress(f"{scenario.name}: comparing with other fleets")
    found = _explained(search, asked, chosen.plan, explain)
    told = with_slo_run(found.plan, scenario, chosen.plan, chosen.seed, len(search.tried), chosen.because)
    costs = [one.badness for one in search.tried]
    may_do = cheaper_undecided(search.tried, costs, chosen.plan.badness) if scenario.objective == "min-cost" else ()
    notes = (*may_do, *told.notes)
    return replace(found, plan=told.model_copy(update={"notes": notes}))


def chosen_by_runs(search: PromiseSearch, asked: PlanCandidate, *, is_improved: bool = True) -> Chosen:
    """The plan to be printed, run where that was possible, and why where it does not keep its promise.

    Args:
        search: what is asked for, with nothing tried yet; plans that are run are added to it.
        is_improved: whether a better one is looked for where the plan as asked is kept.
    """
    try:
        first = run(search, asked)
        search.tried.append(first)
        if not first.results:
            return Chosen(asked, search.settings.question.seed, TIME_UP)
        if not first.is_kept:
            run_rounds(search)
        elif not is_improved:
            return Chosen(first, search.settings.question.seed)
        elif search.scenario.objective == "min-cost":
            _run_cheaper(search)
        else:
            raise_rate(search)
    except (InputError, CheckFailedError) as error:
        if not search.tried:
            return Chosen(asked, search.settings.question.seed, str(error).splitlines()[0])
    return _confirmed(search)


def _run_cheaper(search: PromiseSearch) -> None:
    """Run cheaper fleets around the cheapest that is kept, as long as one is found that is kept too."""
    known = {_sizes(one) for one in search.tried}
    for _ in range(LEVELS):
        best = search.best
        assert best is not None, "the plan as asked is kept"
        search.settings.progress(f"{search.scenario.name}: planning cheaper fleets")
        offers = [one for one in cheaper(search, best) if _sizes(one) not in known]
        for one in offers:
            if search.settings.is_over:
                return
            known.add(_sizes(one))
            search.tried.append(run(search, one))
            if search.tried[-1].is_kept:
                break
        else:
            return


def _sizes(one: PlanCandidate) -> tuple[object, ...]:
    """Sizes that tell fleets apart."""
    pools = tuple(pool.n_instances for pool in one.plan.pools)
    return pools, tuple(link.ports_by_tier for link in one.plan.links)


def _confirmed(search: PromiseSearch) -> Chosen:
    """The best plan that is kept with other seeds too; else the best undecided one, or the plan as asked, and why."""
    question, first = search.settings.question, search.tried[0]
    seed, seeds = question.seed, dict[int, int]()
    while (one := search.best) is not None:
        if one is first:
            return Chosen(first, question.seed)
        seed += 1
        again = run_again(search, one, seed)
        if again.is_cut_short:
            return Chosen(one, question.seed, f"not run again with other seeds: {TIME_UP}")
        if again.is_kept:
            return Chosen(again, seed)
        seeds[id(again)] = seed
        # Its first run flattered it: what the other seeds saw counts, and what comes next is stricter than that.
        search.tried = [*(tried for tried in search.tried if tried is not one), again]
        search.strict = None
        if search.best is None:
            with suppress(InputError, CheckFailedError):
                run_rounds(search)
    if (undecided := search.open) is not None:
        because = TIME_UP if undecided.is_cut_short else INSIDE
        return Chosen(undecided, seeds.get(id(undecided), question.seed), because)
    n = len(search.tried)
    tried = f"none of {n} plans that were run keeps it" if n > 1 else "it is not kept in the run"
    return Chosen(first, question.seed, f"{tried}{': ' + TIME_UP if search.settings.is_over else ''}")


def _explained(
    search: PromiseSearch,
    asked: PlanCandidate,
    chosen: PlanCandidate,
    explain: Callable[[Problem, Solution, Evaluation | None], Plan],
) -> Verified:
    """The plan in full, with what is to know of how it was found."""
    if chosen.found is asked.found and chosen.targets == asked.targets:
        return Verified(explain(asked.problem, asked.found, None), asked.problem, asked.found)
    problem, found = chosen.problem, chosen.found
    if search.scenario.objective == "min-cost" and chosen.badness < asked.badness:
        # A fleet that the latency model excludes is no part of what it proves.
        routed = found.routed if problem.routes == asked.problem.routes else None
        problem, found = asked.problem, replace(found, bound=min(asked.found.bound, found.objective), routed=routed)
    plan = as_promised(search.scenario, chosen, explain(problem, found, chosen.answer))
    plan = bounded_as_asked(plan, asked.found.bound * objective_unit(asked.problem))
    return Verified(plan.model_copy(update={"notes": (*_notes(asked, chosen), *plan.notes)}), problem, found)


def _notes(asked: PlanCandidate, chosen: PlanCandidate) -> Iterator[Note]:
    if chosen.targets.claimed_fraction > 1:
        yield note(
            "higher-than-modelled",
            "the goodput is higher than what the latency model finds, and was kept in the runs; gap and the other "
            "fleets are that model's",
        )
    elif chosen.badness < asked.badness:
        yield note(
            "cheaper-than-modelled",
            "the fleet is cheaper than what the latency model finds, and was kept in the runs; bound and the other "
            "fleets are that model's",
        )
    else:
        yield note(
            "stricter-promise",
            "the plan was found with a stricter promise, because no run bore out a plan of the stated one. So were the "
            "other fleets, and what more of anything would bring: they may be dearer than they need to be",
        )
