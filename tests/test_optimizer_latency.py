"""Time to first token of a plan: without queues by integration, with queues by known queues and laws."""

from itertools import pairwise
from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from planner.comparison.evaluation import evaluation_at
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import RoutedSolution
from planner.optimizer.slo_attainment import FleetUnderSlo
from planner.optimizer.strategies import best_solution
from planner.results.plan_parts import Latency
from tests.builders import (
    Draw,
    evaluation_of,
    fleet_of,
    in_classes,
    problem_of,
    reference,
    routed_search,
    sketch,
)
from tests.oracles import mg1_wait_moments

SEEDS = st.integers(0, 10_000)
LOADED = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s")


def solved(changes: dict[str, Any]) -> tuple[Problem, RoutedSolution]:
    problem = problem_of(changes)
    solution = routed_search(problem)
    assert solution is not None
    return problem, solution


def latency_at(problem: Problem, solution: RoutedSolution, load: float) -> Latency:
    return latency_of(problem, solution, load * solution.highest_req_per_s)


def latency_of(problem: Problem, solution: RoutedSolution, req_per_s: float) -> Latency:
    """Latency of all requests at a rate."""
    found: Latency = evaluation_of(problem, solution, req_per_s).fleet()["latency"]
    return found


def test_unloaded_mean_is_the_integral_of_service_and_transfer_over_all_lengths() -> None:
    """By quadrature of the density, with the curves and the transfer written out."""
    problem, solution = solved({"links.wan.capacity_gbps": 10.0})
    threshold, low, high = solution.threshold_tokens, 128.0, 65_536.0
    fast, near = problem.pools[0].rates, problem.pools[1].rates
    assert fast.prefill is not None
    assert near.prefill is not None
    layers = 94

    def ttft_s(x: float) -> float:
        if x <= threshold:
            return float(near.prefill.curve(x))  # type: ignore[union-attr]
        service_s = float(fast.prefill.curve(x))  # type: ignore[union-attr]
        send_s = 4 * 128 * 2 * 2 * layers * x / 1.25e9
        return service_s + max(send_s - service_s * (layers - 1) / layers, send_s / layers) + 0.005

    def density(x: float) -> float:
        return exp(-((log(x) - 9.0) ** 2) / 2) / x

    def weighted(x: float) -> float:
        return ttft_s(x) * density(x)

    cuts = [low, threshold, 8192.0, high]
    part = sum(quad(weighted, a, b, limit=400)[0] for a, b in pairwise(cuts))
    whole = quad(density, low, high, limit=400)[0]
    assert latency_at(problem, solution, 0.5).ttft_unloaded_mean_s == pytest.approx(part / whole, rel=1e-3)


def test_unloaded_figures_of_two_lengths_are_those_of_a_hand_calculation() -> None:
    """1,000 tokens near take 0.5 s; 9,000 tokens remote take 2.25 s and leave 5e9 bytes / 94 layers at 12.5e9 B/s."""
    line = {"tokens": [1000, 9000], "interpolation": "linear"}
    problem, solution = solved(
        {
            "workload.lengths": {"kind": "empirical", "tokens": [1000, 9000], "weights": [4, 1]},
            "routing.threshold_tokens": 5000,
            "measured.fast.prefill": {**line, "seconds": [0.25, 2.25]},
            "measured.fast.kv": {**line, "bytes": [1e9, 5e9]},
            "measured.home.prefill": {**line, "seconds": [0.5, 4.5]},
        }
    )
    latency = latency_at(problem, solution, 0.3)
    remote_s = 2.25 + 5e9 / 12.5e9 / 94 + 0.005
    assert latency.ttft_unloaded_mean_s == pytest.approx(0.8 * 0.5 + 0.2 * remote_s)
    assert latency.ttft_unloaded_p90_s == pytest.approx(remote_s)
    assert latency.tpot_mean_s == pytest.approx(0.025)


def test_a_link_too_slow_to_hide_behind_prefill_shows_in_ttft() -> None:
    slow = solved({"links.wan.capacity_gbps": 4.0, "routing.threshold_tokens": 20_000})
    fast = solved({"links.wan.capacity_gbps": 400.0, "routing.threshold_tokens": 20_000})
    seconds = [latency_at(*case, 0.5).ttft_unloaded_p90_s for case in (slow, fast)]
    assert seconds[0] is not None
    assert seconds[1] is not None
    assert seconds[0] > seconds[1]


