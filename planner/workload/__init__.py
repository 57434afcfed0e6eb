"""The workload of the system: lengths, arrivals, prefix hits and traces.

The stated workload loads at once; the mathematics on first use, so that a command without any starts quickly.

Public modules:

    distributions           moments and quantiles of lengths
    hits                    hits of a prefix cache
    lengths                 lengths that a scenario can state
    observed                demand as it was observed
    observed.bench          demand of a benchmark's run
    observed.request_table  requests one a line
    requests                from a workload as stated to its request mix
    spec                    the workload of the system, as a scenario states it
    trace_arrivals          rate and bursts of a trace
    traces                  recorded requests, read line by line
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use
from planner.workload.spec import TraceFile, Workload

if TYPE_CHECKING:
    from planner.workload.atom_mix import AtomMix
    from planner.workload.distributions import distribution, weighted_quantile
    from planner.workload.length_mix import LengthMix
    from planner.workload.mix import ALL_LONG, OutputAtoms, RequestAtoms, RequestMix
    from planner.workload.requests import request_mix, trace_mix
    from planner.workload.traces import Trace, read_trace

_LAZY = {
    "distribution": "distributions",
    "weighted_quantile": "distributions",
    "ALL_LONG": "mix",
    "AtomMix": "atom_mix",
    "LengthMix": "length_mix",
    "OutputAtoms": "mix",
    "RequestAtoms": "mix",
    "RequestMix": "mix",
    "request_mix": "requests",
    "trace_mix": "requests",
    "Trace": "traces",
    "read_trace": "traces",
}

__all__ = [
    "ALL_LONG",
    "AtomMix",
    "LengthMix",
    "OutputAtoms",
    "RequestAtoms",
    "RequestMix",
    "Trace",
    "TraceFile",
    "Workload",
    "distribution",
    "read_trace",
    "request_mix",
    "trace_mix",
    "weighted_quantile",
]

__getattr__ = on_first_use(__name__, _LAZY)
