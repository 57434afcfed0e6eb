"""Layouts that pools leave open: the plan is the best over those that are kept, and says what was looked at."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.comparison import best_fleet, plan
from planner.comparison.baselines import baselines
from planner.comparison.homogeneous_fleets import homogeneous_fleet, homogeneous_rates
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.optimizer import layout_choice
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.profiles import hardware_profile, model_profile
from planner.results.plan import Fleet
from planner.roofline import Layout
from planner.roofline.layouts import largest_instance, layouts
from planner.scenario import Scenario, load_scenario
from planner.scenario.parts import n_accelerators
from planner.work_clock import work_s
from tests.builders import sketch
from tests.cpu_cost import cached

TEXT = """
schema = "planner.scenario/1"
name = "open"
objective = "min-cost"
demand_req_per_s = 12.0
[model]
profile = "llama-3.1-8b"
[slo]
ttft_s = 0.8
tpot_ms = 25.0
[workload]
prefix_hits = "none"
lengths = { kind = "lognormal", mu = 7.0, sigma = 0.6, low_tokens = 64, high_tokens = 4096 }
output_lengths = { kind = "constant", tokens = 250 }
[sites.here]
[pools.prefill]
site = "here"
hardware = "l40s"
role = "prefill"
layouts = "auto"
[pools.decode]
site = "here"
hardware = "l40s"
role = "decode"
layouts = "auto"
[prices.l40s]
usd_per_accelerator_hour = 1.0
"""
MOE = {"model.profile": "gpt-oss-120b", "pools.prefill.hardware": "h100-sxm", "pools.decode.hardware": "h100-sxm"}
PRICED = {"prices.h100-sxm": {"usd_per_accelerator_hour": 2.0}}


def asked(changes: dict[str, Any] | None = None) -> Scenario:
    return load_scenario(TEXT, "open.toml", Path()).varied(changes or {})


QUESTIONS: dict[str, dict[str, Any]] = {
    "cheapest": {},
    "few requests": {"demand_req_per_s": 0.4},
    "strict": {"slo.ttft_s": 0.4, "slo.tpot_ms": 18.0},
    "most within a budget": {"objective": "max-throughput", "budget_usd_per_hour": 20.0},
    "experts": MOE | PRICED,
}


@cached
def chosen(name: str) -> Any:
    return best_fleet(asked(QUESTIONS[name]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_combination_of_the_layouts_that_are_kept_is_better_than_the_one_chosen(name: str) -> None:
    scenario, found = asked(QUESTIONS[name]), chosen(name)
    kept = {one.pool: one.kept for one in found.problem.layouts}
    assert set(kept) == {"prefill", "decode"}
    objectives = []
    for combination in product(*kept.values()):
        changes: dict[str, Any] = {}
        for pool, layout in zip(kept, combination, strict=True):
            changes |= {f"pools.{pool}.layouts": [], f"pools.{pool}.layout": layout}
            changes[f"pools.{pool}.accelerators_per_instance"] = n_accelerators(layout)
        try:
            objectives.append(best_fleet(scenario.varied(changes)).objective)
        except InfeasibleError:
            continue
    best = min(objectives) if scenario.objective == "min-cost" else max(objectives)
    assert found.objective == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("name", QUESTIONS)
def test_pools_keep_their_names_and_state_the_layout_that_was_chosen(name: str) -> None:
    found = chosen(name)
    assert [pool.name for pool in found.fleet.pools] == ["prefill", "decode"]
    kept = {one.pool: one.kept for one in found.problem.layouts}
    for pool in found.fleet.pools:
        assert pool.layout in kept[pool.name]
        assert pool.accelerators_per_instance == Layout.parse(pool.layout or "").n_accelerators
        assert pool.n_accelerators == pool.n_instances * pool.accelerators_per_instance


@pytest.mark.parametrize("name", ["cheapest", "most within a budget"])
def test_where_layouts_were_not_chosen_in_time_all_of_them_stay_pools_of_the_program(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any) -> None:
        raise UndecidedError("time is up")

    best = chosen(name).solution
    monkeypatch.setattr(layout_choice, "best_solution", late)
    short = best_fleet(asked(QUESTIONS[name]))
    assert set(short.problem.families) == {"prefill", "decode"}
    sign = 1 if asked(QUESTIONS[name]).objective == "min-cost" else -1
    assert sign * short.solution.bound <= sign * best.objective * (1 + sign * 1e-6)
    assert sign * best.bound <= sign * short.solution.objective * (1 + sign * 1e-6)


def test_where_the_chosen_layouts_have_no_plan_in_time_nothing_is_said_to_be_infeasible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "best_solution", lambda *_, **__: None)
    with pytest.raises(UndecidedError, match="no plan was found in the time"):
        best_fleet(asked())


def test_open_layouts_never_cost_more_than_a_list_of_some_of_them() -> None:
    listed = {"pools.prefill.layouts": ["tp=1", "tp=4"], "pools.decode.layouts": ["tp=2", "tp=1"]}
    some = best_fleet(asked(listed))
    assert chosen("cheapest").objective <= some.objective * (1 + 1e-6)
    assert [one.kept for one in some.problem.layouts] == [("tp=1", "tp=4"), ("tp=2", "tp=1")]


def test_a_stated_size_of_instances_holds_for_every_layout() -> None:
    found = best_fleet(asked({f"pools.{name}.accelerators_per_instance": 4 for name in ("prefill", "decode")}))
    assert {n_accelerators(layout) for one in found.problem.layouts for layout in one.kept} == {4}


def test_a_note_says_how_many_layouts_were_looked_at() -> None:
    plan = sketch(asked())
    told = [note for note in plan.notes if note.endswith("(note: layouts-considered)")]
    assert len(told) == 2
    fit = [layout for layout in layouts(model_profile("llama-3.1-8b"), hardware_profile("l40s"))]
    assert all(note.startswith(f"of {len(fit)} layouts of ") for note in told)


def test_the_plan_of_open_layouts_is_run_on_those_chosen() -> None:
    scenario, found = asked({"slo": {"tpot_ms": 25.0}}), chosen("cheapest")
    plan = sketch(scenario)
    run, _ = simulate(scenario, plan, RunQuestion(2_000, 1, 0.7, 2))
    fixed = scenario.on_layouts({pool.name: pool.layout or "" for pool in plan.pools})
    assert simulate(fixed, plan, RunQuestion(2_000, 1, 0.7, 2))[0] == run
    assert found.problem.scenario.pools["decode"].layouts == ()


def test_what_is_varied_of_a_settled_scenario_keeps_its_layouts_unless_it_states_others() -> None:
    settled = chosen("cheapest").problem.scenario
    assert settled.varied({"demand_req_per_s": 99.0}).pools == settled.pools
    other = settled.varied({"pools.decode.layouts": [], "pools.decode.layout": "tp=8"})
    assert other.pools["decode"].layout == "tp=8"
    assert other.pools["prefill"] == settled.pools["prefill"]
    assert settled.open_pool("decode").layouts == "auto"


APART: dict[str, Any] = {
    "model.profile": "llama-3.1-70b",
    "demand_req_per_s": 4.0,
    "slo": {"ttft_s": 3.0},
    "workload.lengths": {"kind": "constant", "tokens": 6000},
    "workload.output_lengths": {"kind": "constant", "tokens": 500},
    **{f"pools.{name}.hardware": "h20-96gb" for name in ("prefill", "decode")},
    "prices.h20-96gb": {"usd_per_accelerator_hour": 1.0},
}
ACROSS = APART | {
    "sites.far": {},
    "pools.far": {"site": "far", "hardware": "h100-sxm", "role": "prefill", "layouts": "auto"},
    "links.wan": {"from": "far", "to": "here", "capacity_gbps": 100.0, "usd_per_hour": 1.0},
    "prices.h100-sxm": {"usd_per_accelerator_hour": 2.0},
}


@cached
def across(ttft_s: float | None = 3.0) -> tuple[Problem, Fleet]:
    found = best_fleet(asked(ACROSS | {"slo": ttft_s and {"ttft_s": ttft_s}}))
    return found.problem, found.fleet


@pytest.mark.parametrize("name", ["cheapest-homogeneous-pd", "local-prefill"])
def test_fleets_that_a_plan_is_compared_with_choose_layouts_of_their_own(name: str) -> None:
    """The layout that decodes best seldom prefills best, and a pool that the plan leaves empty is on any."""
    problem, fleet = across()
    assert not fleet.pool("prefill").n_instances
    (other,) = baselines(problem, fleet, work_s() + 60.0, [name]).others
    alone = best_fleet(asked(APART))
    assert other.cost.usd_per_hour == pytest.approx(alone.objective)
    used = {pool.role: pool.layout for pool in other.pools}
    assert used["prefill"] not in {fleet.pool("prefill").layout, fleet.pool("decode").layout}


@pytest.mark.parametrize("ttft_s", [1.1, 1.3, 2.0])
def test_colocated_fleets_run_on_the_layout_that_keeps_the_promise_for_least(ttft_s: float) -> None:
    """What serves most without waits may leave no time for them."""
    problem, fleet = across(ttft_s)
    bills = []
    for layout in ("tp=4", "tp=8", None):
        fixed = (
            {} if layout is None else {"layouts": [], "layout": layout, "accelerators_per_instance": int(layout[3:])}
        )
        pools = {f"pools.{name}.{key}": value for name in ("prefill", "decode") for key, value in fixed.items()}
        one = problem if layout is None else planning_problem(asked(ACROSS | {"slo": {"ttft_s": ttft_s}} | pools))
        found = baselines(one, fleet, work_s() + 60.0, ["cheapest-colocated"]).others
        bills += [other.cost.usd_per_hour for other in found]
    *of_layouts, best = bills
    assert len(of_layouts) > 0
    assert best <= min(of_layouts)


@pytest.mark.parametrize("n", [9, 20, 33])
def test_the_highest_rate_of_homogeneous_fleets_is_that_of_their_best_layouts(n: int) -> None:
    problem, _ = across(None)
    alone = best_fleet(
        asked(APART | {"slo": None, "objective": "max-throughput", "sites.here.accelerators": {"h20-96gb": n}})
    )
    assert homogeneous_rates(homogeneous_fleet(problem), np.array([n]))[0] == pytest.approx(alone.objective)


def test_a_network_chooses_layouts_in_its_own_program() -> None:
    changes = {"periods": {"day": {"demand": 1.5}, "night": {"demand": 0.5}}, "slo": {"tpot_ms": 25.0}}
    found = best_fleet(asked(changes), time_limit_s=20.0)
    used = [pool for pool in found.fleet.pools if pool.n_instances]
    assert {pool.key for pool in used} == {"prefill", "decode"}
    for pool in used:
        assert pool.accelerators_per_instance == n_accelerators(pool.layout or "")


@pytest.mark.parametrize("service_times", [None, "measured"])
def test_layouts_of_measured_service_times_cannot_be_chosen(service_times: str | None) -> None:
    measured = {"hardware": "l40s", "n_accelerators": 4, "precision": "bf16", "basis": "measured", "source": "us"}
    curve = {"tokens": [100, 20000], "seconds": [0.1, 2.0], "interpolation": "monotone-cubic"}
    changes: dict[str, Any] = {"measured": {"ours": measured | {"prefill": curve}}}
    if service_times:
        changes["pools.prefill.service_times"] = service_times
    with pytest.raises(
        InputError, match=r'pools.prefill.layouts: is "auto", and the prefill times of l40s are measured'
    ):
        planning_problem(asked(changes))
    assert planning_problem(asked(changes | {"pools.prefill.service_times": "roofline"})).layouts


def test_where_no_layout_holds_the_model_it_is_said_what_lacks() -> None:
    with pytest.raises(InfeasibleError, match="does not fit"):
        planning_problem(asked({"model.profile": "deepseek-v3", "model.precision": "bf16"}))


@pytest.mark.parametrize(("model", "chip"), [("llama-3.1-70b", "h100-sxm"), ("deepseek-v3", "gb200")])
def test_layouts_have_every_power_of_two_up_to_the_largest_instance(model: str, chip: str) -> None:
    profile, hardware = model_profile(model), hardware_profile(chip)
    found = list(layouts(profile, hardware))
    sizes = {layout.n_accelerators for layout in found}
    assert sizes == {2**k for k in range(largest_instance(hardware).bit_length())}
    assert any(layout.pp_size > 1 for layout in found)
    assert any(layout.dp_size > 1 for layout in found) == (profile.architecture.moe is not None)
