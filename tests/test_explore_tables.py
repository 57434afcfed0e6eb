"""What the page computes from its tables is what `planner optimize --set` says: at nodes exactly, between nearly."""

import json
import random
from math import inf

import pytest

from planner.errors import InputError
from planner.optimizer import planning_problem
from planner.queueing import Path as QueuePath
from planner.queueing import Service, Ttft, mgc_wait
from planner.results import Fleet, plan_from
from planner.results.explorer import Tables
from planner.scenario import read_scenario
from planner.studies.explore import Asked, explorer
from planner.studies.explore.combination import (
    Knobs,
    busy,
    capacities,
    highest_req_per_s,
    is_node,
    latency,
    usd_per_hour,
    usd_per_million,
)
from planner.studies.explore.exact import quantile_near_s
from planner.studies.explore.study import solution_of_plan
from planner.studies.explore.tables import USE, tables_of
from tests.explore_cases import CASES, page, planned_with, tables_of_case

EXACT = 1e-6
BETWEEN = 0.02
SEED = 24
ALL_NODES = {"reference": 5, "promise": 2, "charged link": 2}
QUICK_FIRST = [name if name == "reference" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
TIMES = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s")


def planned_sizes(tables: Tables) -> tuple[int, ...]:
    return tuple(pool.n_planned for pool in tables.pools)


def most_allowed(name: str) -> float:
    """Rate up to which the case's promise holds at the plan's own knobs, or that is served [1/s]."""
    plan = page(name).plan
    return plan.most_req_per_s if plan.goodput_req_per_s else plan.max_throughput_req_per_s


def steady_nodes(name: str) -> list[Knobs]:
    """Nodes at which the plan's own fleet keeps what is promised; `optimize` plans others at a lower rate."""
    tables, slo = tables_of_case(name), read_scenario("prfaas-paper", CASES[name]).slo
    limit_s = inf if slo is None or slo.ttft_s is None else slo.ttft_s
    assert tables.exact is not None
    found = [
        Knobs(planned_sizes(tables), t, r)
        for i, t in enumerate(tables.node_tokens)
        for j, r in enumerate(tables.exact.req_per_s)
        if (p90_s := tables.exact.figures["ttft_p90_s"][i][j]) is not None and p90_s <= limit_s
    ]
    return [k for k in found if k.req_per_s <= 0.8 * most_allowed(name)]


@pytest.mark.parametrize("name", QUICK_FIRST)
def test_at_nodes_every_figure_is_that_of_optimize(name: str) -> None:
    tables = tables_of_case(name)
    for knobs in random.Random(SEED).sample(steady_nodes(name), ALL_NODES[name]):
        assert is_node(tables, knobs)
        fleet, times = planned_with(name, knobs), latency(tables, knobs)
        assert fleet.throughput_req_per_s == pytest.approx(knobs.req_per_s, rel=EXACT)
        assert times is not None
        for key in TIMES:
            assert times[key] == pytest.approx(getattr(fleet.latency, key), rel=EXACT), (knobs, key)
        assert_rates_and_cost(tables, knobs, fleet)


def assert_rates_and_cost(tables: Tables, knobs: Knobs, fleet: Fleet) -> None:
    used, most = busy(tables, knobs), capacities(tables, knobs)
    for i, pool in enumerate(tables.pools):
        assert used[i] == pytest.approx(fleet.pool(pool.name).utilization, rel=EXACT)
        assert most[i] == pytest.approx(fleet.pool(pool.name).capacity_req_per_s, rel=EXACT)
    assert highest_req_per_s(tables, knobs) == pytest.approx(fleet.max_throughput_req_per_s, rel=EXACT)
    assert usd_per_hour(tables, knobs) == pytest.approx(fleet.cost.usd_per_hour, rel=EXACT)
    per_million = fleet.cost.usd_per_million_input_tokens, fleet.cost.usd_per_million_output_tokens
    assert usd_per_million(tables, knobs) == pytest.approx(per_million, rel=EXACT)


def turned(name: str, rng: random.Random) -> Knobs:
    """Sizes, a threshold and a rate between nodes, with every pool within the tables and its stock."""
    tables = tables_of_case(name)
    while True:
        sizes = tuple(rng.choice(pool.waits.n_instances) for pool in tables.pools if pool.waits)
        t = tables.node_tokens[0] * (tables.node_tokens[-1] / tables.node_tokens[0]) ** rng.random()
        knobs = Knobs(sizes, round(t), 1.0)
        rate = highest_req_per_s(tables, knobs) * rng.uniform(0.3, 0.95)
        knobs = knobs._replace(req_per_s=round(rate, 3))
        stocked = all(
            sum(n * p.accelerators_per_instance for n, p in zip(sizes, tables.pools, strict=True) if p.name in s.pools)
            <= s.n_accelerators
            for s in tables.stocks
        )
        if stocked and max(busy(tables, knobs)) <= USE[-1]:
            return knobs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "charged link"])
