"""One operator of a forward pass: what it computes and what it moves, before any hardware."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.profiles import WeightPart

FloatArray = NDArray[np.float64]
Kind = Literal["gemm", "moe", "attention", "recurrence", "convolution", "embedding", "elementwise"]
Split = Literal["heads", "columns", "experts", "vocabulary", "none"]
ACTIVATION_BYTES = 2.0
"""Activations are bf16."""
TILE_QUERIES = 128.0
"""Queries of one tile of attention, as FlashAttention has them."""


@dataclass(frozen=True)
class Gemm:
    """Matrix products of one layer: n_products times [m, k] x [k, n]."""

    m: FloatArray
    """Rows of one product; for experts the mean over those that are visited."""
    n: int
    """Columns."""
    k: int
    """Depth."""
    n_products: FloatArray
    """Products of this shape: 1, heads, or the expected number of experts visited."""


@dataclass(frozen=True)
class Tiles:
    """Attention of prompts as its kernels divide it: a tile is TILE_QUERIES queries of one head, on one processor."""

    mean_keys: FloatArray
    """Keys that a query attends to, on average [tokens]."""
    longest_flop: FloatArray
    """Of the tile that attends to most keys [FLOP]."""


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator of one layer in one forward pass; arrays have the shape of the pass's token counts."""

    name: str
    """What it is called in implementations, such as qkv_proj."""
    kind: Kind
    """What limits it and how efficient it is."""
    n_layers: int
    """Layers that have it; every other figure is of one layer."""
    flop: FloatArray
    """Floating-point operations, a multiply and add as two [FLOP]."""
    weight_bytes: FloatArray
    """Weights read, once each [B]."""
    activation_bytes: FloatArray
    """Inputs read and outputs written, once each [B]."""
    kv_bytes: FloatArray
    """Cache and recurrent state read and written, one logical copy [B]."""
    split: Split
    """How tensor or expert parallelism divides it; "none": every rank does all of it."""
    n_shards: int | None = None
    """Most ranks that its work divides among, such as its heads; None: no limit below the matrix's width."""
    n_kv_shards: int | None = None
    """Most ranks that its cache divides among; beyond, ranks read copies. None where it has no cache."""
    gemm: Gemm | None = None
    """Shape, where it is a matrix product."""
    part: WeightPart | None = None
    """Part of the model its weights belong to; None where it has none."""
    tiles: Tiles | None = None
    """How it divides, where it is attention of prompts."""
    serial_steps: FloatArray | None = None
    """Dependent steps of a recurrence, one after another whatever the number of ranks; None: none."""

    @property
    def bytes(self) -> FloatArray:
        """All bytes of one layer [B]."""
        return self.weight_bytes + self.activation_bytes + self.kv_bytes


def gemm_operator(
    name: str,
    n_layers: int,
    rows: ArrayLike,
    n: int,
    k: int,
    weight_width: float,
    part: WeightPart,
    split: Split = "columns",
    n_products: int = 1,
) -> Operator:
    """A dense matrix product per layer.

    Equation:
        FLOP = 2 m n k, weights n k b, activations 2 m (n + k), each times n_products

    Args:
        name: its name.
        n_layers: layers that have it.
        rows: rows m of each product, any shape.
        n: columns.
        k: depth.
        weight_width: bytes per weight b [B].
        part: part of the model.
        split: how ranks share it.
        n_products: products of this shape, such as heads.

    Returns:
        The operator; the shape of rows.

    Source:
        Golub and Van Loan, Matrix Computations, section 1.1; bytes as in Williams et al. 2009 (roofline).

    >>> gemm_operator("o_proj", 1, [1, 8], 4, 2, 2.0, "attention").flop.tolist()
    [16.0, 128.0]
    """
    m = np.asarray(rows, float)
    return Operator(
        name,
        "gemm",
        n_layers,
        flop=2.0 * m * n * k * n_products,
        weight_bytes=np.full_like(m, float(n * k * n_products) * weight_width),
        activation_bytes=ACTIVATION_BYTES * m * (n + k) * n_products,
        kv_bytes=np.zeros_like(m),
        split=split,
        n_shards=n_products if n_products > 1 else None,
        gemm=Gemm(m, n, k, np.full_like(m, n_products)),
        part=part,
    )


def elementwise_operator(name: str, n_layers: int, rows: ArrayLike, values: float, split: Split = "none") -> Operator:
    """Work on each value by itself: bytes only, since its FLOPs never bind.

    Args:
        rows: tokens, any shape.

    Returns:
        The operator; the shape of rows.

    >>> elementwise_operator("norm", 1, 3, 8).activation_bytes.item()
    48.0
    """
    m = np.asarray(rows, float)
    zero = np.zeros_like(m)
    return Operator(name, "elementwise", n_layers, zero, zero, ACTIVATION_BYTES * m * values, zero, split)


def is_dense(operator: Operator) -> bool:
    """True if dense ranks share the operator: dense MLPs and shared experts, with what lies between their products."""
    return operator.split == "columns" or operator.part in ("dense_mlp", "shared_experts")
