"""Studies of a plan: fronts of cost against what it buys, and how the decision depends on its inputs."""

from typing import Any, Literal

from planner.notes import Note
from planner.schema import StrictModel

Against = Literal["throughput", "goodput", "ttft"]


class Hour(StrictModel):
    """A planned fleet in an hour of the day; None where unknown."""

    demand_req_per_s: float
    utilization: dict[str, float]
    """By pool and link in use [-]."""
    ttft_mean_s: float | None
    ttft_p90_s: float | None
    usd_per_hour: float | None
    usd_per_million_input_tokens: float | None
    usd_per_million_output_tokens: float | None


class FrontPoint(StrictModel):
    """A plan that nothing cheaper matches."""

    budget_usd_per_hour: float
    """What it was allowed to cost."""
    usd_per_hour: float
    """What it costs."""
    value: float
    """Throughput or goodput [req/s], or TTFT at the percentile asked for [s]."""
    n_instances: dict[str, int]
    """By pool."""
    threshold_tokens: float | None


class Front(StrictModel):
    """Cost against throughput, goodput or TTFT, cheapest first."""

    against: Against
    percentile: float
    """Percentage of requests that a TTFT is about."""
    points: tuple[FrontPoint, ...]
    notes: tuple[Note, ...] = ()

    def answer(self) -> list[dict[str, Any]]:
        """The points as JSON prints them."""
        unit = "s" if self.against == "ttft" else "req_per_s"
        return [
            {
                "usd_per_hour": point.usd_per_hour,
                f"{self.against}_{unit}": point.value,
                "n_instances": point.n_instances,
                "threshold_tokens": point.threshold_tokens,
            }
            for point in self.points
        ]


class Variation(StrictModel):
    """The decision with one input changed."""

    label: str
    """Such as `+10 %`."""
    factor: float
    """On the input; for the error of the predictor, the mean factor on the seconds of the pools it times [-]."""
    n_instances: dict[str, int] | None
    """Instances of the best plan then, by pool; None where there is no plan, or none was found in the time."""
    objective: float | None
    """Its objective."""
    objective_change: float | None
    """Relative to the stated plan's [-]."""
    changes_fleet: bool
    """Whether the best sizes are other ones."""
    kept_fraction: float | None
    """Share of the demand, at most 1, that the stated plan serves as promised if it is kept as it is [-]."""
    retuned_fraction: float | None
    """The same with thresholds chosen anew, sizes and ports kept [-]."""


SERVED = 1 - 3e-3
"""A share from which on all of the demand counts as served: a goodput is known no better."""
NOTICED = 1e-6
"""Relative change of an objective that is more than rounding."""


class InputSensitivity(StrictModel):
    """One input."""

    key: str
    """Key of the scenario, or what stands for several."""
    title: str
    variations: tuple[Variation, ...]

    @property
    def swing(self) -> float:
        """Largest change of the objective either way [-]; inf where a plan is lost."""
        changes = [v.objective_change for v in self.variations]
        return max((float("inf") if c is None else abs(c) for c in changes), default=0.0)

    @property
    def matters(self) -> bool:
        """True if any change moves the objective or the best sizes, or leaves a part of the demand unserved."""
        return self.swing > NOTICED or any(
            v.changes_fleet or v.kept_fraction is None or v.kept_fraction < SERVED for v in self.variations
        )


class Sensitivity(StrictModel):
    """Sensitivity of the decision to its inputs."""

    objective: str
    unit: str
    """Of the objective."""
    stated: float
    """Objective of the stated plan."""
    n_instances: dict[str, int]
    """Its sizes."""
    inputs: tuple[InputSensitivity, ...]
    """Those that matter most first."""
    notes: tuple[Note, ...] = ()

    def answer(self) -> dict[str, Any]:
        """The study as JSON prints it."""
        return self.model_dump(mode="json")
