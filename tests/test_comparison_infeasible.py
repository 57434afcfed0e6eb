"""No plan, or none in time: what the errors say is true."""

import re
from typing import Any

import pytest

from planner.comparison import optimize
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.strategies import best_solution
from planner.scenario import Scenario
from tests.builders import FAST, HOME, in_classes, reference, routed_search, sketch, small, small_with

RELAXATION = re.compile(r"^  - (?P<key>\S+) (?P<sign>=|at least|at most) (?P<value>\S+) \(is ", re.MULTILINE)
MIN_COST = {"objective": "min-cost", "demand_req_per_s": 3.0}
NO_PLAN: dict[str, dict[str, Any]] = {
    "more demand than the accelerators serve": MIN_COST | {"demand_req_per_s": 4.5},
    "a budget below the cheapest fleet": MIN_COST | {"budget_usd_per_hour": 60.0},
    "too few home accelerators": MIN_COST | {f"sites.local.accelerators.{HOME}": 8},
    "a pool fixed too small": MIN_COST | {"pools.decode.n_instances": 1},
    "no decode instance at all": {"pools.decode.n_instances": 0},
    "a fixed fleet beyond the inventory": {"pools.near.n_instances": 3, "pools.decode.n_instances": 3},
    "a ratio that the inventory cannot hold": {"routing.prefill_to_decode": "1:5"},
    "a promise in the wrong unit": MIN_COST | {"slo.ttft_s": 0.02},
    "a budget that pays for one role only": {"budget_usd_per_hour": 20.0},
}


def error_of(scenario: Scenario) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        optimize(scenario, time_limit_s=600.0)  # what is found must not depend on how busy a machine is
    return caught.value


def relaxed(scenario: Scenario, key: str, value: str) -> Scenario:
    """The scenario with one printed relaxation applied."""
    return scenario.varied(
        {key: value.strip('"') if value.startswith('"') else float(value) if "." in value else int(value)}
    )


@pytest.mark.parametrize("case", sorted(NO_PLAN))
def test_every_relaxation_that_is_printed_makes_a_plan_possible(case: str) -> None:
    scenario = small_with(NO_PLAN[case])
    error = error_of(scenario)
    assert error.exit_code == 4
    ways = [match.groupdict() for match in RELAXATION.finditer(str(error))]
    assert ways
    assert len(ways) == str(error).count("\n  - ")
    for way in ways:
        plan = sketch(relaxed(scenario, way["key"], way["value"]))
        assert plan.throughput_req_per_s > 0, way


@pytest.mark.parametrize("case", sorted(NO_PLAN))
def test_one_unit_less_of_a_relaxation_does_not_do(case: str) -> None:
    scenario = small_with(NO_PLAN[case])
    n_checked = 0
    for key, sign, value in RELAXATION.findall(str(error_of(scenario))):
        if value.startswith('"'):
            continue
        fixed = NO_PLAN[case].get(key)
        towards_now = 1 if isinstance(fixed, int) and fixed > float(value) else -1
        step = {"at least": -0.01, "at most": 1e-3 * float(value)}.get(
            sign, -8 if ".accelerators." in key else towards_now
        )
        less = float(value) + step
        if less < 0:
            continue
        nearly = scenario.varied({key: less if sign != "=" else int(less)})
        assert routed_search(planning_problem(nearly)) is None, key
        n_checked += 1
    assert n_checked


def test_the_message_names_the_scenario_the_demand_and_what_binds() -> None:
    message = str(error_of(small_with(NO_PLAN["a pool fixed too small"])))
    assert message.startswith("small: infeasible: no fleet within the limits serves 3 req/s.")
    assert "pools.decode.n_instances" in message
    assert f"sites.remote.accelerators.{FAST}" not in message


def test_nothing_that_a_single_limit_could_help_is_said_so() -> None:
    changes = {"pools.decode.n_instances": 0, "pools.near.n_instances": 0, "pools.fast.n_instances": 0}
    assert "No single limit can be relaxed" in str(error_of(small_with(changes)))


def test_a_ratio_may_ask_for_more_instances_than_their_own_work_does() -> None:
    """Four prefill instances per decode instance at a tiny demand: the cap by demand must not forbid the fourth."""
    plan = sketch(small_with({"objective": "min-cost", "demand_req_per_s": 0.05, "routing.prefill_to_decode": "4:1"}))
    assert [plan.pool(name).n_instances for name in ("near", "decode")] == [4, 1]


