"""Time to first token: wait, service and transfer, over the pools that requests are split between."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.queueing.erlang import Floats
from planner.queueing.service import checked_weights
from planner.queueing.wait import NO_WAIT, Wait, smallest_below_s, sum_of_waits


@dataclass(frozen=True, eq=False)
class Path:
    """Path of the requests of one pool: their waits and the seconds after; made by `Path.of`, which checks it."""

    share_fraction: float
    """Share of all requests that take this path [fraction]."""
    unloaded_s: Floats
    """Seconds after the wait, service and extra together, one per kind of request [s], shape (n,)."""
    weights: Floats
    """Probability of each kind within the path [fraction], shape (n,), sum 1."""
    wait: Wait
    """Waits before prefill and decode together, independent of the request's own service (first come, first served)."""

    @classmethod
    def of(
        cls,
        share_fraction: float,
        service_s: Floats | Sequence[float],
        weights: Floats | Sequence[float],
        wait: Wait,
        extra_s: Floats | Sequence[float] | float = 0.0,
        admission: Wait = NO_WAIT,
    ) -> "Path":
        """A path from its kinds of request.

        Args:
            share_fraction: share of all requests [fraction], 0 to 1.
            service_s: service of each kind of request [s], shape (n,).
            weights: relative frequency of each kind, shape (n,).
            wait: the pool's wait: `mgc_wait(...)`, or `NO_WAIT` for an unloaded pool.
            extra_s: fixed seconds of each kind after service, such as a transfer's tail [s], shape (n,) or a number.
            admission: a second, independent wait after service, such as for a place in a decode batch.

        Raises:
            ValueError: shapes differ, or a number is negative, not finite or (the share) above 1.

        >>> from planner.queueing.wait import NO_WAIT
        >>> Path.of(1.0, [1.0, 2.0], [3.0, 1.0], NO_WAIT, extra_s=0.5).unloaded_s.tolist()
        [1.5, 2.5]
        """
        if not 0 <= share_fraction <= 1:
            raise ValueError(f"a share must be between 0 and 1, got {share_fraction}")
        service = np.asarray(service_s, dtype=np.float64)
        extra = np.broadcast_to(np.asarray(extra_s, dtype=np.float64), service.shape)
        share = checked_weights(service, np.asarray(weights, dtype=np.float64))
        checked_weights(extra, share)
        return cls(share_fraction, service + extra, share, sum_of_waits(wait, admission))

    def then_waiting(self, admission: Wait) -> "Path":
        """The same path with one more wait, independent of the others."""
        return replace(self, wait=sum_of_waits(self.wait, admission))


@dataclass(frozen=True, eq=False)
class Ttft:
    """Distribution of the time to first token over several paths; made by `Ttft.of`, which checks the shares.

    Equation: P(TTFT > x) = sum over paths i and their kinds j of share_i w_ij P(W_i > x - service_ij - extra_ij).

    Valid: as the waits are. A pool at utilisation 1 or more has no wait to give: `mgc_wait` raises, and the caller
        states its TTFT as unknown (None). A path of share 0 counts for nothing, whatever its wait.

    Source: total probability; the wait is independent of the request's own service under first come, first served.

    >>> from planner.queueing.waits import mgc_wait
    >>> from planner.queueing.service import Service
    >>> near = Path.of(0.6, [0.5, 1.0], [0.5, 0.5], mgc_wait(2, 1.8, Service.of([0.5, 1.0])))
    >>> far = Path.of(0.4, [3.0], [1.0], mgc_wait(4, 1.0, Service.of([3.0])), extra_s=0.2)
    >>> ttft = Ttft.of([near, far])
    >>> round(ttft.mean_s, 4), round(ttft.quantile_s(0.5), 4), round(ttft.quantile_s(0.9), 4)
    (2.2656, 1.5878, 4.4661)
    """

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> "Ttft":
        """The mixture of `paths`.

        Args:
            paths: at least one, their shares summing to 1.

        Raises:
            ValueError: the shares do not sum to 1 within 1e-9.

        >>> Ttft.of([])
        Traceback (most recent call last):
        ValueError: the shares of the paths must sum to 1, got 0
        """
        total = sum(path.share_fraction for path in paths)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the shares of the paths must sum to 1, got {total:.12g}")
        return cls(tuple(path for path in paths if path.share_fraction > 0))

    @cached_property
    def mean_s(self) -> float:
        """Mean time to first token [s]: mean wait plus mean of what follows, weighted by share."""
        return sum(p.share_fraction * (p.wait.mean_s + float(p.unloaded_s @ p.weights)) for p in self.paths)

    def survival(self, x_s: float | Floats) -> Floats:
        """Fraction of requests whose first token takes longer than `x_s`.

        Equation: as at the class.

        Args:
            x_s: thresholds [s], a number or any shape; memory grows with its size times the kinds of request.

        Returns:
            Survival probability [fraction], shape of `x_s`.

        Valid: as at the class.

        Source: total probability.

        >>> from planner.queueing.wait import NO_WAIT
        >>> Ttft.of([Path.of(1.0, [1.0, 2.0], [3.0, 1.0], NO_WAIT)]).survival(np.array([0.5, 1.0, 2.0])).tolist()
        [1.0, 0.25, 0.0]
        """
        x = np.asarray(x_s, dtype=np.float64)[..., np.newaxis]
        total = np.zeros(x.shape[:-1])
        for path in self.paths:
            total = total + path.share_fraction * (path.wait.survival(x - path.unloaded_s) @ path.weights)
        return np.asarray(total)

    def quantile_s(self, q: float) -> float:
        """Time to first token that a fraction `q` of requests does not exceed.

        Equation: inf {x >= 0: P(TTFT > x) <= 1 - q}, by bisection, since the survival function has jumps.

        Args:
            q: probability [fraction], 0 <= q < 1.

        Returns:
            Quantile [s].

        Raises:
            ValueError: q is outside [0, 1).

        Valid: as at the class.

        Source: definition.

        >>> from planner.queueing.wait import NO_WAIT
        >>> round(Ttft.of([Path.of(1.0, [1.0, 2.0], [3.0, 1.0], NO_WAIT)]).quantile_s(0.9), 9)
        2.0
        """
        return smallest_below_s(self.survival, q, self.mean_s)
