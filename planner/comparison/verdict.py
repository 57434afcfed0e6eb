"""Is prefill in another site worth it here, and why: one sentence a manager can repeat."""

from collections.abc import Sequence

from planner.comparison.alternative_hardware import has_one_site
from planner.comparison.baselines import Compared
from planner.comparison.disaggregation import COLOCATED_ALONE
from planner.comparison.margins import COLOCATED, HOMOGENEOUS, figures, is_fair, margin_key, margins, ttft_s
from planner.comparison.one_site import WORTHWHILE, one_site_verdict
from planner.comparison.planned import Classes
from planner.optimizer.problem import requests_by_name
from planner.results import Baseline, Fleet, Verdict
from planner.scenario import Scenario
from planner.ties import largest
from planner.units import number, percent

LOCAL = ("local-prefill", "mixed-home")
DECISIVE = (
    "cheapest-homogeneous-pd",
    "equal-bill-homogeneous-pd",
    "equal-cost-homogeneous-pd",
    HOMOGENEOUS,
    *LOCAL,
)
"""Baselines that a verdict may rest on: all that send nothing to another site."""
DECIMALS = 6


def verdict(scenario: Scenario, classes: Classes, plan: Fleet, gap: float, compared: Compared) -> Verdict:
    """The verdict on prefill in another site.

    Equation:
        margin = ours / theirs - 1 for rates, 1 - ours / theirs for bills and TTFT; worth it where that is above 1 %,
        decided where it is on one side of 1 % for every plan and opponent within their bounds

    Args:
        scenario: the question.
        classes: its requests.
        plan: the planned fleet.
        gap: relative distance of its objective to its bound.
        compared: what it is compared with.

    Returns:
        Worth it when the plan sends prefill to another site and beats the strongest opponent that can be had: of those
        that serve the demand the cheapest, else of those that cost no more the one that serves most, or soonest.
    """
    if has_one_site(scenario):
        requests = requests_by_name(classes)
        apart = [other for other in compared.others if other.name not in COLOCATED]
        return one_site_verdict(scenario, requests, plan, apart)
    if not any(link.mean_gbps > 0 for link in plan.links):
        if gap > WORTHWHILE:  # a plan that sends something may be better by more than that
            what = "the best plan that was found sends nothing to another site, and one may be up to"
            return Verdict(worth_it=False, because=f"Not decided: {what} {percent(gap)} better.", decided=False)
        return _no(f"the best plan sends nothing to another site{_alone(scenario, plan)}")
    rivals = [o for o in compared.others if o.name in _decisive(scenario) and is_fair(scenario, plan, o)]
    if enough := _cheaper_for_the_demand(scenario, plan, rivals):
        return enough
    can_be_had = [o for o in rivals if not o.beyond_stock]
    if not can_be_had:
        return _without_opponent(scenario, plan, compared, rivals)
    best = largest(can_be_had, lambda o: margin_key(scenario, plan, o))
    return _against(scenario, plan, gap, best, compared, rivals)


def _decisive(scenario: Scenario) -> tuple[str, ...]:
    """Names of the fleets that the verdict may rest on: with a colocated pool also those that keep all in one batch."""
    return DECISIVE if scenario.colocated_pool is None else (*DECISIVE, *COLOCATED, COLOCATED_ALONE)


def _against(
    scenario: Scenario, plan: Fleet, gap: float, other: Baseline, compared: Compared, rivals: Sequence[Baseline]
) -> Verdict:
    """The verdict by one opponent, the strongest that can be had."""
    margin, low, high = margins(scenario, plan, gap, other)
    is_worth, is_clear = margin > WORTHWHILE, not low <= WORTHWHILE < high
    missing = sorted(compared.unknown & set(_decisive(scenario)))
    rounded = round(margin, DECIMALS)
    if not is_clear or (is_worth and missing):
        why = "which is within what is not proven of the two" if not is_clear else ""
        why = why or f"but what {' and '.join(missing)} would do was not found in the time"
        text = f"Not decided: cross-site prefill {figures(scenario, plan, other)}, {why}."
        return Verdict(worth_it=False, because=text, decided=False, margin_fraction=rounded, opponent=other.name)
    said = figures(scenario, plan, other)
    if not is_worth:
        return _no(f"it {said}").model_copy(update={"margin_fraction": rounded, "opponent": other.name})
    how = f"+{percent(margin)}" if scenario.objective == "max-throughput" else f"{percent(margin)} less"
    text = f"Cross-site prefill {said} ({how}){_lifted(plan, compared)}.{_stock(scenario, plan, rivals)}"
    return Verdict(worth_it=True, because=text, margin_fraction=rounded, opponent=other.name)


