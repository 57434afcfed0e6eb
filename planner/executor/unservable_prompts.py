"""Prompts that a plan could never serve, found before a run."""

from math import inf

import numpy as np

from planner.errors import InputError, Problem
from planner.executor.colocated_pools import Colocated
from planner.executor.kernel.records import Records
from planner.executor.systems import System
from planner.units import percent


def check_room(plan: System, requests: Records) -> None:
    """Nothing, where every request has a way whose instances hold it.

    Raises:
        InputError: a prompt fits no pool that its class may take, or with its answer no batch: it would wait forever.
    """
    rooms = [inf if times.room is None else times.room.longest_tokens for times in plan.prefill_times]
    batches = {one.way_out: one for one in plan.colocated}
    limits = {d: one.longest_request(requests[plan.may_come(one, requests)]) for d, one in batches.items()}
    if not len(requests):
        return
    total = requests["total_tokens"] + requests["output_tokens"]
    if max(requests["total_tokens"].max() - min(rooms), total.max() - min(limits.values(), default=inf)) <= 0:
        return
    for q, stream in enumerate(plan.streams):
        ways = {(way.prefill, way.decode) for of_part in plan.ways[q].values() for way in of_part}
        mine = requests["request_class"] == q
        prompts, whole = requests["total_tokens"][mine], total[mine]
        held = [(prompts <= rooms[p]) & (whole <= limits.get(d, inf)) for p, d in sorted(ways)]
        if np.logical_or.reduce(held).all():
            continue
        p = max((p for p, _ in ways), key=lambda p: (rooms[p], -p))
        if (prompts > rooms[p]).any():
            raise InputError(_of_prefill(plan, stream.request_class, p, rooms[p], prompts))
        d = max((d for _, d in ways if d in limits), key=lambda d: (limits[d], -d))
        raise InputError(_of_batch(plan, batches[d], limits[d], whole))


def _of_prefill(plan: System, request_class: str, p: int, room: float, tokens: Records) -> Problem:
    """Prompts that a prefill pool does not hold, and no other."""
    what = (
        f"holds prompts of up to {room:,.0f} tokens beside the weights, but "
        f"{percent(float((tokens > room).mean()))} of those of '{request_class}' are longer, up to {tokens.max():,}, "
        "and no other pool of the plan holds them"
    )
    allowed = "more accelerators per instance, or a narrower cache"
    return plan.scenario.problem(("pools", plan.prefill[p].key), what, allowed)


def _of_batch(plan: System, one: Colocated, room: float, tokens: Records) -> Problem:
    """Requests that a colocated pool does not hold with their answers, and no other."""
    what = (
        f"holds requests of up to {room:,.0f} tokens with their answers beside the weights, but "
        f"{percent(float((tokens > room).mean()))} are longer, up to {tokens.max():,}"
    )
    return plan.scenario.problem(("pools", one.pool.key), what, "more accelerators per instance, or a narrower cache")
