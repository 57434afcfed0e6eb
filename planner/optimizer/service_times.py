"""Service times of a pool's instances: somebody's figures where there are any, else the roofline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError, InputError, Problem
from planner.profiles import HardwareProfile, MeasuredInstance, missing_shapes
from planner.queueing import packing
from planner.roofline import (
    Chip,
    DecodePoint,
    InstanceRates,
    Layout,
    RatesBasis,
    ServedModel,
    Setup,
    Stack,
    asked_stack,
    instance_rates,
    kv_bytes_curve,
    kv_bytes_per_rank,
    roofline_prefill,
)
from planner.scenario import Pool, Scenario
from planner.units import GB, MILLI, number
from planner.workload import RequestMix

N_KINDS = 4096
"""Requests that stand for a continuous length distribution."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """The requests that a decode pool holds."""

    context_tokens: float
    """Mean context that decode attends to, prompt and half the output [tokens]."""
    kept_tokens: NDArray[np.float64]
    """Tokens that a request's memory is reserved for, prompt and mean output [tokens], shape (n,)."""
    weights: NDArray[np.float64]
    """Their shares [fraction], shape (n,), sum 1."""

    @classmethod
    def of(cls, classes: Sequence[tuple[float, RequestMix]]) -> "Decoded":
        """The requests of classes, each with its share of them."""
        whole = sum(share for share, _ in classes)
        context = sum(share * (mix.mean_total_tokens + mix.mean_output_tokens / 2) for share, mix in classes) / whole
        atoms = [(share, mix.mean_output_tokens, mix.atoms(N_KINDS)) for share, mix in classes]
        kept = np.concatenate([found.total_tokens + output for _, output, found in atoms])
        weights = np.concatenate([share / whole * found.weights for share, _, found in atoms])
        return cls(context, kept, weights / weights.sum())


def service_times(
    scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, decoded: Decoded
) -> InstanceRates:
    """Prefill seconds, cache bytes and the decode point of a pool's instances.

    Args:
        scenario: the question.
        name: name of the pool.
        pool: the pool.
        hardware: its accelerators.
        decoded: the requests that decode holds.

    Returns:
        Service times of the pool's role, for the model that it serves, times the pool's `time_factor`.

    Raises:
        InputError: nobody measured the instance and the roofline cannot time it.
        InfeasibleError: the weights do not fit it, or no sequence keeps its step within tpot_ms.
    """
    return _unscaled(scenario, name, pool, hardware, decoded).scaled(pool.time_factor)


def _unscaled(scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, decoded: Decoded) -> InstanceRates:
    """Service times as somebody measured them, or as the roofline has them."""
    n, model = pool.accelerators_per_instance, scenario.profile_of(pool.model)
    measured = scenario.measured_for(pool)
    if measured is None and _can_be_timed(scenario, pool):
        return _roofline_times(scenario, name, pool, hardware, decoded)
    if measured is None:
        raise InputError(_unmeasured(scenario, name, pool, hardware))
    _check_step(scenario, name, pool, measured)
    try:
        rates = instance_rates(model, measured, scenario.choice_of(pool).kv_precision)
    except ValueError as error:
        what = f"the measured {pool.role} of {model.name} on {n} x {hardware.name} is no curve to plan with: {error}"
        raise InputError(scenario.problem(("pools", name), what)) from None
    return replace(rates, longest_tokens=_measured_room(scenario, pool, hardware, measured))


def _measured_room(scenario: Scenario, pool: Pool, hardware: HardwareProfile, measured: MeasuredInstance) -> float:
    """Longest prompt that a measured instance holds: as counted, and what somebody ran on it fits anyhow [tokens]."""
    if missing_shapes(scenario.profile_of(pool.model).architecture):
        return inf
    try:
        counted = served_model(scenario, pool, hardware).longest_request
    except InputError:  # a stack or a memory that nobody knows limits nothing
        return inf
    ran = measured.prefill if measured.basis == "measured" else None
    return counted if ran is None else max(counted, ran.tokens[-1])


