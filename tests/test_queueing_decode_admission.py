"""Waits for a place in decode batches: known queues, laws, and batches simulated step by step."""

import numpy as np
import pytest

from planner.queueing.decode import decode_batch
from planner.queueing.service import Service
from planner.queueing.waits import gigc_wait
from tests.one_queue import place_wait
from tests.tandem_simulation import batches_run

GEOMETRIC = Service.of(np.arange(1.0, 4000.0), 0.99 ** np.arange(3999.0))


def test_with_constant_steps_a_place_is_a_server() -> None:
    outputs = Service.of([50.0, 400.0], [3.0, 1.0])
    held = Service.of([1.0, 8.0], [3.0, 1.0])
    assert place_wait(3.2, outputs, np.full(6, 0.02), 2).mean_s == pytest.approx(gigc_wait(12, 3.2, held).mean_s)


def test_exponential_outputs_wait_as_the_chain_of_the_batch_says() -> None:
    steps = np.linspace(0.01, 0.03, 8)
    rate = 0.85 * 16 / (GEOMETRIC.mean_s * 0.03)
    found, exact = place_wait(rate, GEOMETRIC, steps, 2), decode_batch(rate, GEOMETRIC.mean_s, steps, 2).admission
    assert found.waiting_fraction == pytest.approx(exact.waiting_fraction, rel=0.02)
    assert found.mean_s == pytest.approx(exact.mean_s, rel=0.02)


def test_longer_outputs_of_equal_mean_wait_longer() -> None:
    outputs = [Service.of([1.0, x], [x - 100.0, 99.0]) for x in (101.0, 400.0, 3000.0)]
    means = [place_wait(0.17, of, np.full(20, 1.0)).mean_s for of in outputs]
    assert means == sorted(means)
    assert means[-1] > 2 * means[0]


def test_nobody_waits_where_places_abound() -> None:
    assert place_wait(0.1, Service.of([100.0]), np.full(256, 0.01)).waiting_fraction == 0.0


@pytest.mark.parametrize(
    ("sigma", "limit", "n", "load", "slope", "gaps_scv"),
    [
        (0.0, 12, 2, 0.9, 0.0, 1.0),
        (1.6, 6, 2, 0.75, 0.0, 1.0),
        (1.0, 8, 3, 0.9, 1.0, 1.0),
        (0.8, 10, 1, 0.85, 0.5, 3.0),
    ],
)
def test_simulated_batches_wait_as_said(
    sigma: float, limit: int, n: int, load: float, slope: float, gaps_scv: float
) -> None:
    rng, many = np.random.default_rng(11), 600_000
    tokens = np.maximum(np.rint(300 * np.exp(sigma * rng.standard_normal(many).clip(-3, 2.5))), 2).astype(np.int64)
    step_s = 0.01 * (1 + slope * np.arange(limit + 1.0) / limit)
    rate = load * n * limit / (tokens.mean() * step_s[-1])
    arrive = np.cumsum(rng.standard_gamma(1 / gaps_scv, many) * gaps_scv / rate)
    wait = batches_run(n, arrive, tokens, step_s)[many // 10 :]
    lengths, counts = np.unique(tokens, return_counts=True)
    found = place_wait(rate, Service.of(lengths.astype(np.float64), counts.astype(np.float64)), step_s[1:], n, gaps_scv)
    step = float(step_s[-1])
    assert found.mean_s == pytest.approx(wait.mean(), rel=0.12, abs=step)
    for q in (0.9, 0.99):
        assert found.quantile_s(q) == pytest.approx(np.quantile(wait, q), rel=0.15, abs=2 * step)


def test_the_wait_for_a_place_goes_on_where_places_are_too_many_to_be_counted_one_by_one() -> None:
    outputs, steps_s = Service.of([100.0]), np.linspace(0.02, 0.04, 1000)

    def waiting(n_instances: int, utilization: float) -> float:
        return place_wait(n_instances * utilization * 250, outputs, steps_s, n_instances).waiting_fraction

    assert waiting(1001, 0.999) == pytest.approx(waiting(1000, 0.999), rel=1e-2)
    assert waiting(10**9, 0.99) == 0.0
    assert 0 < waiting(10**9, 1 - 1e-6) < 1
