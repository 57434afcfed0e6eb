"""The system's control of itself: laws that hold with it on, what it may touch, and what it is there for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.executor.compilation import machine_code
from planner.executor.draws import Draws
from planner.executor.fault_schedule import fault_schedule
from planner.executor.initial_state import simulation_state
from planner.executor.kernel import SimulationState
from planner.executor.kernel.loop import advance, start
from planner.executor.kernel.records import DRAINS, FINISHED, SERVES, SHARED_QUEUE, UP
from planner.executor.systems import system
from tests.executor_cases import STEP_S, TOKEN_BYTES, TOKEN_S, asked, fleet, poisson_s, run, scenario
from tests.executor_cases import whole_tokens as tokens_of
from tests.test_executor_laws import DISCIPLINES, SIZES, check_laws, drawn, stated

EAGER_SHORT = {"interval_s": 1.0, "wait_tolerance_s": 0.0, "doubling_s": 1.0}
EAGER_LONG = {
    "interval_s": 15.0,
    "warm_up_s": 3.0,
    "busy_fraction": 0.0,
    "min_gain_fraction": 0.0,
    "n_decisions": 1,
    "min_observed": 5,
}
"""Restless control, so that much of it happens in little time."""
EAGER = {"execution.scheduler": {"short_term": EAGER_SHORT, "long_term": EAGER_LONG}}
UNIT = 100_000
"""Tokens of a second of prefill."""


def swinging(seed: int, n: int = 250, rate: float = 2.0) -> Any:
    """Requests that ask now for prefill, now for decode, so that roles have reason to change again and again."""
    rng = np.random.default_rng(seed)
    phase = np.arange(n) // 60 % 2
    tokens = tokens_of(rng.lognormal(-0.5, 1.0, n) * np.where(phase, 0.2, 2.0))
    return asked(
        poisson_s(rng, n, rate), tokens, output=np.where(phase, rng.integers(200, 900, n), rng.integers(50, 200, n))
    )


def same(a: Any, b: Any) -> bool:
    """Whether two sets of requests are equal to the bit in every field; what pads a record does not count."""
    return all(np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f") for name in a.dtype.names)


def check_units(w: SimulationState) -> None:
    """Nobody is lost or served twice among the units, and each is in one role at a time."""
    in_prefill, in_decode = w.instances["is_up"][w.units["instance"]], w.decoders["is_up"][w.units["decoder"]]
    serves = w.units["state"] == SERVES
    is_decode = w.units["is_decode"] == 1
    assert (in_prefill[is_decode] == 0).all()
    assert (in_decode[~is_decode] == 0).all()
    up = serves & (w.units["is_down"] == 0)
    assert (in_prefill[up & ~is_decode] == UP).all()
    assert (in_decode[up & is_decode] == UP).all()
    control, pool = w.scheduler[0], w.pools[w.scheduler[0]["prefill_pool"]]
    assert pool["n_up"] == (in_prefill == UP).sum() >= 0
    if pool["dispatch"] == SHARED_QUEUE:
        assert 0 <= pool["n_idle"] <= pool["n_up"]
    assert control["n_prefill"] + control["n_decode"] + (w.units["state"] == 2).sum() == len(w.units)
    both = w.decoders["batch"][w.units["decoder"]] + w.decoders["n_joining"][w.units["decoder"]]
    assert not (both[~is_decode] > 0).any()
    assert not (w.instances["is_busy"][w.units["instance"]][is_decode] > 0).any()


@given(st.integers(0, 10_000), DISCIPLINES, SIZES, st.integers(2, 40))
def test_the_laws_hold_whatever_is_converted(
    seed: int, changes: dict[str, Any], sizes: dict[str, Any], batch: int
) -> None:
    w = run(swinging(seed), stated(changes) | EAGER, batch=batch, **sizes)
    check_laws(w)
    check_units(w)
    assert w.scheduler[0]["prefill_s"] + w.scheduler[0]["decode_s"] <= len(w.units) * w.clock[0]["now_s"] * (1 + 1e-9)


def test_control_does_not_look_ahead_and_the_same_run_is_the_same_to_the_bit() -> None:
    sizes: dict[str, Any] = {"batch": 4, "n_near": 3, "n_decode": 3, "threshold_tokens": 6e4}
    first, again = (run(swinging(3, n=400), EAGER, **sizes) for _ in range(2))
    assert first.scheduler[0]["n_conversions"] > 1
    assert same(first.requests, again.requests)
    # Without the later half everything that was over before it began is as it was.
    half = run(swinging(3, n=400)[:200], EAGER, **sizes)
    over = half.requests["finish_s"] < first.requests["arrival_s"][200]
    assert over.sum() > 100
    assert same(half.requests[over], first.requests[:200][over])


def test_watching_alone_changes_nothing() -> None:
    plain = run(drawn(1), batch=4, n_near=2, n_decode=2)
    idle = {"execution.scheduler": {"long_term": {"min_observed": 1_000_000}, "short_term": EAGER_SHORT}}
    watched = run(drawn(1), idle, batch=4, n_near=2, n_decode=2)  # without a finite threshold none moves
    assert watched.scheduler[0]["seen"] == 250
    assert same(watched.requests, plain.requests)


@pytest.mark.parametrize("dispatch", ["shared-queue", "join-shortest-work", "round-robin"])
def test_a_unit_that_drains_gets_nothing_new_and_warms_up_before_it_serves(dispatch: str) -> None:
    requests = swinging(5, n=500, rate=6.0)
    changes = EAGER | {"dispatch": dispatch, "prefill_batching": "chunked"}
    plan = system(scenario(changes, batch=4), fleet(n_near=3, n_decode=3, threshold_tokens=6e4))
    w = simulation_state(plan, requests)
    begin, go_on = machine_code({start: (w,), advance: (w, 0)})
    begin(w)
    n_drained, warmed = 0, dict.fromkeys(range(len(w.units)), 0.0)
    held, states = [set() for _ in w.units], w.units["state"].copy()
    held_while_draining: set[bool] = set()  # roles that were seen to end what they had
    while True:
        goes_on = go_on(w, 1)
        now_s = w.clock[0]["now_s"]
        for u, unit in enumerate(w.units):
            alive = (w.requests["state"] != FINISHED) & (w.requests["arrival_s"] <= now_s)
            started = w.requests["prefill_start_s"] >= 0
            in_prefill = alive & started & (w.requests["instance"] == unit["instance"])
            mine = in_prefill if unit["is_decode"] == 0 else alive & (w.requests["decoder"] == unit["decoder"])
            now_held = set(np.flatnonzero(mine).tolist())
            slot = w.decoders[unit["decoder"]] if unit["is_decode"] else w.instances[unit["instance"]]
            if slot["is_up"] == DRAINS and states[u] != SERVES:
                assert now_held <= held[u]
                held_while_draining |= {bool(unit["is_decode"])} if now_held else set()
            if states[u] != 2 and unit["state"] == 2:
                n_drained, warmed[u] = n_drained + 1, now_s
            if states[u] == 2 and unit["state"] == SERVES:
                assert now_s == pytest.approx(warmed[u] + 3.0, abs=1e-9)
            held[u] = now_held
        states = w.units["state"].copy()
        check_units(w)
        if not goes_on:
            break
    assert n_drained > 1
    assert held_while_draining == {False, True}
    check_laws(w)


@given(st.integers(0, 10_000), st.sampled_from(["shared-queue", "join-shortest-work", "round-robin"]), st.booleans())
def test_nobody_is_lost_when_units_crash_while_they_change_roles(seed: int, dispatch: str, is_chunked: bool) -> None:
    rng = np.random.default_rng(seed)
    crashes = [
        {
            "kind": str(rng.choice(["crash", "slow"])),
            "pool": str(rng.choice(["fast", "near", "decode"])),
            "instance": int(rng.integers(2)),
            "at_s": float(t),
            "duration_s": float(rng.uniform(0.1, 8)),
            "slowdown": 2.0,
        }
        for t in np.sort(rng.uniform(0, 60, 30))
    ]
    lost = {"kind": "link-loss", "link": "wan", "at_s": 10.0, "duration_s": 10.0}
    changes = EAGER | {
        "execution.faults": [*crashes, lost],
        "execution.max_retries": int(rng.integers(0, 6)),
        "dispatch": dispatch,
        "prefill_batching": "chunked" if is_chunked else "one-at-a-time",
    }
    requests = asked(
        poisson_s(rng, 200, 3.0), tokens_of(rng.lognormal(-0.5, 1.0, 200)), output=rng.integers(1, 300, 200)
    )
    w = run(requests, changes, batch=4, n_fast=2, n_near=2, n_decode=2, threshold_tokens=60_000.0, link_gbps=60.0)
    clock = w.clock[0]
    assert clock["n_finished"] + clock["n_dropped"] == 200
    assert (clock["n_inside"], clock["violations"]) == (0, 0)
    assert (w.links["n_flows"] == 0).all()
    assert (w.pools["n_waiting"] == 0).all()
    check_units(w)


def test_a_crash_strikes_a_unit_in_whichever_role_it_is() -> None:
    # Much prefill, little decode: the second decode instance is converted at 15 s, and crashes as a prefill instance.
    gone = {"kind": "crash", "pool": "decode", "instance": 1, "at_s": 60.0}
    changes = EAGER | {"execution.faults": [gone], "execution.scheduler.long_term": {**EAGER_LONG, "min_observed": 5}}
    w = run(asked(np.arange(0, 120, 0.9), UNIT, output=2), changes, n_fast=0, n_near=1, n_decode=2)
    assert (w.units["is_decode"][2], w.units["is_down"][2]) == (0, 1)
    assert w.clock[0]["n_finished"] == len(w.requests)
    late = w.requests[w.requests["prefill_start_s"] > 60.0]
    assert set(late["instance"].tolist()) == {0}
    assert 2 in w.requests["instance"][w.requests["prefill_start_s"] < 60.0]


def balanced_split(prefill_s: float, decode_s: float, n: int) -> int:
    """Units in prefill that serve most, by the paper's equations: min(N_p / prefill, N_d / decode)."""
    return max(range(1, n), key=lambda k: min(k / prefill_s, (n - k) / decode_s))


