"""Prices of one more unit, where rates and times follow from sizes by a line."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from planner.optimizer import Problem, sensitivity
from planner.optimizer.formulation import Sizing
from planner.optimizer.goodput import GAP
from planner.optimizer.sensitivity import bottlenecks, sweep
from tests.test_optimizer_evaluation import planned
from tests.test_optimizer_routed_capacity import SIZES, of, work_s

WORTH = {"fast": 0.5, "near": 0.25, "decode": 0.0}
"""What an instance adds, and a Gbps or a millisecond."""
GBPS, MS = 0.125, 0.004


def gain(problem: Problem, sizing: Sizing) -> float:
    """What sizes and a promise have over those of the plan."""
    more = sum(w * (n - m) for w, n, m in zip(WORTH.values(), sizing.n_instances, SIZES, strict=True))
    gbps = problem.links[0].gbps(sizing.n_ports[0]) - 100.0
    (spec,) = problem.classes
    return more + GBPS * gbps + MS * 1000 * ((spec.ttft_s or 5.0) - 5.0)


def named(found: Any) -> list[tuple[str, float, str]]:
    return [(one.constraint, pytest.approx(one.shadow_price), one.unit) for one in found]


def test_prices_are_what_one_more_adds_to_the_highest_rate_the_greatest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "most_of_sizes", lambda problem, sizing, _: 4.0 + gain(problem, sizing))
    problem, *_ = of()
    assert named(bottlenecks(problem, planned(problem))) == [
        ("pools.fast.n_instances", 0.5, "req/s per instance"),
        ("pools.near.n_instances", 0.25, "req/s per instance"),
        ("links.wan.capacity_gbps", 0.125, "req/s per Gbps"),
    ]


def test_under_a_promise_prices_are_of_the_goodput_and_a_later_promise_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What adds less than twice the gap to which the goodput is known is not told."""

    def best_goodput(problem: Problem, sizing: Sizing, limit: float, least: float, threshold: float) -> Any:  # noqa: ARG001
        assert least >= 4.0
        return SimpleNamespace(rate=4.0 + gain(problem, sizing))

    monkeypatch.setattr(sensitivity, "best_goodput", best_goodput)
    problem, *_ = of(**{"slo.ttft_s": 5.0})
    solution = replace(planned(problem), goodput=4.0)
    assert named(bottlenecks(problem, solution)) == [
        ("pools.fast.n_instances", 0.5, "req/s per instance"),
        ("pools.near.n_instances", 0.25, "req/s per instance"),
        ("links.wan.capacity_gbps", 0.125, "req/s per Gbps"),
        ("slo.ttft_s", MS, "req/s per ms"),
    ]
    monkeypatch.setitem(WORTH, "near", 1.9 * GAP * 4.0)
    assert "pools.near.n_instances" not in [one.constraint for one in bottlenecks(problem, solution)]
    monkeypatch.setitem(WORTH, "near", 2.1 * GAP * 4.0)
    assert "pools.near.n_instances" in [one.constraint for one in bottlenecks(problem, solution)]


def test_where_the_least_ttft_is_sought_prices_are_what_one_more_takes_off_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def least_ttft(problem: Problem, sizing: Sizing, demand: float, limit: float) -> Any:  # noqa: ARG001
        assert demand == 0.5
        return SimpleNamespace(ttft_s=9.0 - gain(problem, sizing))

    monkeypatch.setattr(sensitivity, "least_ttft", least_ttft)
    problem, *_ = of(objective="min-ttft", demand_req_per_s=0.5)
    assert named(bottlenecks(problem, replace(planned(problem), objective=9.0))) == [
        ("pools.fast.n_instances", 0.5, "s per instance"),
        ("pools.near.n_instances", 0.25, "s per instance"),
        ("links.wan.capacity_gbps", 0.125, "s per Gbps"),
    ]


def test_a_sweep_has_the_limit_of_every_pool_and_link_at_every_threshold_and_the_plan_s_among_them() -> None:
    problem, *_ = of()
    found = sweep(problem, planned(problem))
    assert found is not None
    assert [*found.threshold_tokens][:-1] == sorted(found.threshold_tokens[:-1])
    at = found.threshold_tokens.index(5000.0)
    for name, n, s in zip(("fast", "near", "decode"), SIZES, work_s(problem), strict=True):
        assert found.limits_req_per_s[name][at] == pytest.approx(n / s)
    assert found.offload_fraction[at] == pytest.approx(0.25)
