"""The verdict: which kind of serving is best here, and why, in sentences a manager can repeat."""

from collections.abc import Sequence

from planner.comparison.alternative_hardware import has_one_site
from planner.comparison.baselines import Compared
from planner.comparison.margins import (
    ALTERNATIVES,
    HOMOGENEOUS,
    TOGETHER,
    WORTHWHILE,
    PlanComparison,
    is_cheaper_for_the_demand,
    margins,
    performance_text,
    signed,
    stated_margin,
    strongest,
    value_of,
)
from planner.comparison.one_site import one_site_text
from planner.comparison.planned import Classes
from planner.comparison.recommendation import APART, despite_doubts, recommended, rivals
from planner.optimizer.problem_parts import requests_by_name
from planner.results.plan import Baseline, Disaggregation, Fleet, Verdict
from planner.scenario import Scenario
from planner.ties import largest
from planner.units import number, percent


def verdict(scenario: Scenario, classes: Classes, plan: Fleet, gap: float, compared: Compared) -> Verdict:
    """The verdict on a plan: the kind of serving to recommend, from which all else follows.

    Returns:
        The kind that `recommended` leaves, if it is one. Prefill in another site, and prefill and decode apart, are
        worth it where that is such a kind, and decided where all kinds that are possible agree.
    """
    comparison = PlanComparison(scenario, plan, gap, compared.others, compared.impossible, compared.unknown)
    comparison = recommended(comparison)
    kinds, opponent = comparison.kinds, None
    if has_one_site(scenario):
        because = one_site_text(scenario, requests_by_name(classes), plan, compared.others)
    else:
        because, opponent = cross_site(comparison)
        because = despite_doubts(comparison, because) if "separate-sites" in kinds else because
    return Verdict(
        recommendation=next(iter(kinds)) if len(kinds) == 1 else None,
        worth_it=kinds == {"separate-sites"},
        because=because,
        decided="separate-sites" not in kinds or len(kinds) == 1,
        margin_fraction=stated_margin(comparison, opponent),
        opponent=None if opponent is None else opponent.name,
        disaggregation=disaggregation(comparison),
    )


def disaggregation(comparison: PlanComparison) -> Disaggregation | None:
    """The verdict on prefill and decode apart, in whatever site: against fleets that do both in one batch.

    Returns:
        None where the plan is compared with none of the other side.
    """
    kinds, is_apart = comparison.kinds, comparison.plan.serving in APART
    others = [o for o in rivals(comparison) if (o.serving in APART) != is_apart]
    can_be_had = [o for o in others if not o.beyond_stock]
    because, opponent = _apart_alone(comparison, is_apart), None
    if comparison.cheaper:
        because = _for_the_demand(comparison)
    elif can_be_had:
        opponent = strongest(comparison, can_be_had, is_open=bool(kinds & APART) and "colocated" in kinds)
        because = _apart(comparison, opponent)
    if because is None:
        return None
    return Disaggregation(
        worth_it=kinds <= APART,
        decided=kinds <= APART or kinds == {"colocated"},
        because=despite_doubts(comparison, because),
        margin_fraction=stated_margin(comparison, opponent),
        opponent=None if opponent is None else opponent.name,
    )


def _for_the_demand(comparison: PlanComparison) -> str:
    """Worth of prefill and decode apart for a stated demand that fleets at home serve for less than the plan."""
    best = {o.serving: o for o in reversed(comparison.cheaper)}
    fleets = (f"for {number(o.cost.usd_per_hour, 4)} USD/h by {o.title}" for o in best.values())
    said = f"the stated {number(comparison.scenario.demand_req_per_s)} req/s are served {' and '.join(fleets)}"
    if len(comparison.kinds) > 1:
        return f"Not decided: {said}, and the least bill of either was not sought."
    return f"Prefill and decode apart are {'' if comparison.kinds <= APART else 'not '}worth it here: {said}."


