"""Which requests of a class may leave the site that decodes them: none, all, or those beyond some uncached tokens."""

from dataclasses import dataclass
from math import inf
from typing import Literal


@dataclass(frozen=True)
class Threshold:
    """Where the prompts of a class are divided into short ones and long ones.

    >>> NONE_LEAVES.limit_tokens, ALL_LEAVE.limit_tokens, Threshold("tokens", 4096.0).limit_tokens
    (inf, -1.0, 4096.0)
    """

    kind: Literal["none-leaves", "all-leave", "tokens"]
    tokens: float | None = None
    """Uncached tokens beyond which a prompt is long; None where all are alike."""

    def __post_init__(self) -> None:
        """Raises ValueError where kind and tokens do not fit."""
        if (self.kind == "tokens") != (self.tokens is not None):
            raise ValueError(f"a threshold of kind {self.kind} with tokens = {self.tokens}")

    @classmethod
    def of_plan(cls, tokens: float | None) -> "Threshold":
        """The threshold that a plan's JSON states: null where none leaves, 0 or less where all do.

        >>> Threshold.of_plan(None) is NONE_LEAVES, Threshold.of_plan(0.0) is ALL_LEAVE
        (True, True)
        """
        if tokens is None or tokens == inf:
            return NONE_LEAVES
        return ALL_LEAVE if tokens <= 0 else cls("tokens", tokens)

    @property
    def in_plan(self) -> float | None:
        """Number that a plan's JSON states for it; every prompt has an uncached token at least.

        >>> Threshold.of_plan(Threshold("tokens", 512.0).in_plan).tokens
        512.0
        """
        return 0.0 if self.kind == "all-leave" else self.tokens

    @property
    def limit_tokens(self) -> float:
        """The threshold as a number that uncached tokens are compared with: more of them make a long prompt."""
        if self.tokens is not None:
            return self.tokens
        return inf if self.kind == "none-leaves" else -1.0


NONE_LEAVES = Threshold("none-leaves")
ALL_LEAVE = Threshold("all-leave")
