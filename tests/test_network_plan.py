"""Plans of many sites, models, classes and periods, held against counting by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.comparison import baselines as rivals
from planner.comparison import decided, optimize, optimized, sketched
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.loads import NetworkLoads
from planner.optimizer.network.period_operation import (
    Decoding,
    Flow,
    PeriodOperation,
    classes_missing_slo,
    period_waits,
)
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import Part
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import best_solution
from tests.builders import FAST, GPUS, HOME, sketch, small_with
from tests.network_scenarios import scale_scenario

NEAR_S, FAST_S = 1.6, 0.8
"""Seconds that the measured instances of the small scenario need for 8,192 tokens."""
DECODE_S = 0.025 * 500 / 20
HOME_USD, FAST_USD = 2.0 * GPUS, 4.0 * GPUS
CONSTANT = {"kind": "constant", "tokens": 8192}
DAY: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "workload.lengths": CONSTANT,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 2000,
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
}


def problem_of(changes: Mapping[str, Any]) -> Problem:
    return planning_problem(small_with({**DAY, **changes}))


def solved(problem: Problem) -> Solution:
    found = network_search(problem, 600.0, 0.0)
    assert found is not None
    return found


def sizes(problem: Problem, solution: Solution) -> dict[str, int]:
    return {p.name: n for p, n in zip(problem.pools, solution.operations[0].n_instances, strict=True) if n}


def test_the_busiest_period_sets_the_sizes_and_the_hours_do_not() -> None:
    problem = problem_of({})
    solution = solved(problem)
    assert sizes(problem, solution) == {"near": 16, "decode": 7}
    assert solution.objective == pytest.approx(23 * HOME_USD)
    assert solution.bound == pytest.approx(solution.objective, rel=1e-6)
    assert [one.period for one in solution.operations] == [0, 1]


def test_prompts_leave_for_the_cheaper_site_when_that_pays_for_the_link() -> None:
    problem = problem_of({f"prices.{FAST}.usd_per_accelerator_hour": 3.0})
    solution = solved(problem)
    assert sizes(problem, solution) == {"fast": 8, "decode": 7}
    assert solution.objective == pytest.approx(8 * 3.0 * GPUS + 7 * HOME_USD + 20.0)


def test_a_decode_pool_without_instances_is_none() -> None:
    """Requests that may be decoded anywhere are not sent to where nothing decodes."""
    elsewhere = {"site": "remote", "hardware": HOME, "role": "decode", "n_instances": 0}
    stock = {FAST: 40 * GPUS, HOME: 8 * GPUS}
    problem = problem_of({"pools.elsewhere": elsewhere, "sites.remote.accelerators": stock})
    solution = solved(problem)
    assert len(problem.streams) == 2
    assert sizes(problem, solution) == {"near": 16, "decode": 7}
    for one, demand in zip(solution.operations, (10.0, 2.5), strict=True):
        assert sum(d.req_per_s for d in one.decodings) == pytest.approx(demand)


def test_surviving_the_loss_of_an_instance_takes_one_more_of_every_full_pool() -> None:
    problem = problem_of({"spare": {"survive": ("instance",)}, "demand_req_per_s": 10.0})
    solution = solved(problem)
    # Seven instances decode 11.2 req/s and six only 9.6: so there, too, one more is needed.
    assert sizes(problem, solution) == {"near": 17, "decode": 8}
    plan = sketched(problem, solution)
    assert set(plan.survives) == {"instance:fast", "instance:near", "instance:decode"}


def test_surviving_the_loss_of_the_link_needs_prefill_on_both_sides_of_it() -> None:
    cheap = {f"prices.{FAST}.usd_per_accelerator_hour": 1.0, "spare": {"survive": ("link",)}}
    problem = problem_of(cheap)
    assert sizes(problem, solved(problem)) == {"near": 16, "decode": 7}


def test_accelerators_that_change_roles_are_bought_for_the_busiest_period_alone() -> None:
    classes = {
        "read": {"share": 0.5, "workload": _workload(8192, 100)},
        "write": {"share": 0.5, "workload": _workload(64, 4000)},
    }
    changes = {
        "workload": None,
        "workload.lengths": None,
        "classes": classes,
        "periods": {"day": {"by_class": {"write": 0.0}}, "night": {"by_class": {"read": 0.0}}},
        "links": {},
        "pools.fast": None,
        "measured.fast": None,
    }
    kept = {key: value for key, value in DAY.items() if key != "workload.lengths"}
    fixed, free = (
        planning_problem(small_with({**kept, **_without(changes), "routing": {"role_conversion": conversion}}))
        for conversion in (False, True)
    )
    # Day: 5 req/s of 1.6 s prefill and 0.125 s decode; night: 5 req/s of 0.3 s prefill and 5 s decode.
    assert solved(fixed).objective == pytest.approx((8 + 25) * HOME_USD)
    assert solved(free).objective == pytest.approx((2 + 25) * HOME_USD)
    plan = optimized(free)
    assert plan.cost.usd_per_hour == pytest.approx((2 + 25) * HOME_USD)
    assert plan.gap == pytest.approx(0.0, abs=1e-6)


def test_accelerators_that_change_roles_are_no_more_than_the_site_has_though_models_need_them_by_turns() -> None:
    problem = planning_problem(scale_scenario(1, n_hours=2, n_sites=1, n_kinds=1, n_models=2, conversion=True))
    days = {None: (20.0, 2.0), "next": (2.0, 20.0)}
    demands = [d._replace(req_per_s=days[problem.classes[d.request_class].model]) for d in problem.demands]
    problem = replace(problem, demands=tuple(demands))
    operations = solved(problem).operations
    held = [
        max(sum(one.n_instances[i] * problem.pools[i].n_accelerators for i in members) for one in operations)
        for members in problem.owners
    ]
    at_once = max(
        sum(n * p.n_accelerators for n, p in zip(one.n_instances, problem.pools, strict=True)) for one in operations
    )
    assert at_once < sum(held)
    for more, is_solved in ((0, True), (-1, False)):
        (stock,) = problem.inventories
        less = replace(problem, inventories=(replace(stock, n_accelerators=sum(held) + more),))
        assert (network_search(less) is not None) is is_solved


def _without(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of the small scenario that leave its remote site unused rather than remove it."""
    left = {key: value for key, value in changes.items() if key not in ("links", "pools.fast", "measured.fast")}
    left.pop("workload.lengths")
    return {**left, "pools.fast.max_instances": 0}