def _apart_alone(comparison: PlanComparison, is_apart: bool) -> str | None:
    """Worth of prefill and decode apart where no fleet of the other side can be had; None: none was asked for."""
    names = set(TOGETHER) if is_apart else set(ALTERNATIVES) - set(TOGETHER)
    if comparison.unknown & names:
        what = "a colocated fleet would do, for the reason in the notes" if is_apart else "pools apart would do"
        return f"Not decided: it is not known what {what}."
    if not (comparison.impossible & names or any(other.name in names for other in comparison.others)):
        return None
    if is_apart:
        return "Prefill and decode apart serve what no colocated fleet does that can be had at the decoding site."
    return "Prefill and decode apart are not worth it here: no such fleet serves this as promised."


def _apart(comparison: PlanComparison, other: Baseline) -> str:
    """Worth of prefill and decode apart against one opponent, or for one where the plan is in one batch."""
    kinds, is_apart = comparison.kinds, comparison.plan.serving in APART
    margin, low, high = margins(comparison, other)
    how = "" if is_apart else ", in one batch,"
    said = f"the plan{how} {performance_text(comparison, other)}"
    if kinds <= APART:
        return f"Prefill and decode apart are worth it: {said} ({signed(comparison.scenario, margin)})."
    if kinds != {"colocated"}:
        is_missing = low > WORTHWHILE and comparison.unknown
        as_good = "but the proven bounds leave open which is better"
        why = "but what others would do is not known" if is_missing else as_good
        return f"Not decided: {'with prefill and decode apart ' if is_apart else ''}{said}, {why}."
    is_worse = high < -WORTHWHILE if is_apart else low > WORTHWHILE
    if is_worse:
        return f"Prefill and decode apart are not worth it here: {said}."
    return f"Prefill and decode apart are as good as one batch here, and no better: {said}."


def cross_site(comparison: PlanComparison) -> tuple[str, Baseline | None]:
    """Verdict on prefill in another site, where there is one, and the fleet that it rests on."""
    kinds = comparison.kinds
    if comparison.cheaper:
        return _no(_by_the_demand(comparison, comparison.cheaper[0])), comparison.cheaper[0]
    if comparison.plan.serving != "separate-sites":
        return _sends_nothing(comparison), None
    others = [o for o in rivals(comparison) if o.serving != "separate-sites"]
    can_be_had = [o for o in others if not o.beyond_stock]
    if not can_be_had:
        return _without_opponent(comparison, others), None
    best = strongest(comparison, can_be_had, is_open="separate-sites" in kinds and len(kinds) > 1)
    said = performance_text(comparison, best)
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


def _without_opponent(comparison: PlanComparison, beyond: Sequence[Baseline]) -> str:
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


def _sends_nothing(comparison: PlanComparison) -> str:
    """Verdict on a plan at home."""
    if "separate-sites" in comparison.kinds:
        what = "the best plan that was found sends nothing to another site, and one may be up to"
        return f"Not decided: {what} {percent(comparison.gap)} better."
    return _no(f"the best plan sends nothing to another site{_alone(comparison)}")


def _by_the_demand(comparison: PlanComparison, other: Baseline) -> str:
    plan = comparison.plan
    bills = f"{number(other.cost.usd_per_hour, 4)} USD/h by {other.title}, against {number(plan.cost.usd_per_hour, 4)}"
    most = f"the plan serves {number(plan.most_req_per_s)} and that fleet {number(other.most_req_per_s)}"
    demand = number(comparison.scenario.demand_req_per_s)
    return f"the stated {demand} req/s are served for {bills}; at most, {most}"


def _no(because: str) -> str:
    return f"Cross-site prefill is not worth it here: {because}."


def _alone(comparison: PlanComparison) -> str:
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


def _lifted(comparison: PlanComparison) -> str:
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


def _stock(comparison: PlanComparison, others: Sequence[Baseline]) -> str:
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
