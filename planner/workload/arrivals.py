"""When requests arrive."""

from typing import Annotated, Literal

from pydantic import Field

from planner.schema import StrictModel

LEAST_SQUARED_CV, MOST_SQUARED_CV = 1e-4, 16.0
"""Of gaps. Beyond, most requests come at the same moments, as no renewal process of users does: their rate changes."""


class PoissonArrivals(StrictModel):
    """Independent users: exponential gaps between arrivals."""

    kind: Literal["poisson"] = "poisson"

    @property
    def squared_cv(self) -> float:
        """Squared coefficient of variation of the gaps, variance / mean^2."""
        return 1.0


class GammaArrivals(StrictModel):
    """Independent gaps with a Gamma distribution: bursty above a squared_cv of 1, paced below."""

    kind: Literal["gamma"]
    squared_cv: Annotated[float, Field(ge=LEAST_SQUARED_CV, le=MOST_SQUARED_CV)]
    """Squared coefficient of variation of the gaps, variance / mean^2: 16 at most, as what is burstier is a rate that
    changes (`periods`; in runs `execution.arrivals`). Waits are validated from 0.25 to 4."""


Arrivals = Annotated[PoissonArrivals | GammaArrivals, Field(discriminator="kind")]
"""Renewal arrivals; `kind` tells them apart."""
