"""Prompt tokens that wait for passes, from one pass to the next: a Markov chain on a lattice of tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from planner.queueing.chain_states import States
from planner.queueing.erlang import Floats
from planner.queueing.routed_arrivals import MOMENTS, Arrivals
from planner.queueing.token_lattice import TokenLattice
from planner.ties import ROUNDING

N_KINDS = 5
"""Prompt lengths that are followed apart, of many."""
N_BEFORE, N_ROOM = 12, 4
"""Groups of requests, by seconds before their last pass and by what that has room for."""
N_TIMES = 2048
"""Times that stand for a distribution."""
NEGLIGIBLE = 1e-9
"""Probability that is left out."""
HARDLY_ANY = 1e-13
"""The same of times to first token: above what transforms leave of rounding."""
DEVIATIONS = 16.0
"""How far the times that stand for a distribution reach from its mean, in standard deviations."""
MOST_PASSES, FORGOTTEN = 64, 1e-13
"""Passes that are followed from an empty instance, and the change of probability at which these no longer matter."""


@dataclass(frozen=True, eq=False)
class PassChain:
    """Steady state from pass to pass beside a number of sequences that decode; made by `pass_chain`."""

    lattice: TokenLattice
    budget: float
    """Most prompt tokens of a pass."""
    arrivals: Arrivals
    starts: Floats
    """Share of passes that begin in each state [fraction]."""
    moves: Floats
    """Probabilities from the state at one pass to that at the next."""
    states: States
    """What waits as a pass begins."""
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

    def behind(self, tokens: Floats, weights: Floats) -> Floats:
        """Shares of states as the pass with a prompt's last token ends [fraction].

        Equation: of what comes until that pass begins, it takes as much as it has room for; the rest waits, with what
            comes while it lasts.

        Args:
            tokens: prompt lengths [tokens], shape (n,).
            weights: their shares, shape (n,), sum 1.
        """
        residual_s, ahead, shares = self._met()
        own = np.fft.rfft(self.lattice.of(tokens, weights), 2 * self.lattice.n_cells)
        ends = (self.lattice.summed(ahead * own) * shares[:, None]).ravel()
        before_s, last = self._last_pass(residual_s)
        last_s = np.interp(last, self.table[:-1], self.table_s[:-1])
        room = np.broadcast_to(self.budget - self._own_part(), before_s.shape)
        w, t, free, during_s = _grouped(ends, before_s.ravel(), room.ravel(), last_s.ravel())
        came = self.lattice.summed(self.arrivals.spectra(t, np.ones(len(t), bool), self.lattice.spectrum)[0])
        left = np.array([_less(row, cells) for row, cells in zip(came, free / self.lattice.cell_tokens, strict=True)])
        fresh, after = (
            self.arrivals.spectra(during_s, np.full(len(t), waits), self.lattice.spectrum)[0] for waits in (False, True)
        )
        some = left.copy()
        some[:, 0] = 0.0
        spectra = left[:, :1] * fresh + np.fft.rfft(some, 2 * self.lattice.n_cells) * after
        found = w @ self.lattice.summed(spectra)
        found[-1] += max(1.0 - float(found.sum()), 0.0)
        return self.states.by_amount(found / found.sum())

    @property
    def came_in_step(self) -> Floats:
        """State after a decode step without prompts [fraction]."""
        return np.asarray(self.moves[0])

    @property
    def until_empty_s(self) -> Floats:
        """Seconds of passes until no prompt waits, by state."""
        n = len(self.kinds)
        seconds = self.table_s[self.kinds]
        found = np.linalg.solve(np.eye(n - 1) - self.moves[1:, 1:], seconds[1:])
        return np.append(0.0, found)

    def _met(self) -> tuple[Floats, NDArray[np.complex128], Floats]:
        """States that requests meet: seconds left of the pass, tokens ahead after it (times their rate), and shares."""
        time = self.passes * _durations_s(self.table_s, self.arrivals, self.idles)
        kept = np.flatnonzero(time > NEGLIGIBLE * time.sum())
        u, kind = np.tile(MOMENTS, len(kept)), np.repeat(kept, len(MOMENTS))
        length_s = np.where(self.idles & (kind == 0), 0.0, self.table_s[kind])
        last = len(self.table) - 1
        _, before = self.arrivals.spectra(u * length_s, kind == last, self.lattice.spectrum)
        for full in (last - 1, last):
            left = self.lattice.of(*self._left_over(full))
            before[kind == full] *= np.fft.rfft(left, 2 * self.lattice.n_cells) / max(left.sum(), NEGLIGIBLE)
        shares = (time[kept][:, None] * self.arrivals.moments(self.table_s[kept])).ravel()
        return (1 - u) * length_s, before, shares / float(shares @ np.abs(before[:, 0]))

    def _left_over(self, full: int) -> tuple[Floats, Floats]:
        """Tokens that a kind of full pass leaves, and how often it does."""
        mine = self.kinds == full
        return self.states.left_cells[mine] * self.lattice.cell_tokens, self.starts[mine]

    def _until_done(self, residual_s: Floats) -> Floats:
        """Seconds to the end of the pass with the last of so many waiting tokens, by residual and cells."""
        before_s, last = self._last_pass(residual_s)
        return np.asarray(before_s + np.interp(last, self.table[:-1], self.table_s[:-1]))

    def _last_pass(self, residual_s: Floats) -> tuple[Floats, Floats]:
        """Seconds until that pass begins, and its prompt tokens, by residual and cells."""
        before_s = residual_s[:, None] + (self._full_before() * self.table_s[-1])[None, :]
        # Who comes meanwhile shares the last pass.
        beside = self.arrivals.waiting_req_per_s * self.lattice.mean_tokens * before_s
        return before_s, np.minimum(self._own_part()[None, :] + beside, self.budget)

    def _full_before(self) -> Floats:
        """Full passes before the one with the last of so many waiting tokens, by cells."""
        end = np.arange(self.lattice.n_cells) * self.lattice.cell_tokens
        return np.asarray(np.maximum(np.ceil(end / self.budget - 1e-9) - 1, 0.0))

    def _own_part(self) -> Floats:
        """Waiting tokens that the pass with the last of them takes, by cells [tokens]."""
        return np.arange(self.lattice.n_cells) * self.lattice.cell_tokens - self._full_before() * self.budget


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

    >>> from planner.queueing.token_lattice import token_lattice
    >>> lattice = token_lattice(np.array([100.0]), np.ones(1), 100.0, 0.5)
    >>> chain = pass_chain(lattice, lambda p: 0.001 * p + 1e-9, 100.0, Arrivals(5.0, 5.0), idles=True)  # M/D/1
    >>> seconds, weights = chain.first_tokens(np.array([100.0]), np.ones(1), np.zeros(1))
    >>> round(float(seconds @ weights), 3)  # 0.1 and a wait of 0.05, at load 0.5
    0.15
    """
    states = States.of(lattice, budget, is_told_apart=arrivals.fresh_req_per_s != arrivals.waiting_req_per_s)
    short = states.tokens[: states.first_full]
    table = np.concatenate([short, [budget, budget]])
    kinds = np.minimum(states.cells, len(short)) + states.waits
    table_s = np.asarray(seconds(table), float)
    waits = np.arange(len(table)) == len(table) - 1
    came = [
        lattice.summed(part) for part in arrivals.parts(_durations_s(table_s, arrivals, idles), waits, lattice.spectrum)
    ]
    if idles:
        came[0][0], came[1][0], came[2][0] = 0.0, lattice.prompt, 0.0
    moves = states.moves(*(part[kinds] for part in came))
    return PassChain(
        lattice, budget, arrivals, _stationary(moves), moves, states, kinds, table, table_s, idles, is_prefill_first
    )


