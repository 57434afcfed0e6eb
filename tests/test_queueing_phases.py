"""Phase-type fits and the exact chain: moments, closed forms, a brute-force chain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.erlang import erlang_c
from planner.queueing.gigc import delay
from planner.queueing.mgc import mmc_mean_wait_s
from planner.queueing.phases import MarkovArrivals, Phases, gamma_phases, renewal_arrivals, two_phases
from planner.queueing.service import Service
from planner.queueing.single_server import deterministic_wait, exponential_wait
from tests.one_queue import solved_chain
from tests.oracles import Floats, mdc_mean_wait_services

erratic = st.tuples(st.floats(1.05, 8.0), st.floats(1.0, 3.0)).map(lambda p: (p[0], 1.5 * (1 + p[0]) ** 2 * p[1]))
servers = st.integers(1, 8)
utilizations = st.floats(0.1, 0.95)


def brute_force(n_servers: int, arrivals: MarkovArrivals, service: Phases, n_max: int) -> tuple[float, float]:
    """P(W > 0) and E[W] from the truncated generator over (arrival state, in phase 1, in phase 2, waiting)."""
    a = len(arrivals.quiet_per_s)
    states = [
        (s, i, min(n, n_servers) - i, max(n - n_servers, 0))
        for n in range(n_max + 1)
        for i in range(min(n, n_servers) + 1)
        for s in range(a)
    ]
    index = {state: place for place, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))

    def move(state: tuple[int, ...], to: tuple[int, ...], rate: float) -> None:
        if to in index and rate > 0:
            generator[index[state], index[to]] += rate

    for state in states:
        s, i, j, w = state
        for to in range(a):
            if to != s:
                move(state, (to, i, j, w), arrivals.quiet_per_s[s, to])
            rate = arrivals.arrive_per_s[s, to]
            if i + j == n_servers:
                move(state, (to, i, j, w + 1), rate)
            else:
                move(state, (to, i + 1, j, w), rate * service.start[0])
                move(state, (to, i, j + 1, w), rate * service.start[1])
        move(state, (s, i - 1, j + 1, w), i * service.rates_per_s[0, 1])
        for k, busy in enumerate((i, j)):
            left = (i - (k == 0), j - (k == 1))
            rate = busy * float(service.exit_per_s[k])
            if w == 0:
                move(state, (s, *left, 0), rate)
            else:
                move(state, (s, left[0] + 1, left[1], w - 1), rate * service.start[0])
                move(state, (s, left[0], left[1] + 1, w - 1), rate * service.start[1])
    np.fill_diagonal(generator, generator.diagonal() - generator.sum(axis=1))
    generator[:, 0] = 1.0
    share = np.linalg.solve(generator.T, np.eye(len(states))[0])
    seen = np.array([arrivals.arrive_per_s[state[0]].sum() for state in states]) * share / arrivals.rate_req_per_s
    full = np.array([i + j == n_servers for _, i, j, _ in states])
    return float(seen[full].sum()), float(share @ [state[3] for state in states]) / arrivals.rate_req_per_s


@given(st.floats(0.1, 10.0), erratic)
def test_two_phases_have_the_three_moments_asked_for(mean_s: float, shape: tuple[float, float]) -> None:
    scv, third = shape
    expected = (mean_s, (1 + scv) * mean_s**2, third * mean_s**3)
    assert two_phases(mean_s, scv, third * mean_s**3).moments() == pytest.approx(expected, rel=1e-5)


@given(st.floats(0.5, 1.0), st.floats(0.0, 20.0))
def test_regular_two_phases_keep_mean_and_variation_whatever_the_third_moment(scv: float, third: float) -> None:
    phases = two_phases(1.0, scv, third)
    assert phases.moments()[:2] == pytest.approx((1.0, 1 + scv), rel=1e-5)
    assert ((phases.start >= -1e-9) & (phases.start <= 1 + 1e-9)).all()
    assert (phases.exit_per_s >= -1e-9).all()


@given(st.floats(0.1, 10.0), st.floats(0.1, 4.0))
def test_gaps_have_the_mean_and_variation_asked_for(rate: float, scv: float) -> None:
    gap = gamma_phases(1 / rate, scv)
    assert gap.moments()[:2] == pytest.approx((1 / rate, (1 + scv) / rate**2), rel=1e-5)
    assert renewal_arrivals(rate, scv).rate_req_per_s == pytest.approx(rate, rel=1e-5)


@given(servers, utilizations)
def test_exponential_service_gives_erlangs_formula(n_servers: int, utilization: float) -> None:
    load = n_servers * utilization
    chain = solved_chain(n_servers, renewal_arrivals(load, 1.0), two_phases(1.0, 1.0, 6.0))
    assert chain.waiting_fraction == pytest.approx(erlang_c(n_servers, load), rel=1e-9)
    assert chain.mean_wait_s == pytest.approx(mmc_mean_wait_s(n_servers, load, 1.0), rel=1e-9)
    assert exponential_wait(n_servers, utilization)[0] == pytest.approx(erlang_c(n_servers, load), rel=1e-7)


@given(utilizations, erratic)
def test_one_server_gives_pollaczek_and_khinchine(utilization: float, shape: tuple[float, float]) -> None:
    chain = solved_chain(1, renewal_arrivals(utilization, 1.0), two_phases(1.0, *shape))
    assert chain.waiting_fraction == pytest.approx(utilization, rel=1e-6)
    assert chain.mean_wait_s == pytest.approx(utilization / (1 - utilization) * (1 + shape[0]) / 2, rel=1e-5)


@given(servers, utilizations, st.sampled_from([1 / 3, 0.5, 1.0]))
def test_exponential_service_with_erlang_gaps_gives_takacs_formula(n: int, utilization: float, scv: float) -> None:
    chain = solved_chain(n, renewal_arrivals(n * utilization, scv), two_phases(1.0, 1.0, 6.0))
    assert (chain.waiting_fraction, chain.mean_wait_s) == pytest.approx(exponential_wait(n, utilization, scv), rel=1e-6)


MODULATED = MarkovArrivals(np.array([[-7 / 3, 1 / 3], [1 / 2, -1.0]]), np.diag([2.0, 0.5]))
"""Poisson arrivals of 2 a second in spells of 3 s, and of 0.5 a second in spells of 2 s."""


@pytest.mark.parametrize(
    "arrivals",
    [renewal_arrivals(1.4, 1.0), renewal_arrivals(1.4, 2.5), MODULATED],
    ids=["Poisson", "renewal", "modulated"],
)
@pytest.mark.parametrize("shape", [(0.5, 3.0), (0.8, 4.5), (2.0, 16.0)])
def test_two_servers_agree_with_a_brute_force_chain(arrivals: MarkovArrivals, shape: tuple[float, float]) -> None:
    service = two_phases(1.0, *shape)
    chain = solved_chain(2, arrivals, service)
    expected = brute_force(2, arrivals, service, n_max=160)
    assert (chain.waiting_fraction, chain.mean_wait_s) == pytest.approx(expected, rel=1e-4)


@given(servers, utilizations, erratic, st.sampled_from([0.5, 1.0, 3.0]))
def test_the_chains_wait_integrates_to_littles_mean(
    n_servers: int, utilization: float, shape: tuple[float, float], scv: float
) -> None:
    chain = solved_chain(n_servers, renewal_arrivals(n_servers * utilization, scv), two_phases(1.0, *shape))
    mean_s = chain.mean_wait_s / chain.waiting_fraction
    survival = chain.survival_given_wait(mean_s / 100, 64**2)
    assert (np.diff(survival) <= 1e-12).all()
    assert np.trapezoid(survival, dx=mean_s / 100) == pytest.approx(mean_s, rel=5e-3)


@pytest.mark.parametrize("n_servers", [1, 2, 9])
@pytest.mark.parametrize("utilization", [0.3, 0.9, 0.98])
def test_deterministic_service_waits_as_crommelins_chain_says(n_servers: int, utilization: float) -> None:
    expected = mdc_mean_wait_services(n_servers, utilization, n_states=2000)
    assert deterministic_wait(n_servers, utilization)[1] == pytest.approx(expected, rel=1e-7)


def test_regular_gaps_and_service_hardly_wait() -> None:
    assert deterministic_wait(1, 0.5, 0.01)[0] < 1e-6


def served(scv: float) -> tuple[Floats, Floats]:
    """Waits of the random walk of GI/D/1, one run of a million requests."""
    rng = np.random.default_rng(5)
    steps = 1.0 - rng.gamma(1 / scv, scv / 0.8, 1_000_000)
    walk = np.cumsum(steps)
    waits = walk - np.minimum.accumulate(np.minimum(walk, 0.0))
    return waits, waits.reshape(100, -1).mean(axis=1)


@pytest.mark.parametrize("scv", [0.3, 3.0])
def test_deterministic_service_with_gamma_gaps_matches_its_random_walk(scv: float) -> None:
    waits, batches = served(scv)
    half = 4 * batches.std() / 10
    waiting, mean = deterministic_wait(1, 0.8, scv)
    assert mean == pytest.approx(waits.mean(), abs=half)
    assert waiting == pytest.approx((waits > 0).mean(), abs=0.01)


@pytest.mark.parametrize("shape", [(0.0, 0.5, 3.0), (1.0, 0.3, 3.0)])
def test_phases_without_meaning_are_refused(shape: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="two phases need"):
        two_phases(*shape)


def test_a_chain_without_steady_state_is_refused() -> None:
    with pytest.raises(ValueError, match="0 < utilization < 1"):
        delay(2, 1.0, Service.of([1.0, 3.0]))
    with pytest.raises(ValueError, match="n_servers >= 1"):
        delay(0, 0.5, Service.of([1.0, 3.0]))
    with pytest.raises(ValueError, match="above 0"):
        renewal_arrivals(1.0, 0.0)
    with pytest.raises(ValueError, match="deterministic service"):
        deterministic_wait(1, 1.0)
    with pytest.raises(ValueError, match="exponential service"):
        exponential_wait(1, 0.5, -1.0)
