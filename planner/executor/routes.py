"""The ways of every stream through a system: pools for its long and for its short prompts, links, decode pools."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from planner.errors import InputError
from planner.executor.kernel.records import NONE, ROUTE, Records
from planner.executor.streams import RequestStream
from planner.results.plan import LinkPlan, PoolPlan
from planner.results.threshold import ALL_LEAVE, NONE_LEAVES
from planner.scenario import Scenario

Part = Literal["short", "long"]
PARTS: tuple[Part, Part] = ("short", "long")
"""Of a stream: its ways for each, by whether they are for long prompts."""


class RouteIndices(NamedTuple):
    """A way from prefill to decode, by indices."""

    prefill: int
    link: int
    """NONE inside a site."""
    decode: int
    weight: float
    """What speaks for it, beside the other ways of the same prompts."""


RoutesByPart = dict[Part, tuple[RouteIndices, ...]]


@dataclass(frozen=True)
class Topology:
    """Pools and links that ways lead through."""

    scenario: Scenario
    prefill: tuple[tuple[PoolPlan, int], ...]
    """Every prefill pool, with the index of the one whose instances it computes on."""
    decode: tuple[PoolPlan, ...]
    links: tuple[LinkPlan, ...]

    def stream_routes(self, stream: RequestStream) -> RoutesByPart:
        """The ways of a stream.

        Raises:
            InputError: there is none.
        """
        found: RoutesByPart = {part: tuple(self._of_part(stream, part)) for part in PARTS}
        if not any(found.values()):
            what = "the plan has no way for it from prefill to decode"
            key = ("classes", stream.request_class)
            raise InputError(self.scenario.problem(key, what, "the plan of this scenario"))
        return found

    def _of_part(self, stream: RequestStream, part: Part) -> list[RouteIndices]:
        """The ways of a part: every prefill pool's weight is divided between those that may decode after it.

        A colocated pool decodes what it prefills; its share of decode is of what others prefill. Where a plan states no
        shares, it has none of that beside a decode pool.
        """
        found: list[RouteIndices] = []
        for spec, p in self.prefill:
            ends = (d for d in range(len(self.decode)) if self._serves(stream, spec, self.decode[d]))
            ways = [way for d in ends if (way := self._route(stream, part, spec, p, d)) is not None]
            if stream.pool_shares is None and any(self.decode[way.decode].role == "decode" for way in ways):
                ways = [way for way in ways if self.decode[way.decode].role == "decode"]
            total = sum(way.weight for way in ways)
            share = self._prefill_weight(stream, part, spec) / total if total > 0 else 0.0
            found += [way._replace(weight=way.weight * share) for way in ways]
        return found

    def _serves(self, stream: RequestStream, prefill: PoolPlan, decode: PoolPlan) -> bool:
        """True if a prefill and a decode pool take a class, and decode is at the site of the stream."""
        if prefill.role == "colocated" and prefill.name != decode.name:
            return False
        pools = (self.scenario.pools[pool.key] for pool in (prefill, decode))
        takes = all(stream.request_class in self.scenario.classes_of(pool) for pool in pools)
        return takes and stream.site in (None, decode.site)

    def _route(self, stream: RequestStream, part: Part, spec: PoolPlan, p: int, d: int) -> RouteIndices | None:
        """The way from a prefill pool to a decode pool for a part of a stream; None: no way."""
        decode, shares = self.decode[d], stream.pool_shares
        ends, link = (spec.site, decode.site), NONE
        if ends[0] != ends[1]:
            link = next((k for k, x in enumerate(self.links) if _joins(x, ends)), NONE)
            if link == NONE:
                return None
        if shares is None:
            takes = spec.prompts or ("short" if link == NONE else "long")
            return RouteIndices(p, link, d, decode.offered_req_per_s) if takes == part else None
        is_own = spec.role == "colocated"
        weight = 1.0 if is_own else shares.get("decode", {}).get(decode.name, 0.0)
        return RouteIndices(p, link, d, weight) if weight > 0 and self._prefill_weight(stream, part, spec) > 0 else None

    def _prefill_weight(self, stream: RequestStream, part: Part, spec: PoolPlan) -> float:
        """Weight of a prefill pool, beside the others of a part."""
        shares = stream.pool_shares
        return spec.offered_req_per_s if shares is None else shares.get(part, {}).get(spec.name, 0.0)


def _joins(link: LinkPlan, ends: tuple[str, str]) -> bool:
    return (link.from_site, link.to_site) == ends and link.capacity_gbps > 0


def divided(stream: RequestStream, ways: RoutesByPart) -> RequestStream:
    """The stream with a threshold that decides something: where all prompts take the same ways none does."""
    if not ways["long"]:
        return replace(stream, threshold=NONE_LEAVES)
    return stream if ways["short"] else replace(stream, threshold=ALL_LEAVE)


def route_table(ways: Sequence[RoutesByPart]) -> Records:
    """Ways of every stream as records; prompts for which there is none take those of the others."""
    rows: list[tuple[int, int, int, int, int, float]] = []
    for q, of_stream in enumerate(ways):
        for is_long, part in enumerate(PARTS):
            chosen = of_stream[part] or of_stream[PARTS[1 - is_long]]
            ends = _cumulative([way.weight for way in chosen])
            rows += [(q, is_long, w.prefill, w.link, w.decode, end) for w, end in zip(chosen, ends, strict=True)]
    return np.array(rows, dtype=ROUTE)


def _cumulative(weights: Sequence[float]) -> list[float]:
    """Cumulative shares; even ones where nothing speaks for any."""
    given = np.array(weights)
    shares = np.cumsum(given / given.sum() if given.sum() > 0 else np.full(len(given), 1 / len(given)))
    return [*shares[:-1].tolist(), 1.0]
