"""What an instance does: it takes requests in, and makes one pass after another."""

from planner.executor.compiled import compiled
from planner.executor.engine.batch import fill, prompts_end, step_ends
from planner.executor.engine.lists import insert_after, leave, push
from planner.executor.engine.records import COMING, NEVER, NONE, REFUSED, WAITS, Engine, Records
from planner.executor.engine.seconds import decode_s, prompt_pass_s


@compiled
def offer(e: Engine, i: int, r: int, now_s: float) -> bool:
    """Send a request to an instance; False where its memory could never hold it.

    The host makes requests ready one after another. One is looked at when a pass begins after that: the pass that began
    before goes on.
    """
    instance, request = e.instances[i], e.requests[r]
    rules = e.rules[instance.rules]
    request.instance = i
    if rules.sequence_tokens + request.prompt_tokens + request.output_tokens > rules.room_tokens:
        request.state = REFUSED
        return False
    request.state = COMING
    request.left_tokens = request.prompt_tokens + request.made_tokens - request.cached_tokens
    if request.is_standing == 1:
        request.left_tokens, request.made_tokens = 0, 1
    instance.host_free_s = max(instance.host_free_s, now_s) + request.host_s
    request.ready_s = instance.host_free_s + request.delay_s
    place = instance.inbox.last
    while place != NONE and e.requests[place].ready_s > request.ready_s:
        place = e.requests[place].before
    insert_after(e.requests, instance.inbox, r, place)
    if instance.in_pass == 0:
        instance.next_s = e.requests[instance.inbox.first].ready_s
    return True


@compiled
def end_pass(e: Engine, i: int) -> int:
    """End the pass that an instance is in; how many requests it finished, which stand in `done`."""
    instance = e.instances[i]
    instance.n_done = 0
    if instance.in_pass == 0:
        return 0
    rules, now_s = e.rules[instance.rules], instance.next_s
    for k in range(instance.first, instance.first + instance.n):
        if e.replicas[k].is_decoding == 1:
            step_ends(e, i, k, rules, now_s)
        prompts_end(e, i, k, rules, now_s)
    instance.in_pass = 0
    n: int = instance.n_done
    return n


@compiled
def begin_pass(e: Engine, i: int, now_s: float) -> None:
    """Begin the next pass of an instance; without work it waits for its inbox."""
    instance = e.instances[i]
    look(e, i, now_s)
    if instance.n_inside > 0:
        rules = e.rules[instance.rules]
        for k in range(instance.first, instance.first + instance.n):
            fill(e, k, rules, now_s)
        seconds = pass_s(e, i) * instance.slowdown
        instance.in_pass, instance.next_s = 1, now_s + seconds
        instance.busy_s += seconds
        instance.n_passes += 1
    elif instance.inbox.n > 0:
        instance.next_s = e.requests[instance.inbox.first].ready_s
    else:
        instance.next_s = NEVER


@compiled
def look(e: Engine, i: int, now_s: float) -> None:
    """Take what is ready out of the inbox, if it is time to look; an idle instance always does."""
    instance = e.instances[i]
    instance.n_unseen += 1
    is_idle = instance.n_inside == 0
    if not is_idle and instance.n_unseen < e.rules[instance.rules].polling_passes:
        return
    instance.n_unseen = 0
    while instance.inbox.n > 0:
        r = instance.inbox.first
        ready_s = e.requests[r].ready_s
        if ready_s > now_s or (ready_s == now_s and not is_idle):
            return
        leave(e.requests, instance.inbox, r)
        join(e, i, r)


@compiled
def join(e: Engine, i: int, r: int) -> None:
    """Queue a request at the replica with the fewest."""
    instance, best = e.instances[i], e.instances[i].first
    for k in range(instance.first + 1, instance.first + instance.n):
        if n_at(e.replicas, k) < n_at(e.replicas, best):
            best = k
    e.requests[r].replica, e.requests[r].state = best, WAITS
    push(e.requests, e.replicas[best].waiting, r)
    instance.n_inside += 1


@compiled
def n_at(replicas: Records, k: int) -> int:
    """Requests of a replica."""
    n: int = replicas[k].waiting.n + replicas[k].admitted.n
    return n


@compiled
def pass_s(e: Engine, i: int) -> float:
    """Seconds of a pass: all replicas step together, at the pace of the fullest."""
    instance = e.instances[i]
    prompts, most, keys, n, context = 0.0, 0.0, 0.0, 0, 0.0
    for k in range(instance.first, instance.first + instance.n):
        replica = e.replicas[k]
        prompts += replica.pass_tokens
        if replica.pass_tokens > most:
            most, keys = replica.pass_tokens, replica.pass_keys
        if replica.is_decoding == 1:
            n += replica.n_decoding
            context = max(context, replica.context_tokens)
    mean = context / max(n / instance.n, 1.0) if n > 0 else 0.0
    if most == 0.0:
        return decode_s(e.table, instance.rules, n, mean)
    instance.n_prompt_passes += 1
    instance.n_unseen = e.rules[instance.rules].polling_passes  # looks again when this pass is over
    return prompt_pass_s(e.table, instance.rules, prompts / most, most, keys / most, float(n), mean)
