"""Orders of steps between two fleets, against every order there is; and when growth breaks a fleet."""

from itertools import pairwise, product
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.studies.migration.growth import months_until
from planner.studies.migration.order import Sizes, Transition, order_of

SIZES = st.tuples(*[st.integers(0, 3)] * 3)


@st.composite
def ways(draw: st.DrawFn) -> Transition:
    """Two fleets of three pools, some in a common stock; each pool does some of two kinds of work, all of it needed."""
    begin, end = draw(SIZES), draw(SIZES)
    shares_stock = draw(st.tuples(*[st.booleans()] * 3))
    units = draw(st.tuples(*[st.integers(1, 2)] * 3))
    works = [draw(st.tuples(*[st.integers(0, 3)] * 3)) for _ in range(2)]

    def taken(sizes: Sizes) -> int:
        return sum(n * u for n, u, shares in zip(sizes, units, shares_stock, strict=True) if shares)

    def done(sizes: Sizes) -> list[int]:
        return [sum(n * w for n, w in zip(sizes, work, strict=True)) for work in works]

    stock = max(taken(begin), taken(end)) + draw(st.integers(0, 1))
    least = [draw(st.integers(0, min(a, b))) for a, b in zip(done(begin), done(end), strict=True)]
    return Transition(
        begin,
        end,
        lambda sizes: taken(sizes) <= stock,
        lambda sizes: all(a >= b for a, b in zip(done(sizes), least, strict=True)),
    )


def reachable(way: Transition) -> bool:
    """Whether unit steps towards the end lead there through fleets that fit and serve: every order, by breadth."""
    spans = (range(min(n, m), max(n, m) + 1) for n, m in zip(way.begin, way.end, strict=True))
    allowed = {sizes for sizes in product(*spans) if way.fits(sizes) and way.holds(sizes)}
    found, fresh = {way.begin}, {way.begin}
    while fresh:
        fresh = {after for before in fresh for after in way.moves(before) if after in allowed} - found
        found |= fresh
    return way.end in found


def between(before: Sizes, after: Sizes) -> list[Sizes]:
    """Fleets of a step, instance by instance, of which only one pool may change."""
    (i,) = (i for i, (n, m) in enumerate(zip(before, after, strict=True)) if n != m)
    sign = 1 if after[i] > before[i] else -1
    return [(*before[:i], n, *before[i + 1 :]) for n in range(before[i], after[i] + sign, sign)]


@given(ways())
def test_there_is_an_order_where_any_order_leads_to_the_end(way: Transition) -> None:
    assert (order_of(way) is not None) == reachable(way)


@given(ways())
def test_no_step_passes_through_a_fleet_that_does_not_fit_or_serve(way: Transition) -> None:
    path = order_of(way)
    if path is None:
        return
    assert (path[0], path[-1]) == (way.begin, way.end)
    for before, after in pairwise(path):
        assert all(way.fits(sizes) and way.holds(sizes) for sizes in between(before, after))


@given(SIZES, SIZES)
def test_with_room_for_all_additions_every_one_comes_before_any_removal(begin: Sizes, end: Sizes) -> None:
    path = order_of(
        Transition(begin, end, lambda _: True, lambda sizes: all(map(int.__ge__, sizes, map(min, begin, end))))
    )
    assert path is not None
    grows = [sum(after) > sum(before) for before, after in pairwise(path)]
    assert grows == sorted(grows, reverse=True)
    assert len(grows) == sum(n != m for n, m in zip(begin, end, strict=True)), "one step for each pool that changes"


@given(st.floats(0.1, 1e3), st.floats(1.01, 100.0), st.floats(0.001, 2.0))
def test_after_the_months_that_are_told_the_demand_is_what_the_fleet_serves(
    demand: float, room: float, growth: float
) -> None:
    months = months_until(demand, room * demand, growth)
    assert demand * (1 + growth) ** months == pytest.approx(room * demand)


def test_what_does_not_grow_never_breaks_a_fleet_that_does() -> None:
    assert months_until(1.0, 1.5, 0.0) == inf
