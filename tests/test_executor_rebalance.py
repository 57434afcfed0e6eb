"""Rebalancing of cache pools: which prefixes move, when they arrive, what that takes, and what it is worth."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.errors import InputError
from planner.executor.cache_pools import block_bytes
from planner.executor.draws import Draws, drawn_requests
from planner.executor.kernel import SimulationState
from planner.executor.measure import check_pools
from planner.executor.prompt_blocks import PromptBlocks, trace_blocks
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.report.run_tables import run_tables
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Fleet, Plan
from planner.results.run import Run
from planner.scenario import Scenario, read_scenario
from planner.workload.traces import BLOCK_TOKENS
from tests.builders import sketch
from tests.cpu_cost import cached
from tests.executor_cases import TOKEN_BYTES, asked, chains, ended, fleet, scenario

ATTENTION, HYBRID = {"model.profile": "qwen3-235b"}, {"model.profile": "kimi-linear-48b"}
QUICK = {"tokens": [1, 1000], "seconds": [1e-12, 1e-9], "interpolation": "linear"}
STATE_BYTES = 1e9
WAN_GBPS = 8.0
"""A link that carries such a state in a second."""
HALF = {"interval_s": 30.0, "link_fraction": 0.5}
UNPLANNED = 1000.0
"""Bandwidth of the way back, which no plan needs [Gbps]."""


def stated(model: Mapping[str, Any], rebalance: Mapping[str, Any] | None, **cache: Any) -> dict[str, Any]:
    moves = {} if rebalance is None else {"rebalance": dict(rebalance)}
    back = {"from": "local", "to": "remote", "capacity_gbps": 1.0}
    return {
        **model,
        "execution.cache": {**cache, **moves},
        "links.back": back,
        "execution.links": {"back": {"spare_gbps": UNPLANNED}},
    }


def with_states(rebalance: Mapping[str, Any] | None, **cache: Any) -> dict[str, Any]:
    """Prefill in no time, and hand-offs of a state of 1 GB and hardly more."""
    kv = {"tokens": [1, 1000], "bytes": [STATE_BYTES + 1, STATE_BYTES + 1000], "interpolation": "linear"}
    curves = {f"measured.{kind}.{what}": c for kind in ("fast", "home") for what, c in (("kv", kv), ("prefill", QUICK))}
    return stated(HYBRID, rebalance, **cache) | curves


def both_ways(**sizes: Any) -> Fleet:
    """Links from the remote site to the local one, and one back that the plan leaves out."""
    found = fleet(**sizes)
    (wan,) = found.links
    back = wan.model_copy(update={"name": "back", "from_site": "local", "to_site": "remote", "capacity_gbps": 0.0})
    return found.model_copy(update={"links": (wan, back)})


def run(
    changes: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    arrival_s: Sequence[float],
    *,
    extra: int = 100,
    output: int = 1,
    **sizes: Any,
) -> SimulationState:
    """Prompts of these blocks and some tokens more."""
    requests = asked(arrival_s, [BLOCK_TOKENS * len(p) + extra for p in prompts], output=output)
    w = ended(system(scenario(changes), both_ways(**sizes)), requests, chains(prompts))
    check_pools(w)
    assert w.clock[0]["n_finished"] + w.clock[0]["n_dropped"] == len(prompts)
    return w


def hit_blocks(w: SimulationState, r: int = -1) -> float:
    return float(w.requests["cached_tokens"][r] / BLOCK_TOKENS)


def is_far(w: SimulationState, r: int = -1) -> bool:
    return bool(w.routes["is_long"][w.requests["route"][r]])


def moved(w: SimulationState) -> int:
    return int(w.rebalancer[0]["n_moved"])


A, B, C = tuple(range(40)), tuple(range(100, 160)), tuple(range(200, 220))
ONCE_TWICE_THRICE = [A, B, C, B, C, C]
BEFORE = [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]
THRESHOLD = 5000.0


@pytest.mark.parametrize(("prefix", "arrives_s"), [(B, 32.0), (C, 34.0), (A, 36.0)], ids="BCA")
def test_three_prefixes_move_in_the_order_of_their_worth_and_hit_once_they_are_there(
    prefix: tuple[int, ...], arrives_s: float
) -> None:
    """All are prefilled far away, and home is sent their blocks but no state. At 30 s, A of 40 blocks was used once, B
    of 60 twice and C of 20 three times: 40, 120 and 60 blocks of prefill for a state each, which takes half of a link
    of 1 GB/s two seconds."""
    for moment_s, is_there in ((arrives_s - 0.001, False), (arrives_s + 0.001, True)):
        prompts = [*ONCE_TWICE_THRICE, (*prefix, 999)]
        w = run(with_states(HALF), prompts, [*BEFORE, moment_s], threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
        assert is_far(w) is not is_there
        assert hit_blocks(w) == len(prefix)  # far away it was there all the time
        assert w.rebalancer[0]["n_hits"] == is_there
        assert w.rebalancer[0]["hit_tokens"] == is_there * len(prefix) * BLOCK_TOKENS


def test_moves_are_counted_and_take_their_bytes_of_the_link() -> None:
    prompts, times = [*ONCE_TWICE_THRICE, (0, 1)], [*BEFORE, 50.0]
    w = run(with_states(HALF), prompts, times, threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
    own = w.rebalancer[0]
    assert (own["n_offered"], own["n_moved"], own["n_entries"], own["n_dropped"]) == (3, 3, 3, 0)
    assert w.links["moved_bytes"].tolist() == pytest.approx([3 * STATE_BYTES, 0.0])
    assert w.links["sent_bytes"].sum() == pytest.approx(w.requests["wire_bytes"].sum() + 3 * STATE_BYTES)


def test_only_prefixes_that_are_used_often_enough_move() -> None:
    prompts, times = [*ONCE_TWICE_THRICE, (0, 1)], [*BEFORE, 50.0]
    for least, expected in ((1, 3), (2, 2), (3, 1), (4, 0)):
        changes = with_states({**HALF, "min_uses": least})
        assert moved(run(changes, prompts, times, threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)) == expected


def test_a_move_leaves_a_hand_off_what_it_may_not_use() -> None:
    """From 30 s on a move has a fifth of the link; a prompt at 30.5 s sends a state and hardly more over the rest."""
    changes = with_states({"interval_s": 30.0, "link_fraction": 0.2})
    w = run(changes, [A, B], [0.0, 30.5], threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
    size = w.requests["wire_bytes"][1]
    assert w.requests["kv_end_s"][1] == pytest.approx(30.5 + size / 0.8e9, rel=1e-6)


def test_a_move_has_the_claim_of_one_connection() -> None:
    changes = with_states({"interval_s": 30.0, "link_fraction": 1.0})
    changes["execution.links"] = {**changes["execution.links"], "wan": {"connections": 3}}
    w = run(changes, [A, B], [0.0, 30.0], threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
    size = w.requests["wire_bytes"][1]  # three connections of four
    assert w.requests["kv_end_s"][1] == pytest.approx(30.0 + size / 0.75e9, rel=1e-3)


@pytest.mark.parametrize(
    ("background_gbps", "fraction", "left_bytes_per_s"),
    [(100.0, 1.0, 1e9 / 3), (100.0, 0.2, 0.4e9), (1.0, 1.0, 0.4375e9), (1.0, 0.25, 0.625e9)],
)
def test_moves_hand_offs_and_the_traffic_of_others_share_max_min_fairly(
    background_gbps: float, fraction: float, left_bytes_per_s: float
) -> None:
    """A hand-off of a state beside a move of one, and others, on 1 GB/s: who wants less leaves it to the rest."""
    changes = with_states({"interval_s": 30.0, "link_fraction": fraction})
    changes["execution.links"] = {**changes["execution.links"], "wan": {"background_gbps": background_gbps}}
    w = run(changes, [A, B], [0.0, 30.0], threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
    size = w.requests["wire_bytes"][1]
    assert w.requests["kv_end_s"][1] == pytest.approx(30.0 + size / left_bytes_per_s, rel=1e-4)


def test_blocks_go_to_a_site_that_has_none_and_only_those_that_lack() -> None:
    """Short prompts of attention are prefilled at home; far away nothing is known of them before they are moved."""
    seconds = 40 * BLOCK_TOKENS * TOKEN_BYTES / (0.5 * UNPLANNED * 1e9 / 8)
    longer = (*A, *range(300, 320))
    changes = stated(ATTENTION, HALF) | {"execution.faults": [{"kind": "crash", "pool": "near", "at_s": 30.01}]}
    for moment_s, expected in ((30.02, 0.0), (30.0 + seconds + 0.001, 40.0)):
        w = run(changes, [A, longer], [0.0, moment_s], threshold_tokens=1e9)
        assert is_far(w)
        assert hit_blocks(w) == expected
    assert w.links["moved_bytes"][1] == pytest.approx(40 * BLOCK_TOKENS * TOKEN_BYTES)
    w = run(stated(ATTENTION, HALF), [A, longer, (0, 1)], [0.0, 35.0, 70.0], threshold_tokens=1e9)
    assert (moved(w), w.rebalancer[0]["n_entries"]) == (2, 60)
    assert w.links["moved_bytes"][1] == pytest.approx(60 * BLOCK_TOKENS * TOKEN_BYTES)


def test_what_a_full_pool_is_about_to_drop_goes_where_there_is_room() -> None:
    """Home has room for 120 blocks and is asked for 40 new ones every 20 s: without spilling, three prompts are known
    in the end; with it all are, but for what the fourth took of the first before any look had seen a pool drop."""
    room = 120.5 * block_bytes(scenario(ATTENTION)) / 1e9
    prompts = [tuple(range(40 * i, 40 * i + 40)) for i in range(12)]
    known = {}
    for spill in (False, True):
        rebalance = {"interval_s": 20.0, "link_fraction": 1.0, "min_uses": 1000, "spill": spill}
        changes = stated(ATTENTION, rebalance, capacity_gb={"local": room})
        w = run(changes, prompts, [20.0 * i + 1 for i in range(12)], threshold_tokens=1e9)
        known[spill] = w.entries["is_in"][:, : 12 * 40].any(axis=0).reshape(12, 40).sum(axis=1)
        away = w.movers[1]["to_site"]
        assert w.entries["is_moved"][away].sum() == w.rebalancer[0]["n_entries"]
        assert (w.rebalancer[0]["n_moved"] > 0) == spill
    assert known[False].sum() <= 120
    assert (known[True][1:] == 40).all()
    assert 0 < known[True][0] < 40


def test_no_pool_is_filled_beyond_its_room_by_what_is_spilled() -> None:
    block = block_bytes(scenario(ATTENTION)) / 1e9
    prompts = [tuple(range(40 * i, 40 * i + 40)) for i in range(12)]
    rebalance = {"interval_s": 20.0, "link_fraction": 1.0, "min_uses": 1000}
    changes = stated(ATTENTION, rebalance, capacity_gb={"local": 120.5 * block, "remote": 85.5 * block})
    w = run(changes, prompts, [20.0 * i + 1 for i in range(12)], threshold_tokens=1e9)
    away = list(scenario(changes).sites).index("remote")
    assert 0 < w.caches["used_blocks"][away] <= 85
    assert w.caches["n_evicted"][away] == 0


def test_under_ample_bandwidth_only_what_would_be_dropped_moves() -> None:
    room = 120.5 * block_bytes(scenario(ATTENTION)) / 1e9
    prompts = [tuple(range(40 * i, 40 * i + 40)) for i in range(12)]
    found = {}
    for bandwidth in ("scarce", "ample"):
        for capacity in ({}, {"local": room}):
            rebalance = {"interval_s": 20.0, "link_fraction": 1.0}
            changes = stated(ATTENTION, rebalance, bandwidth=bandwidth, capacity_gb=capacity)
            w = run(changes, [*prompts, (0, 1)], [20.0 * i + 1 for i in range(13)], threshold_tokens=1e9)
            found[bandwidth, len(capacity)] = moved(w)
    assert found["scarce", 0] == 12
    assert found["ample", 0] == 0 < found["ample", 1]


def test_a_move_whose_link_is_lost_is_given_up_and_its_room_given_back() -> None:
    loss = {"kind": "link-loss", "link": "wan", "at_s": 31.0, "duration_s": 9.0}
    changes = with_states(HALF) | {"execution.faults": [loss]}
    prompts = [A, (*A, 999), (0, 1), (*A, 998), (0, 1), (*A, 997)]
    times = [0.0, 50.0, 70.0, 89.0, 100.0, 125.0]
    w = run(changes, prompts, times, threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
    assert w.rebalancer[0]["n_dropped"] == 1
    assert w.links["moved_bytes"][0] >= STATE_BYTES / 2 + STATE_BYTES
    # Used again at 50 s, it is offered again at 60 s and is there from 62 s on.
    assert [is_far(w, r) for r in (0, 1, 3, 5)] == [True, True, False, False]


def test_a_copy_of_what_was_dropped_meanwhile_is_in_vain() -> None:
    """Far away there is room for one prompt: while its blocks are sent, slowly, another takes their place."""
    room = 70.5 * block_bytes(scenario(ATTENTION)) / 1e9
    slow = {"interval_s": 30.0, "link_fraction": 1e-4, "spill": False}
    changes = stated(ATTENTION, slow, capacity_gb={"local": room})
    w = run(changes, [A, B, (900, 901)], [0.0, 31.0, 200.0], threshold_tokens=1e9)
    assert w.rebalancer[0]["n_dropped"] >= 1
    away = list(scenario(changes).sites).index("remote")
    assert w.entries["is_in"][away, A].sum() == 0


def test_nothing_moves_where_nothing_happens_any_more() -> None:
    """Looks do not keep a run alive: a prompt that nobody will ever serve is stranded, and the run ends."""
    crashes = [{"kind": "crash", "pool": pool, "at_s": 1.0} for pool in ("near", "fast")]
    changes = stated(ATTENTION, HALF) | {"execution.faults": crashes}
    changes["execution.scheduler.short_term"] = {}
    w = run(changes, [A, B], [0.0, 100.0])
    assert w.clock[0]["n_dropped"] == 1


def tree_run(
    seed: int, model: Mapping[str, Any], n_blocks: int, rebalance: Mapping[str, Any] | None
) -> SimulationState:
    """Prompts that share beginnings, at two sites with little room and links both ways."""
    rng = np.random.default_rng(seed)
    tree = [[0]]
    for block in range(1, 60):
        tree.append([*tree[int(rng.integers(len(tree)))], block])
    prompts = [tree[int(rng.integers(60))] for _ in range(120)]
    size = n_blocks * block_bytes(scenario(model)) / 1e9 * 1.0001
    cache = {
        "capacity_gb": {site: size for site in ("remote", "local") if rng.random() < 0.7},
        "state_interval_tokens": int(rng.integers(3)) * BLOCK_TOKENS,
        "bandwidth": str(rng.choice(["scarce", "ample"])),
    }
    changes = stated(model, rebalance, **cache)
    if rng.random() < 0.5:
        changes["execution.faults"] = [{"kind": "link-loss", "link": "back", "at_s": 0.3, "duration_s": 0.1}]
    times = np.cumsum(rng.exponential(0.01, 120)).tolist()
    return run(changes, prompts, times, extra=7, output=20, threshold_tokens=2000.0, n_fast=2, n_near=2)


def per_request(requests: Any, blocks: PromptBlocks) -> PromptBlocks:
    """The same blocks, stated for every request by itself."""
    found = []
    for (row, shift), total in zip(blocks.prompts.tolist(), requests["total_tokens"].tolist(), strict=True):
        mine = blocks.values[blocks.offsets[row] : blocks.offsets[row + 1]]
        found.append([number + shift for number in mine[: total // BLOCK_TOKENS].tolist()])
    return replace(chains(found), n_numbers=blocks.n_numbers)


@pytest.mark.parametrize("rebalance", [None, {"interval_s": 5.0, "min_uses": 1, "spill": True}], ids=["still", "moves"])
def test_a_run_is_the_same_whether_blocks_are_stated_by_row_or_by_request(
    tmp_path: Path, rebalance: dict[str, Any] | None
) -> None:
    """A trace that begins again, prompts that end in the middle of a block, two classes of which one has no blocks,
    pools that overflow, states at an interval."""
    rng, path = np.random.default_rng(5), tmp_path / "trace.jsonl"
    lines = []
    for i in range(300):
        n, start = int(rng.integers(1, 30)), int(rng.integers(0, 25))
        ids = [1000 * start + k for k in range(n)]
        total = n * BLOCK_TOKENS - int(rng.integers(0, BLOCK_TOKENS))
        lines.append({"timestamp": 70 * i, "input_length": total, "output_length": 5, "hash_ids": ids})
    path.write_text("\n".join(map(json.dumps, lines)))
    short = {"lengths": {"kind": "constant", "tokens": 700}, "output_lengths": {"kind": "constant", "tokens": 3}}
    classes = {
        "short": {"share": 0.2, "workload": short},
        "trace": {"share": 0.8, "workload": {"trace": {"path": str(path)}}},
    }
    cache = {"capacity_gb": {"local": 3.0, "remote": 2.0}, "state_interval_tokens": 4 * BLOCK_TOKENS}
    asked_scenario = scenario({"workload": None, "classes": classes} | stated(HYBRID, rebalance, **cache))
    plan = system(asked_scenario, both_ways(threshold_tokens=4000.0, n_fast=2, n_near=2))
    ends = []
    for restated in (False, True):
        requests = drawn_requests(asked_scenario, 2_000, 20.0, Draws(3))
        blocks = trace_blocks(asked_scenario, requests)
        assert len(np.unique(blocks.prompts["shift"])) > 4
        w = ended(plan, requests, per_request(requests, blocks) if restated else blocks)
        assert w.caches["n_evicted"].all()
        assert w.requests["cached_tokens"].any()
        assert (w.rebalancer[0]["n_moved"] > 0) == (rebalance is not None)
        ends.append([w.requests.tobytes(), w.caches.tobytes(), w.rebalancer.tobytes(), w.links.tobytes()])
    assert ends[0] == ends[1]


MODELS = st.sampled_from([ATTENTION, HYBRID])
RULES = st.fixed_dictionaries(
    {
        "interval_s": st.sampled_from([0.01, 0.1]),
        "link_fraction": st.sampled_from([1e-4, 0.01, 1.0]),
        "min_uses": st.sampled_from([1, 2]),
        "spill": st.booleans(),
    }
)


@given(st.integers(0, 10_000), MODELS, st.integers(1, 60), RULES)
def test_no_block_is_lost_or_made_and_every_byte_is_somebodys(
    seed: int, model: dict[str, Any], n_blocks: int, rebalance: dict[str, Any]
) -> None:
    """`run` checks that pools hold what they count."""
    w = tree_run(seed, model, n_blocks, rebalance)
    asked_bytes, moved_bytes = w.requests["wire_bytes"].sum(), w.links["moved_bytes"].sum()
    assert w.links["sent_bytes"].sum() == pytest.approx(asked_bytes + moved_bytes, rel=1e-6, abs=1.0)
    assert w.clock[0]["violations"] == 0
    assert w.clock[0]["n_finished"] == len(w.requests)
    assert (w.requests["cached_tokens"] < w.requests["total_tokens"]).all()
    own = w.rebalancer[0]
    n_under_way = int((w.movers["end"] >= 0).sum())
    assert own["n_moved"] + own["n_dropped"] + n_under_way <= own["n_offered"]
    assert (w.entries["is_moved"] <= w.entries["is_in"]).all()
    assert w.entries["is_moved"].sum() <= own["n_entries"]


@given(st.integers(0, 10_000), MODELS, st.integers(20, 60))
def test_looking_alone_changes_nothing(seed: int, model: dict[str, Any], n_blocks: int) -> None:
    idle = {"interval_s": 0.05, "min_uses": 1_000_000, "spill": False}
    without, watched = tree_run(seed, model, n_blocks, None), tree_run(seed, model, n_blocks, idle)
    assert watched.requests.tobytes() == without.requests.tobytes()
    assert watched.caches.tobytes() == without.caches.tobytes()


@given(st.integers(0, 10_000), MODELS, st.integers(20, 60), RULES)
def test_the_same_prompts_move_the_same_bytes(
    seed: int, model: dict[str, Any], n_blocks: int, rebalance: dict[str, Any]
) -> None:
    one, other = (tree_run(seed, model, n_blocks, rebalance) for _ in range(2))
    for name in ("requests", "caches", "entries", "links", "rebalancer", "movers"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_a_pool_that_counts_wrong_is_noticed() -> None:
    for field in ("used_blocks", "transfer_blocks"):
        w = run(with_states(HALF), [A, B], [0.0, 50.0], threshold_tokens=THRESHOLD, link_gbps=WAN_GBPS)
        w.caches[field][0] += 1
        with pytest.raises(AssertionError, match="cache pools"):
            check_pools(w)


@pytest.mark.parametrize(
    ("rebalance", "said"),
    [
        ({"interval_s": 0.0}, "execution.cache.rebalance.interval_s"),
        ({"link_fraction": 1.5}, "execution.cache.rebalance.link_fraction"),
        ({"min_uses": 0}, "execution.cache.rebalance.min_uses"),
        ({"every_s": 3.0}, "execution.cache.rebalance.every_s"),
    ],
)
def test_rules_that_make_no_sense_are_errors_of_the_scenario(rebalance: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as found:
        scenario({"execution.cache": {"rebalance": rebalance}})
    assert said in str(found.value)


def test_rebalancing_needs_a_link_between_sites_that_prefill() -> None:
    asked_for = scenario({"execution.cache": {"rebalance": {}}})
    system(asked_for, fleet())
    with pytest.raises(InputError, match="no link of the plan leads from one site that prefills to another"):
        system(asked_for, fleet(n_fast=0))


@cached
def conversations(folder: Path) -> tuple[Scenario, Plan]:
    """The recorded hour on the paper's fleet, whose link leads one way."""
    asked_for = read_scenario("mooncake-conversation").varied({"links.wan.capacity_gbps": 100.0})
    return asked_for, sketch(asked_for, [folder])


