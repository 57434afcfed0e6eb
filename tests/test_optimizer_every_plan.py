"""Answers held against every plan there is, on a sample of `tests/campaigns/brute_force.py`."""

from contextlib import suppress

import pytest

from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.strategies import best_solution
from tests.campaigns.brute_force import covered_one_site, network_faults, one_site_faults
from tests.campaigns.random_scenarios import Data, network_data, one_site_data
from tests.metamorphic import answer_to, scenario_of
from tests.network_program import NetworkProgram, settled_programs

N_SAMPLED = 10


def faults_of(data: Data) -> list[str]:
    faults = network_faults if "periods" in data else one_site_faults
    return list(faults(data, answer_to(data)))


def sampled() -> list[Data]:
    questions = covered_one_site(50_000)
    return [next(questions) for _ in range(N_SAMPLED)]


@pytest.mark.parametrize("data", sampled(), ids=lambda data: data["name"])
def test_no_plan_of_one_stream_is_better_than_the_answer_or_beats_its_bound(data: Data) -> None:
    assert faults_of(data) == []


@pytest.mark.parametrize("seed", [50_001, 50_002, 50_004])
def test_no_plan_of_a_small_network_is_better_than_the_answer_or_beats_its_bound(seed: int) -> None:
    assert faults_of(network_data(seed)) == []


def with_one_rule(seed: int) -> Data:
    """A small network under a rule or a limit that is about the whole fleet."""
    data = network_data(seed)
    hits = any("prefix_hits" in one["workload"] for one in data["classes"].values())
    if seed % 2 or hits:
        data["routing"] = {**data.get("routing", {}), "prefill_to_decode": ("1:1", "1:2", "2:1", "3:2")[seed % 4]}
    else:
        data["capacity_rule"] = "mean-length"
    return data


@pytest.mark.parametrize("seed", range(61_000, 61_010))
def test_no_plan_of_a_ratio_or_by_mean_length_is_better_than_the_answer_of_a_network(seed: int) -> None:
    assert faults_of(with_one_rule(seed)) == []


@pytest.mark.parametrize("seed", [10_034, 10_039])
def test_among_plans_of_one_stream_as_fast_as_the_best_the_answer_is_the_cheapest(seed: int) -> None:
    assert faults_of(one_site_data(seed, is_enumerable=True, promises=False)) == []


@pytest.mark.parametrize("seed", [10_005])
def test_among_plans_of_a_network_as_fast_as_the_best_the_answer_is_the_cheapest(seed: int) -> None:
    assert faults_of(network_data(seed)) == []


@pytest.mark.parametrize("seed", [50_007, 50_008])
def test_the_program_of_a_network_finds_what_trying_all_sizes_finds(seed: int) -> None:
    """The oracle's own check: the cheapest of all sizes and ports, one by one."""
    data = network_data(seed, objective="min-cost", n_sites=2, n_periods=1)
    for site in data["sites"].values():
        site["accelerators"] = dict.fromkeys(site["accelerators"], 16)
    best = NetworkProgram(data).cheapest(1.0)
    assert min(program.cheapest(1.0) for _, program in settled_programs(data)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", [5003, 5018, 5026])
def test_nothing_much_faster_is_found_by_asking_for_a_rate_than_by_asking_for_the_highest(seed: int) -> None:
    """A network that promises times: a plan of a given rate is found more surely than the highest rate."""
    problem = planning_problem(scenario_of(network_data(seed, "max-throughput", promises=True)))
    found = best_solution(problem, 120.0)
    assert found is not None
    assert found.objective <= found.bound * (1 + 1e-9)
    for more in (1.03, 1.1, 1.3):
        asked = problem.demanding(more * found.scale * problem.mean_req_per_s, "min-cost")
        with suppress(UndecidedError):
            assert best_solution(asked, 5.0) is None
