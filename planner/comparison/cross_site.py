"""The verdict on prefill in another site: what it is worth, and against whom."""

from collections.abc import Sequence

from planner.comparison.margins import (
    ALTERNATIVES,
    HOMOGENEOUS,
    WORTHWHILE,
    Comparison,
    figures,
    is_cheaper_for_the_demand,
    margins,
    signed,
    strongest,
    value_of,
)
from planner.comparison.recommendation import rivals
from planner.results import Baseline
from planner.ties import largest
from planner.units import number, percent


def cross_site(comparison: Comparison) -> tuple[str, Baseline | None]:
    """Verdict on prefill in another site, where there is one, and the fleet that it rests on.

    Args:
        comparison: the plan and what it is compared with.
    """
    kinds = comparison.kinds
    if comparison.cheaper:
        return _no(_for_the_demand(comparison, comparison.cheaper[0])), comparison.cheaper[0]
    if comparison.plan.serving != "separate-sites":
        return _sends_nothing(comparison), None
    others = [o for o in rivals(comparison) if o.serving != "separate-sites"]
    can_be_had = [o for o in others if not o.beyond_stock]
    if not can_be_had:
        return _without_opponent(comparison, others), None
    best = strongest(comparison, can_be_had, is_open="separate-sites" in kinds and len(kinds) > 1)
    said = figures(comparison, best)
    margin, low, high = margins(comparison, best)
    if kinds == {"separate-sites"}:
        why = f"({signed(comparison.scenario, margin)}){_lifted(comparison)}.{_stock(comparison, others)}"
        return f"Cross-site prefill {said} {why}", best
    if "separate-sites" not in kinds:
        is_worse = high < -WORTHWHILE
        return _no(f"it {said}") if is_worse else f"Cross-site prefill is as good here, and no better: it {said}.", best
    unknown = sorted(comparison.unknown & set(ALTERNATIVES))
    why = f"but what {' and '.join(unknown)} would do is not known, for the reason in the notes"
    if low <= WORTHWHILE or not unknown:
        why = "but the proven bounds leave open which is better"
    return f"Not decided: cross-site prefill {said}, {why}.", best


def _without_opponent(comparison: Comparison, beyond: Sequence[Baseline]) -> str:
    """Verdict where no fleet that can be had does without another site, or none is known."""
    if comparison.unknown & set(ALTERNATIVES):
        return "Not decided: what sites on their own serve is not known, for the reason in the notes."
    if comparison.kinds != {"separate-sites"}:
        what = "no fleet without another site could be planned with the service times at hand"
        return f"Not decided: {what}, so a gain is not shown."
    scenario, rate = comparison.scenario, number(comparison.plan.throughput_req_per_s)
    promised = any(slo is not None and slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads))
    what = f"Cross-site prefill serves {rate} req/s{' as promised' if promised else ''}"
    alone = "which no fleet does that can be had at the decoding sites alone"
    return f"{what}, {alone}.{_stock(comparison, beyond)}"


def _sends_nothing(comparison: Comparison) -> str:
    """Verdict on a plan at home."""
    if "separate-sites" in comparison.kinds:
        what = "the best plan that was found sends nothing to another site, and one may be up to"
        return f"Not decided: {what} {percent(comparison.gap)} better."
    return _no(f"the best plan sends nothing to another site{_alone(comparison)}")


def _for_the_demand(comparison: Comparison, other: Baseline) -> str:
    plan = comparison.plan
    bills = f"{number(other.cost.usd_per_hour, 4)} USD/h by {other.title}, against {number(plan.cost.usd_per_hour, 4)}"
    most = f"the plan serves {number(plan.most_req_per_s)} and that fleet {number(other.most_req_per_s)}"
    demand = number(comparison.scenario.demand_req_per_s)
    return f"the stated {demand} req/s are served for {bills}; at most, {most}"


def _no(because: str) -> str:
    return f"Cross-site prefill is not worth it here: {because}."


def _alone(comparison: Comparison) -> str:
    """Utilisation of the only site, in words: the reason why nobody misses another one."""
    plan = comparison.plan
    used = [p for p in plan.pools if p.role == "prefill" and p.n_instances > 0]
    if not used or comparison.scenario.demand_req_per_s is None:
        return ""
    busiest = largest(used, lambda p: p.utilization)
    return (
        f", and nothing to lift with it: {number(plan.throughput_req_per_s)} req/s keep {busiest.n_instances} prefill "
        f"{'instance' if busiest.n_instances == 1 else 'instances'} of {busiest.name} busy "
        f"{percent(busiest.utilization)} of the time"
    )


def _lifted(comparison: Comparison) -> str:
    """The bound the plan lifts: what prefill takes of a homogeneous fleet of as many accelerators; and the link."""
    plan = comparison.plan
    busiest = largest(plan.links, lambda link: link.utilization)
    at_most = busiest.mean_gbps * plan.most_req_per_s / plan.throughput_req_per_s
    sends = f"sends {number(at_most)} of {number(busiest.capacity_gbps)} Gbps over {busiest.name}"
    plain = next((o for o in comparison.others if o.name == HOMOGENEOUS), None)
    if plain is None:
        return f"; it {sends}"
    prefill = sum(p.n_instances for p in plain.pools if p.role == "prefill")
    total = sum(p.n_instances for p in plain.pools)
    return (
        f"; it lifts the bound on prefill, which takes {prefill} of {total} instances of a homogeneous fleet of as "
        f"many accelerators and leaves it {number(plain.most_req_per_s)} req/s, and {sends}"
    )


def _stock(comparison: Comparison, others: Sequence[Baseline]) -> str:
    """Effect of more stock on its worth, in words, where fleets with more than can be had were planned."""
    scenario, more = comparison.scenario, [o for o in others if o.beyond_stock]
    if not more:
        return ""
    cheaper = [o for o in more if is_cheaper_for_the_demand(comparison, o)]
    best = cheaper[0] if cheaper else strongest(comparison, more)
    is_stock = bool(cheaper) or margins(comparison, best)[0] <= WORTHWHILE
    start = "Stock is what makes it worth it" if is_stock else "More stock would not change that"
    if cheaper:
        does = (
            f"serve the stated {number(scenario.demand_req_per_s)} req/s for {number(best.cost.usd_per_hour, 4)} USD/h"
        )
    elif scenario.objective == "min-cost":
        does = f"serve the demand for {number(best.cost.usd_per_hour, 4)} USD/h"
    elif scenario.objective == "min-ttft":
        does = f"bring the first token within {number(value_of(scenario, best))} s"
    else:
        does = f"serve {number(best.most_req_per_s)} req/s"
    near = (
        f", within {percent(WORTHWHILE, 0)} of the plan,"
        if is_stock and not cheaper and margins(comparison, best)[0] > 0
        else ""
    )
    return f" {start}: {', '.join(best.beyond_stock)}, would {does}{near} without another site."
