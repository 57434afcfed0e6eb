"""The gated delta rule with one decay per channel: token by token, and by chunks in WY form.

    S_t = (I - beta_t k_t k_t^T) diag(alpha_t) S_(t-1) + beta_t k_t v_t^T,    o_t = S_t^T q_t

Arrays are stacks over heads: queries and keys [..., tokens, k], values [..., tokens, v], log decays [..., tokens, k],
beta [..., tokens], states [..., k, v].
"""

from dataclasses import dataclass

from planner.hybrid.arrays import FloatArray, n_values, namespace
from planner.hybrid.products import Products, leading

CHUNK_TOKENS = 64
"""Tokens whose updates are summed up in one step of the state."""
BLOCK_TOKENS = 16
"""Tokens that share one reference point for their decays."""
LEAST_LOG_DECAY = -5.0
"""Floor of one token's log decay: exp(5 x 16 / 2) on either side of a block's middle fits fp32 with room to spare. A
channel that decays by e^-5 has forgotten all but 0.7 % anyway."""


def delta_step(
    products: Products,
    state: FloatArray,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    log_decay: FloatArray,
    beta: FloatArray,
) -> FloatArray:
    """One token through the recurrence; the state is changed in place.

    Equation:
        S <- diag(alpha) S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q:  7 FLOP per state value

    Args:
        products: what counts.
        state: [..., k, v], changed.
        q: query [..., k].
        k: key of length 1 [..., k].
        v: value [..., v].
        log_decay: log alpha [..., k], at most 0.
        beta: [...].

    Returns:
        Output [..., v].

    Source:
        Kimi Linear (2025), equation 1; Yang et al. 2024 (gated DeltaNet).
    """
    state *= namespace(state).exp(log_decay)[..., None]
    products.count("recurrence", n_values(state))
    seen = products.product("recurrence", k[..., None, :], state)
    update = beta[..., None, None] * (v[..., None, :] - seen)
    state += k[..., :, None] * update
    products.count("recurrence", 2 * n_values(state))
    return products.product("recurrence", q[..., None, :], state)[..., 0, :]


@dataclass(frozen=True, eq=False)
class _Chunks:
    """Parts of a chunk that do not depend on the state it begins with; stacks over chunks and heads."""

    queries: FloatArray
    """q exp(G), G the sum of log decays within the chunk."""
    scores: FloatArray
    """q_i exp(G_i - G_j) k_j for j <= i, else 0."""
    corrections: FloatArray
    """W = T (beta k exp(G)): what a state takes off the updates."""
    updates: FloatArray
    """U = T (beta v): updates if the state were 0."""
    keys: FloatArray
    """k exp(G_end - G)."""
    decay: FloatArray
    """exp(G_end) [..., k, 1]."""


def chunked_delta_rule(
    products: Products,
    state: FloatArray,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    log_decay: FloatArray,
    beta: FloatArray,
) -> FloatArray:
    """Tokens through the recurrence, chunk by chunk; the state is changed in place.

    Equation:
        with G_i the log decays summed from the chunk's start, A_ij = k_i^T exp(G_i - G_j) k_j for j < i and
        T = (I + diag(beta) A)^-1:  U = T (beta V),  W = T (beta K exp(G)),  D = U - W S,
        O = (Q exp(G)) S + tril(Q exp(G_i - G_j) K^T) D,  S <- diag(exp(G_end)) S + (K exp(G_end - G))^T D

    Args:
        products: what counts.
        state: [heads, k, v], changed.
        q: [heads, tokens, k].
        k: keys of length 1 [heads, tokens, k].
        v: [heads, tokens, v].
        log_decay: [heads, tokens, k], from LEAST_LOG_DECAY to 0.
        beta: [heads, tokens].

    Returns:
        Outputs [heads, tokens, v].

    Valid:
        Any number of tokens; the last chunk is as short as it is.

    Source:
        Bischof and Van Loan 1987 (WY form); Yang et al. 2024 (delta rule by chunks); Kimi Linear (2025), section 3.
    """
    n = q.shape[-2]
    whole = n - n % CHUNK_TOKENS
    spans = [(slice(0, whole), CHUNK_TOKENS)] if whole else []
    spans += [(slice(whole, n), n - whole)] if n > whole else []
    parts = [
        _by_chunks(
            products,
            state,
            q[..., span, :],
            k[..., span, :],
            v[..., span, :],
            log_decay[..., span, :],
            beta[..., span],
            width,
        )
        for span, width in spans
    ]
    out: FloatArray = namespace(q).concat(parts, axis=-2)
    return out


