"""Crashes, slow instances, lost and shared links: whoever is let in is finished, or counted as dropped and why."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.executor.kernel.records import DROPPED, FINISHED, NOT_DROPPED, STRANDED, TOO_OFTEN
from tests.executor_cases import TOKEN_BYTES, TOKEN_S, asked, poisson_s, run, scenario, whole_tokens

UNIT = 100_000
"""Tokens of a second of prefill."""
WAN_GBPS = 8e-9 * UNIT * TOKEN_BYTES
"""A link that carries such a prompt's cache in a second."""


def faults(*stated: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"execution.faults": list(stated), **{f"execution.{key}": value for key, value in more.items()}}


def crash(pool: str, at_s: float, duration_s: float | None = None, instance: int = 0) -> dict[str, Any]:
    length = {} if duration_s is None else {"duration_s": duration_s}
    return {"kind": "crash", "pool": pool, "instance": instance, "at_s": at_s, **length}


def test_a_prompt_that_a_crash_interrupts_starts_again_elsewhere() -> None:
    w = run(asked([0.0, 0.0], UNIT), faults(crash("near", 0.5, 10.0)), n_near=2)
    assert sorted(w.requests["prefill_end_s"]) == pytest.approx([1.0, 2.0])
    assert sorted(w.requests["n_retries"]) == [0, 1]


def test_a_pool_without_instances_waits_for_the_restart() -> None:
    w = run(asked([0.0, 1.2], UNIT), faults(crash("near", 0.5, 3.0)) | {"pools.fast.prompts": "short"}, n_fast=0)
    assert w.requests["prefill_end_s"] == pytest.approx([4.5, 5.5])


def test_prompts_go_round_a_pool_that_is_down() -> None:
    w = run(asked([1.0], UNIT), faults(crash("near", 0.5)), n_fast=1, link_gbps=1e5)
    assert w.routes["prefill_pool"][w.requests["route"][0]] == 0
    assert w.requests["prefill_end_s"] == pytest.approx([2.0])


def test_what_waits_for_an_instance_that_crashes_is_handed_on() -> None:
    changes = faults(crash("near", 0.5)) | {"dispatch": "round-robin"}
    w = run(asked([0.0, 0.0, 0.1, 0.1], UNIT), changes, n_near=2)
    assert sorted(w.requests["prefill_end_s"]) == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_a_request_is_dropped_after_its_last_start() -> None:
    crashes = [crash("near", 0.5 + i, 0.1) for i in range(3)]
    changes = faults(*crashes, max_retries=2) | {"pools.fast.prompts": "short"}
    w = run(asked([0.0], UNIT), changes, n_fast=0)
    assert (w.requests["state"][0], w.requests["reason"][0]) == (DROPPED, TOO_OFTEN)
    w = run(asked([0.0], UNIT), changes | {"execution.max_retries": 3}, n_fast=0)
    assert (w.requests["state"][0], w.requests["reason"][0]) == (FINISHED, NOT_DROPPED)


def test_requests_that_nothing_will_ever_serve_are_dropped_as_stranded() -> None:
    changes = faults(crash("near", 0.5), crash("fast", 0.5))
    w = run(asked([0.0, 0.1, 9.0], UNIT), changes, threshold_tokens=1e9)
    assert (w.requests["state"] == DROPPED).all()
    assert (w.requests["reason"] == STRANDED).all()
    assert w.clock[0]["n_dropped"] == 3


def test_unsent_caches_are_lost_with_their_instance() -> None:
    # Prefill takes 1 s, the link 4 s: at 2 s the cache is still on the wire when its instance crashes.
    changes = faults(crash("fast", 2.0, 1.0))
    w = run(asked([0.0], UNIT), changes, n_near=0, threshold_tokens=0.0, link_gbps=WAN_GBPS / 4)
    assert w.requests["n_retries"][0] == 1
    assert w.requests["kv_end_s"] == pytest.approx([3.0 + 1 / 94 + 4.0], rel=1e-6)


def test_a_decode_crash_keeps_what_was_generated_and_prefills_it_again() -> None:
    w = run(asked([0.0], UNIT, output=1001), faults(crash("decode", 6.005, 1.0)), n_decode=1)
    # 500 steps of 10 ms after the first token at 1 s; then prompt and 500 tokens are prefilled, and 500 are left.
    request = w.requests[0]
    assert (request["prompt_tokens"], request["n_retries"]) == (UNIT + 500, 1)
    assert request["first_token_s"] == pytest.approx(1.0)
    assert request["finish_s"] == pytest.approx(6.005 + (UNIT + 500) * TOKEN_S + 5.0)
    assert w.decoders["n_tokens"].sum() == 1000


def test_a_slow_instance_takes_longer_for_what_it_begins() -> None:
    slow = {"kind": "slow", "pool": "near", "at_s": 0.5, "duration_s": 3.0, "slowdown": 2.0}
    w = run(asked([0.0, 0.0, 0.0, 0.0], UNIT), faults(slow))
    assert w.requests["prefill_end_s"] == pytest.approx([1.0, 3.0, 5.0, 6.0])


