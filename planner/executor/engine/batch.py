"""The batch of a replica: who is admitted, what of prompts a pass takes, who gives way, and who is done."""

from planner.executor.compiled import compiled, compiled_apart
from planner.executor.engine.lists import insert_after, leave, pop, push, push_first
from planner.executor.engine.records import DECODES, FINISHED, NONE, PREFILLS, WAITS, Engine, Record


@compiled
def fill(e: Engine, k: int, rules: Record, now_s: float) -> None:
    """Choose what the next pass of a replica does."""
    replica = e.replicas[k]
    replica.pass_tokens, replica.pass_keys = 0.0, 0.0
    if rules.is_prefill_first == 1:
        take_prompts(e, k, rules, rules.tokens_per_pass, now_s)
        if replica.pass_tokens == 0.0:
            make_room(e, k, rules)
        replica.is_decoding = replica.n_decoding > 0 and replica.pass_tokens == 0.0
    else:
        gave_way = make_room(e, k, rules)
        if not gave_way:
            take_prompts(e, k, rules, rules.tokens_per_pass - replica.n_decoding, now_s)
        replica.is_decoding = replica.n_decoding > 0
    if replica.is_decoding == 1 and rules.reserves_output == 0:
        replica.used_tokens += replica.n_decoding


@compiled
def take_prompts(e: Engine, k: int, rules: Record, budget: int, now_s: float) -> None:
    """Continue the prompt that was begun, then admit others in their order, up to a number of tokens.

    One whose cache stands already joins those that decode, and takes the one token of a pass that its step makes.
    """
    replica = e.replicas[k]
    if replica.partial != NONE and budget > 0:
        budget -= take_chunk(e, k, rules, replica.partial, budget)
        replica.partial = NONE
    while budget > 0 and replica.waiting.n > 0 and replica.admitted.n < rules.most_running:
        r = replica.waiting.first
        is_too_long = rules.splits_prompts == 0 and e.requests[r].left_tokens > budget
        if (is_too_long and replica.pass_tokens > 0.0) or not has_room(e, k, rules, r):
            return
        admit(e, k, rules, now_s)
        if e.requests[r].state == DECODES:
            budget -= 1
        else:
            budget -= take_chunk(e, k, rules, r, budget)


@compiled
def has_room(e: Engine, k: int, rules: Record, r: int) -> bool:
    """Whether a request fits beside the others, with the tokens that a step of those adds."""
    replica, request = e.replicas[k], e.requests[r]
    needed = rules.sequence_tokens + request.prompt_tokens + request.made_tokens
    if rules.reserves_output == 1:
        needed += request.output_tokens - request.made_tokens
    else:
        needed += replica.n_decoding
    free: bool = replica.used_tokens + needed <= rules.room_tokens
    return free


@compiled
def admit(e: Engine, k: int, rules: Record, now_s: float) -> None:
    """Give the first that waits its memory; one with nothing to compute decodes from now on."""
    replica = e.replicas[k]
    r = pop(e.requests, replica.waiting)
    request = e.requests[r]
    insert_after(e.requests, replica.admitted, r, replica.admitted.last)
    request.state = PREFILLS
    if not request.begun_s >= 0:
        request.begun_s = now_s
    if request.left_tokens == 0:  # its first token was made where its prompt was computed
        request.first_s, request.state = now_s, DECODES
        decode_from_now(e, k, r)
    replica.used_tokens += held_tokens(e, rules, r)


@compiled
def held_tokens(e: Engine, rules: Record, r: int) -> float:
    """Memory of an admitted request, in tokens: the last token made is not in the cache while it decodes."""
    request = e.requests[r]
    held: float = rules.sequence_tokens + request.prompt_tokens
    if rules.reserves_output == 1:
        held += request.output_tokens
    else:
        held += request.made_tokens - (1 if request.state == DECODES else 0)
    return held


@compiled
def take_chunk(e: Engine, k: int, rules: Record, r: int, budget: int) -> int:
    """Put what is left of a prompt into the pass, or as much of it as may be; how many tokens."""
    replica, request = e.replicas[k], e.requests[r]
    n: int = request.left_tokens
    if rules.splits_prompts == 1:
        n = min(n, budget)
    cached = request.prompt_tokens + request.made_tokens - request.left_tokens
    request.chunk_tokens = n
    replica.pass_tokens += n
    replica.pass_keys += n * (cached + (n + 1) / 2)
    push(e.requests, replica.prompts, r)
    return n


