"""What happens in a period: loads, transfers and late requests, each request looked at by itself."""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from planner.optimizer import loaded_paths
from planner.optimizer.network.period_operation import (
    Decoding,
    Flow,
    PeriodOperation,
    busy_instances,
    classes_missing_slo,
    kinds_of,
    late_fractions,
    link_gbps,
    period_waits,
    transfers_s,
)
from planner.optimizer.problem import Arc, Problem
from planner.queueing.processor_sharing import ALONE
from planner.queueing.service import Service
from planner.queueing.streams import merged_scv, split_scv
from planner.queueing.ttft import Ttft
from planner.queueing.wait import NO_WAIT
from planner.queueing.waits import gigc_wait
from tests.test_optimizer_network_loads import TTFT_S, in_part, point_cell, problem, seconds

LIMIT = 4000.0
PORTS = ((1,), (1,))


def arc_of(of: Problem, pool: str, is_linked: bool) -> Arc:
    """The way through a pool, over its link or within its site."""
    arcs = {arc for stream in of.arcs for arc in (*stream["long"], *stream["short"])}
    return next(a for a in arcs if of.pools[a.pool].name == pool and (a.link is not None) is is_linked)


def operation(of: Problem, rate: float, sizes: int = 40, far_share: float = 1.0) -> PeriodOperation:
    """Long prompts of the local stream in the far pool, but for a part that stays; short ones near."""
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    flows = (
        Flow(0, "long", far, LIMIT, far_share * rate),
        Flow(0, "long", near, LIMIT, (1 - far_share) * rate),
        Flow(0, "short", near, LIMIT, rate),
    )
    decode = next(i for i, pool in enumerate(of.pools) if pool.name == "decode")
    return PeriodOperation(0, (sizes,) * len(of.pools), flows, (Decoding(0, decode, rate),))


@pytest.mark.parametrize("far_share", [1.0, 0.25])
def test_pools_and_links_carry_the_sum_of_their_requests(far_share: float) -> None:
    of = problem(**{"links.wan.destination_holds_prefix": True})
    found = operation(of, 3.0, far_share=far_share)
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    work = {
        (arc, part): sum(w * seconds(of, arc, n, hit) for w, n, hit in in_part(part, point_cell(LIMIT)))
        for arc, part in ((far, "long"), (near, "long"), (near, "short"))
    }
    expected = [0.0] * len(of.pools)
    expected[far.pool] = 3.0 * far_share * work[far, "long"]
    expected[near.pool] = 3.0 * ((1 - far_share) * work[near, "long"] + work[near, "short"])
    expected[found.decodings[0].pool] = 3.0 * 0.025 * 500 / 20
    assert busy_instances(of, found) == pytest.approx(expected)
    kv = of.pools[far.pool].rates.kv_bytes
    sent = sum(w * float(kv(n) - kv(hit) + kv(0.0)) for w, n, hit in in_part("long", point_cell(LIMIT)))
    assert link_gbps(of, found)[far.link or 0] == pytest.approx(3.0 * far_share * sent * 8 / 1e9)


def test_another_period_has_the_same_ways_at_multiples_of_the_rates() -> None:
    of = problem()
    found, other = operation(of, 3.0), operation(of, 6.0)
    assert found.scaled_to(0, (2.0, 7.0)) == other
    assert found.scaled_to(5, (2.0, 7.0)) == replace(other, period=5)
    assert (found.rate_of(0), found.rate_of(1)) == (3.0, 0.0)


