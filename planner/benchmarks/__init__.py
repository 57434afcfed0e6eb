"""Results of serving benchmarks: one module per format, one record for all of them.

Public modules: `reader` tells formats apart and reads them; `run` is the record; `looks` names files that are none.
"""

from planner.benchmarks.looks import looks_like
from planner.benchmarks.reader import FORMATS, benchmark_runs, json_values
from planner.benchmarks.run import BenchmarkRun, Statistics

__all__ = ["FORMATS", "BenchmarkRun", "Statistics", "benchmark_runs", "json_values", "looks_like"]
