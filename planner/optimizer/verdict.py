"""Is prefill in another site worth it here, and why: one sentence a manager can repeat."""

from collections.abc import Mapping, Sequence

from planner.optimizer.at_hand import has_one_site
from planner.optimizer.one_site import WORTHWHILE, one_site_verdict
from planner.optimizer.problem import Problem
from planner.results import Baseline, Fleet, Latency, Verdict
from planner.units import number, percent, usd

FOR_THE_SAME = ("equal-bill-homogeneous-pd", "equal-cost-homogeneous-pd", "homogeneous-pd")
"""Baselines that a rate is compared with, the fairest first."""


def decisive(problem: Problem) -> tuple[str, ...]:
    """Baselines that a verdict may rest on."""
    return ("cheapest-homogeneous-pd", "homogeneous-pd") if problem.is_min_cost else FOR_THE_SAME


def verdict(problem: Problem, plan: Fleet, baselines: Sequence[Baseline]) -> Verdict:
    """The verdict on prefill in another site.

    Args:
        problem: the resolved scenario.
        plan: the planned fleet.
        baselines: what it is compared with.

    Returns:
        Worth it when the plan uses a remote pool and beats the fairest baseline: the cheapest fleet for the same
        demand, else the fleet for the same bill, else that of as many accelerators.
    """
    by_name = {baseline.name: baseline for baseline in baselines}
    if has_one_site(problem.scenario):
        requests = {c.name: (c.share, c.mix) for c in problem.classes}
        return one_site_verdict(problem.scenario, requests, plan, baselines)
    if not any(link.mean_gbps > 0 for link in plan.links):
        return _no(f"the best plan sends nothing to another site{_alone(problem, plan)}")
    plain = by_name.get("homogeneous-pd")
    if problem.is_min_cost and (cheapest := by_name.get("cheapest-homogeneous-pd")):
        return _by_cost(plan, cheapest, plain or cheapest)
    if problem.is_min_ttft:
        return _by_ttft(problem, plan, by_name, plain)
    if enough := _cheaper_for_the_demand(problem, plan, baselines):
        return enough
    for name in FOR_THE_SAME:
        if name in by_name:
            return _by_rate(plan, by_name[name], plain or by_name[name])
    if plan.goodput_req_per_s is not None:
        return Verdict(
            worth_it=True,
            because="Cross-site prefill keeps the promise on TTFT, which no fleet at one site does at any rate: long "
            f"prompts take too long there; it does so up to {number(plan.goodput_req_per_s)} req/s.",
        )
    return _no("no baseline could be planned with the service times at hand, so a gain is not shown")


def _cheaper_for_the_demand(problem: Problem, plan: Fleet, baselines: Sequence[Baseline]) -> Verdict | None:
    """No, where a stated demand is served by a homogeneous fleet that costs less than the plan."""
    demand, ours = problem.demand_req_per_s, plan.cost.usd_per_hour
    if demand is None or ours is None:
        return None
    for other in baselines:
        theirs = other.cost.usd_per_hour
        does = "homogeneous-pd" in other.name and other.most_req_per_s >= demand
        if does and theirs is not None and theirs < (1 - WORTHWHILE) * ours:
            return _no(
                f"the stated {number(demand)} req/s are served for {usd(theirs)} USD/h by {other.title}, against "
                f"{usd(ours)}; at most, the plan serves {number(plan.most_req_per_s)} and that fleet "
                f"{number(other.most_req_per_s)}"
            )
    return None


def _no(because: str) -> Verdict:
    return Verdict(worth_it=False, because=f"Cross-site prefill is not worth it here: {because}.")


def _alone(problem: Problem, plan: Fleet) -> str:
    """How busy the only site is: the reason why nobody misses another one."""
    used = [p for p in plan.pools if p.role == "prefill" and p.n_instances > 0]
    if not used or problem.demand_req_per_s is None:
        return ""
    busiest = max(used, key=lambda p: p.utilization)
    return (
        f", and nothing to lift with it: {number(plan.throughput_req_per_s)} req/s keep {busiest.n_instances} prefill "
        f"{'instance' if busiest.n_instances == 1 else 'instances'} of {busiest.name} busy "
        f"{percent(busiest.utilization)} of the time"
    )