def test_the_least_size_of_a_pool_may_exceed_what_the_demand_needs() -> None:
    plan = sketch(small_with({"objective": "min-cost", "demand_req_per_s": 0.01, "pools.near.min_instances": 4}))
    assert plan.pool("near").n_instances == 4


def test_a_curve_that_is_concave_does_not_cut_off_the_instances_that_a_demand_needs() -> None:
    """T at the mean length exceeds the mean of T: most prompts are short, the mean is not, and T is flat from there."""
    curve = {"tokens": [8, 2000, 65_536], "seconds": [0.05, 9.0, 9.1], "interpolation": "linear"}
    lengths = {"kind": "empirical", "tokens": [100, 60_000], "weights": [0.95, 0.05]}
    scenario = small_with(
        {
            "objective": "min-cost",
            "demand_req_per_s": 2.0,
            "capacity_rule": "mean-length",
            "workload.lengths": lengths,
            "measured.home.prefill": curve,
            "pools.fast.n_instances": 0,
            f"sites.local.accelerators.{HOME}": 800,
        }
    )
    assert sketch(scenario).pool("near").n_instances == 19  # 2 req/s of T(3095) = 9.0017 s


def test_a_budget_that_pays_exactly_is_enough() -> None:
    """Three instances at 1.1 cost 3.3 to a buyer, whatever they cost in binary."""
    changes = {
        f"prices.{HOME}.usd_per_accelerator_hour": 0.1375,
        f"prices.{FAST}.usd_per_accelerator_hour": 0.0,
        "links.wan.usd_per_hour": 0.0,
        "pools.near.n_instances": 0,
        "measured.home.decode.step_s": 0.5,
        "budget_usd_per_hour": 3.3,
    }
    assert sketch(small_with(changes)).pool("decode").n_instances == 3


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"objective": "min-cost", "demand_req_per_s": 1.0, "prices": {}}, "prices"),
        ({"budget_usd_per_hour": 100.0, "prices": {}}, "prices"),
        ({"sites.remote": {}}, "pools.fast"),
    ],
)
def test_a_question_without_the_figures_it_needs_is_refused_by_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        planning_problem(small_with(changes))
    assert all(problem.key.startswith(key) for problem in caught.value.problems)


def test_a_pool_that_no_link_joins_is_said_to_be_of_no_use() -> None:
    plan = sketch(small().model_copy(update={"links": {}}))
    assert plan.pool("fast").n_instances == 0
    assert any("pool fast is of no use: no link joins it to a pool" in note for note in plan.notes)


def test_a_role_without_measurements_is_refused_with_what_is_known() -> None:
    with pytest.raises(InputError, match=rf"no measured decode .*\(measured: 8 x {HOME}"):
        planning_problem(small_with({"pools.decode.hardware": FAST, "pools.decode.service_times": "measured"}))


def test_a_curve_that_would_be_negative_for_short_prompts_is_refused_and_no_bug() -> None:
    steep = {"tokens": [64, 2000], "seconds": [0.05, 9.0], "interpolation": "linear"}
    with pytest.raises(InputError, match=r"pools\.near: the measured prefill .* add a point at a shorter length"):
        planning_problem(small_with({"measured.home.prefill": steep}))


def hard_problem() -> Problem:
    """Several classes with many candidates: more than a solver does in no time."""
    lengths = {"kind": "lognormal", "sigma": 1.0, "low_tokens": 128, "high_tokens": 65_536}
    output = {"kind": "constant", "tokens": 500}
    classes = {
        f"class-{i}": (0.25, {"lengths": {**lengths, "mu": 8.0 + 0.5 * i}, "output_lengths": output}) for i in range(4)
    }
    return planning_problem(in_classes(classes, {"routing.n_candidates": 256}))


def test_no_plan_in_time_is_undecided_and_not_infeasible() -> None:
    with pytest.raises(UndecidedError, match=r"in the time, .* allow more time") as caught:
        best_solution(hard_problem(), 1e-4)
    assert caught.value.exit_code == 5


def test_a_plan_cut_short_before_its_bound_is_feasible_and_claims_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first cells are solved in time: the gap is then to what they prove, never zero."""
    from planner.optimizer.network import search

    first, n_bounds = search._bound, 0

    def only_first(*asked: Any) -> Any:
        nonlocal n_bounds
        n_bounds += 1
        if n_bounds > 1:
            raise UndecidedError("time is up")
        return first(*asked)

    monkeypatch.setattr(search, "_bound", only_first)
    plan = routed_search(planning_problem(reference("expected-work")))
    assert plan is not None
    assert plan.gap > 1e-3
    assert plan.bound > plan.objective
