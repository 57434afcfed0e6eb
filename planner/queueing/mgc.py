"""First come, first served with c servers and Poisson arrivals: the mean wait from moments."""

from math import inf

from planner.queueing.erlang import erlang_c
from planner.queueing.single_server import deterministic_wait


def utilization_fraction(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """Busy share of each server.

    Equation: u = lambda E[S] / c.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s], at least 0.
        mean_s: mean service E[S] [s], above 0.

    Returns:
        Utilisation [fraction]; 1 or more means that the queue grows without bound.

    Raises:
        ValueError: an argument is outside the ranges above or not finite.

    Valid: any arrivals and service with these means, while below 1.

    Source: Little (1961), L = lambda W applied to the servers.

    >>> utilization_fraction(4, 3.0, 1.0)
    0.75
    """
    if n_servers < 1 or not 0 <= arrival_req_per_s < inf or not 0 < mean_s < inf:
        raise ValueError(
            "a queue needs n_servers >= 1, arrival_req_per_s >= 0 and mean_s > 0, all finite, "
            f"got {n_servers}, {arrival_req_per_s}, {mean_s}"
        )
    return arrival_req_per_s * mean_s / n_servers


def stable_utilization_fraction(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """`utilization_fraction`, refused where it is 1 or more."""
    utilization = utilization_fraction(n_servers, arrival_req_per_s, mean_s)
    if utilization >= 1:
        raise ValueError(f"the queue has no steady state at utilisation {utilization:.6g}, it needs less than 1")
    return utilization


def mmc_mean_wait_s(n_servers: int, arrival_req_per_s: float, mean_s: float) -> float:
    """Mean wait with exponential service.

    Equation: W = C(c, lambda E[S]) E[S] / (c (1 - u)).

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        mean_s: mean service E[S] [s].

    Returns:
        Mean wait before service [s].

    Raises:
        ValueError: utilisation is 1 or more, or an argument is out of range.

    Valid: exact for M/M/c, u < 1.

    Source: Erlang (1917); Cooper, Introduction to Queueing Theory (1981), chapter 3.

    >>> round(mmc_mean_wait_s(2, 1.5, 1.0), 6)
    1.285714
    """
    utilization = stable_utilization_fraction(n_servers, arrival_req_per_s, mean_s)
    return erlang_c(n_servers, arrival_req_per_s * mean_s) * mean_s / (n_servers * (1 - utilization))


def _mdc_over_mmc(n_servers: int, utilization: float) -> float:
    """Mean wait of M/D/c over that of M/M/c [fraction]: c / (c + 1) at no load, 1/2 at full load."""
    if n_servers == 1:
        return 0.5
    waiting = erlang_c(n_servers, n_servers * utilization)
    if waiting < 1e-12:
        return n_servers / (n_servers + 1)
    _, mean = deterministic_wait(n_servers, utilization)
    return mean * n_servers * (1 - utilization) / waiting


def mean_wait_s(
    n_servers: int, arrival_req_per_s: float, mean_s: float, scv: float, min_residual_s: float | None = None
) -> float:
    """Mean wait of M/G/c, first come first served, from moments of the service.

    Equation: W = (1 + v) W_M r / (1 + a (2 r - 1)), r = W_D / W_M (M/D/c over M/M/c), v the squared variation,
        a = ((1 + v) E[S] / m - c - 1) / (c - 1), m the mean of the least of c residual services; a = v without m.

    Args:
        n_servers: servers c [count], at least 1.
        arrival_req_per_s: arrival rate lambda [req/s].
        mean_s: mean service E[S] [s].
        scv: squared coefficient of variation v of the service [fraction].
        min_residual_s: m [s], `Service.min_residual_excess_s(0.0, n_servers)`; None where only moments are known.

    Returns:
        Mean wait before service [s].

    Raises:
        ValueError: utilisation is 1 or more, or an argument is out of range.

    Valid: exact for c = 1 (Pollaczek-Khinchine), exponential and deterministic service, and in the limits of heavy and
        (with m) light traffic. Largest error found against 3e7 simulated requests, u 0.3 to 0.9, where W is above 0.1 %
        of the service (the simulation's own standard error is 0.1 to 0.9 %):

            service                          v     c = 3, 4  c = 9   without m
            deterministic                    0         0.4 %   0.5 %     0.5 %
            log-normal, sigma 0.5, cut       0.28      0.6 %   2.0 %     4.3 %
            log-normal, sigma 1, cut         0.81      0.7 %   0.5 %     2.5 %
            log-normal, sigma 1.15, cut      1.68      0.8 %   0.9 %     1.6 %
            two values, 0.2 and 3.4          1.92      2.3 %    14 %      22 %
            log-normal, sigma 1.5, cut       4.15      1.6 %     9 %      15 %

        The two large errors are at u = 0.5, c = 9, where W is below 2 % of the service; at u = 0.9 they are near 2 %.

    Source: Boxma, Cohen and Huffels (1979), Operations Research 27(6), 1115-1127, with m; Kimura (1986), Management
        Science 32(6), 751-763, without.

    >>> round(mean_wait_s(1, 0.8, 1.0, 0.5), 6)
    3.0
    >>> round(mean_wait_s(3, 2.4, 1.0, 1.0), 6) == round(mmc_mean_wait_s(3, 2.4, 1.0), 6)
    True
    >>> round(mean_wait_s(4, 3.2, 1.0, 0.8), 6)
    0.67565
    """
    if not 0 <= scv < inf or (min_residual_s is not None and not 0 < min_residual_s < inf):
        raise ValueError(f"scv must be at least 0 and min_residual_s above 0, got {scv}, {min_residual_s}")
    exponential_s = mmc_mean_wait_s(n_servers, arrival_req_per_s, mean_s)
    if n_servers == 1 or exponential_s == 0:
        return (1 + scv) / 2 * exponential_s
    ratio = _mdc_over_mmc(n_servers, arrival_req_per_s * mean_s / n_servers)
    weight = scv
    if min_residual_s is not None:
        weight = max(((1 + scv) * mean_s / min_residual_s - n_servers - 1) / (n_servers - 1), 0.0)
    return (1 + scv) * ratio / (1 + weight * (2 * ratio - 1)) * exponential_s
