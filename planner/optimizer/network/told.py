"""A solved network in the words of the answer: pools, links, periods, classes, latency and cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from planner.optimizer.delays import loaded_step_s
from planner.optimizer.fleet import link_plan, setup_fields
from planner.optimizer.latency import latency_of
from planner.optimizer.network.cost import rent_usd_per_hour, traffic_usd_per_hour, use_usd_per_hour
from planner.optimizer.network.evaluate import (
    Flow,
    Period,
    Settled,
    busy_instances,
    link_gbps,
    period_of,
)
from planner.optimizer.network.problem import NetworkPool, NetworkProblem, whole_work_s
from planner.optimizer.network.solution import NetworkSolution
from planner.queueing import Path as QueuePath
from planner.queueing import Ttft
from planner.results import (
    ClassPlan,
    Cost,
    Latency,
    LinkPlan,
    PeriodLink,
    PeriodPlan,
    PeriodPool,
    PoolPlan,
    PoolShares,
    Work,
)
from planner.units import SECONDS_PER_HOUR

PER_MILLION = 1e6
STEPS = 12
"""Halvings of the range of multiples of the demand in which the promise breaks."""


class Told:
    """A solution with its waits, ready to be told."""

    def __init__(self, problem: NetworkProblem, solution: NetworkSolution) -> None:
        self.problem, self.solution = problem, solution
        self.evaluated: list[Period] = [period_of(problem, one, solution.ports) for one in solution.settled]
        self.used = [i for i in range(len(problem.pools)) if any(one.n_instances[i] for one in solution.settled)]
        self.weights = problem.weights

    @property
    def rate(self) -> float:
        """Mean rate over the whole time [req/s]."""
        return self.problem.mean_req_per_s * self.solution.scale

    def fleet(self) -> dict[str, Any]:
        """The fields that a plan and a baseline share."""
        most = self.rate * self._room()
        offloaded = sum(w * self._offloaded(p) for p, w in enumerate(self.weights))
        return {
            "threshold_tokens": None,
            "offload_fraction": offloaded / self.rate if self.rate > 0 else 0.0,
            "throughput_req_per_s": self.rate,
            "max_throughput_req_per_s": most,
            "goodput_req_per_s": self._goodput(most) if self._promised() else None,
            "pools": tuple(self._pool(i) for i in self.used),
            "links": tuple(self._links()),
            "latency": self._latency(range(len(self.problem.streams)), range(len(self.evaluated))),
            "cost": self._cost(),
        }

    def _promised(self) -> bool:
        return any(c.ttft_s is not None for c in self.problem.classes)

    def _room(self) -> float:
        """Multiple of the demand that the plan's ways carry before a pool or link is full."""
        room, gbps = float("inf"), self.problem.gbps(self.solution.ports)
        for one in self.solution.settled:
            for busy, n in zip(busy_instances(self.problem, one), one.n_instances, strict=True):
                room = min(room, n / busy) if busy > 0 else room
            for sent, capacity in zip(link_gbps(self.problem, one), gbps, strict=True):
                room = min(room, capacity / sent) if sent > 0 else room
        return max(room, 1.0)

    def _goodput(self, most: float) -> float:
        """Highest multiple of the demand at which the plan's ways still keep every promise, as a rate [req/s]."""
        low, high = 1.0, most / self.rate * (1 - 1e-6)
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._keeps(middle) else (low, middle)
        return self.rate * low

    def _keeps(self, multiple: float) -> bool:
        problem = self.problem
        for one in sorted(self.solution.settled, key=lambda s: -sum(d.req_per_s for d in s.decodings)):
            more = period_of(problem, one.scaled_to(one.period, [multiple] * len(problem.streams)), self.solution.ports)
            for q, stream in enumerate(problem.streams):
                spec = problem.classes[stream.request_class]
                if spec.ttft_s is None or one.rate_of(q) <= 0:
                    continue
                if more.late_fraction(q, spec.ttft_s) > spec.late_allowed:
                    return False
        return True

    def _offloaded(self, p: int) -> float:
        """Rate of long prompts in a period that leave their site or go to a pool for such alone [req/s]."""
        return sum(f.req_per_s * kinds.fraction for f, kinds in self.evaluated[p].kinds if self._leaves(f))

    def _leaves(self, flow: Flow) -> bool:
        apart = flow.arc.link is not None or len(self.problem.pools[flow.arc.pool].parts) == 1
        return flow.part == "long" and apart

    def _pool(self, i: int) -> PoolPlan:
        pool, settled = self.problem.pools[i], self.solution.settled
        n = max(one.n_instances[i] for one in settled)
        offered = sum(w * self._offered(p, i) for p, w in enumerate(self.weights))
        busy = sum(w * busy_instances(self.problem, settled[p])[i] for p, w in enumerate(self.weights))
        usd = rent_usd_per_hour(self.problem, [n if j == i else 0 for j in range(len(self.problem.pools))])[i]
        role: Literal["prefill", "decode"] = "prefill" if pool.is_prefill else "decode"
        return PoolPlan(
            name=pool.name,
            site=pool.site,
            hardware=pool.hardware,
            role=role,
            prompts=pool.parts[0] if len(pool.parts) == 1 else None,
            n_instances=n,
            n_accelerators=n * pool.n_accelerators,
            capacity_req_per_s=offered / busy * n if busy > 0 else n / _work_s(self.problem, pool),
            offered_req_per_s=offered,
            utilization=min(busy / n, 1.0),
            usd_per_hour=None if usd is None else usd + busy * pool.busy_usd_per_hour,
            **setup_fields(pool.rates, role, pool.n_accelerators),
        )

    def _offered(self, p: int, i: int) -> float:
        """Requests sent to a pool in a period [req/s]."""
        period = self.evaluated[p]
        prefills = sum(f.req_per_s * kinds.fraction for f, kinds in period.kinds if f.arc.pool == i)
        return prefills + sum(d.req_per_s for d in period.settled.decodings if d.pool == i)

    def _links(self) -> Iterator[LinkPlan]:
        sent = [link_gbps(self.problem, one) for one in self.solution.settled]
        for j, (link, ports) in enumerate(zip(self.problem.links, self.solution.ports, strict=True)):
            mean = sum(w * sent[p][j] for p, w in enumerate(self.weights))
            yield link_plan(link, ports, mean, link.ports_usd_per_hour(ports))

    def _latency(self, streams: Sequence[int], periods: Sequence[int]) -> Latency:
        """Over some streams and periods, weighted by their requests."""
        loaded, unloaded = (self._ttft(streams, periods, is_loaded) for is_loaded in (True, False))
        return latency_of(loaded, unloaded, self._step_s(streams, periods))

    def _ttft(self, streams: Sequence[int], periods: Sequence[int], loaded: bool) -> Ttft | None:
        paths: list[tuple[float, QueuePath]] = []
        for p in periods:
            requests = self.weights[p] * sum(self.evaluated[p].settled.rate_of(q) for q in streams)
            found = self.evaluated[p].paths(streams, loaded) if requests > 0 else []
            if found is None:
                return None
            paths += [(requests * path.share_fraction, path) for path in found]
        total = sum(share for share, _ in paths)
        return Ttft.of([_shared(path, share / total) for share, path in paths]) if total > 0 else None

    def _step_s(self, streams: Sequence[int], periods: Sequence[int]) -> float | None:
        """Decode step at the load of each period, weighted by requests [s]."""
        steps = [
            (self.weights[p] * d.req_per_s, step_s)
            for p in periods
            for d in self.evaluated[p].settled.decodings
            if d.stream in streams and (step_s := self._pool_step_s(p, d.pool)) is not None
        ]
        total = sum(rate for rate, _ in steps)
        return sum(rate * step for rate, step in steps) / total if total > 0 else None

    def _pool_step_s(self, p: int, pool: int) -> float | None:
        """Mean decode step of a pool in a period [s]; None where it decodes nothing."""
        settled, point = self.evaluated[p].settled, self.problem.pools[pool].rates.decode
        mine = [d for d in settled.decodings if d.pool == pool]
        rate = sum(d.req_per_s for d in mine)
        if point is None or rate <= 0:
            return None
        classes, streams = self.problem.classes, self.problem.streams
        tokens = sum(d.req_per_s * classes[streams[d.stream].request_class].mix.mean_output_tokens for d in mine) / rate
        return loaded_step_s(point, rate, tokens, settled.n_instances[pool])

    def _cost(self) -> Cost:
        problem = self.problem
        pools = [self._pool(i).usd_per_hour for i in self.used]
        links = [link.usd_per_hour for link in self._links()]
        known = not any(usd is None for usd in (*pools, *links))
        traffic = sum(
            w * traffic_usd_per_hour(problem, one) for w, one in zip(self.weights, self.solution.settled, strict=True)
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
        return Cost(
            usd_per_hour=total if known else None,
            usd_per_million_input_tokens=per_million["total"] if known else None,
            usd_per_million_output_tokens=per_million["output"] if known else None,
            accelerators_usd_per_hour=None if any(u is None for u in pools) else sum(u or 0.0 for u in pools),
            missing_prices=() if known else problem.missing_prices(),
        )

    def _rate_of(self, request_class: int) -> float:
        """Mean rate of a class [req/s]."""
        streams = [q for q, stream in enumerate(self.problem.streams) if stream.request_class == request_class]
        return sum(w * self.solution.settled[p].rate_of(q) for p, w in enumerate(self.weights) for q in streams)

    def classes(self) -> Iterator[ClassPlan]:
        """Every class with its promise and its latency over all periods."""
        everywhen, shares = range(len(self.evaluated)), self._pool_shares(self.solution.settled[0])
        for c, spec in enumerate(self.problem.classes):
            streams = [q for q, stream in enumerate(self.problem.streams) if stream.request_class == c]
            thresholds = {
                flow.threshold_tokens for s in self.solution.settled for flow in s.flows if flow.stream in streams
            }
            yield ClassPlan(
                name=spec.name,
                model=self.problem.scenario.profile_of(spec.model).name,
                share=spec.share,
                slo=None if spec.slo is None else spec.slo.model_dump(exclude_none=True),
                threshold_tokens=max(thresholds.pop(), 0.0) if len(thresholds) == 1 else None,
                latency=self._latency(streams, everywhen),
                mean_total_tokens=spec.mix.mean_total_tokens,
                mean_uncached_tokens=spec.mix.mean_uncached_tokens,
                mean_output_tokens=spec.mix.mean_output_tokens,
                cached_fraction=spec.mix.cached_fraction,
                pool_shares=self._only(shares.get(spec.name, {})),
            )

    def _only(self, shares: Mapping[str, PoolShares]) -> PoolShares:
        """Shares of a class that has one site and one period: others are those of periods."""
        return next(iter(shares.values())) if len(shares) == len(self.evaluated) == 1 else {}

    def periods(self) -> Iterator[PeriodPlan]:
        """Every period with its thresholds, pools and links."""
        for p, (span, one) in enumerate(zip(self.problem.periods, self.solution.settled, strict=True)):
            busy, sent = busy_instances(self.problem, one), link_gbps(self.problem, one)
            links = zip(self.problem.links, sent, self.problem.gbps(self.solution.ports), strict=True)
            demand = sum(d.req_per_s for d in one.decodings)
            yield PeriodPlan(
                name=span.name,
                hours=span.hours,
                demand_req_per_s=demand,
                offload_fraction=self._offloaded(p) / demand if demand > 0 else 0.0,
                thresholds=self._thresholds(one),
                decoded_req_per_s=self._decoded(one),
                pool_shares=self._pool_shares(one),
                pools=tuple(
                    PeriodPool(
                        name=self.problem.pools[i].name,
                        n_instances=one.n_instances[i],
                        offered_req_per_s=self._offered(p, i),
                        utilization=min(busy[i] / one.n_instances[i], 1.0) if one.n_instances[i] else 0.0,
                    )
                    for i in self.used
                ),
                links=tuple(
                    PeriodLink(name=link.name, mean_gbps=gbps, utilization=gbps / capacity if capacity else 0.0)
                    for link, gbps, capacity in links
                ),
                latency=self._latency(range(len(self.problem.streams)), [p]),
                use_usd_per_hour=use_usd_per_hour(self.problem, one),
            )

    def _thresholds(self, one: Settled) -> dict[str, dict[str, float | None]]:
        found: dict[str, dict[str, float | None]] = {}
        for flow in one.flows:
            stream = self.problem.streams[flow.stream]
            spec = self.problem.classes[stream.request_class]
            beyond = flow.threshold_tokens >= spec.mix.support[1]
            at = found.setdefault(spec.name, {})
            at[stream.site] = None if beyond else max(flow.threshold_tokens, 0.0)
        return found

    def _decoded(self, one: Settled) -> dict[str, dict[str, float]]:
        """Rate of every stream, by class and site."""
        found: dict[str, dict[str, float]] = {}
        for decoding in one.decodings:
            stream = self.problem.streams[decoding.stream]
            at = found.setdefault(self.problem.classes[stream.request_class].name, {})
            at[stream.site] = at.get(stream.site, 0.0) + decoding.req_per_s
        return found

    @property
    def has_periods(self) -> bool:
        """Whether the answer needs periods: the scenario has some, or a class is decoded at several sites."""
        decoded = [
            self.problem.streams[q].request_class for q in {d.stream for d in self.solution.settled[0].decodings}
        ]
        return bool(self.problem.scenario.periods) or len(decoded) > len(set(decoded))

    def _pool_shares(self, one: Settled) -> dict[str, dict[str, PoolShares]]:
        """What every pool takes of each stream's long prompts, short ones and decoding."""
        taken: dict[tuple[int, Work], dict[str, float]] = {}
        for flow in one.flows:
            mine = taken.setdefault((flow.stream, flow.part), {})
            name = self.problem.pools[flow.arc.pool].name
            mine[name] = mine.get(name, 0.0) + flow.req_per_s
        for decoding in one.decodings:
            mine = taken.setdefault((decoding.stream, "decode"), {})
            mine[self.problem.pools[decoding.pool].name] = decoding.req_per_s
        found: dict[str, dict[str, PoolShares]] = {}
        for (q, work), rates in taken.items():
            stream, total = self.problem.streams[q], sum(rates.values())
            at = found.setdefault(self.problem.classes[stream.request_class].name, {}).setdefault(stream.site, {})
            at[work] = {name: rate / total for name, rate in rates.items()}
        return found


def _shared(path: QueuePath, share: float) -> QueuePath:
    return QueuePath(min(share, 1.0), path.unloaded_s, path.weights, path.wait)


def _work_s(problem: NetworkProblem, pool: NetworkPool) -> float:
    return max(whole_work_s(pool, problem.classes[c].mix) for c in pool.classes)