def _check_step(scenario: Scenario, name: str, pool: Pool, measured: MeasuredInstance) -> None:
    """A measured decode point is taken as it is: its step keeps the promise, or nothing does."""
    limit, point = _step_limit_ms(scenario, pool), measured.decode
    if limit is None or point is None or pool.role != "decode" or point.step_s <= limit * MILLI:
        return
    raise InfeasibleError(
        f"pools.{name}: the measured decode step of {point.step_s / MILLI:g} ms at batch {point.batch} is longer than "
        f'{limit:g} ms; what would do: a longer tpot_ms, or service_times = "roofline", which chooses the batch'
    )


def _step_limit_ms(scenario: Scenario, pool: Pool) -> float | None:
    """Longest decode step, before any time_factor: the shortest of the pool's limit and its classes' promises [ms]."""
    promises = (scenario.slo_of(name) for name in scenario.classes_of(pool))
    limits = [pool.tpot_ms, *(slo.tpot_ms for slo in promises if slo is not None)]
    return min((limit / pool.time_factor for limit in limits if limit is not None), default=None)


def batch_limit_words(scenario: Scenario, pool: Pool, batch: int, decoded: Decoded) -> str | None:
    """What holds a decode batch down, in words; None where nobody computes it.

    Args:
        scenario: the question.
        pool: the decode pool, on the layout that it runs on.
        batch: its batch.
        decoded: the requests that it holds.
    """
    if scenario.measured_for(pool) is not None or not _can_be_timed(scenario, pool):
        return None
    limit_ms = _step_limit_ms(scenario, pool)
    served = served_model(scenario, pool, scenario.hardware_of(pool))
    if limit_ms is None or batch >= int(served.largest_batch(decoded.context_tokens)):
        return "memory"
    return f"the step of {number(limit_ms * pool.time_factor)} ms"


def _can_be_timed(scenario: Scenario, pool: Pool) -> bool:
    """Whether the roofline is asked for, or may stand in where nothing was measured."""
    if pool.service_times is not None:
        return pool.service_times == "roofline"
    return not missing_shapes(scenario.profile_of(pool.model).architecture)


def _unmeasured(scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile) -> Problem:
    model, n = scenario.profile_of(pool.model), pool.accelerators_per_instance
    known = ", ".join(
        f"{m.n_accelerators} x {m.hardware} in {m.precision}"
        for m in scenario.measurements_of(pool.model)
        if getattr(m, pool.role) is not None
    )
    missing = missing_shapes(model.architecture)
    roofline = f"; for the roofline its profile lacks {', '.join(missing)}" if missing else ""
    return scenario.problem(
        ("pools", name),
        f"no measured {pool.role} of {model.name} on {n} x {hardware.name}",
        f"measured: {known or 'none'}; or add [measured.NAME] to the scenario{roofline}",
    )


def _roofline_times(
    scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, decoded: Decoded
) -> InstanceRates:
    try:
        used = pool_stack(scenario, pool)
        served = served_model(scenario, pool, hardware)
        _check_memory(name, served)
        prefill = roofline_prefill(served, _known_tokens(used)) if pool.role == "prefill" else None
        limit_ms = _step_limit_ms(scenario, pool)
        decode = _decode_point(name, limit_ms, served, decoded) if pool.role == "decode" else None
    except InputError as error:
        raise InputError(_at_pool(scenario, name, problem) for problem in error.problems) from None
    return InstanceRates(
        prefill=prefill,
        kv_bytes=kv_bytes_curve(served.model, served.kv_precision),
        decode=decode,
        n_layers=served.model.architecture.n_layers,
        basis=_basis(served, used, pool.role),
        stack=used.name,
        setup=Setup.of(served, used.name),
        longest_tokens=served.longest_request,
    )


def served_model(scenario: Scenario, pool: Pool, hardware: HardwareProfile) -> ServedModel:
    """The roofline of a pool's instances. Raises InputError."""
    choice, used = scenario.choice_of(pool), pool_stack(scenario, pool)
    return ServedModel(
        scenario.profile_of(pool.model),
        Chip(hardware, used.derated),
        _layout(pool),
        used.factors,
        choice.precision,
        choice.kv_precision,
        used.settings.chunk_tokens,
        used.settings.memory_fraction,
        used.runtime_bytes,
    )


