"""Pools of all three roles beside each other, with faults, caches, schedulers and sessions: laws of any such system."""

from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.draws import blank_requests
from planner.executor.engine import EngineLoad, engine_run
from planner.executor.routes import Topology
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.streams import RequestStream
from planner.executor.systems import system
from planner.results.plan import Fleet, PoolPlan
from planner.results.run import Run, RunRecords
from planner.results.threshold import NONE_LEAVES
from planner.scenario import Scenario
from tests.colocated_cases import chat, fleet

N = 4000
ROLES = ("prefill", "decode", "colocated")
LAYOUT = "tp=1,ep=1,dp=1,pp=1"
SESSIONS = {"mean_turns": 6.0, "new_tokens": {"kind": "constant", "tokens": 700}, "mean_gap_s": 10.0}
EVERYWHERE = {"near": "prefill", "dec": "decode", "twin": "colocated"}
"""Pools at home beside the colocated one."""


def asked(changes: dict[str, Any] | None = None) -> Scenario:
    """The chat with pools of every role at home, and one for long prompts far away."""
    pool = {"site": "home", "hardware": "h100-sxm", "layout": LAYOUT, "accelerators_per_instance": 1}
    pools = {f"pools.{name}": {**pool, "role": role} for name, role in EVERYWHERE.items()}
    return chat({**pools, "pools.near.prompts": "short", **(changes or {})})


def mixed(rate: float = 20.0, threshold_tokens: float | None = 3000.0, **sizes: int) -> Fleet:
    """A fleet of pools by name; those at home take short prompts, `long` the others."""
    both = fleet().pools[0]
    found = []
    for name, n in sizes.items():
        role = EVERYWHERE.get(name, "prefill" if name == "long" else "colocated")
        changes: dict[str, Any] = {"name": name, "role": role, "n_instances": n, "n_accelerators": n}
        if role != "colocated":
            changes |= {"tokens_per_pass": None, "prompts": {"near": "short", "long": "long"}.get(name)}
        if name == "long":
            changes |= {"site": "far"}
        found.append(PoolPlan.model_validate({**both.model_dump(), **changes}))
    base = fleet(n_long=1, threshold_tokens=threshold_tokens, rate=rate)
    return base.model_copy(update={"pools": tuple(found), "links": base.links if "long" in sizes else ()})


def run_of(scenario: Scenario, plan: Fleet, seed: int = 0, **question: Any) -> tuple[Run, RunRecords]:
    run, records = simulate(scenario, plan, RunQuestion(N, seed, 1.0, n_replications=1, **question), keep=True)
    assert records is not None
    return run, records


def check_laws(run: Run, records: RunRecords, plan: Fleet) -> None:
    """Nobody is lost, effects follow causes, and who is inside adds up."""
    seen = records.columns
    assert run.n_completed + run.n_dropped == run.n_requests
    done = seen["state"] == 5
    assert np.isfinite(seen["finish_s"])[done].all()
    moments = np.array([seen[f"{name}_s"][done] for name in ("arrival", "prefill_start", "first_token", "finish")])
    assert (np.diff(moments, axis=0) >= 0).all()
    once = done & (seen["n_retries"] == 0)
    steps = np.array([seen[f"{name}_s"][once] for name in ("prefill_start", "prefill_end", "kv_end", "first_token")])
    assert (np.diff(steps, axis=0) >= 0).all()
    at_s = records.samples["time_s"]
    if run.n_dropped == 0:
        stays = ((np.minimum(seen["finish_s"], t) - np.minimum(seen["arrival_s"], t)).sum() for t in at_s)
        assert records.samples["inside_s"] == pytest.approx(list(stays), rel=1e-9, abs=1e-6)
    for pool in plan.pools:
        if pool.role != "decode":
            busy_s = np.diff(records.samples[f"{pool.name} busy_s"])
            assert (busy_s >= -1e-9).all()
            assert (busy_s <= pool.n_instances * np.diff(at_s) + 1e-6).all()
    for name, used in run.utilization.items():
        assert 0 <= used <= 1.1, name


def drawn(seed: int) -> tuple[Scenario, Fleet]:
    """Some pools, each perhaps with crashes, links that fail, caches with or without sessions, a scheduler."""
    draw = np.random.default_rng(seed)
    names = [name for name in ("near", "dec", "twin", "long") if draw.random() < 0.6]
    if "near" in names and "dec" not in names:
        names.remove("near")
    sizes = {"both": int(draw.integers(1, 4)), **{name: int(draw.integers(1, 4)) for name in names}}
    changes: dict[str, Any] = {}
    for name in sizes:
        if draw.random() < 0.4:
            days = float(draw.uniform(0.001, 0.01))
            changes[f"execution.pools.{name}"] = {"mean_days_between_crashes": days, "restart_s": 5.0}
    if "long" in names and draw.random() < 0.5:
        fault = {"kind": "link-loss", "link": "wan", "at_s": 20.0, "duration_s": 10.0}
        changes["execution.faults"] = [fault, {**fault, "kind": "background", "background_gbps": 50.0, "at_s": 50.0}]
    if draw.random() < 0.5:
        bandwidth = str(draw.choice(["scarce", "ample"]))
        limits = {site: float(draw.choice([2.0, 50.0])) for site in ("home", "far")}
        changes["execution.cache"] = {"bandwidth": bandwidth, "capacity_gb": limits}
        changes["execution.sessions"] = SESSIONS
    if "long" in names and draw.random() < 0.4:
        changes["execution.scheduler.short_term"] = {}
    if draw.random() < 0.3:
        changes["execution.pools.both.batch_limit"] = int(draw.integers(2, 30))
    return asked(changes), mixed(float(draw.uniform(5, 30)), **sizes)


