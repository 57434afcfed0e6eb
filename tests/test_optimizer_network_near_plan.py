"""The integer program near a plan: what the periods outside it use, and the sizes that it looks at."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from planner.optimizer import Problem, Solution
from planner.optimizer.network.integer_near_plan import IntegerProgramNearPlan
from planner.optimizer.problem import Situation
from planner.optimizer.strategies import solution_of_routes
from tests.test_optimizer_evaluation import ASKED, planned
from tests.test_optimizer_routed_capacity import POWER, RATE, SIZES, of, sent_bytes, work_s

DAY = {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.5}}


def asked(**changes: Any) -> tuple[Problem, Solution]:
    """A day at the demand and a night at half of it, with the flows of a plan for one period."""
    stated = {**POWER, **ASKED, **changes}
    one, *_ = of(**stated)
    base = solution_of_routes(one, planned(one))
    both = tuple(base.operations[0].scaled_to(p, [ratio]) for p, ratio in enumerate((1.0, 0.5)))
    return of(**stated, periods=DAY)[0], replace(base, operations=both, routed=None)


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_periods_outside_use_power_and_traffic_for_what_they_serve(times: float) -> None:
    problem, solution = asked()
    more, _ = asked(demand_req_per_s=times * RATE)
    found = IntegerProgramNearPlan(problem, solution)._use_of_others(more, (Situation(0, None),))
    rate = times * RATE / 2
    power = sum(p.busy_usd_per_hour * s for p, s in zip(problem.pools, work_s(problem), strict=True))
    assert found == pytest.approx(rate * (power + 0.02 * 3600 * sent_bytes(problem) / 1e9) / 3)
    both = (Situation(0, None), Situation(1, None))
    assert IntegerProgramNearPlan(problem, solution)._use_of_others(more, both) == 0.0


def test_where_no_bill_is_sought_nothing_is_used() -> None:
    problem, solution = asked()
    other, *_ = of(**POWER, periods=DAY)
    assert IntegerProgramNearPlan(problem, solution)._use_of_others(other, (Situation(0, None),)) == 0.0


def test_sizes_are_looked_at_in_pieces_that_meet_and_those_that_are_fixed_alone() -> None:
    problem, solution = asked()
    near = IntegerProgramNearPlan(problem, solution)
    assert not near._has_fixed_sizes(problem)
    for i, (pieces, n) in enumerate(zip(near._segments(problem).values(), SIZES, strict=True)):
        assert pieces[0][0] == 1
        assert pieces[-1][1] == problem.pools[i].max_instances
        assert any(n in piece for piece in pieces), "the plan's size is an end of one"
        assert all(high in (low, low - 1) for (_, high), (low, _) in pairwise(pieces))
    stated = {f"pools.{name}.n_instances": n for name, n in zip(("fast", "near", "decode"), SIZES, strict=True)}
    fixed, _ = asked(**stated)
    assert near._has_fixed_sizes(fixed)
    assert near._segments(fixed) == {i: [(n, n)] for i, n in enumerate(SIZES)}
    assert near._gbps(fixed) == near._gbps(problem) == [100.0]
