"""Decode instances with continuous batching: sequences join and leave between steps, and nowhere else.

Between two changes the batch is constant and a step's seconds are a constant plus so much per token of context, which
grows by the batch every step: how long n steps take, and how many fit in a time, are closed forms. So an event is a
change of the batch, not a step.
"""

from math import ceil, sqrt

from planner.executor.compiled import compiled, compiled_extra
from planner.executor.kernel.departures import finish, first_token
from planner.executor.kernel.event_queue import cancel, schedule
from planner.executor.kernel.lists import pop, push
from planner.executor.kernel.mixed import enter_colocated
from planner.executor.kernel.observe import record_leave, record_line
from planner.executor.kernel.records import DECODES, DRAINS, NONE, STEP_END, STEP_LINE, UP, WAITS_TO_DECODE
from planner.executor.kernel.roles import may_be_drained
from planner.executor.kernel.state import SimulationState

TINY = 1e-9
"""Part of a step within which a moment counts as its end."""


@compiled
def arrive_at_decode(w: SimulationState, r: int) -> None:
    """A request's cache is at the decode site: it joins the emptiest instance, or waits for one."""
    request = w.requests[r]
    p = w.routes[request.route].decode_pool
    if request.steps_left == 0:  # its only token came with the prefill
        first_token(w, r)
        finish(w, r)
        return
    if w.decode_pools[p].colocated != NONE:
        enter_colocated(w, w.decode_pools[p].colocated, r, 1)
        return
    d = emptiest(w, p, r) if w.decode_queues[p].n == 0 else NONE
    if d == NONE:
        request.state = WAITS_TO_DECODE
        push(w.requests, w.decode_queues[p], r)
    else:
        join(w, d, r)


@compiled
def emptiest(w: SimulationState, p: int, r: int) -> int:
    """The instance with the smallest batch among those with room for a request, or NONE."""
    pool, best, least = w.decode_pools[p], NONE, 2**31
    for d in range(pool.first, pool.first + pool.n):
        size = w.decoders[d].batch + w.decoders[d].n_joining
        if size < least and fits_decoder(w, d, r):
            best, least = d, size
    return best


@compiled
def kept_bytes(w: SimulationState, p: int, r: int) -> float:
    """Memory a request reserves to its end [B]."""
    pool, request = w.decode_pools[p], w.requests[r]
    return pool.state_bytes + pool.bytes_per_token * (request.prompt_tokens + request.steps_left)


@compiled
def fits_decoder(w: SimulationState, d: int, r: int) -> bool:
    """True if an instance is up and has a place in its batch, and memory, for a request."""
    decoder = w.decoders[d]
    pool = w.decode_pools[decoder.pool]
    if decoder.is_up != UP or decoder.batch + decoder.n_joining >= pool.batch_limit:
        return False
    # A request larger than the whole memory decodes alone rather than never.
    is_alone = decoder.batch + decoder.n_joining == 0
    return is_alone or decoder.used_bytes + kept_bytes(w, decoder.pool, r) <= pool.memory_bytes


@compiled
def join(w: SimulationState, d: int, r: int) -> None:
    """Accept a request: at once on an idle instance, else when the step ends."""
    decoder, request, now_s = w.decoders[d], w.requests[r], w.clock[0].now_s
    request.decoder, request.state, request.next = d, DECODES, NONE
    first_token(w, r)
    decoder.used_bytes += kept_bytes(w, decoder.pool, r)
    if decoder.batch == 0 and decoder.n_joining == 0:
        decoder.anchor_s = now_s
        enter(w, d, r)
        schedule_completion(w, d)
        return
    if decoder.n_joining == 0:
        decoder.first = r
        schedule_join(w, d)
    else:
        w.requests[decoder.last].next = r
    decoder.last = r
    decoder.n_joining += 1


