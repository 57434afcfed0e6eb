"""Transfers on a shared link: closed forms, and an event simulation of processor sharing."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing import SharedLink, connections_bytes_per_s, erlang_c, exposed_seconds
from planner.roofline import exposed_transfer_s
from tests.service_simulation import link_run

loads = st.floats(0.01, 0.95)


@given(loads)
def test_one_transfer_at_full_speed_is_plain_processor_sharing(load: float) -> None:
    assert SharedLink.of(1.0, load).mean_slowdown == pytest.approx(1 / (1 - load))


@given(st.integers(1, 60), loads)
def test_whole_numbers_of_transfers_slow_down_by_erlangs_formula(n: int, load: float) -> None:
    expected = 1 + erlang_c(n, n * load) / (n * (1 - load))
    assert SharedLink.of(float(n), n * load, 1.0).mean_slowdown == pytest.approx(expected, rel=1e-9)


@given(st.floats(1.0, 50.0), loads)
def test_what_a_starting_transfer_meets_has_the_mean_of_the_formula(n_full_speed: float, load: float) -> None:
    link = SharedLink.of(n_full_speed, n_full_speed * load, 1.0)
    slowdown, weight = link.slowdown_atoms(1e-9)
    assert weight.sum() == pytest.approx(1.0)
    assert slowdown @ weight == pytest.approx(link.mean_slowdown, rel=1e-5)


@given(st.floats(1.0, 50.0), loads)
def test_more_load_or_fewer_full_speed_transfers_slow_down_more(n_full_speed: float, load: float) -> None:
    here = SharedLink.of(n_full_speed, n_full_speed * load, 1.0).mean_slowdown
    assert SharedLink.of(n_full_speed, 0.9 * n_full_speed * load, 1.0).mean_slowdown <= here + 1e-9
    assert SharedLink.of(n_full_speed + 1, (n_full_speed + 1) * load, 1.0).mean_slowdown <= here + 1e-9


@pytest.mark.parametrize("n_full_speed", [1.0, 2.5, 10.0])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_processor_sharing_simulated_event_by_event_agrees(n_full_speed: float, load: float) -> None:
    rng = np.random.default_rng(7)
    sizes_s = rng.lognormal(0.0, 0.8, 200_000)
    sizes_s /= sizes_s.mean()
    taken_s = link_run(n_full_speed * load, n_full_speed, sizes_s, rng)
    link = SharedLink.of(n_full_speed, n_full_speed * load, 1.0)
    assert link.mean_slowdown == pytest.approx(taken_s.mean(), rel=0.03)
    long = sizes_s > 1.5
    assert link.mean_slowdown == pytest.approx(taken_s[long].sum() / sizes_s[long].sum(), rel=0.04)
    slowdown, weight = link.slowdown_atoms()
    met = taken_s / sizes_s
    for q in (0.9, 0.99):
        frozen = slowdown[np.searchsorted(np.cumsum(weight), q)]
        step = 1 / n_full_speed  # the number present is whole
        assert np.quantile(met, q) - step <= frozen <= 1.15 * np.quantile(met, q) + step


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_exposed_time_simulated_lies_between_its_two_estimates(load: float) -> None:
    rng = np.random.default_rng(8)
    n_full_speed, n_layers = 4.0, 20
    send_s = rng.lognormal(0.0, 0.5, 200_000)
    send_s /= send_s.mean()
    produce_s = 1.2 * send_s
    taken_s = link_run(n_full_speed * load, n_full_speed, send_s, rng)
    left_s = np.maximum(taken_s - produce_s * (n_layers - 1) / n_layers, taken_s / n_layers).mean()
    link = SharedLink.of(n_full_speed, n_full_speed * load, 1.0)
    low = exposed_seconds(produce_s, send_s, 0.0, n_layers, link.mean_slowdown).mean()
    slowdown, weight = link.slowdown_atoms()
    high = sum(
        w * exposed_seconds(produce_s, send_s, 0.0, n_layers, f).mean() for f, w in zip(slowdown, weight, strict=True)
    )
    assert 0.98 * low <= left_s <= 1.02 * high


def test_an_idle_link_exposes_what_the_roofline_says() -> None:
    prefill_s, sent = np.array([0.5, 1.0, 4.0]), np.array([1e9, 2e9, 60e9])
    expected = exposed_transfer_s(prefill_s, sent, 12.5e9, 0.02, 60)
    assert exposed_seconds(prefill_s, sent / 12.5e9, 0.02, 60) == pytest.approx(expected)
    assert exposed_seconds(1.0, 0.5, 0.0, None) == pytest.approx(0.5)


def test_windows_limit_a_transfer_only_over_a_distance() -> None:
    assert connections_bytes_per_s(1e6, 0.0, 4) == inf
    assert connections_bytes_per_s(1e6, 0.1, 4) == pytest.approx(4e7)


def test_an_unused_link_slows_nothing() -> None:
    link = SharedLink.of(1e10, 0.0, 1e9)
    assert (link.mean_slowdown, link.slowdown_atoms()[0][0], link.slowdown_atoms()[1][0]) == (1.0, 1.0, 1.0)


def test_links_without_meaning_or_steady_state_are_refused() -> None:
    with pytest.raises(ValueError, match="no steady state"):
        SharedLink.of(1.0, 1.0)
    with pytest.raises(ValueError, match="a link needs"):
        SharedLink.of(0.0, 0.0)
    with pytest.raises(ValueError, match="a transfer needs"):
        exposed_seconds(1.0, 1.0, 0.0, 4, slowdown=0.5)
    with pytest.raises(ValueError, match="connections need"):
        connections_bytes_per_s(0.0, 0.1, 1)
