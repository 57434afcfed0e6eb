"""Service times of a pool's instances: somebody's figures where there are any, else the roofline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError, InputError
from planner.profiles import HardwareProfile, MeasuredInstance, Speculation, missing_shapes
from planner.profiles.instance_spec import InstanceSpec
from planner.queueing.packing import packing
from planner.roofline import (
    DecodeLimit,
    InstanceModel,
    InstanceRates,
    RatesBasis,
    Setup,
    Stack,
    instance_model,
    instance_rates,
    kv_bytes_curve,
    roofline_prefill,
    stack_of,
    tokens_per_step,
    tokens_per_step_variance,
)
from planner.scenario import Pool, Scenario, at_pool, drafts_unknown, instance_spec, unmeasured
from planner.units import GB, MILLI, number
from planner.workload.mix import RequestMix

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
    asked = instance_spec(scenario, pool, hardware)
    if asked.measured is None and not asked.may_be_timed:
        raise InputError(unmeasured(scenario, name, pool, asked))
    if asked.measured is None:
        return _roofline_times(scenario, name, pool, asked, decoded)
    if problem := drafts_unknown(scenario, name, pool, asked):
        raise InputError(problem)
    _check_step(name, pool, asked.measured, asked.longest_step_s)
    try:
        rates = instance_rates(asked.model, asked.measured, asked.kv_precision)
    except ValueError as error:
        of = f"{asked.model.name} on {asked.n_accelerators} x {hardware.name}"
        what = f"the measured {pool.role} of {of} is no curve to plan with: {error}"
        raise InputError(scenario.problem(("pools", name), what)) from None
    return replace(rates, longest_tokens=_measured_room(asked, asked.measured))


def _measured_room(asked: InstanceSpec, measured: MeasuredInstance) -> float:
    """Longest prompt that a measured instance holds: as counted, and what somebody ran on it fits anyhow [tokens]."""
    if missing_shapes(asked.model.architecture):
        return inf
    try:
        counted = instance_model(asked).longest_request
    except InputError:  # a stack or a memory that nobody knows limits nothing
        return inf
    ran = measured.prefill if measured.basis == "measured" else None
    return counted if ran is None else max(counted, ran.tokens[-1])


def _check_step(name: str, pool: Pool, measured: MeasuredInstance, limit_s: float | None) -> None:
    """A measured decode point is taken as it is: its step keeps the promise, or nothing does."""
    point = measured.decode
    if limit_s is None or point is None or pool.role != "decode" or point.step_s <= limit_s:
        return
    raise InfeasibleError(
        f"pools.{name}: the measured decode step of {point.step_s / MILLI:g} ms at batch {point.batch} is longer than "
        f"{limit_s / MILLI:g} ms; what would do: a longer tpot_ms, or "
        'service_times = "roofline", which chooses the batch'
    )


def batch_limit_words(scenario: Scenario, pool: Pool, batch: int, decoded: Decoded) -> str | None:
    """Limit on a decode batch, in words; None where nobody computes it.

    Args:
        scenario: the question.
        pool: the decode pool, on the layout that it runs on.
        batch: its batch.
        decoded: the requests that it holds.
    """
    asked = instance_spec(scenario, pool)
    if asked.measured is not None or not asked.may_be_timed:
        return None
    limit_s, served = asked.longest_step_s, instance_model(asked)
    if batch >= served.most_running:
        return "the sequences that its engine admits"
    if limit_s is None or batch >= int(served.largest_batch(decoded.context_tokens)):
        return "memory"
    return f"the step of {number(limit_s / MILLI * pool.time_factor)} ms"


def _roofline_times(scenario: Scenario, name: str, pool: Pool, asked: InstanceSpec, decoded: Decoded) -> InstanceRates:
    try:
        used, served = stack_of(asked), instance_model(asked)
        check_memory(name, served)
        prefill = roofline_prefill(served, calibrated_tokens(used)) if pool.role == "prefill" else None
        decode = _decode_point(name, asked.longest_step_s, served, decoded) if pool.role == "decode" else None
    except InputError as error:
        raise InputError(at_pool(scenario, name, error.problems)) from None
    return InstanceRates(
        prefill=prefill,
        kv_bytes=kv_bytes_curve(served.cached_model, served.kv_precision),
        decode=decode,
        n_layers=served.model.architecture.n_layers,
        basis=times_basis(served, used, pool.role),
        stack=used.name,
        setup=Setup.of(served, used.name),
        longest_tokens=served.longest_request,
    )


def pool_model(scenario: Scenario, pool: Pool, hardware: HardwareProfile) -> InstanceModel:
    """The roofline of a pool's instances. Raises InputError."""
    return instance_model(instance_spec(scenario, pool, hardware))


