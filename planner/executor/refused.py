"""Prompts that a plan could never serve, found before a run."""

from math import inf

import numpy as np

from planner.errors import InputError
from planner.executor.kernel.records import Records
from planner.executor.systems import System, route_table
from planner.units import percent


def check_room(plan: System, requests: Records) -> None:
    """Nothing, where every prompt has a way whose instances hold it.

    Raises:
        InputError: a prompt fits no pool that its class may take: it would wait forever.
    """
    rooms = np.array([inf if times.room is None else times.room.longest_tokens for times in plan.prefill_times])
    routes = route_table(plan)
    for c, name in enumerate(plan.classes):
        pools = np.unique(routes["prefill_pool"][routes["request_class"] == c])
        best = int(pools[np.argmax(rooms[pools])])
        tokens = requests["total_tokens"][requests["request_class"] == c]
        if (tokens > rooms[best]).any():
            what = (
                f"holds prompts of up to {rooms[best]:,.0f} tokens beside the weights, but "
                f"{percent(float((tokens > rooms[best]).mean()))} of those of '{name}' are longer, up to "
                f"{tokens.max():,}, and no other pool of the plan holds them"
            )
            allowed = "more accelerators per instance, or a narrower cache"
            raise InputError(plan.scenario.problem(("pools", plan.prefill[best].name), what, allowed))
