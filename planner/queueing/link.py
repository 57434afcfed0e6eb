"""Transfers that share a link: what is left of them when the computation that feeds them ends."""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.decode import birth_death_fractions
from planner.queueing.erlang import Floats


@dataclass(frozen=True)
class SharedLink:
    """A link that its transfers share evenly, each up to a limit of its own; made by `SharedLink.of`."""

    bytes_per_s: float
    """Capacity [B/s]."""
    transfer_bytes_per_s: float
    """What one transfer can use at most: its connections together, or what it is fed with [B/s]."""
    load_bytes_per_s: float
    """Mean bytes offered per second [B/s]."""

    @classmethod
    def of(cls, bytes_per_s: float, load_bytes_per_s: float, transfer_bytes_per_s: float = inf) -> "SharedLink":
        """A link from its capacity, its load and the limit of one transfer.

        Args:
            bytes_per_s: capacity [B/s], above 0.
            load_bytes_per_s: mean offered traffic [B/s], at least 0, below the capacity.
            transfer_bytes_per_s: limit of one transfer [B/s]; the capacity where left out or larger.

        Raises:
            ValueError: a number is out of range, or the load has no steady state.

        >>> SharedLink.of(10.0, 5.0, 4.0).n_full_speed
        2.5
        """
        if not 0 < bytes_per_s < inf or not load_bytes_per_s >= 0 or not transfer_bytes_per_s > 0:
            raise ValueError(
                "a link needs bytes_per_s > 0, load_bytes_per_s >= 0 and transfer_bytes_per_s > 0, "
                f"got {bytes_per_s}, {load_bytes_per_s}, {transfer_bytes_per_s}"
            )
        if load_bytes_per_s >= bytes_per_s:
            raise ValueError(f"the link has no steady state at {load_bytes_per_s:.6g} of {bytes_per_s:.6g} B/s")
        return cls(bytes_per_s, min(transfer_bytes_per_s, bytes_per_s), load_bytes_per_s)

    @property
    def n_full_speed(self) -> float:
        """Transfers that fit at full speed, R = B / b [count], not rounded."""
        return self.bytes_per_s / self.transfer_bytes_per_s

    @property
    def utilization(self) -> float:
        """Load over capacity [fraction]."""
        return self.load_bytes_per_s / self.bytes_per_s

    @property
    def mean_slowdown(self) -> float:
        """Mean time of a transfer over its time alone.

        Equation: f = E[n] / (R u), n the transfers present: births R u, deaths min(n, R), R = B / b. For whole R
            f = 1 + C(R, R u) / (R (1 - u)), C Erlang's waiting probability.

        Valid: M/G/R processor sharing, Poisson starts, any sizes: exact, and E[T | size] is f times the time alone for
            every size (insensitive). A few busy prefill instances start transfers more regularly than Poisson; f is
            then an upper estimate.

        Source: Cohen (1979), Acta Informatica 12, 245-284; Lindberger (1999), Balancing quality of service, pricing and
            utilisation in multiservice networks with stream and elastic traffic, ITC 16.

        >>> round(SharedLink.of(10.0, 8.0).mean_slowdown, 9), round(SharedLink.of(10.0, 8.0, 5.0).mean_slowdown, 6)
        (5.0, 2.777778)
        """
        if self.utilization == 0:
            return 1.0
        n = np.arange(ceil(self.n_full_speed) + 1.0)
        births = np.full(len(n) - 1, self.n_full_speed * self.utilization)
        share = birth_death_fractions(births, np.minimum(n[1:], self.n_full_speed))
        beyond = self.utilization / (1 - self.utilization)
        total = 1 + share[-1] * beyond
        present = n @ share + share[-1] * beyond * (n[-1] + 1 / (1 - self.utilization))
        return float(present / total / (self.n_full_speed * self.utilization))

    def slowdown_atoms(self, tail: float = 1e-6) -> tuple[Floats, Floats]:
        """Slowdown that a transfer meets when it starts, with probabilities.

        Equation: n others present have P(n) of a birth-death process with births R u and deaths min(n, R); slowdown
            max(1, (n + 1) / R).

        Args:
            tail: probability that may be left out [fraction].

        Returns:
            Slowdowns, increasing, and their probabilities [fraction], shapes (m,).

        Valid: for transfers short against the time in which the number present changes; longer ones average it, so
            its quantiles are upper estimates and its mean is that of very small transfers.

        Source: Cohen (1979), Acta Informatica 12, 245-284: the number present is insensitive to the sizes.

        >>> slowdown, weight = SharedLink.of(10.0, 5.0).slowdown_atoms()
        >>> slowdown[:3].tolist(), weight[:3].round(6).tolist()
        ([1.0, 2.0, 3.0], [0.5, 0.25, 0.125])
        """
        n_max = ceil(self.n_full_speed) + (ceil(np.log(tail) / np.log(self.utilization)) if self.utilization > 0 else 1)
        n = np.arange(1.0, n_max + 1)
        births = np.full_like(n, self.n_full_speed * self.utilization)
        weights = birth_death_fractions(births, np.minimum(n, self.n_full_speed))
        slowdown = np.maximum(1.0, np.arange(1.0, n_max + 2) / self.n_full_speed)
        distinct, index = np.unique(slowdown, return_inverse=True)
        return distinct, np.bincount(index, weights).astype(np.float64)


