"""Requests that fit a room in their order: counts by hand, laws of renewal processes, and throughput in simulation."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.packing import packing


def test_equal_sizes_fill_the_room_with_whole_ones() -> None:
    found = packing(np.array([2.0]), np.array([1.0]), 7.0, 10)
    assert found.fractions.tolist() == pytest.approx([0, 0, 1, *[0] * 7], abs=1e-12)
    assert found.mean_filled[2] == pytest.approx(6.0)


def test_the_most_limits_where_the_room_does_not() -> None:
    found = packing(np.array([1.0, 3.0]), np.array([0.5, 0.5]), np.inf, 4)
    assert found.fractions.tolist() == [0, 0, 0, 1]
    assert found.mean_filled.tolist() == [2.0, 4.0, 6.0, 8.0]


def test_two_sizes_by_hand() -> None:
    """Sizes 1 and 2, each half of the requests, in a room of 2: one inside, a 2, or a 1 before a 2; else 1 and 1."""
    found = packing(np.array([1.0, 2.0]), np.array([0.5, 0.5]), 2.0, 5)
    assert found.fractions[:2].tolist() == pytest.approx([0.75, 0.25])
    assert found.mean_filled[:2].tolist() == pytest.approx([(0.5 * 2 + 0.25 * 1) / 0.75, 2.0])


def test_exponential_sizes_are_a_poisson_process() -> None:
    edges = (np.arange(20_000) + 0.5) / 20_000
    sizes, room = -np.log1p(-edges), 6.0
    found = packing(sizes, np.full(sizes.size, 1 / sizes.size), room, 40)
    n = np.arange(1, 40)
    poisson = np.exp(n * np.log(room) - room - np.cumsum(np.log(np.append(1.0, n[1:]))))
    assert found.fractions[1:39] == pytest.approx(poisson[1:], abs=2e-4)
    assert found.fractions[0] == pytest.approx(poisson[0] + np.exp(-room), abs=2e-4)  # none that fits: one alone


def test_a_request_larger_than_the_room_is_inside_alone() -> None:
    found = packing(np.array([1.0, 50.0]), np.array([0.9, 0.1]), 10.0, 100)
    assert found.fractions.sum() == pytest.approx(1.0)
    assert found.fractions[0] >= 0.1


def test_sums_far_beyond_the_room_do_not_come_round_into_it() -> None:
    found = packing(np.array([0.6, 1.0]), np.array([0.5, 0.5]), 1.0, 4)
    assert found.fractions.tolist() == pytest.approx([1, 0, 0, 0], abs=1e-12)
    assert found.mean_filled[0] == pytest.approx(0.8)


@given(
    st.lists(st.floats(0.1, 5.0), min_size=1, max_size=6), st.floats(1.0, 30.0), st.integers(1, 40), st.floats(1.0, 2.0)
)
def test_more_room_never_holds_fewer(sizes: list[float], room: float, most: int, factor: float) -> None:
    shares = np.full(len(sizes), 1 / len(sizes))
    small, large = (packing(np.array(sizes), shares, r, most) for r in (room, room * factor))
    n = np.arange(1, most + 1)
    assert small.fractions.sum() == pytest.approx(1.0)
    assert (large.fractions @ n) >= (small.fractions @ n) - 0.02
    assert (small.mean_filled[small.fractions > 1e-6] <= max(room * (1 + 1e-9), max(sizes))).all()


def saturated_rate(sizes: np.ndarray, stays: np.ndarray, room: float, most: int) -> float:
    """Departures per second when the next request is always there, event by event."""
    inside: list[tuple[float, float]] = []
    now, used, following = 0.0, 0.0, 0
    begun, first = (0.0, 0), len(sizes) // 5
    while following < len(sizes):
        while following < len(sizes) and len(inside) < most and (not inside or used + sizes[following] <= room):
            heapq.heappush(inside, (now + stays[following], sizes[following]))
            used += sizes[following]
            following += 1
        now, size = heapq.heappop(inside)
        used -= size
        begun = begun if begun[1] >= first else (now, following)
    return (len(sizes) - begun[1]) / (now - begun[0])


@pytest.mark.parametrize(("sigma", "room"), [(0.3, 6.0), (0.3, 16.0), (1.0, 6.0), (1.0, 16.0), (1.0, 60.0)])
@pytest.mark.parametrize("is_constant", [False, True])
def test_throughput_of_a_room_that_never_lacks_requests(sigma: float, room: float, is_constant: bool) -> None:
    """Exact for exponential stays; with equal ones it serves up to a tenth more, the less the more there are inside."""
    rng, n, most = np.random.default_rng(4), 100_000, int(room * 1.25)
    sizes = rng.lognormal(-(sigma**2) / 2, sigma, n)
    stays = np.ones(n) if is_constant else rng.exponential(1.0, n)
    stays[:most] = rng.random(most)  # the first are as those of a system that has long been running
    found = packing(sizes, np.full(n, 1 / n), room, most)
    predicted = 1 / float(found.fractions @ (1 / np.arange(1.0, most + 1)))
    served = saturated_rate(sizes, stays, room, most)
    if is_constant:
        assert (1 - 0.6 * sigma / room - 0.005) * served <= predicted <= 1.005 * served
    else:
        assert predicted == pytest.approx(served, rel=0.01)


@pytest.mark.parametrize(
    ("sizes", "weights", "room", "most"),
    [([1.0], [0.5], 1.0, 1), ([1.0], [1.0], 0.0, 1), ([1.0], [1.0], 1.0, 0), ([-1.0], [1.0], 1.0, 1)],
)
def test_what_is_no_question_is_refused(sizes: list[float], weights: list[float], room: float, most: int) -> None:
    with pytest.raises(ValueError, match="need"):
        packing(np.array(sizes), np.array(weights), room, most)
