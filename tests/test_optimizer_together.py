"""Scenarios with a colocated pool: limits, brute force over fleets and thresholds, promises, refusals, commands."""

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
from planner.errors import InfeasibleError, InputError
from planner.optimizer import optimize, posed
from planner.optimizer.colocated.passes import roofline_loads
from planner.optimizer.plan import best_fleet
from planner.optimizer.together.pairing import Pairing, Sizes, Span
from planner.optimizer.together.planned import Together, together
from planner.optimizer.together.question import question_of
from planner.optimizer.together.search import pairings
from planner.queueing import (
    PassLoop,
    Prompts,
    colocated_capacity_req_per_s,
    colocated_queue,
    decode_batch,
    joined_capacity_req_per_s,
    joined_prompts,
    joined_queue,
    kept_full,
)
from planner.roofline import MeanRequest, colocated_engine, mixed_passes
from planner.scenario import Scenario, asked_instance, load_scenario
from planner.workload import ALL_LONG

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


def found(text: str, changes: dict[str, Any] | None = None, time_limit_s: float = 120.0) -> Together:
    plan = together(asked(text, changes), (), time_limit_s)
    assert plan is not None
    return plan


def first_pairing(text: str, changes: dict[str, Any] | None = None) -> Pairing:
    return next(pairings(question_of(asked(text, changes), (), inf)))


def passes(tokens: Any, batch: Any) -> Any:
    return 0.01 + 1e-5 * np.asarray(tokens) + 1e-4 * np.asarray(batch)


LOOP = PassLoop(passes, 8192.0, 64)
PROMPTS = Prompts(np.array([500.0, 2000.0]), np.array([0.5, 0.5]), np.array([0.015, 0.03]), 101.0, 0.0)


def test_where_nobody_joins_it_is_the_colocated_queue() -> None:
    one, other = joined_queue(LOOP, PROMPTS, 0.0, 20.0, 2), colocated_queue(LOOP, PROMPTS, 20.0, 2)
    assert one.ttft is not None
    assert one.ttft.mean_s == other.ttft.mean_s
    assert one.queue.tpot_mean_s == other.tpot_mean_s
    assert joined_capacity_req_per_s(LOOP, PROMPTS, 0.0) == colocated_capacity_req_per_s(LOOP, PROMPTS)


def test_where_all_join_it_is_a_decode_pool() -> None:
    steps_s = passes(0.0, np.arange(1.0, 65.0))
    rate = 0.9 * 2 * 64 / (100 * float(steps_s[-1]))
    one, decode = joined_queue(LOOP, PROMPTS, 1.0, rate, 2), decode_batch(rate, 100.0, steps_s, 2, 0.0)
    assert one.ttft is None
    assert one.queue.tpot_mean_s == pytest.approx(decode.tpot_mean_s, rel=1e-6)
    assert joined_capacity_req_per_s(LOOP, PROMPTS, 1.0) == pytest.approx(64 / (100 * float(steps_s[-1])), rel=1e-6)


def test_a_few_who_join_change_little_and_more_of_them_leave_more_room() -> None:
    capacities = [joined_capacity_req_per_s(LOOP, PROMPTS, j) for j in (0.0, 1e-9, 0.3, 0.6, 0.9, 1 - 1e-9, 1.0)]
    assert capacities == sorted(capacities)
    assert capacities[1] == pytest.approx(capacities[0], rel=1e-6)
    assert capacities[-2] == pytest.approx(capacities[-1], rel=1e-6)
    rate = 0.7 * capacities[0]
    slowed = [joined_queue(LOOP, PROMPTS, j, rate) for j in (0.0, 1e-9, 0.3, 0.6, 0.9)]
    times = [one.queue.tpot_mean_s or 0.0 for one in slowed]
    assert times == sorted(times, reverse=True)
    assert times[1] == pytest.approx(times[0], rel=1e-5)


