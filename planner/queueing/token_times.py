"""Time per token of requests whose prompt has just ended: passes after it are longer, as prompts come in bursts."""

from dataclasses import dataclass

import numpy as np

from planner.queueing.erlang import Floats
from planner.queueing.pass_chain import NEGLIGIBLE, PassChain

MOST_STEPS = 4096
"""Tokens of an answer that are looked at one by one;"""
CALM = 1e-4
"""less, where what is left of a burst makes passes longer by less than this part."""
N_OUTPUTS = 64
"""Answers that stand for all."""


@dataclass(frozen=True)
class TokenTimes:
    """Seconds per token after the first, beside a number of sequences."""

    of_stays_s: float
    """Mean time of all such tokens: a mean stay over a mean answer [s]."""
    of_requests_s: float
    """Mean over requests, each with as much weight however long its answer [s]."""


def token_times(chain: PassChain, behind: Floats, decoded_tokens: Floats) -> TokenTimes:
    """Seconds per token of requests whose prompt has just been computed.

    Equation: s_k = v M^k s, the pass that makes token k + 1 after the first: v what waits as the prompt ends (see
        `PassChain.behind`), M the moves of the chain from pass to pass, s seconds by what waits. Over stays
        sum s_k P(D > k) / E[D], over requests sum s_k E[1(D > k) / D], D tokens after the first. Where prompts come
        first a step waits until none is left, and then all begins anew: only the first token meets v.

    Args:
        chain: passes beside a number of sequences.
        behind: what waits as a prompt ends, by cells [fraction], sum 1.
        decoded_tokens: equally likely numbers of tokens after the first, above 0 [tokens].

    Returns:
        Both means.

    Valid: while the number of sequences changes little; its own changes are those of the birth-death process over it.

    Source: PASTA and Little's law for the tokens of a request; transient means of a Markov chain.
    """
    lengths = np.maximum(decoded_tokens, 1.0)
    if chain.is_prefill_first:
        until_s = chain.until_empty_s
        calm_s = chain.token_s
        excess_s = np.array([float(behind @ until_s) - float(chain.came_in_step @ until_s)])
    else:
        calm_s = chain.token_s
        excess_s = _excess_s(chain, behind, calm_s, int(min(lengths.max(), MOST_STEPS)))
    beyond = np.cumsum(np.append(0.0, excess_s))
    met = np.interp(lengths, np.arange(len(beyond)), beyond)
    return TokenTimes(calm_s + float(met.mean() / lengths.mean()), calm_s + float((met / lengths).mean()))


def _excess_s(chain: PassChain, behind: Floats, calm_s: float, most: int) -> Floats:
    """Excess of the passes after a prompt over others, one after another [s]."""
    seconds, found, now = chain.table_s[chain.kinds] - calm_s, list[float](), behind - chain.starts
    for _ in range(most):
        found.append(float(now @ seconds))
        if float(np.abs(now) @ np.abs(seconds)) < CALM * calm_s:
            break
        now = now @ chain.moves
    return np.array(found)


def answer_lengths(mean: float, scv: float) -> Floats:
    """Equally likely numbers of tokens with a mean and about a squared coefficient of variation.

    Equation: quantiles of a gamma distribution, scaled to the mean; all alike at scv 0.

    >>> answer_lengths(100.0, 0.0).tolist()
    [100.0]
    """
    if scv < NEGLIGIBLE:
        return np.array([mean])
    from scipy.special import gammaincinv

    found = gammaincinv(1 / scv, (np.arange(N_OUTPUTS) + 0.5) / N_OUTPUTS)
    return np.asarray(found * (mean / found.mean()))
