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
UNITS = {
    "_usd_per_accelerator_hour": "USD/h",
    "usd_per_hour": "USD/h",
    "usd_per_kwh": "USD/kWh",
    "usd_per_gb": "USD/GB",
    "_req_per_s": "req/s",
    "_flop_per_s": "FLOP/s",
    "_tb_per_s": "TB/s",
    "_gb_per_s": "GB/s",
    "_bytes_per_s": "bytes/s",
    "_tflops": "TFLOP/s",
    "_tops": "TOP/s",
    "_gbps": "Gbps",
    "_gb": "GB",
    "_mib": "MiB",
    "_bytes": "bytes",
    "_tokens": "tokens",
    "_usd": "USD",
    "_mhz": "MHz",
    "_years": "years",
    "_us": "us",
    "_ms": "ms",
    "_s": "s",
    "_w": "W",
}
"""Units by how keys end, longer ends first."""


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


def usd(value: float | None) -> str:
    """Money to the cent, as every rent and bill is printed; a dash for unknown.

    >>> usd(7.0), usd(1234567.891), usd(None)
    ('7.00', '1,234,567.89', '–')
    """
    return DASH if value is None or not isfinite(value) else f"{value:,.2f}"


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


def unit_of(key: str) -> str:
    """Unit of a number by its key; empty for counts, ratios and what has its unit elsewhere.

    >>> unit_of("round_trip_ms"), unit_of("n_instances")
    ('ms', '')
    """
    return next((unit for end, unit in UNITS.items() if key.endswith(end)), "")


def plain(value: float) -> str:
    """A limit for people, to its last digit.

    >>> plain(60000), plain(0.5), plain(1e30)
    ('60,000', '0.5', '1e+30')
    """
    return f"{value:,.10g}"