def test_one_at_a_time_those_who_join_are_served_between_the_prompts() -> None:
    """M/G/1 by Pollaczek and Khinchine: prompts take their passes and answer, the others their answer alone."""
    alone = PassLoop(passes, 8192.0, 1)
    decode_s = 100 * float(passes(0.0, 1.0))
    service_s = np.array([0.015, 0.03, 0.0]) + decode_s
    shares = np.array([0.3, 0.3, 0.4])
    rate = 0.5 / float(service_s @ shares)
    wait_s = rate * float(service_s**2 @ shares) / 2 / (1 - 0.5)
    one = joined_queue(alone, PROMPTS, 0.4, rate)
    assert one.ttft is not None
    assert one.admission.mean_s == pytest.approx(wait_s, rel=1e-6)
    assert one.ttft.mean_s == pytest.approx(wait_s + 0.0225, rel=1e-6)


def test_both_ends_of_the_thresholds_are_a_colocated_and_a_decode_pool() -> None:
    pairing = first_pairing(SPLIT)
    engine = pairing.way.engine
    everything = [(1.0, pairing._everyone)]
    (plain,) = roofline_loads(engine, everything)
    capacity = colocated_capacity_req_per_s(plain.loop, plain.prompts)
    assert pairing.batch(pairing.longest_tokens).capacity_req_per_s == pytest.approx(capacity, rel=1e-12)
    assert pairing.prefill_s(pairing.longest_tokens) == 0.0
    batch = plain.loop.most_running
    context = pairing._everyone.mean.context_tokens
    step_s = float(engine.served.decode_time(float(batch), context).total_s[0])
    decoding = pairing.batch(ALL_LONG)
    assert decoding.joining_fraction == 1.0
    loop, asked = decoding.load.loop, joined_prompts(decoding.load.prompts, 1.0)
    never_full = colocated_capacity_req_per_s(replace(loop, preemption=None), asked)
    assert never_full == pytest.approx(batch / (199 * step_s), rel=1e-6)
    assert decoding.capacity_req_per_s == min(never_full, kept_full(loop, asked)[0])
    assert pairing.long_fraction(ALL_LONG) == 1.0


def test_a_pool_for_long_prompts_that_gets_none_changes_nothing() -> None:
    """Far prefill at a thousandfold price stays empty: the plan is that without it."""
    far = found(SPLIT, {"prices.h100-sxm.usd_per_accelerator_hour": 2000.0})
    alone = found(TOGETHER)
    assert far.best.sizes == alone.best.sizes._replace(ports=(0,))
    assert far.objective == pytest.approx(alone.objective)
    assert far.fleet.threshold_tokens is None
    assert far.fleet.latency == alone.fleet.latency


class ByHand:
    """Capacity of both pools and the link by threshold, from atoms, curves and passes alone."""

    def __init__(self, scenario: Scenario) -> None:
        self.question = question_of(scenario, (), inf)
        self.mix = self.question.classes[0].mix
        self.total, self.cached, self.weights = self.mix.atoms(4096)
        self.output = self.mix.mean_output_tokens
        self.rates = self.question.prefills[0].rates

    def prefill(self, threshold: float) -> tuple[float, float]:
        """Seconds of prefill and bytes on the link per request."""
        assert self.rates.prefill is not None
        long = self.weights * (self.total - self.cached > threshold)
        work_s = float(self.rates.prefill.occupancy.seconds(self.total, self.cached) @ long)
        return work_s, float(self.rates.kv_bytes(self.total) @ long)

    def capacity(self, name: str, tokens: int, threshold: float) -> float:
        """Requests per second of a colocated instance: the best whole batch within memory and pass."""
        scenario = self.question.scenario
        engine = colocated_engine(asked_instance(scenario, scenario.pools[name].on_passes(tokens)))
        short = self.total - self.cached <= threshold
        share, n = float(self.weights[short].sum()), self.total[short]
        computed = float(n @ self.weights[short])
        keys = float((n * (n + 1) / 2) @ self.weights[short]) / max(computed, 1e-9)
        context = float(self.total @ self.weights) + self.output / 2
        pairing = next(p for p in pairings(self.question) if p.way.tokens_per_pass == tokens)
        most = pairing.batch(threshold).load.loop.most_running
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
        return best


