"""What one more unit of a limit is worth to a network: by the linear program at the plan's own thresholds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic

from planner.errors import UndecidedError
from planner.optimizer.network.formulation import Question, build
from planner.optimizer.network.loads import Cell, NetworkLoads
from planner.optimizer.network.problem import NetworkProblem, Situation
from planner.optimizer.network.search import NetworkSolution, peak_situations
from planner.results import Bottleneck
from planner.units import MILLI

LIMIT_S = 20.0
"""Longest time for all of them; what does not fit in is left out."""
LATER_MS = 100.0
"""A promise is made this much longer to see what a millisecond of it is worth."""
NO_WORTH = 1e-7
"""Of the objective: below it a limit does not bind."""


def network_bottlenecks(problem: NetworkProblem, solution: NetworkSolution) -> tuple[Bottleneck, ...]:
    """Worth of one more accelerator, a millisecond of a promise and a request per second, most valuable first.

    Equation:
        C(limits) - C(limits + 1), C the least cost (or, negative, the most scale) of the linear program whose sizes may
        be fractions, at the thresholds of the plan in its busiest periods

    Args:
        problem: the resolved scenario.
        solution: its plan.

    Returns:
        USD per hour saved for min-cost, else requests per second gained; the demand's is what one more costs.

    Valid:
        For small changes of large fleets: whole instances make the true answer a staircase around it.

    Source:
        Sensitivity of linear programs by re-solving (Bertsimas and Tsitsiklis 1997, chapter 5).
    """
    deadline, cells = monotonic() + LIMIT_S, _cells(problem, solution)
    base = _least(problem, cells)
    found = []
    for name, unit, changed, per in _changes(problem):
        if base is None or monotonic() > deadline:
            break
        other = _least(changed, cells)
        if other is not None and abs(base - other) > NO_WORTH * abs(base):
            found.append(Bottleneck(constraint=name, shadow_price=_worth(problem, base, other) / per, unit=unit))
    return tuple(sorted(found, key=lambda b: -abs(b.shadow_price)))


def _worth(problem: NetworkProblem, base: float, other: float) -> float:
    """What a change is worth: money, or for a scale of the demand its requests per second."""
    return (base - other) * (1.0 if problem.is_min_cost else problem.mean_req_per_s)


def _changes(problem: NetworkProblem) -> Iterator[tuple[str, str, NetworkProblem, float]]:
    """Every limit with one more of it: name, unit, changed problem, and by how many units it was changed."""
    unit = "USD/h" if problem.is_min_cost else "req/s"
    if problem.is_min_cost:
        demands = tuple(
            d._replace(req_per_s=tuple(r * (1 + 1 / problem.mean_req_per_s) for r in d.req_per_s))
            for d in problem.demands
        )
        yield "demand_req_per_s", "USD/h per req/s", replace(problem, demands=demands), 1.0
    for v, inventory in enumerate(problem.inventories):
        more = replace(inventory, n_accelerators=inventory.n_accelerators + 1)
        others = (*problem.inventories[:v], more, *problem.inventories[v + 1 :])
        name = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
        yield name, f"{unit} per accelerator", replace(problem, inventories=others), 1.0
    for c, spec in enumerate(problem.classes):
        if spec.slo is not None and spec.slo.ttft_s is not None:
            slo = spec.slo.model_copy(update={"ttft_s": spec.slo.ttft_s + LATER_MS * MILLI})
            classes = (*problem.classes[:c], replace(spec, slo=slo), *problem.classes[c + 1 :])
            yield f"classes.{spec.name}.slo.ttft_s", f"{unit} per ms", replace(problem, classes=classes), LATER_MS


def _cells(problem: NetworkProblem, solution: NetworkSolution) -> Mapping[tuple[int, int], list[Cell]]:
    """The plan's thresholds, each with any allowance."""
    cells = {}
    for g, members in enumerate(problem.groups):
        for one in solution.settled:
            thresholds = {flow.threshold_tokens for flow in one.flows if flow.stream in members} or {0.0}
            cells[g, one.period] = [Cell(t, t) for t in sorted(thresholds)]
    return cells


def _least(problem: NetworkProblem, cells: Mapping[tuple[int, int], list[Cell]]) -> float | None:
    """The least objective with sizes that may be fractions; None where there is none."""
    situations: tuple[Situation, ...] = tuple(peak_situations(problem))
    pieces = {i: [(1, max(pool.max_instances, 1))] for i, pool in enumerate(problem.pools)}
    model = build(Question(NetworkLoads(problem), situations, cells, pieces))
    try:
        found = model.rows.solved(LIMIT_S, 0.0, whole=())
    except UndecidedError:
        return None
    return None if found is None else found.objective
