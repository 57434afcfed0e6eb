"""The bill as a band: the best plan where all predicted times are at either end of the predictor's error."""

from collections.abc import Sequence
from pathlib import Path

from planner.comparison import best_fleet
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.problem import Problem
from planner.results.plan import Plan
from planner.results.plan_parts import Cost, CostBand
from planner.scenario import Scenario
from planner.studies.sensitivity import InputChange, model_error

LIMIT_S = 10.0
"""For the plan at one end, beyond which that end is unknown: the band must not delay the answer it stands beside."""
NEAR = 0.03
"""Gap of a plan beyond which its bill says more of the search than of the times [fraction]."""
NOT_FOUND = "no plan was found in the time"

UNKNOWN = Cost(
    usd_per_hour=None,
    usd_per_million_input_tokens=None,
    usd_per_million_output_tokens=None,
    accelerators_usd_per_hour=None,
)


def cost_band(
    scenario: Scenario, data_dirs: Sequence[Path] = (), problem: Problem | None = None, plan: Plan | None = None
) -> CostBand | None:
    """Costs of a plan when the times that the roofline predicts are at the ends of its 90 % band.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        problem: the resolved scenario, where there is one, so that a trace is read once.
        plan: that of the scenario, where there is one: plans at the ends have its layouts.

    Returns:
        The bills of the plans made for either end; None where no pool is timed by a stack whose error is known, where
        a price is missing, or where the plan itself was not found nearly enough in the time.

    Valid:
        All predicted pools are off in the same way, which is the worst case: one stack times them.
    """
    if plan is not None:
        if plan.gap > NEAR:
            return None
        scenario = scenario.on_layouts(_layouts(scenario, plan))
    found = next(model_error(scenario, []), None)
    if found is None:
        return None
    (low, why_low), (high, why_high) = (_cost(scenario, change, data_dirs, problem) for change in found.changes)
    if low.usd_per_hour is None and high.usd_per_hour is None:
        return None
    pools = (key.split(".")[1] for key in found.changes[0].keys)
    return CostBand(
        rests_on="90 % band of the error of predicted times",
        pools=tuple(pools),
        low_usd_per_hour=low.usd_per_hour,
        high_usd_per_hour=high.usd_per_hour,
        low_usd_per_million_input_tokens=low.usd_per_million_input_tokens,
        high_usd_per_million_input_tokens=high.usd_per_million_input_tokens,
        no_plan=why_low or why_high,
    )


def _layouts(scenario: Scenario, plan: Plan) -> dict[str, str]:
    """Layouts that the plan chose for pools that leave theirs open; a pool on several is left to choose again."""
    chosen: dict[str, list[str]] = {}
    for pool in plan.pools:
        if pool.key in scenario.pools and scenario.pools[pool.key].layouts and pool.layout is not None:
            chosen.setdefault(pool.key, []).append(pool.layout)
    return {name: layouts[0] for name, layouts in chosen.items() if len(layouts) == 1}


def _cost(
    scenario: Scenario, change: InputChange, data_dirs: Sequence[Path], problem: Problem | None
) -> tuple[Cost, str | None]:
    """The bill of the best plan with a change; unknown, and why, without one, or none near the best in the time."""
    try:
        varied = scenario.varied(change.keys)
        found = best_fleet(varied, data_dirs, LIMIT_S, () if problem is None else problem.classes)
    except InfeasibleError as error:
        return UNKNOWN, _broken(scenario, str(error))
    except (InputError, UndecidedError):
        return UNKNOWN, NOT_FOUND
    return (found.fleet.cost, None) if found.gap <= NEAR else (UNKNOWN, NOT_FOUND)


def _broken(scenario: Scenario, error: str) -> str:
    """The reason for which no fleet will do at an end, of the error that says it and what would do."""
    what = error.partition("\n")[0].removeprefix(f"{scenario.name}: infeasible: ").partition(";")[0].rstrip(".")
    # A pool that cannot run at all: times change what it promises of its steps, and nothing of its memory.
    return f"no fleet as stated keeps the promise on TPOT: {what}" if what.startswith("pools.") else what
