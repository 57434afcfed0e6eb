"""Local search on plans: requests move between pools, and instances are added and removed.

An SLO is a class's: one pool may be later than it allows where others make up for that. Programs give every pool a
fixed allowance, so a plan is brought within its SLOs here, and made cheaper. Requests move between pools, and instances
are added where they take most of the violation off for their price. Instances are then removed wherever requests can
move so that none is missed. Waits are those of the closed form for the mix that every pool serves; the last word is
that of the best model of waits.

Source:
    Local search with a penalty for violated limits (Glover 1977, "Heuristics for integer programming using surrogate
    constraints").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log

import numpy as np

from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.cost import plan_cost
from planner.optimizer.network.loads import MOST_STABLE, NetworkLoads
from planner.optimizer.network.period_operation import (
    Flow,
    PeriodOperation,
    busy_instances,
    classes_missing_slo,
    link_gbps,
)
from planner.optimizer.network.shortest_waits import shortest_waits
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.settings import SETTINGS
from planner.optimizer.solution import Solution
from planner.queueing.staffing import late_fraction
from planner.ties import largest
from planner.work_clock import spend, work_s

TOLERANCE = 1e-9
FLOW_S = 3e-4
"""What a flow takes to be judged on the way [s]."""
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class CandidatePlan:
    """Sizes, and what every period does with them: with everything in place, and with an instance lost."""

    sizes: Sizes
    operations: tuple[PeriodOperation, ...]
    lost: tuple[int | None, ...]
    """Pool that has one instance fewer, for every entry of `operations`; None: none has."""

    @classmethod
    def of(cls, problem: Problem, operations: Sequence[PeriodOperation]) -> "CandidatePlan":
        """A plan, with every period once more for every instance whose loss is to be survived.

        Args:
            problem: the resolved scenario.
            operations: what every period does.
        """
        names = [pool.name for pool in problem.pools]
        losses = [None, *(names.index(loss.name) for loss in problem.losses())]
        everything = [(one, lost) for lost in losses for one in operations]
        candidate = cls((), tuple(one for one, _ in everything), tuple(lost for _, lost in everything))
        return candidate.with_sizes(operations[0].n_instances)

    def with_sizes(self, sizes: Sequence[int]) -> "CandidatePlan":
        """The same flows with other sizes.

        Args:
            sizes: instances of every pool [count].
        """
        left = [tuple(max(n - (i == lost), 0) for i, n in enumerate(sizes)) for lost in self.lost]
        operations = (replace(one, n_instances=n) for one, n in zip(self.operations, left, strict=True))
        return replace(self, sizes=tuple(sizes), operations=tuple(operations))

    def scaled(self, ratio: float) -> "CandidatePlan":
        """The same sizes with a multiple of every flow.

        Args:
            ratio: the multiple [-].
        """
        ratios = [ratio] * (1 + max((d.stream for one in self.operations for d in one.decodings), default=0))
        return replace(self, operations=tuple(one.scaled_to(one.period, ratios) for one in self.operations))

    @property
    def in_place(self) -> tuple[PeriodOperation, ...]:
        """Periods with everything in place."""
        return tuple(one for one, lost in zip(self.operations, self.lost, strict=True) if lost is None)


def at_highest_scale(loads: NetworkLoads, solution: Solution, least_scale: float, deadline: float) -> Solution | None:
    """The plan at the highest scale of the demand at which its sizes are within every SLO, by bisection.

    Args:
        loads: coefficients, with the bandwidth that transfers count with.
        solution: the plan; it may miss SLOs.
        least_scale: a scale that another plan serves within its SLOs [-].
        deadline: `work_s()` time to stop at.

    Returns:
        The plan at that scale; None where it is not higher.
    """
    if solution.scale <= 0:
        return None
    problem, begun = loads.problem, CandidatePlan.of(loads.problem, solution.operations)
    for caution in dict.fromkeys(SETTINGS.cautions):
        moves = LocalSearch(loads, solution.ports, deadline, caution)
        best, low, high = None, least_scale / solution.scale, SETTINGS.highest_multiple
        for _ in range(SETTINGS.halvings):
            middle = (low + high) / 2
            found = moves.rerouted(begun.scaled(middle))
            if moves.is_feasible(found):
                best, low = found, middle
            else:
                high = middle
        if best is None:
            return None
        if not classes_missing_slo(problem, best.operations, solution.ports):
            scale = low * solution.scale
            return replace(solution, operations=best.in_place, scale=scale, objective=scale)
    return None


def repaired(loads: NetworkLoads, solution: Solution, most_usd_per_hour: float, deadline: float) -> Solution | None:
    """A cheaper plan that is within every SLO.

    Args:
        loads: coefficients, with the bandwidth that transfers count with.
        solution: where the search begins; it may miss SLOs.
        most_usd_per_hour: what the plan may cost [USD/h], or its accelerators where prices are missing.
        deadline: `work_s()` time to stop at.

    Returns:
        The plan; None where none was found below that cost.
    """
    candidate, slo_factors = CandidatePlan.of(loads.problem, solution.operations), [1.0] * len(loads.problem.classes)
    for caution in SETTINGS.cautions:
        moves = LocalSearch(replace(loads, slo_factors=tuple(slo_factors)), solution.ports, deadline, caution)
        found = moves.repaired(candidate, most_usd_per_hour)
        found = None if found is None else moves.shrunk(found)
        if found is None or work_s() > deadline or moves.cost(found) > most_usd_per_hour - TOLERANCE:
            return None
        candidate, broken = found, classes_missing_slo(loads.problem, found.operations, solution.ports)
        if not broken:
            candidate = moves.trimmed(candidate, solution.ports)
            return replace(solution, operations=candidate.in_place, objective=moves.cost(candidate))
        for c in broken if caution == 1 else ():
            slo_factors[c] *= SETTINGS.slo_tightening
    return None


class LocalSearch:
    """Moves of instances and requests, judged by the closed form of waits.

    Equation:
        violation of a period = w sum of relative overloads + sum over classes of max(0, log(late / allowed)), w the
        weight of overloads, late the late requests of a class over all its pools

    Args:
        loads: coefficients, with the factors on SLOs that the closed form needs.
        ports: ports of every tier of every link [count].
        deadline: `work_s()` time to stop at.
        caution: 0 for the shortest waits that the closed form may stand for, 1 for its own [fraction].
    """

    def __init__(
        self, loads: NetworkLoads, ports: Sequence[Sequence[int]], deadline: float, caution: float = 1.0
    ) -> None:
        pools = loads.problem.pools
        sizes = np.arange(1.0, max((p.max_instances * p.rates.places for p in pools), default=1) + 1)
        shortest = shortest_waits(sizes, min((1.0, *(c.arrival_scv for c in loads.problem.classes))))
        self._wait_factors = np.append(1.0, caution + (1 - caution) * shortest)
        self._loads, self._problem, self._deadline = loads, loads.problem, deadline
        self._ports, self._gbps = ports, self._problem.gbps(ports)
        self._known: dict[tuple[object, ...], float] = {}
        is_priced = self._problem.is_priced
        self._usd = [(p.usd_per_hour or 0.0) if is_priced else float(p.n_accelerators) for p in pools]

    def cost(self, candidate: CandidatePlan) -> float:
        """Bill [USD/h]; accelerators where prices are missing."""
        return plan_cost(self._problem, candidate.in_place, self._ports)

    def repaired(self, candidate: CandidatePlan, most_usd_per_hour: float = inf) -> CandidatePlan | None:
        """The plan without violations: requests move where that helps, else an instance is added.

        Args:
            most_usd_per_hour: cost beyond which to stop [USD/h].

        Returns:
            The plan; None where violations are left.
        """
        for _ in range(SETTINGS.most_moves):
            candidate = self.rerouted(candidate)
            violation = self._violation(candidate)
            if violation <= TOLERANCE:
                return candidate
            if work_s() > self._deadline or self.cost(candidate) > most_usd_per_hour:
                return None
            gains = [
                ((violation - self._violation(f)) / max(self._usd[i], TOLERANCE), f) for i, f in self._larger(candidate)
            ]
            if not gains or (best := largest(gains, lambda item: item[0]))[0] <= 0:
                return None
            candidate = best[1]
        return None

    def is_feasible(self, candidate: CandidatePlan) -> bool:
        """True if a plan keeps its limits, its SLOs and the budget."""
        budget = self._problem.scenario.budget_usd_per_hour
        is_paid = budget is None or not self._problem.is_priced or self.cost(candidate) <= budget
        return is_paid and self._violation(candidate) <= TOLERANCE

    def shrunk(self, candidate: CandidatePlan) -> CandidatePlan:
        """The plan without instances that are not missed, and with cheaper instances for dear ones."""
        is_changed = True
        while is_changed and work_s() < self._deadline:
            is_changed = False
            for smaller in self._smaller(candidate):
                found = self.rerouted(candidate.with_sizes(smaller))
                if self._violation(found) <= TOLERANCE and self.cost(found) < self.cost(candidate) - TOLERANCE:
                    candidate, is_changed = found, True
                    break
                if work_s() > self._deadline:
                    break
        return candidate

    def trimmed(self, candidate: CandidatePlan, ports: Sequence[Sequence[int]]) -> CandidatePlan:
        """The plan without instances that the best model of waits does not miss, with no request moved.

        Args:
            ports: ports of every tier of every link [count].
        """
        for i in sorted(range(len(self._usd)), key=lambda i: -self._usd[i]):
            while candidate.sizes[i] > self._problem.pools[i].min_instances and work_s() < self._deadline:
                found = candidate.with_sizes(_changed(candidate.sizes, {i: -1}))
                full = (n * MOST_STABLE < b for one in found.operations for n, b in self._filled(one))
                if any(full) or classes_missing_slo(self._problem, found.operations, ports):
                    break
                candidate = found
        return candidate

    def _filled(self, one: PeriodOperation) -> Iterator[tuple[int, float]]:
        """Instances of every pool, and how many of them are busy."""
        return zip(one.n_instances, busy_instances(self._problem, one), strict=True)

    def _smaller(self, candidate: CandidatePlan) -> Iterator[Sizes]:
        """Sizes with one instance fewer, the dearest pool first; then with a cheaper instance for dearer ones."""
        pools, order = self._problem.pools, sorted(range(len(self._usd)), key=lambda i: -self._usd[i])
        less = [i for i in order if candidate.sizes[i] > pools[i].min_instances]
        for i in less:
            yield _changed(candidate.sizes, {i: -1})
        for i, j, n in product(less, order, SETTINGS.swapped):
            is_less = i != j and self._usd[j] < n * self._usd[i] and candidate.sizes[i] - n >= pools[i].min_instances
            if is_less and self._has_room(sizes := _changed(candidate.sizes, {i: -n, j: 1}), j):
                yield sizes

    def _larger(self, candidate: CandidatePlan) -> Iterator[tuple[int, CandidatePlan]]:
        """Every pool with one more instance, without and with the move of requests there that helps most."""
        for i in range(len(self._usd)):
            sizes = _changed(candidate.sizes, {i: 1})
            if not self._has_room(sizes, i):
                continue
            larger = candidate.with_sizes(sizes)
            yield i, larger
            yield i, self._best_reroute(larger, to=i)

    def _has_room(self, sizes: Sizes, i: int) -> bool:
        """True if limits and stock allow so many instances of a pool."""
        pools = self._problem.pools
        used = (
            (sum(sizes[j] * pools[j].n_accelerators for j in v.pools), v.n_accelerators)
            for v in self._problem.inventories
            if i in v.pools
        )
        return sizes[i] <= pools[i].max_instances and all(n <= stock for n, stock in used)

    def rerouted(self, candidate: CandidatePlan) -> CandidatePlan:
        """The plan after moves of requests, for as long as they lower the violation."""
        violation = self._violation(candidate)
        for _ in range(SETTINGS.most_moves):
            if violation <= TOLERANCE or work_s() > self._deadline:
                break
            found = self._best_reroute(candidate)
            then = self._violation(found)
            if then > violation * (1 - SETTINGS.least_gain):
                break
            candidate, violation = found, then
        return candidate

    def _best_reroute(self, candidate: CandidatePlan, to: int | None = None) -> CandidatePlan:
        """In every period with a violation, the move of requests that lowers it most."""
        operations = []
        for one in candidate.operations:
            best = self._violation_of(one), one
            if best[0] > TOLERANCE:
                best = min(
                    (best, *((self._violation_of(o), o) for o in self._reroutes(one, to))), key=lambda item: item[0]
                )
            operations.append(best[1])
        return replace(candidate, operations=tuple(operations))

    def _reroutes(self, one: PeriodOperation, to: int | None) -> Iterator[PeriodOperation]:
        """A period with a part of a flow in another pool."""
        loads = self._loads
        for flow in one.flows:
            cell = point_cell(flow.threshold_tokens)
            if loads.fraction(flow.stream, flow.part, cell) <= 0:
                continue
            for arc in self._problem.arcs[flow.stream][flow.part]:
                is_open = one.n_instances[arc.pool] > 0 and to in (None, arc.pool) and arc != flow.arc
                is_open = is_open and (arc.link is None or self._gbps[arc.link] > 0)
                if is_open and loads.holds(flow.stream, arc, flow.part, cell):
                    yield from (_with_part_rerouted(one, flow, arc, part) for part in SETTINGS.rerouted_fractions)

    def _violation(self, candidate: CandidatePlan) -> float:
        return sum(map(self._violation_of, candidate.operations))

    def _violation_of(self, one: PeriodOperation) -> float:
        """Distance of a period from its limits and SLOs; 0 where it keeps them all."""
        key = one.period, one.n_instances, one.flows
        if key not in self._known:
            self._known[key] = self._violation_found(one)
        return self._known[key]

    def _violation_found(self, one: PeriodOperation) -> float:
        spend(FLOW_S * len(one.flows))
        over = self._decode_overload(one) + self._link_overload(one)
        late: dict[int, float] = {}
        rates: dict[int, float] = {}
        for i in dict.fromkeys(flow.arc.pool for flow in one.flows):
            over += self._pool_violation(one, i, late)
        for decoding in one.decodings:
            c = self._problem.streams[decoding.stream].request_class
            rates[c] = rates.get(c, 0.0) + decoding.req_per_s
        allowed = {self._problem.streams[q].request_class: self._loads.late_allowed(q) for q in self._streams(one)}
        broken = sum(log(late[c] / (allowed[c] * rates[c])) for c in late if late[c] > allowed[c] * rates[c] > 0)
        return SETTINGS.overload_weight * over + broken

    def _streams(self, one: PeriodOperation) -> list[int]:
        return list(dict.fromkeys(flow.stream for flow in one.flows))

    def _pool_violation(self, one: PeriodOperation, i: int, late: dict[int, float]) -> float:
        """Relative overload of a pool; its late requests are added to those of the classes."""
        loads, n, places = self._loads, one.n_instances[i], self._problem.pools[i].rates.places
        flows = [(flow, point_cell(flow.threshold_tokens)) for flow in one.flows if flow.arc.pool == i]
        uses = [(f, (f.stream, f.arc, f.part, cell)) for f, cell in flows if loads.fraction(f.stream, f.part, cell) > 0]
        busy = sum(f.req_per_s * loads.work_s(*use) for f, use in uses)
        requests = sum(f.req_per_s * loads.fraction(f.stream, f.part, use[3]) for f, use in uses)
        if requests <= 0:
            return 0.0
        mean_s = busy * places / requests
        halves = sum(f.req_per_s * loads.residual_s(*use) * loads.work_s(*use) for f, use in uses)
        squares, load = 2 * halves * places / requests, min(busy, n * MOST_STABLE) * places
        factors = self._wait_factors
        for flow, use in uses:
            queue = loads.queued(*use) if loads.has_ttft_slo(flow.stream) else None
            if queue is None:
                continue
            mix = replace(queue, mean_s=mean_s, scv=max(squares / mean_s**2 - 1, 0.0))
            part = (
                float(late_fraction(np.array([n * float(places)]), np.array([load]), mix, factors[n * places])[0])
                if n
                else 1.0
            )
            c = self._problem.streams[flow.stream].request_class
            served = flow.req_per_s * loads.fraction(flow.stream, flow.part, use[3])
            late[c] = late.get(c, 0.0) + part * served
        return max(busy - n * MOST_STABLE, 0.0) / max(n, 1)

    def _decode_overload(self, one: PeriodOperation) -> float:
        """Relative overload of decode pools, over the places in their batches."""
        loads, over = self._loads, 0.0
        for i in dict.fromkeys(decoding.pool for decoding in one.decodings):
            mine = [d for d in one.decodings if d.pool == i]
            busy = sum(d.req_per_s * loads.decode_s(d.stream, i) for d in mine)
            n = one.n_instances[i]
            limits = (loads.most_busy_decode(d.stream, i) for d in mine)
            most = min(float(np.interp(n, loads.grid, limit)) for limit in limits) if n else 0.0
            over += max(busy - most, 0.0) / max(n, 1)
        return over

    def _link_overload(self, one: PeriodOperation) -> float:
        busy = self._loads.most_link_busy()
        sent = zip(link_gbps(self._problem, one), self._gbps, strict=True)
        return sum(max(used - busy * gbps, 0.0) / max(gbps, 1.0) for used, gbps in sent)


def _changed(sizes: Sizes, more: dict[int, int]) -> Sizes:
    return tuple(n + more.get(i, 0) for i, n in enumerate(sizes))


def _with_part_rerouted(one: PeriodOperation, flow: Flow, arc: Arc, part: float) -> PeriodOperation:
    """A period with a part of a flow on another arc."""
    rates = {(f.stream, f.part, f.arc): f for f in one.flows}
    target = rates.get((flow.stream, flow.part, arc), flow._replace(arc=arc, req_per_s=0.0))
    rerouted = part * flow.req_per_s
    rates[flow.stream, flow.part, flow.arc] = flow._replace(req_per_s=flow.req_per_s - rerouted)
    rates[flow.stream, flow.part, arc] = target._replace(req_per_s=target.req_per_s + rerouted)
    return replace(one, flows=tuple(f for f in rates.values() if f.req_per_s > TOLERANCE))
