"""Data of the event loop: one array of records per concern, and the words it uses for kinds and states."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]
Record = Any
"""One of them, or a part of one, as compiled code knows it."""
Numbers = NDArray[np.float64]

NONE = -1
"""No request, instance, link or flow."""

# Kinds of event. Of events at the same moment the kind with the lower number happens first: what frees capacity comes
# before what asks for it.
FAULT, READY, PASS_END, LINK_CHANGE, DELIVERY, MOVED, STEP_END, MIXED_END, PASS_OPENS = range(9)
LOOK, DECISION, REBALANCE, ARRIVAL, MIXED_BEGIN = range(9, 14)

# States of a request.
WAITS, PREFILLS, TRAVELS, WAITS_TO_DECODE, DECODES, FINISHED, DROPPED = range(7)

# Why a request was dropped.
NOT_DROPPED, TOO_OFTEN, STRANDED = range(3)

# What may happen to the system.
CRASH, RESTART, SLOW, DECODE_CRASH, DECODE_RESTART, DECODE_SLOW, LINK_HEALTH, BACKGROUND = range(8)
MIXED_CRASH, MIXED_RESTART, MIXED_SLOW = range(8, 11)

# What an instance of either role does: nothing, take work, or only end what it has begun.
DOWN, UP, DRAINS = range(3)

# Where an accelerator group that may change its role is with that.
SERVES, LEAVES, WARMS = range(3)

# Lines that the scheduler draws through what it observed: seconds of a prefill by uncached tokens, in the pools for
# short and for long prompts; bytes on the wire by uncached tokens; seconds of a decode step by batch.
SHORT_LINE, LONG_LINE, WIRE_LINE, STEP_LINE = range(4)
N_LINES = 4

BINS_PER_OCTAVE, N_OCTAVES = 16, 16
N_BINS = BINS_PER_OCTAVE * N_OCTAVES + 2
"""Of the histogram of uncached lengths over the planned threshold: 2^-8 to 2^8 of it, what is below, what is above."""

# Dispatch of a prefill pool.
SHARED_QUEUE, SHORTEST_WORK, ROUND_ROBIN = range(3)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),  # in a closed loop, until it arrives, how long its user thinks first
        ("total_tokens", "i4"),
        ("cached_tokens", "i4"),
        ("output_tokens", "i4"),
        ("extra_steps", "i4"),  # more to decode, or fewer, than it has: drafts are accepted by chance
        ("user", "i4"),  # of a closed loop, who sends it
        ("trace_row", "i4"),  # of its class's trace
        ("request_class", "i2"),
        ("state", "i1"),
        ("n_retries", "i1"),
        ("reason", "i1"),
        ("draw", "f4"),  # uniform; picks a route
        ("is_fetching", "i1"),  # its cached prefix is on the way to where it is prefilled
        ("held_tokens", "i4"),  # of its prompt, in blocks that the decode site holds
        ("transfer_blocks", "i4"),  # of its site's pool, for the hand-off
        ("done_tokens", "i4"),  # of the prompt, in this attempt
        ("next", "i4"),  # the request behind this one in whichever list it is
        ("route", "i4"),
        ("instance", "i4"),  # that prefilled it
        ("decoder", "i4"),
        ("flow", "i4"),  # its place among the flows of its link
        ("steps_left", "i4"),  # tokens to decode, its luck with drafts included
        ("prompt_tokens", "i4"),  # to prefill in this attempt: after a crash what was generated belongs to it
        ("wire_bytes", "f8"),
        ("prefill_start_s", "f8"),
        ("prefill_end_s", "f8"),
        ("kv_end_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("due_s", "f8"),  # when the last byte that is under way arrives
    ],
    align=True,
)
"""A request: what it asks, where it is, and when what happened. Times are NaN until they are known."""

ROUTE = np.dtype(
    [
        ("request_class", "i4"),
        ("is_long", "i4"),
        ("prefill_pool", "i4"),
        ("link", "i4"),  # NONE inside a site
        ("decode_pool", "i4"),
        ("up_to", "f8"),  # cumulative share among the routes of its class and kind
    ],
    align=True,
)
"""A way through the system; routes of one class and kind stand together, the last with `up_to` 1."""

POOL_CURVES = ("prefill_curve", "wire_curve", "handoff_curve", "held_curve")
"""Of every prefill pool, in the order in which they stand among all curves."""

POOL = np.dtype(
    [
        ("first", "i4"),
        ("n", "i4"),
        ("site", "i4"),
        ("dispatch", "i4"),
        ("is_chunked", "i4"),
        ("chunk_tokens", "f8"),
        ("priority_tokens", "f8"),  # prompts with at most so many uncached tokens overtake
        ("max_transfers", "i4"),  # unfinished hand-offs at which an instance starts no other prompt
        ("n_layers", "i4"),
        ("prefill_curve", "i4"),
        ("floor_s", "f8"),
        ("wire_curve", "i4"),
        ("handoff_curve", "i4"),
        ("is_limited", "i4"),  # whether memory limits what an instance holds
        ("held_curve", "i4"),  # of memory by length, in whole blocks
        ("room_block_tokens", "i4"),
        ("room_bytes", "i8"),  # of an instance, for caches of prompts
        ("longest_tokens", "f8"),  # of a prompt that fits at all
        ("line", "i4"),  # of its seconds among the scheduler's
        ("turn", "i4"),  # round-robin's next
        ("n_idle", "i4"),
        ("n_up", "i4"),
        ("n_waiting", "i4"),
        ("colocated", "i4"),  # pool that requests come to by this one, which has no instances; NONE: it has its own
    ],
    align=True,
)
"""A prefill pool, or the way into a colocated one."""

INSTANCE = np.dtype(
    [
        ("pool", "i4"),
        ("is_up", "i4"),  # DOWN, UP or DRAINS
        ("unit", "i4"),  # that may change its role; NONE: it never does
        ("is_busy", "i4"),
        ("fabric", "i4"),  # its own link inside the site; NONE: the hand-off takes no time
        ("first", "i4"),  # requests of the pass
        ("last", "i4"),
        ("n_transfers", "i4"),
        ("used_bytes", "i8"),  # by prompts whose cache has not left
        ("slowdown", "f8"),
        ("pass_start_s", "f8"),
        ("pass_s", "f8"),
        ("free_at_s", "f8"),  # when everything handed to it is done, for the shortest work
        ("busy_s", "f8"),
    ],
    align=True,
)
"""A prefill instance."""

LIST = [("first", "i4"), ("last", "i4"), ("n", "i4")]
"""A list of requests, linked through `next`, or through `before` and `after` of their sequences."""
QUEUE = np.dtype(LIST, align=True)

DECODE_POOL = np.dtype(
    [
        ("first", "i4"),
        ("n", "i4"),
        ("site", "i4"),
        ("batch_limit", "i4"),
        ("memory_bytes", "f8"),
        ("state_bytes", "f8"),
        ("bytes_per_token", "f8"),
        ("colocated", "i4"),  # pool that caches come to by this one, which has no instances; NONE: it has its own
        ("longest_tokens", "f8"),  # of a prompt that fits a colocated one with its answer
    ],
    align=True,
)
"""A decode pool, or the way into a colocated one; its waiting requests are in the queue of the same index."""

DECODER = np.dtype(
    [
        ("pool", "i4"),
        ("is_up", "i4"),  # DOWN, UP or DRAINS
        ("unit", "i4"),  # that may change its role; NONE: it never does
        ("batch", "i4"),
        ("n_joining", "i4"),
        ("first", "i4"),  # requests that join at the end of the step
        ("last", "i4"),
        ("n_ahead", "i8"),  # steps until the event that is in the queue
        ("n_steps", "i8"),  # done
        ("anchor_s", "f8"),  # when the last of them ended
        ("context_tokens", "f8"),  # of the batch together, at the anchor
        ("used_bytes", "f8"),
        ("slowdown", "f8"),
        ("n_tokens", "f8"),  # generated
        ("slot_s", "f8"),  # sequence-seconds in the batch
    ],
    align=True,
)
"""A decode instance."""

SLOT = np.dtype([("end_step", "i8"), ("request", "i4")], align=True)
"""A sequence of a batch; each row of slots is a heap by `end_step`."""

COLOCATED_POOL = np.dtype(
    [
        ("first", "i4"),  # of its instances
        ("n", "i4"),
        ("door", "i4"),  # prefill pool that stands for it
        ("displaced", LIST),  # requests at no instance, as none is up
        ("tokens_per_pass", "i8"),  # of a replica
        ("most_running", "i8"),  # on a replica
        ("is_prefill_first", "i1"),  # else prompts and decoding sequences share passes
        ("splits_prompts", "i1"),  # else only whole ones are taken
        ("reserves_output", "i1"),  # else the cache grows, and the last admitted gives way
        ("polling_passes", "i8"),  # decode steps between looks into the inbox
        ("room_tokens", "f8"),  # memory of a replica
        ("sequence_tokens", "f8"),  # of it, what each sequence takes whatever its length
        ("host_token_s", "f8"),  # that the host works on a token of a prompt, one request after another
        ("delay_s", "f8"),  # from then until an instance can see a request, beside others
        ("n_admitted", "i4"),
        ("slot_s", "f8"),  # sequence-seconds of the admitted, up to `changed_s`
        ("changed_s", "f8"),
    ],
    align=True,
)
"""A pool whose instances prefill and decode in one batch: what its passes may hold."""

COLOCATED = np.dtype(
    [
        ("pool", "i4"),
        ("first", "i4"),  # of its replicas
        ("n", "i4"),
        ("inbox", LIST),  # requests that it has not looked at, in the order in which they are ready
        ("n_inside", "i4"),  # that it has looked at and not finished
        ("in_pass", "i1"),
        ("host_free_s", "f8"),  # when the host has done all that was sent
        ("end_s", "f8"),  # of the pass
        ("n_unseen", "i4"),  # passes since it looked into the inbox
        ("n_passes", "i8"),
        ("n_prompt_passes", "i8"),
        ("busy_s", "f8"),  # the whole pass that it is in with it
        ("is_down", "i1"),
        ("slowdown", "f8"),  # of its passes
    ],
    align=True,
)
"""A colocated instance."""

REPLICA = np.dtype(
    [
        ("waiting", LIST),
        ("admitted", LIST),  # in the order of admission
        ("prompts", LIST),  # in the present pass
        ("partial", "i4"),  # whose prompt is computed in part
        ("n_decoding", "i4"),
        ("step", "i8"),  # decode steps that it has made
        ("is_decoding", "i1"),  # in the present pass
        ("context_tokens", "f8"),  # of all that decode
        ("used_tokens", "f8"),  # of its memory
        ("pass_tokens", "f8"),  # of prompts, in the present pass
        ("pass_keys", "f8"),  # that these attend to, summed over them
    ],
    align=True,
)
"""An attention replica of a colocated instance, all of which step together."""

SEQUENCE = np.dtype(
    [
        ("ready_s", "f8"),  # when its instance could first see it
        ("host_s", "f8"),  # that the host works on it, beside what its pool says of every prompt
        ("delay_s", "f8"),  # from then to ready, likewise
        ("is_standing", "i1"),  # its prompt and first token come computed
        ("is_begun", "i1"),  # was admitted in this stay
        ("output_tokens", "i4"),  # to generate in this stay
        ("left_tokens", "i4"),  # to prefill: of the prompt, and of what was generated before it gave way
        ("made_tokens", "i4"),  # generated; while it decodes, as of the step at which it joined
        ("chunk_tokens", "i4"),  # in the present pass
        ("stated_instance", "i4"),  # that it is sent to while that is up; NONE: the one of the least load
        ("instance", "i4"),
        ("replica", "i4"),
        ("joined_step", "i8"),  # of its replica
        ("n_preempted", "i4"),
        ("before", "i4"),  # in the inbox of its instance, and then among those admitted
        ("after", "i4"),
        ("before_due", "i4"),  # among those that end at the same step
        ("after_due", "i4"),
    ],
    align=True,
)
"""What a request has beside its record while it is in a colocated pool."""


class PassTable(NamedTuple):
    """Seconds of passes at knots, by colocated pool; between them, and beyond the last ones, they are linear."""

    decode_s: Numbers
    """By pool, sequences (each number of them) and context: passes without prompts."""
    prompt_s: Numbers
    """By pool, spread, tokens, keys, sequences and context: passes with prompts."""
    spread: Numbers
    """Knots by pool, here and below: prompt tokens of all replicas over those of the fullest."""
    tokens: Numbers
    """Prompt tokens of the fullest replica."""
    keys: Numbers
    """Keys that such a token attends to, on average."""
    sequences: Numbers
    """Sequences that decode, on all replicas."""
    contexts: Numbers
    """Their mean context, on the replica that has most."""


LINK = np.dtype(
    [
        ("bytes_per_s", "f8"),
        ("connection_bytes_per_s", "f8"),
        ("n_connections", "f8"),  # of one transfer
        ("half_round_trip_s", "f8"),
        ("background_bytes_per_s", "f8"),
        ("background_connections", "f8"),
        ("health", "f8"),  # fraction of the bandwidth that is there
        ("holds_prefix", "i4"),  # whether the destination has the cached blocks
        ("n_flows", "i4"),
        ("is_moving", "i4"),  # a prefix between cache pools
        ("settled_s", "f8"),
        ("sent_bytes", "f8"),
        ("window_s", "f8"),  # start of the window that the peak is taken over
        ("window_bytes", "f8"),
        ("peak_bytes_per_s", "f8"),
        ("is_watched", "i4"),  # by the scheduler: caches of long prompts take it
        ("could_bytes", "f8"),  # that it might have carried for us, up to `could_since_s`
        ("could_since_s", "f8"),
        ("looked_sent_bytes", "f8"),  # at the last look
        ("looked_could_bytes", "f8"),
        ("decided_could_bytes", "f8"),  # at the last decision
        ("move_fraction", "f8"),  # of the bandwidth that a move may use at the most
        ("move_bytes", "f8"),  # of the move that are left
        ("move_bytes_per_s", "f8"),  # its share of the link
        ("moved_bytes", "f8"),  # by all moves, within `sent_bytes`
    ],
    align=True,
)
"""A link: between sites, or of one instance inside its site. What is under way to its end is in its queue."""

FLOW = np.dtype(
    [
        ("request", "i4"),
        ("is_open", "i4"),  # its prefill still produces
        ("backlog_bytes", "f8"),  # produced and not sent
        ("made_bytes_per_s", "f8"),  # production
        ("rate_bytes_per_s", "f8"),  # share of the link
        ("limit_bytes_per_s", "f8"),  # most it can use now; below 0 once its share is settled
    ],
    align=True,
)
"""A transfer in progress."""


OFFER = np.dtype([("worth", "f8"), ("end", "i4"), ("is_spill", "i4")], align=True)
"""A prefix that a link might move, by its last block; the more it is worth the sooner it goes."""

PROMPT = np.dtype([("row", "i4"), ("shift", "i4")], align=True)
"""The blocks of a request: the first of its row's, as many as its prompt fills, their numbers moved up by the shift."""

