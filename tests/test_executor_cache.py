"""Prefix caches: which prefixes hit, what is dropped, which way requests take under scarce and ample bandwidth."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.executor.cache_pools import block_bytes, state_bytes
from planner.executor.draws import Draws, drawn_requests
from planner.executor.kernel import SimulationState
from planner.executor.prompt_blocks import trace_blocks
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.workload.traces import BLOCK_TOKENS
from tests.builders import in_classes
from tests.executor_cases import TOKEN_BYTES, asked, chains, fleet, run, scenario
from tests.trace_cases import Conversations

ATTENTION, HYBRID = {"model.profile": "qwen3-235b"}, {"model.profile": "kimi-linear-48b"}


def cache(**stated: Any) -> dict[str, Any]:
    return {"execution.cache": stated}


def one_by_one(prompts: Sequence[Sequence[int]], extra: int = 100) -> Any:
    """Requests far apart, each with some tokens beyond its full blocks."""
    return asked(1000.0 * np.arange(len(prompts)), [BLOCK_TOKENS * len(p) + extra for p in prompts])


def hits(w: SimulationState) -> list[float]:
    """Hits in blocks."""
    return (w.requests["cached_tokens"] / BLOCK_TOKENS).tolist()


def test_attention_hits_by_the_longest_prefix_of_full_blocks() -> None:
    prompts = [(0, 1, 2), (0, 1, 3), (0, 4, 2), (0, 1, 2, 5)]
    w = run(one_by_one(prompts), ATTENTION | cache(), blocks=chains(prompts))
    assert hits(w) == [0, 2, 1, 3]


def test_a_full_hit_computes_its_last_token() -> None:
    prompts = [(0, 1, 2), (0, 1, 2)]
    w = run(one_by_one(prompts, 0), ATTENTION | cache(), blocks=chains(prompts))
    assert w.requests["cached_tokens"].tolist() == [0, 3 * BLOCK_TOKENS - 1]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(0, [0, 0, 3, 0]), (1, [0, 2, 3, 1]), (2, [0, 2, 3, 0]), (3, [0, 0, 3, 0])],
)
def test_a_state_hits_at_its_exact_length_only(interval: int, expected: list[int]) -> None:
    """The first prompt keeps the state of its third block, and those at the interval."""
    prompts = [(0, 1, 2), (0, 1, 3), (0, 1, 2, 4), (0, 5, 6)]
    stated = HYBRID | cache(state_interval_tokens=interval * BLOCK_TOKENS)
    assert hits(run(one_by_one(prompts), stated, blocks=chains(prompts))) == expected


def test_without_the_exact_rule_a_hybrid_model_hits_as_attention_does() -> None:
    prompts = [(0, 1, 2), (0, 1, 3)]
    assert hits(run(one_by_one(prompts), HYBRID | cache(exact_states=False), blocks=chains(prompts))) == [0, 2]


def test_a_full_pool_drops_what_was_used_longest_ago_ends_of_prefixes_first() -> None:
    room = block_bytes(scenario(ATTENTION)) / 1e9
    # A transfer of a prompt of 612 to 1,636 tokens takes blocks of the same pool, as long as it lasts.
    stated = ATTENTION | cache(capacity_gb={"local": 1000 * room})
    prompts = [tuple(range(400)), tuple(range(400, 800)), (0, 1), tuple(range(800, 1200)), (400, 401), (0, 1, 2)]
    w = run(one_by_one(prompts), stated, blocks=chains(prompts))
    found = hits(w)
    # The end of the first prompt goes before its beginning, which the third one used, and before the second prompt.
    assert found == [0, 0, 2, 0, 2, 2]
    assert w.caches["n_evicted"].sum() > 0
    assert w.caches["transfer_blocks"].sum() == 0
    assert (w.caches["used_blocks"] <= w.caches["capacity_blocks"]).all()


@given(st.integers(0, 10_000), st.sampled_from([ATTENTION, HYBRID]), st.integers(1, 60), st.integers(0, 3))
def test_pools_hold_what_they_count_and_no_more_than_they_may(
    seed: int, model: dict[str, Any], n_blocks: int, interval: int
) -> None:
    rng = np.random.default_rng(seed)
    tree = [[0]]
    for block in range(1, 60):
        tree.append([*tree[int(rng.integers(len(tree)))], block])
    prompts = [tree[int(rng.integers(60))] for _ in range(80)]
    size = block_bytes(scenario(model))
    capacity = {site: n_blocks * size / 1e9 * 1.0001 for site in ("remote", "local")}
    stated = model | cache(
        capacity_gb=capacity,
        state_interval_tokens=interval * BLOCK_TOKENS,
        bandwidth=str(rng.choice(["scarce", "ample"])),
    )
    requests = asked(np.cumsum(rng.exponential(0.005, 80)), [BLOCK_TOKENS * len(p) + 7 for p in prompts], output=20)
    w = run(requests, stated, blocks=chains(prompts), threshold_tokens=2000.0, n_fast=2, n_near=2)
    rule = w.cache_rule[0]
    sizes = np.where(np.arange(w.entries.shape[1]) < rule["n_blocks"], 1, rule["state_blocks"])
    assert (w.entries["is_in"] @ sizes == w.caches["used_blocks"]).all()
    assert (w.caches["used_blocks"] <= w.caches["capacity_blocks"]).all()
    assert (w.caches["transfer_blocks"] == 0).all()
    assert w.clock[0]["n_finished"] == 80
    assert (w.requests["cached_tokens"] < w.requests["total_tokens"]).all()
    assert w.links["sent_bytes"].sum() == pytest.approx(w.requests["wire_bytes"].sum(), rel=1e-6)


TURNS = [tuple(range(40)), tuple(range(42))]
"""A conversation: the second prompt has the first as its prefix."""
THRESHOLD = 5000.0


def turns(model: dict[str, Any], bandwidth: str) -> SimulationState:
    """A long prompt, then its continuation, under one of the paper's rules."""
    stated = model | cache(bandwidth=bandwidth)
    return run(one_by_one(TURNS), stated, blocks=chains(TURNS), threshold_tokens=THRESHOLD)


