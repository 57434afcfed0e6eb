"""From shapes and measurements to seconds and bytes of one instance."""

from planner.roofline.instance import DecodePoint, InstanceRates, exposed_transfer_s, instance_rates
from planner.roofline.kv_cache import (
    index_key_bytes_per_token,
    kv_bytes,
    kv_bytes_curve,
    kv_bytes_per_token,
    recurrent_state_bytes,
    window_bytes,
    wire_bytes,
)
from planner.roofline.kv_memory import kv_bytes_per_rank, physical_kv_bytes, physical_kv_bytes_per_token
from planner.roofline.mlp import distinct_experts
from planner.roofline.operator import Gemm, Operator, total_bytes, total_flop
from planner.roofline.operators import decode_operators, pass_operators, prefill_operators
from planner.roofline.sequences import Sequences
from planner.roofline.weights import bytes_per_weight, weights_bytes

__all__ = [
    "DecodePoint",
    "Gemm",
    "InstanceRates",
    "Operator",
    "Sequences",
    "bytes_per_weight",
    "decode_operators",
    "distinct_experts",
    "exposed_transfer_s",
    "index_key_bytes_per_token",
    "instance_rates",
    "kv_bytes",
    "kv_bytes_curve",
    "kv_bytes_per_rank",
    "kv_bytes_per_token",
    "pass_operators",
    "physical_kv_bytes",
    "physical_kv_bytes_per_token",
    "prefill_operators",
    "recurrent_state_bytes",
    "total_bytes",
    "total_flop",
    "weights_bytes",
    "window_bytes",
    "wire_bytes",
]
