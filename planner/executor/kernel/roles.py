"""Units that change their role: an instance that drains is done, warms up, and serves as the other kind."""

from planner.executor.compiled import compiled_apart
from planner.executor.kernel.calendar import plan
from planner.executor.kernel.records import DOWN, READY, SERVES, WARMS, World


@compiled_apart
def prefill_is_drained(w: World, i: int) -> None:
    """If an instance that takes no more prompts has none left and has sent all their caches, it warms up."""
    instance = w.instances[i]
    if instance.is_busy == 0 and instance.first < 0 and instance.n_transfers == 0:
        instance.is_up = DOWN
        warm_up(w, instance.unit)


@compiled_apart
def decode_is_drained(w: World, d: int) -> None:
    """If an instance that takes no more requests has none left, it warms up."""
    decoder = w.decoders[d]
    if decoder.batch + decoder.n_joining == 0:
        decoder.is_up = DOWN
        warm_up(w, decoder.unit)


@compiled_apart
def warm_up(w: World, u: int) -> None:
    """A unit is in neither role for a while."""
    leave_role(w, u)
    w.units[u].state = WARMS
    plan(w, w.scheduler[0].first_unit + u, READY, w.clock[0].now_s + w.scheduler[0].warm_up_s)


@compiled_apart
def leave_role(w: World, u: int) -> None:
    """The unit counts for its role no longer."""
    count_roles(w)
    unit, control = w.units[u], w.scheduler[0]
    control.n_decode -= unit.is_decode
    control.n_prefill -= 1 - unit.is_decode


@compiled_apart
def enter_role(w: World, u: int) -> None:
    """The unit has the other role from now on."""
    count_roles(w)
    unit, control = w.units[u], w.scheduler[0]
    unit.is_decode, unit.state = 1 - unit.is_decode, SERVES
    control.n_decode += unit.is_decode
    control.n_prefill += 1 - unit.is_decode
    control.n_conversions += 1


@compiled_apart
def count_roles(w: World) -> None:
    """Bring the unit-seconds in either role up to now."""
    control, now_s = w.scheduler[0], w.clock[0].now_s
    control.prefill_s += control.n_prefill * (now_s - control.role_s)
    control.decode_s += control.n_decode * (now_s - control.role_s)
    control.role_s = now_s
