"""A plan of several classes, sites or periods whose thresholds and sizes are turned; its ways stay as they are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import nextafter

import numpy as np

from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import Flow, PeriodOperation
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import Part
from planner.optimizer.solution import Solution
from planner.studies.explore.tables import LEAST_PART, Array

PARTS: tuple[Part, ...] = ("long", "short")
N_FINE = 31
"""Thresholds at which work is stated;"""
N_NODES = 9
"""those among them at which waits are."""
TAILS = (1, 4, -5)
"""Hundredths of the prompts at which there are nodes besides: the plan's threshold may lie far from all others."""
MOST_FLOWS = 32
"""Ways of a period beyond which a page would be too large."""


@dataclass(frozen=True)
class TurnedNetwork:
    """A plan whose thresholds are all multiplied by a factor.

    In every period each kind of prompt goes where the plan sends it, in the plan's shares, and is decoded where the
    plan decodes it. A kind that the plan does not have goes to the pool that would be first to take it: one with
    instances before one without, at the site of decoding before one elsewhere.
    """

    problem: Problem
    solution: Solution

    @cached_property
    def bases(self) -> list[list[float]]:
        """Thresholds that the factor multiplies, by period and stream: the plan's, moved to where prompts begin or end
        [tokens]."""
        return [[self._base(one, q) for q in range(len(self.problem.streams))] for one in self.solution.operations]

    def _base(self, one: PeriodOperation, stream: int) -> float:
        mix = self.problem.classes[self.problem.streams[stream].request_class].mix
        planned = max((f.threshold_tokens for f in one.flows if f.stream == stream), default=mix.support[1])
        # Below the least prompt all are long: a factor above 1 begins to make some of them short.
        return float(min(max(planned, nextafter(mix.support[0], 0.0)), mix.support[1]))

    def is_split(self, stream: int) -> bool:
        """True if a threshold decides anything about a stream; not where prompts may be of no new tokens at all."""
        mix = self.problem.classes[self.problem.streams[stream].request_class].mix
        return all(self.problem.arcs[stream].values()) and mix.support[0] > 0

    def rates(self, p: int) -> list[float]:
        """Rate of every stream in a period [1/s]."""
        return [self.solution.operations[p].rate_of(q) for q in range(len(self.problem.streams))]

    def planned_tokens(self, p: int) -> float:
        """Nominal threshold of a period: of several their mean, by requests and in logarithms [tokens]."""
        rates, bases = self.rates(p), self.bases[p]
        split = [(r, b) for q, (r, b) in enumerate(zip(rates, bases, strict=True)) if r > 0 and self.is_split(q)]
        if len({base for _, base in split}) == 1:
            return split[0][1]
        total = sum(r for r, _ in split)
        return float(np.exp(sum(r * np.log(b) for r, b in split) / total)) if total > 0 else 1.0

    def is_turnable(self, p: int) -> bool:
        """True if some stream of a period is split."""
        return any(rate > 0 and self.is_split(q) for q, rate in enumerate(self.rates(p)))

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Fine factors and the nodes among them, the same in every period, ascending, 1 in both.

        They are even in the prompts of the stream that has most requests.
        """
        split = [
            (rate, base, self.problem.classes[self.problem.streams[q].request_class].mix)
            for p, bases in enumerate(self.bases)
            for q, (rate, base) in enumerate(zip(self.rates(p), bases, strict=True))
            if rate > 0 and self.is_split(q)
        ]
        if not split:
            return np.ones(1), np.ones(1)
        _, base, mix = max(split, key=lambda one: one[0])

        def grid(n: int) -> Array:
            tokens = mix.threshold_grid(round((n - 1) / (1 - 2 * LEAST_PART)) + 1)
            return np.array([t / base for t in tokens if LEAST_PART <= mix.long_fraction(t) <= 1 - LEAST_PART])

        tails = [t / base for t in mix.threshold_grid(101)[list(TAILS)]]
        nodes = np.unique([*grid(N_NODES), *tails, 1.0])
        return np.unique(np.concatenate([grid(N_FINE), nodes])), nodes

    def _long(self, stream: int, tokens: float) -> float:
        """Share of a stream's prompts that are long, remembered [-]."""
        request_class = self.problem.streams[stream].request_class
        if (request_class, tokens) not in self._known:
            self._known[request_class, tokens] = float(self.problem.classes[request_class].mix.long_fraction(tokens))
        return self._known[request_class, tokens]

    @cached_property
    def _known(self) -> dict[tuple[int, float], float]:
        return {}

    def part(self, p: int, flow: Flow, factor: float) -> float:
        """Share of a stream's requests that are of the part of a flow [-]."""
        long = self._long(flow.stream, self.tokens(p, flow.stream, factor))
        return long if flow.part == "long" else 1 - long

    def tokens(self, p: int, stream: int, factor: float) -> float:
        """Threshold of a stream at a factor [tokens]."""
        base = self.bases[p][stream]
        return base * factor if self.is_split(stream) else base

    def flows(self, p: int, factor: float) -> list[Flow]:
        """Flows into every prefill pool in a period, at a factor."""
        return [
            Flow(q, part, arc, self.tokens(p, q, factor), rate * share)
            for q, rate in enumerate(self.rates(p))
            if rate > 0
            for part in PARTS
            for arc, share in self.route_shares(p, q, part)
        ]

    def route_shares(self, p: int, stream: int, part: Part) -> list[tuple[Arc, float]]:
        """Where a kind of prompt of a stream goes, and in which shares."""
        mine = [f for f in self.solution.operations[p].flows if f.stream == stream and f.part == part]
        total = sum(f.req_per_s for f in mine)
        if total > 0:
            return [(f.arc, f.req_per_s / total) for f in mine if f.req_per_s > 0]
        sizes, gbps = self.solution.operations[p].n_instances, self.problem.gbps(self.solution.ports)
        joined = [a for a in self.problem.arcs[stream][part] if a.link is None or gbps[a.link] > 0]
        return [(min(joined, key=lambda a: (not sizes[a.pool], a.link is not None)), 1.0)] if joined else []

    def operation(self, p: int, factor: float) -> PeriodOperation:
        """Operation of a period at a factor."""
        return replace(self.solution.operations[p], flows=tuple(self.flows(p, factor)))

    def at(self, factor: float) -> Solution:
        """The plan at a factor."""
        periods = range(len(self.solution.operations))
        return replace(self.solution, operations=tuple(self.operation(p, factor) for p in periods))

    @cached_property
    def loads(self) -> NetworkLoads:
        """Work and bytes of requests, remembered."""
        return NetworkLoads(self.problem)

    def decoded(self, p: int, stream: int) -> Iterator[tuple[int, float]]:
        """Pools that decode a stream in a period, and their shares."""
        mine = [d for d in self.solution.operations[p].decodings if d.stream == stream and d.req_per_s > 0]
        total = sum(d.req_per_s for d in mine)
        yield from ((d.pool, d.req_per_s / total) for d in mine)


def can_turn_network(problem: Problem, solution: Solution) -> bool:
    """True if a plan's sizes are the same in every period, none is idle, and its ways are few enough for a page."""
    if problem.has_sizes_by_period or problem.families:
        return False
    is_one_fleet = len({one.n_instances for one in solution.operations}) == 1
    turned = TurnedNetwork(problem, solution)
    n_flows = max(len(turned.flows(p, 1.0)) for p in range(len(solution.operations)))
    is_busy = all(sum(turned.rates(p)) > 0 for p in range(len(solution.operations)))
    return is_one_fleet and is_busy and n_flows <= MOST_FLOWS


def used_pools(turned: TurnedNetwork) -> list[int]:
    """Pools that have instances, or take requests at some factor."""
    periods = range(len(turned.solution.operations))
    found = {i for i, n in enumerate(turned.solution.operations[0].n_instances) if n}
    return sorted(found | {flow.arc.pool for p in periods for flow in turned.flows(p, 1.0)})
