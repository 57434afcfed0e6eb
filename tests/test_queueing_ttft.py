"""Time to first token: sums over paths, and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.decode import decode_batch
from planner.queueing.service import Service
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import NO_WAIT, Wait, sum_of_waits
from planner.queueing.waits import mgc_wait
from tests.oracles import mmc_waiting_fraction

seconds = st.lists(st.floats(0.05, 5.0), min_size=1, max_size=5)


def mixture(near_s: list[float], far_s: list[float], share: float, utilization: float) -> Ttft:
    near, far = Service.of(near_s), Service.of(far_s)
    near_wait = mgc_wait(2, utilization * 2 / near.mean_s, near)
    far_wait = mgc_wait(5, 0.5 * 5 / far.mean_s, far)
    return Ttft.of(
        [
            Path.of(share, near.seconds, near.weights, near_wait),
            Path.of(1 - share, far.seconds, far.weights, far_wait, extra_s=0.3 * far.seconds),
        ]
    )


mixtures = st.builds(mixture, seconds, seconds, st.floats(0.0, 1.0), st.floats(0.05, 0.95))


def test_unloaded_quantiles_are_those_of_service_and_extra() -> None:
    ttft = Ttft.of([Path.of(1.0, np.arange(1.0, 11.0), np.ones(10), NO_WAIT, extra_s=0.5)])
    assert [ttft.quantile_s(q) for q in (0.1, 0.5, 0.9, 0.99)] == pytest.approx([1.5, 5.5, 9.5, 10.5])
    assert ttft.mean_s == pytest.approx(6.0)


def test_two_unloaded_paths_mix_by_share() -> None:
    ttft = Ttft.of([Path.of(0.25, [1.0], [1.0], NO_WAIT), Path.of(0.75, [4.0], [1.0], NO_WAIT, extra_s=[1.0])])
    assert ttft.survival(np.array([0.5, 1.0, 4.9, 5.0])).tolist() == [1.0, 0.75, 0.75, 0.0]
    assert ttft.mean_s == pytest.approx(0.25 * 1 + 0.75 * 5)


def test_a_markovian_pool_has_the_textbook_response_time() -> None:
    n = 20_000
    service = Service.of(-np.log1p(-(np.arange(n) + 0.5) / n))
    rate = 3 * 0.7 / service.mean_s
    ttft = Ttft.of([Path.of(1.0, service.seconds, service.weights, mgc_wait(3, rate, service))])
    waiting, spare = mmc_waiting_fraction(3, 2.1), 0.9  # M/M/3: T = S, or S + Exp(spare) for those who wait
    x_s = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    both = (np.exp(-spare * x_s) - spare * np.exp(-x_s)) / (1 - spare)
    assert ttft.survival(x_s) == pytest.approx((1 - waiting) * np.exp(-x_s) + waiting * both, abs=3e-4)


@given(mixtures, st.floats(0.001, 0.999))
def test_quantile_inverts_survival(ttft: Ttft, q: float) -> None:
    x_s = ttft.quantile_s(q)
    assert float(ttft.survival(x_s)) <= 1 - q + 1e-9
    assert float(ttft.survival(x_s * (1 - 1e-9))) >= 1 - q - 1e-6


@given(mixtures)
def test_survival_falls_from_one_to_nothing_and_its_integral_is_the_mean(ttft: Ttft) -> None:
    x_s = np.linspace(0.0, ttft.quantile_s(1 - 1e-7), 20_001)
    survival = ttft.survival(x_s)
    assert survival[0] == pytest.approx(1.0)
    assert (np.diff(survival) <= 1e-12).all()
    assert np.trapezoid(survival, x_s) == pytest.approx(ttft.mean_s, rel=2e-3)


@given(seconds, seconds, st.floats(0.05, 0.9), st.sampled_from([0.5, 0.9, 0.99]))
def test_more_load_means_a_later_first_token(
    near_s: list[float], far_s: list[float], utilization: float, q: float
) -> None:
    light, heavy = (mixture(near_s, far_s, 0.6, u) for u in (utilization, utilization + 0.05))
    assert light.mean_s < heavy.mean_s
    assert light.quantile_s(q) <= heavy.quantile_s(q) * (1 + 1e-9)


def test_a_path_nobody_takes_changes_nothing() -> None:
    taken = Path.of(1.0, [2.0], [1.0], NO_WAIT)
    unused = Path.of(0.0, [900.0], [1.0], NO_WAIT)
    assert Ttft.of([taken, unused]).paths == (taken,)


@pytest.mark.parametrize("q", [-0.1, 1.0, 2.0])
def test_a_quantile_outside_its_range_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        Ttft.of([Path.of(1.0, [2.0], [1.0], NO_WAIT)]).quantile_s(q)


def test_shares_and_seconds_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        Ttft.of([Path.of(0.5, [1.0], [1.0], NO_WAIT)])
    with pytest.raises(ValueError, match="between 0 and 1"):
        Path.of(1.5, [1.0], [1.0], NO_WAIT)
    with pytest.raises(ValueError, match="not negative"):
        Path.of(1.0, [1.0], [1.0], NO_WAIT, extra_s=-0.1)


def test_two_exponential_waits_add_to_the_textbook_sum() -> None:
    slow, fast = (Wait(1.0, 1 / rate, 0.001, np.exp(-rate * 0.001 * np.arange(20_000)), rate) for rate in (1.0, 3.0))
    x_s = np.linspace(0.0, 8.0, 33)
    expected = (3 * np.exp(-x_s) - np.exp(-3 * x_s)) / 2
    assert sum_of_waits(slow, fast).survival(x_s) == pytest.approx(expected, abs=2e-3)
    assert sum_of_waits(slow, fast).mean_s == pytest.approx(4 / 3)


def test_waits_that_hardly_ever_happen_add_up_to_one_that_hardly_does() -> None:
    rare = Wait(5e-10, 1e-10, 0.1, np.array([1.0, 0.5, 0.0]), 3.0)
    both = sum_of_waits(rare, rare)
    assert np.all(both.survival(np.array([0.0, 0.1, 1.0])) <= 2e-9)
    assert both.step_s > 0


@given(seconds, seconds, st.floats(0.1, 0.95), st.floats(0.1, 0.95))
def test_a_sum_of_waits_is_symmetric_and_its_integral_is_its_mean(
    one_s: list[float], other_s: list[float], load: float, other_load: float
) -> None:
    first, second = Service.of(one_s), Service.of(other_s)
    one = mgc_wait(2, 2 * load / first.mean_s, first)
    other = mgc_wait(3, 3 * other_load / second.mean_s, second)
    both, swapped = sum_of_waits(one, other), sum_of_waits(other, one)
    x_s = np.linspace(0.0, both.quantile_s(1 - 1e-8), 20_001)
    assert np.trapezoid(both.survival(x_s), x_s) == pytest.approx(both.mean_s, rel=2e-2)
    assert both.survival(x_s) == pytest.approx(swapped.survival(x_s), abs=1e-9)
    assert (both.survival(x_s) >= one.survival(x_s) - 5e-3).all()


def test_a_wait_for_a_decode_place_delays_the_first_token() -> None:
    service = Service.of([1.0])
    prefill, decode = mgc_wait(2, 1.4, service), decode_batch(1.4, 10.0, np.full(20, 1.2)).admission
    path = Path.of(1.0, service.seconds, service.weights, prefill, extra_s=0.1, admission=decode)
    rng = np.random.default_rng(2)
    x_s = np.linspace(0.0, 200.0, 200_001)
    drawn = np.array([np.interp(rng.uniform(size=400_000), 1 - w.survival(x_s), x_s) for w in (prefill, decode)])
    assert Ttft.of([path]).mean_s == pytest.approx(1.1 + prefill.mean_s + decode.mean_s)
    assert Ttft.of([path]).quantile_s(0.9) == pytest.approx(np.quantile(1.1 + drawn.sum(axis=0), 0.9), rel=0.01)
