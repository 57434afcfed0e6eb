"""Colocated instances: they take requests in, and make one timed pass after another of prompts and sequences."""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.batch import choose_pass, finish_batch_step, finish_prompts
from planner.executor.kernel.departures import drop
from planner.executor.kernel.event_queue import schedule
from planner.executor.kernel.lists import insert_after, pop, push, take_out
from planner.executor.kernel.observe import record_line
from planner.executor.kernel.records import MIXED_BEGIN, MIXED_END, NONE, STRANDED, WAITS, Numbers, PassTable
from planner.executor.kernel.state import SimulationState

WAITING_WEIGHT = 4
"""Of a request that waits over one that runs, as vLLM balances its replicas: 4 waiting + running."""


@compiled_extra(None, "mixes")
def enter_colocated(w: SimulationState, c: int, r: int, is_standing: int) -> None:
    """A request comes to a colocated pool: to an instance, or it waits until one is up; one too large never will be."""
    pool, request, sequence = w.colocated_pools[c], w.requests[r], w.sequences[r]
    request.state = WAITS
    if is_standing == 0:
        request.instance = NONE  # of an earlier attempt
    sequence.output_tokens, sequence.is_begun = request.steps_left + 1, 0
    sequence.is_standing = max(sequence.is_standing, is_standing)
    sequence.made_tokens = sequence.is_standing
    if pool.sequence_tokens + request.prompt_tokens + sequence.output_tokens > pool.room_tokens:
        drop(w, r, STRANDED)
        return
    w.pools[pool.door].n_waiting += 1
    i = chosen(w, c, r)
    if i == NONE:
        push(w.requests, pool.displaced, r)
    else:
        send_request(w, i, r)


@compiled
def chosen(w: SimulationState, c: int, r: int) -> int:
    """The instance that a request is sent to: the one stated, else the first of the least load; NONE: all are down."""
    pool, stated = w.colocated_pools[c], w.sequences[r].stated_instance
    if stated != NONE and w.colocated[pool.first + stated].is_down == 0:
        return int(pool.first + stated)
    best, least = NONE, 0
    for i in range(pool.first, pool.first + pool.n):
        if w.colocated[i].is_down == 1:
            continue
        found = weighted_load(w, i)
        if best == NONE or found < least:
            best, least = i, found
    return best


@compiled
def weighted_load(w: SimulationState, i: int) -> int:
    """Requests of an instance, those that wait to be admitted counted WAITING_WEIGHT times.

    Requests of one length that begin in one pass end in one too; if all counted alike, the instance that they leave
    would get as many at once again.
    """
    instance = w.colocated[i]
    n: int = instance.n_inside + WAITING_WEIGHT * instance.inbox.n
    for k in range(instance.first, instance.first + instance.n):
        n += (WAITING_WEIGHT - 1) * w.replicas[k].waiting.n
    return n


@compiled
def send_request(w: SimulationState, i: int, r: int) -> None:
    """Send a request to an instance.

    The host makes requests ready one after another. One is looked at when a pass begins after that: the pass that began
    before goes on.
    """
    instance, request, sequence = w.colocated[i], w.requests[r], w.sequences[r]
    pool = w.colocated_pools[instance.pool]
    sequence.instance, request.decoder = i, w.decoders.shape[0] + i
    host_s, delay_s, sequence.left_tokens = sequence.host_s, sequence.delay_s, 0
    if sequence.is_standing == 0:
        sequence.left_tokens = request.prompt_tokens - request.cached_tokens
        host_s, delay_s = host_s + pool.host_token_s * request.total_tokens, delay_s + pool.delay_s
    instance.host_free_s = max(instance.host_free_s, w.clock[0].now_s) + host_s
    sequence.ready_s = instance.host_free_s + delay_s
    place = instance.inbox.last
    while place != NONE and w.sequences[place].ready_s > sequence.ready_s:
        place = w.sequences[place].before
    insert_after(w.sequences, instance.inbox, r, place)
    if instance.in_pass == 0 and instance.n_inside == 0:
        actor = w.clock[0].first_colocated + i
        first_s = max(w.sequences[instance.inbox.first].ready_s, w.clock[0].now_s)
        if w.actors[actor].place == NONE or first_s < w.actors[actor].time_s:
            schedule(w, actor, MIXED_BEGIN, first_s)


