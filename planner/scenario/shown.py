"""Studies that a report shows beside the plan: fronts of cost, the sensitivity of the plan, and its hours."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from planner.ranges import Share, Title
from planner.schema import FieldError, StrictModel

if TYPE_CHECKING:
    from planner.scenario.question import Scenario


class AskedFront(StrictModel):
    """A front of cost against what it buys, as `planner optimize --pareto` finds it."""

    against: Literal["throughput", "goodput", "ttft"]
    """What cost is held against."""
    points: Annotated[int, Field(ge=2, le=50)] = 8
    """Budgets looked at."""
    title: Annotated[Title, Field(min_length=1)]
    """One line for the report."""
    set: dict[str, Any] = {}
    """Keys of the scenario to change for it, as `--set` would: such as a demand, or a promise."""


class AskedHours(StrictModel):
    """A day of demand that the planned fleet is looked at in, its thresholds kept."""

    factors: Annotated[tuple[Share, ...], Field(min_length=2, max_length=10_000)]
    """Demand of every hour over `demand_req_per_s`, which is that of the busiest one."""
    source: Annotated[str, Field(min_length=1)]
    """Where this shape of a day comes from."""


class Shown(StrictModel):
    """Studies that a report shows beside the plan."""

    fronts: tuple[AskedFront, ...] = ()
    """Fronts of cost, one of each kind at most."""
    sensitivity: bool = False
    """Whether the plan is made again with every input 10 and 20 % off."""
    hours: AskedHours | None = None
    """The hours of a day for a fleet that is bought for the busiest one."""


def shown_faults(scenario: "Scenario") -> Iterator[FieldError]:
    """Faults of studies that a report cannot show of a scenario."""
    kinds = [front.against for front in scenario.report.fronts]
    for i, kind in enumerate(kinds):
        if kind in kinds[:i]:
            yield FieldError(("report", "fronts", i, "against"), f"is {kind} again (one front of each kind)")
    if scenario.report.hours is None:
        return
    key = ("report", "hours")
    if scenario.demand_req_per_s is None:
        yield FieldError(key, "are of a demand, and none is stated (demand_req_per_s, that of the busiest hour)")
    if scenario.periods:
        yield FieldError(key, "are of one demand (periods say what is asked for when)")