@pytest.mark.parametrize("seed", range(6))
def test_no_small_fleet_at_any_of_many_thresholds_is_cheaper_or_faster(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.choice([512, 1024, 2048, 4096], 2, replace=False)]
    changes: dict[str, Any] = {
        "workload.lengths.mu": round(float(rng.uniform(7.0, 8.8)), 3),
        "workload.lengths.sigma": round(float(rng.uniform(0.5, 1.2)), 3),
        "workload.output_lengths.tokens": float(rng.integers(60, 400)),
        "demand_req_per_s": round(float(rng.uniform(2.0, 25.0)), 3),
        "pools.both.tokens_per_pass": sizes,
        "prices.h100-sxm.usd_per_accelerator_hour": round(float(rng.uniform(0.3, 2.5)), 2),
    }
    scenario = asked(SPLIT, changes)
    plan = together(scenario, (), 200.0)
    assert plan is not None
    by_hand, rate = ByHand(scenario), changes["demand_req_per_s"]
    grid = np.quantile(by_hand.total - by_hand.cached, np.linspace(0, 1, 13))
    best = inf
    for tokens, t in product(sizes, (ALL_LONG, *grid.tolist())):
        n = ceil(rate / by_hand.capacity("both", tokens, t) - 1e-9)
        work_s, sent = by_hand.prefill(t)
        ports = ceil(rate * sent * 8 / 5e9 - 1e-9)
        if ports <= 20:
            usd_each = changes["prices.h100-sxm.usd_per_accelerator_hour"]
            best = min(best, 0.9 * n + usd_each * ceil(rate * work_s - 1e-9) + 0.05 * ports)
    assert plan.best.gap <= plan.best.target
    assert plan.objective <= best * (1 + 2e-2)  # by hand attention replicas and cells of lengths are left out
    held, t = plan.best.sizes, plan.best.threshold_tokens
    work_s, sent = by_hand.prefill(t)
    slack = 1 + 2e-2
    assert rate <= slack * held.n_colocated * by_hand.capacity("both", plan.best.pairing.way.tokens_per_pass, t)
    assert rate * work_s <= slack * held.n_prefill
    assert rate * sent * 8 <= slack * 5e9 * sum(held.ports)
    at = plan.fleet
    assert at.cost.usd_per_hour == pytest.approx(plan.objective)
    assert at.max_throughput_req_per_s >= rate * (1 - 1e-9)


@pytest.mark.parametrize("low", [500.0, 3000.0])
def test_no_threshold_of_a_span_passes_what_the_span_is_held_to(low: float) -> None:
    pairing, sizes = first_pairing(SPLIT, GIVEN), Sizes(4, 2, (10,))
    span = Span(low, 3 * low)
    bound = pairing.capacity_req_per_s(sizes, span)
    for t in np.linspace(*span, 9):
        at = Span(float(t), float(t))
        assert pairing.capacity_req_per_s(sizes, at) <= bound * (1 + 1e-9)
        assert pairing.late_fraction(sizes, span, 3.0, 0.3) <= pairing.late_fraction(sizes, at, 3.0, 0.3) + 1e-3


def test_a_promise_is_kept_and_no_fleet_with_one_less_of_anything_keeps_it() -> None:
    plan = found(SPLIT, {"slo": {"ttft_s": 0.6, "tpot_ms": 60.0}, "routing.threshold_tokens": 4000.0})
    pairing, sizes, t = plan.best.pairing, plan.best.sizes, plan.best.threshold_tokens

    def keeps(one: Sizes) -> bool:
        span = Span(t, t)
        if min(one.n_colocated, one.n_prefill, *one.ports) < 1 or pairing.capacity_req_per_s(one, span) <= 20.0:
            return False
        return pairing.late_fraction(one, span, 20.0, 0.6) <= 0.1 and not pairing.is_too_slow(one, span, 20.0)

    assert keeps(sizes)
    assert not keeps(sizes._replace(n_colocated=sizes.n_colocated - 1))
    assert not keeps(sizes._replace(n_prefill=sizes.n_prefill - 1))
    assert not keeps(sizes._replace(ports=(sizes.ports[0] - 1,)))
    assert plan.fleet.latency.ttft_p90_s is not None
    assert plan.fleet.latency.ttft_p90_s <= 0.6 * (1 + 1e-6)
    ttft = plan.ttft()
    assert ttft is not None
    assert sum(path.share_fraction for path in ttft.paths) == pytest.approx(1.0)
    assert plan.goodput_req_per_s is not None
    assert 20.0 <= plan.goodput_req_per_s <= plan.fleet.max_throughput_req_per_s


