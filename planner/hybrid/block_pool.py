"""Memory for caches, in blocks of one size."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem
from planner.hybrid.model import HybridModel
from planner.hybrid.wire import latent_bytes_per_token, state_bytes

ALIGNMENT_BYTES = 64
"""Blocks begin at cache lines."""


@dataclass(frozen=True)
class BlockLayout:
    """Sizes of blocks: one holds the latents of some tokens in all layers, or a piece of a request's state."""

    block_tokens: int
    """Tokens of a block of latents."""
    block_bytes: int
    """Size of every block [B], a multiple of ALIGNMENT_BYTES."""
    state_bytes: int
    """States and taps of one request [B]."""

    @property
    def n_state_blocks(self) -> int:
        """Blocks of one request's states and taps."""
        return ceil(self.state_bytes / self.block_bytes)


def block_layout(model: HybridModel, block_tokens: int) -> BlockLayout:
    """Block sizes for a model.

    Args:
        block_tokens: tokens of a block of latents, at least 1.

    Returns:
        Blocks as large as the latents of that many tokens, rounded up to the alignment.

    Raises:
        InputError: block_tokens is below 1.
    """
    if block_tokens < 1:
        raise InputError(InputProblem("pool", "block_tokens", f"is {block_tokens}", "at least 1"))
    per_token = sum(map(latent_bytes_per_token, model.mixers))
    size = max(ceil(block_tokens * per_token / ALIGNMENT_BYTES), 1) * ALIGNMENT_BYTES
    return BlockLayout(block_tokens, size, sum(map(state_bytes, model.mixers)))


class BlockPool:
    """Blocks in one array; which are free, and what is in the others."""

    def __init__(self, layout: BlockLayout, n_blocks: int) -> None:
        self.layout = layout
        self.storage: NDArray[np.uint8] = np.zeros((n_blocks, layout.block_bytes), np.uint8)
        # Taken from the end: the lowest numbers first.
        self._free = list(range(n_blocks - 1, -1, -1))

    @property
    def n_blocks(self) -> int:
        """All blocks."""
        return len(self.storage)

    @property
    def n_free(self) -> int:
        """Blocks that nothing is in."""
        return len(self._free)

    def store(self, content: bytes) -> tuple[int, ...] | None:
        """Put bytes into as many blocks as they need.

        Returns:
            The blocks, in order; None where too few are free.
        """
        n = ceil(len(content) / self.layout.block_bytes)
        if n > len(self._free):
            return None
        blocks = tuple(self._free.pop() for _ in range(n))
        for index, block in enumerate(blocks):
            piece = content[index * self.layout.block_bytes : (index + 1) * self.layout.block_bytes]
            self.storage[block, : len(piece)] = np.frombuffer(piece, np.uint8)
        return blocks

    def content(self, blocks: tuple[int, ...], n_bytes: int) -> bytes:
        """The first bytes of some blocks, one after another."""
        return self.storage[list(blocks)].tobytes()[:n_bytes]

    def release(self, blocks: tuple[int, ...]) -> None:
        """Blocks that nobody needs any more."""
        self._free.extend(blocks)
