"""Plans with a colocated pool are run before they are printed, and validated."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.executor import RunQuestion
from planner.results import Plan, Promise
from planner.scenario import Scenario, load_scenario
from planner.studies import together
from planner.studies.certify import certified_plan
from planner.studies.handed import as_asked
from planner.studies.kept import kept_plan
from planner.studies.together import Tried
from planner.studies.validation import validate
from tests.colocated_cases import CHAT

PRICES = """
[prices]
h100-sxm = { usd_per_accelerator_hour = 2.0, basis = "assumed" }
h200-sxm = { usd_per_accelerator_hour = 2.5, basis = "assumed" }
"""
QUESTION = RunQuestion(20_000, n_replications=4)


def asked(slo: dict[str, Any] | None = None, stays: bool = True) -> Scenario:
    """Chat for 20 requests a second at the least cost; whether all prompts stay."""
    head = 'name = "chat"\nobjective = "min-cost"\ndemand_req_per_s = 20.0'
    text = CHAT.replace('name = "chat"', head).replace("[pools.long]", "tokens_per_pass = 2048\n\n[pools.long]")
    text = text.replace("round_trip_ms = 10", "round_trip_ms = 10\nusd_per_hour = 1.0")
    if stays:
        text = text[: text.index("[pools.long]")]
    return load_scenario(text + PRICES, "chat.toml", Path()).varied({} if slo is None else {"slo": slo})


def kept(slo: dict[str, Any]) -> Plan:
    return kept_plan(asked(slo), QUESTION, (), 120.0)


def test_a_promise_is_run_before_it_is_printed() -> None:
    plan = kept({"ttft_s": 1.0, "ttft_percentile": 90.0, "tpot_ms": 40.0})
    run = plan.slo_run
    assert run is not None
    assert run.basis == "executed"
    assert run.holds
    assert run.tpot is not None
    assert run.tpot.holds
    assert run.executed_s is not None
    assert run.executed_s <= 1.0
    assert run.tpot.executed_s == pytest.approx(run.tpot.predicted_s, rel=0.1)
    assert plan.classes[0].slo_run == run


def test_a_certified_plan_keeps_rate_and_times_in_its_runs() -> None:
    plan = certified_plan(asked({"ttft_s": 2.0, "tpot_ms": 60.0}), RunQuestion(20_000, most_requests=80_000))
    assert plan.certified is not None
    assert {one.metric for one in plan.certified.promises} >= {"throughput_req_per_s", "ttft_p90_s", "tpot_mean_s"}
    assert all(one.holds for one in plan.certified.promises)
    assert plan.certified.req_per_s == pytest.approx(20.0)


def test_validation_holds_what_is_predicted_beside_what_is_run() -> None:
    """At a load at which prompts seldom meet, so that the model of waits is not what is tested."""
    scenario = asked({"ttft_s": 1.0, "ttft_percentile": 90.0, "tpot_ms": 30.0}).varied({"pools.both.n_instances": 3})
    found = {
        check.metric: check for check in validate(scenario, replace(QUESTION, load=0.3), time_limit_s=120.0).checks
    }
    for metric in ("throughput_req_per_s", "offload_fraction"):
        assert found[metric].holds
    for metric in ("max_throughput_req_per_s", "utilization.both", "tpot_mean_s"):
        assert found[metric].relative_error == pytest.approx(0.0, abs=0.1)
    for metric in ("ttft_mean_s", "ttft_p90_s"):
        assert found[metric].relative_error == pytest.approx(0.0, abs=0.1)


def broken(limit: float, executed: float) -> Promise:
    return Promise(
        metric="ttft_p90_s",
        limit=limit,
        executed=executed,
        ci_low=executed,
        ci_high=executed,
        allowed=0.0,
        holds=executed <= limit,
        decided=True,
    )


def test_a_promise_that_runs_break_is_handed_stricter_until_they_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are half as long again as the promise that the optimizer was handed."""
    scenario = asked({"ttft_s": 1.0, "ttft_percentile": 90.0})

    def planned(_: Scenario, handed: Any, *__: Any) -> Tried:
        return Tried(handed, None, None)  # type: ignore[arg-type]

    def run(_: Scenario, one: Tried, __: Any) -> Tried:
        seen = broken(1.0, 1.5 * one.handed.ttft_s["all"])
        return replace(one, seen=(SeenPromise((seen,)),))  # type: ignore[arg-type]

    monkeypatch.setattr(together, "_planned", planned)
    monkeypatch.setattr(together, "_run", run)
    judge = together.Judge(QUESTION)
    tried = list(together._rounds(scenario, planned(scenario, as_asked(scenario)), judge, 1.0))
    handed = [one.handed.ttft_s["all"] for one in tried]
    assert handed[0] == 1.0
    assert handed[1] == pytest.approx(0.995 / 1.5)
    assert tried[1].is_kept
    assert len(tried) <= together.MOST_ROUNDS
    assert max(h for h, one in zip(handed, tried, strict=True) if one.is_kept) >= 0.995 / 1.5


class SeenPromise:
    """A period of which only a promise matters."""

    def __init__(self, promises: tuple[Promise, ...]) -> None:
        self.promises = promises


@pytest.mark.parametrize(("enough", "looked_at"), [(11, [12, 11]), (14, [12, 13]), (12, [12, 11])])
def test_fleets_between_one_that_breaks_its_promise_and_one_that_keeps_it_are_run(
    enough: int, looked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = asked({"ttft_s": 1.0, "ttft_percentile": 90.0})

    def fleet(n: int) -> Tried:
        pool = SimpleNamespace(n_instances=n, accelerators_per_instance=8, layout="tp=8", tokens_per_pass=2048)
        claimed = SimpleNamespace(pools=(pool,), cost=SimpleNamespace(usd_per_hour=16.0 * n))
        found = SimpleNamespace(question=SimpleNamespace(scenario=scenario))
        return Tried(as_asked(scenario), found, claimed)  # type: ignore[arg-type]

    def planned(sized: Scenario, *_: Any) -> Tried:
        n = sized.pools["both"].n_instances
        assert isinstance(n, int)
        return fleet(n)

    def run(_: Scenario, one: Tried, __: Any) -> Tried:
        executed = 0.9 if one.claimed.pools[0].n_instances >= enough else 1.5
        return replace(one, seen=(SeenPromise((broken(1.0, executed),)),))  # type: ignore[arg-type]

    monkeypatch.setattr(together, "_planned", planned)
    monkeypatch.setattr(together, "_run", run)
    judge = together.Judge(QUESTION)
    tried = [run(scenario, fleet(n), judge) for n in (10, 14)]
    between = list(together._sizes_between(scenario, tried, judge, 1.0))
    assert [one.claimed.pools[0].n_instances for one in between] == looked_at
    best = together.best_together([*tried, *between])
    assert best is not None
    assert best.claimed.pools[0].n_instances == enough
