"""The cheapest colocated pool that keeps its promises, by the model of its queues."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from planner.queueing import ColocatedQueue, colocated_queue
from planner.results import Promise
from planner.studies.size.question import SizeQuestion
from planner.studies.size.ways import ColocatedWay

N_TRIED = 3
"""Ways whose queues are looked at, the cheapest by estimate first."""
MOST_INSTANCES = 1 << 16
TTFT, TPOT = "ttft", "tpot"
"""Metrics of promises."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Predicted:
    """What the model says of a pool."""

    n_instances: int
    queue: ColocatedQueue | None
    """None where there is no steady state."""
    before_s: float
    """Mean seconds that the host needs before a prompt."""

    def ttft_s(self, percentile: float) -> float:
        """Time to first token that a percentage does not exceed [s]."""
        return inf if self.queue is None else self.queue.ttft.quantile_s(percentile / 100) + self.before_s

    def tpot_s(self, percentile: float) -> float:
        """Time per token after the first that a percentage does not exceed; 0 where there is none [s]."""
        return inf if self.queue is None else self.queue.tpot_quantile_s(percentile / 100) or 0.0


@dataclass(frozen=True)
class Executed:
    """What runs of a pool came to."""

    promises: tuple[Promise, ...]
    """Of the times that are promised, `TTFT` or `TPOT`."""
    n_counted: int

    @property
    def holds(self) -> bool:
        """Whether all promises are kept, by the worse ends of their intervals."""
        return all(p.holds for p in self.promises)


@dataclass(frozen=True)
class Chosen:
    """A colocated pool."""

    way: ColocatedWay
    predicted: Predicted
    executed: Executed | None = None
    seed: int | None = None
    undecided: tuple[int, ...] = ()
    """Fewer instances whose runs do not tell whether they keep the promises."""

    @property
    def text(self) -> str:
        """Its instances in words."""
        n, way = self.predicted.n_instances, self.way
        return f"{n} colocated instances of {way.layout.n_accelerators} x {way.chip.name}"

    @property
    def usd_per_hour(self) -> float:
        """The bill."""
        return self.predicted.n_instances * self.way.usd_per_hour

    @property
    def least_usd_per_hour(self) -> float:
        """Rent of one instance: a run may show that fewer do than predicted."""
        return self.way.usd_per_hour

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Beside its runs; none where it was not run."""
        return () if self.executed is None else self.executed.promises


def predicted(question: SizeQuestion, way: ColocatedWay, n_instances: int) -> Predicted:
    """The model's answer for a number of instances."""
    before_s = float(way.before_s @ way.prompts.weights)
    try:
        queue = colocated_queue(way.loop, way.prompts, question.rate_req_per_s, n_instances)
    except ValueError:
        return Predicted(n_instances, None, before_s)
    return Predicted(n_instances, queue, before_s)


def keeps(question: SizeQuestion, found: Predicted) -> bool:
    """Whether promises are kept as predicted."""
    p = question.percentile
    return (
        found.queue is not None
        and (question.ttft_s is None or found.ttft_s(p) <= question.ttft_s)
        and (question.tpot_s is None or found.tpot_s(p) <= question.tpot_s)
    )


def fewest(question: SizeQuestion, way: ColocatedWay, most: int = MOST_INSTANCES) -> Predicted | None:
    """The fewest instances that keep the promises as predicted; None where so many do not."""
    low = way.least_instances(question.rate_req_per_s)
    found, step, failed = predicted(question, way, low), 1, low - 1
    while not keeps(question, found):
        failed, step = found.n_instances, max(2 * step, ceil(0.05 * low))
        if failed >= most:
            return None
        found = predicted(question, way, min(failed + step, most))
    while found.n_instances - failed > 1:
        tried = predicted(question, way, (found.n_instances + failed) // 2)
        if keeps(question, tried):
            found = tried
        else:
            failed = tried.n_instances
    return found


def cheapest(question: SizeQuestion, ways: Sequence[ColocatedWay]) -> Chosen | None:
    """The cheapest pool of an accelerator by the model; None where none of the likeliest ways keeps the promises."""
    best, usd = None, inf
    for way in ways[:N_TRIED]:
        if way.least_usd_per_hour(question.rate_req_per_s) >= usd:
            break
        most = MOST_INSTANCES if usd == inf else int(usd / way.usd_per_hour)
        found = fewest(question, way, most)
        if found is not None and found.n_instances * way.usd_per_hour < usd:
            best, usd = Chosen(way, found), found.n_instances * way.usd_per_hour
    return best