@compiled_extra(None, "mixes")
def start_mixed(w: SimulationState, i: int) -> None:
    """An instance without a pass looks at what is ready, and begins one; if it was down it takes who waited for it."""
    c = w.colocated[i].pool
    for _ in range(w.colocated_pools[c].displaced.n):
        r = pop(w.requests, w.colocated_pools[c].displaced)
        w.pools[w.colocated_pools[c].door].n_waiting -= 1
        enter_colocated(w, c, r, 0)
    start_mixed_pass(w, i)
    run_passes(w, i, False)


@compiled_extra(None, "mixes")
def finish_mixed(w: SimulationState, i: int) -> None:
    """A pass ends, and the next one begins.

    Where requests left, others may come at this very moment: their instances are chosen before the next pass begins.
    """
    run_passes(w, i, True)


@compiled
def run_passes(w: SimulationState, i: int, is_ending: bool) -> None:
    """Make passes as long as nothing else happens before they end; then plan the end of the last."""
    instance, clock = w.colocated[i], w.clock[0]
    actor = clock.first_colocated + i
    while True:
        if is_ending:
            n_gone = clock.n_finished + clock.n_dropped
            finish_mixed_pass(w, i)
            if clock.n_users > 0 and clock.n_finished + clock.n_dropped > n_gone:
                schedule(w, actor, MIXED_BEGIN, clock.now_s)
                return
            start_mixed_pass(w, i)
        is_ending = True
        if instance.in_pass == 0:
            return
        if clock.n_scheduled > 0 and w.actors[w.heap[0]].time_s <= instance.end_s:
            schedule(w, actor, MIXED_END, instance.end_s)
            return
        clock.now_s = instance.end_s
        clock.n_events += 1


@compiled
def finish_mixed_pass(w: SimulationState, i: int) -> None:
    """End the pass that an instance is in."""
    instance = w.colocated[i]
    rules = w.colocated_pools[instance.pool]
    for k in range(instance.first, instance.first + instance.n):
        if w.replicas[k].is_decoding == 1:
            finish_batch_step(w, i, k, rules)
        finish_prompts(w, i, k, rules)
    instance.in_pass = 0


@compiled
def start_mixed_pass(w: SimulationState, i: int) -> None:
    """Begin the next pass of an instance; without work it waits for its inbox."""
    instance, now_s = w.colocated[i], w.clock[0].now_s
    rules = w.colocated_pools[instance.pool]
    look_at_inbox(w, i)
    if instance.n_inside > 0:
        for k in range(instance.first, instance.first + instance.n):
            choose_pass(w, k, rules)
        seconds = pass_s(w, i) * instance.slowdown
        instance.in_pass, instance.end_s = 1, now_s + seconds
        instance.busy_s += seconds
        instance.n_passes += 1
        if w.scheduler[0].is_on == 1:
            observe_mixed(w, i, seconds)
    elif instance.inbox.n > 0:
        schedule(w, w.clock[0].first_colocated + i, MIXED_BEGIN, w.sequences[instance.inbox.first].ready_s)


@compiled
def look_at_inbox(w: SimulationState, i: int) -> None:
    """Take what is ready out of the inbox, if it is time to look; an idle instance always does."""
    instance, now_s = w.colocated[i], w.clock[0].now_s
    instance.n_unseen += 1
    is_idle = instance.n_inside == 0
    if not is_idle and instance.n_unseen < w.colocated_pools[instance.pool].polling_passes:
        return
    instance.n_unseen = 0
    while instance.inbox.n > 0:
        r = instance.inbox.first
        ready_s = w.sequences[r].ready_s
        if ready_s > now_s or (ready_s == now_s and not is_idle):
            return
        take_out(w.sequences, instance.inbox, r)
        queue_at_replica(w, i, r)


@compiled
def queue_at_replica(w: SimulationState, i: int, r: int) -> None:
    """Queue a request at the replica with the fewest."""
    instance, best = w.colocated[i], w.colocated[i].first
    for k in range(instance.first + 1, instance.first + instance.n):
        if n_at(w, k) < n_at(w, best):
            best = k
    w.sequences[r].replica = best
    push(w.requests, w.replicas[best].waiting, r)
    instance.n_inside += 1


