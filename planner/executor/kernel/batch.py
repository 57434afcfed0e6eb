"""The batch of a replica: who is admitted, what of prompts a pass takes, who gives way, and who is done."""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.cache import hit, keep, record_prompt
from planner.executor.kernel.departures import finish, first_token
from planner.executor.kernel.lists import insert_after, pop, push, push_first, take_out
from planner.executor.kernel.records import DECODES, NONE, PREFILLS, WAITS, Record
from planner.executor.kernel.state import SimulationState


@compiled
def choose_pass(w: SimulationState, k: int, rules: Record) -> None:
    """Choose what the next pass of a replica does."""
    replica = w.replicas[k]
    replica.pass_tokens, replica.pass_keys = 0.0, 0.0
    if rules.is_prefill_first == 1:
        take_prompts(w, k, rules, rules.tokens_per_pass)
        if replica.pass_tokens == 0.0:
            preempt_until_fits(w, k, rules)
        replica.is_decoding = replica.n_decoding > 0 and replica.pass_tokens == 0.0
    else:
        gave_way = preempt_until_fits(w, k, rules)
        if not gave_way:
            take_prompts(w, k, rules, rules.tokens_per_pass - replica.n_decoding)
        replica.is_decoding = replica.n_decoding > 0
    if replica.is_decoding == 1 and rules.reserves_output == 0:
        replica.used_tokens += replica.n_decoding


@compiled
def take_prompts(w: SimulationState, k: int, rules: Record, budget: int) -> None:
    """Continue the prompt that was begun, then admit others in their order, up to a number of tokens.

    One whose cache stands already joins those that decode, and takes the one token of a pass that its step makes.
    """
    replica = w.replicas[k]
    if replica.partial != NONE and budget > 0:
        budget -= take_chunk(w, k, rules, replica.partial, budget)
        replica.partial = NONE
    while budget > 0 and replica.waiting.n > 0 and replica.admitted.n < rules.most_running:
        r = replica.waiting.first
        is_too_long = rules.splits_prompts == 0 and w.sequences[r].left_tokens > budget
        if (is_too_long and replica.pass_tokens > 0.0) or not fits_batch(w, k, rules, r):
            return
        admit_next(w, k, rules)
        if w.requests[r].state == DECODES:
            budget -= 1
        else:
            budget -= take_chunk(w, k, rules, r, budget)


@compiled
def fits_batch(w: SimulationState, k: int, rules: Record, r: int) -> bool:
    """True if a request fits beside the others, with the tokens that a step of those adds."""
    replica, sequence = w.replicas[k], w.sequences[r]
    needed = rules.sequence_tokens + w.requests[r].prompt_tokens + sequence.made_tokens
    if rules.reserves_output == 1:
        needed += sequence.output_tokens - sequence.made_tokens
    else:
        needed += replica.n_decoding
    free: bool = replica.used_tokens + needed <= rules.room_tokens
    return free


@compiled
def admit_next(w: SimulationState, k: int, rules: Record) -> None:
    """Give the first that waits its memory; one with nothing to compute decodes from now on."""
    replica = w.replicas[k]
    r = pop(w.requests, replica.waiting)
    request, sequence = w.requests[r], w.sequences[r]
    insert_after(w.sequences, replica.admitted, r, replica.admitted.last)
    count_admitted(w, rules, 1)
    request.state = PREFILLS
    if sequence.left_tokens == 0:  # its first token was made where its prompt was computed
        first_token(w, r)
        request.state = DECODES
        decode_from_now(w, k, r)
    elif not request.prefill_start_s >= 0:
        request.prefill_start_s = w.clock[0].now_s
    if w.cache_rule[0].is_on == 1 and sequence.is_begun == 0 and sequence.is_standing == 0:
        look_up(w, rules, r)
    sequence.is_begun = 1
    replica.used_tokens += memory_tokens(w, rules, r)


@compiled
def count_admitted(w: SimulationState, rules: Record, change: int) -> None:
    """Sequences that are admitted change by one: bring their time integral up to date first."""
    now_s = w.clock[0].now_s
    rules.slot_s += rules.n_admitted * (now_s - rules.changed_s)
    rules.changed_s = now_s
    rules.n_admitted += change
    w.pools[rules.door].n_waiting -= change


@compiled_extra(None)
def look_up(w: SimulationState, rules: Record, r: int) -> None:
    """A prompt begins with what its site's cache pool holds of it."""
    hit(w, w.pools[rules.door].site, r)
    w.sequences[r].left_tokens = w.requests[r].prompt_tokens - w.requests[r].cached_tokens


@compiled_extra(None)
def keep_prompt(w: SimulationState, rules: Record, r: int) -> None:
    """A prompt is computed: its site's cache pool keeps it."""
    site = w.pools[rules.door].site
    keep(w, site, r, w.requests[r].prompt_tokens, True)
    if w.rebalancer[0].is_on == 1:
        record_prompt(w, site, r)


@compiled
def memory_tokens(w: SimulationState, rules: Record, r: int) -> float:
    """Memory of an admitted request, in tokens: the last token made is not in the cache while it decodes."""
    request, sequence = w.requests[r], w.sequences[r]
    held: float = rules.sequence_tokens + request.prompt_tokens
    if rules.reserves_output == 1:
        held += sequence.output_tokens
    else:
        held += sequence.made_tokens - (1 if request.state == DECODES else 0)
    return held


