"""One period of a plan for many: the same fleet as a plan of its own, for the executor to run."""

from collections.abc import Iterator
from typing import Any

from planner.errors import InputError, did_you_mean
from planner.results import ClassPlan, Latency, LinkPlan, PeriodPlan, Plan, PoolPlan
from planner.scenario import Scenario
from planner.scenario.parts import DEFAULT_CLASS

EVERYTHING_STAYS = 1e12
"""Threshold where no request leaves the site that decodes it [tokens]."""
UNSTATED = Latency(
    ttft_mean_s=None,
    ttft_p50_s=None,
    ttft_p90_s=None,
    ttft_p99_s=None,
    ttft_unloaded_mean_s=None,
    ttft_unloaded_p90_s=None,
    tpot_mean_s=None,
)


def one_period(scenario: Scenario, plan: Plan, name: str) -> tuple[Scenario, Plan]:
    """A period as a question and a plan of its own.

    Every class is split by the sites where it arrives, which decode it: `east` at `virginia` becomes the class
    `east-virginia`, with the threshold and the pools that the plan has for both. A pool that the plan has made several
    of, one for each layout, becomes as many of the scenario.

    Args:
        scenario: the question, whose classes state their sites, or are decoded at one.
        plan: its plan.
        name: the period.

    Returns:
        The scenario of that demand alone, and the plan with the period's sizes, rates and thresholds.

    Raises:
        InputError: no such period, or the plan moves requests to other sites than those where they arrive.
    """
    found = {period.name: period for period in plan.periods}.get(name)
    if found is None:
        allowed = did_you_mean(name, [p.name for p in plan.periods]) if plan.periods else "a plan that has periods"
        raise InputError(scenario.problem(("periods",), f"has no '{name}' in the plan", allowed))
    if found.demand_req_per_s <= 0:
        raise InputError(scenario.problem(("periods", name), "has no demand to run", "a period with demand"))
    parts = list(_parts(scenario, found))
    asked = scenario.varied(_changes(scenario, plan, found, parts))
    return asked, _plan(plan, found, parts)


Part = tuple[str, str, float]
"""Class, site and rate [1/s]."""


def _parts(scenario: Scenario, period: PeriodPlan) -> Iterator[Part]:
    for name in scenario.workloads:
        stated = scenario.classes[name].sites if name in scenario.classes else {}
        decoded = list(period.thresholds.get(name, {}))
        if not stated and len(decoded) > 1:
            what = f"arrives anywhere and is decoded at {' and '.join(decoded)}, so that no period of it can be run"
            raise InputError(scenario.problem(("classes", name), what, "sites of every class"))
        for site in stated or decoded:
            when = period.name if period.name in scenario.periods else None  # one that is always is not stated
            rate = scenario.demand_of(name, site if stated else None, when)
            if rate > 0 and site not in decoded:
                what = f"is decoded elsewhere than at '{site}', where it arrives, in '{period.name}'"
                allowed = "a plan that decodes it there"
                raise InputError(scenario.problem(("classes", name, "sites", site), what, allowed))
            if rate > 0:
                yield name, site, rate


def _part_name(name: str, site: str) -> str:
    return name if name == DEFAULT_CLASS else f"{name}-{site}"


def _pool_name(name: str) -> str:
    """A pool of a plan as a scenario may call it: marks that set it apart come after spaces."""
    return "-".join(name.replace("=", "").replace(",", " ").split())


def _changes(scenario: Scenario, plan: Plan, period: PeriodPlan, parts: list[Part]) -> dict[str, Any]:
    """What turns the scenario into that of one period."""
    total = sum(rate for *_, rate in parts)
    classes = {
        _part_name(name, site): {
            **scenario.value_at(f"classes.{name}"),
            "share": rate / total,
            "sites": {site: 1.0},
        }
        for name, site, rate in parts
        if name in scenario.classes
    }
    return {
        "objective": "max-throughput",
        "demand_req_per_s": period.demand_req_per_s,
        "budget_usd_per_hour": None,
        "periods": {},
        "spare": {},
        "comparisons": {},
        "claims": [],
        "break_even": [],
        "report": {},
        "routing.role_conversion": False,
        **({"classes": classes} if classes else {}),
        "pools": dict(_stated_pools(scenario, plan, parts)),
        **_stated_limits(scenario, plan),
    }