def test_what_is_given_serves_more_than_without_the_far_pool_and_the_budget_holds() -> None:
    both, alone = found(SPLIT, GIVEN), found(TOGETHER, {**GIVEN, "sites.far": {"accelerators": {}}})
    assert both.objective > alone.objective * 1.05
    assert both.fleet.pool("both").n_instances == alone.fleet.pool("both").n_instances == 4
    within = found(SPLIT, {**GIVEN, "budget_usd_per_hour": 5.0})
    assert within.fleet.cost.usd_per_hour is not None
    assert within.fleet.cost.usd_per_hour <= 5.0 + 1e-9
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
    held, span = spare.best.sizes, Span(spare.best.threshold_tokens, spare.best.threshold_tokens)
    bare = first_pairing(SPLIT)
    for lost in ("n_colocated", "n_prefill"):
        if getattr(held, lost) > 0:
            left = held._replace(**{lost: getattr(held, lost) - 1})
            assert bare.capacity_req_per_s(left, span) >= 20.0 * (1 - 1e-9)
    without_link = found(SPLIT, {"spare.survive": ["link"]})
    all_stay = Span(bare.longest_tokens, bare.longest_tokens)
    assert bare.capacity_req_per_s(Sizes(without_link.best.sizes.n_colocated, 0, (0,)), all_stay) >= 20.0 * (1 - 1e-9)


def test_the_best_way_of_several_is_no_dearer_than_any_alone() -> None:
    ways = ["tp=1,ep=1,dp=1,pp=1", "tp=2,ep=1,dp=1,pp=1"]
    pool = {"site": "home", "hardware": "l40s", "role": "colocated"}
    best = found(TOGETHER, {"pools.both": {**pool, "layouts": ways, "tokens_per_pass": [512, 2048]}})
    for layout, tokens in product(ways, (512, 2048)):
        alone = found(TOGETHER, {"pools.both": {**pool, "layouts": [layout], "tokens_per_pass": tokens}})
        assert best.objective <= alone.objective * (1 + 1e-9)
    planned = best.fleet.pool("both")
    assert planned.role == "colocated"
    assert planned.layout in ways
    assert planned.tokens_per_pass in (512, 2048)