def test_between_nodes_times_are_within_two_percent_and_rates_within_a_thousandth(name: str) -> None:
    tables, rng = tables_of_case(name), random.Random(SEED)
    for _ in range(6):
        knobs = turned(name, rng)
        assert not is_node(tables, knobs)
        fleet, times = planned_with(name, knobs), latency(tables, knobs)
        assert times is not None
        assert highest_req_per_s(tables, knobs) == pytest.approx(fleet.max_throughput_req_per_s, rel=1e-3)
        for key in TIMES:
            assert times[key] == pytest.approx(getattr(fleet.latency, key), rel=BETWEEN), (knobs, key)


def test_sizes_alone_leave_rates_and_cost_exact() -> None:
    tables, rng = tables_of_case("reference"), random.Random(SEED)
    for _ in range(3):
        knobs = turned("reference", rng)._replace(threshold_tokens=rng.choice(tables.fine_tokens))
        knobs = knobs._replace(req_per_s=round(0.5 * highest_req_per_s(tables, knobs), 4))
        assert_rates_and_cost(tables, knobs, planned_with("reference", knobs))


def test_the_sooner_quantile_is_the_quantile_whatever_the_guess() -> None:
    wait = mgc_wait(2, 1.5, Service.of([0.5, 1.5]))
    ttft = Ttft.of([QueuePath.of(0.7, [0.5, 1.5], [0.5, 0.5], wait), QueuePath.of(0.3, [4.0], [1.0], wait)])
    for q in (0.1, 0.5, 0.9, 0.99):
        for guess in (1e-3, 0.5, 4.0, 4.1, 300.0):
            assert quantile_near_s(ttft, q, guess) == pytest.approx(ttft.quantile_s(q), rel=1e-8)


@pytest.mark.slow
def test_a_page_of_a_finished_plan_has_the_tables_of_a_plan_made_anew() -> None:

    for name in CASES:
        made = page(name)
        again = plan_from(json.dumps(made.plan.answer()), "plan.json")
        problem = planning_problem(read_scenario("prfaas-paper", CASES[name]))
        solution = solution_of_plan(problem, again)
        assert solution is not None
        assert made.tables is not None
        assert tables_of(problem, solution) == made.tables.model_copy(update={"exact": None})


def test_a_plan_of_another_fleet_is_refused() -> None:
    plan = page("reference").plan
    scenario = read_scenario("prfaas-paper")
    renamed = plan.model_copy(update={"pools": (plan.pools[0].model_copy(update={"name": "other"}), *plan.pools[1:])})
    for other in (renamed, plan.model_copy(update={"links": ()})):
        with pytest.raises(InputError, match="is of another fleet"):
            explorer(Asked(scenario, "", "planner optimize", "0", other, False))


def test_without_a_queueing_model_rates_and_cost_are_told_and_no_times() -> None:
    made = explorer(Asked(read_scenario("prfaas-paper", ['dispatch = "round-robin"']), "", "", "0", None, False))
    tables = made.tables
    assert tables is not None
    assert tables.exact is None
    knobs = Knobs(planned_sizes(tables), tables.planned_tokens, 2.0)
    assert set((latency(tables, knobs) or {}).values()) == {None}
    assert highest_req_per_s(tables, knobs) == pytest.approx(made.plan.max_throughput_req_per_s, rel=EXACT)


@pytest.mark.parametrize("name", QUICK_FIRST)
def test_the_front_of_the_tables_rises_and_no_fleet_in_stock_is_above_it(name: str) -> None:
    made, tables, rng = page(name), tables_of_case(name), random.Random(SEED)
    points = made.fronts[0].front.points
    spent, rates = [p.usd_per_hour for p in points], [p.value for p in points]
    assert spent == sorted(spent)
    assert rates == sorted(rates)
    assert rates[-1] >= made.plan.max_throughput_req_per_s * (1 - 1e-9)
    for _ in range(20):
        knobs = turned(name, rng)
        rate = highest_req_per_s(tables, knobs)
        usd = usd_per_hour(tables, knobs._replace(req_per_s=rate)) or 0.0
        best = max((p.value for p in points if p.usd_per_hour <= usd * (1 + 1e-9)), default=0.0)
        assert rate <= best * (1 + 1e-3), knobs  # between fine thresholds a rate is a thousandth off at most