def _without_opponent(scenario: Scenario, plan: Fleet, compared: Compared, rivals: Sequence[Baseline]) -> Verdict:
    """The verdict where no fleet that can be had does without another site, or none is known."""
    if compared.unknown & set(_decisive(scenario)):
        because = "Not decided: what sites on their own serve was not found in the time."
        return Verdict(worth_it=False, because=because, decided=False)
    if not compared.impossible & {*LOCAL, *DECISIVE[:1], *COLOCATED} and not rivals:
        return _no("no baseline could be planned with the service times at hand, so a gain is not shown")
    promised = any(slo is not None and slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads))
    what = f"Cross-site prefill serves {number(plan.throughput_req_per_s)} req/s{' as promised' if promised else ''}"
    return Verdict(
        worth_it=True,
        because=f"{what}, which no fleet does that can be had at the decoding sites alone."
        f"{_stock(scenario, plan, rivals)}",
    )


def _cheaper_for_the_demand(scenario: Scenario, plan: Fleet, rivals: Sequence[Baseline]) -> Verdict | None:
    """No, where a stated demand is served by a fleet at home that can be had and costs less than the plan."""
    ours = plan.cost.usd_per_hour
    for other in (o for o in rivals if not o.beyond_stock and _is_cheaper_for_the_demand(scenario, plan, o)):
        theirs = other.cost.usd_per_hour
        if ours is not None and theirs is not None:
            said = _no(
                f"the stated {number(scenario.demand_req_per_s)} req/s are served for {number(theirs, 4)} USD/h by "
                f"{other.title}, against {number(ours, 4)}; at most, the plan serves {number(plan.most_req_per_s)} and "
                f"that fleet {number(other.most_req_per_s)}"
            )
            saved = round(1 - ours / theirs, DECIMALS)
            return said.model_copy(update={"margin_fraction": saved, "opponent": other.name})
    return None


def _is_cheaper_for_the_demand(scenario: Scenario, plan: Fleet, other: Baseline) -> bool:
    """Whether a fleet serves the demand that is stated beside a rate to be sought, for less than the plan costs."""
    demand, ours, theirs = scenario.demand_req_per_s, plan.cost.usd_per_hour, other.cost.usd_per_hour
    if scenario.objective != "max-throughput" or demand is None or len(scenario.periods) > 1:
        return False
    return (
        ours is not None and theirs is not None and other.most_req_per_s >= demand and theirs < (1 - WORTHWHILE) * ours
    )


def _no(because: str) -> Verdict:
    return Verdict(worth_it=False, because=f"Cross-site prefill is not worth it here: {because}.")


def _alone(scenario: Scenario, plan: Fleet) -> str:
    """How busy the only site is: the reason why nobody misses another one."""
    used = [p for p in plan.pools if p.role == "prefill" and p.n_instances > 0]
    if not used or scenario.demand_req_per_s is None:
        return ""
    busiest = largest(used, lambda p: p.utilization)
    return (
        f", and nothing to lift with it: {number(plan.throughput_req_per_s)} req/s keep {busiest.n_instances} prefill "
        f"{'instance' if busiest.n_instances == 1 else 'instances'} of {busiest.name} busy "
        f"{percent(busiest.utilization)} of the time"
    )


def _lifted(plan: Fleet, compared: Compared) -> str:
    """The bound the plan lifts: what prefill takes of a homogeneous fleet of as many accelerators; and the link."""
    busiest = largest(plan.links, lambda link: link.utilization)
    at_most = busiest.mean_gbps * plan.most_req_per_s / plan.throughput_req_per_s
    sends = f"sends {number(at_most)} of {number(busiest.capacity_gbps)} Gbps over {busiest.name}"
    plain = next((o for o in compared.others if o.name == HOMOGENEOUS), None)
    if plain is None:
        return f"; it {sends}"
    prefill = sum(p.n_instances for p in plain.pools if p.role == "prefill")
    total = sum(p.n_instances for p in plain.pools)
    return (
        f"; it lifts the bound on prefill, which takes {prefill} of {total} instances of a homogeneous fleet of as "
        f"many accelerators and leaves it {number(plain.most_req_per_s)} req/s, and {sends}"
    )


def _stock(scenario: Scenario, plan: Fleet, rivals: Sequence[Baseline]) -> str:
    """Whether it is worth it for want of accelerators alone, where fleets with more than can be had were planned."""
    more = [o for o in rivals if o.beyond_stock]
    if not more:
        return ""
    cheaper = [o for o in more if _is_cheaper_for_the_demand(scenario, plan, o)]
    best = cheaper[0] if cheaper else largest(more, lambda o: margin_key(scenario, plan, o))
    is_stock = bool(cheaper) or margins(scenario, plan, 0.0, best)[0] <= WORTHWHILE
    start = "Stock is what makes it worth it" if is_stock else "More stock would not change that"
    if cheaper:
        does = (
            f"serve the stated {number(scenario.demand_req_per_s)} req/s for {number(best.cost.usd_per_hour, 4)} USD/h"
        )
    elif scenario.objective == "min-cost":
        does = f"serve the demand for {number(best.cost.usd_per_hour, 4)} USD/h"
    elif scenario.objective == "min-ttft":
        does = f"bring the first token within {number(ttft_s(scenario, best.latency))} s"
    else:
        does = f"serve {number(best.most_req_per_s)} req/s"
    return f" {start}: {', '.join(best.beyond_stock)}, would {does} without another site."
