"""What must hold for every scenario: more never hurts, units scale, names do not matter."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.comparison.homogeneous_fleets import homogeneous, homogeneous_fleet, homogeneous_rates
from planner.optimizer.capacity import exact_loads, interval_loads, split_interval, threshold_loads
from planner.optimizer.free_routing import free_routing
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.single_route import RoutedSolution, solution_of_routes
from planner.optimizer.sized import Sizing
from planner.roofline import DecodeLimit
from planner.scenario import Scenario
from tests.builders import FAST, GPUS, HOME, Draw, in_classes, problem_of, routed_search, sketch, small_with

SEEDS = st.integers(0, 10_000)
SLACK = 2e-4
"""Twice the gap that a plan may be left with, and rounding."""
FIXED = {"pools.near.n_instances": 1, "routing.threshold_tokens": 4000.0, "routing.prefill_to_decode": "1:1"}


def question(seed: int, **changes: Any) -> dict[str, Any]:
    return Draw(np.random.default_rng(seed)).question() | changes


def rate_of(scenario: Scenario) -> float:
    found = routed_search(planning_problem(scenario))
    return found.highest_req_per_s if found else 0.0


def rate(changes: dict[str, Any]) -> float:
    return rate_of(small_with(changes))


def found(problem: Problem) -> RoutedSolution:
    solution = routed_search(problem)
    assert solution is not None
    return solution


@given(seed=SEEDS, site=st.sampled_from([f"sites.remote.accelerators.{FAST}", f"sites.local.accelerators.{HOME}"]))
def test_more_accelerators_never_lower_the_rate(seed: int, site: str) -> None:
    changes = question(seed)
    more = changes | {site: changes[site] + GPUS}
    assert rate(more) >= rate(changes) * (1 - SLACK)


@given(seed=SEEDS, factor=st.floats(1.0, 20.0))
def test_more_bandwidth_never_lowers_the_rate(seed: int, factor: float) -> None:
    changes = question(seed)
    more = changes | {"links.wan.capacity_gbps": changes["links.wan.capacity_gbps"] * factor}
    assert rate(more) >= rate(changes) * (1 - SLACK)


@given(
    seed=SEEDS, key=st.sampled_from(["pools.near.n_instances", "routing.threshold_tokens", "routing.prefill_to_decode"])
)
def test_freeing_a_decision_never_lowers_the_rate(seed: int, key: str) -> None:
    fixed = {"pools.near.n_instances": 1, "routing.threshold_tokens": 4000.0, "routing.prefill_to_decode": "1:1"}[key]
    changes = question(seed)
    assert rate(changes | {key: "free"}) >= rate(changes | {key: fixed}) * (1 - SLACK)


@given(seed=SEEDS, factor=st.floats(0.1, 10.0))
def test_services_k_times_as_long_divide_the_rate_by_k(seed: int, factor: float) -> None:
    """Bytes per second fall with the rate, so the link is widened to stay the limit it was."""
    changes = question(seed)
    slower = dict(changes)
    for name in ("fast", "home"):
        curve = changes[f"measured.{name}.prefill"]
        slower[f"measured.{name}.prefill"] = {**curve, "seconds": [factor * s for s in curve["seconds"]]}
    point = changes["measured.home.decode"]
    slower["measured.home.decode"] = {**point, "step_s": factor * point["step_s"]}
    slower["links.wan.capacity_gbps"] = changes["links.wan.capacity_gbps"] / factor
    assert rate(slower) * factor == pytest.approx(rate(changes), rel=SLACK)


@settings(max_examples=12)
@given(seed=SEEDS, share=st.floats(0.1, 0.9), rule=st.sampled_from(["expected-work", "mean-length"]))
def test_one_class_split_into_two_identical_ones_changes_nothing(seed: int, share: float, rule: str) -> None:
    """Under mean-length two classes may take two thresholds, which is one more freedom; never a lower rate."""
    draw = Draw(np.random.default_rng(seed))
    lengths = draw.lengths("empirical", "constant")
    workload = {"lengths": lengths, "output_lengths": {"kind": "constant", "tokens": 500.0}}
    changes = {"capacity_rule": rule, "links.wan.capacity_gbps": float(10 ** draw.rng.uniform(0, 2))}
    one = rate(changes | {"workload": workload})
    fixed = found(problem_of(changes | {"workload": workload})).threshold_tokens
    parts = {"one": (share, workload), "two": (1 - share, workload)}
    free = rate_of(in_classes(parts, changes))
    same = rate_of(in_classes(parts, changes | {"routing.threshold_tokens": max(fixed, 0.0)}))
    assert same == pytest.approx(one, rel=1e-4)
    assert free >= one * (1 - 1e-4)


@pytest.mark.parametrize("rule", ["expected-work", "mean-length"])
def test_two_identical_log_normal_classes_are_planned_as_one(rule: str) -> None:
    """Within what the zoom over several thresholds leaves; the bound says so."""
    workload = {
        "lengths": {"kind": "lognormal", "mu": 9.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65536},
        "output_lengths": {"kind": "constant", "tokens": 500},
    }
    parts = {"one": (0.3, workload), "two": (0.7, workload)}
    changes = {"capacity_rule": rule, "routing.n_candidates": 12}
    plan = routed_search(planning_problem(in_classes(parts, changes)), 2.0)
    one = rate(changes)
    assert plan is not None
    assert plan.highest_req_per_s >= one * (1 - 1e-3)
    assert one <= plan.bound
    if rule == "expected-work":
        assert plan.highest_req_per_s <= one * (1 + 1e-4)


@given(seed=SEEDS)
def test_free_routing_is_never_below_the_plan(seed: int) -> None:
    problem = problem_of(question(seed, capacity_rule="expected-work"))
    plan = routed_search(problem)
    if plan is not None:
        free = free_routing(problem, solution_of_routes(problem, plan), plan.highest_req_per_s)
        assert free is not None
        assert free.max_throughput_req_per_s >= plan.highest_req_per_s * (1 - 1e-6)
        assert free.gain == pytest.approx(free.max_throughput_req_per_s / plan.highest_req_per_s - 1)


@pytest.mark.parametrize("threshold", [1000, 4000, 9000])
def test_free_routing_keeps_up_with_a_threshold_on_any_length_of_a_discrete_mix(threshold: int) -> None:
    lengths = {"kind": "empirical", "tokens": [1000, 4000, 9000]}
    problem = problem_of({"workload.lengths": lengths, "routing.threshold_tokens": threshold})
    plan = found(problem)
    free = free_routing(problem, solution_of_routes(problem, plan), plan.highest_req_per_s)
    assert free is not None
    assert free.max_throughput_req_per_s >= plan.highest_req_per_s * (1 - 1e-9)


def test_free_routing_of_several_classes_is_never_below_their_plan() -> None:
    output = {"kind": "constant", "tokens": 500}
    parts = {
        "chat": (0.8, {"lengths": {"kind": "empirical", "tokens": [900, 4000]}, "output_lengths": output}),
        "files": (0.2, {"lengths": {"kind": "constant", "tokens": 20_000}, "output_lengths": output}),
    }
    free = sketch(in_classes(parts, {})).free_routing
    assert free is not None
    assert free.gain >= 0


def test_free_routing_has_no_answer_for_capacities_at_the_mean_length() -> None:
    problem = problem_of({"capacity_rule": "mean-length"})
    assert free_routing(problem, solution_of_routes(problem, found(problem)), 1.0) is None


def test_free_routing_gains_nothing_where_one_threshold_is_the_best_policy() -> None:
    """Two lengths of which the fast pool serves one only: the plan is the transportation optimum."""
    problem = problem_of(
        {
            "workload.lengths": {"kind": "empirical", "tokens": [1000, 50_000]},
            "links.wan.capacity_gbps": 1000.0,
            "pools.near.n_instances": 0,
        }
    )
    free = free_routing(problem, solution_of_routes(problem, found(problem)), 1.0)
    assert free is not None
    assert free.gain == pytest.approx(0.0, abs=1e-6)


CONVEX = {"tokens": [64, 4000, 20_000, 90_000], "seconds": [0.2, 0.5, 2.5, 16.0], "interpolation": "linear"}


@given(seed=SEEDS, threshold=st.one_of(st.just("free"), st.floats(0, 50_000)))
def test_expected_work_never_promises_more_than_the_mean_length_when_service_is_convex(
    seed: int, threshold: float | str
) -> None:
    """Jensen: E[T(L)] >= T(E[L]), and the same for bytes, which are linear."""
    changes = question(seed) | {
        "measured.fast.prefill": CONVEX,
        "measured.home.prefill": {**CONVEX, "seconds": [0.3, 1.0, 6.0, 40.0]},
        "routing.threshold_tokens": threshold,
    }
    exact, mean = (rate(changes | {"capacity_rule": rule}) for rule in ("expected-work", "mean-length"))
    assert exact <= mean * (1 + SLACK)


@given(seed=SEEDS)
def test_the_cheapest_fleet_for_the_highest_rate_of_a_budget_costs_no_more_than_the_budget(seed: int) -> None:
    changes = question(seed, budget_usd_per_hour=200.0)
    plan = routed_search(problem_of(changes))
    if plan is not None:
        demand = plan.highest_req_per_s * (1 - 1e-6)
        cheapest = found(problem_of(changes | {"objective": "min-cost", "demand_req_per_s": demand}))
        assert cheapest.objective <= 200.0 * (1 + 1e-6)
        assert cheapest.highest_req_per_s >= demand * (1 - 1e-9)


@given(seed=SEEDS, n=st.integers(2, 9))
def test_closed_form_of_homogeneous_fleets_equals_the_model(seed: int, n: int) -> None:
    problem = problem_of(question(seed))
    fleet = planning_problem(homogeneous(problem.scenario, n * GPUS))
    rates = homogeneous_rates(homogeneous_fleet(problem), np.array([n * GPUS]))
    assert rates[0] == pytest.approx(found(fleet).highest_req_per_s, rel=1e-6)


def test_homogeneous_fleets_too_small_for_both_roles_serve_nothing_and_larger_ones_never_less() -> None:
    rates = homogeneous_rates(homogeneous_fleet(problem_of()), np.arange(12) * GPUS)
    assert rates[0] == rates[1] == 0
    assert (np.diff(rates[1:]) >= 0).all()


@given(seed=SEEDS, cuts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_loads_of_an_interval_undercut_those_of_every_threshold_in_it(seed: int, cuts: list[float]) -> None:
    problem = problem_of(question(seed))
    if not problem.routes:  # a pool that is stated to be empty
        return
    route, (bottom, top) = problem.route, problem.classes[0].mix.support
    low, high = (bottom + cut * (top - bottom) for cut in sorted(cuts))
    bound = interval_loads(problem, route, np.array([low]), np.array([high]))
    inside = threshold_loads(problem, route, np.linspace(low, high, 33))
    for name in ("long_s", "short_s", "long_bytes", "short_bytes", "long_fraction"):
        values = getattr(inside, name)
        assert (getattr(bound, name) <= values + 1e-9 * np.abs(values).max()).all(), name


@given(seed=SEEDS, cuts=st.lists(st.floats(0, 1), min_size=2, max_size=2, unique=True), n=st.integers(1, 9))
def test_parts_of_an_interval_follow_one_another_without_a_float_between_them(
    seed: int, cuts: list[float], n: int
) -> None:
    mix = problem_of(question(seed)).classes[0].mix
    bottom, top = mix.support
    low, high = (bottom + cut * (top - bottom) for cut in sorted(cuts))
    if low < high:
        starts, ends = split_interval(mix, low, high, n)
        assert starts[0] == low
        assert ends[-1] == high
        assert (starts <= ends).all()
        assert (np.nextafter(ends[:-1], inf) == starts[1:]).all()
        assert len(starts) <= n + 3


def test_a_length_that_many_requests_share_does_not_keep_the_bound_open() -> None:
    """A third of all requests at one length amid a continuous mix: a step in the loads at that threshold."""
    parts = [
        {"weight": 2.0, "lengths": {"kind": "lognormal", "mu": 9, "sigma": 1, "low_tokens": 128, "high_tokens": 65536}},
        {"weight": 1.0, "lengths": {"kind": "constant", "tokens": 12_345}},
    ]
    assert found(problem_of({"workload.lengths": {"kind": "mixture", "components": parts}})).gap <= 1e-4


def test_a_pool_that_is_sent_nothing_may_be_empty_under_either_rule() -> None:
    """Weights that add up to 1 less a rounding error leave no phantom request for an empty pool."""
    lengths = {"kind": "empirical", "tokens": [134.0, 121.0, 5289.0, 21465.0, 224.0, 251.0]}
    for rule in ("mean-length", "expected-work"):
        changes = {"workload.lengths": lengths, "capacity_rule": rule, "pools.near.n_instances": 0}
        assert rate(changes) > 0


def test_a_sliver_of_long_prompts_still_needs_an_instance() -> None:
    """A share of prompts far below the solver's tolerance must not be planned for a pool of no instances."""
    assert found(problem_of({"routing.threshold_tokens": 65_535.9})).sizing.n_instances[0] >= 1


