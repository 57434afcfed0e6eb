"""The problem of a scenario, with layouts chosen for pools that leave them open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner.errors import InfeasibleError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.layout_candidates import texts
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.resolution import resolved_problem
from planner.optimizer.service_times import pool_model
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import best_solution
from planner.roofline import InstanceRates
from planner.scenario import Pool, Scenario

TIME_LIMIT_S = 60.0
LAYOUTS_PART = 0.5
"""Of the time limit of a command, what choosing layouts may take where pools leave them open."""


def planning_problem(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    classes: Sequence[ClassSpec] = (),
    time_limit_s: float = TIME_LIMIT_S,
) -> Problem:
    """Resolve a scenario; where pools may choose their layouts, with those of the best plan.

    The layouts of a pool that `undominated` leaves are pools of one program, whose instances together are within its
    limits.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: those of another problem with the same requests, so that a trace is read once.
        time_limit_s: seconds that choosing layouts may take.

    Returns:
        The problem; its `layouts` say what was looked at. Where closed forms say what sizes serve on given layouts, its
        scenario has those of the best plan, and its `open_bound` is that of all layouts; else it has all of them.

    Raises:
        InputError, InfeasibleError: as `resolved` does.
    """
    known: dict[object, InstanceRates] = {}
    problem = resolved_problem(scenario, data_dirs, classes, known)
    some = problem if problem.has_batches else _on(problem, {}, known) or problem
    if not (problem.families and some.is_plain):
        return problem if problem.families else some
    try:
        found = best_solution(problem, time_limit_s)
    except UndecidedError:
        return problem
    used = {} if found is None else _in_use(problem, found)
    if any(len(layouts) > 1 for layouts in used.values()):
        return problem
    best = _on(problem, {key: layout for key, (layout,) in used.items()}, known) or problem
    return best if found is None else replace(best, open_bound=found.bound)


def _in_use(problem: Problem, solution: Solution) -> dict[str, tuple[str, ...]]:
    """Layouts on which a plan has instances of the pools that may choose."""
    found: dict[str, dict[str, None]] = {}
    for pool, n in zip(problem.pools, solution.largest_sizes, strict=True):
        if n and pool.layout and pool.key in problem.families:
            found.setdefault(pool.key, {})[pool.layout] = None
    return {key: tuple(layouts) for key, layouts in found.items()}


def _on(problem: Problem, chosen: Mapping[str, str], known: dict[object, InstanceRates]) -> Problem | None:
    """The problem on chosen layouts, or else those of most memory; itself without a choice, None where prompts do not
    fit."""
    layouts, rooms = dict(chosen), dict[str, float]()
    for pool in problem.pools:
        is_open = pool.key not in chosen and pool.key in {found.pool for found in problem.layouts}
        if is_open and pool.layout and pool.rates.longest_tokens > rooms.get(pool.key, 0.0):
            layouts[pool.key], rooms[pool.key] = pool.layout, pool.rates.longest_tokens
    if not layouts:
        return problem
    try:
        found = resolved_problem(problem.scenario.on_layouts(layouts), (), problem.classes, known)
    except InfeasibleError:
        return None
    return replace(found, layouts=problem.layouts)


def posed(scenario: Scenario, data_dirs: Sequence[Path] = ()) -> Problem:
    """The problem of a scenario on some layout of every pool, to check all of it without a search.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError, InfeasibleError: as `resolved` does.
    """
    return resolved_problem(on_any_layout(scenario), data_dirs)


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
    return pool_model(scenario, pool, scenario.hardware_of(pool)).memory.fits


def layout_notes(problem: Problem) -> Iterator[Note]:
    """Notes on the number of layouts that were looked at."""
    for found in problem.layouts:
        n, kept = len(found.kept), "; ".join(found.kept)
        yield note(
            "layouts-considered",
            f"of {found.n_tried} layouts of {found.pool} {found.n_fit} hold the model and are in time; plans were "
            f"compared of {n}: {kept}",
        )
