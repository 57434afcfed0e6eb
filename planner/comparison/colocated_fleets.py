"""Colocated fleets beside a plan: all that is asked prefilled and decoded in one batch, where requests are decoded."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from planner.comparison.alternative_hardware import Variant
from planner.comparison.home import stock_limits
from planner.comparison.homogeneous_fleets import first_decoders
from planner.comparison.margins import COLOCATED
from planner.results.plan import Fleet
from planner.scenario import Pool, Routing, Scenario, instance_spec

Stock = Mapping[str, Mapping[str, int]]
"""Accelerators that may be used, by site and kind; any number of a kind that is not named."""


def colocated_fleets(asked: Scenario, scenario: Scenario, plan: Fleet) -> Iterator[Variant]:
    """Fleets of the colocated pools of a scenario alone: the cheapest, or as many accelerators and for the same bill;
    and the best of those that can be had.
    """
    pools = [pool for pool in asked.pools.values() if pool.role == "colocated"]
    n, bill, is_cost = plan.n_accelerators, plan.cost.usd_per_hour, scenario.objective == "min-cost"
    kinds = " and ".join(dict.fromkeys(pool.hardware for pool in pools))
    places = {(pool.site, pool.hardware) for pool in pools}
    together = f"prefill and decode in one batch on {{n}} {kinds}"
    if is_cost:
        title = f"{together}, the cheapest that serve the demand"
        yield Variant(COLOCATED[0], title, partial(_alone, asked))
    elif len(places) == 1:
        ((site, kind),) = places
        yield Variant(COLOCATED[2], f"{together}, one site", partial(_alone, asked, {site: {kind: n}}))
    if not is_cost and bill is not None and bill > 0:
        title = f"{together} for the whole bill of the plan"
        yield Variant(COLOCATED[1], title, partial(_alone, asked, usd_per_hour=bill))
    most = None if is_cost or bill else n
    stock = _stock(scenario, pools, most)
    if stock:
        title, usd = f"{together} of the stock", None if is_cost else bill
        yield Variant(COLOCATED[3], title, partial(_alone, asked, stock, usd))


def _stock(scenario: Scenario, pools: list[Pool], most: int | None) -> dict[str, dict[str, int]]:
    """Accelerators that can be had for pools, where that is limited, or fewer."""
    found: dict[str, dict[str, int]] = {}
    for pool in pools:
        stated = stock_limits(scenario).get((pool.site, scenario.hardware_of(pool).name))
        if stated is not None:
            found.setdefault(pool.site, {})[pool.hardware] = stated[0] if most is None else min(stated[0], most)
    return found


def in_batches(scenario: Scenario) -> Scenario:
    """The scenario with colocated pools in the place of all others: for each site that decodes and each model one of
    the kind of accelerators that decodes there, on all layouts that pools of that kind have.
    """
    pools = {f"colocated{suffix}": _colocated(scenario, home) for suffix, home in first_decoders(scenario).items()}
    return scenario.model_copy(update={"pools": pools})


def _colocated(scenario: Scenario, home: Pool) -> Pool:
    """A colocated pool in the place of a decode pool."""
    alike = [p for p in scenario.pools.values() if (p.site, p.hardware) == (home.site, home.hardware)]
    roles: tuple[Literal["prefill"], Literal["decode"]] = ("prefill", "decode")
    is_measured = all(scenario.measured_for(home, role) is not None for role in roles)
    is_timed = not is_measured and instance_spec(scenario, home).may_be_timed
    listed = dict.fromkeys(
        layout
        for p in alike
        for layout in (p.layouts or (p.layout or f"tp={p.accelerators_per_instance}",))
        if p.layouts != "auto"
    )
    is_open = any(p.layouts == "auto" for p in alike)
    update: dict[str, object] = {
        "role": "colocated", "service_times": "roofline" if is_timed else "measured", "classes": (),
    }  # fmt: skip
    if is_timed:
        update |= {"layout": None, "layouts": "auto" if is_open else tuple(listed)}
    return home.model_copy(update=update)


def _alone(scenario: Scenario, stock: Stock | None = None, usd_per_hour: float | None = None) -> Scenario:
    """The colocated pools without any others: within a stock, for so much, or for the demand at the least cost."""
    free = {"n_instances": "free", "min_instances": 0, "max_instances": None}
    pools = {k: pool.model_copy(update=free) for k, pool in scenario.pools.items() if pool.role == "colocated"}
    sites = {
        name: scenario.sites[name].model_copy(update={"accelerators": dict((stock or {}).get(name, {}))})
        for name in dict.fromkeys(pool.site for pool in pools.values())
    }
    update = {"budget_usd_per_hour": usd_per_hour, "routing": Routing(), "sites": sites, "pools": pools, "links": {}}
    return scenario.model_copy(update=update)
