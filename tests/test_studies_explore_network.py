"""A network that is turned by hand: every kind of prompt on its ways, at any factor on all thresholds."""

from dataclasses import replace
from typing import Any

import pytest

from planner.optimizer.network.cells import point_cell
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import solution_of_routes
from planner.optimizer.solution import Solution
from planner.studies.explore.network import TurnedNetwork, can_turn_network, used_pools
from planner.studies.explore.network_tables import NetworkTables
from tests.test_comparison_evaluation import ASKED, planned
from tests.test_optimizer_network_loads import in_part, problem, seconds
from tests.test_optimizer_period_operation import LIMIT, PORTS, arc_of, operation
from tests.test_optimizer_routed_capacity import of as of_one_route

RATE, FAR = 3.0, 0.75
"""Requests of the local stream a second, and the part of its long prompts that leave."""


def asked(far_share: float = FAR, sizes: int = 5) -> tuple[Problem, Solution]:
    one, *_ = of_one_route(**ASKED)
    of = problem()
    by_hand = operation(of, RATE, sizes, far_share)
    return of, replace(
        solution_of_routes(one, planned(one)), operations=(by_hand,), ports=PORTS, routed=None, scale=1.0
    )


@pytest.mark.parametrize("factor", [1.0, 0.1, 3.0])
def test_every_kind_of_prompt_keeps_its_ways_at_any_factor(factor: float) -> None:
    of, solution = asked()
    turned = TurnedNetwork(of, solution)
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    assert turned.rates(0) == [RATE, 0.0]
    found = {(f.part, f.arc): f for f in turned.flows(0, factor)}
    assert {key: f.req_per_s for key, f in found.items()} == pytest.approx(
        {("long", far): FAR * RATE, ("long", near): (1 - FAR) * RATE, ("short", near): RATE}
    )
    assert [f.threshold_tokens for f in found.values()] == pytest.approx([LIMIT * factor] * 3)
    at = point_cell(LIMIT * factor)
    long = sum(w for w, _, _ in in_part("long", at))
    assert turned.part(0, found["long", far], factor) == pytest.approx(long)
    assert turned.part(0, found["short", near], factor) == pytest.approx(1 - long)
    assert turned.at(factor).operations[0] == turned.operation(0, factor)
    assert list(turned.decoded(0, 0)) == [(solution.operations[0].decodings[0].pool, 1.0)]
    assert list(turned.decoded(0, 1)) == []


def test_a_kind_that_the_plan_has_not_goes_to_instances_at_home_first() -> None:
    of, solution = asked()
    (one,) = solution.operations
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    short = replace(one, flows=tuple(f for f in one.flows if f.part == "short"))

    def way(**sizes: int) -> Any:
        n = tuple(sizes.get(pool.name, 5) for pool in of.pools)
        turned = TurnedNetwork(of, replace(solution, operations=(replace(short, n_instances=n),)))
        ((arc, share),) = turned.route_shares(0, 0, "long")
        assert share == 1.0
        return arc

    assert way() == near
    assert way(near=0) == far
    assert way(near=0, fast=0) == near
    unlinked = replace(solution, operations=(replace(short, n_instances=(5, 0, 5, 5)),), ports=((0,), (0,)))
    assert TurnedNetwork(of, unlinked).route_shares(0, 0, "long") == [(near, 1.0)]


def test_factors_are_ascending_with_the_plan_s_among_them_and_leave_prompts_on_both_sides() -> None:
    of, solution = asked()
    turned = TurnedNetwork(of, solution)
    fine, nodes = turned.factors
    assert [*fine] == sorted({*fine})
    assert {*nodes} <= {*fine}
    assert 1.0 in nodes
    grid = of.classes[0].mix.threshold_grid(101)
    assert {round(float(t), 6) for t in (grid[1], grid[4], grid[-5])} <= {round(LIMIT * f, 6) for f in nodes}
    assert turned.planned_tokens(0) == LIMIT
    assert turned.is_turnable(0)
    assert turned.bases[0][0] == LIMIT
    idle = replace(solution, operations=(replace(solution.operations[0], flows=(), decodings=()),))
    still = TurnedNetwork(of, idle)
    assert [part.tolist() for part in still.factors] == [[1.0], [1.0]]
    assert (still.is_turnable(0), still.planned_tokens(0)) == (False, 1.0)
    assert still.bases[0][0] == 64_000.0, "without long prompts the threshold is the longest"


def test_a_plan_whose_sizes_change_or_that_has_too_many_ways_is_not_turned() -> None:
    of, solution = asked()
    (one,) = solution.operations
    assert can_turn_network(of, solution)
    assert can_turn_network(of, replace(solution, operations=(one, replace(one, period=0))))
    other = replace(one, n_instances=(9, 5, 5, 5))
    assert not can_turn_network(of, replace(solution, operations=(one, other)))
    assert not can_turn_network(of, replace(solution, operations=(replace(one, decodings=()),)))
    assert used_pools(TurnedNetwork(of, solution)) == [0, 1, 2, 3]
    none = replace(one, n_instances=(0, 5, 5, 0))
    assert used_pools(TurnedNetwork(of, replace(solution, operations=(none,)))) == [0, 1, 2]


def test_tables_are_sums_over_the_requests_of_every_way_at_every_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    of, solution = asked()
    monkeypatch.setattr(NetworkTables, "waits", {i: (None, ()) for i in range(len(of.pools))})
    made = NetworkTables(of, solution)
    tables = made.tables(0)
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    decode = solution.operations[0].decodings[0].pool
    for k, threshold in enumerate(tables.fine_tokens):
        long, short = (in_part(part, point_cell(threshold)) for part in ("long", "short"))
        share = sum(w for w, _, _ in long)
        at_home = [((1 - FAR) * w, n, hit) for w, n, hit in long] + short
        leaves = [(FAR * w, n, hit) for w, n, hit in long]
        for arc, some in ((far, leaves), (near, at_home)):
            table = tables.pools[made.used.index(arc.pool)]
            assert table.taken_fraction[k] == pytest.approx(sum(w for w, _, _ in some), abs=1e-8)
            work_s = sum(w * seconds(of, arc, n, hit) for w, n, hit in some)
            assert table.work_s[k] == pytest.approx(work_s, rel=1e-6, abs=1e-8)
        decoding = tables.pools[made.used.index(decode)]
        assert (decoding.taken_fraction[k], decoding.work_s[k]) == pytest.approx((1.0, 0.025 * 500 / 20))
        assert tables.offload_fraction[k] == pytest.approx(
            sum(w for w, _, _ in leaves) if len(of.pools[near.pool].parts) > 1 else share, abs=1e-8
        )
        kv = of.pools[far.pool].rates.kv_bytes
        sent = sum(w * float(kv(n) - kv(hit) + kv(0.0)) for w, n, hit in leaves)
        assert tables.links[far.link or 0].gbps_per_req_per_s[k] == pytest.approx(sent * 8 / 1e9, rel=1e-6, abs=1e-9)
        shares = {tables.pools[path.prefill].name: path.share[k] for path in tables.paths}
        assert shares["fast"] == pytest.approx(FAR * share, abs=1e-8)
        assert sum(path.share[k] for path in tables.paths) == pytest.approx(1.0)
    assert (tables.planned_tokens, tables.planned_req_per_s) == (LIMIT, RATE)
    mean = sum(w * n for w, n, _ in in_part("long", point_cell(0.0)))
    assert (tables.mean_total_tokens, tables.mean_output_tokens) == pytest.approx((mean, 500.0))
    assert (tables.promised_ttft_s, tables.by_factor, tables.is_split) == (12.0, True, True)
