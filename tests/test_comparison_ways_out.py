"""Ways out of infeasibility: what is said to do does through `--set`, a little less does not, and counting agrees."""

import re
import shlex
from math import ceil, floor, inf, log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.comparison import best_fleet
from planner.comparison.changes import cents, significant, step_multiples, with_value
from planner.comparison.infeasibility import Trial, Trials, infeasible
from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.slo_search import search
from planner.scenario import Scenario, read_scenario
from planner.work_clock import work_s
from tests.builders import FAST, GPUS, HOME, SMALL, Draw, problem_of, small, small_with
from tests.test_optimizer_brute_force import cheapest_by_hand, highest_by_hand, priced_question

WAY = re.compile(r"(?P<key>\S+) (?P<sign>=|at least|at most) (?P<value>\S+) \(is [^)]*\)")
NOT_RULED_OUT = "less was not ruled out"
MIN_COST: dict[str, Any] = {"objective": "min-cost"}
PERIODS: dict[str, Any] = {"periods": {"day": {}, "night": {"demand": 0.5}}}
FAR_PREFILL: dict[str, Any] = MIN_COST | {"demand_req_per_s": 2.0, "pools.near.n_instances": 0}
LINK = FAR_PREFILL | {"links.wan.capacity_gbps": 3}
PORTS = FAR_PREFILL | {
    "links.wan.capacity_gbps": "free",
    "links.wan.tiers": [{"capacity_gbps": 10, "usd_per_hour": 2.0, "max_ports": 1}],
}
BUSY_LINK = LINK | {"links.wan.capacity_gbps": 44, "pools.fast.n_instances": 3, "pools.decode.n_instances": 3}
NO_PLAN: dict[str, dict[str, Any]] = {
    "a budget": MIN_COST | {"demand_req_per_s": 2.5, "budget_usd_per_hour": 100.0},
    "stock": MIN_COST | {"demand_req_per_s": 4.0},
    "a limit of sizes": MIN_COST | {"demand_req_per_s": 2.0, "pools.decode.max_instances": 1},
    "a promise that an idle fleet breaks": MIN_COST | {"demand_req_per_s": 1.0, "slo.ttft_s": 0.5},
    "a promise and a budget": MIN_COST | {"demand_req_per_s": 1.0, "slo.ttft_s": 3.0, "budget_usd_per_hour": 60.0},
    "a link": LINK,
    "ports of a link": PORTS,
    "periods and stock": MIN_COST | PERIODS | {"demand_req_per_s": 4.0},
    "periods and a budget": MIN_COST | PERIODS | {"demand_req_per_s": 2.5, "budget_usd_per_hour": 100.0},
}


PATIENT_S = 1200.0
"""A time limit that a busy machine does not reach: what is found must not depend on it here."""


def error_of(scenario: Scenario) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        best_fleet(scenario, time_limit_s=PATIENT_S)
    return caught.value


def is_planned(path: Path, overrides: list[str]) -> bool:
    """Whether there is a plan of a file with overrides, as `--set` takes them."""
    try:
        best_fleet(read_scenario(str(path), overrides), time_limit_s=PATIENT_S)
    except InfeasibleError:
        return False
    return True


def a_little_less(key: str, sign: str, value: float) -> float:
    """The next printed value on the side of what is stated."""
    if sign == "at most":
        return significant().value(significant().above(value) + 1)
    if sign == "at least" and not key.endswith("max_ports"):
        scale = cents() if "usd" in key else significant()
        return scale.value(scale.below(value) - 1)
    return value - (GPUS if ".accelerators." in key else 1)


def options_of(way: str) -> list[str]:
    """What a way out sets, as its `--set` options say it."""
    return [part for part in shlex.split(way[way.index(": --set ") + 2 :]) if part != "--set"]


