"""The fleet that stands beside the plan: what staying costs, the cheapest change, and the way there."""

import json
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import best_fleet
from planner.errors import InfeasibleError, InputError, UsageError
from planner.executor.run_question import RunQuestion
from planner.optimizer.layout_choice import planning_problem
from planner.report.current_text import hours_table
from planner.results.current import Current, Order, TargetFleet
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.scenario import Scenario
from planner.studies.migration import MigrationQuestion, current_fleet
from planner.studies.migration.fleet_file import StatedFleet, standing_fleet, stated_fleet
from tests.builders import FAST, HOME, SMALL, sketch, small_with
from tests.cpu_cost import cached

DEMAND = 2.0
GROWTH = 0.04
GAP = 0.01
"""Of a plan that counts as optimal."""
CHEAPEST: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": DEMAND,
    "growth_fraction_per_month": GROWTH,
    "workload.lengths": {"kind": "empirical", "tokens": [1000, 6000, 30_000]},
}
POOLS = ("fast", "near", "decode")
TIGHT = {f"sites.local.accelerators.{HOME}": 24, f"sites.remote.accelerators.{FAST}": 16}
"""Stock in which not everything fits beside each other."""


@cached
def planned(*changes: tuple[str, Any]) -> tuple[Scenario, Plan]:
    scenario = small_with({**CHEAPEST, **dict(changes)})
    return scenario, sketch(scenario)


def stated(folder: Path, *sizes: int, **more: Any) -> Path:
    """A file of instances by pool."""
    path = folder / "fleet.json"
    path.write_text(json.dumps({"pools": dict(zip(POOLS, sizes, strict=True)), **more}))
    return path


def fleet(folder: Path, *sizes: int, **more: Any) -> StatedFleet:
    """The same, read."""
    return stated_fleet(stated(folder, *sizes, **more))


def current_of(folder: Path, sizes: tuple[int, ...], *changes: tuple[str, Any], **more: Any) -> Current:
    scenario, plan = planned(*changes)
    return current_fleet(scenario, plan, MigrationQuestion(fleet(folder, *sizes), **more))


def sizes_of(plan: Plan) -> tuple[int, ...]:
    return tuple(plan.pool(name).n_instances for name in POOLS)


def serves(sizes: tuple[int, ...], *changes: tuple[str, Any]) -> float:
    """Most that a fleet of fixed sizes serves [req/s], as a question of its own."""
    fixed: dict[str, Any] = {f"pools.{name}.n_instances": n for name, n in zip(POOLS, sizes, strict=True)}
    stock = {"sites.local.accelerators": {}, "sites.remote.accelerators": {}}
    question = {**CHEAPEST, **dict(changes), **fixed, **stock, "objective": "max-throughput", "demand_req_per_s": None}
    try:
        return best_fleet(small_with(question)).objective
    except InfeasibleError:
        return 0.0


