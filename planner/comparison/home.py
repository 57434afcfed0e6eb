"""Fleets without prefill elsewhere: what is stated at the sites that decode, as scenarios to plan."""

from collections.abc import Iterator, Mapping
from math import inf

from planner.errors import InfeasibleError, InputError
from planner.optimizer.layout_candidates import texts
from planner.optimizer.service_times import Decoded, service_times
from planner.results.plan import Fleet
from planner.scenario import Pool, Scenario
from planner.workload.mix import RequestMix

Requests = Mapping[str, tuple[float, RequestMix]]
"""Share and requests of every class, by name."""


def decoding_sites(scenario: Scenario) -> tuple[str, ...]:
    """Sites with a pool that decodes."""
    return tuple(dict.fromkeys(pool.site for pool in scenario.pools.values() if pool.role != "prefill"))


def local_prefill(scenario: Scenario) -> Scenario:
    """The scenario without links between sites: every prompt is prefilled at the site that decodes it.

    Raises:
        InfeasibleError: a class of requests has no prefill at its site.
    """
    pools = {name: pool for name, pool in scenario.pools.items() if pool.site in decoding_sites(scenario)}
    alone = scenario.model_copy(update={"links": {}, "pools": pools})
    for name in scenario.workloads:
        served = [pool for pool in pools.values() if name in alone.classes_of(pool)]
        near = {pool.site for pool in served if pool.role == "prefill"}
        together = any(pool.role == "colocated" for pool in served)
        if not together and not near & {pool.site for pool in served if pool.role == "decode"}:
            raise InfeasibleError("no pool prefills at the sites that decode")
    return alone


def mixed_home(
    scenario: Scenario, requests: Requests, budget_usd_per_hour: float | None, most_accelerators: float = inf
) -> Scenario:
    """The scenario with all kinds of accelerators of the decoding sites in both roles there, and none elsewhere.

    Args:
        budget_usd_per_hour: what the fleet may cost; None: nothing is said.
        most_accelerators: of each kind at a site, where fewer than the stock may be used.

    Returns:
        A scenario of free sizes within the stock of every kind. The sizes of its pools, where the question states them,
        are of the plan that it asks about and no limit to what can be had; `max_instances` is one.

    Raises:
        InfeasibleError: no kind there can both prefill and decode what is asked.
    """
    pools: dict[str, Pool] = {}
    for site in decoding_sites(scenario):
        for model in dict.fromkeys(p.model for p in scenario.pools.values() if p.site == site and p.role == "decode"):
            pools |= _in_both_roles(scenario, requests, site, model)
    if {pool.role for pool in pools.values()} != {"prefill", "decode"}:
        raise InfeasibleError("no accelerators at home take both roles")
    sites = {}
    for name, place in scenario.sites.items():
        stock = {kind: min(n, most_accelerators) for (at, kind), (n, _) in stock_limits(scenario).items() if at == name}
        sites[name] = place.model_copy(update={"accelerators": stock})
    free = {"threshold_tokens": "free", "prefill_to_decode": "free"}
    return scenario.model_copy(
        update={
            "budget_usd_per_hour": budget_usd_per_hour,
            "routing": scenario.routing.model_copy(update=free),
            "sites": sites,
            "pools": pools,
            "links": {},
        }
    )


def kinds_at_home(scenario: Scenario) -> tuple[str, ...]:
    """Names of the accelerators at the sites that decode."""
    home = decoding_sites(scenario)
    return tuple(dict.fromkeys(scenario.hardware_of(p).name for p in scenario.pools.values() if p.site in home))


def _in_both_roles(scenario: Scenario, requests: Requests, site: str, model: str | None) -> dict[str, Pool]:
    """A pool of each kind at a site in each role that it can be timed in."""
    found: dict[str, Pool] = {}
    here = [pool for pool in scenario.pools.values() if pool.site == site]
    steps = [pool.tpot_ms for pool in here if pool.role == "decode" and pool.model == model]
    free = {"n_instances": "free", "min_instances": 0, "max_instances": None, "model": model, "classes": ()}
    for pool in sorted(here, key=lambda pool: pool.model != model):
        kind = scenario.hardware_of(pool).name
        for role, rest in (
            ("prefill", {"prompts": "short", "tpot_ms": None}),
            ("decode", {"prompts": None, "tpot_ms": steps[0]}),
        ):
            several = site if len(decoding_sites(scenario)) > 1 else None
            name = "-".join(filter(None, (several, model, kind, role)))
            twin = pool.model_copy(update={**free, **rest, "role": role})
            if name not in found and _is_timed(scenario, name, twin, requests):
                found[name] = twin
    return found


def _is_timed(scenario: Scenario, name: str, pool: Pool, requests: Requests) -> bool:
    """True if a pool's times are known and its model fits, on any layout that it may have."""
    try:
        tried = [pool.on_layout(layout) for layout in texts(scenario, name, pool)] if pool.layouts else [pool]
    except InputError:
        return False
    return any(_is_timed_so(scenario, name, one, requests) for one in tried)


def _is_timed_so(scenario: Scenario, name: str, pool: Pool, requests: Requests) -> bool:
    served = [requests[c] for c in scenario.classes_of(pool)]
    try:
        service_times(scenario, name, pool, scenario.hardware_of(pool), Decoded.of(served))
    except (InputError, InfeasibleError):
        return False
    return True


def stock_limits(scenario: Scenario) -> dict[tuple[str, str], tuple[int, str]]:
    """Accelerators that can be had of a kind at a site, where that is limited, and the keys that say so."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for site, place in scenario.sites.items():
        for stated, n in place.accelerators.items():
            found[site, scenario.hardware_named(stated).name] = n, f"sites.{site}.accelerators.{stated}"
    drawing: dict[tuple[str, str], dict[str, Pool]] = {}
    for name, pool in scenario.pools.items():
        drawing.setdefault((pool.site, scenario.hardware_of(pool).name), {})[name] = pool
    for kind, pools in drawing.items():
        most = [
            p.max_instances * p.accelerators_per_instance
            for p in pools.values()
            if p.n_instances == "free" and p.max_instances is not None
        ]
        if len(most) == len(pools) and (kind not in found or sum(most) < found[kind][0]):
            found[kind] = sum(most), " and ".join(f"pools.{name}.max_instances" for name in pools)
    return found


def beyond_stock(scenario: Scenario, fleet: Fleet) -> Iterator[str]:
    """Accelerators of which a fleet takes more than the scenario says can be had, in words."""
    used: dict[tuple[str, str], int] = {}
    for pool in fleet.pools:
        used[pool.site, pool.hardware] = used.get((pool.site, pool.hardware), 0) + pool.n_accelerators
    for kind, (n, keys) in stock_limits(scenario).items():
        if used.get(kind, 0) > n:
            yield f"{used[kind]} {kind[1]} at {kind[0]}, of which {n} can be had by {keys}"
