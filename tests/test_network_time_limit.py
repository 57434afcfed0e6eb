"""A command has one time limit: what it does after the plan shares what the plan leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from planner.comparison import plan
from planner.comparison.baselines import Compared
from planner.comparison.infeasibility import TIME_SHARE
from planner.errors import InfeasibleError
from planner.optimizer import time_limit
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.search import network_search
from tests.builders import TWO_PERIODS, small_with

LIMIT_S = 60.0
CHANGES: dict[str, Any] = {**TWO_PERIODS, "spare": {"survive": ("instance",)}}


class Clock:
    """A clock that steps put forward by all the time they may take."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.taken_s: list[float] = []

    def taking(self, result: object, share: float = 1.0) -> Callable[..., Any]:
        """A step that uses a share of its limit, its last argument, and returns something."""

        def step(*given: Any, **_: Any) -> Any:
            return self._taken(share * float(given[-1]), result)

        return step

    def until(self, result: object) -> Callable[..., Any]:
        """A step that ends at its deadline, its last argument, and returns something."""

        def step(*given: Any, **_: Any) -> Any:
            return self._taken(float(given[-1]) - self.now_s, result)

        return step

    def _taken(self, seconds: float, result: object) -> Any:
        self.taken_s.append(seconds)
        self.now_s += seconds
        return result


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (time_limit, plan):
        monkeypatch.setattr(module, "work_s", lambda: made.now_s)
    return made


def test_plan_baselines_spare_and_shadow_prices_end_within_one_limit(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = planning_problem(small_with(CHANGES))
    found = network_search(problem, 600.0, 0.5)
    monkeypatch.setattr(plan, "best_solution", clock.taking(found))
    monkeypatch.setattr(plan, "baselines", clock.until(Compared((), (), frozenset(), frozenset())))
    monkeypatch.setattr(plan, "spare_notes", clock.until(()))
    monkeypatch.setattr(plan, "shadow_prices", clock.taking(()))
    plan.optimized(problem, LIMIT_S)
    assert len(clock.taken_s) == 4
    assert min(clock.taken_s) > 0
    assert clock.now_s == pytest.approx(LIMIT_S)


def test_ways_out_of_what_cannot_be_done_have_what_the_search_leaves(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = planning_problem(small_with(CHANGES))
    monkeypatch.setattr(plan, "best_solution", clock.taking(None))
    monkeypatch.setattr(plan, "infeasible", clock.taking(InfeasibleError("none", []), TIME_SHARE))
    with pytest.raises(InfeasibleError):
        plan.optimized(problem, LIMIT_S)
    assert 0.8 * LIMIT_S < clock.now_s <= LIMIT_S
