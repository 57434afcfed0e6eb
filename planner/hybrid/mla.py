"""A multi-head latent attention layer: expanded to heads in prefill, absorbed into queries and outputs in decode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.hybrid.arrays import FloatArray, n_values, namespace
from planner.hybrid.cache import LatentCache
from planner.hybrid.numerics import rms_norm, rotated, rounded_to_bf16, sigmoid, softmax_in_place
from planner.hybrid.products import Products
from planner.profiles import MlaLayers

QUERY_TOKENS = 64
"""Queries scored together in prefill: keys beyond the last of them are never multiplied, keys between them are."""


@dataclass(frozen=True, eq=False)
class MlaWeights:
    """Weights of one layer; matrices are [in, out]."""

    q_a: FloatArray | None
    """[hidden, q_lora_rank]; None where queries are not compressed."""
    q_norm: FloatArray | None
    """[q_lora_rank]."""
    q_b: FloatArray
    """[hidden or q_lora_rank, heads (nope + rope)]."""
    kv_a: FloatArray
    """[hidden, kv_lora_rank + rope]."""
    kv_norm: FloatArray
    """[kv_lora_rank]."""
    kv_b: FloatArray
    """[kv_lora_rank, heads (nope + v_head_dim)]."""
    gate: FloatArray | None
    """[hidden, heads v_head_dim]; None where the output has no gate."""
    o_proj: FloatArray
    """[heads v_head_dim, hidden]."""


@dataclass(frozen=True, eq=False)
class MlaLayer:
    """One layer with its weights."""

    group: MlaLayers
    weights: MlaWeights
    rounds_cache: bool = True
    """Whether latents are rounded to the 16 bits they are cached in before they are used."""
    query_tokens: int = QUERY_TOKENS

    def prefill(self, products: Products, x: FloatArray, cache: LatentCache, *, absorbed: bool = False) -> FloatArray:
        """New tokens of one request; their latents join its cache.

        Args:
            products: what counts.
            x: normed residual stream [tokens, hidden].
            cache: of this layer, changed.
            absorbed: whether to attend to latents, as decode does, rather than expand them to heads.

        Returns:
            What is added to the residual stream [tokens, hidden].

        Source:
            DeepSeek-V2 (2024), section 2.1.
        """
        cached = cache.n_tokens
        positions = np.arange(cached, cached + len(x))
        queries, rows = self._queries_and_latents(products, x, positions)
        cache.append(rows)
        if absorbed:
            latent_queries = self._absorbed_queries(products, queries)
            seen = self._attended(products, latent_queries, cache.values, cache.values[:, : self._rank], cached)
            out = self._emerged(products, seen)
        else:
            keys, values = self._expanded(products, cache.values)
            out = self._attended(products, queries, keys, values, cached)
        return self._out(products, x, out)

    def decode(self, products: Products, x: FloatArray, caches: Sequence[LatentCache]) -> FloatArray:
        """One token for each of several requests, of any lengths; its latent joins each cache.

        Args:
            products: what counts.
            x: normed residual stream [batch, hidden].
            caches: of this layer, one per request, changed.

        Returns:
            What is added to the residual stream [batch, hidden].

        Source:
            DeepSeek-V2 (2024), section 2.1 (absorption).
        """
        positions = np.array([cache.n_tokens for cache in caches])
        queries, rows = self._queries_and_latents(products, x, positions)
        latent_queries = self._absorbed_queries(products, queries)
        shape = (*latent_queries.shape[:-1], self._rank)
        seen = namespace(x).empty(shape, dtype=x.dtype, device=x.device)
        for index, cache in enumerate(caches):
            cache.append(rows[index : index + 1])
            keys = cache.values
            scores = products.product("mla_attention", latent_queries[:, index], keys.T)
            seen[:, index] = products.product("mla_attention", softmax_in_place(scores), keys[:, : self._rank])
        return self._out(products, x, self._emerged(products, seen))

    @property
    def _rank(self) -> int:
        return self.group.kv_lora_rank

    @property
    def _dims(self) -> tuple[int, int, int, int]:
        """Heads, values without and with position, values of a value head."""
        group = self.group
        return group.n_heads or 0, group.qk_nope_head_dim or 0, group.qk_rope_head_dim, group.v_head_dim or 0

    def _queries_and_latents(
        self, products: Products, x: FloatArray, positions: NDArray[np.integer[Any]]
    ) -> tuple[FloatArray, FloatArray]:
        """Scaled queries [heads, tokens, nope + rope], and what is cached of the tokens [tokens, rank + rope]."""
        weights, (n_heads, nope, rope, _) = self.weights, self._dims
        compressed = x
        if weights.q_a is not None and weights.q_norm is not None:
            compressed = rms_norm(products.product("q_a_proj", x, weights.q_a), weights.q_norm)
        xp = namespace(x)
        queries = products.product("q_b_proj", compressed, weights.q_b) * (nope + rope) ** -0.5
        queries = queries.reshape(len(x), n_heads, nope + rope).swapaxes(0, 1)
        queries = xp.concat([queries[..., :nope], rotated(queries[..., nope:], positions)], axis=-1)
        fused = products.product("kv_a_proj", x, weights.kv_a)
        latent = rms_norm(fused[:, : self._rank], weights.kv_norm)
        rows = xp.concat([latent, rotated(fused[:, self._rank :], positions)], axis=-1)
        return queries, rounded_to_bf16(rows) if self.rounds_cache else rows

    def _expanded(self, products: Products, latents: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Keys [heads, keys, nope + rope] and values [heads, keys, v] of latents."""
        n_heads, nope, rope, value = self._dims
        heads = products.product("kv_b_proj", latents[:, : self._rank], self.weights.kv_b)
        heads = heads.reshape(len(latents), n_heads, nope + value).swapaxes(0, 1)
        shape = (n_heads, len(latents), nope + rope)
        keys = namespace(latents).empty(shape, dtype=latents.dtype, device=latents.device)
        keys[..., :nope] = heads[..., :nope]
        keys[..., nope:] = latents[:, self._rank :]
        return keys, heads[..., nope:]

    def _absorbed_queries(self, products: Products, queries: FloatArray) -> FloatArray:
        """Queries that score latents directly [heads, tokens, rank + rope]."""
        n_heads, nope, _, value = self._dims
        per_head = self.weights.kv_b.reshape(self._rank, n_heads, nope + value)
        xp = namespace(queries)
        absorbed = products.product("q_absorb", queries[..., :nope], xp.permute_dims(per_head[..., :nope], (1, 2, 0)))
        both: FloatArray = xp.concat([absorbed, queries[..., nope:]], axis=-1)
        return both

    def _emerged(self, products: Products, seen: FloatArray) -> FloatArray:
        """Values of each head from sums of latents [heads, tokens, v]."""
        n_heads, nope, _, value = self._dims
        per_head = self.weights.kv_b.reshape(self._rank, n_heads, nope + value)
        return products.product("v_absorb", seen, per_head[..., nope:].swapaxes(0, 1))

    def _attended(
        self, products: Products, queries: FloatArray, keys: FloatArray, values: FloatArray, cached: int
    ) -> FloatArray:
        """Causal attention of queries [heads, n, d] that follow `cached` tokens; keys and values with or without heads.

        FLOP kept: 2 heads (d + v) per pair of a query and a key no later than it.
        """
        xp, (n_heads, n, _) = namespace(queries), queries.shape
        out: FloatArray = xp.empty((n_heads, n, values.shape[-1]), dtype=queries.dtype, device=queries.device)
        for start in range(0, n, self.query_tokens):
            stop = min(start + self.query_tokens, n)
            n_keys, size = cached + stop, stop - start
            pairs = n_heads * (size * (cached + start) + size * (size + 1) // 2)
            near = keys[..., :n_keys, :].swapaxes(-1, -2)
            scores = products.product("mla_attention", queries[:, start:stop], near, pairs)
            place = xp.arange(cached + start, n_keys, device=queries.device)
            scores[..., cached + start :][:, place > place[:, None]] = -np.inf
            weights = softmax_in_place(scores)
            out[:, start:stop] = weights @ values[..., :n_keys, :]
            columns = values.shape[-1]
            products.count("mla_attention", 2 * columns * n_values(weights), 2 * columns * pairs)
        return out

    def _out(self, products: Products, x: FloatArray, out: FloatArray) -> FloatArray:
        rows = out.swapaxes(0, 1).reshape(len(x), -1)
        if self.weights.gate is not None:
            rows = rows * sigmoid(products.product("gate_proj", x, self.weights.gate))
        return products.product("o_proj", rows, self.weights.o_proj)
