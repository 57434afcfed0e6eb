"""A limit that binds, and what more of it would bring."""

from typing import Literal

from planner.ranges import Signed
from planner.schema import StrictModel


class PlannedAgain(StrictModel):
    """Gain from more of a constraint when the fleet was planned again with it, in whole instances."""

    n_more: Signed
    """Units of the constraint that were added."""
    least: Signed
    """Gain of all of them together that is proven, in the objective's unit."""
    most: Signed
    """Gain beyond which there is none, or beyond which none was found; the solver leaves a little open."""


class Bottleneck(StrictModel):
    """A constraint that holds the rate down, and what one more unit of it would add."""

    constraint: str
    shadow_price: Signed
    unit: str
    basis: Literal["planned-again", "linear-program"] = "planned-again"
    """Whether the price was found by planning again, or is that of a linear program at the plan's thresholds."""
    planned_again: PlannedAgain | None = None
    """What confirms the price of a linear program; None: nothing was found in the time."""