@pytest.mark.parametrize("seed", range(24))
def test_laws_hold_in_any_mix_of_roles_faults_and_caches(seed: int) -> None:
    scenario, plan = drawn(39_000 + seed)
    run, records = run_of(scenario, plan, seed)
    check_laws(run, records, plan)
    assert run_of(scenario, plan, seed)[0] == run


@pytest.mark.parametrize("seed", range(6))
def test_a_colocated_pool_beside_others_is_a_run_of_its_engine_on_what_reaches_it(seed: int) -> None:
    """Prompts of its own as they arrive, and caches of the others' as they come."""
    draw = np.random.default_rng(39_900 + seed)
    sizes = {"both": int(draw.integers(1, 4)), "twin": int(draw.integers(1, 3)), "long": int(draw.integers(1, 3))}
    scenario, plan = asked(), mixed(float(draw.uniform(5, 15)), **sizes)
    _, records = run_of(scenario, plan, seed)
    seen, names = records.columns, records.words
    for one in system(scenario, plan).colocated:
        mine = seen["decode_pool"] == names["decode_pool"].index(one.pool.name)
        is_standing = seen["prefill_pool"] != names["prefill_pool"].index(one.pool.name)
        comes_s = np.where(is_standing, seen["kv_end_s"], seen["arrival_s"])
        rows = np.flatnonzero(mine & ~(is_standing & (seen["output_tokens"] == 1)))
        rows = rows[np.argsort(comes_s[rows], kind="stable")]
        everyone = blank_requests(N)
        for name in ("total_tokens", "output_tokens"):
            everyone[name] = seen[name]
        pool, new = one.batching(everyone), ~is_standing[rows]
        load = EngineLoad(
            seen["total_tokens"][rows].astype(int),
            seen["output_tokens"][rows].astype(int),
            delay_s=pool.delay_s * new,
            host_s=pool.host_token_s * seen["total_tokens"][rows] * new,
            arrivals_s=comes_s[rows],
            is_standing=~new,
        )
        found = engine_run(pool.rules, pool.times, load, one.pool.n_instances)
        assert found.first_s == pytest.approx(seen["first_token_s"][rows], rel=1e-12)
        assert found.done_s == pytest.approx(seen["finish_s"][rows], rel=1e-12)


def test_every_pool_takes_its_part_of_the_requests() -> None:
    _, records = run_of(asked(), mixed(both=2, near=1, dec=1, twin=1, long=1))
    seen, words = records.columns, records.words
    prefilled = {name: (seen["prefill_pool"] == k) for k, name in enumerate(words["prefill_pool"])}
    decoded = {name: (seen["decode_pool"] == k) for k, name in enumerate(words["decode_pool"])}
    short = ~seen["is_long"]
    for name in ("both", "twin", "near"):  # alike by what they are offered
        assert prefilled[name][short].mean() == pytest.approx(1 / 3, abs=0.03)
    for name in ("both", "twin"):
        assert (decoded[name] == prefilled[name])[short & ~prefilled["near"]].all()
    assert prefilled["long"][seen["is_long"]].all()
    assert decoded["dec"][prefilled["near"] | prefilled["long"]].all()


def test_a_colocated_pool_has_the_share_of_decode_that_the_plan_states() -> None:
    """Of what the pools for prompts alone have computed, beside all that it computes itself."""
    plan = mixed(both=2, near=1, dec=1, threshold_tokens=None)
    shares = {"short": {"both": 0.5, "near": 0.5}, "decode": {"both": 0.2, "dec": 0.8}}
    both, near, dec = plan.pools
    topology = Topology(asked(), ((both, 0), (near, 1)), (dec, both), ())
    ways = topology.stream_routes(RequestStream("all", None, 20.0, NONE_LEAVES, shares))["short"]
    weights = {(way.prefill, way.decode): way.weight for way in ways}
    assert weights == pytest.approx({(0, 1): 0.5, (1, 0): 0.4, (1, 1): 0.1})


def test_a_pool_that_is_offered_nothing_changes_nothing() -> None:
    one, other = mixed(both=2, long=1), mixed(both=2, twin=1, long=1)
    idle = [p.model_copy(update={"offered_req_per_s": 0.0}) if p.name == "twin" else p for p in other.pools]
    _, plain = run_of(asked(), one)
    _, beside = run_of(asked(), other.model_copy(update={"pools": tuple(idle)}))
    for name in ("first_token_s", "finish_s"):
        assert plain.columns[name].tolist() == beside.columns[name].tolist()


