"""The state written down now and then: queues, work done and bytes sent up to now."""

from planner.executor.compiled import compiled_apart, compiled_extra
from planner.executor.kernel.link import settle
from planner.executor.kernel.records import NONE, Numbers, World
from planner.executor.kernel.roles import count_roles


@compiled_apart
def sample(w: World, row: int) -> None:
    """Columns: time, requests inside, their time integral, finished; of each prefill pool waiting, busy and busy
    seconds; of each decode pool waiting, batch, tokens and sequence-seconds, of a colocated one who was admitted and no
    tokens; of the scheduler its factor on the
    thresholds, units in prefill and in decode, and unit-seconds in either; of each link transfers and bytes.
    """
    clock, out = w.clock[0], w.samples[row]
    out[0], out[1], out[3] = clock.now_s, clock.n_inside, clock.n_finished
    out[2] = clock.inside_s + clock.n_inside * (clock.now_s - clock.changed_s)
    at = 4
    for p in range(w.pools.shape[0]):
        out[at], out[at + 1], out[at + 2] = w.pools[p].n_waiting, 0.0, 0.0
        if w.pools[p].colocated != NONE:
            sample_passes(w, w.pools[p].colocated, out, at)
        for i in range(w.pools[p].first, w.pools[p].first + w.pools[p].n):
            instance = w.instances[i]
            out[at + 1] += instance.is_busy
            out[at + 2] += instance.busy_s + (clock.now_s - instance.pass_start_s if instance.is_busy == 1 else 0.0)
        at += 3
    for p in range(w.decode_pools.shape[0]):
        out[at], out[at + 1], out[at + 2], out[at + 3] = w.decode_queues[p].n, 0.0, 0.0, 0.0
        if w.decode_pools[p].colocated != NONE:
            sample_batches(w, w.decode_pools[p].colocated, out, at)
        for d in range(w.decode_pools[p].first, w.decode_pools[p].first + w.decode_pools[p].n):
            decoder = w.decoders[d]
            passed_s = clock.now_s - decoder.anchor_s if decoder.batch > 0 else 0.0
            out[at + 1] += decoder.batch + decoder.n_joining
            out[at + 2] += decoder.n_tokens
            out[at + 3] += decoder.slot_s + decoder.batch * passed_s
        at += 4
    control = w.scheduler[0]
    count_roles(w.scheduler, clock.now_s)
    out[at], out[at + 1], out[at + 2] = control.factor, control.n_prefill, control.n_decode
    out[at + 3], out[at + 4] = control.prefill_s, control.decode_s
    at += 5
    for k in range(w.links.shape[0]):
        settle(w, k)
        out[at], out[at + 1] = w.links[k].n_flows, w.links[k].sent_bytes
        at += 2


@compiled_extra(None, "mixes")
def sample_passes(w: World, c: int, out: Numbers, at: int) -> None:
    """Instances of a colocated pool in a pass, and seconds of passes of all."""
    for i in range(w.colocated_pools[c].first, w.colocated_pools[c].first + w.colocated_pools[c].n):
        instance = w.colocated[i]
        out[at + 1] += instance.in_pass
        out[at + 2] += instance.busy_s - (instance.end_s - w.clock[0].now_s if instance.in_pass == 1 else 0.0)


@compiled_extra(None, "mixes")
def sample_batches(w: World, c: int, out: Numbers, at: int) -> None:
    """Who waits for a colocated pool, who is in its batches, and sequence-seconds in them."""
    pool = w.colocated_pools[c]
    out[at], out[at + 1] = w.pools[pool.door].n_waiting, pool.n_admitted
    out[at + 3] = pool.slot_s + pool.n_admitted * (w.clock[0].now_s - pool.changed_s)
