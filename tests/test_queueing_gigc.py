"""Waits with renewal arrivals: closed forms, laws, and long simulations of 400 drawn configurations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.exact_queues import deterministic_anchor, phase_anchor, phase_gaps_wait
from planner.queueing.gigc import delay
from planner.queueing.phases import renewal_arrivals, two_phases
from planner.queueing.service import Service
from planner.queueing.single_server import deterministic_wait, exponential_wait
from planner.queueing.waits import gigc_wait, gigc_waits, mgc_wait
from tests.one_queue import solved_chain
from tests.queue_simulation import (
    METRICS,
    MIN_REQUESTS,
    RARE_WAITS,
    QueueCase,
    Simulated,
    all_cases,
    cut_log_normal,
    errors_beyond_interval,
    predicted_waits,
    read_simulated,
    simulated_waits,
)
from tests.test_queueing_mgc import EXPONENTIAL, area_s, rate_req_per_s, servers, services, utilizations

GOALS = {True: {"mean": 0.02, "p90": 0.04, "p99": 0.08}, False: {"mean": 0.05, "p90": 0.10, "p99": 0.15}}
SHARE_ALLOWED = {True: 0.0, False: 0.011}
"""Share of configurations that may miss a goal: none with Poisson arrivals, two of 194 with Gamma gaps."""
AT_THE_EDGE = 1.35
"""P(W > 0) over 1 - q up to which a quantile is at the edge of the requests that do not wait, and nearly 0."""
HARDLY_ANY = 1e-3
"""P(W > 0) below which a mean wait may miss its goal, too."""
variations = st.floats(0.25, 4.0)


def at_the_edge(metric: str, found: Simulated) -> bool:
    """Whether hardly more requests wait than the quantile leaves over, so that it is nearly 0, or hardly any at all."""
    waiting, left = found.value[METRICS.index("waiting")], {"p90": 0.1, "p99": 0.01}.get(metric, 0.0)
    return bool(waiting <= HARDLY_ANY if metric == "mean" else left <= waiting <= AT_THE_EDGE * left)


def misses(case: QueueCase, found: Simulated, n_requests: int) -> list[tuple[str, float]]:
    """Metrics whose error beyond the interval is larger than the goal."""
    if found.value[METRICS.index("waiting")] * n_requests < RARE_WAITS:
        return []
    error = errors_beyond_interval(predicted_waits(case), found)
    goals = GOALS[case.arrival_scv == 1.0]
    return [
        (metric, error[METRICS.index(metric)])
        for metric, goal in goals.items()
        if abs(error[METRICS.index(metric)]) > goal
    ]


@pytest.fixture(scope="module")
def committed() -> list[tuple[QueueCase, Simulated, int]]:
    return read_simulated()


def test_the_committed_simulations_are_of_the_drawn_configurations(
    committed: list[tuple[QueueCase, Simulated, int]],
) -> None:
    assert [case for case, _, _ in committed] == all_cases()
    assert min(n for _, _, n in committed) >= MIN_REQUESTS


@pytest.mark.parametrize("poisson", [True, False], ids=["Poisson", "Gamma"])
def test_waits_are_within_their_goal_of_long_simulations_but_for_two_at_the_edge(
    committed: list[tuple[QueueCase, Simulated, int]], poisson: bool
) -> None:
    rows = [row for row in committed if (row[0].arrival_scv == 1.0) == poisson]
    missed = [(row, metric) for row in rows for metric, _ in misses(*row)]
    assert not [row for row, metric in missed if not at_the_edge(metric, row[1])]
    assert len(missed) <= SHARE_ALLOWED[poisson] * len(rows)


@pytest.mark.parametrize("place", range(0, 400, 20))
def test_a_fresh_simulation_agrees_with_the_committed_one_and_with_the_prediction(
    committed: list[tuple[QueueCase, Simulated, int]], place: int
) -> None:
    case, old, n_requests = committed[place]
    new = simulated_waits(case, MIN_REQUESTS)
    assert (np.abs(new.value - old.value) <= 2 * (new.half_width + old.half_width) + 1e-12).all()
    if old.value[METRICS.index("waiting")] * MIN_REQUESTS >= RARE_WAITS:
        assert not [metric for metric, _ in misses(case, new, MIN_REQUESTS) if not at_the_edge(metric, old)]
    assert n_requests >= MIN_REQUESTS


@given(services, utilizations, variations)
def test_one_server_waits_as_its_own_tail_integrates(service: Service, utilization: float, scv: float) -> None:
    wait = gigc_wait(1, rate_req_per_s(service, 1, utilization), service, scv)
    assert area_s(wait)[0] == pytest.approx(wait.mean_s, rel=5e-3)


@pytest.mark.parametrize("scv", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n_servers", [1, 2, 9])
@pytest.mark.parametrize("utilization", [0.4, 0.8])
def test_deterministic_service_is_spitzers_series(n_servers: int, utilization: float, scv: float) -> None:
    wait = gigc_wait(n_servers, n_servers * utilization, Service.of([1.0]), scv)
    assert (wait.waiting_fraction, wait.mean_s) == pytest.approx(
        deterministic_wait(n_servers, utilization, scv), rel=2e-3, abs=1e-6
    )


@pytest.mark.parametrize("scv", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n_servers", [1, 2, 9, 40])
@pytest.mark.parametrize("utilization", [0.4, 0.8])
def test_exponential_service_is_takacs_formula(n_servers: int, utilization: float, scv: float) -> None:
    wait = gigc_wait(n_servers, rate_req_per_s(EXPONENTIAL, n_servers, utilization), EXPONENTIAL, scv)
    waiting, mean = exponential_wait(n_servers, utilization, scv)
    assert wait.waiting_fraction == pytest.approx(waiting, rel=5e-3)
    assert wait.mean_s == pytest.approx(mean * EXPONENTIAL.mean_s, rel=5e-3)
    if waiting > 1e-3:
        wait_s = mean * EXPONENTIAL.mean_s / waiting
        x_s = np.linspace(0.0, 6.0, 25) * wait_s
        assert wait.survival(x_s) / wait.waiting_fraction == pytest.approx(np.exp(-x_s / wait_s), abs=2e-3)


@given(services, st.integers(1, 40), utilizations, variations)
def test_more_load_fewer_servers_and_more_erratic_arrivals_wait_longer(
    service: Service, n_servers: int, utilization: float, scv: float
) -> None:
    rate = rate_req_per_s(service, n_servers, utilization)
    wait = gigc_wait(n_servers, rate, service, scv)
    for easier in (
        gigc_wait(n_servers, 0.95 * rate, service, scv),
        gigc_wait(n_servers + 1, rate, service, scv),
        gigc_wait(n_servers, rate, service, 0.9 * scv),
    ):
        assert easier.mean_s <= wait.mean_s * (1 + 1e-6) + 1e-12 * service.mean_s
        assert easier.waiting_fraction <= wait.waiting_fraction * (1 + 1e-6) + 1e-12
        assert easier.quantile_s(0.99) <= wait.quantile_s(0.99) * (1 + 1e-2) + 1e-3 * service.mean_s


@given(services, servers, utilizations)
def test_a_mean_preserving_spread_of_the_service_waits_longer(
    service: Service, n_servers: int, utilization: float
) -> None:
    """Where next to nobody waits, within the 1.8 % of the mean that `gigc_wait` states as its worst error."""
    spread = Service.of(np.concatenate([0.8 * service.seconds, 1.2 * service.seconds]), np.tile(service.weights, 2))
    rate = rate_req_per_s(service, n_servers, utilization)
    wait, longer = mgc_wait(n_servers, rate, service), mgc_wait(n_servers, rate, spread)
    error = 0.005 if wait.waiting_fraction > 1e-4 else 0.018
    assert wait.mean_s <= longer.mean_s * (1 + error) + 1e-12


@given(services, servers, utilizations, variations, st.floats(0.01, 100.0))
def test_waits_scale_with_the_unit_of_time(
    service: Service, n_servers: int, utilization: float, scv: float, factor: float
) -> None:
    rate = rate_req_per_s(service, n_servers, utilization)
    wait = gigc_wait(n_servers, rate, service, scv)
    scaled = gigc_wait(n_servers, rate / factor, Service.of(factor * service.seconds, service.weights), scv)
    assert scaled.waiting_fraction == pytest.approx(wait.waiting_fraction, rel=1e-5)
    assert scaled.mean_s == pytest.approx(factor * wait.mean_s, rel=1e-5)
    assert scaled.quantile_s(0.99) == pytest.approx(factor * wait.quantile_s(0.99), rel=1e-4, abs=1e-6 * factor)


@pytest.mark.parametrize("n_servers", [31, 32, 33, 34])
def test_nothing_jumps_where_the_chain_is_no_longer_solved(n_servers: int) -> None:
    service = Service.of(*cut_log_normal(1.0, 60))
    here, more = (delay(n, 0.9, service) for n in (n_servers, n_servers + 1))
    assert more.waiting_fraction[0] == pytest.approx(here.waiting_fraction[0], rel=0.03)
    assert more.wait_services[0] * (n_servers + 1) == pytest.approx(here.wait_services[0] * n_servers, rel=0.03)


def test_arrivals_without_variation_are_refused() -> None:
    with pytest.raises(ValueError, match="scv above 0"):
        gigc_wait(2, 1.0, Service.of([1.0]), 0.0)


@pytest.mark.parametrize("scv", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("n_servers", [1, 2, 9, 40])
@pytest.mark.parametrize("sigma", [0.4, 1.1])
def test_many_rates_at_once_are_each_of_them_alone(n_servers: int, sigma: float, scv: float) -> None:
    service = Service.of(*cut_log_normal(sigma, 60))
    rates = n_servers * np.array([0.0, 1e-4, 0.3, 0.7, 0.95, 0.99995])
    waits, x_s = gigc_waits(n_servers, rates, service, scv), np.array([0.0, 0.1, 1.0, 5.0])
    alone = [gigc_wait(n_servers, float(rate), service, scv) for rate in rates]
    assert waits.mean_s == pytest.approx([wait.mean_s for wait in alone])
    assert waits.survival(x_s) == pytest.approx(np.stack([wait.survival(x_s) for wait in alone]))
    assert (np.diff(waits.survival(x_s), axis=0) >= -1e-9).all()


def test_a_rate_without_a_steady_state_among_many_is_refused() -> None:
    with pytest.raises(ValueError, match="no steady state"):
        gigc_waits(2, np.array([1.0, 2.0]), Service.of([1.0]))


@pytest.mark.parametrize("scv", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("n_servers", [2, 9, 32])
def test_deterministic_service_between_the_solved_loads_is_as_if_it_was_solved(n_servers: int, scv: float) -> None:
    anchor = deterministic_anchor(n_servers, scv)
    inner = (anchor.loads[1:] + anchor.loads[:-1]) / 2
    for load, row in zip(inner, anchor.weights(inner) @ anchor.columns, strict=True):
        found, base = (f(n_servers, float(load), scv) for f in (deterministic_wait, exponential_wait))
        assert found[0] / base[0] == pytest.approx(np.exp(row[0]), rel=1e-3 if scv == 1 else 2e-2)
        assert found[1] / base[1] == pytest.approx(np.exp(row[0] + row[1]), rel=1e-3 if scv == 1 else 2e-2)


@pytest.mark.parametrize("scv", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n_servers", [2, 9, 32])
@pytest.mark.parametrize("moments", [(0.5, 3.0), (2.0, 40.0)])
def test_phases_between_the_solved_loads_are_as_if_they_were_solved(
    n_servers: int, moments: tuple[float, float], scv: float
) -> None:
    anchor = phase_anchor(n_servers, scv, *moments)
    inner = (anchor.loads[1:] + anchor.loads[:-1]) / 2
    for load, row in zip(inner, anchor.weights(inner) @ anchor.columns, strict=True):
        chain = solved_chain(n_servers, renewal_arrivals(n_servers * load, scv), two_phases(1.0, *moments))
        waiting, mean = phase_gaps_wait(n_servers, float(load), scv)
        assert chain.waiting_fraction / waiting == pytest.approx(np.exp(row[0]), rel=1e-3 if scv == 1 else 2e-2)
        assert chain.mean_wait_s / mean == pytest.approx(np.exp(row[0] + row[1]), rel=1e-3 if scv == 1 else 2e-2)


@given(st.data())
def test_no_queue_however_odd_warns_of_anything(data: st.DataObject) -> None:
    """Warnings are errors here: the search for a promise meets empty pools, huge ones and those about to saturate."""
    logs = data.draw(st.lists(st.tuples(st.floats(-7.0, 7.0), st.floats(-20.0, 0.0)), min_size=1, max_size=20))
    values, weights = np.exp(np.array(logs)).T
    service = Service.of(values, weights)
    n_servers = data.draw(st.sampled_from([1, 2, 3, 5, 17, 32, 33, 200, 600]))
    near = data.draw(st.floats(1e-9, 0.5))
    utilization = 1 - near if data.draw(st.booleans()) else near
    scv = data.draw(st.sampled_from([1.0, 1.0, 0.1, 0.4, 0.7, 1.5, 6.0, 16.0]))
    wait = gigc_wait(n_servers, n_servers * utilization / service.mean_s, service, scv)
    assert 0 <= wait.waiting_fraction <= 1
    assert np.isfinite([wait.mean_s, wait.quantile_s(0.5), wait.quantile_s(0.999)]).all()


def test_constant_service_on_more_servers_than_are_solved_goes_on_where_those_end() -> None:
    last, next_, many = (
        gigc_wait(n_servers, n_servers * 0.999, Service.of([1.0]), 1.0) for n_servers in (8192, 8193, 850_048)
    )
    assert next_.waiting_fraction == pytest.approx(last.waiting_fraction, rel=1e-4)
    assert next_.mean_s == pytest.approx(last.mean_s, rel=1e-3)
    assert 0 < many.waiting_fraction < last.waiting_fraction
    assert 0 < many.mean_s < last.mean_s
