"""A plain compiled simulation of a first-come-first-served queue with c servers, to hold the formulas against."""

import csv
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from planner.queueing.service import Service
from planner.queueing.waits import gigc_wait

Floats = NDArray[np.float64]

CUT_SIGMAS = 3.0
"""Log-normal services are cut at this many deviations of their logarithm, below and above."""
N_RUNS = 20
"""Independent runs, from whose spread the interval is taken."""


@dataclass(frozen=True)
class QueueCase:
    """One configuration: servers, utilisation, spread of the service and of the gaps between arrivals."""

    n_servers: int
    utilization: float
    sigma: float
    arrival_scv: float
    seed: int


def drawn_cases(n_cases: int, seed: int, poisson: bool) -> list[QueueCase]:
    """Configurations drawn evenly over the ranges that the queueing room is asked to cover."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(n_cases):
        n_servers, utilization, sigma = int(rng.integers(1, 33)), rng.uniform(0.3, 0.9), rng.uniform(0.3, 1.2)
        scv = rng.uniform(0.25, 4.0)
        cases.append(QueueCase(n_servers, utilization, sigma, 1.0 if poisson else scv, int(rng.integers(2**31))))
    return cases


def cut_log_normal_mean(sigma: float) -> float:
    """E[exp(sigma Z)] for a standard normal Z cut at `CUT_SIGMAS` deviations."""
    inside = norm.cdf(CUT_SIGMAS) - norm.cdf(-CUT_SIGMAS)
    return exp(sigma**2 / 2) * (norm.cdf(CUT_SIGMAS - sigma) - norm.cdf(-CUT_SIGMAS - sigma)) / inside


def cut_log_normal(sigma: float, n_atoms: int = 400) -> tuple[Floats, Floats]:
    """Atoms and weights of the cut log-normal with mean 1: the mean of each of `n_atoms` equal steps of Z."""
    edges = np.linspace(-CUT_SIGMAS, CUT_SIGMAS, n_atoms + 1)
    weights = np.diff(norm.cdf(edges))
    means = exp(sigma**2 / 2) * np.diff(norm.cdf(edges - sigma)) / weights
    return means / cut_log_normal_mean(sigma), weights / weights.sum()


@numba.njit(cache=True)
def _waits(n_servers, rate, shape, sigma, mean, cut, n_warm_up, waits, rng):  # type: ignore[no-untyped-def]
    """Fill `waits` by the recursion of Kiefer and Wolfowitz (1955): servers sorted by when they are free."""
    free = np.zeros(n_servers)
    scale = 1.0 / (rate * shape)
    for request in range(-n_warm_up, len(waits)):
        gap = rng.standard_exponential() * scale if shape == 1.0 else rng.standard_gamma(shape) * scale
        z = rng.standard_normal()
        while abs(z) > cut:
            z = rng.standard_normal()
        wait = max(free[0], 0.0)
        if request >= 0:
            waits[request] = wait
        leaves = wait + np.exp(sigma * z) / mean - gap
        place = 1
        while place < n_servers and free[place] - gap < leaves:
            free[place - 1] = free[place] - gap
            place += 1
        free[place - 1] = leaves
        while place < n_servers:
            free[place] -= gap
            place += 1


@dataclass(frozen=True)
class Simulated:
    """Statistics of the waits: the mean over runs and the half width of its 95 % interval, each (n,)."""

    value: Floats
    half_width: Floats


METRICS = ("mean", "waiting", "p50", "p90", "p99")


def simulated_waits(case: QueueCase, n_requests: int) -> Simulated:
    """Mean wait, waiting fraction and quantiles of `n_requests` in `N_RUNS` runs, service 1 on average."""
    n_warm_up = int(20 * (case.arrival_scv + 3) / (1 - case.utilization) ** 2) + 200 * case.n_servers
    waits = np.empty(n_requests // N_RUNS)
    rows = np.empty((N_RUNS, len(METRICS)))
    mean = cut_log_normal_mean(case.sigma)
    rate, shape = case.n_servers * case.utilization, 1 / case.arrival_scv
    for run in range(N_RUNS):
        rng = np.random.default_rng((case.seed, run))
        _waits(case.n_servers, rate, shape, case.sigma, mean, CUT_SIGMAS, n_warm_up, waits, rng)
        rows[run] = waits.mean(), (waits > 0).mean(), *np.quantile(waits, (0.5, 0.9, 0.99))
    half = t.ppf(0.975, N_RUNS - 1) * rows.std(axis=0, ddof=1) / sqrt(N_RUNS)
    return Simulated(rows.mean(axis=0), half)


SIMULATED = Path(__file__).parent / "benchmarks" / "queueing_simulated.csv"
"""What the full set of drawn configurations gave: `python tests/benchmarks/bench_queueing.py --simulate` writes it."""
N_CASES, SEED = 200, 20260
"""Configurations drawn for each kind of arrivals, and the seed they are drawn by."""
MIN_REQUESTS, MAX_REQUESTS = 4_000_000, 64_000_000
RARE_WAITS = 1000
"""Fewer requests than this that waited in a whole simulation measure no relative error."""


def all_cases() -> list[QueueCase]:
    """The configurations that the issue asks for: 200 with Poisson arrivals and 200 with Gamma gaps."""
    return drawn_cases(N_CASES, SEED, poisson=True) + drawn_cases(N_CASES, SEED + 1, poisson=False)


def simulated_well(case: QueueCase) -> tuple[Simulated, int]:
    """At least 4 million requests, and more, up to 64, until the mean is known to 1 %; with their number."""
    n_requests = MIN_REQUESTS
    while True:
        found = simulated_waits(case, n_requests)
        if n_requests >= MAX_REQUESTS or found.half_width[0] <= 0.01 * found.value[0]:
            return found, n_requests
        n_requests *= 4


def write_simulated(rows: list[tuple[QueueCase, Simulated, int]]) -> None:
    """The table of simulated waits."""
    columns = [name + suffix for name in METRICS for suffix in ("", "_half_width")]
    lines = [",".join(["n_servers", "utilization", "sigma", "arrival_scv", "seed", "n_requests", *columns])]
    for case, found, n_requests in rows:
        parts = [f"{case.n_servers}", *(f"{x:.17g}" for x in (case.utilization, case.sigma, case.arrival_scv))]
        pairs = zip(found.value, found.half_width, strict=True)
        parts += [f"{case.seed}", f"{n_requests}", *(f"{x:.6g}" for pair in pairs for x in pair)]
        lines.append(",".join(parts))
    SIMULATED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_simulated() -> list[tuple[QueueCase, Simulated, int]]:
    """The committed table of simulated waits."""
    rows = []
    with SIMULATED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = (float(row[name]) for name in ("utilization", "sigma", "arrival_scv"))
            case = QueueCase(int(row["n_servers"]), *shape, int(row["seed"]))
            value = np.array([float(row[name]) for name in METRICS])
            half = np.array([float(row[f"{name}_half_width"]) for name in METRICS])
            rows.append((case, Simulated(value, half), int(row["n_requests"])))
    return rows


def predicted_waits(case: QueueCase) -> Floats:
    """What the queueing room says of a configuration, in the order of `METRICS`."""
    service = Service.of(*cut_log_normal(case.sigma))
    wait = gigc_wait(case.n_servers, case.n_servers * case.utilization, service, case.arrival_scv)
    return np.array([wait.mean_s, wait.waiting_fraction, *(wait.quantile_s(q) for q in (0.5, 0.9, 0.99))])


def errors_beyond_interval(predicted: Floats, found: Simulated) -> Floats:
    """Signed error beyond the 95 % interval, relative to the simulated value: 0 inside, nan of a value never seen."""
    beyond = np.maximum(np.abs(predicted - found.value) - found.half_width, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(beyond > 0, np.sign(predicted - found.value) * beyond / found.value, 0.0)
    return np.asarray(relative)
