"""A Kimi delta attention layer: projections, short convolution, gated delta rule, gated output norm."""

from dataclasses import dataclass
from typing import Any

from planner.hybrid.arrays import FloatArray, contiguous, n_values, namespace
from planner.hybrid.cache import KdaState
from planner.hybrid.delta_rule import LEAST_LOG_DECAY, chunked_delta_rule, delta_step
from planner.hybrid.numerics import rms_norm, rounded_to_bf16, sigmoid, silu, softplus, unit_rows
from planner.hybrid.products import Products
from planner.profiles import KdaLayers


@dataclass(frozen=True, eq=False)
class KdaWeights:
    """Weights of one layer; matrices are [in, out]."""

    in_proj: FloatArray
    """Queries, keys, values, decay and gate (down, or the whole gate), beta, side by side [hidden, n]."""
    decay_up: FloatArray
    """[head_dim, inner]."""
    gate_up: FloatArray | None
    """[head_dim, inner]; None where the gate is one full matrix."""
    convolution: FloatArray
    """Oldest tap first [kernel, 3 inner]."""
    decay_rate: FloatArray
    """A of each head [heads]."""
    decay_bias: FloatArray
    """[inner]."""
    out_norm: FloatArray
    """[head_dim]."""
    o_proj: FloatArray
    """[inner, hidden]."""


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Inputs of the delta rule, by head [..., heads, head_dim], and the output gate."""

    q: FloatArray
    k: FloatArray
    v: FloatArray
    log_decay: FloatArray
    beta: FloatArray
    gate: FloatArray


@dataclass(frozen=True, eq=False)
class KdaLayer:
    """One layer with its weights."""

    group: KdaLayers
    weights: KdaWeights
    rounds_cache: bool = True
    """Whether what is cached in 16 bits is rounded before it is used, so that a cache holds exactly what was used."""

    def prefill(self, products: Products, x: FloatArray, cache: KdaState) -> FloatArray:
        """New tokens of one request; its state and taps move on.

        Args:
            products: what counts.
            x: normed residual stream [tokens, hidden].
            cache: of this layer, changed.

        Returns:
            What is added to the residual stream [tokens, hidden].

        Source:
            Kimi Linear (2025), section 3.
        """
        n_taps = self.group.conv_kernel - 1
        xp = namespace(x)
        fused = products.product("in_proj", x, self.weights.in_proj)
        mixed, rest = self._split(fused)
        history = xp.concat([cache.taps, mixed])
        cache.taps = xp.asarray(history[len(history) - n_taps :], copy=True)
        n = len(mixed)
        taps = self.weights.convolution
        convolved: Any = sum(history[j : j + n] * taps[j] for j in range(n_taps + 1))
        products.count("short_conv", 2 * taps.shape[0] * n_values(mixed))
        found = self._inputs(products, convolved, rest)
        q, k, v, log_decay = (_by_head(a) for a in (found.q, found.k, found.v, found.log_decay))
        out = chunked_delta_rule(products, cache.state, q, k, v, log_decay, contiguous(found.beta.T))
        return self._out(products, out.swapaxes(0, 1), found.gate)

    def decode(self, products: Products, x: FloatArray, state: FloatArray, taps: FloatArray) -> FloatArray:
        """One token for each of several requests; their states and taps move on.

        Args:
            products: what counts.
            x: normed residual stream [batch, hidden].
            state: [batch, heads, head_dim, head_dim], changed.
            taps: [batch, kernel - 1, channels], changed.

        Returns:
            What is added to the residual stream [batch, hidden].

        Source:
            Kimi Linear (2025), equation 1.
        """
        xp = namespace(x)
        mixed, rest = self._split(products.product("in_proj", x, self.weights.in_proj))
        kernel = self.weights.convolution
        convolved = xp.einsum("bjc,jc->bc", taps, kernel[:-1]) + mixed * kernel[-1]
        products.count("short_conv", 2 * kernel.shape[0] * n_values(mixed))
        taps[:, :-1] = xp.asarray(taps[:, 1:], copy=True)
        taps[:, -1:] = mixed[:, None]
        found = self._inputs(products, convolved, rest)
        out = delta_step(products, state, found.q, found.k, found.v, found.log_decay, found.beta)
        return self._out(products, out, found.gate)

    def _split(self, fused: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Inputs of the convolution, and the rest of the fused projection."""
        channels = 3 * self.group.n_heads * self.group.head_dim
        mixed = fused[:, :channels]
        return (rounded_to_bf16(mixed) if self.rounds_cache else mixed), fused[:, channels:]

    def _inputs(self, products: Products, convolved: FloatArray, rest: FloatArray) -> _Inputs:
        group, weights = self.group, self.weights
        n_heads, dim = group.n_heads, group.head_dim
        shape = (len(rest), n_heads, dim)
        q, k, v = silu(convolved).reshape(len(rest), 3, n_heads, dim).swapaxes(0, 1)
        down, gate, beta = rest[:, :dim], rest[:, dim:-n_heads], rest[:, -n_heads:]
        decay = products.product("decay_b_proj", down, weights.decay_up) + weights.decay_bias
        log_decay = -weights.decay_rate[:, None] * softplus(decay).reshape(shape)
        log_decay = namespace(rest).maximum(log_decay, LEAST_LOG_DECAY)
        if weights.gate_up is not None:
            gate = products.product("gate_b_proj", gate, weights.gate_up)
        return _Inputs(unit_rows(q) * dim**-0.5, unit_rows(k), v, log_decay, sigmoid(beta), gate.reshape(shape))

    def _out(self, products: Products, out: FloatArray, gate: FloatArray) -> FloatArray:
        gated = rms_norm(out, self.weights.out_norm) * sigmoid(gate)
        return products.product("o_proj", gated.reshape(len(gated), -1), self.weights.o_proj)


def _by_head(x: FloatArray) -> FloatArray:
    """[tokens, heads, d] as [heads, tokens, d], in order in memory: products of slices are quicker so."""
    return contiguous(x.swapaxes(0, 1))
