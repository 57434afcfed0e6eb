"""The mixed-integer model against enumeration, on random small instances."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest

from planner.optimizer import PlanningProblem, exhaustive_search, search
from tests.builders import Draw, problem_of

N_FAST, N_SLOW, BATCH = 320, 1000, 40
TOLERANCE = 1e-6


def random_problem(seed: int, *kinds: str) -> PlanningProblem:
    return problem_of(Draw(np.random.default_rng(seed)).question(*kinds))


def hold_against_enumeration(problem: PlanningProblem) -> float:
    """Check one instance and return the gap the search is left with."""
    found, tried = search(problem), exhaustive_search(problem)
    if found is None:
        assert tried.rate == 0
        return 0.0
    assert tried.rate <= found.bound * (1 + TOLERANCE)
    assert found.highest.rate >= tried.rate * (1 - TOLERANCE)
    assert found.highest.rate <= found.bound * (1 + TOLERANCE)
    if problem.classes[0].mix.is_discrete:
        assert found.highest.rate == pytest.approx(tried.rate, rel=TOLERANCE)
    return found.gap


@pytest.mark.parametrize("first", range(0, N_FAST, BATCH))
def test_search_finds_what_enumeration_finds_and_proves_it(first: int) -> None:
    for seed in range(first, first + BATCH):
        assert hold_against_enumeration(random_problem(seed)) <= 1e-4, seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(N_FAST, N_FAST + N_SLOW, BATCH))
def test_search_finds_what_enumeration_finds_on_many_more_instances(first: int) -> None:
    gaps = [hold_against_enumeration(random_problem(seed)) for seed in range(first, first + BATCH)]
    assert np.mean(np.array(gaps) <= 1e-4) >= 1 - 1 / BATCH, "mean-length bounds may close slowly, but seldom"
    assert max(gaps) <= 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_the_random_instances_differ_in_what_limits_them(seed: int) -> None:
    """Guards the generator: within any fifty instances every limit that can bind does, and a few have no plan."""
    problems = [random_problem(1000 * seed + i) for i in range(50)]
    scenarios = [p.scenario for p in problems]
    assert {s.capacity_rule for s in scenarios} == {"mean-length", "expected-work"}
    assert any(s.budget_usd_per_hour for s in scenarios)
    assert any(p.ratio for p in problems)
    assert {s.workload.lengths.kind for s in scenarios if s.workload and s.workload.lengths} == {
        "lognormal",
        "constant",
        "empirical",
        "mixture",
    }
    assert {s.routing.threshold_tokens == "free" for s in scenarios} == {True, False}
    assert {any(p.n_instances != "free" for p in s.pools.values()) for s in scenarios} == {True, False}


@dataclass(frozen=True)
class ByHand:
    """A plan from the paper's equations, request by request in plain Python: no code of the planner but its curves."""

    rate: float
    """Highest rate [req/s]."""
    long_bytes: float
    """Bytes sent per request of the mix."""
    work_s: tuple[float, float, float]
    """Instance-seconds per request of the mix in every pool."""


def by_hand(problem: PlanningProblem, sizes: tuple[int, ...], threshold: float, gbps: float) -> ByHand:
    fast, near, decode = (pool.rates for pool in problem.pools)
    assert fast.prefill is not None
    assert near.prefill is not None
    assert decode.decode is not None
    total, _, weights = problem.classes[0].mix.atoms(0)
    requests = list(zip(total.tolist(), weights.tolist(), strict=True))
    long = [(x, w) for x, w in requests if x > threshold]
    short = [(x, w) for x, w in requests if x <= threshold]
    exact = problem.scenario.capacity_rule == "expected-work"

    def per_request(part: list[tuple[float, float]], curve: Callable[[float], Any]) -> float:
        p = sum(w for _, w in part)
        mean = sum(x * w for x, w in part) / p if part else 0.0
        return sum(w * float(curve(x)) for x, w in part) if exact else p * float(curve(mean))

    output = problem.classes[0].mix.mean_output_tokens
    decode_s = decode.decode.step_s * output / decode.decode.batch
    long_s = per_request(long, fast.prefill.curve) if long else 0.0
    short_s = per_request(short, near.prefill.curve) if short else 0.0
    limits = [sizes[2] / decode_s]
    if long:
        limits += [sizes[0] / long_s, gbps * 1e9 / 8 / per_request(long, fast.kv_bytes)]
    if short:
        limits += [sizes[1] / short_s]
    return ByHand(min(limits), per_request(long, fast.kv_bytes), (long_s, short_s, decode_s))


def thresholds_of(problem: PlanningProblem) -> list[float]:
    """Every threshold that differs in effect."""
    fixed = problem.scenario.routing.threshold_tokens
    lengths = np.unique(problem.classes[0].mix.atoms(0).total_tokens).tolist()
    return [-1.0, *lengths] if fixed == "free" else [float(fixed)]


