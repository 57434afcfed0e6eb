"""Queueing: pure maths, rates and moments in, waits and quantiles out."""

from planner.queueing.erlang import erlang_b, erlang_c
from planner.queueing.mgc import (
    NO_WAIT,
    Wait,
    mdc_mean_wait_s,
    mean_wait_s,
    mgc_wait,
    mmc_mean_wait_s,
    utilization_fraction,
)
from planner.queueing.service import Service
from planner.queueing.staffing import QueuedRequests, late_fraction, most_busy_servers
from planner.queueing.ttft import Path, Ttft

__all__ = [
    "NO_WAIT",
    "Path",
    "QueuedRequests",
    "Service",
    "Ttft",
    "Wait",
    "erlang_b",
    "erlang_c",
    "late_fraction",
    "mdc_mean_wait_s",
    "mean_wait_s",
    "mgc_wait",
    "mmc_mean_wait_s",
    "most_busy_servers",
    "utilization_fraction",
]