def _workload(tokens: int, output: int) -> dict[str, Any]:
    return {
        "lengths": {"kind": "constant", "tokens": tokens},
        "output_lengths": {"kind": "constant", "tokens": output},
    }


def test_power_is_paid_idle_always_and_the_rest_for_the_hours_that_are_busy() -> None:
    power = {"usd_per_kwh": 0.5, "draw_fraction": 1.0, "idle_draw_fraction": 0.4, "pue": 1.2}
    dear = {f"prices.{FAST}.usd_per_accelerator_hour": 10.0}
    problem = problem_of({**dear, **{f"sites.local.{key}": value for key, value in power.items()}})
    solution = solved(problem)
    kilowatts = 0.7 * GPUS * 1.2
    idle = 23 * (HOME_USD + 0.4 * kilowatts * 0.5)
    mean_req_per_s = 10 * (16 + 8 * 0.25) / 24
    busy = mean_req_per_s * (NEAR_S + DECODE_S) * 0.6 * kilowatts * 0.5
    assert solution.objective == pytest.approx(idle + busy, rel=1e-6)
    assert sketched(problem, solution).cost.usd_per_hour == pytest.approx(solution.objective, rel=1e-6)


def test_the_most_throughput_is_the_scale_of_the_whole_day() -> None:
    problem = problem_of({"objective": "max-throughput", "sites.local.accelerators": {HOME: 23 * GPUS}})
    solution = solved(problem)
    # All prefill elsewhere: 23 instances decode 36.8 req/s, for which 29.44 fast ones are needed of 40.
    assert solution.scale * 10 == pytest.approx(23 / DECODE_S, rel=1e-6)


SLO = {"slo": {"ttft_s": 6.0}, "workload.lengths": {"kind": "empirical", "tokens": (1024, 8192, 32768)}}