@compiled
def take_chunk(w: SimulationState, k: int, rules: Record, r: int, budget: int) -> int:
    """Put what is left of a prompt into the pass, or as much of it as may be; how many tokens."""
    replica, sequence = w.replicas[k], w.sequences[r]
    n: int = sequence.left_tokens
    if rules.splits_prompts == 1:
        n = min(n, budget)
    cached = w.requests[r].prompt_tokens + sequence.made_tokens - sequence.left_tokens
    sequence.chunk_tokens = n
    replica.pass_tokens += n
    replica.pass_keys += n * (cached + (n + 1) / 2)
    push(w.requests, replica.prompts, r)
    return n


@compiled
def preempt_until_fits(w: SimulationState, k: int, rules: Record) -> bool:
    """Let the last admitted give way until a step's tokens fit; whether any did."""
    replica = w.replicas[k]
    gave_way = False
    if rules.reserves_output == 1:
        return gave_way
    while replica.n_decoding > 0 and replica.used_tokens + replica.n_decoding > rules.room_tokens:
        preempt(w, k, rules)
        gave_way = True
    return gave_way


@compiled_apart
def preempt(w: SimulationState, k: int, rules: Record) -> None:
    """Take the last admitted out of the batch; it waits first in the queue, and all it had is computed again.

    All but the prefix that was cached when it came: others hold that. A cache that came from elsewhere is not sent for
    once more.
    """
    replica, r = w.replicas[k], w.replicas[k].admitted.last
    request, sequence = w.requests[r], w.sequences[r]
    if request.state == DECODES:
        stop_decoding(w, k, r)
    elif replica.partial == r:
        replica.partial = NONE
    replica.used_tokens -= memory_tokens(w, rules, r)
    take_out(w.sequences, replica.admitted, r)
    count_admitted(w, rules, -1)
    cached = 0 if sequence.is_standing == 1 else request.cached_tokens
    sequence.left_tokens = request.prompt_tokens + sequence.made_tokens - cached
    request.state = WAITS
    sequence.n_preempted += 1
    push_first(w.requests, replica.waiting, r)


@compiled
def stop_decoding(w: SimulationState, k: int, r: int) -> None:
    """Take a request out of the decoding batch, with the tokens that it has made."""
    replica, sequence = w.replicas[k], w.sequences[r]
    n_slots = w.due.shape[1]
    slot = (sequence.joined_step + sequence.output_tokens - sequence.made_tokens) % n_slots
    if sequence.before_due == NONE:
        w.due[k, slot] = sequence.after_due
    else:
        w.sequences[sequence.before_due].after_due = sequence.after_due
    if sequence.after_due != NONE:
        w.sequences[sequence.after_due].before_due = sequence.before_due
    sequence.made_tokens += replica.step - sequence.joined_step
    replica.n_decoding -= 1
    replica.context_tokens -= w.requests[r].prompt_tokens + sequence.made_tokens


@compiled
def decode_from_now(w: SimulationState, k: int, r: int) -> None:
    """Put a request with its first token into the decoding batch."""
    replica, sequence = w.replicas[k], w.sequences[r]
    sequence.joined_step = replica.step
    slot = (replica.step + sequence.output_tokens - sequence.made_tokens) % w.due.shape[1]
    first = w.due[k, slot]
    sequence.before_due, sequence.after_due = NONE, first
    if first != NONE:
        w.sequences[first].before_due = r
    w.due[k, slot] = r
    replica.n_decoding += 1
    replica.context_tokens += w.requests[r].prompt_tokens + sequence.made_tokens


@compiled
def leave_batch(w: SimulationState, i: int, k: int, r: int, rules: Record) -> None:
    """A request has its last token, and gives back its memory."""
    replica = w.replicas[k]
    replica.used_tokens -= memory_tokens(w, rules, r)
    take_out(w.sequences, replica.admitted, r)
    count_admitted(w, rules, -1)
    w.pools[rules.door].n_waiting -= 1  # who leaves does not wait again
    w.colocated[i].n_inside -= 1
    finish(w, r)


@compiled
def finish_batch_step(w: SimulationState, i: int, k: int, rules: Record) -> None:
    """Each sequence of a replica has one token more."""
    replica = w.replicas[k]
    replica.context_tokens += replica.n_decoding
    replica.step += 1
    slot = replica.step % w.due.shape[1]
    while w.due[k, slot] != NONE:
        r = w.due[k, slot]
        stop_decoding(w, k, r)
        leave_batch(w, i, k, r, rules)


@compiled
def finish_prompts(w: SimulationState, i: int, k: int, rules: Record) -> None:
    """Prompts that are computed make a token; the one that is not stays begun."""
    replica, now_s = w.replicas[k], w.clock[0].now_s
    while replica.prompts.n > 0:
        r = pop(w.requests, replica.prompts)
        request, sequence = w.requests[r], w.sequences[r]
        sequence.left_tokens -= sequence.chunk_tokens
        if sequence.left_tokens > 0:
            replica.partial = r
            continue
        sequence.made_tokens += 1
        request.state = DECODES
        if not request.first_token_s >= 0:
            request.prefill_end_s = request.kv_end_s = request.first_token_s = now_s
        if w.cache_rule[0].is_on == 1 and sequence.is_standing == 0:
            keep_prompt(w, rules, r)
        if sequence.made_tokens >= sequence.output_tokens:
            leave_batch(w, i, k, r, rules)
        else:
            decode_from_now(w, k, r)
