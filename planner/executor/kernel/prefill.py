"""Prefill instances: queues, passes over prompts or chunks of them, and what each pass hands to the link."""

from math import inf

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.cache import end_transfer, keep, n_prefix_blocks, record_prompt, use
from planner.executor.kernel.curves import prefill_s, value, whole_prefill_s
from planner.executor.kernel.decode import arrive_at_decode
from planner.executor.kernel.event_queue import schedule
from planner.executor.kernel.link import finish_transfer, settle, share_link, start_transfer
from planner.executor.kernel.lists import pop, push
from planner.executor.kernel.mixed import enter_colocated
from planner.executor.kernel.observe import record_line
from planner.executor.kernel.rebalance import sent_move
from planner.executor.kernel.records import (
    DOWN,
    DRAINS,
    NONE,
    PASS_END,
    PASS_OPENS,
    PREFILLS,
    ROUND_ROBIN,
    SHARED_QUEUE,
    UP,
    WAITS,
    WIRE_LINE,
)
from planner.executor.kernel.roles import may_be_drained
from planner.executor.kernel.room import has_room, occupy, vacate
from planner.executor.kernel.state import SimulationState


@compiled
def arrive_at_prefill(w: SimulationState, p: int, r: int) -> None:
    """Hand a request to a pool, of whichever role."""
    pool = w.pools[p]
    if pool.colocated != NONE:
        enter_colocated(w, pool.colocated, r, 0)
    else:
        enter_prefill(w, p, r)


@compiled_extra(None, "separate", is_apart=False)
def enter_prefill(w: SimulationState, p: int, r: int) -> None:
    """Put a request in a queue of a pool that prefills alone, and wake who may take it."""
    request, pool = w.requests[r], w.pools[p]
    request.state, request.done_tokens, request.instance = WAITS, request.cached_tokens, NONE
    i = chosen_instance(w, p)
    overtakes = request.prompt_tokens - request.cached_tokens <= pool.priority_tokens
    push(w.requests, w.queues[2 * i + (0 if overtakes else 1)], r)
    pool.n_waiting += 1
    if pool.dispatch == SHARED_QUEUE:
        if pool.n_idle > 0:
            wake_one(w, p)
    else:
        work_s = whole_prefill_s(w, p, r) * w.instances[i].slowdown
        w.instances[i].free_at_s = max(w.instances[i].free_at_s, w.clock[0].now_s) + work_s
        wake(w, i)


@compiled
def chosen_instance(w: SimulationState, p: int) -> int:
    """Whose queue a request joins: with a shared queue the first one's, which stands for all."""
    pool = w.pools[p]
    if pool.dispatch == SHARED_QUEUE:
        return pool.first
    if pool.dispatch == ROUND_ROBIN:
        for _ in range(pool.n):
            i = pool.first + pool.turn
            pool.turn = (pool.turn + 1) % pool.n
            if w.instances[i].is_up == UP:
                return i
        return pool.first
    best, least_s = pool.first, inf
    for i in range(pool.first, pool.first + pool.n):
        free_s = max(w.instances[i].free_at_s, w.clock[0].now_s)
        if w.instances[i].is_up == UP and free_s < least_s:
            best, least_s = i, free_s
    return best


@compiled
def wake_one(w: SimulationState, p: int) -> bool:
    """Start the first idle instance of a pool that may start, if there is one."""
    i, end = w.pools[p].first, w.pools[p].first + w.pools[p].n
    while i < end and (w.instances[i].is_busy == 1 or not wake(w, i)):
        i += 1
    return bool(i < end)


@compiled
def wake(w: SimulationState, i: int) -> bool:
    """Start a pass on an instance that is up, idle and not clogged with unfinished transfers, if anything waits."""
    instance = w.instances[i]
    pool = w.pools[instance.pool]
    if instance.is_up == DOWN or instance.is_busy == 1 or instance.n_transfers >= pool.max_transfers:
        return False
    if instance.first == NONE and not may_take(w, i):
        return False
    start_pass(w, i)
    return True


