"""Closed loops of measured points are run as their harness runs them, each as if it were alone."""

from dataclasses import replace

import numpy as np
import pytest

from planner.profiles.points import ServingPoint
from planner.profiles.stack import HarnessSettings, Polling, StackSettings
from planner.roofline import Factors, Stack
from planner.studies.fidelity.cases import UnfitPointError, case_of
from planner.studies.fidelity.closed_loops import Loop, is_run, loop_of, passes_until_each, run_times
from planner.studies.fidelity.fidelity import case_times
from tests.fidelity_points import POINT, configurations

FACTORS = Factors(request_overhead_s=0.02, prompt_token_s=1e-6)


def stack(settings: StackSettings | None = None, **harnesses: HarnessSettings) -> Stack:
    return Stack("test", FACTORS, settings or StackSettings(), harnesses=harnesses)


def loop(point: ServingPoint, used: Stack) -> Loop:
    return loop_of(case_of(point), used)


def times(point: ServingPoint, used: Stack) -> tuple[float, float]:
    ttft, tpot, _ = case_times([case_of(point)], used)
    return float(ttft[0]), float(tpot[0])


def test_a_point_has_the_same_times_whatever_stands_beside_it() -> None:
    cases = [case_of(point) for point in configurations()]
    together = run_times(cases, stack())
    for k in (0, 7, 20, 47):
        alone = run_times([cases[k]], stack())
        assert [float(a[0]) for a in alone] == pytest.approx([float(a[k]) for a in together], rel=1e-9)


@pytest.mark.parametrize("concurrency", [1.0, 16.0, 64.0])
def test_a_loops_throughput_is_what_its_latencies_leave_by_littles_law(concurrency: float) -> None:
    """Tokens over all the time of a run: N = X R, but for the end, when fewer and fewer are left."""
    point = replace(POINT, concurrency=concurrency, length_ratio=1.0)
    ttft, tpot, rate = (float(column[0]) for column in run_times([case_of(point)], stack()))
    in_all = concurrency * point.output_tokens / (ttft + tpot * (point.output_tokens - 1)) / point.n_accelerators
    assert 0.85 * in_all < rate < 1.02 * in_all


def test_a_batch_is_run_once_through_and_its_throughput_is_all_tokens_over_all_the_time() -> None:
    point = replace(POINT, concurrency=40.0, length_ratio=1.0, ttft_s=None, tpot_s=None)
    batch = replace(point, output_tokens_per_s_per_gpu=1.0)
    once = loop(batch, stack())
    assert len(once.load.prompt_tokens) == 40
    assert len(loop(replace(batch, tpot_s=0.1), stack()).load.prompt_tokens) == 400
    _, _, rate = (float(column[0]) for column in run_times([case_of(batch)], stack()))
    contexts = point.input_tokens + np.arange(1, point.output_tokens)
    decode_s = once.served.decode_time(40, contexts).total_s.sum()
    prefill_s = float(once.served.prefill_time([point.input_tokens]).total_s[0])
    fastest = 40 * point.output_tokens / decode_s / point.n_accelerators
    slowest = 40 * point.output_tokens / (decode_s + 40 * prefill_s) / point.n_accelerators
    assert slowest * 0.98 < rate < fastest


def test_copies_of_a_point_are_one_run() -> None:
    copies = [case_of(replace(POINT, line=line, ttft_s=line / 10)) for line in (2, 3, 4)]
    ttft, tpot, _ = run_times(copies, stack())
    assert len({*ttft.tolist()}) == len({*tpot.tolist()}) == 1


def test_one_in_flight_waits_for_nobody() -> None:
    point = replace(POINT, concurrency=1.0, length_ratio=1.0)
    case, used = case_of(point), stack()
    alone = loop(point, used)
    served = alone.served
    prefill_s = float(served.prefill_time([point.input_tokens]).total_s[0])
    contexts = point.input_tokens + np.arange(1, point.output_tokens)
    ttft, tpot, _ = run_times([case], used)
    assert ttft[0] == pytest.approx(prefill_s, rel=0.01)
    assert tpot[0] == pytest.approx(served.decode_time(1, contexts).total_s.mean(), rel=0.01)


@pytest.mark.parametrize(("ratio", "spread"), [(1.0, 0.0), (0.8, 0.2), (0.5, 0.5)])
def test_lengths_are_drawn_from_the_ratio_up_to_the_nominal(ratio: float, spread: float) -> None:
    found = loop(replace(POINT, length_ratio=ratio, concurrency=64.0), stack()).load
    for drawn, nominal in ((found.prompt_tokens, POINT.input_tokens), (found.output_tokens, POINT.output_tokens)):
        assert drawn.max() <= nominal
        assert drawn.min() >= ratio * nominal - 1
        assert np.ptp(drawn) == pytest.approx(spread * nominal, rel=0.02, abs=0.5)


