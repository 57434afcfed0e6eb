"""Fleets near one that keeps its promise: which are looked at, and how much laxer their promise is."""

from types import SimpleNamespace
from typing import Any

import pytest

from planner.studies.neighbours import _sizes, lax
from tests.builders import small_with


@pytest.mark.parametrize(("percentile", "error"), [(50.0, 0.26), (75.0, 0.32), (90.0, 0.32), (99.0, 0.57)])
def test_a_promise_is_laxer_by_the_error_of_its_prediction(percentile: float, error: float) -> None:
    scenario = small_with({"slo": {"ttft_s": 5.0, "ttft_percentile": percentile}})
    search: Any = SimpleNamespace(scenario=scenario)
    assert list(lax(search).ttft_s.values()) == pytest.approx([5.0 * (1 + error)])


def pool(name: str, usd: float | None, low: int = 0, high: int = 9, key: str | None = None) -> Any:
    return SimpleNamespace(name=name, key=key or name, usd_per_hour=usd, min_instances=low, max_instances=high)


def near(pools: list[Any], sizes: dict[str, int]) -> list[dict[str, int]]:
    plan = SimpleNamespace(pools=[SimpleNamespace(name=name, n_instances=n) for name, n in sizes.items()])
    kept: Any = SimpleNamespace(stated=SimpleNamespace(pools=pools), plan=plan)
    return [{key.split(".")[1]: n for key, n in one.items()} for one in _sizes(kept)]


def test_one_instance_less_or_swapped_for_a_cheaper_one_is_near() -> None:
    pools = [pool("dear", 30.0), pool("cheap", 10.0)]
    assert near(pools, {"dear": 2, "cheap": 3}) == [
        {"dear": 2, "cheap": 3},
        {"dear": 1, "cheap": 3},
        {"dear": 1, "cheap": 4},
        {"dear": 2, "cheap": 2},
    ]


def test_limits_of_sizes_are_kept_and_sizes_that_are_stated_are_left_alone() -> None:
    least = [pool("dear", 30.0, low=2), pool("cheap", 10.0, high=3)]
    assert near(least, {"dear": 2, "cheap": 3}) == [{"dear": 2, "cheap": 3}, {"dear": 2, "cheap": 2}]
    full = [pool("dear", 30.0), pool("cheap", 10.0, high=3)]
    assert {"dear": 1, "cheap": 4} not in near(full, {"dear": 2, "cheap": 3})
    fixed = [pool("dear", 30.0), pool("fixed", 10.0, low=3, high=3)]
    assert near(fixed, {"dear": 2, "fixed": 3}) == [{"dear": 2}, {"dear": 1}]
    alike = [pool("dear", 30.0), pool("also", 30.0)]
    assert near(alike, {"dear": 1, "also": 1}) == [
        {"dear": 1, "also": 1},
        {"dear": 0, "also": 1},
        {"dear": 1, "also": 0},
    ]
    laid_out = [pool("dear", 30.0), pool("dear-tp4", 10.0, key="dear")]
    assert near(laid_out, {"dear": 1, "dear-tp4": 1}) == [{"dear": 1}, {"dear": 0}]
