"""When a demand that grows is more than a fleet serves."""

from datetime import date, timedelta
from math import ceil, inf, log

DAYS_PER_MONTH = 365.25 / 12


def months_until(demand_req_per_s: float, most_req_per_s: float, growth_fraction_per_month: float) -> float:
    """Months until a demand that grows by the same fraction every month exceeds what is served.

    Equation:
        m = ln(most / demand) / ln(1 + g)

    Args:
        demand_req_per_s: demand now [req/s].
        most_req_per_s: most that is served [req/s].
        growth_fraction_per_month: growth, above -1 [1/month].

    Returns:
        Months; 0 where the demand exceeds it already, inf where it never does.

    >>> round(months_until(10.0, 20.0, 0.05), 2), months_until(10.0, 9.0, 0.05), months_until(10.0, 20.0, -0.05)
    (14.21, 0.0, inf)
    """
    if most_req_per_s <= demand_req_per_s:
        return 0.0
    if growth_fraction_per_month <= 0:
        return inf
    return log(most_req_per_s / demand_req_per_s) / log(1 + growth_fraction_per_month)


def day_after(begin: date, months: float) -> date | None:
    """The first whole day on which so many months have passed; None beyond the calendar.

    >>> day_after(date(2026, 1, 31), 12.0), day_after(date(2026, 1, 31), inf) is None
    (datetime.date(2027, 2, 1), True)
    """
    try:
        return begin + timedelta(days=ceil(months * DAYS_PER_MONTH))
    except OverflowError:
        return None
