"""The judge of every plan: the planned system run request by request, sharing no formula with queueing or optimizer.

Only service times and byte counts are common, from the roofline or measured curves. The event loop (`kernel`) is
compiled on first use.

Public modules:

    engine        runs of one colocated pool by itself
    memory        memory that a run takes
    passes        how a colocated instance forms its passes
    periods       all periods of a plan, each run by itself
    run           replications of the planned system
    run_question  length and number of runs
    systems       from a scenario and its plan to the system that is run
"""