def exposed_seconds(
    produce_s: ArrayLike, send_s: ArrayLike, round_trip_s: float, n_layers: int | None, slowdown: float = 1.0
) -> Floats:
    """Time between the end of a computation and the arrival of its last byte, sent layer by layer.

    Equation: max(f s - p (n - 1) / n, f s / n) + RTT / 2: layer i travels while layer i + 1 is computed, so the last
        of n layers, or what the link could not keep up with, is left.

    Args:
        produce_s: computation p [s], any shape.
        send_s: time s to send everything at full speed [s], shape of `produce_s`.
        round_trip_s: round-trip time RTT [s]; the last byte needs half of it.
        n_layers: layers n [count]; None sends everything afterwards.
        slowdown: f, by which sharing stretches sending [fraction], at least 1.

    Returns:
        Exposed seconds [s], shape of the inputs.

    Raises:
        ValueError: slowdown is below 1, a time is negative, or n_layers is below 1.

    Valid: equal layers. With f = `mean_slowdown` it is a lower estimate of the mean, the maximum being convex; the mean
        over `slowdown_atoms` is an upper one.

    Source: layer-wise prefill pipelining: Prefill-as-a-Service (arXiv 2604.15039v2), section 3; Mooncake (2024).

    >>> exposed_seconds(1.0, 0.5, 0.01, 10).round(6).item(), exposed_seconds(1.0, 0.5, 0.01, 10, slowdown=3.0).item()
    (0.055, 0.605)
    """
    produce, send = np.asarray(produce_s, dtype=np.float64), np.asarray(send_s, dtype=np.float64)
    n = 1 if n_layers is None else n_layers
    if n < 1 or slowdown < 1 or round_trip_s < 0 or (produce < 0).any() or (send < 0).any():
        raise ValueError("a transfer needs n_layers >= 1, slowdown >= 1 and times of at least 0")
    return np.asarray(np.maximum(slowdown * send - produce * (n - 1) / n, slowdown * send / n) + round_trip_s / 2)


def connections_bytes_per_s(window_bytes: float, round_trip_s: float, n_connections: int) -> float:
    """Rate that the windows of several connections allow over a round trip.

    Equation: k W / RTT; unlimited without a round trip.

    Args:
        window_bytes: window W of one connection [B], above 0.
        round_trip_s: round-trip time RTT [s], at least 0.
        n_connections: connections k [count], at least 1.

    Returns:
        Limit of one transfer [B/s].

    Raises:
        ValueError: an argument is out of range.

    Valid: no loss; a fixed window, which long-lived connections reach.

    Source: Mathis, Semke, Mahdavi and Ott (1997), Computer Communication Review 27(3), section 2.

    >>> connections_bytes_per_s(4e6, 0.02, 8)
    1600000000.0
    """
    if not window_bytes > 0 or not round_trip_s >= 0 or n_connections < 1:
        raise ValueError(f"connections need a window and a count above 0, got {window_bytes}, {n_connections}")
    return n_connections * window_bytes / round_trip_s if round_trip_s > 0 else inf
