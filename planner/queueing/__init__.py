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
from planner.queueing.ttft import Path, Ttft

__all__ = [
    "NO_WAIT",
    "Path",
    "Service",
    "Ttft",
    "Wait",
    "erlang_b",
    "erlang_c",
    "mdc_mean_wait_s",
    "mean_wait_s",
    "mgc_wait",
    "mmc_mean_wait_s",
    "utilization_fraction",
]
