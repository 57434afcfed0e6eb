"""A plan made to keep its promises, and then cheaper, by moves of instances and requests between pools.

A promise is a class's: one pool may be later than it allows where others make up for that. Programs give every pool a
fixed allowance, so what they find is mended and made better here: requests move between pools, instances are added
where lateness falls most for the money, and then taken away wherever requests can move so that nobody misses them.
Waits are those of the closed form for the mix that every pool serves; the last word is that of the queues.

Source:
    Local search with a penalty for broken limits (Glover 1977, "Heuristics for integer programming using surrogate
    constraints").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log
from time import monotonic

import numpy as np

from planner.optimizer.network.cost import use_usd_per_hour
from planner.optimizer.network.evaluate import Flow, Settled, broken_classes, busy_instances, link_gbps
from planner.optimizer.network.loads import UNHURRIED, NetworkLoads, point
from planner.optimizer.network.short_waits import shortest_waits
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.solution import Solution
from planner.queueing import late_fraction

SHIFTS = (1 / 32, 1 / 8, 1 / 2, 1.0)
"""Of a flow, what moves to another pool at once."""
GAIN = 0.01
"""Of the strain, what a move of requests takes off at the least."""
OVERLOAD = 20.0
"""Weight of a pool, link or batch that is too full, beside a class that is too late."""
MOST_MOVES = 120
"""In a row, before a plan counts as one that cannot be mended."""
PATIENCE = 0.97
"""Factor on a promise that is broken with the waits of the closed form itself."""
CAUTION = (0.0, 0.25, 0.5, 0.75, *(1.0,) * 6)
"""Where between the shortest waits that the closed form may stand for and its own plans are sought: until one keeps its
promises in the best model."""
HIGHEST = 1.5
"""Multiple of the demand of a plan up to which a higher one is sought,"""
HALVINGS = 8
"""and how often the range of multiples is halved."""
SWAPPED = (1, 2)
"""Instances that one of another pool takes the place of."""
KEPT = 1e-9
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Fleet:
    """Sizes, and what every period does with them: with everything in place, and with an instance lost."""

    sizes: Sizes
    settled: tuple[Settled, ...]
    lost: tuple[int | None, ...]
    """Pool that has an instance less, of every one that is settled."""

    @classmethod
    def of(cls, problem: Problem, settled: Sequence[Settled]) -> "Fleet":
        """A plan, with every period once more for every instance whose loss is to be survived."""
        names = [pool.name for pool in problem.pools]
        losses = [None, *(names.index(loss.name) for loss in problem.losses())]
        everything = [(one, lost) for lost in losses for one in settled]
        fleet = cls((), tuple(one for one, _ in everything), tuple(lost for _, lost in everything))
        return fleet.with_sizes(settled[0].n_instances)

    def with_sizes(self, sizes: Sequence[int]) -> "Fleet":
        """The same flows with other sizes."""
        left = [tuple(max(n - (i == lost), 0) for i, n in enumerate(sizes)) for lost in self.lost]
        settled = (replace(one, n_instances=n) for one, n in zip(self.settled, left, strict=True))
        return replace(self, sizes=tuple(sizes), settled=tuple(settled))

    def scaled(self, ratio: float) -> "Fleet":
        """The same sizes with a multiple of every flow."""
        ratios = [ratio] * (1 + max((d.stream for one in self.settled for d in one.decodings), default=0))
        return replace(self, settled=tuple(one.scaled_to(one.period, ratios) for one in self.settled))

    @property
    def in_place(self) -> tuple[Settled, ...]:
        """Periods with everything in place."""
        return tuple(one for one, lost in zip(self.settled, self.lost, strict=True) if lost is None)


def is_movable(problem: Problem) -> bool:
    """Whether sizes are all that periods share, cost is to be low, and some class has a promise or a loss is survived.

    Of losses only those of instances are looked at.
    """
    scenario = problem.scenario
    is_alone = set(scenario.spare.survive) <= {"instance"} and scenario.budget_usd_per_hour is None
    is_fixed = not scenario.routing.role_conversion and not problem.families
    is_of_use = bool(scenario.spare.survive) or any(c.ttft_s is not None for c in problem.classes)
    return problem.is_min_cost and is_alone and is_fixed and is_of_use


def is_raisable(problem: Problem) -> bool:
    """Whether requests that move may leave room for more of them: the rate is to be high, under some promise."""
    is_fixed = not problem.scenario.routing.role_conversion and not problem.scenario.spare.survive
    return not problem.is_min_cost and is_fixed and any(c.ttft_s is not None for c in problem.classes)


def raised(loads: NetworkLoads, solution: Solution, least_scale: float, deadline: float) -> Solution | None:
    """The plan at the highest scale of the demand at which its sizes keep every promise; None where that is not higher.

    Args:
        loads: what transfers count with.
        solution: the plan; it may break promises.
        least_scale: a scale that is kept by another plan.
        deadline: `monotonic()` time to stop at.
    """
    if solution.scale <= 0:
        return None
    problem, begun = loads.problem, Fleet.of(loads.problem, solution.settled)
    for caution in dict.fromkeys(CAUTION):
        moves = Moves(loads, solution.ports, deadline, caution)
        best, low, high = None, least_scale / solution.scale, HIGHEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = moves.moved(begun.scaled(middle))
            if moves.is_kept(found):
                best, low = found, middle
            else:
                high = middle
        if best is None:
            return None
        if not broken_classes(problem, best.settled, solution.ports):
            scale = low * solution.scale
            return replace(solution, settled=best.in_place, scale=scale, objective=scale)
    return None


def mended(loads: NetworkLoads, solution: Solution, most_usd_per_hour: float, deadline: float) -> Solution | None:
    """A cheaper plan that keeps every promise; None where none was found below a cost.

    Args:
        loads: what transfers count with.
        solution: where the search begins; it may break promises.
        most_usd_per_hour: what the plan may cost, or how many accelerators where prices are missing.
        deadline: `monotonic()` time to stop at.
    """
    fleet, patience = Fleet.of(loads.problem, solution.settled), [1.0] * len(loads.problem.classes)
    for caution in CAUTION:
        moves = Moves(replace(loads, patience=tuple(patience)), solution.ports, deadline, caution)
        found = moves.mended(fleet, most_usd_per_hour)
        found = None if found is None else moves.shrunk(found)
        if found is None or monotonic() > deadline or moves.usd_per_hour(found) > most_usd_per_hour - KEPT:
            return None
        fleet, broken = found, broken_classes(loads.problem, found.settled, solution.ports)
        if not broken:
            fleet = moves.pared(fleet, solution.ports)
            return replace(solution, settled=fleet.in_place, objective=moves.usd_per_hour(fleet))
        for c in broken if caution == 1 else ():
            patience[c] *= PATIENCE
    return None


class Moves:
    """Moves of instances and requests, judged by the closed form.

    Args:
        loads: promises, with the patience that the closed form needs, and what transfers count with.
        ports: ports of every tier of every link.
        deadline: `monotonic()` time to stop at.
        caution: 0 for the shortest waits that the closed form may stand for, 1 for its own.
    """

    def __init__(
        self, loads: NetworkLoads, ports: Sequence[Sequence[int]], deadline: float, caution: float = 1.0
    ) -> None:
        sizes = np.arange(1.0, max((pool.max_instances for pool in loads.problem.pools), default=1) + 1)
        shortest = shortest_waits(sizes, min((1.0, *(c.arrival_scv for c in loads.problem.classes))))
        self._wait_factors = np.append(1.0, caution + (1 - caution) * shortest)
        self._loads, self._problem, self._deadline = loads, loads.problem, deadline
        self._gbps = self._problem.gbps(ports)
        self._known: dict[tuple[object, ...], float] = {}
        pools, is_priced = self._problem.pools, self._problem.is_priced
        self._usd = [(p.usd_per_hour or 0.0) if is_priced else float(p.n_accelerators) for p in pools]
        links = zip(self._problem.links, ports, strict=True)
        self._ports_usd = sum(link.ports_usd_per_hour(of_link) or 0.0 for link, of_link in links) if is_priced else 0.0

    def usd_per_hour(self, fleet: Fleet) -> float:
        """Rent, ports and use [USD/h], or accelerators where prices are missing."""
        rent = sum(n * usd for n, usd in zip(fleet.sizes, self._usd, strict=True)) + self._ports_usd
        if not self._problem.is_priced:
            return rent
        use = (self._problem.weights[one.period] * use_usd_per_hour(self._problem, one) for one in fleet.in_place)
        return rent + sum(use)

    def mended(self, fleet: Fleet, most_usd_per_hour: float = inf) -> Fleet | None:
        """The plan with what it lacks for its promises: requests move where that helps, else an instance is added."""
        for _ in range(MOST_MOVES):
            fleet = self.moved(fleet)
            strain = self._strain(fleet)
            if strain <= KEPT:
                return fleet
            if monotonic() > self._deadline or self.usd_per_hour(fleet) > most_usd_per_hour:
                return None
            worth = [((strain - self._strain(f)) / max(self._usd[i], KEPT), f) for i, f in self._larger(fleet)]
            gain, fleet = max(worth, key=lambda item: item[0], default=(0.0, fleet))
            if gain <= 0:
                return None
        return None

    def is_kept(self, fleet: Fleet) -> bool:
        """Whether a plan keeps its limits, its promises and the budget."""
        budget = self._problem.scenario.budget_usd_per_hour
        is_paid = budget is None or not self._problem.is_priced or self.usd_per_hour(fleet) <= budget
        return is_paid and self._strain(fleet) <= KEPT

    def shrunk(self, fleet: Fleet) -> Fleet:
        """The plan without every instance that is not missed, and with cheaper ones for dear ones."""
        is_changed = True
        while is_changed and monotonic() < self._deadline:
            is_changed = False
            for smaller in self._smaller(fleet):
                found = self.moved(fleet.with_sizes(smaller))
                if self._strain(found) <= KEPT and self.usd_per_hour(found) < self.usd_per_hour(fleet) - KEPT:
                    fleet, is_changed = found, True
                    break
                if monotonic() > self._deadline:
                    break
        return fleet

    def pared(self, fleet: Fleet, ports: Sequence[Sequence[int]]) -> Fleet:
        """The plan without every instance that the queues themselves do not miss."""
        for i in sorted(range(len(self._usd)), key=lambda i: -self._usd[i]):
            while fleet.sizes[i] > self._problem.pools[i].min_instances and monotonic() < self._deadline:
                found = fleet.with_sizes(_changed(fleet.sizes, {i: -1}))
                full = (n * UNHURRIED < b for one in found.settled for n, b in self._filled(one))
                if any(full) or broken_classes(self._problem, found.settled, ports):
                    break
                fleet = found
        return fleet

    def _filled(self, one: Settled) -> Iterator[tuple[int, float]]:
        """Instances of every pool, and how many are busy."""
        return zip(one.n_instances, busy_instances(self._problem, one), strict=True)

    def _smaller(self, fleet: Fleet) -> Iterator[Sizes]:
        """Sizes with an instance less, the dearest first, then with another one for some that are dearer together."""
        pools, order = self._problem.pools, sorted(range(len(self._usd)), key=lambda i: -self._usd[i])
        less = [i for i in order if fleet.sizes[i] > pools[i].min_instances]
        for i in less:
            yield _changed(fleet.sizes, {i: -1})
        for i, j, n in product(less, order, SWAPPED):
            is_less = i != j and self._usd[j] < n * self._usd[i] and fleet.sizes[i] - n >= pools[i].min_instances
            if is_less and self._has_room(sizes := _changed(fleet.sizes, {i: -n, j: 1}), j):
                yield sizes

    def _larger(self, fleet: Fleet) -> Iterator[tuple[int, Fleet]]:
        """Every pool with an instance more, and what moves there best."""
        for i in range(len(self._usd)):
            sizes = _changed(fleet.sizes, {i: 1})
            if not self._has_room(sizes, i):
                continue
            larger = fleet.with_sizes(sizes)
            yield i, larger
            yield i, self._best_shift(larger, to=i)

    def _has_room(self, sizes: Sizes, i: int) -> bool:
        """Whether a pool may have so many instances."""
        pools = self._problem.pools
        used = (
            (sum(sizes[j] * pools[j].n_accelerators for j in v.pools), v.n_accelerators)
            for v in self._problem.inventories
            if i in v.pools
        )
        return sizes[i] <= pools[i].max_instances and all(n <= stock for n, stock in used)

    def moved(self, fleet: Fleet) -> Fleet:
        """The plan after moves of requests, as long as they take strain off."""
        strain = self._strain(fleet)
        for _ in range(MOST_MOVES):
            if strain <= KEPT or monotonic() > self._deadline:
                break
            found = self._best_shift(fleet)
            then = self._strain(found)
            if then > strain * (1 - GAIN):
                break
            fleet, strain = found, then
        return fleet

    def _best_shift(self, fleet: Fleet, to: int | None = None) -> Fleet:
        """In every strained period the move of requests that takes most strain off."""
        settled = []
        for one in fleet.settled:
            best = self._strain_of(one), one
            if best[0] > KEPT:
                best = min((best, *((self._strain_of(o), o) for o in self._shifts(one, to))), key=lambda item: item[0])
            settled.append(best[1])
        return replace(fleet, settled=tuple(settled))

    def _shifts(self, one: Settled, to: int | None) -> Iterator[Settled]:
        """A period with a part of a flow in another pool."""
        loads = self._loads
        for flow in one.flows:
            cell = point(flow.threshold_tokens)
            if loads.fraction(flow.stream, flow.part, cell) <= 0:
                continue
            for arc in self._problem.arcs[flow.stream][flow.part]:
                is_open = one.n_instances[arc.pool] > 0 and to in (None, arc.pool) and arc != flow.arc
                is_open = is_open and (arc.link is None or self._gbps[arc.link] > 0)
                if is_open and loads.holds(flow.stream, arc, flow.part, cell):
                    yield from (_shifted(one, flow, arc, part) for part in SHIFTS)

    def _strain(self, fleet: Fleet) -> float:
        return sum(map(self._strain_of, fleet.settled))

    def _strain_of(self, one: Settled) -> float:
        """How far a period is from keeping its limits and promises: 0 where it keeps them all."""
        key = one.period, one.n_instances, one.flows
        if key not in self._known:
            self._known[key] = self._found_strain(one)
        return self._known[key]

    def _found_strain(self, one: Settled) -> float:
        over = self._decode_overload(one) + self._link_overload(one)
        late: dict[int, float] = {}
        rates: dict[int, float] = {}
        for i in dict.fromkeys(flow.arc.pool for flow in one.flows):
            over += self._pool_strain(one, i, late)
        for decoding in one.decodings:
            c = self._problem.streams[decoding.stream].request_class
            rates[c] = rates.get(c, 0.0) + decoding.req_per_s
        allowed = {self._problem.streams[q].request_class: self._loads.late_allowed(q) for q in self._streams(one)}
        broken = sum(log(late[c] / (allowed[c] * rates[c])) for c in late if late[c] > allowed[c] * rates[c] > 0)
        return OVERLOAD * over + broken

    def _streams(self, one: Settled) -> list[int]:
        return list(dict.fromkeys(flow.stream for flow in one.flows))

    def _pool_strain(self, one: Settled, i: int, late: dict[int, float]) -> float:
        """How far a pool is too full; its late requests are added to those of the classes."""
        loads, n = self._loads, one.n_instances[i]
        flows = [(flow, point(flow.threshold_tokens)) for flow in one.flows if flow.arc.pool == i]
        uses = [(f, (f.stream, f.arc, f.part, cell)) for f, cell in flows if loads.fraction(f.stream, f.part, cell) > 0]
        busy = sum(f.req_per_s * loads.work_s(*use) for f, use in uses)
        requests = sum(f.req_per_s * loads.fraction(f.stream, f.part, use[3]) for f, use in uses)
        if requests <= 0:
            return 0.0
        mean_s = busy / requests
        squares = sum(f.req_per_s * 2 * loads.residual_s(*use) * loads.work_s(*use) for f, use in uses) / requests
        load = min(busy, n * UNHURRIED)
        for flow, use in uses:
            queue = loads.queued(*use) if loads.is_promised(flow.stream) else None
            if queue is None:
                continue
            mix = replace(queue, mean_s=mean_s, scv=max(squares / mean_s**2 - 1, 0.0))
            part = (
                float(late_fraction(np.array([float(n)]), np.array([load]), mix, self._wait_factors[n])[0])
                if n
                else 1.0
            )
            c = self._problem.streams[flow.stream].request_class
            served = flow.req_per_s * loads.fraction(flow.stream, flow.part, use[3])
            late[c] = late.get(c, 0.0) + part * served
        return max(busy - n * UNHURRIED, 0.0) / max(n, 1)

    def _decode_overload(self, one: Settled) -> float:
        """How far decode pools are fuller than the places in their batches let them be."""
        loads, over = self._loads, 0.0
        for i in dict.fromkeys(decoding.pool for decoding in one.decodings):
            mine = [d for d in one.decodings if d.pool == i]
            busy = sum(d.req_per_s * loads.decode_s(d.stream, i) for d in mine)
            n = one.n_instances[i]
            limits = (loads.most_busy_decode(d.stream, i) for d in mine)
            most = min(float(np.interp(n, loads.grid, limit)) for limit in limits) if n else 0.0
            over += max(busy - most, 0.0) / max(n, 1)
        return over

    def _link_overload(self, one: Settled) -> float:
        busy = self._loads.most_link_busy()
        sent = zip(link_gbps(self._problem, one), self._gbps, strict=True)
        return sum(max(used - busy * gbps, 0.0) / max(gbps, 1.0) for used, gbps in sent)


def _changed(sizes: Sizes, more: dict[int, int]) -> Sizes:
    return tuple(n + more.get(i, 0) for i, n in enumerate(sizes))


def _shifted(one: Settled, flow: Flow, arc: Arc, part: float) -> Settled:
    """A period with a part of a flow on another arc."""
    rates = {(f.stream, f.part, f.arc): f for f in one.flows}
    target = rates.get((flow.stream, flow.part, arc), flow._replace(arc=arc, req_per_s=0.0))
    moved = part * flow.req_per_s
    rates[flow.stream, flow.part, flow.arc] = flow._replace(req_per_s=flow.req_per_s - moved)
    rates[flow.stream, flow.part, arc] = target._replace(req_per_s=target.req_per_s + moved)
    return replace(one, flows=tuple(f for f in rates.values() if f.req_per_s > KEPT))
