"""Local search on plans of a network: what breaks limits and promises by how much, and what is done about it."""

from dataclasses import replace
from math import inf, log
from typing import Any

import numpy as np
import pytest

from planner.optimizer import Problem
from planner.optimizer.network.cells import point
from planner.optimizer.network.loads import MOST_STABLE, NetworkLoads
from planner.optimizer.network.local_search import CandidatePlan, LocalSearch, _with_part_rerouted
from planner.optimizer.network.period_operation import PeriodOperation, busy_instances, link_gbps
from planner.optimizer.settings import SETTINGS
from planner.queueing import late_fraction
from tests.test_network_work import of_places
from tests.test_optimizer_network_loads import arcs_of, problem, seconds
from tests.test_optimizer_network_loads import in_part as requests_in_part
from tests.test_optimizer_period_operation import LIMIT, PORTS, arc_of, operation


def search(of: Problem, **changes: Any) -> LocalSearch:
    loads = NetworkLoads(of, gbps=tuple(400.0 for _ in of.links), **changes)
    return LocalSearch(loads, PORTS, inf)


def with_sizes(one: PeriodOperation, **sizes: int) -> PeriodOperation:
    order = ("fast", "near", "decode", "far")
    return replace(one, n_instances=tuple(sizes.get(name, 40) for name in order))


def test_a_plan_that_survives_losses_has_every_period_once_more_for_each() -> None:
    of = problem(spare={"survive": ("instance",)})
    one = operation(of, 1.0, 5)
    candidate = CandidatePlan.of(of, [one])
    assert [pool.name for pool in of.pools] == ["fast", "near", "decode", "far"]
    assert candidate.lost == (None, 0, 1, 2, 3)
    assert [o.n_instances for o in candidate.operations[1:]] == [
        tuple(5 - (i == lost) for i in range(4)) for lost in range(4)
    ]
    assert candidate.in_place == (one,)
    smaller = candidate.with_sizes((0, 4, 3, 2))
    assert smaller.sizes == (0, 4, 3, 2)
    assert [o.n_instances for o in smaller.operations] == [
        (0, 4, 3, 2),
        (0, 4, 3, 2),
        (0, 3, 3, 2),
        (0, 4, 2, 2),
        (0, 4, 3, 1),
    ]
    twice = candidate.scaled(2.0)
    assert {flow.req_per_s for o in twice.operations for flow in o.flows if flow.req_per_s} == {2.0}
    assert {d.req_per_s for o in twice.operations for d in o.decodings} == {2.0}


@pytest.mark.parametrize("part", [0.25, 1.0])
def test_a_part_of_a_flow_that_moves_leaves_the_rest_where_it_was(part: float) -> None:
    of = problem()
    one = operation(of, 4.0, far_share=0.75)
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    flow = next(f for f in one.flows if f.arc == far)
    moved = _with_part_rerouted(one, flow, near, part)
    rates = {(f.part, f.arc): f.req_per_s for f in moved.flows}
    assert rates.get(("long", far), 0.0) == pytest.approx(3.0 * (1 - part))
    assert rates["long", near] == pytest.approx(1.0 + 3.0 * part)
    assert rates["short", near] == 4.0
    assert len(moved.flows) == (3 if part < 1 else 2)


def test_overloads_are_relative_to_what_there_is() -> None:
    """Without a promise: of pools beyond what leaves a steady state, and of links beyond all that they have."""
    of = problem(slo=None, **{"links.wan.capacity_gbps": 4})
    one = with_sizes(operation(of, 20.0), fast=3, near=2, decode=5)
    busy, sent = busy_instances(of, one), link_gbps(of, one)
    over = sum(max(b - n * MOST_STABLE, 0.0) / n for b, n in list(zip(busy, one.n_instances, strict=True))[:2])
    over += max(busy[2] - 5, 0.0) / 5
    links = [max(gbps - most, 0.0) / most for gbps, most in zip(sent, of.gbps(PORTS), strict=True)]
    assert max(links) > 0
    over += sum(links)
    assert search(of)._violation_of(one) == pytest.approx(SETTINGS.overload_weight * over)
    assert search(of)._violation_of(operation(of, 0.5)) == 0.0
    nothing = with_sizes(one, fast=0)
    assert search(of)._pool_violation(nothing, 0, {}) == pytest.approx(busy[0])