def test_an_empty_pool_is_as_if_it_was_not_stated() -> None:
    changes = {"routing.threshold_tokens": 4000, "pools.fast.n_instances": 0}
    problem = problem_of(changes)
    assert [route.is_split for route in problem.routes] == [False]
    assert found(problem).sizing.n_instances[0] == 0


@given(seed=SEEDS, n_fast=st.integers(1, 4), n_near=st.integers(1, 4), n_decode=st.integers(1, 4))
def test_the_rate_of_fixed_sizes_is_the_least_limit_and_doubles_with_them(
    seed: int, n_fast: int, n_near: int, n_decode: int
) -> None:
    problem = problem_of(question(seed) | {"links.wan.capacity_gbps": 1e6})
    loads = exact_loads(problem, 3000.0)
    sizes = np.array([n_fast, n_near, n_decode])
    once, twice = (highest_req_per_s(problem, Sizing(tuple(k * sizes), ((1,),)), loads) for k in (1, 2))
    assert twice == pytest.approx(2 * once)


def test_a_scarce_decode_does_not_move_the_threshold() -> None:
    """Where decode alone limits the rate, the threshold still balances prefill."""
    sizes = {"pools.near.n_instances": 2, "pools.fast.n_instances": 2, "links.wan.usd_per_hour": 0.0}
    plan = found(problem_of(sizes | {"measured.home.decode": dict(batch=1, step_s=0.025)}))
    plenty = found(problem_of(sizes | {"pools.decode.n_instances": 3}))
    assert plan.threshold_tokens == pytest.approx(plenty.threshold_tokens, rel=1e-6)


@given(batch=st.integers(1, 512), step_s=st.floats(1e-3, 1.0), tokens=st.floats(1, 1e5))
def test_a_decode_instance_yields_batch_tokens_per_step(batch: int, step_s: float, tokens: float) -> None:
    seconds = DecodeLimit(batch, step_s).seconds_per_request(tokens)
    assert tokens / seconds == pytest.approx(batch / step_s)


def test_a_pool_alone_at_its_site_is_planned_with_everything_sent_to_it() -> None:
    """No pool for short prompts: every prompt goes to the fast pool, and no threshold decides anything."""
    problem = problem_of()
    only = {name: pool for name, pool in problem.scenario.pools.items() if name != "near"}
    problem = planning_problem(problem.scenario.model_copy(update={"pools": only}))
    plan = found(problem)
    assert plan.threshold_tokens == -1.0
    loads = exact_loads(problem, plan.threshold_tokens)
    assert (loads.long_fraction[0], loads.short_s[0]) == (1.0, 0.0)
