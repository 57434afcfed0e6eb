"""What prefill and decode apart are worth, in whatever site, against fleets that do both in one batch."""

from collections.abc import Sequence

from planner.comparison.baselines import Compared
from planner.comparison.margins import (
    ALTERNATIVES,
    TOGETHER,
    WORTHWHILE,
    figures,
    margins,
    signed,
    stated_margin,
    strongest,
)
from planner.comparison.recommendation import APART, Possible, despite_bursts, rivals, serving_of
from planner.results import Baseline, Disaggregation, Fleet
from planner.scenario import Scenario
from planner.units import number


def disaggregation(
    scenario: Scenario, plan: Fleet, gap: float, compared: Compared, kinds: Possible, cheaper: Sequence[Baseline]
) -> Disaggregation | None:
    """The verdict on prefill and decode apart, in whatever site: against fleets that do both in one batch.

    Args:
        scenario: the question.
        plan: the planned fleet.
        gap: relative distance of its objective to its bound.
        compared: what it is compared with.
        kinds: of serving that may be recommended.
        cheaper: fleets that serve a stated demand for less than the plan, the cheapest first.

    Returns:
        None where the plan is compared with none of the other side.
    """
    is_apart = serving_of(plan) in APART
    others = [o for o in rivals(scenario, plan, compared) if (serving_of(o) in APART) != is_apart]
    can_be_had = [o for o in others if not o.beyond_stock]
    because, opponent = _apart_alone(compared, is_apart), None
    if cheaper:
        because = _for_the_demand(scenario, kinds, cheaper)
    elif can_be_had:
        is_open = bool(kinds & APART) and "colocated" in kinds
        opponent = strongest(scenario, plan, gap, can_be_had, is_open=is_open)
        because = _apart(scenario, plan, gap, opponent, compared, kinds)
    if because is None:
        return None
    return Disaggregation(
        worth_it=kinds <= APART,
        decided=kinds <= APART or kinds == {"colocated"},
        because=despite_bursts(scenario, because, kinds),
        margin_fraction=stated_margin(scenario, plan, opponent),
        opponent=None if opponent is None else opponent.name,
    )


def _for_the_demand(scenario: Scenario, kinds: Possible, cheaper: Sequence[Baseline]) -> str:
    """What prefill and decode apart are worth for a stated demand that fleets at home serve for less than the plan."""
    best = {serving_of(o): o for o in reversed(cheaper)}
    fleets = (f"for {number(o.cost.usd_per_hour, 4)} USD/h by {o.title}" for o in best.values())
    said = f"the stated {number(scenario.demand_req_per_s)} req/s are served {' and '.join(fleets)}"
    if len(kinds) > 1:
        return f"Not decided: {said}, and the least bill of either was not sought."
    return f"Prefill and decode apart are {'' if kinds <= APART else 'not '}worth it here: {said}."


def _apart_alone(compared: Compared, is_apart: bool) -> str | None:
    """What prefill and decode apart are worth where no fleet of the other side can be had; None: none was asked for."""
    names = set(TOGETHER) if is_apart else set(ALTERNATIVES) - set(TOGETHER)
    if compared.unknown & names:
        what = "a colocated fleet would do, for the reason in the notes" if is_apart else "pools apart would do"
        return f"Not decided: it is not known what {what}."
    if not (compared.impossible & names or any(other.name in names for other in compared.others)):
        return None
    if is_apart:
        return "Prefill and decode apart serve what no colocated fleet does that can be had at the decoding site."
    return "Prefill and decode apart are not worth it here: no such fleet serves this as promised."


def _apart(scenario: Scenario, plan: Fleet, gap: float, other: Baseline, compared: Compared, kinds: Possible) -> str:
    """What prefill and decode apart are worth against one opponent, or for one where the plan is in one batch."""
    margin, low, high = margins(scenario, plan, gap, other)
    is_apart = serving_of(plan) in APART
    how = "" if is_apart else ", in one batch,"
    said = f"the plan{how} {figures(scenario, plan, other)}"
    if kinds <= APART:
        return f"Prefill and decode apart are worth it: {said} ({signed(scenario, margin)})."
    if kinds != {"colocated"}:
        is_missing = low > WORTHWHILE and compared.unknown
        as_good = "which is as good within what is known of the two"
        why = "but what others would do is not known" if is_missing else as_good
        return f"Not decided: {'with prefill and decode apart ' if is_apart else ''}{said}, {why}."
    is_worse = high < -WORTHWHILE if is_apart else low > WORTHWHILE
    if is_worse:
        return f"Prefill and decode apart are not worth it here: {said}."
    return f"Prefill and decode apart are as good as one batch here, and no better: {said}."
