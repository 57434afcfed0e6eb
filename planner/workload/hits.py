"""Prefix-cache hits in numbers: quadrature of a stated distribution, and the ideal cache over a trace."""

import numpy as np
from numpy.typing import ArrayLike

from planner.curves import FloatArray
from planner.workload.distributions import weighted_quantile
from planner.workload.prefixes import BetaHits, ConstantHits, DiscreteHits, HitDistribution
from planner.workload.traces import Blocks

N_BETA_NODES = 32


def hit_nodes(hits: HitDistribution) -> tuple[FloatArray, FloatArray]:
    """Cached fractions and weights of sum 1 whose weighted sums stand for the distribution, shape (n,) each.

    Exact for constant and discrete hits. For beta hits the 32 Gauss-Jacobi nodes: exact for polynomials of the
    fraction up to degree 63.

    Source: Golub and Welsch, Math. Comp. 23 (1969) 221.

    >>> fractions, weights = hit_nodes(BetaHits(kind="beta", alpha=2.0, beta=3.0))
    >>> round(float(weights @ fractions), 12), round(float(weights @ fractions**2), 12)
    (0.4, 0.2)
    """
    match hits:
        case ConstantHits():
            return np.array([hits.fraction]), np.ones(1)
        case DiscreteHits():
            return np.array(hits.fractions), np.array(hits.weights) / sum(hits.weights)
        case BetaHits():
            return _beta_nodes(hits.alpha, hits.beta)


def hit_quantile(hits: HitDistribution, q: ArrayLike) -> FloatArray:
    """The least cached fraction whose cumulative probability reaches q; the shape of q.

    >>> hit_quantile(BetaHits(kind="beta", alpha=1.0, beta=1.0), [0.25, 0.5]).round(6).tolist()
    [0.25, 0.5]
    """
    from scipy.special import betaincinv

    if isinstance(hits, BetaHits):
        return np.asarray(betaincinv(hits.alpha, hits.beta, np.asarray(q, dtype=np.float64)), dtype=np.float64)
    return weighted_quantile(*hit_nodes(hits), q)


def ideal_hits(total_tokens: ArrayLike, blocks: Blocks) -> FloatArray:
    """Cached tokens of each request, shape (n,), with a prefix cache of unlimited capacity [tokens].

    cached = min(b n_hit, total), b = tokens of a block, n_hit = leading blocks that any earlier request (in the order
    given) contained.
    The last block of a prompt may be partly filled; its hash covers what it holds, so a hit on it counts those
    tokens. A prompt seen before is therefore cached whole; that a real engine still computes its last token is the
    business of whoever executes it.

    Valid: block hashes are chained (equal hash, equal prefix), as in the Mooncake traces.
    Source: Qin et al., Mooncake (FAST 2025), section 5.
    """
    total = np.asarray(total_tokens, dtype=np.float64)
    n_blocks = np.diff(blocks.offsets)
    request = np.repeat(np.arange(total.size), n_blocks)
    position = np.arange(blocks.values.size) - blocks.offsets[:-1][request]
    _, first, block = np.unique(blocks.values, return_index=True, return_inverse=True)
    is_new = request[first][block] == request
    n_hit = n_blocks.copy()
    np.minimum.at(n_hit, request[is_new], position[is_new])
    return np.minimum(n_hit * float(blocks.block_tokens), total)


def _beta_nodes(alpha: float, beta: float) -> tuple[FloatArray, FloatArray]:
    from scipy.special import roots_jacobi

    nodes, weights = roots_jacobi(N_BETA_NODES, beta - 1, alpha - 1)
    # Clipped: rounding may put a node of an extreme shape a little outside.
    return np.clip((nodes + 1) / 2, 0.0, 1.0), weights / weights.sum()