@compiled
def enter(w: SimulationState, d: int, r: int) -> None:
    """Put a request in the batch at the anchor."""
    decoder, request = w.decoders[d], w.requests[r]
    decoder.context_tokens += request.prompt_tokens + 1
    slot_in(w, d, decoder.n_steps + request.steps_left, r)
    decoder.batch += 1


@compiled
def constants(w: SimulationState, d: int) -> tuple[float, float]:
    """Seconds of a step of the batch: the part that stays, and the part per token of context."""
    decoder = w.decoders[d]
    base, slope = w.step_s[decoder.pool, decoder.batch, 0], w.step_s[decoder.pool, decoder.batch, 1]
    return base * decoder.slowdown, slope * decoder.slowdown


@compiled
def steps_s(w: SimulationState, d: int, n: int) -> float:
    """Seconds of the next n steps: n a + c (n C + b n (n - 1) / 2), with the context C growing by the batch b."""
    a, c = constants(w, d)
    decoder = w.decoders[d]
    return n * a + c * (n * decoder.context_tokens + decoder.batch * n * (n - 1) / 2.0)


@compiled
def steps_within(w: SimulationState, d: int, seconds: float) -> int:
    """Least number of steps, one or more, that take so long: the root of that quadratic, rounded up."""
    a, c = constants(w, d)
    decoder = w.decoders[d]
    half, linear = c * decoder.batch / 2.0, a + c * (decoder.context_tokens - decoder.batch / 2.0)
    # The form of the root without cancellation; it holds for half = 0 as well.
    n = 2.0 * seconds / (linear + sqrt(linear * linear + 4.0 * half * seconds))
    return max(ceil(n - TINY), 1)


@compiled
def schedule_completion(w: SimulationState, d: int) -> None:
    """Schedule the end of the step that completes a sequence first."""
    decoder, actor = w.decoders[d], w.clock[0].first_decoder + d
    if decoder.batch == 0:
        cancel(w, actor)
        return
    decoder.n_ahead = w.slots[d, 0].end_step - decoder.n_steps
    schedule(w, actor, STEP_END, decoder.anchor_s + steps_s(w, d, decoder.n_ahead))


@compiled
def schedule_join(w: SimulationState, d: int) -> None:
    """Schedule the end of the step that is under way, because somebody joins then."""
    decoder = w.decoders[d]
    n = min(steps_within(w, d, w.clock[0].now_s - decoder.anchor_s), decoder.n_ahead)
    if n < decoder.n_ahead:
        decoder.n_ahead = n
        time_s = max(decoder.anchor_s + steps_s(w, d, n), w.clock[0].now_s)
        schedule(w, w.clock[0].first_decoder + d, STEP_END, time_s)


@compiled
def pass_steps(w: SimulationState, d: int, n: int, time_s: float) -> None:
    """Bring an instance n steps on; the last of them ends at a time."""
    decoder = w.decoders[d]
    if decoder.unit >= 0 and n > 0:
        observe_steps(w, d, n, time_s)
    decoder.n_steps += n
    decoder.context_tokens += float(decoder.batch) * n
    decoder.n_tokens += float(decoder.batch) * n
    decoder.slot_s += decoder.batch * (time_s - decoder.anchor_s)
    decoder.anchor_s = time_s


@compiled
def catch_up(w: SimulationState, d: int) -> None:
    """Bring an instance to the last step that has ended by now."""
    decoder = w.decoders[d]
    if decoder.batch == 0:
        return
    passed_s = w.clock[0].now_s - decoder.anchor_s
    n = steps_within(w, d, passed_s)
    if steps_s(w, d, n) > passed_s:
        n -= 1
    n = min(n, decoder.n_ahead)
    decoder.n_ahead -= n
    pass_steps(w, d, n, decoder.anchor_s + steps_s(w, d, n))


@compiled
def reschedule(w: SimulationState, d: int) -> None:
    """Schedule the event that is ahead once more, because steps now take another time; the instance has caught up."""
    decoder = w.decoders[d]
    if decoder.batch > 0:
        time_s = max(decoder.anchor_s + steps_s(w, d, decoder.n_ahead), w.clock[0].now_s)
        schedule(w, w.clock[0].first_decoder + d, STEP_END, time_s)


