"""The verdict: which kind of serving is best here, and why, in sentences a manager can repeat."""

from planner.comparison.alternative_hardware import has_one_site
from planner.comparison.baselines import Compared
from planner.comparison.cross_site import cross_site
from planner.comparison.disaggregation import disaggregation
from planner.comparison.margins import Comparison, stated_margin
from planner.comparison.one_site import one_site_text
from planner.comparison.planned import Classes
from planner.comparison.recommendation import despite_bursts, recommended
from planner.optimizer.problem import requests_by_name
from planner.results import Fleet, Verdict
from planner.scenario import Scenario


def verdict(scenario: Scenario, classes: Classes, plan: Fleet, gap: float, compared: Compared) -> Verdict:
    """The verdict on a plan: the kind of serving to recommend, from which all else follows.

    Args:
        scenario: the question.
        classes: its requests.
        plan: the planned fleet.
        gap: relative distance of its objective to its bound.
        compared: what it is compared with.

    Returns:
        The kind that `recommended` leaves, if it is one. Prefill in another site, and prefill and decode apart, are
        worth it where that is such a kind, and decided where all kinds that are possible agree.
    """
    comparison = Comparison(scenario, plan, gap, compared.others, compared.impossible, compared.unknown)
    comparison = recommended(comparison)
    kinds, opponent = comparison.kinds, None
    if has_one_site(scenario):
        because = one_site_text(scenario, requests_by_name(classes), plan, compared.others)
    else:
        because, opponent = cross_site(comparison)
        because = despite_bursts(comparison, because) if "separate-sites" in kinds else because
    return Verdict(
        recommendation=next(iter(kinds)) if len(kinds) == 1 else None,
        worth_it=kinds == {"separate-sites"},
        because=because,
        decided="separate-sites" not in kinds or len(kinds) == 1,
        margin_fraction=stated_margin(comparison, opponent),
        opponent=None if opponent is None else opponent.name,
        disaggregation=disaggregation(comparison),
    )