@pytest.mark.parametrize(("n_near", "n_decode"), [(2, 6), (6, 2), (4, 4), (1, 7)])
@pytest.mark.parametrize("output", [101, 201, 401])
def test_a_wrong_split_converges_to_the_one_of_the_balance_equations(n_near: int, n_decode: int, output: int) -> None:
    batch, rng = 2, np.random.default_rng(output)
    decode_s = (output - 1) * STEP_S / batch
    best = balanced_split(1.0, decode_s, 8)
    most = min(best / 1.0, (8 - best) / decode_s)
    tokens = tokens_of(np.maximum(rng.normal(1.0, 0.2, 3000), 0.1))
    control = {"execution.scheduler": {"long_term": {"interval_s": 60.0, "warm_up_s": 10.0}}}
    sizes = {"n_fast": 0, "n_near": n_near, "n_decode": n_decode, "batch": batch}
    requests = asked(poisson_s(rng, 3000, 0.85 * most), tokens, output=output)
    static = run(requests.copy(), **sizes)
    w = run(requests, control, **sizes)
    assert w.scheduler[0]["n_prefill"] == best
    assert w.scheduler[0]["n_conversions"] == abs(best - n_near)
    assert w.scheduler[0]["req_per_s"] == pytest.approx(most, rel=0.1)
    # Late requests wait as in a fleet that was right from the start, and without control as in one that is too small.
    late = slice(2500, None)
    ttft = (w.requests["first_token_s"] - w.requests["arrival_s"])[late]
    if best != n_near:
        without = (static.requests["first_token_s"] - static.requests["arrival_s"])[late]
        assert np.quantile(ttft, 0.9) < 0.2 * np.quantile(without, 0.9)


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_a_wrong_threshold_converges_to_where_both_pools_are_equally_busy(factor: float) -> None:
    rng = np.random.default_rng(7)
    tokens = tokens_of(rng.lognormal(-0.5, 0.8, 4000))
    edge = np.sort(tokens)
    below = np.cumsum(edge)
    right = edge[np.searchsorted(below, below[-1] * 2 / 3)]  # two near instances, one fast one, equally quick
    requests = asked(poisson_s(rng, 4000, 0.85 * 3 / (tokens.mean() * TOKEN_S)), tokens)
    control = {"execution.scheduler": {"long_term": {"interval_s": 60.0, "min_gain_fraction": 0.02}}}
    w = run(requests, control, n_fast=1, n_near=2, n_decode=1, threshold_tokens=factor * right, link_gbps=1e5)
    assert w.scheduler[0]["base"] * factor == pytest.approx(1.0, rel=0.1)
    assert w.scheduler[0]["n_conversions"] == 0


