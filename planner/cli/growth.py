"""Growth of the demand: what is planned beside the demand as it is stated."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    from planner.scenario import Scenario


def check_growth(question: "Scenario", begin: "date | None") -> None:
    """Raises UsageError for a day that nothing counts from."""
    from planner.errors import UsageError

    if begin is not None and question.growth_fraction_per_month is None:
        what = "counts from a day how a demand grows, and the scenario states no growth"
        raise UsageError(f"--from-date: {what} (--set growth_fraction_per_month=0.05)")


def growth_fraction(text: str | None) -> float | None:
    """A growth of 30, 30% or 30 %. Raises UsageError."""
    from planner.errors import UsageError

    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = float("nan")
    if not -100 < percent <= MOST_GROWTH_PERCENT:
        raise UsageError(f"--growth {text}: is no percentage above -100 and up to {MOST_GROWTH_PERCENT:,} (30%)")
    return percent / 100


def check_demand(question: "Scenario", growth: float | None) -> None:
    """Raises UsageError where there is no demand to grow."""
    from planner.errors import UsageError

    if growth is not None and question.demand_req_per_s is None and question.users is None:
        raise UsageError("--growth: is of a demand, and the scenario states none (--set demand_req_per_s=...)")


MOST_GROWTH_PERCENT = 10_000
