"""The scenario in numbers: what may be sized, what must be served, and the ways requests may take in between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from pathlib import Path
from typing import Literal, NamedTuple

from planner.errors import InputError
from planner.optimizer.context import context_problems
from planner.optimizer.problem import Inventory, Resolved, link_specs
from planner.optimizer.room import is_held, too_long
from planner.optimizer.service_times import Decoded, service_times
from planner.roofline import InstanceRates
from planner.scenario import Pool, Scenario, Slo, requests_of
from planner.workload import RequestMix

Part = Literal["long", "short"]
LARGEST_POOL = 100_000
"""Of what nothing else limits: beyond any fleet, and a guard of the solver's arithmetic."""


@dataclass(frozen=True)
class NetworkPool:
    """Instances of one role that serve one model at one site, with one layout."""

    name: str
    """As answers call it: the scenario's name, and what sets it apart from others made of the same pool."""
    key: str
    """Name of the scenario's pool."""
    layout: str | None
    site: str
    hardware: str
    parts: tuple[Part, ...]
    """Which prompts a prefill pool takes; none for decode."""
    n_accelerators: int
    """Accelerators per instance."""
    min_instances: int
    max_instances: int
    usd_per_hour: float | None
    """Rent or amortised purchase of one instance, and its power when idle [USD/h]."""
    busy_usd_per_hour: float
    """What a busy instance costs on top [USD/h]."""
    rates: InstanceRates
    classes: tuple[int, ...]
    """Classes it serves, by index."""

    @property
    def is_prefill(self) -> bool:
        """Whether it prefills."""
        return bool(self.parts)


@dataclass(frozen=True)
class NetworkClass:
    """A class of requests."""

    name: str
    model: str | None
    """Name under [models]; None is the default."""
    share: float
    mix: RequestMix
    slo: Slo | None
    arrival_scv: float
    """Squared coefficient of variation of the gaps between arrivals [fraction]."""

    @property
    def ttft_s(self) -> float | None:
        """TTFT that is promised [s]."""
        return None if self.slo is None else self.slo.ttft_s

    @property
    def late_allowed(self) -> float:
        """Fraction of its requests that may take longer."""
        return 1.0 if self.slo is None or self.slo.ttft_s is None else 1 - self.slo.ttft_percentile / 100


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
    """A period."""

    name: str
    hours: float


class Loss(NamedTuple):
    """What is lost in a situation that the plan must survive."""

    kind: Literal["instance", "link", "site"]
    name: str
    """Of the pool, link or site."""


class Situation(NamedTuple):
    """A period, with everything in place or with a loss."""

    period: int
    loss: Loss | None = None


@dataclass(frozen=True)
class NetworkProblem(Resolved):
    """Everything that is to be planned, with names resolved and service times looked up.

    Where cost is not the objective, it is the scale of the demand that is served.
    """

    pools: tuple[NetworkPool, ...]
    classes: tuple[NetworkClass, ...]
    streams: tuple[Stream, ...]
    demands: tuple[Demand, ...]
    periods: tuple[Span, ...]
    inventories: tuple[Inventory, ...]

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
        return tuple({part: tuple(_arcs(self, stream, part)) for part in parts} for stream in self.streams)

    @cached_property
    def decoders(self) -> tuple[tuple[int, ...], ...]:
        """Decode pools of every stream."""
        return tuple(
            tuple(
                i
                for i, p in enumerate(self.pools)
                if not p.is_prefill and p.site == stream.site and stream.request_class in p.classes
            )
            for stream in self.streams
        )

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


