"""The Pareto front of cost against throughput, goodput or TTFT: the best plan of every budget."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from planner.comparison import best_fleet
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.notes import Note, note
from planner.progress import Progress
from planner.results.plan import Plan
from planner.results.studies import Against, Front, FrontPoint
from planner.scenario import Scenario, Slo
from planner.units import usd

ANY_RATE = 1e-3
"""A fleet that serves anything at all serves this, of a stated demand or of one request a second [-]."""
ROOM = 1e-9
"""A plan must not fall out of the budget that is its own cost by rounding."""
BETTER = 1e-6
"""A relative gain below this is the solver's rounding."""


def pareto_front(
    scenario: Scenario,
    plan: Plan,
    against: Against,
    n_points: int,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
) -> Front:
    """Plans that no cheaper plan of the front matches.

    Equation:
        b_i = low + i (high - low) / (n - 1); the best plan within each b_i, dominated ones dropped

    Args:
        scenario: the question.
        plan: its plan, whose cost is the highest budget where the scenario states none.
        against: what cost is held against.
        n_points: budgets looked at.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of each single plan.
        progress: is told what is being planned.

    Returns:
        Points by cost. The lowest budget is the least cost that serves anything, for TTFT the demand.

    Raises:
        InputError: prices are missing; goodput without a promise on TTFT; TTFT without a demand.
        InfeasibleError: no fleet serves anything.
    """
    high = _highest_usd_per_hour(scenario, plan)
    question = _question(scenario, against)
    progress(f"{scenario.name}: the cheapest fleet that serves anything")
    cheapest = best_fleet(_cheapest(question, against), data_dirs, time_limit_s).fleet.cost.usd_per_hour or 0.0
    found: list[FrontPoint] = []
    notes: list[Note] = []
    for i, budget_usd in enumerate(budgets(min(cheapest, high), high, n_points)):
        progress(f"{scenario.name}: budget {i + 1} of {n_points}, {usd(budget_usd)} USD/h")
        try:
            asked = question.varied({"budget_usd_per_hour": budget_usd * (1 + ROOM)})
            best = best_fleet(asked, data_dirs, time_limit_s)
        except (InfeasibleError, UndecidedError) as error:
            why = "no plan" if isinstance(error, InfeasibleError) else "no plan was found in the time"
            notes.append(note("budget-without-plan", f"{usd(budget_usd)} USD/h: {why}"))
            continue
        sizes = {pool.name: pool.n_instances for pool in best.fleet.pools}
        spent, threshold = best.fleet.cost.usd_per_hour or 0.0, best.fleet.threshold_tokens
        found.append(
            FrontPoint(
                budget_usd_per_hour=budget_usd,
                usd_per_hour=spent,
                value=best.objective,
                n_instances=sizes,
                threshold_tokens=threshold,
            )
        )
    percentile = (scenario.slo or Slo()).ttft_percentile
    return Front(against=against, percentile=percentile, points=tuple(front_points(found, against)), notes=tuple(notes))


def budgets(low: float, high: float, n: int) -> tuple[float, ...]:
    """Budgets from one to another, both included, evenly.

    >>> budgets(100.0, 160.0, 4), budgets(50.0, 50.0, 4)
    ((100.0, 120.0, 140.0, 160.0), (50.0,))
    """
    if n == 1 or high <= low:
        return (high,)
    return tuple(low + i * (high - low) / (n - 1) for i in range(n))


def front_points(points: Sequence[FrontPoint], against: Against) -> Iterator[FrontPoint]:
    """The points of which no other one is as good for no more money, cheapest first."""
    sign = -1.0 if against == "ttft" else 1.0
    best: float | None = None
    for point in sorted(points, key=lambda p: (p.usd_per_hour, -sign * p.value)):
        if best is None or sign * point.value > best + BETTER * abs(best):
            best = sign * point.value
            yield point


def _question(scenario: Scenario, against: Against) -> Scenario:
    """The scenario whose best plan within a budget is a point of the front."""
    changes: dict[str, Any] = {"objective": "min-ttft" if against == "ttft" else "max-throughput"}
    # What a report shows beside the plan may be of a demand, which the question of a front need not have.
    changes |= {"report": {}, "break_even": []}
    if against == "ttft" and scenario.demand_req_per_s is None:
        what = "is not stated; a front of TTFT needs it"
        raise InputError(scenario.problem(("demand_req_per_s",), what, "a rate above 0"))
    if against == "goodput" and not any(_promises(scenario)):
        what = "is not stated; a front of goodput needs it"
        raise InputError(scenario.problem(("slo", "ttft_s"), what, "seconds above 0; or --pareto throughput"))
    if against != "ttft":
        changes["demand_req_per_s"] = None  # the most that each budget serves, not a demand that all serve
    if against != "goodput" and scenario.slo is not None:
        rest = scenario.slo.model_dump(exclude_none=True, exclude={"ttft_s"})
        keeps = against == "ttft" or "tpot_ms" in rest
        changes["slo"] = rest if keeps else None
    return scenario.varied(changes)


def _promises(scenario: Scenario) -> Iterator[bool]:
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        yield slo is not None and slo.ttft_s is not None


def _cheapest(question: Scenario, against: Against) -> Scenario:
    """The question for the least cost that serves anything; a TTFT has a demand that must be served."""
    demand = question.demand_req_per_s or 1.0
    least = demand if against == "ttft" else demand * ANY_RATE
    changes: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": least, "budget_usd_per_hour": None}
    if against == "ttft" and question.slo is not None and not question.slo.promises_something:
        changes["slo"] = None
    return question.varied(changes)


def _highest_usd_per_hour(scenario: Scenario, plan: Plan) -> float:
    highest = scenario.budget_usd_per_hour or plan.cost.usd_per_hour
    if highest is None:
        what = "a front of cost needs this price"
        raise InputError(scenario.problem(tuple(key.split(".", 1)), what) for key in plan.cost.missing_prices)
    return highest
