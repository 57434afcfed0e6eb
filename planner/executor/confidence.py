"""Confidence in the figures of long runs: requests that are late come in bursts, so they are counted in batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.results.run import Interval

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
N_BATCHES = 40
"""Batches of all replications together: enough to see how skewed they are, few enough to be long."""
N_SHORT = 400
"""Shorter ones, whose largest show how heavy the tail is."""
LEAST_BATCH = 50
"""Requests of a batch, at least."""
MOST_MEMORY = 0.8
"""Correlation of one batch with the next that is allowed for at most."""
PLAIN = 1e-3
"""Skewness below which an interval is symmetric."""
HALVINGS = 40
CLOSE = 1e-6
"""Relative width at which an end of an interval is found."""


class Stratum(NamedTuple):
    """Requests of one period, or of all where there is one: those that finished, in the order of their arrival."""

    weight: float
    """Share that they have in all requests, up to a factor."""
    values: Sequence[Floats]
    """Their times, one array for each replication [s]."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Times in batches of about as many requests each, in every replication."""

    parts: Sequence[tuple[float, Sequence[Sequence[Floats]]]]
    """Of every stratum its weight, and by replication the sorted times of every batch."""
    short: Floats
    """Means of shorter batches over all strata, one row per replication."""

    @classmethod
    def of(cls, strata: Sequence[Stratum]) -> "Batches | None":
        """The batches of replications; None of a single one, or where one of them has nothing."""
        n = min((len(stratum.values) for stratum in strata), default=0)
        known = [s for s in strata if all(len(values) for values in s.values)]
        if n < 2 or not known:
            return None
        shortest = min(len(values) for stratum in known for values in stratum.values)
        each, short = (max(min(-(-count // n), shortest // LEAST_BATCH), 1) for count in (N_BATCHES, N_SHORT))
        whole = sum(s.weight for s in known)
        parts = [(s.weight / whole, [[np.sort(b) for b in np.array_split(v, each)] for v in s.values]) for s in known]
        means = (s.weight / whole * np.array([_means(values, short) for values in s.values]) for s in known)
        return cls(parts, sum(means, start=np.zeros(1)))

    def figures(self, figure: Callable[[Floats], float]) -> Floats:
        """A figure of every batch over all strata, one row per replication."""
        each = (w * np.array([[figure(batch) for batch in row] for row in rows]) for w, rows in self.parts)
        return sum(each, start=np.zeros(1))

    def late(self, x: float) -> Floats:
        """Fraction of the requests of every batch that take longer than x."""
        return self.figures(lambda batch: 1 - int(batch.searchsorted(x, side="right")) / len(batch))

    @property
    def ends(self) -> tuple[float, float]:
        """The shortest and the longest time."""
        every = [batch for _, rows in self.parts for row in rows for batch in row]
        return min(float(batch[0]) for batch in every), max(float(batch[-1]) for batch in every)


def mean_interval(batches: Batches) -> Interval:
    """Confidence interval of a mean, from the means of batches; see `bounds`.

    Its upper end is the higher of two: what the skewness of the batches says, and what the tail of shorter ones does.
    """
    low, high = bounds(batches.figures(lambda batch: float(batch.mean())))
    short = batches.short
    return Interval(low=low, high=max(high, upper_mean(short, _memory(short - short.mean()))))


def quantile_interval(batches: Batches, fraction: float) -> Interval:
    """Confidence interval of a quantile: times that the fraction of later requests does not speak against.

    Equation:
        all x with p(x) - G(t) s <= 1 - q <= p(x) - G(-t) s, p(x) the mean over batches of the fraction later than x

    The fraction is judged at every x by itself: far out, where few batches have any such request, it is as uncertain
    and as skewed as it is there. That is what tells a quantile of few long queues from one of many short ones.

    Args:
        batches: times of requests.
        fraction: of the quantile.

    Source:
        Quantiles by inverting a test: Conover, Practical Nonparametric Statistics (1999), 3.2; by batches: Heidelberger
        and Lewis, Operations Research 32 (1984). For s, t and G see `bounds`.
    """
    (least, most), allowed = batches.ends, 1 - fraction
    middle = _last(lambda x: float(batches.late(x).mean()) > allowed, least, most)
    low = _last(lambda x: bounds(batches.late(x))[0] > allowed, least, middle)
    high = _last(lambda x: bounds(batches.late(x))[1] >= allowed, middle, most)
    return Interval(low=low, high=high)


def quantiles(strata: Sequence[Stratum], fractions: Sequence[float]) -> list[float]:
    """Quantiles of all times together, of all replications and strata; nan of none.

    Of one stratum linear between order statistics; of several the least time whose cumulative weight reaches it.

    >>> quantiles([], [0.5]), quantiles([Stratum(1.0, [np.array([1.0, 2.0]), np.array([6.0])])], [0.5])
    ([nan], [2.0])
    >>> heavy, light = Stratum(3.0, [np.array([1.0, 2.0, 3.0])]), Stratum(1.0, [np.array([9.0])])
    >>> quantiles([heavy, light], [0.5, 0.74, 0.76])  # a quarter of the weight each
    [2.0, 3.0, 9.0]
    """
    values = [np.concatenate(stratum.values) for stratum in strata]
    everything = np.concatenate(values) if values else np.zeros(0)
    if everything.size == 0:
        return [np.nan] * len(fractions)
    if len(strata) == 1:
        return [float(x) for x in np.quantile(everything, fractions)]
    weights = np.concatenate([np.full(v.size, s.weight / max(v.size, 1)) for s, v in zip(strata, values, strict=True)])
    found = np.quantile(everything, fractions, weights=weights, method="inverted_cdf")
    return [float(x) for x in found]


def bounds(figures: Floats) -> tuple[float, float]:
    """Ends of the confidence interval of the mean of batches.

    Equation:
        m - G(+-t) s / sqrt(n), G(z) = ((1 + 6 b (z - b))^(1/3) - 1) / (2 b), b = skewness / (6 sqrt(n)),
        s^2 the variance times (1 + r) / (1 - r) where a batch has a correlation r with the next

    Args:
        figures: one row per replication, one column per batch.

    Source:
        Tafazzoli and Wilson, Skart: a skewness- and autoregression-adjusted batch-means procedure, IIE Transactions 43
        (2011); G of Willink, Communications in Statistics 34 (2005).

    Three replications of one batch: 2 -+ t(2) sqrt(2/3) / sqrt(2), t(2) = 4.303.

    >>> [round(end, 3) for end in bounds(np.array([[1.0], [2.0], [3.0]]))]
    [-0.484, 4.484]
    >>> low, high = bounds(np.array([[0.0, 0.0, 0.0, 0.1], [0.0, 0.0, 0.0, 0.0]]))
    >>> 0.0125 - low < high - 0.0125
    True
    """
    values = figures.ravel()
    n, mean, deviation = values.size, float(values.mean()), float(values.std())
    if n < 2 or deviation == 0:
        return mean, mean
    skewness = float(((values - mean) ** 3).mean()) / deviation**3
    skewness *= sqrt(n * (n - 1)) / (n - 2) if n > 2 else 0.0
    error = deviation / sqrt(n - 1) * sqrt(_memory(figures - mean))
    t, b = t_quantile(n - 1), skewness / (6 * sqrt(n))
    return mean - _skewed(t, b) * error, mean - _skewed(-t, b) * error


def _means(values: Floats, n: int) -> Floats:
    """Means of n batches of about as many values."""
    edges = np.linspace(0, values.size, n + 1).astype(np.int64)
    return np.asarray(np.add.reduceat(values, edges[:-1]) / np.diff(edges))


def t_quantile(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t.

    >>> round(t_quantile(3), 3)
    3.182
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))


def _skewed(z: float, b: float) -> float:
    return z if abs(b) < PLAIN else (float(np.cbrt(1 + 6 * b * (z - b))) - 1) / (2 * b)


def _memory(deviations: Floats) -> float:
    """Factor by which the variance of the mean exceeds that of batches which know nothing of one another."""
    n, n_pairs = deviations.size, deviations[:, 1:].size
    if n_pairs == 0:
        return 1.0
    square = float((deviations**2).sum())
    if square == 0:
        return 1.0
    correlation = float((deviations[:, 1:] * deviations[:, :-1]).sum()) / n_pairs / square * n
    correlation = min(max(correlation, 0.0), MOST_MEMORY)
    return (1 + correlation) / (1 - correlation)


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The end of where something holds that holds from `low` up to some point."""
    if holds(high):
        return high
    for _ in range(HALVINGS):
        if high - low <= CLOSE * abs(high):
            break
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


TAIL = 0.2
"""Part of the batches that is taken for the tail."""
LEAST_TAIL = 20
"""Independent batches in it, from which on its shape can be told at all."""
LIGHTEST, HEAVIEST = -0.5, 0.7
"""Shapes of a tail that are allowed for: below the first its likelihood is not regular; with one of 1 there is no mean,
and above a half no variance, as far as a run can tell."""
N_SHAPES = 61
EXCESSES = np.geomspace(0.5, 20.0, 100)
"""Means of what lies beyond the threshold that are tried, over the one that was seen."""
CHI_SQUARED, NORMAL = 3.841, 1.960
"""Quantiles of 95 %, with one degree of freedom and on both sides."""


def upper_mean(figures: Floats, memory: float) -> float:
    """Upper end of the 95 % interval of a mean whose tail is as heavy as the largest of its batches allow.

    Equation:
        m = E[min(x, u)] + P(x > u) e, e = sigma / (1 - xi) the mean excess of the generalised Pareto distribution over
        u; up to the largest e with 2 (max l - l(e)) <= memory chi^2(0.95), l(e) the log-likelihood with the best xi

    Batches beyond the largest that was seen belong to the mean: a run that happened to have none is too low, and its
    variance and skewness are too small as well. The shape of its tail is not.

    Args:
        figures: means of batches, any shape.
        memory: what the variance of the mean is larger by than that of independent batches [-].

    Returns:
        The end; minus infinity where the tail has too few batches to tell its shape.

    Source:
        Mean with a tail of its own: Johansson, Extremes 6 (2003); profile likelihood: Coles, An Introduction to
        Statistical Modeling of Extreme Values (2001), 2.6 and 4.3; regular for xi > -1/2: Smith, Biometrika 72 (1985).
        That nothing short of an assumption on the tail bounds a mean: Bahadur and Savage, Annals of Mathematical
        Statistics 27 (1956).

    >>> heavy = np.random.default_rng(1).pareto(1.6, 400)
    >>> bool(heavy.mean() < upper_mean(heavy, 1.0) < np.inf)
    True
    """
    x = np.sort(figures, axis=None)
    n_tail = int(TAIL * x.size)
    if n_tail < LEAST_TAIL * memory or x[-1] == x[-n_tail - 1]:
        return -np.inf
    above = x[-n_tail - 1]
    excess_s = x[-n_tail:] - above
    body, share = np.minimum(x, above), n_tail / x.size * float(excess_s.mean())
    best, most = _mean_excess(excess_s / excess_s.mean(), memory)
    error = NORMAL * sqrt(memory / x.size) * float(body.std())
    return float(body.mean()) + share * best + hypot(share * (most - best), error)


def _mean_excess(excesses: Floats, memory: float) -> tuple[float, float]:
    """The likeliest mean of a tail, and the largest that its excesses do not speak against."""
    shapes = np.linspace(LIGHTEST, HEAVIEST, N_SHAPES) + 1e-6  # the exponential distribution is a limit
    scales = EXCESSES[:, None] * (1 - shapes)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log1p(shapes[:, None] * excesses / scales[:, :, None]).sum(axis=2)
    likelihood = -excesses.size * np.log(scales) - (1 + 1 / shapes) * logs
    profile = np.where(np.isfinite(logs), likelihood, -np.inf).max(axis=1)
    allowed = 2 * (profile.max() - profile) <= memory * CHI_SQUARED
    return float(EXCESSES[profile.argmax()]), float(EXCESSES[np.flatnonzero(allowed)[-1]])