def network_problem(
    scenario: Scenario, data_dirs: Sequence[Path] = (), classes: tuple[NetworkClass, ...] | None = None
) -> NetworkProblem:
    """Resolve a scenario of many sites, models, classes or periods.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: the classes of another problem with the same workload, so that a trace is read once.

    Raises:
        InputError: a pool has no service times, no pool takes a class at its site, a price is missing where one is
            needed, nothing limits the fleet of max-throughput, or a promise has no model.
        InfeasibleError: weights do not fit, no sequence keeps its step, or prompts fit no pool that they may go to.
    """
    classes = classes or tuple(_classes(scenario, data_dirs))
    if found := [problem for c in classes for problem in context_problems(scenario, c.name, c.mix)]:
        raise InputError(found)
    pools = tuple(_pools(scenario, classes))
    streams = tuple(_streams(classes, pools))
    demands = tuple(_demands(scenario, classes, streams))
    periods = tuple(Span(name, p.hours) for name, p in scenario.periods.items()) or (Span("always", 1.0),)
    inventories = tuple(_inventories(scenario, pools))
    problem = NetworkProblem(scenario, pools, link_specs(scenario), classes, streams, demands, periods, inventories)
    _check(problem)
    _check_room(problem)
    return replace(problem, pools=tuple(_limited(problem)))


def _classes(scenario: Scenario, data_dirs: Sequence[Path]) -> Iterator[NetworkClass]:
    """Classes of the scenario; those with equal requests have one mix, which remembers what it was asked."""
    known: dict[str, RequestMix] = {}
    for name, (share, workload) in scenario.workloads.items():
        requests = workload.model_dump_json(exclude={"arrivals"})
        if requests not in known:
            known[requests] = requests_of(scenario, name, data_dirs)
        slo = scenario.slo_of(name)
        yield NetworkClass(name, scenario.model_of(name), share, known[requests], slo, workload.arrivals.squared_cv)


def _pools(scenario: Scenario, classes: Sequence[NetworkClass]) -> Iterator[NetworkPool]:
    """Pools of the scenario: one for each layout to choose from."""
    known: dict[object, InstanceRates] = {}
    for key, pool in scenario.pools.items():
        layouts: tuple[str | None, ...] = pool.layouts or (pool.layout,)
        for layout in layouts:
            chosen = pool.model_copy(update={"layout": layout, "layouts": ()})
            name = key if len(layouts) == 1 else f"{key} {layout}"
            yield _pool(scenario, (key, name), chosen, _rates(scenario, key, chosen, classes, known), classes)


def _parts(scenario: Scenario, pool: Pool) -> tuple[Part, ...]:
    """What a pool takes: as it says, else long prompts of any site, and short ones of its own where it decodes."""
    if pool.role == "decode":
        return ()
    if pool.prompts is not None:
        return (pool.prompts,)
    decodes = any(p.role == "decode" and p.site == pool.site and p.model == pool.model for p in scenario.pools.values())
    leaves = any(link.from_site == pool.site for link in scenario.links.values())
    return ("long", "short") if decodes and leaves else ("short",) if decodes else ("long",)


def _rates(
    scenario: Scenario, key: str, pool: Pool, classes: Sequence[NetworkClass], known: dict[object, InstanceRates]
) -> InstanceRates:
    """Service times of an instance; equal instances at several sites share them."""
    apart = {"site": "", "n_instances": "free", "min_instances": 0, "max_instances": None, "prompts": None}
    served = scenario.classes_of(pool)
    alike = (pool.model_copy(update=apart).model_dump_json(), served)
    if alike not in known:
        decoded = Decoded.of([(c.share, c.mix) for c in classes if c.name in served])
        known[alike] = service_times(scenario, key, pool, scenario.hardware_of(pool), decoded)
    return known[alike]


