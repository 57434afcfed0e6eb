"""Lists of requests: queues through `next`, of which a request is in one at most, and lists that anything can leave."""

from planner.executor.compiled import compiled
from planner.executor.kernel.records import NONE, Record, Records


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
    requests[r].next = NONE
    return r


@compiled
def insert_after(sequences: Records, chain: Record, r: int, place: int) -> None:
    """Put a sequence behind another one of a list; behind none, at its head."""
    behind = chain.first if place == NONE else sequences[place].after
    sequences[r].before, sequences[r].after = place, behind
    if place == NONE:
        chain.first = r
    else:
        sequences[place].after = r
    if behind == NONE:
        chain.last = r
    else:
        sequences[behind].before = r
    chain.n += 1


@compiled
def take_out(sequences: Records, chain: Record, r: int) -> None:
    """Take a sequence out of a list, from wherever it is."""
    before, after = sequences[r].before, sequences[r].after
    if before == NONE:
        chain.first = after
    else:
        sequences[before].after = after
    if after == NONE:
        chain.last = before
    else:
        sequences[after].before = before
    chain.n -= 1
