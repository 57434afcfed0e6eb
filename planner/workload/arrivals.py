"""When requests arrive."""

from typing import Literal

from planner.schema import StrictModel


class PoissonArrivals(StrictModel):
    """Independent users: exponential gaps between arrivals."""

    kind: Literal["poisson"] = "poisson"

    @property
    def squared_cv(self) -> float:
        """Squared coefficient of variation of the gaps, variance / mean^2."""
        return 1.0


Arrivals = PoissonArrivals
"""Becomes a union discriminated by `kind` with the second process."""