def fleets_on(order: Order, begin: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every fleet on the way, instance by instance."""
    found, sizes = [begin], list(begin)
    for step in order.steps:
        if step.changes.startswith("pools."):
            i = POOLS.index(step.changes.split(".")[1])
            sign = 1 if step.after > step.before else -1
            assert sizes[i] == step.before
            while sizes[i] != step.after:
                sizes[i] += sign
                found.append(tuple(sizes))
    return found


def test_a_fleet_that_is_the_plan_stays_and_saves_nothing(tmp_path: Path) -> None:
    _, plan = planned()
    found = current_of(tmp_path, sizes_of(plan))
    assert found.optimum.order is None, "there is nothing to do"
    assert found.optimum.difference_usd_per_hour == pytest.approx(0.0)
    assert found.stay.holds
    assert found.stay.usd_per_hour == pytest.approx(plan.cost.usd_per_hour)
    assert found.change is not None
    assert (found.change.added, found.change.removed) == ({}, {})


@pytest.mark.parametrize("sizes", [(0, 3, 1), (3, 4, 1), (2, 2, 2), (0, 5, 0), (0, 0, 0), (3, 4, 2)])
def test_no_fleet_on_the_way_serves_less_than_is_asked_for_or_stands(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Each fleet, instance by instance, is planned as a question of its own."""
    _, plan = planned()
    found = current_of(tmp_path, sizes)
    for way in filter(None, (found.change, found.optimum)):
        if way.order is None:
            continue
        least = min(DEMAND, serves(sizes))
        assert way.order.exists
        assert way.order.least_req_per_s == pytest.approx(least, abs=1e-9)
        path = fleets_on(way.order, sizes)
        assert path[-1] == tuple(way.n_instances[name] for name in POOLS)
        assert all(serves(fleet) >= least * (1 - 1e-6) for fleet in path)
    assert tuple(found.optimum.n_instances[name] for name in POOLS) == sizes_of(plan)


@pytest.mark.parametrize("sizes", [(0, 3, 1), (1, 1, 2), (2, 2, 2), (3, 3, 2)])
def test_the_cheapest_change_is_the_cheapest_of_all_that_keep_or_thin_what_stands(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """Held against every fleet within the stock, rents by hand."""
    found = current_of(tmp_path, sizes)
    does = serves(sizes) >= DEMAND
    assert found.stay.holds == does
    rents = (32.0, 16.0, 16.0)

    def usd(fleet: tuple[int, ...]) -> float:
        return sum(n * rent for n, rent in zip(fleet, rents, strict=True)) + 20.0 * (fleet[0] > 0)

    stock = [f for f in product(range(4), range(6), range(6)) if f[1] + f[2] <= 5]
    inside = [f for f in stock if all((n <= m) if does else (n >= m) for n, m in zip(f, sizes, strict=True))]
    cheapest = next(usd(f) for f in sorted(inside, key=usd) if serves(f) >= DEMAND * (1 - 1e-6))
    assert found.change is not None
    assert found.change.usd_per_hour == pytest.approx(cheapest)
    assert found.optimum.usd_per_hour is not None
    assert found.optimum.usd_per_hour <= cheapest * (1 + 1e-6)


def test_what_a_fleet_serves_is_what_its_question_says(tmp_path: Path) -> None:
    found = current_of(tmp_path, (1, 2, 1))
    assert found.stay.serves_req_per_s == pytest.approx(serves((1, 2, 1)), rel=1e-5)


def test_where_no_order_fits_the_step_that_breaks_it_and_the_spare_that_bridges_it_are_named(tmp_path: Path) -> None:
    """All H200 are at work and needed: an instance of decode must go before one of prefill comes, or the other way."""
    demand = 0.999 * serves((0, 2, 1))
    changes = (("demand_req_per_s", demand), (f"sites.local.accelerators.{HOME}", 24), ("pools.fast.n_instances", 0))
    standing = (0, 1, 2)
    found = current_of(tmp_path, standing, *changes)
    order = found.optimum.order
    assert order is not None
    assert order.least_req_per_s == pytest.approx(serves(standing), rel=1e-5)
    if serves((0, 1, 1)) >= order.least_req_per_s * (1 - 1e-6):
        assert order.exists
        return
    assert order.exists is False
    assert order.broken is not None
    assert (order.broken.changes, order.broken.removal) == ("pools.near.n_instances", "decode")
    assert order.broken.lacks_accelerators == 8
    assert order.broken.serves_req_per_s == pytest.approx(serves((0, 1, 1)), rel=1e-5)
    assert order.spare_instances == {"near": 1}


def test_growth_breaks_every_fleet_when_its_own_room_is_used_up(tmp_path: Path) -> None:
    found = current_of(tmp_path, (3, 3, 2), begin=date(2026, 1, 1))
    for way in (found.stay, found.change, found.optimum):
        assert way is not None
        assert way.breaks_in_months is not None
        assert way.breaks_on is not None
        assert DEMAND * (1 + GROWTH) ** way.breaks_in_months == pytest.approx(way.serves_req_per_s)
        months = (date.fromisoformat(way.breaks_on) - date(2026, 1, 1)).days / 365.25 * 12
        assert way.breaks_in_months <= months <= way.breaks_in_months + 12 / 365.25
    short = current_of(tmp_path, (0, 3, 1)).stay
    assert (short.holds, short.breaks_in_months, short.breaks_on) == (False, 0.0, None)


def test_a_threshold_that_does_not_do_is_told_apart_from_a_fleet_that_does_not(tmp_path: Path) -> None:
    scenario, plan = planned(("pools.near.min_instances", 1))
    sizes = sizes_of(plan)
    own = current_fleet(
        scenario, plan, MigrationQuestion(fleet(tmp_path, *sizes, threshold_tokens=plan.threshold_tokens))
    )
    wrong = current_fleet(scenario, plan, MigrationQuestion(fleet(tmp_path, *sizes, threshold_tokens=100_000)))
    assert (own.stays_at_threshold, own.stay.holds) == (True, True)
    assert (wrong.stays_at_threshold, wrong.stay.holds) == (False, True)
    assert wrong.stay.threshold_tokens != 100_000


def test_ports_that_stand_are_paid_for_and_changed_in_steps_of_their_own(tmp_path: Path) -> None:
    tiers = [{"capacity_gbps": g, "usd_per_hour": g / 5, "max_ports": 2} for g in (10, 100)]
    scenario = small_with({**CHEAPEST, "links.wan.capacity_gbps": "free", "links.wan.tiers": tiers})
    plan = sketch(scenario)
    asked = MigrationQuestion(fleet(tmp_path, *sizes_of(plan), links={"wan": 210.0}))
    found = current_fleet(scenario, plan, asked)
    (link,) = plan.links
    assert found.stay.links_gbps == {"wan": 210.0}
    assert found.optimum.difference_usd_per_hour == pytest.approx((link.usd_per_hour or 0.0) - 42.0)
    assert found.optimum.order is not None
    (step,) = found.optimum.order.steps
    assert (step.changes, step.before, step.after) == ("links.wan.capacity_gbps", 210.0, link.capacity_gbps)


def test_a_plan_as_it_was_printed_states_the_fleet_that_stands(tmp_path: Path) -> None:
    scenario, plan = planned()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.answer()))
    found = current_fleet(scenario, plan, MigrationQuestion(stated_fleet(path)))
    assert found.optimum.order is None
    assert found.stays_at_threshold
    beside = plan.model_copy(update={"current": found})
    assert plan_from(json.dumps(beside.answer()), "plan.json").current == found


