"""Factors of a stack from measured points: robust least squares on logarithms, drawn towards physical priors."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from planner.roofline import Factors
from planner.roofline.factors import Value
from planner.studies.fidelity.loads import FloatArray, Loads

TTFT_SCALE = 0.2
TPOT_SCALE = 0.1
PREFILL_SCALE = 0.1
"""Relative noise of each latency: what repeats of one configuration differ by, and a little more. A prefill is a TTFT
without others in flight, and so without a queue."""
DISTINCT_POINTS = 25
"""Points of one configuration at several loads err together; beyond so many, more say little that is new. Of 14, 25, 40
and 75 this one predicts models and accelerators that are held out about as well as any, without giving up the fit."""


@dataclass(frozen=True)
class Prior:
    """Where a factor is expected before any point speaks, and how far it may well be from there."""

    value: float
    spread: float
    """Standard deviation of the logarithm."""
    why: str


PRIORS: dict[str, Prior] = {
    "gemm_efficiency": Prior(1.0, 0.15, "the accelerator's own kernels were measured"),
    "moe_efficiency": Prior(0.5, 0.3, "routing is uneven and token sorting comes on top of the grouped kernels"),
    "attention_efficiency": Prior(1.0, 0.15, "the accelerator's own kernel was measured"),
    "recurrence_efficiency": Prior(
        0.3, 0.3, "SGLang's Triton chunk_kda takes 3.10 ms where the measured one takes 0.89"
    ),
    "tile_rows": Prior(64.0, 0.5, "tiles of 64 or 128 rows"),
    "weight_read_fraction": Prior(0.88, 0.1, "large matrices stream at 0.8 to 0.9 of the bandwidth"),
    "kv_read_efficiency": Prior(1.0, 0.15, "the accelerator's own kernel was measured"),
    "activation_traffic": Prior(2.0, 0.5, "norms, activations and expert sorting are rarely fused"),
    "kernel_latency_s": Prior(4e-6, 0.4, "2 to 8 us per kernel under CUDA graphs; AIConfigurator adds 3 us"),
    "collective_latency": Prior(0.7, 0.5, "custom all-reduces fused with what follows"),
    "replica_latency_s": Prior(30e-6, 0.7, "two more collectives per layer"),
    "step_overhead_s": Prior(0.4e-3, 0.7, "sampling and scheduling that nothing hides"),
    "sequence_overhead_s": Prior(8e-6, 0.7, "detokenizing and bookkeeping per sequence"),
    "host_step_s": Prior(2.5e-3, 0.4, "a scheduler's pass on the host"),
    "host_sequence_s": Prior(15e-6, 0.6, "the same per sequence"),
    "eager_launch_s": Prior(20e-6, 0.8, "two or three launches from PyTorch per operator counted"),
    "request_overhead_s": Prior(35e-3, 0.7, "HTTP, tokenizer and admission"),
    "prompt_token_s": Prior(2e-6, 0.7, "a tokenizer makes some half a million tokens a second"),
    "burst": Prior(1.0, 1e-3, "a closed loop begins with all of its requests at once, and runs of it have them all"),
}
VERSION_SPREAD = (0.7, 0.6, 0.3, 1.0)
"""Spread of a version's ratios: kernel latency, collectives, host, request. Versions of one framework differ, and what
a request costs before its prefill has been 0.03 s in some and 0.4 s in others."""
LONE_SPREAD = 1e-3
"""Of a version's ratio of what a request costs where it and its source have no other points: which of the two it is
that costs, nothing tells, and the source has it."""
FEWEST_KINDS = 2
"""Sources that must have measured a version, and models that they did it on, before it differs from the framework on
other models too: what one table or one model shows is as well that table's or that model's."""
STEP = 1.5e-8
"""Of a finite difference of logarithms, the root of what a float tells apart."""
SOURCE_PRIOR = Prior(30e-3, 1.5, "what a harness counts into TTFT: from nothing to some tenths of a second")
N_RATIOS = len(VERSION_SPREAD)
AS_THE_REST = (1.0,) * N_RATIOS
"""Ratios of a version that nothing tells from its framework."""
HOST = ("step_overhead_s", "sequence_overhead_s", "host_step_s", "host_sequence_s", "eager_launch_s")
"""What the host takes for a pass. Prefills alone, from a table, do not set it: what they have of constant seconds is as
well their way of measuring."""
MOST_STEPS = 60
LEAST = 1e-12
"""What stands for a factor of 0, which has no logarithm."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted factors."""

    names: tuple[str, ...]
    factors: Factors
    spreads: dict[str, float]
    """Standard error of each factor's logarithm."""
    ratios: dict[str, tuple[float, float, float, float]]
    """Ratios of each version that is known: kernel latency, collectives, host, request."""
    sources_s: dict[str, float]
    """What each named source adds to every request, where there are several [s]."""
    prior_weight: float = 1.0
    """How much priors weighed against points."""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Models that a version's ratios hold for, where one source or one model alone tells of it."""

    def ratios_of(self, version: str, model: str) -> tuple[float, ...]:
        """Ratios of a version on a model; 1 where nothing tells of them."""
        is_other = version in self.only and model not in self.only[version]
        return AS_THE_REST if is_other else self.ratios.get(version, AS_THE_REST)

    def of(self, versions: Sequence[str], sources: Sequence[str | None], models: Sequence[str]) -> Factors:
        """Factors of cases by their versions, sources and models; what was not fitted has the stack's own."""
        pairs = list(zip(versions, models, strict=True))
        known = {pair: self.ratios_of(*pair) for pair in set(pairs)}
        table = np.array([known[pair] for pair in pairs])
        added_s = np.array([self.sources_s.get(source or "", 0.0) for source in sources])
        found = self.factors.with_version(*(table[:, i] for i in range(N_RATIOS)))
        return replace(found, source_overhead_s=added_s)


