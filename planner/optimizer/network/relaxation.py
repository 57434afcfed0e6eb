"""No plan of a network exists: the smallest change of demand, promises, budget or spare that would do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import ceil, floor, log10
from time import monotonic

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.more_stock import stock_relaxations
from planner.optimizer.network.limits import largest_sizes
from planner.optimizer.network.problem import NetworkClass, NetworkProblem, most_for_demand, network_problem
from planner.optimizer.network.quickest import ANY_PLAN
from planner.optimizer.network.search import network_search
from planner.optimizer.network.solution import NetworkSolution
from planner.scenario import Scenario, Spare
from planner.units import number

LIMIT_S = 40.0
"""For all relaxations of demand, money and promises together; what does not fit in is left out."""
STOCK_LIMIT_S = 20.0
"""For all plans with more accelerators or instances."""
LONGEST = 64.0
"""Multiple of the promised TTFT beyond which no longer promise is looked for."""
NEAR = 0.02
"""How closely that multiple is found."""
DIGITS = 3


def infeasible_network(problem: NetworkProblem, time_limit_s: float = LIMIT_S + STOCK_LIMIT_S) -> InfeasibleError:
    """The error for a network without a plan: what was asked, and every single relaxation that was found to do.

    Args:
        problem: the resolved scenario.
        time_limit_s: for all of them together [s]; what does not fit in is left out.
    """
    asked = f"no fleet within the limits serves {number(problem.mean_req_per_s)} req/s on average as promised"
    ways = [*_relaxations(problem, monotonic() + time_limit_s)]
    listed = "".join(f"\n  - {way}" for way in ways)
    options = f"\nAny one of these would do:{listed}" if ways else ""
    return InfeasibleError(f"{problem.scenario.name}: infeasible: {asked}.{options}", ways)


def _relaxations(problem: NetworkProblem, stop: float) -> Iterator[str]:
    deadline = min(stop, monotonic() + LIMIT_S)
    yield from _less_demand(problem, deadline)
    yield from _more_budget(problem, deadline)
    yield from _no_spare(problem, deadline)
    yield from _more_stock(problem, min(stop, monotonic() + STOCK_LIMIT_S))
    yield from _longer_promises(problem, deadline)


def _more_stock(problem: NetworkProblem, deadline: float) -> Iterator[str]:
    """Accelerators or instances that the demand lacks, found by planning with them."""
    if problem.scenario.demand_req_per_s is None or not problem.is_priced:
        return
    most: dict[str, int] = {}
    for i, pool in enumerate(problem.pools):
        most[pool.key] = max(most.get(pool.key, 0), most_for_demand(problem, i))

    def sizes(scenario: Scenario) -> Mapping[str, int] | None:
        asked = scenario.model_copy(update={"objective": "min-cost"})
        try:
            other = network_problem(asked, classes=problem.classes)
        except (InputError, InfeasibleError):
            return None
        found = _found(other, deadline)
        return None if found is None else _sizes(other, found)

    yield from stock_relaxations(problem.scenario, most, sizes)


def _sizes(problem: NetworkProblem, solution: NetworkSolution) -> dict[str, int]:
    """Most instances of every pool of the scenario in any period, in all its layouts."""
    sizes: dict[str, int] = {}
    for pool, n in zip(problem.pools, largest_sizes(problem, solution), strict=True):
        sizes[pool.key] = sizes.get(pool.key, 0) + n
    return sizes


def _less_demand(problem: NetworkProblem, deadline: float) -> Iterator[str]:
    """The most that the same fleet limits serve, of the same profile of demand."""
    demand = problem.scenario.demand_req_per_s
    if demand is None:
        return
    found = _found(_changed(problem, objective="max-throughput"), deadline, None)
    if found is not None and 0 < found.scale < 1:
        yield f"demand_req_per_s at most {_rounded(found.scale * demand, floor)} (is {demand:g})"


def _more_budget(problem: NetworkProblem, deadline: float) -> Iterator[str]:
    budget = problem.scenario.budget_usd_per_hour
    if budget is None or not problem.is_priced:
        return
    found = _found(_changed(problem, objective="min-cost", budget_usd_per_hour=None), deadline, None)
    if found is not None and found.objective > budget:
        yield f"budget_usd_per_hour at least {_rounded(found.objective, ceil)} (is {budget:g})"


def _no_spare(problem: NetworkProblem, deadline: float) -> Iterator[str]:
    survive = problem.scenario.spare.survive
    if survive and _found(_changed(problem, objective="min-cost", spare=Spare()), deadline) is not None:
        yield f"no [spare] (is survive = {list(survive)})"


def _longer_promises(problem: NetworkProblem, deadline: float) -> Iterator[str]:
    """The least multiple of every promised TTFT, by bisection of its logarithm."""
    promised = [c for c in problem.classes if c.ttft_s is not None]
    if not promised or _found(_later(problem, LONGEST), deadline) is None:
        return
    broken, kept = 1.0, LONGEST
    while kept > broken * (1 + NEAR) and monotonic() < deadline:
        middle = (broken * kept) ** 0.5
        broken, kept = (broken, middle) if _found(_later(problem, middle), deadline) is not None else (middle, kept)
    yield f"every ttft_s at least {_rounded(kept, ceil)} times as long"


def _later(problem: NetworkProblem, factor: float) -> NetworkProblem:
    return replace(
        _changed(problem, objective="min-cost"), classes=tuple(_promised(c, factor) for c in problem.classes)
    )


def _promised(spec: NetworkClass, factor: float) -> NetworkClass:
    if spec.slo is None or spec.ttft_s is None:
        return spec
    return replace(spec, slo=spec.slo.model_copy(update={"ttft_s": factor * spec.ttft_s}))


def _changed(problem: NetworkProblem, **changes: object) -> NetworkProblem:
    return replace(problem, scenario=problem.scenario.model_copy(update=changes))


def _found(problem: NetworkProblem, deadline: float, gap: float | None = ANY_PLAN) -> NetworkSolution | None:
    """A plan, or the best one; None where there is none, or none was found in time."""
    left = deadline - monotonic()
    if left <= 0:
        return None
    try:
        return network_search(problem, left) if gap is None else network_search(problem, left, gap)
    except UndecidedError:
        return None


def _rounded(value: float, how: Callable[[float], int]) -> str:
    """A value of a few digits, down or up.

    >>> _rounded(1234.5, floor), _rounded(0.12345, ceil)
    ('1230', '0.124')
    """
    unit = 10.0 ** (DIGITS - 1 - floor(log10(value)))
    return f"{how(round(value * unit, 6)) / unit:g}"
