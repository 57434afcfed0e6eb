"""A root between two points, without the solvers of scipy, which take longer to load than a plan to find."""

from collections.abc import Callable

_MOST_STEPS = 200


def root(excess: Callable[[float], float], low: float, high: float, tolerance: float = 1e-14) -> float:
    """Where a continuous function changes its sign.

    Equation: x = (a f(b) - b f(a)) / (f(b) - f(a)) takes the place of the end with its sign; the value of an end that
        stays twice counts half.

    Args:
        excess: the function; at one of the ends it is not above 0, at the other not below.
        low: one end.
        high: the other end.
        tolerance: relative width of the last bracket [fraction].

    Returns:
        The root.

    Raises:
        ValueError: the function has one sign at both ends.

    Source: Dowell and Jarratt (1971), BIT 11, 168-174: the Illinois method.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    a, b, at_a, at_b = low, high, excess(low), excess(high)
    if at_a * at_b > 0:
        raise ValueError(f"a root needs a change of sign, got {at_a} and {at_b}")
    for _ in range(_MOST_STEPS):
        if at_b == 0 or abs(b - a) <= tolerance * abs(b):
            break
        x = (a * at_b - b * at_a) / (at_b - at_a)
        at_x = excess(x)
        if at_x * at_b <= 0:
            a, at_a = b, at_b
        else:
            at_a /= 2
        b, at_b = x, at_x
    return b