@dataclass(frozen=True, eq=False)
class Measured:
    """What the fit is held against; NaN is not measured."""

    loads: Loads
    ttft_s: FloatArray
    tpot_s: FloatArray
    weight: FloatArray
    versions: tuple[str, ...]
    sources: tuple[str | None, ...]
    """Harness or table of each point; None: it does not say."""
    ttft_ratio: Value = 1.0
    """What runs of the points at some factors had over the formulas at the same; see `rounds`."""
    tpot_ratio: Value = 1.0
    """The same of TPOT."""
    host: Fit | None = None
    """Whose host times prefills alone are predicted with; None: those that are asked for."""

    def latencies(self, factors: Factors) -> tuple[FloatArray, FloatArray]:
        """TTFT and TPOT by the formulas, as far off as runs found them; what sources add is added as it is [s]."""
        ttft, tpot = self.loads.latencies(self._without_host(factors))
        added_s = factors.source_overhead_s
        return np.asarray((ttft - added_s) * self.ttft_ratio + added_s), np.asarray(tpot * self.tpot_ratio)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Model of each point."""
        return tuple(case.model.name for case in self.loads.cases)

    @cached_property
    def host_factors(self) -> Factors:
        """Factors of `host` for every point."""
        return self.factors(self.host or expected())

    def factors(self, fit: Fit) -> Factors:
        """Factors of a fit for every point, as its source measures it."""
        return fit.of(self.versions, self.sources, self.models)

    def _without_host(self, factors: Factors) -> Factors:
        """Factors that a fit may move, per point."""
        if self.host is None:
            return factors
        alone, host = np.isnan(self.tpot_s), self.host_factors
        kept = {name: np.where(alone, getattr(host, name), getattr(factors, name)) for name in HOST}
        return replace(factors, **kept)


@dataclass(frozen=True)
class _Names:
    """What the values of a fit stand for, in their order."""

    factors: tuple[str, ...]
    versions: tuple[str, ...]
    sources: tuple[str, ...]
    only: Mapping[str, frozenset[str]]
    """Models of versions that one source or one model tells of."""

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values of factors, ratios of versions, shape (versions, ratios), and of sources."""
        n, end = len(self.factors), len(theta) - len(self.sources)
        return theta[:n], theta[n:end].reshape(-1, N_RATIOS), theta[end:]


