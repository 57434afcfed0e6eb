"""Waits of M/G/c against closed forms, exact chains and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import expon

from planner.queueing.mgc import mean_wait_s, mmc_mean_wait_s, utilization_fraction
from planner.queueing.service import Service
from planner.queueing.single_server import deterministic_wait
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import mgc_wait
from tests.oracles import (
    md1_wait_survival,
    mdc_mean_wait_services,
    mg1_wait_moments,
    mmc_wait_survival,
    mmc_waiting_fraction,
)

EXPONENTIAL = Service.of(expon.ppf((np.arange(20_000) + 0.5) / 20_000))
seconds = st.floats(0.05, 20.0)
services = st.lists(st.tuples(seconds, st.floats(0.05, 1.0)), min_size=1, max_size=6).map(
    lambda pairs: Service.of([s for s, _ in pairs], [w for _, w in pairs])
)
servers = st.integers(1, 12)
utilizations = st.floats(0.05, 0.97)


def rate_req_per_s(service: Service, n_servers: int, utilization: float) -> float:
    return utilization * n_servers / service.mean_s


def area_s(wait: Wait) -> tuple[float, float]:
    """The mean and second moment that the tabulated survival function has."""
    x_s = np.linspace(0, wait.step_s * (len(wait.survival_given_wait) - 1) * 1.5, 200_001)
    survival = wait.survival(x_s)
    return float(np.trapezoid(survival, x_s)), float(np.trapezoid(2 * x_s * survival, x_s))


def test_least_residual_of_one_server_has_the_mean_of_renewal_theory() -> None:
    service = Service.of([1.0, 3.0, 7.0], [0.2, 0.5, 0.3])
    second_s2 = float(service.seconds**2 @ service.weights)
    assert float(service.min_residual_excess_s(0.0, 1)) == pytest.approx(second_s2 / (2 * service.mean_s))


@given(services, servers, st.floats(0.0, 25.0))
def test_least_residual_excess_is_the_integral_of_its_survival(service: Service, n_servers: int, x_s: float) -> None:
    t_s = np.linspace(x_s, max(service.seconds[-1], x_s), 4001)
    above = np.maximum(service.seconds - t_s[:, None], 0) @ service.weights / service.mean_s
    expected = np.trapezoid(above**n_servers, t_s)
    assert float(service.min_residual_excess_s(x_s, n_servers)) == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("n_servers", [1, 2, 4, 9])
@pytest.mark.parametrize("utilization", [0.3, 0.7, 0.9])
def test_deterministic_service_waits_as_crommelins_chain_says(n_servers: int, utilization: float) -> None:
    expected = mdc_mean_wait_services(n_servers, utilization)
    assert mean_wait_s(n_servers, n_servers * utilization, 1.0, 0.0) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n_servers", [2, 4, 9])
def test_deterministic_wait_stays_accurate_where_its_series_is_no_longer_summed(n_servers: int) -> None:
    expected = mdc_mean_wait_services(n_servers, 0.99, n_states=3000)
    assert mean_wait_s(n_servers, n_servers * 0.99, 1.0, 0.0) == pytest.approx(expected, rel=2e-4)


@given(services, utilizations)
def test_one_server_waits_by_pollaczek_and_khinchine(service: Service, utilization: float) -> None:
    rate = rate_req_per_s(service, 1, utilization)
    expected, _ = mg1_wait_moments(rate, service.seconds, service.weights)
    assert mean_wait_s(1, rate, service.mean_s, service.scv) == pytest.approx(expected)
    assert mgc_wait(1, rate, service).mean_s == pytest.approx(expected)


@given(servers, utilizations, st.booleans())
def test_exponential_service_waits_exactly_as_mmc(n_servers: int, utilization: float, known: bool) -> None:
    rate = n_servers * utilization
    expected = mmc_waiting_fraction(n_servers, rate) / (n_servers - rate)
    assert mmc_mean_wait_s(n_servers, rate, 1.0) == pytest.approx(expected, rel=1e-9)
    assert mean_wait_s(n_servers, rate, 1.0, 1.0, 1 / n_servers if known else None) == pytest.approx(expected, rel=1e-9)


@given(servers, utilizations)
def test_deterministic_service_is_a_case_of_the_general_formula(n_servers: int, utilization: float) -> None:
    rate = n_servers * utilization
    _, expected = deterministic_wait(n_servers, utilization)
    assert mean_wait_s(n_servers, rate, 1.0, 0.0, 1 / (n_servers + 1)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.9])
def test_md1_tail_matches_erlangs_sum(utilization: float) -> None:
    wait = mgc_wait(1, utilization, Service.of([1.0]))
    x_s = np.linspace(0.0, 8.0, 41)
    expected = [md1_wait_survival(utilization, float(x)) for x in x_s]
    assert wait.survival(x_s) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("n_servers", [1, 3, 9])
@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.9])
def test_exponential_tail_matches_mmc(n_servers: int, utilization: float) -> None:
    rate = rate_req_per_s(EXPONENTIAL, n_servers, utilization)
    x_s = np.linspace(0.0, 30.0, 61)
    expected = mmc_wait_survival(n_servers, rate, EXPONENTIAL.mean_s, x_s)
    assert mgc_wait(n_servers, rate, EXPONENTIAL).survival(x_s) == pytest.approx(expected, abs=2e-4)


@given(services, utilizations)
def test_one_server_wait_has_takacs_second_moment(service: Service, utilization: float) -> None:
    rate = rate_req_per_s(service, 1, utilization)
    expected = mg1_wait_moments(rate, service.seconds, service.weights)
    assert area_s(mgc_wait(1, rate, service)) == pytest.approx(expected, rel=1e-3)


@given(services, servers, utilizations)
def test_mean_is_the_integral_of_survival(service: Service, n_servers: int, utilization: float) -> None:
    wait = mgc_wait(n_servers, rate_req_per_s(service, n_servers, utilization), service)
    assert area_s(wait)[0] == pytest.approx(wait.mean_s, rel=1e-3, abs=1e-12)


@given(services, servers, utilizations, st.floats(0.0, 0.9999))
def test_survival_falls_and_the_quantile_inverts_it(
    service: Service, n_servers: int, utilization: float, q: float
) -> None:
    wait = mgc_wait(n_servers, rate_req_per_s(service, n_servers, utilization), service)
    survival = wait.survival(np.linspace(-1.0, 60 * wait.mean_s + 60, 2001))
    assert (np.diff(survival) <= 1e-12).all()
    assert survival[0] == 1.0
    x_s = wait.quantile_s(q)
    assert float(wait.survival(x_s)) <= 1 - q + 1e-9
    if x_s > 0:  # else the chance of a wait at all is within 1 - q, as asserted
        assert float(wait.survival(x_s * (1 - 1e-9))) >= 1 - q - 1e-6


@settings(deadline=None)
@given(services, servers, utilizations)
def test_mean_wait_rises_with_load_and_falls_with_servers(service: Service, n_servers: int, utilization: float) -> None:
    def wait_s(servers: int, rate: float) -> float:
        least_s = float(service.min_residual_excess_s(0.0, servers))
        return mean_wait_s(servers, rate, service.mean_s, service.scv, least_s)

    rate = rate_req_per_s(service, n_servers, utilization)
    assert wait_s(n_servers, 0.95 * rate) < wait_s(n_servers, rate)
    assert wait_s(n_servers + 1, rate) < wait_s(n_servers, rate)


@given(services, servers, utilizations, st.floats(0.01, 100.0))
def test_waits_scale_with_the_unit_of_time(service: Service, n_servers: int, utilization: float, factor: float) -> None:
    rate = rate_req_per_s(service, n_servers, utilization)
    wait = mgc_wait(n_servers, rate, service)
    scaled = mgc_wait(n_servers, rate / factor, Service.of(factor * service.seconds, service.weights))
    assert scaled.mean_s == pytest.approx(factor * wait.mean_s, rel=1e-6)
    assert scaled.quantile_s(0.99) == pytest.approx(factor * wait.quantile_s(0.99), rel=1e-5)


def test_an_idle_pool_has_no_wait() -> None:
    assert mgc_wait(2, 0.0, Service.of([1.0])) is NO_WAIT
    assert NO_WAIT.survival(np.array([-1.0, 0.0, 1.0])).tolist() == [1.0, 0.0, 0.0]
    assert NO_WAIT.quantile_s(0.99) == 0.0


@pytest.mark.parametrize("n_servers", [1, 50, 500])
@pytest.mark.parametrize("utilization", [1e-6, 0.2, 0.9, 0.9999])
def test_extreme_pools_still_get_a_finite_wait(n_servers: int, utilization: float) -> None:
    service = Service.of([0.1, 1.0, 50.0], [0.7, 0.29, 0.01])
    wait = mgc_wait(n_servers, rate_req_per_s(service, n_servers, utilization), service)
    assert 0 <= wait.mean_s < np.inf
    assert 0 <= wait.quantile_s(0.999) < np.inf


@pytest.mark.parametrize("utilization", [1.0, 1.7])
def test_a_pool_without_steady_state_is_refused(utilization: float) -> None:
    with pytest.raises(ValueError, match="no steady state"):
        mgc_wait(2, 2 * utilization, Service.of([1.0]))


@pytest.mark.parametrize(("n_servers", "rate", "mean_s"), [(0, 1.0, 1.0), (1, -1.0, 1.0), (1, 1.0, 0.0)])
def test_a_queue_without_meaning_is_refused(n_servers: int, rate: float, mean_s: float) -> None:
    with pytest.raises(ValueError, match="a queue needs"):
        utilization_fraction(n_servers, rate, mean_s)


@pytest.mark.parametrize(
    ("values", "weights"),
    [([], []), ([1.0], [1.0, 2.0]), ([-1.0], [1.0]), ([np.nan], [1.0]), ([1.0], [0.0]), ([0.0], [1.0])],
)
def test_a_service_time_without_meaning_is_refused(values: list[float], weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"weights|mean above 0"):
        Service.of(values, weights)


def test_a_variation_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="scv"):
        mean_wait_s(2, 1.0, 1.0, -0.1)


@given(services, servers, st.floats(3.0, 9.0))
def test_waits_close_to_saturation_are_those_of_heavy_traffic(service: Service, n_servers: int, digits: float) -> None:
    """Kingman: the wait is exponential, with a mean of E[S^2] lambda / (2 c^2 (1 - rho)); tables hold to 0.5 %."""
    wait = mgc_wait(n_servers, rate_req_per_s(service, n_servers, 1 - 10**-digits), service)
    spare = 1 - utilization_fraction(n_servers, rate_req_per_s(service, n_servers, 1 - 10**-digits), service.mean_s)
    mean_s = (1 + service.scv) * service.mean_s / (2 * n_servers * spare)
    assert wait.mean_s == pytest.approx(mean_s, rel=max(5e-3, 100 * n_servers * 10**-digits))
    assert wait.quantile_s(0.99) == pytest.approx(mean_s * np.log(100), rel=max(1e-2, 100 * n_servers * 10**-digits))
