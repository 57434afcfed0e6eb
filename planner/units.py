"""Constants and formatting. Inside the program everything is SI: seconds, bytes, tokens, requests per second."""

from math import isfinite

GB = 1e9
MIB = 2.0**20
GIB = 2.0**30
TERA = 1e12
MILLI = 1e-3
MICRO = 1e-6
BITS_PER_BYTE = 8
BITS_PER_GBIT = 1e9
SECONDS_PER_HOUR = 3600.0
DASH = "–"


def gbps(bytes_per_s: float) -> float:
    """Gigabits per second of a byte rate.

    >>> gbps(12.5e9)
    100.0
    """
    return bytes_per_s * BITS_PER_BYTE / BITS_PER_GBIT


def bytes_per_s(rate_gbps: float) -> float:
    """Byte rate of a link sold in gigabits per second.

    >>> bytes_per_s(100.0)
    12500000000.0
    """
    return rate_gbps * BITS_PER_GBIT / BITS_PER_BYTE


def number(value: float | None, digits: int = 3) -> str:
    """A figure for people: `digits` significant digits, thousands separated; a dash for unknown.

    >>> number(3.18942), number(19658.7), number(None), number(0.0), number(1e-7)
    ('3.19', '19,659', '–', '0', '1e-07')
    """
    if value is None or not isfinite(value):
        return DASH
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def rounded(value: float, digits: int) -> float:
    """A value with `digits` significant digits.

    >>> rounded(3.18942, 3), rounded(19658.7, 2), rounded(0.0, 3)
    (3.19, 20000.0, 0.0)
    """
    return float(f"{value:.{digits - 1}e}")


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as a percentage; a dash for unknown.

    >>> percent(0.4957), percent(None)
    ('49.6 %', '–')
    """
    return DASH if fraction is None or not isfinite(fraction) else f"{100 * fraction:.{digits}f} %"