def in_halves(folder: Path) -> tuple[Scenario, Plan]:
    """The same with the prefill-only cluster at two sites, so that turns of a conversation fall on either at random."""
    asked_for, plan = conversations(folder)
    ends = {"wan-2": ("second", "local"), "there": ("remote", "second"), "here": ("second", "remote")}
    wan, link = plan.links[0], {"capacity_gbps": 100.0, "round_trip_ms": 5}
    changes: dict[str, Any] = {
        "sites.second": {"accelerators": {"h200-sxm": 32}},
        "pools.prfaas-2": {"site": "second", "hardware": "h200-sxm", "role": "prefill"},
        **{f"links.{name}": {"from": a, "to": b, **link} for name, (a, b) in ends.items()},
    }
    pools = {pool.name: pool for pool in plan.pools}
    half = pools.pop("prfaas").model_copy(update={"n_instances": 2})
    other = half.model_copy(update={"name": "prfaas-2", "site": "second"})
    links = [wan.model_copy(update={"name": n, "from_site": a, "to_site": b}) for n, (a, b) in ends.items()]
    fleet_of_halves = plan.model_copy(update={"pools": (half, other, *pools.values()), "links": (wan, *links)})
    return asked_for.varied(changes), fleet_of_halves


def hour(folder: Path, planned: tuple[Scenario, Plan], rebalance: Mapping[str, Any] | None, **cache: Any) -> Run:
    moves = {} if rebalance is None else {"rebalance": dict(rebalance)}
    asked_for = planned[0].varied({"execution.cache": {"state_interval_tokens": 2048, **cache, **moves}})
    return simulate(asked_for, planned[1], RunQuestion(12_031, load=1.5, n_replications=1), [folder])[0]


