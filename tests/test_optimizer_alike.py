"""Classes, pools and periods that nothing tells apart are planned as one, and told apart again in the answer."""

from typing import Any

import pytest

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.notes import code_of
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.cells import point_cell
from planner.optimizer.network.loads import NetworkLoads
from planner.promises.targets import LatencyTargets, tightened
from planner.results.certified import Promise
from planner.results.plan import Plan
from planner.scenario import Scenario, alike_classes
from tests.builders import BOTH_WAYS, FAST, HOME, in_classes, sketch, small_with
from tests.cpu_cost import cached

WORKLOAD: dict[str, Any] = {
    "lengths": {"kind": "lognormal", "mu": 9.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65536},
    "output_lengths": {"kind": "constant", "tokens": 500},
}
OTHER = WORKLOAD | {"output_lengths": {"kind": "constant", "tokens": 501}}
QUESTIONS: dict[str, dict[str, Any]] = {
    "most": {},
    "by the mean length": {"capacity_rule": "mean-length"},
    "cheapest": {"objective": "min-cost", "demand_req_per_s": 2.0},
    "cheapest with a promise": {"objective": "min-cost", "demand_req_per_s": 2.0, "slo": {"ttft_s": 8.0}},
    "least wait": {"objective": "min-ttft", "demand_req_per_s": 2.0},
    "periods": {
        "objective": "min-cost",
        "demand_req_per_s": 2.0,
        "periods": {"day": {"demand": 1.5}, "night": {"demand": 0.5}},
    },
}
SHARES = {"a": 0.5, "b": 0.2, "c": 0.3}


def cut(changes: dict[str, Any]) -> Scenario:
    return in_classes({name: (share, WORKLOAD) for name, share in SHARES.items()}, changes)


