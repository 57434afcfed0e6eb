"""Latency of a plan's sizes at nodes of threshold and rate, as `planner optimize` finds it."""

from collections.abc import Callable, Sequence

from planner.comparison.evaluation import Evaluation
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.queueing.ttft import Ttft
from planner.results.explorer import ExactNodes, Tables
from planner.studies.explore.combination import QUANTILES, Knobs, combined, fleet_req_per_s
from planner.studies.explore.network import TurnedNetwork
from planner.studies.explore.tables import Turned

LOADS = (0.5, 0.7, 0.85, 0.95)
"""Rates of the nodes, over the most that the plan serves."""
SATURATED = 1 - 1e-9
NEAR = 0.04
"""Distance from the combined figure at which an exact one is looked for first."""
CLOSE = 1e-9
"""Relative width of the range that a quantile is narrowed to."""
FALSE_POSITIONS = 10


def with_exact_nodes(tables: Tables, problem: Problem, solution: Solution) -> Tables:
    """The tables with what `planner optimize` says of the plan's sizes at the nodes."""
    if not problem.has_queueing_model:
        return tables
    turned, sizes = Turned(problem, solution), tuple(pool.n_planned for pool in tables.pools)
    most = fleet_req_per_s(tables, Knobs(sizes, tables.planned_tokens, 1.0))
    rates = {float(f"{most * load:.4g}") for load in LOADS}
    here = solution.scale * problem.mean_req_per_s
    demand = min(problem.demand_req_per_s or here, here)
    rates |= {demand} if demand < most * SATURATED else set()
    found = [[_latency(turned, tables, Knobs(sizes, t, r)) for r in sorted(rates)] for t in tables.node_tokens]
    names = ("ttft_mean_s", *QUANTILES, "tpot_mean_s")
    figures = {name: tuple(tuple(at.get(name) for at in row) for row in found) for name in names}
    return tables.model_copy(update={"exact": ExactNodes(req_per_s=tuple(sorted(rates)), figures=figures)})


def with_exact_network(tables: Sequence[Tables], turned: TurnedNetwork) -> tuple[Tables, ...]:
    """The tables of every period with what `planner optimize` says of the plan's sizes at the nodes."""
    if not turned.problem.has_queueing_model:
        return tuple(tables)
    _, factors = turned.factors
    found: list[list[dict[str, float | None]]] = [[] for _ in tables]
    for k, factor in enumerate(factors):
        answer = Evaluation(turned.problem, turned.at(float(factor)))
        for p, one in enumerate(tables):
            knobs = Knobs(tuple(pool.n_planned for pool in one.pools), one.node_tokens[k], one.planned_req_per_s)
            found[p].append(_exact(answer, p, combined(one, knobs)))
    names = ("ttft_mean_s", *QUANTILES, "tpot_mean_s")
    return tuple(
        one.model_copy(
            update={
                "exact": ExactNodes(
                    req_per_s=(one.planned_req_per_s,),
                    figures={name: tuple((at.get(name),) for at in found[p]) for name in names},
                )
            }
        )
        for p, one in enumerate(tables)
    )


def _latency(turned: Turned, tables: Tables, knobs: Knobs) -> dict[str, float | None]:
    answer = Evaluation(turned.problem, turned.at(knobs.threshold_tokens, knobs.req_per_s))
    return _exact(answer, 0, combined(tables, knobs))


def _exact(answer: Evaluation, p: int, guess: dict[str, float | None] | None) -> dict[str, float | None]:
    """Latency of a period as the optimizer finds it; nothing without a steady state."""
    if guess is None:
        return {}
    streams = range(len(answer.problem.streams))
    ttft = answer.ttft(streams, (p,))
    if ttft is None:
        return {}
    found = {name: quantile_near_s(ttft, q, guess[name] or ttft.mean_s) for name, q in QUANTILES.items()}
    return {"ttft_mean_s": ttft.mean_s, **found, "tpot_mean_s": answer.step_s(streams, (p,))}


def quantile_near_s(ttft: Ttft, q: float, guess_s: float) -> float:
    """`Ttft.quantile_s`, to nine digits, found sooner from a good guess: by false position, then by halves."""
    allowed = 1 - q + 1e-12

    def excess(x: float) -> float:
        return float(ttft.survival(x)) - allowed

    low, high = _bracket(excess, guess_s)
    below, above = excess(low), excess(high)
    for step in range(200):
        if high - low <= CLOSE * high:
            break
        middle = (low + high) / 2
        if step < FALSE_POSITIONS and step % 2 == 0 and below > above:
            middle = low + (high - low) * min(max(below / (below - above), 0.02), 0.98)
        value = excess(middle)
        low, below, high, above = (middle, value, high, above) if value > 0 else (low, below, middle, value)
    return high


def _bracket(excess: Callable[[float], float], guess_s: float) -> tuple[float, float]:
    """A time that too many exceed, or 0, and one that few enough do."""
    low, high, width = guess_s * (1 - NEAR), guess_s * (1 + NEAR), NEAR
    while excess(high) > 0:
        low, width = high, 2 * width
        high *= 1 + width
    while low > 0 and excess(low) <= 0:
        high, width = low, 2 * width
        low *= max(1 - width, 0.0)
    return low, high