def test_where_turns_of_a_conversation_fall_on_two_clusters_more_hits_and_less_waiting(
    data_file: Callable[[str], Path],
) -> None:
    folder = data_file("traces/mooncake_conversation.jsonl").parent
    planned = in_halves(folder)
    without, moving = hour(folder, planned, None), hour(folder, planned, {})
    assert moving.prefix_hit_fraction > without.prefix_hit_fraction + 0.05
    assert moving.ttft_mean_s < 0.95 * without.ttft_mean_s
    assert moving.rebalance is not None
    assert moving.rebalance.n_hits > 300


def test_a_small_pool_spills_into_a_large_one(data_file: Callable[[str], Path]) -> None:
    folder = data_file("traces/mooncake_conversation.jsonl").parent
    planned, unequal = conversations(folder), {"remote": 200.0, "local": 4000.0}
    for bandwidth, gain in (("scarce", 0.1), ("ample", 0.03)):
        runs = [hour(folder, planned, moves, bandwidth=bandwidth, capacity_gb=unequal) for moves in (None, {})]
        assert runs[1].prefix_hit_fraction > runs[0].prefix_hit_fraction + gain


def test_with_room_for_all_and_a_link_that_leads_one_way_it_is_worth_nothing(data_file: Callable[[str], Path]) -> None:
    """As the executor's page says: what long prompts left far away would have been found there as well."""
    folder = data_file("traces/mooncake_conversation.jsonl").parent
    without, moving = (hour(folder, conversations(folder), moves) for moves in (None, {}))
    assert moving.prefix_hit_fraction == pytest.approx(without.prefix_hit_fraction, abs=0.003)
    assert moving.ttft_mean_s == pytest.approx(without.ttft_mean_s, rel=0.02)
    assert moving.offload_fraction < without.offload_fraction
    ample = hour(folder, conversations(folder), {}, bandwidth="ample")
    assert ample.rebalance is not None
    assert ample.rebalance.n_offered == 0


