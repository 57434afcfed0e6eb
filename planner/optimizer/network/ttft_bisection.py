"""The least TTFT at which a network serves its demand: the search under a promise, asked again and again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from time import monotonic

from planner.errors import InputError, UndecidedError
from planner.optimizer.network.search import network_search
from planner.optimizer.network.settings import SETTINGS
from planner.optimizer.problem import ClassSpec, Problem
from planner.optimizer.solution import ANY_PLAN, Solution
from planner.scenario import Slo

GAP = 0.02
"""Relative distance of the least promise that is kept and the greatest that is proven broken."""
LONGEST_TTFT_S = 3600.0
"""A promise that waits hardly matter to: where even this has no plan, capacity is what lacks."""
SHORTEST_TTFT_S = 1e-3


@dataclass(frozen=True)
class LeastTtftPlan:
    """The plan with the shortest promise that was found to be kept."""

    problem: Problem
    """As it was asked: every class without a promise on TTFT promises `ttft_s`."""
    solution: Solution
    ttft_s: float
    bound_s: float
    """Longest promise that is proven not to be kept [s]."""

    @property
    def gap(self) -> float:
        """Relative distance of TTFT and bound."""
        return (self.ttft_s - self.bound_s) / self.ttft_s

    def as_solution(self, target: float) -> Solution:
        """The plan with its TTFT as the objective, and the gap that counts as none."""
        return replace(self.solution, objective=self.ttft_s, bound=self.bound_s, target=target)


@dataclass
class _Bracket:
    """What is known of promises: from `attained_s` on they are kept, up to `missed_s` proven not to be [s]."""

    attained_s: float
    missed_s: float
    unclear_s: tuple[float, float] | None = None
    """Shortest and longest promise that neither was found to be kept nor is proven not to be."""

    @property
    def is_closed(self) -> bool:
        """Whether what is kept, what is unclear and what is not kept are next to each other."""
        low, high = self._open
        return low >= high

    def next_s(self) -> float:
        """Half way, on a logarithmic scale, through what is not known."""
        low, high = self._open
        return sqrt(low * high)

    @property
    def _open(self) -> tuple[float, float]:
        """Below an unclear promise, where it may be proven; then above it, where it may be kept; low = high: none."""
        low, high = self.missed_s, self.attained_s if self.unclear_s is None else self.unclear_s[0]
        if low * (1 + GAP) < high or self.unclear_s is None:
            return (low, high) if low * (1 + GAP) < high else (high, high)
        low, high = self.unclear_s[1], self.attained_s
        return (low, high) if low * (1 + GAP) < high else (high, high)

    def note_unclear(self, ttft_s: float) -> None:
        """A promise of which nothing was found out."""
        low, high = self.unclear_s or (ttft_s, ttft_s)
        self.unclear_s = min(low, ttft_s), max(high, ttft_s)

    def note_attained(self, ttft_s: float) -> None:
        """A promise that is kept, and with it every longer one."""
        self.attained_s = ttft_s
        if self.unclear_s is not None and self.unclear_s[0] >= ttft_s:
            self.unclear_s = None


def least_ttft_by_bisection(problem: Problem, time_limit_s: float) -> LeastTtftPlan | None:
    """The least TTFT at which a network serves its demand within its budget and inventories, by bisection.

    Args:
        problem: the resolved scenario with the objective min-ttft.
        time_limit_s: seconds after which the best plan so far is returned with its bound.

    Returns:
        Plan, TTFT and bound; None where no plan exists.

    Raises:
        InputError: every class promises a TTFT of its own, so that none is left to be kept short.
        UndecidedError: when time is up without a plan or a proof that there is none.

    Valid:
        A promise is kept as for `network_search`; classes with a promise of their own keep that.
    """
    _check_has_free_class(problem)
    deadline = monotonic() + time_limit_s

    def solved(ttft_s: float) -> Solution | None:
        left = deadline - monotonic()
        longest = max(SETTINGS.ttft_time_share * time_limit_s, 1.0)
        return network_search(with_ttft_slo(problem, ttft_s), min(left, longest), ANY_PLAN)

    first = network_search(with_ttft_slo(problem, LONGEST_TTFT_S), time_limit_s, ANY_PLAN)
    if first is None:
        return None
    best, bracket = _bisected(solved, first, deadline)
    under_slo = with_ttft_slo(problem, bracket.attained_s)
    return LeastTtftPlan(under_slo, best, bracket.attained_s, bracket.missed_s)


def _bisected(
    solved: Callable[[float], Solution | None], first: Solution, deadline: float
) -> tuple[Solution, _Bracket]:
    best, bracket = first, _Bracket(LONGEST_TTFT_S, SHORTEST_TTFT_S)
    while not bracket.is_closed and monotonic() < deadline:
        ttft_s = bracket.next_s()
        try:
            found = solved(ttft_s)
        except UndecidedError:
            bracket.note_unclear(ttft_s)
            continue
        if found is None:
            bracket.missed_s = ttft_s
        else:
            best = found
            bracket.note_attained(ttft_s)
    return best, bracket


def with_ttft_slo(problem: Problem, ttft_s: float) -> Problem:
    """The problem of the cheapest plan in which every class without a promise on TTFT promises this one [s]."""
    slo = (problem.scenario.slo or Slo()).model_copy(update={"ttft_s": ttft_s})
    scenario = problem.scenario.model_copy(update={"objective": "min-cost", "slo": slo})
    return replace(problem, scenario=scenario, classes=tuple(_promised(c, ttft_s) for c in problem.classes))


def _promised(spec: ClassSpec, ttft_s: float) -> ClassSpec:
    if spec.ttft_s is not None:
        return spec
    return replace(spec, slo=(spec.slo or Slo()).model_copy(update={"ttft_s": ttft_s}))


def _check_has_free_class(problem: Problem) -> None:
    if all(c.ttft_s is not None for c in problem.classes):
        what = "min-ttft has nothing to shorten: every class of requests promises a TTFT already"
        raise InputError(problem.scenario.problem(("objective",), what, "leave ttft_s out of a class, or min-cost"))
