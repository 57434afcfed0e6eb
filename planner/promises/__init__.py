"""Promises kept: a plan is found, run request by request, tightened or relaxed, and run again with other seeds.

verified        the plan of a scenario, whose promises its runs bear out
certify         the same of every period, promise, rate and decode step, or none
tighten         rounds of search and runs: targets that are stricter by what a run missed
cheaper_fleets  fleets of fewer instances, which the latency model excludes by less than its error
raise_rate      higher rates, where a run leaves room
targets         what the optimizer is asked to promise
period_results  runs of the periods of a plan, until what is promised is decided
outcomes        promises beside a run: kept, broken, or undecided
slo_runs        what runs made of a promise, as a plan states it
validation      predictions of a plan beside its run, metric by metric
plan_to_run     a plan without what a run asks nothing of
ways_out        runs of ways out of infeasibility
"""

__all__ = ()
