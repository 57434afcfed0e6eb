"""Figures measured on, or inferred of, one serving instance: curves over prompt length and a decode point."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.profiles.base import Precision, Text
from planner.ranges import Accelerators, Batch, Bytes, ProfileName, Seconds, Whole
from planner.schema import FieldError, StrictModel, raise_faults

Interpolation = Literal["monotone-cubic", "linear"]
# Not min_length: pydantic would also call a curve too short whose points are merely invalid.
_TWO_POINTS = Field(json_schema_extra={"minItems": 2})
Tokens = Annotated[tuple[Whole, ...], _TWO_POINTS]


class PrefillCurve(StrictModel):
    """Prefill seconds of one prompt by its length."""

    tokens: Tokens
    """Prompt lengths, strictly increasing [tokens]."""
    seconds: Annotated[tuple[Seconds, ...], _TWO_POINTS]
    """Seconds to prefill each length, alone and with nothing cached; never decreasing [s]."""
    interpolation: Interpolation
    """How seconds are read between the points."""
    overhead_s: Seconds | None = None
    """Part of the seconds that no prompt, however short or cached, goes below [s]; absent when unknown."""

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        raise_faults(_curve_faults(self.tokens, "seconds", self.seconds))
        return self


class KvCurve(StrictModel):
    """Bytes of KV cache and recurrent state of one prompt by its length."""

    tokens: Tokens
    """Prompt lengths, strictly increasing [tokens]."""
    bytes: Annotated[tuple[Bytes, ...], _TWO_POINTS]
    """One logical copy of all layers' cache and state; never decreasing [bytes]."""
    interpolation: Interpolation
    """How bytes are read between the points."""

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        raise_faults(_curve_faults(self.tokens, "bytes", self.bytes))
        return self


class DecodePoint(StrictModel):
    """One decode operating point."""

    batch: Batch
    """Sequences decoded together on the instance."""
    step_s: Seconds
    """Seconds of one step, which yields one token per sequence [s]."""
    context_tokens: Whole | None = None
    """Mean context of the sequences [tokens]; absent when unknown."""
    how: Text | None = None
    """How the point was obtained, when it was not read off directly."""


class MeasuredInstance(StrictModel):
    """Behaviour of one model on one serving instance, as published or inferred."""

    hardware: ProfileName
    """Hardware profile of the instance's accelerators."""
    n_accelerators: Accelerators
    """Accelerators in the instance."""
    precision: Precision
    """Precision of weights and matrix products; `note` says so where the source left it open."""
    stack: Text | None = None
    """Serving software with its version, such as sglang-0.5.9; absent when unknown."""
    basis: Literal["measured", "inferred"]
    """Whether somebody measured it, or it follows from other published figures."""
    source: Text
    """Id of the source; in a model profile one of its [sources]."""
    how: Text | None = None
    """How the figures follow from what was published; required when inferred."""
    note: Text | None = None
    """What a reader must know to use it."""
    prefill: PrefillCurve | None = None
    """Prefill seconds by prompt length."""
    kv: KvCurve | None = None
    """Cache and state bytes by prompt length."""
    decode: DecodePoint | None = None
    """The decode operating point."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        raise_faults(self._missing())
        return self

    def _missing(self) -> Iterator[FieldError]:
        if self.basis == "inferred" and self.how is None:
            yield FieldError(("how",), "is required when basis is 'inferred' (say how the figures follow)")
        if not (self.prefill or self.kv or self.decode):
            yield FieldError((), "holds no figures (give at least one of prefill, kv, decode)")


def _curve_faults(tokens: Sequence[int], name: str, values: Sequence[float]) -> Iterator[FieldError]:
    if len(tokens) < 2:
        yield FieldError(("tokens",), f"has {len(tokens)} points (a curve has at least 2)")
    if len(tokens) != len(values):
        yield FieldError((name,), f"has {len(values)} values for {len(tokens)} tokens (one value per token count)")
    for index, (before, after) in enumerate(pairwise(tokens), start=1):
        if after <= before:
            yield FieldError(("tokens", index), f"is {after} after {before} (tokens must strictly increase)")
    for index, (low, high) in enumerate(pairwise(values), start=1):
        if high < low:
            yield FieldError((name, index), f"is {high} after {low} ({name} must not decrease with tokens)")
