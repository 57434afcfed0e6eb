"""Gain that one threshold leaves on the table: every length bin routed wherever it fits best, in any fraction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.network.request_loads import RequestLoads
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import most_of_sizes
from planner.optimizer.solution import Solution
from planner.results.plan import FreeRouting
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT
from planner.workload.mix import ALL_LONG

if TYPE_CHECKING:
    import pulp

Array = NDArray[np.float64]
N_BINS = 256


@dataclass(frozen=True)
class RoutingChoice:
    """A prefill pool, the link behind it and the decode pool that a request may use."""

    pool: int
    link: int | None
    decode: int
    decode_s: float


@dataclass(frozen=True)
class Terms:
    """Terms of the capacity rows, by pool and by link."""

    work: dict[int, list[pulp.LpAffineExpression]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[int, list[pulp.LpAffineExpression]] = field(default_factory=lambda: defaultdict(list))


def free_routing(problem: Problem, solution: Solution, highest_req_per_s: float) -> FreeRouting | None:
    """The per-bin routing LP at the sizes of a solution.

    Equation:
        max R with x_cbj >= 0, sum_j x_cbj = R share_c m_cb; for pool i: sum x_cbj E[T_i | bin b] <= n_i; links likewise

    Args:
        problem: the resolved scenario.
        solution: sizes and thresholds; its thresholds are bin edges, so the LP is never below it.
        highest_req_per_s: the most that it serves [req/s].

    Returns:
        The LP's rate and its gain; None under `mean-length`, whose pools have no work per bin.

    Valid:
        Within a bin every route takes a representative share of its lengths.

    Source:
        Transportation form of the routing problem (Dantzig 1963, chapter 14).
    """
    if problem.scenario.capacity_rule != "expected-work":
        return None
    import pulp

    lp = pulp.LpProblem("free_routing", pulp.LpMaximize)
    rate = lp.add_variable("rate", 0)
    lp.setObjective(rate)
    terms = Terms()
    for c in range(len(problem.classes)):
        _route_class(problem, solution, c, lp, rate, terms)
    for i, work in terms.work.items():
        lp.addConstraint(pulp.lpSum(work) <= solution.operations[0].n_instances[i], f"work_{i}")
    for i, sent in terms.sent.items():
        lp.addConstraint(pulp.lpSum(sent) <= problem.links[i].gbps(solution.ports[i]), f"link_{i}")
    lp.solve(pulp.HiGHS(msg=False, threads=1))
    if lp.sol_status != pulp.LpSolutionOptimal:
        return None
    best, routed = float(rate.value()), solution.routed
    base = highest_req_per_s if routed is None else most_of_sizes(problem, routed.sizing, routed)
    return FreeRouting(max_throughput_req_per_s=max(best, base), gain=max(best / base - 1, 0.0), n_bins=N_BINS)


def _route_class(
    problem: Problem,
    solution: Solution,
    request_class: int,
    lp: pulp.LpProblem,
    rate: pulp.LpVariable,
    terms: Terms,
) -> None:
    """Add the flows of a class: every bin's rate goes somewhere, and loads what it passes."""
    import pulp

    edges, choices = _edges(problem, solution, request_class), list(_choices(problem, request_class))
    mass = -np.diff(problem.classes[request_class].mix.long_fraction(edges))
    bins = [int(b) for b in np.flatnonzero(mass > 0)]
    share = problem.classes[request_class].share
    held = {j: _bins_that_fit(problem, request_class, choice, edges, bins) for j, choice in enumerate(choices)}
    flow = {(b, j): lp.add_variable(f"x_{request_class}_{b}_{j}", 0) for b in bins for j in held if b in held[j]}
    for b in bins:
        routed = pulp.lpSum(flow[b, j] for j in held if b in held[j])
        lp.addConstraint(routed == rate * float(share * mass[b]), f"route_{request_class}_{b}")
    for j, choice in enumerate(choices):
        seconds, gbits = _per_request(problem, request_class, choice, edges, mass)
        _load(terms, choice, held[j], [flow[b, j] for b in held[j]], seconds, gbits)


def _bins_that_fit(
    problem: Problem, request_class: int, choice: RoutingChoice, edges: Array, bins: Sequence[int]
) -> list[int]:
    """Bins whose longest prompt fits beside the weights of a choice's prefill pool."""
    mix, room = problem.classes[request_class].mix, problem.pools[choice.pool].rates.longest_tokens
    return [b for b in bins if room == np.inf or mix.longest_tokens(float(edges[b]), float(edges[b + 1])) <= room]


def _load(
    terms: Terms,
    choice: RoutingChoice,
    bins: Sequence[int],
    flows: Sequence[pulp.LpVariable],
    seconds: Array,
    gbits: Array,
) -> None:
    for b, x in zip(bins, flows, strict=True):
        terms.work[choice.pool].append(float(seconds[b]) * x)
        terms.work[choice.decode].append(choice.decode_s * x)
        if choice.link is not None:
            terms.sent[choice.link].append(float(gbits[b]) * x)


def _edges(problem: Problem, solution: Solution, request_class: int) -> Array:
    """Bin edges of a class: equal probability, and the thresholds of the solution."""
    mix = problem.classes[request_class].mix
    own = [
        flow.threshold_tokens
        for flow in solution.operations[0].flows
        if problem.streams[flow.stream].request_class == request_class
        and mix.support[0] <= flow.threshold_tokens <= mix.support[1]
    ]
    return np.unique(np.concatenate([[ALL_LONG], mix.threshold_grid(N_BINS + 1), own]))


def _choices(problem: Problem, request_class: int) -> Iterator[RoutingChoice]:
    """Every way through the pools that a class may use, each once."""
    loads, seen = RequestLoads(problem), set()
    for q, stream in enumerate(problem.streams):
        arcs = (arc for part in problem.arcs[q].values() for arc in part)
        for arc, decode in product(arcs, problem.decoders[q]):
            if stream.request_class == request_class and (arc.pool, decode) not in seen:
                seen.add((arc.pool, decode))
                yield RoutingChoice(arc.pool, arc.link, decode, loads.decode_s(q, decode))


def _per_request(
    problem: Problem, request_class: int, choice: RoutingChoice, edges: Array, mass: Array
) -> tuple[Array, Array]:
    """Seconds in a prefill pool and gigabits on its link per request of each bin."""
    mix, rates = problem.classes[request_class].mix, problem.pools[choice.pool].rates
    if rates.prefill is None:
        raise ValueError("a prefill pool has no prefill times")
    share = np.where(mass > 0, mass, 1.0)
    seconds = -np.diff(mix.long_work(rates.prefill.occupancy, edges)) / share
    holds = choice.link is not None and problem.links[choice.link].destination_holds_prefix
    sent = -np.diff(mix.long_wire_bytes(rates.kv_bytes, edges, holds)) / share
    return seconds, sent * BITS_PER_BYTE / BITS_PER_GBIT