def _stated_pools(scenario: Scenario, plan: Plan, parts: list[Part]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pools of the plan as the scenario states them, one for each that the plan has made of one; and those unused."""
    made = [(pool.name, pool.prompts) for pool in plan.pools]
    used = {name.split(" ")[0] for name, _ in made}
    for name, prompts in [*made, *((key, scenario.pools[key].prompts) for key in scenario.pools if key not in used)]:
        key, *marks = name.split(" ")
        own, stated = scenario.pools[key], {**scenario.value_at(f"pools.{key}")}
        if own.layouts:
            stated["layout"] = next((mark for mark in marks if mark in own.layouts), own.layouts[0])
            del stated["layouts"]
        if prompts is not None:
            stated["prompts"] = prompts
        if own.classes:
            stated["classes"] = [_part_name(c, site) for c, site, _ in parts if c in own.classes]
        yield _pool_name(name), stated


def _stated_limits(scenario: Scenario, plan: Plan) -> dict[str, Any]:
    """What the execution states of pools that the plan has under other names."""
    limits = scenario.value_at("execution.pools") or {}
    keys = {_pool_name(pool.name): pool.name.split(" ")[0] for pool in plan.pools}
    return {"execution.pools": {name: limits[key] for name, key in keys.items() if key in limits}} if limits else {}


def _plan(plan: Plan, period: PeriodPlan, parts: list[Part]) -> Plan:
    pools, links = tuple(_pools(plan, period)), tuple(_links(plan, period))
    busiest = max([pool.utilization for pool in pools] + [link.utilization for link in links])
    stated = {c.name: c for c in plan.classes}
    total = sum(rate for *_, rate in parts)
    return plan.model_copy(
        update={
            "threshold_tokens": None,
            "offload_fraction": period.offload_fraction,
            "throughput_req_per_s": period.demand_req_per_s,
            "max_throughput_req_per_s": period.demand_req_per_s / busiest,
            "goodput_req_per_s": None,
            "pools": pools,
            "links": links,
            "latency": period.latency,
            "classes": tuple(_class(stated[c], site, rate / total, period) for c, site, rate in parts),
            "periods": (),
        }
    )


def _pools(plan: Plan, period: PeriodPlan) -> Iterator[PoolPlan]:
    for pool, now in zip(plan.pools, period.pools, strict=True):
        each = pool.n_accelerators // pool.n_instances if pool.n_instances else 0
        yield pool.model_copy(
            update={
                "name": _pool_name(pool.name),
                "n_instances": now.n_instances,
                "n_accelerators": now.n_instances * each,
                "offered_req_per_s": now.offered_req_per_s,
                "utilization": now.utilization,
            }
        )


def _links(plan: Plan, period: PeriodPlan) -> Iterator[LinkPlan]:
    for link, now in zip(plan.links, period.links, strict=True):
        yield link.model_copy(update={"mean_gbps": now.mean_gbps, "utilization": now.utilization})


def _class(stated: ClassPlan, site: str, share: float, period: PeriodPlan) -> ClassPlan:
    threshold, shares = period.thresholds[stated.name][site], period.pool_shares.get(stated.name, {}).get(site, {})
    return stated.model_copy(
        update={
            "name": _part_name(stated.name, site),
            "share": share,
            "threshold_tokens": EVERYTHING_STAYS if threshold is None else threshold,
            "pool_shares": {
                work: {_pool_name(name): part for name, part in of_work.items()} for work, of_work in shares.items()
            },
            "latency": UNSTATED,
        }
    )


def class_of_part(scenario: Scenario, part: str) -> str:
    """The class that a part of `one_period` is of."""
    return next(
        (name for name in scenario.workloads for site in scenario.sites if _part_name(name, site) == part), part
    )
