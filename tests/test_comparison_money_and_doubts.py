"""Money that depends on the threshold, verdicts at a stated demand, and what a plan says about its own doubts."""

from pathlib import Path

import numpy as np
import pytest

from planner.comparison import optimize
from planner.errors import InputError
from planner.optimizer.capacity import threshold_loads
from planner.optimizer.layout_choice import planning_problem
from planner.scenario import load_scenario, read_scenario
from planner.studies.case import build_case

TRAFFIC = "links.wan.usd_per_gb=0.02"


def test_a_budget_pays_for_traffic_too() -> None:
    plan = optimize(read_scenario("prfaas-paper", [TRAFFIC, "budget_usd_per_hour=240"]))
    assert plan.cost.usd_per_hour == pytest.approx(240, rel=1e-5)
    assert plan.gap < 1e-4


def test_no_threshold_serves_more_within_a_budget_for_traffic() -> None:
    """Enumeration of every size with a dense threshold grid, from the loads alone."""
    scenario = read_scenario("prfaas-paper", [TRAFFIC, "budget_usd_per_hour=240"])
    problem = planning_problem(scenario)
    loads = threshold_loads(problem, problem.route, np.geomspace(200, 131_000, 4001))
    usd_per_request = 3600 * loads.long_bytes / 1e9 * 0.02
    best = 0.0
    for n_long in range(5):
        for n_short in range(9):
            n_decode = 8 - n_short
            left = 240 - 22.5 - 20 * n_long - 10 * (n_short + n_decode)
            for spared in range(n_decode + 1):
                rates = [n_long / loads.long_s, n_short / np.maximum(loads.short_s, 1e-12)]
                rates += [(left + 10 * spared) / usd_per_request, np.full_like(rates[0], (n_decode - spared) * 0.78125)]
                best = max(best, float(np.min(rates, axis=0).max()))
    assert optimize(scenario).max_throughput_req_per_s == pytest.approx(best, rel=2e-3)
    assert optimize(scenario).max_throughput_req_per_s >= best * (1 - 1e-6)


def test_what_one_more_unit_adds_is_told_for_thresholds_that_serve_most() -> None:
    overrides = [TRAFFIC, "objective=min-cost", "demand_req_per_s=2.5"]
    plan = optimize(read_scenario("prfaas-paper", overrides))
    assert all(b.constraint != "links.wan.capacity_gbps" for b in plan.bottlenecks)
    assert plan.free_routing is not None
    assert 0 <= plan.free_routing.gain < 1e-3


def test_a_demand_that_a_cheaper_homogeneous_fleet_serves_makes_the_plan_not_worth_it() -> None:
    more = "sites.local.accelerators.h20-141gb=200"
    assert not optimize(
        read_scenario("prfaas-paper", ["demand_req_per_s=2.0", more, "budget_usd_per_hour=182.5"])
    ).verdict.worth_it
    assert optimize(read_scenario("prfaas-paper", ["demand_req_per_s=3.15"])).verdict.worth_it


def test_where_stock_alone_makes_it_worth_it_the_verdict_says_so() -> None:
    """A cheaper fleet of one kind would serve the demand, but takes more of that kind than there are."""
    said = optimize(read_scenario("prfaas-paper", ["demand_req_per_s=2.0"])).verdict
    assert said.worth_it
    assert "Stock is what makes it worth it: 96 h20-141gb at local, of which 64 can be had" in said.because
    assert "the stated 2 req/s for 120 USD/h" in said.because
    plain = optimize(read_scenario("prfaas-paper")).verdict  # in one batch as many would be as good, within 1 %
    assert "Stock is what makes it worth it: 144 h20-141gb" in plain.because
    by_means = optimize(read_scenario("prfaas-paper", ["capacity_rule=mean-length"])).verdict
    assert "More stock would not change that: 144 h20-141gb" in by_means.because


@pytest.mark.parametrize("demand", [0.8, 1.3])
def test_a_demand_that_home_serves_for_less_in_either_kind_of_pools_leaves_open_which(demand: float) -> None:
    """Both kinds cost 80 USD/h there, for the most that they serve: neither was planned for the least bill."""
    said = optimize(read_scenario("prfaas-paper", [f"demand_req_per_s={demand}"])).verdict
    assert (said.recommendation, said.worth_it, said.decided) == (None, False, True)
    assert said.because.startswith("Cross-site prefill is not worth it here: the stated ")
    apart = said.disaggregation
    assert apart is not None
    assert (apart.worth_it, apart.decided) == (False, False)
    assert apart.because.startswith(f"Not decided: the stated {demand} req/s are served for 80 USD/h by ")


