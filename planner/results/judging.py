"""Judgement of a prediction, not of a promise, by a run, given how sure the run is of its own figure."""

NOTHING = 1e-12
LEAST_TIMES = 2.0
"""What a run is made longer by at least: its interval is narrow, but off the prediction."""
DIGITS = 2
"""Significant digits of a number of requests that is but estimated."""


def relative_error(predicted: float, executed: float) -> float:
    """Predicted over executed, less one; 0 where both are nothing.

    >>> round(relative_error(2.1, 2.0), 3), relative_error(0.0, 0.0), relative_error(1.0, 0.0)
    (0.05, 0.0, 1.0)
    """
    if abs(predicted) < NOTHING and abs(executed) < NOTHING:
        return 0.0
    return predicted / executed - 1.0 if abs(executed) >= NOTHING else 1.0


def judgement(predicted: float, low: float, high: float, allowed: float) -> bool | None:
    """True if a prediction is within its tolerance of a figure known to lie in an interval; None: not decided.

    It is where that is so of the whole interval, it is not where it is so of no part of it.

    Args:
        predicted: what was predicted.
        low: lower end of the confidence interval; the figure itself where there is none.
        high: its upper end.
        allowed: relative error that is allowed [-].

    >>> judgement(2.0, 1.95, 2.05, 0.05), judgement(2.0, 2.2, 2.4, 0.05), judgement(2.0, 2.0, 2.2, 0.05)
    (True, False, None)
    """
    # The figures that are near enough are an interval, with the prediction in it.
    nearest = min(max(predicted, low), high)
    if not _is_within(predicted, nearest, allowed):
        return False
    return True if _is_within(predicted, low, allowed) and _is_within(predicted, high, allowed) else None


def enough_requests(n: int, predicted: float, low: float, high: float, allowed: float) -> int | None:
    """About how many requests decide where a prediction is right; None where no number does.

    Equation:
        n max((high - low)^2 / room^2, LEAST_TIMES), room = predicted allowed / (1 + allowed): intervals narrow with the
        root of n, and one whose half is half of the room is within it, wherever chance puts its middle

    Args:
        n: requests of the run, which does not decide.
        predicted: what was predicted.
        low: lower end of the confidence interval.
        high: its upper end.
        allowed: relative error that is allowed [-].

    >>> enough_requests(1000, 2.1, 1.81, 2.19, 0.05), enough_requests(1000, 0.0, 1.8, 2.2, 0.05)
    (15000, None)
    """
    room = predicted * allowed / (1 + allowed)
    if room <= NOTHING:
        return None
    return rounded_up(n * max(((high - low) / room) ** 2, LEAST_TIMES))


def rounded_up(count: float) -> int:
    """The next number that has DIGITS significant digits.

    >>> rounded_up(4321.0), rounded_up(99.5), rounded_up(7.0)
    (4400, 100, 7)
    """
    step = int(10 ** max(len(str(int(count))) - DIGITS, 0))
    return -int(-count // step) * step


def _is_within(predicted: float, executed: float, allowed: float) -> bool:
    return abs(relative_error(predicted, executed)) <= allowed
