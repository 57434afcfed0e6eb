"""Where something that grows with a rate crosses its limit."""

from collections.abc import Callable

EXACT = 1e-7
"""Tolerance of what is printed: searches are coarser."""


def last_kept(
    excess: Callable[[float], float], low: float, high: float, tolerance_fraction: float
) -> tuple[float, float]:
    """The range in which a rising function turns positive; it may jump there.

    Equation:
        false position; the value at an end that stays is halved (Illinois), and no step is smaller than half the
        tolerance, so that both ends close in; bisection where two steps did not halve the range

    Args:
        excess: the function, at most 0 at `low`.
        low: where it is not positive.
        high: where it may be; above `low`, and above 0.
        tolerance_fraction: width of the range that is looked for, as a fraction of its upper end.

    Returns:
        Both ends; twice `high` where it is not positive there either.

    Source:
        Dowell and Jarratt (1971), BIT 11(2), 168-174; the safeguard is Dekker's (1969).

    >>> low, high = last_kept(lambda x: x**3 - 2, 0.0, 2.0, 1e-6)
    >>> low**3 <= 2 < high**3, round(low, 5)
    (True, 1.25992)
    >>> [round(end, 5) for end in last_kept(lambda x: 1e6 if x > 0.7 else 0.0, 0.0, 1.0, 1e-6)]
    [0.7, 0.7]
    """
    above = excess(high)
    if above <= 0:
        return high, high
    below = min(excess(low), 0.0)
    was_kept: bool | None = None
    widths = [high - low]
    while high - low > tolerance_fraction * high:
        least = tolerance_fraction * high / 2
        is_slow = len(widths) > 2 and 2 * widths[-1] > widths[-3]
        secant = (low + high) / 2 if is_slow else low - below * (high - low) / (above - below)
        tried = min(max(secant, low + least), high - least)
        found = excess(tried)
        is_kept = found <= 0
        if is_kept:
            low, below, above = tried, found, above / 2 if was_kept is True else above
        else:
            high, above, below = tried, found, below / 2 if was_kept is False else below
        was_kept = is_kept
        widths.append(high - low)
    return low, high
