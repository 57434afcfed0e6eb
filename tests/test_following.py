"""Pools that are rented by the period: least cost against every schedule, and the laws of following the hours."""

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comparison import best_fleet
from planner.errors import InfeasibleError, InputError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.rent import mean_instances, starts, times_within
from planner.optimizer.solution import Solution
from planner.optimizer.strategies import FOLLOWING_GAP, best_solution
from tests.builders import GPUS, HOME, in_classes, sketch, small_with
from tests.cpu_cost import cached

POOLS = ("fast", "near", "decode")
RENTS = (32.0, 16.0, 16.0)
PORT_USD = 20.0
LENGTHS = {"kind": "empirical", "tokens": [1000, 6000, 30_000]}
DEMAND = 1.6
CLOSE = FOLLOWING_GAP * 1.01


def following(*names: str, **more: Any) -> dict[str, Any]:
    """Changes that rent pools by the period."""
    keys = {"rent": "by-period", **more}
    return {f"pools.{name}.{key}": value for name in names or POOLS for key, value in keys.items()}


def question(hours: Mapping[str, tuple[float, float]], changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The least cost of a day of periods: hours and demand of each."""
    periods = {name: {"hours": h, "demand": d} for name, (h, d) in hours.items()}
    asked = {"objective": "min-cost", "demand_req_per_s": DEMAND, "workload.lengths": LENGTHS, "periods": periods}
    return {**asked, **(changes or {})}


def solved(changes: Mapping[str, Any], time_limit_s: float = 60.0) -> Solution:
    found = best_solution(planning_problem(small_with(changes)), time_limit_s)
    assert found is not None
    return found


@cached
def most_req_per_s(sizes: tuple[int, ...]) -> float:
    """Most that a fleet serves, as a question of one rate."""
    fixed = {f"pools.{name}.n_instances": n for name, n in zip(POOLS, sizes, strict=True)}
    try:
        return best_fleet(small_with({"workload.lengths": LENGTHS, **fixed})).objective
    except InfeasibleError:
        return 0.0


def is_kept_up(n_instances: list[int], hours: list[float], least_up_h: float) -> bool:
    """True if every instance stays up as long as it must, those that started first going first."""
    begun, periods = starts(n_instances), range(len(hours))
    return all(
        n_instances[p] >= sum(times_within(hours, least_up_h, q, p) * begun[q] for q in periods) for p in periods
    )


def kept_up_by_hand(sizes: list[int], hours: list[float], least_up_h: float) -> bool:
    """Every instance by itself over many cycles: the oldest stops first, and must be old enough."""
    clock, begun = 0.0, [-inf] * sizes[-1]
    for n, h in list(zip(sizes, hours, strict=True)) * 8:
        while len(begun) > n:
            if clock - begun.pop(0) < least_up_h - 1e-9:
                return False
        begun += [clock] * (n - len(begun))
        clock += h
    return True


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=2, max_size=5), st.integers(0, 30))
def test_least_time_up_is_kept_where_every_instance_keeps_it(periods: list[tuple[int, int]], least_up_h: int) -> None:
    sizes, hours = [n for n, _ in periods], [float(h) for _, h in periods]
    assert is_kept_up(sizes, hours, least_up_h) == kept_up_by_hand(sizes, hours, least_up_h)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), min_size=1, max_size=6), st.floats(0, 2))
def test_what_is_paid_for_is_what_every_hour_has_and_every_start_takes(
    periods: list[tuple[int, int]], start_up_h: float
) -> None:
    sizes, hours = [n for n, _ in periods], [float(h) for _, h in periods]
    by_hour = [n for n, h in periods for _ in range(h)]
    begun = sum(max(b - a, 0) for a, b in pairwise([by_hour[-1], *by_hour]))
    assert sum(starts(sizes)) == begun
    assert mean_instances(sizes, hours, start_up_h) == pytest.approx((sum(by_hour) + start_up_h * begun) / sum(hours))


def schedules(hours: Mapping[str, tuple[float, float]], most: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every schedule of fleets that serve each period's demand."""
    fleets = list(product(*(range(n + 1) for n in most)))
    by_period = [[f for f in fleets if most_req_per_s(f) >= DEMAND * d * (1 - 1e-9)] for _, d in hours.values()]
    yield from product(*by_period)


def usd_by_hand(
    schedule: tuple[tuple[int, ...], ...], hours: list[float], least_up_h: float, start_up_h: float, always: int | None
) -> float:
    """Mean rent of a schedule by hand; inf where it breaks the stock, the least time up, or a pool that is to stay."""
    total, stock_home, stock_fast = PORT_USD * any(f[0] for f in schedule), 40 // GPUS, 24 // GPUS
    begun = [starts([f[i] for f in schedule]) for i in range(3)]
    for i, rent in enumerate(RENTS):
        sizes = [f[i] for f in schedule]
        if i == always:
            if len(set(sizes)) > 1:
                return inf
        elif not kept_up_by_hand(sizes, hours, least_up_h):
            return inf
        total += rent * mean_instances(sizes, hours, start_up_h)
    for p, fleet in enumerate(schedule):
        coming = [begun[i][(p + 1) % len(hours)] * (start_up_h > 0) for i in range(3)]
        if fleet[0] + coming[0] > stock_fast or fleet[1] + fleet[2] + coming[1] + coming[2] > stock_home:
            return inf
    return total


DAYS = {
    "slopes": {"day": (12.0, 1.0), "eve": (4.0, 0.6), "night": (8.0, 0.2)},
    "two peaks": {"morning": (3.0, 1.0), "noon": (5.0, 0.3), "evening": (4.0, 0.9), "night": (12.0, 0.1)},
}


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize(
    ("least_up_h", "start_up_h", "always"),
    [(0.0, 0.0, None), (14.0, 0.0, None), (0.0, 2.5, None), (9.0, 1.0, 0), (30.0, 0.5, None)],
)
def test_the_plan_costs_as_little_as_the_cheapest_of_all_schedules(
    day: str, least_up_h: float, start_up_h: float, always: int | None
) -> None:
    hours = DAYS[day]
    names = [name for i, name in enumerate(POOLS) if i != always]
    found = solved(question(hours, following(*names, least_time_up_h=least_up_h, start_up_s=3600 * start_up_h)))
    h = [one for one, _ in hours.values()]
    small = (2, 2, 1) if len(h) > 3 else (2, 3, 2)
    best = min(usd_by_hand(s, h, least_up_h, start_up_h, always) for s in schedules(hours, small))
    own = tuple(one.n_instances for one in found.operations)
    assert usd_by_hand(own, h, least_up_h, start_up_h, always) == pytest.approx(found.objective), "it keeps every rule"
    assert found.objective <= best * (1 + CLOSE)
    assert found.bound <= best * (1 + 1e-6)


def test_equal_periods_save_nothing() -> None:
    hours = {"one": (9.0, 0.8), "two": (15.0, 0.8)}
    plan = sketch(small_with(question(hours, following())))
    assert plan.schedule is not None
    assert plan.schedule.saved_usd_per_hour == pytest.approx(0.0, abs=1e-6)
    steady = sketch(small_with(question(hours)))
    assert plan.cost.usd_per_hour == pytest.approx(steady.cost.usd_per_hour)
    assert [p.n_instances for p in plan.pools] == [p.n_instances for p in steady.pools]


@pytest.mark.parametrize("names", [("fast",), ("near", "decode"), POOLS])
@pytest.mark.parametrize("slo", [{}, {"slo.ttft_s": 8.0}])
def test_following_is_never_dearer_than_renting_at_all_times(names: tuple[str, ...], slo: dict[str, Any]) -> None:
    found = solved(question(DAYS["slopes"], {**following(*names), **slo}), 30.0)
    assert found.always is not None
    assert found.objective <= found.always.objective * (1 + 1e-9)
    still = [i for i, name in enumerate(POOLS) if name not in names]
    assert all(len({one.n_instances[i] for one in found.operations}) == 1 for i in still)


def test_a_day_cut_in_more_periods_of_equal_demand_costs_the_same() -> None:
    whole = solved(question(DAYS["slopes"], following(start_up_s=3600.0)))
    halves = {"day": (12.0, 1.0), "eve": (4.0, 0.6), "late": (4.0, 0.2), "early": (4.0, 0.2)}
    cut = solved(question(halves, following(start_up_s=3600.0)))
    assert cut.objective == pytest.approx(whole.objective, rel=2 * CLOSE)


def test_pools_that_are_rented_at_all_times_are_planned_as_before() -> None:
    stated = {f"pools.{name}.rent": "always" for name in POOLS}
    plans = [sketch(small_with(question(DAYS["slopes"], changes))) for changes in ({}, stated)]
    assert plans[0].answer() == plans[1].answer()
    assert plans[0].schedule is None


def test_pools_that_share_a_stock_may_take_it_in_turns() -> None:
    """By day much is decoded, by night much is prefilled: more than the stock at once, and not more at any time."""
    classes = {
        "chat": (
            0.5,
            {"lengths": {"kind": "constant", "tokens": 1000}, "output_lengths": {"kind": "constant", "tokens": 4000}},
        ),
        "docs": (
            0.5,
            {"lengths": {"kind": "constant", "tokens": 30_000}, "output_lengths": {"kind": "constant", "tokens": 50}},
        ),
    }
    changes = {
        "objective": "min-cost",
        "demand_req_per_s": 1.0,
        "periods": {"day": {"by_class": {"docs": 0.0}}, "night": {"by_class": {"chat": 0.0}}},
        "pools.fast.n_instances": 0,
        f"sites.local.accelerators.{HOME}": 6 * GPUS,
    }
    assert best_solution(planning_problem(in_classes(classes, changes)), 30.0) is None, "not both at once"
    found = best_solution(planning_problem(in_classes(classes, {**changes, **following("near", "decode")})), 30.0)
    assert found is not None
    day, night = (one.n_instances for one in found.operations)
    assert day[2] > night[2]
    assert night[1] > day[1]
    assert max(sum(day[1:]), sum(night[1:])) <= 6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pools.near.rent": "by-period", "periods": {}}, "has no [periods]"),
        ({"pools.near.rent": "by-period", "objective": "max-throughput"}, "min-cost"),
        ({"pools.near.rent": "by-period", "routing.role_conversion": True}, "role_conversion"),
        ({**following("near"), "pools.near.start_up_s": 20_000.0}, "at most 14400 s, the shortest period"),
        ({"pools.near.start_up_s": 60.0}, 'rent = "by-period"'),
        ({"pools.near.rent": "hourly"}, "by-period"),
        ({**following("near"), "pools.near.least_time_up_h": -1.0}, "least_time_up_h"),
    ],
)
def test_rent_that_nothing_can_follow_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        small_with(question(DAYS["slopes"], changes))
    assert said in str(caught.value)
