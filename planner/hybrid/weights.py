"""Random weights of every part of a model, drawn from a seed part by part: a layer's do not depend on the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from planner.hybrid.arrays import FloatArray
from planner.hybrid.kda import KdaWeights
from planner.hybrid.mla import MlaWeights
from planner.hybrid.mlp import DenseMlp, Mlp, SparseMlp
from planner.hybrid.shapes import LayerShape
from planner.profiles import Architecture, KdaLayers, MixtureOfExperts, MlaLayers

DECAY_RATES = (1.0, 16.0)
"""Range of a head's A, drawn evenly."""
DECAY_STEPS = (0.001, 0.1)
"""Range of the step sizes that the decay's bias stands for, drawn evenly in the logarithm; as Mamba begins."""


@dataclass(frozen=True, eq=False)
class Draw:
    """A source of random matrices of one format."""

    rng: np.random.Generator
    dtype: DTypeLike

    def matrix(self, *shape: int) -> FloatArray:
        """[..., in, out], normal with variance 1 / in: rows of unit variance stay so."""
        drawn: FloatArray = self.rng.standard_normal(shape, np.float32) / np.sqrt(shape[-2])
        return drawn.astype(self.dtype)

    def near_one(self, n: int) -> FloatArray:
        """A norm's weight, about 1, so that a norm left out would show."""
        return (1 + 0.1 * self.rng.standard_normal(n)).astype(self.dtype)

    def uniform(self, low: float, high: float, n: int) -> FloatArray:
        """A vector of values between two limits."""
        return self.rng.uniform(low, high, n).astype(self.dtype)


def draw(seed: int, part: int, dtype: DTypeLike) -> Draw:
    """The source of one part of a model."""
    return Draw(np.random.default_rng([seed, part]), dtype)


def kda_weights(source: Draw, group: KdaLayers, hidden: int) -> KdaWeights:
    """Weights of a KDA layer."""
    dim, n_heads = group.head_dim, group.n_heads
    inner = n_heads * dim
    gate = inner if group.full_rank_gate else dim
    steps = np.exp(source.uniform(float(np.log(DECAY_STEPS[0])), float(np.log(DECAY_STEPS[1])), inner))
    return KdaWeights(
        in_proj=source.matrix(hidden, 3 * inner + dim + gate + n_heads),
        decay_up=source.matrix(dim, inner),
        gate_up=None if group.full_rank_gate else source.matrix(dim, inner),
        convolution=source.matrix(group.conv_kernel, 3 * inner),
        decay_rate=source.uniform(*DECAY_RATES, n_heads),
        # softplus of the bias is the step size
        decay_bias=(steps + np.log(-np.expm1(-steps))).astype(source.dtype),
        out_norm=source.near_one(dim),
        o_proj=source.matrix(inner, hidden),
    )


def mla_weights(source: Draw, group: MlaLayers, hidden: int) -> MlaWeights:
    """Weights of an MLA layer whose shapes are known."""
    n_heads, nope, value = group.n_heads or 0, group.qk_nope_head_dim or 0, group.v_head_dim or 0
    rope, rank = group.qk_rope_head_dim, group.q_lora_rank
    return MlaWeights(
        q_a=source.matrix(hidden, rank) if rank else None,
        q_norm=source.near_one(rank) if rank else None,
        q_b=source.matrix(rank or hidden, n_heads * (nope + rope)),
        kv_a=source.matrix(hidden, group.kv_lora_rank + rope),
        kv_norm=source.near_one(group.kv_lora_rank),
        kv_b=source.matrix(group.kv_lora_rank, n_heads * (nope + value)),
        gate=source.matrix(hidden, n_heads * value) if group.output_gate else None,
        o_proj=source.matrix(n_heads * value, hidden),
    )


def mlp_weights(source: Draw, shape: LayerShape, architecture: Architecture) -> Mlp:
    """An MLP, dense or sparse as the layer has it."""
    hidden = architecture.hidden_size or 0
    if shape.is_sparse and architecture.moe:
        return _sparse(source, architecture.moe, hidden)
    return _dense(source, hidden, architecture.intermediate_size or 0)


def _dense(source: Draw, hidden: int, width: int, name: str = "") -> DenseMlp:
    return DenseMlp(source.matrix(hidden, 2 * width), source.matrix(width, hidden), name)


def _sparse(source: Draw, moe: MixtureOfExperts, hidden: int) -> SparseMlp:
    n, width = moe.n_experts, moe.expert_intermediate_size
    return SparseMlp(
        router=source.matrix(hidden, n),
        bias=source.uniform(-0.01, 0.01, n) if moe.router_bias else None,
        gate_up=source.matrix(n, hidden, 2 * width),
        down=source.matrix(n, width, hidden),
        shared=_dense(source, hidden, moe.n_shared_experts * moe.shared_width, "shared_")
        if moe.n_shared_experts
        else None,
        n_experts_per_token=moe.n_experts_per_token,
    )