def test_two_pools_are_as_fast_as_each_with_half_of_the_requests() -> None:
    """A Poisson stream that is divided at random is one of half the rate."""
    run, _ = run_of(asked(), mixed(20.0, both=2, twin=2))
    half, _ = run_of(asked(), mixed(10.0, both=2))
    assert run.ttft_mean_s == pytest.approx(half.ttft_mean_s, rel=0.15)
    assert run.tpot_mean_s == pytest.approx(half.tpot_mean_s, rel=0.05)
    assert run.utilization["both"] == pytest.approx(half.utilization["both"], rel=0.1)


def test_a_prefix_that_its_site_holds_is_not_computed_in_a_shared_batch() -> None:
    sessions = {"execution.sessions": SESSIONS}
    cold, _ = run_of(asked(sessions), mixed(10.0, both=2))
    warm, _ = run_of(asked({**sessions, "execution.cache": {}}), mixed(10.0, both=2))
    assert not cold.prefix_hit_fraction
    assert (warm.prefix_hit_fraction or 0.0) > 0.3
    assert warm.ttft_mean_s < 0.9 * cold.ttft_mean_s


def test_a_scheduler_sends_more_away_where_the_batch_is_behind() -> None:
    """Long prompts wait little, short ones queue: the threshold falls."""
    quick = {"execution.scheduler.short_term": {"interval_s": 2.0}}
    plan = mixed(24.0, threshold_tokens=6000.0, both=1, long=6)
    still, _ = run_of(asked(), plan)
    moved, _ = run_of(asked(quick), plan)
    assert moved.scheduler is not None
    assert moved.scheduler.factor_low < 1.0
    assert moved.offload_fraction > 1.2 * still.offload_fraction
    assert moved.ttft_mean_s < still.ttft_mean_s


def test_where_a_colocated_pool_is_down_its_prompts_go_to_the_others() -> None:
    down = {"execution.faults": [{"kind": "crash", "pool": "both", "instance": 0, "at_s": 30.0, "duration_s": 60.0}]}
    run, records = run_of(asked(down), mixed(8.0, both=1, near=1, dec=1, threshold_tokens=None))
    seen, names = records.columns, records.words["prefill_pool"]
    assert run.n_dropped == 0
    while_down = (seen["arrival_s"] > 30) & (seen["arrival_s"] < 90)
    assert (seen["prefill_pool"] == names.index("near"))[while_down].all()
    assert (seen["prefill_pool"] == names.index("both"))[seen["arrival_s"] > 90].mean() == pytest.approx(0.5, abs=0.05)


def test_a_system_of_all_roles_is_kept_full() -> None:
    plan = mixed(both=1, near=1, dec=1, long=1)
    full, _ = simulate(asked(), plan, RunQuestion(N, 0, n_replications=2, is_full=True))
    assert max(full.utilization.values()) == pytest.approx(1.0, abs=0.05)


def test_roles_do_not_change_beside_a_pool_that_has_both() -> None:
    with pytest.raises(InputError, match=r"long_term: balances prefill and decode by themselves, and 'both'"):
        system(asked({"execution.scheduler.long_term": {}}), mixed(both=1, near=1, dec=1))


def test_long_prompts_that_a_batch_does_not_hold_go_to_the_others() -> None:
    """Memory for 15,000 tokens: prompts beyond the threshold are decoded elsewhere, and nobody is refused."""
    small = asked({"execution.pools.both.memory_gb": 2})
    run, records = run_of(small, mixed(8.0, both=1, dec=1, long=2))
    assert run.n_dropped == 0
    at_both = records.columns["prefill_pool"] == records.words["prefill_pool"].index("both")
    assert records.columns["total_tokens"][at_both].max() < 4000 < records.columns["total_tokens"].max()


def test_prompts_that_a_crash_made_whole_blocks_of_are_counted_among_the_full() -> None:
    """Their last token is computed all the same: a run ends with its figures."""
    crash = {"kind": "crash", "pool": "both", "instance": 0, "at_s": 20, "duration_s": 5}
    cached = {"execution.cache": {}, "execution.sessions": SESSIONS, "execution.faults": [crash]}
    for seed in range(4):
        often = {"execution.pools.both": {"mean_days_between_crashes": 0.001, "restart_s": 2.0}}
        run, _ = run_of(asked({**cached, **often}), mixed(10.0, both=2), seed)
        assert 0 < run.utilization["both"] < 1.1


def test_a_prompt_that_is_computed_in_a_batch_at_last_names_no_prefill_instance() -> None:
    often = {"execution.pools.near": {"mean_days_between_crashes": 0.0005, "restart_s": 5.0}}
    _, records = run_of(asked(often), mixed(8.0, both=1, near=1, dec=1, threshold_tokens=None))
    at_both = records.columns["prefill_pool"] == records.words["prefill_pool"].index("both")
    assert (records.columns["n_retries"] > 0)[at_both].any()
    assert (records.columns["prefill_instance"][at_both] == -1).all()
