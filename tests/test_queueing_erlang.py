"""Erlang's formulas against their defining sums, and the laws they obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.erlang import erlang_b, erlang_c
from tests.oracles import mmc_waiting_fraction

servers = st.integers(1, 60)
below_one = st.floats(0.01, 0.99)


def test_erlang_b_of_one_and_two_servers_matches_a_hand_calculation() -> None:
    assert erlang_b(1, 0.5) == pytest.approx(1 / 3)  # a / (1 + a)
    assert erlang_b(2, 1.0) == pytest.approx(0.2)  # (1/2) / (1 + 1 + 1/2)


def test_erlang_c_of_two_servers_matches_a_hand_calculation() -> None:
    assert erlang_c(2, 1.5) == pytest.approx(2 * 0.75**2 / 1.75)  # 2 u^2 / (1 + u)


@given(servers, below_one)
def test_erlang_c_equals_its_defining_sum(n_servers: int, utilization: float) -> None:
    load = n_servers * utilization
    assert erlang_c(n_servers, load) == pytest.approx(mmc_waiting_fraction(n_servers, load), rel=1e-9)


@given(servers, below_one)
def test_waiting_rises_with_load_and_falls_with_servers(n_servers: int, utilization: float) -> None:
    load = n_servers * utilization
    assert 0 <= erlang_b(n_servers, load) <= erlang_c(n_servers, load) <= 1
    assert erlang_c(n_servers, 0.9 * load) < erlang_c(n_servers, load)
    assert erlang_c(n_servers + 1, load) < erlang_c(n_servers, load)


def test_an_array_of_loads_gives_the_numbers_of_each() -> None:
    loads = np.array([[0.0, 1.0], [2.5, 7.0]])
    assert erlang_c(4, loads).tolist() == [[erlang_c(4, load) for load in row] for row in loads.tolist()]


def test_nobody_waits_without_load_and_everybody_from_full_load() -> None:
    assert erlang_c(3, np.array([0.0, 3.0, 30.0])).tolist() == [0.0, 1.0, 1.0]


def test_ten_thousand_servers_neither_overflow_nor_vanish() -> None:
    assert 0 < erlang_c(10_000, 9_900.0) < 1


@pytest.mark.parametrize("busy", [0.95, 0.999, 1.0, 1.001, 1.05, 2.0])
def test_more_servers_than_are_counted_one_by_one_lose_what_their_sum_says(busy: float) -> None:
    n_servers = 900_000
    one, many = erlang_b(n_servers, busy * n_servers), erlang_b(n_servers, np.array([0.0, busy * n_servers]))
    assert many == pytest.approx([0.0, one], rel=1e-6, abs=1e-300)


def test_a_million_million_servers_take_no_longer() -> None:
    assert erlang_b(10**12, 10.0**12) == pytest.approx((2 / np.pi / 10**12) ** 0.5, rel=1e-5)  # Jagerman 1974
    assert erlang_c(10**12, 0.99 * 10**12) == 0.0


@pytest.mark.parametrize(("n_servers", "load"), [(0, 1.0), (-1, 1.0), (2, -0.1), (2, float("nan")), (2, float("inf"))])
def test_input_without_meaning_is_refused(n_servers: int, load: float) -> None:
    with pytest.raises(ValueError, match="server"):
        erlang_c(n_servers, load)