def ways(w: SimulationState) -> list[str]:
    return ["far" if long else "home" for long in w.routes["is_long"][w.requests["route"]]]


def test_under_scarce_bandwidth_each_cluster_counts_for_itself() -> None:
    w = turns(HYBRID, "scarce")
    assert ways(w) == ["far", "far"]  # home has the blocks that were sent, but no state to begin from
    assert hits(w) == [0, 40]
    new_tokens = 2 * BLOCK_TOKENS + 100
    assert w.requests["wire_bytes"][1] == pytest.approx(new_tokens * TOKEN_BYTES)  # what home holds is not sent


def test_under_ample_bandwidth_the_longest_prefix_anywhere_counts_and_is_fetched() -> None:
    w = turns(HYBRID, "ample")
    assert ways(w) == ["far", "home"]
    assert hits(w) == [0, 40]
    assert w.requests["prefill_start_s"][1] >= w.requests["arrival_s"][1]


def test_attention_finds_at_home_what_was_sent_there() -> None:
    for bandwidth in ("scarce", "ample"):
        w = turns(ATTENTION, bandwidth)
        assert ways(w) == ["far", "home"]
        assert hits(w) == [0, 40]
        assert w.requests["wire_bytes"][1] == 0


def test_a_fetched_prefix_waits_for_its_link() -> None:
    quick = {"tokens": [1, 1000], "seconds": [1e-12, 1e-9], "interpolation": "linear"}
    kv = {"tokens": [1, 1000], "bytes": [1e9 + 1e5, 1e9 + 1e8], "interpolation": "linear"}  # a state of 1 GB
    stated = HYBRID | cache(bandwidth="ample") | {"measured.fast.kv": kv, "measured.home.kv": kv}
    stated |= {"measured.fast.prefill": quick, "measured.home.prefill": quick}
    w = run(one_by_one(TURNS), stated, blocks=chains(TURNS), threshold_tokens=THRESHOLD, link_gbps=8.0)
    assert w.requests["wire_bytes"][1] == pytest.approx(1e9)  # home holds the blocks
    assert w.requests["prefill_start_s"][1] - w.requests["arrival_s"][1] == pytest.approx(1.0, rel=1e-6)


def played(trace: Conversations, model: str, **stated: Any) -> SimulationState:
    """The trace, each request alone, so that whatever came before is in the pool."""
    changes = {"workload": {"trace": {"path": str(trace.path)}}, "model.profile": model, "execution.cache": stated}
    asked_scenario = scenario(changes)
    requests = drawn_requests(asked_scenario, trace.n_requests, 0.001, Draws(0, is_only=True))
    blocks = trace_blocks(asked_scenario, requests)
    return run(requests, changes, blocks=blocks)


def hit_fraction(w: SimulationState) -> float:
    return float(w.requests["cached_tokens"].sum() / w.requests["total_tokens"].sum())


def test_a_trace_of_conversations_has_its_ideal_hits_with_unlimited_room(mooncake: Conversations) -> None:
    found = hit_fraction(played(mooncake, "qwen3-235b"))
    assert found == pytest.approx(mooncake.ideal_hit_fraction, abs=0.005)


def test_exact_states_lower_the_hits_of_a_trace_the_more_the_rarer_they_are(mooncake: Conversations) -> None:
    intervals = (n * BLOCK_TOKENS for n in (1, 4, 16, 0))
    found = [hit_fraction(played(mooncake, "prfaas-1t", state_interval_tokens=n)) for n in intervals]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(mooncake.ideal_hit_fraction, abs=0.005)
    assert found[-1] < found[0] - 0.02