def test_a_run_says_what_moved_and_only_where_something_may() -> None:
    turns = {"mean_turns": 4.0, "new_tokens": {"kind": "constant", "tokens": 800}, "mean_gap_s": 60.0}
    asked_for = {"execution.sessions": turns, "workload.lengths": {"kind": "constant", "tokens": 3000}}
    question = RunQuestion(2000, load=0.5, n_replications=2)
    runs = [
        simulate(scenario({**with_states(rebalance), **asked_for}), both_ways(threshold_tokens=2000.0), question)[0]
        for rebalance in (None, {"interval_s": 5.0})
    ]
    assert runs[0].rebalance is None
    assert "rebalance" not in runs[0].answer()
    seen = runs[1].answer()["rebalance"]
    assert seen["n_moved"] > 0
    assert seen["n_offered"] >= seen["n_moved"] + seen["n_dropped"]
    assert 0 < seen["moved_bytes"] < runs[1].cross_site_bytes
    texts = [printed(run) for run in runs]
    assert ["prefixes moved between sites" in text for text in texts] == [False, True]
    assert f"{seen['n_moved']:,}" in texts[1]
    assert max(map(len, texts[1].splitlines())) <= PRINT_WIDTH
    assert "…" not in texts[1]


def printed(run: Run) -> str:
    text = StringIO()
    Console(file=text, width=PRINT_WIDTH, highlight=False, emoji=False).print(*run_tables(run))
    return text.getvalue()