def test_means_of_what_ran_stay_means() -> None:
    found = loop(replace(POINT, lengths_are_means=True, concurrency=64.0), stack()).load
    assert found.prompt_tokens.mean() == pytest.approx(POINT.input_tokens, rel=0.01)
    assert found.output_tokens.mean() == pytest.approx(POINT.output_tokens, rel=0.01)


def test_a_harness_says_how_a_pass_is_formed_and_the_settings_say_the_rest() -> None:
    own = HarnessSettings(
        source="docs",
        shortest_fraction=1.0,
        tokens_beyond_prompt=100,
        most_running=7,
        polling=(Polling(from_concurrency=1, passes=2), Polling(from_concurrency=8, passes=5)),
    )
    settings = StackSettings(chunk_tokens=4096, prefill_first=True, splits_prompts=False, reserves_output=True)
    used = stack(settings, some=own)
    plain, named = loop(POINT, used).rules, loop(replace(POINT, source="some"), used).rules
    assert (plain.tokens_per_pass, plain.most_running, plain.polling_passes) == (4096, 1024, 1)
    assert named.tokens_per_pass == POINT.input_tokens + (POINT.concurrency or 0) + 100
    assert (named.most_running, named.polling_passes) == (7, 5)
    for rules in (plain, named):
        assert (rules.is_prefill_first, rules.splits_prompts, rules.reserves_output) == (True, False, True)
    assert loop(replace(POINT, source="some", concurrency=4.0), used).rules.polling_passes == 2
    assert np.ptp(loop(replace(POINT, source="some"), used).load.prompt_tokens) == 0


def test_beside_attention_replicas_a_scheduler_waits_for_all_of_them_and_polls_as_without_one() -> None:
    polling = (Polling(from_concurrency=1, passes=7),)
    own = HarnessSettings(source="docs", polling=polling, replica_wait_passes=60)
    plain = HarnessSettings(source="docs", polling=polling)
    one = replace(POINT, source="some")
    four = replace(one, tp_size=1, attention_dp_size=4)
    assert loop(one, stack(some=own)).rules.polling_passes == 7
    assert loop(four, stack(some=plain)).rules.polling_passes == 1
    for concurrency in (4.0, 64.0, 512.0, 20_000.0):
        found = loop(replace(four, concurrency=concurrency), stack(some=own))
        each = passes_until_each(4, int(concurrency), float(found.load.output_tokens.mean()))
        assert found.rules.polling_passes == max(1, min(60, round(each)))


@pytest.mark.parametrize("n", [1, 2, 8])
def test_every_replica_has_had_a_request_end_after_so_many_draws(n: int) -> None:
    """Drawn one after another at random, as requests of one length that began at random end."""
    draw, counts = np.random.default_rng(3), []
    for _ in range(4000):
        seen: set[int] = set()
        k = 0
        while len(seen) < n:
            seen.add(int(draw.integers(n)))
            k += 1
        counts.append(k)
    assert np.mean(counts) == pytest.approx(passes_until_each(n, 10, 10.0), rel=0.05)


def test_a_point_without_a_harness_is_run_as_the_usual_one() -> None:
    own = HarnessSettings(source="docs", tokens_per_pass=512)
    settings = StackSettings(usual_harness="some")
    assert loop(POINT, stack(settings, some=own)).rules.tokens_per_pass == 512
    assert loop(replace(POINT, source="other"), stack(settings, some=own)).rules.tokens_per_pass == 8192


def test_instances_side_by_side_share_what_is_in_flight() -> None:
    two = replace(POINT, n_accelerators=8, concurrency=32.0)
    one = replace(POINT, n_accelerators=4, concurrency=16.0)
    assert times(two, stack()) == times(one, stack())


def test_fixed_lengths_in_an_engine_that_prefills_first_wait_for_all_prompts() -> None:
    first = stack(StackSettings(prefill_first=True))
    point = replace(POINT, concurrency=32.0, length_ratio=1.0)
    locked, spread = (times(replace(point, length_ratio=ratio), first)[0] for ratio in (1.0, 0.8))
    assert locked > 1.5 * spread


@pytest.mark.parametrize("key", [0, 1], ids=["ttft", "tpot"])
def test_latencies_rise_with_load(key: int) -> None:
    found = [times(replace(POINT, concurrency=c), stack())[key] for c in (1.0, 4.0, 16.0, 64.0, 256.0)]
    assert found == sorted(found)