def test_a_promise_is_kept_in_every_period_and_costs_no_less_than_none() -> None:
    problem, free = problem_of(SLO), problem_of({**SLO, "slo": None})
    found = network_search(problem, 600.0, 0.02)
    without = network_search(free, 600.0, 0.02)
    assert found is not None
    assert without is not None
    assert classes_missing_slo(problem, found.operations, found.ports) == []
    assert found.objective >= without.bound * (1 - 1e-9)
    assert found.bound <= found.objective * (1 + 1e-9)


def test_a_network_of_one_period_waits_as_a_plan_without_periods_does() -> None:
    """Decode is 93 % busy and holds few requests, so a place in its batches is most of the wait."""
    sizes = {f"pools.{name}.n_instances": n for name, n in (("fast", 0), ("near", 30), ("decode", 7))}
    changes: dict[str, Any] = {**DAY, **sizes, "demand_req_per_s": 10.4}
    changes.pop("periods")
    alone = sketch(small_with(changes)).latency
    network = sketch(small_with({**changes, "periods": {"day": {"hours": 24.0}}})).latency
    assert alone.ttft_mean_s is not None
    assert alone.ttft_unloaded_mean_s is not None
    assert alone.ttft_mean_s > 1.05 * alone.ttft_unloaded_mean_s
    for name in ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "ttft_unloaded_mean_s"):
        assert getattr(network, name) == pytest.approx(getattr(alone, name), rel=2e-3), name


@pytest.mark.parametrize("part", ["long", "short"])
def test_a_pool_that_is_nearly_full_waits_long_and_is_not_overloaded(part: Part) -> None:
    """Of 1,024 equally likely lengths, 513 are in a part that has 0.5006 of the requests: 1 / 1,280 too many."""
    low, high = 1024, 33792
    lengths = {"kind": "histogram", "edges": (low, high), "weights": (1.0,)}
    problem = problem_of({"slo": {"ttft_s": 60.0}, "workload.lengths": lengths})
    threshold = low + (high - low) * (0.5006 if part == "short" else 0.4994)
    decode = next(i for i, pool in enumerate(problem.pools) if pool.name == "decode")
    for arc in problem.arcs[0][part]:
        n = tuple(40 if i == arc.pool else 1000 if i == decode else 0 for i in range(len(problem.pools)))
        rate = 0.9995 * 40 / NetworkLoads(problem).work_s(0, arc, part, point_cell(threshold))
        flows = (Flow(0, part, arc, threshold, rate),)
        wait = period_waits(problem, PeriodOperation(0, n, flows, (Decoding(0, decode, rate),)), ((100,),)).wait(
            arc.pool
        )
        assert wait is not None
        assert 10 < wait.mean_s < 1000


def test_the_answer_states_every_period_with_thresholds_by_class_and_site() -> None:
    plan = sketch(small_with({**DAY, **SLO}))
    assert [(p.name, p.hours) for p in plan.periods] == [("day", 16.0), ("night", 8.0)]
    assert [p.demand_req_per_s for p in plan.periods] == pytest.approx([10.0, 2.5])
    assert plan.throughput_req_per_s == pytest.approx(10 * (16 + 2) / 24)
    assert set(plan.periods[0].thresholds["all"]) == {"local"}
    assert plan.threshold_tokens is None
    assert plan.latency.ttft_p90_s is not None
    assert plan.latency.ttft_p90_s <= 6.0
    assert plan.goodput_req_per_s is not None
    assert plan.goodput_req_per_s >= plan.throughput_req_per_s
    answer = plan.answer()
    assert answer["schema"] == "planner.plan/1"
    assert {pool["name"] for pool in answer["periods"][0]["pools"]} == {pool["name"] for pool in answer["pools"]}


def test_a_period_without_requests_has_pools_that_rest_and_no_shares() -> None:
    periods = {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.0}}
    plan = sketch(small_with({**DAY, "periods": periods}))
    day, night = plan.periods
    assert (night.demand_req_per_s, night.pool_shares, night.latency.ttft_mean_s) == (0.0, {}, None)
    assert {pool.utilization for pool in night.pools} == {0.0}
    assert set(day.pool_shares["all"]) == {"local"}
    assert plan.throughput_req_per_s == pytest.approx(10 * 16 / 24)


