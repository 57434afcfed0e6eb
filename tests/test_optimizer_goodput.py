"""Plans under a promise on TTFT: the promise holds, nothing better was missed, and a harder one never comes cheaper."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comparison import optimize
from planner.errors import InfeasibleError, InputError
from planner.optimizer.goodput import best_goodput, best_goodput_up_to, sizings_to_bound
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import SLO_GAP
from planner.optimizer.sized import Sizing
from planner.optimizer.slo_attainment import FleetUnderSlo
from planner.optimizer.slo_cheapest import _CostOrder
from planner.optimizer.strategies import best_solution, may_be_in_time
from planner.queueing.service import Service
from planner.queueing.ttft import Path, Ttft
from planner.queueing.waits import mgc_wait
from planner.results.plan import Plan
from planner.roofline import exposed_transfer_s
from planner.work_clock import work_s
from tests.builders import FAST, HOME, in_classes, problem_of, reference, routed_search, sketch, small_with
from tests.cpu_cost import cached

PROMISE = {"slo": {"ttft_s": 4.0}}
SIZES = Sizing((3, 2, 3), ((1,),))


def promised(changes: dict[str, Any] | None = None) -> Problem:
    return problem_of(PROMISE | (changes or {}))


def p90_by_hand(problem: Problem, n: tuple[int, int], threshold: float, rate: float) -> float:
    """P90 of TTFT from the curves and the queueing room alone."""
    total, _, weights = problem.classes[0].mix.atoms(4096)
    paths = []
    for pool, count, chosen in ((0, n[0], total > threshold), (1, n[1], total <= threshold)):
        share = float(weights[chosen].sum())
        if share == 0:
            continue
        rates = problem.pools[pool].rates
        assert rates.prefill is not None
        seconds = np.asarray(rates.prefill.seconds(total[chosen], np.zeros(int(chosen.sum()))))
        service = Service.of(seconds, weights[chosen])
        if rate * share * service.mean_s >= count:
            return np.inf
        extra = exposed_transfer_s(seconds, rates.kv_bytes(total[chosen]), 12.5e9, 0.01, rates.n_layers)
        wait = mgc_wait(count, rate * share, service)
        paths.append(Path.of(share, seconds, weights[chosen] / share, wait, extra if pool == 0 else 0.0))
    return Ttft.of(paths).quantile_s(0.9)


@cached
def promised_plan() -> Plan:
    return optimize(small_with(PROMISE))


def test_at_its_goodput_a_plan_takes_just_the_time_it_promises() -> None:
    plan = promised_plan()
    assert plan.goodput_req_per_s is not None
    assert plan.goodput_req_per_s == plan.throughput_req_per_s
    assert plan.latency.ttft_p90_s == pytest.approx(4.0, rel=4e-3)
    assert plan.goodput_req_per_s < plan.max_throughput_req_per_s
    assert plan.status == "optimal"
    assert plan.classes[0].slo == {"ttft_s": 4.0, "ttft_percentile": 90.0}


def test_goodput_of_fixed_sizes_is_what_a_fine_grid_of_thresholds_finds() -> None:
    problem = promised()
    found = best_goodput(problem, SIZES, work_s() + 60)
    assert p90_by_hand(problem, (3, 2), found.threshold_tokens, found.rate) <= 4.0 * (1 + 1e-6)
    thresholds = np.geomspace(300, 60000, 40)
    # No threshold of the grid keeps the promise at a rate above the proven bound.
    better = [p90_by_hand(problem, (3, 2), t, found.bound * 1.001) <= 4.0 for t in thresholds]
    assert not any(better)


def test_no_other_sizes_do_better_than_the_plan() -> None:
    problem = promised()
    solution = routed_search(problem)
    assert solution is not None
    others = [
        best_goodput(problem, Sizing((fast, near, 5 - near), ((1,),)), work_s() + 60)
        for fast, near in product((2, 3), (1, 2, 3, 4))
    ]
    assert solution.objective >= max(other.rate for other in others) * (1 - 4e-3)
    assert solution.bound >= max(other.rate for other in others) * (1 - 1e-9)


def test_a_roomy_link_is_settled_at_once_and_a_crowded_one_size_by_size() -> None:
    assert list(sizings_to_bound(promised(), SIZES)) == [SIZES]
    crowded = [s.n_instances for s in sizings_to_bound(promised({"links.wan.capacity_gbps": 2.0}), SIZES)]
    assert crowded[:2] == [(3, 2, 3), (2, 2, 3)]
    assert len(crowded) == len(set(crowded)) >= 3


def test_no_smaller_size_beats_the_bound_of_sizes_that_crowd_their_link() -> None:
    lengths = {"kind": "empirical", "tokens": [2000, 9000, 30_000]}
    problem = promised({"links.wan.capacity_gbps": 6.0, "slo": {"ttft_s": 8.0}, "workload.lengths": lengths})
    _, found = best_goodput_up_to(problem, SIZES, work_s() + 60)
    rates = [
        best_goodput(problem, Sizing(n, ((1,),)), work_s() + 60).rate for n in product((0, 1, 2, 3), (1, 2), (2, 3))
    ]
    assert max(rates) <= found.bound * (1 + 1e-9)
    assert found.rate == pytest.approx(max(rates), rel=2e-3)


@given(st.floats(200, 60000), st.floats(200, 60000), st.floats(0, 1), st.floats(0.5, 6))
def test_an_interval_of_thresholds_is_never_later_than_any_threshold_in_it(
    one: float, other: float, where: float, rate: float
) -> None:
    fleet = FleetUnderSlo(promised(), SIZES)
    low, high = min(one, other), max(one, other)
    inside = low + where * (high - low)
    assert fleet.late_fraction(low, high, rate) <= fleet.late_fraction(inside, inside, rate) + 1e-9


def test_a_shorter_promise_or_a_higher_percentile_never_raises_goodput() -> None:
    rates = [
        best_goodput(problem_of({"slo": slo}), SIZES, work_s() + 60).rate
        for slo in (
            {"ttft_s": 8.0},
            {"ttft_s": 4.0},
            {"ttft_s": 3.0},
            {"ttft_s": 3.0, "ttft_percentile": 95.0},
        )
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0]


def test_sizes_that_keep_a_promise_at_no_rate_have_a_goodput_of_none() -> None:
    problem = promised({"slo": {"ttft_s": 1.0}})
    found = best_goodput(problem, Sizing((1, 5, 3), ((1,),)), work_s() + 60)
    assert (found.rate, found.bound) == (0.0, 0.0)


@pytest.mark.parametrize(("ttft_s", "demand"), [(2.5, 1.0), (4.0, 1.0), (4.0, 2.0)])
def test_sizes_that_are_settled_at_once_break_the_promise_and_one_more_of_a_pool_may_keep_it(
    ttft_s: float, demand: float
) -> None:
    problem = promised({"slo": {"ttft_s": ttft_s}, "objective": "min-cost", "demand_req_per_s": demand})
    order = _CostOrder(problem, demand, work_s() + 60)
    settled = order.grown(Sizing((1, 0, 1), ((1,),)))
    assert best_goodput_up_to(problem, settled, work_s() + 60)[1].bound < demand
    assert order.best is not None, "sizes that keep it are plans"
    limits = [pool.max_instances for pool in problem.pools]
    assert settled.n_instances[2] == limits[2]
    last = settled.n_instances[1]
    if last < limits[1]:
        more = Sizing((limits[0], last + 1, limits[2]), ((1,),))
        assert best_goodput_up_to(problem, more, work_s() + 60)[1].bound >= demand


def test_a_higher_demand_or_a_shorter_promise_never_costs_less() -> None:
    wide = {f"sites.remote.accelerators.{FAST}": 400, f"sites.local.accelerators.{HOME}": 800, "objective": "min-cost"}
    costs = []
    for demand, promise in ((5.0, 8.0), (5.0, 4.0), (7.0, 4.0)):
        solution = routed_search(problem_of(wide | {"demand_req_per_s": demand, "slo": {"ttft_s": promise}}))
        assert solution is not None
        assert solution.goodput is not None
        assert solution.goodput >= demand
        costs.append(solution.objective)
    assert costs == sorted(costs)


def test_what_binds_under_a_promise_is_priced_in_goodput() -> None:
    plan = promised_plan()
    names = {bottleneck.constraint: bottleneck for bottleneck in plan.bottlenecks}
    assert "slo.ttft_s" in names
    assert names["slo.ttft_s"].unit == "req/s per ms"
    assert all(bottleneck.shadow_price > 0 for bottleneck in plan.bottlenecks)


def test_a_promise_that_an_idle_fleet_breaks_is_infeasible_with_the_shortest_that_would_do() -> None:
    with pytest.raises(
        InfeasibleError, match=r"within 0\.1 s to the first token.*\n.*\n  - slo\.ttft_s at least 2\."
    ) as caught:
        optimize(small_with({"slo": {"ttft_s": 0.1}}))
    least = float(str(caught.value).split("slo.ttft_s at least ")[1].split(" ")[0])
    assert best_goodput(problem_of({"slo": {"ttft_s": least * 1.05}}), SIZES, work_s() + 60).rate > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefill_batching": "chunked"}, "no queueing model"),
        ({"dispatch": "round-robin"}, "no queueing model"),
        ({"slo": {"ttft_percentile": 90.0}}, "promises nothing"),
        ({"slo": {"ttft_s": 1.0, "ttft_percentile": 100.0}}, "ttft_percentile"),
    ],
)
def test_a_promise_without_a_model_or_a_meaning_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        optimize(small_with(PROMISE | changes))


def test_a_promise_over_several_classes_holds_for_each() -> None:
    one = {"lengths": {"kind": "constant", "tokens": 3000}, "output_lengths": {"kind": "constant", "tokens": 300}}
    two = {"lengths": {"kind": "constant", "tokens": 9000}, "output_lengths": {"kind": "constant", "tokens": 300}}
    asked = {**PROMISE, "objective": "min-cost", "demand_req_per_s": 4.0}
    plan = sketch(in_classes({"chat": (0.5, one), "files": (0.5, two)}, asked))
    assert [c.name for c in plan.classes] == ["chat", "files"]
    for request_class in plan.classes:
        assert request_class.latency.ttft_p90_s is not None
        assert request_class.latency.ttft_p90_s <= 4.0


def test_a_promise_on_the_step_refuses_a_measured_decode_point_that_breaks_it() -> None:
    with pytest.raises(InfeasibleError, match=r"pools\.decode: the measured decode step of 25 ms"):
        problem_of({"slo": {"tpot_ms": 20.0}})


def test_a_promise_that_hardly_binds_is_planned_for_no_fewer_than_other_sizes_serve() -> None:
    changes = {"slo": {"ttft_s": 1e5, "ttft_percentile": 50.0}, "workload.output_lengths.tokens": 990.0}
    problem = planning_problem(reference("expected-work").varied(changes))
    solution = routed_search(problem)
    assert solution is not None
    pinned = best_goodput(problem, Sizing((4, 3, 5), ((1,),)), work_s() + 60)
    assert pinned.rate <= solution.bound * (1 + 1e-9)


def test_the_reference_case_keeps_a_promise_without_a_warning() -> None:
    """Warnings are errors here; the search tries pools that are nearly empty and nearly saturated."""
    plan = sketch(reference("expected-work", **{"slo.ttft_s": 6.0}))
    assert plan.goodput_req_per_s is not None
    assert plan.latency.ttft_p90_s == pytest.approx(6.0, rel=5e-3)


@pytest.mark.parametrize("ttft_s", [0.25, 0.5])
def test_a_time_that_too_few_prompts_have_even_alone_is_proven_to_be_kept_by_no_fleet(ttft_s: float) -> None:
    """A network's search leaves that open: its bound counts what may be late over all pools of a class together."""
    periods = {"periods": {"day": {"demand": 1.5}, "night": {"demand": 0.5}}}
    asked = {"objective": "min-cost", "demand_req_per_s": 2.0, "slo": {"ttft_s": ttft_s}}
    problem = problem_of({**asked, **periods})
    assert not problem.is_plain
    assert best_solution(problem, 30.0) is None