@compiled
def wake_next(w: SimulationState, i: int) -> None:
    """Start a pass on an instance that has got free, and on others where memory let them wait."""
    wake(w, i)
    pool = w.pools[w.instances[i].pool]
    if pool.is_limited == 1 and pool.dispatch == SHARED_QUEUE and pool.n_waiting > 0:
        wake_others(w, w.instances[i].pool)


@compiled
def own_queue(w: SimulationState, i: int) -> int:
    """First of the two queues that an instance takes from."""
    pool = w.pools[w.instances[i].pool]
    return 2 * pool.first if pool.dispatch == SHARED_QUEUE else 2 * i


@compiled
def is_waited_for(w: SimulationState, i: int) -> bool:
    """True if a request waits for an instance that may take it."""
    if w.instances[i].is_up == DRAINS:
        return False
    q = own_queue(w, i)
    return w.queues[q].n + w.queues[q + 1].n > 0


@compiled
def may_take(w: SimulationState, i: int) -> bool:
    """True if a request waits for an instance that may take it and has room for it."""
    return is_waited_for(w, i) and has_room(w, i, w.queues[next_queue(w, i)].first)


@compiled
def next_queue(w: SimulationState, i: int) -> int:
    """The queue that the next request for an instance is in: of those that overtake, else of the others."""
    q = own_queue(w, i)
    return q if w.queues[q].n > 0 else q + 1


@compiled_apart
def wake_others(w: SimulationState, p: int) -> None:
    """Start idle instances of a pool while one has room for whoever is next: another may have taken who was."""
    pool = w.pools[p]
    while pool.n_idle > 0 and pool.n_waiting > 0 and wake_one(w, p):
        pass


@compiled
def take(w: SimulationState, i: int) -> int:
    """The next request for an instance."""
    r = pop(w.requests, w.queues[next_queue(w, i)])
    w.pools[w.instances[i].pool].n_waiting -= 1
    w.requests[r].instance = i
    w.requests[r].state = PREFILLS
    w.requests[r].next = NONE
    if not w.requests[r].prefill_start_s >= 0:
        w.requests[r].prefill_start_s = w.clock[0].now_s
    if w.cache_rule[0].is_on == 1:
        use(w, w.pools[w.instances[i].pool].site, r)
    w.requests[r].held_tokens = tokens_at_decode_site(w, r)
    occupy(w, i, r)
    return r


@compiled
def tokens_at_decode_site(w: SimulationState, r: int) -> int:
    """Tokens of a prompt whose blocks the decode site holds already, so that they are not sent."""
    request, way = w.requests[r], w.routes[w.requests[r].route]
    if way.link == NONE or w.links[way.link].holds_prefix == 0:
        return 0
    if w.cache_rule[0].is_on == 0:
        return request.cached_tokens
    return prefix_tokens(w, w.decode_pools[way.decode_pool].site, r)


@compiled_extra(0)
def prefix_tokens(w: SimulationState, site: int, r: int) -> int:
    """Tokens of the leading blocks of a prompt that a site holds."""
    held: int = n_prefix_blocks(w, site, r) * w.cache_rule[0].block_tokens
    return held


@compiled
def start_pass(w: SimulationState, i: int) -> None:
    """Fill a pass with the prompt left over from the last one and those that wait, up to the chunk."""
    instance, clock = w.instances[i], w.clock[0]
    pool = w.pools[instance.pool]
    room = pool.chunk_tokens if pool.is_chunked == 1 else inf
    seconds, has_start, has_cold, r = 0.0, False, False, instance.first
    while True:
        if r == NONE:
            if room <= 0 or not may_take(w, i):
                break
            r = take(w, i)
            append(w, i, r)
        request = w.requests[r]
        end = min(request.done_tokens + room, float(request.prompt_tokens))
        if request.done_tokens == request.cached_tokens:
            has_start = True
        if request.done_tokens == 0:
            # The constant overhead is paid once by all prompts that begin in the same pass.
            seconds += prefill_s(w, instance.pool, 0.0, end)
            seconds -= value(w.curves, pool.prefill_curve, 0.0) if has_cold else 0.0
            has_cold = True
        else:
            seconds += prefill_s(w, instance.pool, request.done_tokens, end)
        room = room - (end - request.done_tokens) if pool.is_chunked == 1 else 0.0
        r = NONE
    if has_start and not has_cold:
        seconds = max(seconds, pool.floor_s)
    if pool.dispatch == SHARED_QUEUE and instance.is_up == UP:
        pool.n_idle -= 1
    instance.is_busy, instance.pass_start_s, instance.pass_s = 1, clock.now_s, seconds * instance.slowdown
    schedule_pass(w, i)


