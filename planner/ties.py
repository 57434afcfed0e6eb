"""Ties: of options whose values differ by rounding alone the first is taken, so that no last digit chooses.

A value that is summed, multiplied or solved for differs in its last digits between machines, libraries and numbers of
threads. The order of options does not: it comes from the question.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isclose, isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Option = TypeVar("Option")
ROUNDING = 1e-9
"""Relative difference of two values below which they are equal: far above the last digits of sums, below any figure."""
DIGITS = 1e-12
"""The same of values at neighbouring points, which differ by little more themselves."""
SOLVED = 1e-6
"""The same of values that a solver or a search by halves found."""


def exceeds(value: float, other: float, same: float = ROUNDING) -> bool:
    """True if a value is larger than another by more than rounding.

    >>> exceeds(0.1 + 0.2, 0.3), exceeds(0.4, 0.3)
    (False, True)
    """
    return value > other and not isclose(value, other, rel_tol=same)


def first_largest(values: NDArray[np.float64], same: float = DIGITS) -> int:
    """Index of the first value that is the largest but for rounding.

    Args:
        values: shape (n,), n of one at least.
        same: relative difference below which two values are equal.

    >>> first_largest(np.array([1.0, 0.3, 0.1 + 0.2])), first_largest(np.array([0.1, 0.3, 0.1 + 0.2]))
    (0, 1)
    """
    most = float(np.max(values))
    return int(np.argmax(values >= (most - same * abs(most) if isfinite(most) else most)))


def largest_first(options: Iterable[Option], value: Callable[[Option], float], same: float = ROUNDING) -> list[Option]:
    """Options by falling value; those as good as the best that is left, but for rounding, in the order given.

    Args:
        options: any, in an order that comes from the question.
        value: what each is worth.
        same: relative difference below which two values are equal.

    >>> largest_first(["a", "b", "c"], {"a": 0.3, "b": 0.1 + 0.2, "c": 1.0}.__getitem__)
    ['c', 'a', 'b']
    """
    left = sorted(((value(one), i, one) for i, one in enumerate(options)), key=lambda item: (-item[0], item[1]))
    found: list[Option] = []
    while left:
        n = next((n for n, item in enumerate(left) if not isclose(item[0], left[0][0], rel_tol=same)), len(left))
        found += [one for _, _, one in sorted(left[:n], key=lambda item: item[1])]
        left = left[n:]
    return found


def largest(options: Sequence[Option], value: Callable[[Option], float], same: float = ROUNDING) -> Option:
    """The first option whose value is the largest but for rounding; raises ValueError where there is none.

    >>> largest(["a", "b"], {"a": 0.3, "b": 0.1 + 0.2}.__getitem__)
    'a'
    """
    return max(largest_first(options, value, same)[:1], key=value)
