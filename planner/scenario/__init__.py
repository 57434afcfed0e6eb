"""The question: what is asked of the planner, read, checked and varied."""

from planner.scenario.execution import Execution, Fault, LinkExecution, PoolExecution, PrefixCache
from planner.scenario.parts import (
    CapacityRule,
    Claim,
    Comparison,
    Link,
    LinkTier,
    ModelChoice,
    Objective,
    Pool,
    Price,
    Routing,
    Site,
    Slo,
    WorkloadClass,
)
from planner.scenario.question import Scenario, bundled_scenarios, load_scenario, read_scenario, scenario_path

__all__ = [
    "CapacityRule",
    "Claim",
    "Comparison",
    "Execution",
    "Fault",
    "Link",
    "LinkExecution",
    "LinkTier",
    "ModelChoice",
    "Objective",
    "Pool",
    "PoolExecution",
    "PrefixCache",
    "Price",
    "Routing",
    "Scenario",
    "Site",
    "Slo",
    "WorkloadClass",
    "bundled_scenarios",
    "load_scenario",
    "read_scenario",
    "scenario_path",
]
