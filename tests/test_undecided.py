"""A promise inside the interval of a run is undecided: run on, told as it is, and never taken for broken."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import CheckFailedError, UndecidedError
from planner.executor.run_question import RunQuestion
from planner.promises import certify, verified
from planner.promises.outcomes import bounded_as_asked, promise_outcome
from planner.promises.period_results import PeriodResult, RunSettings
from planner.promises.slo_runs import cheaper_undecided, with_slo_run
from planner.promises.targets import as_asked
from planner.promises.tighten import Attempt, PlanCandidate, PromiseSearch, candidate, run
from planner.promises.verified import chosen_by_runs
from planner.report.phrases import throughput
from planner.results.certified import Promise
from planner.results.plan import Plan
from planner.results.run import Interval
from planner.scenario import Scenario
from tests.builders import GPUS, HOME, sketch, small_with
from tests.cpu_cost import cached

LIMIT_S = 6.0
FIXED = {
    "objective": "min-cost",
    "demand_req_per_s": 1.5,
    "pools.fast.n_instances": 2,
    "pools.near.n_instances": 3,
    "pools.decode.n_instances": 3,
    "routing.threshold_tokens": 11_000,
    "sites.local.accelerators": {HOME: 10 * GPUS},
}
"""A fleet that nothing can be changed of."""
FREE = {key: value for key, value in FIXED.items() if key != "pools.near.n_instances"}
"""The same with one pool of any size."""


def search_of(limit_s: float, sizes: dict[str, Any], requests: int = 20_000, most: int = 320_000) -> PromiseSearch:
    scenario = small_with({**sizes, "slo": {"ttft_s": limit_s}})
    return PromiseSearch(scenario, RunSettings(RunQuestion(requests, 1, most_requests=most), sees_rate=False), 60.0)


def a_fleet(limit_s: float) -> PlanCandidate:
    """The one fleet, which keeps what it may: the latency model, which may exclude it, is not asked."""
    lax = search_of(60.0, FIXED)
    return replace(candidate(lax, as_asked(lax.scenario)), as_run=search_of(limit_s, FIXED).scenario)


@cached
def met_s() -> float:
    """Its P90 in a long run."""
    return run(search_of(LIMIT_S, FIXED, 320_000), a_fleet(LIMIT_S)).promises[0].executed


def seen(executed_s: float, half_s: float) -> Promise:
    sure = Interval(low=executed_s - half_s, high=executed_s + half_s)
    return promise_outcome("ttft_p90_s", LIMIT_S, executed_s, sure, -1, 0.0)


KEPT, OPEN, BROKEN = seen(5.0, 0.5), seen(6.0, 0.05), seen(7.0, 0.5)


def as_run(one: PlanCandidate, *promises: Promise) -> Attempt:
    """A plan whose run came to that."""
    parts = {name: getattr(one, name) for name in PlanCandidate.__dataclass_fields__}
    return Attempt(**parts, results=(PeriodResult(None, 1.0, promises, (), (), 5_000, False),))


def runs_of(came: Callable[[int], Promise]) -> Callable[[PromiseSearch, PlanCandidate], Attempt]:
    """Runs that go by the instances of the pool that is free."""
    return lambda _, one: as_run(one, came(n_near(one)))


def n_near(one: PlanCandidate) -> int:
    return next(pool.n_instances for pool in one.plan.pools if pool.name == "near")


@pytest.mark.parametrize(("part", "times"), [(1.015, 8), (1.3, 2), (0.8, 2)])
def test_a_run_goes_on_while_the_promise_is_within_its_interval_and_no_longer(part: float, times: int) -> None:
    """A hundredth from the promise, 20,000 requests do not tell; far off, they do."""
    limit_s = part * met_s()
    one = run(search_of(limit_s, FIXED), a_fleet(limit_s))
    assert (one.is_kept, one.is_undecided) == (part > 1, False)
    n = one.results[0].n_requests
    assert n <= 20_000 * times if times == 2 else n >= 20_000 * times


def test_what_stays_undecided_is_said_to_be_and_is_not_called_optimal() -> None:
    limit_s = met_s()
    search = search_of(limit_s, FIXED, most=20_000)
    found = chosen_by_runs(search, a_fleet(limit_s))
    plan = with_slo_run(found.plan.plan, search.scenario, found.plan, found.seed, 1, found.because)
    assert plan.slo_run is not None
    assert (plan.slo_run.holds, plan.slo_run.decided, plan.slo_run.outcome) == (False, False, "undecided")
    assert plan.slo_run.because == "it lies within the interval of the run"
    assert plan.classes[0].slo_run == plan.slo_run
    assert plan.status == "feasible"


def test_an_undecided_fleet_is_printed_rather_than_a_broken_one_and_one_that_keeps_rather_than_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = search_of(LIMIT_S, FREE)
    asked = candidate(search, as_asked(search.scenario))
    n = n_near(asked)
    for came, outcome in (
        (lambda k: BROKEN if k == n else OPEN, "undecided"),
        (lambda k: OPEN if k == n else KEPT, "kept"),
        (lambda _: BROKEN, "not kept"),
    ):
        fake = runs_of(came)
        monkeypatch.setattr("planner.promises.tighten.run", fake)
        monkeypatch.setattr(verified, "run", fake)
        monkeypatch.setattr(verified, "run_again", lambda search, one, _, fake=fake: fake(search, one))
        again = search_of(LIMIT_S, FREE)
        found = chosen_by_runs(again, asked)
        plan = with_slo_run(found.plan.plan, again.scenario, found.plan, found.seed, 1, found.because)
        assert plan.slo_run is not None
        assert plan.slo_run.outcome == outcome
        notes = list(cheaper_undecided(again.tried, [one.badness for one in again.tried], found.plan.badness))
        assert ["may keep the promise too" in note for note in notes] == ([True] if outcome == "kept" else [])


def test_a_plan_to_certify_that_no_run_decides_is_undecided_though_a_later_one_is_broken() -> None:
    search = search_of(LIMIT_S, FREE)
    one = candidate(search, as_asked(search.scenario))
    tried = [as_run(one, OPEN), as_run(one, BROKEN)]
    assert isinstance(certify._no_plan(search.scenario, tried, ""), UndecidedError)
    assert isinstance(certify._no_plan(search.scenario, tried[1:], ""), CheckFailedError)


@pytest.mark.parametrize(("came", "code"), [(KEPT, 0), (OPEN, 5), (BROKEN, 6)])
def test_the_command_exits_by_what_came_of_the_promise_and_prints_the_plan(
    came: Promise, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    search = search_of(LIMIT_S, FIXED)
    one = as_run(candidate(search, as_asked(search.scenario)), came)

    def planned(scenario: Scenario, *_: Any) -> Plan:
        return with_slo_run(one.plan, scenario, one, 1, 1, None if came.holds else "for a reason")

    monkeypatch.setattr("planner.promises.verified.verified_plan", planned)
    path = tmp_path / "small.json"
    for arguments in (["--format", "json"], []):
        found = CliRunner().invoke(app, ["optimize", "prfaas-paper", "--set", "slo.ttft_s=6", *arguments])
        error = found.exception
        assert getattr(error, "exit_code", found.exit_code) == code, error
        path = path if arguments else path.with_suffix(".txt")
        path.write_text(found.stdout, encoding="utf-8")
    run_of_it = json.loads((tmp_path / "small.json").read_text(encoding="utf-8"))["slo_run"]
    assert (run_of_it["holds"], run_of_it["decided"]) == (came.holds, came.decided)
    first = (tmp_path / "small.txt").read_text(encoding="utf-8").splitlines()[1]
    assert ("promise" in first) == (code != 0)


def test_a_goodput_that_nothing_has_run_is_said_to_be_predicted() -> None:
    search = search_of(LIMIT_S, FIXED)
    plan = candidate(search, as_asked(search.scenario)).plan
    for rate, is_run in ((1.5, False), (2.5, True)):
        at = plan.model_copy(update={"throughput_req_per_s": rate, "goodput_req_per_s": 2.5})
        assert ("up to 2.50 predicted" in throughput(at)) is not is_run


@pytest.mark.parametrize(
    ("part", "gap", "bound", "status"),
    [(0.5, 0.5, 0.5, "feasible"), (1.0, 0.0, 1.0, "optimal"), (1.5, 0.0, 1.0, "optimal")],
)
def test_a_plan_of_a_stricter_promise_stands_beside_the_bound_of_the_stated_one(
    part: float, gap: float, bound: float, status: str
) -> None:
    """A bill that runs bear out may also lie below what the model of waits proves: then it is its own bound."""
    plan = sketch(small_with({"objective": "min-cost", "demand_req_per_s": 1.0}))
    usd = plan.cost.usd_per_hour
    assert usd is not None
    found = bounded_as_asked(plan, part * usd)
    assert (found.gap, found.bound, found.status) == (pytest.approx(gap), pytest.approx(bound * usd), status)