@compiled
def append(w: SimulationState, i: int, r: int) -> None:
    """Put a request at the end of an instance's pass."""
    instance = w.instances[i]
    if instance.first == NONE:
        instance.first = r
    else:
        w.requests[instance.last].next = r
    instance.last = r


@compiled
def link_of(w: SimulationState, r: int) -> int:
    """The link a request's cache takes: between sites, or its instance's own inside the site, or none."""
    k: int = w.routes[w.requests[r].route].link
    return w.instances[w.requests[r].instance].fabric if k == NONE else k


@compiled
def schedule_pass(w: SimulationState, i: int) -> None:
    """Schedule the moment its first layer is done, if it sends anything while it computes, else its end."""
    instance = w.instances[i]
    pool, r = w.pools[instance.pool], instance.first
    end_s = instance.pass_start_s + instance.pass_s
    while r != NONE and link_of(w, r) == NONE:
        r = w.requests[r].next
    if r == NONE or pool.n_layers < 2:
        schedule(w, i, PASS_END, end_s)
    else:
        schedule(w, i, PASS_OPENS, instance.pass_start_s + instance.pass_s / pool.n_layers)


@compiled_extra(None, "separate", is_apart=False)
def open_transfers(w: SimulationState, i: int) -> None:
    """The first layer is done: from now to the end of the pass its requests' layers are sent as they are made."""
    instance, r = w.instances[i], w.instances[i].first
    n, room = w.pools[instance.pool].n_layers, chunk(w, i)
    while r != NONE:
        end, k = end_of_pass(w, r, room), link_of(w, r)
        room -= end - w.requests[r].done_tokens
        if k != NONE:
            settle(w, k)
            f = w.requests[r].flow
            if f == NONE:
                f = start_transfer(w, k, r)
            made = made_bytes(w, i, r, end) * (n - 1) / n
            w.flows[k, f].made_bytes_per_s = made / (instance.pass_s * (n - 1) / n)
            share_link(w, k)
        r = w.requests[r].next
    schedule(w, i, PASS_END, instance.pass_start_s + instance.pass_s)


@compiled
def chunk(w: SimulationState, i: int) -> float:
    """Tokens of a pass at most."""
    pool = w.pools[w.instances[i].pool]
    return pool.chunk_tokens if pool.is_chunked == 1 else inf


@compiled
def end_of_pass(w: SimulationState, r: int, room: float) -> float:
    """Tokens of its prompt that a request has done after the pass [tokens]."""
    request = w.requests[r]
    return min(request.done_tokens + room, float(request.prompt_tokens))


@compiled
def made_bytes(w: SimulationState, i: int, r: int, end: float) -> float:
    """Bytes that a pass adds to a request's cache on the wire; the recurrent state comes with the last token.

    Blocks that the destination holds already are not sent; a state always is.
    """
    request, k = w.requests[r], w.routes[w.requests[r].route].link
    pool = w.pools[w.instances[i].pool]
    curve = pool.handoff_curve if k == NONE else pool.wire_curve
    held = float(request.held_tokens)
    # What was cached where it is prefilled goes along with the first pass.
    start = 0.0 if request.done_tokens == request.cached_tokens else float(request.done_tokens)
    grown = value(w.curves, curve, max(end, held)) - value(w.curves, curve, max(start, held))
    return grown + (value(w.curves, curve, 0.0) if end >= request.prompt_tokens else 0.0)


