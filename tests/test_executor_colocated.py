"""Plans with a colocated pool, run: prefill and links by the event loop, batches pass by pass."""

from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.draws import Draws, drawn_requests
from planner.executor.engine import EngineLoad, engine_run
from planner.executor.full_instance import full_instance
from planner.executor.kernel.records import REQUEST
from planner.executor.run import check_room, simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.results.plan import Fleet
from planner.results.run import Run, RunRecords
from tests.colocated_cases import chat, fleet
from tests.cpu_cost import cached

SPLIT = {"n_long": 1, "threshold_tokens": 3000.0}
SHAPES: list[dict[str, Any]] = [{}, SPLIT, {"n_long": 2, "threshold_tokens": 0.0, "rate": 5.0}]
"""Everything stays; long prompts leave; all do."""
N = 6000


@cached
def _run(key: tuple[tuple[str, Any], ...], load: float | None, seed: int) -> tuple[Run, RunRecords]:
    question = RunQuestion(N, seed, load, n_replications=2, is_full=load is None)
    run, records = simulate(chat(), fleet(**dict(key)), question, keep=True)
    assert records is not None
    return run, records


def run_of(shape: dict[str, Any], load: float | None = 1.0, seed: int = 0) -> tuple[Run, RunRecords]:
    """A run of a fleet; None: kept full."""
    return _run(tuple(sorted(shape.items())), load, seed)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_request_is_answered_in_the_order_of_cause_and_effect(shape: dict[str, Any]) -> None:
    run, records = run_of(shape)
    assert run.n_completed == run.n_requests == N
    moments = ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_end_s", "first_token_s", "finish_s")
    times = np.array([records.columns[name] for name in moments])
    assert (np.diff(times, axis=0) >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_waits_add_up_to_the_time_to_first_token(shape: dict[str, Any]) -> None:
    run, _ = run_of(shape)
    assert sum(run.waits.model_dump().values()) == pytest.approx(run.ttft_mean_s)


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_count_who_is_inside_until_the_last_token(shape: dict[str, Any]) -> None:
    _, records = run_of(shape)
    at_s, arrival_s, finish_s = (records.samples["time_s"], *(records.columns[f"{m}_s"] for m in ("arrival", "finish")))
    inside_s = [(np.minimum(finish_s, t) - np.minimum(arrival_s, t)).sum() for t in at_s]
    assert records.samples["inside_s"] == pytest.approx(inside_s, rel=1e-9, abs=1e-6)
    finished = [(finish_s <= t).sum() for t in at_s]
    assert records.samples["finished"].tolist() == finished
    assert (np.diff(records.samples["both busy_s"]) >= 0).all()
    assert (np.diff(records.samples["both busy_s"]) <= 2 * np.diff(at_s) + 1e-9).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_is_the_same_for_the_same_seed_alone(shape: dict[str, Any]) -> None:
    question = RunQuestion(N, 0, 1.0, n_replications=2)
    again, _ = simulate(chat(), fleet(**shape), question)
    assert again == run_of(shape)[0]
    assert again.ttft_mean_s != run_of(shape, seed=1)[0].ttft_mean_s


def test_without_a_prefill_pool_it_is_a_run_of_the_engine() -> None:
    _, records = run_of({})
    plan = system(chat(), fleet())
    (one,) = plan.colocated
    asked = drawn_requests(chat(), N // 2, 10.0, Draws(0))
    pool, tokens = one.batching(asked), asked["total_tokens"].astype(int)
    outputs = asked["output_tokens"].astype(int)
    host_s, arrivals_s = pool.host_token_s * tokens, asked["arrival_s"]
    load = EngineLoad(tokens, outputs, pool.delay_s, host_s, arrivals_s=arrivals_s)
    found = engine_run(pool.rules, pool.times, load, 2)
    assert records.columns["first_token_s"].tolist() == found.first_s.tolist()
    assert records.columns["finish_s"].tolist() == found.done_s.tolist()


def apart(n_decode: int = 50) -> Fleet:
    """The fleet in which all prompts leave, with a decode pool instead."""
    found = fleet(**SHAPES[2])
    long, both = found.pools
    decode = both.model_copy(update={"role": "decode", "n_instances": n_decode, "tokens_per_pass": None})
    return found.model_copy(update={"pools": (long, decode)})


def test_without_prompts_of_its_own_it_is_a_decode_pool() -> None:
    """All that is before the batch is the same to the last bit; steps are those of the same roofline."""
    run, mine = run_of(SHAPES[2])
    pools = {"pools.both.role": "decode", "pools.both.tokens_per_pass": None}
    disaggregated, others = simulate(chat(pools), apart(2), RunQuestion(N, 0, 1.0, n_replications=2), keep=True)
    assert others is not None
    for moment in ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_end_s"):
        assert mine.columns[moment].tolist() == others.columns[moment].tolist()
    assert run.offload_fraction == disaggregated.offload_fraction == 1.0
    assert run.links == disaggregated.links
    assert run.tpot_mean_s == pytest.approx(disaggregated.tpot_mean_s, rel=0.02)
    assert run.ttft_mean_s == pytest.approx(disaggregated.ttft_mean_s, rel=0.05)


def test_prompts_that_leave_shorten_the_passes_of_those_that_stay() -> None:
    stay, leave = (run_of(shape)[0] for shape in SHAPES[:2])
    assert stay.tpot_mean_s is not None
    assert leave.tpot_mean_s is not None
    assert leave.tpot_mean_s < 0.95 * stay.tpot_mean_s
    assert leave.utilization["both"] < 0.8 * stay.utilization["both"]
    assert 0.1 < leave.offload_fraction < 0.2


def test_cached_tokens_are_not_computed_where_a_prompt_stays() -> None:
    cached = chat({"workload.prefix_hits": {"kind": "constant", "fraction": 0.8}})
    run, _ = simulate(cached, fleet(), RunQuestion(N, 0, 1.0, n_replications=2))
    assert run.prefix_hit_fraction == pytest.approx(0.8, abs=0.01)
    assert run.ttft_mean_s < 0.7 * run_of({})[0].ttft_mean_s


@pytest.mark.parametrize("shape", SHAPES)
def test_a_full_system_serves_what_its_slowest_part_does_and_open_ones_less(shape: dict[str, Any]) -> None:
    full, open_ = run_of(shape, None)[0], run_of(shape)[0]
    assert full.throughput_req_per_s > open_.throughput_req_per_s
    assert max(full.utilization.values()) == pytest.approx(1.0, abs=0.03)
    for name, used in full.utilization.items():
        scaled = open_.utilization[name] * full.throughput_req_per_s / open_.throughput_req_per_s
        assert used == pytest.approx(scaled, rel=0.06)


def test_more_prefill_serves_more_until_the_batch_is_full() -> None:
    rates = [run_of({**SPLIT, "n_long": n}, None)[0].throughput_req_per_s for n in (1, 2, 3)]
    assert rates[1] > 1.1 * rates[0]
    assert rates[2] == pytest.approx(rates[1], rel=0.03)


@pytest.mark.parametrize("tpot_ms", [15, 25])
def test_a_full_pool_keeps_its_limit_on_the_time_per_token(tpot_ms: float) -> None:
    free, _ = run_of({}, None)
    run, _ = simulate(chat({"pools.both.tpot_ms": tpot_ms}), fleet(), RunQuestion(N, 0, n_replications=2, is_full=True))
    assert run.tpot_mean_s == pytest.approx(tpot_ms / 1e3, rel=0.05)
    assert run.throughput_req_per_s < 0.95 * free.throughput_req_per_s
    assert run.utilization["both"] == pytest.approx(1.0, abs=0.03)


def test_a_slower_engine_takes_longer_by_its_factor() -> None:
    plans = [system(chat({"pools.both.time_factor": factor}), fleet()) for factor in (1.0, 2.0)]
    asked = drawn_requests(chat(), 5000, 1.0, Draws(0))
    rates = [full_instance(plan.colocated[0], asked, np.zeros(5000, bool)).req_per_s for plan in plans]
    assert rates[0] == pytest.approx(2 * rates[1], rel=1e-6)


def test_memory_that_is_stated_limits_who_is_inside() -> None:
    small = chat({"execution.pools.both.memory_gb": 8})
    plans = [system(scenario, fleet()) for scenario in (chat(), small)]
    assert plans[1].colocated[0].most_inside < plans[0].colocated[0].most_inside / 4
    run, _ = simulate(small, fleet(), RunQuestion(N, 0, n_replications=2, is_full=True))
    assert run.throughput_req_per_s < 0.8 * run_of({}, None)[0].throughput_req_per_s


@pytest.mark.parametrize(("prompt", "answer", "is_held"), [(900, 90, True), (900, 120, False), (90, 920, False)])
def test_a_request_that_no_batch_holds_with_its_answer_is_refused_before_the_run(
    prompt: int, answer: int, is_held: bool
) -> None:
    """131,072 bytes of cache a token (8 heads of 128 values, keys and values, 32 layers, 2 bytes): 1,000 tokens."""
    plan = system(chat({"execution.pools.both.memory_gb": 0.131072}), fleet())
    requests = np.zeros(2, dtype=REQUEST)
    requests["total_tokens"], requests["output_tokens"] = (32, prompt), (2, answer)
    if is_held:
        check_room(plan, requests)
        return
    with pytest.raises(InputError, match=rf"up to 1,000 tokens .* but 50\.0 % are longer, up to {prompt + answer:,}"):
        check_room(plan, requests)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"execution.scheduler.long_term": {}}, "execution.scheduler.long_term"),
        ({"execution.faults": [{"kind": "crash", "pool": "both", "instance": 2, "at_s": 1}]}, "execution.faults"),
        ({"execution.pools.both.memory_gb": 1}, "pools.both"),
    ],
)
def test_what_is_not_run_is_refused_by_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key):
        simulate(chat(changes), fleet(), RunQuestion(100, n_replications=1))


