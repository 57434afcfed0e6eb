"""A solution in the words of the answer: pools, links, periods, classes, latency and cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from typing import Any

from planner.comparison.bill_parts import electricity_usd_per_hour, purchase_usd
from planner.comparison.records import class_plans, latency_of, link_plan, setup_fields
from planner.comparison.scenario_models import pool_model_name
from planner.comparison.shares import decoded_rates, pool_shares
from planner.optimizer.delays import loaded_step_s
from planner.optimizer.network.cost import rent_usd_per_hour, traffic_usd_per_hour, use_usd_per_hour
from planner.optimizer.network.judged_moves import excess
from planner.optimizer.network.period_operation import (
    N_KINDS,
    Flow,
    PeriodOperation,
    PeriodWaits,
    busy_instances,
    dominating_periods,
    link_gbps,
    period_waits,
)
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.resolution import whole_work_s
from planner.optimizer.routes import is_uniform
from planner.optimizer.solution import Solution
from planner.queueing.ttft import Path as QueuePath
from planner.queueing.ttft import Ttft
from planner.results.plan import ClassPlan, LinkPlan, PeriodLink, PeriodPlan, PeriodPool, PoolPlan, PoolShares
from planner.results.plan_parts import Cost, Latency
from planner.roots import EXACT, last_kept
from planner.ties import largest_first
from planner.units import SECONDS_PER_HOUR

PER_MILLION, PER_THOUSAND = 1e6, 1e3
CLOSE = 2e-3
"""Tolerance of a goodput where queues of batches decide;"""
N_BINDING = 6
"""and periods that are looked at first for it."""
OVERLOAD_TOLERANCE = 1e-5
MANY_KINDS = 4096
"""Requests that stand for the lengths of a flow: quantiles are then good to about 1e-3;"""
FEW_STREAMS = 8
"""with up to so many streams times periods."""


class Evaluation:
    """A solution with its waits."""

    def __init__(self, problem: Problem, solution: Solution, *, is_brief: bool = False) -> None:
        """is_brief: without the goodput of colocated pools, whose queues are long to solve."""
        self.problem, self.solution, self.weights = problem, solution, problem.weights
        self.is_brief = is_brief and problem.has_batches
        is_small = len(problem.streams) * len(solution.operations) <= FEW_STREAMS
        n_kinds = MANY_KINDS if is_small else N_KINDS
        self.evaluated: list[PeriodWaits] = [
            period_waits(problem, one, solution.ports, n_kinds) for one in solution.operations
        ]
        self.shown = [i for i in range(len(problem.pools)) if self._is_shown(i)]

    def _is_shown(self, i: int) -> bool:
        """True if a pool is part of the answer: all but the layouts of a pool that are not used."""
        is_alone = self.problem.pools[i].key not in self.problem.families
        return is_alone or any(one.n_instances[i] for one in self.solution.operations)

    @property
    def rate(self) -> float:
        """Mean rate over the whole time [req/s]."""
        return self.problem.mean_req_per_s * self.solution.scale

    def fleet(self) -> dict[str, Any]:
        """The fields that a plan and a baseline share."""
        offloaded = sum(w * self._offloaded(p) for p, w in enumerate(self.weights))
        return {
            "threshold_tokens": self._threshold_tokens(),
            "offload_fraction": min(offloaded / self.rate, 1.0) if self.rate > 0 else 0.0,
            "throughput_req_per_s": self.rate,
            "max_throughput_req_per_s": self.highest_req_per_s,
            "goodput_req_per_s": self.goodput_req_per_s,
            "pools": tuple(self._pool(i) for i in self.shown),
            "links": tuple(self._links()),
            "latency": self._latency(range(len(self.problem.streams)), range(len(self.evaluated))),
            "cost": self._cost(),
        }

    @cached_property
    def highest_req_per_s(self) -> float:
        """Most that the sizes serve [req/s]."""
        found = self.solution.highest_req_per_s
        return self.rate * self._room() if found is None else found

    @cached_property
    def goodput_req_per_s(self) -> float | None:
        """Highest rate at which every promise holds [req/s]; None where nothing is promised, or it was not sought."""
        if self.problem.is_min_ttft or not any(c.ttft_s is not None for c in self.problem.classes):
            return None
        found = self.solution.goodput_req_per_s
        return found if found is not None or self.is_brief else self._goodput(self.highest_req_per_s)

    def _threshold_tokens(self) -> float | None:
        """The threshold, where there is exactly one and it decides anything."""
        if len(self.problem.streams) > 1 or len(self.problem.periods) > 1 or not self._is_split(0):
            return None
        if not self._leaves_batches(self.solution.operations, [0]):
            return None
        thresholds = {flow.threshold_tokens for one in self.solution.operations for flow in one.flows}
        return max(thresholds.pop(), 0.0) if len(thresholds) == 1 else None

    def _is_split(self, stream: int) -> bool:
        """True if a threshold decides where prompts of a stream go."""
        return all(self.problem.arcs[stream].values())

    def _leaves_batches(self, operations: Sequence[PeriodOperation], streams: Sequence[int]) -> bool:
        """True if some prompts of streams are computed by prefill pools: else no threshold decides anything."""
        flows = (flow for one in operations for flow in one.flows if flow.stream in streams)
        return any(self.problem.pools[flow.arc.pool].batching is None for flow in flows)

    def _room(self) -> float:
        """Multiple of the demand that the plan's ways carry before a pool or link is full."""
        room, gbps = float("inf"), self.problem.gbps(self.solution.ports)
        for one in self.solution.operations:
            for busy, n in zip(busy_instances(self.problem, one), one.n_instances, strict=True):
                room = min(room, n / busy) if busy > 0 else room
            for sent, capacity in zip(link_gbps(self.problem, one), gbps, strict=True):
                room = min(room, capacity / sent) if sent > 0 else room
        return max(room, 1.0)

    def _goodput(self, most: float) -> float:
        """Highest multiple of the demand at which the plan's ways still keep every promise, as a rate [req/s]."""
        high = max(most / self.rate * (1 - 1e-6), 1.0)
        if not self.problem.has_batches:
            return self.rate * last_kept(self._late_excess, 1.0, high, EXACT)[0]
        # Queues of batches take long: those of the periods that bind are looked at, until all others hold as well.
        latest = largest_first(dominating_periods(self.solution.operations), lambda one: self._late_excess(1.0, [one]))
        binding, others = list[PeriodOperation](), latest[:N_BINDING]
        while others:
            binding += others
            kept = last_kept(partial(self._late_excess, operations=binding), 1.0, high, CLOSE)[0]
            others = [one for one in latest if one not in binding and self._late_excess(kept, [one]) > 0]
        return self.rate * kept

    def _late_excess(self, multiple: float, operations: Sequence[PeriodOperation] | None = None) -> float:
        """Distance of promises from being kept at a multiple of the demand, as `excess` has it; 0 is just kept.

        Args:
            multiple: of the demand [-].
            operations: periods that are looked at; None: all.
        """
        some = self.solution.operations if operations is None else operations
        more = [one.scaled_to(one.period, [multiple] * len(self.problem.streams)) for one in some]
        return excess(self.problem, more, self.solution.ports)

    def _offloaded(self, p: int) -> float:
        """Rate of long prompts in a period that leave their site or go to a pool for such alone [req/s]."""
        return sum(f.req_per_s * kinds.fraction for f, kinds in self.evaluated[p].kinds if self._leaves(f))

    def _leaves(self, flow: Flow) -> bool:
        apart = flow.arc.link is not None or len(self.problem.pools[flow.arc.pool].parts) == 1
        return flow.part == "long" and apart

    def _pool(self, i: int) -> PoolPlan:
        pool, operations = self.problem.pools[i], self.solution.operations
        n = max(one.n_instances[i] for one in operations)
        offered = sum(w * self._offered(p, i) for p, w in enumerate(self.weights))
        busy = sum(w * busy_instances(self.problem, operations[p])[i] for p, w in enumerate(self.weights))
        usd = rent_usd_per_hour(self.problem, operations)[i]
        return PoolPlan(
            name=self._name(i),
            site=pool.site,
            hardware=pool.hardware,
            role=pool.role,
            prompts=pool.prompts,
            n_instances=n,
            n_accelerators=n * pool.n_accelerators,
            capacity_req_per_s=offered / busy * n if busy > 0 else n / _work_s(self.problem, pool),
            offered_req_per_s=offered,
            utilization=_at_most_full(busy / n) if n else 0.0,
            usd_per_hour=None if usd is None else usd + busy * pool.busy_usd_per_hour,
            model=pool_model_name(self.problem.scenario, pool.key),
            batch_limit=self._batch_limit(i),
            **setup_fields(pool),
        )

    def _name(self, i: int) -> str:
        """Name of a pool: of a colocated one that of the scenario's, where one way to run it is in use."""
        pool = self.problem.pools[i]
        alike = [k for k in self.shown if self.problem.pools[k].key == pool.key]
        return pool.key if pool.batching is not None and alike == [i] else pool.name

    def _batch_limit(self, i: int) -> int | None:
        """Most sequences in the batch of an instance; None where it does not decode."""
        pool = self.problem.pools[i]
        if pool.batching is None:
            return None if pool.is_prefill or pool.rates.decode is None else pool.rates.decode.batch
        found = [period.batches[i].batch for period in self.evaluated if i in period.batches]
        return max((batch.load.n_replicas * batch.load.loop.most_running for batch in found), default=None)

    def _offered(self, p: int, i: int) -> float:
        """Requests sent to a pool in a period [req/s]."""
        period = self.evaluated[p]
        is_joint = self.problem.pools[i].batching is not None  # what it prefills, it decodes
        users = () if is_joint else period.kinds
        prefills = sum(f.req_per_s * kinds.fraction for f, kinds in users if f.arc.pool == i)
        return prefills + sum(d.req_per_s for d in period.operation.decodings if d.pool == i)

    def _links(self) -> Iterator[LinkPlan]:
        sent = [link_gbps(self.problem, one) for one in self.solution.operations]
        for j, (link, ports) in enumerate(zip(self.problem.links, self.solution.ports, strict=True)):
            mean = sum(w * sent[p][j] for p, w in enumerate(self.weights))
            yield link_plan(link, ports, mean)

    def _latency(self, streams: Sequence[int], periods: Sequence[int]) -> Latency:
        """Over some streams and periods, weighted by their requests."""
        loaded, unloaded = (self.ttft(streams, periods, is_loaded) for is_loaded in (True, False))
        return latency_of(loaded, unloaded, self.step_s(streams, periods))

    def ttft(self, streams: Sequence[int], periods: Sequence[int], loaded: bool = True) -> Ttft | None:
        """Over some streams and periods, weighted by their requests; None where a queue has no answer."""
        if loaded and not self.problem.has_queueing_model:
            return None
        paths: list[tuple[float, QueuePath]] = []
        for p in periods:
            requests = self.weights[p] * sum(self.evaluated[p].operation.rate_of(q) for q in streams)
            found = self.evaluated[p].paths(streams, loaded) if requests > 0 else []
            if found is None:
                return None
            paths += [(requests * path.share_fraction, path) for path in found]
        total = sum(share for share, _ in paths)
        return Ttft.of([_shared(path, share / total) for share, path in paths]) if total > 0 else None

    def step_s(self, streams: Sequence[int], periods: Sequence[int]) -> float | None:
        """Decode step at the load of each period, weighted by requests [s]."""
        steps = [
            (self.weights[p] * d.req_per_s, step_s)
            for p in periods
            for d in self.evaluated[p].operation.decodings
            if d.stream in streams and (step_s := self._pool_step_s(p, d.pool)) is not None
        ]
        total = sum(rate for rate, _ in steps)
        return sum(rate * step for rate, step in steps) / total if total > 0 else None

    def tpot_quantile_s(self, streams: Sequence[int], periods: Sequence[int], q: float) -> float | None:
        """Time per output token that a fraction of requests does not exceed, where it is longest of pools and periods
        [s]; None where nothing decodes."""
        ways = ((p, d.pool) for p in periods for d in self.evaluated[p].operation.decodings if d.stream in streams)
        steps = (self._pool_step_s(p, pool, q) for p, pool in dict.fromkeys(ways))
        return max((step_s for step_s in steps if step_s is not None), default=None)

    def _pool_step_s(self, p: int, pool: int, q: float | None = None) -> float | None:
        """Mean decode step of a pool in a period, or a quantile over requests [s]; None where it decodes nothing."""
        if pool in self.evaluated[p].batches:
            queue, batch = self.evaluated[p].batch_queue(pool), self.evaluated[p].batches[pool].batch
            if queue is None:
                return batch.full_tpot_s
            return queue.queue.tpot_mean_s if q is None else queue.tpot_quantile_s(q)
        operation, point = self.evaluated[p].operation, self.problem.pools[pool].rates.decode
        mine = [d for d in operation.decodings if d.pool == pool]
        rate = sum(d.req_per_s for d in mine)
        if point is None or rate <= 0:
            return None
        classes, streams = self.problem.classes, self.problem.streams
        tokens = sum(d.req_per_s * classes[streams[d.stream].request_class].mix.mean_output_tokens for d in mine) / rate
        return loaded_step_s(point, rate, tokens, operation.n_instances[pool], q)

    def _cost(self) -> Cost:
        problem = self.problem
        plans = {i: self._pool(i) for i in self.shown}
        pools = [plan.usd_per_hour for plan in plans.values()]
        links = [link.usd_per_hour for link in self._links()]
        known = not any(usd is None for usd in (*pools, *links))
        traffic = sum(
            w * traffic_usd_per_hour(problem, one)
            for w, one in zip(self.weights, self.solution.operations, strict=True)
        )
        total = sum(usd or 0.0 for usd in (*pools, *links)) + traffic
        tokens = {
            kind: sum(
                self._rate_of(c) * float(getattr(spec.mix, f"mean_{kind}_tokens"))
                for c, spec in enumerate(problem.classes)
            )
            for kind in ("total", "output")
        }
        per_million = {k: PER_MILLION * total / (t * SECONDS_PER_HOUR) if t > 0 else None for k, t in tokens.items()}
        hourly = self.rate * SECONDS_PER_HOUR
        return Cost(
            usd_per_hour=total if known else None,
            usd_per_million_input_tokens=per_million["total"] if known else None,
            usd_per_million_output_tokens=per_million["output"] if known else None,
            usd_per_thousand_requests=PER_THOUSAND * total / hourly if known and hourly > 0 else None,
            accelerators_usd_per_hour=None if any(u is None for u in pools) else sum(u or 0.0 for u in pools),
            electricity_usd_per_hour=electricity_usd_per_hour(problem, self.solution, plans),
            purchase_usd=purchase_usd(problem, plans),
            missing_prices=() if known else problem.missing_prices(),
        )

    def _rate_of(self, request_class: int) -> float:
        """Mean rate of a class [req/s]."""
        streams = [q for q, stream in enumerate(self.problem.streams) if stream.request_class == request_class]
        return sum(w * self.solution.operations[p].rate_of(q) for p, w in enumerate(self.weights) for q in streams)

    def classes(self) -> Iterator[ClassPlan]:
        """Every class with its promise and its latency over all periods."""
        everywhen = range(len(self.evaluated))
        shares = pool_shares(self.problem, self.solution.operations[0], self._name)
        for c, spec in enumerate(self.problem.classes):
            streams = [q for q, stream in enumerate(self.problem.streams) if stream.request_class == c]
            split = [q for q in streams if self._is_split(q)]
            thresholds = {
                flow.threshold_tokens for s in self.solution.operations for flow in s.flows if flow.stream in split
            }
            thresholds = thresholds if self._leaves_batches(self.solution.operations, split) else set()
            yield from class_plans(
                self.problem.scenario,
                spec,
                max(thresholds.pop(), 0.0) if len(thresholds) == 1 else None,
                self._latency(streams, everywhen),
                self._only(shares.get(spec.name, {})),
            )

    def _only(self, shares: Mapping[str, PoolShares]) -> PoolShares:
        """Shares of a class that has one site and one period: others are of periods; none where nothing is shared."""
        is_plain = all(len(of_work) == 1 for of_site in shares.values() for of_work in of_site.values())
        if self.problem.is_plain and is_plain:
            return {}
        return next(iter(shares.values())) if len(shares) == len(self.evaluated) == 1 else {}

    def periods(self) -> Iterator[PeriodPlan]:
        """Every period with its thresholds, pools and links, in the order of the scenario."""
        found = dict(self._periods())
        return (found[name] for name in self.problem.scenario.periods or found)

    def _periods(self) -> Iterator[tuple[str, PeriodPlan]]:
        for p, (span, one) in enumerate(zip(self.problem.periods, self.solution.operations, strict=True)):
            busy, sent = busy_instances(self.problem, one), link_gbps(self.problem, one)
            links = zip(self.problem.links, sent, self.problem.gbps(self.solution.ports), strict=True)
            demand = sum(d.req_per_s for d in one.decodings)
            found = PeriodPlan(
                name=span.name,
                hours=span.hours,
                demand_req_per_s=demand,
                offload_fraction=self._offloaded(p) / demand if demand > 0 else 0.0,
                thresholds=self._thresholds(one),
                decoded_req_per_s=decoded_rates(self.problem, one),
                pool_shares=pool_shares(self.problem, one, self._name),
                pools=tuple(
                    PeriodPool(
                        name=self._name(i),
                        n_instances=one.n_instances[i],
                        offered_req_per_s=self._offered(p, i),
                        utilization=min(busy[i] / one.n_instances[i], 1.0) if one.n_instances[i] else 0.0,
                    )
                    for i in self.shown
                ),
                links=tuple(
                    PeriodLink(name=link.name, mean_gbps=gbps, utilization=gbps / capacity if capacity else 0.0)
                    for link, gbps, capacity in links
                ),
                latency=self._latency(range(len(self.problem.streams)), [p]),
                use_usd_per_hour=use_usd_per_hour(self.problem, one),
            )
            yield from ((name, found.model_copy(update={"name": name, "hours": hours})) for name, hours in span.members)

    def _thresholds(self, one: PeriodOperation) -> dict[str, dict[str, float | None]]:
        found: dict[str, dict[str, float | None]] = {}
        for flow in one.flows:
            stream = self.problem.streams[flow.stream]
            spec = self.problem.classes[stream.request_class]
            beyond = flow.threshold_tokens >= spec.mix.support[1] or not self._leaves_batches([one], [flow.stream])
            for member in spec.members:
                found.setdefault(member.name, {})[stream.site] = None if beyond else max(flow.threshold_tokens, 0.0)
        return found

    @property
    def has_periods(self) -> bool:
        """True if the answer needs periods: the scenario has some, or a class is decoded at several sites."""
        decoded = [
            self.problem.streams[q].request_class for q in {d.stream for d in self.solution.operations[0].decodings}
        ]
        return bool(self.problem.scenario.periods) or len(decoded) > len(set(decoded))


