"""Promises kept: a plan is found, run request by request, tightened or relaxed, and run again with other seeds.

Public modules:

    certify      a plan run before anybody relies on it: every promise, rate and step
    outcomes     promises beside a run: kept, broken or undecided
    plan_to_run  a plan without what runs do not ask for
    validation   predictions of a plan beside its run
    verified     the plan whose promises its runs bear out
"""