@pytest.mark.parametrize("fabric_gbps", [100.0, 400.0])
def test_a_stated_fabric_adds_the_hand_off_inside_the_site(fabric_gbps: float) -> None:
    lengths = {"workload.lengths": {"kind": "constant", "tokens": 8192}, "pools.fast.n_instances": 0}
    plain, with_fabric = solved(lengths), solved(lengths | {"sites.local.fabric_gbps": fabric_gbps})
    before, after = (latency_at(*case, 0.5).ttft_unloaded_mean_s for case in (plain, with_fabric))
    sent_s = 4 * 128 * 2 * 2 * 94 * 8192 / (fabric_gbps * 1e9 / 8)
    assert before == pytest.approx(1.6)
    assert after == pytest.approx(1.6 + max(sent_s - 1.6 * 93 / 94, sent_s / 94))


@given(seed=SEEDS, loads=st.lists(st.floats(0.02, 0.97), min_size=2, max_size=2).map(sorted))
def test_ttft_under_load_is_never_below_unloaded_and_grows_with_load(seed: int, loads: list[float]) -> None:
    problem = problem_of(Draw(np.random.default_rng(seed)).question() | {"capacity_rule": "expected-work"})
    solution = routed_search(problem)
    if solution is None:
        return
    light, heavy = (latency_at(problem, solution, load) for load in loads)
    assert light.ttft_unloaded_mean_s == pytest.approx(heavy.ttft_unloaded_mean_s)
    assert light.ttft_mean_s is not None
    assert heavy.ttft_mean_s is not None
    assert light.ttft_unloaded_mean_s is not None
    assert light.ttft_unloaded_mean_s <= light.ttft_mean_s * (1 + 1e-9)
    assert light.ttft_mean_s <= heavy.ttft_mean_s * (1 + 1e-9)
    for latency in (light, heavy):
        p50, p90, p99 = (latency.ttft_p50_s, latency.ttft_p90_s, latency.ttft_p99_s)
        assert p50 is not None
        assert p90 is not None
        assert p99 is not None
        assert p50 <= p90 <= p99
        assert latency.ttft_unloaded_p90_s is not None
        assert latency.ttft_unloaded_p90_s <= p90 * (1 + 1e-6)


def test_one_prefill_instance_waits_as_pollaczek_and_khinchine_say() -> None:
    """M/G/1 in closed form: no fast pool, one instance near, 60 % load."""
    problem, solution = solved(
        {
            "workload.lengths": {"kind": "empirical", "tokens": [1000, 4000, 20_000], "weights": [5, 3, 2]},
            "pools.fast.n_instances": 0,
            "pools.near.n_instances": 1,
        }
    )
    service = problem.pools[1].rates.prefill
    assert service is not None
    seconds, weights = service.curve(np.array([1000, 4000, 20_000])), np.array([0.5, 0.3, 0.2])
    rate = 0.6 / float(seconds @ weights)
    wait_s, _ = mg1_wait_moments(rate, seconds, weights)
    latency = latency_of(problem, solution, rate)
    assert latency.ttft_mean_s == pytest.approx(float(seconds @ weights) + wait_s, rel=1e-6)


@pytest.mark.parametrize("changes", [{}, {"capacity_rule": "mean-length"}])
def test_loaded_ttft_is_unknown_where_a_pool_is_saturated(changes: dict[str, Any]) -> None:
    problem, solution = solved(changes)
    fleet = fleet_of(problem, solution)
    latency = fleet.latency
    assert max(pool.utilization for pool in fleet.pools) == pytest.approx(1)
    assert [getattr(latency, name) for name in LOADED] == [None] * 4
    assert latency.ttft_unloaded_mean_s is not None


def test_the_rate_of_the_mean_length_rule_is_unknown_territory_when_real_work_exceeds_it() -> None:
    """99.9 % of a rate that only mean lengths promise is more than the pool's real work allows: no steady state."""
    problem, solution = solved({"capacity_rule": "mean-length", "measured.home.decode.step_s": 0.01})
    assert latency_at(problem, solution, 0.999).ttft_mean_s is None
    assert latency_at(problem, solution, 0.5).ttft_mean_s is not None


@pytest.mark.parametrize(
    "discipline", [{"dispatch": "round-robin"}, {"dispatch": "join-shortest-work"}, {"prefill_batching": "chunked"}]
)
def test_disciplines_without_a_queueing_model_have_no_loaded_ttft(discipline: dict[str, str]) -> None:
    latency = latency_at(*solved(discipline), 0.5)
    assert [getattr(latency, name) for name in LOADED] == [None] * 4
    assert latency.ttft_unloaded_p90_s is not None


