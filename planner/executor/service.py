"""Seconds and bytes of a pool's instances: what somebody measured where there is any, else the roofline.

The optimizer resolves the same scenario keys by itself; only the roofline's times and the measured curves are shared.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planner.curves import Curve, PrefillService
from planner.errors import InputError, Problem
from planner.executor.room import Room, prefill_room
from planner.profiles import HardwareProfile, MeasuredInstance, missing_shapes
from planner.roofline import (
    Chip,
    Layout,
    ServedModel,
    asked_stack,
    index_key_bytes_per_token,
    instance_rates,
    kv_bytes_curve,
    kv_bytes_per_rank,
    physical_kv_bytes,
    roofline_prefill,
)
from planner.scenario import Pool, Scenario
from planner.units import GB, MILLI

LONG_TOKENS = np.array([1 << 17, 1 << 18], dtype=np.float64)
"""Lengths beyond every window: between them bytes grow evenly."""
CONTEXTS = np.array([0.5, 1.5])
"""Of the mean context: where the roofline's decode step is taken to be a line in the context."""


@dataclass(frozen=True, eq=False)
class PrefillTimes:
    """What a prefill instance needs and makes."""

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
    """Seconds of a step by batch, from 0: a constant, and what a token of context adds; shape (limit + 1, 2)."""
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
        whole = start + batch <= len(kept)  # the last batches lack the requests that would fill them
        start, batch = (start[whole], batch[whole]) if whole.any() else (start[:1], np.array([len(kept)]))
        base, per_token = self.step_s[np.minimum(batch, self.batch_limit)].T
        steps_s = base + per_token * (contexts[start + batch] - contexts[start])
        return float(1 / np.mean(steps_s / batch))


def prefill_times(scenario: Scenario, name: str) -> PrefillTimes:
    """Prefill seconds and cache bytes of a pool.

    Raises:
        InputError: nobody measured the instance and the roofline cannot time it.
    """
    pool = scenario.pools[name]
    model, precision = scenario.profile_of(pool.model), scenario.choice_of(pool).kv_precision
    measured, served = source(scenario, name, "prefill")
    if measured is not None:
        rates = instance_rates(model, measured, precision)
        service, bytes_ = rates.prefill, rates.kv_bytes
    else:
        assert served is not None, "a source is measured or served"
        service, bytes_ = roofline_prefill(served, (0.0, float("inf"))), kv_bytes_curve(model, precision)
    assert service is not None, "a source of prefill has prefill"
    service = service.scaled(pool.time_factor)
    wire = with_slope(bytes_, index_key_bytes_per_token(model))
    handoff = wire if served is None else _physical(served)
    room = _prefill_room(scenario, name, measured, served)
    return PrefillTimes(service, wire, handoff, model.architecture.n_layers or 1, room)


def _prefill_room(
    scenario: Scenario, name: str, measured: MeasuredInstance | None, served: ServedModel | None
) -> Room | None:
    """Memory of a prefill instance for caches; None where shapes, stack or memory are unknown."""
    pool, stated = scenario.pools[name], scenario.execution.pools.get(name)
    if served is None and not missing_shapes(scenario.profile_of(pool.model).architecture):
        try:
            served = _served(scenario, name, pool, scenario.hardware_of(pool))
            served.memory  # noqa: B018 - the accelerator's memory may be unknown
        except InputError:
            served = None
    memory_gb = None if stated is None else stated.memory_gb
    if served is not None:
        return prefill_room(served, measured, memory_gb)
    if memory_gb is not None:
        what = "is of a prefill instance whose cache nobody can count: its model's shapes are not known"
        raise InputError(scenario.problem(("execution", "pools", name, "memory_gb"), what, "leave it out"))
    return None


def decode_times(scenario: Scenario, name: str, context_tokens: float) -> DecodeTimes:
    """Decode steps and memory of a pool.

    Args:
        scenario: the question.
        name: name of the pool.
        context_tokens: mean context of the requests that it decodes [tokens].

    Raises:
        InputError: nobody measured the instance and the roofline cannot time it, or no sequence fits.
    """
    measured, served = source(scenario, name, "decode")
    stated = scenario.execution.pools.get(name)
    memory = None if stated is None or stated.memory_gb is None else stated.memory_gb * GB
    most = None if stated is None else stated.batch_limit
    found = _decode(scenario, name, measured, served, context_tokens, memory)
    factor, limit = scenario.pools[name].time_factor, min(found.batch_limit, most or found.batch_limit)
    return replace(found, batch_limit=limit, step_s=factor * found.step_s[: limit + 1])


