"""Prompts that a plan could never serve, found before a run."""

from math import inf

from planner.errors import InputError
from planner.executor.colocated_pools import Colocated
from planner.executor.kernel.records import Records
from planner.executor.systems import System
from planner.units import percent


def check_room(plan: System, requests: Records) -> None:
    """Nothing, where every prompt has a way whose instances hold it.

    Raises:
        InputError: a prompt fits no pool that its class may take, or with its answer no batch: it would wait forever.
    """
    for one in plan.colocated:
        _check_batch(plan, one, requests)
    rooms = [inf if times.room is None else times.room.longest_tokens for times in plan.prefill_times]
    if not len(requests) or requests["total_tokens"].max() <= min(rooms, default=inf):
        return
    for q, stream in enumerate(plan.streams):
        pools = [way.prefill for of_part in plan.ways[q].values() for way in of_part]
        best = max(pools, key=lambda p: (rooms[p], -p))
        tokens = requests["total_tokens"][requests["request_class"] == q]
        if (tokens > rooms[best]).any():
            what = (
                f"holds prompts of up to {rooms[best]:,.0f} tokens beside the weights, but "
                f"{percent(float((tokens > rooms[best]).mean()))} of those of '{stream.request_class}' are longer, up "
                f"to {tokens.max():,}, and no other pool of the plan holds them"
            )
            allowed = "more accelerators per instance, or a narrower cache"
            raise InputError(plan.scenario.problem(("pools", plan.prefill[best].key), what, allowed))


def _check_batch(plan: System, one: Colocated, requests: Records) -> None:
    tokens = requests["total_tokens"] + requests["output_tokens"]
    room, fixed = one.room_tokens(float(max(requests["total_tokens"].min() // 2, 1)), float(tokens.max()))
    if (tokens > room - fixed).any():
        what = (
            f"holds requests of up to {room - fixed:,.0f} tokens with their answers beside the weights, but "
            f"{percent(float((tokens > room - fixed).mean()))} are longer, up to {tokens.max():,}"
        )
        allowed = "more accelerators per instance, or a narrower cache"
        raise InputError(plan.scenario.problem(("pools", one.pool.key), what, allowed))
