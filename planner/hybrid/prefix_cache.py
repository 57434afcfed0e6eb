"""The prefix cache: blocks of latents that any request with the same beginning may use, and states of exact lengths."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import numpy as np

from planner.errors import InputError, InputProblem
from planner.hybrid.block_pool import BlockPool
from planner.hybrid.cache import RequestCache
from planner.hybrid.model import Tokens
from planner.hybrid.numerics import to_bf16
from planner.hybrid.wire import latent_bytes_per_token, layer_payload, state_bytes, take_payload
from planner.profiles import KdaLayers, MlaLayers

DIGEST_BYTES = 16


@dataclass(frozen=True)
class StateSnapshot:
    """States and taps of a request when it had seen exactly so many tokens."""

    n_tokens: int
    content: bytes
    """Layers one after another, as they travel."""


def snapshot(cache: RequestCache) -> StateSnapshot:
    """States and taps as they are now."""
    return StateSnapshot(cache.n_tokens, b"".join(map(layer_payload, cache.states)))


def restore(cache: RequestCache, saved: StateSnapshot, n_tokens: int) -> None:
    """Put saved states into the cache of a request that continues after n_tokens tokens.

    Raises:
        InputError: the states are of another length. A recurrent state has every token of its own in it and none
            after: unlike latents it cannot be cut or stretched.
    """
    if saved.n_tokens != n_tokens:
        message = f"was saved at {saved.n_tokens} tokens"
        allowed = f"a state of exactly {n_tokens} tokens; recompute from a length that has one"
        raise InputError(InputProblem("prefix cache", "state", message, allowed))
    view, start = memoryview(saved.content), 0
    for layer in cache.states:
        size = len(layer_payload(layer))
        take_payload(layer, view[start : start + size])
        start += size


def prefix_digests(tokens: Tokens, block_tokens: int, limit: int) -> Iterator[tuple[int, bytes]]:
    """Length and digest of every prefix of whole blocks up to a limit; a digest stands for all tokens before its end.

    >>> [n for n, _ in prefix_digests(np.arange(50), 16, 49)]
    [16, 32, 48]
    """
    hashed = blake2b(digest_size=DIGEST_BYTES)
    plain = np.ascontiguousarray(tokens, np.int64)
    for start in range(0, limit - block_tokens + 1, block_tokens):
        hashed.update(plain[start : start + block_tokens].tobytes())
        yield start + block_tokens, hashed.digest()


@dataclass
class Hits:
    """Counts of what was looked for, found and evicted."""

    n_lookups: int = 0
    asked_tokens: int = 0
    hit_tokens: int = 0
    n_evicted_blocks: int = 0


class PrefixCache:
    """Latents by the digest of all tokens up to the end of their block, states by that of all their tokens.

    Both lie in blocks of one pool; what was used least recently makes room for what comes. A block is touched before
    those that precede it, so that of one prefix the end goes first: what is left can still be reached.
    """

    def __init__(self, mixers: tuple[KdaLayers | MlaLayers, ...], pool: BlockPool) -> None:
        self.pool = pool
        self.hits = Hits()
        self._latent_widths = [width for width in map(latent_bytes_per_token, mixers) if width]
        self._state_bytes = sum(map(state_bytes, mixers))
        # Oldest first; keys are ("latents" or "state", digest).
        self._entries: OrderedDict[tuple[str, bytes], tuple[int, ...]] = OrderedDict()

    @property
    def block_tokens(self) -> int:
        """Tokens of one block of latents."""
        return self.pool.layout.block_tokens

    def aligned(self, n_tokens: int) -> int:
        """Tokens of the whole blocks within a length."""
        return n_tokens - n_tokens % self.block_tokens

    def reusable_tokens(self, tokens: Tokens) -> int:
        """Longest prefix that a request can go on from: all its blocks of latents, and a state of exactly that length.

        Always shorter than the request, whose last token must be computed to get its logits.
        """
        found = 0
        for n, digest in self._digests(tokens, len(tokens) - 1):
            if ("latents", digest) not in self._entries:
                break
            if ("state", digest) in self._entries:
                found = n
        return found

    def resume(self, tokens: Tokens, cache: RequestCache) -> int:
        """Fill an empty cache with the longest reusable prefix of a request."""
        n = self.reusable_tokens(tokens)
        self.hits.n_lookups += 1
        self.hits.asked_tokens += len(tokens)
        self.hits.hit_tokens += n
        digests = [digest for _, digest in self._digests(tokens, n)]
        for digest in digests:
            self._read_latents(self._entries["latents", digest], cache)
        if n:
            content = self.pool.content(self._entries["state", digests[-1]], self._state_bytes)
            restore(cache, StateSnapshot(n, content), n)
            cache.n_tokens = n
        self._touch(digests)
        return n

    def keep(self, tokens: Tokens, cache: RequestCache) -> bool:
        """Keep a request's state at a block boundary, and the blocks of latents before it.

        Args:
            tokens: the tokens that the cache holds, whole blocks of them.
            cache: of the request, as it is after exactly these tokens.

        Returns:
            Whether everything found room; a prefix that is larger than the pool is not kept.

        Raises:
            InputError: the cache is of another length, or the length ends within a block.
        """
        n = len(tokens)
        if cache.n_tokens != n or n % self.block_tokens:
            message = f"is of {cache.n_tokens} tokens"
            allowed = f"{n} tokens as given, a multiple of {self.block_tokens}"
            raise InputError(InputProblem("prefix cache", "state", message, allowed))
        digests = [digest for _, digest in self._digests(tokens, n)]
        if len(digests) + self.pool.layout.n_state_blocks > self.pool.n_blocks:
            return False
        # What is there already must not be thrown out to make room for the rest.
        self._touch(digests)
        for index, digest in enumerate(digests):
            self._put(("latents", digest), partial(self._latent_content, cache, index))
        if digests:
            self._put(("state", digests[-1]), lambda: snapshot(cache).content)
        self._touch(digests)
        return True

    def _put(self, key: tuple[str, bytes], content: Callable[[], bytes]) -> None:
        if key in self._entries:
            self._entries.move_to_end(key)
            return
        made = content()
        while (blocks := self.pool.store(made)) is None:
            _, oldest = self._entries.popitem(last=False)
            self.hits.n_evicted_blocks += len(oldest)
            self.pool.release(oldest)
        self._entries[key] = blocks

    def _touch(self, digests: list[bytes]) -> None:
        """The end of a prefix first, so that it is older than its beginning; states of shorter lengths stay as old."""
        keys = [("state", digest) for digest in digests[-1:]] + [("latents", digest) for digest in reversed(digests)]
        for key in keys:
            if key in self._entries:
                self._entries.move_to_end(key)

    def _digests(self, tokens: Tokens, limit: int) -> Iterator[tuple[int, bytes]]:
        return prefix_digests(tokens, self.block_tokens, limit)

    def _latent_content(self, cache: RequestCache, index: int) -> bytes:
        """Latents of one block, layer by layer."""
        span = slice(index * self.block_tokens, (index + 1) * self.block_tokens)
        return b"".join(to_bf16(layer.values[span]).astype("<u2", copy=False).tobytes() for layer in cache.latents)

    def _read_latents(self, blocks: tuple[int, ...], cache: RequestCache) -> None:
        content, start = self.pool.content(blocks, self.pool.layout.block_bytes), 0
        for layer, width in zip(cache.latents, self._latent_widths, strict=True):
            stop = start + width * self.block_tokens
            take_payload(layer, content[start:stop])
            start = stop
