"""Queueing: pure maths, rates and moments in, waits and quantiles out.

Public modules:

    colocated             waits where prompts and decode share passes
    colocated_doubts      where that model is known to be off
    decode                batches of decode, as a birth-death process
    decode_admission      waits for a place in a decode batch
    decode_only_arrivals  sequences that join to decode, prefilled elsewhere
    erlang                Erlang's formulas B and C
    packing               requests that fit a room in their order
    pass_loop             the passes of a colocated instance, and the prompts that it gets
    preemption            sequences that give way in a full cache
    processor_sharing     delay that a shared link adds to transfers
    service               a service time of finitely many values
    staffing              greatest utilisation within an allowance of late requests
    streams               variability of split and merged arrivals
    ttft                  time to first token over several pools
    wait                  a wait as a table of its distribution
    waits                 the wait of GI/G/c, as a distribution
"""