@cached
def plans(name: str) -> tuple[Plan, Plan]:
    """Plans of the requests as one class, and cut into three."""
    return sketch(small_with(QUESTIONS[name])), sketch(cut(QUESTIONS[name]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_class_that_is_cut_up_asks_for_the_same_fleet(name: str) -> None:
    whole, parts = plans(name)
    assert [(p.name, p.n_instances) for p in parts.pools] == [(p.name, p.n_instances) for p in whole.pools]
    figures = [parts.max_throughput_req_per_s, parts.offload_fraction, parts.bound, parts.cost.usd_per_hour]
    expected = [whole.max_throughput_req_per_s, whole.offload_fraction, whole.bound, whole.cost.usd_per_hour]
    assert figures == pytest.approx(expected, rel=1e-6)
    assert parts.threshold_tokens == whole.threshold_tokens
    known = {key: value for key, value in whole.latency if value is not None}
    assert {key: value for key, value in parts.latency if value is not None} == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_class_is_told_by_its_own_name_and_share(name: str) -> None:
    whole, parts = plans(name)
    assert {c.name: c.share for c in parts.classes} == SHARES
    assert {c.latency for c in parts.classes} == {whole.classes[0].latency}
    for period, same in zip(parts.periods, whole.periods, strict=True):
        (total,) = same.decoded_req_per_s.values()
        assert list(period.decoded_req_per_s) == list(SHARES)
        for name_, at in period.decoded_req_per_s.items():
            assert at == pytest.approx({site: SHARES[name_] * rate for site, rate in total.items()})
        assert set(map(str, period.pool_shares.values())) == set(map(str, same.pool_shares.values()))
    assert [code_of(text) for text in parts.notes].count("classes-alike") == 1


def test_a_run_of_the_parts_is_a_run_of_the_whole() -> None:
    whole, parts = plans("cheapest with a promise")
    question = RunQuestion(20_000, 1, 0.7, 1)
    one, _ = simulate(small_with(QUESTIONS["cheapest with a promise"]), whole, question)
    three, _ = simulate(cut(QUESTIONS["cheapest with a promise"]), parts, question)
    assert [c.name for c in three.classes] == list(SHARES)
    assert three.ttft_mean_s == pytest.approx(one.ttft_mean_s, rel=0.15)


DIFFERENT: dict[str, dict[str, Any]] = {
    "answers": {"classes.b.workload": OTHER},
    "arrivals": {"classes.b.workload.arrivals": {"kind": "gamma", "squared_cv": 4.0}},
    "promise": {"classes.b.slo": {"ttft_s": 8.0}},
    "homes": {**BOTH_WAYS, "classes.b.sites": {"local": 0.5, "remote": 0.5}},
    "pools": {"pools.near.classes": ["a", "c"]},
    "times of day": {"periods": {"day": {"by_class": {"b": 2.0}}, "night": {}}},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_class_that_differs_is_planned_for_itself(what: str) -> None:
    scenario = cut(DIFFERENT[what])
    assert alike_classes(scenario) == (("a", "c"), ("b",))
    assert [[m.name for m in c.members] for c in planning_problem(scenario).classes] == [["a", "c"], ["b"]]


def test_work_is_counted_as_its_queues_see_it_of_the_class_that_promises_a_ttft() -> None:
    """The rule of the mean length is one of the other class alone, whose waits nobody asks for."""
    rules = "mean-length", "expected-work"
    scenarios = [cut({"capacity_rule": rule, "classes.b.slo": {"ttft_s": 6.0}}) for rule in rules]
    problems = [planning_problem(scenario) for scenario in scenarios]
    for q, stream in enumerate(problems[0].streams):
        (arc,) = problems[0].arcs[q]["short"]
        mean, exact = (NetworkLoads(p).work_s(q, arc, "short", point_cell(9000.0)) for p in problems)
        assert (mean == exact) == (problems[0].classes[stream.request_class].name == "b")


def test_a_class_that_fails_by_luck_tightens_the_promise_of_those_like_it() -> None:
    scenario = cut({"slo": {"ttft_s": 8.0, "tpot_ms": 40.0}, "classes.b.slo": {"ttft_s": 6.0}})
    last = LatencyTargets({"a": 8.0, "b": 6.0, "c": 8.0}, {"a": 40.0, "c": 40.0}, 1.0, 1.0)
    broken = Promise.model_construct(
        metric="ttft_p90_s", limit=8.0, executed=10.0, ci_low=9.5, ci_high=10.5, request_class="c", period=None
    )
    found = tightened(scenario, last, [broken], {"a": 1.0, "b": 1.0, "c": 1.0})
    assert found.ttft_s["a"] == found.ttft_s["c"] < 8.0
    assert found.ttft_s["b"] == 6.0
    assert found.tpot_ms == last.tpot_ms


def test_pools_of_the_parts_are_those_of_the_whole() -> None:
    one, parts = planning_problem(small_with({})), planning_problem(cut({}))
    for pool, same in zip(parts.pools, one.pools, strict=True):
        assert pool.max_instances == same.max_instances
        assert pool.classes == same.classes == (0,)


# Pools and periods

DOUBLED = {"pools.again": {"site": "local", "hardware": HOME, "role": "prefill"}}
UNUSED: dict[str, Any] = {
    "models.other": {"profile": "qwen3-235b"},
    "pools.other-prefill": {"site": "local", "hardware": HOME, "role": "prefill", "model": "other"},
    "pools.other-decode": {"site": "local", "hardware": HOME, "role": "decode", "model": "other"},
    "sites.nowhere": {},
    "links.to-nowhere": {"from": "local", "to": "nowhere", "capacity_gbps": 10, "usd_per_hour": 5},
}
MORE = {"a pool twice": DOUBLED, "what nothing asks for": UNUSED}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("name", ["most", "cheapest with a promise", "least wait"])
def test_what_adds_nothing_changes_no_plan(name: str, more: str) -> None:
    whole, _ = plans(name)
    found = sketch(small_with({**QUESTIONS[name], **MORE[more]}))
    sizes = {p.name: (p.n_instances, p.offered_req_per_s) for p in found.pools}
    assert sizes == dict.fromkeys(sizes, (0, 0)) | {p.name: (p.n_instances, p.offered_req_per_s) for p in whole.pools}
    assert (found.bound, found.threshold_tokens) == (whole.bound, whole.threshold_tokens)


def test_a_pool_twice_with_a_limit_of_its_own_is_two_pools() -> None:
    limited = {**DOUBLED, "pools.near.max_instances": 1, "pools.again.max_instances": 1}
    found = sketch(small_with({**limited, "sites.remote.accelerators": {FAST: 0}}))
    assert {p.name: p.n_instances for p in found.pools if p.role == "prefill"} == {"fast": 0, "near": 1, "again": 1}


DAY = {"objective": "min-cost", "demand_req_per_s": 2.0, "slo": {"ttft_s": 8.0}}
HOURS = {f"h{i:02d}": {"hours": 1.0, "demand": 1.5 if 8 <= i < 20 else 0.5} for i in range(24)}


def test_hours_in_which_the_same_arrives_are_one_period() -> None:
    two = {"night": {"hours": 12.0, "demand": 0.5}, "day": {"hours": 12.0, "demand": 1.5}}
    coarse, fine = sketch(small_with({**DAY, "periods": two})), sketch(small_with({**DAY, "periods": HOURS}))
    assert [p.n_instances for p in fine.pools] == [p.n_instances for p in coarse.pools]
    assert fine.cost.usd_per_hour == pytest.approx(coarse.cost.usd_per_hour, rel=1e-6)
    assert [(p.name, p.hours) for p in fine.periods] == [(name, 1.0) for name in HOURS]
    known = {p.name: p for p in coarse.periods}
    for period in fine.periods:
        like = known["day" if HOURS[period.name]["demand"] > 1 else "night"]
        assert period.demand_req_per_s == pytest.approx(like.demand_req_per_s)
        assert period.latency == like.latency


def test_hours_of_a_pool_that_is_rented_by_them_stay_apart() -> None:
    rented = planning_problem(small_with({**DAY, "periods": HOURS, "pools.near.rent": "by-period"}))
    assert len(rented.periods) == 24
    assert len(planning_problem(small_with({**DAY, "periods": HOURS})).periods) == 2
