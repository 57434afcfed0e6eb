"""Worth of prefill and decode apart, in whatever site, against fleets that do both in one batch."""

from planner.comparison.margins import (
    ALTERNATIVES,
    TOGETHER,
    WORTHWHILE,
    Comparison,
    figures,
    margins,
    signed,
    stated_margin,
    strongest,
)
from planner.comparison.recommendation import APART, despite_bursts, rivals
from planner.results import Baseline, Disaggregation
from planner.units import number


def disaggregation(comparison: Comparison) -> Disaggregation | None:
    """The verdict on prefill and decode apart, in whatever site: against fleets that do both in one batch.

    Args:
        comparison: the plan and what it is compared with.

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
        because=despite_bursts(comparison, because),
        margin_fraction=stated_margin(comparison, opponent),
        opponent=None if opponent is None else opponent.name,
    )


def _for_the_demand(comparison: Comparison) -> str:
    """Worth of prefill and decode apart for a stated demand that fleets at home serve for less than the plan."""
    best = {o.serving: o for o in reversed(comparison.cheaper)}
    fleets = (f"for {number(o.cost.usd_per_hour, 4)} USD/h by {o.title}" for o in best.values())
    said = f"the stated {number(comparison.scenario.demand_req_per_s)} req/s are served {' and '.join(fleets)}"
    if len(comparison.kinds) > 1:
        return f"Not decided: {said}, and the least bill of either was not sought."
    return f"Prefill and decode apart are {'' if comparison.kinds <= APART else 'not '}worth it here: {said}."


def _apart_alone(comparison: Comparison, is_apart: bool) -> str | None:
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


def _apart(comparison: Comparison, other: Baseline) -> str:
    """Worth of prefill and decode apart against one opponent, or for one where the plan is in one batch."""
    kinds, is_apart = comparison.kinds, comparison.plan.serving in APART
    margin, low, high = margins(comparison, other)
    how = "" if is_apart else ", in one batch,"
    said = f"the plan{how} {figures(comparison, other)}"
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
