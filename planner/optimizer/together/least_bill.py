"""The aim of the least bill for a demand."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import ceil, inf

from planner.errors import UndecidedError
from planner.optimizer.problem import PoolSpec
from planner.optimizer.together.aims import ROUNDING, Aim, Found, bundles
from planner.optimizer.together.pairing import Pairing, Sizes, Span
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT

TINY = 1e-6
"""Of an instance, or Gbps: more than nothing."""
MOST_TRIED = 400
"""Fleets by rising bill that are tried under a promise."""


@dataclass(frozen=True, eq=False)
class LeastBill(Aim):
    """The cheapest fleet that serves the demand as promised [USD/h]."""

    @cached_property
    def rate(self) -> float:
        """The demand [req/s]."""
        return self.question.problem.mean_req_per_s

    @property
    def step(self) -> float:
        return ROUNDING  # bills are of whole instances

    def bound(self, pairing: Pairing, span: Span) -> float:
        sizes = self._least(pairing, span)
        return inf if sizes is None or self.is_late_when_idle(pairing, span) else self._usd(pairing, sizes, span)

    def best(self, pairing: Pairing, span: Span, below: float) -> Found | None:
        least = self._least(pairing, span)
        if least is not None and self.is_timed:
            least = self._enough(pairing, span, least, below)
        if least is None:
            return None
        order, seen = count(), {least}
        heap = [(self._usd(pairing, least, span), next(order), least)]
        for _ in range(MOST_TRIED):
            if not heap:
                return None
            usd, _, sizes = heappop(heap)
            if usd >= below:
                return None
            if self.keeps(pairing, sizes, span, self.rate):
                return Found(usd, sizes)
            for more in self._more(pairing, sizes):
                if more not in seen:
                    seen.add(more)
                    heappush(heap, (self._usd(pairing, more, span), next(order), more))
        raise UndecidedError(f"none of the {MOST_TRIED} cheapest fleets keeps the promise")

    def _enough(self, pairing: Pairing, span: Span, least: Sizes, below: float) -> Sizes | None:
        """The fleet with as many colocated instances as promises take even if long prompts were never late.

        Equation:
            doubled steps up to a number that does, then halved: promises are kept by more instances, too
        """
        most, ttft_s = pairing.colocated.max_instances, self.question.promise.ttft_s
        each = self._usd(pairing, least._replace(n_colocated=least.n_colocated + 1), span)
        each -= self._usd(pairing, least, span)
        if each > 0 and below < inf:
            most = min(most, least.n_colocated + int(max(below - self._usd(pairing, least, span), 0.0) / each) + 1)

        def does(n: int) -> bool:
            sizes = least._replace(n_colocated=n)
            late = 0.0 if ttft_s is None else pairing.late_fraction(sizes, span, self.rate, ttft_s, counts_long=False)
            return late <= self.late_allowed and not pairing.is_too_slow(sizes, span, self.rate)

        failed, step, n = least.n_colocated - 1, 1, least.n_colocated
        while not does(n):
            if n >= most:
                return None
            failed, step, n = n, 2 * step, min(n + step, most)
        while n - failed > 1:
            middle = (failed + n) // 2
            failed, n = (failed, middle) if does(middle) else (middle, n)
        return least._replace(n_colocated=n)

    def _usd(self, pairing: Pairing, sizes: Sizes, span: Span) -> float:
        return pairing.rent_usd_per_hour(sizes) + self.rate * pairing.use_usd(span)

    def _least(self, pairing: Pairing, span: Span) -> Sizes | None:
        """The fewest instances and ports by capacity alone; None where they are more than can be had."""
        lost, problem = self.question.promise.n_lost, pairing.problem
        at = [span.low]
        prefill_busy, gbps = self.rate * pairing.prefill_s(span.high), 0.0
        if "link" in problem.scenario.spare.survive and prefill_busy > 0:
            at.append(pairing.longest_tokens)
        capacity = min(pairing.batch(t).capacity_req_per_s for t in at)
        n = _whole(self.rate / capacity, lost, pairing.colocated) if capacity > 0 else None
        n_prefill: int | None = 0
        if pairing.prefill is not None:
            least = pairing.prefill.min_instances
            leaves = prefill_busy > 0
            if not leaves and pairing.leaves(span):
                leaves, prefill_busy = True, TINY  # however little: it takes an instance, and a port
            n_prefill = _whole(prefill_busy, lost, pairing.prefill) if leaves else least
            gbps = self.rate * pairing.sent_bytes(span.high) * BITS_PER_BYTE / BITS_PER_GBIT
            gbps = max(gbps, TINY) if leaves else gbps
        if n is None or n_prefill is None:
            return None
        ports = next((p for p in self._ports(pairing) if _gbps(pairing, p) >= gbps * (1 - ROUNDING)), None)
        return None if ports is None else Sizes(n, n_prefill, ports)

    def _ports(self, pairing: Pairing) -> list[tuple[int, ...]]:
        """Bundles by rising price: up to what sends all, tenfold where transfers are to be short."""
        if pairing.link is None:
            return [()]
        key = ("bundles", pairing.link)
        if key not in pairing._known:
            all_gbps = self.rate * pairing.sent_bytes(pairing.least_tokens) * BITS_PER_BYTE / BITS_PER_GBIT
            most = inf if self.is_timed else all_gbps
            link = pairing.problem.links[pairing.link]
            pairing._known[key] = bundles(link, min(most, link.max_gbps()))
        found = pairing._known[key]
        assert isinstance(found, list)
        return found

    def _more(self, pairing: Pairing, sizes: Sizes) -> Iterator[Sizes]:
        """The fleets with one more of something that is in use."""
        if sizes.n_colocated < pairing.colocated.max_instances:
            yield sizes._replace(n_colocated=sizes.n_colocated + 1)
        if pairing.prefill is None or sizes.n_prefill == 0:
            return
        if sizes.n_prefill < pairing.prefill.max_instances:
            yield sizes._replace(n_prefill=sizes.n_prefill + 1)
        ports = self._ports(pairing)
        after = ports.index(sizes.ports) + 1
        if after < len(ports):
            yield sizes._replace(ports=ports[after])


def _gbps(pairing: Pairing, ports: tuple[int, ...]) -> float:
    return pairing.gbps(Sizes(0, 0, ports))


def _whole(busy: float, n_lost: int, spec: PoolSpec) -> int | None:
    """Instances for so many busy ones; None where that is more than can be had."""
    n = max(ceil(busy * (1 - ROUNDING)) + n_lost, spec.min_instances)
    return n if n <= spec.max_instances else None
