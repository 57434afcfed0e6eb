"""The problem of a scenario, with layouts chosen for pools that leave them open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from pathlib import Path

from planner.errors import InfeasibleError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.layout_candidates import texts
from planner.optimizer.network.search import capacity_bound
from planner.optimizer.problem import ClassSpec, Problem
from planner.optimizer.resolution import resolved
from planner.optimizer.service_times import served_model
from planner.optimizer.strategies import may_be_in_time, searched
from planner.roofline import InstanceRates
from planner.scenario import Pool, Scenario
from planner.ties import largest_first
from planner.work_clock import work_s

TIME_LIMIT_S = 60.0
LAYOUTS_PART = 0.5
"""Of the time limit of a command, what choosing layouts may take where pools leave them open."""
EACH_PART = 1 / 3
"""Of the time that is left, what the plan with some layouts may take: hard ones leave time for others."""
EQUAL = 1e-9
"""Relative difference of objectives below which the plan with more room is chosen."""
LEAST_BOUND_S = 5.0
"""What the bound of one combination may take, however little time is left: nothing else is known of the others."""


@dataclass(frozen=True, eq=False)
class Offer:
    """One layout for each pool that may choose."""

    problem: Problem
    bound: float
    """What no plan with these layouts passes: bill, or rate with its sign turned; the less the better."""


def planning_problem(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    classes: Sequence[ClassSpec] = (),
    time_limit_s: float = TIME_LIMIT_S,
) -> Problem:
    """Resolve a scenario; where pools may choose their layouts, with those of the best plan.

    Equation: min over layouts l of the pools of the objective of the best plan with l; combinations by rising bound of
        capacity alone, until the next bound passes the best objective. A network chooses in its own program.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: those of another problem with the same requests, so that a trace is read once.
        time_limit_s: seconds that choosing layouts may take.

    Returns:
        The problem; its scenario has the layouts that were chosen, its `layouts` say what was looked at.

    Raises:
        InputError, InfeasibleError: as `resolved` does.
        UndecidedError: no bound of some layouts was found.

    Valid: exact over the layouts that `undominated` leaves, to the gap of each plan; where time ends before, the
        problem's `open_bound` says how much better plans on the others may be.

    Source: branch and bound: Land and Doig (1960).
    """
    known: dict[object, InstanceRates] = {}
    problem = resolved(scenario, data_dirs, classes, known)
    if not problem.layouts or problem.has_batches:
        return problem
    deadline = work_s() + time_limit_s
    offers = largest_first(_offers(problem, known, deadline), lambda offer: -offer.bound)
    if offers and not offers[0].problem.is_plain:
        return problem
    best, open_bound = _best(offers, deadline)
    if best is None and not offers:
        return problem
    return replace(best or offers[0].problem, layouts=problem.layouts, open_bound=open_bound)


def posed(scenario: Scenario, data_dirs: Sequence[Path] = ()) -> Problem:
    """The problem of a scenario on some layout of every pool, to check all of it without a search.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError, InfeasibleError: as `resolved` does.
    """
    return resolved(on_any_layout(scenario), data_dirs)


def on_any_layout(scenario: Scenario) -> Scenario:
    """The scenario with a layout that holds the model in every pool that may choose, to check all else at once.

    Args:
        scenario: the question.

    Returns:
        Of a list the first, of "auto" the widest tensor parallelism that fits, else any; as it is where none does.

    Raises:
        InputError: service times are measured, or a figure is missing.
    """
    found: dict[str, str] = {}
    for key, pool in scenario.pools.items():
        tried = tuple(texts(scenario, key, pool)) if pool.layouts else ()
        fit = [one for one in tried if pool.layouts != "auto" or _has_memory(scenario, pool.on_layout(one))]
        wide = [one for one in fit if one.endswith("dp=1,pp=1")]
        if fit:
            found[key] = fit[0] if pool.layouts != "auto" else (wide or fit)[-1]
    return scenario.on_layouts(found)


def _has_memory(scenario: Scenario, pool: Pool) -> bool:
    return served_model(scenario, pool, scenario.hardware_of(pool)).memory.fits


def on_each_layout(problem: Problem, known: dict[object, InstanceRates] | None = None) -> Iterator[Problem]:
    """Problems of every combination of kept layouts that holds the requests; the problem itself where none is open.

    Args:
        problem: as `resolved` finds it.
        known: service times that were found before.
    """
    choices = {found.pool: found.kept for found in problem.layouts}
    for chosen in product(*choices.values()):
        scenario = problem.scenario.on_layouts(dict(zip(choices, chosen, strict=True)))
        try:
            yield resolved(scenario, (), problem.classes, known) if chosen else problem
        except InfeasibleError:  # prompts that fit none of these pools
            continue


def _offers(problem: Problem, known: dict[object, InstanceRates], deadline: float) -> Iterator[Offer]:
    """Problems of every combination that holds the requests, with its bound; of a network only the first."""
    for one in on_each_layout(problem, known):
        if not one.is_plain:
            yield Offer(one, -inf)
            return
        bound = _bound(one, deadline) if may_be_in_time(one) else None
        if bound is not None:
            yield Offer(one, bound)


def _bound(problem: Problem, deadline: float) -> float | None:
    """What no plan passes; None where none exists. Raises UndecidedError."""
    if problem.is_min_ttft:
        return 0.0
    return capacity_bound(problem, max(deadline - work_s(), LEAST_BOUND_S))


def _best(offers: Sequence[Offer], deadline: float) -> tuple[Problem | None, float | None]:
    """The problem of the best plan, of equal plans that which serves most; and the bound that other layouts leave open.

    That bound is the least of those of plans that were not proven best on their layouts, and of layouts on which no
    search ended; None where there are none.
    """
    best: Offer | None = None
    least, most = inf, 0.0
    bounds: dict[Offer, float] = {}
    sign = 1 if all(offer.problem.is_min_cost or offer.problem.is_min_ttft for offer in offers) else -1
    for offer in offers:
        if best is not None and offer.bound > least + EQUAL * abs(least):
            break
        try:
            found = searched(offer.problem, EACH_PART * max(deadline - work_s(), 0.0))
        except UndecidedError:
            bounds[offer] = offer.bound
            continue
        if found is None:
            continue
        objective = sign * found.objective
        bounds[offer] = max(sign * found.bound, offer.bound)
        room = found.highest_req_per_s or 0.0
        slack = EQUAL * abs(objective)
        if objective < least - slack or (objective <= least + slack and room > most):
            best, least, most = offer, min(objective, least), room
    others = [bound for offer, bound in bounds.items() if offer is not best]
    return None if best is None else best.problem, sign * min(others) if others else None


def layout_notes(problem: Problem) -> Iterator[Note]:
    """How many layouts were looked at."""
    for found in problem.layouts:
        n, kept = len(found.kept), "; ".join(found.kept)
        yield note(
            "layouts-considered",
            f"of {found.n_tried} layouts of {found.pool} {found.n_fit} hold the model and are in time; plans were "
            f"compared of {n}: {kept}",
        )