CRASH = {"kind": "crash", "pool": "both", "instance": 0, "at_s": 20, "duration_s": 60}


@pytest.mark.parametrize(
    "changes",
    [{"execution.pools.both": {"mean_days_between_crashes": 0.001, "restart_s": 5.0}}, {"execution.faults": [CRASH]}],
)
def test_what_a_crash_leaves_is_routed_again_beside_a_prefill_pool(changes: dict[str, Any]) -> None:
    """Long prompts are computed and sent once more; nobody is lost."""
    question = RunQuestion(N, 0, 1.0, n_replications=2)
    run, records = simulate(chat(changes), fleet(**SPLIT), question, keep=True)
    assert records is not None
    assert run.n_completed + run.n_dropped == N
    struck = (records.columns["n_retries"] > 0) & (records.columns["state"] == 5)
    assert (struck & records.columns["is_long"]).any()
    assert (struck & ~records.columns["is_long"]).any()
    sent_again = struck & (records.columns["wire_bytes"] > 1.9 * run_of(SPLIT)[1].columns["wire_bytes"])
    assert sent_again[records.columns["is_long"]].any()
    assert simulate(chat(changes), fleet(**SPLIT), question)[0] == run


def test_a_crash_delays_requests_and_loses_none() -> None:
    scenario, question = chat({"execution.faults": [CRASH]}), RunQuestion(N, 0, 1.0, n_replications=2)
    run, records = simulate(scenario, fleet(), question, keep=True)
    assert records is not None
    assert (run.n_completed, run.n_dropped) == (N, 0)
    assert run.n_retried > 0
    struck = records.columns["n_retries"] > 0
    before = records.columns["finish_s"] < 20
    plain = run_of({})[1].columns["finish_s"]
    assert records.columns["finish_s"][before].tolist() == plain[before].tolist()
    assert (records.columns["finish_s"][struck] > 20).all()
    assert run.ttft_mean_s > run_of({})[0].ttft_mean_s
    assert simulate(scenario, fleet(), question)[0] == run


