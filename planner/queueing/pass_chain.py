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
    bare = TokenLattice(cell, n, np.zeros(n), mean)
    return TokenLattice(cell, n, bare.of(tokens, weights), mean)


@dataclass(frozen=True, eq=False)
class PassChain:
    """Steady state from pass to pass beside a number of sequences that decode; made by `pass_chain`."""

    lattice: TokenLattice
    budget: float
    """Most prompt tokens of a pass."""
    rate: float
    """Arrivals [req/s]."""
    starts: Floats
    """Tokens that wait as a pass begins, by cells: share of passes [fraction]."""
    table: Floats
    """Prompt tokens of the passes that there are: whole cells, and the full one last [tokens]."""
    table_s: Floats
    """Seconds of each [s]."""
    idles: bool
    """Whether an instance without prompts does nothing."""
    is_prefill_first: bool
    evenness: float
    """How evenly requests come, see `pass_chain` [fraction]."""

    @property
    def kinds(self) -> NDArray[np.int_]:
        """Pass that each number of waiting cells leads to."""
        return np.minimum(np.arange(self.lattice.n_cells), len(self.table) - 1)

    @property
    def durations_s(self) -> Floats:
        """Seconds of each pass, or until somebody comes."""
        return _durations_s(self.table_s, self.rate, self.idles)

    @property
    def token_s(self) -> float:
        """Seconds from a sequence's token to its next [s]."""
        passes = np.bincount(self.kinds, self.starts, len(self.table))
        decoding = passes[0] if self.is_prefill_first else 1.0
        return float(passes @ self.table_s / max(decoding, NEGLIGIBLE))

    def first_tokens(self, tokens: Floats, weights: Floats, extra_s: Floats) -> tuple[Floats, Floats]:
        """Seconds until the first token of requests that come at any time, with their weights.

        Args:
            tokens: prompt lengths [tokens], shape (n,).
            weights: their shares, shape (n,), sum 1.
            extra_s: what each takes beyond a prompt of mean depth [s], shape (n,).
        """
        residual_s, ahead, shares = self._arrivals()
        found_s, found_w = [], []
        for length, share, extra in _kinds(self.lattice, tokens, weights, extra_s):
            ends = self.lattice.summed(ahead * np.fft.rfft(length, 2 * self.lattice.n_cells))
            seconds = self._until_done(residual_s) + extra
            found_s.append(np.maximum(seconds, self.table_s[0] * NEGLIGIBLE).ravel())
            found_w.append((ends * (shares * share)[:, None]).ravel())
        return fewer(np.concatenate(found_s), np.concatenate(found_w))

    def _arrivals(self) -> tuple[Floats, NDArray[np.complex128], Floats]:
        """What requests meet: seconds left of the pass, the spectrum of tokens ahead after it, and how often."""
        n = self.lattice.n_cells
        time = np.bincount(self.kinds, self.starts, len(self.table)) * self.durations_s
        kept = np.flatnonzero(time > NEGLIGIBLE * time.sum())
        u = np.tile(MOMENTS, len(kept))
        kind = np.repeat(kept, len(MOMENTS))
        waits = self.idles & (kind == 0)
        length_s = np.where(waits, 0.0, self.table_s[kind])
        before, _ = requests_spectra(self.rate * u * length_s, self.lattice.spectrum, self.evenness)
        came = np.array(before)
        left = self.lattice.of(*self._left_over())
        is_full = kind == len(self.table) - 1
        came[is_full] *= np.fft.rfft(left, 2 * n) / max(left.sum(), NEGLIGIBLE)
        shares = np.repeat(time[kept] / time[kept].sum(), len(MOMENTS)) / len(MOMENTS)
        return (1 - u) * length_s, came, shares

    def _left_over(self) -> tuple[Floats, Floats]:
        """Tokens that a full pass leaves, and how often it does."""
        waiting = np.arange(self.lattice.n_cells) * self.lattice.cell_tokens
        is_full = self.kinds == len(self.table) - 1
        return np.maximum(waiting[is_full] - self.budget, 0.0), self.starts[is_full]

    def _until_done(self, residual_s: Floats) -> Floats:
        """Seconds to the end of the pass with the last of so many waiting tokens, by residual and cells."""
        end = np.arange(self.lattice.n_cells) * self.lattice.cell_tokens
        n_full = np.maximum(np.ceil(end / self.budget - 1e-9) - 1, 0.0)
        before_s = residual_s[:, None] + (n_full * self.table_s[-1])[None, :]
        beside = self.rate * self.lattice.mean_tokens * before_s  # who came meanwhile shares the last pass
        last = np.minimum((end - n_full * self.budget)[None, :] + beside, self.budget)
        return np.asarray(before_s + np.interp(last, self.table, self.table_s))


