"""Are prefill and decode apart worth it, against the same accelerators that do both in one batch?"""

from planner.comparison.baselines import Compared
from planner.comparison.margins import COLOCATED, figures, is_fair, judged_by, margins
from planner.comparison.one_site import WORTHWHILE
from planner.notes import Note, note
from planner.results import Baseline, Disaggregation, Fleet
from planner.scenario import Scenario, uneven_arrivals
from planner.ties import largest
from planner.units import MILLI, number, percent

DECIMALS = 6
UNEVEN = "colocated fleets are planned for independent users (Poisson), and requests arrive {}"
SLOWER = 1.05
"""Times the plan's time per token, from which on a slower one is pointed out."""


def disaggregation(scenario: Scenario, plan: Fleet, gap: float, compared: Compared) -> Disaggregation | None:
    """The verdict on prefill and decode apart.

    Equation:
        margin = ours / theirs - 1 for rates, 1 - ours / theirs for bills and TTFT; worth it where that is above 1 %,
        decided where it is on one side of 1 % for every plan and opponent within their bounds and bands

    Args:
        scenario: the question.
        plan: the planned fleet.
        gap: relative distance of its objective to its bound.
        compared: what it is compared with.

    Returns:
        Worth it when the plan beats the strongest colocated fleet that can be had, or where there is no such fleet;
        None where there is nothing to compare with.
    """
    colocated = [other for other in compared.others if other.name in COLOCATED]
    judged = [other for other in colocated if judged_by(scenario, plan, other) is not None]
    rivals = [other for other in judged if is_fair(scenario, plan, other)]
    can_be_had = [other for other in rivals if not other.beyond_stock]
    if rivals and not can_be_had and COLOCATED[3] in compared.impossible:
        because = "Prefill and decode apart serve what no colocated fleet does that can be had at the decoding site."
        return Disaggregation(worth_it=True, decided=True, because=because)
    can_be_had = can_be_had or rivals
    if can_be_had:
        best = largest(can_be_had, lambda other: -margins(scenario, plan, gap, other)[1])
        return _against(scenario, plan, gap, best, bool(compared.unknown & set(COLOCATED)))
    if compared.unknown & set(COLOCATED):
        because = "Not decided: it is not known what a colocated fleet would do, for the reason in the notes."
        return Disaggregation(worth_it=False, decided=False, because=because)
    if judged or (not colocated and compared.impossible & set(COLOCATED)):
        because = "Prefill and decode apart serve what no colocated fleet of the same kind does for the same means."
        return Disaggregation(worth_it=True, decided=True, because=because)
    return None


def without_bursts(scenario: Scenario, found: Disaggregation | None) -> tuple[Disaggregation | None, tuple[Note, ...]]:
    """A verdict on prefill and decode apart, not decided where times are promised to requests that arrive otherwise
    than colocated fleets are planned for; and what to know of that.

    Args:
        scenario: the question.
        found: the verdict as fleets were planned.
    """
    how = uneven_arrivals(scenario)
    if found is None or not how or not (scenario.promises_latency or scenario.objective == "min-ttft"):
        return found, ()
    said, planned = UNEVEN.format(how), found.because.removeprefix("Not decided: ")
    because = f"Not decided: {said}. As planned: {planned}"
    update = {"worth_it": False, "decided": False, "because": because}
    return found.model_copy(update=update), (note("opponents-without-bursts", said),)


SEPARATE, COLOCATED_ALONE = "without-colocated", "colocated-alone"
"""Names of fleets of a scenario with both kinds of serving, of one of them alone."""
APART = ("cheapest-homogeneous-pd", "equal-bill-homogeneous-pd", "homogeneous-pd", SEPARATE)
"""Names of fleets that keep prefill and decode apart."""


