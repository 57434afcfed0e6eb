"""Lengths of prompts and answers: the distributions a scenario can name."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.schema import StrictModel

Tokens = Annotated[float, Field(ge=1, le=1e9)]
Weight = Annotated[float, Field(ge=1e-9, le=1e12)]


class LogNormalLengths(StrictModel):
    """ln(length) is normal; lengths outside [low_tokens, high_tokens] do not occur (truncated, not clipped)."""

    kind: Literal["lognormal"]
    mu: float = Field(ge=-100, le=100)
    """Mean of ln(tokens) before truncation."""

    sigma: float = Field(ge=1e-6, le=100)
    """Standard deviation of ln(tokens) before truncation."""

    low_tokens: Tokens
    """Shortest length."""

    high_tokens: Tokens
    """Longest length."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_tokens >= self.high_tokens:
            raise ValueError(f"low_tokens {self.low_tokens:g} must be below high_tokens {self.high_tokens:g}")
        return self


class ConstantLengths(StrictModel):
    """Every request has the same length."""

    kind: Literal["constant"]
    tokens: Tokens
    """The length."""


class EmpiricalLengths(StrictModel):
    """Exactly these lengths, equally likely or as the weights say."""

    kind: Literal["empirical"]
    tokens: Annotated[tuple[Tokens, ...], Field(min_length=1)]
    """The lengths, in any order."""

    weights: tuple[Weight, ...] | None = None
    """Relative frequency of each length; None: equal."""

    @model_validator(mode="after")
    def _one_weight_each(self) -> Self:
        if self.weights is not None and len(self.weights) != len(self.tokens):
            raise ValueError(f"{len(self.tokens)} tokens need as many weights, got {len(self.weights)}")
        return self


class HistogramLengths(StrictModel):
    """Counts in buckets, evenly spread inside each: what serving frameworks export of their requests.

    Linear inside a bucket is how Prometheus, too, reads its histograms (`histogram_quantile`).
    """

    kind: Literal["histogram"]
    edges: Annotated[tuple[Tokens, ...], Field(min_length=2)]
    """Where buckets begin and end, ascending; one more than weights. A bucket holds its end, not its beginning."""

    weights: Annotated[tuple[Annotated[float, Field(ge=0, le=1e12)], ...], Field(min_length=1)]
    """Requests in every bucket, not cumulative; 0 where a bucket is empty."""

    @model_validator(mode="after")
    def _ascending_and_counted(self) -> Self:
        if len(self.weights) != len(self.edges) - 1:
            raise ValueError(f"{len(self.edges)} edges make {len(self.edges) - 1} weights, got {len(self.weights)}")
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ValueError("edges must ascend, each once")
        if not any(self.weights):
            raise ValueError("weights are all 0: at least one bucket must hold requests")
        return self


class MixtureComponent(StrictModel):
    """A share of the requests and their lengths."""

    weight: Weight
    """Relative frequency of this component."""

    lengths: Lengths
    """Lengths of its requests."""


class MixtureLengths(StrictModel):
    """Requests of several kinds, such as chat beside documents."""

    kind: Literal["mixture"]
    components: Annotated[tuple[MixtureComponent, ...], Field(min_length=1)]
    """The kinds of request."""


Lengths = Annotated[
    LogNormalLengths | ConstantLengths | EmpiricalLengths | HistogramLengths | MixtureLengths,
    Field(discriminator="kind"),
]
MixtureComponent.model_rebuild()
MixtureLengths.model_rebuild()
