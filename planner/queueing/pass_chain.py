"""Prompt tokens that wait for passes, from one pass to the next: a Markov chain on a lattice of tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.erlang import Floats

CELLS_PER_PASS = 48
CELLS_PER_PROMPT = 4
MOST_CELLS = 256
"""Of the lattice: cells finer than a part of a pass and of a mean prompt, where that many reach far enough."""
MOMENTS = (1 / 6, 1 / 2, 5 / 6)
"""Parts of a pass at which requests come."""
N_KINDS = 5
"""Prompt lengths that are followed apart, of many."""
N_TIMES = 2048
"""Times that stand for a distribution."""
NEGLIGIBLE = 1e-9
"""Probability that is left out."""


@dataclass(frozen=True, eq=False)
class TokenLattice:
    """Numbers of tokens as whole cells; a number between two of them is partly either, with its mean."""

    cell_tokens: float
    n_cells: int
    prompt: Floats
    """Probability of a prompt's length, by cells."""
    mean_tokens: float
    """Mean prompt [tokens]."""
    begun_tokens: float
    """Mean prompt of a token, which is how long one that is begun is [tokens]."""

    @cached_property
    def spectrum(self) -> NDArray[np.complex128]:
        """Fourier transform of `prompt`, with as many cells of room behind it."""
        return np.fft.rfft(self.prompt, 2 * self.n_cells)

    def of(self, tokens: Floats, weights: Floats) -> Floats:
        """Probabilities by cells; what is beyond the last is put there."""
        place = np.minimum(np.asarray(tokens, float) / self.cell_tokens, self.n_cells - 1.0)
        low = np.minimum(place.astype(int), self.n_cells - 2)
        part = place - low
        found = np.bincount(low, weights * (1 - part), self.n_cells)
        return np.asarray(found + np.bincount(low + 1, weights * part, self.n_cells))

    def summed(self, spectrum: NDArray[np.complex128]) -> Floats:
        """Probabilities of a spectrum, along the last axis."""
        return np.maximum(np.fft.irfft(spectrum, 2 * self.n_cells)[..., : self.n_cells], 0.0)


def token_lattice(tokens: Floats, weights: Floats, budget_tokens: float, utilization: float) -> TokenLattice:
    """A lattice that the tokens waiting at an instance hardly ever leave.

    Args:
        tokens: prompt lengths [tokens], shape (n,).
        weights: their shares, shape (n,), sum 1.
        budget_tokens: prompt tokens of a full pass.
        utilization: load of the instance, below 1; the fuller, the further it reaches.

    Returns:
        The lattice.

    Valid: a heuristic, of which only precision depends.

    >>> lattice = token_lattice(np.array([1000.0]), np.ones(1), 8192.0, 0.5)
    >>> lattice.cell_tokens, round(float(lattice.prompt @ np.arange(lattice.n_cells)) * lattice.cell_tokens, 6)
    (200.0, 1000.0)
    """
    mean = float(tokens @ weights)
    order = np.argsort(tokens)
    longest = float(tokens[order][min(int(np.searchsorted(np.cumsum(weights[order]), 0.999)), len(tokens) - 1)])
    finest = max(min(budget_tokens / CELLS_PER_PASS, mean / CELLS_PER_PROMPT), 1e-3)
    reach = 2 * longest + min(budget_tokens, 20 * longest) + 3 * max(mean, longest / 4) / (1 - utilization)
    cell = max(finest, reach / MOST_CELLS)
    if mean >= cell:
        cell = mean / int(mean / cell)  # equal prompts end at cells
    n = max(int(np.ceil(reach / cell)), 8)
    begun = float(tokens**2 @ weights) / mean if mean > 0 else 0.0
    bare = TokenLattice(cell, n, np.zeros(n), mean, begun)
    return TokenLattice(cell, n, bare.of(tokens, weights), mean, begun)


