"""Loads per request of a network's streams: sums over a handful of requests, each looked at by itself."""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import Cell, point_cell
from planner.optimizer.network.loads import DECODE_LATE, LINK_BUSY, NetworkLoads
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import Part
from tests.builders import BOTH_WAYS, small_with

LENGTHS, WEIGHTS = (1000, 4000, 16_000, 64_000), (0.4, 0.3, 0.2, 0.1)
HITS, HIT_WEIGHTS = (0.0, 0.5), (0.75, 0.25)
TTFT_S, LATE = 12.0, 0.04
CELL = Cell(1500.0, 6000.0, 0.25, 0.5)
"""Long prompts beyond its end: 16,000 and 64,000 tokens or half of them."""
CHANGES: dict[str, Any] = {
    **BOTH_WAYS,
    "model.profile": "kimi-linear-48b",
    "objective": "min-cost",
    "demand_req_per_s": 5.0,
    "capacity_rule": "expected-work",
    "slo": {"ttft_s": TTFT_S, "ttft_percentile": 100 * (1 - LATE)},
    "workload.lengths": {"kind": "empirical", "tokens": LENGTHS, "weights": WEIGHTS},
    "workload.prefix_hits": {"kind": "discrete", "fractions": HITS, "weights": HIT_WEIGHTS},
    "sites.local.fabric_gbps": 40.0,
}
PARTS: tuple[Part, ...] = ("long", "short")


def problem(**changes: Any) -> Problem:
    return planning_problem(small_with({**CHANGES, **changes}))


def requests() -> list[tuple[float, float, float]]:
    """Weight, total and cached tokens of every request that there is."""
    lengths = zip(LENGTHS, WEIGHTS, strict=True)
    return [(w * h, n, n * hit) for n, w in lengths for hit, h in zip(HITS, HIT_WEIGHTS, strict=True)]


def in_part(part: Part, cell: Cell) -> list[tuple[float, float, float]]:
    """Those that are in a part whatever threshold of the cell divides them."""
    if part == "long":
        return [one for one in requests() if one[1] - one[2] > cell.high_tokens]
    return [one for one in requests() if one[1] - one[2] <= cell.low_tokens]


def arcs_of(of: Problem) -> list[tuple[int, Arc]]:
    """Every arc of every stream, with a link and without."""
    found = [(s, arc) for s, arcs in enumerate(of.arcs) for arc in {*arcs["long"], *arcs["short"]}]
    assert {arc.link is None for _, arc in found} == {True, False}
    return found


def seconds(of: Problem, arc: Arc, total: float, cached: float) -> float:
    """Prefill of one request."""
    service = of.pools[arc.pool].rates.prefill
    assert service is not None
    return float(service.seconds(total, cached))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("cell", [CELL, point_cell(4000.0), Cell(500.0, 1e6)])
def test_fractions_work_and_residual_life_of_a_part_are_sums_over_its_requests(part: Part, cell: Cell) -> None:
    of = problem()
    loads, chosen = NetworkLoads(of), in_part(part, cell)
    for stream, arc in arcs_of(of):
        assert loads.fraction(stream, part, cell) == pytest.approx(sum(w for w, _, _ in chosen), abs=1e-12)
        moments = [sum(w * seconds(of, arc, n, hit) ** k for w, n, hit in chosen) for k in (1, 2)]
        assert loads.work_s(stream, arc, part, cell) == pytest.approx(moments[0], abs=1e-12)
        residual_s = moments[1] / (2 * moments[0]) if chosen else 0.0
        assert loads.residual_s(stream, arc, part, cell) == pytest.approx(residual_s, abs=1e-12)


