"""Figures and texts as every table, sentence and figure of the report writes them."""

from collections.abc import Sequence

from planner.units import DASH, number, percent, usd

SMALL = 1e-4
"""Below this fraction a figure says no more than that it is small."""
EXACT = 1e-6
"""A tolerance below this asks for equality."""


def figure(value: float | None, digits: int = 3) -> str:
    """A measured quantity: significant digits with trailing zeros, so that columns compare.

    >>> figure(2.2), figure(0.98), figure(19677.4), figure(0.0), figure(None), figure(0.9996)
    ('2.20', '0.980', '19,677', '0', '–', '1.00')
    """
    text = number(value, digits)
    if value is None or text in (DASH, "0") or abs(value) >= 10 ** (digits - 1) or "e" in text:
        return text
    return f"{float(text):#.{digits}g}".rstrip(".")


def signed_percent(fraction: float | None) -> str:
    """A difference with its sign.

    >>> signed_percent(0.0204), signed_percent(-0.00001), signed_percent(None)
    ('+2.0 %', '0.0 %', '–')
    """
    text = percent(fraction)
    if fraction is None or text == DASH:
        return DASH
    if text.strip("-") == "0.0 %":
        return "0.0 %"
    return text if fraction < 0 else f"+{text}"


def small_percent(fraction: float) -> str:
    """A fraction that may be next to nothing.

    >>> small_percent(1.5e-6), small_percent(0.0148)
    ('less than 0.01 %', '1.48 %')
    """
    return "less than 0.01 %" if abs(fraction) < SMALL else percent(fraction, 2)


def times(ratio: float | None) -> str:
    """A ratio to two decimals.

    >>> times(1.5619)
    '1.56 x'
    """
    return DASH if ratio is None else f"{ratio:.2f} x"


def objective(value: float | None, unit: str) -> str:
    """Value of a plan's objective, in its unit: money as every bill is printed.

    >>> objective(7.0, "USD/h"), objective(7.0, "req/s")
    ('7.00', '7.000')
    """
    return usd(value) if unit == "USD/h" else figure(value, 4)


def seconds(value: float | None) -> str:
    """A duration with its unit; milliseconds below a tenth of a second.

    >>> seconds(2.1968), seconds(0.025), seconds(None)
    ('2.20 s', '25.0 ms', '–')
    """
    if value is None:
        return DASH
    return f"{figure(1000 * value)} ms" if value < 0.1 else f"{figure(value)} s"


def sentence(text: str) -> str:
    """A remark with its full stop; names that it begins with stay as they are.

    >>> sentence("pd-d is 96 % busy"), sentence("Why?")
    ('pd-d is 96 % busy.', 'Why?')
    """
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def listed(names: list[str]) -> str:
    """Names as one would say them.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def tolerance(fraction: float | None) -> str:
    """Allowed error of a figure.

    >>> tolerance(0.03), tolerance(1e-9), tolerance(None)
    ('3.0 %', 'exact', '–')
    """
    return "exact" if fraction is not None and fraction < EXACT else percent(fraction)


def as_published(value: float) -> str:
    """A published figure with the digits it was given.

    >>> as_published(19400.0), as_published(0.496), as_published(3.0)
    ('19,400', '0.496', '3')
    """
    return f"{value:,.10g}"


def beside_published(value: float, published: float) -> str:
    """A figure with as many digits as the published one has, and at least three.

    >>> beside_published(3.22589, 3.24), beside_published(0.493313, 0.4957), beside_published(4.0, 4.0)
    ('3.23', '0.4933', '4')
    """
    if value == published:
        return as_published(value)
    digits = len(as_published(published).replace(",", "").replace(".", "").strip("0-"))
    return figure(value, max(3, min(digits, 6)))


def interpolated(x: float, xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Linear interpolation in ascending points; None outside them.

    >>> interpolated(1.5, [1.0, 2.0], [10.0, 20.0]), interpolated(3.0, [1.0, 2.0], [10.0, 20.0])
    (15.0, None)
    """
    after = next((i for i, value in enumerate(xs) if value >= x), None)
    if after is None or x < xs[0]:
        return None
    if after == 0:
        return ys[0]
    part = (x - xs[after - 1]) / (xs[after] - xs[after - 1])
    return ys[after - 1] + part * (ys[after] - ys[after - 1])
