"""Requests drawn in advance, one independent random generator per quantity.

A generator is found by its name, not by its order: a new quantity, or one that is no longer random, moves no other.

Columns of many records at once: those of some records are read or written together, while they are in the cache.

A record is wider than a line of the processor's cache. One column after another would fetch all of memory for each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.errors import InputError
from planner.executor.arrivals import burst_s, diurnal_s, gamma_s, has_own_arrivals, merged_s, poisson_s, recorded_s
from planner.executor.kernel.records import NONE, REQUEST, Records
from planner.executor.streams import RequestStream
from planner.scenario import BurstArrivals, DiurnalArrivals, GammaArrivals, RecordedArrivals, Scenario
from planner.workload.distributions import distribution
from planner.workload.hits import hit_quantile, ideal_hits
from planner.workload.requests import recorded_trace
from planner.workload.spec import Workload
from planner.workload.traces import Trace

Floats = NDArray[np.float64]
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Draws:
    """Independent generators by name."""

    seed: int
    replication: int = 0
    is_only: bool = False
    """Of a run of one replication, which replays a trace from its first row."""

    def generator(self, name: str) -> np.random.Generator:
        """The generator of a quantity.

        >>> a, b = (Draws(1).generator("lengths").random() for _ in range(2))
        >>> a == b, a == Draws(1, replication=1).generator("lengths").random()
        (True, False)
        """
        key = (crc32(name.encode()), self.replication)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key)))


class Contents(NamedTuple):
    """Lengths, cached heads and trace rows of requests; arrays of one length."""

    total_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    trace_row: NDArray[np.int64]
    """Rows of the trace, from 0; 0 of requests that follow none."""


def trace_start(n_rows: int, name: str, draws: Draws) -> int:
    """The row of a trace with which a replication begins: those of replications are spread over the trace.

    Equation:
        floor(n frac(u + r (sqrt(5) - 1) / 2)), u uniform by the seed and the same for all replications r; 0 of the
        only replication of a run

    Source:
        The golden rotation spreads any number of points, which need not be known: Knuth, The Art of Computer
        Programming 3 (1998), 6.4, theorem S.

    >>> [trace_start(1000, "class all", Draws(1, r)) for r in range(4)]
    [302, 920, 538, 157]
    """
    if draws.is_only:
        return 0
    first = Draws(draws.seed).generator(f"{name}: start of the trace").random()
    return int(n_rows * ((first + draws.replication * GOLDEN) % 1.0))


def drawn_requests(
    scenario: Scenario,
    n: int,
    req_per_s: float,
    draws: Draws,
    data_dirs: Sequence[Path] = (),
    rates: Mapping[str, float] | None = None,
) -> Records:
    """Requests of a scenario in order of arrival; their classes are those of the scenario, in its order.

    Args:
        req_per_s: mean rate of all classes [1/s].
        rates: of every class, up to a factor; None: the scenario's shares.

    Returns:
        Records ready for the event loop, shape (n,).

    Raises:
        InputError: a trace is missing or broken.
    """
    workloads = list(scenario.workloads.items())
    shares = [share if rates is None else rates.get(name, 0.0) for name, (share, _) in workloads]
    if scenario.execution.arrivals is None and has_own_arrivals(scenario):
        fractions = np.array(shares) / sum(shares)
        arrival_s, classes = merged_s(n, req_per_s * fractions, scenario.workloads, draws.generator)
    else:
        arrival_s = _arrivals(scenario, n, req_per_s, draws, data_dirs)
        classes = _draw_indices(shares, n, draws, "classes")
    asked = Contents(*np.zeros((4, n), dtype=np.int64))
    for index, (name, (_, workload)) in enumerate(workloads):
        mine = np.flatnonzero(classes == index) if len(workloads) > 1 else slice(None)
        n_own = n if isinstance(mine, slice) else len(mine)
        own = contents(workload, n_own, f"class {name}", draws, Path(scenario.directory), data_dirs)
        for column, values in zip(asked, own, strict=True):
            column[mine] = values
    draw = below_one(draws.generator("routes").random(n, dtype=np.float32))
    return blank_requests(n, arrival_s=arrival_s, request_class=classes, draw=draw, **asked._asdict())


def _arrivals(scenario: Scenario, n: int, req_per_s: float, draws: Draws, data_dirs: Sequence[Path]) -> Floats:
    match scenario.execution.arrivals:
        case GammaArrivals() as process:
            return gamma_s(n, req_per_s, process, draws.generator)
        case BurstArrivals() as process:
            return burst_s(n, req_per_s, process, draws.generator)
        case DiurnalArrivals() as process:
            return diurnal_s(n, req_per_s, process, draws.generator)
        case RecordedArrivals(at_own_rate=is_own):
            (name, (_, workload)), *others = scenario.workloads.items()
            if others or workload.trace is None:
                what = "is recorded, and not all requests come from one trace"
                raise InputError(scenario.problem(("execution", "arrivals"), what, "a workload that is a trace"))
            arrival_s = read(workload, scenario, data_dirs).arrival_s
            start = trace_start(arrival_s.size, f"class {name}", draws)
            return recorded_s(n, None if is_own else req_per_s, arrival_s, start)
        case None:
            return poisson_s(n, req_per_s, draws.generator)


def blank_requests(n: int, **columns: ArrayLike) -> Records:
    """Records of requests to which nothing has happened, but for what is known of them; columns have shape (n,)."""
    blank = np.zeros(1, dtype=REQUEST)
    for field in ("next", "route", "instance", "decoder", "flow"):
        blank[field] = NONE
    for field in ("prefill_start_s", "prefill_end_s", "kv_end_s", "first_token_s", "finish_s"):
        blank[field] = np.nan
    return filled(np.empty(n, dtype=REQUEST), blank, columns)


def below_one(draws: NDArray[np.float32]) -> NDArray[np.float32]:
    """Uniform draws that no rounding has brought up to 1."""
    return np.minimum(draws, np.nextafter(np.float32(1), np.float32(0)))


def _draw_indices(shares: Sequence[float], n: int, draws: Draws, name: str) -> NDArray[np.int64]:
    """Indices of n draws, each with its share."""
    if len(shares) == 1:
        return np.zeros(n, dtype=np.int64)
    edges = np.cumsum(shares) / sum(shares)
    last = max(i for i, share in enumerate(shares) if share > 0)
    return np.minimum(np.searchsorted(edges, draws.generator(name).random(n), side="right"), last)


def to_streams(requests: Records, streams: Sequence[RequestStream], classes: Sequence[str], draws: Draws) -> None:
    """Give requests the index of their stream instead of that of their class: a class decoded at several sites is
    shared out at random, each site with its rate.

    Args:
        requests: as drawn; changed.
    """
    if [stream.request_class for stream in streams] == list(classes):
        return  # each class is a stream, in the same order
    found = np.zeros(len(requests), dtype=np.int64)
    for index, name in enumerate(classes):
        own = [q for q, stream in enumerate(streams) if stream.request_class == name]
        mine = np.flatnonzero(requests["request_class"] == index)
        if len(mine):
            rates = [streams[q].req_per_s for q in own]
            found[mine] = np.array(own)[_draw_indices(rates, len(mine), draws, f"class {name}: sites")]
    requests["request_class"] = found


def contents(
    workload: Workload, n: int, name: str, draws: Draws, base_dir: Path, data_dirs: Sequence[Path] = ()
) -> Contents:
    """Contents of n requests of a workload: lengths drawn, or a trace's in their order, from some row on and round."""
    if workload.trace is not None:
        return _of_trace(workload, recorded_trace(workload.trace, base_dir, data_dirs), n, name, draws)
    assert workload.lengths is not None, "a validated workload has lengths or a trace"
    assert workload.output_lengths is not None, "a validated workload with lengths has output lengths"
    total = whole_tokens(distribution(workload.lengths).quantile(draws.generator(f"{name}: lengths").random(n)))
    output = whole_tokens(distribution(workload.output_lengths).quantile(draws.generator(f"{name}: outputs").random(n)))
    return Contents(total, _stated_hits(workload, total, name, draws), output, np.zeros_like(total))


