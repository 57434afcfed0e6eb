"""A way to run the colocated pool beside a layout of the prefill pool: what requests ask of both, by threshold."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from planner.optimizer.colocated.passes import Load, roofline_load
from planner.optimizer.colocated.rates import QUEUE_S, Promise, alone
from planner.optimizer.colocated.requests import N_KINDS, request_kinds
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation, PeriodWaits, period_waits
from planner.optimizer.problem import Arc, PoolSpec, Problem
from planner.optimizer.together.question import Way
from planner.optimizer.work import long_bytes, long_work_s
from planner.queueing import JoinedQueue, Path, Ttft, joined_capacity_req_per_s, joined_queue
from planner.roofline import RequestKinds
from planner.units import GB, SECONDS_PER_HOUR, bytes_per_s
from planner.work_clock import spend
from planner.workload import ALL_LONG

COLOCATED, PREFILL = 0, 1
"""Places of both pools in the problem."""
HALVINGS = 12
FINEST = 1e-6
"""Width of a span over its end below which it is one threshold."""
ROUNDED = 0.05
"""Part of a span by which a threshold in it may be moved to have few digits."""
FEW_LONG = 1e-12
"""Share of requests that counts as none."""


class Sizes(NamedTuple):
    """A fleet."""

    n_colocated: int
    n_prefill: int
    ports: tuple[int, ...]
    """Of every tier of the link; none without a link."""


class Span(NamedTuple):
    """Thresholds from one to another; a single one where both are equal [tokens]."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Batch:
    """What the colocated pool gets at a threshold."""

    load: Load
    """Prompts that it computes, and passes."""
    joining_fraction: float
    """Share of the requests whose prompt is computed elsewhere."""
    capacity_req_per_s: float
    """Of an instance, over all requests."""


