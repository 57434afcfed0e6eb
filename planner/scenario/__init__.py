"""The question: what is asked of the planner, read, checked and varied."""

from planner.scenario.assumptions import VERDICT, AssumedStack, Assumption, BreakEven
from planner.scenario.overrides import parsed_key
from planner.scenario.parts import (
    CapacityRule,
    Claim,
    Comparison,
    Link,
    LinkTier,
    Measurement,
    ModelChoice,
    Objective,
    Period,
    Pool,
    Price,
    Routing,
    Site,
    Slo,
    Spare,
    WorkloadClass,
)
from planner.scenario.question import Scenario, bundled_scenarios, load_scenario, read_scenario, scenario_path

__all__ = [
    "VERDICT",
    "AssumedStack",
    "Assumption",
    "BreakEven",
    "CapacityRule",
    "Claim",
    "Comparison",
    "Link",
    "LinkTier",
    "Measurement",
    "ModelChoice",
    "Objective",
    "Period",
    "Pool",
    "Price",
    "Routing",
    "Scenario",
    "Site",
    "Slo",
    "Spare",
    "WorkloadClass",
    "bundled_scenarios",
    "load_scenario",
    "parsed_key",
    "read_scenario",
    "scenario_path",
]
