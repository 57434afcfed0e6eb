"""The aims of the highest rate and the soonest first token, within inventory, stated sizes and budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import floor, inf

from planner.optimizer.colocated.rates import BUSIEST
from planner.optimizer.problem import PoolSpec
from planner.optimizer.together.aims import FINE_GAP, ROUNDING, STEPS, TIMED_GAP, Aim, Found, bundles
from planner.optimizer.together.pairing import Pairing, Sizes, Span
from planner.ties import exceeds, largest_first
from planner.units import bytes_per_s


@dataclass(frozen=True, eq=False)
class _OfMeans(Aim):
    """The best of fleets within inventory, stated sizes and budget."""

    def fleets(self, pairing: Pairing) -> list[Sizes]:
        """Fleets of which none has more of everything than another that can be had."""
        key = ("fleets",)
        if key not in pairing._known:
            pairing._known[key] = list(self._fleets(pairing))
        found = pairing._known[key]
        assert isinstance(found, list)
        return found

    def _ranked(self, pairing: Pairing, span: Span) -> list[Sizes]:
        """Fleets, that with the highest capacity first."""
        return largest_first(self.fleets(pairing), lambda one: self.capacity(pairing, one, span))

    def _fleets(self, pairing: Pairing) -> Iterator[Sizes]:
        budget, home = self.question.scenario.budget_usd_per_hour, pairing.colocated
        link = None if pairing.link is None else pairing.problem.links[pairing.link]
        offers = [()] if link is None else bundles(link, link.max_gbps())
        low, high = (0, 0) if pairing.prefill is None else _range(pairing.prefill)
        numbers = [high] if budget is None else range(low, high + 1)
        charges = self.question.problem.charges_use
        for n_prefill, ports in product(numbers, offers[-1:] if budget is None else offers):
            if (n_prefill == 0) != (link is None or sum(ports) == 0) and budget is not None:
                continue
            rest = pairing.rent_usd_per_hour(Sizes(0, n_prefill, ports))
            most = home.max_instances
            if budget is not None and home.usd_per_hour:
                most = min(most, floor((budget - rest) / home.usd_per_hour + ROUNDING))
            least = most if budget is None or not charges else max(home.min_instances, 1)
            for n in range(max(least, home.min_instances, 1), most + 1):
                yield Sizes(n, n_prefill, ports)

    def capacity(self, pairing: Pairing, sizes: Sizes, span: Span) -> float:
        """Most that a fleet serves by capacity, within the budget [req/s]."""
        most, budget = pairing.capacity_req_per_s(sizes, span), self.question.scenario.budget_usd_per_hour
        if budget is None or not self.question.problem.charges_use:
            return most
        left, each = budget - pairing.rent_usd_per_hour(sizes), pairing.use_usd(span)
        return min(most, max(left, 0.0) / each) if each > 0 else most


def _range(spec: PoolSpec) -> tuple[int, int]:
    return spec.min_instances, max(spec.max_instances, spec.min_instances)


def _between(ends: Sequence[float], part: float) -> float:
    return ends[0] + part * (ends[1] - ends[0])


@dataclass(frozen=True, eq=False)
class HighestRate(_OfMeans):
    """The most requests per second, as promised; its value is that with its sign turned."""

    def bound(self, pairing: Pairing, span: Span) -> float:
        if self.is_late_when_idle(pairing, span):
            return inf
        return -max((self.capacity(pairing, one, span) for one in self.fleets(pairing)), default=0.0)

    def best(self, pairing: Pairing, span: Span, below: float) -> Found | None:
        found: Found | None = None
        for sizes in self._ranked(pairing, span):
            value = -self.capacity(pairing, sizes, span)
            least = below if found is None else found.value
            if value >= 0 or not exceeds(-value, -least):
                break
            rate = -value if not self.is_timed else self._kept(pairing, sizes, span, (-least, -value))
            if rate is not None:
                found = Found(-rate, sizes)
        return found

    def cut(self, pairing: Pairing, span: Span) -> float:
        """Where the fleet that may serve most would balance, by work between the ends."""
        one = self._ranked(pairing, span)[0]
        cells = [1 / max(pairing.batch(t).capacity_req_per_s, 1e-300) for t in span]
        work, sent = ([f(t) for t in span] for f in (pairing.prefill_s, pairing.sent_bytes))
        bandwidth = bytes_per_s(pairing.gbps(one))

        def excess(x: float) -> float:
            """How much longer the colocated pool takes for a request than what sends long prompts to it."""
            there = _between(work, x) / max(one.n_prefill, 1e-9)
            return _between(cells, x) / one.n_colocated - max(there, _between(sent, x) / max(bandwidth, 1e-9))

        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if excess(middle) > 0 else (middle, high)
        return min(max(low, 0.02), 0.98)

    def trimmed(self, pairing: Pairing, found: Found, threshold_tokens: float) -> Found:
        span, rate, sizes = Span(threshold_tokens, threshold_tokens), -found.value, found.sizes
        least = 0 if pairing.prefill is None else pairing.prefill.min_instances
        while sizes.n_prefill > least:
            fewer = sizes._replace(n_prefill=sizes.n_prefill - 1)
            if not self._serves(pairing, fewer, span, rate):
                break
            sizes = fewer
        if pairing.link is not None:
            link = pairing.problem.links[pairing.link]
            offers = (sizes._replace(ports=ports) for ports in bundles(link, link.max_gbps()))
            sizes = next((one for one in offers if self._serves(pairing, one, span, rate)), sizes)
        while not self.is_timed and sizes.n_colocated > max(pairing.colocated.min_instances, 1):
            fewer = sizes._replace(n_colocated=sizes.n_colocated - 1)
            if not self._serves(pairing, fewer, span, rate):
                break
            sizes = fewer
        return found._replace(sizes=sizes)

    def _serves(self, pairing: Pairing, sizes: Sizes, span: Span, rate: float) -> bool:
        """Whether a fleet at least as cheap serves a rate as promised."""
        has_room = self.capacity(pairing, sizes, span) >= rate * (1 - ROUNDING)
        return has_room and self.keeps(pairing, sizes, span, rate)

    def _kept(self, pairing: Pairing, sizes: Sizes, span: Span, ends: tuple[float, float]) -> float | None:
        """The highest rate at which the promise is kept, above a rate; None where it is not kept there."""
        low, high = max(ends[0], 0.0) * (1 + self.gap / 2), ends[1] * BUSIEST
        low = low if low > 0 else high * 1e-3
        if low > high or not self.keeps(pairing, sizes, span, low):
            return None
        if span.low < span.high:
            return ends[1]  # it may be better: that it may be is all that a span has to say
        for _ in range(STEPS):
            if high - low <= self.gap / 2 * high:
                break
            middle = (low + high) / 2
            low, high = (middle, high) if self.keeps(pairing, sizes, span, middle) else (low, middle)
        return low


@dataclass(frozen=True, eq=False)
class HighestRateOf(HighestRate):
    """The most that one fleet serves as promised, whatever it costs."""

    sizes: Sizes

    @property
    def gap(self) -> float:
        return TIMED_GAP if self.is_timed else FINE_GAP

    def fleets(self, _pairing: Pairing) -> list[Sizes]:
        return [self.sizes]

    def capacity(self, pairing: Pairing, sizes: Sizes, span: Span) -> float:
        return pairing.capacity_req_per_s(sizes, span)

    def trimmed(self, _pairing: Pairing, found: Found, _threshold_tokens: float) -> Found:
        return found

    def at_threshold(self, pairing: Pairing, threshold_tokens: float, least_req_per_s: float) -> float | None:
        """The highest rate with a threshold, at least another that is kept [req/s]; None where it is hardly more."""
        found = self.best(pairing, Span(threshold_tokens, threshold_tokens), -least_req_per_s)
        return None if found is None else -found.value


@dataclass(frozen=True, eq=False)
class SoonestToken(_OfMeans):
    """The least TTFT at a percentile, at the demand, as promised [s]."""

    @property
    def is_timed(self) -> bool:
        return True

    @cached_property
    def rate(self) -> float:
        """The demand [req/s]."""
        return self.question.problem.mean_req_per_s

    def bound(self, pairing: Pairing, span: Span) -> float:
        if not any(self._serves(pairing, one, span) for one in self.fleets(pairing)):
            return inf
        return 0.0

    def _serves(self, pairing: Pairing, sizes: Sizes, span: Span) -> bool:
        return self.rate <= BUSIEST * self.capacity(pairing, sizes, span)

    def best(self, pairing: Pairing, span: Span, below: float) -> Found | None:
        found: Found | None = None
        for sizes in (one for one in self._ranked(pairing, span) if self._serves(pairing, one, span)):
            least = below if found is None else found.value
            value = self._ttft_s(pairing, sizes, span, least)
            if value is not None:
                found = Found(value, sizes)
        return found

    def _ttft_s(self, pairing: Pairing, sizes: Sizes, span: Span, below: float) -> float | None:
        """The TTFT that is kept, below another; None where none is."""
        high = below * (1 - self.gap / 2) if below < inf else 1e4

        def kept(ttft_s: float) -> bool:
            return pairing.late_fraction(sizes, span, self.rate, ttft_s) <= self.late_allowed

        if not kept(high) or not self.keeps(pairing, sizes, span, self.rate):
            return None
        low = 0.0
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high
