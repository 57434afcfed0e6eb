"""Curves over a token count: prefill seconds and KV bytes as piecewise polynomials that can be integrated exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Piece(NamedTuple):
    """One polynomial, valid for low_tokens < tokens <= high_tokens; coefficients of ascending powers of tokens."""

    low_tokens: float
    high_tokens: float
    coefficients: FloatArray


@dataclass(frozen=True, eq=False)
class Curve:
    """A non-negative piecewise polynomial of a token count, of degree 3 at most.

    Between the first and the last knot it interpolates; outside it goes on straight with its end slope.
    Row 0 of `coefficients` is the straight part below knots[0] and the last row that above knots[-1]; row i is the
    polynomial on (knots[i-1], knots[i]]. Each row holds ascending powers of (tokens - left knot), row 0 of
    (tokens - knots[0]), so that evaluation keeps full precision far from zero.

    Raises:
        ValueError: when the knots do not ascend, a number is not finite, or the curve is negative at 0 tokens, at a
            knot or for ever longer prompts. A negative value at 0 means that the first two points are too far
            apart to say what a short prompt costs: add a shorter one.
    """

    knots: FloatArray
    """Ascending token counts, shape (n,), n >= 1 [tokens]."""

    coefficients: FloatArray
    """Shape (n + 1, 4) [value / tokens^power]."""

    measured_tokens: tuple[float, float]
    """Where the curve is known rather than extrapolated [tokens]."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.knots).all() and np.isfinite(self.coefficients).all()):
            raise ValueError("a curve's tokens and values must be finite")
        if (np.diff(self.knots) <= 0).any() or self.knots[0] < 0:
            raise ValueError("a curve's tokens must ascend, each once, from 0 or more")
        if (at_zero := float(self(0.0))) < 0:
            raise ValueError(f"the curve extrapolates to {at_zero:.6g} at 0 tokens: add a point at a shorter length")
        if (self.coefficients[1:, 0] < 0).any() or self.coefficients[-1, 1] < 0:
            raise ValueError("a curve must not be negative, nor fall beyond its last point")
        self.knots.setflags(write=False)
        self.coefficients.setflags(write=False)

    @classmethod
    def affine(cls, intercept: float, slope: float) -> Self:
        """intercept + slope * tokens, known everywhere.

        >>> float(Curve.affine(182_353_920.0, 17_280.0)(1024)) / 2**20
        190.78125
        """
        row = [intercept, slope, 0.0, 0.0]
        return cls(np.zeros(1), np.array([row, row]), (0.0, np.inf))

    @classmethod
    def linear(cls, tokens: Sequence[float], values: Sequence[float]) -> Self:
        """Straight lines through the points (at least two), extended by the first and the last line.

        >>> Curve.linear([1024, 8192], [0.44, 0.72])([0, 4608, 15360]).round(6).tolist()
        [0.4, 0.58, 1.0]
        """
        x, y = _points(tokens, values)
        slopes = np.diff(y) / np.diff(x)
        zeros = np.zeros_like(slopes)
        return cls._through(x, y, np.column_stack([y[:-1], slopes, zeros, zeros]))

    @classmethod
    def monotone_cubic(cls, tokens: Sequence[float], values: Sequence[float]) -> Self:
        """Shape-preserving cubics (PCHIP) through the points (at least two), extended by their end slopes.

        No overshoot: where the points ascend, so does the curve.

        Source: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5 (1984) 300, as in scipy's PchipInterpolator.

        >>> curve = Curve.monotone_cubic([1024, 8192, 32000, 130000], [0.44, 0.72, 1.84, 7.40])
        >>> round(float(curve(62_410)), 4)
        3.4241
        """
        x, y = _points(tokens, values)
        return cls._through(x, y, _hermite(x, y, _pchip_slopes(x, y)))

    @classmethod
    def _through(cls, x: FloatArray, y: FloatArray, inner: FloatArray) -> Self:
        """A curve of inner pieces (rows of ascending powers) with a straight tail on either side."""
        step = x[-1] - x[-2]
        end_slope = inner[-1, 1] + step * (2 * inner[-1, 2] + step * 3 * inner[-1, 3])
        if abs(end_slope) * step < 1e-14 * y.max():  # flat but for rounding
            end_slope = 0.0
        first, last = [y[0], inner[0, 1], 0.0, 0.0], [y[-1], end_slope, 0.0, 0.0]
        return cls(x, np.vstack([first, inner, last]), (float(x[0]), float(x[-1])))

    def __call__(self, tokens: ArrayLike) -> FloatArray:
        """Value at each token count; same shape as `tokens`."""
        at = np.asarray(tokens, dtype=np.float64)
        row = np.searchsorted(self.knots, at, side="left")
        offset = at - self._centres[row]
        c = self.coefficients[row]
        return np.asarray(c[..., 0] + offset * (c[..., 1] + offset * (c[..., 2] + offset * c[..., 3])))

    def is_extrapolated(self, tokens: ArrayLike) -> BoolArray:
        """True where a token count lies outside the measured range; same shape as `tokens`."""
        at = np.asarray(tokens, dtype=np.float64)
        return np.asarray((at < self.measured_tokens[0]) | (at > self.measured_tokens[1]))

    def pieces(self) -> Iterator[Piece]:
        """The polynomials about 0, tails included, for exact integration against moments E[tokens^k]."""
        bounds = [-np.inf, *self.knots.tolist(), np.inf]
        for (low, high), centre, row in zip(pairwise(bounds), self._centres, self.coefficients, strict=True):
            yield Piece(low, high, _about_zero(row, centre))

    def scaled(self, factor: float) -> Self:
        """The curve with every value times a positive factor.

        >>> float(Curve.affine(1.0, 2.0).scaled(0.5)(10.0))
        10.5
        """
        return replace(self, coefficients=self.coefficients * factor)

    @property
    def _centres(self) -> FloatArray:
        return np.concatenate([self.knots[:1], self.knots])