@compiled
def make_room(e: Engine, k: int, rules: Record) -> bool:
    """Let the last admitted give way until a step's tokens fit; whether any did."""
    replica = e.replicas[k]
    gave_way = False
    if rules.reserves_output == 1:
        return gave_way
    while replica.n_decoding > 0 and replica.used_tokens + replica.n_decoding > rules.room_tokens:
        give_way(e, k, rules)
        gave_way = True
    return gave_way


@compiled_apart
def give_way(e: Engine, k: int, rules: Record) -> None:
    """Take the last admitted out of the batch; it waits first in the queue, and all it had is computed again.

    All but the prefix that was cached when it came: others hold that. A cache that came from elsewhere is not sent for
    once more.
    """
    replica, r = e.replicas[k], e.replicas[k].admitted.last
    request = e.requests[r]
    if request.state == DECODES:
        stop_decoding(e, k, r)
    elif replica.partial == r:
        replica.partial = NONE
    replica.used_tokens -= held_tokens(e, rules, r)
    leave(e.requests, replica.admitted, r)
    request.left_tokens = request.prompt_tokens + request.made_tokens - request.cached_tokens
    request.state = WAITS
    request.n_preempted += 1
    push_first(e.requests, replica.waiting, r)


@compiled
def stop_decoding(e: Engine, k: int, r: int) -> None:
    """Take a request out of the decoding batch, with the tokens that it has made."""
    replica, request = e.replicas[k], e.requests[r]
    n_slots = e.due.shape[1]
    slot = (request.joined_step + request.output_tokens - request.made_tokens) % n_slots
    if request.before_due == NONE:
        e.due[k, slot] = request.after_due
    else:
        e.requests[request.before_due].after_due = request.after_due
    if request.after_due != NONE:
        e.requests[request.after_due].before_due = request.before_due
    request.made_tokens += replica.step - request.joined_step
    replica.n_decoding -= 1
    replica.context_tokens -= request.prompt_tokens + request.made_tokens


@compiled
def decode_from_now(e: Engine, k: int, r: int) -> None:
    """Put a request with its first token into the decoding batch."""
    replica, request = e.replicas[k], e.requests[r]
    request.joined_step = replica.step
    slot = (replica.step + request.output_tokens - request.made_tokens) % e.due.shape[1]
    first = e.due[k, slot]
    request.before_due, request.after_due = NONE, first
    if first != NONE:
        e.requests[first].before_due = r
    e.due[k, slot] = r
    replica.n_decoding += 1
    replica.context_tokens += request.prompt_tokens + request.made_tokens


@compiled
def finish(e: Engine, i: int, k: int, r: int, rules: Record, now_s: float) -> None:
    """A request has its last token."""
    replica, instance, request = e.replicas[k], e.instances[i], e.requests[r]
    replica.used_tokens -= held_tokens(e, rules, r)
    leave(e.requests, replica.admitted, r)
    request.made_tokens = request.output_tokens
    request.done_s, request.state = now_s, FINISHED
    e.done[instance.n_done] = r
    instance.n_done += 1
    instance.n_inside -= 1


@compiled
def step_ends(e: Engine, i: int, k: int, rules: Record, now_s: float) -> None:
    """Each sequence of a replica has one token more."""
    replica = e.replicas[k]
    replica.context_tokens += replica.n_decoding
    replica.step += 1
    slot = replica.step % e.due.shape[1]
    while e.due[k, slot] != NONE:
        r = e.due[k, slot]
        stop_decoding(e, k, r)
        finish(e, i, k, r, rules, now_s)


@compiled
def prompts_end(e: Engine, i: int, k: int, rules: Record, now_s: float) -> None:
    """Prompts that are computed make a token; the one that is not stays begun."""
    replica = e.replicas[k]
    while replica.prompts.n > 0:
        r = pop(e.requests, replica.prompts)
        request = e.requests[r]
        request.left_tokens -= request.chunk_tokens
        if request.left_tokens > 0:
            replica.partial = r
            continue
        request.made_tokens += 1
        request.state = DECODES
        if request.made_tokens == 1:
            request.first_s = now_s
        if request.made_tokens >= request.output_tokens:
            finish(e, i, k, r, rules, now_s)
        else:
            decode_from_now(e, k, r)
