"""Colocated pools in the one program: by hand, by brute force, and laws of what changes nothing."""

import json
import re
from dataclasses import replace
from itertools import product
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import Planned, best_fleet, optimize
from planner.errors import InfeasibleError, InputError
from planner.notes import code_of
from planner.optimizer import strategies
from planner.optimizer.layout_choice import posed
from planner.optimizer.network.batches import MixPart, batch_of
from planner.optimizer.network.judged_moves import excess
from planner.optimizer.network.period_operation import busy_instances
from planner.results.plan import PoolPlan
from planner.roofline import MeanRequest, colocated_engine, mixed_passes
from planner.scenario import Scenario, instance_spec, load_scenario
from planner.workload.mix import ALL_LONG

TOGETHER = """
schema = "planner.scenario/1"
name = "together"
objective = "min-cost"
demand_req_per_s = 20.0

[model]
profile = "llama-3.1-8b"
stack = "vllm"

[workload]
lengths = { kind = "lognormal", mu = 8.0, sigma = 1.0, low_tokens = 128, high_tokens = 32768 }
output_lengths = { kind = "constant", tokens = 200 }

[sites.home]

[pools.both]
site = "home"
hardware = "l40s"
role = "colocated"
accelerators_per_instance = 1
tokens_per_pass = 2048

[prices.l40s]
usd_per_accelerator_hour = 0.9

[prices.h100-sxm]
usd_per_accelerator_hour = 2.0
"""
FAR = """
[sites.far]

[pools.far-prefill]
site = "far"
hardware = "h100-sxm"
role = "prefill"
accelerators_per_instance = 1

[links.wan]
from = "far"
to = "home"
round_trip_ms = 10.0
tiers = [{ capacity_gbps = 5.0, usd_per_hour = 0.05, max_ports = 20 }]
"""
SPLIT = TOGETHER + FAR
GIVEN: dict[str, Any] = {
    "objective": "max-throughput",
    "demand_req_per_s": None,
    "sites.home.accelerators": {"l40s": 4},
    "sites.far.accelerators": {"h100-sxm": 2},
}


def asked(text: str, changes: dict[str, Any] | None = None) -> Scenario:
    return load_scenario(text, "scenario.toml", Path()).varied(changes or {})


def found(text: str, changes: dict[str, Any] | None = None, time_limit_s: float = 60.0) -> Planned:
    return best_fleet(asked(text, changes), (), time_limit_s)


def sizes(plan: Planned) -> dict[str, int]:
    return {pool.name: pool.n_instances for pool in plan.fleet.pools}


