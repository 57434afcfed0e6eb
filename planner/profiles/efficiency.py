"""Efficiencies of kernels at an accelerator's peaks: measured fractions and latencies, each with its source.

The peaks themselves are never derated: a fraction is its own figure beside them. M is the number of rows of a matrix
product, the tokens that go through a weight at once.
"""

from collections.abc import Mapping
from math import inf

from planner.profiles.figure import Figure
from planner.schema import StrictModel


class Efficiencies(StrictModel):
    """Measured efficiencies of one accelerator; what nobody measured is absent."""

    gemm_bf16_m1_fraction: Figure | None = None
    """bf16 product of one row with weights streamed from memory [fraction of the dense bf16 peak]."""
    gemm_bf16_m2_fraction: Figure | None = None
    """The same of two rows [fraction of the dense bf16 peak]."""
    gemm_bf16_m4_fraction: Figure | None = None
    """The same of four rows [fraction of the dense bf16 peak]."""
    gemm_bf16_m16_fraction: Figure | None = None
    """The same of 16 rows [fraction of the dense bf16 peak]."""
    gemm_bf16_m64_fraction: Figure | None = None
    """The same of 64 rows [fraction of the dense bf16 peak]."""
    gemm_bf16_m256_fraction: Figure | None = None
    """bf16 matrix product, M about 256 and so in part bound by memory [fraction of the dense bf16 peak]."""
    gemm_bf16_m1536_fraction: Figure | None = None
    """bf16 matrix product, M of 1000 to 2100 [fraction of the dense bf16 peak]."""
    gemm_bf16_m4096_fraction: Figure | None = None
    """bf16 matrix product, M of 4096 or more [fraction of the dense bf16 peak]."""
    gemm_fp8_m256_fraction: Figure | None = None
    """fp8 matrix product with one scale per tensor, M about 256 [fraction of the dense fp8 peak]."""
    gemm_fp8_m1536_fraction: Figure | None = None
    """fp8 matrix product with one scale per tensor, M of 1000 to 2100 [fraction of the dense fp8 peak]."""
    gemm_fp8_m4096_fraction: Figure | None = None
    """fp8 matrix product with one scale per tensor, M of 4096 or more [fraction of the dense fp8 peak]."""
    gemm_fp8_block_m256_fraction: Figure | None = None
    """fp8 matrix product with one scale per block of 128, M about 256 [fraction of the dense fp8 peak]."""
    gemm_fp8_block_m1536_fraction: Figure | None = None
    """fp8 matrix product with one scale per block of 128, M of 1000 to 2100 [fraction of the dense fp8 peak]."""
    gemm_fp8_block_m4096_fraction: Figure | None = None
    """fp8 matrix product with one scale per block of 128, M of 4096 or more [fraction of the dense fp8 peak]."""
    gemm_fp4_m256_fraction: Figure | None = None
    """nvfp4 matrix product, M about 256 [fraction of the dense fp4 peak]."""
    gemm_fp4_m1536_fraction: Figure | None = None
    """nvfp4 matrix product, M of 1000 to 2100 [fraction of the dense fp4 peak]."""
    gemm_fp4_m4096_fraction: Figure | None = None
    """nvfp4 matrix product, M of 4096 or more [fraction of the dense fp4 peak]."""
    weight_read_bf16_fraction: Figure | None = None
    """Reading bf16 weights in a product with M up to 8 [fraction of the peak memory bandwidth]."""
    weight_read_fp8_fraction: Figure | None = None
    """Reading fp8 weights in a product with M up to 8 [fraction of the peak memory bandwidth]."""
    weight_read_fp8_block_fraction: Figure | None = None
    """The same with one scale per block of 128 [fraction of the peak memory bandwidth]."""
    weight_read_fp4_fraction: Figure | None = None
    """Reading nvfp4 weights in a product with M up to 8 [fraction of the peak memory bandwidth]."""
    attention_prefill_fraction: Figure | None = None
    """Causal attention of prompts of 8k to 16k tokens [fraction of the dense bf16 peak]."""
    attention_half_tokens: Figure | None = None
    """Length of a prompt at which starting tiles takes attention as long as all its products [tokens]."""
    attention_tail_tiles: Figure | None = None
    """What attention loses at its end, while processors run dry, in tiles of 128 queries of one head and most keys,
    each at the peak of the whole accelerator [tiles]."""
    attention_decode_fraction: Figure | None = None
    """Reading the KV cache in decode attention [fraction of the peak memory bandwidth]."""
    moe_bf16_m16_fraction: Figure | None = None
    """Products of experts, bf16, M about 16 rows of each [fraction of the dense bf16 peak]."""
    moe_bf16_m64_fraction: Figure | None = None
    """The same with about 64 rows of each expert [fraction of the dense bf16 peak]."""
    moe_bf16_m256_fraction: Figure | None = None
    """The same with about 256 rows of each expert [fraction of the dense bf16 peak]."""
    moe_bf16_m1024_fraction: Figure | None = None
    """The same with about 1024 rows of each expert [fraction of the dense bf16 peak]."""
    moe_bf16_m4096_fraction: Figure | None = None
    """The same with about 4096 rows of each expert [fraction of the dense bf16 peak]."""
    moe_fp8_m16_fraction: Figure | None = None
    """Products of experts, fp8 in blocks, M about 16 rows of each [fraction of the dense fp8 peak]."""
    moe_fp8_m64_fraction: Figure | None = None
    """The same with about 64 rows of each expert [fraction of the dense fp8 peak]."""
    moe_fp8_m256_fraction: Figure | None = None
    """The same with about 256 rows of each expert [fraction of the dense fp8 peak]."""
    moe_fp8_m1024_fraction: Figure | None = None
    """The same with about 1024 rows of each expert [fraction of the dense fp8 peak]."""
    moe_fp8_m4096_fraction: Figure | None = None
    """The same with about 4096 rows of each expert [fraction of the dense fp8 peak]."""
    moe_fp4_m16_fraction: Figure | None = None
    """Products of experts, nvfp4, M about 16 rows of each [fraction of the dense fp4 peak]."""
    moe_fp4_m64_fraction: Figure | None = None
    """The same with about 64 rows of each expert [fraction of the dense fp4 peak]."""
    moe_fp4_m256_fraction: Figure | None = None
    """The same with about 256 rows of each expert [fraction of the dense fp4 peak]."""
    moe_fp4_m1024_fraction: Figure | None = None
    """The same with about 1024 rows of each expert [fraction of the dense fp4 peak]."""
    moe_fp4_m4096_fraction: Figure | None = None
    """The same with about 4096 rows of each expert [fraction of the dense fp4 peak]."""
    moe_w4a16_m16_fraction: Figure | None = None
    """Products of experts, 4-bit by bf16, M about 16 rows of each [fraction of the dense bf16 peak]."""
    moe_w4a16_m64_fraction: Figure | None = None
    """The same with about 64 rows of each expert [fraction of the dense bf16 peak]."""
    moe_w4a16_m256_fraction: Figure | None = None
    """The same with about 256 rows of each expert [fraction of the dense bf16 peak]."""
    moe_w4a16_m1024_fraction: Figure | None = None
    """The same with about 1024 rows of each expert [fraction of the dense bf16 peak]."""
    moe_w4a16_m4096_fraction: Figure | None = None
    """The same with about 4096 rows of each expert [fraction of the dense bf16 peak]."""
    moe_w4a8_m16_fraction: Figure | None = None
    """Products of experts, 4-bit by fp8, M about 16 rows of each [fraction of the dense fp8 peak]."""
    moe_w4a8_m64_fraction: Figure | None = None
    """The same with about 64 rows of each expert [fraction of the dense fp8 peak]."""
    moe_w4a8_m256_fraction: Figure | None = None
    """The same with about 256 rows of each expert [fraction of the dense fp8 peak]."""
    moe_w4a8_m1024_fraction: Figure | None = None
    """The same with about 1024 rows of each expert [fraction of the dense fp8 peak]."""
    moe_w4a8_m4096_fraction: Figure | None = None
    """The same with about 4096 rows of each expert [fraction of the dense fp8 peak]."""
    grouped_fp8_m256_fraction: Figure | None = None
    """Grouped fp8 products of experts whose tokens lie side by side, as an exchange lays them, 256 rows of each expert
    [fraction of the dense fp8 peak]."""
    grouped_fp8_m4096_fraction: Figure | None = None
    """The same with 4096 rows of each expert or more [fraction of the dense fp8 peak]."""
    moe_weight_read_bf16_fraction: Figure | None = None
    """Reading weights of experts, bf16, with up to 8 rows of each [fraction of the peak memory bandwidth]."""
    moe_weight_read_fp8_fraction: Figure | None = None
    """Reading weights of experts, fp8 in blocks, with up to 8 rows of each [fraction of the peak memory bandwidth]."""
    moe_weight_read_fp4_fraction: Figure | None = None
    """Reading weights of experts, nvfp4, with up to 8 rows of each [fraction of the peak memory bandwidth]."""
    moe_weight_read_w4a16_fraction: Figure | None = None
    """Reading weights of experts, 4-bit by bf16, with up to 8 rows of each [fraction of the peak memory bandwidth]."""
    moe_weight_read_w4a8_fraction: Figure | None = None
    """Reading weights of experts, 4-bit by fp8, with up to 8 rows of each [fraction of the peak memory bandwidth]."""
    moe_bf16_start_us: Figure | None = None
    """Start of a layer's experts, bf16: what the block takes beyond reading and products [us]."""
    moe_fp8_start_us: Figure | None = None
    """Start of a layer's experts, fp8 in blocks: what the block takes beyond reading and products [us]."""
    moe_fp4_start_us: Figure | None = None
    """Start of a layer's experts, nvfp4: what the block takes beyond reading and products [us]."""
    moe_w4a16_start_us: Figure | None = None
    """Start of a layer's experts, 4-bit by bf16: what the block takes beyond reading and products [us]."""
    moe_w4a8_start_us: Figure | None = None
    """Start of a layer's experts, 4-bit by fp8: what the block takes beyond reading and products [us]."""
    all_reduce_fraction: Figure | None = None
    """Bus bandwidth of a large all-reduce over the largest group measured in one server [fraction of the scale-up link,
    one direction]; with reduction inside the network it is not a wire rate and may exceed 1."""
    all_reduce_2_fraction: Figure | None = None
    """The same over two accelerators [fraction of the scale-up link, one direction]."""
    all_reduce_4_fraction: Figure | None = None
    """The same over four accelerators [fraction of the scale-up link, one direction]."""
    all_reduce_latency_us: Figure | None = None
    """Small all-reduce of one server, 8192 elements [us]."""
    all_to_all_fraction: Figure | None = None
    """Dispatch of tokens to experts inside one server [fraction of the scale-up link, one direction]."""
    recurrence_fraction: Figure | None = None
    """Chunkwise delta-rule prefill when many heads fill the accelerator [fraction of the dense bf16 peak], of
    6 d^2 + 5 C d + C^2 FLOP per token and head, head dimension d = 128, chunk C = 64."""
    recurrence_chunk_us: Figure | None = None
    """Serial time per chunk of 64 tokens of the same prefill when few heads are on the accelerator [us]."""
    recurrence_decode_fraction: Figure | None = None
    """Reading and writing fp32 recurrent states in decode [fraction of the peak memory bandwidth]."""