def test_requests_without_an_instance_are_dropped_as_stranded() -> None:
    gone = [{"kind": "crash", "pool": "both", "instance": i, "at_s": 100} for i in range(2)]
    run, records = simulate(chat({"execution.faults": gone}), fleet(), RunQuestion(N, 0, 1.0, 2), keep=True)
    assert records is not None
    assert run.n_completed + run.n_dropped == N
    assert run.dropped == {"stranded": run.n_dropped}
    assert (np.isfinite(records.columns["finish_s"]) == (records.columns["state"] == 5)).all()


def test_a_slow_instance_lengthens_the_time_per_token() -> None:
    slow = {"kind": "slow", "pool": "both", "instance": 0, "at_s": 0, "slowdown": 3.0}
    run, _ = simulate(chat({"execution.faults": [slow]}), fleet(), RunQuestion(N, 0, 1.0, n_replications=2))
    plain = run_of({})[0]
    assert run.tpot_mean_s is not None
    assert plain.tpot_mean_s is not None
    assert run.tpot_mean_s > 1.2 * plain.tpot_mean_s


def test_crashes_at_random_strike_colocated_instances() -> None:
    often = chat({"execution.pools.both": {"mean_days_between_crashes": 0.001, "restart_s": 5.0}})
    run, _ = simulate(often, fleet(), RunQuestion(N, 0, 1.0, n_replications=2))
    assert run.n_completed + run.n_dropped == N
    assert run.n_retried > 0


