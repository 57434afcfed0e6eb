"""Instances that a colocated pool needs at the least for the only class that it serves, with a threshold of a cell.

Facets bound what passes can do, and the model of batches, which plans are judged by, is slower. So where a pool serves
one class, bounds count with that model: within a cell as if all prompts between its ends were computed elsewhere, and
never late.
"""

from typing import NamedTuple

from planner.optimizer.network.batches import BUSIEST, Batch, MixPart, remembered_batch
from planner.optimizer.network.cells import Cell, point_cell
from planner.optimizer.problem import LARGEST_POOL, Problem

HALVINGS = 12
"""Steps in which the highest utilisation is found at which times are kept."""


class Need(NamedTuple):
    """Requests of a stream in a cell that a colocated pool is to serve."""

    pool: int
    stream: int
    cell: Cell
    req_per_s: float | None
    """Rate that it is to serve; None: it is sought."""


def serves_alone(problem: Problem, pool: int) -> int | None:
    """The only stream of a colocated pool, if nothing else decodes that, and a threshold says what is computed."""
    spec = problem.pools[pool]
    streams = [q for q, decoders in enumerate(problem.decoders) if pool in decoders]
    if spec.batching is None or len(streams) != 1:
        return None
    (q,) = streams
    is_alone = {problem.pools[i].key for i in problem.decoders[q]} == {spec.key}
    return q if is_alone else None


def instances_per_rate(problem: Problem, need: Need, is_promised: bool = True) -> float:
    """Instances for a request per second at the least, as the model of batches has them [s].

    Equation:
        the least 1 / C of batches under the cell's ends and its middle; with a promise on TTFT n / r, n the fewest
        instances that keep it at the rate r; where the rate is sought, 1 / (u C), u how busy the largest pool may be

    Args:
        problem: the resolved scenario.
        need: what is asked.
        is_promised: whether a promise on TTFT counts: queues take longer to solve.

    Valid:
        A pool serves no more, and no sooner, where it computes more prompts, but for what memory that is kept full
        costs it, which is looked at at three thresholds; larger pools may be busier.
    """
    batch, cell = _batch(problem, need), need.cell
    middle = (cell.low_tokens + cell.high_tokens) / 2
    others = dict.fromkeys((middle, cell.high_tokens)) if cell.low_tokens < cell.high_tokens else ()
    batches = [batch, *(_batch(problem, need._replace(cell=point_cell(t))) for t in others)]
    each = 1 / max(*(one.capacity_req_per_s for one in batches), 1e-12)
    spec = problem.classes[problem.streams[need.stream].request_class]
    if spec.ttft_s is None or not is_promised:
        return each
    if need.req_per_s is None:
        return each / max(_most_busy(problem, need, batch), 1e-12)
    return _fewest(problem, need, batch, need.req_per_s) / need.req_per_s


def _batch(problem: Problem, need: Need) -> Batch:
    how, at = problem.pools[need.pool].batching, need.cell.low_tokens
    assert how is not None
    c = problem.streams[need.stream].request_class
    short = 1 - float(problem.classes[c].mix.long_fraction(at))
    stays = all(problem.pools[arc.pool].batching is not None for arc in problem.arcs[need.stream]["short"])
    own = [(MixPart(c, "short", at, 0.0), short)] if stays else []
    joined = [(MixPart(c, "long", at, 0.0), 1 - short), *([] if stays else [(MixPart(c, "short", at, 0.0), short)])]
    return remembered_batch(problem, how, own, joined)


def _keeps(problem: Problem, need: Need, batch: Batch, n_instances: int, req_per_s: float) -> bool:
    """True if the requests that the pool computes are in time, as many as must, and so are tokens."""
    spec = problem.classes[problem.streams[need.stream].request_class]
    queue = batch.queue(n_instances, req_per_s)
    if queue is None or spec.ttft_s is None:
        return False
    late = 0.0
    if queue.ttft is not None:
        late = (1 - batch.joining_fraction) * float(queue.ttft.survival(spec.ttft_s - batch.load.before_s))
    q = spec.slo.ttft_percentile / 100 if spec.slo else 1.0
    is_slow = batch.tpot_s is not None and (queue.tpot_quantile_s(q) or 0.0) > batch.tpot_s
    return late <= spec.late_allowed + 1e-9 and not is_slow


def _fewest(problem: Problem, need: Need, batch: Batch, req_per_s: float) -> int:
    """The fewest instances that keep the promise at a rate; one more than any pool has where none do."""
    failed, step = int(req_per_s / max(batch.capacity_req_per_s, 1e-12)), 1
    while not _keeps(problem, need, batch, failed + step, req_per_s):
        failed, step = failed + step, 2 * step
        if failed > problem.pools[need.pool].max_instances:
            return LARGEST_POOL
    enough = failed + step
    while enough - failed > 1:
        middle = (enough + failed) // 2
        is_enough = _keeps(problem, need, batch, middle, req_per_s)
        failed, enough = (failed, middle) if is_enough else (middle, enough)
    return enough


def _most_busy(problem: Problem, need: Need, batch: Batch) -> float:
    """Utilisation of the largest pool up to which the promise is kept, from above [fraction]."""
    n = max(problem.pools[need.pool].max_instances, 1)
    low, high = 0.0, BUSIEST
    if _keeps(problem, need, batch, n, high * n * batch.capacity_req_per_s):
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_kept = _keeps(problem, need, batch, n, middle * n * batch.capacity_req_per_s)
        low, high = (middle, high) if is_kept else (low, middle)
    return high