@compiled_extra(None, "separate", is_apart=False)
def finish_steps(w: SimulationState, d: int) -> None:
    """A step ends: the complete leave, those who joined enter, and those who wait may join."""
    decoder = w.decoders[d]
    pass_steps(w, d, decoder.n_ahead, w.clock[0].now_s)
    while decoder.batch > 0 and w.slots[d, 0].end_step <= decoder.n_steps:
        r = slot_out(w, d)
        leave_decoder(w, d, r)
        finish(w, r)
    r = decoder.first
    while r != NONE:
        following = w.requests[r].next
        w.requests[r].next = NONE
        enter(w, d, r)
        r = following
    decoder.first, decoder.last, decoder.n_joining = NONE, NONE, 0
    admit_waiting(w, d)
    schedule_completion(w, d)
    if decoder.is_up == DRAINS:
        may_be_drained(w, decoder.unit)


@compiled
def leave_decoder(w: SimulationState, d: int, r: int) -> None:
    """Give back the room of a request that has all its tokens."""
    decoder, request = w.decoders[d], w.requests[r]
    if decoder.unit >= 0:
        observe_leave(w, d, r)
    decoder.used_bytes -= kept_bytes(w, decoder.pool, r)
    decoder.context_tokens -= request.prompt_tokens + 1 + request.steps_left
    if decoder.batch == 0:
        decoder.used_bytes, decoder.context_tokens = max(decoder.used_bytes, 0.0), 0.0


@compiled
def admit_waiting(w: SimulationState, d: int) -> None:
    """Between two steps: take those who wait, in their order, while there is room."""
    decoder, now_s = w.decoders[d], w.clock[0].now_s
    p = decoder.pool
    while w.decode_queues[p].n > 0 and fits_decoder(w, d, w.decode_queues[p].first):
        r = pop(w.requests, w.decode_queues[p])
        w.requests[r].decoder, w.requests[r].state = d, DECODES
        first_token(w, r)
        decoder.used_bytes += kept_bytes(w, p, r)
        if decoder.batch == 0:
            decoder.anchor_s = now_s
        enter(w, d, r)


@compiled
def slot_in(w: SimulationState, d: int, end_step: int, r: int) -> None:
    """Put a sequence in the batch's heap, from its end upwards."""
    place = w.decoders[d].batch
    while place > 0:
        above = (place - 1) >> 1
        if w.slots[d, above].end_step <= end_step:
            break
        w.slots[d, place] = w.slots[d, above]
        place = above
    w.slots[d, place].end_step, w.slots[d, place].request = end_step, r


@compiled
def slot_out(w: SimulationState, d: int) -> int:
    """Take the sequence that ends first out of the batch's heap."""
    decoder = w.decoders[d]
    r: int = w.slots[d, 0].request
    decoder.batch -= 1
    size, place = decoder.batch, 0
    end_step, moved = w.slots[d, size].end_step, w.slots[d, size].request
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and w.slots[d, below + 1].end_step < w.slots[d, below].end_step:
            below += 1
        if w.slots[d, below].end_step >= end_step:
            break
        w.slots[d, place] = w.slots[d, below]
        place = below
    w.slots[d, place].end_step, w.slots[d, place].request = end_step, moved
    return r


@compiled_extra(None)
def observe_steps(w: SimulationState, d: int, n: int, time_s: float) -> None:
    """Let the scheduler see the seconds of steps of an instance that may change its role."""
    decoder = w.decoders[d]
    record_line(w.lines, STEP_LINE, float(n), float(decoder.batch) * n, time_s - decoder.anchor_s)


@compiled_extra(None)
def observe_leave(w: SimulationState, d: int, r: int) -> None:
    """Let the scheduler see the memory that a request gives back."""
    record_leave(w.scheduler, kept_bytes(w, w.decoders[d].pool, r))
