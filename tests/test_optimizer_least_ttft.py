"""The least TTFT at a demand: reached by the plan, undercut by no threshold and no sizes, never sooner for less."""

from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comparison import optimize
from planner.errors import InfeasibleError, InputError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.least_ttft import filled_with_budget, floor_s, least_ttft
from planner.optimizer.network.search import network_search
from planner.optimizer.network.ttft_bisection import with_ttft_slo
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import SLO_GAP as GAP
from planner.optimizer.sized import Sizing
from planner.optimizer.slo_attainment import FleetUnderSlo
from planner.report import bottleneck_text, phrases
from planner.results.plan import Plan
from planner.work_clock import work_s
from tests.builders import FAST, HOME, in_classes, problem_of, routed_search, sketch, small_with
from tests.cpu_cost import cached
from tests.test_optimizer_goodput import p90_by_hand

QUICK: dict[str, Any] = {"objective": "min-ttft", "demand_req_per_s": 1.5}
SIZES = Sizing((3, 2, 3), ((1,),))
ANSWER = {"kind": "constant", "tokens": 300}
CLASSES = {
    "chat": (0.7, {"lengths": {"kind": "empirical", "tokens": [500, 4000]}, "output_lengths": ANSWER}),
    "docs": (0.3, {"lengths": {"kind": "constant", "tokens": 20000}, "output_lengths": ANSWER}),
}


def quick(changes: dict[str, Any] | None = None) -> Problem:
    return problem_of(QUICK | (changes or {}))


@cached
def quick_plan() -> Plan:
    return optimize(small_with(QUICK))


def test_the_least_ttft_of_fixed_sizes_is_what_a_fine_grid_of_thresholds_finds() -> None:
    problem = quick()
    found = least_ttft(problem, SIZES, 1.5, work_s() + 60)
    assert found.ttft_s == pytest.approx(p90_by_hand(problem, (3, 2), found.threshold_tokens, 1.5), rel=1e-9)
    grid = [p90_by_hand(problem, (3, 2), float(t), 1.5) for t in np.geomspace(300, 60000, 60)]
    assert found.bound_s <= found.ttft_s <= min(grid) * (1 + GAP)
    assert min(grid) >= found.bound_s


@given(st.floats(200, 60000), st.floats(200, 60000), st.floats(0, 1), st.floats(0.3, 3))
def test_an_interval_of_thresholds_is_never_later_than_any_threshold_in_it(
    one: float, other: float, where: float, rate: float
) -> None:
    fleet = FleetUnderSlo(quick(), SIZES)
    low, high = min(one, other), max(one, other)
    inside = low + where * (high - low)
    assert fleet.percentile_s(low, high, rate) <= fleet.percentile_s(inside, inside, rate) * (1 + 1e-9)


def test_a_rate_that_sizes_do_not_serve_has_no_ttft() -> None:
    found = least_ttft(quick(), SIZES, 50.0, work_s() + 60)
    assert (found.ttft_s, found.bound_s) == (inf, inf)


def test_no_other_sizes_are_quicker_than_the_plan() -> None:
    problem = quick({f"sites.local.accelerators.{HOME}": 32})
    solution = routed_search(problem)
    assert solution is not None
    others = [
        least_ttft(problem, Sizing((fast, near, 4 - near), ((1,),)), 1.5, work_s() + 60)
        for fast, near in product((2, 3), (0, 1, 2, 3))
    ]
    assert solution.bound <= min(other.ttft_s for other in others)
    assert solution.objective <= min(other.ttft_s for other in others) * (1 + 2 * GAP)


def test_the_plan_states_its_objective_in_seconds_at_its_percentile() -> None:
    plan = quick_plan()
    assert plan.objective == "min-ttft"
    assert plan.throughput_req_per_s == 1.5
    assert plan.latency.ttft_p90_s is not None
    assert plan.bound <= plan.latency.ttft_p90_s * (1 + 1e-9)
    assert plan.latency.ttft_p90_s <= plan.bound * (1 + 2 * GAP)
    assert plan.status == "optimal"
    assert plan.goodput_req_per_s is None
    assert {b.unit for b in plan.bottlenecks} <= {"s per instance", "s per Gbps"}
    assert " s over every threshold" in phrases.status(plan)


def test_what_binds_says_how_much_sooner_one_more_unit_would_be() -> None:
    gains = [b for b in quick_plan().bottlenecks if b.constraint == "pools.fast.n_instances"]
    assert gains
    assert "one more instance of fast would take" in bottleneck_text.bottleneck(gains[0])
    assert "off the TTFT" in bottleneck_text.bottleneck(gains[0])


