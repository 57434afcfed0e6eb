"""Rates and sizes of colocated fleets under promises, where the queue is one of a closed form: W / (1 - u)."""

from math import ceil, inf
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.colocated import rates
from planner.optimizer.colocated.rates import CLOSE, Promise, fewest_instances, keeps, most_req_per_s, room_to_wait

IDLE_S, TOKEN_S, CAPACITY = 2.0, 0.02, 3.0
"""Time to the first token and per token on an idle instance, and what a full one serves [1/s]."""


def promise(ttft_s: float | None, n_lost: int = 0, deadline: float = inf) -> Promise:
    return Promise(ttft_s, 90.0, n_lost, deadline)


def instance(multiples: tuple[float, ...] = (1.0,), tpot_s: float = inf, capacity: float = CAPACITY) -> Any:
    """One whose load may be some multiples of the mean rate at times."""
    loads = tuple(SimpleNamespace(multiple=multiple) for multiple in multiples)
    return SimpleNamespace(loads=loads, capacity_req_per_s=capacity, tpot_s=tpot_s)


@pytest.fixture(autouse=True)
def closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times to first token W / (1 - u) and per token T (1 + u), at all quantiles alike."""

    def queue_of(load: Any, n: int, rate: float) -> Any:
        busy = load.multiple * rate / (n * CAPACITY)
        if busy >= 1:
            return None
        queue = SimpleNamespace(tpot_quantile_s=lambda _: TOKEN_S * (1 + busy))
        return queue, SimpleNamespace(quantile_s=lambda _: IDLE_S / (1 - busy))

    monkeypatch.setattr(rates, "queue_of", queue_of)
    monkeypatch.setattr(
        rates, "alone", lambda load: SimpleNamespace(quantile_s=lambda q: IDLE_S * load.multiple if q == 0.9 else inf)
    )


TTFTS = st.one_of(st.floats(2.01, 100.0), st.sampled_from((2.0, 4.0, 200.0)))


@given(TTFTS, st.integers(1, 50), st.sampled_from((0, 1)))
def test_the_highest_rate_is_that_at_which_a_first_token_takes_as_long_as_promised(
    ttft_s: float, n: int, n_lost: int
) -> None:
    """1 - W / t of what the instances serve that no loss takes, found from below and from above."""
    most = (1 - IDLE_S / ttft_s) * max(n - n_lost, 0) * CAPACITY
    found, more = most_req_per_s(instance(), n, promise(ttft_s, n_lost))
    assert found <= most * (1 + 1e-9) + 1e-12
    if found > 0:
        assert found * (1 + more) >= min(most, 0.99 * (n - n_lost) * CAPACITY) * (1 - 1e-9)
    assert found >= min(most, 0.99 * max(n - n_lost, 0) * CAPACITY) - 2 * CLOSE * max(n - n_lost, 0) * CAPACITY
    assert keeps(instance(), n, 0.99 * most, promise(ttft_s, n_lost)) == (n > n_lost)
    assert not keeps(instance(), n, 1.01 * most + 1e-6, promise(ttft_s, n_lost))


@given(TTFTS.filter(lambda t: t > 2.0), st.floats(0.1, 300.0), st.sampled_from((0, 1)))
def test_the_fewest_instances_keep_the_promise_and_one_less_does_not(ttft_s: float, rate: float, n_lost: int) -> None:
    n = fewest_instances(instance(), rate, promise(ttft_s, n_lost))
    needed = rate / CAPACITY / (1 - IDLE_S / ttft_s)
    assert n - n_lost == pytest.approx(ceil(needed * (1 - 1e-9)), abs=0.5)
    assert keeps(instance(), n, rate * (1 - 1e-9), promise(ttft_s, n_lost))
    assert not keeps(instance(), n - 1, rate * (1 + 1e-9), promise(ttft_s, n_lost))


def test_without_a_promise_a_fleet_serves_its_capacity_and_rooms_are_whole() -> None:
    assert most_req_per_s(instance(), 4, promise(None, 1)) == (9.0, 0.0)
    assert most_req_per_s(instance(), 1, promise(None, 1)) == (0.0, 0.0)
    assert [fewest_instances(instance(), rate, promise(None)) for rate in (0.1, 3.0, 3.1, 9.0)] == [1, 1, 2, 3]
    assert fewest_instances(instance(), 3.1, promise(None, 1)) == 3
    assert keeps(instance(), 2, 6.0, promise(None))
    assert not keeps(instance(), 2, 6.1, promise(None))
    assert room_to_wait(instance(), promise(None)) == 1.0
    assert room_to_wait(instance(), promise(8.0)) == 0.75
    assert room_to_wait(instance(), promise(1.0)) == 0.0


def test_a_promise_that_is_broken_without_waits_is_kept_at_no_rate() -> None:
    assert most_req_per_s(instance(), 4, promise(1.9)) == (0.0, 0.0)
    with pytest.raises(InfeasibleError, match="late even without waiting"):
        fewest_instances(instance(), 1.0, promise(1.9))
    with pytest.raises(InfeasibleError, match="not one sequence"):
        fewest_instances(instance(capacity=0.0), 1.0, promise(None))


def test_a_limit_on_the_time_per_token_holds_beside_that_on_the_first() -> None:
    """T (1 + u) <= 0.03 up to u = 1/2, where first tokens take 4 s."""
    found, _ = most_req_per_s(instance(tpot_s=0.03), 10, promise(40.0))
    assert found == pytest.approx(15.0, rel=2 * CLOSE)
    assert keeps(instance(tpot_s=0.03), 10, 14.9, promise(40.0))
    assert not keeps(instance(tpot_s=0.03), 10, 15.1, promise(40.0))


def test_the_worst_load_of_several_decides() -> None:
    """At twice the mean rate u <= 3/4 up to 3/8 of the capacity on average; idle, twice as long is 4 s."""
    both = instance((1.0, 2.0))
    found, _ = most_req_per_s(both, 10, promise(8.0))
    assert found == pytest.approx(0.375 * 30, rel=4 * CLOSE)
    assert found <= 0.375 * 30
    assert room_to_wait(both, promise(8.0)) == 0.5
    assert most_req_per_s(both, 10, promise(3.9)) == (0.0, 0.0)


@pytest.mark.parametrize(("least", "is_found"), [(0.0, True), (14.0, True), (16.0, False), (29.8, False)])
def test_a_rate_below_what_matters_is_not_looked_for(least: float, is_found: bool) -> None:
    """4 s are kept up to half of 30 req/s."""
    found, _ = most_req_per_s(instance(), 10, promise(4.0), least)
    assert (found > 0) is is_found


def test_time_that_is_up_is_said() -> None:
    with pytest.raises(UndecidedError):
        most_req_per_s(instance(), 4, promise(8.0, deadline=0.0))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.9, 0.95, 0.985, 0.99, 1.0])
def test_the_last_kept_utilisation_is_between_one_that_is_kept_and_one_that_is_not(kept: float) -> None:
    def excess(busy: float) -> float:
        return (1 - kept) / (1 - busy) - 1 if kept < 1 else -0.5

    low, high = rates._last_kept(excess, -kept)
    assert low <= kept + 1e-12
    if kept >= 0.99:
        assert low == pytest.approx(0.99)
        assert high == 1.0
    else:
        assert kept <= high + 1e-12
        assert high - low <= max(CLOSE * high, 1e-4) * (1 + 1e-9)