ALL_REDUCE_RANKS: Mapping[str, float] = {
    "all_reduce_2_fraction": 2,
    "all_reduce_4_fraction": 4,
    "all_reduce_fraction": inf,
}
"""Most ranks of the group that each bus bandwidth was measured over, smallest first."""

_COMPUTE = {
    f"{kind}_{precision}_": precision for kind in ("gemm", "moe", "grouped") for precision in ("bf16", "fp8", "fp4")
}
_COMPUTE |= {"moe_w4a16_": "bf16", "moe_w4a8_": "fp8"}
_WHOLE_OF_PREFIX = {
    **{prefix: f"{precision}_tflops" for prefix, precision in _COMPUTE.items()},
    "attention_prefill_": "bf16_tflops",
    "recurrence_fraction": "bf16_tflops",
    **dict.fromkeys(("weight_read_", "attention_decode_"), "memory_bandwidth_tb_per_s"),
    **dict.fromkeys(("moe_weight_read_", "recurrence_decode_"), "memory_bandwidth_tb_per_s"),
    **dict.fromkeys((*ALL_REDUCE_RANKS, "all_to_all_"), "scaleup_gb_per_s"),
}

WHOLES: Mapping[str, str] = {
    key: whole
    for key in Efficiencies.model_fields
    for prefix, whole in _WHOLE_OF_PREFIX.items()
    if key.startswith(prefix) and key.endswith("_fraction")
}
"""Figure that each efficiency is a fraction of, by key; times are fractions of nothing and not here."""


def all_reduce_keys(n_ranks: int) -> list[str]:
    """Bus bandwidths that may stand for an all-reduce over so many ranks: of groups that hold them, smallest first.

    >>> all_reduce_keys(3)
    ['all_reduce_4_fraction', 'all_reduce_fraction']
    """
    return [key for key, most in ALL_REDUCE_RANKS.items() if n_ranks <= most]
