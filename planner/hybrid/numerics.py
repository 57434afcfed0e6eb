"""Functions on values and rows: norms, activations, rotations, and the 16-bit format that caches are kept in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.hybrid.arrays import FloatArray, from_host, namespace, to_host

NORM_EPSILON = 1e-6
ROTARY_BASE = 10000.0


def rms_norm(x: FloatArray, weight: FloatArray) -> FloatArray:
    """x / sqrt(mean(x^2) + eps) weight over the last axis; Zhang and Sennrich 2019, equation 4.

    >>> rms_norm(np.array([3.0, 4.0]), np.ones(2)).round(3).tolist()
    [0.849, 1.131]
    """
    xp = namespace(x)
    scale = xp.einsum("...i,...i->...", x, x) / x.shape[-1]
    normed: FloatArray = x * (weight / xp.sqrt(scale + NORM_EPSILON)[..., None])
    return normed


def unit_rows(x: FloatArray) -> FloatArray:
    """Rows of Euclidean length 1 (0 stays 0), as the delta rule wants its keys; Yang et al. 2024, section 3.

    >>> unit_rows(np.array([3.0, 4.0])).round(3).tolist()
    [0.6, 0.8]
    """
    xp = namespace(x)
    scale = xp.einsum("...i,...i->...", x, x)
    out: FloatArray = x / xp.sqrt(scale + NORM_EPSILON)[..., None]
    return out


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), without overflow.

    >>> sigmoid(np.array([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    # exp(-88) is the least that fp32 squares into nothing worse than 0.
    xp = namespace(x)
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    out: FloatArray = xp.where(x < -87, zero, xp.reciprocal(1 + xp.exp(-xp.maximum(x, -88))))
    return out


def silu(x: FloatArray) -> FloatArray:
    """x sigmoid(x); Elfwing et al. 2017.

    >>> silu(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.7311]
    """
    # One exponential and two passes; exp(88) is near the largest fp32.
    xp = namespace(x)
    out: FloatArray = x / (1 + xp.exp(-xp.maximum(x, -88)))
    return out


def softplus(x: FloatArray) -> FloatArray:
    """log(1 + exp(x)).

    >>> softplus(np.array([0.0, 1000.0])).round(4).tolist()
    [0.6931, 1000.0]
    """
    out: FloatArray = namespace(x).logaddexp(x, 0.0)
    return out


def softmax_in_place(scores: FloatArray) -> FloatArray:
    """exp(x) / sum exp(x) over the last axis, written over its input; masked scores are -inf.

    >>> softmax_in_place(np.array([0.0, 0.0, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    xp = namespace(scores)
    scores -= xp.max(scores, axis=-1, keepdims=True)
    xp.exp(scores, out=scores)
    scores /= xp.sum(scores, axis=-1, keepdims=True)
    return scores


def rotated(x: FloatArray, positions: NDArray[np.integer[Any]]) -> FloatArray:
    """Rotary position embedding: pair (i, i + d/2) turned by position base^(-2 i / d).

    Args:
        x: [..., tokens, d], d even.
        positions: [tokens].

    Returns:
        The shape of x.

    Source:
        Su et al. 2021 (RoFormer), equation 34, with halves for pairs as most implementations have them.

    >>> rotated(np.array([[1.0, 0.0]]), np.array([0])).tolist()
    [[1.0, 0.0]]
    """
    half = x.shape[-1] // 2
    frequency = ROTARY_BASE ** (-np.arange(half) / half)
    angle = positions[:, None] * frequency
    cosine, sine = from_host(np.cos(angle), x), from_host(np.sin(angle), x)
    left, right = x[..., :half], x[..., half:]
    turned: FloatArray = namespace(x).concat([left * cosine - right * sine, left * sine + right * cosine], axis=-1)
    return turned


def to_bf16(x: FloatArray) -> NDArray[np.uint16]:
    """Values as bfloat16 bit patterns, rounded to nearest, ties to even.

    Valid:
        Finite values.

    >>> to_bf16(np.array([1.0, -2.0, 1 + 2**-8], np.float32)).tolist()
    [16256, 49152, 16256]
    """
    bits = np.ascontiguousarray(to_host(x), np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Values of bfloat16 bit patterns, in fp32.

    >>> from_bf16(np.array([16256], np.uint16)).tolist()
    [1.0]
    """
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded_to_bf16(x: FloatArray) -> FloatArray:
    """Values that bfloat16 can hold, in the format of x."""
    if isinstance(x, np.ndarray):
        return from_bf16(to_bf16(x)).astype(x.dtype, copy=False)
    xp = namespace(x)
    rounded: FloatArray = xp.astype(xp.astype(xp.astype(x, xp.float32), xp.bfloat16), x.dtype)
    return rounded
