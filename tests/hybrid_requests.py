"""Whole requests of the hybrid model as bytes: every layer as workers send and take it, without a connection."""

from collections.abc import Sequence

from planner.hybrid import RequestCache, layer_payload, take_payload


def request_payload(cache: RequestCache) -> list[bytes]:
    """Every layer of a request, in order: together S_kv of its length."""
    return [layer_payload(layer) for layer in cache.layers]


def take_request(cache: RequestCache, payloads: Sequence[bytes], n_tokens: int) -> None:
    """Fill an empty cache with every layer of a request of that many tokens."""
    for layer, payload in zip(cache.layers, payloads, strict=True):
        take_payload(layer, payload)
    assert {latents.n_tokens for latents in cache.latents} == {n_tokens}
    cache.n_tokens = n_tokens
