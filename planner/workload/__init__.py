"""The workload of the system: lengths, arrivals, prefix hits and traces.

What a scenario states of it (`spec`) loads no mathematics, so that a command without any starts quickly.

Public modules:

    distributions           moments and quantiles of lengths
    hits                    hits of a prefix cache
    lengths                 lengths that a scenario can state
    mix                     prompts, work and bytes of a class, by threshold
    observed                demand as it was observed
    observed.bench          demand of a benchmark's run
    observed.request_table  requests one a line
    requests                from a workload as stated to its request mix
    spec                    the workload of the system, as a scenario states it
    trace_arrivals          rate and bursts of a trace
    traces                  recorded requests, read line by line
"""
