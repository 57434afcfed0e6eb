"""The verdict where there is one site: what it costs, what limits it, and what else at hand would cost less."""

import shlex
from collections.abc import Iterator, Sequence

from planner.comparison.alternative_hardware import BEST_OF_EACH, each_once, has_one_site
from planner.comparison.home import Requests
from planner.comparison.margins import SEPARATE, TOGETHER, WORTHWHILE
from planner.notes import Note, note
from planner.optimizer.service_times import Decoded, batch_limit_words
from planner.results.fleet_merit import ROUNDING
from planner.results.plan import Baseline, Fleet, PoolPlan
from planner.scenario import Scenario
from planner.ties import largest
from planner.units import SECONDS_PER_HOUR, number, percent, usd

IDLE = 0.5
"""Share of the time that a pool works below which its load limits nothing."""
THOUSAND = 1e3
OF_ONE_SERVING = (*TOGETHER, SEPARATE)
"""Names of fleets of which the recommendation says how good they are."""


def one_site_text(scenario: Scenario, requests: Requests, plan: Fleet, others: Sequence[Baseline]) -> str:
    """The verdict without a second site: nothing is to be moved, so what was asked is what the plan costs.

    Args:
        others: other fleets for the same requests, as far as they were planned.
    """
    alike = [other for other in others if other.name not in OF_ONE_SERVING]
    cheaper = _cheaper(scenario, plan, alike) if alike or scenario.colocated_pool is None else ""
    return " ".join(filter(None, (_served(plan), _limit(scenario, requests, plan), cheaper)))


