"""Where something that grows with a rate crosses its limit."""

from collections.abc import Callable

from scipy.optimize import brentq

EXACT = 1e-7
"""Tolerance of what is printed: searches are coarser."""
JUST_KEPT = -1e-300
"""Stands for 0, which is no root: a function may stay there before it turns positive."""


def last_kept(
    excess: Callable[[float], float], low: float, high: float, tolerance_fraction: float
) -> tuple[float, float]:
    """The range in which a rising function turns positive; it may jump there.

    Args:
        excess: the function, at most 0 at `low`.
        low: where it is not positive.
        high: where it may be; above `low`, and above 0.
        tolerance_fraction: width of the range that is looked for, as a fraction of its upper end.

    Returns:
        Both ends; twice `high` where it is not positive there either.

    Source:
        Brent (1973), Algorithms for minimization without derivatives, chapter 4.

    >>> low, high = last_kept(lambda x: x**3 - 2, 0.0, 2.0, 1e-6)
    >>> low**3 <= 2 < high**3, round(low, 5)
    (True, 1.25992)
    >>> [round(end, 5) for end in last_kept(lambda x: 1e6 if x > 0.7 else 0.0, 0.0, 1.0, 1e-6)]
    [0.7, 0.7]
    """
    ends = low, high

    def tried(x: float) -> float:
        nonlocal ends
        found = excess(x)
        if found > 0:
            ends = ends[0], min(ends[1], x)
            return found
        ends = max(ends[0], x), ends[1]
        return min(found, JUST_KEPT)

    last = tried(high)
    if last <= 0:
        return high, high
    known = {low: min(tried(low), JUST_KEPT), high: last}
    brentq(lambda x: known[x] if x in known else tried(x), low, high, xtol=1e-12 * high, rtol=tolerance_fraction / 2)
    return ends
