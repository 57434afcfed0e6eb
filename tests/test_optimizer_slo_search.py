"""Searches over sizes under a promise: sizes in their order, each settled once, until nothing can be better."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from planner.errors import UndecidedError
from planner.optimizer import slo_search
from planner.optimizer.formulation import Sizing
from planner.optimizer.goodput import GAP
from planner.optimizer.slo_search import UNDECIDED, _fastest, _filled, _least_ttft, search
from tests.builders import problem_of

FLEETS = {(1,): 4.0, (2,): 3.0, (3,): 2.5, (4,): 3.5}
"""Sizes in their order, with the TTFT that each attains at the least [s], of which the bound is a tenth less."""


def sizing(n: tuple[int, ...]) -> Sizing:
    return Sizing(n, ())


def least(monkeypatch: pytest.MonkeyPatch, n_settled: int = 9, **changes: Any) -> Any:
    """The plan of the least TTFT, its sizes, its TTFT and its bound, where so many sizes are looked at."""
    problem = problem_of({"objective": "min-ttft", "demand_req_per_s": 0.5, **changes})

    def serving(_: Any, demand: float, fathomed: list[Sizing], deadline: float) -> Sizing | None:  # noqa: ARG001
        assert demand == 0.5
        left = [n for n in FLEETS if sizing(n) not in fathomed]
        return UNDECIDED if len(fathomed) == n_settled else sizing(left[0]) if left else None

    def up_to(_: Any, size: Sizing, demand: float, deadline: float, most: float) -> Any:  # noqa: ARG001
        assert demand == 0.5
        ttft_s = FLEETS[size.n_instances]
        return size, SimpleNamespace(ttft_s=ttft_s if ttft_s < most else inf, bound_s=0.9 * ttft_s)

    monkeypatch.setattr(slo_search, "_serving", serving)
    monkeypatch.setattr(slo_search, "least_ttft_up_to", up_to)
    monkeypatch.setattr(slo_search, "_filled", lambda _, size: size)
    monkeypatch.setattr(slo_search, "filled_with_budget", lambda _, size: size)
    monkeypatch.setattr(slo_search, "floor_s", lambda *_: 1.0)
    monkeypatch.setattr(
        slo_search, "_least_ttft_solution", lambda _, size, found, bound: (size.n_instances, found.ttft_s, bound)
    )
    return _least_ttft(problem, inf)


def test_of_all_sizes_that_serve_the_demand_the_least_ttft_is_the_plan_and_the_least_bound_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert least(monkeypatch) == ((3,), 2.5, pytest.approx(2.25))


def test_where_not_all_are_looked_at_the_bound_is_that_of_every_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert least(monkeypatch, 2) == ((2,), 3.0, 1.0)
    with pytest.raises(UndecidedError):
        least(monkeypatch, 0)


@pytest.mark.parametrize(("ttft_s", "expected"), [(3.2, ((3,), 2.5)), (2.0, None)])
def test_a_ttft_that_is_promised_beside_is_kept(ttft_s: float, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = least(monkeypatch, **{"slo.ttft_s": ttft_s})
    assert (found and found[:2]) == expected


@pytest.mark.parametrize(
    ("rates", "bounds", "best", "proven"),
    [
        ((2.0, 2.5, 1.0), (3.0, 2.8, 2.5), 2.5, 2.6),
        ((2.0, 2.5, 1.0), (3.0, 2.8, 2.7), 2.5, 2.6),
        ((2.9, 2.5, 1.0), (3.0, 2.9, 2.7), 2.9, 3.0),
        ((0.0, 0.0, 0.0), (3.0, 2.0, 1.0), None, None),
    ],
)
def test_sizes_are_looked_at_until_none_left_could_serve_more_under_the_promise(
    rates: tuple[float, ...],
    bounds: tuple[float, ...],
    best: float | None,
    proven: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sizes by the rate that they would serve without the promise; under it each is proven to 0.1 above its rate."""
    problem = problem_of({"slo.ttft_s": 5.0})

    def proposed(_: Any, goal: Any, deadline: float, known: Any) -> Any:  # noqa: ARG001
        k = len(goal.excluded)
        return SimpleNamespace(bound=bounds[k], sizing=sizing((k,))) if k < len(bounds) else None

    def up_to(_: Any, size: Sizing, deadline: float, most: float) -> Any:  # noqa: ARG001
        rate = rates[size.n_instances[0]]
        return 1000.0, SimpleNamespace(rate=rate, bound=rate + 0.1)

    def solution(_: Any, at: float, found: Any, objective: float) -> Any:  # noqa: ARG001
        return SimpleNamespace(objective=objective, bound=inf)

    monkeypatch.setattr(slo_search, "proposed", proposed)
    monkeypatch.setattr(slo_search, "best_goodput_up_to", up_to)
    monkeypatch.setattr(slo_search, "_filled", lambda _, size: size)
    monkeypatch.setattr(slo_search, "solution", solution)
    monkeypatch.setattr(slo_search, "_proven", lambda one, bound: (one.objective, max(bound, one.objective)))
    found = _fastest(problem, inf)
    assert found == (None if best is None else (best, pytest.approx(proven, rel=2 * GAP)))


def test_sizes_are_filled_with_what_limits_and_stock_leave_room_for() -> None:
    stock = {"sites.remote.accelerators": {"h100-sxm": 40}, "sites.local.accelerators": {"h200-sxm": 96}}
    free = problem_of({**stock, "pools.decode.max_instances": 7})
    assert _filled(free, Sizing((1, 2, 3), ((0,),))) == Sizing((5, 9, 3), ((1,),))
    limited = problem_of({**stock, "pools.near.max_instances": 4, "pools.decode.max_instances": 7})
    assert _filled(limited, Sizing((1, 2, 3), ((0,),))) == Sizing((5, 4, 7), ((1,),))
    budget = problem_of({**stock, "budget_usd_per_hour": 500.0})
    assert _filled(budget, Sizing((1, 2, 3), ((0,),))) == Sizing((1, 2, 3), ((0,),))


def test_a_promise_that_an_idle_fleet_breaks_has_no_plan() -> None:
    assert search(problem_of({"slo.ttft_s": 0.2}), 1.0) is None
