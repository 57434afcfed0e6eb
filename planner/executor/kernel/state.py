"""The state of a simulation: arrays of records, handed to every compiled function."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.executor.kernel.records import Numbers, PassTable, Records


class SimulationState(NamedTuple):
    """Everything the event loop reads and writes."""

    requests: Records
    routes: Records
    thresholds: Numbers
    """Of every class; more uncached tokens are long [tokens]."""
    base_thresholds: Numbers
    """As planned: at a factor of 1 [tokens]."""
    scheduler: Records
    units: Records
    lines: Numbers
    """Sums of 1, x, x^2, y and xy by line; shape (lines, 5)."""
    bins: Numbers
    """Requests by uncached length over the planned threshold, and their uncached tokens; shape (bins, 2)."""
    pools: Records
    instances: Records
    queues: Records
    """Two per prefill instance: those that overtake, and the others. A shared queue is that of the first instance."""
    decode_pools: Records
    decoders: Records
    decode_queues: Records
    step_s: Numbers
    """Step seconds by decode pool and batch: a constant, and what a token of context adds; shape (pools, batch, 2)."""
    slots: Records
    """Shape (decoders, batch limit)."""
    colocated_pools: Records
    colocated: Records
    """Instances of colocated pools."""
    replicas: Records
    sequences: Records
    """One per request; none without colocated pools."""
    due: NDArray[np.int32]
    """First request that ends at a step, by replica and step modulo the row."""
    pass_table: PassTable
    links: Records
    flows: Records
    """Shape (links, flows)."""
    deliveries: Records
    """Sent and not yet arrived, one queue per link."""
    curves: Numbers
    """Shape (curves, pieces, 6): upper end of the piece, its centre, and four coefficients of ascending powers."""
    cache_rule: Records
    caches: Records
    """One per site."""
    entries: Records
    """Shape (sites, 2 x blocks)."""
    blocks: NDArray[np.int32]
    """Numbers of the full blocks of all rows: lines of a trace, or sessions."""
    block_offsets: NDArray[np.int64]
    """Row i has blocks[block_offsets[i]:block_offsets[i + 1]]."""
    prompts: Records
    """Rows of the requests; none without caches."""
    site_links: NDArray[np.int32]
    """Link from one site to another, or NONE."""
    rebalancer: Records
    movers: Records
    """One per link between sites; none where nothing is moved, as of the following."""
    offers: Records
    """Shape (links, offers), the best first."""
    prefixes: Records
    """By their last block."""
    used: Records
    """Shape (sites, blocks)."""
    uses: Records
    """One per site."""
    faults: Records
    """In order of time."""
    actors: Records
    heap: NDArray[np.int32]
    """Actors by their next event."""
    clock: Records
    sample_at: NDArray[np.int64]
    """Arrivals at which the state is written down."""
    samples: Numbers
    """One row each; the columns are those of `sample`."""
    extras: int | None
    """None of a plain system: no faults, caches or scheduler, nothing that moves. Its loop is compiled without."""
    mixes: int | None
    """None of a plain system without colocated pools. Its loop is compiled without their passes."""
    separate: int | None
    """None of a plain system with colocated pools alone. Its loop is compiled without pools of one role, and links."""
