"""Independent answers for the tests, sharing no code with the product: closed forms, an exact chain, a simulation."""

from math import exp, factorial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mmc_waiting_fraction(n_servers: int, load_erlang: float) -> float:
    """Erlang C from its defining sum (Erlang 1917); fine for a few dozen servers."""
    terms = [load_erlang**k / factorial(k) for k in range(n_servers)]
    last = load_erlang**n_servers / factorial(n_servers) / (1 - load_erlang / n_servers)
    return last / (sum(terms) + last)


def mmc_wait_survival(n_servers: int, arrival_req_per_s: float, mean_s: float, x_s: Floats) -> Floats:
    """P(W > x) of M/M/c: C exp(-(c mu - lambda) x)."""
    waiting = mmc_waiting_fraction(n_servers, arrival_req_per_s * mean_s)
    return waiting * np.exp(-(n_servers / mean_s - arrival_req_per_s) * x_s)


def md1_wait_survival(utilization: float, x_services: float) -> float:
    """P(W > x) of M/D/1, x in services (Erlang 1909): an alternating sum, good to x of about 10."""
    terms = (
        exp(-utilization * (k - x_services)) * (utilization * (k - x_services)) ** k / factorial(k)
        for k in range(int(x_services) + 1)
    )
    return 1 - (1 - utilization) * sum(terms)


def mg1_wait_moments(arrival_req_per_s: float, seconds: Floats, weights: Floats) -> tuple[float, float]:
    """E[W] and E[W^2] of M/G/1 (Pollaczek-Khinchine; Takacs 1962)."""
    first, second, third = (float(seconds**k @ weights) for k in (1, 2, 3))
    spare = 1 - arrival_req_per_s * first
    mean_s = arrival_req_per_s * second / (2 * spare)
    return mean_s, 2 * mean_s**2 + arrival_req_per_s * third / (3 * spare)


def mdc_mean_wait_services(n_servers: int, utilization: float, n_states: int = 600) -> float:
    """Mean wait of M/D/c in services (Crommelin 1932): present at t + D are those who waited at t, and new arrivals."""
    load = n_servers * utilization
    count = np.arange(n_states)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n_states)))])
    arrivals = np.exp(count * np.log(load) - load - log_factorial)
    step = np.zeros((n_states, n_states))
    for present in range(n_states):
        left = max(present - n_servers, 0)
        step[present, left:] = arrivals[: n_states - left]
    step[:, -1] += 1 - step.sum(axis=1)
    balance = np.vstack([(step.T - np.eye(n_states))[:-1], np.ones(n_states)])
    stationary = np.linalg.solve(balance, np.append(np.zeros(n_states - 1), 1.0))
    return float(stationary @ np.maximum(count - n_servers, 0)) / load


def fcfs_waits_s(
    n_servers: int,
    arrival_req_per_s: float,
    seconds: Floats,
    n_replications: int,
    n_requests: int,
    n_warm_up: int,
    seed: int,
) -> Floats:
    """Waits of M/G/c, services drawn evenly from `seconds` (Kiefer and Wolfowitz 1955), shape (requests, runs)."""
    rng = np.random.default_rng(seed)
    rows = np.arange(n_replications)
    free_s = np.zeros((n_replications, n_servers))
    now_s = np.zeros(n_replications)
    waits_s = np.empty((n_warm_up + n_requests, n_replications))
    for request in range(n_warm_up + n_requests):
        now_s += rng.exponential(1 / arrival_req_per_s, n_replications)
        server = free_s.argmin(axis=1)
        start_s = np.maximum(free_s[rows, server], now_s)
        waits_s[request] = start_s - now_s
        free_s[rows, server] = start_s + rng.choice(seconds, n_replications)
    return waits_s[n_warm_up:]
