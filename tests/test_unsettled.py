"""Runs that keep their promises and have not settled: a step of capacity or two follows, and no stricter promise."""

from types import SimpleNamespace
from typing import Any

import pytest

from planner.promises import tighten
from planner.promises.targets import HEADROOM, LatencyTargets, as_asked
from planner.results.certified import Promise
from tests.builders import small_with

SCENARIO = small_with({"objective": "min-cost", "demand_req_per_s": 2.0, "slo": {"ttft_s": 2.0}})


def promise(high: float, decided: bool = False) -> Promise:
    return Promise(
        metric="ttft_p90_s",
        limit=2.0,
        executed=1.0,
        ci_low=0.9,
        ci_high=high,
        allowed=0.0,
        holds=False,
        decided=decided,
    )


def attempt(targets: LatencyTargets, *unkept: Promise) -> Any:
    return SimpleNamespace(targets=targets, unkept=unkept)


@pytest.mark.parametrize(("n", "is_more"), [(1, True), (2, True), (3, False)])
def test_capacity_is_added_twice_and_then_a_longer_run_must_decide(n: int, is_more: bool) -> None:
    search: Any = SimpleNamespace(scenario=SCENARIO)
    asked = as_asked(SCENARIO)
    found = tighten._tightened(search, [attempt(asked, promise(1.1))] * n)
    assert (found is not None) == is_more
    if found is not None:
        assert (found.ttft_s, found.demand_factor) == (asked.ttft_s, asked.demand_factor * HEADROOM)


@pytest.mark.parametrize("one", [promise(2.1), promise(1.1, decided=True)])
def test_an_interval_that_reaches_the_limit_or_a_broken_promise_is_another_case(one: Promise) -> None:
    search: Any = SimpleNamespace(scenario=SCENARIO)
    assert not tighten._is_unsettled(search, attempt(as_asked(SCENARIO), one))
