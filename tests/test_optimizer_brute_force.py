"""The mixed-integer model against enumeration, on random small instances."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.optimizer.capacity import exact_loads
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import spend_of
from planner.optimizer.single_route import CAPACITY_GAP
from planner.optimizer.strategies import best_solution
from tests.builders import FAST, HOME, Draw, problem_of, search
from tests.exhaustive_search import exhaustive_search

N_FAST, N_SLOW, BATCH = 320, 1000, 40
TOLERANCE = 1e-6
COST_TOLERANCE = 1e-5
"""Fleets are chosen to serve a little more than the demand."""
N_BATCHES = 4


def random_problem(seed: int, *kinds: str) -> Problem:
    return problem_of(Draw(np.random.default_rng(seed)).question(*kinds))


def hold_against_enumeration(problem: Problem) -> float:
    """Check one instance and return the gap the search is left with."""
    if not problem.routes:  # a pool that is stated to be empty
        assert best_solution(problem, 60.0) is None
        return 0.0
    found, tried = search(problem), exhaustive_search(problem)
    if found is None:
        assert tried.rate == 0
        return 0.0
    assert tried.rate <= found.bound * (1 + TOLERANCE)
    assert found.highest_req_per_s >= tried.rate * (1 - CAPACITY_GAP)
    assert found.highest_req_per_s <= found.bound * (1 + TOLERANCE)
    if problem.classes[0].mix.is_discrete:
        assert found.highest_req_per_s == pytest.approx(tried.rate, rel=CAPACITY_GAP)
    return found.gap


@pytest.mark.parametrize("first", range(0, N_FAST, BATCH))
def test_search_finds_what_enumeration_finds_and_proves_it(first: int) -> None:
    for seed in range(first, first + BATCH):
        assert hold_against_enumeration(random_problem(seed)) <= 1e-4, seed


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
    """What a request asks for by the paper's equations, in plain Python: no code of the planner but its curves."""

    work_s: tuple[float, float, float]
    """Instance-seconds per request of the mix in every pool."""
    long_bytes: float
    """Bytes sent per request of the mix."""

    def rate(self, sizes: tuple[int, ...], gbps: float) -> float:
        """Highest rate of a fleet [req/s]."""
        limits = [n / seconds for n, seconds in zip(sizes, self.work_s, strict=True) if seconds > 0]
        return min([*limits, gbps * 1e9 / 8 / self.long_bytes] if self.long_bytes > 0 else limits)


def by_hand(problem: Problem, threshold: float) -> ByHand:
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
    return ByHand((long_s, short_s, decode_s), per_request(long, fast.kv_bytes) if long else 0.0)


def thresholds_of(problem: Problem) -> list[float]:
    """Every threshold that differs in effect."""
    fixed = problem.scenario.routing.threshold_tokens
    if any(pool.is_empty for pool in problem.pools):
        fixed = "free"  # an empty pool is none, and a threshold between one pool and nothing decides nothing
    lengths = np.unique(problem.classes[0].mix.atoms(0).total_tokens).tolist()
    return [-1.0, *lengths] if fixed == "free" else [float(fixed)]


def allowed_sizes(problem: Problem) -> list[tuple[int, int, int]]:
    """Sizes within limits, inventories and ratio, from the scenario alone."""
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
        ratio = scenario.routing.prefill_to_decode
        balanced = ratio == "free" or near * int(ratio.split(":")[1]) == decode * int(ratio.split(":")[0])
        if within and balanced and near + decode <= most[1]:
            found.append((fast, near, decode))
    return found


@dataclass(frozen=True)
class Trial:
    """One of all plans: sizes, ports and a threshold."""

    rate: float
    """Highest rate [req/s]."""
    rent: float
    """What is paid whether anything is served or not [USD/h]."""
    use: float
    """What one request a second costs on top [USD/h]."""


def trials(problem: Problem) -> Iterator[Trial]:
    """Every size, set of ports and threshold."""
    link, prices = problem.links[0], problem.scenario.prices
    usd = [8 * prices[name].usd_per_accelerator_hour for name in (FAST, HOME, HOME)]
    idle, busy = zip(*(power_by_hand(problem, name) for name in ("remote", "local", "local")), strict=True)
    asked = [by_hand(problem, threshold) for threshold in thresholds_of(problem)]
    bundles = []
    for ports in product(*(range(tier.max_ports + 1) for tier in link.tiers)):
        gbps = sum(m * tier.capacity_gbps for m, tier in zip(ports, link.tiers, strict=True))
        bundles.append((gbps, sum(m * (tier.usd_per_hour or 0.0) for m, tier in zip(ports, link.tiers, strict=True))))
    for sizes in allowed_sizes(problem):
        rent = sum(n * (a + b) for n, a, b in zip(sizes, usd, idle, strict=True))
        for (gbps, ports_usd), work in product(bundles, asked):
            use = 3600 * work.long_bytes / 1e9 * link.usd_per_gb
            use += sum(s * b for s, b in zip(work.work_s, busy, strict=True))
            yield Trial(work.rate(sizes, gbps), rent + ports_usd, use)


def power_by_hand(problem: Problem, site: str) -> tuple[float, float]:
    """Power of an instance of eight accelerators of 700 W: idle, and what it costs more at work [USD/h]."""
    place = problem.scenario.sites[site]
    tdp = 8 * 0.7 * place.pue * (place.usd_per_kwh or 0.0)
    idle = place.draw_fraction if place.idle_draw_fraction is None else place.idle_draw_fraction
    return idle * tdp, (place.draw_fraction - idle) * tdp


