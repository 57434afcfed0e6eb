"""How long a model's passes take, called inside workers while all of them are busy.

Seconds are busy ones: those in which the worker's thread ran. On a machine of its own a worker is busy all the time;
where others take its core, the clock on the wall says more about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time

import numpy as np

from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.profiles import ModelProfile


@dataclass(frozen=True)
class PrefillPoint:
    """One length to prefill."""

    new_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class DecodePoint:
    """One batch to decode a token for."""

    batch: int
    context_tokens: int
    """Keys that the new token attends to, itself included."""


Point = PrefillPoint | DecodePoint


@dataclass(frozen=True)
class Timed:
    """A point and how long it took, each time it was tried."""

    point: Point
    busy_s: tuple[float, ...]
    """Seconds that the thread ran, of each try [s]."""
    wall_s: tuple[float, ...]
    """Seconds on the wall [s]."""

    @property
    def median_s(self) -> float:
        """Median of the busy seconds [s]."""
        return float(np.median(self.busy_s))


class Stopwatch:
    """Busy seconds and seconds on the wall since it was made."""

    def __init__(self) -> None:
        self._wall, self._busy = perf_counter(), thread_time()

    def read(self) -> tuple[float, float]:
        """Busy seconds of this thread, and seconds on the wall [s]."""
        return thread_time() - self._busy, perf_counter() - self._wall


def time_model(
    model: HybridModel, points: Sequence[Point], *, n_rounds: int, chunk_tokens: int, seed: int = 0
) -> tuple[Timed, ...]:
    """Seconds of passes at several points.

    Args:
        model: the model.
        points: lengths to prefill and batches to decode.
        n_rounds: times each is tried, after once unmeasured; all points in turn, so that a slow spell hits them alike.
        chunk_tokens: most tokens of one prefill pass.
        seed: of the prompts.

    Returns:
        One entry per point, in order.
    """
    rng = np.random.default_rng(seed)
    found: list[list[tuple[float, float]]] = [[] for _ in points]
    batches = {point: _batch(model, point, rng) for point in points if isinstance(point, DecodePoint)}
    for trial in range(n_rounds + 1):
        for tries, point in zip(found, points, strict=True):
            if isinstance(point, DecodePoint):
                took = _step_s(model, batches[point], rng)
            else:
                took = _prefill_s(model, point, chunk_tokens, rng)
            # The first round touches memory and wakes the core.
            if trial:
                tries.append(took)
    return tuple(Timed(point, *zip(*tries, strict=True)) for point, tries in zip(points, found, strict=True))


def time_profile(
    _model: HybridModel, profile: ModelProfile, points: Sequence[Point], n_rounds: int, chunk_tokens: int
) -> tuple[Timed, ...]:
    """A task for a worker: seconds of another model's passes."""
    return time_model(hybrid_model(profile), points, n_rounds=n_rounds, chunk_tokens=chunk_tokens)


def time_own(model: HybridModel, points: Sequence[Point], n_rounds: int, chunk_tokens: int) -> tuple[Timed, ...]:
    """A task for a worker: seconds of its own model's passes."""
    return time_model(model, points, n_rounds=n_rounds, chunk_tokens=chunk_tokens)


def _prefill_s(
    model: HybridModel, point: PrefillPoint, chunk_tokens: int, rng: np.random.Generator
) -> tuple[float, float]:
    tokens = rng.integers(0, len(model.embedding), point.new_tokens + point.cached_tokens)
    cache = model.empty_cache()
    if point.cached_tokens:
        model.prefill(tokens[: point.cached_tokens], cache, chunk_tokens=chunk_tokens)
    watch = Stopwatch()
    model.prefill(tokens[point.cached_tokens :], cache, chunk_tokens=chunk_tokens)
    return watch.read()


def _batch(model: HybridModel, point: DecodePoint, rng: np.random.Generator) -> DecodeBatch:
    """Requests of a context's length, made up: how long a step takes depends on no value."""
    batch = DecodeBatch(model, point.batch)
    for _ in range(point.batch):
        cache = model.empty_cache()
        for latents in cache.latents:
            width = latents.buffer.shape[1]
            latents.append(rng.standard_normal((point.context_tokens - 1, width), np.float32))
        for state in cache.states:
            state.state[:] = rng.standard_normal(state.state.shape, np.float32) / 10
        cache.n_tokens = point.context_tokens - 1
        batch.join(cache)
    return batch


def _step_s(model: HybridModel, batch: DecodeBatch, rng: np.random.Generator) -> tuple[float, float]:
    tokens = rng.integers(0, len(model.embedding), batch.n_requests)
    watch = Stopwatch()
    model.decode(tokens, batch)
    return watch.read()