class ByHand:
    """Capacity of both pools and the link by threshold, from atoms, curves and passes alone."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, problem = scenario, posed(scenario)
        self.mix = problem.classes[0].mix
        self.total, self.cached, self.weights = self.mix.atoms(4096)
        self.output = self.mix.mean_output_tokens
        self.rates = next(pool.rates for pool in problem.pools if pool.role == "prefill")

    def prefill(self, threshold: float) -> tuple[float, float]:
        """Seconds of prefill and bytes on the link per request."""
        assert self.rates.prefill is not None
        long = self.weights * (self.total - self.cached > threshold)
        work_s = float(self.rates.prefill.occupancy.seconds(self.total, self.cached) @ long)
        return work_s, float(self.rates.kv_bytes(self.total) @ long)

    def capacity(self, tokens: int, threshold: float) -> float:
        """Requests per second of a colocated instance: the best whole batch within memory and pass."""
        engine = colocated_engine(instance_spec(self.scenario, self.scenario.pools["both"].on_passes(tokens)))
        short = self.total - self.cached <= threshold
        share, n = float(self.weights[short].sum()), self.total[short]
        computed = float(n @ self.weights[short])
        keys = float((n * (n + 1) / 2) @ self.weights[short]) / max(computed, 1e-9)
        context = float(self.total @ self.weights) + self.output / 2
        parts = (MixPart(0, "short", threshold, share),), (MixPart(0, "long", threshold, 1 - share),)
        own, joined = (tuple(part for part in some if part.share > 0) for some in parts)
        found = batch_of([self.mix], engine, own, joined)
        most = found.load.loop.most_running
        mean = MeanRequest(max(computed / max(share, 1e-9), 1.0), max(keys, 1.0), context)
        seconds = mixed_passes(engine.served, mean, most)
        best = 0.0
        for batch in range(1, most + 1):
            ending = batch / (self.output - 1)
            asked_tokens = computed * ending
            if batch + asked_tokens > tokens:
                break
            chunk = max(asked_tokens, min(computed / max(share, 1e-9), tokens - batch))
            step_s = float(seconds(0.0, batch))
            if asked_tokens > 0:
                step_s += asked_tokens / chunk * (float(seconds(chunk, batch)) - step_s)
            best = max(best, ending / step_s)
        # What memory costs that is kept full is taken from the model, which runs are held against elsewhere.
        return best if found.load.loop.preemption is None else min(best, found.capacity_req_per_s)


def drawn(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "workload.lengths.mu": round(float(rng.uniform(7.0, 8.8)), 3),
        "workload.lengths.sigma": round(float(rng.uniform(0.5, 1.2)), 3),
        "workload.output_lengths.tokens": float(rng.integers(60, 400)),
        "demand_req_per_s": round(float(rng.uniform(2.0, 25.0)), 3),
        "pools.both.tokens_per_pass": [int(n) for n in rng.choice([512, 1024, 2048, 4096], 2, replace=False)],
        "prices.h100-sxm.usd_per_accelerator_hour": round(float(rng.uniform(0.3, 2.5)), 2),
    }


def check_brute_force(seed: int) -> None:
    """No small fleet at any of many thresholds is cheaper than a plan, or than its bound."""
    changes = drawn(seed)
    scenario = asked(SPLIT, changes)
    plan, by_hand, rate = best_fleet(scenario), ByHand(scenario), changes["demand_req_per_s"]
    best, usd_each = inf, changes["prices.h100-sxm.usd_per_accelerator_hour"]
    grid = np.quantile(by_hand.total - by_hand.cached, np.linspace(0, 1, 13))
    for tokens, t in product(changes["pools.both.tokens_per_pass"], (ALL_LONG, *grid.tolist())):
        n = ceil(rate / by_hand.capacity(tokens, t) * (1 + 2e-2) - 1e-9)
        work_s, sent = by_hand.prefill(t)
        ports = ceil(rate * sent * 8 / 5e9 - 1e-9)
        if ports <= 20:
            best = min(best, 0.9 * n + usd_each * ceil(rate * work_s - 1e-9) + 0.05 * ports)
    # By hand attention replicas and cells of lengths are left out.
    assert plan.solution.bound <= best * (1 + 2e-2)
    assert plan.objective <= best * (1 + plan.solution.gap + 2e-2)
    (held,) = (pool for pool in plan.fleet.pools if pool.role == "colocated")
    t = plan.fleet.threshold_tokens if plan.fleet.threshold_tokens is not None else inf
    work_s, sent = by_hand.prefill(t)
    slack = 1 + 2e-2
    assert held.tokens_per_pass is not None
    assert rate <= slack * held.n_instances * by_hand.capacity(held.tokens_per_pass, t)
    assert rate * work_s <= slack * plan.fleet.pool("far-prefill").n_instances
    assert rate * sent * 8 <= slack * 5e9 * sum(plan.fleet.links[0].ports_by_tier)
    assert plan.fleet.cost.usd_per_hour == pytest.approx(plan.objective)
    assert plan.fleet.max_throughput_req_per_s >= rate * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_small_fleet_at_any_of_many_thresholds_is_cheaper_or_faster(seed: int) -> None:
    check_brute_force(seed)


@pytest.mark.campaign
def test_no_fleet_of_two_hundred_drawn_questions_is_cheaper() -> None:
    for seed in range(71_000, 71_200):
        check_brute_force(seed)


def test_a_pool_for_long_prompts_that_gets_none_changes_nothing() -> None:
    """Far prefill at a thousandfold price stays empty: the plan is that without it."""
    far = found(SPLIT, {"prices.h100-sxm.usd_per_accelerator_hour": 2000.0})
    alone = found(TOGETHER)
    assert far.objective == pytest.approx(alone.objective)
    assert sizes(far) == {**sizes(alone), "far-prefill": 0}
    assert far.fleet.threshold_tokens is None
    assert far.fleet.latency == alone.fleet.latency


def test_halves_of_a_class_are_the_class_and_a_constant_day_is_an_hour() -> None:
    workload = asked(SPLIT).stated["workload"]
    halves = {name: {"share": 0.5, "workload": workload} for name in ("one", "other")}
    whole = found(SPLIT)
    parts = found(SPLIT, {"workload": None, "classes": halves})
    day = found(SPLIT, {"periods": {f"h{hour}": {"hours": 1.0} for hour in range(3)}})
    for other in (parts, day):
        assert other.objective == pytest.approx(whole.objective)
        assert sizes(other) == sizes(whole)


def test_the_best_way_of_several_is_no_dearer_than_any_alone() -> None:
    ways = ["tp=1,ep=1,dp=1,pp=1", "tp=2,ep=1,dp=1,pp=1"]
    pool = {"site": "home", "hardware": "l40s", "role": "colocated"}
    best = found(TOGETHER, {"pools.both": {**pool, "layouts": ways, "tokens_per_pass": [512, 2048]}})
    for layout, tokens in product(ways, (512, 2048)):
        alone = found(TOGETHER, {"pools.both": {**pool, "layouts": [layout], "tokens_per_pass": tokens}})
        assert best.objective <= alone.objective * (1 + 1e-9)
    planned: PoolPlan = best.fleet.pool("both")
    assert planned.role == "colocated"
    assert planned.layout in ways
    assert planned.tokens_per_pass in (512, 2048)


def test_a_promise_is_kept_and_no_fleet_with_one_less_of_anything_keeps_it() -> None:
    plan = found(SPLIT, {"slo": {"ttft_s": 0.6, "tpot_ms": 60.0}, "routing.threshold_tokens": 4000.0})
    problem, (one,), ports = plan.problem, plan.solution.operations, plan.solution.ports
    assert excess(problem, [one], ports) <= 0
    for i, n in enumerate(one.n_instances):
        if n:
            less = tuple(m - (k == i) for k, m in enumerate(one.n_instances))
            assert excess(problem, [type(one)(0, less, one.flows, one.decodings)], ports) > 0
    assert plan.fleet.latency.ttft_p90_s is not None
    assert plan.fleet.latency.ttft_p90_s <= 0.6 * (1 + 1e-6)
    assert plan.fleet.goodput_req_per_s is not None
    assert 20.0 <= plan.fleet.goodput_req_per_s <= plan.fleet.max_throughput_req_per_s


def test_classes_have_promises_of_their_own_in_one_batch() -> None:
    workload = asked(TOGETHER).stated["workload"]
    short = {**workload, "lengths": {**workload["lengths"], "mu": 6.0}}
    classes = {
        "short": {"share": 0.5, "workload": short, "slo": {"ttft_s": 1.0, "ttft_percentile": 90.0}},
        "long": {"share": 0.5, "workload": workload, "slo": {"ttft_s": 4.0}},
    }
    plan = optimize(asked(TOGETHER, {"workload": None, "classes": classes}))
    by_name = {one.name: one.latency for one in plan.classes}
    assert by_name["short"].ttft_p90_s is not None
    assert by_name["short"].ttft_p90_s <= 1.0
    assert by_name["long"].ttft_p90_s is not None
    assert by_name["long"].ttft_p90_s <= 4.0
    assert by_name["short"].ttft_p90_s < by_name["long"].ttft_p90_s
    assert len(plan.pools) == 1


def test_what_is_given_serves_more_than_without_the_far_pool_and_the_budget_holds() -> None:
    both, alone = found(SPLIT, GIVEN), found(TOGETHER, {**GIVEN, "sites.far": {"accelerators": {}}})
    assert both.objective > alone.objective * 1.05
    assert both.fleet.pool("both").n_instances == alone.fleet.pool("both").n_instances == 4
    within = found(SPLIT, {**GIVEN, "budget_usd_per_hour": 5.0})
    assert within.fleet.cost.usd_per_hour is not None
    assert within.fleet.cost.usd_per_hour <= 5.0 + 1e-6
    assert within.objective <= both.objective * (1 + 1e-3)


def test_the_soonest_first_token_is_no_later_with_more_accelerators() -> None:
    soon = {**GIVEN, "objective": "min-ttft", "demand_req_per_s": 4.0}
    few = found(TOGETHER, {**soon, "sites.far": {"accelerators": {}}})
    more = found(TOGETHER, {**soon, "sites.far": {"accelerators": {}}, "sites.home.accelerators": {"l40s": 6}})
    assert more.objective <= few.objective * 1.01
    assert few.fleet.latency.ttft_p90_s == pytest.approx(few.objective, rel=1e-2)


def test_a_fleet_survives_the_loss_of_an_instance_or_of_the_link() -> None:
    plain, spare = found(SPLIT), found(SPLIT, {"spare.survive": ["instance"]})
    assert spare.objective > plain.objective
    (one,) = spare.solution.operations
    busy = busy_instances(spare.problem, one)
    assert all(used <= n - 1 + 1e-6 for used, n in zip(busy, one.n_instances, strict=True) if n)
    without_link = found(SPLIT, {"spare.survive": ["link"]})
    assert without_link.fleet.pool("both").n_instances >= found(TOGETHER).fleet.pool("both").n_instances


@pytest.mark.parametrize(("dearer_by", "is_start"), [(1.0, True), (1.01, True), (0.99, False)])
def test_of_equal_bills_the_plan_of_one_kind_of_serving_is_taken(
    dearer_by: float, is_start: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = found(TOGETHER)
    start = replace(alone.solution, always=alone.solution)  # by which it is told from the other
    mixed = replace(alone.solution, objective=dearer_by * start.objective)
    monkeypatch.setattr(strategies, "_has_both_kinds", lambda _: True)
    monkeypatch.setattr(strategies, "_of_one_kind", lambda *_: start)
    monkeypatch.setattr(strategies, "_found_from", lambda *_: mixed)
    taken = strategies.best_solution(alone.problem, 20.0)
    assert taken is not None
    assert taken.objective == min(start.objective, mixed.objective)
    assert (taken.always is not None) is is_start


def test_both_kinds_of_serving_are_offered_and_the_cheaper_one_is_taken() -> None:
    """Prefill and decode pools of the same accelerators beside: the plan costs no more than either kind alone."""
    twin = {"site": "home", "hardware": "l40s", "accelerators_per_instance": 1}
    pools = {"prefill": {**twin, "role": "prefill"}, "decode": {**twin, "role": "decode"}}
    both = found(TOGETHER, {f"pools.{name}": pool for name, pool in pools.items()})
    apart = found(TOGETHER, {"pools": pools})
    alone = found(TOGETHER)
    assert both.objective <= min(apart.objective, alone.objective) * (1 + both.solution.gap)
    plan = optimize(asked(TOGETHER, {f"pools.{name}": pool for name, pool in pools.items()}))
    # Within its gap the plan may mix both kinds, and is then held against colocated pools alone as well.
    assert {"without-colocated"} <= {other.name for other in plan.baselines} <= {"without-colocated", "colocated-alone"}
    assert plan.verdict.disaggregation is not None
    assert not plan.verdict.disaggregation.worth_it


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "measured passes": (
        {"pools.both.tokens_per_pass": None, "pools.both.service_times": "measured"},
        "pools.both.service_times",
    ),
    "roles that change": ({"routing.role_conversion": True}, "routing.role_conversion"),
    "mean lengths": ({"capacity_rule": "mean-length"}, "capacity_rule"),
    "a list of passes for prefill": ({"pools.far-prefill.tokens_per_pass": [512]}, "pools.far-prefill.tokens_per_pass"),
    "no size of passes": ({"pools.both.tokens_per_pass": []}, "pools.both.tokens_per_pass"),
    "a promise on round robin": ({"dispatch": "round-robin", "slo": {"ttft_s": 1.0}}, "slo"),
    "drafts": (
        {"model.speculation": {"draft_tokens": 1, "acceptance": 0.7, "draft_model": "llama-3.2-1b"}},
        "model.speculation",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_planned_beside_a_colocated_pool_is_one_problem_at_its_key(name: str) -> None:
    changes, key = REFUSED[name]
    with pytest.raises(InputError) as caught:
        optimize(asked(SPLIT, changes))
    (problem,) = caught.value.problems
    assert problem.key == key
    assert problem.allowed or re.search(r"\(.+\)$", problem.message), "what is allowed"


def test_waits_of_bursts_are_left_to_runs_and_the_answer_says_so() -> None:
    bursts = {"slo": {"ttft_s": 3.0}, "workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}}
    plan = optimize(asked(TOGETHER, bursts))
    assert "batches-without-bursts" in [code_of(note) for note in plan.notes]


def test_a_layout_that_does_not_hold_the_model_or_a_step_that_nothing_keeps_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="does not fit"):
        optimize(asked(TOGETHER, {"model.profile": "llama-3.1-70b"}))
    with pytest.raises(InfeasibleError):
        optimize(asked(TOGETHER, {"pools.both.tpot_ms": 1.0}), time_limit_s=5.0)


def test_the_plan_says_what_it_is_compared_with_and_whether_pools_apart_would_do_better() -> None:
    plan = optimize(asked(SPLIT, {"prices.h100-sxm.usd_per_accelerator_hour": 1.0}))
    assert plan.threshold_tokens is not None
    assert {"cheapest-homogeneous-pd", "cheapest-colocated"} <= {other.name for other in plan.baselines}
    apart = plan.baseline("cheapest-homogeneous-pd").cost.usd_per_hour or inf
    ours = plan.cost.usd_per_hour or inf
    stay = plan.baseline("cheapest-colocated").cost.usd_per_hour or inf
    assert stay >= ours * (1 - 1e-9)
    assert plan.verdict.worth_it == (1 - ours / min(stay, apart) > 0.01)
    assert plan.verdict.disaggregation is not None
    assert plan.verdict.disaggregation.worth_it == (1 - min(ours, apart) / stay > 0.01)


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout, done.stderr


def test_the_command_answers_in_json_and_leaves_the_promise_predicted(tmp_path: Path) -> None:
    file = tmp_path / "together.toml"
    file.write_text(TOGETHER.replace("[sites.home]", "[slo]\nttft_s = 2.0\n\n[sites.home]"))
    code, out, _ = run("optimize", str(file), "--format", "json", "--no-run")
    answer = json.loads(out)
    assert code == 0
    assert answer["pools"][0]["role"] == "colocated"
    assert answer["pools"][0]["tokens_per_pass"] == 2048
    assert answer["slo_run"]["basis"] == "predicted"
    assert answer["slo_run"]["predicted_s"] == pytest.approx(answer["latency"]["ttft_p90_s"])


def test_a_report_has_the_plan_and_a_page_shows_it(tmp_path: Path) -> None:
    file, out, page = tmp_path / "together.toml", tmp_path / "r", tmp_path / "page.html"
    file.write_text(TOGETHER)
    CliRunner().invoke(app, ["report", str(file), "--out", str(out)], catch_exceptions=False)
    assert "| both | home | l40s | colocated |" in (out / "report.md").read_text()
    CliRunner().invoke(app, ["explore", str(file), "--out", str(page)], catch_exceptions=False)
    assert "colocated" in page.read_text()


def test_export_plans_a_scenario_and_writes_what_starts_its_colocated_pool(tmp_path: Path) -> None:
    file, out = tmp_path / "together.toml", tmp_path / "x"
    file.write_text(TOGETHER)
    CliRunner().invoke(app, ["export", str(file), "--to", "vllm", "--out", str(out)], catch_exceptions=False)
    (started,) = out.glob("*/start-both.sh")
    assert "vllm serve" in started.read_text()
    assert "| both | home | colocated |" in (out / "NOT_EXPRESSED.md").read_text()
