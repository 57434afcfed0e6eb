"""The whole model: embedding, layers, output; prefill of one request by chunks, decode of a batch by token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from planner.errors import InputError, InputProblem
from planner.hybrid.arrays import NUMPY, Backend, FloatArray, index_like, namespace, placed
from planner.hybrid.cache import KdaState, LatentCache, RequestCache, empty_cache
from planner.hybrid.kda import KdaLayer
from planner.hybrid.mla import QUERY_TOKENS, MlaLayer
from planner.hybrid.mlp import Mlp
from planner.hybrid.numerics import rms_norm
from planner.hybrid.products import Products
from planner.hybrid.shapes import LayerShape, layer_shapes
from planner.hybrid.weights import draw, kda_weights, mla_weights, mlp_weights
from planner.profiles import KdaLayers, MlaLayers, ModelProfile

Tokens = NDArray[np.integer[Any]]
OnLayer = Callable[[int, int, int], None]
"""Told when a layer's cache is up to date in a pass: the layer, and the tokens that it held before and after."""
CHUNK_TOKENS = 512
"""Most tokens of one prefill pass."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Norm, mixer, norm, MLP."""

    mixer_norm: FloatArray
    mixer: KdaLayer | MlaLayer
    mlp_norm: FloatArray
    mlp: Mlp


@dataclass(frozen=True, eq=False)
class HybridModel:
    """A model in real numbers; see `hybrid_model`."""

    profile: ModelProfile
    layers: tuple[Layer, ...]
    embedding: FloatArray
    """[vocabulary, hidden]."""
    final_norm: FloatArray
    lm_head: FloatArray
    """[hidden, vocabulary]."""
    products: Products = field(default_factory=Products)
    """Counts of everything multiplied so far."""
    backend: Backend = NUMPY
    """What its arrays belong to."""

    @property
    def mixers(self) -> tuple[KdaLayers | MlaLayers, ...]:
        """Group of each layer, in order."""
        return tuple(layer.mixer.group for layer in self.layers)

    def empty_cache(self) -> RequestCache:
        """The cache of a request before its first token."""
        return empty_cache(self.mixers, self.embedding.dtype, self.embedding)

    def prefill(
        self,
        tokens: Tokens,
        cache: RequestCache,
        *,
        chunk_tokens: int = CHUNK_TOKENS,
        on_layer: OnLayer | None = None,
        absorbed: bool = False,
    ) -> FloatArray:
        """Tokens of one request after those its cache holds, pass by pass.

        Args:
            tokens: new tokens, at least one [tokens].
            on_layer: called after each layer of each pass, while the next one is still to be computed.
            absorbed: whether MLA layers attend to latents, as decode does, rather than expand them.

        Returns:
            Logits of the last token [vocabulary].

        Raises:
            InputError: no tokens, or one that the vocabulary lacks.
        """
        self._check(tokens)
        x = self.embedding[:0]
        for start in range(0, len(tokens), chunk_tokens):
            x = self._pass(tokens[start : start + chunk_tokens], cache, on_layer, absorbed)
        logits: FloatArray = self._logits(x[-1:])[0]
        return logits

    def decode(self, tokens: Tokens, batch: "DecodeBatch") -> FloatArray:
        """One token for each request of a batch, whatever their lengths.

        Args:
            tokens: last token of each request, in the order of the batch [batch].

        Returns:
            Logits [batch, vocabulary].

        Raises:
            InputError: as many tokens as requests are required, all in the vocabulary.
        """
        self._check(tokens)
        if len(tokens) != batch.n_requests:
            raise InputError(
                InputProblem("decode", "tokens", f"are {len(tokens)}", f"one per request: {batch.n_requests}")
            )
        x = self.embedding[index_like(tokens, self.embedding)]
        for layer, slots in zip(self.layers, batch.layers, strict=True):
            normed = rms_norm(x, layer.mixer_norm)
            if isinstance(layer.mixer, KdaLayer):
                n = batch.n_requests
                x = x + layer.mixer.decode(self.products, normed, slots.states[:n], slots.taps[:n])
            else:
                x = x + layer.mixer.decode(self.products, normed, slots.latents)
            x = x + layer.mlp(self.products, rms_norm(x, layer.mlp_norm))
        batch.n_tokens = [n + 1 for n in batch.n_tokens]
        return self._logits(x)

    def _pass(self, tokens: Tokens, cache: RequestCache, on_layer: OnLayer | None, absorbed: bool) -> FloatArray:
        x: FloatArray = self.embedding[index_like(tokens, self.embedding)]
        before = cache.n_tokens
        after = before + len(tokens)
        for index, (layer, kept) in enumerate(zip(self.layers, cache.layers, strict=True)):
            normed = rms_norm(x, layer.mixer_norm)
            if isinstance(layer.mixer, KdaLayer) and isinstance(kept, KdaState):
                x = x + layer.mixer.prefill(self.products, normed, kept)
            elif isinstance(layer.mixer, MlaLayer) and isinstance(kept, LatentCache):
                x = x + layer.mixer.prefill(self.products, normed, kept, absorbed=absorbed)
            if on_layer:
                on_layer(index, before, after)
            x = x + layer.mlp(self.products, rms_norm(x, layer.mlp_norm))
        cache.n_tokens = after
        return x

    def _logits(self, x: FloatArray) -> FloatArray:
        return self.products.product("lm_head", rms_norm(x, self.final_norm), self.lm_head)

    def _check(self, tokens: Tokens) -> None:
        n = len(self.embedding)
        if len(tokens) == 0 or tokens.min() < 0 or tokens.max() >= n:
            got = f"lie from {tokens.min()} to {tokens.max()}" if len(tokens) else "are none"
            raise InputError(InputProblem(self.profile.name, "tokens", got, f"one or more from 0 to {n - 1}"))