TOML = "[pools]\nfast = 1\nnear = 2\ndecode = 1\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "f.toml",
            TOML.replace("near", "nere"),
            "f.toml:3: pools.nere: names no pool of the scenario (did you mean 'near'?)",
        ),
        ("f.toml", TOML.replace("2", "-2"), "f.toml:3: pools.near: "),
        ("f.toml", TOML.replace("2", "2.5"), "f.toml:3: pools.near: should be a valid integer, got 2.5"),
        ("f.toml", TOML.replace("2", '"two"'), "f.toml:3: pools.near: should be a valid integer, got"),
        ("f.toml", TOML + "[links]\nwna = 100\n", "links.wna: names no link of the scenario (did you mean 'wan'?)"),
        (
            "f.toml",
            TOML + "[links]\nwan = 30\n",
            "links.wan: is no sum of the link's ports (0, or some of 1 x 100 Gbps)",
        ),
        ("f.toml", "treshold_tokens = 3\n" + TOML, "treshold_tokens"),
        ("f.toml", "[pools\n", "is not valid TOML"),
        ("f.toml", "", "names no pool"),
        ("f.json", "[1, 2]", "is no table"),
        ("f.json", '{"pools": {"near": 2', "is not JSON"),
        ("f.json", '{"nere": 2}', "nere: names no pool of the scenario (did you mean 'near'?)"),
        ("f.json", '{"schema": "planner.plan/1", "scenario": "x"}', "pools"),
        ("missing.toml", None, "cannot be read"),
    ],
)
def test_a_file_that_states_no_fleet_is_refused_in_one_message(
    tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        standing_fleet(stated_fleet(path), planning_problem(planned()[0]))
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("text", [TOML, '{"fast": 1, "near": 2, "decode": 1}', "fast = 1\nnear = 2\ndecode = 1\n"])
def test_instances_are_read_from_every_form_of_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("fleet.json" if text.startswith("{") else "fleet.toml")
    path.write_text(text)
    assert standing_fleet(stated_fleet(path), planning_problem(planned()[0])).n_instances == (1, 2, 1)


PERIODS: dict[str, Any] = {"periods": {"day": {"hours": 12.0}, "night": {"hours": 12.0, "demand": 0.5}}}
BY_PERIOD: dict[str, Any] = {**PERIODS, "pools.near.rent": "by-period", "pools.decode.rent": "by-period"}


def test_roles_that_change_by_the_hour_are_refused(tmp_path: Path) -> None:
    scenario = small_with({**CHEAPEST, **PERIODS, "routing.role_conversion": True})
    with pytest.raises(InputError, match="role_conversion"):
        current_fleet(scenario, planned()[1], MigrationQuestion(fleet(tmp_path, 1, 1, 1)))


@cached
def followed() -> tuple[Scenario, Plan]:
    scenario = small_with({**CHEAPEST, **BY_PERIOD})
    return scenario, sketch(scenario)


def test_the_plan_of_pools_that_follow_the_periods_stands_as_it_is(tmp_path: Path) -> None:
    scenario, plan = followed()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.answer()), encoding="utf-8")
    found = current_fleet(scenario, plan, MigrationQuestion(stated_fleet(path)))
    assert found.stay.holds
    assert found.stay.usd_per_hour == pytest.approx(plan.cost.usd_per_hour, rel=2 * GAP)
    assert found.optimum.order is None
    assert plan.schedule is not None
    assert {one.pool for one in found.stay.schedule} == {one.pool for one in plan.schedule.pools}
    assert found.optimum.schedule == plan.schedule.pools


