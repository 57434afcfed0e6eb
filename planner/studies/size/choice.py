"""The best of fleets on several accelerators: all are run but those that cannot cost less than one that is kept."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Protocol, TypeVar

from planner.results import Promise
from planner.studies.promises import are_undecided
from planner.ties import exceeds, largest_first


class CandidateFleet(Protocol):
    """A fleet, as predicted or as run."""

    @property
    def usd_per_hour(self) -> float:
        """Its rent."""

    @property
    def least_usd_per_hour(self) -> float:
        """Rent below which no fleet of its kind serves the demand."""

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Beside its run; none where it was not run."""


AnyFleet = TypeVar("AnyFleet", bound=CandidateFleet)


def is_kept(one: CandidateFleet) -> bool:
    """Whether a fleet was run, and keeps every promise."""
    return bool(one.promises) and all(promise.holds for promise in one.promises)


def is_undecided(one: CandidateFleet) -> bool:
    """Whether no run tells if a fleet keeps its promises."""
    return not one.promises or are_undecided(one.promises)


def best_first(options: Iterable[AnyFleet]) -> list[AnyFleet]:
    """Fleets that keep their promises, then undecided ones, then the others; of each the cheapest first.

    Fleets that cost the same stay in their order.
    """
    ranks: tuple[list[AnyFleet], ...] = ([], [], [])
    for one in options:
        ranks[0 if is_kept(one) else 1 if is_undecided(one) else 2].append(one)
    return [one for rank in ranks for one in largest_first(rank, lambda fleet: -fleet.usd_per_hour)]


def run_best(options: Iterable[AnyFleet], run: Callable[[AnyFleet, float], AnyFleet]) -> list[AnyFleet]:
    """Fleets with their runs, best first; without those that cannot cost less than one that is kept.

    Args:
        options: as predicted.
        run: the run of one, which need not look at fleets that cost as much as is stated or more [USD/h].
    """
    found: list[AnyFleet] = []
    for one in best_first(options):
        limit = min((other.usd_per_hour for other in found if is_kept(other)), default=inf)
        if exceeds(limit, one.least_usd_per_hour):
            found.append(run(one, limit))
    return best_first(found)
