"""Arrival times of a run: as planned for, in bursts, or as a trace recorded them."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from planner.scenario import BurstArrivals, DiurnalArrivals, GammaArrivals, Scenario
from planner.workload.spec import Workload

Floats = NDArray[np.float64]
Generator = Callable[[str], np.random.Generator]
PHASES_AT_ONCE = 1024
AT_ONCE = 65_536
"""Gaps that are drawn at once."""
LONGER = 1.05
"""Factor by which a time that was too short for all arrivals grows."""
PARTS_OF_A_DAY = 4096
"""Parts within which the rate of a sinusoid is taken to be constant; each has exactly as many arrivals as it should."""


def poisson_s(n: int, req_per_s: float, generator: Generator) -> Floats:
    """Exponential gaps [s]."""
    return np.asarray(np.cumsum(generator("arrivals").standard_exponential(n)) / req_per_s)


def gamma_s(n: int, req_per_s: float, process: GammaArrivals, generator: Generator) -> Floats:
    """Independent gaps with a gamma distribution of the stated squared coefficient of variation [s]."""
    gaps = generator("gamma arrivals").standard_gamma(1 / process.squared_cv, n) * process.squared_cv
    return np.asarray(np.cumsum(gaps) / req_per_s)


def has_own_arrivals(scenario: Scenario) -> bool:
    """True if some class arrives other than at random by what its workload says."""
    return any(workload.arrivals.squared_cv != 1 for _, workload in scenario.workloads.values())


def merged_s(
    n: int, req_per_s: Floats, workloads: Mapping[str, tuple[float, Workload]], generator: Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """The first n arrivals of classes that each come in a process of their own, and their classes [s].

    Equation:
        superposition of renewal processes with gamma gaps, class i at rate req_per_s[i]

    Args:
        n: how many arrivals of all classes.
        req_per_s: rate of each class, shape (classes,) [1/s].
        workloads: of the classes, in the same order.
        generator: where the randomness of a name comes from.
    """
    begun = {i: generator(f"class {name}: arrivals") for i, name in enumerate(workloads) if req_per_s[i] > 0}
    shapes = {i: 1 / workload.arrivals.squared_cv for i, (_, workload) in enumerate(workloads.values())}
    times: dict[int, Floats] = {i: np.zeros(0) for i in begun}
    until_s = n / float(req_per_s.sum())
    while sum(np.count_nonzero(own <= until_s) for own in times.values()) < n:
        until_s *= LONGER
        for i, random in begun.items():
            while times[i].size == 0 or times[i][-1] <= until_s:
                gaps = random.standard_gamma(shapes[i], AT_ONCE) / (shapes[i] * req_per_s[i])
                times[i] = np.append(times[i], (times[i][-1] if times[i].size else 0.0) + np.cumsum(gaps))
    every = np.concatenate(list(times.values()))
    classes = np.repeat(list(times), [own.size for own in times.values()])
    first = np.argsort(every, kind="stable")[:n]
    return every[first], classes[first]


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


def diurnal_s(n: int, req_per_s: float, process: DiurnalArrivals, generator: Generator) -> Floats:
    """Poisson arrivals whose rate follows the time of day [s].

    Equation:
        arrival k is where the integral of the rate reaches the k-th point of a Poisson process of rate 1
    """
    edges_s, shares = day(process)
    points = np.cumsum(generator("diurnal arrivals").standard_exponential(n)) / (req_per_s * process.period_s)
    whole = np.floor(points)
    return np.asarray(whole * process.period_s + np.interp(points - whole, shares, edges_s))


def day(process: DiurnalArrivals) -> tuple[Floats, Floats]:
    """Edges of the parts of a day [s], and the share of its requests that has arrived by each.

    >>> edges_s, shares = day(DiurnalArrivals(kind="diurnal", period_s=100.0, factors=(1.0, 3.0)))
    >>> edges_s.tolist(), shares.tolist()
    ([0.0, 50.0, 100.0], [0.0, 0.25, 1.0])
    """
    if process.factors is not None:
        shares = np.concatenate([[0.0], np.cumsum(process.factors)])
        return np.linspace(0.0, process.period_s, shares.size), shares / shares[-1]
    assert process.swing_fraction is not None, "a validated day has a swing or factors"
    times = np.linspace(0.0, 1.0, PARTS_OF_A_DAY + 1)
    return times * process.period_s, times - process.swing_fraction * np.sin(2 * np.pi * times) / (2 * np.pi)


def recorded_s(n: int, req_per_s: float | None, arrival_s: Floats, start: int = 0) -> Floats:
    """A trace's own times from a row on, round and round, stretched to a rate where one is given [s].

    Between its last request and its first lies a mean gap.

    >>> recorded_s(5, None, np.array([0.0, 1.0, 4.0]), start=1).tolist()
    [0.0, 3.0, 5.0, 6.0, 9.0]
    """
    size = arrival_s.size
    span_s = float(arrival_s[-1] - arrival_s[0]) * size / max(size - 1, 1) or float(size)
    turn, place = np.divmod(start + np.arange(n), size)
    times = turn * span_s + (arrival_s[place] - arrival_s[start])
    return np.asarray(times if req_per_s is None else times * (size / span_s / req_per_s))
