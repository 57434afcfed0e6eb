"""Instances that are rented by the period: how many start in each, how long they must stay, and what that costs."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple


class ByPeriod(NamedTuple):
    """Rental terms of a pool that follows the periods."""

    least_up_h: float
    """Least time that an instance serves once it has started [h]."""
    start_up_h: float
    """Time that an instance is rented before it serves [h]."""


def starts(n_instances: Sequence[int]) -> list[int]:
    """Instances that start with every period of a cycle, the last period before the first.

    Equation:
        s_p = max(n_p - n_(p-1), 0)

    Args:
        n_instances: instances in every period, shape (periods,) [count].

    >>> starts([2, 5, 3])
    [0, 3, 0]
    """
    return [max(n - n_instances[p - 1], 0) for p, n in enumerate(n_instances)]


def times_within(hours: Sequence[float], least_up_h: float, start: int, period: int) -> int:
    """Number of starts with a period, one in every cycle, that still have to be up when another period begins.

    Equation:
        the number of k >= 0 with (T_p - T_q mod H) + k H < L: T_p when a period begins, H the cycle, L the least time

    Args:
        hours: length of every period, shape (periods,) [h].
        least_up_h: least time up [h].
        start: period q with which instances start.
        period: period p.

    >>> [times_within([8.0, 8.0, 8.0], 12.0, 0, p) for p in range(3)], times_within([12.0, 12.0], 30.0, 0, 0)
    ([1, 1, 0], 2)
    """
    cycle = sum(hours)
    elapsed = (sum(hours[:period]) - sum(hours[:start])) % cycle
    return max(ceil((least_up_h - elapsed) / cycle - ROUNDING), 0)


ROUNDING = 1e-9


def mean_instances(n_instances: Sequence[int], hours: Sequence[float], start_up_h: float) -> float:
    """Instances that are paid for on average, start-ups included.

    Equation:
        sum over periods of (h_p n_p + h_up s_p) / H

    Args:
        n_instances: instances in every period, shape (periods,) [count].
        hours: length of every period, shape (periods,) [h].
        start_up_h: time that an instance is rented before it serves [h].

    >>> mean_instances([2, 4], [12.0, 12.0], 1.2)
    3.1
    """
    served = sum(h * n for h, n in zip(hours, n_instances, strict=True))
    return (served + start_up_h * sum(starts(n_instances))) / sum(hours)
