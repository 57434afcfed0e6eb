"""No plan exists: which limits are in the way, and the smallest change of each alone that would do."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, floor, log10
from time import monotonic

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.capacity import first_thresholds, threshold_loads
from planner.optimizer.formulation import Request, Sizing
from planner.optimizer.more_stock import Sizes, stock_relaxations, together
from planner.optimizer.problem import Problem
from planner.optimizer.promise import MOST_BUSY, best_goodput, least_promise_s
from planner.optimizer.promised_search import search
from planner.optimizer.resolution import planning_problem
from planner.optimizer.routes import most_useful_instances
from planner.optimizer.solver import Answer, solve
from planner.scenario import Scenario, Slo
from planner.units import number

TIME_LIMIT_S = 20.0
STOCK_LIMIT_S = 20.0
"""For all plans with more accelerators or instances,"""
ONE_LIMIT_S = 1.0
"""and for the thresholds of one of them."""
MORE = (1.0, 1.1, 1.3, 1.7)
"""Multiples of the demand that capacity is asked for until a promise holds."""
FEW_SIZES = 32
"""Sizes of a pool that are tried one by one; of more, the nearest is looked for by halves."""
ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this [req/s]."""


def infeasible(problem: Problem) -> InfeasibleError:
    """The error for a scenario without a plan: what was asked, and every single relaxation that would do."""
    ways = [*_relaxations(problem)]
    asked = (
        f"no fleet within the limits serves {number(problem.must_serve_req_per_s, 4)} req/s"
        if problem.must_serve_req_per_s is not None
        else "no fleet within the limits serves any request"
    )
    slo = problem.scenario.slo
    if problem.is_min_ttft and slo is not None and slo.ttft_s is not None:
        asked += f" within {number(slo.ttft_s)} s to the first token"
    if (promise := _broken_promise(problem)) is not None:
        asked = f"no fleet within the limits keeps the promise of {number(promise)} s on TTFT at any rate"
    listed = "".join(f"\n  - {way}" for way in ways)
    options = f"\nAny one of these would do:{listed}" if ways else "\nNo single limit can be relaxed to help."
    return InfeasibleError(f"{problem.scenario.name}: infeasible: {asked}.{options}", ways)


def _relaxations(problem: Problem) -> Iterator[str]:
    slo = problem.scenario.slo
    if slo is not None and slo.ttft_s is not None:
        # The others ask the model of capacity, which knows no promise.
        yield from _later_first_token(problem) if _broken_promise(problem) else _less_demand(problem)
        yield from _longer_promise(problem, slo)
        yield from _more_stock(problem)
        return
    yield from _less_demand(problem)
    yield from _more_budget(problem)
    if problem.is_min_ttft:  # its waits leave no pool quite full, which the model of capacity does not know
        yield from _more_stock(problem)
        return
    stock = [*_more_accelerators(problem), *_other_sizes(problem)]
    yield from stock or _more_of_several(problem)
    yield from _no_ratio(problem)


def _more_stock(problem: Problem) -> Iterator[str]:
    """Accelerators or instances that a promise or the least TTFT asks for, found by planning with them."""
    if problem.must_serve_req_per_s is not None:
        yield from stock_relaxations(problem.scenario, _most(problem), _planner(problem))


def _more_of_several(problem: Problem) -> Iterator[str]:
    if problem.must_serve_req_per_s is not None:
        yield from together(problem.scenario, _most(problem), _planner(problem))


def _most(problem: Problem) -> dict[str, int]:
    """Instances of every pool beyond which the demand has no use for more."""
    demand = problem.must_serve_req_per_s or 0.0
    return {pool.name: most_useful_instances(problem, i, demand) for i, pool in enumerate(problem.pools)}


def _planner(problem: Problem) -> Sizes:
    """Sizes that serve other scenarios with the same requests as promised, while there is time.

    They are those of the fewest accelerators that capacity asks for at the demand, or at more of it until the promise
    holds, else of the highest rate within the limits: not the fewest that keep it, but some that do.
    """
    deadline, demand = monotonic() + STOCK_LIMIT_S, problem.must_serve_req_per_s or 0.0

    def sizes(scenario: Scenario) -> Mapping[str, int] | None:
        try:
            other = planning_problem(scenario, classes=problem.classes)
            for request in _requests(other, demand):
                answer = _solve(other, request) if monotonic() < deadline else None
                if answer is not None and _keeps(other, answer, demand):
                    names = (pool.name for pool in other.pools)
                    return dict(zip(names, answer.sizing.n_instances, strict=True))
        except (InputError, InfeasibleError, UndecidedError):
            return None
        return None

    return sizes


def _requests(problem: Problem, demand: float) -> Iterator[Request]:
    counted = tuple(range(len(problem.pools)))
    for rate in (demand * more for more in MORE):
        yield Request("accelerators", least_rate=rate, most_rate=rate, counted=counted)
    yield Request("rate")


def _keeps(problem: Problem, answer: Answer, demand: float) -> bool:
    """Whether sizes of some capacity serve the demand as promised."""
    slo = problem.scenario.slo
    if slo is None or slo.ttft_s is None:
        return not problem.is_min_ttft or demand <= answer.rate * MOST_BUSY
    return best_goodput(problem, answer.sizing, monotonic() + ONE_LIMIT_S, demand).rate >= demand


def _broken_promise(problem: Problem) -> float | None:
    """A promised TTFT that even an idle fleet breaks [s]; None where there is none, or where the fleet keeps it."""
    slo = problem.scenario.slo
    if slo is None or slo.ttft_s is None:
        return None
    return slo.ttft_s if least_promise_s(problem, _widest(problem)) > slo.ttft_s else None


