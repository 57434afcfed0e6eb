"""What a fleet with a colocated pool is to be best at: the least bill, the highest rate, or the soonest first token.

Every aim is a number of which less is better, and says of a span of thresholds what no fleet passes within it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import NamedTuple

from planner.optimizer.colocated.rates import BUSIEST
from planner.optimizer.problem import LinkSpec
from planner.optimizer.together.pairing import FEW_LONG, Pairing, Sizes, Span
from planner.optimizer.together.question import Question

GAP = 1e-3
"""Relative distance from its bound at which an aim counts as reached,"""
FINE_GAP = 1e-6
"""of one fleet, whose rate is compared with that of another,"""
TIMED_GAP = 4e-3
"""and where a promise on TTFT decides."""
ROUNDING = 1e-9
STEPS = 14
"""Halvings in which the rate, or the TTFT, is found that is just kept."""
MOST_BUNDLES = 4096
"""Bundles of ports of a link that are looked at; of more, those of one size each."""


class Found(NamedTuple):
    """A fleet at a threshold, or the best that a span might have."""

    value: float
    """Of the aim; the less the better."""
    sizes: Sizes


@dataclass(frozen=True, eq=False)
class Aim(ABC):
    """What is sought."""

    question: Question

    @property
    def is_timed(self) -> bool:
        """Whether a promise on TTFT decides."""
        return self.question.promise.ttft_s is not None

    @property
    def gap(self) -> float:
        """Relative gap that counts as none."""
        return TIMED_GAP if self.is_timed else GAP

    @property
    def step(self) -> float:
        """Relative difference below which fleets are as good as each other."""
        return TIMED_GAP if self.is_timed else ROUNDING

    def trimmed(self, _pairing: Pairing, found: Found, _threshold_tokens: float) -> Found:
        """A fleet as good, without what is of no use."""
        return found

    def cut(self, _pairing: Pairing, _span: Span) -> float:
        """Where a span is cut best, as the part of its prefill work that stays before [fraction]."""
        return 0.5

    @abstractmethod
    def bound(self, pairing: Pairing, span: Span) -> float:
        """What no fleet passes with a threshold of a span, by capacity alone."""

    @abstractmethod
    def best(self, pairing: Pairing, span: Span, below: float) -> Found | None:
        """The best fleet of a span as if it were one threshold; None where none is below a value."""

    def keeps(self, pairing: Pairing, sizes: Sizes, span: Span, req_per_s: float) -> bool:
        """Whether promises may hold at a rate, with a threshold of a span."""
        promise = self.question.promise
        if promise.ttft_s is None:
            return True
        if req_per_s > BUSIEST * pairing.capacity_req_per_s(sizes, span) * (1 + ROUNDING):
            return False
        if pairing.late_fraction(sizes, span, req_per_s, promise.ttft_s) > self.late_allowed:
            return False
        return not pairing.is_too_slow(sizes, span, req_per_s)

    @property
    def late_allowed(self) -> float:
        """Share of the requests that may be later than promised [fraction]."""
        return 1 - self.question.promise.percentile / 100 + ROUNDING

    def is_late_when_idle(self, pairing: Pairing, span: Span) -> bool:
        """Whether promises break without any waiting, with all ports and any threshold of a span."""
        ttft_s = self.question.promise.ttft_s
        if ttft_s is None:
            return False
        link = None if pairing.link is None else pairing.problem.links[pairing.link]
        ports = () if link is None else tuple(tier.max_ports for tier in link.tiers)
        sizes, long, late = Sizes(1, 1, ports), pairing.long_fraction(span.high), 0.0
        paths = pairing.long_paths(span.high, sizes, 1.0, False) if long > FEW_LONG else []
        for path in paths or ():
            late += long * path.share_fraction * float(path.weights[path.unloaded_s > ttft_s].sum())
        load, joining = pairing.batch(span.low).load, pairing.batch(span.low).joining_fraction
        is_late = load.prompts.alone_s + load.before_s > ttft_s
        late += (1 - joining) * float(load.prompts.weights[is_late].sum()) if joining < 1 else 0.0
        return late > self.late_allowed


def bundles(link: LinkSpec, most_gbps: float) -> list[tuple[int, ...]]:
    """Bundles of ports of which none is dearer than one with as much bandwidth, by rising price.

    Args:
        link: the link.
        most_gbps: bandwidth beyond which no more is of use.
    """
    most = [min(tier.max_ports, ceil(most_gbps / tier.capacity_gbps)) for tier in link.tiers]
    n = 1
    for m in most:
        n *= m + 1
    found: Iterator[tuple[int, ...]]
    if n <= MOST_BUNDLES:
        found = product(*(range(m + 1) for m in most))
    else:
        zero = (0,) * len(most)
        found = ((*zero[:i], k, *zero[i + 1 :]) for i, m in enumerate(most) for k in range(m + 1))
    # Ports without a price count as dear by their bandwidth, so that no more of them are taken than are of use.
    priced = sorted(found, key=lambda ports: (_price(link, ports), -link.gbps(ports)))
    kept: list[tuple[int, ...]] = []
    for ports in priced:
        if not kept or link.gbps(ports) > link.gbps(kept[-1]):
            kept.append(ports)
    return kept


def _price(link: LinkSpec, ports: Sequence[int]) -> float:
    usd = link.ports_usd_per_hour(tuple(ports))
    return link.gbps(ports) if usd is None else usd
