"""The question: what is asked of the planner, read, checked and varied.

Public modules:

    bundled       where scenarios are: bundled ones by name, others by path
    own_profiles  profiles that a scenario brings by path
    usual         usual ranges of what scenarios and options state
"""

from planner.scenario.assumptions import VERDICT, AssumedStack, Assumption, BreakEven
from planner.scenario.bundled import bundled_scenarios, scenario_path
from planner.scenario.bursts import is_burstier, uneven_arrivals
from planner.scenario.colocated import not_planned
from planner.scenario.execution import (
    BurstArrivals,
    CacheRebalance,
    DiurnalArrivals,
    Execution,
    Fault,
    GammaArrivals,
    LinkExecution,
    LongTermScheduler,
    PoolExecution,
    PrefixCache,
    RecordedArrivals,
    ReportedRuns,
    Scheduler,
    Sessions,
    ShortTermScheduler,
)
from planner.scenario.hourly_cost import accelerator_usd_per_hour, busy_usd_per_hour
from planner.scenario.instances import at_pool, drafts_unknown, instance_spec, unmeasured
from planner.scenario.loading import load_scenario, read_scenario
from planner.scenario.located import is_path, located, seen_from
from planner.scenario.measurements import Claim, Measurement
from planner.scenario.moved import Move
from planner.scenario.notes import alike_classes, question_notes
from planner.scenario.overrides import parsed_key
from planner.scenario.parts import (
    CapacityRule,
    Comparison,
    Link,
    LinkTier,
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
from planner.scenario.question import Scenario
from planner.scenario.requests import requests_of

__all__ = [
    "accelerator_usd_per_hour",
    "busy_usd_per_hour",
    "VERDICT",
    "AssumedStack",
    "Assumption",
    "BreakEven",
    "BurstArrivals",
    "CacheRebalance",
    "CapacityRule",
    "Claim",
    "Comparison",
    "DiurnalArrivals",
    "Execution",
    "Fault",
    "GammaArrivals",
    "Link",
    "LinkExecution",
    "LinkTier",
    "LongTermScheduler",
    "Measurement",
    "ModelChoice",
    "Move",
    "Objective",
    "Period",
    "Pool",
    "PoolExecution",
    "PrefixCache",
    "Price",
    "RecordedArrivals",
    "ReportedRuns",
    "Routing",
    "Scenario",
    "Scheduler",
    "Sessions",
    "ShortTermScheduler",
    "Site",
    "Slo",
    "Spare",
    "WorkloadClass",
    "alike_classes",
    "instance_spec",
    "at_pool",
    "bundled_scenarios",
    "drafts_unknown",
    "is_burstier",
    "is_path",
    "load_scenario",
    "located",
    "parsed_key",
    "read_scenario",
    "not_planned",
    "question_notes",
    "requests_of",
    "scenario_path",
    "seen_from",
    "uneven_arrivals",
    "unmeasured",
]
