"""Lists of requests: queues through `next`, lists that anything can leave through `before` and `after`."""

from planner.executor.compiled import compiled
from planner.executor.engine.records import NONE, Record, Records


@compiled
def push(requests: Records, queue: Record, r: int) -> None:
    """Put a request at the end of a queue."""
    requests[r].next = NONE
    if queue.n == 0:
        queue.first = r
    else:
        requests[queue.last].next = r
    queue.last = r
    queue.n += 1


@compiled
def push_first(requests: Records, queue: Record, r: int) -> None:
    """Put a request at the head of a queue."""
    requests[r].next = queue.first
    queue.first = r
    if queue.n == 0:
        queue.last = r
    queue.n += 1


@compiled
def pop(requests: Records, queue: Record) -> int:
    """Take the request at the head of a queue that has one."""
    r: int = queue.first
    queue.first = requests[r].next
    queue.n -= 1
    if queue.n == 0:
        queue.last = NONE
    return r


@compiled
def insert_after(requests: Records, chain: Record, r: int, place: int) -> None:
    """Put a request behind another one of a list; behind none, at its head."""
    behind = chain.first if place == NONE else requests[place].after
    requests[r].before, requests[r].after = place, behind
    if place == NONE:
        chain.first = r
    else:
        requests[place].after = r
    if behind == NONE:
        chain.last = r
    else:
        requests[behind].before = r
    chain.n += 1


@compiled
def leave(requests: Records, chain: Record, r: int) -> None:
    """Take a request out of a list, from wherever it is."""
    before, after = requests[r].before, requests[r].after
    if before == NONE:
        chain.first = after
    else:
        requests[before].after = after
    if after == NONE:
        chain.last = before
    else:
        requests[after].before = before
    chain.n -= 1