@compiled
def n_at(w: SimulationState, k: int) -> int:
    """Requests of a replica."""
    n: int = w.replicas[k].waiting.n + w.replicas[k].admitted.n
    return n


@compiled
def pass_s(w: SimulationState, i: int) -> float:
    """Seconds of a pass: all replicas step together, at the pace of the fullest."""
    instance = w.colocated[i]
    prompts, most, keys, n, context = 0.0, 0.0, 0.0, 0, 0.0
    for k in range(instance.first, instance.first + instance.n):
        replica = w.replicas[k]
        prompts += replica.pass_tokens
        if replica.pass_tokens > most:
            most, keys = replica.pass_tokens, replica.pass_keys
        if replica.is_decoding == 1:
            n += replica.n_decoding
            context = max(context, replica.context_tokens)
    mean = context / max(n / instance.n, 1.0) if n > 0 else 0.0
    if most == 0.0:
        return decode_pass_s(w.pass_table, instance.pool, n, mean)
    instance.n_prompt_passes += 1
    instance.n_unseen = w.colocated_pools[instance.pool].polling_passes  # looks again when this pass is over
    return prompt_pass_s(w.pass_table, instance.pool, prompts / most, most, keys / most, float(n), mean)


@compiled_extra(None)
def observe_mixed(w: SimulationState, i: int, seconds: float) -> None:
    """Let the scheduler see the seconds of a pass that computes prompts, as a prefill pool's."""
    n, tokens = 0.0, 0.0
    for k in range(w.colocated[i].first, w.colocated[i].first + w.colocated[i].n):
        r = w.replicas[k].prompts.first
        while r != NONE:
            n += 1.0 if w.sequences[r].left_tokens == w.sequences[r].chunk_tokens else 0.0
            tokens += w.sequences[r].chunk_tokens
            r = w.requests[r].next
    if tokens > 0:
        record_line(w.lines, w.pools[w.colocated_pools[w.colocated[i].pool].door].line, n, tokens, seconds)


@compiled
def cell(knots: Numbers, k: int, x: float) -> int:
    """The last knot but one that is not above x: where the piece begins that x is on, or is nearest to."""
    low, high = 0, knots.shape[1] - 2
    while low < high:
        middle = (low + high + 1) >> 1
        if knots[k, middle] <= x:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def position(knots: Numbers, k: int, low: int, x: float) -> float:
    """Place of x between a knot (0) and the next one (1); beyond these outside, and 0 where there is one knot."""
    if knots.shape[1] < 2:
        return 0.0
    width = knots[k, low + 1] - knots[k, low]
    return (x - knots[k, low]) / width if width > 0 else 0.0


@compiled
def decode_pass_s(table: PassTable, k: int, n: int, context: float) -> float:
    """Seconds of a step of so many sequences with a mean context."""
    low = cell(table.contexts, k, context)
    w = position(table.contexts, k, low, context)
    near: float = table.decode_s[k, n, low]
    return near if w == 0.0 else near + w * (table.decode_s[k, n, low + 1] - near)


@compiled_apart
def prompt_pass_s(
    table: PassTable, k: int, spread: float, tokens: float, keys: float, n: float, context: float
) -> float:
    """Seconds of a pass with prompts: linear in each of the five between knots."""
    i_0, i_1 = cell(table.spread, k, spread), cell(table.tokens, k, tokens)
    i_2, i_3, i_4 = cell(table.keys, k, keys), cell(table.sequences, k, n), cell(table.contexts, k, context)
    w_0, w_1 = position(table.spread, k, i_0, spread), position(table.tokens, k, i_1, tokens)
    w_2, w_3 = position(table.keys, k, i_2, keys), position(table.sequences, k, i_3, n)
    w_4 = position(table.contexts, k, i_4, context)
    total = 0.0
    for corner in range(32):
        a, b, c, d, e = corner & 1, corner >> 1 & 1, corner >> 2 & 1, corner >> 3 & 1, corner >> 4
        weight = (w_0 if a else 1.0 - w_0) * (w_1 if b else 1.0 - w_1) * (w_2 if c else 1.0 - w_2)
        weight *= (w_3 if d else 1.0 - w_3) * (w_4 if e else 1.0 - w_4)
        if weight != 0.0:
            total += weight * table.prompt_s[k, i_0 + a, i_1 + b, i_2 + c, i_3 + d, i_4 + e]
    return total
