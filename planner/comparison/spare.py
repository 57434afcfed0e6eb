"""Cost of surviving a loss: the same question without."""

from collections.abc import Iterator

from planner.comparison.planned import Classes, planned
from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.notes import Note, note
from planner.results import Fleet
from planner.scenario import Scenario, Spare
from planner.units import number, percent


def spare_notes(scenario: Scenario, classes: Classes, plan: Fleet, deadline: float) -> Iterator[Note]:
    """Saving of the cheapest fleet without spare, where the question asks for spare at the least cost.

    Args:
        scenario: the question.
        classes: its requests.
        plan: the planned fleet.
        deadline: `work_s()` time to stop at.
    """
    kinds, ours = scenario.spare.survive, plan.cost.usd_per_hour
    if not kinds or scenario.objective != "min-cost" or ours is None:
        return
    try:
        bare = planned(scenario.model_copy(update={"spare": Spare()}), classes, deadline)
    except (UndecidedError, InputError, InfeasibleError):
        yield note("spare-cost-unknown", "what surviving a loss costs was not found in the time")
        return
    if bare is not None:
        more = ours - bare.objective
        what = " or ".join(f"one {kind}" for kind in kinds)
        yield note(
            "spare-cost",
            f"surviving the loss of any {what} costs {number(more)} USD/h, {percent(more / bare.objective)} more",
        )