def test_links_and_prefill_pools_may_fail_beside_it() -> None:
    down = {"kind": "crash", "pool": "long", "instance": 0, "at_s": 20, "duration_s": 60}
    question = RunQuestion(N, 0, 1.0, n_replications=2)
    run, records = simulate(chat({"execution.faults": [down]}), fleet(**SPLIT), question, keep=True)
    assert records is not None
    assert run.n_completed == N
    assert run.offload_fraction < run_of(SPLIT)[0].offload_fraction


def test_a_plan_of_another_question_is_refused() -> None:
    other = fleet().pools[0].model_copy(update={"name": "else"})
    with pytest.raises(InputError, match="'else' is not the scenario's"):
        system(chat(), fleet().model_copy(update={"pools": (other,)}))


@pytest.mark.parametrize("lengths", ["fixed", "random"])
@pytest.mark.parametrize("n", [1, 24])
def test_a_closed_loop_has_as_many_requests_inside_as_are_asked_for(n: int, lengths: str) -> None:
    fixed = {"kind": "constant", "tokens": 1000}, {"kind": "constant", "tokens": 100}
    keys = {"workload.lengths": fixed[0], "workload.output_lengths": fixed[1]} if lengths == "fixed" else {}
    run, _ = simulate(chat(keys), fleet(), RunQuestion(N, n_replications=2, concurrency=n))
    assert (run.load, run.concurrency, run.n_completed) == (None, n, N + 2 * n)
    # Little's law: whoever is inside stays for its time to first token and its answer.
    assert run.mean_inside == pytest.approx(n, rel=1e-6)


def test_one_request_at_a_time_takes_what_it_takes_alone() -> None:
    keys = {
        "workload.lengths": {"kind": "constant", "tokens": 1000},
        "workload.output_lengths": {"kind": "constant", "tokens": 100},
    }
    run, _ = simulate(chat(keys), fleet(n_both=1), RunQuestion(400, n_replications=1, concurrency=1))
    assert run.tpot_mean_s is not None
    assert 1 / run.throughput_req_per_s == pytest.approx(run.ttft_mean_s + 99 * run.tpot_mean_s, rel=1e-6)
    two, _ = simulate(chat(keys), fleet(n_both=2), RunQuestion(400, n_replications=1, concurrency=2))
    assert two.ttft_mean_s == pytest.approx(run.ttft_mean_s, rel=1e-6)
    assert two.throughput_req_per_s == pytest.approx(2 * run.throughput_req_per_s, rel=5e-3)


@pytest.mark.parametrize("n", [1, 24])
def test_a_closed_loop_goes_through_both_pools(n: int) -> None:
    run, _ = simulate(chat(), fleet(**SPLIT), RunQuestion(N, n_replications=2, concurrency=n))
    assert run.n_completed == N + 2 * n
    assert run.mean_inside == pytest.approx(n, rel=1e-6)
    assert 0.05 < run.offload_fraction < 0.25