def allowed_sizes(problem: PlanningProblem) -> list[tuple[int, int, int]]:
    """Sizes within limits, inventories, budget and ratio, from the scenario alone."""
    scenario = problem.scenario
    most = [scenario.sites[pool.site].accelerators[pool.hardware] // 8 for pool in scenario.pools.values()]
    found = []
    for fast, near, decode in product(*(range(n + 1) for n in most)):
        within = all(
            n == pool.n_instances
            if pool.n_instances != "free"
            else n >= pool.min_instances and (pool.max_instances is None or n <= pool.max_instances)
            for pool, n in zip(scenario.pools.values(), (fast, near, decode), strict=True)
        )
        usd = 8 * (4.0 * fast + 2.0 * (near + decode))
        affordable = scenario.budget_usd_per_hour is None or usd <= scenario.budget_usd_per_hour + 1e-9
        ratio = scenario.routing.prefill_to_decode
        balanced = ratio == "free" or near * int(ratio.split(":")[1]) == decode * int(ratio.split(":")[0])
        if within and affordable and balanced and near + decode <= most[1]:
            found.append((fast, near, decode))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_both_searches_agree_with_equations_written_out_by_hand(seed: int) -> None:
    problem = random_problem(20_000 + seed, "constant", "empirical")
    gbps = problem.links[0].max_gbps()
    plans = product(allowed_sizes(problem), thresholds_of(problem))
    best = max((by_hand(problem, n, t, gbps).rate for n, t in plans), default=0.0)
    found = search(problem)
    assert (found.highest.rate if found else 0.0) == pytest.approx(best, rel=TOLERANCE)
    assert exhaustive_search(problem).rate == pytest.approx(best, rel=TOLERANCE)


def power_by_hand(problem: PlanningProblem, site: str) -> tuple[float, float]:
    """Power of an instance of eight accelerators of 700 W: idle, and what it costs more at work [USD/h]."""
    place = problem.scenario.sites[site]
    tdp = 8 * 0.7 * place.pue * (place.usd_per_kwh or 0.0)
    idle = place.draw_fraction if place.idle_draw_fraction is None else place.idle_draw_fraction
    return idle * tdp, (place.draw_fraction - idle) * tdp


def cheapest_by_hand(problem: PlanningProblem, demand: float) -> float:
    """Least rent, power and traffic that serve a demand, over every size, threshold and set of ports; inf for none."""
    link = problem.links[0]
    idle, busy = zip(*(power_by_hand(problem, name) for name in ("remote", "local", "local")), strict=True)
    bundles = list(product(*(range(tier.max_ports + 1) for tier in link.tiers)))
    best = inf
    for sizes, threshold, ports in product(allowed_sizes(problem), thresholds_of(problem), bundles):
        gbps = sum(m * tier.capacity_gbps for m, tier in zip(ports, link.tiers, strict=True))
        plan = by_hand(problem, sizes, threshold, gbps)
        if plan.rate >= demand * (1 - 1e-9):
            rent = 32.0 * sizes[0] + 16.0 * (sizes[1] + sizes[2])
            rent += sum(n * usd for n, usd in zip(sizes, idle, strict=True))
            rent += demand * sum(s * usd for s, usd in zip(plan.work_s, busy, strict=True))
            rent += sum(m * (tier.usd_per_hour or 0.0) for m, tier in zip(ports, link.tiers, strict=True))
            best = min(best, rent + 3600 * demand * plan.long_bytes / 1e9 * link.usd_per_gb)
    return best if best <= (problem.scenario.budget_usd_per_hour or inf) else inf


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_min_cost_finds_the_cheapest_of_all_fleets_that_serve_the_demand(first: int) -> None:
    n_plans = 0
    for seed in range(first, first + 10):
        draw = Draw(np.random.default_rng(40_000 + seed))
        changes = draw.question("constant", "empirical") | draw.tiers()
        demand = float(10 ** draw.rng.uniform(-2, 0.2))
        problem = problem_of({**changes, "objective": "min-cost", "demand_req_per_s": demand})
        best, found = cheapest_by_hand(problem, demand), search(problem)
        assert (found.objective if found else inf) == pytest.approx(best, rel=1e-5), seed
        if found:
            n_plans += 1
            assert found.bound <= best * (1 + TOLERANCE)
            assert found.gap <= 1e-4
    assert n_plans >= 3


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_min_cost_finds_the_cheapest_fleet_where_power_depends_on_use(first: int) -> None:
    n_plans = n_moved = 0
    for seed in range(first, first + 10):
        draw = Draw(np.random.default_rng(60_000 + seed))
        changes = draw.question("constant", "empirical") | draw.tiers()
        demand = float(10 ** draw.rng.uniform(-2, 0.2))
        changes |= draw.power() | {"objective": "min-cost", "demand_req_per_s": demand}
        problem = problem_of(changes)
        best, found = cheapest_by_hand(problem, demand), search(problem)
        assert (found.objective if found else inf) == pytest.approx(best, rel=1e-5), seed
        if found:
            n_plans += 1
            n_moved += problem.charges_use
            assert found.bound <= best * (1 + TOLERANCE)
            assert found.gap <= 1e-4
    assert n_plans >= 3
    assert n_moved >= 3
