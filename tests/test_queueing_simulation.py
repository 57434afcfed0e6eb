"""Predicted waits against a plain simulation, within its own confidence interval plus the stated model error."""

import numpy as np
import pytest

from planner.queueing.service import Service
from planner.queueing.ttft import Path, Ttft
from planner.queueing.waits import mgc_wait
from tests.oracles import Floats, fcfs_waits_s

N_REPLICATIONS = 600
SIGMAS = 4.0  # of the mean over independent replications: a false alarm in 16,000 comparisons


def truncated_log_normal_s(sigma: float, n: int = 200) -> Floats:
    """Equally likely quantiles of a log-normal cut at three deviations above and below, mean 1."""
    rng = np.random.default_rng(1)
    draws = rng.normal(size=1_000_000)
    kept = draws[abs(draws) < 3]
    values = np.exp(sigma * np.quantile(kept, (np.arange(n) + 0.5) / n))
    return np.asarray(values / values.mean())


def check(n_servers: int, utilization: float, sigma: float, tolerance: float, n_requests: int) -> None:
    """Hold mean wait, waiting probability and the TTFT's survival at its predicted quantiles against simulation."""
    service = Service.of(truncated_log_normal_s(sigma))
    rate = n_servers * utilization / service.mean_s
    wait = mgc_wait(n_servers, rate, service)
    seed = 100 * n_servers + round(10 * utilization)
    warm_up = round(8 / (1 - utilization) ** 2) + 200
    waits_s = fcfs_waits_s(n_servers, rate, service.seconds, N_REPLICATIONS, n_requests, warm_up, seed)

    def close(predicted: float, per_replication: Floats, error: float) -> None:
        half_width = SIGMAS * per_replication.std(ddof=1) / np.sqrt(N_REPLICATIONS)
        assert abs(predicted - per_replication.mean()) <= half_width + error

    close(wait.mean_s, waits_s.mean(axis=0), tolerance * wait.mean_s)
    close(wait.waiting_fraction, (waits_s > 0).mean(axis=0), 0.0 if n_servers == 1 else 0.013)
    ttft = Ttft.of([Path.of(1.0, service.seconds, service.weights, wait)])
    own_s = np.random.default_rng(seed + 1).choice(service.seconds, waits_s.shape)
    for q in (0.5, 0.9, 0.99):
        x_s = ttft.quantile_s(q)
        predicted = float(ttft.survival(x_s))
        close(predicted, (waits_s + own_s > x_s).mean(axis=0), 2e-4 + (0.0 if n_servers == 1 else 0.02) * predicted)


@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.8])
@pytest.mark.parametrize(("n_servers", "tolerance"), [(1, 0.0), (3, 0.015), (9, 0.03)])
def test_waits_match_simulation(n_servers: int, utilization: float, tolerance: float) -> None:
    check(n_servers, utilization, sigma=1.0, tolerance=tolerance, n_requests=2000)


@pytest.mark.parametrize("sigma", [0.5, 1.15])
@pytest.mark.parametrize("utilization", [0.3, 0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize(("n_servers", "tolerance"), [(1, 0.0), (3, 0.015), (4, 0.015), (9, 0.04)])
def test_waits_match_long_simulation(n_servers: int, utilization: float, tolerance: float, sigma: float) -> None:
    check(n_servers, utilization, sigma, tolerance, n_requests=8000)
