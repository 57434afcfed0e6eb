"""The hybrid model really run on this machine beside what was predicted for it."""

from planner.studies.live.execution import LiveExecution, LivePlan, execute_live
from planner.studies.live.forecast import Forecast, forecast
from planner.studies.live.measuring import measure_machine
from planner.studies.live.question import LiveQuestion, live_model, stratified_requests, worker_specs
from planner.studies.live.study import Executor, LiveStudy, live

__all__ = [
    "LiveExecution",
    "Executor",
    "Forecast",
    "LivePlan",
    "LiveQuestion",
    "LiveStudy",
    "stratified_requests",
    "execute_live",
    "forecast",
    "live",
    "live_model",
    "measure_machine",
    "worker_specs",
]
