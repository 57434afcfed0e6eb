"""Plans of several periods: each is run as it stands in the plan, and all of them as the whole time."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError, UndecidedError, UsageError
from planner.executor.periods import simulate_periods
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.promises.validation import validate
from planner.report.scenario_keys import toml
from planner.report.terminal import PRINT_WIDTH
from planner.results.plan import Plan
from planner.results.run import Run
from planner.scenario import Scenario, read_scenario
from tests.builders import FAST, GPUS, HOME, SMALL, sketch, small_with
from tests.cpu_cost import cached

DAY: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "links.wan.capacity_gbps": 400,
    "slo": {"ttft_s": 4.0},
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
}
HOURS = {"day": 16.0, "night": 8.0}


@cached
def planned() -> tuple[Scenario, Plan]:
    scenario = small_with(DAY)
    return scenario, sketch(scenario)


@cached
def whole() -> Run:
    return simulate_periods(*planned(), RunQuestion(20_000, 1, 1.0))


@pytest.mark.parametrize("name", ["day", "night"])
def test_a_period_runs_as_it_was_promised(name: str) -> None:
    scenario, plan = planned()
    period = plan.period(name)
    run, _ = simulate(scenario, plan, RunQuestion(60_000, 1, 1.0), period=name)
    assert run.period == name
    assert run.throughput_req_per_s == pytest.approx(period.demand_req_per_s, rel=0.02)
    assert period.latency.ttft_mean_s is not None
    assert period.latency.ttft_p90_s is not None
    assert run.ttft_mean_s == pytest.approx(period.latency.ttft_mean_s, rel=0.05)
    assert run.ttft_p90_s == pytest.approx(period.latency.ttft_p90_s, rel=0.10)
    assert run.ttft_p90_s <= 4.0
    for pool in period.pools:
        if pool.n_instances and pool.utilization > 0:
            assert run.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03)
    for link in period.links:
        assert run.links[link.name].mean_gbps == pytest.approx(link.mean_gbps, rel=0.03)


def test_the_run_of_all_periods_has_the_run_of_each() -> None:
    scenario, plan = planned()
    for one in whole().periods:
        alone, _ = simulate(scenario, plan, RunQuestion(20_000, 1, 1.0), period=one.name)
        figures = one.model_dump(exclude={"name", "hours"})
        assert figures == {key: value for key, value in alone.model_dump().items() if key in figures}


def test_the_whole_time_is_made_of_its_periods() -> None:
    run = whole()
    hours = [HOURS[one.name] for one in run.periods]
    rates = [one.throughput_req_per_s for one in run.periods]
    assert [one.hours for one in run.periods] == hours
    assert run.n_requests == sum(one.n_requests for one in run.periods)
    assert run.n_counted == sum(one.n_counted for one in run.periods)
    assert run.throughput_req_per_s == pytest.approx(sum(h * r for h, r in zip(hours, rates, strict=True)) / 24)
    demands = [h * planned()[1].period(one.name).demand_req_per_s for h, one in zip(hours, run.periods, strict=True)]
    for name in ("ttft_mean_s", "offload_fraction", "tpot_mean_s"):
        means = [getattr(one, name) for one in run.periods]
        expected = sum(d * mean for d, mean in zip(demands, means, strict=True)) / sum(demands)
        assert getattr(run, name) == pytest.approx(expected, rel=1e-9)
    for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"):
        each = [getattr(one, name) for one in run.periods]
        assert min(each) * 0.999 <= getattr(run, name) <= max(each) * 1.001
    for name, link in run.links.items():
        assert link.mean_gbps == pytest.approx(
            sum(h * one.links[name].mean_gbps for h, one in zip(hours, run.periods, strict=True)) / 24
        )
        assert link.peak_gbps >= max(one.links[name].mean_gbps for one in run.periods)


def test_the_use_of_a_pool_over_the_whole_time_is_that_of_the_plan() -> None:
    """Pools that are off at night are idle then: what the plan states of them is over the whole time as well."""
    plan = planned()[1]
    for pool in (pool for pool in plan.pools if pool.n_instances):
        assert whole().utilization[pool.name] == pytest.approx(pool.utilization, rel=0.05, abs=0.005)


def test_equal_periods_are_the_run_of_one() -> None:
    scenario, plan = planned()
    day = plan.period("day")
    twice = plan.model_copy(
        update={"periods": (day.model_copy(update={"name": "morning"}), day.model_copy(update={"name": "evening"}))}
    )
    both = simulate_periods(scenario, twice, RunQuestion(10_000, 2, 1.0))
    one, _ = simulate(scenario, plan, RunQuestion(10_000, 2, 1.0), period="day")
    for name in ("throughput_req_per_s", "ttft_mean_s", "offload_fraction", "mean_inside", "tpot_mean_s"):
        assert getattr(both, name) == pytest.approx(getattr(one, name), rel=1e-9)
    for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"):  # between two requests or at the upper of them
        assert getattr(both, name) == pytest.approx(getattr(one, name), rel=0.01)
    assert both.utilization == pytest.approx(one.utilization)


def test_progress_names_the_periods_in_their_order() -> None:
    told: list[tuple[str, float]] = []
    simulate_periods(*planned(), RunQuestion(2_000, 1, 1.0, 1), progress=lambda text, done: told.append((text, done)))
    assert list(dict.fromkeys(text for text, _ in told)) == ["running day", "running night"]
    assert [done for _, done in told] == sorted(done for _, done in told)


def test_decode_steps_are_those_of_each_periods_batch() -> None:
    roofline = {"pools.decode.service_times": "roofline", "pools.decode.tpot_ms": 30.0}
    scenario = small_with({**DAY, **roofline, f"sites.local.accelerators.{HOME}": 400})
    plan = sketch(scenario)
    steps = []
    for period in plan.periods:
        run, _ = simulate(scenario, plan, RunQuestion(30_000, 1, 1.0), period=period.name)
        assert run.tpot_mean_s == pytest.approx(period.latency.tpot_mean_s, rel=0.02)
        steps.append(run.tpot_mean_s or 0.0)
    assert steps[0] > 1.5 * steps[1]


def test_a_validation_of_a_period_names_it_and_leaves_out_what_all_periods_share() -> None:
    found = validate(small_with(DAY), RunQuestion(40_000, 2), period="day")
    assert found.period == "day"
    assert not found.failed
    assert all(check.metric.startswith("ttft_") for check in found.undecided)
    metrics = {c.metric for c in found.checks}
    assert {"throughput_req_per_s", "ttft_p90_s", "offload_fraction"} <= metrics
    assert "max_throughput_req_per_s" not in metrics


def test_a_validation_of_all_periods_judges_each_and_the_whole_and_the_highest_rate() -> None:
    found = validate(small_with(DAY), RunQuestion(40_000, 2))
    assert found.period is None
    assert not found.failed
    by_period = {name: {c.metric for c in found.checks if c.period == name} for name in (None, "day", "night")}
    assert "max_throughput_req_per_s" in by_period[None]
    assert by_period["day"] == by_period["night"] == by_period[None] - {"max_throughput_req_per_s"}
    for one in found.periods:
        mine = [c for c in found.checks if c.period == one.name]
        assert one.n_checks == len(mine)
        assert (one.n_failed, one.n_undecided) == (0, sum(not c.decided for c in mine))
        assert one.demand_req_per_s == planned()[1].period(one.name).demand_req_per_s
    assert found.holds == all(c.holds for c in found.checks)


def test_periods_are_validated_at_a_part_of_their_demand_as_it_is_predicted_there() -> None:
    found = validate(small_with(DAY), RunQuestion(40_000, 2, 0.5))
    assert not found.failed
    (rate,) = (c for c in found.checks if (c.period, c.metric) == ("day", "throughput_req_per_s"))
    assert rate.predicted == pytest.approx(5.0)


@cached
def coasts() -> tuple[Scenario, Plan]:
    """East-west at two of its hours, with sizes given, so that the plan is found at once."""
    keep = ("h15", "h05")
    stated = read_scenario("east-west")
    sizes = {
        "wyoming-prefill": 96,
        "virginia-prefill": 10,
        "virginia-decode": 49,
        "california-prefill": 8,
        "california-decode": 40,
    }
    changes: dict[str, Any] = {f"pools.{name}.n_instances": n for name, n in sizes.items()}
    changes |= {"periods": {name: stated.value_at(f"periods.{name}") for name in keep}}
    changes |= {"comparisons": {}, "claims": [], "break_even": []}
    scenario = stated.varied(changes)
    return scenario, sketch(scenario)


@pytest.mark.parametrize("name", ["h15", "h05"])
def test_two_coasts_serve_each_its_own_requests_as_promised(name: str) -> None:
    scenario, plan = coasts()
    period = plan.period(name)
    # At 98 % busy, waits of fewer requests than these say little of the mean.
    run, kept = simulate(scenario, plan, RunQuestion(1_200_000, 1, 1.0), period=name, keep=True)
    assert period.latency.ttft_p90_s is not None
    assert run.ttft_p90_s == pytest.approx(period.latency.ttft_p90_s, rel=0.10)
    for pool in period.pools:
        assert run.utilization[pool.name] == pytest.approx(pool.utilization, rel=0.03)
    assert kept is not None
    classes, pools = kept.words["request_class"], kept.words["decode_pool"]
    ways = {
        (classes[c], pools[p]) for c, p in zip(kept.columns["request_class"], kept.columns["decode_pool"], strict=True)
    }
    assert ways == {("east", "virginia-decode"), ("west", "california-decode")}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("simulate", "prfaas-paper", "--period", "noon"), InputError, "has no 'noon' in the plan"),
        (("validate", "east-west", "--period", "h15", "--load", "0.5"), UsageError, "--load: a period"),
    ],
)
def test_what_is_no_period_is_said_in_one_message(arguments: tuple[str, ...], error: Any, said: str) -> None:
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, error), found.exception
    assert said in str(found.exception)
    assert len(str(found.exception).splitlines()) == 1


def test_a_period_that_is_mistyped_gets_a_hint_and_one_without_demand_is_refused() -> None:
    scenario, plan = planned()
    with pytest.raises(InputError, match="did you mean 'night'"):
        simulate(scenario, plan, period="nigt")
    idle = plan.periods[1].model_copy(update={"demand_req_per_s": 0.0})
    resting = plan.model_copy(update={"periods": (plan.periods[0], idle)})
    with pytest.raises(InputError, match="has no demand to run"):
        simulate(scenario, resting, period="night")
    with pytest.raises(InputError, match="are several: day, night"):
        simulate(scenario, plan)
    run = simulate_periods(scenario, resting, RunQuestion(4_000, 1, 1.0, 2))
    assert [one.name for one in run.periods] == ["day"]
    assert run.throughput_req_per_s == pytest.approx(run.periods[0].throughput_req_per_s * 16 / 24)


def test_a_full_run_and_files_of_one_run_take_one_period(tmp_path: Path) -> None:
    scenario, plan = planned()
    with pytest.raises(UsageError, match=r"--full: .*--period NAME"):
        simulate_periods(scenario, plan, RunQuestion(1_000, 1, 1.0, 1, is_full=True))
    file = tmp_path / "requests.csv"
    options = "--plan", plan_file(tmp_path), "--requests", "2000", "--records", str(file)
    called = ("simulate", *asked(tmp_path), *options)
    refused = CliRunner().invoke(app, called)
    assert isinstance(refused.exception, UsageError)
    assert "shows one run, and the plan has 2 periods (--period NAME)" in str(refused.exception)
    assert not file.exists()
    assert CliRunner().invoke(app, (*called, "--period", "night")).exit_code == 0
    assert file.exists()


def asked(folder: Path) -> tuple[str, ...]:
    """The day as the command line takes it."""
    path = folder / "small.toml"
    path.write_text(SMALL)
    return str(path), *(part for key, value in DAY.items() for part in ("--set", f"{key}={toml(value)}"))


def plan_file(folder: Path) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(planned()[1].answer()))
    return str(path)


def test_simulate_and_validate_print_every_period(tmp_path: Path) -> None:
    run = ("simulate", *asked(tmp_path), "--plan", plan_file(tmp_path), "--requests", "4000")
    shown = CliRunner().invoke(app, run)
    assert shown.exit_code == 0, shown.exception
    assert max(map(len, shown.stdout.splitlines())) <= PRINT_WIDTH
    for name in ("day", "night"):
        assert any(line.startswith(name) for line in shown.stdout.splitlines())
    found = json.loads(CliRunner().invoke(app, (*run, "--format", "json")).stdout)
    assert [one["name"] for one in found["periods"]] == ["day", "night"]
    assert {"throughput_req_per_s", "ttft_p90_s", "utilization"} <= set(found) & set(found["periods"][0])
    printed = CliRunner().invoke(app, ("validate", *asked(tmp_path), "--requests", "4000"))
    assert isinstance(printed.exception, UndecidedError)
    assert max(map(len, printed.stdout.splitlines())) <= PRINT_WIDTH
    assert "farthest off" in printed.stdout


def test_a_run_too_short_for_its_warm_up_says_so_of_the_first_period_and_names_the_others() -> None:
    notes = simulate_periods(*planned(), RunQuestion(200, 1, 1.0, 2)).notes
    assert notes[0].startswith("day: the warm-up of")
    assert "night have notes of their own" in notes[1]
    assert validate(small_with(DAY), RunQuestion(200, 1, 1.0, 2)).notes == notes


def test_a_system_that_still_fills_is_run_longer_rather_than_more_often() -> None:
    """More runs of the same length would see the same, too low rate, and be sure of it."""
    scenario, plan = planned()
    short = RunQuestion(4000, 1, 1.0, 4, most_requests=64_000)
    assert simulate_periods(scenario, plan, short).is_transient
    run = simulate_periods(scenario, plan, short, enough=lambda run: not run.is_transient)
    assert not run.is_transient
    assert run.n_replications == 4
    assert 4000 < run.n_asked <= 64_000
    for one in run.periods:
        sure = one.intervals["throughput_req_per_s"]
        assert sure.low < plan.period(one.name).demand_req_per_s < sure.high
    assert simulate_periods(scenario, plan, replace(short, most_requests=7999), enough=lambda _: False).n_asked == 7000