@pytest.mark.parametrize("rent", [1.5, 4.0])
def test_the_verdict_alone_is_that_of_the_plan(rent: float) -> None:
    problem = problem_of({f"prices.{FAST}.usd_per_accelerator_hour": rent})
    plan = optimized(problem)
    assert decided(problem) == (plan.verdict, plan.gap)
    assert plan.verdict.worth_it is (rent == 1.5)


def test_a_verdict_whose_alternative_is_not_found_in_time_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise UndecidedError("late")

    monkeypatch.setattr(rivals, "planned_fleet", late)
    problem = problem_of({f"prices.{FAST}.usd_per_accelerator_hour": 3.0})
    verdict = optimized(problem).verdict
    assert (verdict.worth_it, verdict.decided) == (False, False)
    assert verdict.because.startswith("Not decided: ")
    with pytest.raises(UndecidedError, match="sites on their own"):
        decided(problem)


def test_a_demand_beyond_every_accelerator_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="small: infeasible") as caught:
        optimize(small_with({**DAY, "demand_req_per_s": 1000.0}), time_limit_s=600.0)
    most = float(str(caught.value).split("demand_req_per_s at most ")[1].split(" ")[0])
    assert sketch(small_with({**DAY, "demand_req_per_s": most})).status == "optimal"
    with pytest.raises(InfeasibleError):
        optimize(small_with({**DAY, "demand_req_per_s": 1.02 * most}))


def test_an_impossible_promise_names_the_shortest_that_would_do_and_a_budget_the_least() -> None:
    promise = {**DAY, "slo": {"ttft_s": 0.5}}
    with pytest.raises(InfeasibleError, match=r"slo\.ttft_s at least \S+ \(is 0\.5\)") as caught:
        optimize(small_with(promise), time_limit_s=600.0)
    least = float(str(caught.value).split("slo.ttft_s at least ")[1].split(" ")[0])
    assert FAST_S <= least <= 1.1 * NEAR_S
    assert sketch(small_with({**promise, "slo": {"ttft_s": least}})).status in ("optimal", "feasible")
    with pytest.raises(InfeasibleError, match="budget_usd_per_hour at least 368 "):
        optimize(small_with({**DAY, "budget_usd_per_hour": 300.0}), time_limit_s=600.0)


def test_a_promise_without_a_queueing_model_is_refused_with_its_key() -> None:
    with pytest.raises(InputError, match=r"slo: promises a TTFT"):
        optimize(small_with({**DAY, **SLO, "dispatch": "round-robin"}))


def test_a_ratio_holds_for_the_whole_fleet_and_is_named_where_nothing_keeps_it() -> None:
    plan = sketch(small_with({**DAY, "routing": {"prefill_to_decode": "1:2"}}))
    assert 2 * plan.pool("near").n_instances == plan.pool("decode").n_instances
    with pytest.raises(InfeasibleError):
        optimize(small_with({**DAY, "routing": {"prefill_to_decode": "1:97"}}))


@pytest.mark.parametrize("promise", [{}, {"slo": {"ttft_s": 6.0}}], ids=["capacity", "promise"])
@pytest.mark.parametrize("objective", ["min-cost", "max-throughput"])
def test_a_day_of_one_stream_costs_what_its_busiest_hours_do(objective: str, promise: dict[str, Any]) -> None:
    """Where use costs nothing; and its rate is in proportion to that of these hours."""
    factors = np.random.default_rng(38).uniform(0.1, 1.0, 3).tolist()
    day = {f"p{i}": {"hours": 1.0 + i, "demand": factor} for i, factor in enumerate(factors)}
    asked = {"objective": objective, "demand_req_per_s": 2.0, **promise}
    whole, peak = (
        best_solution(planning_problem(small_with(changes)), 60.0)
        for changes in ({**asked, "periods": day}, {**asked, "demand_req_per_s": 2.0 * max(factors)})
    )
    assert whole is not None
    assert peak is not None
    assert whole.objective == pytest.approx(peak.objective, rel=1e-6)
    assert [one.n_instances for one in whole.operations] == [peak.operations[0].n_instances] * 3
    assert whole.gap == pytest.approx(peak.gap, abs=1e-6)
