"""What a plan promises beside its runs: at which load, by which period, and how many requests it has inside."""

from types import SimpleNamespace
from typing import Any

import pytest

from planner.results import Latency
from planner.studies import validation
from planner.studies.validation import _inside, _of_period, _share_of
from tests.test_report_records import LOADED, UNLOADED


def test_a_period_alone_is_held_against_its_own_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    fleet: Any = SimpleNamespace(name="the plan of the period")
    run: Any = SimpleNamespace(name="the run")

    def made(text: str, load: float, name: str, seen: Any) -> Any:
        asked.append((text, load, name))
        assert seen(run) == ["a pair"]
        return run

    def pairs(plan: Any, promised: Any, load: float, executed: Any) -> list[str]:
        assert (plan, promised, load) == (fleet, fleet, 1.0)
        assert executed.run is run
        return ["a pair"]

    def answer(to_run: Any, load: float, found: Any, executed: Any) -> Any:  # noqa: ARG001
        assert (load, found) == (1.0, ["a pair"])
        return SimpleNamespace(model_copy=lambda update: update)

    monkeypatch.setattr(validation, "pairs", pairs)
    monkeypatch.setattr(validation, "_validation", answer)
    to_run: Any = SimpleNamespace(planned=SimpleNamespace(plan=fleet), run=made)
    assert _of_period(to_run, "night") == {"period": "night"}
    assert asked == [("running night", 1.0, "night")]


@pytest.mark.parametrize(("latency", "expected"), [(LOADED, 3.0 * (2.6 + (137.5 - 1) * 0.025)), (UNLOADED, None)])
def test_requests_inside_are_the_rate_times_the_time_that_they_stay(latency: Latency, expected: float | None) -> None:
    """A quarter of them of 400 tokens and the rest of 50: 137.5 on average."""
    found: Any = SimpleNamespace(
        class_rates=lambda _: {"code": 0.75, "chat": 2.25}, output_tokens={"code": 400.0, "chat": 50.0}
    )
    promised: Any = SimpleNamespace(latency=latency, throughput_req_per_s=3.0)
    assert _inside(found, promised) == (None if expected is None else pytest.approx(expected))


def test_progress_of_a_part_goes_on_from_what_was_done_before() -> None:
    told: list[tuple[str, float]] = []
    for fraction in (0.0, 0.5, 1.0):
        _share_of(lambda text, done: told.append((text, done)), 0.25, 0.5, "x", fraction)
    assert told == [("x", 0.25), ("x", 0.5), ("x", 0.75)]
