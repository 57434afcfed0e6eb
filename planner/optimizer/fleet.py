"""A solution in the words of the answer: pools, links, latency and cost at the operating point."""

from collections.abc import Sequence
from typing import Any

from planner.optimizer.evaluate import (
    Operating,
    busy_usd_per_hour,
    link_mean_bytes_per_s,
    pool_utilization,
    rent_usd_per_hour,
    traffic_usd_per_hour,
)
from planner.optimizer.latency import latencies
from planner.optimizer.problem import LinkSpec, PlanningProblem, most_work_s
from planner.optimizer.search import Solution
from planner.results import ClassPlan, Cost, LinkPlan, PoolPlan
from planner.roofline import InstanceRates
from planner.units import SECONDS_PER_HOUR, gbps

PER_MILLION = 1e6
OVERLOAD_TOLERANCE = 1e-5


def fleet_fields(problem: PlanningProblem, solution: Solution, operating: Operating | None = None) -> dict[str, Any]:
    """The fields that a plan and a baseline share, at the rate the plan is for or another operating point."""
    operating = operating or operating_point(problem, solution)
    *_, overall = latencies(problem, solution, operating)
    return {
        "threshold_tokens": threshold_tokens(problem, solution),
        "offload_fraction": offload_fraction(problem, solution, operating),
        "throughput_req_per_s": operating.rate,
        "max_throughput_req_per_s": solution.highest.rate,
        "goodput_req_per_s": solution.goodput,
        "pools": pool_plans(problem, solution, operating),
        "links": link_plans(problem, solution, operating),
        "latency": overall,
        "cost": cost(problem, solution, operating),
    }


def operating_point(problem: PlanningProblem, solution: Solution) -> Operating:
    """The rate the plan is for: a demand that is stated and reachable, else the goodput or the most it serves."""
    demand = problem.scenario.demand_req_per_s
    if demand is None or demand >= solution.operating.rate:
        return solution.operating
    return solution.operating.scaled_to(demand)


def threshold_tokens(problem: PlanningProblem, solution: Solution) -> float | None:
    """The threshold, where there is exactly one and it decides anything."""
    split = [t for route, t in zip(problem.routes, solution.thresholds_tokens, strict=True) if route.is_split]
    return max(split[0], 0.0) if len(split) == len(problem.routes) == 1 else None


def offload_fraction(problem: PlanningProblem, solution: Solution, operating: Operating) -> float:
    """Share of the requests that are prefilled in a pool for long prompts."""
    sent = sum(
        rate * float(loads.long_fraction[0])
        for route, rate, loads in zip(problem.routes, operating.route_rates, solution.loads, strict=True)
        if route.long is not None
    )
    return min(sent / operating.rate, 1.0) if operating.rate > 0 else 0.0


def pool_plans(problem: PlanningProblem, solution: Solution, operating: Operating) -> tuple[PoolPlan, ...]:
    """Every pool at the operating point."""
    utilization = pool_utilization(problem, solution.sizing, solution.loads, operating)
    bills = pool_usd_per_hour(problem, solution, operating)
    return tuple(
        PoolPlan(
            name=pool.name,
            site=pool.site,
            hardware=pool.hardware,
            role="prefill" if pool.role == "prefill" else "decode",
            prompts=problem.scenario.prompts_of(problem.scenario.pools[pool.name]) if pool.prompts else None,
            n_instances=solution.sizing.n_instances[i],
            n_accelerators=solution.sizing.n_instances[i] * pool.n_accelerators,
            capacity_req_per_s=_capacity(problem, solution, i),
            offered_req_per_s=offered_req_per_s(problem, solution, operating, i),
            utilization=_at_most_full(utilization[i]),
            usd_per_hour=bills[i],
            **setup_fields(pool.rates, pool.role, pool.n_accelerators),
        )
        for i, pool in enumerate(problem.pools)
    )


def setup_fields(rates: InstanceRates, role: str, accelerators_per_instance: int) -> dict[str, Any]:
    """How a pool's instances are run, as far as it is known, under the names of a plan's fields."""
    setup = rates.setup
    return {
        "basis": rates.basis,
        "accelerators_per_instance": accelerators_per_instance,
        "layout": setup.layout,
        "stack": setup.stack,
        "precision": setup.precision,
        "kv_precision": setup.kv_precision,
        "batch_limit": rates.decode.batch if rates.decode and role == "decode" else None,
    }


def pool_usd_per_hour(problem: PlanningProblem, solution: Solution, operating: Operating) -> tuple[float | None, ...]:
    """Rent and power of every pool at the operating point [USD/h]; None where a price is missing."""
    rent = dict(rent_usd_per_hour(problem, solution.sizing))
    power = busy_usd_per_hour(problem, solution.loads, operating)
    rents = (rent[pool.name] for pool in problem.pools)
    return tuple(None if usd is None else usd + extra for usd, extra in zip(rents, power, strict=True))


def _at_most_full(utilization: float) -> float:
    """A utilisation without the solver's tolerance; more than that would be a plan that cannot run."""
    if utilization > 1 + OVERLOAD_TOLERANCE:
        raise ValueError(f"a pool is planned at utilisation {utilization:.9g}")
    return min(utilization, 1.0)


