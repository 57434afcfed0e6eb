"""Sequences alike in one forward pass, and how many keys their queries attend to."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from planner.roofline.operator import FloatArray


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of one phase with as many new and cached tokens each; arrays of one shape."""

    phase: Literal["prefill", "decode"]
    """Prefill uses the forms for many queries, decode those for one."""
    n_sequences: FloatArray
    """Sequences in the pass."""
    new_tokens: FloatArray
    """Tokens computed per sequence [tokens]."""
    cached_tokens: FloatArray
    """Tokens per sequence whose cache exists already [tokens]."""
    least_on_replica: ArrayLike = 1.0
    """Sequences that the fullest attention replica has at least, where they are not spread evenly."""

    @classmethod
    def prefill(cls, new_tokens: ArrayLike, cached_tokens: ArrayLike = 0, n_sequences: ArrayLike = 1) -> Self:
        """Sequences, or chunks of them, that compute new tokens after cached ones.

        >>> float(Sequences.prefill(1000, 24, 2).rows)
        2000.0
        """
        new, cached, count = (np.asarray(a, float) for a in (new_tokens, cached_tokens, n_sequences))
        return cls("prefill", *np.broadcast_arrays(count, new, cached))

    @classmethod
    def decode(cls, batch: ArrayLike, context_tokens: ArrayLike, new_tokens: float = 1.0) -> Self:
        """Sequences that compute one token each, the last of a context of that many, or drafted ones after it as well.

        >>> float(Sequences.decode(8, 4096).pairs()), float(Sequences.decode(1, 4096, 2).pairs())
        (32768.0, 8193.0)
        """
        count, context = np.broadcast_arrays(np.asarray(batch, float), np.asarray(context_tokens, float))
        return cls("decode", count, np.full_like(count, new_tokens), context - 1)

    def on_fullest_replica(self, n_replicas: float) -> Self:
        """Those of the fullest of so many attention replicas: an even share, but a whole one at least."""
        n = np.minimum(self.n_sequences, np.maximum(self.n_sequences / n_replicas, self.least_on_replica))
        return replace(self, n_sequences=n, least_on_replica=1.0)

    @property
    def rows(self) -> FloatArray:
        """Tokens computed in the pass."""
        return self.n_sequences * self.new_tokens

    @property
    def head_rows(self) -> FloatArray:
        """Tokens whose successor is predicted: the last of a prompt, and every one that is decoded or verified."""
        return self.n_sequences if self.phase == "prefill" else self.rows

    @property
    def context_rows(self) -> FloatArray:
        """Tokens computed or cached, over all sequences."""
        return self.n_sequences * (self.new_tokens + self.cached_tokens)

    def pairs(self, window: float = np.inf) -> FloatArray:
        """Pairs of query and key under a causal mask.

        Equation:
            sum over i = 1..n of min(c + i, w) = a c + a (a + 1) / 2 + (n - a) w, a = min(max(w - c, 0), n)

        Args:
            window: most keys w a query attends to, itself included [tokens].

        Returns:
            Pairs over all sequences.

        Source:
            Arithmetic series; without a window, n queries of c + (n + 1) / 2 keys each.

        >>> Sequences.prefill([4, 4], [0, 2]).pairs().tolist(), float(Sequences.prefill(4).pairs(2))
        ([10.0, 18.0], 7.0)
        """
        new, cached = self.new_tokens, self.cached_tokens
        growing = np.clip(window - cached, 0.0, new)
        full = np.where(growing < new, (new - growing) * min(window, 1e18), 0.0)
        return self.n_sequences * (growing * cached + growing * (growing + 1) / 2 + full)

    def read_tokens(self, window: float = np.inf) -> FloatArray:
        """Distinct tokens whose cache all queries of a sequence read, summed over sequences.

        Equation:
            min(c, w - 1) + n

        Args:
            window: most keys w a query attends to, itself included [tokens].

        Returns:
            Tokens over all sequences.

        >>> float(Sequences.decode(2, 4096).read_tokens(128))
        256.0
        """
        return self.n_sequences * (np.minimum(self.cached_tokens, window - 1) + self.new_tokens)

    def chunked_pairs(self, chunk_tokens: float) -> FloatArray:
        """Pairs of query and key where each query attends to its own chunk up to itself.

        Equation:
            F(c + n) - F(c), F(x) = floor(x / w) w (w + 1) / 2 + r (r + 1) / 2, r = x mod w

        Args:
            chunk_tokens: tokens w of a chunk.

        Returns:
            Pairs over all sequences.

        Source:
            Chunked attention of Llama 4 (2025); its first chunk is as `pairs`.

        >>> float(Sequences.prefill(8).chunked_pairs(4)), float(Sequences.prefill(1, 5).chunked_pairs(4))
        (20.0, 2.0)
        """
        before = _pairs_in_chunks(self.cached_tokens, chunk_tokens)
        return self.n_sequences * (_pairs_in_chunks(self.cached_tokens + self.new_tokens, chunk_tokens) - before)

    def chunked_read_tokens(self, chunk_tokens: float) -> FloatArray:
        """Distinct tokens whose cache the queries of a sequence read in chunks: the new ones, and those before in the
        first one's chunk.

        Equation:
            (c mod w) + n

        Args:
            chunk_tokens: tokens w of a chunk.

        Returns:
            Tokens over all sequences.

        >>> float(Sequences.prefill(10, 5).chunked_read_tokens(4))
        11.0
        """
        return self.n_sequences * (np.mod(self.cached_tokens, chunk_tokens) + self.new_tokens)

    def chunks(self, chunk_tokens: int) -> FloatArray:
        """Chunks of a sequence's new tokens, the last one perhaps short."""
        return np.asarray(np.ceil(self.new_tokens / chunk_tokens))


def _pairs_in_chunks(tokens: FloatArray, chunk_tokens: float) -> FloatArray:
    """Pairs of a sequence of that many tokens, all new."""
    whole, rest = np.divmod(tokens, chunk_tokens)
    return np.asarray(whole * chunk_tokens * (chunk_tokens + 1) / 2 + rest * (rest + 1) / 2)
