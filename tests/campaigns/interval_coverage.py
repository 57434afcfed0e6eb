"""How often a 95 % interval of a run holds the true figure, where requests that are late come in long bursts.

    python -m tests.campaigns.interval_coverage --seed 1 --count 2000

simulates each of three queues as often as asked, in four replications with a warm-up deleted, and counts the intervals
of `planner.executor.confidence` that hold the mean, the median, P90 and P99 of the time in the system. What is true is
known in closed form of the first, and of the second's mean; the rest is taken from 400 other replications. A table of
all runs so far is printed after every 100 of each queue. `interval_coverage.md` holds what it gave.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.executor.confidence import Batches, Stratum, mean_interval, quantile_interval

Floats = NDArray[np.float64]
Rng = np.random.Generator
N_REPLICATIONS = 4
WARM_UP = 0.1
QUANTILES = (0.5, 0.9, 0.99)
N_LONG = 400
"""Replications that stand for the truth."""
AT_ONCE = 100
"""Runs of a queue between two tables."""
Ends = dict[str, list[tuple[float, float]]]
"""Of every figure the intervals of all runs."""
SIGMA = float(np.sqrt(np.log(21.0)))
"""Of log-normal service with a squared coefficient of variation of 20."""


class Queue(NamedTuple):
    """A queue, how long a run of it is, and how its requests' times are made."""

    name: str
    n_requests: int
    times_s: Callable[[Rng, int], Floats]


class Coverage(NamedTuple):
    """How often intervals of a figure held the truth."""

    queue: str
    figure: str
    n: int
    held: float
    below: float
    """Part that lay below it."""
    above: float
    half_width: float
    """Half of the interval over the truth, in the median."""


def in_system_s(gaps_s: Floats, service_s: Floats) -> Floats:
    """Time in a first-come, first-served queue with one server, by Lindley's recursion."""
    walk = np.concatenate([[0.0], np.cumsum(service_s[:-1] - gaps_s[1:])])
    return np.asarray(walk - np.minimum.accumulate(walk) + service_s)


def _exponential(rng: Rng, n: int) -> Floats:
    """M/M/1, 90 % busy."""
    return in_system_s(rng.exponential(1.0, n), rng.exponential(0.9, n))


def _heavy(rng: Rng, n: int) -> Floats:
    """M/G/1 with log-normal service of squared variation 20, 70 % busy."""
    return in_system_s(rng.exponential(1.0, n), 0.7 * np.exp(SIGMA * rng.standard_normal(n) - SIGMA**2 / 2))


def _bursty_tandem(rng: Rng, n: int) -> Floats:
    """Two stations in a row, 70 and 75 % busy on average, with arrivals whose rate changes by 2.3 in bursts."""
    lengths = rng.geometric(1 / 200, size=n // 100 + 400)
    is_fast = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)[:n]
    gaps = rng.exponential(1.0, n) * np.where(is_fast, 0.6, 1.4)
    first = in_system_s(gaps, rng.exponential(0.7, n))
    left = np.cumsum(gaps) + first
    return first + in_system_s(np.diff(left, prepend=0.0), rng.gamma(0.5, 1.5, n))


QUEUES = (
    Queue("M/M/1, 90 % busy", 1_000_000, _exponential),
    Queue("M/G/1, service scv 20, 70 % busy", 1_000_000, _heavy),
    Queue("bursty tandem", 1_000_000, _bursty_tandem),
)


def run_s(queue: Queue, rng: Rng, n_requests: int) -> list[Floats]:
    """Times of the requests that count, by replication."""
    n = n_requests // N_REPLICATIONS
    return [queue.times_s(rng, n)[int(WARM_UP * n) :] for _ in range(N_REPLICATIONS)]


def figures(times: list[Floats]) -> Iterator[tuple[str, float, float]]:
    """The interval of every figure of a run."""
    batches = Batches.of([Stratum(1.0, times)])
    assert batches is not None
    mean = mean_interval(batches)
    yield "mean", mean.low, mean.high
    for q in QUANTILES:
        found = quantile_interval(batches, q)
        yield f"P{100 * q:g}", found.low, found.high


def truth(queue: Queue, rng: Rng) -> dict[str, float]:
    """The mean and the quantiles, in closed form or from a very long run."""
    if queue.times_s is _exponential:
        return {"mean": 9.0} | {f"P{100 * q:g}": float(-9.0 * np.log(1 - q)) for q in QUANTILES}
    n = queue.n_requests // N_REPLICATIONS
    runs = [np.sort(queue.times_s(rng, n)[int(WARM_UP * n) :]) for _ in range(N_LONG)]
    found = {"mean": float(np.mean([run.mean() for run in runs]))}
    # The quantile of all is where as many are later: halving needs no copy of all of them together.
    for q in QUANTILES:
        low, high = 0.0, max(float(run[-1]) for run in runs)
        for _ in range(50):
            middle = (low + high) / 2
            late = np.mean([1 - np.searchsorted(run, middle) / run.size for run in runs])
            low, high = (middle, high) if late > 1 - q else (low, middle)
        found[f"P{100 * q:g}"] = high
    # A hundred million requests still miss some of it: E[S] + E[S^2] / (2 (1 - rho)), Pollaczek and Khinchine.
    return found | ({"mean": 0.7 + 0.7**2 * 21 / (2 * 0.3)} if queue.times_s is _heavy else {})


def coverage(queue: Queue, seed: int, count: int, true: dict[str, float] | None = None) -> list[Coverage]:
    """How often the intervals of runs hold the truth.

    Args:
        queue: what is simulated.
        seed: of the runs.
        count: runs.
        true: the mean and quantiles; None: they are found first.
    """
    true = true or truth(queue, np.random.default_rng([seed, 0]))
    found: Ends = {}
    extend(found, queue, seed, range(count))
    return summary(queue, found, true)


def extend(found: Ends, queue: Queue, seed: int, some: range) -> None:
    """Add the intervals of some runs to those that are known."""
    for i in some:
        for name, low, high in figures(run_s(queue, np.random.default_rng([seed, 1, i]), queue.n_requests)):
            found.setdefault(name, []).append((low, high))


def summary(queue: Queue, found: Ends, true: dict[str, float]) -> list[Coverage]:
    """How often the intervals of every figure hold the truth."""
    return [_coverage(queue.name, name, np.array(ends), true[name]) for name, ends in found.items()]


def _coverage(queue: str, figure: str, ends: Floats, true: float) -> Coverage:
    low, high = ends.T
    held = (low <= true) & (true <= high)
    width = float(np.median(high - low)) / 2 / true
    return Coverage(queue, figure, len(ends), held.mean(), (high < true).mean(), (low > true).mean(), width)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    asked = parser.parse_args()
    true = [truth(queue, np.random.default_rng([asked.seed, 0])) for queue in QUEUES]
    found: list[Ends] = [{} for _ in QUEUES]
    for first in range(0, asked.count, AT_ONCE):
        for queue, own in zip(QUEUES, found, strict=True):
            extend(own, queue, asked.seed, range(first, min(first + AT_ONCE, asked.count)))
        table(found, true)


def table(found: list[Ends], true: list[dict[str, float]]) -> None:
    """Print what is known so far."""
    print("\n| queue | figure | runs | held | too low | too high | half-width |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for queue, ends, its_truth in zip(QUEUES, found, true, strict=True):
        for one in summary(queue, ends, its_truth):
            shares = " | ".join(f"{100 * share:.1f} %" for share in (one.held, one.below, one.above, one.half_width))
            print(f"| {one.queue} | {one.figure} | {one.n} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
