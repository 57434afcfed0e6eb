"""One scenario planned, of whichever kind: what baselines and ways out of infeasibility ask again and again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from planner.optimizer.fleet import fleet_fields
from planner.optimizer.network.problem import NetworkClass, network_problem
from planner.optimizer.network.quickest import ANY_PLAN, LONGEST_S, quickest_network
from planner.optimizer.network.search import network_search
from planner.optimizer.network.solution import GAP_TARGET
from planner.optimizer.network.told import Told
from planner.optimizer.problem import ClassSpec, PlanningProblem, planning_problem
from planner.optimizer.promised_search import search
from planner.optimizer.search import Solution, first_plan
from planner.results import Fleet
from planner.scenario import Scenario, Slo

Classes = Sequence[ClassSpec | NetworkClass]
"""Requests that were read before, so that no trace is read twice."""
LEAST_TIME_S = 0.1
ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this [req/s]."""


@dataclass(frozen=True)
class Planned:
    """A fleet, what it reaches, and what no fleet passes."""

    fleet: Fleet
    objective: float
    """Highest rate or goodput [req/s], bill [USD/h], or TTFT at the percentile asked for [s]."""
    bound: float


def planned(scenario: Scenario, classes: Classes, deadline: float, is_any: bool = False) -> Planned | None:
    """The best fleet of a scenario that is found until a deadline; None where it is proven that there is none.

    Args:
        scenario: the question.
        classes: its requests, as another problem has read them.
        deadline: `monotonic()` time to stop at.
        is_any: whether the first fleet that does will do.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: weights or prompts fit nowhere.
        UndecidedError: time is up without a fleet or a proof.
    """
    left = max(deadline - monotonic(), LEAST_TIME_S)
    if scenario.is_network:
        return _as_network(scenario, classes, left, is_any)
    problem = planning_problem(scenario, classes=tuple(ClassSpec(c.name, c.share, c.mix) for c in classes))
    if _promises(problem) and len(problem.routes) != 1:  # several ways to keep a promise: their waits are a network's
        return _as_network(scenario, classes, left, is_any)
    found = _any(problem, left) if is_any else search(problem, left)
    return found and Planned(Fleet(**fleet_fields(problem, found)), found.objective, found.bound)


def _promises(problem: PlanningProblem) -> bool:
    """Whether a first token may come too late."""
    return problem.is_min_ttft or (problem.scenario.slo is not None and problem.scenario.slo.ttft_s is not None)


def _any(problem: PlanningProblem, time_limit_s: float) -> Solution | None:
    """Any plan: the cheapest one of the demand, or of hardly any, is found soonest."""
    slo = problem.scenario.slo
    asked: dict[str, object] = {"objective": "min-cost", "demand_req_per_s": problem.must_serve_req_per_s or ANY_RATE}
    if problem.is_min_ttft:
        slo = (slo or Slo()).model_copy(update={"ttft_s": (slo or Slo()).ttft_s or LONGEST_S})
    easy = replace(problem, scenario=problem.scenario.model_copy(update=asked | {"slo": slo}))
    first = None if slo is not None and slo.ttft_s is not None else first_plan(easy, time_limit_s)
    return first or search(easy, time_limit_s)


def _as_network(scenario: Scenario, classes: Classes, time_limit_s: float, is_any: bool) -> Planned | None:
    specs = tuple(
        NetworkClass(
            c.name,
            scenario.model_of(c.name),
            c.share,
            c.mix,
            scenario.slo_of(c.name),
            scenario.workloads[c.name][1].arrivals.squared_cv,
        )
        for c in classes
    )
    problem = network_problem(scenario, classes=specs)
    if scenario.objective == "min-ttft":
        quickest = quickest_network(problem, time_limit_s)
        return quickest and Planned(
            Fleet(**Told(quickest.problem, quickest.solution).fleet()), quickest.ttft_s, quickest.bound_s
        )
    found = network_search(problem, time_limit_s, ANY_PLAN if is_any else GAP_TARGET)
    unit = 1.0 if problem.is_min_cost else problem.mean_req_per_s
    return found and Planned(Fleet(**Told(problem, found).fleet()), found.objective * unit, found.bound * unit)