def _pool(
    scenario: Scenario,
    names: tuple[str, str],
    pool: Pool,
    rates: InstanceRates,
    classes: Sequence[NetworkClass],
) -> NetworkPool:
    hardware, n = scenario.hardware_of(pool), pool.accelerators_per_instance
    usd, served = scenario.accelerator_usd_per_hour(pool.site, hardware), scenario.classes_of(pool)
    fixed = pool.n_instances if pool.n_instances != "free" else None
    most = pool.max_instances if fixed is None else fixed
    return NetworkPool(
        name=names[1],
        key=names[0],
        layout=pool.layout,
        site=pool.site,
        hardware=hardware.name,
        parts=_parts(scenario, pool),
        n_accelerators=n,
        min_instances=(pool.min_instances if fixed is None else fixed) if names[0] == names[1] else 0,
        max_instances=LARGEST_POOL if most is None else most,
        usd_per_hour=None if usd is None else usd * n,
        busy_usd_per_hour=n * scenario.busy_usd_per_hour(pool.site, hardware),
        rates=rates,
        classes=tuple(i for i, c in enumerate(classes) if c.name in served),
    )


def _streams(classes: Sequence[NetworkClass], pools: Sequence[NetworkPool]) -> Iterator[Stream]:
    for c in range(len(classes)):
        sites = dict.fromkeys(p.site for p in pools if not p.is_prefill and c in p.classes)
        yield from (Stream(c, site) for site in sites)


def _demands(scenario: Scenario, classes: Sequence[NetworkClass], streams: Sequence[Stream]) -> Iterator[Demand]:
    periods: tuple[str | None, ...] = tuple(scenario.periods) or (None,)
    for c, spec in enumerate(classes):
        homes: tuple[str | None, ...] = (None,)
        if spec.name in scenario.classes:
            homes = tuple(scenario.classes[spec.name].sites) or (None,)
        mine = [q for q, stream in enumerate(streams) if stream.request_class == c]
        for home in homes:
            own = tuple(q for q in mine if home in (None, streams[q].site))
            rates = tuple(scenario.demand_of(spec.name, home, period) for period in periods)
            yield Demand(c, home, own, tuple(q for q in mine if q not in own), rates)


def _arcs(problem: NetworkProblem, stream: Stream, part: Part) -> Iterator[Arc]:
    for i, pool in enumerate(problem.pools):
        if part not in pool.parts or stream.request_class not in pool.classes:
            continue
        stated = problem.scenario.pools[pool.key].prompts is not None
        if pool.site == stream.site:
            yield Arc(i, None)
        if pool.site != stream.site and (part == "long" or stated):
            ends = (pool.site, stream.site)
            yield from (Arc(i, j) for j, link in enumerate(problem.links) if (link.from_site, link.to_site) == ends)


def _inventories(scenario: Scenario, pools: Sequence[NetworkPool]) -> Iterator[Inventory]:
    for site_name, site in scenario.sites.items():
        for hardware, n_accelerators in site.accelerators.items():
            name = scenario.hardware_named(hardware).name
            drawing = tuple(i for i, p in enumerate(pools) if p.site == site_name and p.hardware == name)
            yield Inventory(site_name, name, n_accelerators, drawing)


def _check(problem: NetworkProblem) -> None:
    scenario, found = problem.scenario, []
    for stream, arcs in zip(problem.streams, problem.arcs, strict=True):
        if not any(arcs.values()):
            name = problem.classes[stream.request_class].name
            what = f"no prefill pool reaches the decode pools of '{name}' at '{stream.site}'"
            found.append(scenario.problem(("classes", name), what, "a prefill pool there, or a link from one"))
    if (problem.is_min_cost or scenario.budget_usd_per_hour is not None) and not problem.is_priced:
        what = f"needs prices of all accelerators and ports; missing: {', '.join(problem.missing_prices())}"
        found.append(scenario.problem(("objective",), what, "a price for each"))
    asks_ttft = any(c.ttft_s is not None for c in problem.classes)
    if asks_ttft and (scenario.dispatch != "shared-queue" or scenario.prefill_batching != "one-at-a-time"):
        what = "promises a TTFT, but there is no queueing model of this dispatch and prefill_batching"
        found.append(scenario.problem(("slo",), what, "dispatch = shared-queue, prefill_batching = one-at-a-time"))
    if scenario.routing.prefill_to_decode != "free":
        what = "fixes a ratio, which is not planned for with many sites, models or periods"
        found.append(scenario.problem(("routing", "prefill_to_decode"), what, '"free"'))
    if found:
        raise InputError(found)


