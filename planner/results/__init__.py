"""The answers: frozen records that report and cli print."""

from planner.results.case import (
    Case,
    ClaimResult,
    ComparedPlan,
    LengthProfile,
    PriceRatios,
    ServiceCurve,
    SourceNote,
)
from planner.results.plan import (
    Baseline,
    Bottleneck,
    ClassPlan,
    Cost,
    Fleet,
    FreeRouting,
    Latency,
    LinkPlan,
    Plan,
    PoolPlan,
    Sweep,
    Verdict,
)

__all__ = [
    "Baseline",
    "Bottleneck",
    "Case",
    "ClaimResult",
    "ClassPlan",
    "ComparedPlan",
    "Cost",
    "Fleet",
    "FreeRouting",
    "Latency",
    "LengthProfile",
    "LinkPlan",
    "Plan",
    "PoolPlan",
    "PriceRatios",
    "ServiceCurve",
    "SourceNote",
    "Sweep",
    "Verdict",
]
