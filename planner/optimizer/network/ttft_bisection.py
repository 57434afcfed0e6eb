"""The least TTFT at which a network serves its demand: bisection over SLOs, each with a search of its own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

from planner.errors import InputError, UndecidedError
from planner.optimizer.network.judged_moves import soonest
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import ANY_PLAN, Solution
from planner.scenario import Slo
from planner.work_clock import work_s

GAP = 0.02
"""Relative distance of the least TTFT that is attained and the greatest that is proven missed, at the end."""
LONGEST_TTFT_S = 3600.0
"""A TTFT at which waits hardly matter: where even this has no plan, capacity is missing."""
SHORTEST_TTFT_S = 1e-3


@dataclass(frozen=True)
class LeastTtftPlan:
    """The plan with the shortest TTFT that was found to be attained."""

    problem: Problem
    """The problem that the plan solves: `ttft_s` is the SLO of every class that had none on TTFT."""
    solution: Solution
    ttft_s: float
    bound_s: float
    """Longest TTFT that is proven to be missed by every plan [s]."""

    @property
    def gap(self) -> float:
        """Relative distance of TTFT and bound [fraction]."""
        return (self.ttft_s - self.bound_s) / self.ttft_s

    def as_solution(self, target: float) -> Solution:
        """The plan with its TTFT as the objective.

        Args:
            target: gap that counts as none [fraction].
        """
        return replace(self.solution, objective=self.ttft_s, bound=self.bound_s, target=target)


@dataclass
class _Bracket:
    """Bracket of the least TTFT: plans attain `attained_s` and longer, none attains `missed_s` or shorter [s]."""

    attained_s: float
    missed_s: float
    unclear_s: tuple[float, float] | None = None
    """Shortest and longest TTFT that is neither known to be attained nor proven to be missed [s]."""

    @property
    def is_closed(self) -> bool:
        """True if attained, unclear and missed TTFTs are next to each other."""
        low, high = self._open
        return low >= high

    def next_s(self) -> float:
        """The next TTFT to try: half way, on a logarithmic scale, through an open interval [s]."""
        low, high = self._open
        return sqrt(low * high)

    @property
    def _open(self) -> tuple[float, float]:
        """The open interval below the unclear TTFTs, else the one above them [s]; its ends are equal where neither is
        left.
        """
        low, high = self.missed_s, self.attained_s if self.unclear_s is None else self.unclear_s[0]
        if low * (1 + GAP) < high or self.unclear_s is None:
            return (low, high) if low * (1 + GAP) < high else (high, high)
        low, high = self.unclear_s[1], self.attained_s
        return (low, high) if low * (1 + GAP) < high else (high, high)

    def note_unclear(self, ttft_s: float) -> None:
        """Note a TTFT of which nothing was found out.

        Args:
            ttft_s: the TTFT [s].
        """
        low, high = self.unclear_s or (ttft_s, ttft_s)
        self.unclear_s = min(low, ttft_s), max(high, ttft_s)

    def note_attained(self, ttft_s: float) -> None:
        """Note a TTFT that a plan attains, and with it every longer one.

        Args:
            ttft_s: the TTFT [s].
        """
        self.attained_s = ttft_s
        if self.unclear_s is not None and self.unclear_s[0] >= ttft_s:
            self.unclear_s = None


def least_ttft_by_bisection(problem: Problem, time_limit_s: float) -> LeastTtftPlan | None:
    """The least TTFT at which a network serves its demand within its budget and inventories.

    Equation:
        min x such that some plan has P(TTFT <= x) >= the percentile, for every class without an SLO on TTFT of its own

    Args:
        problem: the resolved scenario with the objective min-ttft.
        time_limit_s: time after which the best plan so far is returned with its bound [s].

    Returns:
        Plan, TTFT and bound; None where no plan exists.

    Raises:
        InputError: every class has an SLO on TTFT of its own, so that none is left to be shortened.
        UndecidedError: time is up without a plan or a proof that there is none.

    Valid:
        An SLO is met as in `network_search`; classes with an SLO of their own are within that.
    """
    _check_has_free_class(problem)
    deadline = work_s() + time_limit_s

    def solved(ttft_s: float) -> Solution | None:
        left = deadline - work_s()
        longest = max(SETTINGS.ttft_time_share * time_limit_s, 1.0)
        return network_search(with_ttft_slo(problem, ttft_s), min(left, longest), ANY_PLAN)

    first = network_search(with_ttft_slo(problem, LONGEST_TTFT_S), time_limit_s, ANY_PLAN)
    if first is None:
        return None

    def attained(found: Solution) -> tuple[float, Solution]:
        return soonest(with_ttft_slo(problem, LONGEST_TTFT_S), found)

    best, bracket = _bisected(solved, first, deadline, attained if _is_of_batches(problem) else None)
    under_slo = with_ttft_slo(problem, bracket.attained_s)
    return LeastTtftPlan(under_slo, best, bracket.attained_s, bracket.missed_s)


def _is_of_batches(problem: Problem) -> bool:
    """True if the TTFT of a plan can be told from its batches: no class has a promise of its own."""
    return problem.has_batches and not any(spec.ttft_s is not None for spec in problem.classes)


def _bisected(
    solved: Callable[[float], Solution | None],
    first: Solution,
    deadline: float,
    attained: Callable[[Solution], tuple[float, Solution]] | None = None,
) -> tuple[Solution, _Bracket]:
    best, bracket = first, _Bracket(LONGEST_TTFT_S, SHORTEST_TTFT_S)
    if attained is not None:
        kept_s, best = attained(first)
        bracket.note_attained(min(kept_s, LONGEST_TTFT_S))
    while not bracket.is_closed and work_s() < deadline:
        ttft_s = bracket.next_s()
        try:
            found = solved(ttft_s)
        except UndecidedError:
            bracket.note_unclear(ttft_s)
            continue
        if found is None:
            bracket.missed_s = ttft_s
        else:
            kept_s, best = (ttft_s, found) if attained is None else attained(found)
            bracket.note_attained(min(kept_s, ttft_s))
    return best, bracket


def with_ttft_slo(problem: Problem, ttft_s: float) -> Problem:
    """The problem of the cheapest plan under one TTFT for all classes without an SLO on TTFT.

    Args:
        problem: the resolved scenario.
        ttft_s: the TTFT of their SLO [s].
    """
    slo = (problem.scenario.slo or Slo()).model_copy(update={"ttft_s": ttft_s})
    scenario = problem.scenario.model_copy(update={"objective": "min-cost", "slo": slo})
    return replace(problem, scenario=scenario, classes=tuple(_class_with_ttft(c, ttft_s) for c in problem.classes))


def _class_with_ttft(spec: ClassSpec, ttft_s: float) -> ClassSpec:
    if spec.ttft_s is not None:
        return spec
    return replace(spec, slo=(spec.slo or Slo()).model_copy(update={"ttft_s": ttft_s}))


def _check_has_free_class(problem: Problem) -> None:
    if all(c.ttft_s is not None for c in problem.classes):
        what = "min-ttft has nothing to shorten: every class of requests promises a TTFT already"
        raise InputError(problem.scenario.problem(("objective",), what, "leave ttft_s out of a class, or min-cost"))
