"""The hybrid model really run on this machine beside what was predicted for it."""

from planner.studies.live.execution import Executed, LivePlan, execute
from planner.studies.live.forecast import Forecast, forecast
from planner.studies.live.measuring import measure
from planner.studies.live.question import LiveQuestion, drawn_requests, live_model, worker_specs
from planner.studies.live.study import Executor, LiveStudy, live

__all__ = [
    "Executed",
    "Executor",
    "Forecast",
    "LivePlan",
    "LiveQuestion",
    "LiveStudy",
    "drawn_requests",
    "execute",
    "forecast",
    "live",
    "live_model",
    "measure",
    "worker_specs",
]
