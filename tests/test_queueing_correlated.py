"""Correlated arrivals: exact limits, measured dispersion, simulation, fluid by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing import (
    Mmpp,
    Service,
    dispersion_of_trace,
    fluid_wait_s,
    mgc_wait,
    modulated_arrivals,
    modulated_wait,
)
from tests.queue_simulation import cut_log_normal
from tests.service_simulation import modulated_run
from tests.test_queueing_mgc import EXPONENTIAL

ERRATIC, REGULAR = Service.of(*cut_log_normal(1.0, 100)), Service.of(*cut_log_normal(0.3, 100))


def sampled_s(arrivals: Mmpp, end_s: float, seed: int) -> np.ndarray:
    """Arrival times of one run."""
    rng, now, found = np.random.default_rng(seed), 0.0, []
    busy = True
    while now < end_s:
        spell = rng.exponential(arrivals.busy_s if busy else arrivals.calm_s)
        rate = arrivals.busy_req_per_s if busy else arrivals.calm_req_per_s
        found.append(now + np.sort(rng.uniform(0, spell, rng.poisson(rate * spell))))
        now, busy = now + spell, not busy
    return np.concatenate(found)


@pytest.mark.parametrize("n_servers", [1, 4])
@pytest.mark.parametrize("service", [ERRATIC, REGULAR, EXPONENTIAL], ids=["erratic", "regular", "exponential"])
def test_equal_rates_are_poisson_arrivals(n_servers: int, service: Service) -> None:
    rate = 0.7 * n_servers / service.mean_s
    found = modulated_wait(n_servers, Mmpp(rate, rate, 5.0, 5.0), service)
    expected = mgc_wait(n_servers, rate, service)
    assert found.wait.mean_s == pytest.approx(expected.mean_s, rel=1e-2)
    assert found.wait.waiting_fraction == pytest.approx(expected.waiting_fraction, rel=1e-2)
    assert found.effective_scv == pytest.approx(1.0)


def test_a_plan_on_correlated_arrivals_is_certified_by_the_executor_only() -> None:
    assert modulated_wait(2, Mmpp(2.0, 0.5, 10.0, 10.0), ERRATIC).certified_by_executor_only


@pytest.mark.parametrize(("n_servers", "load", "busy", "spell_s"), [(2, 0.7, 1.6, 10.0), (8, 0.5, 1.8, 20.0)])
@pytest.mark.parametrize(("sigma", "of_mean", "of_tail"), [(1.0, 0.08, 0.1), (0.3, 0.12, 0.2)])
def test_waits_match_simulation(
    n_servers: int, load: float, busy: float, spell_s: float, sigma: float, of_mean: float, of_tail: float
) -> None:
    service = Service.of(*cut_log_normal(sigma))
    rate = n_servers * load
    found = modulated_wait(n_servers, Mmpp(rate * busy, rate * (2 - busy), spell_s, spell_s), service).wait
    rng = np.random.default_rng(3)
    rates, spells_s = rate * np.array([busy, 2 - busy]), np.array([spell_s, spell_s])
    drawn_s = rng.choice(service.seconds, 2_000_000, p=service.weights)
    waits_s = modulated_run(n_servers, rates, spells_s, drawn_s, 20_000, rng)
    assert found.mean_s == pytest.approx(waits_s.mean(), rel=of_mean)
    assert found.waiting_fraction == pytest.approx((waits_s > 0).mean(), abs=0.04)
    for q in (0.9, 0.99):
        assert found.quantile_s(q) == pytest.approx(np.quantile(waits_s, q), rel=of_tail)


@given(st.integers(1, 8), st.floats(0.1, 0.9), st.floats(1.05, 1.9), st.floats(1.0, 50.0))
def test_burstier_arrivals_wait_longer_and_the_table_has_the_mean(
    n_servers: int, load: float, busy: float, spell_s: float
) -> None:
    rate = n_servers * load / ERRATIC.mean_s
    calm = modulated_wait(n_servers, Mmpp(rate, rate, spell_s, spell_s), ERRATIC).wait
    burst = modulated_wait(n_servers, Mmpp(rate * busy, rate * (2 - busy), spell_s, spell_s), ERRATIC).wait
    assert calm.mean_s <= burst.mean_s * (1 + 1e-6)
    x_s = np.linspace(0.0, burst.quantile_s(1 - 1e-9), 20_001)
    assert np.trapezoid(burst.survival(x_s), x_s) == pytest.approx(burst.mean_s, rel=1e-2)


def test_dispersion_of_a_sampled_trace_is_that_of_its_process() -> None:
    process = Mmpp(3.0, 1.0, 10.0, 10.0)
    windows_s = np.array([1.0, 10.0, 100.0])
    measured = dispersion_of_trace(sampled_s(process, 200_000.0, 1), windows_s)
    assert measured == pytest.approx(process.dispersion_index(windows_s), rel=0.1)


@given(st.floats(0.1, 5.0), st.floats(1.2, 1.9), st.floats(1.0, 100.0))
def test_a_fit_recovers_rates_and_spells(rate: float, busy: float, spell_s: float) -> None:
    process = Mmpp(rate * busy, rate * (2 - busy), spell_s, spell_s)
    windows_s = np.geomspace(0.01 * spell_s, 1000 * spell_s, 20)
    fitted = modulated_arrivals(rate, windows_s, process.dispersion_index(windows_s))
    assert fitted.rate_req_per_s == pytest.approx(rate, rel=1e-6)
    assert (fitted.busy_req_per_s, fitted.busy_s) == pytest.approx((rate * busy, spell_s), rel=1e-2)


def test_strong_dispersion_becomes_bursts_with_silence_between() -> None:
    windows_s = np.geomspace(0.1, 1000.0, 12)
    fitted = modulated_arrivals(1.0, windows_s, Mmpp(20.0, 0.0, 1.0, 19.0).dispersion_index(windows_s))
    assert fitted.calm_req_per_s == pytest.approx(0.0, abs=1e-9)
    assert fitted.rate_req_per_s == pytest.approx(1.0)


def test_a_fluid_that_overloads_and_drains_matches_a_hand_calculation() -> None:
    mean_s, largest_s = fluid_wait_s([3.0, 0.5, 0.5, 1.0], 10.0, 2.0)  # 10 waiting at 10 s, gone at 10 + 10 / 1.5 s
    expected = (30 * 10 / 2 / 2 + 0.5 * (10 / 1.5) * 10 / 2 / 2) / 50
    assert (mean_s, largest_s) == pytest.approx((expected, 5.0))
    assert fluid_wait_s([1.0, 1.9], 60.0, 2.0) == (0.0, 0.0)
    assert fluid_wait_s([0.0], 60.0, 2.0) == (0.0, 0.0)


def test_correlated_arrivals_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 48"):
        modulated_wait(65, Mmpp(2.0, 1.0, 1.0, 1.0), ERRATIC)
    with pytest.raises(ValueError, match="no steady state"):
        modulated_wait(1, Mmpp(2.0, 1.0, 1.0, 1.0), ERRATIC)
    with pytest.raises(ValueError, match="fewer than 10"):
        dispersion_of_trace(np.arange(50.0), [10.0])
    with pytest.raises(ValueError, match="two windows"):
        modulated_arrivals(1.0, [1.0], [2.0])
    for rate, windows, dispersion in (
        (np.inf, [1.0, 2.0], [2.0, 2.0]),
        (0.0, [1.0, 2.0], [2.0, 2.0]),
        (1.0, [1.0, 2.0], [2.0, 2.0, 2.0]),
        (1.0, [0.0, 2.0], [2.0, 2.0]),
    ):
        with pytest.raises(ValueError, match="two windows"):
            modulated_arrivals(rate, windows, dispersion)
    with pytest.raises(ValueError, match="fluid"):
        fluid_wait_s([-1.0], 1.0, 1.0)
