"""The scenario in numbers: pools, links, classes and the routes that requests may take between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil, inf
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.optimizer.context import context_problems
from planner.optimizer.room import Limits, is_held, too_long
from planner.optimizer.service_times import Decoded, service_times
from planner.roofline import InstanceRates
from planner.scenario import LinkTier, Pool, Scenario, Slo, requests_of
from planner.workload import ALL_LONG, RequestMix

PROMISED_SPARE = 2.0
"""Instances for each one that the work of the demand asks for, beyond which no more shorten waits worth speaking of."""


@dataclass(frozen=True)
class PoolSpec:
    """A pool the formulation sizes."""

    name: str
    site: str
    hardware: str
    role: str
    prompts: str | None
    n_accelerators: int
    """Accelerators per instance."""
    min_instances: int
    max_instances: int | None
    usd_per_hour: float | None
    """Rent or amortised purchase of one instance, and its power; where that depends on use, idle [USD/h]."""
    rates: InstanceRates
    busy_usd_per_hour: float = 0.0
    """Further power of one instance while it works [USD/h]."""


@dataclass(frozen=True)
class LinkSpec:
    """A link the formulation picks ports for."""

    name: str
    from_site: str
    to_site: str
    tiers: tuple[LinkTier, ...]
    usd_per_gb: float
    round_trip_s: float
    destination_holds_prefix: bool

    def max_gbps(self) -> float:
        """Bandwidth with every port on offer."""
        return self.gbps([tier.max_ports for tier in self.tiers])

    def gbps(self, ports: Sequence[float]) -> float:
        """Bandwidth of ports of its tiers [Gbps]."""
        return sum(m * tier.capacity_gbps for m, tier in zip(ports, self.tiers, strict=True))

    def ports_usd_per_hour(self, ports: Sequence[int]) -> float | None:
        """Price of ports of its tiers [USD/h]; None where one that is rented has no price."""
        rented = [(m, tier.usd_per_hour) for m, tier in zip(ports, self.tiers, strict=True) if m]
        return None if any(usd is None for _, usd in rented) else sum(m * (usd or 0.0) for m, usd in rented)


@dataclass(frozen=True)
class ClassSpec:
    """A class of requests."""

    name: str
    share: float
    mix: RequestMix


@dataclass(frozen=True)
class Route:
    """A prefill choice of a class: long prompts here, short ones there, decode at the end; pools and links by index."""

    request_class: int
    long: int | None
    short: int | None
    decode: int
    long_link: int | None
    short_link: int | None
    limits_tokens: Limits = (ALL_LONG, inf)
    """Least and greatest threshold under which its pools hold all prompts that they are sent [tokens]."""

    def held(self, thresholds_tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """Thresholds moved to the nearest under which its pools hold what they are sent, each once [tokens]."""
        return np.unique(np.clip(thresholds_tokens, *self.limits_tokens))

    @property
    def is_split(self) -> bool:
        """Whether a threshold decides anything."""
        return self.long is not None and self.short is not None


@dataclass(frozen=True)
class Inventory:
    """Accelerators of one kind at one site that several pools draw on."""

    site: str
    hardware: str
    n_accelerators: int
    pools: tuple[int, ...]


class PricedPool(Protocol):
    """What a bill needs to know of a pool."""

    @property
    def hardware(self) -> str:
        """Name of its accelerators."""

    @property
    def usd_per_hour(self) -> float | None:
        """Price of an instance; None where it is unknown."""


@dataclass(frozen=True)
class Resolved:
    """A scenario with its pools and links, whatever else is planned of it."""

    scenario: Scenario
    pools: tuple[PricedPool, ...]
    links: tuple[LinkSpec, ...]

    @property
    def is_min_cost(self) -> bool:
        """Whether cost is the objective."""
        return self.scenario.objective == "min-cost"

    @property
    def is_priced(self) -> bool:
        """Whether every accelerator and port has a price."""
        return not self.missing_prices()

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


@dataclass(frozen=True)
class PlanningProblem(Resolved):
    """Everything the optimizer needs, with names resolved and service times looked up."""

    pools: tuple[PoolSpec, ...]
    classes: tuple[ClassSpec, ...]
    routes: tuple[Route, ...]
    inventories: tuple[Inventory, ...]

    @property
    def is_min_ttft(self) -> bool:
        """Whether the objective is the least TTFT at the demand."""
        return self.scenario.objective == "min-ttft"

    @property
    def ttft_percentile(self) -> float:
        """Percentage of the requests that a promise on TTFT, or the least TTFT, is about."""
        return (self.scenario.slo or Slo()).ttft_percentile

    @property
    def must_serve_req_per_s(self) -> float | None:
        """Demand that a plan has to serve; None where the rate is what is sought [req/s]."""
        return self.scenario.demand_req_per_s if self.is_min_cost or self.is_min_ttft else None

    @property
    def ratio(self) -> tuple[int, int] | None:
        """Prefill and decode instances the user asked for, as a ratio."""
        text = self.scenario.routing.prefill_to_decode
        if text == "free":
            return None
        prefill, _, decode = text.partition(":")
        return int(prefill), int(decode)

    @cached_property
    def size_limits(self) -> tuple[int | None, ...]:
        """Most instances of every pool; None where nothing limits it."""
        return tuple(_size_limit(self, i) for i in range(len(self.pools)))

    @property
    def charges_use(self) -> bool:
        """Whether a link charges by volume or a site by work, so that the threshold decides about money."""
        return any(link.usd_per_gb > 0 for link in self.links) or any(pool.busy_usd_per_hour > 0 for pool in self.pools)


def planning_problem(
    scenario: Scenario, data_dirs: Sequence[Path] = (), classes: tuple[ClassSpec, ...] | None = None
) -> PlanningProblem:
    """Resolve a scenario.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: the classes of another problem with the same workload, so that a trace is read once.

    Raises:
        InputError: a key asks for what is not planned for, a pool has no service times, a site cannot reach a decode
            pool, a price is missing for min-cost, or nothing limits the fleet of max-throughput.
        InfeasibleError: weights do not fit, no sequence keeps its step, or prompts fit no pool that they may go to.
    """
    _refuse_unplanned(scenario)
    links = link_specs(scenario)
    classes = classes or tuple(
        ClassSpec(name, share, requests_of(scenario, name, data_dirs))
        for name, (share, _) in scenario.workloads.items()
    )
    if found := [problem for c in classes for problem in context_problems(scenario, c.name, c.mix)]:
        raise InputError(found)
    decoded = Decoded.of([(c.share, c.mix) for c in classes])
    pools = tuple(_pool_spec(scenario, name, pool, decoded) for name, pool in scenario.pools.items())
    routes = tuple(_held_routes(scenario, pools, classes, _routes(pools, links, len(classes))))
    problem = PlanningProblem(scenario, pools, links, classes, routes, tuple(_inventories(scenario, pools)))
    _check(problem)
    return problem


def _refuse_unplanned(scenario: Scenario) -> None:
    """Nothing that is stated is passed over in silence."""
    if keys := scenario.network_keys:
        what = (
            "is not planned for: a plan is of one model and one demand, its promise on TTFT for one class of requests"
        )
        raise InputError(scenario.problem(key, what, "leave it out") for key in keys)


def link_specs(scenario: Scenario) -> tuple[LinkSpec, ...]:
    """The links of a scenario with the port sizes that may be chosen."""
    return tuple(
        LinkSpec(
            name, k.from_site, k.to_site, k.options(), k.usd_per_gb, k.round_trip_ms / 1e3, k.destination_holds_prefix
        )
        for name, k in scenario.links.items()
    )


def _pool_spec(scenario: Scenario, name: str, pool: Pool, decoded: Decoded) -> PoolSpec:
    hardware = scenario.hardware_of(pool)
    usd = scenario.accelerator_usd_per_hour(pool.site, hardware)
    fixed = pool.n_instances if pool.n_instances != "free" else None
    return PoolSpec(
        name=name,
        site=pool.site,
        hardware=hardware.name,
        role=pool.role,
        prompts=scenario.prompts_of(pool) if pool.role == "prefill" else None,
        n_accelerators=pool.accelerators_per_instance,
        min_instances=pool.min_instances if fixed is None else fixed,
        max_instances=pool.max_instances if fixed is None else fixed,
        usd_per_hour=None if usd is None else usd * pool.accelerators_per_instance,
        rates=service_times(scenario, name, pool, hardware, decoded),
        busy_usd_per_hour=scenario.busy_usd_per_hour(pool.site, hardware) * pool.accelerators_per_instance,
    )


def _routes(pools: Sequence[PoolSpec], links: Sequence[LinkSpec], n_classes: int) -> Iterator[Route]:
    """Every combination of a pool for long prompts, one for short prompts and a decode pool that links join."""
    for decode in (i for i, p in enumerate(pools) if p.role == "decode"):
        reach = [i for i, p in enumerate(pools) if p.role == "prefill" and _joined(pools, links, i, decode)]
        longs: list[int | None] = [i for i in reach if pools[i].prompts == "long"]
        shorts: list[int | None] = [i for i in reach if pools[i].prompts == "short"]
        for long, short in product(longs or [None], shorts or [None]):
            if long is None and short is None:
                continue
            ends = _link_index(pools, links, long, decode), _link_index(pools, links, short, decode)
            yield from (Route(c, long, short, decode, *ends) for c in range(n_classes))


def _held_routes(
    scenario: Scenario, pools: Sequence[PoolSpec], classes: Sequence[ClassSpec], routes: Iterable[Route]
) -> Iterator[Route]:
    """Routes whose pools hold the prompts of their class under some threshold, with the thresholds that are left.

    Raises:
        InfeasibleError: none is left for a class that had one.
    """
    refused: dict[int, list[Route]] = {}
    kept = set()
    for route in routes:
        limits = _limits(pools, classes[route.request_class].mix, route)
        fixed = scenario.routing.threshold_tokens
        tried = limits[0] if fixed == "free" or not route.is_split else float(fixed)
        route = replace(route, limits_tokens=limits)
        if is_held(classes[route.request_class].mix, tried, limits):
            kept.add(route.request_class)
            yield route
        else:
            refused.setdefault(route.request_class, []).append(route)
    for c, some in refused.items():
        if c not in kept:
            rooms = _rooms(scenario, pools, classes[c].mix, some)
            raise too_long(scenario, classes[c].name, rooms, _other_thresholds(scenario, some))


def holds_prompts(problem: PlanningProblem, thresholds_tokens: Sequence[float]) -> bool:
    """Whether every pool holds all prompts that thresholds, one per route, send there."""
    return all(
        not route.is_split or is_held(problem.classes[route.request_class].mix, t, route.limits_tokens)
        for route, t in zip(problem.routes, thresholds_tokens, strict=True)
    )


def _other_thresholds(scenario: Scenario, routes: Iterable[Route]) -> Iterator[str]:
    """Thresholds under which routes would do, where another one is stated."""
    fixed = scenario.routing.threshold_tokens
    for low, high in (route.limits_tokens for route in routes):
        if fixed != "free" and low <= high:
            nearest = min(max(float(fixed), low), high)
            yield f"routing.threshold_tokens = {nearest:.10g}" if nearest >= 0 else 'routing.threshold_tokens = "free"'


def _limits(pools: Sequence[PoolSpec], mix: RequestMix, route: Route) -> Limits:
    """Thresholds under which the pools of a route hold all that they are sent; without a pool nothing is sent there."""
    long, short = (0.0 if i is None else pools[i].rates.longest_tokens for i in (route.long, route.short))
    return mix.held_thresholds(long, short)


def _rooms(
    scenario: Scenario, pools: Sequence[PoolSpec], mix: RequestMix, routes: Iterable[Route]
) -> Iterator[tuple[str, float, float]]:
    """Pools of routes that do not hold the longest prompt they would be sent, with that and the longest they hold."""
    fixed = scenario.routing.threshold_tokens
    for route in routes:
        low, high = (ALL_LONG, inf) if fixed == "free" or not route.is_split else (float(fixed), float(fixed))
        for i, asked in ((route.long, mix.longest_tokens(low)), (route.short, mix.longest_tokens(ALL_LONG, high))):
            if i is not None and asked > pools[i].rates.longest_tokens:
                yield pools[i].name, pools[i].rates.longest_tokens, asked


def _joined(pools: Sequence[PoolSpec], links: Sequence[LinkSpec], prefill: int, decode: int) -> bool:
    return pools[prefill].site == pools[decode].site or _link_index(pools, links, prefill, decode) is not None


def _link_index(pools: Sequence[PoolSpec], links: Sequence[LinkSpec], prefill: int | None, decode: int) -> int | None:
    ends = None if prefill is None else (pools[prefill].site, pools[decode].site)
    return next((i for i, link in enumerate(links) if (link.from_site, link.to_site) == ends), None)


def _inventories(scenario: Scenario, pools: Sequence[PoolSpec]) -> Iterator[Inventory]:
    for site_name, site in scenario.sites.items():
        for hardware, n_accelerators in site.accelerators.items():
            name = scenario.hardware_named(hardware).name
            drawing = tuple(i for i, p in enumerate(pools) if p.site == site_name and p.hardware == name)
            yield Inventory(site_name, name, n_accelerators, drawing)


def _check(problem: PlanningProblem) -> None:
    scenario, found = problem.scenario, []
    routed = {i for r in problem.routes for i in (r.long, r.short, r.decode)}
    for index, pool in enumerate(problem.pools):
        if index not in routed:
            what = "no link joins it to a pool of the other role"
            found.append(scenario.problem(("pools", pool.name), what, "add a link"))
    if problem.is_min_cost or scenario.budget_usd_per_hour is not None:
        what = f"{'objective min-cost' if problem.is_min_cost else 'a budget'} needs this price"
        found += [Problem(scenario.origin, key, what) for key in problem.missing_prices()]
    if not problem.is_min_cost:
        found += [
            scenario.problem(("pools", p.name), "nothing limits its size", "max_instances, an inventory or a budget")
            for i, p in enumerate(problem.pools)
            if problem.size_limits[i] is None
        ]
    if found:
        raise InputError(found)


def _size_limit(problem: PlanningProblem, index: int) -> int | None:
    """Most instances that a pool's own limit, its inventory, the budget and the demand allow."""
    pool, budget = problem.pools[index], problem.scenario.budget_usd_per_hour
    limits = [] if pool.max_instances is None else [pool.max_instances]
    limits += [v.n_accelerators // pool.n_accelerators for v in problem.inventories if index in v.pools]
    if budget is not None and pool.usd_per_hour:
        limits.append(int(budget / pool.usd_per_hour + 1e-9))
    demand = problem.scenario.demand_req_per_s
    if problem.is_min_cost and demand is not None:
        limits.append(most_for_demand(problem, index, demand))
    return max(min(limits), 0) if limits else None


def most_for_demand(problem: PlanningProblem, index: int, demand: float) -> int:
    """Instances of a pool beyond which no more are of use; a ratio may ask for more of it than its own work does."""
    pools, ratio = problem.pools, problem.ratio
    slo = problem.scenario.slo
    spare = 1.0 if slo is None or slo.ttft_s is None else PROMISED_SPARE
    needed = [
        max(ceil(spare * demand * _heaviest_work_s(problem, i)) + 1, p.min_instances) for i, p in enumerate(pools)
    ]
    if ratio is None or pools[index].prompts == "long":
        return needed[index]
    near, decode = (
        sum(n for n, pool in zip(needed, pools, strict=True) if kind in (pool.prompts, pool.role))
        for kind in ("short", "decode")
    )
    return ceil(max(near / ratio[0], decode / ratio[1])) * ratio[pools[index].role == "decode"]


def _heaviest_work_s(problem: PlanningProblem, index: int) -> float:
    """Instance-seconds per request that no routing exceeds; at the mean length of a part, curves may yield any of T."""
    prefill = problem.pools[index].rates.prefill
    if problem.scenario.capacity_rule == "expected-work" or problem.pools[index].role == "decode" or prefill is None:
        return most_work_s(problem, index)
    return sum(c.share * float(prefill.curve(c.mix.support[1])) for c in problem.classes)


def most_work_s(problem: PlanningProblem, index: int) -> float:
    """Instance-seconds per request if every request went to this pool."""
    pool, work = problem.pools[index], 0.0
    for c in problem.classes:
        if pool.rates.decode and pool.role == "decode":
            work += c.share * pool.rates.decode.seconds_per_request(c.mix.mean_output_tokens)
        elif pool.rates.prefill:
            work += c.share * float(c.mix.short_work(pool.rates.prefill, c.mix.support[1]))
    return work