def test_slow_decode_takes_longer_from_the_step_on_that_is_under_way() -> None:
    slow = {"kind": "slow", "pool": "decode", "at_s": 2.0049, "duration_s": 2.0, "slowdown": 4.0}
    w = run(asked([0.0], UNIT, output=1001), faults(slow))
    # 100 steps of 10 ms to 2 s, steps of 40 ms to the one under way at 4.0049 s, the others at 10 ms again.
    assert w.requests["finish_s"] == pytest.approx([1.0 + 1.0 + 50 * 0.04 + 850 * 0.01], abs=0.011)


@pytest.mark.parametrize(
    ("fault", "end_s"),
    [
        ({"kind": "link-loss", "at_s": 2.0, "duration_s": 5.0}, 9.0),
        ({"kind": "brownout", "at_s": 2.0, "duration_s": 4.0, "left_fraction": 0.25}, 7.0),
        ({"kind": "background", "at_s": 2.0, "duration_s": 1.0, "background_gbps": 1e6}, 4.5),
    ],
)
def test_a_transfer_goes_on_with_what_a_link_has_left(fault: dict[str, Any], end_s: float) -> None:
    changes = faults({"link": "wan", **fault})
    w = run(asked([0.0], UNIT), changes, threshold_tokens=0.0, link_gbps=WAN_GBPS / 4)
    shift = 1 / 94 - 1.0  # it begins with the first layer, and is a quarter less per second on the link
    assert w.requests["kv_end_s"] == pytest.approx([end_s + 1.0 + shift], rel=1e-6)


def test_prompts_stay_at_home_while_the_link_is_lost() -> None:
    lost = {"kind": "link-loss", "link": "wan", "at_s": 1.0, "duration_s": 5.0}
    w = run(asked([0.0, 2.0, 7.0], UNIT), faults(lost), threshold_tokens=0.0, link_gbps=1e5)
    assert w.routes["is_long"][w.requests["route"]].tolist() == [1, 0, 1]


@given(st.integers(0, 10_000), st.sampled_from(["shared-queue", "join-shortest-work", "round-robin"]), st.booleans())
def test_nobody_is_lost_in_a_storm_of_crashes(seed: int, dispatch: str, is_chunked: bool) -> None:
    rng = np.random.default_rng(seed)
    crashes = [
        crash(str(rng.choice(["fast", "near", "decode"])), float(t), float(rng.uniform(0.1, 5)), int(rng.integers(2)))
        for t in np.sort(rng.uniform(0, 60, 25))
    ]
    slow = {"kind": "slow", "pool": "decode", "at_s": 5.0, "duration_s": 20.0, "slowdown": 3.0}
    lost = {"kind": "link-loss", "link": "wan", "at_s": 10.0, "duration_s": 10.0}
    changes = faults(*crashes, slow, lost, max_retries=int(rng.integers(0, 6))) | {
        "dispatch": dispatch,
        "prefill_batching": "chunked" if is_chunked else "one-at-a-time",
    }
    tokens = whole_tokens(rng.lognormal(-0.5, 1.0, 150))
    requests = asked(poisson_s(rng, 150, 3.0), tokens, output=rng.integers(1, 300, 150))
    w = run(requests, changes, batch=8, n_fast=2, n_near=2, n_decode=2, threshold_tokens=60_000.0, link_gbps=60.0)
    clock, done = w.clock[0], w.requests[w.requests["state"] == FINISHED]
    assert clock["n_finished"] + clock["n_dropped"] == 150
    assert (clock["n_inside"], clock["violations"]) == (0, 0)
    assert len(done) == clock["n_finished"]
    assert (w.requests["reason"][w.requests["state"] == DROPPED] != NOT_DROPPED).all()
    assert (w.requests["n_retries"][w.requests["reason"] == TOO_OFTEN] > 0).all()
    assert (done["finish_s"] >= done["first_token_s"]).all()
    assert w.decoders["n_tokens"].sum() >= (done["output_tokens"] - 1).sum()
    assert (w.links["n_flows"] == 0).all()
    assert (w.pools["n_waiting"] == 0).all()
    assert w.queues["n"].sum() == 0


def test_crashes_at_random_come_as_often_as_stated_and_move_nothing_else() -> None:
    changes = {"execution.pools": {"near": {"mean_days_between_crashes": 0.01, "restart_s": 60.0}}}
    arrival_s = np.linspace(0, 86_400, 4000)
    w = run(asked(arrival_s, UNIT), changes, n_near=3)
    n_crashes = (w.faults["kind"] == 0).sum()
    assert n_crashes == pytest.approx(3 * 86_400 / (864 + 60), rel=0.25)
    assert w.clock[0]["n_finished"] == 4000


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"kind": "crash", "at_s": 1.0}, "pool: is required by a fault of kind crash"),
        ({"kind": "slow", "pool": "near", "at_s": 1.0}, "slowdown: is required"),
        ({"kind": "brownout", "link": "wan", "at_s": 1.0}, "left_fraction: is required"),
        ({"kind": "crash", "pool": "far", "at_s": 1.0}, "is 'far', no pool of the scenario"),
        ({"kind": "link-loss", "link": "wam", "at_s": 1.0}, "did you mean 'wan'?"),
    ],
)
def test_a_fault_that_lacks_what_it_needs_is_an_error_of_the_scenario(stated: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"(?s).*") as found:
        scenario(faults(stated))
    assert said in str(found.value)


def test_a_fault_of_an_instance_that_the_plan_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="has no instance 5 of 'near'"):
        run(asked([0.0], 10), faults(crash("near", 1.0, None, 5)))
