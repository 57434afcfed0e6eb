"""Timing of a model's passes, called inside workers while all of them are busy.

Seconds are busy ones: those in which the worker's thread ran. On a machine of its own a worker is busy all the time;
where others take its core, the clock on the wall says more about them. Where a device computes, only that clock tells
how long; it is read when the device is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, sleep

import numpy as np

from planner.hybrid.arrays import busy_clock_s, from_host
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
WARM = PrefillPoint(128)
"""Goes through a model's weights, every expert's among them, before its passes are timed."""


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
    """Busy seconds and seconds on the wall since it was made, for the passes of a model."""

    def __init__(self, model: HybridModel) -> None:
        self._like = model.embedding
        self._busy = busy_clock_s(self._like)
        self._wall = perf_counter()

    def read(self) -> tuple[float, float]:
        """Busy seconds, and seconds on the wall [s]; a device has then done all that it was told."""
        return busy_clock_s(self._like) - self._busy, perf_counter() - self._wall


@dataclass(frozen=True)
class Trial:
    """A model and the points at which its passes are timed."""

    profile: ModelProfile
    points: tuple[Point, ...]


def time_models(
    models: Sequence[HybridModel], points: Sequence[Sequence[Point]], *, n_rounds: int, chunk_tokens: int, seed: int = 0
) -> tuple[tuple[Timed, ...], ...]:
    """Seconds of passes of several models, each at several points.

    Args:
        points: of each, lengths to prefill and batches to decode.
        n_rounds: times each is tried, after once unmeasured; all points of all models in turn, so that a slow spell of
            the machine hits them alike.
    """
    rng = np.random.default_rng(seed)
    pairs = [(model, point) for model, own in zip(models, points, strict=True) for point in own]
    batches = [_batch(model, point, rng) if isinstance(point, DecodePoint) else None for model, point in pairs]
    found: list[list[tuple[float, float]]] = [[] for _ in pairs]
    for trial in range(n_rounds + 1):
        last = None
        for tries, (model, point), batch in zip(found, pairs, batches, strict=True):
            # Another model's passes have pushed this one's weights out of the caches that a server keeps them in.
            if model is not last:
                last = model
                _prefill_s(model, WARM, chunk_tokens, rng)
            if isinstance(point, PrefillPoint):
                took = _prefill_s(model, point, chunk_tokens, rng)
            elif batch is not None:
                took = _step_s(model, batch, rng)
            # The first round touches memory and wakes the core.
            if trial:
                tries.append(took)
    timed = iter(Timed(point, *zip(*tries, strict=True)) for (_, point), tries in zip(pairs, found, strict=True))
    return tuple(tuple(next(timed) for _ in own) for own in points)


def time_trials(
    model: HybridModel, trials: Sequence[Trial], own_points: Sequence[Point], n_rounds: int, chunk_tokens: int
) -> tuple[tuple[Timed, ...], ...]:
    """A task for a worker: seconds of other models' passes, and in the same rounds, last, of its own model's."""
    models = [*(hybrid_model(trial.profile, backend=model.backend) for trial in trials), model]
    points = [*(trial.points for trial in trials), tuple(own_points)]
    return time_models(models, points, n_rounds=n_rounds, chunk_tokens=chunk_tokens)


def time_paced(
    model: HybridModel, tokens: int, load_fraction: float, duration_s: float, chunk_tokens: int
) -> tuple[tuple[float, float], ...]:
    """A task for a worker: prefills with pauses between them, as a server has that is busy for a part of the time.

    Where other programs want the core, a worker that sleeps now and then waits less for it than one that never does;
    where cores share their units, pauses of one make another faster.

    Args:
        model: the worker's own.
        tokens: length of each prompt.
        load_fraction: share of the time to prefill in; pauses are as long in proportion.
        duration_s: how long to go on [s].
        chunk_tokens: most tokens of one prefill pass.

    Returns:
        Busy seconds and seconds on the wall of each prefill, at least one.
    """
    rng, began = np.random.default_rng(0), perf_counter()
    found: list[tuple[float, float]] = []
    while not found or perf_counter() - began < duration_s:
        busy_s, wall_s = _prefill_s(model, PrefillPoint(tokens), chunk_tokens, rng)
        found.append((busy_s, wall_s))
        # Of random length, so that workers do not fall into step.
        sleep(rng.exponential(wall_s * (1 / load_fraction - 1)))
    return tuple(found)


def _prefill_s(
    model: HybridModel, point: PrefillPoint, chunk_tokens: int, rng: np.random.Generator
) -> tuple[float, float]:
    tokens = rng.integers(0, len(model.embedding), point.new_tokens + point.cached_tokens)
    cache = model.empty_cache()
    if point.cached_tokens:
        model.prefill(tokens[: point.cached_tokens], cache, chunk_tokens=chunk_tokens)
    watch = Stopwatch(model)
    model.prefill(tokens[point.cached_tokens :], cache, chunk_tokens=chunk_tokens)
    return watch.read()


def _batch(model: HybridModel, point: DecodePoint, rng: np.random.Generator) -> DecodeBatch:
    """Requests of a context's length, made up: how long a step takes depends on no value."""
    batch = DecodeBatch(model, point.batch)
    for _ in range(point.batch):
        cache = model.empty_cache()
        for latents in cache.latents:
            width = latents.buffer.shape[1]
            made_up = rng.standard_normal((point.context_tokens - 1, width), np.float32)
            latents.append(from_host(made_up, latents.buffer))
        for state in cache.states:
            state.state[:] = from_host(rng.standard_normal(state.state.shape, np.float32) / 10, state.state)
        cache.n_tokens = point.context_tokens - 1
        batch.join(cache)
    return batch


def _step_s(model: HybridModel, batch: DecodeBatch, rng: np.random.Generator) -> tuple[float, float]:
    tokens = rng.integers(0, len(model.embedding), batch.n_requests)
    watch = Stopwatch(model)
    model.decode(tokens, batch)
    return watch.read()