@pytest.mark.parametrize(("ports", "gbps"), [(((1,), (1,)), 400.0), (((0,), (1,)), 0.0)])
def test_a_transfer_takes_as_long_as_its_bytes_or_as_the_prefill_of_all_layers_but_the_last(
    ports: tuple[tuple[int, ...], ...], gbps: float
) -> None:
    of = problem()
    arc = arc_of(of, "fast", True)
    rates = of.pools[arc.pool].rates
    total, cached = np.array([1000.0, 64_000.0]), np.zeros(2)
    left_s, sending_s = transfers_s(of, arc, ports, (total, cached))
    if not gbps:
        assert left_s.tolist() == sending_s.tolist() == [inf, inf]
        return
    layers = rates.n_layers or 1
    for n, left, sending in zip(total, left_s, sending_s, strict=True):
        whole_s, before_s = float(rates.kv_bytes(n)) * 8 / 400e9, seconds(of, arc, n, 0.0) * (layers - 1) / layers
        assert sending == pytest.approx(max(whole_s, before_s))
        assert left == pytest.approx(max(whole_s - before_s, whole_s / layers) + 0.005)
    within_s, none = transfers_s(of, arc_of(of, "near", False), ports, (total, cached))
    assert (within_s > 0).all()
    assert none.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("part", ["long", "short"])
@pytest.mark.parametrize("n_kinds", [1024, 2])
def test_few_kinds_of_requests_keep_the_share_and_the_mean_of_all(part: str, n_kinds: int) -> None:
    of = problem()
    arc = arc_of(of, "fast", True) if part == "long" else arc_of(of, "near", False)
    flow = Flow(0, "long" if part == "long" else "short", arc, LIMIT, 1.0)
    found = kinds_of(of, flow, PORTS, n_kinds)
    assert found is not None
    chosen = in_part(flow.part, point_cell(LIMIT))
    weights = np.array([w for w, _, _ in chosen])
    assert len(found.weights) <= min(n_kinds, len(chosen))
    assert found.fraction == pytest.approx(weights.sum())
    assert found.weights.sum() == pytest.approx(1.0)
    mean_s = np.average([seconds(of, arc, n, hit) for _, n, hit in chosen], weights=weights)
    assert float(found.service_s @ found.weights) == pytest.approx(mean_s)
    left_s, sending_s = transfers_s(of, arc, PORTS, tuple(np.array([one[1:] for one in chosen]).T))  # type: ignore[arg-type]
    assert float(found.transfer_s @ found.weights) == pytest.approx(np.average(left_s, weights=weights))
    assert float(found.sending_s @ found.weights) == pytest.approx(np.average(sending_s, weights=weights))
    assert kinds_of(of, flow._replace(threshold_tokens=1e6 if part == "long" else 1.0), PORTS) is None


