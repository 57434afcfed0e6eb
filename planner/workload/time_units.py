"""Units of recorded times: stated, certain by their size, or the format's; spans and rates that no trace has."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from planner.errors import InputError, InputProblem
from planner.notes import Note, note
from planner.units import number, time_unit_in
from planner.workload.spec import TimeUnit

SECONDS: dict[TimeUnit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
EPOCH_S = (946_684_800.0, 4_102_444_800.0)
"""The years 2000 to 2100, after 1970: a number that is such a time in one unit is none in another."""
SECONDS_PER_DAY = 86_400.0
MOST_DAYS = 700.0
"""Longest span of a record."""
MOST_REQ_PER_S = 1e5
"""Highest mean rate of a record whose unit is known."""
USUAL_REQ_PER_S = (1e-3, 100.0)
"""Mean rates of a record whose unit nobody states: outside of them another unit is as likely."""
FRACTIONAL_REQ_PER_S = 10.0
"""Highest such rate where times have fractions of a millisecond, which seconds have more often."""
ENOUGH = 10
"""Requests from which on a low mean rate tells something."""
OPTION = "--time-unit (time_unit in a scenario)"
UNITS = ", ".join(SECONDS)

Basis = Literal["stated", "named", "dates", "since 1970", "fields", "format"]


@dataclass(frozen=True)
class TimeScale:
    """A unit of time, and how it is known."""

    unit: TimeUnit
    basis: Basis

    @property
    def seconds(self) -> float:
        """Length of the unit [s]."""
        return SECONDS[self.unit]

    @property
    def is_known(self) -> bool:
        """True if the unit is more than what the format usually has."""
        return self.basis != "format"

    @property
    def is_certain(self) -> bool:
        """True if no other unit is possible, or another one was not stated."""
        return self.basis not in ("format", "fields")

    def guess(self) -> tuple[Note, ...]:
        """A note on a unit that nobody stated and that is not the format's own."""
        because = {
            "since 1970": "in no other unit are they of the years 2000 to 2100",
            "fields": "the fields chat_id and turn are those of traces in seconds",
            "named": "the name of their column says so",
        }.get(self.basis)
        return () if because is None else (note("time-unit-read", f"times are read in {self.unit}: {because}"),)

    def notes(self, n: int, span_s: float) -> tuple[Note, ...]:
        """The same, and of times that are read in the format's unit what they then are: it may be another."""
        if self.is_known:
            return self.guess()
        text = f"no unit of times is stated, and {self.unit} is usual: {n:,} requests in {number(span_s)} s"
        return (note("time-unit-usual", text),)


DATES = TimeScale("ns", "dates")


def named_scale(name: str, column: str, stated: TimeUnit | None, usual: TimeScale) -> TimeScale:
    """The unit of a column of times that its name states; else the usual one.

    Raises:
        InputError: another unit is stated, or times are in none of that unit.
    """
    named = time_unit_in(column)
    if named is None:
        return usual
    unit = next((unit for unit in SECONDS if unit == named), None)
    if unit is None:
        raise InputError(InputProblem(name, column, f"is named as a time in {named}", UNITS))
    if stated not in (None, unit):
        what = f"is named as a time in {unit}, and {stated} is stated"
        raise InputError(InputProblem(name, column, what, f"--time-unit {unit}, or a column of another name"))
    return TimeScale(unit, "named")


def time_scale(name: str, key: str, first: float, stated: TimeUnit | None, usual: TimeScale) -> TimeScale:
    """The unit of times by the first of them: the stated one, that of a time after 1970, else the usual one.

    Raises:
        InputError: in the stated unit it is a time after the year 2100, or after 1970 in another than its name states.

    >>> usual = TimeScale("ms", "format")
    >>> [time_scale("", "", first, None, usual).unit for first in (0.0, 61_114.0, 1.7e9, 1.7e12, 1.7e18)]
    ['ms', 'ms', 's', 'ms', 'ns']
    """
    low, high = EPOCH_S
    if stated is not None:
        if first * SECONDS[stated] > high:
            what = f"is {first:.15g}, which in {stated} is after the year 2100"
            raise InputError(InputProblem(name, key, what, f"{OPTION}: {UNITS}"))
        return TimeScale(stated, "stated")
    unit = next((unit for unit, seconds in SECONDS.items() if low <= first * seconds <= high), None)
    if usual.basis == "named" and unit not in (None, usual.unit):
        what = f"is {first:.15g}, in {unit} a time of the years 2000 to 2100, and its name says {usual.unit}"
        raise InputError(InputProblem(name, key, what, "a column whose name and times are of one unit"))
    return usual if unit is None or (unit == usual.unit and usual.is_known) else TimeScale(unit, "since 1970")


def check_span(name: str, key: str, span_s: float, scale: TimeScale, line: int | None = None) -> None:
    """Raises InputError where times span more than a record does: another unit, or a time that is none."""
    if span_s > MOST_DAYS * SECONDS_PER_DAY or not isfinite(span_s):
        what = f"spans {number(span_s / SECONDS_PER_DAY, 4)} days {_read(scale)}"
        raise InputError(InputProblem(name, key, what, f"{MOST_DAYS:,.0f} days at most; {OPTION}: {UNITS}", line))


def check_pace(name: str, key: str, n: int, span_s: float, scale: TimeScale, *, is_fractional: bool = False) -> None:
    """Raises InputError where so many requests cannot have come in that time, or another unit is as likely."""
    check_span(name, key, span_s, scale)
    if n < 2 or span_s <= 0:
        return
    rate = (n - 1) / span_s
    low, high = _allowed_req_per_s(scale, is_fractional=is_fractional)
    if rate > high or (rate < low and n >= ENOUGH):
        what = f"has {number(rate, 4)} req/s: {n:,} requests in {number(span_s, 4)} s {_read(scale)}"
        allowed = f"{low:g} to {high:,.0f} req/s{'' if scale.is_certain else ' where no unit is stated'}"
        raise InputError(InputProblem(name, key, what, f"{allowed}; {OPTION}: {UNITS}"))


def _allowed_req_per_s(scale: TimeScale, *, is_fractional: bool) -> tuple[float, float]:
    if scale.is_certain:
        return 0.0, MOST_REQ_PER_S
    low, high = USUAL_REQ_PER_S
    if scale.unit == "s":  # the longest unit: times cannot be of a longer one
        return low, MOST_REQ_PER_S
    return low, FRACTIONAL_REQ_PER_S if is_fractional else high


def _read(scale: TimeScale) -> str:
    return "between its dates" if scale.basis == "dates" else f"as read in {scale.unit}"