def test_the_least_ttft_can_be_promised_and_less_than_its_bound_cannot() -> None:
    plan = quick_plan()
    kept = {"objective": "min-cost", "slo": {"ttft_s": plan.latency.ttft_p90_s * 1.005}}  # type: ignore[operator]
    assert routed_search(problem_of(QUICK | kept)) is not None
    broken = {"objective": "min-cost", "slo": {"ttft_s": plan.bound * 0.995}}
    assert routed_search(problem_of(QUICK | broken)) is None


def test_nothing_that_the_ttft_does_not_need_is_rented() -> None:
    plan = quick_plan()
    problem = quick()
    # With one decode instance less, requests would wait for a place in the batch, or never find one.
    fewer = routed_search(quick({"pools.decode.n_instances": plan.pool("decode").n_instances - 1}))
    assert fewer is not None
    assert fewer.objective > plan.bound
    assert plan.pool("decode").n_instances < problem.pools[2].max_instances


@pytest.mark.parametrize(("low", "high"), [(160.0, 200.0), (120.0, 160.0)])
def test_more_budget_is_never_later(low: float, high: float) -> None:
    stock = {f"sites.remote.accelerators.{FAST}": 80, f"sites.local.accelerators.{HOME}": 80}
    less, more = (routed_search(quick({**stock, "budget_usd_per_hour": usd})) for usd in (low, high))
    assert more is not None
    assert less is not None
    assert more.bound <= less.objective


def test_a_higher_percentile_is_never_sooner() -> None:
    plain, strict = routed_search(quick()), routed_search(quick({"slo": {"ttft_percentile": 99.0}}))
    assert plain is not None
    assert strict is not None
    assert plain.bound < strict.objective


def test_the_floor_is_below_every_plan() -> None:
    problem = quick()
    solution = routed_search(problem)
    assert solution is not None
    assert floor_s(problem, 1.5, work_s() + 60) <= solution.objective


def test_what_is_left_of_a_budget_buys_prefill_first() -> None:
    problem = quick({f"sites.remote.accelerators.{FAST}": 80, "budget_usd_per_hour": 160.0})
    filled = filled_with_budget(problem, Sizing((2, 1, 1), ((1,),)))
    # 160 less 20 for the port, 2 * 32 for long prompts and 2 * 16 leave 44 USD/h: one more for long prompts.
    assert filled == Sizing((3, 1, 1), ((1,),))


def test_a_demand_beyond_the_fleet_is_proven_infeasible_with_what_would_do() -> None:
    with pytest.raises(InfeasibleError, match="serves 100 req/s") as caught:
        optimize(small_with({**QUICK, "demand_req_per_s": 100.0}))
    assert "demand_req_per_s at most" in str(caught.value)


def test_a_promise_beside_the_objective_holds_or_there_is_no_plan() -> None:
    plan = quick_plan()
    with pytest.raises(InfeasibleError, match=r"slo\.ttft_s at least") as caught:
        optimize(small_with({**QUICK, "slo": {"ttft_s": plan.bound * 0.9}}))
    assert "within" in str(caught.value)
    assert routed_search(quick({"slo": {"ttft_s": plan.bound * 1.2}})) is not None


def test_a_discipline_without_a_model_is_refused_by_the_key_of_the_objective() -> None:
    with pytest.raises(InputError, match="asks for the least TTFT, but there is no queueing model") as caught:
        optimize(small_with({**QUICK, "dispatch": "round-robin"}))
    assert [problem.key for problem in caught.value.problems] == ["objective"]


def test_several_classes_are_planned_as_a_network_with_a_proven_bound() -> None:
    scenario = in_classes(CLASSES, QUICK)
    plan = sketch(scenario)
    assert plan.objective == "min-ttft"
    assert plan.latency.ttft_p90_s is not None
    kept = plan.bound / (1 - plan.gap)
    assert all(c.latency.ttft_p90_s <= kept * (1 + 1e-6) for c in plan.classes)  # type: ignore[operator]
    problem = planning_problem(scenario)
    assert network_search(with_ttft_slo(problem, plan.bound * 0.999)) is None
    assert network_search(with_ttft_slo(problem, kept)) is not None


def test_classes_that_all_promise_leave_nothing_to_shorten() -> None:
    promised = {f"classes.{name}.slo.ttft_s": 9.0 for name in CLASSES}
    scenario = in_classes(CLASSES, QUICK).varied(promised)
    with pytest.raises(InputError, match="objective: min-ttft has nothing to shorten"):
        optimize(scenario)
