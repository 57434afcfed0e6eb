"""Least time of passes of a colocated instance for any mix of requests: linear in tokens, keys and contexts.

Totals of requests add over passes. So a linear function of what is in a pass that lies below the seconds of every pass
that an instance can make bounds the seconds of any mix from below, whatever passes serve it. Of all such functions the
one that is greatest for a mix is the solution of a small linear program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.highs import one_thread_solver
from planner.roofline import PassTimes, RequestKinds

Floats = NDArray[np.float64]
N_ADDED, MOST_ROUNDS = 24, 60
"""Passes that are added at once where a facet is above them, and how often."""
TOLERANCE, TINY = 1e-10, 1e-300


class RequestWork(NamedTuple):
    """Work of a request in passes, on average."""

    new_tokens: float
    """Prompt tokens to compute."""
    keys: float
    """That these attend to, added up over them."""
    steps: float
    """Passes in which it decodes."""
    context_tokens: float
    """Of its cache, added up over those passes."""

    @classmethod
    def of(cls, requests: RequestKinds) -> "RequestWork":
        """The work of a mean request.

        Equation:
            E[n], E[n (c + (n + 1) / 2)], E[L] - 1, (E[L] - 1) E[c + n] + (E[L^2] - E[L]) / 2

        Args:
            requests: prompts and answers, which are independent.

        >>> RequestWork.of(RequestKinds(np.array([100.0]), np.ones(1), 3.0, 9.0))  # steps with 101 and 102 tokens
        RequestWork(new_tokens=100.0, keys=5050.0, steps=2.0, context_tokens=203.0)
        """
        new, weights, answer = requests.new_tokens, requests.weights, requests.output_tokens
        keys = float((new * (requests.tokens - new + (new + 1) / 2)) @ weights)
        contexts = (answer - 1) * requests.mean_tokens + (requests.output_square - answer) / 2
        return cls(float(new @ weights), keys, answer - 1, contexts)

    @classmethod
    def mix_of(cls, shares: Sequence[tuple[float, "RequestWork"]]) -> "RequestWork":
        """The work of a mean request of several kinds, by their shares."""
        total = sum(share for share, _ in shares)
        return cls(*(sum(share * work[i] for share, work in shares) / total for i in range(4)))


@dataclass(frozen=True, eq=False)
class PassRegion:
    """The passes that an instance can make, all its attention replicas together."""

    times: PassTimes
    budget_tokens: float
    """Most tokens of a pass: of prompts and sequences together, or of prompts alone where these come first. Where
    prompts are not split, a pass may be the longest prompt beside all sequences."""
    room_tokens: float
    """Most context of all sequences together."""
    is_prefill_first: bool = False
    """Whether prompts have passes of their own."""
    tpot_s: float = inf
    """Longest mean time of an output token after the first [s]."""


@dataclass(frozen=True)
class PassFacet:
    """Seconds of an instance that requests take at the least."""

    token_s: float
    """Of a prompt token [s]."""
    key_s: float
    """Of a key that it attends to [s]."""
    step_s: float
    """Of a pass in which a sequence decodes [s]."""
    context_token_s: float
    """Of a token of its context there [s]."""

    def seconds(self, work: RequestWork) -> float:
        """Of a request with some work [s]."""
        each = (self.token_s, self.key_s, self.step_s, self.context_token_s)
        return sum(s * n for s, n in zip(each, work, strict=True))


def pass_facet(region: PassRegion, work: RequestWork) -> PassFacet:
    """The facet that is greatest for a mix of requests.

    Equation:
        max a P + e K + b D + c C over a, e, b, c, l >= 0 with a p + e k + b d + c x + l t d <= tau (1 + l d) for every
        pass: p prompt tokens that attend to k keys in all, d sequences with x tokens of context in all, tau its
        seconds, t the limit on the mean time per output token

    Args:
        region: the passes that can be made.
        work: of the mix, per request.

    Valid:
        Exact for seconds that are linear between knots: so is the left side in each of the table's axes, and a
        function that is linear along every axis is greatest at a corner. With several attention replicas keys count
        nothing, as the table knows those of the fullest one alone. A limit on the time per token is one on its mean
        over all output tokens; of percentiles, none.

    Source:
        Linear programming duality: the seconds of the cheapest passes that cover a mix (Dantzig 1963). Summed over
        passes, l (sum tau d - t sum d) <= 0 for l >= 0.
    """
    terms, seconds = _corners(region)
    if len(region.times.spread) > 1:
        work = work._replace(keys=0.0)
    gain = np.append(np.array(work), 0.0)
    limit = np.zeros(len(seconds)) if region.tpot_s == inf else (region.tpot_s - seconds) * terms[:, 2]
    rows = np.column_stack([terms, limit]) / seconds[:, np.newaxis]
    scale = 1 / np.where(gain > 0, gain, 1.0)
    is_used = np.append(gain[:4] > 0, region.tpot_s < inf)
    return PassFacet(*(_greatest(gain * scale, rows * scale, is_used) * scale)[:4].tolist())


def _greatest(gain: Floats, rows: Floats, is_used: NDArray[np.bool_]) -> Floats:
    """The x >= 0 that is greatest by some gain with rows x <= 1; rows join as x passes them, since few of many bind.

    Args:
        gain: of each x, shape (n,).
        rows: shape (rows, n).
        is_used: whether each x may be more than 0, shape (n,).
    """
    import highspy

    even = rows[:, :4] / np.maximum(rows[:, :4].sum(axis=1, keepdims=True), TINY)
    program, columns = one_thread_solver(), np.arange(len(gain), dtype=np.int32)
    program.addVars(len(gain), np.zeros(len(gain)), np.where(is_used, inf, 0.0))
    program.changeColsCost(len(gain), columns, -gain)
    is_in, n_added = np.zeros(len(rows), bool), min(N_ADDED, len(rows))
    new = np.unique([*rows.argmax(axis=0), *even.argmax(axis=0)])
    x: Floats = np.zeros(len(gain))
    for _ in range(MOST_ROUNDS):
        starts, n_terms = np.arange(len(new), dtype=np.int32) * len(gain), len(new) * len(gain)
        terms = np.tile(columns, len(new)), rows[new].ravel()
        program.addRows(len(new), np.full(len(new), -inf), np.ones(len(new)), n_terms, starts, *terms)
        is_in[new] = True
        program.run()
        is_solved = program.getModelStatus() == highspy.HighsModelStatus.kOptimal
        x = np.asarray(program.getSolution().col_value) if is_solved else x
        over = rows @ x - 1 if is_solved else np.where(is_in, 0.0, even.max(axis=1))
        worst = np.argpartition(over, -n_added)[-n_added:]
        new = worst[over[worst] > TOLERANCE]
        if is_solved and not len(new):
            break
    return x / max(float((rows @ x).max()), 1.0)


def _corners(region: PassRegion) -> tuple[Floats, Floats]:
    """Passes at the knots of the table that bound a possible pass: tokens, keys, sequences, context, and seconds."""
    t = region.times
    grids = np.meshgrid(t.spread, t.tokens, t.keys, t.sequences, t.contexts, indexing="ij")
    spread, tokens, keys, sequences, contexts = (g.ravel() for g in grids)
    before = np.meshgrid(
        t.spread, _knot_before(t.tokens), t.keys, _knot_before(t.sequences), _knot_before(t.contexts), indexing="ij"
    )
    _, least_tokens, _, least_sequences, least_contexts = (g.ravel() for g in before)
    if region.is_prefill_first:
        is_possible = (sequences == 0) & (least_tokens <= region.budget_tokens)
    else:
        is_possible = least_tokens + least_sequences <= region.budget_tokens
    is_possible &= least_sequences * least_contexts <= region.room_tokens
    prompts = np.column_stack([spread * tokens, spread * tokens * keys, sequences, sequences * contexts])[is_possible]
    each, context = (g.ravel() for g in np.meshgrid(np.arange(len(t.decode_s)), t.contexts, indexing="ij"))
    fits = (each > 0) & (each * np.tile(_knot_before(t.contexts), len(t.decode_s)) <= region.room_tokens)
    steps = np.column_stack([np.zeros((len(each), 2)), each, each * context])[fits]
    return np.concatenate([prompts, steps]), np.concatenate([t.prompt_s.ravel()[is_possible], t.decode_s.ravel()[fits]])


def _knot_before(knots: Floats) -> Floats:
    """The knot before each, from which a pass may begin that it bounds; of the first itself."""
    return np.append(knots[:1], knots[:-1])
