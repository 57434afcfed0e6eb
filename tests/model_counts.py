"""Counts of models: operators of passes of one phase, what they sum to, and parameters of MTP layers."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from planner.profiles import ModelProfile, attention_parameters, missing_shapes, parameters_by_part
from planner.profiles.parameters import dense_mlp_parameters
from planner.profiles.projections import required
from planner.roofline import Operator, Sequences, pass_operators
from planner.roofline.operator import FloatArray


def prefill_operators(
    model: ModelProfile, new_tokens: ArrayLike, cached_tokens: ArrayLike = 0, n_sequences: ArrayLike = 1
) -> tuple[Operator, ...]:
    """Operators of a prefill of new tokens after cached ones; arrays broadcast together."""
    return pass_operators(model, [Sequences.prefill(new_tokens, cached_tokens, n_sequences)])


def decode_operators(
    model: ModelProfile, batch: ArrayLike, context_tokens: ArrayLike, kv_precision: str = "bf16"
) -> tuple[Operator, ...]:
    """Operators of a decode step, whose new tokens attend to so many keys, themselves included."""
    return pass_operators(model, [Sequences.decode(batch, context_tokens)], kv_precision=kv_precision)


def total_flop(operators: Iterable[Operator]) -> FloatArray:
    """FLOPs of all layers [FLOP]."""
    return np.asarray(sum(operator.n_layers * operator.flop for operator in operators), float)


def total_bytes(operators: Iterable[Operator]) -> FloatArray:
    """Bytes of all layers [B]."""
    return np.asarray(sum(operator.n_layers * operator.bytes for operator in operators), float)


def moe_parameters(model: ModelProfile) -> int:
    """Parameters of one sparse layer's MLP: router, experts, shared ones and latent projections."""
    parts = parameters_by_part(model.architecture)
    found = sum(parts.get(part, 0) for part in ("experts", "shared_experts", "latent", "router"))
    each, rest = divmod(found, model.architecture.n_sparse_layers)
    assert rest == 0
    return each


def mtp_parameters(model: ModelProfile) -> int | None:
    """Parameters of the multi-token prediction layers, which no total contains; None where a shape is unknown.

    n_mtp_layers (2 hidden^2 + attention and MLP of the last layer + 5 norms), as DeepSeek-V3's (arXiv 2412.19437, 2.2).
    """
    architecture = model.architecture
    if missing_shapes(architecture):
        return None
    hidden = required(architecture.hidden_size, "hidden_size")
    mlp = moe_parameters(model) if architecture.moe else dense_mlp_parameters(architecture)
    layer = attention_parameters(architecture.attention[-1], hidden) + mlp
    return architecture.n_mtp_layers * (2 * hidden**2 + layer + 5 * hidden)
