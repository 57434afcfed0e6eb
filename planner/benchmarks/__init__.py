"""Results of serving benchmarks: one module per format, one record for all of them.

Public modules:

    reader         tells formats of benchmark results apart, and reads them
    sglang_server  what an SGLang server says of itself in a result
"""

from planner.benchmarks.looks import looks_like
from planner.benchmarks.reader import FORMATS, benchmark_runs, json_values
from planner.benchmarks.run import BenchmarkRun, Statistics

__all__ = ["FORMATS", "BenchmarkRun", "Statistics", "benchmark_runs", "json_values", "looks_like"]
