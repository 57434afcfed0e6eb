"""A service time that takes finitely many values, and what a queue needs to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.erlang import Floats

MAX_CONDENSED = 256
"""Kinds of service that its transforms distinguish."""


def checked_weights(seconds: Floats, weights: Floats) -> Floats:
    """Weights scaled to sum to one, once both arrays make a distribution on [0, inf)."""
    if seconds.ndim != 1 or seconds.shape != weights.shape or seconds.size == 0:
        raise ValueError(f"seconds and weights need one equal length, got shapes {seconds.shape}, {weights.shape}")
    if not (np.isfinite(seconds).all() and np.isfinite(weights).all() and seconds.min() >= 0 and weights.min() >= 0):
        raise ValueError("seconds and weights must be finite and not negative")
    if weights.sum() <= 0:
        raise ValueError("weights must have a positive sum")
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Service:
    """Service times with probabilities; made by `Service.of`, which sorts, merges and checks them."""

    seconds: Floats
    """Distinct values [s], increasing, shape (n,)."""
    weights: Floats
    """Probability of each [fraction], shape (n,), sum 1."""

    @classmethod
    def of(cls, seconds: Floats | Sequence[float], weights: Floats | Sequence[float] | None = None) -> "Service":
        """A service time from its values and weights (equal ones when left out).

        Args:
            seconds: values [s], shape (n,), any order, repeats allowed.
            weights: relative frequency of each, shape (n,), any positive sum.

        Raises:
            ValueError: shapes differ, a number is negative or not finite, or the mean is 0.

        >>> service = Service.of([2.0, 1.0, 2.0])
        >>> service.seconds.tolist(), round(service.mean_s, 4), round(service.scv, 4)
        ([1.0, 2.0], 1.6667, 0.08)
        """
        values = np.asarray(seconds, dtype=np.float64)
        given = np.ones_like(values) if weights is None else np.asarray(weights, dtype=np.float64)
        share = checked_weights(values, given)
        if not (values * share).sum() > 0:
            raise ValueError("a service time needs a mean above 0")
        distinct, index = np.unique(values[share > 0], return_inverse=True)
        return cls(distinct, np.bincount(index, share[share > 0]).astype(np.float64))

    @cached_property
    def mean_s(self) -> float:
        """Mean E[S] [s]."""
        return float(self.seconds @ self.weights)

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation Var[S] / E[S]^2 [fraction]: 0 deterministic, 1 exponential."""
        return float((self.seconds - self.mean_s) ** 2 @ self.weights) / self.mean_s**2

    @cached_property
    def third_s3(self) -> float:
        """Third moment E[S^3] [s^3]."""
        return float(self.seconds**3 @ self.weights)

    @cached_property
    def condensed(self) -> tuple[Floats, Floats]:
        """Values [s] and weights of at most MAX_CONDENSED kinds: neighbours merged at their mean, the ends kept."""
        if len(self.seconds) <= MAX_CONDENSED:
            return self.seconds, self.weights
        by_weight = np.cumsum(self.weights) - self.weights / 2
        by_value = (self.seconds - self.seconds[0]) / (self.seconds[-1] - self.seconds[0])
        group = ((by_weight + by_value) / 2 * (MAX_CONDENSED - 1)).astype(np.intp)
        group[-1] = MAX_CONDENSED - 1
        mass: Floats = np.bincount(group, self.weights).astype(np.float64)
        used = mass > 0
        return np.bincount(group, self.weights * self.seconds)[used] / mass[used], mass[used]

    @cached_property
    def lesser_fraction(self) -> float:
        """Mean of the lesser of two services over the mean of one [fraction]: 1 deterministic, 1/2 exponential.

        Equation: integral of P(S > x)^2 dx / E[S]. With it, many servers that never queue hold a number whose variance
            over mean is z = 1 + (a - 1) E[min(S, S')] / E[S], a that of the arrivals.

        Source: Whitt (1984), AT&T Bell Lab. Tech. J. 63, 689-708, heavy-traffic peakedness.
        """
        above = np.cumsum(self.weights[::-1])[::-1]
        return float(np.diff(self.seconds, prepend=0.0) @ above**2) / self.mean_s

    def mean_excess_s(self, x_s: Floats) -> Floats:
        """E[(S - x)+] [s] at each threshold x [s].

        >>> Service.of([1.0, 3.0]).mean_excess_s(np.array([0.0, 2.0, 4.0])).tolist()
        [2.0, 0.5, 0.0]
        """
        at = np.searchsorted(self.seconds, x_s, side="right")
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        seconds_above = np.append(np.cumsum((self.weights * self.seconds)[::-1])[::-1], 0.0)
        return np.asarray(np.maximum(seconds_above[at] - x_s * above[at], 0.0))

    def excess_renewals(self, per_service: float | Floats) -> Floats:
        """Renewals beyond t / E[S] of a server that starts afresh, seen over an exponential time.

        Equation: D(q) = f / (1 - f) - 1 / q, f = E[exp(-q S / E[S])]: the mean of M(t) - t / E[S] at an exponential
            time t of rate q / E[S], M the renewal function. From (v - 1) / 2 at q = 0 to 0 for q large; 0 for
            exponential service. It says how variable a server looks over that time.

        Args:
            per_service: q, services per mean time looked at [1 / service], at least 0, a number or shape (n,).

        Returns:
            D(q) [renewals], shape of `per_service`.

        Valid: any service; below q = 1e-4 the limit at 0 is returned, off by less than 1e-4 of its third moment.
            Services of more than MAX_CONDENSED kinds are condensed, which moves D(q) by about 1e-5.

        Source: Cox, Renewal Theory (1962), section 4.1, Laplace transform of the renewal function.

        >>> Service.of([2.0]).excess_renewals(np.array([0.0, 3.0])).round(6).tolist()
        [-0.5, -0.280938]
        """
        q = np.asarray(per_service, dtype=np.float64)
        seconds, weights = self.condensed
        exponent = -np.maximum(q, 1e-4)[..., None] / self.mean_s * seconds
        found = (np.exp(exponent) @ weights) / (-np.expm1(exponent) @ weights) - 1 / np.maximum(q, 1e-4)
        return np.asarray(np.where(q < 1e-4, (self.scv - 1) / 2, found))

    def min_residual_excess_s(self, x_s: float | Floats, n_servers: int) -> Floats:
        """Mean excess over `x_s` of the least of `n_servers` independent residual services.

        Equation: J(x) = integral from x to infinity of (E[(S - t)+] / E[S])^c dt, the integrand being the survival
            function of the least residual. Exact: it is a power of a straight line between two service values.

        Args:
            x_s: thresholds [s], a number or any shape.
            n_servers: busy servers c [count].

        Returns:
            J(x) [s], shape of `x_s`; at 0 the mean of the least residual (for c = 1, E[S^2] / 2 E[S]).

        Valid: every c >= 1. The least residual is the wait of a request that finds c busy servers in light traffic.

        Source: Burman and Smith (1983), A light-traffic theorem for multi-server queues, Math. Oper. Res. 8(1).

        >>> float(Service.of([6.0]).min_residual_excess_s(0.0, 2))
        2.0
        """
        knots_s, slope_per_s, survival = self._residual
        x = np.maximum(np.asarray(x_s, dtype=np.float64), 0.0)
        piece = np.minimum(np.searchsorted(knots_s, x, side="right") - 1, len(slope_per_s) - 1)
        gap_s = np.maximum(knots_s[piece + 1] - x, 0.0)
        power = n_servers + 1
        pieces_s = (survival[:-1] ** power - survival[1:] ** power) / (power * slope_per_s)
        beyond_s = np.append(np.cumsum(pieces_s[::-1])[::-1], 0.0)[piece + 1]
        at_x, at_knot = survival[piece + 1] + slope_per_s[piece] * gap_s, survival[piece + 1]
        return np.asarray(beyond_s + (at_x**power - at_knot**power) / (power * slope_per_s[piece]))

    @cached_property
    def _residual(self) -> tuple[Floats, Floats, Floats]:
        """Knots [s], steepness between them [1/s] and values at them of a residual service's survival function."""
        knots_s = np.concatenate([[0.0], self.seconds]) if self.seconds[0] > 0 else self.seconds
        above = np.cumsum(self.weights[::-1])[::-1][-(len(knots_s) - 1) :]
        slope_per_s = above / self.mean_s
        drops = slope_per_s * np.diff(knots_s)
        return knots_s, slope_per_s, np.append(np.cumsum(drops[::-1])[::-1], 0.0)