def _by_chunks(
    products: Products,
    state: FloatArray,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    log_decay: FloatArray,
    beta: FloatArray,
    width: int,
) -> FloatArray:
    """Whole chunks of one width."""
    heads, n = beta.shape

    def split(x: FloatArray) -> FloatArray:
        return x.reshape(heads, n // width, width, -1)

    chunks = _prepared(products, *(split(x) for x in (q, k, v, log_decay, beta)))
    out = namespace(v).empty((heads, n // width, width, v.shape[-1]), dtype=v.dtype, device=v.device)
    entries = heads * width * (width + 1) // 2
    for c in range(n // width):
        delta = chunks.updates[:, c] - products.product("recurrence", chunks.corrections[:, c], state)
        out[:, c] = products.product("recurrence", chunks.queries[:, c], state)
        out[:, c] += _lower_product(products, chunks.scores[:, c], delta, entries)
        state *= chunks.decay[:, c]
        state += products.product("recurrence", chunks.keys[:, c].swapaxes(-1, -2), delta)
    joined: FloatArray = out.reshape(heads, n, -1)
    return joined


def _prepared(
    products: Products, q: FloatArray, k: FloatArray, v: FloatArray, log_decay: FloatArray, beta: FloatArray
) -> _Chunks:
    """Arrays are [heads, chunks, tokens, ...]; beta has a last axis of 1."""
    xp = namespace(q)
    total = xp.cumsum(log_decay, axis=-2)
    end = total[..., -1:, :]
    factor = xp.exp(total)
    scores, overlaps = _decayed_scores(products, q, k, total)
    inverse = unit_lower_inverse(products, beta * overlaps)
    width = q.shape[-2]
    entries = leading(q) * width * (width + 1) // 2
    return _Chunks(
        queries=q * factor,
        scores=scores,
        corrections=_lower_product(products, inverse, beta * k * factor, entries),
        updates=_lower_product(products, inverse, beta * v, entries),
        keys=k * xp.exp(end - total),
        decay=xp.exp(end).swapaxes(-1, -2),
    )


def _lower_product(products: Products, lower: FloatArray, b: FloatArray, kept_entries: int) -> FloatArray:
    """A lower triangle with its diagonal times rows; a column keeps as many products as the triangle has entries."""
    out: FloatArray = lower @ b
    columns = b.shape[-1]
    products.count("recurrence", 2 * columns * n_values(lower), 2 * columns * kept_entries)
    return out


def _decayed_scores(
    products: Products, q: FloatArray, k: FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Queries and keys against keys before them, decayed on the way: lower triangles with and without the diagonal.

    exp(G_i - G_j) is split at the middle of i's block, so that neither factor leaves the range of fp32: keys of earlier
    blocks only decay towards it, and within a block half of the way is at most 40 in the exponent.
    """
    xp, n = namespace(q), q.shape[-2]
    scores, overlaps = (xp.zeros((*q.shape[:-1], n), dtype=q.dtype, device=q.device) for _ in range(2))
    for start in range(0, n, BLOCK_TOKENS):
        stop = min(start + BLOCK_TOKENS, n)
        rows = slice(start, stop)
        middle = total[..., (start + stop) // 2, None, :]
        towards = xp.exp(total[..., rows, :] - middle)
        columns = (k[..., :stop, :] * xp.exp(middle - total[..., :stop, :])).swapaxes(-1, -2)
        size, before = stop - start, start * (stop - start)
        with_own = leading(q) * (before + size * (size + 1) // 2)
        without = leading(q) * (before + size * (size - 1) // 2)
        scores[..., rows, :stop] = products.product("recurrence", q[..., rows, :] * towards, columns, with_own)
        overlaps[..., rows, :stop] = products.product("recurrence", k[..., rows, :] * towards, columns, without)
    place = xp.arange(n, device=q.device)
    return xp.where(place[:, None] >= place, scores, 0), xp.where(place[:, None] > place, overlaps, 0)


def unit_lower_inverse(products: Products, strict: FloatArray) -> FloatArray:
    """(I + L)^-1 for strictly lower triangular L.

    Equation:
        blocks of 16 by forward substitution, row i = -L_i (I + L)^-1 of the rows before; larger ones from halves,
        X_21 = -X_22 L_21 X_11. About 2/3 n^3 FLOP

    Args:
        products: what counts.
        strict: L [..., n, n].

    Returns:
        Unit lower triangular inverses, the shape of L.

    Valid:
        Backward stable, unlike products of powers of L, whose entries grow where keys repeat.

    Source:
        Golub and Van Loan, Matrix Computations, section 3.1.

    >>> import numpy as np
    >>> unit_lower_inverse(Products(), np.array([[0.0, 0.0], [2.0, 0.0]])).tolist()
    [[1.0, 0.0], [-2.0, 1.0]]
    """
    n = strict.shape[-1]
    if n <= BLOCK_TOKENS:
        return _substituted(products, strict)
    half = BLOCK_TOKENS * ((n + BLOCK_TOKENS) // (2 * BLOCK_TOKENS))
    out: FloatArray = namespace(strict).zeros_like(strict)
    first = unit_lower_inverse(products, strict[..., :half, :half])
    second = unit_lower_inverse(products, strict[..., half:, half:])
    out[..., :half, :half], out[..., half:, half:] = first, second
    moved = products.product("recurrence", second, strict[..., half:, :half])
    out[..., half:, :half] = -products.product("recurrence", moved, first)
    return out


def _substituted(products: Products, strict: FloatArray) -> FloatArray:
    xp, n = namespace(strict), strict.shape[-1]
    out: FloatArray = xp.zeros_like(strict)
    diagonal = xp.arange(n, device=strict.device)
    out[..., diagonal, diagonal] = 1
    for i in range(1, n):
        row = products.product("recurrence", strict[..., i : i + 1, :i], out[..., :i, :i])
        out[..., i, :i] = -row[..., 0, :]
    return out