@dataclass(frozen=True)
class Arrivals:
    """Requests that come to an instance, independent of one another; a router may avoid one where requests wait."""

    fresh_req_per_s: float
    """While none waits for a pass [req/s]."""
    waiting_req_per_s: float
    """While one does [req/s]."""

    @classmethod
    def routed(cls, rate_req_per_s: float, waiting_fraction: float, n_instances: int) -> "Arrivals":
        """An instance among others, where each request goes to one at which none waits, if there is one.

        Equation: with w the share of time in which one waits, w^n of the requests find one everywhere: r w^(n - 1) come
            to an instance where one waits, r (1 - w^n) / (1 - w) to another.

        Args:
            rate_req_per_s: mean rate r of an instance [req/s].
            waiting_fraction: share of time w, below 1 [fraction].
            n_instances: instances n.

        Valid: instances independent of one another.

        Source: mean field of join-the-shortest-queue, as Mitzenmacher (2001), IEEE TPDS 12(10).

        >>> Arrivals.routed(2.0, 0.5, 1)
        Arrivals(fresh_req_per_s=2.0, waiting_req_per_s=2.0)
        """
        w, n = waiting_fraction, n_instances
        return cls(rate_req_per_s * (1 - w**n) / (1 - w), rate_req_per_s * w ** (n - 1))

    def spectra(
        self, seconds: Floats, waits: NDArray[np.bool_], spectrum: NDArray[np.complex128]
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Transforms of the tokens that come in times: of all that come, and, times the rate, before one at the end.

        Equation: with f the transform of a prompt, a and b the rates: where one waits already exp(b t (f - 1)); else
            e^(-a t) + a f (e^(b t (f - 1)) - e^(-a t)) / (a + b (f - 1)), none or a first and then others; before a
            request at the end a e^(-a t) + b times the rest of it.

        Args:
            seconds: times t [s], shape (k,).
            waits: whether one waits from the beginning, shape (k,).
            spectrum: transform f of a prompt's length, shape (n,).
        """
        a, b = self.fresh_req_per_s, self.waiting_req_per_s
        t, f = seconds[:, None], spectrum[None, :]
        after = np.exp(b * t * (f - 1.0))
        none = np.exp(-a * t)
        some = a * f * (after - none) / _not_zero(a + b * (f - 1.0))
        came = np.where(waits[:, None], after, none + some)
        return came, np.where(waits[:, None], b * after, a * none + b * some)


def _not_zero(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    return np.where(np.abs(values) < 1e-12, 1e-12, values)


@dataclass(frozen=True, eq=False)
class PassChain:
    """Steady state from pass to pass beside a number of sequences that decode; made by `pass_chain`."""

    lattice: TokenLattice
    budget: float
    """Most prompt tokens of a pass."""
    arrivals: Arrivals
    starts: Floats
    """Tokens that wait as a pass begins, by cells: share of passes [fraction]."""
    kinds: NDArray[np.int_]
    """Pass that each leads to, an index of `table`."""
    table: Floats
    """Prompt tokens of passes: whole cells, then full ones that leave no prompt untouched, and that do [tokens]."""
    table_s: Floats
    """Seconds of each [s]."""
    idles: bool
    """Whether an instance without prompts does nothing."""
    is_prefill_first: bool

    @property
    def passes(self) -> Floats:
        """Share of each kind of pass [fraction]."""
        return np.asarray(np.bincount(self.kinds, self.starts, len(self.table)), np.float64)

    @property
    def token_s(self) -> float:
        """Seconds from a sequence's token to its next [s]."""
        decoding = float(self.passes[0]) if self.is_prefill_first else 1.0
        return float(self.passes @ self.table_s) / max(decoding, NEGLIGIBLE)

    @property
    def waiting_fraction(self) -> float:
        """Share of time in which a request waits for a pass [fraction]."""
        a, s = self.arrivals.fresh_req_per_s, _durations_s(self.table_s, self.arrivals, self.idles)
        waits_s = s + np.expm1(-a * s) / a
        waits_s[-1] = s[-1]
        if self.idles:
            waits_s[0] = 0.0
        return float(self.passes @ waits_s) / float(self.passes @ s)

    def first_tokens(self, tokens: Floats, weights: Floats, extra_s: Floats) -> tuple[Floats, Floats]:
        """Seconds until the first token of requests that come, with their weights.

        Args:
            tokens: prompt lengths [tokens], shape (n,).
            weights: their shares, shape (n,), sum 1.
            extra_s: what each takes beyond a prompt of mean depth [s], shape (n,).
        """
        residual_s, ahead, shares = self._met()
        found_s, found_w = [], []
        for length, share, extra in _kinds(self.lattice, tokens, weights, extra_s):
            ends = self.lattice.summed(ahead * np.fft.rfft(length, 2 * self.lattice.n_cells))
            seconds = self._until_done(residual_s) + extra
            found_s.append(np.maximum(seconds, self.table_s[0] * NEGLIGIBLE).ravel())
            found_w.append((ends * (shares * share)[:, None]).ravel())
        return fewer(np.concatenate(found_s), np.concatenate(found_w))

    def _met(self) -> tuple[Floats, NDArray[np.complex128], Floats]:
        """What requests meet: seconds left of the pass, tokens ahead after it (times their rate), and how often."""
        time = self.passes * _durations_s(self.table_s, self.arrivals, self.idles)
        kept = np.flatnonzero(time > NEGLIGIBLE * time.sum())
        u, kind = np.tile(MOMENTS, len(kept)), np.repeat(kept, len(MOMENTS))
        length_s = np.where(self.idles & (kind == 0), 0.0, self.table_s[kind])
        last = len(self.table) - 1
        _, before = self.arrivals.spectra(u * length_s, kind == last, self.lattice.spectrum)
        for full in (last - 1, last):
            left = self.lattice.of(*self._left_over(full))
            before[kind == full] *= np.fft.rfft(left, 2 * self.lattice.n_cells) / max(left.sum(), NEGLIGIBLE)
        shares = np.repeat(time[kept], len(MOMENTS))
        return (1 - u) * length_s, before, shares / float(shares @ np.abs(before[:, 0]))

    def _left_over(self, full: int) -> tuple[Floats, Floats]:
        """Tokens that a kind of full pass leaves, and how often it does."""
        waiting = np.arange(self.lattice.n_cells) * self.lattice.cell_tokens
        mine = self.kinds == full
        return np.maximum(waiting[mine] - self.budget, 0.0), self.starts[mine]

    def _until_done(self, residual_s: Floats) -> Floats:
        """Seconds to the end of the pass with the last of so many waiting tokens, by residual and cells."""
        end = np.arange(self.lattice.n_cells) * self.lattice.cell_tokens
        n_full = np.maximum(np.ceil(end / self.budget - 1e-9) - 1, 0.0)
        before_s = residual_s[:, None] + (n_full * self.table_s[-1])[None, :]
        # Who comes meanwhile shares the last pass.
        beside = self.arrivals.waiting_req_per_s * self.lattice.mean_tokens * before_s
        last = np.minimum((end - n_full * self.budget)[None, :] + beside, self.budget)
        return np.asarray(before_s + np.interp(last, self.table[:-1], self.table_s[:-1]))


def pass_chain(
    lattice: TokenLattice,
    seconds: Callable[[Floats], Floats],
    budget: float,
    arrivals: Arrivals,
    *,
    idles: bool,
    is_prefill_first: bool = False,
) -> PassChain:
    """The chain of prompt tokens that wait as passes begin.

    Equation: w' = w - min(w, T) + A(s(min(w, T))): a pass takes at most T of the w tokens that wait, and in its
        seconds s a number of prompts comes. Without work it lasts until somebody comes.

    Args:
        lattice: numbers of tokens.
        seconds: of passes by prompt tokens, 0 being a decode step [s].
        budget: most prompt tokens T of a pass.
        arrivals: requests that come.
        idles: whether nobody decodes, so that a pass without prompts does not happen.
        is_prefill_first: whether a pass has prompts or decodes.

    Returns:
        The steady state.

    Valid: prompts may be split anywhere; passes depend on how many tokens they take and not on whose; a request waits
        after a full pass that leaves more than what is left of a prompt that is begun.

    Source: Kendall (1953), the chain embedded at ends of service; bulk service: Bailey (1954).

    >>> lattice = token_lattice(np.array([100.0]), np.ones(1), 100.0, 0.5)
    >>> chain = pass_chain(lattice, lambda p: 0.001 * p + 1e-9, 100.0, Arrivals(5.0, 5.0), idles=True)  # M/D/1
    >>> seconds, weights = chain.first_tokens(np.array([100.0]), np.ones(1), np.zeros(1))
    >>> round(float(seconds @ weights), 3)  # 0.1 and a wait of 0.05, at load 0.5
    0.15
    """
    waiting: Floats = np.arange(lattice.n_cells, dtype=np.float64) * lattice.cell_tokens
    short = waiting[waiting < budget]
    table = np.concatenate([short, [budget, budget]])
    kinds = np.minimum(np.arange(lattice.n_cells), len(short))
    begun = max(lattice.begun_tokens - budget, lattice.mean_tokens / 2, lattice.cell_tokens)
    kinds[waiting - budget >= begun] = len(short) + 1
    table_s = np.asarray(seconds(table), float)
    waits = np.arange(len(table)) == len(table) - 1
    durations_s = _durations_s(table_s, arrivals, idles)
    came = lattice.summed(arrivals.spectra(durations_s, waits, lattice.spectrum)[0])
    if idles:
        came[0] = lattice.prompt
    starts = _stationary(_moves(came[kinds], np.maximum(waiting - budget, 0.0) / lattice.cell_tokens))
    return PassChain(lattice, budget, arrivals, starts, kinds, table, table_s, idles, is_prefill_first)


def _durations_s(table_s: Floats, arrivals: Arrivals, idles: bool) -> Floats:
    """Seconds of each pass, or until somebody comes."""
    found = table_s.copy()
    if idles:
        found[0] = 1.0 / arrivals.fresh_req_per_s
    return found


def _moves(came: Floats, left: Floats) -> Floats:
    """Probabilities from what waits at one pass to what waits at the next: what comes, and cells that are left."""
    n = len(left)
    moves = np.zeros((n, n))
    for i in range(n):
        low, part = divmod(float(left[i]), 1.0)
        k = int(low)
        moves[i, k:] += (1 - part) * came[i, : n - k]
        moves[i, k + 1 :] += part * came[i, : n - k - 1]
    moves[:, -1] += np.maximum(1.0 - moves.sum(axis=1), 0.0)
    return moves


def _stationary(moves: Floats) -> Floats:
    n = len(moves)
    balance = moves.T - np.eye(n)
    balance[-1] = 1.0
    found = np.maximum(np.linalg.solve(balance, np.eye(n)[-1]), 0.0)
    return np.asarray(found / found.sum())


def _kinds(
    lattice: TokenLattice, tokens: Floats, weights: Floats, extra_s: Floats
) -> list[tuple[Floats, float, float]]:
    """Prompt lengths by cells, in groups from short to long, each with its share and mean extra seconds."""
    order = np.argsort(tokens, kind="stable")
    group = np.minimum((np.cumsum(weights[order]) - weights[order] / 2) * N_KINDS, N_KINDS - 1).astype(int)
    found = []
    for g in np.unique(group):
        mine = order[group == g]
        share = float(weights[mine].sum())
        length = lattice.of(tokens[mine], weights[mine] / share)
        found.append((length, share, float(extra_s[mine] @ weights[mine]) / share))
    return found


def fewer(seconds: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fewer atoms with the same mean: those at nearly the same time become one."""
    kept = weights > NEGLIGIBLE * NEGLIGIBLE
    s, w = seconds[kept], weights[kept]
    low, high = float(s.min()), float(s.max())
    cell = ((s - low) / max(high - low, 1e-300) * (N_TIMES - 1)).astype(int)
    mass = np.bincount(cell, w, N_TIMES)
    some = mass > 0
    return np.bincount(cell, w * s, N_TIMES)[some] / mass[some], mass[some] / mass.sum()
