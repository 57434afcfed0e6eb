"""A pool's instances as a scenario states them, names resolved: what service times are looked up or computed from.

The optimizer and the executor both begin here. What either makes of it is its own.
"""

from collections.abc import Iterable

from planner.errors import InputProblem
from planner.profiles import HardwareProfile, missing_shapes
from planner.profiles.instance_spec import InstanceSpec
from planner.scenario.parts import Pool
from planner.scenario.question import Scenario
from planner.units import MILLI


def instance_spec(scenario: Scenario, pool: Pool, hardware: HardwareProfile | None = None) -> InstanceSpec:
    """An instance of a pool.

    Args:
        scenario: the question.
        pool: the pool, with one layout and one size of passes where several may be chosen from.
        hardware: its accelerators, where they are not those that the pool names.

    Raises:
        InputError: a profile is not there.
    """
    choice, model = scenario.choice_of(pool), scenario.profile_of(pool.model)
    has_shapes = not missing_shapes(model.architecture)
    return InstanceSpec(
        model=model,
        hardware=scenario.hardware_of(pool) if hardware is None else hardware,
        n_accelerators=pool.accelerators_per_instance,
        layout=pool.layout,
        precision=choice.precision,
        kv_precision=choice.kv_precision,
        speculation=scenario.speculation_of(pool.model),
        stack=scenario.stack_of(pool),
        stacks=scenario.own_stacks,
        measured=scenario.measured_for(pool),
        may_be_timed=has_shapes if pool.service_times is None else pool.service_times == "roofline",
        longest_step_s=_longest_step_s(scenario, pool),
        time_factor=pool.time_factor,
        tokens_per_pass=pool.tokens_per_pass if isinstance(pool.tokens_per_pass, int) else None,
    )


def _longest_step_s(scenario: Scenario, pool: Pool) -> float | None:
    promises = (scenario.slo_of(name) for name in scenario.classes_of(pool))
    limits_ms = [pool.tpot_ms, *(slo.tpot_ms for slo in promises if slo is not None)]
    return min((limit / pool.time_factor * MILLI for limit in limits_ms if limit is not None), default=None)


def drafts_unknown(scenario: Scenario, name: str, pool: Pool, asked: InstanceSpec) -> InputProblem | None:
    """Problem of a pool whose decode steps somebody measured, where tokens are to be drafted; None: no problem."""
    if asked.speculation is None or asked.measured is None or pool.role != "decode":
        return None
    key = ("model",) if pool.model is None else ("models", pool.model)
    n = asked.speculation.n_draft_tokens
    what = f"is {n}, and pools.{name} decodes as measured: whether with drafts is not known"
    ways = "a model of known shapes" if missing_shapes(asked.model.architecture) else 'service_times = "roofline" there'
    return scenario.problem((*key, "draft_tokens"), what, f"{ways}, or no draft_tokens")


def unmeasured(scenario: Scenario, name: str, pool: Pool, asked: InstanceSpec) -> InputProblem:
    """Problem of a pool that nobody measured and the roofline is not to time, or cannot."""
    known = ", ".join(
        f"{m.n_accelerators} x {m.hardware} in {m.precision}"
        for m in scenario.measurements_of(pool.model)
        if getattr(m, pool.role) is not None
    )
    missing = missing_shapes(asked.model.architecture)
    roofline = f"; for the roofline its profile lacks {', '.join(missing)}" if missing else ""
    return scenario.problem(
        ("pools", name),
        f"no measured {pool.role} of {asked.model.name} on {asked.n_accelerators} x {asked.hardware.name}",
        f"measured: {known or 'none'}; or add [measured.NAME] to the scenario{roofline}",
    )


def at_pool(scenario: Scenario, name: str, problems: Iterable[InputProblem]) -> list[InputProblem]:
    """Problems of the roofline, at the pool that asked for it; those at a line of a profile's file stay there."""
    return [
        p
        if p.line is not None
        else scenario.problem(("pools", name), " ".join(filter(None, (p.file, p.key, p.message))), p.allowed)
        for p in problems
    ]
