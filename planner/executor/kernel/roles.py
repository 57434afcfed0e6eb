"""Units that change their role: one that drains is done, warms up, and serves as an instance of the other kind."""

from planner.executor.compiled import compiled_apart, compiled_extra
from planner.executor.kernel.event_queue import schedule
from planner.executor.kernel.records import DOWN, NONE, READY, SERVES, WARMS, Records
from planner.executor.kernel.state import SimulationState


@compiled_extra(None)
def may_be_drained(w: SimulationState, u: int) -> None:
    """A unit that takes no more work warms up if it has none left, and has sent all caches that it made."""
    unit, control, now_s = w.units[u], w.scheduler[0], w.clock[0].now_s
    if unit.is_decode == 1:
        decoder = w.decoders[unit.decoder]
        if decoder.batch + decoder.n_joining > 0:
            return
        decoder.is_up = DOWN
    else:
        instance = w.instances[unit.instance]
        if instance.is_busy == 1 or instance.first != NONE or instance.n_transfers > 0:
            return
        instance.is_up = DOWN
    leave_role(w.units, w.scheduler, u, now_s)
    unit.state = WARMS
    schedule(w, control.first_unit + u, READY, now_s + control.warm_up_s)


@compiled_apart
def leave_role(units: Records, scheduler: Records, u: int, now_s: float) -> None:
    """The unit counts for its role no longer."""
    count_roles(scheduler, now_s)
    scheduler[0].n_decode -= units[u].is_decode
    scheduler[0].n_prefill -= 1 - units[u].is_decode


@compiled_apart
def enter_role(units: Records, scheduler: Records, u: int, now_s: float) -> None:
    """The unit has the other role from now on."""
    count_roles(scheduler, now_s)
    units[u].is_decode, units[u].state = 1 - units[u].is_decode, SERVES
    scheduler[0].n_decode += units[u].is_decode
    scheduler[0].n_prefill += 1 - units[u].is_decode
    scheduler[0].n_conversions += 1


@compiled_apart
def count_roles(scheduler: Records, now_s: float) -> None:
    """Bring the unit-seconds in either role up to now."""
    control = scheduler[0]
    control.prefill_s += control.n_prefill * (now_s - control.role_s)
    control.decode_s += control.n_decode * (now_s - control.role_s)
    control.role_s = now_s