@pytest.mark.parametrize("case", sorted(NO_PLAN))
def test_what_is_said_to_do_does_when_it_is_set_alone_and_a_little_less_does_not(case: str, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    stated = [f"{key}={toml(value)}" for key, value in NO_PLAN[case].items()]
    ways = error_of(read_scenario(str(path), stated)).relaxations
    assert ways
    for way in ways:
        parts = [match.groupdict() for match in WAY.finditer(way)]
        assert parts, way
        assert options_of(way) == [f"{part['key']}={part['value']}" for part in parts]
        assert is_planned(path, [*stated, *options_of(way)]), way
        for part in parts if NOT_RULED_OUT not in way else []:
            others = [f"{other['key']}={other['value']}" for other in parts if other is not part]
            less = a_little_less(part["key"], part["sign"], float(part["value"]))
            assert not is_planned(path, [*stated, *others, f"{part['key']}={less:.12g}"]), way


def toml(value: object) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_the_demand_and_the_budget_that_would_do_are_those_of_counting_every_plan(first: int) -> None:
    n_demands = n_budgets = 0
    for seed in range(first, first + 4):
        changes = priced_question(Draw(np.random.default_rng(90_000 + seed)))
        changes.pop("budget_usd_per_hour", None)
        most = highest_by_hand(problem_of(changes))
        if not 1e-3 < most < inf:
            continue
        digits = 10.0 ** (floor(log10(most)) - 3)
        asked = changes | MIN_COST | {"demand_req_per_s": 1.3 * most}
        told = re.search(r"demand_req_per_s at most (\S+) ", str(error_of(small_with(asked))))
        assert told is not None
        assert float(told[1]) == pytest.approx(floor(most / digits * (1 + 1e-7)) * digits, abs=1.001 * digits)
        n_demands += 1
        asked |= {"demand_req_per_s": 0.6 * most}
        least = cheapest_by_hand(problem_of(asked), 0.6 * most)
        if not 1.0 < least < inf:
            continue
        told = re.search(
            r"budget_usd_per_hour at least (\S+) ",
            str(error_of(small_with(asked | {"budget_usd_per_hour": 0.7 * least}))),
        )
        assert told is not None
        assert float(told[1]) == pytest.approx(ceil(100 * least) / 100, abs=0.0101)
        n_budgets += 1
    assert n_demands
    assert n_budgets


def test_with_a_promise_the_budget_sizes_and_stock_are_offered_as_well() -> None:
    promise = MIN_COST | {"demand_req_per_s": 1.0, "slo.ttft_s": 4.0}
    assert "budget_usd_per_hour at least " in str(error_of(small_with(promise | {"budget_usd_per_hour": 60.0})))
    stock = {f"sites.local.accelerators.{HOME}": 8, f"sites.remote.accelerators.{FAST}": 8}
    assert f"sites.local.accelerators.{HOME} = " in str(error_of(small_with(promise | stock)))


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        (LINK, ["links.wan.capacity_gbps at least "]),
        (PORTS, ["links.wan.tiers[0].max_ports at least ", "links.wan.tiers[0].capacity_gbps at least "]),
    ],
)
def test_a_link_that_is_too_narrow_is_offered_wider(changes: dict[str, Any], offered: list[str]) -> None:
    told = str(error_of(small_with(changes)))
    assert all(key in told for key in offered), told


def test_a_lower_demand_is_found_where_nothing_limits_a_pool() -> None:
    unlimited: dict[str, Any] = {"sites.remote.accelerators": {}, "sites.local.accelerators": {}}
    told = re.search(r"demand_req_per_s at most (\S+) ", str(error_of(small_with(LINK | unlimited))))
    assert told is not None
    limited = re.search(r"demand_req_per_s at most (\S+) ", str(error_of(small_with(LINK))))
    assert limited is not None
    assert told[1] == limited[1]  # it is the link that limits it


def ran_ways(changes: dict[str, Any], kept_from_s: float) -> InfeasibleError:
    """What is said where runs keep a promise from a TTFT on, and nothing else."""
    scenario = small_with(changes)

    def run(changed: Scenario, _left_s: float, _is_thorough: bool) -> Trial:
        slo = changed.slo
        assert slo is not None
        assert slo.ttft_s is not None
        return Trial(slo.ttft_s >= kept_from_s, kept_from_s / slo.ttft_s)

    trials = Trials(run, work_s() + PATIENT_S)
    return infeasible(scenario, planning_problem(scenario).classes, PATIENT_S, trials=trials)


def test_a_way_out_that_runs_do_not_keep_goes_on_to_one_that_they_keep_or_is_not_offered() -> None:
    error = ran_ways(BUSY_LINK | {"slo.ttft_s": 2.5}, 8.0)
    (way,) = error.relaxations
    told = re.fullmatch(
        r"slo\.ttft_s at least (\S+) \(is 2\.5\); kept when run \((\S+) as first planned was not\): --set .*", way
    )
    assert told is not None, way
    assert float(told[2]) < 8.0 <= float(told[1]) < 8.1
    assert "Planned, but not kept when it was run: demand_req_per_s at most " in str(error)


def test_a_search_says_whether_its_time_or_its_steps_ended_it() -> None:
    problem = problem_of(MIN_COST | {"demand_req_per_s": 2.5, "slo.ttft_s": 3.0})
    with pytest.raises(UndecidedError, match="sizes in the order of cost, which is where the search ends") as caught:
        search(problem, PATIENT_S, most_sizings=1)
    assert "time" not in str(caught.value)
    with pytest.raises(UndecidedError, match=r"in the time, .* allow more time"):
        search(problem, 0.0)


def test_what_was_not_found_out_in_the_time_is_said() -> None:
    scenario = small_with(NO_PLAN["a budget"])
    error = infeasible(scenario, planning_problem(scenario).classes, 0.0)
    assert error.relaxations == ()
    assert "Not found out in the time: whether a change of " in str(error)
    assert "budget_usd_per_hour" in str(error)


@pytest.mark.parametrize("scale", [step_multiples(8), step_multiples(1), significant(), cents()])
@pytest.mark.parametrize("value", [0.125, 1.0, 8.0, 9.9999, 1234.5, 99995.0, 3.28e6])
def test_values_are_numbered_in_order_and_the_nearest_to_a_value_enclose_it(scale: Any, value: float) -> None:
    low, high = scale.below(value), scale.above(value)
    assert low <= high <= low + 1
    assert scale.value(low) <= value * (1 + 1e-6)
    assert scale.value(high) >= value * (1 - 1e-6)
    assert scale.value(low - 1) < scale.value(low) < scale.value(low + 1)


def test_a_value_is_changed_where_its_key_says_and_nowhere_else() -> None:
    key = ("sites", "local", "accelerators", HOME)
    changed = with_value(small(), key, 48)
    assert changed.sites["local"].accelerators == {HOME: 48}
    assert with_value(changed, key, 40) == small()
    assert small().sites["local"].accelerators == {HOME: 40}
