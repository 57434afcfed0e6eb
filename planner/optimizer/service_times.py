"""Service times of a pool's instances: somebody's figures where there are any, else the roofline."""

from planner.errors import InfeasibleError, InputError, Problem
from planner.profiles import HardwareProfile, MeasuredInstance, missing_shapes
from planner.roofline import (
    Chip,
    DecodePoint,
    InstanceRates,
    Layout,
    RatesBasis,
    ServedModel,
    Stack,
    altered,
    best_stack,
    instance_rates,
    kv_bytes_curve,
    roofline_prefill,
    stack,
)
from planner.scenario import Pool, Scenario
from planner.units import GB, MILLI, number


def service_times(
    scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, context_tokens: float
) -> InstanceRates:
    """Prefill seconds, cache bytes and the decode point of a pool's instances.

    Args:
        scenario: the question.
        name: name of the pool.
        pool: the pool.
        hardware: its accelerators.
        context_tokens: mean context that decode attends to, prompt and half the output [tokens].

    Returns:
        Service times of the pool's role, for the model that it serves, times the pool's `time_factor`.

    Raises:
        InputError: nobody measured the instance and the roofline cannot time it.
        InfeasibleError: the weights do not fit it, or no sequence keeps its step within tpot_ms.
    """
    return _unscaled(scenario, name, pool, hardware, context_tokens).scaled(pool.time_factor)


def _unscaled(
    scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, context_tokens: float
) -> InstanceRates:
    """Service times as somebody measured them, or as the roofline has them."""
    n, model = pool.accelerators_per_instance, scenario.profile_of(pool.model)
    measured = scenario.measured_instance(hardware, n, pool.role, pool.model)
    if pool.service_times == "roofline" or (measured is None and _can_be_timed(scenario, pool)):
        return _roofline_times(scenario, name, pool, hardware, context_tokens)
    if measured is None:
        raise InputError(_unmeasured(scenario, name, pool, hardware))
    _check_step(scenario, name, pool, measured)
    try:
        return instance_rates(model, measured, scenario.model_choice(pool.model).kv_precision)
    except ValueError as error:
        what = f"the measured {pool.role} of {model.name} on {n} x {hardware.name} is no curve to plan with: {error}"
        raise InputError(scenario.problem(("pools", name), what)) from None


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


def _can_be_timed(scenario: Scenario, pool: Pool) -> bool:
    return pool.service_times is None and not missing_shapes(scenario.profile_of(pool.model).architecture)


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
    scenario: Scenario, name: str, pool: Pool, hardware: HardwareProfile, context_tokens: float
) -> InstanceRates:
    model, choice = scenario.profile_of(pool.model), scenario.model_choice(pool.model)
    try:
        used = pool_stack(scenario, pool, hardware)
        served = ServedModel(
            model,
            Chip(hardware, used.derated),
            _layout(pool),
            used.factors,
            choice.precision,
            choice.kv_precision,
            used.settings.chunk_tokens,
            used.settings.memory_fraction,
            used.runtime_bytes,
        )
        _check_memory(name, served)
        prefill = roofline_prefill(served, _known_tokens(used)) if pool.role == "prefill" else None
        limit_ms = _step_limit_ms(scenario, pool)
        decode = _decode_point(name, limit_ms, served, context_tokens) if pool.role == "decode" else None
    except InputError as error:
        raise InputError(_at_pool(scenario, name, problem) for problem in error.problems) from None
    return InstanceRates(
        prefill=prefill,
        kv_bytes=kv_bytes_curve(model, choice.kv_precision),
        decode=decode,
        n_layers=model.architecture.n_layers,
        basis=_basis(served, used, pool.role),
        stack=used.name,
    )


def pool_stack(scenario: Scenario, pool: Pool, hardware: HardwareProfile) -> Stack:
    """The stack that a pool names, the scenario's own first, else the one calibrated best. Raises InputError."""
    if pool.stack is None:
        return best_stack(scenario.model_profile.name, hardware.name)
    own = scenario.stacks.get(pool.stack)
    if own is None:
        return stack(pool.stack)
    settings = own.model_dump(include={"chunk_tokens", "memory_fraction", "runtime_gb"})
    return altered(stack(own.like), pool.stack, own.factors, settings)


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


def _decode_point(name: str, limit_ms: float | None, served: ServedModel, context_tokens: float) -> DecodePoint:
    """The largest batch within the memory and the step limit."""
    limit = float("inf") if limit_ms is None else limit_ms * MILLI
    batch = served.largest_batch_within(context_tokens, limit)
    if batch == 0:
        alone = float(served.decode_time([1], [context_tokens]).total_s[0])
        raise InfeasibleError(
            f"pools.{name}: not one sequence of {context_tokens:,.0f} tokens decodes within the memory and "
            f"{limit / MILLI:g} ms; alone it needs {alone / MILLI:.3g} ms; what would do: a longer tpot_ms or more "
            "accelerators per instance"
        )
    return DecodePoint(batch, float(served.decode_time([batch], [context_tokens]).total_s[0]))


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
