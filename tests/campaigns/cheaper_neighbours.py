"""Whether a cheaper fleet near a plan would keep its promise too.

    python -m tests.campaigns.cheaper_neighbours --seed 1 --count 40
    python -m tests.campaigns.cheaper_neighbours --plans plans

draws questions as `kept_promises` does, and takes those of least cost about one stream. Each is planned with its runs;
where the plan is called kept, every cheaper fleet of at most two instances more or less in each pool is run with other
seeds, until it is known whether it keeps the promise. Its thresholds are those of the least TTFT that the optimizer
knows for these sizes. A fleet is passed over where one is not kept that has as many instances of every pool or more.
How much dearer the plan is than the cheapest kept fleet is printed. With `--plans` the plans are those that
`kept_promises` wrote, of whatever layouts: fleets of the same layouts with one or two instances less in any pool, or
half of them, that cost 5 % less are run as they are. `cheaper_neighbours.md` holds what it gave.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from planner.comparison import optimize
from planner.errors import PlannerError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.optimizer.layout_choice import planning_problem
from planner.promises.outcomes import time_promises
from planner.promises.verified import verified_plan
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.results.run import Run
from planner.scenario import Scenario, load_scenario
from tests.campaigns.kept_promises import OTHER_SEED, RUNS, SEEDS_APART, promise_data, used_of
from tests.campaigns.random_scenarios import scenario_of

REACH = 2
"""Instances more or less in each pool."""
N_REQUESTS, MOST_REQUESTS = 40_000, 1_280_000
"""Of the run of a fleet: at first, and until it is decided."""
TIME_LIMIT_S = 120.0
EACH_LIMIT_S = 10.0
"""Time limit of the plan, and of the thresholds of a fleet."""
NOTHING = 1e-9
CHEAPER = 0.05
"""Part of the cost of a plan that a fleet of fewer instances saves, to be of interest."""
N_SCREENED, N_LONG, MOST_LONG = 50_000, 300_000, 10
"""Requests of its run at first, and where that does not break the promise; fleets that are run so long."""
Sizes = tuple[int, ...]


class Found(NamedTuple):
    """What became of one question."""

    name: str
    outcome: str
    usd_per_hour: float = 0.0
    """Of the plan."""
    cheapest_usd_per_hour: float = 0.0
    """Of the cheapest fleet that was found to be kept, which may be the plan's."""
    n_cheaper: int = 0
    """Cheaper fleets near it."""
    n_run: int = 0
    n_open: int = 0
    """Fleets that were run and not decided, or whose thresholds were not found in the time."""

    @property
    def dearer(self) -> float:
        """How much dearer the plan is [-]."""
        return self.usd_per_hour / self.cheapest_usd_per_hour - 1 if self.cheapest_usd_per_hour else 0.0


def found(seed: int, time_limit_s: float = TIME_LIMIT_S, runs: RunQuestion = RUNS) -> Found:
    """Plan one question with its runs, and run the cheaper fleets near its plan."""
    data = promise_data(seed)
    if data["objective"] != "min-cost" or data["name"].startswith("net"):
        return Found(data["name"], "not of least cost, or a network")
    scenario = scenario_of(data)
    try:
        plan = verified_plan(scenario, runs, (), time_limit_s)
    except PlannerError as error:
        return Found(scenario.name, f"no plan: {type(error).__name__}")
    told, usd = plan.slo_run, plan.cost.usd_per_hour
    if usd is None or len(plan.periods) > 1 or told is None or not told.holds:
        return Found(scenario.name, "not called kept, or of several periods")
    return near(scenario, plan, usd)


def near(scenario: Scenario, plan: Plan, usd_per_hour: float) -> Found:
    """The cheapest kept fleet near a plan, from the dearest down; what is smaller than one not kept is passed over."""
    fleets = list(cheaper_fleets(scenario, plan))
    lost: list[Sizes] = []
    best, n_run, n_open = usd_per_hour, 0, 0
    for n in fleets:
        if any(all(a <= b for a, b in zip(n, worse, strict=True)) for worse in lost):
            continue
        found = _run(scenario, plan, n)
        if found is None:
            n_open += 1
            continue
        n_run, cost, holds = n_run + 1, *found
        if holds is None:
            n_open += 1
        elif not holds:
            lost.append(n)
        elif cost < best * (1 - NOTHING):
            best = cost
    return Found(scenario.name, "kept", usd_per_hour, best, len(fleets), n_run, n_open)


def cheaper_fleets(scenario: Scenario, plan: Plan) -> Iterator[Sizes]:
    """Sizes by pool of fleets that rent for less, the dearest first."""
    pools = {pool.name: pool for pool in planning_problem(scenario).pools}
    own = [pools[pool.name] for pool in plan.pools]
    steps = []
    for pool, stated in zip(plan.pools, own, strict=True):
        least, most = stated.min_instances, stated.max_instances
        reach = range(pool.n_instances - REACH, pool.n_instances + REACH + 1)
        steps.append([n for n in reach if max(least, 0) <= n and (most is None or n <= most)])
    rents = [pool.usd_per_hour or 0.0 for pool in own]

    def rent(sizes: Sizes) -> float:
        return sum(n * usd for n, usd in zip(sizes, rents, strict=True))

    now = rent(tuple(pool.n_instances for pool in plan.pools))
    cheaper = [sizes for sizes in product(*steps) if rent(sizes) < now * (1 - NOTHING)]
    yield from sorted(cheaper, key=rent, reverse=True)


