"""From shapes and measurements to seconds and bytes of one instance.

Public modules:

    chip           rates that kernels reach on one accelerator
    engine_memory  memory that an engine keeps beside weights and caches
    factors        the few numbers of a software stack
    formats        number formats that matrix products run at
    instance       prefill, hand-over and decode of one instance
    kv_cache       bytes that a prefill hands to decode
    kv_memory      bytes of a request's cache on every rank
    layout         parallel sizes of an instance
    layouts        layouts that a model and an accelerator allow
    memory_fit     sequences that fit beside the weights
    operator       flops and bytes of one operator
    pass_time      seconds of forward passes
    rank_work      work of one rank in a pass
    served_model   a model on one instance under one stack
    stack          software stacks by name
    weights        bytes of the weights
"""

from planner.roofline.asked_instance import instance_model, stack_of
from planner.roofline.chip import Chip
from planner.roofline.closed_loop import SERVING_BENCHMARK, LoopTimes, closed_loop_latency
from planner.roofline.colocated import MeanRequest, MixedPasses, linear_memory, mixed_passes
from planner.roofline.colocated_engine import ColocatedEngine, colocated_engine
from planner.roofline.engine_memory import MOST_RUNNING
from planner.roofline.factors import FACTOR_NAMES, Factors
from planner.roofline.instance import (
    DecodeLimit,
    InstanceRates,
    RatesBasis,
    Setup,
    emulation,
    exposed_transfer_s,
    instance_rates,
    roofline_prefill,
)
from planner.roofline.kv_cache import (
    index_key_bytes_per_token,
    kv_bytes,
    kv_bytes_curve,
    kv_bytes_per_token,
    recurrent_state_bytes,
    window_bytes,
    wire_bytes,
)
from planner.roofline.kv_memory import BLOCK_TOKENS, kv_bytes_per_rank, physical_kv_bytes, physical_kv_bytes_per_token
from planner.roofline.layout import Layout
from planner.roofline.memory_fit import MemoryFit, longest_request, memory_fit
from planner.roofline.mixed_pass import PromptTokens, mixed_pass_time
from planner.roofline.mlp import distinct_experts
from planner.roofline.operator import Gemm, Operator
from planner.roofline.operators import pass_operators
from planner.roofline.pass_time import PassTime, operator_seconds, pass_time
from planner.roofline.pass_times import PassTimes, Reach, pass_times
from planner.roofline.rank_work import RankWork, rank_work
from planner.roofline.request_kinds import RequestKinds, cells, held_dispersion, most_held, strata
from planner.roofline.sequences import Sequences
from planner.roofline.served_model import InstanceModel, prefill_passes
from planner.roofline.speculation import mtp_model, tokens_per_step, tokens_per_step_variance
from planner.roofline.stack import (
    RunAs,
    Stack,
    altered,
    best_stack,
    chosen_stack,
    expert_traffic,
    factors_of,
    product_formats,
    settings_on,
    stack,
    stack_of_profile,
)
from planner.roofline.weights import bytes_per_weight, weights_bytes

__all__ = [
    "ColocatedEngine",
    "MOST_RUNNING",
    "RequestKinds",
    "cells",
    "held_dispersion",
    "colocated_engine",
    "most_held",
    "strata",
    "MeanRequest",
    "MixedPasses",
    "linear_memory",
    "mixed_passes",
    "BLOCK_TOKENS",
    "Chip",
    "DecodeLimit",
    "FACTOR_NAMES",
    "Factors",
    "Gemm",
    "InstanceRates",
    "Layout",
    "LoopTimes",
    "MemoryFit",
    "Operator",
    "PassTime",
    "PromptTokens",
    "RankWork",
    "RatesBasis",
    "SERVING_BENCHMARK",
    "Sequences",
    "InstanceModel",
    "Setup",
    "RunAs",
    "Stack",
    "altered",
    "chosen_stack",
    "best_stack",
    "bytes_per_weight",
    "closed_loop_latency",
    "distinct_experts",
    "emulation",
    "exposed_transfer_s",
    "factors_of",
    "index_key_bytes_per_token",
    "instance_rates",
    "kv_bytes",
    "kv_bytes_curve",
    "kv_bytes_per_rank",
    "kv_bytes_per_token",
    "longest_request",
    "memory_fit",
    "mixed_pass_time",
    "PassTimes",
    "Reach",
    "pass_times",
    "operator_seconds",
    "pass_operators",
    "pass_time",
    "physical_kv_bytes",
    "physical_kv_bytes_per_token",
    "prefill_passes",
    "mtp_model",
    "tokens_per_step",
    "tokens_per_step_variance",
    "rank_work",
    "recurrent_state_bytes",
    "roofline_prefill",
    "expert_traffic",
    "settings_on",
    "product_formats",
    "instance_model",
    "stack",
    "stack_of",
    "stack_of_profile",
    "weights_bytes",
    "window_bytes",
    "wire_bytes",
]
