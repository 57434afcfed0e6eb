"""Memory of prefill instances: a prompt starts when its whole cache fits beside those that have not left."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.kernel import SimulationState
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.profiles import GqaLayers
from planner.units import GB
from tests.builders import small
from tests.executor_cases import N_LAYERS, TOKEN_BYTES, TOKEN_S, asked, fleet, run, scenario

BLOCK = 64
TOKENS = 64_000
"""Whole blocks."""
FABRIC_GBPS = 8 * TOKENS * TOKEN_BYTES / 1e9
"""Sends the cache of such a prompt in a second."""


def held_bytes(tokens: Any) -> Any:
    """Memory of prompts on one of 8 ranks, counted by hand: keys and values of the heads of a rank, in whole blocks."""
    total = 0
    for group in small().profile_of(None).architecture.attention:
        assert isinstance(group, GqaLayers)
        heads = -(-group.n_kv_heads // 8)
        total += group.n_layers * heads * 2 * group.head_dim * 2
    return total * np.ceil(np.asarray(tokens) / BLOCK) * BLOCK


def with_room(n_prompts: float, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Room in the pool for short prompts for so many of TOKENS, and a link that sends each in a second."""
    memory_gb = n_prompts * float(held_bytes(TOKENS)) / GB
    room = {"execution.pools.near.memory_gb": memory_gb, "sites.local.fabric_gbps": FABRIC_GBPS}
    return {**room, "execution.max_transfers": 64, **(changes or {})}


def test_a_second_prompt_starts_when_the_last_byte_of_the_first_has_left() -> None:
    two = run(asked([0.0, 0.0], TOKENS), with_room(1.5)).requests
    # Layers are sent from the end of the first one on, and made faster than sent: a second in all.
    left_s = TOKENS * TOKEN_S / N_LAYERS + 1.0
    assert two["prefill_start_s"].tolist() == pytest.approx([0.0, left_s])
    roomy = run(asked([0.0, 0.0], TOKENS), with_room(2.0)).requests
    assert roomy["prefill_start_s"].tolist() == pytest.approx([0.0, TOKENS * TOKEN_S])


def test_a_short_prompt_behind_one_that_waits_for_room_waits_too_and_another_instance_takes_both() -> None:
    tokens = [TOKENS, TOKENS, BLOCK]
    alone = run(asked([0.0, 0.01, 0.02], tokens), with_room(1.5)).requests
    assert np.all(np.diff(alone["prefill_start_s"]) > 0)
    two = run(asked([0.0, 0.0, 0.0, 0.0], [TOKENS, TOKENS, TOKENS, BLOCK]), with_room(1.5), n_near=2).requests
    left_s = TOKENS * TOKEN_S / N_LAYERS + 1.0
    # When the third starts on one, the fourth is next, and the other has room for it.
    assert two["prefill_start_s"].tolist() == pytest.approx([0.0, 0.0, left_s, left_s])
    assert len(set(two["instance"][2:])) == 2


def random_requests(seed: int, n: int = 400) -> Any:
    rng = np.random.default_rng(seed)
    tokens = np.minimum(np.exp(rng.normal(9.5, 1.0, n)).astype(int) + 1, TOKENS)
    return asked(np.cumsum(rng.exponential(0.25, n)), tokens)


def most_held_bytes(w: SimulationState) -> float:
    """Most that any instance held at a time, by the recorded times."""
    done, most = w.requests, 0.0
    size = held_bytes(done["total_tokens"])
    for i in np.unique(done["instance"]):
        mine = done["instance"] == i
        starts, ends = done["prefill_start_s"][mine], done["kv_end_s"][mine]
        for start in starts:
            is_held = (starts <= start) & (ends > start + 1e-9)
            most = max(most, float(size[mine][is_held].sum()))
    return most


WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"dispatch": "join-shortest-work"},
    {"dispatch": "round-robin"},
    {"prefill_batching": "chunked", "execution.chunk_tokens": 8192},
    {"execution.priority_tokens": 4000.0},
)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("n_near", [1, 3])
def test_room_is_never_exceeded_and_everything_is_served(way: dict[str, Any], n_near: int) -> None:
    for seed in range(3):
        w = run(random_requests(seed), with_room(1.1, way), n_near=n_near)
        assert w.clock[0]["n_finished"] == len(w.requests)
        assert not w.clock[0]["n_dropped"]
        assert 0 < most_held_bytes(w) <= 1.1 * float(held_bytes(TOKENS)) + 1
        assert not w.instances["used_bytes"].any()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_with_plenty_of_room_the_run_is_that_without_a_limit(way: dict[str, Any]) -> None:
    plenty, none = with_room(1000.0, way), with_room(1000.0, way)
    del none["execution.pools.near.memory_gb"]
    first, second = (run(random_requests(5), changes, n_near=2) for changes in (plenty, none))
    assert first.requests.tobytes() == second.requests.tobytes()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_less_room_makes_prompts_wait_longer(way: dict[str, Any]) -> None:
    asked_for = random_requests(7)
    for n_near in (1, 2):
        waits_s = [
            float(np.mean(run(asked_for.copy(), with_room(n, way), n_near=n_near).requests["prefill_start_s"]))
            for n in (1000.0, 1.5, 1.0)
        ]
        assert all(less >= more for more, less in pairwise(waits_s))
        assert waits_s[-1] > waits_s[0]


def test_what_the_pool_for_short_prompts_cannot_hold_goes_to_the_one_that_can() -> None:
    w = run(asked([0.0, 0.0], [TOKENS, 2 * TOKENS]), with_room(1.0))
    pools = w.instances["pool"][w.requests["instance"]]
    assert pools.tolist() == [1, 0]


def test_a_prompt_that_fits_nowhere_is_refused_by_name_before_the_run() -> None:
    tight = {f"execution.pools.{name}.memory_gb": float(held_bytes(4096)) / GB for name in ("fast", "near")}
    question = scenario({**tight, "sites.local.fabric_gbps": FABRIC_GBPS})
    with pytest.raises(InputError, match=r"pools\.\w+.*4,096 tokens.* longer, up to 6") as refused:
        simulate(question, fleet(), RunQuestion(n_requests=2000, n_replications=1))
    assert "'all'" in str(refused.value)


def test_a_crash_gives_back_the_room_of_what_it_lost() -> None:
    faults = [{"kind": "crash", "at_s": 0.3, "duration_s": 1.0, "pool": "near"}]
    w = run(asked([0.0, 0.0, 0.0], TOKENS), with_room(1.0, {"execution.faults": faults}))
    assert w.clock[0]["n_finished"] == 3
    assert not w.instances["used_bytes"].any()


def test_room_is_that_beside_the_weights_unless_the_scenario_states_it() -> None:
    roofline = {"pools.near.service_times": "roofline", "pools.near.stack": "datasheet"}
    counted, stated = (
        system(scenario({**roofline, **more}), fleet()).prefill_times[1].room
        for more in ({}, {"execution.pools.near.memory_gb": 1.0})
    )
    assert counted is not None
    assert stated is not None
    assert stated.memory_bytes == GB
    assert stated.longest_tokens == GB // float(held_bytes(BLOCK)) * BLOCK
    assert counted.memory_bytes > 10 * GB
    assert float(counted.held(TOKENS)) == pytest.approx(float(held_bytes(TOKENS)))
