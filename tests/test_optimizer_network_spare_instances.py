"""What a search with spare instances begins with: everything but an instance of each, and one more of each in use."""

from dataclasses import replace
from typing import Any

import pytest

from planner.optimizer import Problem, Solution
from planner.optimizer.network.spare_instances import _one_more_each, _without_spare
from planner.optimizer.strategies import solution_of_routes
from tests.test_optimizer_evaluation import ASKED, planned
from tests.test_optimizer_routed_capacity import SIZES, of

SPARE = {"spare": {"survive": ("instance",)}}
STOCK = {"sites.remote.accelerators": {"h100-sxm": 40}, "sites.local.accelerators": {"h200-sxm": 96}}


def asked(**changes: Any) -> Problem:
    return of(**{**ASKED, **STOCK, **changes})[0]


def bare(sizes: tuple[int, ...] = SIZES) -> Solution:
    problem = asked()
    found = solution_of_routes(problem, planned(problem))
    operations = tuple(replace(one, n_instances=sizes) for one in found.operations)
    return replace(found, operations=operations, routed=None)


def test_without_spare_first_nothing_and_then_an_instance_of_every_pool_is_set_aside() -> None:
    limits = {"pools.near.min_instances": 1, "pools.near.max_instances": 5, "pools.decode.min_instances": 0}
    problem = asked(**SPARE, **limits, budget_usd_per_hour=100.0)
    plain, aside = _without_spare(problem)
    assert not plain.scenario.spare.survive
    assert (plain.pools, plain.inventories) == (problem.pools, problem.inventories)
    assert plain.scenario.budget_usd_per_hour == 100.0
    assert aside.scenario.budget_usd_per_hour == 100.0 - (32.0 + 2 * 16.0)
    assert [(p.min_instances, p.max_instances) for p in aside.pools] == [
        (max(p.min_instances - 1, 0), max(p.max_instances - 1, 0)) for p in problem.pools
    ]
    assert [p.min_instances for p in aside.pools] == [0, 0, 0]
    assert sorted(v.n_accelerators for v in aside.inventories) == [40 - 8, 96 - 2 * 8]
    *_, poor = _without_spare(asked(**SPARE, budget_usd_per_hour=10.0))
    assert poor.scenario.budget_usd_per_hour == 0.0


@pytest.mark.parametrize(
    ("sizes", "more"), [((2, 3, 4), (1, 1, 1)), ((0, 3, 4), (0, 1, 1)), ((2, 0, 4), (1, 0, 1)), ((0, 0, 4), (0, 0, 1))]
)
def test_every_pool_in_use_gets_one_more_and_the_bill_its_rent(sizes: tuple[int, ...], more: tuple[int, ...]) -> None:
    found = _one_more_each(asked(), bare(sizes))
    assert found is not None
    (operation,) = found.operations
    assert operation.n_instances == tuple(n + m for n, m in zip(sizes, more, strict=True))
    rent = sum(m * usd for m, usd in zip(more, (32.0, 16.0, 16.0), strict=True))
    assert found.objective == pytest.approx(bare(sizes).objective + rent)


def test_a_pool_that_must_not_be_smaller_gets_what_it_lacks() -> None:
    found = _one_more_each(asked(**{"pools.near.min_instances": 6}), bare())
    assert found is not None
    assert found.operations[0].n_instances == (3, 6, 5)


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({"pools.decode.max_instances": 5}, True),
        ({"pools.decode.max_instances": 4}, False),
        ({"sites.local.accelerators": {"h200-sxm": 72}}, True),
        ({"sites.local.accelerators": {"h200-sxm": 71}}, False),
        ({"budget_usd_per_hour": 1e6}, True),
        ({"budget_usd_per_hour": 1.0}, False),
    ],
)
def test_without_room_for_one_more_of_each_there_is_no_such_plan(changes: dict[str, Any], is_found: bool) -> None:
    assert (_one_more_each(asked(**changes), bare()) is not None) is is_found


def test_where_the_rate_is_sought_more_instances_change_no_objective() -> None:
    problem = of(**STOCK)[0]
    found = _one_more_each(problem, bare())
    assert found is not None
    assert found.objective == bare().objective