def offered_req_per_s(problem: PlanningProblem, solution: Solution, operating: Operating, pool: int) -> float:
    """Requests per second that a pool is sent."""
    offered = 0.0
    for route, rate, loads in zip(problem.routes, operating.route_rates, solution.loads, strict=True):
        long = float(loads.long_fraction[0])
        offered += rate * (long * (route.long == pool) + (1 - long) * (route.short == pool) + (route.decode == pool))
    return offered


def _capacity(problem: PlanningProblem, solution: Solution, pool: int) -> float:
    """Theta of a pool: the rate at which the requests it is sent fill it; without any, as if it were sent all."""
    highest = solution.highest
    used = pool_utilization(problem, solution.sizing, solution.loads, highest)[pool]
    if used > 0:
        return offered_req_per_s(problem, solution, highest, pool) / used
    return solution.sizing.n_instances[pool] / most_work_s(problem, pool)


def link_plans(problem: PlanningProblem, solution: Solution, operating: Operating) -> tuple[LinkPlan, ...]:
    """Every link at the operating point."""
    sent = link_mean_bytes_per_s(problem, solution.loads, operating)
    rent = dict(rent_usd_per_hour(problem, solution.sizing))
    return tuple(
        link_plan(link, ports, gbps(b), rent[link.name])
        for link, ports, b in zip(problem.links, solution.sizing.n_ports, sent, strict=True)
    )


def link_plan(link: LinkSpec, ports: Sequence[int], mean_gbps: float, usd_per_hour: float | None) -> LinkPlan:
    """A link with the ports rented and its mean traffic."""
    capacity = link.gbps(ports)
    sizes = {tier.capacity_gbps for m, tier in zip(ports, link.tiers, strict=True) if m}
    return LinkPlan(
        name=link.name,
        from_site=link.from_site,
        to_site=link.to_site,
        capacity_gbps=capacity,
        n_ports=sum(ports),
        port_gbps=sizes.pop() if len(sizes) == 1 else None,
        ports_by_tier=tuple(ports),
        mean_gbps=mean_gbps,
        utilization=mean_gbps / capacity if capacity else 0.0,
        usd_per_hour=usd_per_hour,
    )


def cost(problem: PlanningProblem, solution: Solution, operating: Operating) -> Cost:
    """Rent, power and traffic charges, in total and per million tokens."""
    rent = dict(rent_usd_per_hour(problem, solution.sizing))
    pools = pool_usd_per_hour(problem, solution, operating)
    accelerators = None if any(usd is None for usd in pools) else sum(usd or 0.0 for usd in pools)
    known = not any(usd is None for usd in rent.values())
    links = sum(rent[link.name] or 0.0 for link in problem.links)
    total = sum(usd or 0.0 for usd in pools) + links + traffic_usd_per_hour(problem, solution.loads, operating)
    per_million = {
        kind: _per_million(total, operating.rate, _mean_tokens(problem, kind)) for kind in ("total", "output")
    }
    return Cost(
        usd_per_hour=total if known else None,
        usd_per_million_input_tokens=per_million["total"] if known else None,
        usd_per_million_output_tokens=per_million["output"] if known else None,
        accelerators_usd_per_hour=accelerators,
        missing_prices=() if known else problem.missing_prices(),
    )


def _mean_tokens(problem: PlanningProblem, kind: str) -> float:
    return sum(float(c.share * getattr(c.mix, f"mean_{kind}_tokens")) for c in problem.classes)


def _per_million(usd_per_hour: float, req_per_s: float, tokens_per_request: float) -> float | None:
    tokens_per_hour = req_per_s * tokens_per_request * SECONDS_PER_HOUR
    return PER_MILLION * usd_per_hour / tokens_per_hour if tokens_per_hour > 0 else None


def class_plans(problem: PlanningProblem, solution: Solution) -> tuple[ClassPlan, ...]:
    """Every class with its threshold and latency."""
    *by_class, _ = latencies(problem, solution, operating_point(problem, solution))
    scenario = problem.scenario
    return tuple(
        ClassPlan(
            name=c.name,
            model=scenario.profile_of(scenario.model_of(c.name)).name,
            share=c.share,
            slo=None if (slo := scenario.slo_of(c.name)) is None else slo.model_dump(exclude_none=True),
            threshold_tokens=_class_threshold(problem, solution, index),
            latency=by_class[index],
            mean_total_tokens=c.mix.mean_total_tokens,
            mean_uncached_tokens=c.mix.mean_uncached_tokens,
            mean_output_tokens=c.mix.mean_output_tokens,
            cached_fraction=c.mix.cached_fraction,
        )
        for index, c in enumerate(problem.classes)
    )


def _class_threshold(problem: PlanningProblem, solution: Solution, request_class: int) -> float | None:
    """Threshold of a class; with several routes that of the one with most requests."""
    routes = [
        (rate, t)
        for route, rate, t in zip(
            problem.routes, solution.operating.route_rates, solution.thresholds_tokens, strict=True
        )
        if route.request_class == request_class and route.is_split
    ]
    return max(max(routes)[1], 0.0) if routes else None