def pass_chain(
    lattice: TokenLattice,
    seconds: Callable[[Floats], Floats],
    budget: float,
    rate: float,
    *,
    idles: bool,
    is_prefill_first: bool = False,
    evenness: float = 0.0,
) -> PassChain:
    """The chain of prompt tokens that wait as passes begin.

    Equation: w' = w - min(w, T) + A(s(min(w, T))): a pass takes at most T of the w tokens that wait, and in its
        seconds s a Poisson number of prompts comes. Without work it lasts until somebody comes.

    Args:
        lattice: numbers of tokens.
        seconds: of passes by prompt tokens, 0 being a decode step [s].
        budget: most prompt tokens T of a pass.
        rate: arrivals [req/s].
        idles: whether nobody decodes, so that a pass without prompts does not happen.
        is_prefill_first: whether a pass has prompts or decodes.
        evenness: 0 for a Poisson stream; 1 where requests come with every other event of one, as at an instance that
            each request makes less likely to get the next; between, in proportion [fraction].

    Returns:
        The steady state.

    Valid: prompts may be split anywhere; passes depend on how many tokens they take and not on whose.

    Source: Kendall (1953), the chain embedded at ends of service; bulk service: Bailey (1954).

    >>> lattice = token_lattice(np.array([100.0]), np.ones(1), 100.0, 0.5)
    >>> chain = pass_chain(lattice, lambda p: 0.001 * p + 1e-9, 100.0, 5.0, idles=True)  # M/D/1 at load 0.5
    >>> seconds, weights = chain.first_tokens(np.array([100.0]), np.ones(1), np.zeros(1))
    >>> round(float(seconds @ weights), 3)  # 0.1 and a wait of 0.05
    0.15
    """
    waiting: Floats = np.arange(lattice.n_cells, dtype=np.float64) * lattice.cell_tokens
    short = waiting[waiting < budget]
    table = np.append(short, min(budget, max(waiting[-1], short[-1])) if len(short) == lattice.n_cells else budget)
    table_s = np.asarray(seconds(table), float)
    durations_s = _durations_s(table_s, rate, idles)
    came = lattice.summed(requests_spectra(rate * durations_s, lattice.spectrum, evenness)[1])
    if idles:
        came[0] = lattice.prompt
    starts = _stationary(_moves(came, len(short), waiting, budget, lattice.cell_tokens))
    return PassChain(lattice, budget, rate, starts, table, table_s, idles, is_prefill_first, evenness)


def requests_spectra(
    mean_requests: Floats, spectrum: NDArray[np.complex128], evenness: float
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Transforms of the tokens that come in a time: before a request that comes at its end, and in any such time.

    Equation: with f the transform of a prompt and m the mean number: Poisson exp(m (f - 1)); of Erlang's gaps of two
        phases, X ~ Poisson(2 m) phases are floor(X / 2) requests after one, and as often one phase more in any time.

    Args:
        mean_requests: mean numbers m, shape (k,).
        spectrum: transform f of a prompt's length, shape (n,).
        evenness: share of the second [fraction].

    Returns:
        Both, shape (k, n).

    Source: Cox, Renewal Theory (1962), section 3.2.

    >>> before, any_time = requests_spectra(np.array([1.0]), np.array([0.25 + 0j]), 0.0)
    >>> bool(before[0, 0] == any_time[0, 0] == np.exp(-0.75))
    True
    """
    m, f = mean_requests[:, None], spectrum[None, :]
    poisson = np.exp(m * (f - 1.0))
    if evenness == 0:
        return poisson, poisson
    root = np.sqrt(np.where(np.abs(f) < 1e-18, 1e-18, f))
    plus, minus = np.exp(2 * m * (root - 1)), np.exp(-2 * m * (root + 1))
    even, odd = (plus + minus) / 2, (plus - minus) / 2
    after_one = even + odd / root
    any_time = (after_one + even + odd * root) / 2
    return (1 - evenness) * poisson + evenness * after_one, (1 - evenness) * poisson + evenness * any_time


def _durations_s(table_s: Floats, rate: float, idles: bool) -> Floats:
    found = table_s.copy()
    if idles:
        found[0] = 1.0 / rate
    return found


def _moves(came: Floats, n_short: int, waiting: Floats, budget: float, cell: float) -> Floats:
    """Probabilities from what waits at one pass to what waits at the next."""
    n = len(waiting)
    moves = np.zeros((n, n))
    moves[:n_short] = came[:n_short]
    for i in range(n_short, n):
        low, part = divmod((waiting[i] - budget) / cell, 1.0)
        k = int(low)
        moves[i, k:] += (1 - part) * came[-1, : n - k]
        moves[i, k + 1 :] += part * came[-1, : n - k - 1]
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