def test_a_verdict_without_a_price_says_what_it_leaves_out() -> None:
    verdict = optimize(read_scenario("prfaas-paper", ["links.wan.capacity_gbps=25"])).verdict
    assert "no price of links.wan" in verdict.because


def test_ports_of_several_sizes_keep_their_capacity_in_a_case() -> None:
    tiers = "[{capacity_gbps = 10, usd_per_hour = 2.0}, {capacity_gbps = 3, usd_per_hour = 1.0}]"
    case = build_case(
        read_scenario("prfaas-paper", ["links.wan.capacity_gbps=free", f"links.wan.tiers={tiers}", "report={}"])
    )
    assert case.plan.links[0].capacity_gbps == 13
    assert case.rule_shortfall == pytest.approx(0.0148, abs=0.001)


def test_a_precision_nobody_measured_is_refused() -> None:
    with pytest.raises(InputError, match="in fp8"):
        optimize(read_scenario("prfaas-paper", ["model.precision=bf16"]))


def test_a_narrower_kv_cache_sends_less() -> None:
    wide, narrow = (
        optimize(read_scenario("prfaas-paper", [f"model.kv_precision={p}", "routing.threshold_tokens=20000"]))
        for p in ("bf16", "fp8")
    )
    assert narrow.links[0].mean_gbps < 0.8 * wide.links[0].mean_gbps


def test_lengths_beyond_the_measured_ones_are_mentioned() -> None:
    notes = optimize(read_scenario("prfaas-paper", ["workload.lengths.high_tokens=900000"])).notes
    assert any("prompts of prfaas are outside the 1,024 to 130,000 tokens" in note for note in notes)


def test_a_pool_near_saturation_is_mentioned() -> None:
    notes = optimize(read_scenario("prfaas-paper", ["demand_req_per_s=3.15"])).notes
    assert any("busy" in note for note in notes)


def test_a_second_link_between_the_same_sites_and_a_second_price_are_refused() -> None:
    with pytest.raises(InputError, match="same sites"):
        read_scenario("prfaas-paper", ['links.other={from="remote", to="local", capacity_gbps=10}'])
    with pytest.raises(InputError, match="priced already"):
        read_scenario("prfaas-paper", ['prices.h200_sxm={usd_per_accelerator_hour=3.0, basis="assumed", source="x"}'])


def test_a_baseline_that_cannot_be_planned_is_named_with_its_reason() -> None:
    decode_only = (
        'measured.mine={hardware="h20-96gb", n_accelerators=8, precision="fp8", basis="measured", source="x", '
    )
    decode_only += "decode={batch=20, step_s=0.025}}"
    overrides = [decode_only, "pools.pd-d.hardware=h20-96gb", "sites.local.accelerators.h20-96gb=64"]
    plan = optimize(read_scenario("prfaas-paper", overrides))
    assert all(b.name != "homogeneous-pd" for b in plan.baselines)
    assert any(note.startswith("no homogeneous-pd to compare with: no measured prefill") for note in plan.notes)


POOLS = """
schema = "planner.scenario/1"
name = "calibrated"
objective = "min-cost"
demand_req_per_s = 2
model = { profile = "qwen3-32b", stack = "vllm" }
sites.home = {}
[workload]
lengths = { kind = "constant", tokens = 2000 }
output_lengths = { kind = "constant", tokens = 200 }
[pools]
near = { site = "home", hardware = "h200-sxm", role = "prefill", accelerators_per_instance = 2, n_instances = "free" }
far = { site = "home", hardware = "h20-96gb", role = "decode", accelerators_per_instance = 2, n_instances = "free" }
[prices]
h200-sxm = { usd_per_accelerator_hour = 3.0 }
h20-96gb = { usd_per_accelerator_hour = 1.0 }
"""


@pytest.mark.parametrize(("hardware", "said"), [("h20-96gb", True), ("h100-sxm", False)])
def test_a_pool_outside_the_points_of_its_stack_is_said(hardware: str, said: bool) -> None:
    plan = optimize(load_scenario(POOLS.replace("h20-96gb", hardware), "calibrated.toml", Path()))
    found = [str(note) for note in plan.notes if "(note: beyond-calibration)" in str(note)]
    assert [note.split(":")[0] for note in found] == ["outside what vllm was calibrated on, far"] * said
    assert all("h20-96gb (it covers b200-sxm, h100-sxm, h200-sxm)" in note for note in found)