def test_classes_share_a_threshold_and_halves_of_a_class_are_the_class() -> None:
    workload = asked(SPLIT).stated["workload"]
    halves = {name: {"share": 0.5, "workload": workload} for name in ("one", "other")}
    split = {"workload": None, "classes": halves, "routing.thresholds": "per-model"}
    whole, parts = found(SPLIT), found(SPLIT, split)
    assert parts.objective == pytest.approx(whole.objective)
    assert parts.best.sizes == whole.best.sizes


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a decode pool beside": ({"pools.far-prefill.role": "decode"}, "pools.far-prefill.role"),
    "prefill at home": ({"pools.far-prefill.site": "home"}, "pools.far-prefill.site"),
    "short prompts elsewhere": ({"pools.far-prefill.prompts": "short"}, "pools.far-prefill.prompts"),
    "no link": ({"links": {}}, "pools.far-prefill.site"),
    "measured passes": (
        {"pools.both.tokens_per_pass": None, "pools.both.service_times": "measured"},
        "pools.both.service_times",
    ),
    "periods": ({"periods": {"day": {"hours": 1.0}}}, "periods"),
    "roles that change": ({"routing.role_conversion": True}, "routing.role_conversion"),
    "a ratio": ({"routing.prefill_to_decode": "1:2"}, "routing.prefill_to_decode"),
    "mean lengths": ({"capacity_rule": "mean-length"}, "capacity_rule"),
    "a router": ({"dispatch": "round-robin"}, "dispatch"),
    "chunked prefill": ({"prefill_batching": "chunked"}, "prefill_batching"),
    "the loss of a site": ({"spare.survive": ["site"]}, "spare.survive"),
    "a list of passes for prefill": ({"pools.far-prefill.tokens_per_pass": [512]}, "pools.far-prefill.tokens_per_pass"),
    "no size of passes": ({"pools.both.tokens_per_pass": []}, "pools.both.tokens_per_pass"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_planned_beside_a_colocated_pool_is_one_problem_at_its_key(name: str) -> None:
    changes, key = REFUSED[name]
    with pytest.raises(InputError) as caught:
        posed(asked(SPLIT, changes))
    (problem,) = caught.value.problems
    assert problem.key == key
    assert problem.allowed or re.search(r"\(.+\)$", problem.message), "what is allowed"


def test_a_promise_without_a_model_of_its_waits_is_refused() -> None:
    bursts = {"slo": {"ttft_s": 1.0}, "workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}}
    with pytest.raises(InputError, match="Poisson"):
        optimize(asked(TOGETHER, bursts))


def test_a_promise_to_several_classes_is_refused() -> None:
    workload = asked(TOGETHER).stated["workload"]
    halves = {name: {"share": 0.5, "workload": workload} for name in ("one", "other")}
    changes = {"workload": None, "classes": halves, "slo": {"ttft_s": 2.0}}
    with pytest.raises(InputError, match="several classes"):
        optimize(asked(TOGETHER, {**changes, "classes.one.slo": {"ttft_s": 1.0}}))
    alike, whole = (best_fleet(asked(TOGETHER, each)).fleet for each in (changes, {"slo": changes["slo"]}))
    assert alike.pools == whole.pools


def test_a_layout_that_does_not_hold_the_model_or_a_step_that_nothing_keeps_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="does not fit"):
        optimize(asked(TOGETHER, {"model.profile": "llama-3.1-70b"}))
    with pytest.raises(InfeasibleError, match="no fleet"):
        optimize(asked(TOGETHER, {"pools.both.tpot_ms": 1.0}), time_limit_s=5.0)


def test_the_plan_says_what_it_is_compared_with_and_whether_pools_apart_would_do_better() -> None:
    plan = optimize(asked(SPLIT, {"prices.h100-sxm.usd_per_accelerator_hour": 1.0}))
    assert plan.threshold_tokens is not None
    assert {"cheapest-homogeneous-pd", "cheapest-colocated"} <= {other.name for other in plan.baselines}
    assert plan.verdict.disaggregation is not None
    apart = plan.baseline("cheapest-homogeneous-pd").cost.usd_per_hour or inf
    ours = plan.cost.usd_per_hour or inf
    assert plan.verdict.disaggregation.worth_it == (1 - apart / ours > 0.01)
    stay = plan.baseline("cheapest-colocated").cost.usd_per_hour or inf
    assert stay >= ours * (1 - 1e-9)
    assert plan.verdict.worth_it == (1 - ours / min(stay, apart) > 0.01)
    assert all(price.shadow_price > 0 for price in plan.bottlenecks)


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


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--sensitivity"),
        ("explore", "--out", "page.html"),
    ],
)
def test_a_command_that_does_not_answer_it_says_so_and_writes_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "together.toml"
    file.write_text(TOGETHER)
    options = [str(tmp_path / word) if word == "page.html" else word for word in words[1:]]
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(app, [words[0], str(file), *options], catch_exceptions=False)
    assert [problem.key for problem in caught.value.problems] == ["pools.both.role"]
    assert [path.name for path in tmp_path.iterdir()] == ["together.toml"]


def test_a_report_has_the_plan_and_refuses_by_key_what_is_not_answered(tmp_path: Path) -> None:
    file, out = tmp_path / "together.toml", tmp_path / "r"
    file.write_text(TOGETHER)
    CliRunner().invoke(app, ["report", str(file), "--out", str(out)], catch_exceptions=False)
    assert "| both | home | l40s | colocated |" in (out / "report.md").read_text()
    asked = ["--set", "report.sensitivity=true", "--out", str(tmp_path / "s")]
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(app, ["report", str(file), *asked], catch_exceptions=False)
    assert [problem.key for problem in caught.value.problems] == ["report.sensitivity"]
    assert not (tmp_path / "s").exists()


def test_export_plans_a_scenario_and_writes_what_starts_its_colocated_pool(tmp_path: Path) -> None:
    file, out = tmp_path / "together.toml", tmp_path / "x"
    file.write_text(TOGETHER)
    CliRunner().invoke(app, ["export", str(file), "--to", "vllm", "--out", str(out)], catch_exceptions=False)
    (started,) = out.glob("*/start-both.sh")
    assert "vllm serve" in started.read_text()
    assert "| both | home | colocated |" in (out / "NOT_EXPRESSED.md").read_text()