@pytest.mark.parametrize("holds_prefix", [False, True])
def test_bytes_on_a_link_are_those_of_caches_less_what_the_destination_holds(holds_prefix: bool) -> None:
    """The cache of nothing is sent in any case: states of a length that is not there."""
    of = problem(**{"links.wan.destination_holds_prefix": holds_prefix, "links.back.destination_holds_prefix": True})
    loads = NetworkLoads(of)
    for stream, arc in arcs_of(of):
        kv = of.pools[arc.pool].rates.kv_bytes
        is_held = arc.link is not None and of.links[arc.link].destination_holds_prefix
        for part in PARTS:
            expected = sum(
                w * float(kv(n) - (kv(hit) - kv(0.0) if is_held else 0.0)) for w, n, hit in in_part(part, CELL)
            )
            found = loads.sent_bytes(stream, arc, part, CELL)
            assert found == pytest.approx(0.0 if arc.link is None else expected)


@pytest.mark.parametrize("cell", [CELL, Cell(1500.0, 3000.0)])
def test_prompts_between_the_ends_of_a_cell_cost_a_pool_its_least_ratio_to_the_pool_of_reference(cell: Cell) -> None:
    of = problem(**{"links.wan.destination_holds_prefix": True})
    loads = NetworkLoads(of)
    between = [one for one in requests() if cell.low_tokens < one[1] - one[2] <= cell.high_tokens]
    assert loads.holds_between(0, cell)
    assert not loads.holds_between(0, Cell(4000.0, 7999.0))
    assert not loads.holds_between(0, point_cell(4000.0))
    for stream, arc in arcs_of(of):
        reference = next(a for arcs in of.arcs[stream].values() for a in arcs)
        whole_s = sum(w * seconds(of, reference, n, hit) for w, n, hit in between)
        ratio = min(seconds(of, arc, n, hit) / seconds(of, reference, n, hit) for _, n, hit in between)
        assert loads.between_s(stream, arc, cell) == pytest.approx(ratio * whole_s, rel=2e-3)
        assert loads.between_s(stream, arc, cell) <= ratio * whole_s
        if arc.link is None:
            assert loads.between_bytes(stream, arc, cell) == 0.0
            continue
        kv, is_held = of.pools[arc.pool].rates.kv_bytes, of.links[arc.link].destination_holds_prefix
        least = min(
            float(kv(n) - (kv(hit) - kv(0.0) if is_held else 0.0)) / seconds(of, reference, n, hit)
            for _, n, hit in between
        )
        assert loads.between_bytes(stream, arc, cell) == pytest.approx(least * whole_s, rel=2e-3)
        assert loads.between_bytes(stream, arc, cell) <= least * whole_s


def sending_s(of: Problem, arc: Arc, request: tuple[float, float, float], free: float) -> float:
    """What is left of the transfer of one request when its prefill ends: the last layer, or what lags behind."""
    _, total, cached = request
    pool = of.pools[arc.pool]
    kv, took_s, layers = pool.rates.kv_bytes, seconds(of, arc, total, cached), pool.rates.n_layers or 1
    sent, gbps, trip_s = float(kv(total)), 40.0 if pool.site == "local" else inf, 0.0
    if arc.link is not None:
        link = of.links[arc.link]
        sent -= float(kv(cached) - kv(0.0)) if link.destination_holds_prefix else 0.0
        gbps, trip_s = 400.0 * free, 0.010 / 2
    whole_s = sent / (gbps * 1e9 / 8)
    return max(whole_s - took_s * (layers - 1) / layers, whole_s / layers) + trip_s


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_requests_of_a_queue_have_what_prefill_and_transfer_leave_of_the_promise(factor: float) -> None:
    """Transfers count with an idle link for bounds, and with one as busy as it may be in plans."""
    of = problem(**{"links.wan.destination_holds_prefix": True})
    gbps = tuple(400.0 for _ in of.links)
    for loads, free in (
        (NetworkLoads(of, slo_factors=(factor,)), 1.0),
        (NetworkLoads(of, slo_factors=(factor,), gbps=gbps), 1 - LINK_BUSY),
    ):
        for stream, arc in arcs_of(of):
            assert loads.slo_ttft_s(stream) == pytest.approx(factor * TTFT_S)
            for part in PARTS:
                chosen = in_part(part, CELL)
                found = loads.queued(stream, arc, part, CELL)
                assert found is not None
                slack_s = [
                    factor * TTFT_S - seconds(of, arc, n, hit) - sending_s(of, arc, (w, n, hit), free)
                    for w, n, hit in chosen
                ]
                weights, one_late_kind = [w for w, _, _ in chosen], [s if s >= 0 else -1.0 for s in slack_s]
                assert found.weights.sum() == pytest.approx(1.0)
                assert float(found.slack_s @ found.weights) == pytest.approx(np.average(one_late_kind, weights=weights))
                starts = requests() if part == "long" else chosen
                served = [one for one in starts if part == "short" or one[1] - one[2] > CELL.low_tokens]
                mean_s = np.average(
                    [seconds(of, arc, n, hit) for _, n, hit in served], weights=[w for w, _, _ in served]
                )
                assert found.mean_s == pytest.approx(mean_s)


