"""Operators of MLPs, dense and sparse, and how many experts a batch visits."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.profiles import Architecture, MixtureOfExperts, ModelProfile
from planner.profiles.projections import required
from planner.roofline.operator import (
    ACTIVATION_BYTES,
    FloatArray,
    Gemm,
    Operator,
    elementwise_operator,
    gemm_operator,
)
from planner.roofline.weights import bytes_per_weight


def distinct_experts(n_experts: int, n_experts_per_token: int, tokens: ArrayLike) -> NDArray[np.float64]:
    """Expected number of experts that a batch visits.

    Equation:
        E (1 - (1 - k / E)^m)

    Args:
        n_experts: experts E of a layer.
        n_experts_per_token: experts k of a token.
        tokens: tokens m of the batch, any shape.

    Returns:
        Experts, the shape of tokens.

    Valid:
        Tokens choose independently, every expert as likely as another; skewed routing visits fewer.

    Source:
        Occupancy problem; Johnson and Kotz 1977, Urn Models.

    >>> distinct_experts(128, 4, [1, 32, 4096]).round(2).tolist()
    [4.0, 81.66, 128.0]
    """
    idle = (1 - n_experts_per_token / n_experts) ** np.asarray(tokens, float)
    return np.asarray(n_experts * (1 - idle))


def mlp_operators(model: ModelProfile, rows: FloatArray, precision: str | None = None) -> Iterator[Operator]:
    """Operators of every dense and sparse MLP.

    Args:
        model: a model whose shapes are known.
        rows: tokens of the pass.
        precision: number format of the weights; None: the checkpoint's own.

    Yields:
        Operators, each of one layer with its count of layers.

    Raises:
        InputError: a shape is unknown.

    Source:
        Shazeer 2020 (gated MLP); DeepSeekMoE 2024 (shared experts); Nemotron 3 (latent experts).
    """
    architecture = model.architecture
    if architecture.n_dense_layers:
        width = bytes_per_weight(model, "dense_mlp", precision)
        yield from _dense(architecture, rows, width)
    if architecture.moe and architecture.n_sparse_layers:
        yield from _sparse(model, architecture.moe, rows, precision)


def _dense(architecture: Architecture, rows: FloatArray, width: float) -> Iterator[Operator]:
    n, inner = architecture.n_dense_layers, required(architecture.intermediate_size, "intermediate_size")
    hidden, n_in = required(architecture.hidden_size, "hidden_size"), 1 + architecture.gated_mlp
    yield gemm_operator("gate_up_proj", n, rows, n_in * inner, hidden, width, "dense_mlp")
    yield elementwise_operator("mlp_activation", n, rows, (n_in + 1) * inner, "columns")
    yield gemm_operator("down_proj", n, rows, hidden, inner, width, "dense_mlp")


def _sparse(model: ModelProfile, moe: MixtureOfExperts, rows: FloatArray, precision: str | None) -> Iterator[Operator]:
    architecture = model.architecture
    n, hidden = architecture.n_sparse_layers, required(architecture.hidden_size, "hidden_size")
    router = bytes_per_weight(model, "router", precision)
    yield gemm_operator("router", n, rows, moe.n_experts, hidden, router, "router", "none")
    if moe.latent_size:
        latent = bytes_per_weight(model, "latent", precision)
        yield gemm_operator("latent_down_proj", n, rows, moe.latent_size, hidden, latent, "latent", "none")
        yield gemm_operator("latent_up_proj", n, rows, hidden, moe.latent_size, latent, "latent", "none")
    yield from _experts(architecture, moe, rows, bytes_per_weight(model, "experts", precision))
    if moe.n_shared_experts:
        shared = bytes_per_weight(model, "shared_experts", precision)
        yield from _shared(architecture, moe, rows, shared)


def _shared(architecture: Architecture, moe: MixtureOfExperts, rows: FloatArray, width: float) -> Iterator[Operator]:
    n, hidden = architecture.n_sparse_layers, required(architecture.hidden_size, "hidden_size")
    n_in, inner = 1 + architecture.gated_mlp, moe.n_shared_experts * moe.shared_width
    yield gemm_operator("shared_gate_up_proj", n, rows, n_in * inner, hidden, width, "shared_experts")
    yield elementwise_operator("shared_activation", n, rows, (n_in + 1) * inner, "columns")
    yield gemm_operator("shared_down_proj", n, rows, hidden, inner, width, "shared_experts")


def _experts(architecture: Architecture, moe: MixtureOfExperts, rows: FloatArray, width: float) -> Iterator[Operator]:
    outer = moe.latent_size or required(architecture.hidden_size, "hidden_size")
    n, inner, n_in = architecture.n_sparse_layers, moe.expert_intermediate_size, 1 + architecture.gated_mlp
    visited = distinct_experts(moe.n_experts, moe.n_experts_per_token, rows)
    visits = rows * moe.n_experts_per_token
    yield _expert_operator("experts_gate_up", n, visits, visited, n_in * inner, outer, width)
    activation = elementwise_operator("experts_activation", n, visits, (n_in + 1) * inner, "experts")
    yield replace(activation, n_shards=moe.n_experts)
    yield _expert_operator("experts_down", n, visits, visited, outer, inner, width)


def _expert_operator(
    name: str, n_layers: int, visits: FloatArray, visited: FloatArray, n: int, k: int, width: float
) -> Operator:
    """FLOP = 2 visits n k; weights of the experts visited; rows of a product are the mean over those."""
    return Operator(
        name,
        "moe",
        n_layers,
        flop=2.0 * visits * n * k,
        weight_bytes=visited * float(n * k) * width,
        activation_bytes=ACTIVATION_BYTES * visits * (n + k),
        kv_bytes=np.zeros_like(visits),
        split="experts",
        gemm=Gemm(visits / visited, n, k, visited),
        part="experts",
    )
