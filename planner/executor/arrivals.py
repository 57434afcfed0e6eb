"""Arrival times of a run: as planned for, in bursts, or as a trace recorded them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.scenario import BurstArrivals, GammaArrivals

Floats = NDArray[np.float64]
Generator = Callable[[str], np.random.Generator]
PHASES_AT_ONCE = 1024


def poisson_s(n: int, req_per_s: float, generator: Generator) -> Floats:
    """Exponential gaps [s]."""
    return np.asarray(np.cumsum(generator("arrivals").standard_exponential(n)) / req_per_s)


def gamma_s(n: int, req_per_s: float, process: GammaArrivals, generator: Generator) -> Floats:
    """Independent gaps with a gamma distribution of the stated squared coefficient of variation [s]."""
    gaps = generator("gamma arrivals").standard_gamma(1 / process.squared_cv, n) * process.squared_cv
    return np.asarray(np.cumsum(gaps) / req_per_s)


def burst_s(n: int, req_per_s: float, process: BurstArrivals, generator: Generator) -> Floats:
    """Poisson arrivals whose rate switches between calm and bursts, both of exponential length [s].

    Equation:
        arrival k is where the integral of the rate reaches the k-th point of a Poisson process of rate 1

    Source:
        Markov-modulated Poisson process of two states; Fischer and Meier-Hellstern, Performance Evaluation 18 (1993).
    """
    whole_s = process.mean_calm_s + process.mean_burst_s
    calm_rate = req_per_s * whole_s / (process.mean_calm_s + process.rate_factor * process.mean_burst_s)
    points = np.cumsum(generator("burst arrivals").standard_exponential(n))
    phases, times, counts = generator("bursts"), [0.0], [0.0]
    while counts[-1] < points[-1]:
        calm, burst = phases.standard_exponential((2, PHASES_AT_ONCE))
        lengths_s = np.column_stack([calm * process.mean_calm_s, burst * process.mean_burst_s]).ravel()
        rates = np.tile([calm_rate, calm_rate * process.rate_factor], PHASES_AT_ONCE)
        times += (times[-1] + np.cumsum(lengths_s)).tolist()
        counts += (counts[-1] + np.cumsum(lengths_s * rates)).tolist()
    return np.asarray(np.interp(points, counts, times))


def recorded_s(n: int, req_per_s: float | None, arrival_s: Floats) -> Floats:
    """A trace's own times, again from its start after its last gap, stretched to a rate where one is given [s]."""
    size = arrival_s.size
    span_s = float(arrival_s[-1] - arrival_s[0]) * size / max(size - 1, 1) or float(size)
    place, turn = np.arange(n) % size, np.arange(n) // size
    times = turn * span_s + (arrival_s[place] - arrival_s[0])
    return np.asarray(times if req_per_s is None else times * (size / span_s / req_per_s))