@compiled_extra(None, "separate", is_apart=False)
def finish_pass(w: SimulationState, i: int) -> None:
    """A pass ends: its last layer goes out, whole prompts leave, and the instance takes what waits."""
    instance, clock = w.instances[i], w.clock[0]
    pool, room, r = w.pools[instance.pool], chunk(w, i), instance.first
    instance.busy_s += instance.pass_s
    instance.is_busy, instance.first, instance.last = 0, NONE, NONE
    if pool.dispatch == SHARED_QUEUE and instance.is_up == UP:
        pool.n_idle += 1
    if w.scheduler[0].is_on == 1:
        observe_pass(w, i, r)
    while r != NONE:
        following, request = w.requests[r].next, w.requests[r]
        end = end_of_pass(w, r, room)
        room -= end - request.done_tokens
        request.next = NONE
        is_whole = end >= request.prompt_tokens
        if is_whole and not request.first_token_s >= 0:
            request.prefill_end_s = clock.now_s
        if is_whole and w.cache_rule[0].is_on == 1:
            keep(w, pool.site, r, request.prompt_tokens, True)
            if w.rebalancer[0].is_on == 1:
                record_prompt(w, pool.site, r)
        hand_over(w, i, r, end, is_whole)
        request.done_tokens = int(end)
        if not is_whole:
            append(w, i, r)
        r = following
    wake_next(w, i)
    if instance.is_up == DRAINS:
        may_be_drained(w, instance.unit)


@compiled_extra(None)
def observe_pass(w: SimulationState, i: int, r: int) -> None:
    """Let the scheduler see the seconds of a pass that ends, whose first request this is."""
    n, tokens, room = 0.0, 0.0, chunk(w, i)
    while r != NONE:
        grown = end_of_pass(w, r, room) - w.requests[r].done_tokens
        n += 1.0 if w.requests[r].done_tokens + grown >= w.requests[r].prompt_tokens else 0.0
        tokens, room = tokens + grown, room - grown
        r = w.requests[r].next
    record_line(w.lines, w.pools[w.instances[i].pool].line, n, tokens, w.instances[i].pass_s)


@compiled
def hand_over(w: SimulationState, i: int, r: int, end: float, is_whole: bool) -> None:
    """Put the last layer of a pass in the transfer's backlog; without a link the request is where it must be."""
    k = link_of(w, r)
    if k == NONE:
        if is_whole:
            end_transfer(w, r)
            vacate(w, i, r)
            if not w.requests[r].first_token_s >= 0:
                w.requests[r].kv_end_s = w.clock[0].now_s
            arrive_at_decode(w, r)
        return
    settle(w, k)
    n, f, made = w.pools[w.instances[i].pool].n_layers, w.requests[r].flow, made_bytes(w, i, r, end)
    if f == NONE:  # nothing was sent while it computed
        f = start_transfer(w, k, r)
        n = 1
    w.requests[r].wire_bytes += made
    flow = w.flows[k, f]
    flow.made_bytes_per_s = 0.0
    flow.backlog_bytes += made / n
    if is_whole:
        flow.is_open = 0
        w.instances[i].n_transfers += 1
        if w.links[k].is_watched == 1:
            observe_wire(w, r)
    share_link(w, k)


@compiled_extra(None)
def observe_wire(w: SimulationState, r: int) -> None:
    """Let the scheduler see the bytes of a cache that is whole."""
    request = w.requests[r]
    record_line(w.lines, WIRE_LINE, 1.0, float(request.prompt_tokens - request.cached_tokens), request.wire_bytes)


@compiled_extra(None, "separate", is_apart=False)
def link_changes(w: SimulationState, k: int) -> None:
    """A backlog, or a move, has run out: whoever is done leaves, the others share anew."""
    settle(w, k)
    while True:
        r = finish_transfer(w, k)
        if r == NONE:
            break
        i = w.requests[r].instance
        if i == NONE:  # a prefix that was fetched
            continue
        end_transfer(w, r)
        vacate(w, i, r)
        w.instances[i].n_transfers -= 1
        if w.instances[i].is_busy == 0:
            wake_next(w, i)
        if w.instances[i].is_up == DRAINS:
            may_be_drained(w, w.instances[i].unit)
    if w.links[k].is_moving == 1 and w.links[k].move_bytes == 0:
        sent_move(w, k)
    share_link(w, k)