def _grouped(weights: Floats, before_s: Floats, room: Floats, last_s: Floats) -> tuple[Floats, ...]:
    """Weights and means of what is alike: first by seconds before, then by room.

    >>> weights, before_s = np.array([1.5, 0.5, 1e-12]), np.array([3.0, 1.0, 2.0])
    >>> [part.round(3).tolist() for part in _grouped(weights, before_s, 10 * before_s, before_s / 10)]
    [[0.25, 0.75], [1.0, 3.0], [10.0, 30.0], [0.1, 0.3]]
    """
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.sum())
    order = kept[np.lexsort((room[kept], before_s[kept]))]
    first = _parts(weights[order], N_BEFORE)
    order = order[np.lexsort((room[order], first))]
    group = np.sort(first) * N_ROOM
    for g in np.unique(group):
        mine = group == g
        group[mine] += _parts(weights[order][mine], N_ROOM)
    mass = np.bincount(group, weights[order])
    some = mass > 0
    means = (np.bincount(group, weights[order] * x[order])[some] / mass[some] for x in (before_s, room, last_s))
    return (mass[some] / mass.sum(), *means)


def _parts(weights: Floats, n: int) -> NDArray[np.int_]:
    """Which of n parts of about as much weight each belongs to, in order.

    >>> _parts(np.array([1.0, 1.0, 1.0, 1.0, 4.0]), 4).tolist()
    [0, 0, 1, 1, 3]
    """
    middle = np.cumsum(weights) - weights / 2
    return np.asarray(np.minimum((middle / weights.sum() * n).astype(int), n - 1), np.int_)