def test_a_time_that_enough_prompts_have_alone_is_not_ruled_out() -> None:
    problem = problem_of({"objective": "min-cost", "demand_req_per_s": 2.0, "slo": {"ttft_s": 8.0}})
    assert may_be_in_time(problem)


@pytest.mark.parametrize(("squared_cv", "demand"), [(6.0, 1.0), (12.0, 0.3), (12.0, 3.0)])
def test_bursts_may_ask_for_more_instances_than_work_does(squared_cv: float, demand: float) -> None:
    """Without a stated limit the plan is that of any limit which leaves enough; it had been called infeasible."""
    bursty: dict[str, Any] = {
        "objective": "min-cost",
        "demand_req_per_s": demand,
        "slo": {"ttft_s": 2.0, "ttft_percentile": 99.0},
        "workload.arrivals": {"kind": "gamma", "squared_cv": squared_cv},
        "workload.lengths": {"kind": "constant", "tokens": 4000},
        "sites.remote.accelerators": {},
        "sites.local.accelerators": {},
    }
    stated = {f"pools.{name}.max_instances": 40 for name in ("fast", "near", "decode")}
    free, limited = (routed_search(problem_of(bursty | more)) for more in ({}, stated))
    assert free is not None
    assert limited is not None
    assert free.objective == pytest.approx(limited.objective)
    assert free.gap <= SLO_GAP
