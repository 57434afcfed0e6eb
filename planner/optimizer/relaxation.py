"""No plan exists: which limits are in the way, and the smallest change of each alone that would do."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from planner.errors import InfeasibleError
from planner.optimizer.capacity import first_thresholds, threshold_loads
from planner.optimizer.formulation import Request
from planner.optimizer.problem import PlanningProblem
from planner.optimizer.solver import Answer, solve
from planner.units import number

TIME_LIMIT_S = 20.0
ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this [req/s]."""


def infeasible(problem: PlanningProblem) -> InfeasibleError:
    """The error for a scenario without a plan: what was asked, and every single relaxation that would do."""
    ways = [f"  - {way}" for way in _relaxations(problem)]
    asked = (
        f"no fleet within the limits serves {number(problem.scenario.demand_req_per_s, 4)} req/s"
        if problem.is_min_cost
        else "no fleet within the limits serves any request"
    )
    options = (
        "\nAny one of these would do:\n" + "\n".join(ways) if ways else "\nNo single limit can be relaxed to help."
    )
    return InfeasibleError(f"{problem.scenario.name}: infeasible: {asked}.{options}")


def _relaxations(problem: PlanningProblem) -> Iterator[str]:
    yield from _less_demand(problem)
    yield from _more_budget(problem)
    yield from _more_accelerators(problem)
    yield from _other_sizes(problem)
    yield from _no_ratio(problem)


def _less_demand(problem: PlanningProblem) -> Iterator[str]:
    if problem.is_min_cost:
        answer = _solve(problem, Request("rate", most_rate=problem.scenario.demand_req_per_s or 0.0))
        if answer and answer.rate > ANY_RATE:
            yield f"demand_req_per_s at most {number(answer.rate, 4)} (is {problem.scenario.demand_req_per_s:g})"


def _more_budget(problem: PlanningProblem) -> Iterator[str]:
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None:
        answer = _solve(_changed(problem, budget_usd_per_hour=None), _served(problem, "spend"))
        if answer:
            yield f"budget_usd_per_hour at least {ceil(100 * answer.objective - 1e-6) / 100:g} (is {budget:g})"


def _more_accelerators(problem: PlanningProblem) -> Iterator[str]:
    for index, inventory in enumerate(problem.inventories):
        others = tuple(v for i, v in enumerate(problem.inventories) if i != index)
        answer = _solve(replace(problem, inventories=others), _served(problem, "spend"))
        if answer:
            need = sum(answer.sizing.n_instances[i] * problem.pools[i].n_accelerators for i in inventory.pools)
            key = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
            yield f"{key} = {need} (is {inventory.n_accelerators})"


def _other_sizes(problem: PlanningProblem) -> Iterator[str]:
    for index, pool in enumerate(problem.pools):
        freed = replace(pool, min_instances=0, max_instances=None)
        pools = (*problem.pools[:index], freed, *problem.pools[index + 1 :])
        answer = _solve(replace(problem, pools=pools), _served(problem, "spend"))
        if answer:
            limits = f"{pool.min_instances} to {'any' if pool.max_instances is None else pool.max_instances}"
            yield f"pools.{pool.name}.n_instances = {answer.sizing.n_instances[index]} (is {limits})"


def _no_ratio(problem: PlanningProblem) -> Iterator[str]:
    if problem.ratio is not None:
        routing = problem.scenario.routing.model_copy(update={"prefill_to_decode": "free"})
        if _solve(_changed(problem, routing=routing), _served(problem, "spend")):
            yield f'routing.prefill_to_decode = "free" (is "{problem.scenario.routing.prefill_to_decode}")'


def _served(problem: PlanningProblem, goal: str) -> Request:
    demand = problem.scenario.demand_req_per_s if problem.is_min_cost else None
    least = demand if demand is not None else ANY_RATE
    return Request("rate" if goal == "rate" else "spend", least_rate=least, most_rate=least)


def _changed(problem: PlanningProblem, **changes: object) -> PlanningProblem:
    return replace(problem, scenario=problem.scenario.model_copy(update=changes))


def _solve(problem: PlanningProblem, request: Request) -> Answer | None:
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    answer = solve(problem, loads, request, TIME_LIMIT_S)
    return answer if answer and answer.rate > 0 else None
