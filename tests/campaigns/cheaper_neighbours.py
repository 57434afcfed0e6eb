"""Whether a cheaper fleet near a plan would keep its promise too.

    python -m tests.campaigns.cheaper_neighbours --seed 1 --count 40

draws questions as `kept_promises` does, and takes those of least cost about one stream. Each is planned with its runs;
where the plan is called kept, every cheaper fleet of at most two instances more or less in each pool is run with other
seeds, until it is known whether it keeps the promise. Its thresholds are those of the least TTFT that the optimizer
knows for these sizes. A fleet is passed over where one is not kept that has as many instances of every pool or more.
How much dearer the plan is than the cheapest kept fleet is printed. `cheaper_neighbours.md` holds what it gave.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from planner.comparison import optimize
from planner.errors import PlannerError
from planner.executor import RunQuestion, simulate
from planner.optimizer import planning_problem
from planner.promises.outcomes import time_promises
from planner.promises.verified import verified_plan
from planner.results import Plan, Run
from planner.scenario import Scenario
from tests.campaigns.kept_promises import OTHER_SEED, RUNS, SEEDS_APART, promise_data
from tests.campaigns.random_scenarios import scenario_of

REACH = 2
"""Instances more or less in each pool."""
N_REQUESTS, MOST_REQUESTS = 40_000, 1_280_000
"""Of the run of a fleet: at first, and until it is decided."""
TIME_LIMIT_S = 120.0
EACH_LIMIT_S = 10.0
"""Time limit of the plan, and of the thresholds of a fleet."""
NOTHING = 1e-9
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


def _verdict(scenario: Scenario, run: Run) -> bool | None:
    """Whether every promise is kept; None where that is open."""
    promises = list(time_promises(scenario, run))
    if any(p.decided and not p.holds for p in promises):
        return False
    return None if run.is_transient or not all(p.holds for p in promises) else True


def main() -> None:
    """Print every question, and how much dearer its plan is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    asked = parser.parse_args()
    for i in range(asked.count):
        one = found(asked.seed * SEEDS_APART + i)
        print(
            f"{one.name:<14}{one.usd_per_hour:>9.4g} USD/h  {100 * one.dearer:>5.1f} % dearer  "
            f"{one.n_cheaper:>4} cheaper  {one.n_run:>4} run  {one.n_open:>3} open  {one.outcome}",
            flush=True,
        )


if __name__ == "__main__":
    main()
