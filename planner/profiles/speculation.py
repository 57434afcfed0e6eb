"""Speculative decoding: what drafts tokens ahead of a model, and how many of them it is expected to accept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from planner.profiles.model import ModelProfile

MOST_DRAFT_TOKENS = 63
"""A step verifies one token more, which is a chunk of any recurrence."""


@dataclass(frozen=True, eq=False)
class Speculation:
    """Speculative decoding of a model: so many tokens are drafted, then verified in one step."""

    acceptance: tuple[float, ...]
    """Probability that each drafted token is accepted, given that those before it were; one at least [-]."""
    draft: ModelProfile | None = None
    """The model that drafts; None: the MTP layers of the model itself."""

    @classmethod
    def of(cls, n_tokens: int, acceptance: float | Sequence[float], draft: ModelProfile | None = None) -> Self:
        """So many drafted tokens, with one acceptance for all or one each.

        >>> Speculation.of(2, 0.8).acceptance, Speculation.of(2, [0.8, 0.7]).acceptance
        ((0.8, 0.8), (0.8, 0.7))
        """
        each = (acceptance,) if isinstance(acceptance, float | int) else tuple(acceptance)
        return cls(each * n_tokens if len(each) == 1 else each, draft)

    @property
    def n_draft_tokens(self) -> int:
        """Tokens drafted per step."""
        return len(self.acceptance)


def speculation_fault(n_tokens: int, acceptance: Sequence[float]) -> tuple[str, str] | None:
    """Fault of acceptances for so many drafted tokens: what they are, and what is allowed.

    >>> speculation_fault(2, [0.8, 0.7, 0.6])
    ('holds 3 values for 2 draft tokens', 'one for all, or one for each')
    """
    if len(acceptance) not in (1, n_tokens):
        values = f"{len(acceptance)} value{'s' * (len(acceptance) != 1)}"
        return f"holds {values} for {n_tokens} draft tokens", "one for all, or one for each"
    wrong = next((value for value in acceptance if not 0 <= value <= 1), None)
    return None if wrong is None else (f"holds {wrong:g}", "probabilities from 0 to 1")
