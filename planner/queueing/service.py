"""A service time that takes finitely many values, and what a queue needs to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.queueing.erlang import Floats


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

    def excess_renewals(self, per_service: float) -> float:
        """Renewals beyond t / E[S] of a server that starts afresh, seen over an exponential time.

        Equation: D(q) = f / (1 - f) - 1 / q, f = E[exp(-q S / E[S])]: the mean of M(t) - t / E[S] at an exponential
            time t of rate q / E[S], M the renewal function. From (v - 1) / 2 at q = 0 to 0 for q large; 0 for
            exponential service. It says how variable a server looks over that time.

        Args:
            per_service: q, services per mean time looked at [1 / service], at least 0.

        Returns:
            D(q) [renewals].

        Valid: any service; below q = 1e-4 the limit at 0 is returned, off by less than 1e-4 of its third moment.

        Source: Cox, Renewal Theory (1962), section 4.1, Laplace transform of the renewal function.

        >>> round(Service.of([2.0]).excess_renewals(0.0), 6), round(Service.of([2.0]).excess_renewals(3.0), 6)
        (-0.5, -0.280938)
        """
        if per_service < 1e-4:
            return (self.scv - 1) / 2
        exponent = -per_service / self.mean_s * self.seconds
        return float(np.exp(exponent) @ self.weights / (-np.expm1(exponent) @ self.weights)) - 1 / per_service

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