@dataclass(frozen=True, eq=False)
class Pairing:
    """One way of the colocated pool and one layout of the prefill pool.

    What is asked of a span of thresholds is what no threshold in it can undercut: requests between its ends take no
    prefill and no bytes, join with nothing to compute, and are never late.
    """

    problem: Problem
    """Its pools are the colocated one and, if there is any, the one for long prompts."""
    way: Way
    link: int | None
    promise: Promise
    more_gbps: float = 0.0
    """Bandwidth beyond the ports of the link, to see what it is worth [Gbps]."""
    _known: dict[object, object] = field(default_factory=dict)
    _of_way: dict[object, object] = field(default_factory=dict)
    """What is known of the colocated pool, whichever prefill pool it has."""

    @property
    def colocated(self) -> PoolSpec:
        """The colocated pool."""
        return self.problem.pools[COLOCATED]

    @property
    def prefill(self) -> PoolSpec | None:
        """The pool for long prompts; None where everything stays."""
        return self.problem.pools[PREFILL] if len(self.problem.pools) > 1 else None

    @cached_property
    def longest_tokens(self) -> float:
        """The threshold that nothing exceeds [tokens]."""
        return max(c.mix.support[1] for c in self.problem.classes)

    @cached_property
    def least_tokens(self) -> float:
        """The least threshold under which the prefill pool holds what it gets [tokens]."""
        if self.prefill is None:
            return self.longest_tokens
        room = self.prefill.rates.longest_tokens
        lows = [c.mix.held_thresholds(room, inf)[0] for c in self.problem.classes]
        return min(max(ALL_LONG, *lows), self.longest_tokens)

    def long_fraction(self, threshold_tokens: float) -> float:
        """Share of the requests that are longer [fraction]."""
        return sum(c.share * float(c.mix.long_fraction(threshold_tokens)) for c in self.problem.classes)

    def batch(self, threshold_tokens: float) -> Batch:
        """What the colocated pool gets at a threshold, remembered."""
        key = ("batch", threshold_tokens)
        if key not in self._of_way:
            self._of_way[key] = self._batch(threshold_tokens)
        found = self._of_way[key]
        assert isinstance(found, Batch)
        return found

    @cached_property
    def _everyone(self) -> RequestKinds:
        return request_kinds([(c.share, c.mix) for c in self.problem.classes], N_KINDS)

    def _batch(self, threshold_tokens: float) -> Batch:
        engine, long = self.way.engine, self.long_fraction(threshold_tokens)
        if long < FEW_LONG:
            prompts, long = self._everyone, 0.0
        elif 1 - long < FEW_LONG:
            prompts, long = None, 1.0
        else:
            shares = [(c.share, c.mix) for c in self.problem.classes if c.mix.long_fraction(threshold_tokens) < 1]
            prompts = request_kinds(shares, N_KINDS, threshold_tokens)
        load = roofline_load(engine, prompts, self._everyone)
        tpot_s = inf if engine.tpot_s is None else engine.tpot_s
        return Batch(load, long, joined_capacity_req_per_s(load.loop, load.prompts, long, tpot_s))

    def prefill_s(self, threshold_tokens: float) -> float:
        """Instance-seconds in the prefill pool per request, remembered [s]."""
        key = ("prefill", threshold_tokens)
        if key not in self._known:
            self._known[key] = self._prefill_s(threshold_tokens)
        found = self._known[key]
        assert isinstance(found, float)
        return found

    def _prefill_s(self, threshold_tokens: float) -> float:
        if self.prefill is None or threshold_tokens >= self.longest_tokens:
            return 0.0
        t, service = np.array([threshold_tokens]), self.prefill.rates.prefill
        return sum(c.share * float(long_work_s("expected-work", service, c.mix, t, t)[0]) for c in self.problem.classes)

    def sent_bytes(self, threshold_tokens: float) -> float:
        """Bytes on the link per request, remembered [B]."""
        key = ("sent", threshold_tokens)
        if key not in self._known:
            self._known[key] = self._sent_bytes(threshold_tokens)
        found = self._known[key]
        assert isinstance(found, float)
        return found

    def _sent_bytes(self, threshold_tokens: float) -> float:
        if self.prefill is None or self.link is None or threshold_tokens >= self.longest_tokens:
            return 0.0
        t, kv, holds = np.array([threshold_tokens]), self.prefill.rates.kv_bytes, self._holds_prefix
        return sum(
            c.share * float(long_bytes("expected-work", kv, c.mix, (t, t), holds)[0]) for c in self.problem.classes
        )

    @property
    def _holds_prefix(self) -> bool:
        return self.link is not None and self.problem.links[self.link].destination_holds_prefix

    def is_one(self, span: Span) -> bool:
        """Whether all thresholds of a span do the same, or nearly so."""
        is_narrow = span.high - span.low <= FINEST * max(abs(span.high), 1.0)
        return is_narrow or self.long_fraction(span.low) == self.long_fraction(span.high)

    def leaves(self, span: Span) -> bool:
        """Whether prompts leave at every threshold of a span, but for those at which none would all the same."""
        return span.high < self.longest_tokens and self.long_fraction(span.low) > FEW_LONG

    def leaving(self, span: Span, fraction: float) -> float:
        """The threshold of a span beyond whose lower end so much of its prefill work stays, remembered [tokens]."""
        key = ("leaving", span, fraction)
        if key not in self._known:
            self._known[key] = self._leaving(span, fraction)
        found = self._known[key]
        assert isinstance(found, float)
        return found

    def _leaving(self, span: Span, fraction: float) -> float:
        low, high = span
        ends = self.prefill_s(low), self.prefill_s(high)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            stays = self._prefill_s(middle) <= ends[0] - fraction * (ends[0] - ends[1])
            low, high = (low, middle) if stays else (middle, high)
        return _rounded(high, span)

    def gbps(self, sizes: Sizes) -> float:
        """Bandwidth of the link [Gbps]."""
        return 0.0 if self.link is None else self.problem.links[self.link].gbps(sizes.ports) + self.more_gbps

    def states(self, sizes: Sizes, span: Span) -> Iterator[tuple[Sizes, Span]]:
        """The fleet, and what is left of it after every loss that must be survived."""
        losses, none = self.problem.scenario.spare.survive, (0,) * len(sizes.ports)
        everything = Span(self.longest_tokens, self.longest_tokens)
        uses_prefill = sizes.n_prefill > 0 and self.prefill_s(span.high) > 0
        if "instance" in losses:
            yield sizes._replace(n_colocated=sizes.n_colocated - 1), span
            if uses_prefill:
                yield sizes._replace(n_prefill=sizes.n_prefill - 1), span
        else:
            yield sizes, span
        if "link" in losses and uses_prefill:
            yield Sizes(sizes.n_colocated, 0, none), everything

    def capacity_req_per_s(self, sizes: Sizes, span: Span) -> float:
        """Most that a fleet serves after any loss, by capacity alone [req/s].

        Equation:
            min(n_c C(low), n_p / W(high), B / S(high)): of the colocated pool, of prefill and of the link
        """
        return min(self._capacity(one, at) for one, at in self.states(sizes, span))

    def _capacity(self, sizes: Sizes, span: Span) -> float:
        most = max(sizes.n_colocated, 0) * self.batch(span.low).capacity_req_per_s
        work_s, sent = self.prefill_s(span.high), self.sent_bytes(span.high)
        if work_s > 0:
            most = min(most, sizes.n_prefill / work_s)
        return min(most, bytes_per_s(self.gbps(sizes)) / sent) if sent > 0 else most

    def use_usd(self, span: Span) -> float:
        """Power of busy instances and traffic by volume per request a second [USD/h]."""
        usd = self.colocated.busy_usd_per_hour / max(self.batch(span.low).capacity_req_per_s, 1e-300)
        if self.prefill is not None:
            usd += self.prefill.busy_usd_per_hour * self.prefill_s(span.high)
        return usd + self.traffic_usd(span.high)

    def traffic_usd(self, threshold_tokens: float) -> float:
        """Charges for the traffic of one request a second [USD/h]."""
        if self.link is None:
            return 0.0
        return SECONDS_PER_HOUR / GB * self.problem.links[self.link].usd_per_gb * self.sent_bytes(threshold_tokens)

    def rent_usd_per_hour(self, sizes: Sizes) -> float:
        """Rent of everything; what has no price counts nothing [USD/h]."""
        usd = sizes.n_colocated * (self.colocated.usd_per_hour or 0.0)
        if self.prefill is not None:
            usd += sizes.n_prefill * (self.prefill.usd_per_hour or 0.0)
        if self.link is not None:
            usd += self.problem.links[self.link].ports_usd_per_hour(sizes.ports) or 0.0
        return usd

    def queue(self, threshold_tokens: float, n_instances: int, req_per_s: float) -> JoinedQueue | None:
        """The colocated pool's steady state, remembered; None without one. Raises UndecidedError: time is up."""
        key = ("queue", threshold_tokens, n_instances, req_per_s)
        if key not in self._of_way:
            self.promise.check_time()
            batch = self.batch(threshold_tokens)
            try:
                load = batch.load
                spend(QUEUE_S)
                found = joined_queue(load.loop, load.prompts, batch.joining_fraction, req_per_s, n_instances)
            except ValueError:  # it cannot serve the rate
                found = None
            self._of_way[key] = found
        known = self._of_way[key]
        assert known is None or isinstance(known, JoinedQueue)
        return known

    def long_paths(self, threshold_tokens: float, sizes: Sizes, req_per_s: float, loaded: bool) -> list[Path] | None:
        """What long requests go through before the batch: shares of them; None where a queue has no steady state."""
        key = ("long", threshold_tokens, sizes[1:], req_per_s, loaded)
        if key not in self._known:
            streams = range(len(self.problem.streams))
            self._known[key] = self.waits(threshold_tokens, sizes, req_per_s).paths(streams, loaded)
        known = self._known[key]
        assert known is None or isinstance(known, list)
        return known

    def waits(self, threshold_tokens: float, sizes: Sizes, req_per_s: float) -> PeriodWaits:
        """The queue of the prefill pool and the link."""
        problem, arc = self.problem, Arc(PREFILL, self.link)
        rates = [req_per_s * problem.classes[stream.request_class].share for stream in problem.streams]
        flows = tuple(Flow(q, "long", arc, threshold_tokens, rate) for q, rate in enumerate(rates))
        decodings = tuple(Decoding(q, COLOCATED, rate) for q, rate in enumerate(rates))
        operation = PeriodOperation(0, (sizes.n_colocated, sizes.n_prefill), flows, decodings)
        return period_waits(problem, operation, self.all_ports(sizes))

    def all_ports(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Ports of every link of the scenario."""
        return tuple(
            sizes.ports if i == self.link else (0,) * len(link.tiers) for i, link in enumerate(self.problem.links)
        )

    def late_fraction(
        self, sizes: Sizes, span: Span, req_per_s: float, ttft_s: float, counts_long: bool = True
    ) -> float:
        """Share of the requests whose first token takes longer, after the worst loss [fraction].

        Args:
            sizes: the fleet.
            span: thresholds.
            req_per_s: arrivals.
            ttft_s: time to first token.
            counts_long: whether prompts that are computed elsewhere count, or are never late.
        """
        return max(self._late(one, at, req_per_s, ttft_s, counts_long) for one, at in self.states(sizes, span))

    def _late(self, sizes: Sizes, span: Span, req_per_s: float, ttft_s: float, counts_long: bool) -> float:
        long, late = self.long_fraction(span.high) if counts_long else 0.0, 0.0
        paths = self.long_paths(span.high, sizes, req_per_s, True) if long > FEW_LONG else []
        if paths is None or sizes.n_colocated <= 0:
            return 1.0
        queue = self.queue(span.low, sizes.n_colocated, req_per_s)
        if queue is None:
            return 1.0
        joined = [path.then_waiting(queue.admission) for path in paths]
        late = long * float(Ttft.of(joined).survival(ttft_s)) if joined else 0.0
        if queue.ttft is not None:
            batch = self.batch(span.low)
            late += (1 - batch.joining_fraction) * float(queue.ttft.survival(ttft_s - batch.load.before_s))
        return late

    def is_too_slow(self, sizes: Sizes, span: Span, req_per_s: float) -> bool:
        """Whether tokens take longer than promised, of more requests than may, after some loss."""
        limit_s, q = self.way.engine.tpot_s, self.promise.percentile / 100
        for one, at in self.states(sizes, span) if limit_s is not None else ():
            queue = self.queue(at.low, one.n_colocated, req_per_s) if one.n_colocated > 0 else None
            if queue is None or (queue.tpot_quantile_s(q) or 0.0) > (limit_s or inf):
                return True
        return False

    def ttft(self, sizes: Sizes, threshold_tokens: float, req_per_s: float, loaded: bool = True) -> Ttft | None:
        """The distribution over all requests; None where a queue has no steady state."""
        batch, found = self.batch(threshold_tokens), list[Path]()
        queue = self.queue(threshold_tokens, sizes.n_colocated, req_per_s) if loaded else None
        if loaded and queue is None:
            return None
        if batch.joining_fraction > 0:
            paths = self.long_paths(threshold_tokens, sizes, req_per_s, loaded)
            if paths is None:
                return None
            after = paths if queue is None else [path.then_waiting(queue.admission) for path in paths]
            found += [replace(path, share_fraction=path.share_fraction * batch.joining_fraction) for path in after]
        if batch.joining_fraction < 1:
            found += self._short_paths(batch, queue)
        return Ttft.of(found)

    def _short_paths(self, batch: Batch, queue: JoinedQueue | None) -> list[Path]:
        load = batch.load
        if queue is None or queue.ttft is None:
            paths = alone(load).paths
        else:
            paths = tuple(replace(path, unloaded_s=path.unloaded_s + load.before_s) for path in queue.ttft.paths)
        share = 1 - batch.joining_fraction
        return [replace(path, share_fraction=path.share_fraction * share) for path in paths]


def _rounded(threshold_tokens: float, span: Span) -> float:
    """A threshold in few digits, where the span has one near it: other pairings are then cut at the same."""
    for digits in (1, 2, 3):
        few = float(f"{threshold_tokens:.{digits}e}")
        if abs(few - threshold_tokens) < ROUNDED * (span.high - span.low) and span.low < few < span.high:
            return few
    return threshold_tokens
