"""The question in numbers: what may be sized, what must be served, and the ways requests may take in between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple

from planner.optimizer.known_late import KnownLate
from planner.optimizer.problem_parts import ClassSpec, LinkSpec, Part, PoolSpec
from planner.optimizer.routes import Route, is_plain, routes_of
from planner.scenario import Objective, Scenario, Slo
from planner.work_clock import n_cut_offs

LARGEST_POOL = 100_000
"""Of what nothing else limits: beyond any fleet, and a guard of the solver's arithmetic."""


class Stream(NamedTuple):
    """Requests of a class that are decoded at a site."""

    request_class: int
    site: str


class Demand(NamedTuple):
    """Requests of a class that arrive somewhere, and the streams that may take them."""

    request_class: int
    home: str | None
    """Where they arrive; None: anywhere."""
    streams: tuple[int, ...]
    refuges: tuple[int, ...]
    """Streams that take them when their site is lost."""
    req_per_s: tuple[float, ...]
    """Rate in every period [req/s]."""


class Arc(NamedTuple):
    """A prefill pool that a stream may use, and the link from there to where it is decoded."""

    pool: int
    link: int | None


@dataclass(frozen=True)
class Span:
    """Time in which the same arrives: a period of the scenario, or several."""

    members: tuple[tuple[str, float], ...]
    """Names of its periods, and how long they last [h]."""

    @property
    def name(self) -> str:
        """Name of its period, or of the first."""
        return self.members[0][0]

    @property
    def hours(self) -> float:
        """Its duration [h]."""
        return sum(hours for _, hours in self.members)


class Loss(NamedTuple):
    """Loss of an instance, link or site in a situation that the plan must survive."""

    kind: Literal["instance", "link", "site"]
    name: str
    """Of the pool, link or site."""


class Situation(NamedTuple):
    """A period, with everything in place or with a loss."""

    period: int
    loss: Loss | None = None


@dataclass(frozen=True)
class Inventory:
    """Accelerators of one kind at one site that several pools draw on."""

    site: str
    hardware: str
    n_accelerators: int
    pools: tuple[int, ...]


@dataclass(frozen=True)
class LookedAt:
    """Layouts of a pool that were looked at: how many were tried and fit, and which were kept."""

    pool: str
    n_tried: int
    n_fit: int
    """Those that hold the model, and decode a sequence in time."""
    kept: tuple[str, ...]
    """Those that no other dominates."""