def pool_stack(scenario: Scenario, pool: Pool) -> Stack:
    """The stack that a pool names, the scenario's own first, else the one of all pools of its model; or InputError."""
    return stack_of(instance_spec(scenario, pool))


FULLEST = 0.98
"""Part of the memory that an operator can give an engine at the most: a process's own context takes the rest."""


def check_memory(name: str, served: InstanceModel) -> None:
    fit = served.memory
    if fit.fits:
        return
    n, hardware = served.layout.n_accelerators, served.chip.hardware.name
    fuller = replace(served, memory_settings=replace(served.memory_settings, fraction=FULLEST))
    stated = f", or {FULLEST:g} as stacks.mine.memory_fraction of a stack of its own" * fuller.memory.fits
    raise InfeasibleError(
        f"pools.{name}: {served.model.name} does not fit {n} x {hardware}: each lacks {number(fit.lacking_bytes / GB)} "
        f"GB, all together {number(n * fit.lacking_bytes / GB)} GB; what would do: more accelerators per instance or "
        f"narrower weights{stated}"
    )


def _decode_point(name: str, limit_s: float | None, served: InstanceModel, decoded: Decoded) -> DecodeLimit:
    """The largest batch of mean contexts within the memory and the step limit, and how full memory lets it be."""
    limit, context_tokens = inf if limit_s is None else limit_s, decoded.context_tokens
    batch = served.largest_batch_within(context_tokens, limit)
    if batch == 0:
        alone = float(served.token_time([1], [context_tokens]).total_s[0])
        raise InfeasibleError(
            f"pools.{name}: not one sequence of {context_tokens:,.0f} tokens decodes within the memory and "
            f"{limit / MILLI:g} ms; alone it needs {alone / MILLI:.3g} ms; what would do: a longer tpot_ms or more "
            "accelerators per instance"
        )
    sizes = np.arange(1.0, batch + 1)
    steps_s = served.token_time(sizes, np.full(batch, context_tokens)).total_s
    held = packing(served.kv_bytes_per_rank(decoded.kept_tokens), decoded.weights, _room_bytes(served), batch)
    # What is held of n that fit, over what n mean requests hold: contexts are longer or shorter by that factor.
    mean_bytes = float(served.kv_bytes_per_rank(decoded.kept_tokens) @ decoded.weights)
    contexts = context_tokens * held.mean_filled / (sizes * mean_bytes)
    full_s = served.token_time(sizes, contexts).total_s
    return DecodeLimit(
        batch,
        float(steps_s[-1]),
        tuple(steps_s.tolist()),
        float(held.fractions @ (full_s / sizes)),
        float(held.fractions @ full_s),
        _token_variance(served.speculation),
    )


def _token_variance(speculation: Speculation | None) -> float:
    """Variance per token of the tokens that the steps of an answer would have made at their mean [tokens].

    Equation:
        V[X] / E[X], X tokens of a step: an answer of L tokens takes a number of steps of mean L / E[X] and variance
        L V[X] / E[X]^3, which E[X] turns into tokens (renewal theory: Cox 1962)
    """
    if speculation is None:
        return 0.0
    return tokens_per_step_variance(speculation.acceptance) / tokens_per_step(speculation.acceptance)


def _room_bytes(served: InstanceModel) -> float:
    """Memory of a rank for caches and states, those of all replicas together [B]."""
    return served.layout.dp_size * served.memory.cache_bytes


def calibrated_tokens(used: Stack) -> tuple[float, float]:
    """Lengths that a stack was calibrated on [tokens]."""
    if used.calibration is None:
        return 0.0, float("inf")
    low, high = used.calibration.input_tokens
    return float(low), float(high)


BASES: tuple[RatesBasis, ...] = ("measured", "calibrated", "inferred", "datasheet")
"""Of what times rest on, the best known first."""


def least_known(bases: Iterable[RatesBasis]) -> RatesBasis:
    """Of what several times rest on that which is known least."""
    return max(bases, key=BASES.index)


def times_basis(served: InstanceModel, used: Stack, role: str) -> RatesBasis:
    if not used.derated:
        return "datasheet"
    found = used.calibration
    fitted = None if found is None else found.in_sample.ttft if role == "prefill" else found.in_sample.tpot
    known = found is not None and (served.chip.is_measured or served.chip.hardware.name in found.hardware)
    return "calibrated" if fitted and known and served.model.architecture.basis == "published" else "inferred"