def highest_by_hand(problem: Problem) -> float:
    """The most that any plan serves within the budget; 0 for none."""
    budget = problem.scenario.budget_usd_per_hour or inf
    rates = (
        min(trial.rate, (budget - trial.rent) / trial.use if trial.use > 0 else inf)
        for trial in trials(problem)
        if trial.rent <= budget
    )
    return max(rates, default=0.0)


def cheapest_by_hand(problem: Problem, demand: float) -> float:
    """Least rent, power and traffic of all plans that serve a demand; inf for none."""
    costs = (t.rent + demand * t.use for t in trials(problem) if t.rate >= demand * (1 - 1e-9))
    best = min(costs, default=inf)
    return best if best <= (problem.scenario.budget_usd_per_hour or inf) else inf


@pytest.mark.parametrize("seed", range(60))
def test_both_searches_agree_with_equations_written_out_by_hand(seed: int) -> None:
    problem = random_problem(20_000 + seed, "constant", "empirical")
    best, found = highest_by_hand(problem), search(problem)
    assert (found.highest_req_per_s if found else 0.0) == pytest.approx(best, rel=TOLERANCE)
    assert exhaustive_search(problem).rate == pytest.approx(best, rel=TOLERANCE)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_min_cost_finds_the_cheapest_of_all_fleets_that_serve_the_demand(first: int) -> None:
    n_plans = 0
    for seed in range(first, first + 10):
        draw = Draw(np.random.default_rng(40_000 + seed))
        changes = draw.question("constant", "empirical") | draw.tiers()
        demand = float(10 ** draw.rng.uniform(-2, 0.2))
        problem = problem_of({**changes, "objective": "min-cost", "demand_req_per_s": demand})
        best, found = cheapest_by_hand(problem, demand), search(problem)
        assert (found.objective if found else inf) == pytest.approx(best, rel=COST_TOLERANCE), seed
        if found:
            n_plans += 1
            assert found.bound <= best * (1 + TOLERANCE)
            assert found.gap <= 1e-4
    assert n_plans >= 3


def cheapest_as_fast_by_hand(problem: Problem) -> float:
    """The least that a plan costs, at the highest rate there is, of all that reach it."""
    budget, best = problem.scenario.budget_usd_per_hour or inf, highest_by_hand(problem)
    at_best = [(t.rent + best * t.use) for t in trials(problem) if t.rate >= best * (1 - TOLERANCE)]
    return min(usd for usd in at_best if usd <= budget * (1 + TOLERANCE))


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_among_plans_as_fast_as_the_best_the_cheapest_is_given(first: int) -> None:
    """Whatever threshold that takes: where decode limits the rate, another one may do without a pool or a port."""
    n_plans = 0
    for seed in range(first, first + 20):
        draw = Draw(np.random.default_rng(80_000 + seed))
        problem = problem_of(priced_question(draw) | {"measured.home.decode.step_s": 0.2})
        found = search(problem)
        if found is not None:
            n_plans += 1
            spent = spend_of(
                problem, found.sizing, exact_loads(problem, found.threshold_tokens), found.highest_req_per_s
            )
            assert spent == pytest.approx(cheapest_as_fast_by_hand(problem), rel=COST_TOLERANCE), seed
    assert n_plans >= 10


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
        assert (found.objective if found else inf) == pytest.approx(best, rel=COST_TOLERANCE), seed
        if found:
            n_plans += 1
            n_moved += problem.charges_use
            assert found.bound <= best * (1 + TOLERANCE)
            assert found.gap <= 1e-4
    assert n_plans >= 3
    assert n_moved >= 3


def priced_question(draw: Draw) -> dict[str, Any]:
    """Any limit, with prices, ports, traffic and power of any kind."""
    changes = draw.question("constant", "empirical")
    for name in (FAST, HOME):
        changes[f"prices.{name}.usd_per_accelerator_hour"] = float(10 ** draw.rng.uniform(-0.5, 1))
    if draw.rng.random() < 0.6:
        changes |= draw.tiers()
    if draw.rng.random() < 0.4:
        changes |= draw.power()
    return changes


def hold_against_every_plan(problem: Problem) -> bool:
    """Check one instance of either objective, and its bound; whether it has a plan."""
    found, demand = search(problem) if problem.routes else None, problem.scenario.demand_req_per_s
    if demand is None:
        best = highest_by_hand(problem)
        assert (found.objective if found else 0.0) == pytest.approx(best, rel=TOLERANCE)
        if found is None:
            return False
        assert best <= found.bound * (1 + TOLERANCE)
    else:
        best = cheapest_by_hand(problem, demand)
        assert (found.objective if found else inf) == pytest.approx(best, rel=COST_TOLERANCE)
        if found is None:
            return False
        assert found.bound <= best * (1 + TOLERANCE)
    assert found.gap <= 1e-4
    return True


@pytest.mark.parametrize("batch", range(N_BATCHES))
@pytest.mark.parametrize("objective", ["max-throughput", "min-cost"])
def test_the_model_equals_enumeration_of_every_plan_on_a_thousand_instances(objective: str, batch: int) -> None:
    """Sizes, ports and thresholds are enumerated by the paper's equations, and no plan beats the bound."""
    has_plan: dict[int, bool] = {}

    @settings(max_examples=1000 // N_BATCHES)
    @given(seed=st.integers(0, 2**32 - 1))
    def hold(seed: int) -> None:
        draw = Draw(np.random.default_rng([batch, seed]))
        changes = priced_question(draw)
        if objective == "min-cost":
            changes |= {"objective": objective, "demand_req_per_s": float(10 ** draw.rng.uniform(-2, 0.2))}
        has_plan[seed] = hold_against_every_plan(problem_of(changes))

    hold()
    assert len(has_plan) == 1000 // N_BATCHES
    assert sum(has_plan.values()) > 0.5 * len(has_plan)
