"""Spare: plans leave an instance of every pool out of its work, so that their flows survive the loss of any."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from planner.errors import UndecidedError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.network.local_search import CandidatePlan
from planner.optimizer.network.period_operation import busy_instances, classes_missing_slo
from planner.optimizer.network.search import network_search
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.scenario import Scenario, load_scenario
from tests.builders import FAST, GPUS, HOME, SMALL, small_with
from tests.network_scenarios import scale_scenario

LIMIT_S = 300.0
"""More than is needed on a busy machine."""
ROUGH = 0.5
"""A gap that a first plan has."""
ROUNDING = 1e-6


def two_models() -> Scenario:
    """A class of each of two models, which share sites and a link."""
    head, tail = SMALL.split("[workload]")[0], SMALL[SMALL.index("[links.wan]") :]
    link, measured = tail[: tail.index("[measured.fast]")], tail[tail.index("[measured.fast]") :]
    text = (
        f"{head}[sites.remote]\naccelerators = {{ {FAST} = 320 }}\n[sites.local]\naccelerators = {{ {HOME} = 640 }}\n"
    )
    text += f'{link}[spare]\nsurvive = ["instance"]\n'
    for model, mu in (("a", 9.0), ("b", 8.5)):
        text += f"""
[models.{model}]
profile = "qwen3-235b"
[classes.{model}]
share = 0.5
model = "{model}"
sites = {{ local = 1.0 }}
slo = {{ ttft_s = 8.0 }}
[classes.{model}.workload]
lengths = {{ kind = "lognormal", mu = {mu}, sigma = 1.0, low_tokens = 128, high_tokens = 65536 }}
output_lengths = {{ kind = "constant", tokens = 500 }}
"""
        for kind in ("fast", "home"):
            of_model = measured[measured.index(f"[measured.{kind}]") :].split("\n\n")[0]
            text += f'{of_model}\nmodel = "{model}"\n'.replace(f"[measured.{kind}]", f"[measured.{kind}-{model}]")
        for pool, site, hardware, role in (
            ("fast", "remote", FAST, "prefill"),
            ("near", "local", HOME, "prefill"),
            ("decode", "local", HOME, "decode"),
        ):
            text += f'[pools.{pool}-{model}]\nsite = "{site}"\nhardware = "{hardware}"\n'
            text += f'role = "{role}"\nmodel = "{model}"\n'
    stated = {"objective": "min-cost", "demand_req_per_s": 6.0}
    return load_scenario(text, "two-models.toml", Path()).varied(stated)


def three_periods(**changes: Any) -> Scenario:
    return small_with(
        {
            "objective": "min-cost",
            "demand_req_per_s": 8.0,
            "slo": {"ttft_s": 6.0},
            "sites.remote.accelerators": {FAST: 40 * GPUS},
            "sites.local.accelerators": {HOME: 80 * GPUS},
            "spare": {"survive": ("instance",)},
            "periods": {
                "day": {"hours": 8.0},
                "eve": {"hours": 8.0, "demand": 0.7},
                "night": {"hours": 8.0, "demand": 0.2},
            },
            **changes,
        }
    )


def survives(problem: Problem, solution: Solution) -> bool:
    """Whether the plan's own ways serve every period as promised, whichever instance is lost."""
    candidate = CandidatePlan.of(problem, solution.operations)
    assert len(candidate.operations) == len(problem.periods) * (1 + len(problem.pools))
    for one in candidate.operations:
        if any(b >= n for b, n in zip(busy_instances(problem, one), one.n_instances, strict=True) if b > 0):
            return False
    return classes_missing_slo(problem, candidate.operations, solution.ports) == []


@pytest.mark.parametrize("scenario", [two_models(), three_periods()], ids=["two models", "three periods"])
def test_a_search_with_spare_ends_with_a_plan_that_keeps_its_promises(scenario: Scenario) -> None:
    problem = planning_problem(scenario)
    found = network_search(problem, LIMIT_S, ROUGH)
    assert found is not None
    assert classes_missing_slo(problem, found.operations, found.ports) == []
    assert found.bound <= found.objective


def test_what_stock_leaves_when_an_instance_of_every_pool_is_spare_is_planned_for() -> None:
    """As many instances as the demand takes without spare: one of each is kept back, and less is served."""
    changes = {"objective": "max-throughput", "demand_req_per_s": None, "periods": {"all": {"hours": 1.0}}}
    stock = {"sites.remote.accelerators": {FAST: 3 * GPUS}, "sites.local.accelerators": {HOME: 9 * GPUS}}
    problem = planning_problem(three_periods(**changes, **stock))
    found = network_search(problem, LIMIT_S, ROUGH)
    assert found is not None
    assert found.scale > 0
    for stock_of in problem.inventories:
        held = sum(found.operations[0].n_instances[i] * problem.pools[i].n_accelerators for i in stock_of.pools)
        assert held <= stock_of.n_accelerators


DAY_LIMIT_S = 6.0


@pytest.mark.parametrize("seed", [11, 12])
def test_a_day_of_many_pools_survives_every_loss_and_costs_more_than_without(seed: int) -> None:
    bare = scale_scenario(seed, 8, 3, 2, 1)
    spared = planning_problem(bare.varied({"spare": {"survive": ["instance"]}}))
    found, without = network_search(spared, DAY_LIMIT_S), network_search(planning_problem(bare), DAY_LIMIT_S)
    assert found is not None
    assert without is not None
    assert survives(spared, found)
    assert max(without.bound, found.bound) <= found.objective * (1 + ROUNDING)
    assert without.objective < found.objective


def test_a_budget_that_leaves_room_hardly_changes_a_day_and_one_below_the_bound_leaves_no_plan() -> None:
    asked = scale_scenario(12, 8, 3, 2, 1)
    free = network_search(planning_problem(asked), DAY_LIMIT_S)
    assert free is not None
    roomy = network_search(planning_problem(asked.varied({"budget_usd_per_hour": 2 * free.objective})), DAY_LIMIT_S)
    assert roomy is not None
    assert roomy.objective == pytest.approx(free.objective, rel=0.01)
    tight = planning_problem(asked.varied({"budget_usd_per_hour": 0.9 * free.bound}))
    assert network_search(tight, DAY_LIMIT_S) is None
    between = planning_problem(asked.varied({"budget_usd_per_hour": (free.bound + free.objective) / 2}))
    with suppress(UndecidedError):
        found = network_search(between, DAY_LIMIT_S)
        assert found is None or found.objective <= (free.bound + free.objective) / 2 * (1 + ROUNDING)
