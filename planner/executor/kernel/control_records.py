"""Records of what controls a run: caches of prefixes, their rebalancing, and the scheduler."""

import numpy as np

CACHE = np.dtype(
    [
        ("capacity_blocks", "i8"),
        ("used_blocks", "i8"),  # by prefixes and transfers
        ("transfer_blocks", "i8"),
        ("newest", "i4"),
        ("oldest", "i4"),
        ("n_evicted", "i8"),
    ],
    align=True,
)
"""The pool of cache blocks of a site: one list of entries, from the newest to the oldest."""


ENTRY = np.dtype([("newer", "i4"), ("older", "i4"), ("is_in", "i2"), ("is_moved", "i2")], align=True)
"""What a pool may hold: the KV cache of a block, or the state at a block's end, by the number of the block; and whether
it came from another pool by rebalancing."""


CACHE_RULE = np.dtype(
    [
        ("is_on", "i4"),
        ("is_ample", "i4"),
        ("block_tokens", "i4"),
        ("n_blocks", "i4"),  # that differ; the state at the end of block b is entry n_blocks + b
        ("state_blocks", "i4"),  # that a state takes; 0: the model has none
        ("interval_blocks", "i4"),  # between states that are kept; 0: only the last full block's
        ("block_bytes", "f8"),
    ],
    align=True,
)
"""How prefixes are kept; one record."""


REBALANCER = np.dtype(
    [
        ("is_on", "i4"),
        ("spills", "i4"),
        ("min_uses", "i4"),
        ("interval_s", "f8"),
        ("actor", "i4"),
        ("first_mover", "i4"),  # actors
        ("n_offered", "i8"),  # moves
        ("n_moved", "i8"),  # moves that arrived
        ("n_dropped", "i8"),  # moves that were begun in vain
        ("n_entries", "i8"),  # that arrived
        ("n_hits", "i8"),  # prefills that began from what had been moved
        ("hit_tokens", "f8"),  # of these that only moved entries gave
    ],
    align=True,
)
"""What moves prefixes between the pools of sites, and what came of it; one record."""


MOVER = np.dtype(
    [
        ("is_used", "i4"),  # the link leads from one site that prefills to another
        ("from_site", "i4"),
        ("to_site", "i4"),
        ("wire_curve", "i4"),
        ("n_offers", "i4"),
        ("next_offer", "i4"),
        ("end", "i4"),  # last block of the prefix on its way; NONE: nothing is
        ("n_held", "i4"),  # of its blocks, those that are not sent because the destination has them
        ("has_state", "i4"),  # whether the state at its end is
        ("reserved_blocks", "i8"),  # of the destination's pool
    ],
    align=True,
)
"""Moves over a link between sites, one at a time."""


UNIT = np.dtype(
    [
        ("instance", "i4"),
        ("decoder", "i4"),
        ("is_decode", "i4"),  # its role; while it warms up, the one it had
        ("state", "i4"),
        ("is_down", "i4"),
    ],
    align=True,
)
"""Accelerators that may change between the roles of a prefill and a decode instance: one of the two at a time."""


SCHEDULER = np.dtype(
    [
        ("is_on", "i4"),
        ("is_short_term", "i4"),
        ("is_long_term", "i4"),
        ("interval_s", "f8"),  # between looks
        ("step", "f8"),
        ("range", "f8"),
        ("link_utilization", "f8"),
        ("doubling_s", "f8"),
        ("tolerance_s", "f8"),
        ("decision_interval_s", "f8"),
        ("warm_up_s", "f8"),
        ("busy_fraction", "f8"),
        ("min_gain", "f8"),
        ("n_decisions", "i4"),
        ("min_observed", "f8"),
        ("look", "i4"),  # actors
        ("decision", "i4"),
        ("first_unit", "i4"),
        ("prefill_pool", "i4"),  # whose instances may change roles; NONE: none may
        ("decode_pool", "i4"),
        ("factor", "f8"),  # of the thresholds now
        ("base", "f8"),  # that the short term returns to
        ("lowest", "f8"),  # since the start
        ("highest", "f8"),
        ("factor_s", "f8"),  # integral of the factor up to `changed_s`
        ("changed_s", "f8"),
        ("decided_s", "f8"),  # time of the last decision
        ("direction", "i4"),  # of the conversion wanted: 1 to prefill, -1 to decode
        ("n_wanted", "i4"),  # decisions in a row that wanted it
        ("n_conversions", "i4"),  # completed
        ("n_prefill", "i4"),  # units in either role
        ("n_decode", "i4"),
        ("prefill_s", "f8"),  # unit-seconds in either role up to `role_s`
        ("decode_s", "f8"),
        ("role_s", "f8"),
        ("seen", "f8"),  # requests observed, older ones counting less
        ("seen_s", "f8"),  # time they came in
        ("n_done", "f8"),  # requests with their last token
        ("done_tokens", "f8"),  # that they decoded
        ("n_left", "f8"),  # requests that left a decode instance
        ("left_bytes", "f8"),  # that they held there
        ("new_factor", "f8"),  # of the last solution of the balance equations
        ("req_per_s", "f8"),  # at which the first pool or link saturates by it
    ],
    align=True,
)
"""The control of the system by itself; one record."""
