"""What an answer says where the queueing model of a colocated pool is known to be off."""

from collections.abc import Iterator

from planner.notes import Note, note
from planner.queueing import DOUBTS, ColocatedQueue
from planner.roofline import Layout


def by_run_alone(queue: ColocatedQueue | None, layout: str | None, of: str) -> Iterator[Note]:
    """That a run alone certifies times, and why.

    Args:
        queue: the steady state that they are of; None: none is stated.
        layout: of an instance, as `Layout.parse` reads it; None: unknown.
        of: whose times.
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
