"""Whether promises that `planner optimize` calls kept are kept in long runs with other seeds.

    python -m tests.campaigns.kept_promises --seed 1 --count 200

draws scenarios that promise a percentile of TTFT: one to three sites, outputs constant to a squared variation of 20,
gaps between arrivals with a squared variation of 0.25 to 4, percentiles from the median to 99.9. Each is planned with
its runs, and what is called kept is run again with other seeds. A promise is broken where the whole 95 % interval of
that run lies beyond it. `kept_promises.md` holds what it gave.
"""

import argparse
from collections import Counter
from math import log
from time import process_time
from typing import NamedTuple

import numpy as np

from planner.errors import PlannerError
from planner.executor import RunQuestion, simulate, simulate_periods
from planner.promises.outcomes import STEP, time_promises
from planner.promises.verified import verified_plan
from planner.results import Plan, Promise
from planner.scenario import Scenario
from tests.campaigns.random_scenarios import Data, Random, network_data, one_site_data, scenario_of

RUNS = RunQuestion(200_000, 0, most_requests=6_400_000)
"""As `planner optimize` runs plans."""
N_REQUESTS = 1_000_000
N_REPLICATIONS = 10
OTHER_SEED = 9001
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
MOST_OUTPUT_SCV = 20.0
TIME_LIMIT_S = 120.0
SEEDS_APART = 10_000


class Result(NamedTuple):
    """What became of one scenario."""

    name: str
    outcome: str
    """kept or broken, of what is called kept; else what the plan says of itself."""
    promised_s: float = 0.0
    used: float = 0.0
    """What the long run took of what is promised [-]."""
    used_low: float = 0.0
    """The lower end of its interval [-]."""
    seconds: float = 0.0
    """CPU time of the plan, runs included."""


def promise_data(seed: int) -> Data:
    """A question with a promise; all depends on the seed."""
    draw = Random(np.random.default_rng([3, seed]))
    objective = draw.one_of("max-throughput", "min-cost", "min-cost")
    is_network = draw.chance(0.3)
    data = network_data(seed, objective) if is_network else one_site_data(seed, False, objective, promises=False)
    workloads = [data] if "workload" in data else list(data["classes"].values())
    for holder in workloads:
        holder["workload"]["output_lengths"] = _outputs(draw)
        holder["workload"]["arrivals"] = {"kind": "gamma", "squared_cv": draw.spread(0.25, 4.0)}
    data.get("routing", {}).pop("prefill_to_decode", None)  # is planned without a promise, or as the only limit
    slowest = max(float(curve["prefill"]["seconds"][2]) for curve in data["measured"].values())
    data["slo"] = {
        "ttft_s": float(f"{slowest * draw.spread(0.5, 5.0):.4g}"),
        "ttft_percentile": draw.one_of(*PERCENTILES),
    }
    return data


def _outputs(draw: Random) -> Data:
    """Answers of one length, or log-normal ones."""
    mean, scv = draw.spread(100, 1200), draw.one_of(0.0, draw.spread(0.1, MOST_OUTPUT_SCV))
    if scv == 0:
        return {"kind": "constant", "tokens": round(mean)}
    spread = log(1 + scv)
    mu, sigma = float(f"{log(mean) - spread / 2:.4g}"), float(f"{spread**0.5:.4g}")
    return {"kind": "lognormal", "mu": mu, "sigma": sigma, "low_tokens": 1, "high_tokens": 100_000}


def result(seed: int, time_limit_s: float = TIME_LIMIT_S, runs: RunQuestion = RUNS, n: int = N_REQUESTS) -> Result:
    """Plan one scenario with its runs, and run it again with other seeds, n requests in every period."""
    scenario = scenario_of(promise_data(seed))
    began = process_time()
    try:
        plan = verified_plan(scenario, runs, (), time_limit_s)
    except PlannerError as error:
        return Result(scenario.name, f"no plan: {type(error).__name__}", seconds=process_time() - began)
    seconds, told = process_time() - began, plan.slo_run
    if told is None or told.promised_s is None:
        return Result(scenario.name, "no promise", seconds=seconds)
    if told.basis != "executed":
        return Result(scenario.name, f"not run: {told.because}", told.promised_s, seconds=seconds)
    if not told.holds:
        return Result(scenario.name, f"said not to be kept: {told.because}", told.promised_s, seconds=seconds)
    worst = longest(scenario, plan, n)
    used = worst.executed / worst.limit, (worst.ci_low or 0.0) / worst.limit
    return Result(scenario.name, "broken" if used[1] > 1 else "kept", worst.limit, *used, seconds)


def longest(scenario: Scenario, plan: Plan, n: int) -> Promise:
    """The promise on TTFT that is nearest to breaking in a long run with other seeds."""
    question = RunQuestion(n, OTHER_SEED, 1.0, N_REPLICATIONS)
    run = simulate_periods(scenario, plan, question) if plan.periods else simulate(scenario, plan, question)[0]
    found = [p for one in run.periods or (run,) for p in time_promises(scenario, one) if p.metric != STEP]
    return max(found, key=lambda p: (p.ci_low or p.executed) / p.limit)


def main() -> None:
    """Print every scenario, and how many there are of each outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    asked = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for i in range(asked.count):
        found = result(asked.seed * SEEDS_APART + i)
        outcomes[found.outcome.partition(":")[0]] += 1
        print(
            f"{found.name:<14}{found.promised_s:>9.3g} s  executed {found.used:>6.3f}  low {found.used_low:>6.3f}  "
            f"{found.seconds:>6.1f} CPU s  {found.outcome}",
            flush=True,
        )
    print(", ".join(f"{outcome} {n}" for outcome, n in outcomes.most_common()))


if __name__ == "__main__":
    main()