def test_staying_costs_the_schedule_and_not_the_fleet_of_the_busiest_period(tmp_path: Path) -> None:
    scenario, plan = followed()
    sizes = tuple(n + 1 for n in sizes_of(plan))
    found = current_fleet(scenario, plan, MigrationQuestion(fleet(tmp_path, *sizes)))
    always = {f"pools.{name}.n_instances": n for name, n in zip(POOLS, sizes, strict=True)}
    stock = {f"sites.local.accelerators.{HOME}": 64}
    peak = sketch(small_with({**CHEAPEST, **PERIODS, **always, **stock})).cost.usd_per_hour
    assert found.stay.holds
    assert found.stay.usd_per_hour is not None
    assert peak is not None
    assert found.stay.usd_per_hour < peak
    assert found.stay.n_instances == dict(zip(POOLS, sizes, strict=True))
    for one in found.stay.schedule:
        assert one.pool in ("near", "decode")
        assert all(hour.n_instances <= found.stay.n_instances[one.pool] for hour in one.replicas)
    assert any(len({hour.n_instances for hour in one.replicas}) > 1 for one in found.stay.schedule)
    shown = "\n".join(str(table) for table in (hours_table("stay", found.stay).rows))
    assert "day" in shown
    assert "night" in shown


def test_a_fleet_that_is_too_small_for_the_day_grows_to_one_that_follows_it(tmp_path: Path) -> None:
    scenario, plan = followed()
    found = current_fleet(scenario, plan, MigrationQuestion(fleet(tmp_path, 0, 1, 1)))
    assert not found.stay.holds
    assert found.change is not None
    for way in (found.change, found.optimum):
        assert way.holds
        assert way.order is not None
        assert way.order.exists
        assert way.order.steps[-1].usd_per_hour == pytest.approx(way.usd_per_hour, rel=2 * GAP)
    assert all(n >= m for n, m in zip(found.change.n_instances.values(), (0, 1, 1), strict=True))


def test_every_step_is_run_where_a_latency_is_promised(tmp_path: Path) -> None:
    changes = (("slo.ttft_s", 9.0), ("demand_req_per_s", 1.0))
    found = current_of(tmp_path, (2, 3, 2), *changes, runs=RunQuestion(8_000))
    ways: list[TargetFleet] = [
        way for way in (found.change, found.optimum) if way is not None and way.order is not None
    ]
    assert ways
    for way in ways:
        assert way.order is not None
        for step in way.order.steps:
            assert step.run is not None
            assert step.run.promised_s == 9.0
            if step.holds:
                assert step.run.holds is not False, (
                    "a step that is predicted to keep its promise is not seen to break it"
                )


def called(folder: Path, *options: str) -> Any:
    (folder / "small.toml").write_text(ASKED, encoding="utf-8")
    (folder / "fleet.toml").write_text(TOML, encoding="utf-8")
    return CliRunner().invoke(app, ["optimize", str(folder / "small.toml"), *options])


ASKED = SMALL.replace('name = "small"', f'name = "small"\nobjective = "min-cost"\ndemand_req_per_s = {DEMAND}')


def test_the_answer_of_the_command_has_the_fleet_that_stands_in_text_and_json(tmp_path: Path) -> None:
    fleet = str(tmp_path / "fleet.toml")
    growing = ("--set", f"growth_fraction_per_month={GROWTH}", "--from-date", "2026-11-23")
    found = called(tmp_path, "--current", fleet, *growing, "--format", "json")
    assert found.exit_code == 0, (found.output, found.exception)
    current = json.loads(found.stdout)["current"]
    assert current["stay"]["n_instances"] == {"fast": 1, "near": 2, "decode": 1}
    assert current["optimum"]["breaks_on"] > "2026-11-23"
    text = called(tmp_path, "--current", fleet, *growing).stdout
    assert "what to run now" in text
    assert "steps to the optimum" in text
    assert current["optimum"]["breaks_on"] in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from-date", "2026-11-23"), "--from-date: is about --current"),
        (("--current", "F", "--from-date", "23.11.2026"), "--from-date 23.11.2026: is no day (YYYY-MM-DD"),
        (("--current", "F", "--from-date", "2026-02-30"), "is no day"),
        (("--current", "F", "--from-date", "2026-11-23"), "the scenario states no growth"),
        (("--current", "F", "--certify"), "--certify"),
        (("--requests", "5000"), "--requests: is about runs, and nothing is run"),
    ],
)
def test_options_that_mean_nothing_together_are_refused_before_any_work(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    found = called(tmp_path, *(str(tmp_path / "fleet.toml") if one == "F" else one for one in options))
    assert isinstance(found.exception, UsageError)
    assert said in str(found.exception)
