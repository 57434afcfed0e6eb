"""Seconds and bytes of a pool's instances: what somebody measured where there is any, else the roofline.

What the scenario says of an instance, the roofline's times and the measured curves are common with the optimizer; what
is made of them is not.

Memory of a prefill instance for caches, and the prompts that it can hold at all.

The optimizer counts by itself; only the roofline's bytes are shared.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve, PrefillService
from planner.errors import InputError
from planner.profiles import MeasuredInstance, SwaLayers, missing_shapes
from planner.profiles.instance_spec import InstanceSpec
from planner.roofline import (
    BLOCK_TOKENS,
    InstanceModel,
    MemoryFit,
    index_key_bytes_per_token,
    instance_model,
    instance_rates,
    kv_bytes_curve,
    kv_bytes_per_rank,
    longest_request,
    physical_kv_bytes,
    roofline_prefill,
)
from planner.scenario import (
    Pool,
    PoolExecution,
    Scenario,
    at_pool,
    drafts_unknown,
    instance_spec,
    unmeasured,
)
from planner.units import GB

ENDS = (1 << 17, 1 << 18)
"""Lengths beyond every window: from there on bytes grow evenly."""


@dataclass(frozen=True, eq=False)
class Room:
    """Memory of a prefill instance for the caches of its prompts."""

    memory_bytes: float
    """Of a rank, those of all replicas together [B]."""
    held: Curve
    """What a prompt takes of it by length, in whole blocks [B]."""
    longest_tokens: float
    """Longest prompt that one replica holds [tokens]."""


def prefill_room(served: InstanceModel, measured: MeasuredInstance | None, memory_gb: float | None) -> Room:
    """Room of a prefill instance beside the weights.

    Args:
        measured: whose times are used instead, if any: what somebody ran on it fits.
        memory_gb: room that the scenario states [GB]; None: as counted.

    Returns:
        Room of the instance; a prompt lies on one of its data-parallel replicas.
    """
    layout, held = served.layout, _occupied(served)
    replica = max(served.memory.cache_bytes, 0.0) if memory_gb is None else memory_gb * GB / layout.dp_size
    longest = longest_request(served.cached_model, MemoryFit(replica, 0.0, 0.0), layout, served.kv_precision)
    ran = None if measured is None or measured.basis != "measured" or memory_gb is not None else measured.prefill
    if ran is not None and ran.tokens[-1] > longest:
        longest, replica = ran.tokens[-1], float(held(ran.tokens[-1] + BLOCK_TOKENS))
    return Room(layout.dp_size * replica, held, longest)


def _occupied(served: InstanceModel) -> Curve:
    """Cache and state on a rank: straight between the ends of windows, where lengths are whole blocks."""
    windows = [group.window for group in served.cached_model.architecture.attention if isinstance(group, SwaLayers)]
    tokens = sorted({BLOCK_TOKENS, *(ceil(window / BLOCK_TOKENS) * BLOCK_TOKENS for window in windows), *ENDS})
    layout = served.layout
    sizes = {"tp_size": layout.tp_size, "pp_size": layout.pp_size}
    return Curve.linear(tokens, kv_bytes_per_rank(served.cached_model, tokens, served.kv_precision, **sizes).tolist())


LONG_TOKENS = np.array([1 << 17, 1 << 18], dtype=np.float64)
"""Lengths beyond every window: between them bytes grow evenly."""
CONTEXTS = np.array([0.5, 1.5])
"""Of the mean context: where the roofline's decode step is taken to be a line in the context."""


@dataclass(frozen=True, eq=False)
class PrefillTimes:
    """Service times of a prefill instance, the bytes that it makes, and its memory."""

    service: PrefillService
    wire_bytes: Curve
    """Bytes on the wire between sites by length: logical bytes and index keys [B]."""
    handoff_bytes: Curve
    """Bytes of the hand-off inside the site: every rank's copy where the layout is known [B]."""
    n_layers: int
    room: Room | None = None
    """Memory for caches; None where nothing is known to limit it."""

    @property
    def held_bytes(self) -> Curve:
        """Memory that a prompt takes by its length; of no use without a limit [B]."""
        return self.wire_bytes if self.room is None else self.room.held


