"""Numbers of tokens as whole cells of a lattice."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.queueing.erlang import Floats

CELLS_PER_PASS = 48
CELLS_PER_PROMPT = 4
MOST_CELLS = 256
"""Of the lattice: cells finer than a part of a pass and of a mean prompt, where that many reach far enough."""


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
