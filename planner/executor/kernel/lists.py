"""Lists of requests, linked through their `next`: a request is in one at most, so no list needs room of its own."""

from planner.executor.compiled import compiled
from planner.executor.kernel.records import NONE, Records


@compiled
def push(requests: Records, queue: Records, q: int, r: int) -> None:
    """Put a request at the end of a queue."""
    requests[r].next = NONE
    if queue[q].n == 0:
        queue[q].first = r
    else:
        requests[queue[q].last].next = r
    queue[q].last = r
    queue[q].n += 1


@compiled
def pop(requests: Records, queue: Records, q: int) -> int:
    """Take the request at the head of a queue that has one."""
    r: int = queue[q].first
    queue[q].first = requests[r].next
    queue[q].n -= 1
    if queue[q].n == 0:
        queue[q].last = NONE
    requests[r].next = NONE
    return r