@dataclass(frozen=True, eq=False)
class DecodeTimes:
    """Continuous batching of a decode instance."""

    batch_limit: int
    step_s: NDArray[np.float64]
    """Seconds of a step by batch, from 0: a constant, and what a token of context adds; shape (limit + 1, 2). Where
    tokens are drafted, over the tokens that the step yields: a request then needs as many as `draws` counts for it."""
    memory_bytes: float
    """Room for caches and states; infinite where it is not known to limit anything [B]."""
    state_bytes: float
    """A request's memory that does not grow with its length [B]."""
    bytes_per_token: float
    """Its memory per token [B]."""

    def full_tokens_per_s(self, total_tokens: NDArray[np.int64], output_tokens: NDArray[np.int64]) -> float:
        """Tokens per second of an instance that never lacks requests [1/s].

        Batches are cut from the requests in their order, one beginning with each of them: as many as the batch
        limit and the memory hold. They pass at the rate of their departures: a token takes the mean of step over batch.

        Args:
            total_tokens: prompts [tokens], shape (n,).
            output_tokens: outputs [tokens], shape (n,).
        """
        kept = self.state_bytes + self.bytes_per_token * (total_tokens + output_tokens)
        contexts = np.append(0.0, np.cumsum(total_tokens + output_tokens / 2))
        ends = np.append(0.0, np.cumsum(kept))
        start = np.arange(len(kept))
        fit = np.searchsorted(ends, ends[:-1] + self.memory_bytes, side="right") - 1 - start
        batch = np.clip(fit, 1, self.batch_limit)
        # The last batches lack the requests that would fill them, be it to the limit or to the end of the memory.
        is_full = (batch == self.batch_limit) | (ends[:-1] + self.memory_bytes < ends[-1])
        whole = is_full & (start + batch <= len(kept))
        start, batch = (start[whole], batch[whole]) if whole.any() else (start[:1], np.array([len(kept)]))
        base, per_token = self.step_s[np.minimum(batch, self.batch_limit)].T
        steps_s = base + per_token * (contexts[start + batch] - contexts[start])
        return float(1 / np.mean(steps_s / batch))


@dataclass(frozen=True, eq=False)
class Source:
    """Source of the times of a pool's instances, and what the scenario states of them for the run."""

    scenario: Scenario
    key: str
    """Name of the scenario's pool."""
    asked: InstanceSpec
    served: InstanceModel | None
    """The roofline of it; None where somebody measured it."""

    @property
    def limits(self) -> PoolExecution:
        """Limits of the pool that the scenario states for the run."""
        return self.scenario.execution.pools.get(self.key, PoolExecution())

    @property
    def memory_bytes(self) -> float | None:
        """Memory of an instance for caches, where it is stated [B]."""
        return None if self.limits.memory_gb is None else self.limits.memory_gb * GB


def source(scenario: Scenario, key: str, layout: str | None = None) -> Source:
    """Source of a pool's service times: a measurement, or the served model.

    Args:
        scenario: the question.
        key: name of the scenario's pool.
        layout: that of the plan, where the pool may choose.

    Raises:
        InputError: nobody measured the instance and the roofline cannot time it.
    """
    pool = chosen_pool(scenario, key, layout)
    asked = instance_spec(scenario, pool)
    if problem := drafts_unknown(scenario, key, pool, asked):
        raise InputError(problem)
    if asked.measured is not None:
        return Source(scenario, key, asked, None)
    if not asked.may_be_timed:
        raise InputError(unmeasured(scenario, key, pool, asked))
    try:
        return Source(scenario, key, asked, instance_model(asked))
    except InputError as error:
        raise InputError(at_pool(scenario, key, error.problems)) from None


def chosen_pool(scenario: Scenario, key: str, layout: str | None) -> Pool:
    """A pool on one layout. Raises InputError for a plan that does not say on which."""
    pool = scenario.pools[key]
    if not pool.layouts:
        return pool
    if layout is None:
        what = "may choose its layout, and the plan does not say which it has"
        raise InputError(scenario.problem(("pools", key, "layouts"), what, "a plan with layouts"))
    return pool.on_layout(layout)


def prefill_times(found: Source) -> PrefillTimes:
    """Prefill seconds and cache bytes of a pool's instances.

    Raises:
        InputError: memory is stated for a cache that nobody can count.
    """
    asked, served = found.asked, found.served
    if asked.measured is not None:
        rates = instance_rates(asked.model, asked.measured, asked.kv_precision)
        service, wire = rates.prefill, with_slope(rates.kv_bytes, index_key_bytes_per_token(asked.model))
    else:
        assert served is not None, "a source is measured or served"
        unlimited = 0.0, float("inf")
        service, wire = roofline_prefill(served, unlimited), wire_curve(served, asked.kv_precision)
    assert service is not None, "a source of prefill has prefill"
    service = service.scaled(asked.time_factor)
    handoff = wire if served is None else _physical(served)
    return PrefillTimes(service, wire, handoff, asked.model.architecture.n_layers or 1, _prefill_room(found))