def test_prefills_alone_rates_and_workers_of_one_phase_are_not_run() -> None:
    assert is_run(case_of(POINT))
    assert not is_run(case_of(replace(POINT, output_tokens=1.0)))
    assert not is_run(case_of(replace(POINT, concurrency=None, request_rate_req_per_s=0.5)))


def test_a_loop_beyond_any_deployment_is_refused_and_one_of_two_tokens_is_run() -> None:
    with pytest.raises(UnfitPointError, match="1,000,000,000 tokens to generate in flight"):
        case_of(replace(POINT, concurrency=1e6, output_tokens=1000.0))
    assert all(np.isfinite(times(replace(POINT, output_tokens=1.4), stack())))


def test_a_harness_sets_the_cache_and_its_memory_for_its_own_points() -> None:
    own = HarnessSettings(source="docs", quantized_kv=True, memory_fraction=0.5)
    point, used = replace(POINT, precision="fp8", n_accelerators=8, tp_size=8), stack(some=own)
    plain, named = (loop(replace(point, source=source), used).served for source in (None, "some"))
    assert (plain.kv_precision, plain.memory.fraction) == ("bf16", 0.9)
    assert (named.kv_precision, named.memory.fraction) == ("fp8", 0.5)
    stated = loop(replace(point, source="some", kv_precision="bf16"), used).served
    assert stated.kv_precision == "bf16", "what the point says comes first"
    assert loop(replace(point, source="some", precision="bf16"), used).served.kv_precision == "bf16"


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.5, 0.7, 0.9])
def test_what_was_measured_had_room_for_a_request(fraction: float) -> None:
    """Of 151 GB, 66 GB of weights leave nothing at the lower fractions: such a run was given all of the memory."""
    point = replace(POINT, n_accelerators=1, tp_size=1, moe_tp_size=1)
    served = loop(point, stack(StackSettings(memory_fraction=fraction))).served
    room = served.memory.cache_bytes
    assert room > 0
    if fraction * served.chip.memory_bytes < served.memory.weights_bytes:
        assert served.memory.memory_bytes == served.chip.memory_bytes
    else:
        assert served.memory.fraction == fraction


def test_little_memory_makes_requests_wait_or_give_way() -> None:
    """Beside 66 GB of weights, 60 % of 141 GB hold 8 of 64 long requests."""
    point = replace(POINT, n_accelerators=1, tp_size=1, moe_tp_size=1, concurrency=64.0, input_tokens=8192.0)
    small, large = (StackSettings(memory_fraction=f) for f in (0.6, 0.95))
    for reserves in (False, True):
        few, many = (times(point, stack(s.model_copy(update={"reserves_output": reserves})))[0] for s in (small, large))
        assert few > 2 * many


def test_a_stated_limit_of_sequences_is_what_runs_and_the_rest_waits() -> None:
    """Of 64 in flight 16 run: of 40 waves of 16 all wait three lives of a sequence but the first, with 0, 1 and 2."""
    limited = replace(POINT, concurrency=64.0, max_num_seqs=16, length_ratio=1.0)
    ttft, tpot = times(limited, stack())
    alone_ttft, alone_tpot = times(replace(limited, concurrency=16.0), stack())
    assert tpot == pytest.approx(alone_tpot, rel=0.05)
    life_s = alone_ttft + alone_tpot * (POINT.output_tokens - 1)
    assert ttft - alone_ttft == pytest.approx((3 - (3 + 2 + 1) / 40) * life_s, rel=0.03)
    assert times(replace(limited, max_num_seqs=64), stack()) == times(replace(limited, max_num_seqs=None), stack())


def test_a_limit_holds_in_closed_form_as_well() -> None:
    """Of separate workers, one of prefill and one of decode, the second holds no more than its limit."""
    apart = replace(
        POINT,
        mode="disagg",
        n_accelerators=8,
        concurrency=128.0,
        prefill_num_workers=1,
        prefill_tp_size=4,
        decode_num_workers=1,
        decode_tp_size=4,
    )
    tpots = [times(replace(apart, max_num_seqs=n), stack())[1] for n in (8, 32, None)]
    assert tpots[0] < tpots[1] < tpots[2]


def test_only_loops_that_are_run_token_by_token_have_a_most_of_tokens() -> None:
    many = replace(POINT, concurrency=8192.0, output_tokens=8192.0)
    with pytest.raises(UnfitPointError, match="tokens to generate in flight"):
        case_of(many)
    apart = {"prefill_num_workers": 1, "prefill_tp_size": 4, "decode_num_workers": 1, "decode_tp_size": 4}
    assert case_of(replace(many, mode="disagg", n_accelerators=8, **apart)).is_disaggregated
