"""The reference plan, really run, against what the planner promised of it."""

import re
from typing import Any

import numpy as np
import pytest

from planner.comparison import optimize
from planner.errors import InfeasibleError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion, default_load
from planner.results.plan import Plan
from planner.results.run import Run
from tests.builders import reference, sketch, small, small_with
from tests.cpu_cost import cached

LOADS = (0.6, 0.8, 0.9)


@cached
def plan() -> Plan:
    return optimize(reference("expected-work"))


@cached
def promised(load: float) -> Plan:
    """The same fleet and threshold at a part of its highest rate."""
    best = plan()
    changes: dict[str, Any] = {f"pools.{pool.name}.n_instances": pool.n_instances for pool in best.pools}
    changes["routing.threshold_tokens"] = best.threshold_tokens
    changes["demand_req_per_s"] = load * best.throughput_req_per_s
    return sketch(reference("expected-work").varied(changes))


@cached
def run(load: float, is_full: bool = False, n_requests: int = 400_000) -> Run:
    found, _ = simulate(reference("expected-work"), plan(), RunQuestion(n_requests, 1, load, 4, is_full))
    return found


@pytest.mark.parametrize("load", LOADS)
def test_ttft_and_egress_are_what_the_queueing_model_promises(load: float) -> None:
    found, wanted = run(load), promised(load)
    assert wanted.latency.ttft_mean_s is not None
    assert wanted.latency.ttft_p90_s is not None
    assert found.ttft_mean_s == pytest.approx(wanted.latency.ttft_mean_s, rel=0.05)
    assert found.ttft_p90_s == pytest.approx(wanted.latency.ttft_p90_s, rel=0.10)
    assert found.links["wan"].mean_gbps == pytest.approx(wanted.links[0].mean_gbps, rel=0.03)
    assert found.offload_fraction == pytest.approx(wanted.offload_fraction, rel=0.01)
    for pool in wanted.pools:
        assert found.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03)


def test_a_full_system_serves_what_the_capacity_rule_says() -> None:
    found = run(1.0, True, 200_000)
    assert found.throughput_req_per_s == pytest.approx(plan().max_throughput_req_per_s, rel=0.02)
    assert found.load is None


def test_the_papers_ttft_has_no_queue_in_it() -> None:
    unloaded = plan().latency.ttft_unloaded_mean_s
    assert unloaded is not None
    assert run(0.9).ttft_mean_s > 2 * unloaded
    assert run(0.9).waits.prefill_s == pytest.approx(unloaded, rel=0.02)


def test_the_parts_of_ttft_add_up_to_its_mean() -> None:
    waits = run(0.8).waits
    assert sum(waits.model_dump().values()) == pytest.approx(run(0.8).ttft_mean_s, rel=1e-9)


def test_little_holds_of_a_run() -> None:
    """Requests inside are the rate times the time inside, each measured on its own."""
    found = run(0.8)
    assert found.tpot_mean_s is not None
    inside_s = found.ttft_mean_s + 1023 * found.tpot_mean_s
    assert found.mean_inside == pytest.approx(found.throughput_req_per_s * inside_s, rel=0.01)


def test_intervals_hold_their_means_and_shrink_with_requests() -> None:
    short, long = run(0.8, n_requests=40_000), run(0.8)
    for name in ("ttft_mean_s", "throughput_req_per_s"):
        assert short.intervals[name].low < getattr(short, name) < short.intervals[name].high
    widths = [r.intervals["utilization.pd-p"].high - r.intervals["utilization.pd-p"].low for r in (short, long)]
    assert widths[1] < widths[0]


def test_a_warm_up_that_is_too_short_is_said_to_be_so() -> None:
    assert not run(0.8).notes
    (note,) = simulate(reference("expected-work"), plan(), RunQuestion(400, 0, 0.8, 2))[0].notes
    assert "is shorter than 3 times" in note


def test_an_overload_is_said_to_be_one() -> None:
    found, _ = simulate(reference("expected-work"), plan(), RunQuestion(40_000, 0, 1.1, 2))
    assert any("a pool is full" in note for note in found.notes)
    assert found.ttft_mean_s > 20 * run(0.6).ttft_mean_s


def test_the_load_is_the_plans_rate_unless_that_fills_a_pool() -> None:
    assert default_load(plan()) == 0.8
    assert default_load(promised(0.6)) == 1.0


def test_pools_of_the_roofline_decode_with_steps_that_depend_on_batch_and_context() -> None:
    scenario = small_with({"pools.decode.service_times": "roofline", "pools.decode.tpot_ms": 20.0})
    best = sketch(scenario)
    found, _ = simulate(scenario, best, RunQuestion(4000, 0, 0.5, 2))
    assert found.n_completed == 4000
    assert found.tpot_mean_s is not None
    assert 0 < found.tpot_mean_s < 0.020
    full, _ = simulate(scenario, best, RunQuestion(4000, 0, 0.9, 2))
    assert full.tpot_mean_s is not None
    assert full.tpot_mean_s > found.tpot_mean_s


def test_a_pool_whose_step_limit_leaves_one_sequence_decodes_one_at_a_time() -> None:
    changes = {"pools.decode.service_times": "roofline", "pools.decode.tpot_ms": 1.0}
    with pytest.raises(InfeasibleError, match="alone it needs") as refused:
        optimize(small_with(changes))
    found = re.search(r"alone it needs ([\d.]+) ms", str(refused.value))
    assert found
    alone_ms = float(found.group(1))
    scenario = small_with(changes | {"pools.decode.tpot_ms": 1.002 * alone_ms})
    best = optimize(scenario)
    assert best.pool("decode").batch_limit == 1
    run, _ = simulate(scenario, best, RunQuestion(500, 0, 0.5, 2))
    assert run.tpot_mean_s == pytest.approx(alone_ms / 1000, rel=0.005)


@pytest.mark.parametrize("name", ["homogeneous-pd", "naive-heterogeneous-pd"])
def test_baselines_run_as_plans_do(name: str) -> None:
    fleet = plan().baseline(name)
    found, _ = simulate(reference("expected-work"), fleet, RunQuestion(20_000, 0, 0.5, 2))
    assert found.n_completed == 20_000
    assert found.offload_fraction == (0.0 if name == "homogeneous-pd" else 1.0)
    assert np.isfinite(found.ttft_mean_s)


def test_several_classes_keep_their_own_figures() -> None:
    scenario = small().varied({"workload": None, "classes": {"a": _class(0.25, 2000.0), "b": _class(0.75, 30_000.0)}})
    found, _ = simulate(scenario, sketch(scenario), RunQuestion(8000, 0, 0.5, 2))
    assert [c.name for c in found.classes] == ["a", "b"]
    assert sum(c.n_counted for c in found.classes) == found.n_counted
    first, second = (c.ttft_mean_s for c in found.classes)
    assert first is not None
    assert second is not None
    assert first < second


def _class(share: float, tokens: float) -> dict[str, Any]:
    lengths = {"kind": "constant", "tokens": tokens}
    return {"share": share, "workload": {"lengths": lengths, "output_lengths": {"kind": "constant", "tokens": 100}}}