def wire_curve(served: InstanceModel, kv_precision: str) -> Curve:
    """Bytes of a cache on the wire between sites by length: logical bytes and index keys [B]."""
    cached = served.cached_model
    return with_slope(kv_bytes_curve(cached, kv_precision), index_key_bytes_per_token(cached))


def _prefill_room(found: Source) -> Room | None:
    """Memory of a prefill instance for caches; None where shapes, stack or memory are unknown."""
    served, memory_gb = found.served, found.limits.memory_gb
    if served is None and not missing_shapes(found.asked.model.architecture):
        try:
            served = instance_model(found.asked)
            served.memory  # noqa: B018 - the accelerator's memory may be unknown
        except InputError:
            served = None
    if served is not None:
        return prefill_room(served, found.asked.measured, memory_gb)
    if memory_gb is not None:
        what = "is of a prefill instance whose cache nobody can count: its model's shapes are not known"
        key = ("execution", "pools", found.key, "memory_gb")
        raise InputError(found.scenario.problem(key, what, "leave it out"))
    return None


def decode_times(found: Source, context_tokens: float) -> DecodeTimes:
    """Decode steps and memory of a pool's instances.

    Args:
        context_tokens: mean context of the requests that they decode [tokens].

    Raises:
        InputError: no sequence fits.
    """
    times = _measured_decode(found) if found.served is None else _roofline_decode(found, found.served, context_tokens)
    limit = min(times.batch_limit, found.limits.batch_limit or times.batch_limit)
    return replace(times, batch_limit=limit, step_s=found.asked.time_factor * times.step_s[: limit + 1])


def _measured_decode(found: Source) -> DecodeTimes:
    """Decode as measured, before what the scenario states of the pool."""
    measured = found.asked.measured
    assert measured is not None, "a source is measured or served"
    assert measured.decode is not None, "a source of decode has a decode point"
    limit = measured.decode.batch
    step = np.column_stack([np.full(limit + 1, measured.decode.step_s), np.zeros(limit + 1)])
    state, per_token = _line(
        instance_rates(found.asked.model, measured, found.asked.kv_precision).kv_bytes(LONG_TOKENS)
    )
    return DecodeTimes(limit, step, np.inf if found.memory_bytes is None else found.memory_bytes, state, per_token)


def _roofline_decode(found: Source, served: InstanceModel, context_tokens: float) -> DecodeTimes:
    """Decode on the roofline, before what the scenario states of the pool."""
    longest_s = found.asked.longest_step_s
    limit = served.largest_batch_within(context_tokens, np.inf if longest_s is None else longest_s)
    if limit < 1:
        what = f"not one sequence of {context_tokens:,.0f} tokens decodes within its memory and step limit"
        allowed = "a longer tpot_ms, or a plan made for this scenario"
        raise InputError(found.scenario.problem(("pools", found.key), what, allowed))
    batch, contexts = np.arange(1, limit + 1), CONTEXTS * context_tokens
    low, high = (served.token_time(batch, np.full(limit, c)).total_s for c in contexts)
    slope = np.maximum(high - low, 0.0) / (contexts[1] - contexts[0])
    table = np.column_stack([np.maximum(low - slope * contexts[0], 1e-9), slope / batch])
    layout = served.layout
    state, per_token = _line(served.kv_bytes_per_rank(LONG_TOKENS))
    memory, counted = found.memory_bytes, layout.dp_size * max(served.memory.cache_bytes, 0.0)
    return DecodeTimes(limit, np.vstack([table[:1], table]), counted if memory is None else memory, state, per_token)


def _physical(served: InstanceModel) -> Curve:
    state, per_token = _line(
        physical_kv_bytes(served.cached_model, LONG_TOKENS, served.kv_precision, tp_size=served.layout.tp_size)
    )
    return Curve.affine(state, per_token)


def _line(values: NDArray[np.float64]) -> tuple[float, float]:
    """Start and slope of the straight line through the values at LONG_TOKENS."""
    slope = float(values[1] - values[0]) / float(LONG_TOKENS[1] - LONG_TOKENS[0])
    return max(float(values[0]) - slope * float(LONG_TOKENS[0]), 0.0), slope


def with_slope(curve: Curve, slope: float) -> Curve:
    """The curve plus a straight line through 0.

    >>> with_slope(Curve.affine(10.0, 2.0), 3.0)(4.0).item()
    30.0
    """
    if slope == 0:
        return curve
    rows = curve.coefficients.copy()
    rows[:, 0] += slope * np.concatenate([curve.knots[:1], curve.knots])
    rows[:, 1] += slope
    return replace(curve, coefficients=rows)