def _by_cost(plan: Fleet, other: Baseline, plain: Baseline) -> Verdict:
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    if ours is None or theirs is None:
        return _no("a price is missing, so a saving is not shown")
    saving = 1 - ours / theirs
    figures = f"{usd(ours)} USD/h against {usd(theirs)} for {other.title}"
    if saving <= WORTHWHILE:
        return _no(f"it serves the demand for {figures}")
    return Verdict(
        worth_it=True,
        because=f"Cross-site prefill serves the demand for {figures}, {percent(saving)} less; {_lifted(plan, plain)}.",
    )


def _by_rate(plan: Fleet, other: Baseline, plain: Baseline) -> Verdict:
    gain = other.ratio - 1
    figures = f"{number(plan.most_req_per_s)} req/s at most against {number(other.most_req_per_s)} with {other.title}"
    left_out = "" if plan.cost.usd_per_hour is not None else _left_out(plan, other)
    if gain <= WORTHWHILE:
        return _no(f"it serves {figures}{left_out}")
    return Verdict(
        worth_it=True,
        because=f"Cross-site prefill serves {figures} (+{percent(gain)}{left_out}); {_lifted(plan, plain)}.",
    )


def _by_ttft(problem: Problem, plan: Fleet, others: Mapping[str, Baseline], plain: Baseline | None) -> Verdict:
    """By the TTFT at the demand, against the fairest fleet at one site that serves it."""
    demand = number(plan.throughput_req_per_s)
    other = next((others[name] for name in FOR_THE_SAME if name in others), None)
    if other is None:
        return Verdict(
            worth_it=True,
            because=f"Cross-site prefill serves {demand} req/s, which no fleet at one site for the same money or of as "
            "many accelerators does.",
        )
    name, ours, theirs = _nearest_percentile(problem, plan.latency, other.latency)
    figures = f"{demand} req/s with a {name} TTFT of {number(ours)} s against {number(theirs)} with {other.title}"
    if ours is None or theirs is None or ours >= (1 - WORTHWHILE) * theirs:
        return _no(f"it serves {figures}")
    lifted = f"; {_lifted(plan, plain)}" if plain else ""
    return Verdict(
        worth_it=True, because=f"Cross-site prefill serves {figures} ({percent(1 - ours / theirs)} less){lifted}."
    )


def _nearest_percentile(problem: Problem, ours: Latency, theirs: Latency) -> tuple[str, float | None, float | None]:
    """The percentile of the answers that is nearest to the one asked for, and both TTFTs there [s]."""
    n = min((50, 90, 99), key=lambda n: abs(n - problem.ttft_percentile))
    return f"P{n}", getattr(ours, f"ttft_p{n}_s"), getattr(theirs, f"ttft_p{n}_s")


def _left_out(plan: Fleet, other: Baseline) -> str:
    """What a comparison without all prices does not count."""
    counted = "accelerators by number alone" if other.name == "homogeneous-pd" else "accelerators alone"
    return f", counting {counted}: no price of {', '.join(plan.cost.missing_prices)}"


def _lifted(plan: Fleet, plain: Baseline) -> str:
    """The bound the plan lifts: what prefill takes of a homogeneous fleet of as many accelerators; and the link."""
    prefill = sum(p.n_instances for p in plain.pools if p.role == "prefill")
    total = sum(p.n_instances for p in plain.pools)
    busiest = max(plan.links, key=lambda link: link.utilization)
    at_most = busiest.mean_gbps * plan.most_req_per_s / plan.throughput_req_per_s
    return (
        f"it lifts the bound on prefill, which takes {prefill} of {total} instances of a homogeneous fleet of as many "
        f"accelerators and leaves it {number(plain.most_req_per_s)} req/s, and sends {number(at_most)} of "
        f"{number(busiest.capacity_gbps)} Gbps over {busiest.name}"
    )
