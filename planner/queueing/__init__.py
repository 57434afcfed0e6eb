"""Queueing: pure maths, rates and moments in, waits and quantiles out."""

from typing import TYPE_CHECKING

from planner.loading import on_first_use
from planner.queueing.packing import Packing, packing

if TYPE_CHECKING:
    from planner.queueing.chain import Chain, phase_chain
    from planner.queueing.colocated import (
        ColocatedQueue,
        PassLoop,
        Prompts,
        colocated_capacity_req_per_s,
        colocated_queue,
        kept_full,
        steady_pass_s,
    )
    from planner.queueing.colocated_doubts import DOUBTS, Doubt
    from planner.queueing.decode import DecodeBatch, birth_death_fractions, decode_batch
    from planner.queueing.decode_admission import place_wait, place_waits
    from planner.queueing.decode_only_arrivals import (
        JoinedQueue,
        joined_capacity_req_per_s,
        joined_prompts,
        joined_queue,
    )
    from planner.queueing.erlang import erlang_b, erlang_c
    from planner.queueing.gigc import Delay, delay
    from planner.queueing.mgc import mdc_mean_wait_s, mean_wait_s, mmc_mean_wait_s, utilization_fraction
    from planner.queueing.phases import MarkovArrivals, Phases, renewal_arrivals, two_phases
    from planner.queueing.preemption import Held, Preemption, preemption_when_full
    from planner.queueing.processor_sharing import ALONE, ENDLESS, Senders, Stretch, alone_s, link_stretch
    from planner.queueing.service import Service
    from planner.queueing.single_server import deterministic_wait, exponential_wait
    from planner.queueing.staffing import QueuedRequests, late_fraction, most_busy_servers, most_timely_servers
    from planner.queueing.streams import merged_scv, split_scv
    from planner.queueing.ttft import Path, Ttft
    from planner.queueing.wait import NO_WAIT, Wait, sum_of_waits
    from planner.queueing.waits import Waits, gigc_wait, gigc_waits, mgc_wait

_LAZY = {
    "ALONE": "processor_sharing",
    "Chain": "chain",
    "ColocatedQueue": "colocated",
    "DOUBTS": "colocated_doubts",
    "Doubt": "colocated_doubts",
    "DecodeBatch": "decode",
    "Delay": "gigc",
    "ENDLESS": "processor_sharing",
    "JoinedQueue": "decode_only_arrivals",
    "MarkovArrivals": "phases",
    "NO_WAIT": "wait",
    "PassLoop": "colocated",
    "Path": "ttft",
    "Phases": "phases",
    "Prompts": "colocated",
    "QueuedRequests": "staffing",
    "Senders": "processor_sharing",
    "Service": "service",
    "Stretch": "processor_sharing",
    "Ttft": "ttft",
    "Wait": "wait",
    "Waits": "waits",
    "alone_s": "processor_sharing",
    "birth_death_fractions": "decode",
    "colocated_capacity_req_per_s": "colocated",
    "colocated_queue": "colocated",
    "kept_full": "colocated",
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
    "mdc_mean_wait_s": "mgc",
    "mean_wait_s": "mgc",
    "merged_scv": "streams",
    "mgc_wait": "waits",
    "mmc_mean_wait_s": "mgc",
    "most_busy_servers": "staffing",
    "most_timely_servers": "staffing",
    "phase_chain": "chain",
    "place_wait": "decode_admission",
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
    "kept_full",
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
    "Chain",
    "DecodeBatch",
    "Delay",
    "MarkovArrivals",
    "Packing",
    "Path",
    "Phases",
    "QueuedRequests",
    "Senders",
    "Service",
    "Stretch",
    "Ttft",
    "Wait",
    "Waits",
    "alone_s",
    "birth_death_fractions",
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
    "mdc_mean_wait_s",
    "mean_wait_s",
    "merged_scv",
    "mgc_wait",
    "mmc_mean_wait_s",
    "most_busy_servers",
    "most_timely_servers",
    "packing",
    "phase_chain",
    "place_wait",
    "place_waits",
    "renewal_arrivals",
    "split_scv",
    "sum_of_waits",
    "two_phases",
    "utilization_fraction",
]

__getattr__ = on_first_use(__name__, _LAZY)