def test_allowances_divide_the_late_requests_between_long_and_short_prompts() -> None:
    of = problem()
    loads, plans = NetworkLoads(of, is_optimistic=True), NetworkLoads(of)
    long, short = (sum(w for w, _, _ in in_part(part, CELL)) for part in PARTS)
    assert loads.late_allowed(0) == pytest.approx(LATE)
    assert plans.late_allowed(0) == pytest.approx(LATE * (1 - DECODE_LATE))
    assert NetworkLoads(of, late_multiple=3.0).late_allowed(0) == pytest.approx(3 * LATE * (1 - DECODE_LATE))
    assert NetworkLoads(of, late_multiple=99.0).late_allowed(0) == 1.0
    assert NetworkLoads(of, late_multiple=99.0).shares(0, point_cell(4000.0)) == (0.0, 1.0)
    assert loads.allowed(0, "long", CELL) == pytest.approx(LATE * CELL.high_share / long)
    assert loads.allowed(0, "short", CELL) == pytest.approx(LATE * (1 - CELL.low_share) / short)
    assert loads.allowed(0, "long", point_cell(40_000.0, 1.0)) == pytest.approx(LATE / 0.075)
    assert loads.allowed(0, "long", Cell(1e6, 1e6)) == 1.0, "no request is long"


@pytest.mark.parametrize(("ttft_s", "n_late"), [(12.0, 0), (4.0, 1), (0.2, 2)])
def test_shares_of_the_late_leave_each_part_what_is_late_without_any_wait(ttft_s: float, n_late: int) -> None:
    of = problem(**{"slo.ttft_s": ttft_s})

    def is_late(arc: Arc, request: tuple[float, float, float]) -> bool:
        return seconds(of, arc, *request[1:]) + sending_s(of, arc, request, 1.0) > ttft_s

    long, short = (
        min(sum(one[0] for one in in_part(part, CELL) if is_late(arc, one)) for arc in of.arcs[0][part])
        for part in PARTS
    )
    late = LATE * (1 - DECODE_LATE)
    assert NetworkLoads(of).shares(0, CELL) == pytest.approx((long / late, 1 - short / late))
    assert (long > 0) + (short > 0) == n_late


def test_a_part_fits_a_pool_whose_memory_holds_its_longest_prompt() -> None:
    of = problem()
    pools = tuple(
        replace(pool, rates=replace(pool.rates, longest_tokens=16_000.0)) if pool.is_prefill else pool
        for pool in of.pools
    )
    loads = NetworkLoads(replace(of, pools=pools))
    (stream, arc), *_ = arcs_of(of)
    assert not loads.holds(stream, arc, "long", CELL)
    assert loads.holds(stream, arc, "short", CELL)
    assert loads.holds(stream, arc, "short", point_cell(16_000.0))
    assert not loads.holds(stream, arc, "short", point_cell(64_000.0))
    assert NetworkLoads(of).holds(stream, arc, "long", CELL)


def test_a_request_holds_its_place_in_a_batch_for_all_of_its_tokens() -> None:
    of = problem()
    decoders = [(stream, pool) for stream, pools in enumerate(of.decoders) for pool in pools]
    assert [NetworkLoads(of).decode_s(*one) for one in decoders] == pytest.approx([0.025 * 500 / 20] * len(decoders))
