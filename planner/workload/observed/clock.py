"""Times of the rows of a table: dates, or numbers of one unit, in seconds."""

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem
from planner.workload.spec import TimeUnit
from planner.workload.time_units import DATES, OPTION, TimeScale, time_scale

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """The unit of a column of times, which its first time decides."""

    def __init__(self, stated: TimeUnit | None, usual: TimeScale) -> None:
        self.stated, self.scale = stated, usual
        self.is_fractional = False
        self._is_decided = False

    def times_s(self, name: str, key: str, column: Sequence[Any]) -> NDArray[np.float64]:
        """Seconds of a column, since 1970 where it has dates; NaN of what is no time, or one of another kind.

        Raises:
            InputError: a unit is stated of dates.
        """
        numbers, dates = _numbers_and_dates_s(column)
        is_known = ~(np.isnan(numbers) & np.isnan(dates))
        if not self._is_decided and is_known.any():
            first = int(np.argmax(is_known))
            if np.isnan(numbers[first]):
                if self.stated is not None:
                    raise InputError(InputProblem(name, key, "has dates, and a unit is stated", f"no {OPTION}"))
                self.scale = DATES
            else:
                self.scale = time_scale(name, key, float(numbers[first]), self.stated, self.scale)
            self._is_decided = True
        if self.scale.basis == "dates":
            return dates
        finite = numbers[np.isfinite(numbers)]
        self.is_fractional = self.is_fractional or bool((finite != np.floor(finite)).any())
        return np.asarray(numbers * self.scale.seconds)


def _numbers_and_dates_s(column: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cells as numbers, and as seconds since 1970 where they are dates; NaN where they are not."""
    neither = np.full(len(column), nan)
    try:
        return np.array(column, dtype=np.float64), neither
    except (ValueError, TypeError, OverflowError):
        if (times := _dates_s(column)) is not None:
            return neither, times
    numbers, dates = neither, neither.copy()
    for i, cell in enumerate(column):
        try:
            numbers[i] = float(cell)
        except (ValueError, TypeError, OverflowError):
            dates[i] = _date_s(cell)
    return numbers, dates


def _dates_s(column: Sequence[Any]) -> NDArray[np.float64] | None:
    """Seconds since 1970 of dates that say no time zone, all at once; None where some are anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # how numpy says that there is a zone
        try:
            times = np.array(column, dtype="datetime64[ns]")
        except (ValueError, TypeError, Warning):
            return None
    return None if np.isnat(times).any() else times.astype(np.int64) / 1e9


def _date_s(cell: Any) -> float:
    """Seconds since 1970 of a date with a time, UTC unless it says otherwise; NaN of anything else."""
    try:
        moment = datetime.fromisoformat(cell.strip())
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
    except (ValueError, AttributeError, OverflowError):
        return nan
