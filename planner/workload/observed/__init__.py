"""Demand as it was observed: tables of requests of any size, metrics of serving software, results of benchmarks."""

from planner.workload.observed.counted_lengths import CountedLengths
from planner.workload.observed.demand import HourRate, Observed
from planner.workload.observed.reader import observed

__all__ = ["CountedLengths", "HourRate", "Observed", "observed"]