@dataclass(eq=False)
class _Slots:
    """One layer of a batch: states and taps of all slots in one array each, or a list of latents."""

    states: FloatArray
    taps: FloatArray
    latents: list[LatentCache] = field(default_factory=list)


class DecodeBatch:
    """Requests that are decoded together. States lie side by side, so that a step works on all at once."""

    def __init__(self, model: HybridModel, capacity: int) -> None:
        self.capacity = capacity
        self.n_requests = 0
        self.n_tokens: list[int] = []
        """Tokens that each request's cache holds."""
        empty = model.empty_cache()
        self.layers = [
            _Slots(_stacked(kept.state, capacity), _stacked(kept.taps, capacity))
            if isinstance(kept, KdaState)
            else _Slots(np.empty(0), np.empty(0))
            for kept in empty.layers
        ]

    def join(self, cache: RequestCache) -> int:
        """Take a request in; its latents are the batch's from now on.

        Raises:
            InputError: the batch is full.
        """
        place = self.n_requests
        if place == self.capacity:
            raise InputError(
                InputProblem("batch", "capacity", f"is {place}, and all taken", "let a request leave first")
            )
        for slots, kept in zip(self.layers, cache.layers, strict=True):
            if isinstance(kept, KdaState):
                slots.states[place], slots.taps[place] = kept.state, kept.taps
            else:
                slots.latents.append(kept)
        self.n_tokens.append(cache.n_tokens)
        self.n_requests += 1
        return place

    def leave(self, place: int) -> None:
        """Let a request go; the last one takes its place."""
        last = self.n_requests - 1
        for slots in self.layers:
            if slots.latents:
                slots.latents[place] = slots.latents[last]
                slots.latents.pop()
            elif len(slots.states):
                slots.states[place], slots.taps[place] = slots.states[last], slots.taps[last]
        self.n_tokens[place] = self.n_tokens[last]
        self.n_tokens.pop()
        self.n_requests = last


def _stacked(array: FloatArray, n: int) -> FloatArray:
    stack: FloatArray = namespace(array).zeros((n, *array.shape), dtype=array.dtype, device=array.device)
    return stack


def decode_batch(model: HybridModel, caches: Sequence[RequestCache], capacity: int | None = None) -> DecodeBatch:
    """A batch of requests, in their order."""
    batch = DecodeBatch(model, capacity or len(caches))
    for cache in caches:
        batch.join(cache)
    return batch


def hybrid_model(
    profile: ModelProfile,
    seed: int = 0,
    *,
    dtype: DTypeLike = np.float32,
    rounds_cache: bool = True,
    query_tokens: int = QUERY_TOKENS,
    backend: Backend = NUMPY,
) -> HybridModel:
    """A model of a profile's shapes with random weights.

    Args:
        profile: its shapes; see `layer_shapes` for what can be run.
        dtype: format to compute in; fp32 serves, fp64 shows that two forms of the same equation agree.
        rounds_cache: whether what is cached in 16 bits (latents, convolution taps) is rounded before its first use.
        backend: library and device that compute; weights are drawn by NumPy always and moved there once.

    Returns:
        The model, about as many parameters as `planner.profiles.total_parameters` counts.

    Raises:
        InputError: shapes that this room cannot run, or a backend that cannot be used here.

    >>> from planner.hybrid.shapes import shrunk
    >>> from planner.profiles import model_profile
    >>> small = shrunk(model_profile("kimi-linear-48b"), "small", n_layers=4, hidden_size=32, n_heads=2, head_dim=16,
    ...     n_experts=4, vocab_size=64)
    >>> model = hybrid_model(small)
    >>> model.prefill(np.arange(10), model.empty_cache()).shape
    (64,)
    """
    architecture = profile.architecture
    shapes = layer_shapes(profile)
    hidden, vocabulary = architecture.hidden_size or 0, architecture.vocab_size or 0
    ends = draw(seed, len(shapes), dtype)
    embedding = ends.matrix(1, vocabulary, hidden)[0] * np.sqrt(vocabulary).astype(dtype)
    layers = tuple(
        _layer(profile, shape, seed, index, dtype, rounds_cache, query_tokens) for index, shape in enumerate(shapes)
    )
    head = np.ascontiguousarray(embedding.T) / hidden if architecture.tie_word_embeddings else None
    model = HybridModel(
        profile,
        layers,
        embedding,
        ends.near_one(hidden),
        ends.matrix(hidden, vocabulary) if head is None else head.astype(dtype),
        backend=backend,
    )
    return placed(model, backend)


def _layer(
    profile: ModelProfile,
    shape: LayerShape,
    seed: int,
    index: int,
    dtype: DTypeLike,
    rounds_cache: bool,
    query_tokens: int,
) -> Layer:
    source, hidden = draw(seed, index, dtype), profile.architecture.hidden_size or 0
    mixer: KdaLayer | MlaLayer
    if isinstance(shape.mixer, KdaLayers):
        mixer = KdaLayer(shape.mixer, kda_weights(source, shape.mixer, hidden), rounds_cache)
    else:
        mixer = MlaLayer(shape.mixer, mla_weights(source, shape.mixer, hidden), rounds_cache, query_tokens)
    mlp = mlp_weights(source, shape, profile.architecture)
    return Layer(source.near_one(hidden), mixer, source.near_one(hidden), mlp)