def pool_stack(scenario: Scenario, pool: Pool) -> Stack:
    """The stack that a pool names, the scenario's own first, else the one of all pools of its model; or InputError."""
    return asked_stack(scenario.stack_of(pool), scenario.stacks)


def _layout(pool: Pool) -> Layout:
    if pool.layout is None:
        return Layout(tp_size=pool.accelerators_per_instance)
    layout = Layout.parse(pool.layout)
    if layout.n_accelerators != pool.accelerators_per_instance:
        what = f"is {pool.layout!r}, {layout.n_accelerators} accelerators"
        raise InputError(Problem("layout", "", what, f"{pool.accelerators_per_instance}, as accelerators_per_instance"))
    return layout


def _check_memory(name: str, served: ServedModel) -> None:
    fit = served.memory
    if fit.fits:
        return
    n, hardware = served.layout.n_accelerators, served.chip.hardware.name
    raise InfeasibleError(
        f"pools.{name}: {served.model.name} does not fit {n} x {hardware}: each lacks {number(fit.lacking_bytes / GB)} "
        f"GB, all together {number(n * fit.lacking_bytes / GB)} GB; what would do: more accelerators per instance or "
        "narrower weights"
    )


def _decode_point(name: str, limit_ms: float | None, served: ServedModel, decoded: Decoded) -> DecodePoint:
    """The largest batch of mean contexts within the memory and the step limit, and how full memory lets it be."""
    limit, context_tokens = float("inf") if limit_ms is None else limit_ms * MILLI, decoded.context_tokens
    batch = served.largest_batch_within(context_tokens, limit)
    if batch == 0:
        alone = float(served.decode_time([1], [context_tokens]).total_s[0])
        raise InfeasibleError(
            f"pools.{name}: not one sequence of {context_tokens:,.0f} tokens decodes within the memory and "
            f"{limit / MILLI:g} ms; alone it needs {alone / MILLI:.3g} ms; what would do: a longer tpot_ms or more "
            "accelerators per instance"
        )
    sizes = np.arange(1.0, batch + 1)
    steps_s = served.decode_time(sizes, np.full(batch, context_tokens)).total_s
    held = packing(_held_bytes(served, decoded.kept_tokens), decoded.weights, _room_bytes(served), batch)
    # What is held of n that fit, over what n mean requests hold: contexts are longer or shorter by that factor.
    mean_bytes = float(_held_bytes(served, decoded.kept_tokens) @ decoded.weights)
    contexts = context_tokens * held.mean_filled / (sizes * mean_bytes)
    full_s = served.decode_time(sizes, contexts).total_s
    return DecodePoint(
        batch,
        float(steps_s[-1]),
        tuple(steps_s.tolist()),
        float(held.fractions @ (full_s / sizes)),
        float(held.fractions @ full_s),
    )


def _held_bytes(served: ServedModel, tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    """Memory of a rank that requests of so many tokens hold to their end [B]."""
    layout = served.layout
    return kv_bytes_per_rank(served.model, tokens, served.kv_precision, tp_size=layout.tp_size, pp_size=layout.pp_size)


def _room_bytes(served: ServedModel) -> float:
    """Memory of a rank for caches and states, those of all replicas together [B]."""
    return served.layout.dp_size * served.memory.cache_bytes


def _known_tokens(used: Stack) -> tuple[float, float]:
    if used.calibration is None:
        return 0.0, float("inf")
    low, high = used.calibration.input_tokens
    return float(low), float(high)


def _basis(served: ServedModel, used: Stack, role: str) -> RatesBasis:
    if not used.derated:
        return "datasheet"
    found = used.calibration
    fitted = None if found is None else found.in_sample.ttft if role == "prefill" else found.in_sample.tpot
    known = found is not None and (served.chip.is_measured or served.chip.hardware.name in found.hardware)
    return "calibrated" if fitted and known and served.model.architecture.basis == "published" else "inferred"


def _at_pool(scenario: Scenario, name: str, problem: Problem) -> Problem:
    """A problem of the roofline at the pool that asked for it."""
    message = " ".join(filter(None, (problem.file, problem.key, problem.message)))
    return scenario.problem(("pools", name), message, problem.allowed)