def test_flows_into_a_pool_wait_in_one_queue_of_what_is_split_off_and_merged() -> None:
    of = problem(**{"workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}})
    found, near = operation(of, 3.0, 8, 0.25), arc_of(of, "near", False)
    wait = period_waits(of, found, PORTS).wait(near.pool)
    long, short = (in_part(part, point_cell(LIMIT)) for part in ("long", "short"))
    rates = [3.0 * 0.75 * sum(w for w, _, _ in long), 3.0 * sum(w for w, _, _ in short)]
    services = [seconds(of, near, n, hit) for _, n, hit in (*long, *short)]
    weights = np.array([*(0.75 * w for w, _, _ in long), *(w for w, _, _ in short)])
    scv = merged_scv(rates, [split_scv(4.0, rate / 3.0) for rate in rates])
    expected = gigc_wait(8, sum(rates), Service.of(services, weights / weights.sum()), scv)
    assert wait is not None
    assert wait.mean_s == pytest.approx(expected.mean_s)
    assert period_waits(of, operation(of, 30.0, 8, 0.25), PORTS).wait(near.pool) is None
    assert period_waits(of, operation(of, 3.0, 0, 0.25), PORTS).wait(near.pool) is None


def test_all_requests_are_late_without_a_steady_state_and_few_with_idle_instances() -> None:
    of = problem()
    idle, full = (operation(of, rate) for rate in (0.1, 60.0))
    assert late_fractions(period_waits(of, full, PORTS)) == {0: 1.0}
    (late,) = late_fractions(period_waits(of, idle, PORTS)).values()
    assert 0.0 <= late < 0.04
    assert late_fractions(period_waits(of, operation(of, 0.0), PORTS)) == {}
    assert period_waits(of, idle, PORTS).late_fraction([1], TTFT_S) == 1.0, "nothing flows"
    assert classes_missing_slo(of, [idle], PORTS) == []
    assert classes_missing_slo(of, [idle, full], PORTS) == [0]
    assert classes_missing_slo(problem(slo=None), [full], PORTS) == []


def test_without_waits_a_request_takes_prefill_and_transfer_whatever_the_load() -> None:
    of = problem()
    far, near = arc_of(of, "fast", True), arc_of(of, "near", False)
    paths = period_waits(of, operation(of, 60.0), PORTS).paths([0], loaded=False)
    assert paths is not None
    long, short = (in_part(part, point_cell(LIMIT)) for part in ("long", "short"))
    expected = 0.0
    for arc, part in ((far, long), (near, short)):
        left_s, _ = transfers_s(of, arc, PORTS, tuple(np.array([one[1:] for one in part]).T))  # type: ignore[arg-type]
        expected += sum(w * (seconds(of, arc, n, hit) + left) for (w, n, hit), left in zip(part, left_s, strict=True))
    assert Ttft.of(paths).mean_s == pytest.approx(expected)


def test_a_link_is_shared_by_what_the_instances_of_its_pools_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request with the time that all its bytes take alone, and arrivals as a part of a stream of bursts has."""
    of = problem(**{"workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}})
    found, far = operation(of, 3.0, far_share=0.5), arc_of(of, "fast", True)
    asked: list[Any] = []
    monkeypatch.setattr(loaded_paths, "link_stretch", lambda *given: asked.append(given) or ALONE)
    loaded_paths.LoadedPaths(period_waits(of, found, PORTS))._stretch(far.link or 0)
    ((senders,), (n_layers,), scv) = asked[0]
    long = in_part("long", point_cell(LIMIT))
    rate = 1.5 * sum(w for w, _, _ in long)
    assert (senders.n_instances, n_layers) == (40, of.pools[far.pool].rates.n_layers)
    assert senders.req_per_s == pytest.approx(rate)
    assert scv == pytest.approx(split_scv(4.0, rate / 3.0))
    assert senders.weights.sum() == pytest.approx(1.0)
    weights = [w for w, _, _ in long]
    kv = of.pools[far.pool].rates.kv_bytes
    alone_s = np.average([float(kv(n) - kv(hit) + kv(0.0)) * 8 / 400e9 for _, n, hit in long], weights=weights)
    assert float(senders.link_s @ senders.weights) == pytest.approx(alone_s)
    mean_s = np.average([seconds(of, far, n, hit) for _, n, hit in long], weights=weights)
    assert float(senders.service_s @ senders.weights) == pytest.approx(mean_s)


def test_a_decode_pool_gets_its_part_of_a_stream_of_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a stream with gaps of variation 4 has 1.75, three quarters 3.25."""
    of = problem(**{"workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}})
    one, two = (i for i, pool in enumerate(of.pools) if not pool.is_prefill)
    found = replace(operation(of, 3.0), decodings=(Decoding(0, one, 0.75), Decoding(0, two, 2.25)))
    asked: dict[float, Any] = {}

    def places_wait(point: Any, requests: list[Any], n_instances: int) -> Any:  # noqa: ARG001
        (request,) = requests
        asked[request.req_per_s] = (request.arrival_scv, request.mean_tokens, n_instances)
        return NO_WAIT

    monkeypatch.setattr(loaded_paths, "places_wait", places_wait)
    loaded = loaded_paths.LoadedPaths(period_waits(of, found, PORTS))
    assert [loaded._place(pool) for pool in (one, two)] == [NO_WAIT, NO_WAIT]
    assert asked == {0.75: (pytest.approx(1.75), 500.0, 40), 2.25: (pytest.approx(3.25), 500.0, 40)}
    assert loaded._decoded(0) == [(one, 0.25), (two, 0.75)]
