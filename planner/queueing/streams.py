"""Arrivals that are split between pools and merged in them: the variability that is left of the users'."""

from collections.abc import Sequence
from math import inf


def split_scv(arrival_scv: float, share_fraction: float) -> float:
    """Squared variation of the gaps between those arrivals that a pool gets.

    Equation: 1 + p (a - 1): gaps of the part are sums of a geometric number of gaps.

    Args:
        arrival_scv: squared coefficient of variation a of all gaps [fraction], above 0.
        share_fraction: share p of the requests that go to the pool, each by its own chance [fraction], 0 to 1.

    Returns:
        Squared coefficient of variation [fraction].

    Raises:
        ValueError: an argument is out of range.

    Valid: exact for renewal arrivals whose pool does not depend on when they come, as with a threshold on length; the
        part's gaps are then no longer Gamma, which `gigc_wait` takes them for.

    Source: Whitt (1983), The queueing network analyzer, Bell Syst. Tech. J. 62(9), equation 36.

    >>> split_scv(3.0, 0.25)
    1.5
    """
    if not 0 < arrival_scv < inf or not 0 <= share_fraction <= 1 + 1e-9:
        raise ValueError(f"a split needs arrival_scv > 0 and a share of 0 to 1, got {arrival_scv}, {share_fraction}")
    return 1 + share_fraction * (arrival_scv - 1)


def merged_scv(rates_req_per_s: Sequence[float], arrival_scvs: Sequence[float]) -> float:
    """Squared variation that stands for several independent streams in one pool.

    Equation: sum of rate_i a_i over sum of rate_i: the limit of variance over mean of the merged counts.

    Args:
        rates_req_per_s: rate of each stream [req/s], at least 0, not all 0.
        arrival_scvs: squared coefficient of variation of each stream's gaps [fraction].

    Returns:
        Squared coefficient of variation [fraction].

    Raises:
        ValueError: lengths differ or no stream has a rate.

    Valid: exact in heavy traffic, and for Poisson streams; with many streams and little traffic the merged arrivals are
        nearer to Poisson, so it is an upper estimate of bursts there.

    Source: Whitt (1982), Oper. Res. 30(1), asymptotic method.

    >>> merged_scv([1.0, 3.0], [4.0, 1.0])
    1.75
    """
    total = sum(rates_req_per_s)
    if len(rates_req_per_s) != len(arrival_scvs) or total <= 0:
        raise ValueError("merged streams need one variation each and a rate above 0")
    return sum(rate * scv for rate, scv in zip(rates_req_per_s, arrival_scvs, strict=True)) / total
