"""States of prompts that wait as passes begin: how many tokens, and whether somebody waits behind a long prompt."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.erlang import Floats
from planner.queueing.token_lattice import TokenLattice


@dataclass(frozen=True, eq=False)
class States:
    """Waiting work as a pass begins: cells of tokens, and of those that fill a pass whether one will wait untouched."""

    first_full: int
    """Cells that fill a pass, from this one on."""
    begun_cells: float
    """What is left of a prompt that is begun, at most: of more, somebody waits behind it."""
    cell_tokens: float
    cells: NDArray[np.int_]
    """Of each state."""
    waits: NDArray[np.bool_]
    """Whether a request waits while the pass lasts."""
    left_cells: Floats
    """What the pass leaves."""

    @classmethod
    def of(cls, lattice: TokenLattice, budget: float, *, is_told_apart: bool) -> "States":
        """States of a lattice.

        Args:
            lattice: numbers of tokens.
            budget: most prompt tokens of a pass.
            is_told_apart: whether it matters that somebody waits.
        """
        n, cell = lattice.n_cells, lattice.cell_tokens
        first_full = min(int(np.ceil(budget / cell - 1e-9)), n)
        begun = max(lattice.begun_tokens - budget, lattice.mean_tokens / 2, cell) / cell + 0.5
        twice = np.arange(first_full, n) if is_told_apart else np.arange(0)
        cells = np.concatenate([np.arange(n), twice])
        waits = np.arange(len(cells)) >= n
        return cls(first_full, begun, cell, cells, waits, np.maximum(cells - budget / cell, 0.0))

    @property
    def tokens(self) -> Floats:
        """Of each state."""
        return np.asarray(self.cells * self.cell_tokens, np.float64)

    @property
    def n_cells(self) -> int:
        """Of the lattice."""
        return int(self.cells[-1]) + 1

    def by_amount(self, mass: Floats) -> Floats:
        """Probabilities of states, of those by cells: somebody waits where more is left than a prompt that is begun."""
        found = np.zeros((*mass.shape[:-1], len(self.cells)))
        found[..., : self.n_cells] = mass
        is_behind = self.left_cells[: self.n_cells] > self.begun_cells
        if self.waits.any():
            found[..., self.n_cells :] = (mass * is_behind)[..., self.first_full :]
            found[..., : self.n_cells] *= ~is_behind
        return found

    def moves(self, none: Floats, one: Floats, more: Floats) -> Floats:
        """Probabilities from state to state.

        Equation: without arrivals whoever is alone stays alone; one who comes to an instance whose next pass it shares
            is alone too, else it waits; of others the amount tells.

        Args:
            none: that nobody comes, by state and cells of what comes.
            one: the same that one does.
            more: the same that several do.
        """
        left, mine = self.left_cells, ~self.waits[:, None]
        if not self.waits.any():
            found = _shifted(none + one + more, left)
        else:
            shares = mine & (left < self.first_full)[:, None]
            found = self.by_amount(_shifted(~mine * (none + one) + more, left))
            found[:, : self.n_cells] += _shifted(mine * none + shares * one, left)
            found[:, self.n_cells :] += _shifted((mine & ~shares) * one, left)[:, self.first_full :]
        found[:, self.n_cells - 1] += np.maximum(1.0 - found.sum(axis=1), 0.0)
        return np.asarray(found)


def _shifted(mass: Floats, cells: Floats) -> Floats:
    """Rows of probabilities, each that many cells further; what is beyond the last is left out."""
    low = np.floor(cells).astype(int)
    place, part = np.arange(mass.shape[1]) - low[:, None], (cells - low)[:, None]
    at, before = (
        np.where(at >= 0, np.take_along_axis(mass, np.maximum(at, 0), axis=1), 0.0) for at in (place, place - 1)
    )
    return np.asarray((1 - part) * at + part * before)