@given(seed=SEEDS, load=st.floats(0.1, 0.9))
def test_work_that_streams_bring_is_the_utilisation_of_their_pool(seed: int, load: float) -> None:
    """Utilisation law: rate times mean service over instances; atoms of a continuous mix are good to 1 %."""
    problem = problem_of(Draw(np.random.default_rng(seed)).question() | {"capacity_rule": "expected-work"})
    solution = routed_search(problem)
    if solution is None:
        return
    req_per_s = load * solution.highest_req_per_s
    (period,) = evaluation_of(problem, solution, req_per_s).evaluated
    streams = [(flow.arc.pool, flow.req_per_s * kinds.fraction, kinds) for flow, kinds in period.kinds]
    assert sum(rate for _, rate, _ in streams) == pytest.approx(req_per_s)
    utilization = [pool.utilization for pool in evaluation_of(problem, solution, req_per_s).fleet()["pools"]]
    for i, pool in enumerate(problem.pools):
        if pool.role == "prefill" and solution.sizing.n_instances[i]:
            busy = sum(rate * float(kinds.service_s @ kinds.weights) for p, rate, kinds in streams if p == i)
            assert busy / solution.sizing.n_instances[i] == pytest.approx(utilization[i], rel=1e-2, abs=1e-3)


def test_ttft_of_all_requests_is_that_of_the_classes_weighted_by_their_share() -> None:
    output = {"kind": "constant", "tokens": 500}
    parts = {
        "chat": (0.8, {"lengths": {"kind": "constant", "tokens": 900}, "output_lengths": output}),
        "files": (0.2, {"lengths": {"kind": "constant", "tokens": 20_000}, "output_lengths": output}),
    }
    problem = planning_problem(in_classes(parts, {}))
    solution = best_solution(problem, 60.0)
    assert solution is not None
    found = evaluation_at(problem, solution, 1.0)
    chat, files, everything = (*(c.latency for c in found.classes()), found.fleet()["latency"])
    for name in ("ttft_mean_s", "ttft_unloaded_mean_s"):
        assert getattr(everything, name) == pytest.approx(0.8 * getattr(chat, name) + 0.2 * getattr(files, name))
    assert chat.ttft_unloaded_mean_s is not None
    assert files.ttft_unloaded_mean_s is not None
    assert chat.ttft_unloaded_mean_s < files.ttft_unloaded_mean_s


def test_the_reference_case_at_80_percent_of_its_rate_has_a_queue_shorter_than_its_service() -> None:
    latency = sketch(reference("expected-work", demand_req_per_s=2.55)).latency
    assert latency.ttft_mean_s is not None
    assert latency.ttft_unloaded_mean_s is not None
    assert 0 < latency.ttft_mean_s - latency.ttft_unloaded_mean_s < latency.ttft_unloaded_mean_s


@pytest.mark.parametrize("name", ["ttft_mean_s", "ttft_p90_s"])
def test_bursty_arrivals_wait_longer_and_paced_ones_shorter(name: str) -> None:
    found = []
    for arrivals in ({"kind": "gamma", "squared_cv": 0.25}, {"kind": "poisson"}, {"kind": "gamma", "squared_cv": 4.0}):
        found.append(getattr(latency_at(*solved({"workload.arrivals": arrivals}), 0.8), name))
    assert found[0] < found[1] < found[2]


def test_gamma_arrivals_with_a_variation_of_one_are_poisson() -> None:
    poisson, gamma = (
        latency_at(*solved({"workload.arrivals": arrivals}), 0.7)
        for arrivals in ({"kind": "poisson"}, {"kind": "gamma", "squared_cv": 1.0})
    )
    assert poisson == gamma


def test_waits_for_decode_and_link_are_in_a_loaded_ttft() -> None:
    """Decode with one instance to spare no more than a tenth: requests wait for places, the rest being the same."""
    problem, solution = solved({"pools.decode.n_instances": 1})
    wait = FleetUnderSlo(problem, solution.sizing).admission_wait(0.97 * solution.highest_req_per_s)
    assert wait is not None
    assert wait.mean_s > 0.1
    latency = latency_at(problem, solution, 0.97)
    assert latency.ttft_mean_s is not None
    assert latency.ttft_unloaded_mean_s is not None
    assert latency.ttft_mean_s >= latency.ttft_unloaded_mean_s + wait.mean_s
