"""One site: other layouts of its accelerators, and other kinds of them that have a price, as scenarios to plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, TypeVar

from planner.comparison.home import Requests
from planner.errors import InfeasibleError, InputError
from planner.optimizer.service_times import Decoded, pool_stack, service_times
from planner.results.plan import Fleet
from planner.roofline import InstanceRates
from planner.scenario import Pool, Scenario, accelerator_usd_per_hour, busy_usd_per_hour
from planner.ties import largest_first
from planner.workload.mix import RequestMix

PER_POOL = 2
"""Other ways to run one pool that are planned, of those that an estimate finds cheapest."""
MOST_KINDS = 4
"""Other kinds of accelerators that are looked at, the cheapest first."""
TOO_DEAR = 1.5
"""Times the estimate for the pool as it is, beyond which another way to run it is not worth a plan."""
AnyFleet = TypeVar("AnyFleet", bound=Fleet)
BEST_OF_EACH = "best-of-each"
"""All pools changed to their best way together."""


@dataclass(frozen=True)
class Variant:
    """Another way to serve the same requests, as a scenario."""

    name: str
    title: str
    scenario: Callable[[], Scenario]
    """Makes it, or raises what an InputError or InfeasibleError has to say against it."""
    changes: tuple[str, ...] = ()
    """What makes the question this one, each as `--set` takes it; empty where there is no such short way."""
    is_tried: bool = False
    """Whether it is one of many that are tried, of which nobody misses one that cannot be planned."""


@dataclass(frozen=True)
class InstanceChoice:
    """Another way to run one pool."""

    name: str
    """Of the pool."""
    what: str
    """Accelerators and layout of an instance."""
    pool: Pool
    estimate: float
    """What it would cost to serve the requests, in USD per hour or per request, or in accelerators."""
    work_s: float
    """Instance-seconds of a mean request [s]."""


def has_one_site(scenario: Scenario) -> bool:
    """True if there is nowhere else to prefill."""
    return len(scenario.sites) < 2 or not scenario.links


def is_same_fleet(one: Fleet, other: Fleet) -> bool:
    """True if two fleets have the same instances at the same places, joined by the same links, whatever their names."""
    return _fleet(one) == _fleet(other)


def each_once(fleets: Iterable[AnyFleet]) -> list[AnyFleet]:
    """Fleets in their order, without those that are the same as one before under another name."""
    kept: list[AnyFleet] = []
    for fleet in fleets:
        if not any(is_same_fleet(fleet, one) for one in kept):
            kept.append(fleet)
    return kept


def _fleet(fleet: Fleet) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    pools: dict[tuple[object, ...], int] = {}
    for p in fleet.pools:
        kind = (p.site, p.hardware, p.role, p.accelerators_per_instance, p.layout, p.stack, p.precision, p.kv_precision)
        pools[kind] = pools.get(kind, 0) + p.n_instances
    links = [(link.from_site, link.to_site, link.capacity_gbps) for link in fleet.links if link.capacity_gbps > 0]
    return sorted(((*kind, n) for kind, n in pools.items() if n), key=str), sorted(links)


def alternative_scenarios(scenario: Scenario, requests: Requests, per_pool: int = PER_POOL) -> Iterator[Variant]:
    """Scenarios with pools on other layouts, or on other kinds of accelerators that have a price.

    Args:
        scenario: a question of one site.
        requests: what is asked of it.
        per_pool: other ways to run one pool.

    Returns:
        For every pool the ways that promise to cost least, and all pools changed to their best way together.

    Valid:
        The estimate is work by capacity; waits, promises and limits are those of the plan that is made of it.
    """
    found = {name: _choices(scenario, name, requests)[:per_pool] for name in scenario.pools}
    changes = [(choice,) for choices in found.values() for choice in choices]
    best = tuple(choices[0] for choices in found.values() if choices)
    for change in (*changes, *([best] if len(best) > 1 else [])):
        pools = {**scenario.pools, **{choice.name: choice.pool for choice in change}}
        yield Variant(
            f"{change[0].name}-on-{_slug(change[0].what)}" if len(change) == 1 else BEST_OF_EACH,
            "; ".join(f"{choice.name} on {choice.what}" for choice in change),
            partial(scenario.model_copy, update={"pools": pools}),
            _changes(scenario, change),
            is_tried=True,
        )


def _changes(scenario: Scenario, change: Sequence[InstanceChoice]) -> tuple[str, ...]:
    """Changes that make other ways to run pools the question, as `--set` takes them; none where the file forbids it."""
    keys: dict[str, Any] = {}
    for choice in change:
        own = scenario.open_pool(choice.name)
        different = ((key, value) for key, value in choice.pool if value != getattr(own, key))
        keys |= {f"pools.{choice.name}.{key}": [] if value == () else value for key, value in different}
    try:
        keys |= _software(scenario, scenario.varied(keys))
    except InputError:
        return ()
    return tuple(f"{key}={value}" for key, value in keys.items())


def _software(scenario: Scenario, asked: Scenario) -> Iterator[tuple[str, str]]:
    """The stacks of models as they are, where other accelerators would make another one the default."""
    for name, pool in asked.pools.items():
        own = scenario.pools[name]
        if pool.stack is None and scenario.measured_for(own) is None:
            known = pool_stack(scenario, own).name
            if pool_stack(asked, pool).name != known:
                yield f"model{'' if pool.model is None else f's.{pool.model}'}.stack", known


def _slug(what: str) -> str:
    return what.replace(" x ", "x").replace(", ", "-").replace("=", "").replace(",", "-")


def _choices(scenario: Scenario, name: str, requests: Requests) -> list[InstanceChoice]:
    """Other ways to run a pool that can be timed and fit, the cheapest first."""
    own = scenario.pools[name]
    served = [requests[c] for c in scenario.classes_of(own)]
    now = _choice(scenario, name, own, served)
    if now is None:
        return []
    searched = scenario.open_pool(name).layouts == "auto"  # what there is on its own kind, the plan is the best of
    others = (
        _choice(scenario, name, p, served) for p in _others(scenario, own) if p.hardware != own.hardware or not searched
    )
    near = [c for c in others if c is not None and c.what != now.what and c.estimate <= TOO_DEAR * now.estimate]
    by_work = largest_first(sorted(near, key=lambda choice: choice.what), lambda choice: -choice.work_s)
    return largest_first(by_work, lambda choice: -choice.estimate)


def _others(scenario: Scenario, own: Pool) -> Iterator[Pool]:
    """The pool with half or twice the accelerators in an instance, with attention replicas, and on other kinds."""
    n = own.accelerators_per_instance
    for hardware in (own.hardware, *_other_kinds(scenario, own)):
        domain = scenario.hardware_named(hardware).n_scaleup_domain_accelerators
        for size in (size for size in (n // 2, n, 2 * n) if 1 <= size <= max(domain or n, n)):
            # Stated only where another one is to be replaced: it is what goes without saying.
            plain = f"tp={size}" if own.layout is not None or own.layouts else None
            replicas = f"tp=1,dp={size},ep={size}"
            has_experts = scenario.profile_of(own.model).architecture.moe is not None
            for layout in (plain, replicas) if has_experts and size > 1 and hardware == own.hardware else (plain,):
                if (sizes := _sizes(own, size)) is not None:
                    shape = {"accelerators_per_instance": size, "layout": layout, "layouts": ()}
                    yield own.model_copy(update={"hardware": hardware, **shape, **sizes})


def _other_kinds(scenario: Scenario, own: Pool) -> list[str]:
    """Other kinds of accelerators that the scenario has a price for, the cheapest first."""
    name = scenario.hardware_of(own).name
    others = [kind for kind in scenario.prices if scenario.hardware_named(kind).name != name]
    return sorted(others, key=lambda kind: (scenario.prices[kind].hourly_usd, kind))[:MOST_KINDS]


def _sizes(own: Pool, n_accelerators: int) -> dict[str, object] | None:
    """Sizes of the pool in instances of other accelerators; None where a stated size does not come out even."""
    before = own.accelerators_per_instance
    if own.n_instances != "free":
        whole, rest = divmod(own.n_instances * before, n_accelerators)
        return None if rest else {"n_instances": whole}
    most = own.max_instances
    return {
        "min_instances": ceil(own.min_instances * before / n_accelerators),
        "max_instances": None if most is None else most * before // n_accelerators,
    }


def _choice(
    scenario: Scenario, name: str, pool: Pool, served: Sequence[tuple[float, RequestMix]]
) -> InstanceChoice | None:
    """A way to run a pool; None where it cannot be timed or does not fit."""
    hardware, n = scenario.hardware_of(pool), pool.accelerators_per_instance
    try:
        rates = service_times(scenario, name, pool, hardware, Decoded.of(served))
    except (InputError, InfeasibleError):
        return None
    usd = accelerator_usd_per_hour(scenario, pool.site, hardware)
    price = n if usd is None else n * (usd + busy_usd_per_hour(scenario, pool.site, hardware))
    busy, demand = _work_s(pool, rates, served), scenario.demand_req_per_s
    # Where a demand is to be served at least cost, whole instances count.
    estimate = price * (busy if scenario.objective != "min-cost" or demand is None else ceil(demand * busy))
    sizes = [size for size in (rates.setup.layout or "").split(",") if not size.endswith("=1")]
    what = ", ".join(filter(None, [f"{n} x {hardware.name}", ",".join(sizes)]))
    return InstanceChoice(name, what, pool, estimate, busy)


def _work_s(pool: Pool, rates: InstanceRates, served: Sequence[tuple[float, RequestMix]]) -> float:
    """Instance-seconds of a mean request of all classes [s]."""
    work = 0.0
    for share, mix in served:
        if pool.role == "decode" and rates.decode is not None:
            work += share * rates.decode.seconds_per_request(mix.mean_output_tokens)
        elif rates.prefill is not None:
            work += share * float(mix.short_work(rates.prefill.occupancy, mix.support[1]))
    return work