@dataclass(frozen=True, eq=False)
class PrefillService:
    """Seconds one prefill instance is busy with a prompt of which a prefix may be cached.

    T(total, 0) = curve(total); T(total, cached) = max(curve(total) - curve(cached), overhead): the cached part's
    seconds are saved, the stack's constant overhead is not. Of an instance with several places, each prompt takes one
    of them for so long.
    """

    curve: Curve
    """Prefill seconds of a prompt without cached tokens."""

    overhead_s: float | None = None
    """Least seconds of a prefill with a cached prefix; None: the curve's value at 0 tokens."""

    places: int = 1
    """Prompts that an instance prefills at once, one on each of its attention replicas."""

    @cached_property
    def occupancy(self) -> Self:
        """Instance-seconds of a prompt: the same for one place, whose prompts take their share of the instance each.

        >>> service = PrefillService(Curve.affine(0.4, 1e-4), places=8)
        >>> float(service.seconds(4000, 0)), float(service.occupancy.seconds(4000, 0))
        (0.8, 0.1)
        """
        return self if self.places == 1 else replace(self.scaled(1 / self.places), places=1)

    @property
    def floor_s(self) -> float:
        """The overhead in force [s]."""
        return float(self.curve(0.0)) if self.overhead_s is None else self.overhead_s

    def scaled(self, factor: float) -> Self:
        """The same with every prefill, the overhead included, `factor` times as long."""
        overhead_s = None if self.overhead_s is None else self.overhead_s * factor
        return replace(self, curve=self.curve.scaled(factor), overhead_s=overhead_s)

    def seconds(self, total_tokens: ArrayLike, cached_tokens: ArrayLike) -> FloatArray:
        """T(total, cached) [s]; the arguments' broadcast shape.

        >>> service = PrefillService(Curve.affine(0.4, 1e-4))
        >>> service.seconds([1000, 1000, 9000], [0, 999, 1000]).round(6).tolist()
        [0.5, 0.4, 0.8]
        """
        cached = np.asarray(cached_tokens, dtype=np.float64)
        full = self.curve(total_tokens)
        return np.where(cached == 0, full, np.maximum(full - self.curve(cached), self.floor_s))


def _points(tokens: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    x, y = np.array(tokens, dtype=np.float64), np.array(values, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or x.size < 2:
        raise ValueError("a curve needs at least two points, one value per token count")
    if not (np.diff(x) > 0).all():
        raise ValueError("a curve's tokens must ascend, each once, from 0 or more")
    return x, y


def _hermite(x: FloatArray, y: FloatArray, slopes: FloatArray) -> FloatArray:
    """Cubics between the points that have these slopes there, as rows of ascending powers of (x - left point)."""
    widths = np.diff(x)
    chords = np.diff(y) / widths
    bend = (slopes[:-1] + slopes[1:] - 2 * chords) / widths
    return np.column_stack([y[:-1], slopes[:-1], (chords - slopes[:-1]) / widths - bend, bend / widths])


def _pchip_slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Slopes at the points: weighted harmonic means of the chords beside them, 0 where these turn.

    As scipy's PchipInterpolator to the last bit, without loading scipy.interpolate, which takes as long as a plan.
    """
    widths = np.diff(x)
    chords = np.diff(y) / widths
    if chords.size == 1:
        return np.repeat(chords, 2)
    before, after = chords[:-1], chords[1:]
    weights = 2 * widths[1:] + widths[:-1], widths[1:] + 2 * widths[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (weights[0] / before + weights[1] / after) / (weights[0] + weights[1])
        inner = np.where(before * after > 0, 1.0 / means, 0.0)
    first, last = _pchip_end(widths[:2], chords[:2]), _pchip_end(widths[:-3:-1], chords[:-3:-1])
    return np.concatenate([[first], inner, [last]])


def _pchip_end(widths: FloatArray, chords: FloatArray) -> float:
    """Slope at an end from the two chords nearest to it: of the parabola, unless that would overshoot."""
    (near, next_), (chord, next_chord) = widths.tolist(), chords.tolist()
    slope: float = ((2 * near + next_) * chord - near * next_chord) / (near + next_)
    if slope * chord <= 0:
        return 0.0
    if chord * next_chord < 0 and abs(slope) > 3 * abs(chord):
        return float(3 * chord)
    return slope


def _about_zero(coefficients: FloatArray, centre: float) -> FloatArray:
    """Ascending coefficients of x from those of (x - centre), by Horner's rule on polynomials."""
    times = np.array([-centre, 1.0])
    return reduce(lambda acc, c: _plus(np.convolve(acc, times), c), coefficients[-2::-1], coefficients[-1:])


def _plus(coefficients: FloatArray, constant: float) -> FloatArray:
    return np.concatenate([coefficients[:1] + constant, coefficients[1:]])