def _check_room(problem: NetworkProblem) -> None:
    """Raises InfeasibleError where prompts of a class fit no pool that they could be routed to."""
    for demand in problem.demands:
        if demand.streams and not any(_is_held(problem, q) for q in demand.streams):
            name = problem.classes[demand.request_class].name
            raise too_long(problem.scenario, name, _rooms(problem, demand))


def _is_held(problem: NetworkProblem, q: int) -> bool:
    """Whether some threshold sends every prompt of a stream to a pool that holds it."""
    mix, arcs = problem.classes[problem.streams[q].request_class].mix, problem.arcs[q]
    rooms = {part: max((_room(problem, arc) for arc in arcs[part]), default=0.0) for part in arcs}
    limits, fixed = mix.held_thresholds(rooms["long"], rooms["short"]), problem.scenario.routing.threshold_tokens
    return is_held(mix, limits[0] if fixed == "free" else float(fixed), limits)


def _rooms(problem: NetworkProblem, demand: Demand) -> Iterator[tuple[str, float, float]]:
    """Prefill pools of a demand that do not hold its longest prompt, with the longest they hold and that prompt."""
    mix, fixed = problem.classes[demand.request_class].mix, problem.scenario.routing.threshold_tokens
    low, high = (-inf, inf) if fixed == "free" else (float(fixed), float(fixed))
    longest = {"long": mix.longest_tokens(low), "short": mix.longest_tokens(-inf, high)}
    for part, arcs in (item for q in demand.streams for item in problem.arcs[q].items()):
        for arc in (arc for arc in arcs if _room(problem, arc) < longest[part]):
            yield problem.pools[arc.pool].key, _room(problem, arc), longest[part]


def _room(problem: NetworkProblem, arc: Arc) -> float:
    """Longest prompt that the pool of an arc holds [tokens]."""
    return problem.pools[arc.pool].rates.longest_tokens


def _limited(problem: NetworkProblem) -> Iterator[NetworkPool]:
    """Pools with the most instances that inventory, budget and demand leave any use for."""
    scenario, found = problem.scenario, []
    for i, pool in enumerate(problem.pools):
        limits = [pool.max_instances]
        limits += [v.n_accelerators // pool.n_accelerators for v in problem.inventories if i in v.pools]
        if scenario.budget_usd_per_hour is not None and pool.usd_per_hour:
            limits.append(int(scenario.budget_usd_per_hour / pool.usd_per_hour + 1e-9))
        if problem.is_min_cost:
            limits.append(max(most_for_demand(problem, i), pool.min_instances))
        if min(limits) >= LARGEST_POOL:
            what = "nothing limits its size"
            found.append(scenario.problem(("pools", pool.key), what, "max_instances, an inventory or a budget"))
        yield replace(pool, max_instances=min(limits))
    if found:
        raise InputError(found)


def most_for_demand(problem: NetworkProblem, index: int) -> int:
    """Instances beyond which no more are of use: half as many again as all the work there could be, and a few."""
    pool, work = problem.pools[index], 0.0
    for stream, rate in zip(problem.streams, problem.peak_req_per_s, strict=True):
        if stream.request_class in pool.classes:
            work += rate * whole_work_s(pool, problem.classes[stream.request_class].mix)
    return min(ceil(1.5 * work) + 8, LARGEST_POOL)


def whole_work_s(pool: NetworkPool, mix: RequestMix) -> float:
    """Instance-seconds per request if a pool took every request of a class [s]."""
    if pool.rates.decode is not None and not pool.is_prefill:
        return pool.rates.decode.seconds_per_request(mix.mean_output_tokens)
    if pool.rates.prefill is None:
        return inf
    return float(mix.short_work(pool.rates.prefill, mix.support[1]))
