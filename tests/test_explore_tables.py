"""What the page computes from its tables is what `planner optimize --set` says: at nodes exactly, between nearly."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from planner.comparison import optimize
from planner.comparison.evaluation import Evaluation
from planner.errors import InputError
from planner.optimizer.layout_choice import planning_problem
from planner.queueing.service import Service
from planner.queueing.ttft import Path as QueuePath
from planner.queueing.ttft import Ttft
from planner.queueing.waits import mgc_wait
from planner.results.explorer import Explorer, Tables
from planner.results.plan import Fleet, PeriodPlan, Plan
from planner.results.plan_file import plan_from
from planner.scenario import load_scenario, read_scenario
from planner.studies.explore import PageInputs, explorer
from planner.studies.explore.combination import (
    Knobs,
    busy,
    capacities,
    fleet_req_per_s,
    usd_per_hour,
    usd_per_million,
)
from planner.studies.explore.exact import quantile_near_s
from planner.studies.explore.network_tables import NetworkTables
from planner.studies.explore.study import solution_of_network_plan, solution_of_plan
from planner.studies.explore.tables import USE, tables_of
from tests.builders import sketch
from tests.explore_cases import CASES, followed_page, networks, page, page_of_network, planned_with, tables_of_case
from tests.explore_reference import fleet_latency, is_node

EXACT = 1e-6
BETWEEN = 0.02
SEED = 24
ALL_NODES = {"reference": 5, "promise": 2, "charged link": 2}
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


@pytest.mark.parametrize("name", CASES)
def test_at_nodes_every_figure_is_that_of_optimize(name: str) -> None:
    tables = tables_of_case(name)
    for knobs in random.Random(SEED).sample(steady_nodes(name), ALL_NODES[name]):
        assert is_node(tables, knobs)
        fleet, times = planned_with(name, knobs), fleet_latency(tables, knobs)
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
    assert fleet_req_per_s(tables, knobs) == pytest.approx(fleet.max_throughput_req_per_s, rel=EXACT)
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
        rate = fleet_req_per_s(tables, knobs) * rng.uniform(0.3, 0.95)
        knobs = knobs._replace(req_per_s=round(rate, 3))
        stocked = all(
            sum(n * p.accelerators_per_instance for n, p in zip(sizes, tables.pools, strict=True) if p.name in s.pools)
            <= s.n_accelerators
            for s in tables.stocks
        )
        if stocked and max(busy(tables, knobs)) <= USE[-1]:
            return knobs


@pytest.mark.parametrize("name", ["reference", "charged link"])
def test_between_nodes_times_are_within_two_percent_and_rates_within_a_thousandth(name: str) -> None:
    tables, rng = tables_of_case(name), random.Random(SEED)
    for _ in range(6):
        knobs = turned(name, rng)
        assert not is_node(tables, knobs)
        fleet, times = planned_with(name, knobs), fleet_latency(tables, knobs)
        assert times is not None
        assert fleet_req_per_s(tables, knobs) == pytest.approx(fleet.max_throughput_req_per_s, rel=1e-3)
        for key in TIMES:
            assert times[key] == pytest.approx(getattr(fleet.latency, key), rel=BETWEEN), (knobs, key)


def test_sizes_alone_leave_rates_and_cost_exact() -> None:
    tables, rng = tables_of_case("reference"), random.Random(SEED)
    for _ in range(3):
        knobs = turned("reference", rng)._replace(threshold_tokens=rng.choice(tables.fine_tokens))
        knobs = knobs._replace(req_per_s=round(0.5 * fleet_req_per_s(tables, knobs), 4))
        assert_rates_and_cost(tables, knobs, planned_with("reference", knobs))


def test_the_sooner_quantile_is_the_quantile_whatever_the_guess() -> None:
    wait = mgc_wait(2, 1.5, Service.of([0.5, 1.5]))
    ttft = Ttft.of([QueuePath.of(0.7, [0.5, 1.5], [0.5, 0.5], wait), QueuePath.of(0.3, [4.0], [1.0], wait)])
    for q in (0.1, 0.5, 0.9, 0.99):
        for guess in (1e-3, 0.5, 4.0, 4.1, 300.0):
            assert quantile_near_s(ttft, q, guess) == pytest.approx(ttft.quantile_s(q), rel=1e-8)


def test_a_page_of_a_finished_plan_has_the_tables_of_a_plan_made_anew() -> None:

    for name in CASES:
        made = page(name)
        again = plan_from(json.dumps(made.plan.answer()), "plan.json")
        problem = planning_problem(read_scenario("prfaas-paper", CASES[name]))
        solution = solution_of_plan(problem, again)
        assert solution is not None
        (tables,) = made.tables
        assert tables_of(problem, solution) == tables.model_copy(update={"exact": None})


def test_a_plan_of_another_fleet_is_refused() -> None:
    plan = page("reference").plan
    scenario = read_scenario("prfaas-paper")
    renamed = plan.model_copy(update={"pools": (plan.pools[0].model_copy(update={"name": "other"}), *plan.pools[1:])})
    for other in (renamed, plan.model_copy(update={"links": ()})):
        with pytest.raises(InputError, match="is of another fleet"):
            explorer(PageInputs(scenario, "", "planner optimize", "0", other, False))


BATCHES = """
schema = "planner.scenario/1"
name = "batches"
objective = "min-cost"
demand_req_per_s = 4
model = { profile = "llama-3.1-8b", stack = "vllm" }
[sites.home]
[workload]
lengths = { kind = "constant", tokens = 2000 }
output_lengths = { kind = "constant", tokens = 200 }
[pools.both]
site = "home"
hardware = "h100-sxm"
role = "colocated"
layouts = "auto"
tokens_per_pass = [512, 2048]
[prices.h100-sxm]
usd_per_accelerator_hour = 2
basis = "assumed"
source = "a test"
"""


def test_a_page_of_a_finished_plan_of_batches_shows_it_and_turns_nothing() -> None:
    scenario = load_scenario(BATCHES, "batches.toml", Path())
    plan = plan_from(json.dumps(optimize(scenario).answer()), "plan.json")
    made = explorer(PageInputs(scenario, BATCHES, "planner optimize", "0", plan, False))
    assert made.plan == plan
    assert made.tables == ()


def test_without_a_queueing_model_rates_and_cost_are_told_and_no_times() -> None:
    made = explorer(PageInputs(read_scenario("prfaas-paper", ['dispatch = "round-robin"']), "", "", "0", None, False))
    (tables,) = made.tables
    assert tables.exact is None
    knobs = Knobs(planned_sizes(tables), tables.planned_tokens, 2.0)
    assert set((fleet_latency(tables, knobs) or {}).values()) == {None}
    assert fleet_req_per_s(tables, knobs) == pytest.approx(made.plan.max_throughput_req_per_s, rel=EXACT)


def hourly_usd(made: Explorer, knobs: Sequence[Knobs]) -> float:
    """Mean bill over the periods of a plan, each with its knobs."""
    bills = [usd_per_hour(one, at) or 0.0 for one, at in zip(made.tables, knobs, strict=True)]
    hours = [period.hours for period in made.plan.periods]
    return sum(h * usd for h, usd in zip(hours, bills, strict=True)) / sum(hours)


def planned_knobs(tables: Tables) -> Knobs:
    return Knobs(planned_sizes(tables), tables.planned_tokens, tables.planned_req_per_s)


def assert_period(tables: Tables, knobs: Knobs, period: PeriodPlan, times: float = EXACT) -> None:
    """What the tables say with the knobs is what a plan says of its period."""
    used = {pool.name: part for pool, part in zip(tables.pools, busy(tables, knobs), strict=True)}
    assert used == pytest.approx({p.name: p.utilization for p in period.pools if p.name in used}, rel=EXACT)
    found = fleet_latency(tables, knobs)
    assert found is not None
    for key in TIMES:
        assert found[key] == pytest.approx(getattr(period.latency, key), rel=times), (period.name, knobs, key)


@pytest.mark.parametrize("name", ["two periods", "two classes"])
def test_a_network_at_its_plan_is_the_plan_in_every_period(name: str) -> None:
    made = page_of_network(name)
    assert len(made.tables) == len(made.plan.periods) == 2
    for tables, period in zip(made.tables, made.plan.periods, strict=True):
        assert is_node(tables, planned_knobs(tables))
        assert tables.is_split
        assert_period(tables, planned_knobs(tables), period)
        offloaded = tables.offload_fraction[tables.fine_tokens.index(tables.planned_tokens)]
        assert offloaded == pytest.approx(period.offload_fraction, rel=EXACT)
    usd = hourly_usd(made, [planned_knobs(tables) for tables in made.tables])
    assert usd == pytest.approx(made.plan.cost.usd_per_hour, rel=EXACT)


def replanned(sizes: Mapping[str, int], tokens: float) -> Plan:
    """What `planner optimize --no-run --set` plans for the two periods with sizes and a threshold."""
    changes = {f"pools.{name}.n_instances": n for name, n in sizes.items()}
    return sketch(networks()["two periods"].varied({**changes, "routing.threshold_tokens": tokens}))


def evaluated(made: NetworkTables, p: int, knobs: Knobs) -> dict[str, float]:
    """Latency of a period of a network as the optimizer evaluates its fixed ways with the knobs."""
    sizes = dict(zip(made.used, knobs.n_instances, strict=True))
    one = made.turned.operation(p, knobs.threshold_tokens / made.turned.planned_tokens(p))
    here = replace(one, n_instances=tuple(sizes.get(i, n) for i, n in enumerate(one.n_instances)))
    solution, streams = replace(made.turned.solution, operations=(here,)), range(len(made.problem.streams))
    answer = Evaluation(replace(made.problem, periods=(made.problem.periods[p],)), solution)
    ttft, step_s = answer.ttft(streams, (0,)), answer.step_s(streams, (0,))
    assert ttft is not None
    assert step_s is not None
    quantiles = {key: ttft.quantile_s(q) for key, q in zip(TIMES[1:4], (0.5, 0.9, 0.99), strict=True)}
    return {"ttft_mean_s": ttft.mean_s, **quantiles, "tpot_mean_s": step_s}


def test_between_nodes_times_of_a_network_are_within_eight_percent() -> None:
    problem = planning_problem(networks()["two classes"])
    solution = solution_of_network_plan(problem, page_of_network("two classes").plan)
    assert solution is not None
    made, rng = NetworkTables(problem, solution), random.Random(SEED)
    for p in made.periods:
        tables = made.tables(p)
        tried = [
            Knobs(
                tuple(rng.choice(pool.waits.n_instances) for pool in tables.pools if pool.waits),
                rng.uniform(tables.node_tokens[0], tables.node_tokens[-1]),
                tables.planned_req_per_s,
            )
            for _ in range(40)
        ]
        steady = [knobs for knobs in tried if max(busy(tables, knobs)) < 0.9]
        assert len(steady) >= 3
        for knobs in steady[:4]:
            found = fleet_latency(tables, knobs)
            assert found is not None
            assert found == pytest.approx(evaluated(made, p, knobs), rel=0.08), knobs


def nearest(tables: Tables, tokens: float) -> float:
    """The node that a threshold is, but for rounding."""
    found = min(tables.node_tokens, key=lambda node: abs(node - tokens))
    assert found == pytest.approx(tokens, rel=1e-9)
    return found


def test_a_network_of_one_route_is_turned_as_optimize_turns_it() -> None:
    made = page_of_network("two periods")
    first = made.tables[0]
    for tokens, more, times in ((first.node_tokens[4], 0, EXACT), (first.node_tokens[5], 1, BETWEEN)):
        sizes = {pool.name: pool.n_planned + (more if pool.name == "fast" else 0) for pool in first.pools}
        plan, factor = replanned(sizes, tokens), tokens / first.planned_tokens
        knobs = [
            Knobs(tuple(sizes.values()), nearest(t, t.planned_tokens * factor), t.planned_req_per_s)
            for t in made.tables
        ]
        for tables, at, period in zip(made.tables, knobs, plan.periods, strict=True):
            assert is_node(tables, at) == (more == 0)
            assert_period(tables, at, period, times)
        assert hourly_usd(made, knobs) == pytest.approx(plan.cost.usd_per_hour, rel=EXACT)


@pytest.mark.parametrize("name", ["two periods", "two classes"])
def test_the_page_of_a_finished_network_plan_has_the_same_tables(name: str) -> None:
    made, scenario = page_of_network(name), networks()[name]
    again = explorer(PageInputs(scenario, "", "", "0", plan_from(json.dumps(made.plan.answer()), "plan.json"), False))
    assert len(again.tables) == len(made.tables)
    for one, other in zip(again.tables, made.tables, strict=True):
        assert one.planned_tokens == pytest.approx(other.planned_tokens, rel=1e-9)
        assert one.exact is not None
        assert other.exact is not None
        for key in TIMES:
            found, known = ([x for row in tables.figures[key] for x in row] for tables in (one.exact, other.exact))
            assert [x is None for x in found] == [x is None for x in known]
            assert [x for x in found if x] == pytest.approx([x for x in known if x], rel=EXACT)


def test_of_a_fleet_that_changes_by_the_hour_the_page_shows_the_plan_alone() -> None:
    assert followed_page().tables == ()


def test_parts_of_tables_that_are_equal_are_written_once() -> None:
    answer = page_of_network("two periods").answer()
    parts = [json.dumps(part, sort_keys=True) for part in answer["shared"]]
    assert len(parts) == len({*parts}) >= 3
    pools = [tables["pools"] for tables in answer["tables"]]  # of two periods alike but for their rates
    assert pools[0] == pools[1]
    assert {*pools[0]} == {"shared"}


@pytest.mark.parametrize("name", CASES)
def test_the_front_of_the_tables_rises_and_no_fleet_in_stock_is_above_it(name: str) -> None:
    made, tables, rng = page(name), tables_of_case(name), random.Random(SEED)
    points = made.fronts[0].front.points
    spent, rates = [p.usd_per_hour for p in points], [p.value for p in points]
    assert spent == sorted(spent)
    assert rates == sorted(rates)
    assert rates[-1] >= made.plan.max_throughput_req_per_s * (1 - 1e-9)
    for _ in range(20):
        knobs = turned(name, rng)
        rate = fleet_req_per_s(tables, knobs)
        usd = usd_per_hour(tables, knobs._replace(req_per_s=rate)) or 0.0
        best = max((p.value for p in points if p.usd_per_hour <= usd * (1 + 1e-9)), default=0.0)
        assert rate <= best * (1 + 1e-3), knobs  # between fine thresholds a rate is a thousandth off at most
