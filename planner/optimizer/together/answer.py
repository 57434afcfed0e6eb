"""A fleet with a colocated pool in the words of the answer: pools, link, latency, cost and classes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from planner.optimizer.colocated.rates import BUSIEST, full_tpot_s
from planner.optimizer.evaluation import PER_MILLION, class_plans, latency_of, link_plan, setup_fields
from planner.optimizer.problem import ClassSpec, PoolSpec
from planner.optimizer.served import served_name
from planner.optimizer.together.pairing import Pairing, Sizes, Span
from planner.queueing import joined_prompts
from planner.results import ClassPlan, Cost, Fleet, Latency, LinkPlan, PoolPlan
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT, SECONDS_PER_HOUR

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Stated:
    """A fleet at a threshold and a rate."""

    pairing: Pairing
    sizes: Sizes
    threshold_tokens: float
    req_per_s: float
    goodput_req_per_s: float | None = None

    @property
    def _span(self) -> Span:
        return Span(self.threshold_tokens, self.threshold_tokens)

    @property
    def leaves(self) -> bool:
        """Whether some prompts are computed elsewhere."""
        return self.pairing.prefill_s(self.threshold_tokens) > 0

    @property
    def shown_tokens(self) -> float | None:
        """The threshold, where it decides anything."""
        return max(self.threshold_tokens, 0.0) if self.leaves else None

    def fleet(self) -> Fleet:
        """The fleet at the rate."""
        return Fleet(
            threshold_tokens=self.shown_tokens,
            offload_fraction=self.pairing.long_fraction(self.threshold_tokens) if self.leaves else 0.0,
            throughput_req_per_s=self.req_per_s,
            max_throughput_req_per_s=self.pairing.capacity_req_per_s(self.sizes, self._span),
            goodput_req_per_s=self.goodput_req_per_s,
            pools=tuple(self._pools()),
            links=tuple(self._links()),
            latency=self.latency,
            cost=self._cost(),
        )

    def _pools(self) -> Iterator[PoolPlan]:
        """The pools in the order of the scenario."""
        batch = self.pairing.batch(self.threshold_tokens)
        found = {
            self.pairing.colocated.key: self._pool(
                self.pairing.colocated, self.sizes.n_colocated, batch.capacity_req_per_s, self.req_per_s
            ).model_copy(
                update={
                    "tokens_per_pass": self.pairing.way.tokens_per_pass,
                    "batch_limit": batch.load.loop.most_running,
                }
            )
        }
        prefill = self.pairing.prefill
        if prefill is not None:
            work_s = self.pairing.prefill_s(self.threshold_tokens)
            long = self.pairing.long_fraction(self.threshold_tokens) if work_s > 0 else 0.0
            each = long / work_s if work_s > 0 else 1 / self.pairing.prefill_s(self.pairing.least_tokens)
            made = self._pool(prefill, self.sizes.n_prefill, each, long * self.req_per_s)
            tokens = self.pairing.problem.scenario.pools[prefill.key].pass_sizes
            found[prefill.key] = made.model_copy(update={"tokens_per_pass": tokens[0] if tokens else None})
        yield from (found[key] for key in self.pairing.problem.scenario.pools if key in found)

    def _pool(self, spec: PoolSpec, n: int, capacity_req_per_s: float, offered_req_per_s: float) -> PoolPlan:
        busy = offered_req_per_s / capacity_req_per_s
        usd = spec.usd_per_hour
        return PoolPlan(
            name=spec.name,
            site=spec.site,
            hardware=spec.hardware,
            role=self.pairing.problem.scenario.pools[spec.key].role,
            prompts=spec.prompts,
            n_instances=n,
            n_accelerators=n * spec.n_accelerators,
            capacity_req_per_s=n * capacity_req_per_s,
            offered_req_per_s=offered_req_per_s,
            utilization=min(busy / n, 1.0) if n else 0.0,
            usd_per_hour=None if usd is None else n * usd + busy * spec.busy_usd_per_hour,
            model=served_name(self.pairing.problem.scenario, spec.key),
            **setup_fields(spec),
        )

    def _links(self) -> Iterator[LinkPlan]:
        pairing, ports = self.pairing, self.pairing.all_ports(self.sizes)
        sent = self.req_per_s * pairing.sent_bytes(self.threshold_tokens) * BITS_PER_BYTE / BITS_PER_GBIT
        for i, link in enumerate(pairing.problem.links):
            yield link_plan(link, ports[i], sent if i == pairing.link else 0.0)

    @cached_property
    def latency(self) -> Latency:
        """Of all requests."""
        pairing, at = self.pairing, self.threshold_tokens
        busy = self.req_per_s / pairing.capacity_req_per_s(self.sizes, self._span)
        arrive_evenly = all(c.arrival_scv == 1.0 for c in pairing.problem.classes)
        loaded = None
        if busy <= BUSIEST * (1 + ROUNDING) and arrive_evenly:
            loaded = pairing.ttft(self.sizes, at, self.req_per_s)
        queue = pairing.queue(at, self.sizes.n_colocated, self.req_per_s) if loaded is not None else None
        return latency_of(loaded, pairing.ttft(self.sizes, at, self.req_per_s, False), self._tpot_s(queue is None))

    def _tpot_s(self, is_full: bool) -> float | None:
        """Mean time per token; at the capacity where the queue has no steady state [s]."""
        batch = self.pairing.batch(self.threshold_tokens)
        queue = None
        if not is_full:
            queue = self.pairing.queue(self.threshold_tokens, self.sizes.n_colocated, self.req_per_s)
        if queue is not None:
            return queue.queue.tpot_mean_s
        load = replace(batch.load, prompts=joined_prompts(batch.load.prompts, batch.joining_fraction))
        return full_tpot_s(load, self.pairing.way.engine.tpot_s)

    def _cost(self) -> Cost:
        pairing = self.pairing
        pools = [pool.usd_per_hour for pool in self._pools()]
        links = [link.usd_per_hour for link in self._links()]
        known = not any(usd is None for usd in (*pools, *links))
        rents = sum(usd or 0.0 for usd in (*pools, *links))
        usd = rents + self.req_per_s * pairing.traffic_usd(self.threshold_tokens)
        tokens = {
            kind: self.req_per_s * sum(c.share * float(getattr(c.mix, f"mean_{kind}_tokens")) for c in self._classes)
            for kind in ("total", "output")
        }
        each = {k: PER_MILLION * usd / (t * SECONDS_PER_HOUR) if t > 0 else None for k, t in tokens.items()}
        return Cost(
            usd_per_hour=usd if known else None,
            usd_per_million_input_tokens=each["total"] if known else None,
            usd_per_million_output_tokens=each["output"] if known else None,
            accelerators_usd_per_hour=None if any(p is None for p in pools) else sum(p or 0.0 for p in pools),
            missing_prices=() if known else pairing.problem.missing_prices(),
        )

    @property
    def _classes(self) -> tuple[ClassSpec, ...]:
        return self.pairing.problem.classes

    def classes(self) -> Iterator[ClassPlan]:
        """Every class."""
        for spec in self._classes:
            latency = self.latency if len(self._classes) == 1 else _unknown(self.latency.tpot_mean_s)
            yield from class_plans(self.pairing.problem.scenario, spec, self.shown_tokens, latency)


def _unknown(tpot_mean_s: float | None) -> Latency:
    """Of a class among several: times to first token are known of all requests alone."""
    return latency_of(None, None, tpot_mean_s)