@dataclass(frozen=True)
class Problem:
    """Everything that is to be planned, with names resolved and service times looked up.

    Where cost is not the objective, it is the scale of the demand that is served.
    """

    scenario: Scenario
    pools: tuple[PoolSpec, ...]
    links: tuple[LinkSpec, ...]
    classes: tuple[ClassSpec, ...]
    streams: tuple[Stream, ...]
    demands: tuple[Demand, ...]
    periods: tuple[Span, ...]
    inventories: tuple[Inventory, ...]
    layouts: tuple[LookedAt, ...] = ()
    """What became of the layouts of pools that may choose."""
    open_bound: float | None = None
    """Objective that no plan passes on other layouts that were not searched to their end; None: none is left open."""
    cut_offs_before: int = field(default_factory=n_cut_offs, compare=False)
    """Looks past the wall when it was posed: later ones are of its own searches [count]."""

    @property
    def is_min_cost(self) -> bool:
        """True if cost is the objective."""
        return self.scenario.objective == "min-cost"

    @property
    def is_min_ttft(self) -> bool:
        """True if the objective is the least TTFT at the demand."""
        return self.scenario.objective == "min-ttft"

    @property
    def is_followed(self) -> bool:
        """True if some pool has a size of its own in every period because it is rented so."""
        return len(self.periods) > 1 and any(pool.by_period is not None for pool in self.pools)

    @property
    def has_sizes_by_period(self) -> bool:
        """True if pools have other sizes in other periods, by rent or because roles change."""
        return self.is_followed or self.scenario.routing.role_conversion

    @property
    def is_priced(self) -> bool:
        """True if every accelerator and port has a price."""
        return not self.missing_prices()

    @property
    def has_queueing_model(self) -> bool:
        """True if waits can be computed for the disciplines of the scenario."""
        return self.scenario.dispatch == "shared-queue" and self.scenario.prefill_batching == "one-at-a-time"

    @property
    def charges_use(self) -> bool:
        """True if a link charges by volume or a site by work, so that the threshold decides about money."""
        return any(link.usd_per_gb > 0 for link in self.links) or any(pool.busy_usd_per_hour > 0 for pool in self.pools)

    @property
    def demand_req_per_s(self) -> float | None:
        """Stated demand over all classes and the whole time; None where the scenario states none [req/s]."""
        return None if self.scenario.demand_req_per_s is None else self.mean_req_per_s

    @property
    def must_serve_req_per_s(self) -> float | None:
        """Demand that a plan has to serve; None where the rate is what is sought [req/s]."""
        return self.demand_req_per_s if self.is_min_cost or self.is_min_ttft else None

    @property
    def slo(self) -> Slo | None:
        """The SLO of the first class that promises a TTFT, else of the first class."""
        return next((c.slo for c in self.classes if c.ttft_s is not None), self.classes[0].slo)

    @property
    def ttft_percentile(self) -> float:
        """Percentage of the requests that a promise on TTFT, or the least TTFT, is about."""
        return (self.slo or Slo()).ttft_percentile

    @property
    def ratio(self) -> tuple[int, int] | None:
        """Prefill and decode instances the user asked for, as a ratio."""
        text = self.scenario.routing.prefill_to_decode
        if text == "free":
            return None
        prefill, _, decode = text.partition(":")
        return int(prefill), int(decode)

    @property
    def has_batches(self) -> bool:
        """True if some pool prefills and decodes in one batch."""
        return any(pool.batching is not None and not pool.is_empty for pool in self.pools)

    @property
    def has_options(self) -> bool:
        """True if some pool has several ways to be run, or batches with prompts: a judge then improves its plans."""
        return self.has_batches or bool(self.families)

    def demanding(self, req_per_s: float, objective: Objective) -> "Problem":
        """The same question with another objective, and another demand over all classes and the whole time [req/s]."""
        ratio = req_per_s / self.mean_req_per_s
        stated = (self.scenario.demand_req_per_s or 1.0) * ratio
        return replace(
            self,
            scenario=self.scenario.model_copy(update={"objective": objective, "demand_req_per_s": stated}),
            demands=tuple(d._replace(req_per_s=tuple(r * ratio for r in d.req_per_s)) for d in self.demands),
        )

    def stating(self, scenario: Scenario) -> "Problem":
        """The same pools and ways asked of a scenario that differs in its demand and its promises on TTFT alone.

        Limits on sizes that the demand sets stay as they are.
        """
        ratio = (scenario.demand_req_per_s or 1.0) / (self.scenario.demand_req_per_s or 1.0)
        return replace(
            self,
            scenario=scenario,
            classes=tuple(replace(spec, slo=scenario.slo_of(spec.name)) for spec in self.classes),
            demands=tuple(d._replace(req_per_s=tuple(r * ratio for r in d.req_per_s)) for d in self.demands),
        )

    @property
    def has_one_route(self) -> bool:
        """True if all requests take the same pools, so that closed forms say what sizes serve at a threshold."""
        return self.is_plain and len(self.routes) == 1

    @property
    def route(self) -> Route:
        """The pools and links that all requests take, by threshold.

        Raises:
            ValueError: requests may take several routes.
        """
        (route,) = self.routes
        return route

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Every way through a pool for long prompts, one for short ones and one that decodes."""
        return tuple(routes_of(self))

    @cached_property
    def known_late(self) -> KnownLate:
        """Late requests in queues that were looked at, for fleets that have the same ones, where it `has_one_route`."""
        return KnownLate()

    @cached_property
    def is_plain(self) -> bool:
        """True if requests of one model come at one rate from anywhere; see `planner.optimizer.routes`."""
        return is_plain(self, self.routes)

    def unsourced_prices(self) -> tuple[str, ...]:
        """Accelerators whose price the scenario states without a source."""
        used = {pool.hardware for pool in self.pools}
        named = {self.scenario.hardware_named(name).name: price for name, price in self.scenario.prices.items()}
        return tuple(name for name, price in named.items() if name in used and not price.source)

    def missing_prices(self) -> tuple[str, ...]:
        """Scenario keys of the prices that are not stated."""
        hardware = {pool.hardware for pool in self.pools if pool.usd_per_hour is None}
        links = {link.name for link in self.links if any(tier.usd_per_hour is None for tier in link.tiers)}
        return (*(f"prices.{name}" for name in sorted(hardware)), *(f"links.{name}" for name in sorted(links)))

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Fraction of the time that every period takes."""
        total = sum(period.hours for period in self.periods)
        return tuple(period.hours / total for period in self.periods)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Streams that share a threshold: one each, or all of a model."""
        if self.scenario.routing.thresholds == "per-class":
            return tuple((q,) for q in range(len(self.streams)))
        models = [self.classes[stream.request_class].model for stream in self.streams]
        return tuple(tuple(q for q, m in enumerate(models) if m == model) for model in dict.fromkeys(models))

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """Group of every stream."""
        found = {q: g for g, members in enumerate(self.groups) for q in members}
        return tuple(found[q] for q in range(len(self.streams)))

    @cached_property
    def most_thresholds(self) -> tuple[int, ...]:
        """Thresholds that a group may divide its requests between: one, or one for every way through its pools.

        The latter where it `is_plain` and capacity alone decides.
        """
        if not (self.is_capacity_only and self.is_plain):
            return (1,) * len(self.groups)
        return tuple(self._n_ways(members[0]) if len(members) == 1 else 1 for members in self.groups)

    def _n_ways(self, stream: int) -> int:
        pools = [{arc.pool for arc in arcs} for arcs in self.arcs[stream].values()] + [set(self.decoders[stream])]
        return prod(max(len({self.pools[i].key for i in some}), 1) for some in pools)

    @property
    def is_capacity_only(self) -> bool:
        """True if capacity alone settles one period: nothing is promised of TTFT, and nothing may be lost."""
        is_alone = len(self.periods) == 1 and not self.scenario.spare.survive
        return is_alone and not self.is_min_ttft and not any(c.ttft_s is not None for c in self.classes)

    @cached_property
    def families(self) -> dict[str, tuple[int, ...]]:
        """Pools that were made of one pool of the scenario, where those are several, by its name."""
        made = {key: tuple(i for i, p in enumerate(self.pools) if p.key == key) for key in self.scenario.pools}
        return {key: members for key, members in made.items() if len(members) > 1}

    @cached_property
    def owners(self) -> tuple[tuple[int, ...], ...]:
        """Pools between which accelerators may change roles: of one kind, that serve one model at one site."""
        found: dict[tuple[str, str, str | None], list[int]] = {}
        for i, pool in enumerate(self.pools):
            model = self.classes[pool.classes[0]].model if pool.classes else None
            found.setdefault((pool.site, pool.hardware, model), []).append(i)
        return tuple(map(tuple, found.values()))

    @cached_property
    def arcs(self) -> tuple[dict[Part, tuple[Arc, ...]], ...]:
        """Prefill pools of every stream, by the part of its prompts that they take."""
        parts: tuple[Part, ...] = ("long", "short")
        return tuple({part: self._arcs_of(stream, part) for part in parts} for stream in self.streams)

    def _arcs_of(self, stream: Stream, part: Part) -> tuple[Arc, ...]:
        """Where prompts of a part may go: long ones into no batch where a prefill pool takes them."""
        found = tuple(_arcs(self, stream, part))
        apart = tuple(arc for arc in found if self.pools[arc.pool].batching is None)
        return apart if part == "long" and apart else found

    @cached_property
    def decoders(self) -> tuple[tuple[int, ...], ...]:
        """Decode pools of every stream."""
        return tuple(
            tuple(
                i
                for i, p in enumerate(self.pools)
                if p.decodes and not p.is_empty and p.site == stream.site and stream.request_class in p.classes
            )
            for stream in self.streams
        )

    def has_pools(self, stream: int) -> bool:
        """True if a stream has pools that prefill it and one that decodes it."""
        return bool(self.decoders[stream]) and any(self.arcs[stream].values())

    @cached_property
    def peak_req_per_s(self) -> tuple[float, ...]:
        """Most that a stream may have to take in any period [req/s]."""
        most = [0.0] * len(self.streams)
        for demand in self.demands:
            for q in (*demand.streams, *demand.refuges):
                most[q] += max(demand.req_per_s)
        return tuple(most)

    @property
    def mean_req_per_s(self) -> float:
        """Demand over all classes and the whole time [req/s]."""
        return sum(w * d.req_per_s[p] for d in self.demands for p, w in enumerate(self.weights))

    def gbps(self, ports: Sequence[Sequence[int]]) -> list[float]:
        """Bandwidth of every link with some ports of every tier [Gbps]."""
        return [link.gbps(row) for link, row in zip(self.links, ports, strict=True)]

    def losses(self) -> Iterator[Loss]:
        """Every single loss that the scenario wants survived."""
        kinds = self.scenario.spare.survive
        if "instance" in kinds:
            yield from (Loss("instance", pool.name) for pool in self.pools)
        if "link" in kinds:
            yield from (Loss("link", link.name) for link in self.links)
        if "site" in kinds:
            yield from (Loss("site", name) for name in self.scenario.sites)


def _arcs(problem: Problem, stream: Stream, part: Part) -> Iterator[Arc]:
    for i, pool in enumerate(problem.pools):
        if part not in pool.parts or stream.request_class not in pool.classes or pool.is_empty:
            continue
        stated = problem.scenario.pools[pool.key].prompts is not None
        if pool.site == stream.site:
            yield Arc(i, None)
        if pool.site != stream.site and not pool.decodes and (part == "long" or stated):
            ends = (pool.site, stream.site)
            yield from (Arc(i, j) for j, link in enumerate(problem.links) if (link.from_site, link.to_site) == ends)