def _later_first_token(problem: Problem) -> Iterator[str]:
    promise = _broken_promise(problem)
    if promise is not None:
        least = least_promise_s(problem, _widest(problem))
        yield f"slo.ttft_s above {ceil(100 * least) / 100:g}, which an idle fleet takes (is {promise:g})"


def _longer_promise(problem: Problem, slo: Slo) -> Iterator[str]:
    """For the least TTFT beside a promise: the least that there is."""
    if not problem.is_min_ttft:
        return
    best = search(_changed(problem, slo=slo.model_copy(update={"ttft_s": None})), TIME_LIMIT_S)
    if best is not None:
        yield f"slo.ttft_s at least {ceil(100 * best.objective) / 100:g} (is {slo.ttft_s:g})"


def _widest(problem: Problem) -> Sizing:
    """Every port on offer; a TTFT without waiting does not depend on instances."""
    ports = tuple(tuple(tier.max_ports for tier in link.tiers) for link in problem.links)
    return Sizing((1,) * len(problem.pools), ports)


def _less_demand(problem: Problem) -> Iterator[str]:
    demand = problem.must_serve_req_per_s
    if demand is not None:
        best = search(_for_throughput(problem), TIME_LIMIT_S)
        most = best.objective if best else 0.0
        if best and best.goodput is None and problem.is_min_ttft:
            most *= MOST_BUSY  # beyond, decode and links have waits that no TTFT here counts
        if most > ANY_RATE:
            yield f"demand_req_per_s at most {_rounded_down(most)} (is {demand:g})"


def _for_throughput(problem: Problem) -> Problem:
    """The problem with the rate as objective, its pools limited to what the demand could ever use."""
    pools = tuple(replace(p, stated_max_instances=n) for p, n in zip(problem.pools, problem.size_limits, strict=True))
    return replace(_changed(problem, objective="max-throughput", demand_req_per_s=None), pools=pools)


def _rounded_down(rate: float) -> str:
    digits = 3 - floor(log10(rate))
    return f"{floor(rate * 10**digits) / 10**digits:g}"


def _more_budget(problem: Problem) -> Iterator[str]:
    budget = problem.scenario.budget_usd_per_hour
    if budget is not None:
        answer = _solve(_changed(problem, budget_usd_per_hour=None), _served(problem))
        if answer:
            yield f"budget_usd_per_hour at least {ceil(100 * answer.objective - 1e-6) / 100:g} (is {budget:g})"


def _more_accelerators(problem: Problem) -> Iterator[str]:
    for index, inventory in enumerate(problem.inventories):
        others = tuple(v for i, v in enumerate(problem.inventories) if i != index)
        answer = _solve(replace(problem, inventories=others), _served(problem, inventory.pools))
        if answer:
            key = f"sites.{inventory.site}.accelerators.{inventory.hardware}"
            yield f"{key} = {round(answer.objective)} (is {inventory.n_accelerators})"


def _other_sizes(problem: Problem) -> Iterator[str]:
    for index, pool in enumerate(problem.pools):
        low, high = pool.min_instances, pool.max_instances
        n = _nearest_size(problem, index)
        if n is not None:
            limits = f"{low}" if low == high else f"{low} to {'any' if high is None else high}"
            yield f"pools.{pool.name}.n_instances = {n} (is {limits})"


def _nearest_size(problem: Problem, index: int) -> int | None:
    """The size of a pool, closest to what it may be now, with which a plan exists."""
    least = _solve(_resized(problem, index, 0, None), _served(problem, (index,)))
    if least is None:
        return None
    smallest, stated = least.sizing.n_instances[index], problem.pools[index].min_instances
    fewer = range(smallest + 1, stated)
    if len(fewer) > FEW_SIZES:  # then the limit is a budget or an inventory, which what is smaller keeps as well
        n = bisect_left(fewer, True, key=lambda n: _solve(_resized(problem, index, n, n), _served(problem)) is None)
        return smallest + n
    return next((n for n in reversed(fewer) if _solve(_resized(problem, index, n, n), _served(problem))), smallest)


def _resized(problem: Problem, index: int, low: int, high: int | None) -> Problem:
    pool = replace(problem.pools[index], min_instances=low, stated_max_instances=high)
    return replace(problem, pools=(*problem.pools[:index], pool, *problem.pools[index + 1 :]))


def _no_ratio(problem: Problem) -> Iterator[str]:
    if problem.ratio is not None:
        routing = problem.scenario.routing.model_copy(update={"prefill_to_decode": "free"})
        if _solve(_changed(problem, routing=routing), _served(problem)):
            yield f'routing.prefill_to_decode = "free" (is "{problem.scenario.routing.prefill_to_decode}")'


def _served(problem: Problem, counted: tuple[int, ...] = ()) -> Request:
    """Serve the demand, or anything at all, with the least spend or the fewest accelerators in some pools."""
    demand = problem.must_serve_req_per_s
    least = ANY_RATE if demand is None else demand
    return Request("accelerators" if counted else "spend", least_rate=least, most_rate=least, counted=counted)


def _changed(problem: Problem, **changes: object) -> Problem:
    return replace(problem, scenario=problem.scenario.model_copy(update=changes))


def _solve(problem: Problem, request: Request) -> Answer | None:
    loads = [threshold_loads(problem, route, first_thresholds(problem, route)) for route in problem.routes]
    answer = solve(problem, loads, request, TIME_LIMIT_S)
    return answer if answer and answer.rate > 0 else None
