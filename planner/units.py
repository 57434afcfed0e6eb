"""Constants and formatting. Inside the program everything is SI: seconds, bytes, tokens, requests per second."""

import re
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
HOURS_PER_MONTH = 730.0
"""As clouds bill it: a twelfth of 8,760 hours."""
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
TIME_WORDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "usec", "usecs", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "minutes"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "hours"),
    **dict.fromkeys(("day", "days"), "days"),
}
"""Units of time by what names call them."""
CLEAR_WORDS = {word for word in TIME_WORDS if word == "ms" or (len(word) > 3 and word[-1] == "s")}
"""Those that stand for nothing else wherever they are in a name; others do at its end alone."""
NAME_PARTS = re.compile(r"[^\W\d_]+|/")
HUMPS = re.compile(r"[A-Z]?[a-z\u00b5\u03bc]+|[A-Z]+")


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


def name_words(name: str) -> list[str]:
    """Words of the name of a column or key.

    >>> name_words("hitRatio_pct")
    ['hit', 'Ratio', 'pct']
    """
    return [word for part in NAME_PARTS.findall(name) for word in (HUMPS.findall(part) or [part])]


def time_unit_in(name: str) -> str | None:
    """Unit of time that the name of a column or key states; None: none.

    >>> [time_unit_in(name) for name in ("ts_ms", "Arrival (us)", "timestampNanos", "epoch_ms_utc", "ms_per_token")]
    ['ms', 'us', 'ns', 'ms', 'ms']
    >>> [time_unit_in(name) for name in ("timestamp", "us_region", "tokens_per_s", "tokens/s", "second_token", "items")]
    [None, None, None, None, None, None]
    """
    parts = NAME_PARTS.findall(name)
    if not parts:
        return None
    humps = name_words(name)
    last = (parts[-1] if parts[-1].casefold() in TIME_WORDS else humps[-1]).casefold()
    is_rate = len(parts) > 1 and parts[-2].casefold() in ("per", "/")
    if last in TIME_WORDS and not is_rate and (last == parts[-1].casefold() or len(last) > 1):
        return TIME_WORDS[last]
    found = {TIME_WORDS[hump.casefold()] for hump in humps[:-1] if hump.casefold() in CLEAR_WORDS}
    return found.pop() if len(found) == 1 else None


def exact_number(value: float) -> str:
    """A limit for people, to its last digit.

    >>> exact_number(60000), exact_number(0.5), exact_number(1e30)
    ('60,000', '0.5', '1e+30')
    """
    return f"{value:,.10g}"
