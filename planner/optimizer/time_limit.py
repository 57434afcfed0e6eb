"""One time limit for all that a command does: each step may take a part of what the steps before it left; and what a
search says that ends without an answer."""

from dataclasses import dataclass

from planner.errors import UndecidedError
from planner.notes import Note, note
from planner.work_clock import SLOWEST, n_cut_offs, work_s


@dataclass(frozen=True)
class TimeLimit:
    """When a command is to be done."""

    deadline: float
    """`work_s()` time to stop at."""

    @classmethod
    def of(cls, seconds: float) -> "TimeLimit":
        """The limit that is so many seconds of work away."""
        return cls(work_s() + seconds)

    @property
    def left_s(self) -> float:
        """Time that is left [s]; 0 when it is up."""
        return max(self.deadline - work_s(), 0.0)

    def part_s(self, fraction: float) -> float:
        """Time for a step that may take a fraction of what is left [s].

        >>> TimeLimit.of(-1.0).part_s(0.5)
        0.0
        """
        return fraction * self.left_s


def wall_notes(cut_offs_before: int) -> list[Note]:
    """Says where the clock on the wall ended a search since then: counted work has the same end everywhere."""
    if n_cut_offs() == cut_offs_before:
        return []
    text = (
        f"this machine took more than {SLOWEST:g} times as long as the time limit allows work for, and the clock ended "
        "a search of this plan: another run may find more"
    )
    return [note("ended-by-clock", text)]


def nothing_found(*, is_time_up: bool, looked_at: str) -> UndecidedError:
    """The error of a search that has no plan and no proof that there is none: more time is offered where time ended it.

    Args:
        is_time_up: whether the time limit ended the search.
        looked_at: what ended it else: the number of steps that it takes at the most, in words.

    >>> print(nothing_found(is_time_up=False, looked_at="30 rounds"))
    no plan was found in 30 rounds, which is where the search ends, and none is excluded; relax a limit of the scenario
    """
    if is_time_up:
        what = "in the time, and none is excluded; allow more time or shrink the scenario"
    else:
        what = f"in {looked_at}, which is where the search ends, and none is excluded; relax a limit of the scenario"
    return UndecidedError(f"no plan was found {what}")
