"""One time limit for all that a command does: each step may take a part of what the steps before it left."""

from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True)
class TimeLimit:
    """When a command is to be done."""

    deadline: float
    """`monotonic()` time to stop at."""

    @classmethod
    def of(cls, seconds: float) -> "TimeLimit":
        """The limit that is so many seconds away."""
        return cls(monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """What is left [s]; 0 when time is up."""
        return max(self.deadline - monotonic(), 0.0)

    def part_s(self, fraction: float) -> float:
        """What a step may take that has a fraction of what is left [s].

        >>> TimeLimit.of(-1.0).part_s(0.5)
        0.0
        """
        return fraction * self.left_s