def _decode(
    scenario: Scenario,
    name: str,
    measured: MeasuredInstance | None,
    served: ServedModel | None,
    context_tokens: float,
    memory: float | None,
) -> DecodeTimes:
    """Decode as measured or on the roofline, before what the scenario states of the pool."""
    if measured is not None:
        assert measured.decode is not None, "a source of decode has a decode point"
        limit = measured.decode.batch
        step = np.column_stack([np.full(limit + 1, measured.decode.step_s), np.zeros(limit + 1)])
        pool = scenario.pools[name]
        kv = instance_rates(scenario.profile_of(pool.model), measured, scenario.choice_of(pool).kv_precision).kv_bytes
        state, per_token = _line(kv(LONG_TOKENS))
        return DecodeTimes(limit, step, np.inf if memory is None else memory, state, per_token)
    assert served is not None, "a source is measured or served"
    return _roofline_decode(scenario, name, served, context_tokens, memory)


def _roofline_decode(
    scenario: Scenario, name: str, served: ServedModel, context_tokens: float, memory: float | None
) -> DecodeTimes:
    limit_ms = _step_limit_ms(scenario, scenario.pools[name])
    limit = served.largest_batch_within(context_tokens, np.inf if limit_ms is None else limit_ms * MILLI)
    if limit < 1:
        what = f"not one sequence of {context_tokens:,.0f} tokens decodes within its memory and step limit"
        raise InputError(scenario.problem(("pools", name), what, "a longer tpot_ms, or a plan made for this scenario"))
    batch, contexts = np.arange(1, limit + 1), CONTEXTS * context_tokens
    low, high = (served.decode_time(batch, np.full(limit, c)).total_s for c in contexts)
    slope = np.maximum(high - low, 0.0) / (contexts[1] - contexts[0])
    table = np.column_stack([np.maximum(low - slope * contexts[0], 1e-9), slope / batch])
    layout = served.layout
    held = kv_bytes_per_rank(
        served.model, LONG_TOKENS, served.kv_precision, tp_size=layout.tp_size, pp_size=layout.pp_size
    )
    state, per_token = _line(held)
    room = layout.dp_size * max(served.memory.cache_bytes, 0.0) if memory is None else memory
    return DecodeTimes(limit, np.vstack([table[:1], table]), room, state, per_token)


def source(
    scenario: Scenario, name: str, role: Literal["prefill", "decode"]
) -> tuple[MeasuredInstance | None, ServedModel | None]:
    """What times a pool's instances: a measurement, or the served model; exactly one of them.

    Raises:
        InputError: there is neither.
    """
    pool = scenario.pools[name]
    hardware, model = scenario.hardware_of(pool), scenario.profile_of(pool.model)
    measured, has_shapes = scenario.measured_for(pool, role), not missing_shapes(model.architecture)
    if measured is not None:
        return measured, None
    if pool.service_times == "measured" or not has_shapes:
        what = f"no {role} times of {model.name} on {pool.accelerators_per_instance} x {hardware.name}"
        raise InputError(scenario.problem(("pools", name), what, "[measured.NAME], or a model whose shapes are known"))
    return None, _served(scenario, name, pool, hardware)


def _served(scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile) -> ServedModel:
    model, choice = scenario.profile_of(pool.model), scenario.choice_of(pool)
    try:
        used = asked_stack(scenario.stack_of(pool), scenario.stacks)
        layout = Layout.parse(pool.layout) if pool.layout else Layout(tp_size=pool.accelerators_per_instance)
        return ServedModel(
            model,
            Chip(hardware, used.derated),
            layout,
            used.factors,
            choice.precision,
            choice.kv_precision,
            used.settings.chunk_tokens,
            used.settings.memory_fraction,
            used.runtime_bytes,
        )
    except InputError as error:
        raise InputError(_at_pool(scenario, name, problem) for problem in error.problems) from None


def _at_pool(scenario: Scenario, name: str, problem: Problem) -> Problem:
    message = " ".join(filter(None, (problem.key, problem.message)))
    return scenario.problem(("pools", name), message, problem.allowed)


def _step_limit_ms(scenario: Scenario, pool: Pool) -> float | None:
    """Longest decode step before the pool's `time_factor`; None where nobody limits it [ms]."""
    promises = [scenario.slo_of(name) for name in scenario.classes_of(pool)]
    limits = [pool.tpot_ms, *(slo.tpot_ms for slo in promises if slo is not None)]
    return min((limit / pool.time_factor for limit in limits if limit is not None), default=None)


def _physical(served: ServedModel) -> Curve:
    state, per_token = _line(
        physical_kv_bytes(served.model, LONG_TOKENS, served.kv_precision, tp_size=served.layout.tp_size)
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
