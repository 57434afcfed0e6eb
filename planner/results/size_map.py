"""Colocated serving beside prefill and decode pools for many demands, as a report shows it."""

from planner.results.plan import Plan
from planner.schema import StrictModel
from planner.ties import exceeds


class SizeMapCell(StrictModel):
    """One demand, served both ways."""

    model: str
    """Name of its profile."""
    hardware: str
    """Name of the accelerator's."""
    traffic: str
    rate_req_per_s: float
    input_tokens: float
    """Mean prompt."""
    output_tokens: float
    """Mean answer."""
    ttft_s: float
    """Promise on the time to first token."""
    tpot_s: float
    """Promise on the time per output token."""
    colocated: Plan | None
    """The cheapest fleet that keeps the promises; None where there is none."""
    disaggregated: Plan | None
    failure: str | None = None
    """Why neither can serve the demand; None where one does."""

    @property
    def gain(self) -> float | None:
        """Cost of a colocated fleet over that of prefill and decode pools, less one [-]; 0 where both
        cost the same but for rounding, None without both."""
        usd = [None if fleet is None else fleet.cost.usd_per_hour for fleet in (self.colocated, self.disaggregated)]
        if usd[0] is None or not usd[1]:
            return None
        return usd[0] / usd[1] - 1 if exceeds(usd[0], usd[1]) or exceeds(usd[1], usd[0]) else 0.0

    @property
    def is_kept(self) -> bool:
        """True if the runs of its fleets keep every promise, their whole intervals."""
        fleets = [fleet for fleet in (self.colocated, self.disaggregated) if fleet is not None]
        return all(fleet.slo_run is not None and fleet.slo_run.holds for fleet in fleets)


class SizeMap(StrictModel):
    """Demands by model, accelerator, traffic, prompt length and limit on the time per token."""

    title: str
    notes: str
    sources: tuple[str, ...]
    percentile: float
    """Of the requests that promises are kept for."""
    usd_per_accelerator_hour: dict[str, float]
    """By accelerator."""
    prices: tuple[str, ...]
    """Where these come from."""
    cells: tuple[SizeMapCell, ...]