def _run(scenario: Scenario, plan: Plan, n: Sizes) -> tuple[float, bool | None] | None:
    """What a fleet costs, and whether it keeps the promise, None while that is open; None without thresholds."""
    sizes = {f"pools.{pool.name}.n_instances": k for pool, k in zip(plan.pools, n, strict=True)}
    asked = {"objective": "min-ttft", **({} if scenario.slo is None else {"slo.ttft_s": None})}
    try:
        fleet = optimize(scenario.varied({**asked, **sizes}), time_limit_s=EACH_LIMIT_S)
        question = RunQuestion(N_REQUESTS, OTHER_SEED, 1.0, most_requests=MOST_REQUESTS)
        run, _ = simulate(scenario, fleet, question, enough=lambda run: _verdict(scenario, run) is not None)
    except PlannerError as error:
        return (0.0, False) if error.exit_code == 4 else None  # too small for the demand, or not known
    return fleet.cost.usd_per_hour or 0.0, _verdict(scenario, run)


def fewer(plan: Plan) -> Iterator[tuple[float, Plan]]:
    """Cost and fleet of the same pools with one or two instances less, or half of them; the cheapest first."""
    steps = [
        [p.n_instances - k for k in sorted({0, 1, 2, p.n_instances // 2}) if k < p.n_instances] for p in plan.pools
    ]
    each = [(p.usd_per_hour or 0.0) / max(p.n_instances, 1) for p in plan.pools]
    usd = plan.cost.usd_per_hour or 0.0
    saved = [
        (sum((p.n_instances - k) * u for p, k, u in zip(plan.pools, n, each, strict=True)), n)
        for n in product(*(some or [0] for some in steps))
    ]
    for less, n in sorted(saved, reverse=True):
        if less > CHEAPER * usd:
            yield usd - less, _of_sizes(plan, n)


def _of_sizes(plan: Plan, n: Sizes) -> Plan:
    """The plan with other sizes, in every period as in all of it."""
    pools = tuple(pool.model_copy(update={"n_instances": k}) for pool, k in zip(plan.pools, n, strict=True))
    sizes = {pool.name: pool.n_instances for pool in pools}
    periods = (
        one.model_copy(update={"pools": tuple(p.model_copy(update={"n_instances": sizes[p.name]}) for p in one.pools)})
        for one in plan.periods
    )
    return plan.model_copy(update={"pools": pools, "periods": tuple(periods)})


def of_plan(scenario: Scenario, plan: Plan) -> Found:
    """What became of the fleets of fewer instances of a plan that is kept, of which the cheapest kept one counts."""
    usd = plan.cost.usd_per_hour or 0.0
    if scenario.objective != "min-cost" or len(plan.periods) > 1:
        return Found(scenario.name, "not of least cost, or of several periods")
    best, n_long, n_run, fleets = usd, 0, 0, list(fewer(plan))
    for cost, fleet in fleets:
        if n_long == MOST_LONG or best < usd:
            break
        n_run += 1
        if _most_used(scenario, fleet, N_SCREENED) <= 1:
            n_long += 1
            best = cost if _most_used(scenario, fleet, N_LONG) <= 1 else best
    return Found(scenario.name, "kept", usd, best, len(fleets), n_run)


def _most_used(scenario: Scenario, fleet: Plan, n: int) -> float:
    """What a run takes of the promise nearest to breaking, at the worse end of its interval where it is long [-]."""
    try:
        run, _ = simulate(scenario, fleet, RunQuestion(n, OTHER_SEED, 1.0))
    except PlannerError:
        return float("inf")
    if run.is_transient and n == N_LONG:
        return float("inf")
    return max(high if n == N_LONG else low for _, low, high in used_of(scenario, run))


def _verdict(scenario: Scenario, run: Run) -> bool | None:
    """Whether every promise is kept; None where that is open."""
    promises = list(time_promises(scenario, run))
    if any(p.decided and not p.holds for p in promises):
        return False
    return None if run.is_transient or not all(p.holds for p in promises) else True


def results(asked: argparse.Namespace) -> Iterator[Found]:
    """Of the questions of a seed, or of plans in a folder."""
    if asked.plans is None:
        yield from (found(asked.seed * SEEDS_APART + i) for i in range(asked.count))
        return
    for path in sorted(asked.plans.glob("*.json")):
        stated = path.with_suffix(".toml")
        scenario = load_scenario(stated.read_text(encoding="utf-8"), str(stated), asked.plans)
        yield of_plan(scenario, plan_from(path.read_text(encoding="utf-8"), str(path)))


def main() -> None:
    """Print every question, and how much dearer its plan is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--plans", type=Path)
    for one in results(parser.parse_args()):
        print(
            f"{one.name:<14}{one.usd_per_hour:>9.4g} USD/h  {100 * one.dearer:>5.1f} % dearer  "
            f"{one.n_cheaper:>4} cheaper  {one.n_run:>4} run  {one.n_open:>3} open  {one.outcome}",
            flush=True,
        )


if __name__ == "__main__":
    main()
