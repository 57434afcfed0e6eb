"""The verdict where there is one site: what it costs, what limits it, and what else at hand would cost less."""

from collections.abc import Sequence

from planner.results import Baseline, Fleet, Verdict
from planner.scenario import Scenario
from planner.units import SECONDS_PER_HOUR, number, percent

WORTHWHILE = 0.01
"""A gain below one per cent is less than the service times are known to."""


ROUNDING = 1e-6
IDLE = 0.5
"""Share of the time that a pool works below which its load limits nothing."""
THOUSAND = 1e3


def one_site_verdict(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> Verdict:
    """The verdict without a second site: nothing is to be moved, so what was asked is what the plan costs.

    Args:
        scenario: the question.
        plan: the planned fleet.
        others: other fleets for the same requests, as far as they were planned.
    """
    parts = (_served(plan), _limit(plan), _cheaper(scenario, plan, others))
    return Verdict(worth_it=False, because=" ".join(filter(None, parts)))


def _served(plan: Fleet) -> str:
    text = f"There is one site, so no prefill to move: {number(plan.throughput_req_per_s)} req/s"
    cost = plan.cost
    if cost.usd_per_hour is None:
        missing = ", ".join(cost.missing_prices)
        return f"{text} at a cost that is unknown" + (f" ({missing} not stated)." if missing else ".")
    per_million = number(cost.usd_per_million_input_tokens)
    return f"{text} cost {number(cost.usd_per_hour, 4)} USD/h, {per_million} USD per million input tokens."


def _limit(plan: Fleet) -> str:
    """The pool that is full first."""
    used = [pool for pool in plan.pools if pool.n_instances]
    if not used:
        return ""
    busiest = max(used, key=lambda pool: pool.utilization)
    busy = f"{percent(busiest.utilization)} busy"
    if all(pool.n_instances == 1 for pool in used) and busiest.utilization < IDLE:
        return f"No load binds: one instance of each pool is the least there is, and {busiest.name} is {busy}."
    many = busiest.n_instances > 1
    return (
        f"What binds is {busiest.name}: its {busiest.n_instances} {'instances' if many else 'instance'} of "
        f"{busiest.hardware} {'are' if many else 'is'} {busy}."
    )


def _cheaper(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> str:
    ours = _usd(scenario, plan)
    if ours is None:
        return ""
    enough = [other for other in others if _is_enough(scenario, plan, other)]
    priced = [(usd, other) for other in enough if (usd := _usd(scenario, other)) is not None]
    if not priced:
        return "No other layout or kind of accelerators at hand could be planned to compare with."
    usd, best = min(priced, key=lambda item: item[0])
    unit = "USD/h" if scenario.objective != "max-throughput" else "USD per thousand requests"
    figures = f"{best.title}, {number(usd, 4)} {unit}"
    if usd < (1 - WORTHWHILE) * ours:
        return f"Cheaper would be: {figures}, {percent(1 - usd / ours)} less{_doubt(plan, best)}."
    if len(priced) == 1:
        return f"The only other fleet that was planned is not cheaper: {figures}."
    return f"None of the {len(priced)} other fleets that were planned is cheaper; the best is {figures}."


def _is_enough(scenario: Scenario, plan: Fleet, other: Fleet) -> bool:
    """Whether another fleet serves the rate that the plan is for; where the rate is sought, all do."""
    return scenario.objective == "max-throughput" or other.most_req_per_s >= (1 - ROUNDING) * plan.throughput_req_per_s


def _usd(scenario: Scenario, fleet: Fleet) -> float | None:
    """What a fleet is judged by: its bill, or with the rate as objective that of a thousand requests at most [USD]."""
    bill = fleet.cost.usd_per_hour
    if bill is None or scenario.objective != "max-throughput":
        return bill
    return THOUSAND * bill / (SECONDS_PER_HOUR * fleet.most_req_per_s) if fleet.most_req_per_s > 0 else None


def _doubt(plan: Fleet, other: Fleet) -> str:
    """What a saving rests on, where times are less certain than the plan's."""
    known = {pool.basis for pool in plan.pools}
    unsure = sorted({pool.basis for pool in other.pools} - known - {"measured"})
    return f" (with times that are {' and '.join(unsure)})" if unsure else ""
