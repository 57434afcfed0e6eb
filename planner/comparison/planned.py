"""One scenario planned: what baselines and ways out of infeasibility ask again and again."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.comparison.evaluation import evaluation
from planner.optimizer.layout_choice import LAYOUTS_PART, planning_problem
from planner.optimizer.problem import ClassSpec, Problem
from planner.optimizer.solution import ANY_PLAN, GAP_TARGET, Solution, unit_of
from planner.optimizer.strategies import searched
from planner.results import Fleet
from planner.scenario import Scenario
from planner.work_clock import work_s

Classes = Sequence[ClassSpec]
"""Requests that were read before, so that no trace is read twice."""
LEAST_TIME_S = 0.1
FEW_SIZINGS = 20
"""Sizes that are looked at for any plan under a promise: most of those that there are plans of are found by then."""
ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this [req/s]."""


@dataclass(frozen=True)
class Planned:
    """A fleet, what it reaches, and what no fleet passes."""

    fleet: Fleet
    objective: float
    """Highest rate or goodput [req/s], bill [USD/h], or TTFT at the percentile asked for [s]."""
    bound: float
    problem: Problem
    solution: Solution


def planned(scenario: Scenario, classes: Classes, deadline: float, is_any: bool = False) -> Planned | None:
    """The best fleet of a scenario that is found until a deadline; None where it is proven that there is none.

    Args:
        scenario: the question.
        classes: its requests, as another problem has read them.
        deadline: `work_s()` time to stop at.
        is_any: whether the first fleet that does will do.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: weights or prompts fit nowhere.
        UndecidedError: time is up without a fleet or a proof.
    """
    left = max(deadline - work_s(), LEAST_TIME_S)
    problem = planning_problem(scenario, classes=classes, time_limit_s=LAYOUTS_PART * left)
    left = max(deadline - work_s(), LEAST_TIME_S)
    found = _any(problem, left) if is_any else searched(problem, left, GAP_TARGET)
    if found is None:
        return None
    unit = unit_of(problem)
    return Planned(
        Fleet(**evaluation(problem, found).fleet()), found.objective * unit, found.bound * unit, problem, found
    )


def _any(problem: Problem, time_limit_s: float) -> Solution | None:
    """Any plan: the cheapest one of the demand, or of hardly any, is found soonest."""
    return searched(_easy(problem), time_limit_s, ANY_PLAN, most_sizings=FEW_SIZINGS)


def _easy(problem: Problem) -> Problem:
    """The problem of the least cost; where the least TTFT is asked for, with a promise that hardly matters."""
    if not problem.is_priced:
        return problem
    easy = problem.demanding(problem.must_serve_req_per_s or ANY_RATE, "min-cost")
    if not problem.is_min_ttft:
        return easy
    from planner.optimizer.network.ttft_bisection import LONGEST_TTFT_S, with_ttft_slo  # loads what searches networks

    return with_ttft_slo(easy, LONGEST_TTFT_S)