def test_a_link_that_binds_is_part_of_the_balance() -> None:
    # Prefill would be balanced at the middle of the lengths; the link carries half of what that sends.
    rng = np.random.default_rng(11)
    tokens = rng.integers(UNIT // 2, 3 * UNIT // 2, 4000)
    rate = 1.5
    ordered = np.sort(tokens)
    sent = np.cumsum(ordered[::-1])[::-1] * TOKEN_BYTES / len(tokens)  # per request, of those at least so long
    gbps = 8e-9 * rate * 0.25 * TOKEN_BYTES * tokens.mean()
    control = {"execution.scheduler": {"long_term": {"interval_s": 60.0}}}
    sizes = {"n_fast": 2, "n_near": 3, "n_decode": 1, "link_gbps": gbps, "threshold_tokens": float(UNIT)}
    w = run(asked(poisson_s(rng, 4000, rate), tokens), control, **sizes)
    # Short work over three instances takes as long as the long prompts' caches take on the link.
    short_s = np.cumsum(ordered) * TOKEN_S / len(tokens) / 3
    on_link_s = sent * 8e-9 / gbps
    wanted = ordered[np.argmax(short_s >= on_link_s)]
    assert w.scheduler[0]["base"] * UNIT == pytest.approx(wanted, rel=0.05)


def brownout(left: float, at_s: float, duration_s: float) -> dict[str, Any]:
    fault = {"kind": "brownout", "link": "wan", "left_fraction": left, "at_s": at_s, "duration_s": duration_s}
    return {"execution.faults": [fault]}


def test_the_short_term_keeps_prompts_off_a_link_that_browns_out() -> None:
    rng = np.random.default_rng(2)
    tokens = tokens_of(rng.uniform(0.5, 1.5, 3000))
    requests = asked(poisson_s(rng, 3000, 1.5), tokens)
    gbps = 8e-9 * 1.5 * TOKEN_BYTES * UNIT  # what would carry every prompt
    sizes = {"n_fast": 2, "n_near": 3, "n_decode": 2, "threshold_tokens": float(UNIT), "link_gbps": gbps}
    down = brownout(0.3, 500.0, 500.0)
    ttft = {}
    for name, control in {"static": {}, "short": {"execution.scheduler": {"short_term": {}}}}.items():
        w = run(requests.copy(), down | control, **sizes)
        check_laws(w)
        ttft[name] = w.requests["first_token_s"] - w.requests["arrival_s"]
    assert w.scheduler[0]["highest"] > 1.05
    assert w.thresholds[0] == w.base_thresholds[0] * w.scheduler[0]["factor"]
    assert np.quantile(ttft["short"], 0.9) < 0.25 * np.quantile(ttft["static"], 0.9)
    before = requests["arrival_s"] < 450.0
    assert ttft["short"][before].mean() < 1.02 * ttft["static"][before].mean()


def test_the_threshold_falls_where_short_prompts_wait_and_the_link_is_free_and_comes_back() -> None:
    arrivals = np.concatenate([np.full(40, 1.0), [300.0]])
    control = {"execution.scheduler": {"short_term": {"interval_s": 1.0, "range_factor": 3.0}}}
    w = run(asked(arrivals, UNIT), control, n_near=1, threshold_tokens=2.0 * UNIT, link_gbps=1e5)
    assert w.scheduler[0]["lowest"] == pytest.approx(1 / 3)  # within its bounds
    assert w.scheduler[0]["highest"] == 1.0
    assert w.scheduler[0]["factor"] == pytest.approx(1.0)


def test_looks_end_with_the_run_that_nothing_can_go_on_with() -> None:
    gone = [{"kind": "crash", "pool": pool, "at_s": 0.5} for pool in ("near", "fast")]
    control = {"execution.scheduler": {"short_term": {}, "long_term": {}}, "execution.faults": gone}
    w = run(asked([0.0, 0.1, 9.0], UNIT), control)
    assert w.clock[0]["n_dropped"] == 3


def test_what_a_link_could_carry_counts_other_traffic_and_brownouts() -> None:
    gbps = 8e-9 * UNIT * TOKEN_BYTES
    changes = {
        "execution.scheduler": {"short_term": {"interval_s": 1.0}},
        "execution.links": {"wan": {"background_gbps": 0.25 * gbps}},
        **brownout(0.5, 10.0, 10.0),
    }
    w = run(asked([0.0, 29.5], 10), changes, threshold_tokens=1.0, link_gbps=gbps)
    # 20 s with three quarters of the link, 10 s with a quarter of it: its half less what others send.
    whole_s = w.links["could_since_s"][0]
    assert whole_s == 29.0
    assert w.links["could_bytes"][0] == pytest.approx(UNIT * TOKEN_BYTES * (0.75 * 19 + 0.25 * 10), rel=1e-9)


def test_a_plan_with_nothing_to_convert_is_refused() -> None:
    with pytest.raises(InputError, match="has nothing to convert"):
        run(asked([0.0], 10), {"execution.scheduler.long_term": {}}, n_near=0)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("execution.scheduler.short_term.interval_s", 0.0, "execution.scheduler.short_term.interval_s"),
        ("execution.scheduler.short_term.range_factor", 1.0, "execution.scheduler.short_term.range_factor"),
        ("execution.scheduler.long_term.busy_fraction", 1.0, "execution.scheduler.long_term.busy_fraction"),
        ("execution.scheduler.longterm", {}, "did you mean 'long_term'?"),
        ("execution.arrivals", {"kind": "diurnal"}, "one of the two"),
        ("execution.arrivals", {"kind": "diurnal", "factors": [0.0, 0.0]}, "one above 0"),
        ("execution.arrivals", {"kind": "diurnal", "swing_fraction": 1.5}, "execution.arrivals"),
    ],
)
def test_what_cannot_be_is_an_error_of_the_scenario(key: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as found:
        scenario({key: value})
    assert said in str(found.value)


def test_crashes_at_random_strike_the_same_instances_with_and_without_conversions() -> None:
    changes = {"execution.pools": {"decode": {"mean_days_between_crashes": 0.01, "restart_s": 60.0}}}
    plans = [system(scenario(changes | more, batch=4), fleet(n_near=2, n_decode=3)) for more in ({}, EAGER)]
    rows = [fault_schedule(plan, 86_400.0, Draws(0)) for plan in plans]
    assert rows[0].tobytes() == rows[1].tobytes()
