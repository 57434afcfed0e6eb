"""Layouts that pools may choose from: those that hold the model and are in time, less those that others dominate."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError, InputError
from planner.optimizer.problem import LookedAt
from planner.optimizer.problem_parts import ClassSpec
from planner.roofline import InstanceRates
from planner.roofline.layouts import layouts
from planner.scenario import Pool, Scenario
from planner.ties import first_largest, largest_first

N_KINDS = 512
"""Requests of a class on which prefill times are compared."""
ALIKE = 0.01
"""Relative difference below which layouts count as alike: times are not known better."""
MOST_COMBINATIONS = 32
"""Of layouts of all pools that choose from "auto", of which plans are compared."""
LEAST_KEPT = 2

Rates = Callable[[Pool], InstanceRates]
"""Service times of a pool on one layout."""


@dataclass(frozen=True, eq=False)
class LayoutCandidate:
    """A layout that a pool may take."""

    layout: str
    n_accelerators: int
    """Of an instance."""
    rates: InstanceRates


def candidates(
    scenario: Scenario, key: str, classes: Sequence[ClassSpec], rates: Rates
) -> tuple[tuple[LayoutCandidate, ...], LookedAt]:
    """Layouts of a pool of which plans are compared: all of a list, of "auto" those that `undominated` leaves.

    Raises:
        InputError: its service times are measured, or nobody can time any of its layouts.
        InfeasibleError: a listed layout does not fit, or "auto" finds none that does.
    """
    pool = scenario.pools[key]
    tried = tuple(dict.fromkeys(texts(scenario, key, pool)))
    fit = tuple(_fitting(pool, tried, rates))
    kept = fit if pool.layouts != "auto" else tuple(undominated(fit, classes, _most_kept(scenario)))
    return kept, LookedAt(key, len(tried), len(fit), tuple(one.layout for one in kept))


def _most_kept(scenario: Scenario) -> int:
    """Layouts of each pool, so that combinations of all are not too many."""
    n_open = sum(pool.layouts == "auto" and pool.role != "colocated" for pool in scenario.pools.values())
    return max(int(MOST_COMBINATIONS ** (1 / max(n_open, 1))), LEAST_KEPT)


def texts(scenario: Scenario, key: str, pool: Pool) -> Iterator[str]:
    """Layouts of a pool as it lists them, or all of "auto". Raises InputError where its service times are measured."""
    if pool.layouts != "auto":
        yield from pool.layouts
        return
    _check_is_timed(scenario, key, pool)
    for layout in layouts(scenario.profile_of(pool.model), scenario.hardware_of(pool)):
        if pool.stated_size in (None, layout.n_accelerators):
            yield str(layout)


def _check_is_timed(scenario: Scenario, key: str, pool: Pool) -> None:
    """Raises InputError where service times are somebody's figures, which are of one layout."""
    if pool.role == "colocated":
        return
    hardware, precision = scenario.hardware_of(pool), scenario.choice_of(pool).precision
    names = (hardware.name, *hardware.aliases)
    measured = [
        m
        for m in scenario.measurements_of(pool.model)
        if m.hardware in names and getattr(m, pool.role) is not None and precision in (None, m.precision)
    ]
    if pool.service_times == "roofline" or (pool.service_times is None and not measured):
        return
    what = f'is "auto", and the {pool.role} times of {hardware.name} are measured, which are of one layout'
    allowed = 'service_times = "roofline"; or accelerators_per_instance as measured, without layouts'
    raise InputError(scenario.problem(("pools", key, "layouts"), what, allowed))


def _fitting(pool: Pool, tried: Sequence[str], rates: Rates) -> Iterator[LayoutCandidate]:
    """Layouts with their times; of "auto" those that do not fit, or that nobody can time, are passed over."""
    n_found, failure = 0, None
    for layout in tried:
        on = pool.on_layout(layout)
        try:
            found = LayoutCandidate(layout, on.accelerators_per_instance, rates(on))
        except (InputError, InfeasibleError) as error:
            if pool.layouts != "auto":
                raise
            failure = error
            continue
        n_found += 1
        yield found
    if not n_found and failure is not None:
        raise failure


def undominated(fit: Sequence[LayoutCandidate], classes: Sequence[ClassSpec], most: int) -> Iterator[LayoutCandidate]:
    """Candidates to which no other is preferable, and of these the few that differ most.

    Equation: A replaces B where none of these is more than a hundredth greater: accelerators a, accelerator-seconds
        a w of a mean request, and in prefill its mean seconds T; and A holds as long prompts. Of more than may be kept
        the least w a, the least T and the least a stay, then the next by w a.

    Args:
        fit: candidates of one pool.
        classes: the requests that it serves.
        most: how many may be kept.

    Source: dominance: no weighting of cost, size and latency prefers B.
    """
    kept = undominated_marks(np.array([_marks(one, classes) for one in fit]), most)
    yield from (fit[i] for i in kept)


def undominated_marks(marks: NDArray[np.float64], most: int, alike: float = ALIKE) -> list[int]:
    """Candidates to which no other is preferable by what is the better the less of it there is.

    Args:
        marks: of every candidate, shape (candidates, marks); the first decides between many.
        alike: relative difference below which marks count as alike [fraction].
    """
    left: list[int] = []
    for i in _by_marks(marks):
        if not any((marks[j] <= marks[i] + alike * np.abs(marks[i])).all() for j in left):
            left.append(i)
    least = [left[first_largest(-marks[left, k])] for k in range(marks.shape[1])]
    order = [*least, *largest_first(left, lambda i: -float(marks[i, 0]))]
    return sorted(list(dict.fromkeys(order))[:most])


def _by_marks(marks: NDArray[np.float64]) -> list[int]:
    """Candidates by their first mark, of equal ones by the next."""
    order = list(range(len(marks)))
    for column in marks.T[::-1]:
        order = largest_first(order, (-column).item)
    return order


def _marks(one: LayoutCandidate, classes: Sequence[ClassSpec]) -> list[float]:
    """Figures of which less is better: work, seconds, accelerators, and prompts that do not fit."""
    a, longest = one.n_accelerators, max(c.mix.longest_tokens() for c in classes)
    work_s = latency_s = 0.0
    for c in classes:
        if one.rates.prefill is not None:
            total, cached, weights = c.mix.atoms(N_KINDS)
            seconds = float(one.rates.prefill.seconds(total, cached) @ weights) * c.share
            work_s, latency_s = work_s + seconds / one.rates.prefill.places, latency_s + seconds
        elif one.rates.decode is not None:
            work_s += c.share * one.rates.decode.seconds_per_request(c.mix.mean_output_tokens)
    return [a * work_s, latency_s, float(a), -min(one.rates.longest_tokens, longest)]
