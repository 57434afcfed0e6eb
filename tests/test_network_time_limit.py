"""A command has one time limit: what it does after the plan shares what the plan leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from planner.errors import InfeasibleError
from planner.optimizer import network_planned, planning_problem
from planner.optimizer.network import answer, time_limit
from planner.optimizer.network.search import network_search
from tests.builders import FAST, GPUS, HOME, small_with

LIMIT_S = 60.0
CHANGES: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 3.0,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
    "spare": {"survive": ("instance",)},
}


class Clock:
    """A clock that steps put forward by all the time they may take."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.taken_s: list[float] = []

    def taking(self, result: object, n_times: int = 1) -> Callable[..., Any]:
        """A step that uses its limit up, so many times, and returns something."""

        def step(*given: Any, **_: Any) -> Any:
            self.taken_s.append(n_times * float(given[-1]))
            self.now_s += self.taken_s[-1]
            return result

        return step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time_limit, "monotonic", lambda: made.now_s)
    return made


def test_plan_baselines_spare_and_shadow_prices_end_within_one_limit(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = planning_problem(small_with(CHANGES))
    found = network_search(problem, 600.0, 0.5)
    monkeypatch.setattr(answer, "network_search", clock.taking(found))
    monkeypatch.setattr(answer, "baselines_of", clock.taking(((), [], True)))
    monkeypatch.setattr(answer, "spare_notes", clock.taking(()))
    monkeypatch.setattr(answer, "network_bottlenecks", clock.taking((), n_times=2))
    network_planned(problem, LIMIT_S)
    assert len(clock.taken_s) == 4
    assert min(clock.taken_s) > 0
    assert clock.now_s == pytest.approx(LIMIT_S)


def test_relaxations_of_what_cannot_be_done_have_what_the_search_leaves(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = planning_problem(small_with(CHANGES))
    monkeypatch.setattr(answer, "network_search", clock.taking(None))
    monkeypatch.setattr(answer, "infeasible_network", clock.taking(InfeasibleError("none", [])))
    with pytest.raises(InfeasibleError):
        network_planned(problem, LIMIT_S)
    assert clock.now_s == pytest.approx(LIMIT_S)
