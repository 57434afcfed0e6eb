"""Sizes in the order of what capacity alone allows, against every combination of sizes one by one."""

from itertools import product
from math import inf

import numpy as np
import pytest

from planner.optimizer.capacity import exact_loads
from planner.optimizer.network.proposals import Proposals
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s, spend_of
from planner.optimizer.single_route import best_threshold
from planner.optimizer.sized import Sizing, is_within_limits
from tests.builders import FAST, GPUS, HOME, problem_of

LENGTHS = {"kind": "empirical", "tokens": [900, 5000, 22_000]}
ROUNDING = 1e-6


def small_problem(rng: np.random.Generator, objective: str) -> Problem:
    """A few instances of each pool, prices and a promise, which counts for nothing here."""
    changes = {
        "objective": objective,
        "workload.lengths": LENGTHS,
        "slo": {"ttft_s": 6.0},
        f"sites.remote.accelerators.{FAST}": GPUS * int(rng.integers(1, 3)),
        f"sites.local.accelerators.{HOME}": GPUS * int(rng.integers(3, 5)),
        f"prices.{FAST}.usd_per_accelerator_hour": float(rng.uniform(1, 6)),
        f"prices.{HOME}.usd_per_accelerator_hour": float(rng.uniform(1, 6)),
        "links.wan.capacity_gbps": float(rng.choice([2.0, 100.0])),
    }
    return problem_of(changes | ({"demand_req_per_s": float(rng.uniform(0.3, 1.5))} if objective == "min-cost" else {}))


def worth(problem: Problem, sizing: Sizing) -> float:
    """The most that sizes serve, or what they cost if that is enough, over every threshold."""
    found = []
    for t in (-1.0, *LENGTHS["tokens"]):
        loads = exact_loads(problem, float(t))
        most = highest_req_per_s(problem, sizing, loads)
        demand = problem.demand_req_per_s
        if demand is None:
            found.append(most)
        elif most >= demand * (1 - ROUNDING):
            found.append(spend_of(problem, sizing, loads, demand))
    return (max if problem.demand_req_per_s is None else min)(found, default=inf)


def is_settled(sizing: Sizing, settled: Sizing) -> bool:
    flat = [*sizing.n_instances, *sizing.n_ports[0]], [*settled.n_instances, *settled.n_ports[0]]
    return all(n <= m for n, m in zip(*flat, strict=True))


@pytest.mark.parametrize("objective", ["max-throughput", "min-cost"])
@pytest.mark.parametrize("seed", range(4))
def test_every_proposal_bounds_all_sizes_that_are_not_settled(objective: str, seed: int) -> None:
    problem = small_problem(np.random.default_rng([38, seed]), objective)
    ranges = (range(pool.min_instances, pool.max_instances + 1) for pool in problem.pools)
    every = [Sizing(n, ((m,),)) for n in product(*ranges) for m in (0, 1) if is_within_limits(problem, n)]
    values, proposals, settled = {one: worth(problem, one) for one in every}, Proposals.of(problem), list[Sizing]()
    for _ in range(6):
        found = proposals.best(10.0)
        left = [value for one, value in values.items() if not any(is_settled(one, s) for s in settled)]
        best = max(left, default=0.0) if objective == "max-throughput" else min(left, default=inf)
        if found is None:
            assert best in (0.0, inf)
            break
        assert not any(is_settled(found.sizing, s) for s in settled)
        assert is_within_limits(problem, found.sizing.n_instances)
        if objective == "max-throughput":
            assert best <= found.bound * (1 + ROUNDING)
        else:
            assert best >= found.bound * (1 - ROUNDING)
        proposals.settle(found.sizing)
        settled.append(found.sizing)


def test_the_best_threshold_of_given_sizes_is_that_of_all_lengths() -> None:
    problem = small_problem(np.random.default_rng([38, 9]), "max-throughput")
    sizing = Sizing((1, 2, 1), ((1,),))
    t = best_threshold(problem, sizing, 0.0)
    assert highest_req_per_s(problem, sizing, exact_loads(problem, t)) == pytest.approx(worth(problem, sizing))
