"""What holds in every run: nothing is lost, nothing happens before its cause, no server idles beside a queue."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.executor.initial_state import simulation_state
from planner.executor.kernel import SimulationState
from planner.executor.kernel.records import FINISHED
from planner.executor.run import run_to_end
from planner.executor.systems import system
from tests.executor_cases import TOKEN_BYTES, TOKEN_S, asked, fleet, poisson_s, run, scenario, whole_tokens

MOMENTS = ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_end_s", "first_token_s", "finish_s")

DISCIPLINES = st.fixed_dictionaries(
    {
        "dispatch": st.sampled_from(["shared-queue", "join-shortest-work", "round-robin"]),
        "prefill_batching": st.sampled_from(["one-at-a-time", "chunked"]),
        "execution.chunk_tokens": st.sampled_from([512, 8192, 100_000]),
        "execution.priority_tokens": st.sampled_from([None, 50_000.0]),
        "execution.max_transfers": st.sampled_from([1, 3, 64]),
        "links.wan.round_trip_ms": st.sampled_from([0.0, 30.0]),
        "sites.local.fabric_gbps": st.sampled_from([None, 50.0]),
    }
)
SIZES = st.fixed_dictionaries(
    {
        "n_fast": st.integers(1, 3),
        "n_near": st.integers(1, 3),
        "n_decode": st.integers(1, 3),
        "link_gbps": st.sampled_from([20.0, 100.0, 1000.0]),
        "threshold_tokens": st.sampled_from([0.0, 60_000.0, 1e9]),
    }
)


def drawn(seed: int, n: int = 250, rate: float = 2.0) -> Any:
    rng = np.random.default_rng(seed)
    tokens = whole_tokens(rng.lognormal(-0.5, 1.0, n))
    cached = np.where(rng.random(n) < 0.3, rng.random(n) * (tokens - 1), 0).astype(int)
    return asked(poisson_s(rng, n, rate), tokens, output=rng.integers(1, 200, n), cached=cached)


def stated(changes: dict[str, Any]) -> dict[str, Any]:
    """Keys that say something."""
    return {key: value for key, value in changes.items() if value is not None}


def check_laws(w: SimulationState) -> None:
    asked_for, clock = w.requests, w.clock[0]
    assert clock["violations"] == 0
    assert clock["n_finished"] + clock["n_dropped"] == len(asked_for)
    assert clock["n_inside"] == 0
    done = asked_for[asked_for["state"] == FINISHED]
    for before, after in pairwise(MOMENTS):
        assert (done[after] >= done[before] - 1e-9).all(), (before, after)
    assert clock["inside_s"] == pytest.approx(float((done["finish_s"] - done["arrival_s"]).sum()), rel=1e-9)
    assert w.decoders["n_tokens"].sum() == (done["output_tokens"] - 1).sum()
    assert w.links["sent_bytes"].sum() == pytest.approx(done["wire_bytes"].sum(), rel=1e-6)
    assert (w.links["n_flows"] == 0).all()
    assert w.decoders["used_bytes"] == pytest.approx(0.0, abs=1e-3)


@given(st.integers(0, 10_000), DISCIPLINES, SIZES, st.integers(2, 40))
def test_every_request_is_finished_in_the_order_of_causes(
    seed: int, changes: dict[str, Any], sizes: dict[str, Any], batch: int
) -> None:
    w = run(drawn(seed), stated(changes), batch=batch, **sizes)
    check_laws(w)
    is_long = w.routes["is_long"][w.requests["route"]] == 1
    uncached = w.requests["total_tokens"] - w.requests["cached_tokens"]
    assert (is_long == (uncached > sizes["threshold_tokens"])).all()


@given(st.integers(0, 10_000), SIZES)
def test_no_instance_idles_while_its_queue_holds_somebody(seed: int, sizes: dict[str, Any]) -> None:
    """Work conservation: whoever waits sees every instance of the pool busy until the moment it starts."""
    plenty = {f"execution.pools.{name}.memory_gb": 1e9 for name in ("fast", "near")}
    w = run(drawn(seed, rate=3.0), {"execution.max_transfers": 100_000, **plenty}, **sizes)
    for pool in w.pools:
        first, n = int(pool["first"]), int(pool["n"])
        mine = w.requests[(w.requests["instance"] >= first) & (w.requests["instance"] < first + n)]
        for request in mine[mine["prefill_start_s"] > mine["arrival_s"] + 1e-9]:
            busy = (mine["prefill_start_s"] <= request["arrival_s"]) & (mine["prefill_end_s"] > request["arrival_s"])
            assert busy.sum() == n
    seconds = (w.requests["prefill_end_s"] - w.requests["prefill_start_s"]).sum()
    assert w.instances["busy_s"].sum() == pytest.approx(seconds)


@given(st.integers(0, 10_000), DISCIPLINES, SIZES)
def test_a_closed_system_holds_as_many_as_it_may(seed: int, changes: dict[str, Any], sizes: dict[str, Any]) -> None:
    plan = system(scenario(stated(changes), 10), fleet(**sizes))
    asked_for = drawn(seed)
    asked_for["arrival_s"] = 0.0  # nobody thinks
    w = simulation_state(plan, asked_for, users=17)
    run_to_end(w)
    check_laws(w)
    inside = w.samples[:, 1]
    assert inside.max() <= 17


def test_short_requests_overtake_where_they_have_priority() -> None:
    tokens = np.array([100_000, 90_000, 90_000, 100, 90_000])
    w = run(asked([0.0, 0.1, 0.2, 0.3, 0.4], tokens), {"execution.priority_tokens": 1000.0})
    assert np.argsort(w.requests["prefill_start_s"]).tolist() == [0, 3, 1, 2, 4]


def test_prompts_in_one_chunk_start_together_and_pay_the_overhead_once() -> None:
    curve = {"tokens": [1000, 2000], "seconds": [1.1, 1.2], "interpolation": "linear"}  # 1 s and 0.1 ms per token
    changes = {"prefill_batching": "chunked", "execution.chunk_tokens": 4000, "measured.home.prefill": curve}
    w = run(asked([0.0, 0.1, 0.2, 0.3], [1000, 1000, 1000, 5000]), changes)
    ends = w.requests["prefill_end_s"]
    assert ends[0] == pytest.approx(1.1)
    assert ends[1:3] == pytest.approx([1.1 + 1.0 + 0.1 + 0.1 + 0.2] * 2)  # with 2,000 tokens of the last prompt
    assert ends[3] == pytest.approx(2.5 + 0.3)


def test_a_prompt_alone_takes_as_long_in_chunks_as_at_once() -> None:
    changes = {"prefill_batching": "chunked", "execution.chunk_tokens": 512}
    w = run(asked([0.0, 100.0], [70_000, 300]), changes)
    assert w.requests["prefill_end_s"] == pytest.approx([70_000 * TOKEN_S, 100 + 300 * TOKEN_S])


def test_two_transfers_share_a_link_evenly_and_the_rest_has_it_alone() -> None:
    # Prefill takes no time; 1 and 3 units of 1 s at the full link: together 2 s, then 2 s more for the other.
    unit, quick = 10_000, {"tokens": [1, 1000], "seconds": [1e-12, 1e-9], "interpolation": "linear"}
    changes = {"measured.fast.prefill": quick}
    w = run(
        asked([0.0, 0.0], [unit, 3 * unit]),
        changes,
        n_fast=2,
        threshold_tokens=0.0,
        link_gbps=8e-9 * unit * TOKEN_BYTES,
    )
    assert w.requests["kv_end_s"] == pytest.approx([2.0, 4.0], rel=1e-6)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({"connection_gbps": 2.0}, [5.0]),  # a connection of a fifth of the link
        ({"connection_gbps": 2.0, "connections": 3}, [5 / 3]),
        ({"background_gbps": 100.0}, [2.0]),  # one connection against one
        ({"background_gbps": 100.0, "background_connections": 3}, [4.0]),
        ({"background_gbps": 100.0, "connections": 3}, [4 / 3]),
        ({"background_gbps": 2.0}, [1.25]),  # it wants less than its share
        ({"background_gbps": 9.0, "connection_gbps": 4.0}, [2.5]),  # the transfer is what is limited
    ],
)
def test_connections_limits_and_background_traffic_shape_a_transfer(
    used: dict[str, Any], expected: list[float]
) -> None:
    # A link of 10 Gbps and a cache that takes a second of all of it.
    tokens = round(10e9 / 8 / TOKEN_BYTES)
    quick = {"tokens": [1, 1000], "seconds": [1e-12, 1e-9], "interpolation": "linear"}
    changes = {"measured.fast.prefill": quick, "execution.links": {"wan": used}}
    w = run(asked([0.0], [tokens]), changes, threshold_tokens=0.0, link_gbps=10.0)
    assert w.requests["kv_end_s"] == pytest.approx(expected, rel=1e-4)


def test_memory_limits_a_batch_as_its_places_do() -> None:
    # Each request reserves 100 + 2 x 450 bytes; 2,500 bytes hold two.
    requests = asked(np.zeros(6), 350, output=101)
    w = run(requests, batch=50, memory=(2500.0, 100.0, 2.0), n_near=6)
    starts = np.sort(w.requests["first_token_s"])
    step = 0.01 * 100
    assert starts == pytest.approx(350 * TOKEN_S + np.repeat([0, step, 2 * step], 2), abs=0.02)


def test_a_request_larger_than_the_memory_decodes_alone() -> None:
    w = run(asked([0.0, 0.0], 350, output=11), memory=(10.0, 100.0, 2.0))
    check_laws(w)


def test_the_peak_of_a_link_is_its_fullest_second() -> None:
    unit, quick = 10_000, {"tokens": [1, 1000], "seconds": [1e-12, 1e-9], "interpolation": "linear"}
    changes = {"measured.fast.prefill": quick}
    gbps = 8e-9 * unit * TOKEN_BYTES
    times = [0.0, 10.25, 50.0, 90.0]
    w = run(asked(times, [unit // 2, unit // 4, 7 * unit, 1]), changes, threshold_tokens=0.0, link_gbps=gbps)
    assert w.links[0]["peak_bytes_per_s"] == pytest.approx(unit * TOKEN_BYTES, rel=1e-6)
    w = run(asked(times[:2], [unit // 2, unit // 4]), changes, threshold_tokens=0.0, link_gbps=gbps)
    assert w.links[0]["peak_bytes_per_s"] == pytest.approx(unit * TOKEN_BYTES / 2, rel=1e-3)