def _less(mass: Floats, cells: float) -> Floats:
    """Probabilities of what is left when so many cells are taken.

    >>> _less(np.array([0.2, 0.3, 0.5]), 1.5).round(3).tolist()
    [0.75, 0.25, 0.0]
    """
    place = np.maximum(np.arange(len(mass)) - cells, 0.0)
    low = np.minimum(place.astype(int), len(mass) - 2)
    part = place - low
    found = np.bincount(low, mass * (1 - part), len(mass))
    return np.asarray(found + np.bincount(low + 1, mass * part, len(mass)))


def _durations_s(table_s: Floats, arrivals: Arrivals, idles: bool) -> Floats:
    """Seconds of each pass, or until somebody comes."""
    found = table_s.copy()
    if idles:
        found[0] = 1.0 / arrivals.fresh_req_per_s
    return found


def _stationary(moves: Floats) -> Floats:
    """Shares of states in the long run: by passes one after another while these forget soon, else by balance."""
    n = len(moves)
    now = np.eye(n)[0]
    for _ in range(MOST_PASSES):
        now, before = now @ moves, now
        if float(np.abs(now - before).sum()) < FORGOTTEN:
            return np.asarray(now / now.sum())
    balance = moves.T - np.eye(n)
    balance[-1] = 1.0
    found = np.maximum(np.linalg.solve(balance, np.eye(n)[-1]), 0.0)
    return np.asarray(found / found.sum())


def _kinds(
    lattice: TokenLattice, tokens: Floats, weights: Floats, extra_s: Floats
) -> list[tuple[Floats, float, float]]:
    """Prompt lengths by cells, in groups from short to long, each with its share and mean extra seconds."""
    order = np.argsort(tokens, kind="stable")
    order = order[weights[order] > 0]
    group = np.minimum((np.cumsum(weights[order]) - weights[order] / 2) * N_KINDS, N_KINDS - 1).astype(int)
    found = []
    for g in np.unique(group):
        mine = order[group == g]
        share = float(weights[mine].sum())
        length = lattice.of(tokens[mine], weights[mine] / share)
        found.append((length, share, float(extra_s[mine] @ weights[mine]) / share))
    return found


def fewer(seconds: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fewer atoms with the same mean: those at nearly the same time become one.

    Equation: cells from m - D d to m + D d, of mean m and standard deviation d; what is beyond goes to the outermost.
        Cells that reached to the least weight would move with what transforms leave of rounding.
    """
    shares = weights / weights.sum()
    mean = float(shares @ seconds)
    spread = DEVIATIONS * max(sqrt(float(shares @ (seconds - mean) ** 2)), NEGLIGIBLE * mean)
    place = ((seconds - mean) / spread + 1) * (N_TIMES / 2)
    cell = np.clip(place + ROUNDING, 0, N_TIMES - 1).astype(int)
    mass = np.bincount(cell, shares, N_TIMES)
    kept = mass > HARDLY_ANY
    return np.bincount(cell, shares * seconds, N_TIMES)[kept] / mass[kept], mass[kept] / mass[kept].sum()