def evaluation(problem: Problem, solution: Solution, *, is_brief: bool = False) -> Evaluation:
    """At the rate a solution is for: a demand that is stated and reachable, else the goodput or the most it serves.

    Where demands differ by class, site or period and the rate is sought, they state proportions, and their scale grows.

    Args:
        problem: the question.
        solution: its plan.
        is_brief: whether the goodput of colocated pools is left out.
    """
    demand, found = problem.demand_req_per_s, solution.scale * problem.mean_req_per_s
    is_stated = problem.is_plain or (problem.has_batches and is_uniform(problem))
    if demand is None or demand >= found or not is_stated:
        return Evaluation(problem, solution, is_brief=is_brief)
    return evaluation_at(problem, solution, demand, is_brief=is_brief)


def evaluation_at(problem: Problem, solution: Solution, req_per_s: float, *, is_brief: bool = False) -> Evaluation:
    """The same sizes and thresholds at another rate, at most the highest they serve [req/s].

    Args:
        problem: the question.
        solution: its plan.
        req_per_s: rate over all classes and the whole time [req/s].
        is_brief: whether the goodput of colocated pools is left out.
    """
    here = Evaluation(problem, solution, is_brief=is_brief)
    known = replace(solution, highest_req_per_s=here.highest_req_per_s, goodput_req_per_s=here.goodput_req_per_s)
    return Evaluation(problem, known.at(min(req_per_s, here.highest_req_per_s) / here.rate), is_brief=is_brief)


def _shared(path: QueuePath, share: float) -> QueuePath:
    return QueuePath(min(share, 1.0), path.unloaded_s, path.weights, path.wait)


def _work_s(problem: Problem, pool: PoolSpec) -> float:
    """Instance-seconds per request of the heaviest class that a pool serves; infinite of one that serves none [s]."""
    return max((whole_work_s(pool, problem.classes[c].mix) for c in pool.classes), default=0.0) or inf


def _at_most_full(utilization: float) -> float:
    """A utilisation without the solver's tolerance; more than that would be a plan that cannot run."""
    if utilization > 1 + OVERLOAD_TOLERANCE:
        raise ValueError(f"a pool is planned at utilisation {utilization:.9g}")
    return min(utilization, 1.0)
