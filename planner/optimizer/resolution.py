"""From a scenario to the question in numbers: names and service times resolved, what cannot be planned refused."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, inf
from pathlib import Path

from planner.errors import InputError
from planner.errors import InputProblem as Fault
from planner.optimizer.colocated_layouts import layout_options
from planner.optimizer.context import context_problems
from planner.optimizer.layout_candidates import candidates
from planner.optimizer.problem import LARGEST_POOL, Arc, Demand, Inventory, LookedAt, Problem, Span, Stream
from planner.optimizer.problem_parts import ClassSpec, LinkSpec, Member, Part, PoolSpec, requests_by_name
from planner.optimizer.rent import ByPeriod
from planner.optimizer.room import Limits, is_held, too_long
from planner.optimizer.service_times import Decoded, service_times
from planner.roofline import InstanceRates
from planner.scenario import (
    CapacityRule,
    Pool,
    Scenario,
    accelerator_usd_per_hour,
    alike_classes,
    busy_usd_per_hour,
    not_planned,
    requests_of,
)
from planner.units import SECONDS_PER_HOUR
from planner.workload.mix import RequestMix


def resolved_problem(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    classes: Sequence[ClassSpec] = (),
    known: dict[object, InstanceRates] | None = None,
) -> Problem:
    """Resolve a scenario; a pool that may choose its layout becomes one for each that is worth a plan.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        classes: those of another problem with the same requests, so that a trace is read once.
        known: service times that were found before, and those that are found now.

    Raises:
        InputError: a pool has no service times, no pool takes a class at its site, a price is missing where one is
            needed, nothing limits the fleet of max-throughput, or a promise has no model.
        InfeasibleError: weights do not fit, no sequence keeps its step, or prompts fit no pool that they may go to.
    """
    if unplanned := list(not_planned(scenario)):
        raise InputError(unplanned)
    if scenario.users is not None and scenario.demand_req_per_s is None:
        what = "state no rate of their own here, where no plan is made first"
        raise InputError(
            scenario.problem(("users",), what, "a demand_req_per_s beside them, as `planner optimize` finds it")
        )
    classes = tuple(class_specs(scenario, data_dirs, classes))
    if found := [problem for c in classes for problem in context_problems(scenario, c.name, c.mix)]:
        raise InputError(found)
    known = {} if known is None else known
    looked_at: list[LookedAt] = []
    pools = tuple(_in_use(_pools(scenario, classes, known, looked_at)))
    streams = tuple(class_streams(classes, pools))
    demands = tuple(class_demands(scenario, classes, streams))
    periods, demands = _spans(scenario, pools, demands)
    inventories = tuple(site_inventories(scenario, pools))
    links = link_specs(scenario)
    problem = Problem(scenario, pools, links, classes, streams, demands, periods, inventories, tuple(looked_at))
    _check(problem)
    _check_room(problem)  # a pool that holds no prompt is part of no route: that comes first
    return replace(problem, pools=tuple(_limited(problem)))


def class_specs(scenario: Scenario, data_dirs: Sequence[Path], read: Sequence[ClassSpec]) -> Iterator[ClassSpec]:
    """Classes of the scenario, those that are alike as one.

    Those with equal requests share a mix, which remembers what it was asked.
    """
    mixes, known = {name: mix for name, (_, mix) in requests_by_name(read).items()}, dict[str, RequestMix]()
    for names in alike_classes(scenario):
        name, workload = names[0], scenario.workloads[names[0]][1]
        requests = workload.model_dump_json(exclude={"arrivals"})
        if requests not in known:
            known[requests] = mixes[name] if name in mixes else requests_of(scenario, name, data_dirs)
        members = tuple(Member(each, scenario.workloads[each][0]) for each in names)
        scv = workload.arrivals.squared_cv
        yield ClassSpec(members, scenario.model_of(name), known[requests], scenario.slo_of(name), scv)


def _pools(
    scenario: Scenario, classes: Sequence[ClassSpec], known: dict[object, InstanceRates], looked_at: list[LookedAt]
) -> Iterator[PoolSpec]:
    """Pools of the scenario: one for each layout to choose from, of which it is noted what was looked at."""
    for key, pool in scenario.pools.items():
        if pool.role == "colocated":
            served = [c for c in classes if c.name in scenario.classes_of(pool)]
            options, considered = layout_options(scenario, key, served or classes)
            looked_at += [considered] if pool.layouts else []
            for option in options:
                name = key if len(options) == 1 else f"{key} {option.layout} {option.batching.tokens_per_pass}"
                spec = pool_spec(scenario, (key, name), pool.on_layout(option.layout), option.rates, classes)
                spec = replace(spec, batching=option.batching)
                is_fixed = pool.n_instances != "free" or pool.min_instances
                yield spec if option.serves or is_fixed else replace(spec, max_instances=0, stated_max_instances=0)
            continue
        rates = partial(pool_rates, scenario, key, classes=classes, known=known)
        if not pool.layouts:
            yield pool_spec(scenario, (key, key), pool, rates(pool), classes)
            continue
        served = [c for c in classes if c.name in scenario.classes_of(pool)]
        kept, found = candidates(scenario, key, served, rates)
        looked_at.append(found)
        for one in kept:
            name = key if len(kept) == 1 else f"{key} {one.layout}"
            yield pool_spec(scenario, (key, name), pool.on_layout(one.layout), one.rates, classes)


def _in_use(pools: Iterable[PoolSpec]) -> Iterator[PoolSpec]:
    """Pools, without instances where no class is served, or where another pool differs in its name alone.

    Instances that are alike do more in one pool, where nothing limits that but what both draw on.
    """
    first: set[tuple[object, ...]] = set()
    for pool in pools:
        is_free = pool.key == pool.name and pool.stated_max_instances is None and not pool.min_instances
        place = pool.site, pool.hardware, pool.layout, pool.n_accelerators, pool.usd_per_hour, pool.busy_usd_per_hour
        kind = place, pool.parts, pool.classes, pool.by_period, id(pool.rates), id(pool.batching)
        if is_free and (kind in first or not pool.classes):
            yield replace(pool, max_instances=0, stated_max_instances=0)
            continue
        if is_free:
            first.add(kind)
        yield pool


def _spans(
    scenario: Scenario, pools: Sequence[PoolSpec], demands: Sequence[Demand]
) -> tuple[tuple[Span, ...], tuple[Demand, ...]]:
    """Periods and what arrives in them; those in which the same arrives are one, unless pools follow their order."""
    stated = [(name, period.hours) for name, period in scenario.periods.items()] or [("always", 1.0)]
    is_in_order = scenario.routing.role_conversion or any(pool.by_period is not None for pool in pools)
    together: dict[object, list[int]] = {}
    for p, rates in enumerate(zip(*(demand.req_per_s for demand in demands), strict=True)):
        together.setdefault(p if is_in_order else rates, []).append(p)
    spans = tuple(Span(tuple(stated[p] for p in members)) for members in together.values())
    first = [members[0] for members in together.values()]
    return spans, tuple(d._replace(req_per_s=tuple(d.req_per_s[p] for p in first)) for d in demands)


def _parts(scenario: Scenario, pool: Pool) -> tuple[Part, ...]:
    """Parts that a pool takes: as it says, else long prompts of any site, and short ones of its own where it decodes.

    Beside batches with prompts it takes either, so that a plan may leave them out, or take the other prompts there.
    """
    if pool.role == "decode":
        return ()
    if pool.role == "colocated":
        return ("long", "short")
    if pool.prompts is not None:
        return (pool.prompts,)
    alike = [p for p in scenario.pools.values() if p.role != "prefill" and p.model == pool.model]
    decoding = {p.site for p in alike}
    decodes = any(p.role == "decode" and p.site == pool.site for p in alike)
    leaves = any(link.from_site == pool.site and link.to_site in decoding for link in scenario.links.values())
    has_batches = any(p.role == "colocated" and p.site == pool.site and p.n_instances != 0 for p in alike)
    if has_batches or (decodes and leaves):
        return ("long", "short")
    return ("short",) if decodes else ("long",)


def pool_rates(
    scenario: Scenario, key: str, pool: Pool, classes: Sequence[ClassSpec], known: dict[object, InstanceRates]
) -> InstanceRates:
    """Service times of an instance; equal instances at several sites share them."""
    apart = {"site": "", "n_instances": "free", "min_instances": 0, "max_instances": None, "prompts": None}
    served = scenario.classes_of(pool)
    alike = (pool.model_copy(update=apart).model_dump_json(), served)
    if alike not in known:
        mine = [c for c in classes if c.name in served] or classes  # none is for its model: times of anything do
        decoded = Decoded.of([(c.share, c.mix) for c in mine])
        known[alike] = service_times(scenario, key, pool, scenario.hardware_of(pool), decoded)
    return known[alike]


def pool_spec(
    scenario: Scenario,
    names: tuple[str, str],
    pool: Pool,
    rates: InstanceRates,
    classes: Sequence[ClassSpec],
) -> PoolSpec:
    hardware, n = scenario.hardware_of(pool), pool.accelerators_per_instance
    usd, served = accelerator_usd_per_hour(scenario, pool.site, hardware), scenario.classes_of(pool)
    fixed = pool.n_instances if pool.n_instances != "free" else None
    most = pool.max_instances if fixed is None else fixed
    return PoolSpec(
        name=names[1],
        key=names[0],
        layout=pool.layout,
        site=pool.site,
        hardware=hardware.name,
        parts=_parts(scenario, pool),
        n_accelerators=n,
        min_instances=(pool.min_instances if fixed is None else fixed) if names[0] == names[1] else 0,
        max_instances=LARGEST_POOL if most is None else most,
        stated_max_instances=most,
        usd_per_hour=None if usd is None else usd * n,
        busy_usd_per_hour=n * busy_usd_per_hour(scenario, pool.site, hardware),
        rates=rates,
        classes=tuple(i for i, c in enumerate(classes) if c.name in served),
        by_period=_by_period(pool),
    )


def _by_period(pool: Pool) -> ByPeriod | None:
    if pool.rent == "always":
        return None
    return ByPeriod(pool.least_time_up_h, pool.start_up_s / SECONDS_PER_HOUR)


def link_specs(scenario: Scenario) -> tuple[LinkSpec, ...]:
    """The links of a scenario with the port sizes that may be chosen."""
    return tuple(
        LinkSpec(
            name, k.from_site, k.to_site, k.options(), k.usd_per_gb, k.round_trip_ms / 1e3, k.destination_holds_prefix
        )
        for name, k in scenario.links.items()
    )


def class_streams(classes: Sequence[ClassSpec], pools: Sequence[PoolSpec]) -> Iterator[Stream]:
    for c in range(len(classes)):
        sites = dict.fromkeys(p.site for p in pools if p.decodes and c in p.classes)
        yield from (Stream(c, site) for site in sites)


def class_demands(scenario: Scenario, classes: Sequence[ClassSpec], streams: Sequence[Stream]) -> Iterator[Demand]:
    periods: tuple[str | None, ...] = tuple(scenario.periods) or (None,)
    for c, spec in enumerate(classes):
        homes: tuple[str | None, ...] = (None,)
        if spec.name in scenario.classes:
            homes = tuple(scenario.classes[spec.name].sites) or (None,)
        mine = [q for q, stream in enumerate(streams) if stream.request_class == c]
        for home in homes:
            own = tuple(q for q in mine if home in (None, streams[q].site))
            rates = tuple(sum(scenario.demand_of(m.name, home, period) for m in spec.members) for period in periods)
            yield Demand(c, home, own, tuple(q for q in mine if q not in own), rates)


def site_inventories(scenario: Scenario, pools: Sequence[PoolSpec]) -> Iterator[Inventory]:
    for site_name, site in scenario.sites.items():
        for hardware, n_accelerators in site.accelerators.items():
            name = scenario.hardware_named(hardware).name
            drawing = tuple(i for i, p in enumerate(pools) if p.site == site_name and p.hardware == name)
            yield Inventory(site_name, name, n_accelerators, drawing)


def _check(problem: Problem) -> None:
    """Nothing that is stated is passed over in silence. Raises InputError."""
    scenario, found = problem.scenario, []
    staffed = replace(problem, pools=tuple(replace(pool, stated_max_instances=None) for pool in problem.pools))
    for stream, arcs in zip(staffed.streams, staffed.arcs, strict=True):
        if not any(arcs.values()):
            name = problem.classes[stream.request_class].name
            what = f"no prefill pool reaches the decode pools of '{name}' at '{stream.site}'"
            found.append(scenario.problem(("classes", name), what, "a prefill pool there, or a link from one"))
    if problem.is_min_cost or scenario.budget_usd_per_hour is not None:
        what = f"{'objective min-cost' if problem.is_min_cost else 'a budget'} needs this price"
        found += [Fault(scenario.origin, key, what) for key in problem.missing_prices()]
    if found:
        raise InputError(found)


def _check_room(problem: Problem) -> None:
    """Raises InfeasibleError where prompts of a class fit no pool that they could be routed to."""
    for demand in problem.demands:
        reached = [q for q in demand.streams if any(problem.arcs[q].values())]
        if reached and not any(_is_held(problem, q) for q in reached):
            name = problem.classes[demand.request_class].name
            others = (other for q in demand.streams for other in _other_thresholds(problem, q))
            raise too_long(problem.scenario, name, _rooms(problem, demand), others)


def _is_held(problem: Problem, q: int) -> bool:
    """True if some threshold sends every prompt of a stream to a pool that holds it."""
    limits, fixed = _thresholds_held(problem, q), problem.scenario.routing.threshold_tokens
    is_free = fixed == "free" or not all(problem.arcs[q].values())
    mix = problem.classes[problem.streams[q].request_class].mix
    return is_held(mix, limits[0] if is_free else float(fixed), limits)


def _thresholds_held(problem: Problem, q: int) -> Limits:
    """Thresholds between which some pool holds every prompt of a stream [tokens]."""
    arcs = problem.arcs[q]
    rooms = {part: max((_room(problem, arc) for arc in arcs[part]), default=0.0) for part in arcs}
    return problem.classes[problem.streams[q].request_class].mix.held_thresholds(rooms["long"], rooms["short"])


def _other_thresholds(problem: Problem, q: int) -> Iterator[str]:
    """A threshold that would do, where another one is stated."""
    (low, high), fixed = _thresholds_held(problem, q), problem.scenario.routing.threshold_tokens
    if fixed != "free" and low <= high:
        nearest = min(max(float(fixed), low), high)
        yield f"routing.threshold_tokens = {nearest:.10g}" if nearest >= 0 else 'routing.threshold_tokens = "free"'


def _rooms(problem: Problem, demand: Demand) -> Iterator[tuple[str, float, float]]:
    """Prefill pools of a demand that do not hold its longest prompt, with the longest they hold and that prompt."""
    mix, fixed = problem.classes[demand.request_class].mix, problem.scenario.routing.threshold_tokens
    low, high = (-inf, inf) if fixed == "free" else (float(fixed), float(fixed))
    longest = {"long": mix.longest_tokens(low), "short": mix.longest_tokens(-inf, high)}
    for part, arcs in (item for q in demand.streams for item in problem.arcs[q].items()):
        for arc in (arc for arc in arcs if _room(problem, arc) < longest[part]):
            yield problem.pools[arc.pool].key, _room(problem, arc), longest[part]


def _room(problem: Problem, arc: Arc) -> float:
    """Longest prompt that the pool of an arc holds [tokens]."""
    return problem.pools[arc.pool].rates.longest_tokens


def widened(problem: Problem, factor: int) -> Problem:
    """The problem with a multiple of the instances that its demand seems to leave any use for.

    Args:
        problem: the resolved scenario.
        factor: the multiple; what is stated, in stock or within the budget limits them as before.
    """
    return replace(problem, pools=tuple(_limited(problem, factor)))


def _limited(problem: Problem, factor: int = 1) -> Iterator[PoolSpec]:
    """Pools with the most instances that inventory, budget and demand leave any use for."""
    scenario, found = problem.scenario, []
    reached = {arc.pool for arcs in problem.arcs for part in arcs.values() for arc in part}
    reached |= {i for pools in problem.decoders for i in pools}
    for i, pool in enumerate(problem.pools):
        limits = [LARGEST_POOL if pool.stated_max_instances is None else pool.stated_max_instances]
        limits += [v.n_accelerators // pool.n_accelerators for v in problem.inventories if i in v.pools]
        if scenario.budget_usd_per_hour is not None and pool.usd_per_hour:
            limits.append(int(scenario.budget_usd_per_hour / pool.usd_per_hour + 1e-9))
        if problem.is_min_cost:
            limits.append(factor * most_of_use(problem, i))
        if i not in reached:
            limits.append(pool.min_instances)
        if min(limits) >= LARGEST_POOL and factor == 1:
            found.append(unlimited_size(scenario, pool.key))
        yield replace(pool, max_instances=min(*limits, LARGEST_POOL))
    if found:
        raise InputError(found)


def unlimited_size(scenario: Scenario, pool: str) -> Fault:
    """Fault of a pool that may grow beyond any that is planned."""
    what = f"nothing limits its size to fewer than {LARGEST_POOL:,} instances"
    return scenario.problem(("pools", pool), what, "max_instances, an inventory, a budget or a lower demand")


def most_of_use(problem: Problem, index: int) -> int:
    """Instances of a pool beyond which no more are of use for the demand, or for a stated ratio to other pools."""
    needed = [max(most_for_demand(problem, i), pool.min_instances) for i, pool in enumerate(problem.pools)]
    pool, ratio = problem.pools[index], problem.ratio
    if ratio is None or not (pool.takes_short or pool.role == "decode"):
        return needed[index]
    short = sum(n for n, other in zip(needed, problem.pools, strict=True) if other.takes_short)
    decode = sum(n for n, other in zip(needed, problem.pools, strict=True) if other.role == "decode")
    return min(ceil(max(short / ratio[0], decode / ratio[1])) * ratio[pool.role == "decode"], LARGEST_POOL)


def most_for_demand(problem: Problem, index: int) -> int:
    """Instances beyond which no more are of use: half as many again as all the work there could be, and a few."""
    pool, work = problem.pools[index], 0.0
    for stream, rate in zip(problem.streams, problem.peak_req_per_s, strict=True):
        if stream.request_class in pool.classes:
            mix, rule = problem.classes[stream.request_class].mix, problem.scenario.capacity_rule
            work += rate * whole_work_s(pool, mix, rule)
    return min(ceil(1.5 * work) + 8, LARGEST_POOL)


def whole_work_s(pool: PoolSpec, mix: RequestMix, rule: CapacityRule = "expected-work") -> float:
    """Instance-seconds per request if a pool took every request of a class; by the mean length at most [s]."""
    if pool.batching is not None:  # batches take longer than passes do at the least
        return pool.batching.factor * (pool.decode_s(mix) + float(mix.short_work(pool.work, mix.support[1])))
    if pool.rates.decode is not None and not pool.is_prefill:
        return pool.decode_s(mix)
    if pool.rates.prefill is None:
        return inf
    if rule == "mean-length":  # a curve that is not convex may have any of its times at the mean of a part
        return float(pool.rates.prefill.occupancy.curve(mix.support[1]))
    return float(mix.short_work(pool.rates.prefill.occupancy, mix.support[1]))