def thinly_told(
    versions: Sequence[str], sources: Sequence[str | None], models: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Versions that fewer than two named sources or two models tell of, with those models.

    >>> thinly_told(["1", "1", "2", "2"], ["a", "b", "a", "b"], ["m", "n", "m", "m"])
    {'2': frozenset({'m'})}
    """
    found: dict[str, tuple[set[str], set[str]]] = {}
    for version, source, model in zip(versions, sources, models, strict=True):
        kinds = found.setdefault(version, (set(), set()))
        kinds[0].update([source] if source else ())
        kinds[1].add(model)
    thin = {name: kinds[1] for name, kinds in found.items() if name and min(map(len, kinds)) < FEWEST_KINDS}
    return {name: frozenset(seen) for name, seen in sorted(thin.items())}


def inseparable(versions: Sequence[str], sources: Sequence[str | None]) -> frozenset[str]:
    """Versions of a single named source that measured no other: what their requests cost is the source's.

    >>> sorted(inseparable(["1", "2", "3", "4", "4"], ["a", "b", "b", "c", None]))
    ['1']
    """
    by_version: dict[str, set[str | None]] = {}
    by_source: dict[str | None, set[str]] = {}
    for version, source in zip(versions, sources, strict=True):
        by_version.setdefault(version, set()).add(source)
        by_source.setdefault(source, set()).add(version)
    lone = {version: only for version, (only, *others) in by_version.items() if version and not others}
    return frozenset(version for version, source in lone.items() if source and len(by_source[source]) == 1)


def sources_apart(sources: Sequence[str | None]) -> tuple[str, ...]:
    """Named sources, where there are others beside: of a single one nothing tells what it adds.

    >>> sources_apart(["a", "b", "a"]), sources_apart(["a", None]), sources_apart(["a", "a"])
    (('a', 'b'), ('a',), ())
    """
    return tuple(sorted({source for source in sources if source})) if len({*sources}) > 1 else ()


def fit_factors(measured: Measured, used: NDArray[np.bool_], start: Factors | None = None) -> Fit:
    """Factors that minimise robust residuals of log TTFT and log TPOT, with priors.

    Equation:
        min over theta of sum w rho((log T(theta) - log T) / s) + sum max(1, n / n0) ((theta - prior) / spread)^2, n the
        votes w of points that tell of a value: all, or those of a version or of a source;
        rho(z) = log(1 + z^2) (Cauchy), so that contradictory points lose their say; from where
        rho(z) = 2 (sqrt(1 + z^2) - 1), which has one minimum where this one may have several, has settled

    Args:
        measured: points.
        used: which of them to fit to; the others have no influence.
        start: factors that are expected before any point speaks; None: the priors.

    Returns:
        The fit; a version that no used point has keeps ratios of 1 and is left out.

    Source:
        Huber and Ronchetti 2009, Robust Statistics, chapter 7; scipy.optimize.least_squares.
    """
    from scipy.optimize import least_squares

    seen = [k for k, use in enumerate(used.tolist()) if use]
    sources = [measured.sources[k] for k in seen]
    ran = [measured.versions[k] for k in seen]
    only = thinly_told(ran, sources, [measured.models[k] for k in seen])
    names = _Names(tuple(PRIORS), tuple(sorted({*ran} - {""})), sources_apart(sources), only)
    prior, spread = _priors(names, inseparable(ran, sources) if names.sources else frozenset(), start)
    residuals = _Residuals(measured, used, names, prior, spread)
    found = prior
    for robust in (_soft_l1, _cauchy):
        residuals.robust = robust
        settled = least_squares(residuals, found, residuals.jacobian, x_scale=spread, max_nfev=MOST_STEPS)
        found = settled.x
    return replace(_fit(settled.x, np.asarray(settled.jac), names), prior_weight=residuals.prior_weight)


def _priors(names: _Names, inseparable: Collection[str], start: Factors | None = None) -> tuple[FloatArray, FloatArray]:
    """Where logarithms are expected, and how far they may well be from there."""
    priors = [*(PRIORS[name] for name in names.factors), *[SOURCE_PRIOR] * len(names.sources)]
    values, spreads = np.log([prior.value for prior in priors]), np.array([prior.spread for prior in priors])
    ratios = np.tile(VERSION_SPREAD, (len(names.versions), 1))
    ratios[[version in inseparable for version in names.versions], -1] = LONE_SPREAD
    n = len(names.factors)
    if start is not None:
        values[:n] = np.log([max(float(np.asarray(getattr(start, name))), LEAST) for name in names.factors])
    value = np.concatenate([values[:n], np.zeros(ratios.size), values[n:]])
    return value, np.concatenate([spreads[:n], ratios.ravel(), spreads[n:]])


def expected(names: Sequence[str] = tuple(PRIORS), start: Factors | None = None) -> Fit:
    """Where factors are before any point speaks.

    >>> expected().factors.tile_rows
    64.0
    """
    factors = start or replace(Factors(), **{name: PRIORS[name].value for name in names})
    return Fit(tuple(names), factors, {name: PRIORS[name].spread for name in names}, {}, {})


class _Residuals:
    """The objective; robust weights are applied here, since priors are not to be made robust."""

    def __init__(
        self,
        measured: Measured,
        used: NDArray[np.bool_],
        names: _Names,
        prior: FloatArray,
        spread: FloatArray,
    ) -> None:
        self.measured, self.names, self.prior, self.spread = measured, names, prior, spread
        self.weight = np.sqrt(measured.weight) * used
        self.has_ttft, self.has_tpot = ~np.isnan(measured.ttft_s), ~np.isnan(measured.tpot_s)
        self.prior_weight = _prior_weight(measured.weight * used)
        self.prior_weights = self._prior_weights(used)
        self.ttft_scale = np.where(self.has_tpot, TTFT_SCALE, PREFILL_SCALE)
        self.robust: Callable[[FloatArray], FloatArray] = _soft_l1

    def __call__(self, theta: FloatArray) -> FloatArray:
        measured = self.measured
        ttft, tpot = measured.latencies(measured.factors(_fit(theta, None, self.names)))
        first = np.log(ttft / np.where(self.has_ttft, measured.ttft_s, ttft)) / self.ttft_scale
        later = np.log(tpot / np.where(self.has_tpot, measured.tpot_s, tpot)) / TPOT_SCALE
        drawn = self.prior_weights * (theta - self.prior) / self.spread
        return np.concatenate([self.weight * self.robust(first), self.weight * self.robust(later), drawn])

    def _prior_weights(self, used: NDArray[np.bool_]) -> FloatArray:
        """What the prior of each value weighs against the points that tell of it."""
        found = np.full(len(self.prior), self.prior_weight)
        for together in self._columns():
            for column, points in together:
                found[column] = _prior_weight(self.measured.weight * (used & points))
        return found

    def jacobian(self, theta: FloatArray) -> FloatArray:
        """Derivatives by finite differences; what no point shares, such as two versions' ratios, moves at once."""
        here, found = self(theta), np.zeros((2 * len(self.weight) + len(theta), len(theta)))
        for together in filter(None, self._columns()):
            moved = theta.copy()
            moved[[column for column, _ in together]] += STEP
            change = (self(moved) - here) / STEP
            for column, points in together:
                rows = np.concatenate([points, points, np.arange(len(theta)) == column])
                found[rows, column] = change[rows]
        return found

    def _columns(self) -> Iterator[list[tuple[int, NDArray[np.bool_]]]]:
        """Values that no two points share, with the points that each moves."""
        names, measured = self.names, self.measured
        n, everything = len(names.factors), np.ones(len(measured.versions), bool)
        yield from ([(column, everything)] for column in range(n))
        of_version = [np.array([own == version for own in measured.versions]) for version in names.versions]
        for ratio in range(N_RATIOS):
            yield [(n + N_RATIOS * index + ratio, own) for index, own in enumerate(of_version)]
        first = n + N_RATIOS * len(names.versions)
        yield [
            (first + index, np.array([own == source for own in measured.sources]))
            for index, source in enumerate(names.sources)
        ]


def _prior_weight(votes: FloatArray) -> float:
    return sqrt(max(1.0, float(votes.sum()) / DISTINCT_POINTS))


def _soft_l1(z: FloatArray) -> FloatArray:
    """Residual whose square is 2 (sqrt(1 + z^2) - 1), with the sign of z."""
    return np.asarray(np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z * z) - 1)))


def _cauchy(z: FloatArray) -> FloatArray:
    """Residual whose square is log(1 + z^2), with the sign of z."""
    return np.asarray(np.sign(z) * np.sqrt(np.log1p(z * z)))


def _fit(theta: FloatArray, jacobian: FloatArray | None, names: _Names) -> Fit:
    factors, ratios, sources = names.split(np.exp(theta))
    values = dict(zip(names.factors, factors.tolist(), strict=True))
    table = {version: tuple(row.tolist()) for version, row in zip(names.versions, ratios, strict=True)}
    added_s = dict(zip(names.sources, sources.tolist(), strict=True))
    spreads: dict[str, float] = {}
    if jacobian is not None:
        covariance = np.linalg.pinv(jacobian.T @ jacobian)
        deviations = np.sqrt(np.diag(covariance))[: len(names.factors)]
        spreads = dict(zip(names.factors, deviations.tolist(), strict=True))
    return Fit(names.factors, replace(Factors(), **values), spreads, table, added_s, only=names.only)