def apart_instead(scenario: Scenario, plan: Fleet, gap: float, compared: Compared) -> Disaggregation | None:
    """The verdict on prefill and decode apart, of a plan that keeps them in one batch, for short prompts at least.

    Equation:
        margin = theirs / ours - 1 for rates, 1 - theirs / ours for bills and TTFT; worth it where that is above 1 %.
        Where every prompt is prefilled elsewhere the plan itself keeps both apart: the margin of `disaggregation`

    Args:
        scenario: the question.
        plan: the planned fleet.
        gap: relative distance of its objective to its bound.
        compared: what it is compared with.

    Returns:
        Worth it when separate pools of the same accelerators beat the plan; None where there are none to compare with.
    """
    if plan.offload_fraction == 1:
        return disaggregation(scenario, plan, gap, compared)
    rivals = [o for o in compared.others if o.name in APART and is_fair(scenario, plan, o)]
    found = [(o, values) for o in rivals if (values := judged_by(scenario, plan, o)) is not None]
    if not found:
        if compared.unknown & set(APART):
            because = "Not decided: what separate pools would do was not found in the time."
            return Disaggregation(worth_it=False, decided=False, because=because)
        if compared.impossible & set(APART):
            because = "Prefill and decode apart are not worth it here: no such fleet serves this as promised."
            return Disaggregation(worth_it=False, decided=True, because=because)
        return None
    is_rate = scenario.objective == "max-throughput"
    other, (ours, theirs) = largest(found, lambda one: (1 if is_rate else -1) * one[1][1])
    margin = theirs / ours - 1 if is_rate else 1 - theirs / ours
    low, high = _ends(is_rate, (ours, gap), (theirs, other.gap))
    is_worth, is_clear = margin > WORTHWHILE, not low <= WORTHWHILE < high
    start = "are worth it" if is_worth and is_clear else "are not worth it here" if is_clear else "are not decided on"
    how = "in one batch" if plan.offload_fraction == 0 else "short prompts in one batch with decode"
    text = f"Prefill and decode apart {start}: the plan, {how}, {figures(scenario, plan, other)}."
    return Disaggregation(
        worth_it=is_worth and is_clear,
        decided=is_clear,
        because=text,
        margin_fraction=round(margin, DECIMALS),
        opponent=other.name,
    )


def _ends(is_rate: bool, ours: tuple[float, float], theirs: tuple[float, float]) -> tuple[float, float]:
    """The least and greatest margin of an opponent, each value within its gap of its bound."""
    (mine, gap), (other, other_gap) = ours, theirs
    if is_rate:
        return other / (mine * (1 + gap)) - 1, other * (1 + other_gap) / mine - 1
    return 1 - other / (mine * max(1 - gap, 1e-9)), 1 - other * (1 - other_gap) / mine


def _against(scenario: Scenario, plan: Fleet, gap: float, other: Baseline, is_open: bool) -> Disaggregation:
    margin, low, high = margins(scenario, plan, gap, other)
    is_worth, is_clear = margin > WORTHWHILE, not low <= WORTHWHILE < high
    said = f"{figures(scenario, plan, other)}{_slower(scenario, plan, other)}"
    if not is_clear or (is_worth and is_open):
        why = "which is within what is known of the two" if not is_clear else "but others were not found in the time"
        text = f"Not decided: with prefill and decode apart the plan {said}, {why}."
    elif is_worth:
        how = f"+{percent(margin)}" if scenario.objective == "max-throughput" else f"{percent(margin)} less"
        text = f"Prefill and decode apart are worth it: the plan {said} ({how})."
    else:
        text = f"Prefill and decode apart are not worth it here: the plan {said}."
    return Disaggregation(
        worth_it=is_worth and is_clear and not is_open,
        decided=is_clear and not (is_worth and is_open),
        because=text,
        margin_fraction=round(margin, DECIMALS),
        opponent=other.name,
    )


def _slower(scenario: Scenario, plan: Fleet, other: Baseline) -> str:
    """That tokens are slower where nothing limits them."""
    ours, theirs = plan.latency.tpot_mean_s, other.latency.tpot_mean_s
    slos = [scenario.slo_of(name) for name in scenario.workloads]
    is_limited = any(slo is not None and slo.tpot_ms is not None for slo in slos)
    is_limited = is_limited or any(pool.tpot_ms is not None for pool in scenario.pools.values())
    if is_limited or ours is None or theirs is None or theirs <= SLOWER * ours:
        return ""
    apart, together = number(ours / MILLI), number(theirs / MILLI)
    return f", whose output tokens take {together} ms each against {apart} ms, as no slo.tpot_ms limits them"
