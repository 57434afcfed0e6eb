"""Notes of an answer where the models of a colocated pool are known to be off."""

from collections.abc import Iterable, Iterator

from planner.comparison.evaluation import evaluation
from planner.notes import Note, note
from planner.optimizer.batching import Batching
from planner.optimizer.problem import Problem
from planner.optimizer.solution import Solution
from planner.queueing.colocated import ColocatedQueue
from planner.queueing.colocated_doubts import DOUBTS
from planner.roofline import Layout

BY_RUN_ALONE = "colocated-by-run-alone"
"""Code of the note on times that nothing but a run bears out."""


def by_run_alone(queue: ColocatedQueue | None, layout: str | None, of: str) -> Iterator[Note]:
    """That a run alone certifies times, and why.

    Args:
        queue: the steady state that they are of; None: none is stated.
        layout: of an instance, as `Layout.parse` reads it; None: unknown.
    """
    if queue is None:
        return
    if queue.doubts:
        why = " and ".join(DOUBTS[name] for name in queue.doubts)
        what = f"times of {of} are predicted where the model is known to be off"
        yield note("colocated-by-run-alone", f"{what}, as {why}: its run alone certifies the promises")
    if layout is not None and Layout.parse(layout).dp_size > 1:
        yield note(
            "replicas-step-together",
            f"attention replicas of {of} step at the pace of the fullest one, which is modelled: the mean time per "
            "output token is 5 to 25 % too short, most where busy, and its run alone certifies it",
        )


def batch_doubts(problem: Problem, solution: Solution, of: str | None = None) -> Iterator[Note]:
    """The same of all colocated pools of a plan, each once; nothing where no waits are stated.

    Args:
        of: whose times; None: the pool's.
    """
    if not (problem.has_batches and problem.has_queueing_model):
        return
    found: dict[Note, None] = {}
    for period in evaluation(problem, solution).evaluated:
        for i in period.batches:
            queue, pool = period.batch_queue(i), problem.pools[i]
            steady = None if queue is None else queue.queue
            found |= dict.fromkeys(by_run_alone(steady, pool.rates.setup.layout, of or pool.key))
    yield from found


def composed_notes(used: Iterable[Batching]) -> Iterator[Note]:
    """That passes are composed of measured times."""
    if any(batching.overlapped_req_per_s for batching in used):
        what = "prefill and decode are taken to follow one another, and its gap counts that they may overlap perfectly"
        yield note("colocated-composed", f"passes of the colocated fleets are composed of measured times: {what}")
