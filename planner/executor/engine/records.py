"""What the pass loop works on: one array of records per concern."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]
Record = Any
"""One of them, or a part of one, as compiled code knows it."""
Numbers = NDArray[np.float64]

NONE = -1
"""No request."""
NEVER = np.inf
"""A time that does not come."""

# States of a request.
COMING, WAITS, PREFILLS, DECODES, FINISHED, REFUSED, DROPPED = range(7)

# Kinds of fault.
CRASHES, RESTARTS, SLOWS = range(3)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("ready_s", "f8"),  # when its instance could first see it
        ("begun_s", "f8"),  # when it was first admitted
        ("first_s", "f8"),
        ("done_s", "f8"),
        ("host_s", "f8"),  # that the host works on it, one request after another
        ("delay_s", "f8"),  # from then to ready, beside others
        ("prompt_tokens", "i4"),
        ("cached_tokens", "i4"),  # of the prompt, that need not be computed whenever it is admitted
        ("is_standing", "i1"),  # its prompt and first token come computed
        ("output_tokens", "i4"),
        ("left_tokens", "i4"),  # to prefill in this attempt: of the prompt, and of what was generated before
        ("made_tokens", "i4"),  # generated; while it decodes, as of the step at which it joined
        ("chunk_tokens", "i4"),  # in the present pass
        ("instance", "i4"),  # that it is, or is to be, sent to; NONE: will be the one of the least load
        ("replica", "i4"),
        ("joined_step", "i8"),  # of its replica
        ("n_preempted", "i4"),
        ("n_retries", "i4"),  # after crashes
        ("state", "i1"),
        ("next", "i4"),  # in the queue of its replica, or among the prompts of a pass
        ("before", "i4"),  # in the inbox of its instance, and then among those admitted
        ("after", "i4"),
        ("before_due", "i4"),  # among those that end at the same step
        ("after_due", "i4"),
    ]
)

LIST = [("first", "i4"), ("last", "i4"), ("n", "i4")]

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
    ]
)

INSTANCE = np.dtype(
    [
        ("rules", "i4"),
        ("first", "i4"),  # of its replicas
        ("n", "i4"),
        ("inbox", LIST),  # requests that it has not looked at, in the order in which they are ready
        ("n_inside", "i4"),  # that it has looked at and not finished
        ("in_pass", "i1"),
        ("host_free_s", "f8"),  # when the host has done all that was sent
        ("next_s", "f8"),  # end of the pass, or when the inbox wakes it
        ("n_unseen", "i4"),  # passes since it looked into the inbox
        ("n_done", "i4"),  # that the last pass finished
        ("n_passes", "i8"),
        ("n_prompt_passes", "i8"),
        ("busy_s", "f8"),
        ("n_preempted", "i8"),
        ("is_down", "i1"),
        ("slowdown", "f8"),  # of its passes
    ]
)

RULES = np.dtype(
    [
        ("tokens_per_pass", "i8"),  # of a replica
        ("most_running", "i8"),  # on a replica
        ("is_prefill_first", "i1"),  # else prompts and decoding sequences share passes
        ("splits_prompts", "i1"),  # else only whole ones are taken
        ("reserves_output", "i1"),  # else the cache grows, and the last admitted gives way
        ("polling_passes", "i8"),  # decode steps between looks into the inbox
        ("room_tokens", "f8"),  # memory of a replica
        ("sequence_tokens", "f8"),  # of it, what each sequence takes whatever its length
    ]
)

LOOP = np.dtype(
    [
        ("is_open", "i1"),  # requests come at their arrivals, else one for each that is done
        ("next_request", "i8"),  # to be offered
        ("n_done", "i8"),  # finished and refused
        ("next_look", "i8"),  # row of `looks`
        ("now_s", "f8"),
        ("next_fault", "i8"),
        ("max_retries", "i8"),
        ("adrift", LIST),  # requests at no instance, as none was up
        ("n_due", "i8"),  # requests that a closed loop has to follow up, as they were dropped
    ]
)

FAULT = np.dtype([("time_s", "f8"), ("kind", "i4"), ("index", "i4"), ("value", "f8")], align=True)
"""What happens to an instance, and when; the value is the slowdown."""


class PassTable(NamedTuple):
    """Seconds of passes at knots, by rules; between them, and beyond the last ones, they are linear."""

    decode_s: Numbers
    """By rules, sequences (each number of them) and context: passes without prompts."""
    prompt_s: Numbers
    """By rules, spread, tokens, keys, sequences and context: passes with prompts."""
    spread: Numbers
    """Knots by rules, here and below: prompt tokens of all replicas over those of the fullest."""
    tokens: Numbers
    """Prompt tokens of the fullest replica."""
    keys: Numbers
    """Keys that such a token attends to, on average."""
    sequences: Numbers
    """Sequences that decode, on all replicas."""
    contexts: Numbers
    """Their mean context, on the replica that has most."""


class Engine(NamedTuple):
    """Instances that make passes."""

    requests: Records
    replicas: Records
    instances: Records
    rules: Records
    due: NDArray[np.int32]
    """First request that ends at a step, by replica and step modulo the row."""
    done: NDArray[np.int32]
    """Requests that the last pass finished."""
    table: PassTable
    looks: Numbers
    """Moments, rising, and seconds that all instances spent in passes up to each."""
    faults: Records
    """In order of time."""
    extras: int | None
    """None without faults. The loop is then compiled without them."""


def empty_lists(records: Records, *names: str) -> Records:
    """Records with lists that hold nothing."""
    for name in names:
        records[name]["first"] = records[name]["last"] = NONE
    return records