PREFIX = np.dtype([("first", "i8"), ("n", "i4"), ("shift", "i4")], align=True)
"""The prefix that ends with a block: blocks[first:first + n], their numbers moved up by the shift."""

USED = np.dtype([("n", "i4"), ("next", "i4")], align=True)
"""How often a prefix was used at a site since the last look, and the one used there before it; by its last block."""

USES = np.dtype([("newest", "i4"), ("looked_evicted", "i8")], align=True)
"""The prefixes used at a site since the last look, and the entries dropped there up to it."""

FAULT_RECORD = np.dtype([("time_s", "f8"), ("kind", "i4"), ("index", "i4"), ("value", "f8")], align=True)
"""Something that happens to an instance or a link at a time; its value is a slowdown, a fraction or a rate."""


ACTOR = np.dtype(
    [
        ("time_s", "f8"),
        ("sequence", "i8"),
        ("kind", "i4"),
        ("place", "i4"),  # in the heap; NONE: nothing is planned
        ("index", "i4"),  # among the things of its kind
    ],
    align=True,
)
"""Whoever has a next event: an instance, a link, the arrivals. Each has one at most."""

CLOCK = np.dtype(
    [
        ("now_s", "f8"),
        ("sequence", "i8"),
        ("n_scheduled", "i4"),
        ("n_events", "i8"),
        ("next_arrival", "i4"),
        ("n_users", "i4"),  # of a closed loop; 0: requests arrive by themselves
        ("n_thoughts", "i4"),  # that users have begun
        ("first_user", "i4"),  # of the actors
        ("n_inside", "i4"),
        ("n_finished", "i4"),
        ("n_dropped", "i4"),
        ("inside_s", "f8"),  # request-seconds inside
        ("changed_s", "f8"),  # when `inside_s` was last brought up to date
        ("next_sample", "i4"),
        ("first_decoder", "i4"),  # actors: instances, decoders, links, deliveries, colocated, arrivals, faults
        ("first_link", "i4"),
        ("first_delivery", "i4"),
        ("first_colocated", "i4"),
        ("arrivals", "i4"),
        ("fault_actor", "i4"),
        ("next_fault", "i4"),
        ("max_retries", "i4"),
        ("window_s", "f8"),  # over which a link's peak is taken
        ("violations", "i4"),  # of the clock's own law
    ],
    align=True,
)
"""Counters of the whole run; one record."""