@pytest.mark.parametrize("places", [1, 4])
def test_a_broken_promise_is_the_logarithm_of_what_is_late_over_what_may_be(places: int) -> None:
    """Late in two pools: each part of the requests with the waits of all that its pool serves."""
    of = problem()
    pools = tuple(
        pool
        if pool.rates.prefill is None
        else replace(pool, rates=replace(pool.rates, prefill=of_places(pool, places)))
        for pool in of.pools
    )
    of = replace(of, pools=pools)
    loads = NetworkLoads(of, gbps=tuple(400.0 for _ in of.links))
    rate, far, near = 6.0 * places, arc_of(of, "fast", True), arc_of(of, "near", False)
    one = with_sizes(operation(of, rate), fast=4, near=3)
    late = 0.0
    for arc, part, n in ((far, "long", 4), (near, "short", 3)):
        chosen = requests_in_part(part, point(LIMIT))  # type: ignore[arg-type]
        served = sum(w for w, _, _ in chosen)
        work_s = [sum(w * seconds(of, arc, t, hit) ** k for w, t, hit in chosen) for k in (1, 2)]
        mean_s = work_s[0] / served
        queue = loads.queued(0, arc, part, point(LIMIT))  # type: ignore[arg-type]
        assert queue is not None
        mix = replace(queue, mean_s=mean_s, scv=work_s[1] / served / mean_s**2 - 1)
        busy = min(rate * work_s[0], places * n * MOST_STABLE)
        (fraction,) = late_fraction(np.array([float(places * n)]), np.array([busy]), mix, 1.0)
        late += rate * served * float(fraction)
    found: dict[int, float] = {}
    overload = sum(search(of)._pool_violation(one, arc.pool, found) for arc in (far, near))
    assert found == pytest.approx({0: late})
    allowed = loads.late_allowed(0) * rate
    assert late > allowed
    decode = search(of)._decode_overload(one)
    expected = SETTINGS.overload_weight * (overload + decode) + log(late / allowed)
    assert search(of)._violation_of(one) == pytest.approx(expected)


def test_a_candidate_costs_its_rents_ports_and_use_or_accelerators_without_prices() -> None:
    of = problem(**{"links.wan.usd_per_gb": 0.01})
    one = operation(of, 2.0, 3)
    traffic = 0.01 * link_gbps(of, one)[arc_of(of, "fast", True).link or 0] / 8 * 3600
    rent = 3 * (32.0 + 3 * 16.0)
    assert search(of).usd_per_hour(CandidatePlan.of(of, [one])) == pytest.approx(rent + 40.0 + traffic)
    unpriced = problem(prices={}, objective="max-throughput", demand_req_per_s=None)
    assert search(unpriced).usd_per_hour(CandidatePlan.of(unpriced, [one])) == 8 * 12


def test_what_is_repaired_keeps_everything_and_of_what_is_shrunk_no_instance_is_missed() -> None:
    of = problem()
    local = search(of)
    broken = CandidatePlan.of(of, [with_sizes(operation(of, 2.0), fast=1, near=1, decode=2, far=0)])
    assert not local.is_feasible(broken)
    found = local.repaired(broken)
    assert found is not None
    assert local.is_feasible(found)
    assert sum(found.sizes) > sum(broken.sizes)
    assert local.repaired(broken, most_usd_per_hour=0.0) is None
    roomy = CandidatePlan.of(of, [with_sizes(operation(of, 2.0), fast=4, near=4, decode=4, far=0)])
    small = local.shrunk(roomy)
    assert local.is_feasible(small)
    assert local.usd_per_hour(small) < local.usd_per_hour(roomy)
    for smaller in local._smaller(small):
        fewer = local.rerouted(small.with_sizes(smaller))
        assert not local.is_feasible(fewer) or local.usd_per_hour(fewer) >= local.usd_per_hour(small) - 1e-6


def test_sizes_grow_within_stock_and_their_limits() -> None:
    of = problem(**{"pools.decode.max_instances": 3})
    local = search(of)
    local_stock = next(v.n_accelerators for v in of.inventories if 1 in v.pools) // 8
    assert local._has_room((0, 1, 3, 0), 2)
    assert not local._has_room((0, 1, 4, 0), 2)
    assert local._has_room((0, local_stock - 3, 3, 0), 1)
    assert not local._has_room((0, local_stock - 2, 3, 0), 1)
    assert {arc.pool for _, arc in arcs_of(of)} == {0, 1}