def whole_tokens(tokens: Floats) -> NDArray[np.int64]:
    """Lengths as whole tokens, one at least."""
    return np.maximum(np.rint(tokens), 1.0).astype(np.int64)


def _stated_hits(workload: Workload, total: NDArray[np.int64], name: str, draws: Draws) -> NDArray[np.int64]:
    if isinstance(workload.prefix_hits, str):
        return np.zeros_like(total)
    fractions = hit_quantile(workload.prefix_hits, draws.generator(f"{name}: hits").random(len(total)))
    return _with_work_left(np.rint(fractions * total).astype(np.int64), total)


def _with_work_left(cached: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cached tokens of requests that compute one token at least."""
    return np.minimum(cached, total - 1)


def _of_trace(workload: Workload, trace: Trace, n: int, name: str, draws: Draws) -> Contents:
    place = (trace_start(trace.n_requests, name, draws) + np.arange(n)) % trace.n_requests
    total, output = trace.total_tokens[place], trace.output_tokens[place]
    if workload.prefix_hits == "ideal" and trace.blocks is not None:
        return Contents(total, _with_work_left(_ideal(trace)[place], total), output, place)
    return Contents(total, _stated_hits(workload, total, name, draws), output, place)


@lru_cache(maxsize=1)
def _ideal(trace: Trace) -> NDArray[np.int64]:
    """Tokens of every request of a trace that the ideal cache has; the same in all replications."""
    assert trace.blocks is not None, "only a trace with blocks has hits"
    return ideal_hits(trace.total_tokens, trace.blocks).astype(np.int64)


def read(workload: Workload, scenario: Scenario, data_dirs: Sequence[Path]) -> Trace:
    """The trace of a workload that has one."""
    assert workload.trace is not None, "only a workload with a trace is read"
    return recorded_trace(workload.trace, Path(scenario.directory), data_dirs)


AT_ONCE = 2048
"""Records that fit into a cache."""


def columns_of(records: Records, names: Iterable[str], chosen: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Copies of columns, each in one piece.

    Args:
        records: shape (n,).
        chosen: of which records; None: of all.
    """
    found = {name: np.empty(len(records), dtype=records.dtype[name]) for name in names}
    for first in range(0, len(records), AT_ONCE):
        some = records[first : first + AT_ONCE]
        for name, column in found.items():
            column[first : first + AT_ONCE] = some[name]
    if chosen is None or chosen.all():
        return found
    return {name: column[chosen] for name, column in found.items()}


def filled(records: Records, blank: Records, columns: Mapping[str, ArrayLike]) -> Records:
    """The records, all made as a blank one but for some columns.

    Args:
        records: shape (n,); overwritten.
        blank: one record, shape (1,).
        columns: what stands in which column, each of shape (n,).
    """
    as_bytes, values = np.dtype((np.void, records.itemsize)), {k: np.asarray(v) for k, v in columns.items()}
    for first in range(0, len(records), AT_ONCE):
        some = records[first : first + AT_ONCE]
        some.view(as_bytes)[:] = blank.view(as_bytes)  # a record is copied whole, not field by field
        for name, column in values.items():
            some[name] = column[first : first + AT_ONCE]
    return records
