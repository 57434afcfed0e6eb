"""The least TTFT by bisection, where it is known from which TTFT on there is a plan, and of which nobody finds out."""

from math import inf
from time import monotonic
from typing import Any

import pytest

from planner.errors import InputError, UndecidedError
from planner.optimizer.network import ttft_bisection
from planner.optimizer.network.ttft_bisection import (
    GAP,
    LONGEST_TTFT_S,
    SHORTEST_TTFT_S,
    LeastTtftPlan,
    least_ttft_by_bisection,
    with_ttft_slo,
)
from tests.builders import problem_of

ASKED: dict[str, Any] = {"objective": "min-ttft", "demand_req_per_s": 1.0}


def found(monkeypatch: pytest.MonkeyPatch, least_s: float, unclear_s: tuple[float, float] = (0.0, 0.0)) -> Any:
    """What bisection finds where plans attain so many seconds and longer; plans are the seconds they were found for."""
    tried: list[float] = []

    def network_search(problem: Any, time_limit_s: float, gap: float) -> Any:  # noqa: ARG001
        (ttft_s,) = {c.ttft_s for c in problem.classes}
        assert problem.scenario.objective == "min-cost"
        tried.append(ttft_s)
        if unclear_s[0] < ttft_s < unclear_s[1]:
            raise UndecidedError("nothing was found")
        return ttft_s if ttft_s >= least_s else None

    monkeypatch.setattr(ttft_bisection, "network_search", network_search)
    answer = least_ttft_by_bisection(problem_of(ASKED), 60.0)
    assert len(tried) < 40
    return answer


@pytest.mark.parametrize("least_s", [0.002, 0.5, 3.0, 3000.0])
def test_the_least_ttft_is_enclosed_within_the_gap(least_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = found(monkeypatch, least_s)
    assert answer.bound_s < least_s <= answer.ttft_s
    assert answer.ttft_s <= answer.bound_s * (1 + GAP)
    assert answer.solution == answer.ttft_s, "the plan is that of the shortest"
    assert {c.ttft_s for c in answer.problem.classes} == {answer.ttft_s}
    assert answer.gap == pytest.approx(1 - answer.bound_s / answer.ttft_s)


def test_ttfts_of_which_nothing_is_found_out_lie_between_what_is_attained_and_what_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside them it is looked on both sides, as close as elsewhere."""
    answer = found(monkeypatch, 2.0, (1.0, 4.0))
    assert answer.ttft_s == pytest.approx(4.0, rel=GAP)
    assert answer.bound_s == pytest.approx(1.0, rel=GAP)
    assert answer.ttft_s >= 4.0
    assert answer.bound_s <= 1.0


def test_without_a_plan_at_the_longest_ttft_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, inf) is None
    answer = found(monkeypatch, LONGEST_TTFT_S)
    assert (answer.ttft_s, answer.bound_s >= LONGEST_TTFT_S / (1 + GAP)) == (LONGEST_TTFT_S, True)
    assert found(monkeypatch, 0.0).bound_s == SHORTEST_TTFT_S


def test_time_that_is_up_leaves_the_best_plan_so_far() -> None:
    problem = problem_of(ASKED)
    best, bracket = ttft_bisection._bisected(lambda _: pytest.fail("time is up"), problem, monotonic())  # type: ignore[arg-type]
    assert best is problem  # type: ignore[comparison-overlap]
    assert (bracket.attained_s, bracket.missed_s) == (LONGEST_TTFT_S, SHORTEST_TTFT_S)


def test_a_promise_of_a_class_stays_and_the_others_get_one() -> None:
    parts = {
        name: {
            "share": 0.5,
            "workload": {
                "lengths": {"kind": "constant", "tokens": n},
                "output_lengths": {"kind": "constant", "tokens": 50},
            },
        }
        for name, n in (("chat", 1000), ("code", 3000))
    }
    both = problem_of({**ASKED, "workload": None, "classes": parts, "classes.chat.slo": {"ttft_s": 9.0}})
    assert sorted(c.ttft_s or 0.0 for c in with_ttft_slo(both, 2.5).classes) == [2.5, 9.0]
    everyone = problem_of({**ASKED, "objective": "min-cost", "slo": {"ttft_s": 9.0}})
    with pytest.raises(InputError, match="nothing to shorten"):
        least_ttft_by_bisection(everyone, 1.0)
    assert LeastTtftPlan(both, None, 2.0, 1.5).gap == 0.25  # type: ignore[arg-type]
