"""Part of a prompt that a prefix cache already holds: what a scenario can state."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from planner.schema import StrictModel

Fraction = Annotated[float, Field(ge=0, lt=1)]


class ConstantHits(StrictModel):
    """The same fraction of every prompt is cached."""

    kind: Literal["constant"]
    fraction: Fraction
    """Cached / total tokens."""


class BetaHits(StrictModel):
    """The cached fraction of a prompt has a beta distribution, whatever the prompt's length."""

    kind: Literal["beta"]
    alpha: float = Field(ge=1e-3, le=1e6)
    """First shape; the mean fraction is alpha / (alpha + beta)."""

    beta: float = Field(ge=1e-3, le=1e6)
    """Second shape."""


class DiscreteHits(StrictModel):
    """The cached fraction takes a few values, whatever the prompt's length."""

    kind: Literal["discrete"]
    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1)]
    """Cached / total tokens."""

    weights: tuple[Annotated[float, Field(ge=1e-9, le=1e12)], ...]
    """Relative frequency of each fraction."""

    @model_validator(mode="after")
    def _one_weight_each(self) -> Self:
        if len(self.weights) != len(self.fractions):
            raise ValueError(f"{len(self.fractions)} fractions need as many weights, got {len(self.weights)}")
        return self


HitDistribution = ConstantHits | BetaHits | DiscreteHits


def _tag(stated: Any) -> str | None:
    """Which form of prefix hits is stated, so that only its own problems are reported."""
    if stated in ("none", "ideal"):
        return "word"
    kind = stated.get("kind") if isinstance(stated, Mapping) else getattr(stated, "kind", None)
    return f"{kind}-hits" if kind in ("constant", "beta", "discrete") else None


PrefixHits = Annotated[
    Annotated[Literal["none", "ideal"], Tag("word")]
    | Annotated[ConstantHits, Tag("constant-hits")]
    | Annotated[BetaHits, Tag("beta-hits")]
    | Annotated[DiscreteHits, Tag("discrete-hits")],
    Discriminator(
        _tag,
        custom_error_type="prefix_hits",
        custom_error_message='must be "none", "ideal" or a table of kind "constant", "beta" or "discrete"',
    ),
]
"""No cache; a cache of unlimited capacity over a trace; or a distribution of the cached fraction."""