def test_less_room_never_finds_much_more(mooncake: Conversations) -> None:
    found = [hit_fraction(played(mooncake, "qwen3-235b", capacity_gb={"local": gb})) for gb in mooncake.rooms_gb]
    assert found == sorted(found)
    assert found[0] < found[2]


def test_what_blocks_of_a_trace_take_does_not_grow_with_its_rounds(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    line = {"timestamp": 0, "input_length": 50 * BLOCK_TOKENS, "output_length": 5, "hash_ids": list(range(50))}
    path.write_text("\n".join(json.dumps(line | {"timestamp": 1000 * i}) for i in range(10)))
    asked_scenario = scenario({"workload": {"trace": {"path": str(path)}}, **ATTENTION, **cache()})
    once, often = (trace_blocks(asked_scenario, drawn_requests(asked_scenario, n, 1.0, Draws(0))) for n in (10, 10_000))
    assert once.values.tobytes() == often.values.tobytes()
    assert once.offsets.tobytes() == often.offsets.tobytes()
    assert often.prompts.nbytes <= 8 * 10_000
    assert often.n_numbers == 1000 * once.n_numbers


def conversations(path: Path, block_tokens: int) -> dict[str, Any]:
    """Twelve prompts of four conversations that begin alike, in blocks of a size."""
    lines = []
    for i in range(12):
        n = 2 + 2 * (i // 4) + i % 4
        ids = [0, *(100 * (1 + i % 4) + k for k in range(n - 1))]
        asked = {"timestamp": 1000 * i, "input_length": n * block_tokens - 3, "output_length": 5, "hash_ids": ids}
        lines.append(json.dumps(asked))
    path.write_text("\n".join(lines), encoding="utf-8")
    return {"workload": {"trace": {"path": str(path)}}, **ATTENTION, **cache()}


def hits_alone(changes: dict[str, Any], n: int, replication: int) -> list[int]:
    """Cached tokens of requests of which each is alone."""
    asked = scenario(changes)
    requests = drawn_requests(asked, n, 0.001, Draws(5, replication))
    w = run(requests, changes, blocks=trace_blocks(asked, requests))
    return list(w.requests["cached_tokens"].tolist())


@pytest.mark.parametrize("block_tokens", [16, 64, 512, 1024])
def test_hits_of_a_whole_trace_are_counted_in_its_own_blocks_and_the_same_from_whichever_row_it_begins(
    block_tokens: int, tmp_path: Path
) -> None:
    changes = conversations(tmp_path / "t.jsonl", block_tokens)
    asked = scenario(changes)
    rows = [tuple(drawn_requests(asked, 12, 1.0, Draws(5, r))["trace_row"]) for r in range(4)]
    assert len(set(rows)) == 4
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    full = [tuple(line["hash_ids"][:-1]) for line in lines]  # the last block of each is not full
    expected = (sum(map(len, full)) - len({block for ids in full for block in ids})) * block_tokens
    assert [sum(hits_alone(changes, 12, r)) for r in range(4)] == [expected] * 4
    assert sum(hits_alone(changes, 24, 1)) == 2 * expected  # the second round is about others


def test_one_cache_does_not_hold_blocks_of_two_sizes_nor_states_between_them(tmp_path: Path) -> None:
    one, other = conversations(tmp_path / "a.jsonl", 16), conversations(tmp_path / "b.jsonl", 64)
    asked = in_classes({"a": (0.5, one["workload"]), "b": (0.5, other["workload"])}, cache())
    with pytest.raises(InputError, match="blocks of 16 and 64 tokens"):
        trace_blocks(asked, drawn_requests(asked, 20, 1.0, Draws(0)))
    long = conversations(tmp_path / "c.jsonl", 1024) | cache(state_interval_tokens=1536)
    asked = scenario(long)
    with pytest.raises(InputError, match=r"state_interval_tokens: is 1536.*a multiple of 1024"):
        trace_blocks(asked, drawn_requests(asked, 20, 1.0, Draws(0)))


def test_caches_need_prompts_whose_prefixes_are_known() -> None:
    with pytest.raises(InputError, match="no class of requests states its prefixes"):
        simulate(scenario({"execution.cache": {}}), fleet(), RunQuestion(100, 0, 0.5, 1))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"capacity_gb": {"moon": 1.0}}, "is no site of the scenario"),
        ({"state_interval_tokens": 100}, "multiple of 512"),
        ({"bandwidth": "some"}, "execution.cache.bandwidth"),
    ],
)
def test_caches_that_make_no_sense_are_errors_of_the_scenario(stated: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as found:
        scenario({"execution.cache": stated})
    assert said in str(found.value)


def test_sizes_of_blocks_and_states_are_those_of_the_model() -> None:
    hybrid = scenario({"model.profile": "prfaas-1t"})
    assert block_bytes(hybrid) == 17_280 * BLOCK_TOKENS
    assert state_bytes(hybrid) == 182_353_920
    assert state_bytes(scenario(ATTENTION)) == 0
