"""Queueing: pure maths, rates and moments in, waits and quantiles out.

Public modules:

    erlang     Erlang's formulas B and C
    pass_loop  the passes of a colocated instance, and the prompts that it gets
    waits      the wait of GI/G/c, as a distribution
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use
from planner.queueing.packing import Packing, packing

if TYPE_CHECKING:
    from planner.queueing.colocated import (
        ColocatedQueue,
        colocated_capacity_req_per_s,
        colocated_queue,
        full_instance_rate,
        steady_pass_s,
    )
    from planner.queueing.colocated_doubts import DOUBTS, Doubt
    from planner.queueing.decode import DecodeBatch, decode_batch
    from planner.queueing.decode_admission import place_waits
    from planner.queueing.decode_only_arrivals import (
        JoinedQueue,
        joined_capacity_req_per_s,
        joined_prompts,
        joined_queue,
    )
    from planner.queueing.erlang import erlang_b, erlang_c
    from planner.queueing.gigc import Delay, delay
    from planner.queueing.mgc import mean_wait_s, mmc_mean_wait_s, utilization_fraction
    from planner.queueing.pass_loop import PassLoop, Prompts
    from planner.queueing.phases import MarkovArrivals, Phases, renewal_arrivals, two_phases
    from planner.queueing.preemption import Held, Preemption, preemption_when_full
    from planner.queueing.processor_sharing import ALONE, ENDLESS, Senders, TransferSlowdown, alone_s, link_stretch
    from planner.queueing.service import Service
    from planner.queueing.single_server import deterministic_wait, exponential_wait
    from planner.queueing.staffing import QueuedRequests, late_fraction, most_busy_servers, most_timely_servers
    from planner.queueing.streams import merged_scv, split_scv
    from planner.queueing.ttft import Path, Ttft
    from planner.queueing.wait import NO_WAIT, Wait, sum_of_waits
    from planner.queueing.waits import Waits, gigc_wait, gigc_waits, mgc_wait

_LAZY = {
    "ALONE": "processor_sharing",
    "ColocatedQueue": "colocated",
    "DOUBTS": "colocated_doubts",
    "Doubt": "colocated_doubts",
    "DecodeBatch": "decode",
    "Delay": "gigc",
    "ENDLESS": "processor_sharing",
    "JoinedQueue": "decode_only_arrivals",
    "MarkovArrivals": "phases",
    "NO_WAIT": "wait",
    "PassLoop": "pass_loop",
    "Path": "ttft",
    "Phases": "phases",
    "Prompts": "pass_loop",
    "QueuedRequests": "staffing",
    "Senders": "processor_sharing",
    "Service": "service",
    "TransferSlowdown": "processor_sharing",
    "Ttft": "ttft",
    "Wait": "wait",
    "Waits": "waits",
    "alone_s": "processor_sharing",
    "colocated_capacity_req_per_s": "colocated",
    "colocated_queue": "colocated",
    "full_instance_rate": "colocated",
    "Held": "preemption",
    "Preemption": "preemption",
    "preemption_when_full": "preemption",
    "decode_batch": "decode",
    "delay": "gigc",
    "deterministic_wait": "single_server",
    "erlang_b": "erlang",
    "erlang_c": "erlang",
    "exponential_wait": "single_server",
    "gigc_wait": "waits",
    "gigc_waits": "waits",
    "late_fraction": "staffing",
    "joined_capacity_req_per_s": "decode_only_arrivals",
    "joined_prompts": "decode_only_arrivals",
    "joined_queue": "decode_only_arrivals",
    "link_stretch": "processor_sharing",
    "mean_wait_s": "mgc",
    "merged_scv": "streams",
    "mgc_wait": "waits",
    "mmc_mean_wait_s": "mgc",
    "most_busy_servers": "staffing",
    "most_timely_servers": "staffing",
    "place_waits": "decode_admission",
    "renewal_arrivals": "phases",
    "split_scv": "streams",
    "steady_pass_s": "colocated",
    "sum_of_waits": "wait",
    "two_phases": "phases",
    "utilization_fraction": "mgc",
}

__all__ = [
    "Held",
    "Preemption",
    "full_instance_rate",
    "preemption_when_full",
    "steady_pass_s",
    "colocated_queue",
    "colocated_capacity_req_per_s",
    "JoinedQueue",
    "joined_capacity_req_per_s",
    "joined_prompts",
    "joined_queue",
    "Prompts",
    "PassLoop",
    "ColocatedQueue",
    "DOUBTS",
    "Doubt",
    "ALONE",
    "ENDLESS",
    "NO_WAIT",
    "DecodeBatch",
    "Delay",
    "MarkovArrivals",
    "Packing",
    "Path",
    "Phases",
    "QueuedRequests",
    "Senders",
    "Service",
    "TransferSlowdown",
    "Ttft",
    "Wait",
    "Waits",
    "alone_s",
    "decode_batch",
    "delay",
    "deterministic_wait",
    "erlang_b",
    "erlang_c",
    "exponential_wait",
    "gigc_wait",
    "gigc_waits",
    "late_fraction",
    "link_stretch",
    "mean_wait_s",
    "merged_scv",
    "mgc_wait",
    "mmc_mean_wait_s",
    "most_busy_servers",
    "most_timely_servers",
    "packing",
    "place_waits",
    "renewal_arrivals",
    "split_scv",
    "sum_of_waits",
    "two_phases",
    "utilization_fraction",
]

__getattr__ = on_first_use(__name__, _LAZY)