def adoption(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> Iterator[Note]:
    """Note on how to ask for the other fleet that the verdict names, where that is better than the plan.

    Returns:
        Nothing where there are several sites: there a verdict is about where to prefill.
    """
    if not has_one_site(scenario):
        return
    best = _best(scenario, plan, [other for other in others if other.name not in OF_ONE_SERVING])
    if best is not None and best.changes and (_saves(scenario, plan, best) or _serves_more(scenario, plan, best)):
        changes = " ".join(f"--set {shlex.quote(change)}" for change in best.changes)
        yield note("cheaper-fleet", f"with {changes} the plan is that fleet: {best.title}")


def worth_listing(scenario: Scenario, others: Sequence[Baseline]) -> tuple[Baseline, ...]:
    """Every fleet once, and all changes together only where that is better than each of them alone."""
    kept = each_once(sorted(others, key=lambda other: not other.changes))  # of two names that which can be adopted
    single = [other for other in kept if other.changes and other.name != BEST_OF_EACH]
    names = {
        other.name
        for other in kept
        if other.name != BEST_OF_EACH or all(_beats(scenario, other, one) for one in single)
    }
    return tuple(other for other in others if other.name in names)


def _served(plan: Fleet) -> str:
    text = f"{number(plan.throughput_req_per_s)} req/s"
    cost = plan.cost
    if cost.usd_per_hour is None:
        missing = ", ".join(cost.missing_prices)
        return f"{text} at a cost that is unknown" + (f" ({missing} not stated)." if missing else ".")
    per_million = number(cost.usd_per_million_input_tokens)
    return f"{text} cost {usd(cost.usd_per_hour)} USD/h, {per_million} USD per million input tokens."


def _limit(scenario: Scenario, requests: Requests, plan: Fleet) -> str:
    """The pool that is full first."""
    used = [pool for pool in plan.pools if pool.n_instances]
    if not used:
        return ""
    busiest = largest(used, lambda pool: pool.utilization)
    busy = f"{percent(busiest.utilization)} busy"
    if all(pool.n_instances == 1 for pool in used) and busiest.utilization < IDLE:
        return f"No load binds: one instance of each pool is the least there is, and {busiest.name} is {busy}."
    many = busiest.n_instances > 1
    why = filter(None, (_why(scenario, plan, busiest), _batch(scenario, requests, busiest)))
    return (
        f"What binds is {busiest.name}: its {busiest.n_instances} {'instances' if many else 'instance'} of "
        f"{busiest.hardware} {'are' if many else 'is'} {busy}{''.join(f'; {text}' for text in why)}."
    )


def _why(scenario: Scenario, plan: Fleet, pool: PoolPlan) -> str:
    """Why a pool that is not full is the limit."""
    n = pool.n_instances
    if scenario.objective == "min-cost" and n > 1 and pool.utilization * n > n - 1:
        return "one less would be over its capacity"
    if plan.goodput_req_per_s is not None:
        return f"the promise on TTFT holds up to {number(plan.goodput_req_per_s)} req/s only"
    return ""


def _batch(scenario: Scenario, requests: Requests, pool: PoolPlan) -> str:
    """Limit of the batches of a decode pool, in words."""
    stated = scenario.pools.get(pool.name)
    if stated is None or pool.role != "decode" or pool.batch_limit is None:
        return ""
    run = stated.on_layout(pool.layout)
    decoded = Decoded.of([requests[name] for name in scenario.classes_of(stated)])
    limit = batch_limit_words(scenario, run, pool.batch_limit, decoded)
    return f"its batches of {number(pool.batch_limit)} are limited by {limit}" if limit else ""


def _cheaper(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> str:
    ours = _usd(scenario, plan)
    if ours is None:
        return ""
    best = _best(scenario, plan, others)
    theirs = None if best is None else _usd(scenario, best)
    if best is None or theirs is None:
        is_chosen = all(scenario.open_pool(name).layouts for name in scenario.pools)
        what = "kind of accelerators" if is_chosen else "layout or kind of accelerators"
        return f"No other {what} at hand could be planned to compare with."
    is_by_hour = scenario.objective != "max-throughput"
    price = f"{usd(theirs)} USD/h" if is_by_hour else f"{number(theirs, 4)} USD per thousand requests"
    figures = f"{best.title}, {price}"
    if _saves(scenario, plan, best):
        return f"Cheaper would be: {figures}, {percent(1 - theirs / ours)} less{_doubt(plan, best)}."
    if _serves_more(scenario, plan, best):
        most = f"{number(best.most_req_per_s)} req/s at most instead of {number(plan.most_req_per_s)}"
        return f"None at hand is cheaper, but for the same bill {best.title} serves {most}{_doubt(plan, best)}."
    n = len(_enough(scenario, plan, others))
    if n == 1:
        return f"The only other fleet that was planned is not cheaper: {figures}."
    return f"None of the {n} other fleets that were planned is cheaper; the best is {figures}."


def _enough(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> list[Baseline]:
    """Fleets whose bill is known that serve what the plan serves."""
    return [o for o in others if _is_enough(scenario, plan, o) and _usd(scenario, o) is not None]


def _best(scenario: Scenario, plan: Fleet, others: Sequence[Baseline]) -> Baseline | None:
    """The cheapest of them; of the same bill that which serves most."""
    best: Baseline | None = None
    for other in _enough(scenario, plan, others):
        if best is None or _beats(scenario, other, best):
            best = other
    return best


def _beats(scenario: Scenario, one: Fleet, other: Fleet) -> bool:
    """True if a fleet costs less than another, or serves more for the same; without a bill, on fewer accelerators."""
    ours, theirs = (_usd(scenario, fleet) for fleet in (one, other))
    if ours is None or theirs is None:
        ours, theirs = (fleet.n_accelerators / max(fleet.most_req_per_s, ROUNDING) for fleet in (one, other))
    if abs(ours - theirs) > ROUNDING * theirs:
        return ours < theirs
    return one.most_req_per_s > (1 + ROUNDING) * other.most_req_per_s


def _saves(scenario: Scenario, plan: Fleet, other: Fleet) -> bool:
    ours, theirs = _usd(scenario, plan), _usd(scenario, other)
    return ours is not None and theirs is not None and theirs < (1 - WORTHWHILE) * ours


def _serves_more(scenario: Scenario, plan: Fleet, other: Fleet) -> bool:
    """True if another fleet serves more for a bill that is no higher."""
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    if scenario.objective == "max-throughput" or ours is None or theirs is None:
        return False
    return theirs <= (1 + ROUNDING) * ours and other.most_req_per_s > (1 + WORTHWHILE) * plan.most_req_per_s


def _is_enough(scenario: Scenario, plan: Fleet, other: Fleet) -> bool:
    """True if another fleet serves the rate that the plan is for; where the rate is sought, all do."""
    return scenario.objective == "max-throughput" or other.most_req_per_s >= (1 - ROUNDING) * plan.throughput_req_per_s


def _usd(scenario: Scenario, fleet: Fleet) -> float | None:
    """Bill to judge a fleet by: its own, or with the rate as objective that of a thousand requests at most [USD]."""
    bill = fleet.cost.usd_per_hour
    if bill is None or scenario.objective != "max-throughput":
        return bill
    return THOUSAND * bill / (SECONDS_PER_HOUR * fleet.most_req_per_s) if fleet.most_req_per_s > 0 else None


def _doubt(plan: Fleet, other: Fleet) -> str:
    """Doubt about a saving that rests on times less certain than the plan's."""
    known = {pool.basis for pool in plan.pools}
    unsure = sorted({pool.basis for pool in other.pools} - known - {"measured"})
    return f" (with times that are {' and '.join(unsure)})" if unsure else ""
