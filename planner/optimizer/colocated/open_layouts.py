"""Colocated instances on every layout that pools of their kind leave open."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.errors import InfeasibleError, InputError
from planner.notes import Note, note
from planner.optimizer.colocated.instances import ColocatedInstance, colocated_instances
from planner.optimizer.layout_candidates import texts
from planner.optimizer.problem import PoolSpec, Problem
from planner.work_clock import work_s


@dataclass(frozen=True)
class Choice:
    """Instances to choose from."""

    instances: tuple[ColocatedInstance, ...]
    notes: tuple[Note, ...] = ()


def open_instances(problem: Problem, deadline: float) -> Choice:
    """Instances of the kind of accelerator that decodes, which take all requests at its site.

    Args:
        problem: the question, of one model and one site that decodes; its pools on layouts that were chosen.
        deadline: `work_s()` time until which layouts are looked at, those of the plan first.

    Returns:
        One for every size of its passes, on every layout of the plan's pools of that kind and every other that such a
        pool may choose from: of its list, or all of "auto". A note says where time was too short for some.

    Raises:
        InputError, InfeasibleError: as `colocated_instances` of the plan's own layouts, where no other layout will do.
    """
    failure: InputError | InfeasibleError | None = None
    found: list[ColocatedInstance] = []
    try:
        found += colocated_instances(problem)
    except (InputError, InfeasibleError) as error:
        failure = error
    others, n_seen = _others(problem), 0
    for spec in others:
        if work_s() >= deadline:
            break
        n_seen += 1
        try:
            found += colocated_instances(replace(problem, pools=(spec,)))
        except (InputError, InfeasibleError):  # it does not fit, or nobody can time it
            continue
    if not found and failure is not None:
        raise failure
    return Choice(tuple(found), tuple(_notes(n_seen, len(others))))


def _others(problem: Problem) -> list[PoolSpec]:
    """The home pool on layouts that no pool of its kind has in the plan."""
    home = next(pool for pool in problem.pools if not pool.is_prefill)
    alike = [p for p in problem.pools if (p.site, p.hardware) == (home.site, home.hardware)]
    known = {(p.n_accelerators, p.layout) for p in alike}
    asked = {size: None for pool in alike for size in _open_sizes(problem, pool.key)}
    return [replace(home, n_accelerators=n, layout=text) for n, text in asked if (n, text) not in known]


def _open_sizes(problem: Problem, key: str) -> Iterator[tuple[int, str]]:
    """Layouts that a pool may choose from, with the accelerators of an instance."""
    pool = problem.scenario.open_pool(key)
    for text in texts(problem.scenario, key, pool) if pool.layouts else ():
        yield pool.on_layout(text).accelerators_per_instance, text


def _notes(n_seen: int, n_others: int) -> Iterator[Note]:
    if n_seen < n_others:
        yield note(
            "colocated-layouts-left",
            f"colocated fleets: beside the plan's own layouts {n_seen} of {n_others} others were looked at in the time",
        )
